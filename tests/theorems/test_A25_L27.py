"""A25-L27: x -> sum_k E|x B_k/n - p_k| - (x - 1) does not increase on [1, oo)."""

from fractions import Fraction
from random import Random

from oracle import iid, mechanisms

F = Fraction
GRID = [1 + F(i, 6) for i in range(19)] + [F(10), F(100)]


def profile(p, n, x):
    total = sum(m * abs(x * F(b, n) - q) for q in p for b, m in enumerate(iid.binomial(n, q)))
    return total - (x - 1)


def without_offset(p, n, x):
    return profile(p, n, x) + (x - 1)


def half_offset(p, n, x):
    return profile(p, n, x) + (x - 1) / 2


def laws():
    rng = Random(27)
    for _ in range(12):
        yield mechanisms.random_iid_law(rng, rng.randint(1, 4)), rng.randint(1, 6)


def violations(function):
    """Places on the grid where the function increases."""
    bad = []
    for p, n in laws():
        values = [function(p, n, x) for x in GRID]
        bad += [(p, n, x) for x, a, b in zip(GRID, values, values[1:], strict=False) if b > a]
    return bad


def test_non_increasing():
    assert violations(profile) == []


def test_broken_functions_are_caught():
    assert violations(without_offset)
    assert violations(half_offset)


def test_it_is_the_leak_for_gamma_below_one():
    # why the lemma matters: with x = 1/gamma it is twice the worst leak, so gamma = 1 is worst
    for p, n in laws():
        pair = iid.joint_laws(p, n, iid.injective(n, len(p)))
        for x in (F(1), F(3, 2), F(4)):
            assert profile(p, n, x) == 2 * iid.leakage(pair, 1 / x)


def test_limit():
    # for x beyond every n p_k only the empty cells count: constant from there on
    for p, n in laws():
        empty = 2 * sum(q * (1 - q) ** n for q in p)
        assert profile(p, n, F(10**4)) == empty
