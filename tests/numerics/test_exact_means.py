"""Bounds of means against 40-digit arithmetic: the right side, and no more than rounding away."""

import math
from fractions import Fraction
from random import Random

import mpmath as mp
import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.numerics import means
from memberbound.numerics.means import (
    _log_capital,
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
    """Return whether a bound is at least the exact one and at most that share above."""
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


def test_moment_upper_is_from_above_where_a_negative_mean_cancels_the_rest():
    for _, square, draws, level in cases(8, 80):
        # The doubles of the grid: a bound near 0 shows what a unit of a bet does.
        bets = [mp.mpf(b) for b in means._bets(draws, level)]
        spent = (mp.mpf(level) + mp.log(len(bets))) / draws
        grid = [(b, (-mp.log(1 - b) - b) * mp.mpf(square) + spent) for b in bets]
        mean = -float(min(more / b for b, more in grid))
        exact = min((1 - mp.exp(-(b * mp.mpf(mean) + more))) / b for b, more in grid)
        value = mp.mpf(float(moment_upper([mean], [square], draws, 1.0, level)[0]))
        assert exact <= value <= exact + mp.mpf("1e-14") * (1 - mean)


def test_moment_upper_of_the_smallest_ranges_is_from_above():
    for level in (0.1, 3.0, 20.0):
        for units in range(1, 40):
            least = mp.mpf(units * 5e-324)
            found = moment_upper([0.0], [0.0], 50, units * 5e-324, level)
            bets = [mp.mpf(b) for b in means._bets(50, level)]
            spent = (mp.mpf(level) + mp.log(len(bets))) / 50
            exact = min((1 - mp.exp(-spent)) / b for b in bets)
            assert min(exact, 1) * least <= mp.mpf(float(found[0])) <= least


def slopes(draws, level):
    """The doubles of the grid of moment_lower, and what is spent on it."""
    slope, steps = mp.mpf(math.sqrt(2 * level / draws)), math.ceil(math.log2(draws / level)) + 2
    return [slope * 2**j for j in range(steps)], (mp.mpf(level) + mp.log(steps)) / draws


def test_moment_lower_is_from_below_where_the_price_cancels_the_gain():
    for plain, square, draws, level in cases(9, 160):
        if draws <= 100 * level:
            continue
        grid, spent = slopes(draws, level)
        cancelled = float(min(s / 2 * mp.mpf(square) + spent / s for s in grid))
        # Without cancellation only the last steps are rounded.
        for mean, second in ((cancelled, mp.mpf(square)), (plain, mp.mpf(plain * plain))):
            exact = max(mp.expm1(s * mp.mpf(mean) - s * s / 2 * second - spent) / s for s in grid)
            value = mp.mpf(float(moment_lower([mean], [float(second)], draws, level)[0]))
            assert exact - mean * mp.mpf("1e-13") <= value <= max(exact, 0)


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


def test_the_capital_is_from_below():
    """Single gains as large as a double allows, and many that cancel."""
    rng = Random(11)
    for trial in range(60):
        rows = rng.choice([1, 2, 40])
        # With some draws of 0 a stake in the middle of the grid counts most.
        samples = [*(rng.random() ** rng.choice([1, 30]) for _ in range(rows)), 0.0]
        counts = [*(float(rng.choice([1, 1, 700])) for _ in range(rows)), 9.0 * rows]
        mean = 10 ** rng.uniform(-300, 0) if trial % 2 else rng.uniform(0.4, 1) * samples[0]
        stakes = _stakes(int(sum(counts)), rng.uniform(0.5, 9))
        exact = mp.log(
            mp.fsum(
                mp.fprod(
                    (1 + mp.mpf(float(c)) * (mp.mpf(x) / mp.mpf(mean) - 1)) ** k
                    for x, k in zip(samples, counts, strict=True)
                )
                for c in stakes
            )
            / len(stakes)
        )
        found = _log_capital(
            np.array(samples)[:, None], np.array(counts), np.array([mean]), np.asarray(stakes)
        )
        value, draws = mp.mpf(float(found[0])), sum(counts)
        # The last stakes are within 2⁻¹⁶ of 1.
        assert exact - mp.mpf("1e-9") * draws - abs(exact) * mp.mpf("1e-12") <= value <= exact


def test_the_capital_is_from_below_after_nearly_everything_was_lost():
    """Twenty gains and one draw far below the mean: the largest stake wins, and has lost digits."""
    rng = Random(12)
    for _ in range(60):
        mean = rng.uniform(0.05, 0.2)
        samples = [1.0] * 24 + [mean * 2.0**-17 * rng.random()]
        stakes = _stakes(len(samples), 3.0)
        exact = mp.log(
            mp.fsum(
                mp.fprod(1 + mp.mpf(float(c)) * (mp.mpf(x) / mp.mpf(mean) - 1) for x in samples)
                for c in stakes
            )
            / len(stakes)
        )
        values, counts = np.array(samples[-2:])[:, None], np.array([24.0, 1.0])
        (found,) = _log_capital(values, counts, np.array([mean]), np.asarray(stakes))
        assert exact - mp.mpf("1e-8") <= mp.mpf(float(found)) <= exact


def test_betting_on_the_mirrored_samples_is_rounded_up(monkeypatch):
    """The stake is at most 1 - x, and the bound is at least 1 minus the payout."""
    rng = np.random.default_rng(3)
    samples = np.concatenate([rng.random(200) ** 8, [0.0, 1.0, 1e-300, 2.0**-54]])
    lower = np.concatenate([rng.random(200) ** 8, [0.0, 1.0, 1.5 * 2.0**-54, 2.0**-60]])
    seen = []
    monkeypatch.setattr(means, "betting_lower", lambda x, _: (seen.append(x), lower)[1])
    upper = betting_upper(samples[None, :], 3.0)
    for x, y in zip(samples, np.ravel(seen[0]), strict=True):
        assert 1 - Fraction(x) - Fraction(1, 2**52) <= Fraction(y) <= 1 - Fraction(x)
    for low, high in zip(lower, upper, strict=True):
        assert 1 - Fraction(low) <= Fraction(high) <= 1 - Fraction(low) + Fraction(1, 2**49)
    assert max(upper) <= 1


@pytest.mark.parametrize(
    ("low", "high"),
    [(-1.0, 1.0), (-3.0, 5.0), (0.1, 0.7), (-1e-5, 1e9), (0.0, 3e-322), (-1e-310, 2e-310)],
)
def test_scaled_bounds_hold_for_the_unscaled_samples(monkeypatch, low, high):
    """If x ≤ low + w·s for every sample and its scaled form, then E X ≤ low + w·E S."""
    rng = np.random.default_rng(6)
    samples = np.clip(low + (high - low) * rng.random(400) ** 3, low, high)
    samples = np.append(samples, [low, high])
    bounds = np.append(rng.random(samples.size - 2) ** 2, [(0.0 - low) / (high - low), 1.0])
    seen = []
    monkeypatch.setattr(means, "betting_upper", lambda x, _: (seen.append(x), bounds)[1])
    found = mean_upper(samples[None, :], low=low, high=high)
    pairs = list(zip(samples.tolist(), np.ravel(seen[0]).tolist(), strict=True))
    assert all(s > 0 for x, s in pairs if x > low)
    width = max((Fraction(x) - Fraction(low)) / Fraction(s) for x, s in pairs if s > 0)
    for bound, value in zip(bounds.tolist(), found.tolist(), strict=True):
        exact = Fraction(low) + width * Fraction(bound)
        assert min(exact, Fraction(high)) <= Fraction(value) <= Fraction(high)
        assert Fraction(value) - exact <= Fraction(1e-14) * (
            abs(Fraction(low)) + Fraction(high)
        ) + Fraction(1e-323)


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


def test_an_empty_range_is_refused():
    with pytest.raises(InputError, match="high must be"):
        mean_upper([0.5], low=0.5, high=0.5)


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


def test_weights_that_add_up_to_more_than_one_are_paid_for():
    for size in (1, 3):
        weights = [(1 + 9.9e-13) / size] * size
        totals, exponents = [30.0 + k for k in range(size)], [0.25] * size
        x = mp.mpf(mixture_upper(totals, exponents, weights, 0.05))
        parts = list(zip(totals, exponents, weights, strict=True))
        assert mixed(parts, x) >= mp.fsum(map(mp.mpf, weights)) / mp.mpf(0.05)


@pytest.mark.parametrize(
    ("totals", "exponents", "weights"),
    [
        ([1.0], [0.0], [1.0]),
        ([1.0], [1.0], [0.0]),
        ([1.0, 2.0], [1.0, 0.0], [0.5, 0.5]),
        ([1.0, 2.0], [1.0, 1.0], [1.0, 0.0]),
        ([1.0], [1.0], [1 + 2e-12]),
        ([1.0, 2.0], [1.0, 1.0], [0.6, 0.5]),
        ([1.0, 2.0], [1.0], [1.0]),
        ([1.0], [1.0, 2.0], [1.0]),
        ([], [], []),
    ],
)
def test_invalid_mixtures_are_refused(totals, exponents, weights):
    with pytest.raises(InputError):
        mixture_upper(totals, exponents, weights, 0.05)
