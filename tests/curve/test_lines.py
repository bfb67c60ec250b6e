"""Support lines, chains, symmetrised curves and mixtures against exact rational ROCs."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memberbound.curve import (
    GaussianCurve,
    LaplaceCurve,
    PolygonCurve,
    lines,
    mixture,
    polygon_from_lines,
)
from memberbound.errors import InputError
from oracle import finite, mechanisms
from oracle.pairs import chain, independent_pairs, joint, law, pairs
from oracle.readoffs import QUICK, Points, excesses, faults, shortfalls
from oracle.real import exp_bracket, round_up

F = Fraction
TIGHT = 1e-11
FEW = settings(max_examples=25, deadline=None)
AT = QUICK


def true_lines(pair, epsilons, forward):
    """Exact hockey-sticks at e^eps, rounded up to doubles."""
    p, q = (law(pair[0]), law(pair[1])) if forward else (law(pair[1]), law(pair[0]))
    return [round_up(finite.hockey_stick(p, q, exp_bracket(e)[0])) for e in epsilons]


EPSILONS = st.lists(
    st.one_of(
        st.floats(0, 8),
        st.sampled_from([0.0, 1e-300, 1e-12, 1e-3, 700.0, 1e5]),
        st.integers(0, 6).map(lambda k: 1.0 + k * 1e-13),  # lines almost on top of each other
    ),
    max_size=6,
)


@FEW
@given(pairs(5), EPSILONS, EPSILONS)
def test_the_polygon_of_true_lines_is_above_the_pair_and_on_its_lines(pair, ahead, behind):
    up, down = true_lines(pair, ahead, True), true_lines(pair, behind, False)
    curve = polygon_from_lines(ahead, up, behind, down)
    assert shortfalls(curve, pair, AT) == []
    for epsilons, deltas, side in ((ahead, up, "forward"), (behind, down, "backward")):
        for eps, dlt in zip(epsilons, deltas, strict=True):
            assert curve.delta(eps, side) <= dlt * (1 + TIGHT) + 1e-300
    for alpha in (1e-9, 0.2, 0.7):
        for eps, dlt in zip(ahead, up, strict=True):
            assert (
                curve.tpr(alpha) <= (dlt + math.exp(min(eps, 700)) * alpha) * (1 + TIGHT) + 1e-300
            )


DP_POINTS = [
    (e, d) for e in (0.0, 1e-14, 1e-9, 0.1, 1.0, 8.0, 40.0, 700.0) for d in (0.0, 1e-5, 0.3)
]


@pytest.mark.parametrize(("epsilon", "delta"), [*DP_POINTS, (1.0, 1.0), (1e-300, 0.0)])
def test_one_point_gives_the_extremal_pair(epsilon, delta):
    curve = polygon_from_lines([epsilon], [delta], [epsilon], [delta])
    low, high = exp_bracket(epsilon)
    for g, check in ((low, shortfalls), (high, excesses)):
        pair = finite.masses(*mechanisms.extremal_pair(g, F(delta)))
        assert check(curve, pair, at=AT) == []
    assert curve.delta(epsilon) == delta
    assert curve.is_symmetric
    if delta == 0.0:
        assert curve.epsilon(0.0) == epsilon


def test_unusable_lines_are_refused():
    for arguments in (
        ([1.0], [], [], []),
        ([-1.0], [0.0], [], []),
        ([math.nan], [0.0], [], []),
        ([1.0], [-0.1], [], []),
        ([[1.0]], [[0.1]], [], []),
    ):
        with pytest.raises(InputError, match="support lines"):
            polygon_from_lines(*arguments)


def broken_half(shrink):
    good = lines._half

    def half(these):
        loss, mass = good(these)
        return loss, [mass[0], *(m * shrink for m in mass[1:])]

    return half


@pytest.mark.parametrize("fault", ["masses", "centre", "certain"])
def test_a_polygon_below_its_lines_is_caught(monkeypatch, fault):
    if fault == "masses":
        monkeypatch.setattr(lines, "_half", broken_half(1 - 1e-12))
    elif fault == "centre":
        good = lines._total_variation
        monkeypatch.setattr(lines, "_total_variation", lambda a, b: good(a, b) * (1 - 1e-12))
    else:
        good_half = lines._half

        def half(these):
            loss, mass = good_half(these)
            return loss[1:], mass[1:]

        monkeypatch.setattr(lines, "_half", half)
    pair = ([F(1, 2), F(1, 3), F(1, 6), F(0)], [F(1, 8), F(3, 8), F(3, 8), F(1, 8)])
    knots = [0.5, 1.2]
    curve = polygon_from_lines(
        knots, true_lines(pair, knots, True), knots, true_lines(pair, knots, False)
    )
    extreme = finite.masses(*mechanisms.extremal_pair(exp_bracket(0.5)[0], F(1, 4)))
    single = polygon_from_lines([0.5], [0.25], [0.5], [0.25])
    assert shortfalls(curve, pair, AT) + shortfalls(single, extreme, AT)


@FEW
@given(independent_pairs(4), independent_pairs(4))
def test_chain_is_the_exact_composition(first, second):
    curve = PolygonCurve.from_masses(*first).then(PolygonCurve.from_masses(*second))
    exact = chain(first, second)
    assert shortfalls(curve, exact, AT) == []
    at = Points(epsilon=(0.0, 0.3, 2.0), delta=(1e-3, 0.2), fpr=(1e-3, 0.1, 0.7), prior=(0.5, 0.2))
    assert excesses(curve, exact, 1e-9, at) == []


def test_chain_in_the_wrong_order_is_caught():
    first = [F(1, 4), F(3, 4)], [F(0), F(1)]
    second = [F(1), F(0)], [F(1, 2), F(1, 2)]
    right = chain(first, second)
    one, two = PolygonCurve.from_masses(*first), PolygonCurve.from_masses(*second)
    assert shortfalls(one.then(two), right, AT) == []
    assert shortfalls(two.then(one), right, AT)


def test_chain_of_analytic_curves_adds_their_parameters():
    assert GaussianCurve(0.1).then(GaussianCurve(0.2)) == GaussianCurve(0.30000000000000004)
    assert F(GaussianCurve(0.7).then(GaussianCurve(0.1)).mu) >= F(0.7) + F(0.1)
    twice = LaplaceCurve(0.7).then(LaplaceCurve(0.7))
    assert twice == LaplaceCurve(1.4)
    # and the general route through polygons agrees, from above
    general = LaplaceCurve(0.7).to_polygon().then(LaplaceCurve(0.7).to_polygon())
    for alpha in (1e-6, 0.01, 0.2, 0.5, 0.9):
        assert twice.tpr(alpha) <= general.tpr(alpha) * (1 + 1e-12)
        assert general.tpr(alpha) == pytest.approx(twice.tpr(alpha), rel=1e-5)


def test_chain_with_the_trivial_and_the_vacuous_curve():
    pair = PolygonCurve.from_masses([0.5, 0.5], [0.25, 0.75])
    same, all_told = (
        PolygonCurve.from_masses([1.0], [1.0]),
        PolygonCurve.from_masses([1, 0], [0, 1]),
    )
    for order in (pair.then(same), same.then(pair)):
        assert order.advantage == pytest.approx(0.25, rel=1e-12)
        assert order.advantage >= 0.25
    assert pair.then(all_told).advantage == all_told.then(pair).advantage == 1.0


@FEW
@given(pairs(5))
def test_symmetrised_is_the_larger_of_both_directions(pair):
    curve = PolygonCurve.from_masses(*pair).symmetrised()
    mirror = (pair[1], pair[0])
    assert shortfalls(curve, pair, AT) == []
    assert shortfalls(curve, mirror, AT) == []
    for eps in (0.0, 0.1, 0.5, 1.0, 3.0):
        low, high = exp_bracket(F(eps) * (1 - F(1, 10**12)))[0], F(curve.delta(eps))
        assert high <= finite.delta(law(pair[0]), law(pair[1]), low) * (1 + F(TIGHT)) + F(
            1, 10**300
        )


WEIGHTS = [[1.0], [0.5, 0.5], [0.25, 0.75], [1 / 64, 31 / 64, 0.5], [0.0, 1.0]]


@FEW
@given(st.data(), st.sampled_from(WEIGHTS))
def test_mixture_is_the_joint_law(data, weights):
    members = [data.draw(pairs(4)) for _ in weights]
    curve = mixture([PolygonCurve.from_masses(*m) for m in members], weights)
    exact = joint(members, [F(w) for w in weights])
    assert faults(curve, exact, TIGHT, AT) == []


def test_mixture_of_the_wrong_weights_is_caught():
    members = [([F(1), F(0)], [F(0), F(1)]), ([F(1)], [F(1)])]
    curves = [PolygonCurve.from_masses(*m) for m in members]
    exact = joint(members, [F(1, 2), F(1, 2)])
    assert shortfalls(mixture(curves, [0.5, 0.5]), exact, AT) == []
    assert shortfalls(mixture(curves, [0.499999, 0.500001]), exact, AT)


def test_unusable_weights_are_refused():
    one = PolygonCurve.from_masses([1.0], [1.0])
    for weights in ([], [0.5], [0.5, 0.6], [1.5, -0.5], [math.nan, 1.0], 1.0):
        with pytest.raises(InputError, match="weights"):
            mixture([one, one], weights)


@pytest.mark.parametrize(
    "curve", [GaussianCurve(0.0), GaussianCurve(1e-6), GaussianCurve(1.0), GaussianCurve(40.0),
              GaussianCurve(1e6), GaussianCurve(1e200), LaplaceCurve(0.0), LaplaceCurve(0.3),
              LaplaceCurve(20.0), LaplaceCurve(1e4)], ids=str,
)  # fmt: skip
def test_polygons_of_analytic_curves_lie_above_and_close(curve):
    polygon = curve.to_polygon()
    for eps in (0.0, 1e-9, 0.05, 1.0, 7.7, 100.0):
        assert polygon.delta(eps) >= curve.delta(eps) * (1 - 1e-14)
    for alpha in (1e-12, 1e-3, 0.1, 0.5, 0.9):
        assert polygon.tpr(alpha) >= curve.tpr(alpha) * (1 - 1e-12)
        assert polygon.tpr(alpha) <= curve.tpr(alpha) * 1.002 + 1e-12 or curve.tpr(alpha) == 1.0
    assert polygon.dominates(curve)
    assert polygon.advantage == pytest.approx(curve.advantage, rel=TIGHT)
    if curve.advantage < 1:
        assert polygon.is_symmetric


def test_dominates_is_the_order_of_the_attackers():
    weak, strong = GaussianCurve(0.5), GaussianCurve(1.0)
    assert strong.dominates(weak)
    assert not weak.dominates(strong)
    crossing = PolygonCurve.from_masses([0.01, 0.99], [0.0, 1.0])
    assert not weak.dominates(crossing)
    assert not crossing.dominates(weak)
    with pytest.raises(InputError, match="tolerance"):
        strong.dominates(weak, tolerance=-1.0)
