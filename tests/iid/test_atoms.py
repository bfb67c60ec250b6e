"""C_K: its value, its range, and input checks (the theorems have their own files)."""

import math

import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.iid.worst_case import (
    diversity,
    diversity_given_largest_atom,
    largest_diversity,
    leak_between,
    leak_by_size_of_atom,
    leak_from_diversity,
    older_leak_lower,
    slow_law,
)


def test_values_by_hand():
    found = diversity([0.5, 0.25, 0.25, 0.0])
    assert found.atoms == 3
    assert found.c_k == pytest.approx(0.5 + 2 * math.sqrt(3) / 4)
    assert found.gini_simpson == pytest.approx(1 - 0.25 - 2 / 16)
    assert found.shannon == pytest.approx(1.5 * math.log(2))


def test_certain_and_nearly_certain_atoms():
    assert diversity([1.0])[:3] == (0.0, 0.0, 0.0)
    q = 2.0**-50
    found = diversity([1 - q, q])
    assert found.c_k == pytest.approx(2 * math.sqrt(q), rel=1e-12)
    assert found.shannon == pytest.approx(q * (1 + 50 * math.log(2)), rel=1e-12)


def test_multiplicities():
    once = diversity([0.01] * 50 + [0.02] * 25)
    packed = diversity([0.01, 0.02], [50, 25])
    assert packed == pytest.approx(once, rel=1e-13)
    assert leak_between([0.01, 0.02], 1000, [50, 25]) == pytest.approx(
        leak_between([0.01] * 50 + [0.02] * 25, 1000), rel=1e-13
    )


def test_bad_input_is_refused():
    for call in (
        lambda: diversity([0.5, 0.4]),
        lambda: largest_diversity(0),
        lambda: diversity_given_largest_atom(4, 0.2),
        lambda: diversity_given_largest_atom(4, 1.5),
        lambda: leak_from_diversity(-1, 10),
        lambda: leak_from_diversity(1, 0),
        lambda: leak_by_size_of_atom([0.5, 0.5], 4),
        lambda: older_leak_lower(1.0, 1, 0.5),
        lambda: older_leak_lower(1.0, 2, 0.001),
        lambda: slow_law([]),
        lambda: slow_law([(10, 0.2), (20, 0.3)]),
        lambda: slow_law([(20, 0.3), (10, 0.2)]),
        lambda: slow_law([(10**18, 0.3)]),
    ):
        with pytest.raises(InputError):
            call()


def test_range_at_its_ends():
    assert diversity_given_largest_atom(5, 1.0) == (0.0, 0.0)
    for cells in (2, 3, 10, 49):
        low, high = diversity_given_largest_atom(cells, 1 / cells)
        assert low == pytest.approx(math.sqrt(cells - 1), rel=1e-6)
        assert high == pytest.approx(math.sqrt(cells - 1), rel=1e-6)


def test_vacuous_bounds_are_one():
    assert leak_from_diversity(1e9, 10) == 1.0
    assert leak_between(np.full(10**5, 1e-5), 10).upper == 1.0
    assert older_leak_lower(0.0, 100, 1.0) == 0.0
