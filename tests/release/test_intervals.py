"""Intervals of released numbers: their ends, and how often they cover (X32).

Truth: conditions of the proofs, checked on a fine grid of candidates, and coverage in simulations
of known laws.  Broken: half of the noise's variance, and no sampling variance.
"""

import math
import runpy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from memberbound import summarize
from memberbound.release.all_rows.intervals import (
    Noise,
    NoisyMean,
    bounded_interval,
    count_interval,
    covariance_intervals,
    quantile_interval,
)
from memberbound.release.budget import noisy_release
from memberbound.release.noise import COARSE
from memberbound.release.randomness import InsecureSource

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "intervals.py"
Z = 1.959964


@pytest.mark.parametrize(
    ("total", "present", "squares"),
    [(500.0, 900.0, 400.0), (-880.0, 900.0, 870.0), (3.0, 900.0, -20.0), (30.0, 60.0, 25.0)],
)
def test_a_mean_is_between_the_solutions_of_its_inequality(total, present, squares):
    noise = Noise(8.0)
    found = NoisyMean(total, present, squares, noise).intervals(0.5, 2.0, 1000)
    r = np.linspace(-1, 1, 400_001)
    least = min(max(squares, total**2 / present), present)
    for square, ends in (
        (0.0, (found.table_lower, found.table_upper)),
        (Z**2, (found.population_lower, found.population_upper)),
    ):
        right = noise.half**2 * (1 + r**2) + square * (least - 2 * total * r + present * r**2)
        inside = 2.0 + 0.5 * r[(total - r * present) ** 2 <= right]
        assert ends == pytest.approx((inside.min(), inside.max()), abs=1e-5)


def test_without_values_the_interval_is_the_range():
    found = NoisyMean(3.0, 10.0, 2.0, Noise(8.0)).intervals(60.0, 60.0, 1000)
    assert (found.table_lower, found.table_upper) == (0.0, 120.0)


@pytest.mark.parametrize("count", [-30.0, -4.0, 0.0, 7.0, 600.0, 1003.0])
def test_a_count_is_between_the_solutions_of_its_inequality(count):
    noise = Noise(5.6272)
    found = count_interval(count, noise, 1000)
    assert (found.table_lower, found.table_upper) == (count - noise.half, count + noise.half)
    x = np.linspace(0, 1000, 200_001)
    inside = x[(count - x) ** 2 <= noise.half**2 + Z**2 * x * (1 - x / 1000)]
    ends = (inside.min(), inside.max()) if inside.size else (0.0, 0.0)
    assert (found.population_lower, found.population_upper) == pytest.approx(ends, abs=1e-2)


@pytest.mark.parametrize(
    ("total", "squares"), [(-4.0, 0.0), (7.0, 3.0), (7.0, 900.0), (500.0, 300.0), (1003.0, 998.0)]
)
def test_a_bounded_sum_is_between_the_solutions_of_its_inequality(total, squares):
    noise = Noise(5.6272)
    found = bounded_interval(total, squares, noise, 1000)
    # The sum of squares of values in [0, 1] is at most their sum, and at least n times the squared
    # mean.
    squares = min(max(squares, total**2 / 1000), max(total, 0.0))
    x = np.linspace(0, 1000, 200_001)
    inside = x[(total - x) ** 2 <= noise.half**2 + Z**2 * (squares - x**2 / 1000)]
    assert found == pytest.approx((inside.min(), inside.max()), abs=1e-2)


def test_a_quantile_is_between_the_leaves_that_are_not_contradicted():
    draws, noise = np.random.default_rng(3), Noise(5.0)
    leaves = draws.poisson(40, 16).astype(float)
    halves = [
        leaves.reshape(2**d, -1).sum(axis=1) + 5 * draws.normal(size=2**d) for d in range(1, 5)
    ]
    total = halves[0].sum()
    for level in (0.1, 0.5, 0.8):
        kept = {0.0: [], Z**2 * total * level * (1 - level): []}
        for sampled, inside in kept.items():
            reached = []
            for edge in range(17):
                # The nodes below the edge, largest first, with coefficients of the test.
                weights = {(1, 0): -level, (1, 1): -level}
                start, depth = 0, 1
                while start < edge:
                    size = 2 ** (4 - depth)
                    if start + size <= edge:
                        node = (depth, start // size)
                        weights[node] = weights.get(node, 0.0) + 1.0
                        start += size
                    else:
                        depth += 1
                value = sum(w * halves[d - 1][i] for (d, i), w in weights.items())
                spread = sum(w**2 for w in weights.values())
                reached.append((value, math.sqrt(noise.half**2 * spread + sampled)))
            for leaf in range(16):
                below, above = reached[leaf], reached[leaf + 1]
                if below[0] <= below[1] and above[0] >= -above[1]:
                    inside.append(leaf)
        found = quantile_interval(halves, level, (0.0, 16.0), noise)
        table, population = kept.values()
        assert (found.table_lower, found.table_upper) == (table[0], table[-1] + 1)
        assert found.population_lower == population[0]
        assert found.population_upper == population[-1] + 1


def test_a_covariance_has_the_errors_of_a_simulation():
    draws, rows = np.random.default_rng(1), 2000
    x = np.clip(draws.normal([0.3, -0.4], [0.3, 0.4], (rows, 2)), -1, 1)
    x[:, 1] = np.clip(x[:, 1] + 0.5 * x[:, 0], -1, 1)
    pairs = np.triu_indices(2)
    moments, mean = (x[:, pairs[0]] * x[:, pairs[1]]).mean(axis=0), x.mean(axis=0)
    noises = (Noise(30.0), Noise(50.0))
    units = np.array([1.0, 2.0, 3.0])
    found = covariance_intervals(
        np.zeros(3), units, pairs=pairs, mean=mean, moments=moments, present=rows, noises=noises
    )
    times = 40_000
    sums = mean + 30.0 / rows * draws.normal(size=(times, 2))
    weight = np.array([1.0, math.sqrt(2.0), 1.0])
    products = moments + 50.0 / rows * draws.normal(size=(times, 3)) / weight
    present = 1 + 30.0 / math.sqrt(2) / rows * draws.normal(size=(times, 1))
    m = sums / present
    values = units * (products / present - m[:, pairs[0]] * m[:, pairs[1]])
    errors = [bar.standard_error for bar in found]
    assert errors == pytest.approx(values.std(axis=0), rel=0.03)
    assert all(bar.population_lower is None for bar in found)


# ── Exact coverage of sums on a grid ──────────────────────────────────────────────────────────────


def exact_coverage(noise: Noise, coefficients: list[float], offsets: list[float]) -> float:
    """Add up the probability that a linear function of rounded normal numbers is within its half.

    ``offsets`` are the distances of the exact numbers from the grid, in steps.
    """
    step = float(COARSE.steps(noise.scale))
    errors, chances = np.zeros(1), np.ones(1)
    for coefficient, offset in zip(coefficients, offsets, strict=True):
        points = (np.arange(-40, 41) - offset) * step
        ends = ndtr((points[:, None] + [-step / 2, step / 2]) / noise.scale)
        errors = np.add.outer(errors, coefficient * points).ravel()
        chances = np.multiply.outer(chances, np.diff(ends)[:, 0]).ravel()
    reach = noise.half * math.hypot(*coefficients) * (1 + 1e-12)
    return float(chances[np.abs(errors) <= reach].sum())


SCALES = [4.0, 4.01, 4.3, 5.0, 6.5, 7.3, 7.99]
RATIOS = [[1.0, 1.0], [1.0, 0.5], [1.0, 0.75], [1.0, 0.1], [1.0, 1.0, 1.0]]


@pytest.mark.parametrize("scale", SCALES)
def test_sums_on_a_grid_are_covered_wherever_the_numbers_lie(scale):
    draws = np.random.default_rng(0)
    for ratio in RATIOS:
        for _ in range(12 if len(ratio) == 2 else 2):
            offsets = draws.integers(0, 8, len(ratio)) / 8
            assert exact_coverage(Noise(scale, several=True), ratio, offsets) >= 0.95
    for offset in np.linspace(0, 1, 9):
        assert exact_coverage(Noise(scale), [1.0], [offset]) >= 0.95


def test_the_interval_of_one_number_is_too_short_for_a_sum_of_two():
    assert 0.94 < exact_coverage(Noise(4.0), [1.0, 1.0], [0.125, 0.25]) < 0.949


# ── Coverage ──────────────────────────────────────────────────────────────────────────────────────


def range_allowed(runs: int, share: float = 0.95) -> tuple[float, float]:
    """The shares of runs that happen to an interval of this coverage but once in 10 000 times."""
    low, high = binom.interval(1 - 1e-4, runs, share)
    return low / runs, high / runs


@dataclass(frozen=True)
class Quieter(Noise):
    """Broken: half of the noise's variance."""

    @property
    def half(self) -> float:
        return super().half / math.sqrt(2.0)


@dataclass(frozen=True)
class Certain(Noise):
    """Broken: no sampling variance."""

    @property
    def sampling(self) -> float:
        return 0.0


ROWS, RUNS, SHARES = 1500, 600, np.array([0.5, 0.004])


def coverage(kind: type[Noise]) -> dict[str, float]:
    """Return how often the intervals of a mean, a common and a rare cell of 1500 rows cover."""
    draws, noise = np.random.default_rng(7), kind(5.6272)
    x = draws.beta(2, 5, (RUNS, ROWS)) * 2 - 1
    counts = draws.binomial(ROWS, SHARES, (RUNS, 2))
    full = np.full(RUNS, ROWS)
    exact = np.column_stack([x.sum(axis=1), full, (x**2).sum(axis=1), counts])
    noisy = noisy_release(exact, 5.6272, InsecureSource(7)).tolist()
    own = np.column_stack([x.mean(axis=1), counts])
    whole = np.array([2 * 2 / 7 - 1, *(ROWS * SHARES)])
    hits = np.zeros((3, 2))
    for numbers, values in zip(noisy, own, strict=True):
        mean = NoisyMean(*numbers[:3], noise).intervals(1.0, 0.0, ROWS)
        bars = [mean, *(count_interval(y, noise, ROWS) for y in numbers[3:])]
        for row, (bar, a, b) in enumerate(zip(bars, values, whole, strict=True)):
            hits[row, 0] += bar.table_lower <= a <= bar.table_upper
            hits[row, 1] += bar.population_lower <= b <= bar.population_upper
    found = zip(("mean", "common", "rare"), (hits / RUNS).tolist(), strict=True)
    return {f"{n} {w}": s for n, line in found for w, s in zip(("own", "whole"), line, strict=True)}


def test_intervals_cover_and_broken_ones_do_not():
    low, high = range_allowed(RUNS)
    honest = coverage(Noise)
    # The grid adds up to 2.5 points to a count on it.
    assert all(low <= share <= high + 0.025 for share in honest.values()), honest
    quiet, certain = coverage(Quieter), coverage(Certain)
    for name in ("mean own", "common own", "rare own", "rare whole"):
        assert quiet[name] < low, name
    for name in ("mean whole", "common whole"):
        assert certain[name] < low, name


@pytest.mark.long
@pytest.mark.parametrize("rows", [4000, 40_000])
def test_releases_cover(rows):
    """Every kind of number, as the benchmark measures it; hulls of leaves are wide."""
    benchmark = runpy.run_path(str(BENCHMARK))
    low, high = range_allowed(600)
    for case in benchmark["cases"]():
        found = benchmark["simulate"](case, rows, 600, seed=2)
        for key in ("table", "population"):
            for share in found[key][~np.isnan(found[key])]:
                assert share >= low, (case.name, key)
                assert share <= high + 0.03 or case.statistic == "quantiles", (case.name, key)


# ── The verb ──────────────────────────────────────────────────────────────────────────────────────


def test_consistent_counts_keep_the_intervals_of_the_noisy_ones():
    table = pd.DataFrame({"ward": ["a"] * 700 + ["b"] * 200 + ["c"]})
    options = {"statistic": "histogram", "bounds": {"ward": [*"abcdefgh"]}, "insecure_seed": 3}
    raw, clean = (summarize(table, **options, consistent=c) for c in (False, True))
    assert min(raw.values) < 0 <= min(clean.values)
    assert sum(clean.values) == pytest.approx(901)
    assert clean.intervals == raw.intervals
    assert (clean.mu, clean.certificate.value) == (raw.mu, raw.certificate.value)


def test_the_wanted_width_is_the_width_that_is_released():
    """The η of ``explain --target-interval`` gives the width for a share and for a mean."""
    from memberbound.release.precision import target_interval

    draws = np.random.default_rng(0)
    table = pd.DataFrame({"x": (draws.random(5000) < 0.7).astype(float)})
    eta = target_interval(0.02, 5000).noise.eta
    for options in ({"statistic": "histogram", "bins": [0, 0.5, 1]}, {"statistic": "mean"}):
        found = summarize(table, eta=eta, bounds={"x": [0, 1]}, insecure_seed=1, **options)
        divisor = 5000 if "bins" in options else 1
        for bar in found.intervals:
            width = (bar.table_upper - bar.table_lower) / divisor
            assert width <= 0.02 * (1 + 1e-6)
        # Two thirds of it would be too narrow for this noise.
        assert width > 0.013


def test_learnt_ranges_are_shown_beside_the_numbers(tmp_path):
    draws = np.random.default_rng(0)
    table = pd.DataFrame({"x": draws.normal(50, 10, 20_000)})
    found = summarize(table, statistic="mean", insecure_seed=1, out=tmp_path / "mean.json")
    low, high = found.ranges["x"]
    assert low < found.intervals[0].table_lower < table["x"].mean() < high
    assert "x clipped to" in found.summary()
    assert "intervals" in (tmp_path / "mean.json").read_text()
