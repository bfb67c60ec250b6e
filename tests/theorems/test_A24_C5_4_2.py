"""A24-C5.4.2 with the condition it lacks, n·p_k ≥ 1: a lower bound on the worst leak by C_K."""

import math
from random import Random

import numpy as np

from memberbound.iid.worst_case import diversity, leak_of_law
from oracle.claims import assert_lower_bound


def laws(seed=542, count=150):
    """Laws with at least one expected record on the rarest atom."""
    rng = Random(seed)
    for _ in range(count):
        cells = rng.randint(1, 40)
        weights = np.array([0.05 + rng.random() ** 4 for _ in range(cells)])
        p = weights / weights.sum()
        yield p, max(2, math.ceil(1 / p.min()) + rng.choice([0, 1, 50, 10**4]))


def printed_bound(p, n):
    constant = math.exp(-13 / 6) / math.sqrt(2 * math.pi)
    return constant * (diversity(p).c_k - 1 / math.sqrt(2 * n)) / math.sqrt(n)


def test_below_the_worst_leak():
    assert_lower_bound(
        lambda p, n: printed_bound(p, n) * (1 - 1e-12),
        [((p, n), leak_of_law(p, n)) for p, n in laws()],
        broken={"larger constant": lambda p, n: 9 * printed_bound(p, n)},
    )
