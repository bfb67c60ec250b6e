"""Closed forms: never below 80-digit values of their formulae, close to them, and to the curves."""

import math
from fractions import Fraction
from functools import cache
from random import Random

import mpmath as mp
import pytest

from memberbound.dp import (
    accuracy_from_dp,
    advantage_from_dp,
    epsilon_from_advantage,
    eta_from_dp,
    eta_from_pmp,
    eta_from_pmp_printed,
    guarantee_from_epsilon_delta,
    leak_from_dp,
    leak_from_dp_printed,
    leak_from_information,
    leak_from_pure_dp,
    leak_from_total_variation,
    posterior_odds_from_dp,
    precision_from_dp,
    success_from_pmp,
    tpr_from_dp,
    tpr_from_eta,
)
from memberbound.errors import InputError
from oracle.readoffs import price
from oracle.real import bracket, digits

F = Fraction
TIGHT = F(1, 10**12)
GRAIN = F(1, 10**300)
EPSILONS = (0.0, 5e-324, 1e-300, 1e-18, 1e-9, 1e-3, 0.5, 1.0, 8.0, 40.0, 700.0, 1e5, 1e308)
DELTAS = (0.0, 5e-324, 1e-18, 1e-5, 0.3, 1.0)
PRICES = (
    (0.5, 1.0),
    (0.1, 1.0),
    (0.9, 1.0),
    (0.3, 2.5),
    (1e-12, 1.0),
    (1 - 1e-12, 1.0),
    (1e-310, 1.0),
)


def real(x):
    x = F(x)
    return mp.mpf(x.numerator) / x.denominator


def exp(x):
    """e^x, with an exponent that mpmath can hold."""
    return mp.exp(min(max(real(x), mp.mpf(-(10**7))), mp.mpf(10**7)))


def small_exp(x):
    """e^x - 1 with digits to spare."""
    return mp.expm1(min(real(x), mp.mpf(10**7)))


def grid(seed, *sets, extra=()):
    """All combinations, plus random ones of the given samplers."""
    rng = Random(seed)
    rows = [()]
    for values in sets:
        rows = [(*row, v) for row in rows for v in values]
    return rows + [tuple(draw(rng) for draw in extra) for _ in range(150 if extra else 0)]


def log_uniform(low, high):
    return lambda rng: 10 ** rng.uniform(low, high)


def tanh_half(eps, part=2):
    """tanh(eps/part), positive terms only."""
    return mp.tanh(min(real(eps), mp.mpf(10**4)) / part)


def true_advantage(eps, dlt):
    return real(dlt) + (1 - real(dlt)) * tanh_half(eps)


def true_tpr(alpha, eps, dlt):
    steep = real(dlt) + exp(eps) * real(alpha)
    flat = -small_exp(-F(eps)) + exp(-F(eps)) * (real(alpha) + real(dlt))
    return min(mp.mpf(1), steep, flat)


def true_leak(eps, dlt, nu, lam):
    gamma = price(nu, lam)
    g = real(max(gamma, 1 / gamma))
    middle = real(dlt) + (1 - real(dlt)) * (exp(eps) - g) / (1 + exp(eps))
    return max(mp.mpf(0), real(dlt), 1 - g * (1 - real(dlt)), middle)


def true_printed(eps, dlt, nu, lam):
    gamma = real(price(nu, lam))
    plus = max(mp.mpf(0), small_exp(eps) + 1 - 1 / gamma) - max(mp.mpf(0), 1 - 1 / gamma)
    return min(mp.mpf(1), max(mp.mpf(1), gamma) * (plus + real(dlt)))


def true_pure(eps, nu, lam):
    gamma = price(nu, lam)
    g = real(max(gamma, 1 / gamma))
    eps = min(eps, 1e5)
    if eps == 0 or exp(eps) <= g:
        return mp.mpf(0)
    return (exp(F(eps) / 2) - mp.sqrt(g)) ** 2 / small_exp(eps)


def true_precision(eps, prior):
    return real(prior) / (real(prior) + (1 - real(prior)) * exp(-F(eps)))


PROBABILITY = log_uniform(-320, 0)
CASES = {
    "advantage": (
        advantage_from_dp, true_advantage,
        grid(1, EPSILONS, DELTAS, extra=(log_uniform(-16, 2), PROBABILITY)),
    ),
    "accuracy": (
        accuracy_from_dp, lambda e, d: (1 + true_advantage(e, d)) / 2, grid(2, EPSILONS, DELTAS),
    ),
    "eta": (eta_from_dp, lambda e, d: true_advantage(e, d) / 2, grid(3, EPSILONS, DELTAS)),
    "tpr": (
        tpr_from_dp, true_tpr,
        grid(
            4, (0.0, 5e-324, 1e-300, 1e-20, 0.1, 1.0), EPSILONS, DELTAS,
            extra=(PROBABILITY, log_uniform(-20, 2.8), PROBABILITY),
        ),
    ),
    "leak": (
        leak_from_dp, true_leak,
        [
            (*row[:2], *at)
            for row in grid(5, EPSILONS, DELTAS, extra=(log_uniform(-16, 2), PROBABILITY))
            for at in PRICES
        ],
    ),
    "printed leak": (
        leak_from_dp_printed, true_printed,
        [
            (*row[:2], *at)
            for row in grid(6, EPSILONS, DELTAS, extra=(log_uniform(-16, 2), PROBABILITY))
            for at in PRICES
        ],
    ),
    "pure leak": (
        leak_from_pure_dp, true_pure,
        [(row[0], *at) for row in grid(7, EPSILONS, extra=(log_uniform(-16, 2),)) for at in PRICES],
    ),
    "information": (
        leak_from_information,
        lambda x: min(mp.sqrt(real(x) / 2), mp.sqrt(-small_exp(-F(x)))),
        grid(8, EPSILONS, extra=(log_uniform(-320, 2),)),
    ),
    "success": (success_from_pmp, lambda e: 1 / (1 + exp(-F(e))), grid(9, EPSILONS)),
    "eta from PMP": (eta_from_pmp, lambda e: tanh_half(e) / 2, grid(10, EPSILONS)),
    "printed eta": (eta_from_pmp_printed, lambda e: -small_exp(-F(e)) / 2, grid(11, EPSILONS)),
    "precision": (
        precision_from_dp, true_precision,
        grid(12, EPSILONS, (5e-324, 1e-310, 1e-12, 0.3, 1 - 1e-12),
             extra=(log_uniform(-3, 2.9), PROBABILITY)),
    ),
    "odds": (
        lambda e, p: posterior_odds_from_dp(e, p)[1],
        lambda e, p: real(p) / (1 - real(p)) * exp(e),
        grid(13, EPSILONS[:-2], (5e-324, 1e-310, 1e-260, 0.3, 1 - 1e-12),
             extra=(log_uniform(-3, 2.9), PROBABILITY)),
    ),
}  # fmt: skip


@cache
def truths(name):
    """(arguments, low, high) of every case."""
    _, truth, rows = CASES[name]
    found = []
    for row in rows:
        # Numbers down to 1e-324 stand next to 1, or are multiplied and then do.
        beside = sum(-math.log10(number) for number in row if 0 < number < 1)
        with digits(min(400, 80 + int(beside))):
            found.append((row, *bracket(truth(*row))))
    return found


def low(name, function):
    """Arguments at which the function is below the formula."""
    said = ((row, function(*row), least) for row, least, _ in truths(name))
    return [row for row, value, least in said if math.isfinite(value) and F(value) < least]


@pytest.mark.parametrize("name", CASES)
def test_never_below_the_formula(name):
    assert low(name, CASES[name][0]) == []


@pytest.mark.parametrize("name", CASES)
def test_close_to_the_formula(name):
    # where the price nearly cancels e^eps its rounding is all there is
    near = F(1, 10**14) if "leak" in name else F(0)
    for row, _, high in truths(name):
        said = CASES[name][0](*row)
        if high > F(1.7e308):
            assert said == math.inf
        else:
            assert F(said) <= high * (1 + TIGHT) + GRAIN + near, row


@pytest.mark.parametrize("name", CASES)
def test_a_little_less_is_caught(name):
    assert low(name, lambda *row: CASES[name][0](*row) * (1 - 1e-11))


def test_textbook_arithmetic_is_caught():
    """The formulae as they are printed, in doubles."""
    naive_tpr = low(
        "tpr",
        lambda a, e, d: min(1.0, d + math.exp(min(e, 700)) * a, 1 - math.exp(-e) * (1 - a - d)),
    )
    naive_leak = low(
        "leak",
        lambda e, d, nu, lam: (
            d + (1 - d) * (1 - math.exp(-e)) / (1 + math.exp(-e)) if nu == 0.5 else 1.0
        ),
    )
    naive_odds = low("odds", lambda e, p: math.exp(min(700.0, math.log(p) - math.log1p(-p) + e)))
    assert len(naive_tpr) > 10
    assert len(naive_leak) > 10
    assert len(naive_odds) > 10


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(e, d) for e in EPSILONS[3:-1] for d in DELTAS[:-1]]
)
def test_closed_forms_agree_with_the_curve(epsilon, delta):
    curve = guarantee_from_epsilon_delta([(epsilon, delta)]).curve
    assert advantage_from_dp(epsilon, delta) == pytest.approx(
        curve.advantage, rel=1e-12, abs=1e-300
    )
    assert accuracy_from_dp(epsilon, delta) == pytest.approx(curve.accuracy(), rel=1e-12)
    assert eta_from_dp(epsilon, delta) == pytest.approx(curve.eta, rel=1e-12, abs=1e-300)
    for alpha in (0.0, 1e-12, 0.01, 0.6):
        assert tpr_from_dp(alpha, epsilon, delta) == pytest.approx(
            curve.tpr(alpha), rel=1e-11, abs=1e-300
        )
    for nu, lam in PRICES[:5]:
        assert leak_from_dp(epsilon, delta, nu, lam) == pytest.approx(
            curve.leak(nu, lam), rel=1e-11, abs=1e-14
        )
    if delta == 0.0:
        assert precision_from_dp(epsilon, 0.2) == pytest.approx(curve.precision(0.2), rel=1e-12)


def test_printed_forms_are_never_below_the_sharp_ones():
    for eps in EPSILONS:
        assert eta_from_pmp(eps) <= eta_from_pmp_printed(eps) * (1 + 1e-14) + 5e-324
        for nu, lam in PRICES:
            for dlt in DELTAS:
                sharp = leak_from_dp(eps, dlt, nu, lam)
                assert sharp <= leak_from_dp_printed(eps, dlt, nu, lam) * (1 + 1e-14) + 1e-14
            assert leak_from_pure_dp(eps, nu, lam) <= leak_from_dp(eps, 0.0, nu, lam) * (1 + 1e-13)


def test_tanh_forms():
    for eps in (1e-9, 0.1, 1.0, 8.0):
        assert leak_from_dp(eps) == pytest.approx(math.tanh(eps / 2), rel=1e-13)
        assert leak_from_pure_dp(eps) == pytest.approx(math.tanh(eps / 4), rel=1e-13)
        assert eta_from_pmp(eps) == pytest.approx(math.tanh(eps / 2) / 2, rel=1e-13)
        assert success_from_pmp(eps) == pytest.approx((1 + math.tanh(eps / 2)) / 2, rel=1e-13)


def test_lower_odds_are_below_the_formula():
    with digits():
        for eps in (0.0, 1e-9, 1.0, 300.0, 640.0, 720.0):
            for prior in (5e-324, 1e-260, 0.3, 1 - 1e-12):
                said = F(posterior_odds_from_dp(eps, prior)[0])
                exact = bracket(real(prior) / (1 - real(prior)) * exp(-F(eps)))[1]
                assert said <= exact
                assert said >= exact * (1 - TIGHT) - GRAIN
    assert posterior_odds_from_dp(1e308, 0.5) == (0.0, math.inf)


def test_total_variation_bounds_the_leak_itself():
    assert leak_from_total_variation(0.3) == 0.3
    assert tpr_from_eta(0.1, 0.2) >= 0.5
    assert tpr_from_eta(0.1, 0.2) == pytest.approx(0.5, rel=1e-14)
    assert tpr_from_eta(0.9, 0.2) == 1.0


@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.1])
def test_epsilon_from_advantage_holds_when_evaluated_again(delta):
    for advantage in (delta + 1e-9, 0.2, 0.5, 0.999):
        eps = epsilon_from_advantage(advantage, delta)
        assert advantage_from_dp(eps, delta) <= advantage
        with digits():
            assert bracket(true_advantage(eps, delta))[0] <= F(advantage)
            assert true_advantage(eps * (1 + 1e-6) + 1e-12, delta) > advantage
    assert epsilon_from_advantage(0.3, 0.3) == 0.0
    with pytest.raises(InputError, match="delta must be at most"):
        epsilon_from_advantage(0.05, 0.1)


@pytest.mark.parametrize(
    "call",
    [
        lambda: advantage_from_dp(-1.0),
        lambda: advantage_from_dp(1.0, 2.0),
        lambda: tpr_from_dp(-0.1, 1.0),
        lambda: leak_from_dp(math.inf),
        lambda: leak_from_dp(1.0, 0.0, nu=0.0),
        lambda: leak_from_pure_dp(1.0, lam=-1.0),
        lambda: leak_from_information(-0.1),
        lambda: leak_from_total_variation(1.1),
        lambda: posterior_odds_from_dp(1.0, 0.0),
        lambda: precision_from_dp(1.0, 1.5),
        lambda: success_from_pmp(math.nan),
        lambda: tpr_from_eta(0.1, -0.1),
        lambda: epsilon_from_advantage(1.0),
    ],
)
def test_unusable_arguments_are_refused(call):
    with pytest.raises(InputError):
        call()
