"""Intervals for released statistics: of the table's own value, and of the population's.

Everything here is a function of released numbers (X32, proofs/intervals.md): it spends no budget.
The table's own value is computed from the clipped rows; the population's is its expectation over
tables of the same number of independent records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from memberbound.numerics.rounding import FloatArray
from memberbound.release.noise import COARSE
from memberbound.release.precision import (
    CONFIDENCE,
    NumberInterval,
    half_width,
    normal_quantile,
    sum_half_width,
)


@dataclass(frozen=True)
class Noise:
    """The noise of a vector of sums, and the quantiles that its intervals use."""

    scale: float
    confidence: float = CONFIDENCE
    #: Norm of the coefficients, for a linear function of such numbers.
    length: float = 1.0
    #: Whether that function is of several numbers.
    several: bool = False

    @property
    def half(self) -> float:
        """The half-width of the interval of one number, or of the linear function."""
        width = sum_half_width if self.several else half_width
        return self.length * width(self.scale, self.confidence)

    @property
    def sampling(self) -> float:
        """The normal quantile for sampling errors."""
        return normal_quantile(self.confidence)

    @property
    def error(self) -> float:
        """The standard error of one number: the noise and its rounding to the grid."""
        step = float(COARSE.steps(self.scale))
        return self.length * math.sqrt(self.scale**2 + step**2 / 12)


def linear_interval(value: float, noise: Noise, length: float = 1.0) -> tuple[float, float]:
    """Return the interval of a linear function with coefficients of Euclidean norm ``length``."""
    return value - noise.half * length, value + noise.half * length


def count_interval(count: float, noise: Noise, records: int) -> NumberInterval:
    """Return the intervals of a noisy count; the population's is the expected count.

    The population's interval is the set of x with (count - x)² ≤ h² + z²·x(1 - x/n): a score
    interval with noise, because the variance of a rare cell depends on x and not on the noisy
    count.
    """
    square = noise.sampling**2
    lead, middle = 1.0 + square / records, count + square / 2
    root = math.sqrt(max(middle**2 - lead * (count**2 - noise.half**2), 0.0))
    ends = np.clip([(middle - root) / lead, (middle + root) / lead], 0.0, float(records))
    return NumberInterval.between(noise.error, linear_interval(count, noise), tuple(ends.tolist()))


def bounded_interval(
    total: float, squares: float, noise: Noise, records: int
) -> tuple[float, float]:
    """Return the interval of the expected sum of values in [0, 1], given their sum of squares.

    It is the set of x with (total - x)² ≤ h² + z²(squares - x²/n).
    """
    square = noise.sampling**2
    spread = min(max(squares, total**2 / records), max(total, 0.0))
    lead = 1.0 + square / records
    root = math.sqrt(max(total**2 - lead * (total**2 - noise.half**2 - square * spread), 0.0))
    ends = np.clip([(total - root) / lead, (total + root) / lead], 0.0, float(records))
    return float(ends[0]), float(ends[1])


@dataclass(frozen=True)
class NoisyMean:
    """A noisy sum of values in [-1, 1], the noisy number of values, and their sum of squares."""

    total: float
    present: float
    squares: float
    noise: Noise

    def intervals(
        self, half: float, middle: float, records: int, *, total: bool = False
    ) -> NumberInterval:
        """Return the intervals of the mean, or of the sum, of half·x + middle over the values."""
        if total:
            value = half * self.total + middle * self.present
            length = math.hypot(half, middle)
            sampled = self.noise.sampling**2 * self._sum_variance(half, middle, records)
            reach = math.sqrt((self.noise.half * length) ** 2 + sampled)
            table = linear_interval(value, self.noise, length)
            return NumberInterval.between(
                self.noise.error * length, table, (value - reach, value + reach)
            )
        error = half * self.noise.error * math.hypot(1.0, self._ratio) / self.present
        # The sampling variance of Σ(x - r) is Σ(x - r)², which follows from the sum of squares.
        ends = [self._solve(square) for square in (0.0, self.noise.sampling**2)]
        table, population = ((middle + half * a, middle + half * b) for a, b in ends)
        return NumberInterval.between(error, table, population)

    @property
    def _ratio(self) -> float:
        return min(max(self.total / self.present, -1.0), 1.0)

    @property
    def _spread(self) -> float:
        """The sum of squares, clipped to its possible range."""
        least = self.total**2 / max(self.present, 1.0)
        return float(np.clip(self.squares, least, max(self.present, least)))

    def _solve(self, square: float) -> tuple[float, float]:
        """Return the r in [-1, 1] with (S - rP)² ≤ h²(1 + r²) + square·(Q - 2rS + r²P)."""
        half = self.noise.half**2
        lead = self.present**2 - half - square * self.present
        middle = self.total * self.present - square * self.total
        last = self.total**2 - half - square * self._spread
        if lead <= 0:
            return -1.0, 1.0
        root = math.sqrt(max(middle**2 - lead * last, 0.0))
        ends = np.clip([(middle - root) / lead, (middle + root) / lead], -1.0, 1.0)
        return float(ends[0]), float(ends[1])

    def _sum_variance(self, half: float, middle: float, records: int) -> float:
        """Return the sampling variance of the sum of half·x + middle over the values."""
        total = half * self.total + middle * self.present
        squares = half**2 * self._spread + 2 * half * middle * self.total
        return max(squares + middle**2 * self.present - total**2 / records, 0.0)


def quantile_interval(
    halves: Sequence[FloatArray], level: float, ends: tuple[float, float], noise: Noise
) -> NumberInterval:
    """Return the intervals of a quantile, from noisy counts of a range's dyadic intervals.

    A leaf belongs to the interval unless the noisy number of values below it is significantly above
    the quantile's rank, or the number below its upper end is significantly below that rank.
    """
    depth = len(halves)
    below, variance = np.zeros(2**depth + 1), np.zeros(2**depth + 1)
    edges = np.arange(2**depth + 1)
    total = float(halves[0].sum())
    for index, noisy in enumerate(halves):
        # Where the path to the edge turns right, add the node on its left.
        nodes = edges >> (depth - 1 - index)
        right = (nodes % 2 == 1) & (edges < 2**depth)
        below[right] += noisy[nodes[right] - 1]
        variance += right if index else 0.0
    below[-1] = total
    first = np.array([edges >= 2 ** (depth - 1), edges == 2**depth], dtype=np.float64)
    variance += np.square(first - level).sum(axis=0)
    excess = below - level * total
    found = []
    for sampled in (0.0, max(total, 1.0) * level * (1 - level)):
        reach = np.sqrt(noise.half**2 * variance + noise.sampling**2 * sampled)
        low = int(np.argmax(excess[1:] >= -reach[1:]))
        high = 2**depth - 1 - int(np.argmax(excess[-2::-1] <= reach[-2::-1]))
        width = (ends[1] - ends[0]) / 2**depth
        found.append((ends[0] + low * width, ends[0] + (high + 1) * width))
    # Noise moves a quantile by whole leaves; how many depends on the density of the values.
    return NumberInterval.between(None, *found)


def covariance_intervals(
    values: FloatArray,
    units: FloatArray,
    *,
    pairs: tuple[ArrayLike, ArrayLike],
    mean: FloatArray,
    moments: FloatArray,
    present: float,
    noises: tuple[Noise, Noise],
) -> list[NumberInterval]:
    """Return the intervals of the table's own covariances, to first order in the noise.

    ``moments`` are the second moments of pairs of columns, in [-1, 1] as ``mean``; ``noises`` that
    of the sums and of the products.  The population has no interval, because the sampling error
    depends on fourth moments, which are not measured.
    """
    left, right = (np.asarray(side) for side in pairs)
    first, second, same = mean[left], mean[right], left == right
    products = 1.0 / np.where(same, 1.0, 2.0)
    sums = np.where(same, 4 * first**2, first**2 + second**2)
    sums += np.square(2 * first * second - moments) / len(mean)

    def spread(of_sums: float, of_products: float) -> FloatArray:
        lengths = np.sqrt(of_sums**2 * sums + of_products**2 * products)
        return np.asarray(lengths * units / present)

    errors = spread(*(noise.error for noise in noises))
    halves = spread(*(noise.half for noise in noises))
    rows = zip(values.tolist(), errors.tolist(), halves.tolist(), strict=True)
    return [NumberInterval.between(e, (value - h, value + h), None) for value, e, h in rows]
