"""A25-L28: x -> |x t - p|/x - p (1/x - 1) does not decrease on (0, 1]."""

from fractions import Fraction
from itertools import product

from oracle import iid

F = Fraction
GRID = [F(1, 1000), *(F(i, 24) for i in range(1, 25))]
VALUES = [F(0), F(1, 9), F(1, 2), F(5, 7), F(1), F(3)]


def profile(t, p, x):
    return abs(x * t - p) / x - p * (1 / x - 1)


def sign_turned(t, p, x):
    return abs(x * t - p) / x + p * (1 / x - 1)


def without_offset(t, p, x):
    return abs(x * t - p) / x


def violations(function):
    """Places on the grid where the function decreases."""
    bad = []
    for t, p in product(VALUES, VALUES):
        values = [function(t, p, x) for x in GRID]
        bad += [(t, p, x) for x, a, b in zip(GRID, values, values[1:], strict=False) if b < a]
    return bad


def test_non_decreasing():
    assert violations(profile) == []


def test_broken_functions_are_caught():
    assert violations(sign_turned)
    assert violations(without_offset)


def test_flat_below_the_kink_and_increasing_above():
    assert profile(F(1), F(1, 2), F(1, 4)) == profile(F(1), F(1, 2), F(1, 2)) == F(-1, 2)
    assert profile(F(1), F(1, 2), F(3, 4)) > F(-1, 2)


def test_it_is_the_leak_for_gamma_above_one():
    # with x = 1/gamma, t = B/n the summed means are twice the worst leak (A25-T14)
    p, n = [F(1, 6), F(1, 3), F(1, 2)], 3
    pair = iid.joint_laws(p, n, iid.injective(n, 3))
    for gamma in (F(1), F(5, 4), F(3)):
        total = sum(
            m * profile(F(b, n), q, 1 / gamma) for q in p for b, m in enumerate(iid.binomial(n, q))
        )
        assert total == 2 * iid.leakage(pair, gamma)
