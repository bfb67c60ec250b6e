"""Curves made of stated numbers: sums, halves and shares of them, in rationals."""

import math
from dataclasses import dataclass
from fractions import Fraction
from random import Random

import mpmath as mp
import numpy as np
import pytest

from memberbound.curve.base import TradeoffCurve, posterior_upper, price_exponent
from memberbound.curve.families import GaussianCurve, LaplaceCurve, SlackCurve
from memberbound.dp.loss_lattice import ForwardProfile

F = Fraction


@dataclass(frozen=True)
class Stated(TradeoffCurve):
    """A curve with one hockey-stick up to an ε and none beyond, and one TPR."""

    stick: float
    rate: float = 0.5
    certain: float = 0.0
    asked: tuple = ()
    end: float = 100.0

    def _profile(self, epsilon, *, forward):
        return np.where(np.asarray(epsilon) < self.end, self.stick, 0.0)

    def _tpr(self, fpr):
        self.asked[:] = fpr.tolist()
        return np.full(np.shape(fpr), self.rate)

    def certain_mass(self):
        return self.certain

    def reversed(self):
        return self

    @property
    def is_symmetric(self):
        return True

    def knots(self):
        return np.zeros(1)


def numbers(seed, count=300):
    """Ordinary doubles and the smallest ones."""
    rng = Random(seed)
    for _ in range(count):
        yield rng.random() / 4, rng.random() / 4
        yield 10 ** rng.uniform(-18, -1), 10 ** rng.uniform(-18, -1)
        yield rng.randint(1, 9) * 5e-324, rng.randint(0, 9) * 5e-324


def test_a_hockey_stick_grows_by_the_slack_of_either_world():
    rng = Random(1)
    for slack, stick in numbers(1):
        epsilon = rng.choice([0.0, rng.uniform(0, 3)])
        raised = SlackCurve(Stated(stick), slack)._raised(np.array([epsilon]), forward=True)[0]
        with mp.workdps(60):
            exact = mp.mpf(stick) + (1 + mp.exp(mp.mpf(epsilon))) * mp.mpf(slack)
            assert min(exact, mp.mpf(1)) <= raised
            assert raised <= exact * (1 + mp.mpf("1e-14")) + mp.mpf("2e-323")


def test_a_tiny_slack_counts_at_a_large_epsilon():
    """An outcome of out-mass s and in-mass 1/2 may be certain, at every ε."""
    for slack in (1e-306, 1.6e-310, 5e-324):
        curve = SlackCurve(LaplaceCurve(-math.log(2 * slack)), slack)
        for epsilon in (700.0, 709.0, 720.0, 760.0):
            assert curve.delta(epsilon) > 0.49, (slack, epsilon)


def test_a_rate_grows_by_the_slack_before_and_after():
    rng = Random(2)
    for slack, rate in numbers(2):
        fpr, asked = rng.choice([rng.random() / 2, 10 ** rng.uniform(-20, -1)]), []
        found = F(SlackCurve(Stated(0.0, rate, asked=asked), slack).tpr(fpr))
        for value, exact in ((F(asked[0]), F(fpr) + F(slack)), (found, F(rate) + F(slack))):
            assert exact <= value <= exact * (1 + F(1, 2**51)) + F(1, 10**322)


def test_shifts_and_slacks_of_a_group_add_up_from_above():
    """k·μ, and s_k = f(s_(k-1) + s) + s, in rationals."""
    rng = Random(9)
    for _ in range(200):
        mu, records = rng.uniform(0, 3), rng.randint(1, 30)
        exact = records * F(mu)
        assert exact <= F(GaussianCurve(mu).group(records).mu) <= exact * (1 + F(1, 10**14))
    for slack, rate in numbers(9):
        if not slack:
            continue
        asked = []
        curve = SlackCurve(Stated(0.0, rate, asked=asked), slack)
        # A curve with the same answer for every rate; records the rate and the added slack.
        object.__setattr__(curve.base, "group", lambda _, base=curve.base: base)
        found = F(curve.group(2).slack)
        for value, exact in ((F(asked[0]), 2 * F(slack)), (found, F(rate) + F(slack))):
            assert exact <= value <= exact * (1 + F(1, 2**51)) + F(1, 10**322)
        curve.group(3)
        exact = F(rate) + 2 * F(slack)
        assert exact <= F(asked[0]) <= exact * (1 + F(1, 2**50)) + F(1, 10**322)


def test_the_certain_mass_is_the_rate_at_the_slack():
    assert SlackCurve(Stated(0.0, certain=0.3), 0.0).certain_mass() == 0.3
    for slack, rate in numbers(3):
        if slack:
            exact = F(rate) + F(slack)
            found = F(SlackCurve(Stated(0.0, rate, asked=[]), slack).certain_mass())
            assert exact <= found <= exact * (1 + F(1, 2**51)) + F(1, 10**322)


def test_half_of_an_advantage_is_added_from_above():
    for stick, other in numbers(4):
        for value in (stick, other, min(1.0, 2 * stick)):
            exact = F(1, 2) + F(value) / 2
            if value:
                assert exact <= F(Stated(value).accuracy()) <= exact + F(1, 2**52)


def test_accuracy_and_security_are_rounded_outward():
    rng = Random(10)
    for stick, other in numbers(10):
        prior = rng.choice([rng.uniform(0.01, 0.99), 2.0 ** -rng.randint(2, 6)])
        for value in (stick, other):
            curve, one = Stated(value), F(prior)
            exact = max(one, 1 - one) + min(one, 1 - one) * F(value)
            assert exact <= F(curve.accuracy(prior)) <= min(F(1), exact + F(1, 2**49))
            leak = F(curve.leak(prior, 2.0))
            assert 1 - leak - F(1, 2**49) <= F(curve.security(prior, 2.0)) <= 1 - leak


def test_an_epsilon_is_where_the_profile_is_seen_below_the_target():
    """The profile falls to 0 between two powers of two, and close to the larger one."""
    assert Stated(0.4).epsilon(0.1) == 100.0
    assert Stated(0.4, end=127.0).epsilon(0.1) == 127.0
    assert Stated(0.4).epsilon(0.4) == 0.0
    assert Stated(0.4)._search_top(0.1, "both") >= 100


def test_posteriors_are_from_above():
    rng = Random(5)
    cases = [(k * 5e-324, m / 8) for k in range(1, 9) for m in range(9)]
    cases += [(rng.random(), rng.random()) for _ in range(300)]
    cases += [(10 ** rng.uniform(-300, -1), 10 ** rng.uniform(-300, 0)) for _ in range(300)]
    for prior, ratio in cases:
        exact = F(prior) / (F(prior) + (1 - F(prior)) * F(ratio))
        found = F(posterior_upper(prior, ratio))
        assert exact <= found
        if prior > 1e-290:
            assert found <= exact * (1 + F(1, 10**14))


def test_logarithms_of_prices_are_from_below():
    rng = Random(11)
    for _ in range(300):
        nu, lam = rng.uniform(0.01, 0.99), rng.choice([1.0, rng.uniform(0.1, 9)])
        size, dear = price_exponent(nu, lam)
        gamma = F(nu) / (F(lam) * (1 - F(nu)))
        with mp.workdps(60):
            exact = mp.log(mp.mpf(gamma.numerator) / gamma.denominator)
            assert abs(exact) - mp.mpf("2e-14") <= size <= abs(exact)
        assert dear == (gamma > 1)


def test_profiles_of_laplace_noise_are_from_above():
    rng = np.random.default_rng(6)
    for reach in (0.3, 2.0, 30.0):
        epsilon = np.concatenate([rng.uniform(0, reach, 400), reach * (1 - 10.0 ** -np.arange(15))])
        got = LaplaceCurve(reach)._profile(epsilon, forward=True)
        with mp.workdps(40):
            for e, value in zip(epsilon.tolist(), got.tolist(), strict=True):
                exact = -mp.expm1(-max(mp.mpf(reach) - mp.mpf(e), 0) / 2)
                assert exact <= value <= min(mp.mpf(1), exact * (1 + mp.mpf("1e-14")))


# ── Support lines of the lattice ──────────────────────────────────────────────────────────────────


def test_the_lowest_line_bounds_a_rate():
    rng = np.random.default_rng(7)
    for count in (1, 2, 5) * 100:
        epsilon = np.sort(rng.uniform(0, 5, count))
        delta = np.sort(10.0 ** rng.uniform(-9, -1, count))[::-1]
        fpr = float(10.0 ** rng.uniform(-9, 0))
        found = ForwardProfile(epsilon, delta).tpr(fpr)
        with mp.workdps(40):
            lines = [
                mp.mpf(d) + mp.exp(mp.mpf(e)) * mp.mpf(fpr)
                for e, d in zip(epsilon.tolist(), delta.tolist(), strict=True)
            ]
            exact = min(*lines, mp.mpf(1))
            assert exact <= found <= exact * (1 + mp.mpf("1e-14"))


@pytest.mark.parametrize("width", [1e-6, 0.01, 0.9])
def test_chords_between_lines_are_from_above(width):
    """A profile that is linear in e^ε between two lines is its own chord."""
    rng = np.random.default_rng(8)
    for low in (0.0, 0.7, 5.0):
        high = low + width
        left, right = sorted((10.0 ** rng.uniform(-5, -1, 2)).tolist(), reverse=True)
        profile = ForwardProfile(np.array([low, high]), np.array([left, right]))
        epsilon = rng.uniform(low, high, 300)
        with mp.workdps(40):
            a, b = mp.exp(mp.mpf(low)), mp.exp(mp.mpf(high))
            for e, value in zip(epsilon.tolist(), profile.sticks(epsilon).tolist(), strict=True):
                exact = mp.mpf(left) + (mp.mpf(right) - mp.mpf(left)) * (mp.exp(mp.mpf(e)) - a) / (
                    b - a
                )
                assert exact <= value <= exact * (1 + mp.mpf("1e-6"))
        assert profile.stick(low) >= left
        assert profile.stick(high) == right
        assert profile.stick(high + 1) == right
    # Nothing is known before the first line, and no chord joins lines that are far apart.
    assert ForwardProfile(np.array([1.0]), np.array([0.2])).stick(0.5) == 1.0
    assert ForwardProfile(np.array([0.0, 9.0]), np.array([0.5, 0.1])).stick(8.0) == 0.5
