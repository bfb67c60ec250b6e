"""The Gaussian curve: read-offs against 80-digit arithmetic, through identities of the pair."""

import math
from fractions import Fraction
from random import Random

import pytest

from memberbound.curve import GaussianCurve
from memberbound.errors import InputError
from oracle.readoffs import price
from oracle.real import bracket, exp_bracket, gaussian_hockey_stick, gaussian_tpr

F = Fraction
TIGHT = F(1, 10**10)
MUS = (1e-8, 1e-3, 0.2, 1.0, 4.0, 40.0)


def stick_at(mu, gamma):
    """(low, high) of the hockey-stick at a rational gamma >= 1; it falls with gamma."""
    log = math.log(gamma)
    below, above = log - 8e-15 * (1 + log), log + 8e-15 * (1 + log)
    assert exp_bracket(above)[0] >= gamma
    assert below <= 0 or exp_bracket(below)[1] <= gamma
    low = bracket(gaussian_hockey_stick(mu, above))[0]
    return low, bracket(gaussian_hockey_stick(mu, max(0.0, below)))[1]


def readings(curve):
    """(name, said, low, high) with upper bounds only."""
    mu = curve.mu
    for eps in (0.0, 1e-3, 0.5, 3.0, 30.0, 700.0):
        low, high = bracket(gaussian_hockey_stick(mu, eps))
        for side in ("forward", "backward", "both"):
            yield "delta", F(curve.delta(eps, side)), low, high
    low, high = bracket(gaussian_hockey_stick(mu, 0.0))
    yield "advantage", F(curve.advantage), low, high
    yield "eta", F(curve.eta), low / 2, high / 2
    for alpha in (1e-320, 1e-100, 1e-5, 0.01, 0.5, 0.99):
        low, high = bracket(gaussian_tpr(mu, alpha))
        yield "tpr", F(curve.tpr(alpha)), low, high
        for prior in (0.5, 1e-12, 1 - 1e-12):
            a, b = F(prior), (1 - F(prior)) * F(alpha)
            yield (
                "precision" if alpha > 1e-300 else "precision in the last doubles",
                F(curve.precision(prior, alpha)),
                a * low / (a * low + b),
                a * high / (a * high + b),
            )
    for prior in (0.5, 0.1, 0.8, 1e-12, 1 - 1e-12):
        base, weight = max(F(prior), 1 - F(prior)), min(F(prior), 1 - F(prior))
        low, high = stick_at(mu, base / weight)
        yield "accuracy", F(curve.accuracy(prior)), base + weight * low, base + weight * high
    for nu, lam in ((0.5, 1.0), (0.1, 1.0), (0.9, 0.2), (1e-9, 1.0)):
        gamma = price(nu, lam)
        low, high = stick_at(mu, max(gamma, 1 / gamma))
        yield "leak", F(curve.leak(nu, lam)), low, high
        yield "insecurity", 1 - F(curve.security(nu, lam)), low, high + F(1, 10**15)


def unsound(curve):
    return [name for name, value, low, _ in readings(curve) if value < low]


def loose(curve):
    grain = F(1, 10**290)
    return [
        name
        for name, value, _, high in readings(curve)
        if value > high * (1 + TIGHT) + grain and name != "precision in the last doubles"
    ]


@pytest.mark.parametrize("mu", MUS)
def test_every_read_off_is_sound(mu):
    assert unsound(GaussianCurve(mu)) == []


@pytest.mark.parametrize("mu", MUS)
def test_every_read_off_is_tight(mu):
    assert loose(GaussianCurve(mu)) == []


class TooSmall(GaussianCurve):
    """Half the true shift would be caught, and so would a millionth less."""

    def _profile(self, epsilon, *, forward):
        return GaussianCurve(self.mu * (1 - 1e-9))._profile(epsilon, forward=forward)

    def _tpr(self, fpr):
        return GaussianCurve(self.mu * (1 - 1e-9))._tpr(fpr)


def test_a_smaller_shift_is_caught_in_every_read_off():
    caught = {name for mu in (1e-3, 1.0) for name in unsound(TooSmall(mu))}
    assert caught >= {
        "delta", "advantage", "eta", "tpr", "precision", "accuracy", "leak", "insecurity",
    }  # fmt: skip


def test_epsilon_is_safe_tight_and_inverse_to_delta():
    rng = Random(5)
    for _ in range(40):
        curve = GaussianCurve(10 ** rng.uniform(-6, 1.6))
        delta = 10 ** rng.uniform(-300, -0.1)
        eps = curve.epsilon(delta)
        assert curve.delta(eps) <= delta
        assert bracket(gaussian_hockey_stick(curve.mu, eps))[0] <= F(delta)
        if eps > 0:
            before = eps * (1 - 1e-9)
            assert bracket(gaussian_hockey_stick(curve.mu, before))[1] > F(delta) * (1 - TIGHT)
            assert curve.epsilon(curve.delta(eps)) <= eps


@pytest.mark.parametrize("mu", [1e-300, 1e-8, 1.0, 50.0, 1e6, 1e200])
def test_extreme_arguments(mu):
    curve = GaussianCurve(mu)
    assert curve.epsilon(0.0) == math.inf
    assert curve.epsilon(1.0) == 0.0
    assert 0 < curve.delta(1e308) <= 1
    assert curve.tpr(0.0) == curve.certain_mass() == 0.0
    assert curve.tpr(1.0) == 1.0
    assert curve.precision(0.3) == 1.0
    smallest = curve.epsilon(5e-324)
    assert smallest == math.inf or curve.delta(smallest) <= 5e-324


def test_no_shift_tells_nothing():
    curve = GaussianCurve(0.0)
    assert curve.advantage == curve.delta(3.0) == curve.epsilon(0.0) == curve.leak() == 0.0
    assert curve.tpr(0.3) == 0.3
    assert curve.security() == 1.0
    assert curve.knots().tolist() == [0.0]


@pytest.mark.parametrize("mu", [-1.0, math.nan, math.inf, "much"])
def test_unusable_shifts_are_refused(mu):
    with pytest.raises(InputError, match="mu must be"):
        GaussianCurve(mu)
