"""C_K: its value, its range, and input checks (the theorems have their own files)."""

import math

import pytest

from memberbound.errors import InputError
from memberbound.iid.worst_case import (
    diversity,
    diversity_given_largest_atom,
    leak_from_diversity,
)


def test_values_by_hand():
    index = diversity([0.5, 0.25, 0.25, 0.0])
    assert index.atoms == 3
    assert index.c_k == pytest.approx(0.5 + 2 * math.sqrt(3) / 4)
    assert index.gini_simpson == pytest.approx(1 - 0.25 - 2 / 16)
    assert index.shannon == pytest.approx(1.5 * math.log(2))


def test_certain_and_nearly_certain_atoms():
    assert diversity([1.0])[:3] == (0.0, 0.0, 0.0)
    q = 2.0**-50
    index = diversity([1 - q, q])
    assert index.c_k == pytest.approx(2 * math.sqrt(q), rel=1e-12)
    assert index.shannon == pytest.approx(q * (1 + 50 * math.log(2)), rel=1e-12)


def test_multiplicities():
    once = diversity([0.01] * 50 + [0.02] * 25)
    packed = diversity([0.01, 0.02], [50, 25])
    assert packed == pytest.approx(once, rel=1e-13)


def test_bad_input_is_refused():
    for call in (
        lambda: diversity([0.5, 0.4]),
        lambda: diversity_given_largest_atom(4, 0.2),
        lambda: diversity_given_largest_atom(4, 1.5),
        lambda: leak_from_diversity(-1, 10),
        lambda: leak_from_diversity(1, 0),
    ):
        with pytest.raises(InputError):
            call()
