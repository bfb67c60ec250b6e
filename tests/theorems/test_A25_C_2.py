"""A25 §C.2, eq. 23 to 25: C_K against the Gini–Simpson index and the Shannon entropy."""

import math

import numpy as np
import pytest

from memberbound.iid.worst_case import diversity


def laws():
    rng = np.random.default_rng(232)
    for cells in (1, 2, 3, 10, 200):
        yield np.full(cells, 1 / cells)
        for a in (0.05, 0.5, 5.0):
            for _ in range(25):
                yield rng.dirichlet(np.full(cells, a))
    yield np.array([1 - 1e-9, 1e-9])
    yield np.array([0.2, 0.8])


def outside(interval):
    bad = []
    for p in laws():
        found = diversity(p)
        low, high = interval(found)
        if not low * (1 - 1e-12) <= found.c_k <= high * (1 + 1e-12) + 1e-300:
            bad.append(p)
    return bad


def test_between_both_indices():
    assert outside(lambda d: d.from_gini_simpson()) == []
    assert outside(lambda d: d.from_shannon()) == []


def test_entropy_in_bits_and_missing_square_root_are_caught():
    assert outside(lambda d: (d.shannon / math.log(2), math.inf))
    assert outside(lambda d: (0, math.sqrt(d.atoms) * d.gini_simpson))
    assert outside(lambda d: (3 * d.gini_simpson, math.inf))


def test_chain_of_eq25():
    for p in laws():
        found = diversity(p)
        assert found.from_shannon().upper <= math.sqrt(found.atoms * found.shannon) + 1e-12


def test_equality_cases():
    fair = diversity([0.5, 0.5])
    assert fair.from_gini_simpson().lower == pytest.approx(fair.c_k)  # p = ½
    for cells in (2, 9):
        uniform = diversity(np.full(cells, 1 / cells))
        assert uniform.from_gini_simpson().upper == pytest.approx(uniform.c_k)
        assert uniform.from_shannon().upper == pytest.approx(uniform.c_k)
