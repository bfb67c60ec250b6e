"""The Rademacher form: exact walks, symmetrisation in rationals, its certificate."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest

from memberbound.iid.count_functions import walk_length
from oracle import iid
from oracle.claims import assert_bound


def exact_walk(c: int) -> Fraction:
    return sum((Fraction(comb(c, k) * abs(2 * k - c), 2**c) for k in range(c + 1)), Fraction(0))


@pytest.mark.parametrize("c", [*range(0, 40), 500, 1999, 2000])
def test_walk_length_from_above(c):
    got = Fraction(float(walk_length(np.array([c]))[0]))
    assert exact_walk(c) <= got <= exact_walk(c) * (1 + Fraction(1, 10**11))


def test_walk_is_self_bounding():
    counts = np.arange(1, 1500)
    steps = walk_length(counts) - walk_length(counts - 1)
    assert np.all(steps >= -1e-9)
    assert np.all(steps <= 1 + 1e-9)
    assert np.all(counts * steps <= walk_length(counts) * (1 + 1e-9))


def symmetrise(p, n):
    """E Σ_k E|S_{B_k}| over the counts B of n rows."""
    return sum(m * sum(map(exact_walk, h)) for h, m in iid.multinomial(p, n).items())


LAWS = [
    [Fraction(1, 2), Fraction(1, 2)],
    [Fraction(1, 10), Fraction(9, 10)],
    [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)],
]


def test_symmetrisation_in_rationals():
    # E|S_c|/2 would be right only for a sample of twice the size.
    assert_bound(
        symmetrise,
        (((p, n), n * iid.worst_leak(p, n)) for p in LAWS for n in (1, 2, 3, 5, 6)),
        broken={"half the walk": lambda p, n: symmetrise(p, n) / 2},
    )
