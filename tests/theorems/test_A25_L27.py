"""A25-L27: x -> sum_k E|x B_k/n - p_k| - (x - 1) does not increase on [1, oo)."""

from fractions import Fraction
from itertools import pairwise
from random import Random

from oracle import iid, mechanisms
from oracle.claims import assert_holds

F = Fraction
GRID = [1 + F(i, 6) for i in range(19)] + [F(10), F(100)]


def profile(p, n, x, offset=1):
    return x * sum(iid.mean_deviation(n, q, 1 / x) for q in p) - offset * (x - 1)


def laws():
    rng = Random(27)
    for _ in range(12):
        yield mechanisms.random_iid_law(rng, rng.randint(1, 4)), rng.randint(1, 6)


def test_non_increasing():
    def falls(p, n, low, high, offset=1):
        return profile(p, n, low, offset) >= profile(p, n, high, offset)

    assert_holds(
        falls,
        [(p, n, low, high) for p, n in laws() for low, high in pairwise(GRID)],
        broken={
            "without offset": lambda *case: falls(*case, offset=0),
            "half of the offset": lambda *case: falls(*case, offset=F(1, 2)),
        },
    )


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
