"""Bounds of means against 40-digit arithmetic: the right side, and no more than rounding away."""

import math
from fractions import Fraction
from random import Random

import mpmath as mp
import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.numerics.means import (
    _stakes,
    betting_lower,
    betting_upper,
    bounded_differences_upper,
    log_confidence,
    log_error_shared,
    mean_lower,
    mean_upper,
    mixture_upper,
    moment_lower,
    moment_upper,
    self_bounding_upper,
    unit_samples,
    zeros_certify,
)


@pytest.fixture(autouse=True)
def forty_digits():
    with mp.workdps(40):
        yield


def close(exact, value, room="1e-9"):
    """Whether a bound is at least the exact one and at most that share above."""
    return exact <= mp.mpf(value) <= exact + abs(exact) * mp.mpf(room)


def cases(seed, count):
    """Means, second moments, numbers of draws and levels, small and large."""
    rng = Random(seed)
    for _ in range(count):
        draws, level = int(10 ** rng.uniform(0, 7)), rng.uniform(0.1, 30)
        mean = rng.random() ** rng.choice([1, 5, 20])
        yield mean, rng.uniform(mean * mean, mean), draws, level


def test_moment_upper_is_the_best_bet_of_its_grid_from_above():
    for mean, square, draws, level in cases(1, 150):
        top = mp.mpf(1)
        bets = [min(mp.sqrt(2 * mp.mpf(level) / draws), mp.mpf(1) / 2)]
        while bets[-1] * 2 < mp.mpf("0.8"):
            bets.append(bets[-1] * 2)
        bets.append(mp.mpf("0.9375"))
        spent = (mp.mpf(level) + mp.log(len(bets))) / draws
        exact = min(
            (1 - mp.exp(-(b * mp.mpf(mean) + (-mp.log(1 - b) - b) * mp.mpf(square) + spent))) / b
            for b in bets
        )
        value = float(moment_upper([mean], [square], draws, 1.0, level)[0])
        assert close(min(exact, top), value)
        # Twice the range, twice the bound.
        wide = float(moment_upper([2 * mean], [4 * square], draws, 2.0, level)[0])
        assert wide == pytest.approx(2 * value, rel=1e-12)


def test_moment_lower_is_the_best_slope_of_its_grid_from_below():
    for mean, square, draws, level in cases(2, 150):
        if draws <= level:
            continue
        slope = mp.sqrt(2 * mp.mpf(level) / draws)
        steps = math.ceil(math.log2(draws / level)) + 2
        spent = (mp.mpf(level) + mp.log(steps)) / draws
        exact = mp.mpf(0)
        for j in range(steps):
            s = slope * 2**j
            gain = s * mp.mpf(mean) - s * s / 2 * mp.mpf(square) - spent
            exact = max(exact, mp.expm1(gain) / s)
        value = mp.mpf(float(moment_lower([mean], [square], draws, level)[0]))
        assert exact * (1 - mp.mpf("1e-9")) - mp.mpf("1e-12") <= value <= exact


def capital(samples, mean, level):
    """K(m) of the grid of stakes, exactly."""
    stakes = _stakes(len(samples), level)
    products = [mp.fprod(1 + mp.mpf(c) * (mp.mpf(x) / mean - 1) for x in samples) for c in stakes]
    return mp.fsum(products) / len(stakes)


@pytest.mark.parametrize("draws", [3, 20, 60])
def test_betting_returns_means_that_the_exact_capital_refutes(draws):
    rng = np.random.default_rng(draws)
    for level in (0.5, 3.0, 9.0):
        table = rng.random((draws, 8)) ** rng.choice([1, 4], 8)
        for samples, low, high in zip(
            table.T, betting_lower(table, level), betting_upper(table, level), strict=True
        ):
            if low > 0:
                assert capital(samples, mp.mpf(float(low)), level) >= mp.exp(mp.mpf(level))
                above = mp.mpf(float(low)) * (1 + mp.mpf("1e-10"))
                assert capital(samples, above, level) < mp.exp(mp.mpf(level))
            if high < 1:
                mirror = [1 - mp.mpf(x) for x in samples]
                assert capital(mirror, 1 - mp.mpf(float(high)), level) >= mp.exp(mp.mpf(level))


def test_one_column_counts_equal_draws_together():
    samples = np.array([0.25] * 30 + [0.75] * 20 + [0.0] * 5)
    alone = betting_lower(samples, 3.0)
    beside = betting_lower(np.stack([samples, samples[::-1]], axis=1), 3.0)
    assert alone == pytest.approx(beside[:1], rel=1e-10)
    assert beside[0] == pytest.approx(beside[1], rel=1e-10)


def test_all_zeros_give_the_betting_bound_for_zeros():
    for level in (1.0, 3.0, 10.0):
        for draws in (5, 41, 42, 300):
            bound = float(betting_upper(np.zeros(draws), level)[0])
            assert zeros_certify(draws, bound * (1 + 1e-9), level)
            assert not zeros_certify(draws, bound * (1 - 1e-6), level)
    assert zeros_certify(1, 1.0, 30.0)


def test_ranges_are_scaled_and_the_error_is_shared_among_columns():
    rng = np.random.default_rng(4)
    table = rng.random((60, 3))
    level = log_error_shared(0.9, 3)
    high = mean_upper(table, confidence=0.9)
    assert high.tolist() == betting_upper(table, level).tolist()
    wide = mean_upper(8 * table - 3, confidence=0.9, low=-3.0, high=5.0)
    assert wide == pytest.approx(8 * high - 3, rel=1e-9)
    assert (wide >= 8 * high - 3 - 1e-14).all()
    low = mean_lower(table, confidence=0.9)
    assert low == pytest.approx(1 - mean_upper(1 - table, confidence=0.9), rel=1e-9)
    assert mean_upper([5.0, 5.0], low=-3.0, high=5.0).tolist() == [5.0]


@pytest.mark.parametrize("samples", [[0.5, -1e-9], [0.5, 1 + 1e-9], [0.5, math.nan], [], [[[0.5]]]])
def test_samples_outside_of_the_unit_interval_are_refused(samples):
    with pytest.raises(InputError):
        unit_samples(samples)
    assert unit_samples([0.0, 1.0]).shape == (2, 1)


def test_levels_are_from_above():
    rng = Random(5)
    for _ in range(200):
        beta, parts = rng.uniform(1e-12, 0.9), rng.randint(1, 10**6)
        assert close(-mp.log(mp.mpf(beta)), log_confidence(beta), "1e-14")
        confidence, share = rng.uniform(0.3, 1 - 1e-9), Fraction(rng.randint(1, 7), 8)
        allowed = (1 - Fraction(confidence)) * share / parts
        exact = -mp.log(mp.mpf(allowed.numerator) / allowed.denominator)
        assert close(exact, log_error_shared(confidence, parts, share), "1e-13")


def test_levels_of_small_confidences_are_from_above():
    """The quotient is next to 1, and rounding it is most of its logarithm."""
    for exponent in range(1, 16):
        for digit in (1, 3, 7, 9):
            confidence = digit * 10.0**-exponent
            with mp.workdps(50):
                exact = -mp.log1p(-mp.mpf(confidence))
                found = log_error_shared(confidence, 1)
                assert exact <= found <= exact * (1 + mp.mpf("1e-14")) + mp.mpf("5e-16")


def test_concentration_is_from_above():
    rng = Random(6)
    for _ in range(200):
        total, beta, share = 10 ** rng.uniform(-3, 6), rng.uniform(1e-9, 0.9), rng.uniform(0.01, 1)
        level = -mp.log(mp.mpf(beta))
        half = level * mp.mpf(share) / 2
        exact = (mp.sqrt(mp.mpf(total) + half) + mp.sqrt(half)) ** 2
        assert close(exact, self_bounding_upper(total, beta, share), "1e-13")
        n, rows = rng.randint(1, 10**6), rng.randint(1, 10**6)
        exact = mp.mpf(total) + n * mp.sqrt(level / (2 * rows))
        assert close(exact, bounded_differences_upper(total, n, rows, beta), "1e-13")


def mixed(parts, x):
    """Σ w·exp(s(x - F)), exactly."""
    return mp.fsum(mp.mpf(w) * mp.exp(mp.mpf(s) * (x - mp.mpf(f))) for f, s, w in parts)


def test_mixtures_are_seen_to_reach_their_level_exactly():
    rng = Random(7)
    for _ in range(60):
        size, beta = rng.randint(1, 5), rng.uniform(1e-6, 0.5)
        totals = [10 ** rng.uniform(-1, 5) for _ in range(size)]
        exponents = [rng.uniform(0.01, 2) for _ in range(size)]
        weights = [1 / size] * size
        parts = list(zip(totals, exponents, weights, strict=True))
        x = mp.mpf(mixture_upper(totals, exponents, weights, beta))
        assert mixed(parts, x) >= 1 / mp.mpf(beta)
        assert mixed(parts, x * (1 - mp.mpf("1e-9"))) < 1 / mp.mpf(beta) or x < 1e-3


@pytest.mark.parametrize(
    ("totals", "exponents", "weights"),
    [
        ([1.0], [0.0], [1.0]),
        ([1.0], [1.0], [0.0]),
        ([1.0, 2.0], [1.0, 1.0], [0.6, 0.5]),
        ([1.0, 2.0], [1.0], [1.0]),
        ([1.0], [1.0, 2.0], [1.0]),
        ([], [], []),
    ],
)
def test_invalid_mixtures_are_refused(totals, exponents, weights):
    with pytest.raises(InputError):
        mixture_upper(totals, exponents, weights, 0.05)
