"""Guarantees as curves, and the conversion from add-remove to replace-one."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memberbound.curve import GaussianCurve, LaplaceCurve, PolygonCurve
from memberbound.dp import (
    DpGuarantee,
    DpSgd,
    guarantee_from_dp_sgd,
    guarantee_from_epsilon_delta,
    guarantee_from_gaussian_mechanism,
    guarantee_from_gdp,
)
from memberbound.errors import InputError
from oracle import finite
from oracle.pairs import chained, independent_pairs
from oracle.readoffs import QUICK, faults, shortfalls
from oracle.real import bracket, exp_bracket, gaussian_hockey_stick, rounded_up

F = Fraction


@settings(max_examples=20, deadline=None)
@given(independent_pairs(5), st.lists(st.floats(0, 6), min_size=1, max_size=5))
def test_true_statements_give_a_curve_above_the_pair(pair, epsilons):
    p, q = dict(enumerate(pair[0])), dict(enumerate(pair[1]))
    points = [(e, rounded_up(finite.delta(p, q, exp_bracket(e)[0]))) for e in epsilons]
    curve = guarantee_from_epsilon_delta(points).curve
    assert shortfalls(curve, pair, QUICK) == []
    assert shortfalls(curve, (pair[1], pair[0]), QUICK) == []


def test_replacement_is_the_chain_through_the_smaller_world():
    """Worlds: out has x', middle neither, in has x; the exact chain of two rational ROCs."""
    pair = [F(1, 2), F(1, 3), F(1, 6)], [F(1, 4), F(1, 4), F(1, 2)]
    guarantee = DpGuarantee(PolygonCurve.from_masses(*pair), "add-remove", "pair")
    exact = chained((pair[1], pair[0]), pair)
    result = guarantee.replaced()
    assert result.adjacency == "replace-one"
    assert faults(result.curve, exact, 1e-10, QUICK) == []
    wrong_way = guarantee.curve.then(guarantee.curve.reversed())
    for broken in (wrong_way, guarantee.curve):
        assert shortfalls(broken, exact, QUICK)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 0.0), (1.0, 1e-5), (2.0, 0.01)])
def test_replacement_is_below_the_textbook_point(epsilon, delta):
    chain = guarantee_from_epsilon_delta([(epsilon, delta)], "add-remove").replaced().curve
    point = (2 * epsilon, (1 + math.exp(epsilon)) * delta)
    assert guarantee_from_epsilon_delta([point]).curve.dominates(chain)
    assert chain.delta(2 * epsilon) <= point[1] * (1 + 1e-13)
    assert chain.advantage == pytest.approx(1 - math.exp(-epsilon) * (1 - 2 * delta), rel=1e-12)


def test_replace_one_stays_and_sharper_curves_win():
    guarantee = guarantee_from_gdp(1.0)
    assert guarantee.replaced() is guarantee
    sharper = DpGuarantee(GaussianCurve(1.0), "add-remove", "x", sharper=GaussianCurve(1.5))
    assert sharper.replaced().curve == GaussianCurve(1.5)
    assert guarantee_from_gdp(0.7, "add-remove").replaced().curve == GaussianCurve(1.4)
    laplace = DpGuarantee(LaplaceCurve(0.7), "add-remove", "Laplace mechanism")
    twice = laplace.replaced().curve
    assert isinstance(twice, LaplaceCurve)
    assert twice.reach == pytest.approx(1.4, rel=1e-14)


@pytest.mark.parametrize(
    ("sigma", "sensitivity", "releases"), [(3.0, 1.0, 1), (0.7, 0.1, 7), (11.0, 3.0, 1000)]
)
def test_gaussian_mechanism_is_never_below_the_exact_shift(sigma, sensitivity, releases):
    curve = guarantee_from_gaussian_mechanism(sigma, sensitivity, releases).curve
    assert isinstance(curve, GaussianCurve)
    assert F(curve.mu) ** 2 >= F(sensitivity) ** 2 * releases / F(sigma) ** 2
    assert curve.mu == pytest.approx(math.sqrt(releases) * sensitivity / sigma, rel=1e-14)
    exact = math.sqrt(releases) * sensitivity / sigma
    assert F(curve.delta(0.5)) >= bracket(gaussian_hockey_stick(exact * (1 - 1e-15), 0.5))[0]


def test_unusable_statements_are_refused():
    for call in (
        lambda: guarantee_from_epsilon_delta([]),
        lambda: guarantee_from_epsilon_delta([(-1.0, 0.0)]),
        lambda: guarantee_from_epsilon_delta([(1.0, 1.1)]),
        lambda: guarantee_from_epsilon_delta([(1.0, 0.0)], "sideways"),
        lambda: guarantee_from_gdp(-1.0),
        lambda: guarantee_from_gaussian_mechanism(0.0),
        lambda: guarantee_from_gaussian_mechanism(1.0, -1.0),
        lambda: guarantee_from_gaussian_mechanism(1.0, 1.0, 0),
        lambda: guarantee_from_gaussian_mechanism(1.0, 1.0, 1.5),
        lambda: guarantee_from_gaussian_mechanism(1e-300, 1e300),
        lambda: guarantee_from_dp_sgd(DpSgd(1.0, 1.0, 1), "sideways"),
    ):
        with pytest.raises(InputError):
            call()
