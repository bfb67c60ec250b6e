"""L24-L8: the exponential mechanism is ε-DP, and ε(X)-DP between data sets inside X."""

import itertools

import mpmath
import numpy as np
import pytest

from memberbound.subset.enumeration import exact_bounds
from memberbound.subset.exponential import ExponentialMechanism
from oracle.claims import assert_holds
from oracle.exponential import probabilities


def dp_epsilon(mechanism, factor=0.5):
    """The largest |ln P(w given D) - ln P(w given D')| over all neighbours inside X."""
    sets = itertools.combinations(range(len(mechanism.losses)), mechanism.size)
    with mpmath.workdps(40):
        laws = {
            frozenset(s): [mpmath.log(p) for p in probabilities(mechanism, s, factor)] for s in sets
        }
        return max(
            max(abs(a - b) for a, b in zip(laws[d], laws[e], strict=True))
            for d, e in itertools.combinations(laws, 2)
            if len(d & e) == mechanism.size - 1
        )


def instances():
    rng = np.random.default_rng(8)
    for records, candidates, size, epsilon in [
        (4, 2, 2, 1.0), (5, 3, 2, 10.0), (6, 4, 3, 0.1), (6, 2, 1, 30.0), (6, 3, 5, 3.0),
    ]:  # fmt: skip
        losses = rng.uniform(0, 1, (records, candidates))
        yield ExponentialMechanism(losses, size, epsilon, 1 / size)
        # Calibrated to the population: ε(X) = ε.
        spread = np.ptp(losses, axis=0).max() / size
        yield ExponentialMechanism(losses, size, epsilon, spread)


def rare(depth):
    """Replacing record 0 by 1 helps a rare candidate by Δ and hurts the usual one by Δ."""
    losses = np.array([[1.0 + depth, 0.0], [depth, 1.0], [depth, 0.0], [depth, 0.0]])
    return ExponentialMechanism(losses, 2, 2.0, 0.5)


def test_no_neighbours_are_further_apart_than_epsilon():
    assert_holds(
        lambda m: dp_epsilon(m) <= m.epsilon_population <= m.epsilon * (1 + 1e-12),
        [(m,) for m in instances()],
        broken={"without the factor two": lambda m: dp_epsilon(m, 1.0) <= m.epsilon_population},
    )


@pytest.mark.parametrize("depth", [10.0, 20.0])
def test_reached_in_the_limit_of_a_rare_candidate(depth):
    mechanism = rare(depth)
    result = dp_epsilon(mechanism)
    assert result <= mechanism.epsilon_population
    assert result >= mechanism.epsilon * (1 - np.exp(-depth / 2))


def test_every_record_s_pmp_epsilon_is_at_most_epsilon_of_the_population():
    for mechanism in [*instances(), rare(20.0)]:
        assert exact_bounds(mechanism).pmp_epsilon_upper <= dp_epsilon(mechanism) + 1e-12
        assert exact_bounds(mechanism).pmp_epsilon_upper <= mechanism.epsilon_population
