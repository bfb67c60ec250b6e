"""Renyi bounds: above finite pairs with exact divergences, and above Gaussian pairs."""

import math
from fractions import Fraction
from random import Random

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings

from memberbound.curve import GaussianCurve
from memberbound.dp import conversions as renyi
from memberbound.dp import guarantee_from_rdp, guarantee_from_zcdp
from memberbound.errors import InputError
from oracle.claims import assert_holds
from oracle.pairs import independent_pairs
from oracle.readoffs import QUICK, shortfalls
from oracle.real import bracket, digits, exactly, gaussian_hockey_stick, rounded_up

F = Fraction
ORDERS = (1.001, 1.5, 2.0, 3.7, 10.0, 64.0)


def divergence(p, q, order):
    """D_order(p||q) from above as a double, inf where an outcome is impossible under q only."""
    with digits(750):  # masses of 1e-320 beside 1
        a, total = mp.mpf(order), mp.mpf(0)
        for x, y in zip(p, q, strict=True):
            if x and not y:
                return math.inf
            if x:
                mx, my = (mp.mpf(v.numerator) / v.denominator for v in (x, y))
                total += mx * (mx / my) ** (a - 1)
        value = exactly(mp.log(total) / (a - 1)) * (1 + F(1, 10**40))
        return rounded_up(max(F(0), value))


def values(pair):
    p, q = pair
    return [max(divergence(p, q, a), divergence(q, p, a)) for a in ORDERS]


@settings(max_examples=20, deadline=None)
@given(independent_pairs(5))
def test_curve_is_above_every_pair_with_these_divergences(pair):
    curve = guarantee_from_rdp(ORDERS, values(pair)).curve
    assert shortfalls(curve, pair, QUICK) == []


def close_pairs():
    """Pairs whose total variation is nearly what their divergence allows."""
    for t in (F(1, 100), F(1, 10), F(1, 3)):
        yield [F(1, 2) + t, F(1, 2) - t], [F(1, 2) - t, F(1, 2) + t]
        yield (
            [F(1, 10**4), 1 - F(1, 10**4)],
            [F(1, 10**4) * (1 + 30 * t), 1 - F(1, 10**4) * (1 + 30 * t)],
        )


def test_smaller_divergences_are_caught():
    def covers(pair, shrink=1.0):
        curve = guarantee_from_rdp(ORDERS, [v * shrink for v in values(pair)]).curve
        return shortfalls(curve, pair, QUICK) == []

    assert_holds(
        covers,
        [(pair,) for pair in close_pairs()],
        broken={"a quarter": lambda pair: covers(pair, 0.25)},
    )


def formula(order, tau, eps):
    """Canonne, Kamath and Steinke, Prop. 12, in high precision."""
    with digits():
        a, t, e = mp.mpf(order), mp.mpf(tau), mp.mpf(eps)
        return min(mp.mpf(1), mp.exp((a - 1) * (t - e)) / (a - 1) * (1 - 1 / a) ** a)


def below_formula(function):
    rng = Random(12)
    bad = []
    for _ in range(300):
        order = 1 + 10 ** rng.uniform(-6, 4)
        tau = 10 ** rng.uniform(-6, 2)
        eps = tau + rng.uniform(-1, 600) / (order - 1) * rng.random()
        if eps >= 0 and F(function(order, tau, eps)) < bracket(formula(order, tau, eps))[0]:
            bad.append((order, tau, eps))
    return bad


def delta(order, tau, eps):
    return float(renyi._delta(np.array([order]), np.array([tau]), np.array([eps]))[0])


def test_conversion_is_never_below_the_formula():
    assert below_formula(delta) == []


def test_conversion_as_printed_is_caught_in_doubles():
    def printed(a, t, e):
        return min(1.0, math.exp((a - 1) * (t - e)) / (a - 1) * (1 - 1 / a) ** a)

    assert len(below_formula(printed)) > 20


def test_conversion_is_tight_where_it_can_be():
    for order, tau, eps in ((1.001, 0.3, 2.0), (2.0, 0.1, 3.0), (50.0, 1.0, 4.0)):
        assert delta(order, tau, eps) == pytest.approx(float(formula(order, tau, eps)), rel=1e-11)


@pytest.mark.parametrize("mu", [1e-4, 0.3, 1.0, 5.0])
def test_zcdp_is_above_the_gaussian_pair(mu):
    """N(mu,1) against N(0,1) has D_a = a mu^2/2 exactly."""
    rho = mu * mu / 2 * (1 + 1e-15)
    curve = guarantee_from_zcdp(rho).curve
    for eps in (0.0, 1e-6, 0.1, 1.0, 5.0, 20.0):
        assert F(curve.delta(eps)) >= bracket(gaussian_hockey_stick(mu, eps))[0]
    truth = GaussianCurve(mu)
    for alpha in (1e-6, 0.01, 0.3, 0.8):
        assert curve.tpr(alpha) >= truth.tpr(alpha) * (1 - 1e-12)
    assert curve.advantage <= min(1.0, mu / 2) * 1.01
    assert curve.epsilon(1e-6) <= 1.4 * truth.epsilon(1e-6) + 1e-9
    assert curve.epsilon(0.0) == math.inf  # zCDP allows certain outcomes of tiny mass


def test_zcdp_from_half_the_shift_is_caught():
    curve = guarantee_from_zcdp(0.5 * 0.7**2 / 2).curve
    assert any(
        F(curve.delta(eps)) < bracket(gaussian_hockey_stick(0.7, eps))[0] for eps in (0.1, 1.0, 3.0)
    )


def test_limits():
    assert guarantee_from_zcdp(0.0).curve.advantage == 0.0
    assert guarantee_from_rdp([2.0], [math.inf]).curve.advantage == 1.0
    assert guarantee_from_rdp([2.0, 3.0], [1e300, 1e308]).curve.advantage == 1.0
    assert guarantee_from_rdp([2.0, 3.0], [math.inf, 0.1]).curve.advantage < 0.3
    assert guarantee_from_rdp([2.0], [5e-324]).curve.advantage > 0
    assert guarantee_from_rdp([1e20, 1e300], [0.5, 0.6]).curve.delta(0.7) > 0
    # an almost infinite order is almost pure DP
    curve = guarantee_from_rdp([1e12], [1.0]).curve
    assert curve.epsilon(1e-9) == pytest.approx(1.0, rel=1e-3)
    assert guarantee_from_zcdp(0.3, "add-remove").adjacency == "add-remove"


def test_monotone_in_rho():
    assert guarantee_from_zcdp(0.2).curve.dominates(guarantee_from_zcdp(0.1).curve)


@pytest.mark.parametrize(
    ("orders", "taus"),
    [([], []), ([2.0], [0.1, 0.2]), ([1.0], [0.1]), ([math.inf], [0.1]), ([2.0], [-0.1]),
     ([2.0], [math.nan]), (2.0, 0.1)],
)  # fmt: skip
def test_unusable_divergences_are_refused(orders, taus):
    with pytest.raises(InputError):
        guarantee_from_rdp(orders, taus)
