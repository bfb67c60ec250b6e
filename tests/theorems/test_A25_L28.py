"""A25-L28: x -> |x t - p|/x - p (1/x - 1) does not decrease on (0, 1]."""

from fractions import Fraction
from itertools import pairwise, product

from oracle import iid
from oracle.claims import assert_holds

F = Fraction
GRID = [F(1, 1000), *(F(i, 24) for i in range(1, 25))]
VALUES = [F(0), F(1, 9), F(1, 2), F(5, 7), F(1), F(3)]


def profile(t, p, x, offset=1):
    return abs(x * t - p) / x - offset * p * (1 / x - 1)


def test_non_decreasing():
    def rises(t, p, low, high, offset=1):
        return profile(t, p, low, offset) <= profile(t, p, high, offset)

    assert_holds(
        rises,
        [(t, p, *step) for t, p, step in product(VALUES, VALUES, pairwise(GRID))],
        broken={
            "sign turned": lambda *case: rises(*case, offset=-1),
            "without offset": lambda *case: rises(*case, offset=0),
        },
    )


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
