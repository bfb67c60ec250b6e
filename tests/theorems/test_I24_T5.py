"""I24-T5: "is D this set?" has eta = 1/C(N, N/2), yet is not (eps, delta)-DP for any delta < 1."""

from fractions import Fraction
from math import comb

from memberbound.games import SubsetGame
from memberbound.subset.finite import finite_bounds
from oracle import mechanisms, subset
from oracle.claims import assert_bound, assert_exact

F = Fraction


def indicator(size):
    return mechanisms.indicator(frozenset(range(size // 2)))


def eta_of_indicator(size):
    return F(1, comb(size, size // 2))


BROKEN = {
    "off by two": lambda size: F(2, comb(size, size // 2)),
    "power of two": lambda size: F(1, 2**size),
}


def test_exact_eta():
    assert_exact(
        eta_of_indicator,
        (((size,), subset.eta(indicator(size), size, size // 2)) for size in (2, 4, 6, 8)),
        BROKEN,
    )


def test_never_differentially_private():
    for size in (2, 4, 6):
        for g in (F(1), F(10), F(10**12)):
            assert subset.dp_delta(indicator(size), size, size // 2, g) == 1


# The package


def test_package_bounds_it():
    assert_bound(
        lambda size: F(finite_bounds(indicator(size), SubsetGame(size, size // 2)).eta_upper),
        (((size,), eta_of_indicator(size)) for size in (2, 4, 6, 8, 10)),
        broken={"power of two": BROKEN["power of two"]},
        excess=F(1, 10**9),
    )
