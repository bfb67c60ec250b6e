"""The Rademacher form: exact walks, symmetrisation in rationals, its certificate."""

import math
from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest

from memberbound.iid.count_functions import rademacher_leak_upper, walk_function, walk_length
from memberbound.iid.profiles import CountProfile


def exact_walk(c: int) -> Fraction:
    return sum((Fraction(comb(c, k) * abs(2 * k - c), 2**c) for k in range(c + 1)), Fraction(0))


def exact_leak_times_n(p: list[Fraction], n: int) -> Fraction:
    total = Fraction(0)
    for q in p:
        total += sum(
            (comb(n, b) * q**b * (1 - q) ** (n - b) * abs(b - n * q) for b in range(n + 1)),
            Fraction(0),
        )
    return total / 2


@pytest.mark.parametrize("c", [*range(0, 40), 500, 1999, 2000])
def test_walk_length_from_above(c):
    got = Fraction(float(walk_length(np.array([c]))[0]))
    assert exact_walk(c) <= got <= exact_walk(c) * (1 + Fraction(1, 10**11))


def test_walk_length_of_long_walks():
    for c in (2002, 2003, 10_001, 4_000_000):
        exact = c * math.exp(
            math.lgamma(2 * (c // 2) + 1) - 2 * math.lgamma(c // 2 + 1) - 2 * (c // 2) * math.log(2)
        )
        got = float(walk_length(np.array([c]))[0])
        assert got == pytest.approx(exact, rel=1e-7)
        assert got >= exact * (1 - 1e-8)
        assert walk_function().above(c) >= got * (1 - 1e-12)


def test_walk_is_self_bounding():
    counts = np.arange(1, 1500)
    steps = walk_length(counts) - walk_length(counts - 1)
    assert np.all(steps >= -1e-9)
    assert np.all(steps <= 1 + 1e-9)
    assert np.all(counts * steps <= walk_length(counts) * (1 + 1e-9))


def symmetrised(p: list[Fraction], n: int, walk) -> Fraction:
    total = Fraction(0)
    for draw in product(range(len(p)), repeat=n):
        weight = math.prod((p[k] for k in draw), start=Fraction(1))
        total += weight * sum((walk(draw.count(k)) for k in range(len(p))), Fraction(0))
    return total


LAWS = [
    [Fraction(1, 2), Fraction(1, 2)],
    [Fraction(1, 10), Fraction(9, 10)],
    [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)],
]


@pytest.mark.parametrize("p", LAWS)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 6])
def test_symmetrisation_in_rationals(p, n):
    assert symmetrised(p, n, exact_walk) >= exact_leak_times_n(p, n)


def test_symmetrisation_catches_half_the_walk():
    # E|S_c|/2 would be right only for a sample of twice the size.
    broken = [
        symmetrised(p, n, lambda c: exact_walk(c) / 2) < exact_leak_times_n(p, n)
        for p in LAWS
        for n in (1, 2, 3)
    ]
    assert any(broken)


def test_certificate_is_about_twice_the_truth_on_equal_cells():
    profile = CountProfile.from_counts([500] * 400)
    truth = 0.0178
    value = rademacher_leak_upper(profile, 0.05)
    assert 1.8 * truth < value < 2.5 * truth


def test_distinct_rows_are_vacuous():
    assert rademacher_leak_upper(CountProfile.from_counts([1] * 100), 0.05) == 1.0
