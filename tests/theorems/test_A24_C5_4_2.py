"""A24-C5.4.2 with the condition it lacks, n·p_k ≥ 1: a lower bound on the worst leak by C_K."""

import math
from random import Random

import numpy as np
import pytest

from memberbound.iid.worst_case import diversity, leak_of_law
from oracle.claims import assert_lower_bound


def laws(seed=542, count=150):
    """Laws whose rarest atom expects at least one record."""
    rng = Random(seed)
    for _ in range(count):
        cells = rng.randint(1, 40)
        weights = np.array([0.05 + rng.random() ** 4 for _ in range(cells)])
        p = weights / weights.sum()
        yield p, max(2, math.ceil(1 / p.min()) + rng.choice([0, 1, 50, 10**4]))


def printed(p, n):
    constant = math.exp(-13 / 6) / math.sqrt(2 * math.pi)
    return constant * (diversity(p).c_k - 1 / math.sqrt(2 * n)) / math.sqrt(n)


def test_below_the_worst_leak():
    assert_lower_bound(
        lambda p, n: printed(p, n) * (1 - 1e-12),
        [((p, n), leak_of_law(p, n)) for p, n in laws()],
        broken={"larger constant": lambda p, n: 9 * printed(p, n)},
    )


def test_false_without_the_condition():
    p, n = np.full(1000, 1e-3), 2
    assert printed(p, n) == pytest.approx(1.0053, abs=1e-4)
    assert leak_of_law(p, n) == pytest.approx(0.998001, rel=1e-9)


def test_the_journal_constant_is_larger():
    """A25-C15 has 0.29 in place of e^(-13/6)/√(2π)."""
    for p, n in laws(543, 40):
        assert printed(p, n) <= 0.29 * diversity(p).c_k / math.sqrt(n)
