"""L24-P12: hockey-sticks of a noisy sum are at most the mean over the other records.

Truth: the two worlds are mixtures of normal laws, one per subset (tests/oracle/normal_mixtures.py).
"""

import math
from fractions import Fraction
from functools import cache
from random import Random

import numpy as np
import pytest

from memberbound.subset.profile import NeighbourProfile
from oracle.claims import assert_bound
from oracle.normal_mixtures import stick, subset_laws
from oracle.real import bracket, gaussian_hockey_stick

F = Fraction
CASES = [(4, 2), (5, 1), (5, 2), (6, 3), (6, 5)]
SIGMAS = (0.3, 1.0, 4.0)
EPSILONS = (0.0, 0.2, 1.0, 3.0)


@cache
def values(size):
    rng = Random(size)
    return np.array([*(rng.gauss(0, 1) for _ in range(size - 1)), 4.0])  # one sticks out


@cache
def profile(size):
    return NeighbourProfile.from_vectors(values(size)[:, None])


def truths():
    for size, k in CASES:
        for x in (0, size - 1):
            laws = subset_laws(values(size), k, x)
            for sigma in SIGMAS:
                for epsilon in EPSILONS:
                    for pair in (laws, laws[::-1]):
                        yield (size, x, sigma, epsilon), stick(*pair, sigma, math.exp(epsilon))


def couple(size, x, sigma, epsilon):
    return float(profile(size).delta(epsilon, sigma)[x])


def nearest_only(size, x, sigma, epsilon):
    """Broken: the nearest neighbour instead of the mean over all."""
    near = np.abs(np.delete(values(size), x) - values(size)[x]).min()
    return float(NeighbourProfile.from_vectors([[0.0], [near]]).delta(epsilon, sigma)[0])


def test_both_hockey_sticks_are_below_the_mean_over_the_others():
    assert_bound(
        couple,
        truths(),
        broken={"nearest only": nearest_only, "a quarter": lambda *a: couple(*a) / 4},
    )


def test_two_records_are_exact():
    """N = 2, k = 1: one swap and no mixing, so the bound is the hockey-stick itself."""
    pair = NeighbourProfile.from_vectors([[0.0], [1.5]])
    for sigma in SIGMAS:
        for epsilon in EPSILONS:
            low, high = bracket(gaussian_hockey_stick(1.5 / sigma, epsilon))
            for bounds in pair.delta(epsilon, sigma).tolist():
                assert low * (1 - F(1, 10**14)) <= F(bounds) <= high * (1 + F(1, 10**9))


@pytest.mark.parametrize(("size", "k"), CASES)
@pytest.mark.parametrize("sigma", [0.3, 2.0])
def test_accuracy_at_the_prior_is_bounded(size, k, sigma):
    """I24-P2 for any k: the accuracy of the best attack, from either direction."""
    bounds = profile(size).accuracy(k / size, sigma)
    low, high = sorted([k, size - k])
    for x in range(size):
        laws = subset_laws(values(size), k, x)
        rarer_first = laws[::-1] if 2 * k > size else laws
        best = (high + low * stick(*rarer_first, sigma, high / low)) / size
        assert best <= bounds[x] < 1.0
