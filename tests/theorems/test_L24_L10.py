"""L24-L10, the analytic Gaussian mechanism: sigma from (eps, delta), and back, against 60 digits.

The condition itself, at eps up to 700 and mu from 1e-8 to 50, is in tests/numerics/test_normal.py.
"""

import math
from functools import cache

import mpmath as mp
import pytest

from memberbound.errors import InputError
from memberbound.subset.gaussian import dp_from_noise, noise_from_dp
from oracle.real import digits, gaussian_hockey_stick

EPSILONS = (0.0, 1e-9, 1e-3, 0.5, 1.0, 10.0, 123.0, 700.0)
DELTAS = (1e-100, 1e-12, 1e-5, 0.01, 0.5, 0.99)
SENSITIVITIES = (1e-8, 1.0, 333333.3)
CASES = [
    (e, d, SENSITIVITIES[(i + j) % 3]) for i, e in enumerate(EPSILONS) for j, d in enumerate(DELTAS)
]
NOISE_CASES = [(mu, d) for mu in (1e-8, 1e-4, 0.03, 0.9, 7.0, 50.0) for d in DELTAS]


def condition(sigma, sensitivity, epsilon):
    """The hockey-stick of the two releases, its shift to 600 digits."""
    with digits(600):
        return gaussian_hockey_stick(mp.mpf(sensitivity) / mp.mpf(sigma), epsilon)


@cache
def noise(case):
    return noise_from_dp(*case)


def broken_cases(sigma_of):
    return [c for c in CASES if condition(sigma_of(c), c[2], c[0]) > mp.mpf(c[1])]


def test_noise_satisfies_the_condition_exactly():
    assert broken_cases(noise) == []


def test_noise_is_tight():
    """A millionth less noise fails, and so does 1e-9 less wherever delta is at most 1/2."""
    assert broken_cases(lambda c: noise(c) * (1 - 1e-6)) == CASES
    tight = [c for c in CASES if c[1] <= 0.5]
    assert [c for c in broken_cases(lambda c: noise(c) * (1 - 1e-9)) if c[1] <= 0.5] == tight


def test_the_textbook_noise_is_caught():
    """sqrt(2 ln(1.25/delta)) s/eps was proved for eps < 1 only."""

    def textbook(case):
        eps, delta, s = case
        return math.sqrt(2 * math.log(1.25 / delta)) * s / eps if eps > 0 else noise(case)

    caught = broken_cases(textbook)
    assert caught
    assert all(eps >= 1 for eps, _, _ in caught)


def test_the_radius_in_place_of_the_diameter_is_caught():
    assert broken_cases(lambda c: noise_from_dp(c[0], c[1], c[2] / 2)) == CASES


def unsafe(epsilon_of):
    result = []
    for mu, delta in NOISE_CASES:
        eps = epsilon_of(1 / mu, delta)
        if condition(1 / mu, 1.0, eps) > mp.mpf(delta):
            result.append((mu, delta))
    return result


def test_epsilon_satisfies_the_condition_and_is_tight():
    assert unsafe(lambda s, d: dp_from_noise(s, d, 1.0)) == []
    some = [(mu, d) for mu, d in NOISE_CASES if dp_from_noise(1 / mu, d, 1.0) > 0]
    assert len(some) > 10
    caught = unsafe(lambda s, d: dp_from_noise(s, d, 1.0) * (1 - 1e-6))
    assert caught == some


def test_no_sensitivity_needs_no_noise():
    assert noise_from_dp(0.0, 1e-5, 0.0) == 0.0
    assert dp_from_noise(0.0, 1e-5, 0.0) == dp_from_noise(3.0, 1e-5, 0.0) == 0.0


def test_extremes():
    assert dp_from_noise(1e-300, 1e-5, 1e300) == math.inf
    assert 0 < noise_from_dp(1e300, 1e-5, 1.0) < 1e-3
    assert noise_from_dp(0.0, 1e-300, 1.0) > 1e299


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan, "small"])
def test_delta_outside_the_open_interval_is_refused(delta):
    for call in (lambda: noise_from_dp(1.0, delta, 1.0), lambda: dp_from_noise(1.0, delta, 1.0)):
        with pytest.raises(InputError, match=r"delta must be .* Gaussian noise is not \(ε, 0\)-DP"):
            call()


def test_other_bad_input_is_refused():
    with pytest.raises(InputError, match="sigma must be greater than 0"):
        dp_from_noise(0.0, 0.1, 1.0)
    with pytest.raises(InputError, match="epsilon must be at least 0"):
        noise_from_dp(-1.0, 0.1, 1.0)
    with pytest.raises(InputError, match="sensitivity must be"):
        noise_from_dp(1.0, 0.1, math.inf)
