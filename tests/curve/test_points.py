"""Concave hulls of ROC points: exact comparison, and the attacks they stand for."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memberbound import InputError, PolygonCurve

rates = st.floats(0, 1)


def hull_at(points: list[tuple[float, float]], alpha: Fraction) -> Fraction:
    """Largest height at α of a chord between two points (brute force over all pairs)."""
    exact = [(Fraction(x), Fraction(y)) for x, y in points] + [
        (Fraction(0),) * 2,
        (Fraction(1),) * 2,
    ]
    best = max((y for x, y in exact if x == alpha), default=Fraction(0))
    for a in exact:
        for b in exact:
            if a[0] < alpha < b[0]:
                best = max(best, a[1] + (b[1] - a[1]) * (alpha - a[0]) / (b[0] - a[0]))
    return best


def shortfalls(curve, points, alphas) -> int:
    return sum(Fraction(curve.tpr(a)) < hull_at(points, Fraction(a)) for a in alphas)


@given(st.lists(st.tuples(rates, rates), min_size=1, max_size=8), st.lists(rates, max_size=5))
def test_hull_is_above_every_chord(points, alphas):
    curve = PolygonCurve.from_points(*zip(*points, strict=True))
    alphas = [*alphas, *(x for x, _ in points)]
    assert shortfalls(curve, points, alphas) == 0
    for alpha in alphas:
        truth = float(hull_at(points, Fraction(alpha)))
        if 1e-290 < alpha < 1:
            # A rate that ends in a falling ROC is lifted to the running maximum by (1, 1).
            assert curve.tpr(alpha) <= max(truth, alpha) * (1 + 1e-12) + 1e-12


def test_points_without_their_hull_are_caught():
    points = [(0.1, 0.4), (0.5, 0.8)]
    low = PolygonCurve.from_points([0.5], [0.8])
    assert shortfalls(low, points, [0.1, 0.3]) > 0


def test_certain_attack_and_bad_input():
    assert PolygonCurve.from_points([0.0], [0.25]).tpr(0.0) == 0.25
    assert PolygonCurve.from_points([0.5], [0.1]).advantage == 0.0
    with pytest.raises(InputError):
        PolygonCurve.from_points([0.1, 0.2], [0.3])
    with pytest.raises(InputError):
        PolygonCurve.from_points([1.2], [0.3])
