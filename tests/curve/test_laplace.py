"""The Laplace curve against its distribution functions in high precision."""

import math
from fractions import Fraction
from random import Random

import pytest

from memberbound.curve import LaplaceCurve, polygon_from_lines
from memberbound.errors import InputError
from oracle.claims import assert_bound
from oracle.real import bracket, laplace_hockey_stick, laplace_tpr

F = Fraction
TIGHT = F(1, 10**13)
GRAIN = F(1, 10**300)
REACHES = (5e-324, 1e-300, 1e-9, 0.1, 1.0, 8.0, 700.0, 735.0, 1400.0, 1e5)
RATES = (5e-324, 1e-315, 1e-300, 1e-20, 1e-3, 0.3, 0.5, 0.500001, 0.9, 1 - 2**-53)


def points():
    for reach in REACHES:
        for fpr in RATES:
            yield reach, fpr
    rng = Random(31)
    for _ in range(150):
        yield 10 ** rng.uniform(-3, 2.9), 10 ** rng.uniform(-323, 0)
        reach = rng.uniform(0, 740)  # around the corner e^-reach/2
        yield reach, min(0.9, max(5e-324, math.exp(-reach) * rng.uniform(0.3, 0.7)))


def naive_tpr(reach, fpr):
    """By logarithms."""
    fall = math.exp(-reach)
    if fpr < fall / 2:
        return math.exp(reach + math.log(fpr))
    return 1 - fall / (4 * fpr) if fpr <= 0.5 else 1 - fall * (1 - fpr)


def test_tpr_is_sound_and_tight():
    truth = [(at, bracket(laplace_tpr(*at))) for at in points() if at[0] < 5000]
    assert_bound(
        lambda reach, fpr: F(LaplaceCurve(reach).tpr(fpr)),
        ((at, low) for at, (low, _) in truth),
        broken={"by logarithms": naive_tpr},
    )
    assert sum(naive_tpr(*at) < low for at, (low, _) in truth) > 20
    for (reach, fpr), (_, high) in truth:
        assert F(LaplaceCurve(reach).tpr(fpr)) <= high * (1 + TIGHT) + GRAIN


def sticks():
    rng = Random(32)
    for reach in REACHES[:-2]:
        for share in (0.0, 1e-9, 0.3, 0.999999, 1.0):
            yield reach, reach * share
        yield reach, math.nextafter(reach, 0.0)
    for _ in range(100):
        reach = 10 ** rng.uniform(-5, 2)
        yield reach, rng.uniform(0, reach)


def test_hockey_stick_is_sound_and_tight():
    truth = [(at, bracket(laplace_hockey_stick(*at))) for at in sticks()]
    assert_bound(
        lambda reach, eps: F(LaplaceCurve(reach).delta(eps)),
        ((at, low) for at, (low, _) in truth),
        broken={"without expm1": lambda reach, eps: F(1 - math.exp(-(reach - eps) / 2))},
    )
    for (reach, eps), (_, high) in truth:
        assert F(LaplaceCurve(reach).delta(eps)) <= high * (1 + TIGHT) + GRAIN


def test_the_curve_vanishes_beyond_the_reach():
    for reach in REACHES:
        curve = LaplaceCurve(reach)
        assert curve.delta(reach) == curve.delta(reach * 2) == 0.0
        assert curve.epsilon(0.0) == reach
        assert curve.delta(math.nextafter(reach, 0.0)) > 0.0


def test_epsilon_is_safe_and_tight():
    for reach in (1e-3, 1.0, 30.0):
        curve = LaplaceCurve(reach)
        for delta in (1e-300, 1e-12, 1e-4, 0.2):
            eps = curve.epsilon(delta)
            assert bracket(laplace_hockey_stick(reach, eps))[0] <= F(delta)
            exact = max(0.0, reach + 2 * math.log1p(-delta))
            assert eps == pytest.approx(exact, rel=1e-9, abs=1e-12)


def test_below_the_pure_dp_curve():
    for reach in (0.1, 1.0, 6.0):
        dp = polygon_from_lines([reach], [0.0], [reach], [0.0])
        assert dp.dominates(LaplaceCurve(reach))
        assert not LaplaceCurve(reach).dominates(dp, tolerance=1e-6)
        assert LaplaceCurve(reach).precision(0.1) == pytest.approx(
            0.1 / (0.1 + 0.9 * math.exp(-reach)), rel=1e-12
        )


@pytest.mark.parametrize("reach", [-1.0, math.nan, math.inf])
def test_unusable_reaches_are_refused(reach):
    with pytest.raises(InputError, match="reach must be"):
        LaplaceCurve(reach)
