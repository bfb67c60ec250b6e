"""A25-L23: among laws on K atoms C_K is largest at the uniform one, √(K-1)."""

import math

import numpy as np
import pytest

from memberbound.iid.worst_case import diversity
from oracle.claims import assert_bound


def largest_diversity(cells):
    return math.sqrt(cells - 1) * (1 + 1e-14)


def diversities():
    rng = np.random.default_rng(23)
    for cells in (2, 3, 10, 100):
        laws = [rng.dirichlet(np.full(cells, a)) for a in (0.1, 1.0, 50.0) for _ in range(20)]
        laws.append(np.full(cells, 1 / cells))
        yield from (((cells,), diversity(p).c_k) for p in laws)


def test_never_exceeded():
    assert_bound(
        largest_diversity,
        diversities(),
        broken={"smaller": lambda cells: math.sqrt(cells - 1) * 0.9999},
    )


def test_reached_at_the_uniform_law_only():
    for cells in (2, 7, 1000):
        assert diversity(np.full(cells, 1 / cells)).c_k == pytest.approx(
            largest_diversity(cells), rel=1e-12
        )
    nudged = np.full(10, 0.1) + np.array([0.01, -0.01] + [0] * 8)
    assert diversity(nudged).c_k < largest_diversity(10) - 1e-4
    assert largest_diversity(1) == 0
