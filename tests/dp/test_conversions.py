"""Conversions of (ε, δ)-DP: curves and X11 are at or slightly above 80-digit values."""

import math
from fractions import Fraction
from functools import cache
from random import Random

import mpmath as mp
import pytest

from memberbound.dp import guarantee_from_epsilon_delta, leak_from_pure_dp
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


def true_pure(eps, nu, lam):
    gamma = price(nu, lam)
    g = real(max(gamma, 1 / gamma))
    eps = min(eps, 1e5)
    if eps == 0 or exp(eps) <= g:
        return mp.mpf(0)
    return (exp(F(eps) / 2) - mp.sqrt(g)) ** 2 / small_exp(eps)


def true_precision(eps, prior):
    return real(prior) / (real(prior) + (1 - real(prior)) * exp(-F(eps)))


def curve(epsilon, delta=0.0):
    return guarantee_from_epsilon_delta([(epsilon, delta)]).curve


PROBABILITY = log_uniform(-320, 0)
PAIRS = grid(1, EPSILONS, DELTAS, extra=(log_uniform(-16, 2), PROBABILITY))
CASES = {
    "advantage": (lambda e, d: curve(e, d).advantage, true_advantage, PAIRS),
    "accuracy": (
        lambda e, d: curve(e, d).accuracy(), lambda e, d: (1 + true_advantage(e, d)) / 2, PAIRS,
    ),
    "eta": (lambda e, d: curve(e, d).eta, lambda e, d: true_advantage(e, d) / 2, PAIRS),
    "tpr": (
        lambda a, e, d: curve(e, d).tpr(a), true_tpr,
        grid(
            4, (0.0, 5e-324, 1e-300, 1e-20, 0.1, 1.0), EPSILONS, DELTAS,
            extra=(PROBABILITY, log_uniform(-20, 2.8), PROBABILITY),
        ),
    ),
    "leak": (
        lambda e, d, nu, lam: curve(e, d).leak(nu, lam), true_leak,
        [(*row, *at) for row in PAIRS for at in PRICES],
    ),
    "pure leak": (
        leak_from_pure_dp, true_pure,
        [(row[0], *at) for row in grid(7, EPSILONS, extra=(log_uniform(-16, 2),)) for at in PRICES],
    ),
    "precision": (
        lambda e, prior: curve(e).precision(prior), true_precision,
        grid(12, EPSILONS, (5e-324, 1e-310, 1e-12, 0.3, 1 - 1e-12),
             extra=(log_uniform(-3, 2.9), PROBABILITY)),
    ),
}  # fmt: skip


@cache
def truths(name):
    """(arguments, low, high) of every case."""
    _, truth, rows = CASES[name]
    cases = []
    for row in rows:
        # Numbers down to 1e-324 are added to 1, some after a multiplication.
        beside = sum(-math.log10(number) for number in row if 0 < number < 1)
        with digits(min(400, 80 + int(beside))):
            cases.append((row, *bracket(truth(*row))))
    return cases


def low(name, function):
    """Arguments at which the function is below the formula."""
    values = ((row, function(*row), least) for row, least, _ in truths(name))
    return [row for row, value, least in values if math.isfinite(value) and F(value) < least]


@pytest.mark.parametrize("name", CASES)
def test_never_below_the_formula(name):
    assert low(name, CASES[name][0]) == []


@pytest.mark.parametrize("name", CASES)
def test_close_to_the_formula(name):
    # where the price nearly cancels e^eps its rounding is all there is
    near = F(1, 10**14) if "leak" in name else F(0)
    for row, _, high in truths(name):
        assert F(CASES[name][0](*row)) <= high * (1 + TIGHT) + GRAIN + near, row


@pytest.mark.parametrize("name", CASES)
def test_a_little_less_is_caught(name):
    assert low(name, lambda *row: CASES[name][0](*row) * (1 - 1e-11))


@pytest.mark.parametrize(
    "call",
    [
        lambda: curve(-1.0),
        lambda: curve(1.0, 2.0),
        lambda: curve(1.0).tpr(-0.1),
        lambda: curve(1.0).leak(0.0),
        lambda: leak_from_pure_dp(math.inf),
        lambda: leak_from_pure_dp(1.0, lam=-1.0),
    ],
)
def test_unusable_arguments_are_refused(call):
    with pytest.raises(InputError):
        call()
