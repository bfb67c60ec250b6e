"""A25 §C.2, eq. 23 to 25: C_K against the Gini–Simpson index and the Shannon entropy."""

import math

import numpy as np
import pytest

from memberbound.iid.worst_case import diversity
from oracle.claims import assert_holds


def laws():
    rng = np.random.default_rng(232)
    for cells in (1, 2, 3, 10, 200):
        yield np.full(cells, 1 / cells)
        for a in (0.05, 0.5, 5.0):
            for _ in range(25):
                yield rng.dirichlet(np.full(cells, a))
    yield np.array([1 - 1e-9, 1e-9])
    yield np.array([0.2, 0.8])


def from_gini_simpson(index):
    """2G ≤ C_K ≤ √(K·G): √x ≥ 2x on [0, ¼] with x = p_k(1-p_k), and Cauchy–Schwarz."""
    return 2 * index.gini_simpson, math.sqrt(index.atoms * index.gini_simpson)


def from_shannon(index):
    """H ≤ C_K ≤ √(K(1 - e^-H)): ln(1/p) ≤ √(1/p - 1), and Jensen: Σp_k² ≥ exp(-H)."""
    return index.shannon, math.sqrt(index.atoms * -math.expm1(-index.shannon))


def inside(interval):
    def check(index):
        low, high = interval(index)
        return low * (1 - 1e-12) <= index.c_k <= high * (1 + 1e-12) + 1e-300

    return check


def test_between_both_indices():
    indices = [(diversity(p),) for p in laws()]
    broken = {
        "entropy in bits": inside(lambda d: (d.shannon / math.log(2), math.inf)),
        "missing square root": inside(lambda d: (0, math.sqrt(d.atoms) * d.gini_simpson)),
        "three times the index": inside(lambda d: (3 * d.gini_simpson, math.inf)),
    }
    assert_holds(inside(from_gini_simpson), indices, broken)
    assert_holds(inside(from_shannon), indices, broken)


def test_equality_cases():
    fair = diversity([0.5, 0.5])
    assert from_gini_simpson(fair)[0] == pytest.approx(fair.c_k)  # p = ½
    for cells in (2, 9):
        uniform = diversity(np.full(cells, 1 / cells))
        assert from_gini_simpson(uniform)[1] == pytest.approx(uniform.c_k)
        assert from_shannon(uniform)[1] == pytest.approx(uniform.c_k)
