"""Guarantees as curves, and the conversion from add-remove to replace-one."""

import math
from fractions import Fraction

import pytest

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
from oracle.pairs import chain
from oracle.readoffs import QUICK, faults, shortfalls
from oracle.real import bracket, gaussian_hockey_stick

F = Fraction


def test_replacement_is_the_chain_through_the_smaller_world():
    """Worlds: out has x', middle neither, in has x; the exact chain of two rational ROCs."""
    pair = [F(1, 2), F(1, 3), F(1, 6)], [F(1, 4), F(1, 4), F(1, 2)]
    guarantee = DpGuarantee(PolygonCurve.from_masses(*pair), "add-remove", "pair")
    exact = chain((pair[1], pair[0]), pair)
    result = guarantee.replaced()
    assert result.adjacency == "replace-one"
    assert faults(result.curve, exact, 1e-10, QUICK) == []
    wrong_way = guarantee.curve.then(guarantee.curve.reversed())
    for broken in (wrong_way, guarantee.curve):
        assert shortfalls(broken, exact, QUICK)


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
