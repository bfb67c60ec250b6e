"""Calibrated parameters meet their targets by independent formulae, and barely."""

import re
from fractions import Fraction

import mpmath as mp
import pytest

from memberbound.dp import (
    AdvantageTarget,
    DpSgd,
    EtaTarget,
    SecurityTarget,
    TprTarget,
    calibrated_epsilon,
    calibrated_noise_multiplier,
    guarantee_from_dp_sgd,
    guarantee_from_epsilon_delta,
)
from memberbound.errors import InputError
from memberbound.verbs.explain import explain
from oracle.readoffs import price
from oracle.real import digits

F = Fraction


def tanh(eps):
    return mp.tanh(mp.mpf(eps) / 2)


def advantage(eps, dlt, adjacency):
    """Neighbour game at the adjacency."""
    return dlt + (1 - mp.mpf(dlt)) * tanh(eps)


def replaced_advantage(eps, dlt, adjacency):
    if adjacency == "replace-one":
        return advantage(eps, dlt, adjacency)
    return 1 - mp.exp(-mp.mpf(eps)) * (1 - 2 * mp.mpf(dlt))


def tpr(eps, dlt, alpha):
    e, d, a = mp.mpf(eps), mp.mpf(dlt), mp.mpf(alpha)
    return min(d + mp.exp(e) * a, 1 - mp.exp(-e) * (1 - a - d))


def leak(eps, dlt, nu, lam):
    gamma = price(nu, lam)
    top = max(gamma, 1 / gamma)
    g = mp.mpf(top.numerator) / top.denominator
    d, e = mp.mpf(dlt), mp.exp(mp.mpf(eps))
    return max(d, 1 - g * (1 - d), d + (1 - d) * (e - g) / (1 + e))


CASES = [
    # target, adjacency, what (eps, delta) attains, what is allowed
    (AdvantageTarget(0.1), a, lambda e, d, a=a: advantage(e, d, a), 0.1)
    for a in ("replace-one", "add-remove")
]
CASES += [
    (EtaTarget(0.05), a, lambda e, d, a=a: replaced_advantage(e, d, a) / 2, 0.05)
    for a in ("replace-one", "add-remove")
]
CASES += [
    (TprTarget(0.05, 0.01), "replace-one", lambda e, d: tpr(e, d, 0.01), 0.05),
    (TprTarget(0.5, 1e-300), "add-remove", lambda e, d: tpr(e, d, 1e-300), 0.5),
    (SecurityTarget(0.9), "replace-one", lambda e, d: advantage(e, d, None), 1 - F(0.9)),
    (SecurityTarget(0.9), "add-remove", lambda e, d: replaced_advantage(e, d, "a"), 1 - F(0.9)),
    (SecurityTarget(0.8, 0.9, 2.0), "replace-one", lambda e, d: leak(e, d, 0.9, 2.0), 1 - F(0.8)),
    (SecurityTarget(0.8, 0.2), "replace-one", lambda e, d: leak(e, d, 0.2, 1.0), 1 - F(0.8)),
]


def meets(epsilon, delta, attained, allowed):
    with digits():
        limit = F(allowed)
        return attained(epsilon, delta) <= mp.mpf(limit.numerator) / limit.denominator


@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.01])
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]} {c[1]}")
def test_calibrated_epsilon_meets_the_target_and_barely(case, delta):
    target, adjacency, attained, allowed = case
    eps = calibrated_epsilon(target, delta, adjacency)
    assert meets(eps, delta, attained, allowed)
    assert not meets(eps * (1 + 1e-9), delta, attained, allowed)  # a broken search is caught
    assert target.excess(guarantee_from_epsilon_delta([(eps, delta)], adjacency)) <= 0


def test_delta_alone_may_exceed_the_target():
    with pytest.raises(InputError, match="delta must be smaller"):
        calibrated_epsilon(AdvantageTarget(0.1), 0.2)
    assert calibrated_epsilon(AdvantageTarget(0.25), 0.25) == 0.0


@pytest.mark.parametrize(
    "target", [AdvantageTarget(0.2), TprTarget(0.1, 0.01), EtaTarget(0.1), SecurityTarget(0.8, 0.6)]
)
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_calibrated_noise_meets_the_target_and_barely(target, adjacency):
    sigma = calibrated_noise_multiplier(target, 1.0, 9, adjacency)
    assert target.excess(guarantee_from_dp_sgd(DpSgd(sigma, 1.0, 9), adjacency)) <= 0
    assert target.excess(guarantee_from_dp_sgd(DpSgd(sigma * (1 - 3e-4), 1.0, 9), adjacency)) > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: AdvantageTarget(0.0),
        lambda: AdvantageTarget(1.0),
        lambda: EtaTarget(0.5),
        lambda: EtaTarget(0.0),
        lambda: TprTarget(0.1, 0.1),
        lambda: TprTarget(0.1, 0.0),
        lambda: SecurityTarget(1.0),
        lambda: SecurityTarget(0.5, nu=1.0),
    ],
)
def test_unusable_targets_are_refused(make):
    with pytest.raises(InputError):
        make()


WRITTEN = [0.01, 0.03, 0.05, 0.07, 0.1, 0.123, 0.15, 0.2, 0.29, 0.3, 0.35, 0.4, 0.45]


def printed_numbers(text):
    """Printed numbers: the accuracy in the sentence and the limits of the table."""
    accuracy = F(re.search(r"membership more than ([0-9.]+) %", text)[1]) / 100
    eta = F(re.search(r"η \(MIP, replace-one\) +≤ ([0-9.]+)", text)[1])
    advantage = F(re.search(r"advantage \(TPR - FPR\) +≤ ([0-9.]+)", text)[1])
    return accuracy, eta, advantage


@pytest.mark.parametrize("value", WRITTEN)
def test_printed_parameters_meet_the_target(value):
    limit = F(str(value))
    for adjacency in ("replace-one", "add-remove"):
        accuracy, eta, _ = printed_numbers(explain(target_eta=value, adjacency=adjacency).summary())
        assert accuracy <= F(1, 2) + limit
        assert eta <= limit
        result = explain(target_advantage=value, adjacency=adjacency)
        accuracy, _, advantage = printed_numbers(result.summary())
        assert accuracy <= (1 + limit) / 2
        assert advantage <= limit
        assert F(result.accuracy_upper) <= (1 + limit) / 2
        assert result.advantage_upper >= value * (1 - 1e-12)  # not more private than requested
    secure = explain(target_security=1 - value)
    assert F(re.search(r"MIS at γ = 1 +≥ ([0-9.]+)", secure.summary())[1]) >= F(str(1 - value)) - (
        F(1, 10**6)
    )
    assert F(secure.security_lower) >= F(str(1 - value))


def test_a_search_that_stops_at_the_double_is_caught():
    """0.05 as a double is above 0.05: with η just there, more than 55 % is allowed."""
    eta = 0.05
    assert F(eta) > F("0.05")
    curve = guarantee_from_epsilon_delta([(0.0, 2 * eta)]).curve
    assert curve.eta <= eta
    assert F(curve.accuracy()) > F("0.55")
