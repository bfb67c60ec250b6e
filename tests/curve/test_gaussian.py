"""The Gaussian curve: two numbers of ``numerics.normal``, read as those of other curves are."""

import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from memberbound.curve import GaussianCurve
from memberbound.errors import InputError
from memberbound.numerics.normal import gaussian_hockey_stick_upper, gaussian_tpr_upper
from oracle.real import bracket, gaussian_hockey_stick

F = Fraction
TIGHT = F(1, 10**10)


@pytest.mark.parametrize("mu", [1e-8, 0.2, 1.0, 40.0])
def test_profile_and_rates_are_those_of_the_normal_law(mu):
    curve = GaussianCurve(mu)
    for epsilon in (0.0, 0.5, 30.0):
        stick = gaussian_hockey_stick_upper(mu, np.array([epsilon]))[0]
        assert curve.delta(epsilon, "forward") == curve.delta(epsilon, "backward") == stick
    rates = np.array([1e-100, 0.01, 0.5])
    assert curve.roc(rates).tolist() == gaussian_tpr_upper(mu, rates).tolist()


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


def test_zero_shift_gives_blind_guessing():
    curve = GaussianCurve(0.0)
    assert curve.advantage == curve.delta(3.0) == curve.epsilon(0.0) == curve.leak() == 0.0
    assert curve.tpr(0.3) == 0.3
    assert curve.security() == 1.0
    assert curve.knots().tolist() == [0.0]


@pytest.mark.parametrize("mu", [-1.0, math.nan, math.inf, "much"])
def test_unusable_shifts_are_refused(mu):
    with pytest.raises(InputError, match="mu must be"):
        GaussianCurve(mu)
