"""Polygons of finite pairs: every read-off against exact enumeration, without tolerance."""

import math
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memberbound.curve import PolygonCurve
from memberbound.errors import InputError
from oracle import finite
from oracle.pairs import independent_pairs, law, merge, pairs, shifted_pairs
from oracle.readoffs import QUICK, READINGS, Points, faults, shortfalls

F = Fraction
TIGHT = 1e-11
FEW = settings(max_examples=25, deadline=None)

#: Rationals without a binary form, a certain atom either way, tiny masses, an equal pair.
SAMPLES = [
    ([F(1, 3), F(1, 6), F(1, 2)], [F(1, 6), F(1, 2), F(1, 3)]),
    ([F(1, 7), F(6, 7), F(0)], [F(0), F(5, 7), F(2, 7)]),
    ([F(1, 10**300), 1 - F(1, 10**300)], [F(3, 10**300), 1 - F(3, 10**300)]),
    ([F(1, 3) + F(1, 10**30), F(2, 3) - F(1, 10**30)], [F(1, 3), F(2, 3)]),
    ([F(1, 10**400), 1 - F(1, 10**400)], [F(0), F(1)]),
    ([F(2, 5), F(3, 5)], [F(2, 5), F(3, 5)]),
]


@FEW
@given(pairs())
@example(SAMPLES[2])
@example(SAMPLES[3])
@example(SAMPLES[4])
@example(SAMPLES[5])
@example(([F(1), F(0)], [F(0), F(1)]))
def test_every_read_off_is_sound_and_tight(pair):
    curve = PolygonCurve.from_masses(*pair)
    assert faults(curve, pair, TIGHT) == []


@FEW
@given(st.one_of(independent_pairs(5), shifted_pairs(5)))
def test_doubles_are_read_as_the_law_they_are_proportional_to(pair):
    p, q = ([float(m) for m in masses] for masses in pair)
    exact = tuple([F(m) / sum(map(F, masses)) for m in masses] for masses in (p, q))
    curve = PolygonCurve.from_masses(p, q)
    assert shortfalls(curve, exact, QUICK) == []
    # Losses carry the rounding of the doubles, 1e-15, which counts where the laws nearly agree.
    assert curve.advantage <= float(finite.total_variation(*map(law, exact))) * (1 + TIGHT) + 1e-14


def test_sums_off_by_the_tolerance_do_not_hide_a_difference():
    curve = PolygonCurve.from_masses([0.1, 0.9], [0.1, 0.9 + 1e-10])
    total = F(0.1) + F(0.9 + 1e-10)
    exact = ([F(0.1), F(0.9)], [F(0.1) / total, F(0.9 + 1e-10) / total])
    scaled = ([m / sum(exact[0]) for m in exact[0]], exact[1])
    assert shortfalls(curve, scaled) == []
    assert curve.advantage > 0
    assert PolygonCurve.from_masses([0.1] * 10, [0.1] * 10).advantage == 0


@pytest.mark.parametrize("reading", READINGS)
def test_a_lowered_read_off_is_caught(reading):
    caught = [
        name
        for pair in SAMPLES
        for name, _ in shortfalls(PolygonCurve.from_masses(*pair), pair, QUICK, broken=reading)
    ]
    assert set(caught) == {reading}


@pytest.mark.parametrize("part", ["loss", "heavy"])
def test_inward_rounding_of_a_segment_is_caught(part):
    broken = []
    for pair in SAMPLES[:3]:
        good = PolygonCurve.from_masses(*pair)
        factor = {"loss": (1 - 1e-13, 1.0), "heavy": (1.0, 1 - 1e-13)}[part]
        broken += shortfalls(PolygonCurve(good.loss * factor[0], good.heavy * factor[1]), pair)
    assert broken


@FEW
@given(pairs(5), st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_merging_outcomes_lowers_every_read_off(pair, groups):
    image = merge(pair, groups[: len(pair[0])])
    assert shortfalls(PolygonCurve.from_masses(*pair), image, QUICK) == []
    fine, coarse = PolygonCurve.from_masses(*pair), PolygonCurve.from_masses(*image)
    assert fine.dominates(coarse)


@FEW
@given(pairs(5))
def test_reversal_exchanges_the_directions(pair):
    curve = PolygonCurve.from_masses(*pair)
    assert shortfalls(curve.reversed(), (pair[1], pair[0]), QUICK) == []
    for eps in (0.0, 0.4, 3.0):
        mirrored = curve.reversed().delta(eps, "forward")
        assert mirrored == pytest.approx(curve.delta(eps, "backward"), rel=1e-14)
    assert curve.reversed().advantage == pytest.approx(curve.advantage, rel=1e-14)


@FEW
@given(pairs(5))
def test_monotone_and_round_trip(pair):
    curve = PolygonCurve.from_masses(*pair)
    # Evaluated values may wiggle by their rounding, which the read-off slack bounds.
    wiggle = 1 + 1e-13
    sticks = [curve.delta(e) for e in (0.0, 1e-8, 0.1, 1.0, 2.0, 30.0, 700.0)]
    assert all(later <= earlier * wiggle for earlier, later in pairwise(sticks))
    rates = [curve.tpr(a) for a in (0.0, 1e-200, 1e-9, 0.2, 0.6, 0.99, 1.0)]
    assert all(later * wiggle >= earlier for earlier, later in pairwise(rates))
    for eps in (0.0, 0.1, 1.0):
        assert curve.epsilon(curve.delta(eps)) <= eps
    for delta in (1e-9, 1e-3, 0.5):
        eps = curve.epsilon(delta)
        assert eps == math.inf or curve.delta(eps) <= delta
    rates = (0.0, 1e-9, 0.2, 1.0)
    assert list(curve.roc(rates)) == pytest.approx([curve.tpr(a) for a in rates], rel=1e-14)


@pytest.mark.parametrize("prior", [0.1, 0.3, 1e-17, 0.49999999999999994, 0.7, 1e-12, 1 - 1e-12])
def test_accuracy_of_guessing_is_rounded_up_and_to_the_nearest_double(prior):
    value = F(PolygonCurve.from_masses([1.0], [1.0]).accuracy(prior))
    truth = max(F(prior), 1 - F(prior))
    assert truth <= value <= truth + F(2, 2**53)


def test_epsilon_around_the_certain_mass():
    pair = ([F(1, 4), F(1, 2), F(1, 4)], [F(0), F(1, 4), F(3, 4)])
    curve = PolygonCurve.from_masses(*pair)
    certain = curve.certain_mass()
    assert certain == 0.25
    assert curve.delta(1e5, "forward") == certain
    assert curve.epsilon(math.nextafter(certain, 0.0), "forward") == math.inf
    assert math.isclose(curve.epsilon(certain, "forward"), math.log(2), rel_tol=1e-12)
    just_above = curve.epsilon(math.nextafter(certain, 1.0), "forward")
    assert 0 < just_above <= curve.epsilon(certain, "forward")
    assert math.isclose(curve.epsilon(0.0, "backward"), math.log(3), rel_tol=1e-12)
    assert curve.epsilon(0.0) == math.inf


def test_enormous_slopes_between_corners():
    """In-mass ½ on out-mass 1e-305: TPR at FPR down to the smallest double."""
    tiny = F(1, 10**305)
    pair = ([F(1, 2), F(1, 2)], [tiny, 1 - tiny])
    curve = PolygonCurve.from_masses(*pair)
    at = Points(fpr=(5e-324, 1e-310, 1e-306, 3e-306, 9.9e-306, 1e-305, 1.1e-305, 1e-300, 0.5))
    assert faults(curve, pair, TIGHT, at) == []
    assert curve.tpr(5e-306) == pytest.approx(0.25, rel=1e-9)


@pytest.mark.parametrize(
    ("inside", "outside", "match"),
    [
        ([0.5, 0.5], [1.0], "same outcomes"),
        ([], [], "at least one probability"),
        ([0.5, 0.6], [0.5, 0.5], "add up to 1"),
        ([F(1, 2), F(2, 3)], [F(1, 2), F(1, 2)], "add up to 1"),
        ([1.5, -0.5], [0.5, 0.5], "probabilities in"),
        ([math.nan, 1.0], [0.5, 0.5], "probabilities in"),
        (["a", 1.0], [0.5, 0.5], "list of probabilities"),
    ],
)
def test_unusable_masses_are_refused(inside, outside, match):
    with pytest.raises(InputError, match=match):
        PolygonCurve.from_masses(inside, outside)


def test_unusable_arguments_are_refused():
    curve = PolygonCurve.from_masses([0.5, 0.5], [0.25, 0.75])
    for call in (
        lambda: curve.delta(-1.0),
        lambda: curve.delta(math.inf),
        lambda: curve.delta(1.0, "sideways"),
        lambda: curve.epsilon(1.5),
        lambda: curve.tpr(-0.1),
        lambda: curve.roc([0.5, 1.5]),
        lambda: curve.roc([math.nan]),
        lambda: curve.accuracy(2.0),
        lambda: curve.precision(0.5, fpr=0.0),
        lambda: curve.leak(nu=1.0),
        lambda: curve.leak(lam=0.0),
    ):
        with pytest.raises(InputError):
            call()
