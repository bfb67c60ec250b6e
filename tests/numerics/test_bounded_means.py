"""Confidence bounds for bounded means: coverage on nasty laws, tightness, and what must fail.

Coverage is simulated with 400 columns per law at β = 0.05.  If a bound held with exactly 95 %, more
than 45 misses would happen with probability below 1e-6 (binomial), the false-alarm rate per law.
"""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memberbound.errors import InputError
from memberbound.numerics.means import (
    _price,
    betting_lower,
    betting_upper,
    log_error_shared,
    mean_lower,
    mean_upper,
    moment_lower,
    moment_upper,
)

DRAWS, COLUMNS, BETA, MISSES = 200, 400, 0.05, 45
LEVEL = -math.log(BETA)
LAWS = {
    "rare spike": (1e-3, lambda r, s: (r.random(s) < 1e-3).astype(float)),
    "rare gap": (1 - 1e-3, lambda r, s: (r.random(s) >= 1e-3).astype(float)),
    "nothing": (0.0, lambda r, s: np.zeros(s)),
    "always one": (1.0, lambda r, s: np.ones(s)),
    "two points": (0.1 * 0.9 + 0.9 * 0.02, lambda r, s: np.where(r.random(s) < 0.1, 0.9, 0.02)),
    "fair coin": (0.5, lambda r, s: (r.random(s) < 0.5).astype(float)),
    "uniform": (0.5, lambda r, s: r.random(s)),
    "heavy": (1 / 21, lambda r, s: r.random(s) ** 20),
}
UPPER = {
    "moments": lambda x: moment_upper(
        x.mean(axis=0), np.square(x).mean(axis=0), len(x), 1.0, LEVEL
    ),
    "betting": lambda x: betting_upper(x, LEVEL),
}
LOWER = {
    "moments": lambda x: moment_lower(x.mean(axis=0), np.square(x).mean(axis=0), len(x), LEVEL),
    "betting": lambda x: betting_lower(x, LEVEL),
}


def draw_rows(law):
    mean, draw = LAWS[law]
    return mean, draw(np.random.default_rng(7), (DRAWS, COLUMNS))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("method", UPPER)
def test_upper_bounds_cover(method, law):
    mean, samples = draw_rows(law)
    assert (UPPER[method](samples) < mean - 1e-12).sum() <= MISSES


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("method", LOWER)
def test_lower_bounds_cover(method, law):
    mean, samples = draw_rows(law)
    assert (LOWER[method](samples) > mean + 1e-12).sum() <= MISSES


def test_normal_approximation_is_caught():
    mean, samples = draw_rows("rare spike")
    normal = samples.mean(axis=0) + 1.645 * samples.std(axis=0, ddof=1) / math.sqrt(DRAWS)
    assert (normal < mean).sum() > 5 * MISSES


def test_moment_bound_with_too_small_a_range_is_caught():
    # Variables up to 1 that were promised to be at most 0.01.
    rng = np.random.default_rng(3)
    samples = np.where(rng.random((DRAWS, COLUMNS)) < 1e-3, 1.0, 0.0)
    wrong = moment_upper(samples.mean(axis=0), np.square(samples).mean(axis=0), DRAWS, 0.01, LEVEL)
    wrong = np.where(samples.any(axis=0), 1.0, wrong)
    assert (wrong < 1e-3).sum() > 5 * MISSES


def test_upper_bound_for_differences_needs_no_lower_end():
    rng = np.random.default_rng(5)
    samples = np.where(rng.random((DRAWS, COLUMNS)) < 0.02, -10.0, 0.2)
    mean = 0.98 * 0.2 - 0.2
    result = moment_upper(samples.mean(axis=0), np.square(samples).mean(axis=0), DRAWS, 0.2, LEVEL)
    assert (result < mean - 1e-12).sum() <= MISSES


def test_all_columns_at_once():
    # 100 runs of 50 columns at 80 %: more than 42 failed runs have probability below 1e-6.
    rng = np.random.default_rng(11)
    failed = single = 0
    for _ in range(100):
        samples = (rng.random((100, 50)) < 0.03).astype(float)
        failed += bool((mean_upper(samples, confidence=0.8) < 0.03).any())
        single += bool((betting_upper(samples, -math.log(0.2)) < 0.03).any())
    assert failed <= 42
    assert single > 42  # without the union over columns


def test_other_intervals():
    rng = np.random.default_rng(2)
    samples = rng.uniform(-3, 5, size=(400, 3))
    high = mean_upper(samples, low=-3.0, high=5.0)
    low = mean_lower(samples, low=-3.0, high=5.0)
    assert (low < samples.mean(axis=0)).all()
    assert (high > samples.mean(axis=0)).all()
    assert (low >= -3).all()
    assert (high <= 5).all()


def test_betting_is_close_to_exact_for_coins():
    # Clopper–Pearson for 0 of n is 1 - β^{1/n}; the grid of stakes costs ln J.
    result = float(betting_upper(np.zeros(1000), LEVEL)[0])
    assert 1 - BETA ** (1 / 1000) <= result <= 2 * (1 - BETA ** (1 / 1000))


@given(st.floats(1e-6, 0.9375), st.floats(-1, 50))
def test_inequality_behind_moment_upper(bet, y):
    with mp.workdps(50):
        lam, ksi = mp.mpf(bet), mp.mpf(y)
        price = -mp.log(1 - lam) - lam
        assert mp.exp(lam * ksi - price * ksi**2) <= (1 + lam * ksi) * (1 + mp.mpf("1e-40"))
        if bet > 1e-3 and y < -0.5:  # with a price below ψ it fails near -1
            assert mp.exp(-lam - price * mp.mpf("0.9")) > 1 - lam


@given(st.floats(1e-7, 0.9375))
def test_price_of_a_bet_is_from_above(bet):
    with mp.workdps(50):
        truth = -mp.log(1 - mp.mpf(bet)) - mp.mpf(bet)
        assert truth <= mp.mpf(_price(bet)) <= truth * (1 + mp.mpf("1e-14") * (1 + 1 / mp.mpf(bet)))


@given(st.floats(0, 1e3))
def test_inequality_behind_moment_lower(y):
    with mp.workdps(50):
        z = mp.mpf(y)
        assert mp.exp(z - z**2 / 2) <= (1 + z) * (1 + mp.mpf("1e-40"))


@given(st.floats(0.5, 1 - 1e-12), st.integers(1, 10**9))
def test_shared_level_is_from_above(confidence, statements):
    result = log_error_shared(confidence, statements)
    with mp.workdps(40):
        share = (1 - Fraction(confidence)) / statements
        assert mp.mpf(result) >= -mp.log(mp.mpf(share.numerator) / share.denominator)


def test_edges():
    assert moment_upper([0.0], [0.0], 100, [0.0], 3.0).tolist() == [0.0]
    assert moment_lower([0.0], [0.0], 100, 3.0).tolist() == [0.0]
    assert moment_upper([0.9], [0.9], 1, 1.0, 3.0)[0] <= 1.0
    assert betting_lower(np.zeros((5, 2)), 3.0).tolist() == [0.0, 0.0]
    assert betting_upper(np.ones((5, 1)), 3.0).tolist() == [1.0]
    assert betting_lower([[1e-300]] * 4, 3.0)[0] <= 1e-300


@pytest.mark.parametrize(
    "call",
    [
        lambda: mean_upper([0.5, 1.5]),
        lambda: mean_upper([0.5, np.nan]),
        lambda: mean_upper([]),
        lambda: mean_upper([0.5], confidence=1.0),
        lambda: mean_upper([0.5], low=1.0, high=0.0),
        lambda: mean_upper(np.zeros((2, 2, 2))),
        lambda: log_error_shared(0.95, 0),
        lambda: log_error_shared(0.95, 1, 0),
        lambda: moment_upper([0.0], [0.0], 10, [-1.0], 3.0),
    ],
)
def test_bad_input(call):
    with pytest.raises(InputError):
        call()
