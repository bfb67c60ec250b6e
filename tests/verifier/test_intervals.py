"""The independent verifier's arithmetic: every interval holds the number of 60-digit arithmetic."""

import math
import random
from decimal import getcontext, localcontext
from fractions import Fraction

import mpmath
import pytest

from oracle.independent import verifier

Interval = verifier.Interval


def holds(interval, truth, width="1e-30"):
    """Tell whether an interval is narrow and holds a number."""
    low, high = (Fraction(x) for x in (interval.lo, interval.hi))
    truth = Fraction(mpmath.nstr(truth, 55)) if isinstance(truth, mpmath.mpf) else truth
    return low <= truth <= high and high - low <= Fraction(width)


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(60):
        yield


@pytest.mark.parametrize("prec", [5, 28])
def test_operations_are_rounded_outward(prec):
    """Also where the caller's context has few digits: a minus sign rounds in it."""
    draws = random.Random(0)
    with localcontext() as context:
        context.prec = prec
        for _ in range(300):
            x, y = (Fraction(draws.uniform(-9, 9)) for _ in "xy")
            a, b = Interval.of(x / 7), Interval.of(y / 3)
            assert holds(a + b, x / 7 + y / 3)
            assert holds(a - b, x / 7 - y / 3)
            assert holds(a * b, x * y / 21)
            assert holds(a / b, (x / 7) / (y / 3), "1e-25") or abs(y) < 0.1
            root = mpmath.sqrt(mpmath.mpf(abs(x).numerator) / abs(x).denominator)
            assert holds(Interval.of(abs(x)).of_ends(verifier._NEAR.sqrt), root)
            e = mpmath.exp(mpmath.mpf(x.numerator) / x.denominator)
            assert holds(Interval.of(x).of_ends(verifier._NEAR.exp), e, "1e-25")
            assert holds(Interval.of(abs(x)) * Interval.of(abs(y)), abs(x * y))
    assert getcontext().prec == 28


@pytest.mark.parametrize("x", [0.0, 1e-9, -0.3, 0.12566, -2.5, 4.0, -6.075, 8.5, 13.0, -30.0, 70.0])
def test_the_normal_law_and_its_quantile(x):
    found = verifier.cdf(Interval.of(x))
    assert holds(found, mpmath.ncdf(mpmath.mpf(x)))
    if abs(x) < 6:
        back = verifier.quantile_above(found.hi)
        assert Fraction(x) <= Fraction(back.hi) < Fraction(x) + Fraction("1e-20")


def test_pi_and_percent():
    assert holds(verifier._PI, +mpmath.pi, "1e-49")
    shown = {0.55: "55 %", 0.5500000000000001: "55.01 %", 1.0: "100 %", 0.7351: "73.51 %"}
    assert {share: verifier.per_cent(share) for share in shown} == shown


@pytest.mark.parametrize(("trials", "q"), [(40, 0.512), (9, 0.01), (25, 1.0)])
def test_binomial_groups_hold_their_share(trials, q):
    """Against rationals; what is left out is little, and makes a TPR smaller."""
    q = Fraction(q)
    exact = [math.comb(trials, j) * q**j * (1 - q) ** (trials - j) for j in range(trials + 1)]
    groups = dict(verifier.binomial(trials, q))
    width = max(1, math.isqrt(int(trials * q * (1 - q))) // 6)
    for low in range(trials + 1) if q == 1 else range(0, trials + 1, width):
        share = sum(exact[low : low + width])
        if low in groups:
            assert holds(groups[low], share)
        else:
            assert share < Fraction("2e-9")
