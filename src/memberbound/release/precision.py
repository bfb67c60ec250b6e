"""Precision of noisy numbers: half-widths of intervals, and the η for a given width.

Noise is normal and on a grid, so the interval for the table's own value follows from the noise
alone (X32, proofs/intervals.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from scipy import special

from memberbound.answers import Given, Lower, Upper
from memberbound.errors import InputError, fraction, positive, whole_number
from memberbound.numerics.roots import last_true
from memberbound.numerics.rounding import up
from memberbound.quantities import significant
from memberbound.release.budget import HISTOGRAM_MOVES, Budget, Slack
from memberbound.release.noise import COARSE

#: Confidence of all intervals.
CONFIDENCE = 0.95
#: Numbers of rows for which ``explain`` shows the width of an interval.
SHOWN_ROWS = (1_000, 10_000, 100_000)
#: Upper bound on the ratio of a release's noise to the ideal noise, for rounded sensitivities.
_ROOM = 1.0 + 2.0**-19
#: Coordinates of the largest histogram; each draw adds to the slack.
_COORDINATES = 100_000
#: Factor by which a μ that was found exceeds the smallest one.
_BEYOND = 1.0 + 1e-6
#: The largest and the smallest μ to search.
_MUS = (10.0, 1e-12)


def normal_quantile(confidence: float = CONFIDENCE) -> float:
    """Return z with 2Φ(z) - 1 = confidence."""
    return float(special.ndtri((1.0 + fraction("confidence", confidence)) / 2))


@lru_cache(maxsize=256)
def half_width(scale: float, confidence: float = CONFIDENCE) -> float:
    """Return the least h with P(|noisy number - exact number| ≤ h) ≥ ``confidence``.

    Guarantee: P(|snapped(value + noise) - value| ≤ h) ≥ confidence for every value, on or off the
    grid; h is a multiple of half a grid step, and at most half a step larger than needed.
    Theorem: X32, proofs/intervals.md, claim 1.
    Assumes: ideal noise; draws in floating point differ by the release's slack.

    Examples:
        >>> half_width(5.627), half_width(4.0), half_width(64.0)
        (11.5, 8.0, 128.0)
    """
    step = float(COARSE.steps(positive("scale", scale)))
    halves = max(1, math.floor(2 * normal_quantile(confidence) * scale / step))

    def covers(count: int) -> bool:
        # At least ``count`` grid points are within h.  The noise values that round to them fill an
        # interval of length count·step = 2h, centred at most half a step from 0.
        reach = count * step / 2
        above, below = (reach + step / 2) / scale, (reach - step / 2) / scale
        return float(special.ndtr(above) - special.ndtr(-below)) >= confidence

    while not covers(halves):
        halves += 1
    return halves * step / 2


def sum_half_width(scale: float, confidence: float = CONFIDENCE) -> float:
    """Return the half-width of a linear function of several noisy numbers, per unit of its length.

    Sums of numbers on a grid need up to a seventh of a grid step more than one number does.
    Theorem: X32, proofs/intervals.md, claim 3 (by enumeration of two and three numbers).
    """
    return half_width(scale, confidence) + float(COARSE.steps(scale)) / 6


@dataclass(frozen=True)
class NumberInterval:
    """The standard error of a number due to noise, and two 95 % intervals.

    ``table_*`` is for the table's value without noise, ``population_*`` for the population's value,
    or None if no interval is proved to cover it.
    """

    standard_error: Upper | None
    table_lower: Lower | None
    table_upper: Upper | None
    population_lower: Lower | None
    population_upper: Upper | None

    @classmethod
    def between(
        cls,
        error: float | None,
        table: tuple[float, float],
        population: tuple[float, float] | None,
    ) -> NumberInterval:
        """Return the intervals with these ends."""
        return cls(error, *table, *((None, None) if population is None else population))


@dataclass(frozen=True)
class IntervalWidth:
    """Widths of a 95 % interval for a mean or share of values in [0, 1].

    ``noise_upper`` is for the table's own value, ``population_upper`` for that of the population
    from which the rows were sampled, for any variance.
    """

    rows: int
    noise_upper: Upper
    population_upper: Upper


@dataclass(frozen=True)
class Precise:
    """Normal noise that is precise enough, and the η of a release with it."""

    mu: Given
    eta: Given


@dataclass(frozen=True)
class IntervalTarget:
    """The η for a width, from noise alone and together with sampling (None if impossible)."""

    width: Given
    rows: int
    noise: Precise
    population: Precise | None
    #: The width without any noise.
    sampling_alone_upper: Upper


def sampling_width(rows: int) -> float:
    """Return the width from sampling alone for a share of one half, the worst case."""
    return normal_quantile() / math.sqrt(whole_number("n", rows, at_least=1))


def interval_width(mu: float, rows: int) -> IntervalWidth:
    """Return interval widths for a mean or share that ``summarize`` releases with all of μ.

    A share is a count in a histogram with sensitivity √2.  A mean is a noisy sum over a noisy
    number of values, of length √2 at most in units of half the range.
    """
    alone = sampling_width(rows)
    share = half_width(HISTOGRAM_MOVES / mu * _ROOM)
    mean = sum_half_width(2.0 / mu * _ROOM) / math.sqrt(2.0)
    noise = up(2 * max(share, mean) / rows, 4)
    return IntervalWidth(rows, noise, up(math.hypot(noise, alone), 4))


def widths_at(eta: float, rows: tuple[int, ...] = SHOWN_ROWS) -> tuple[IntervalWidth, ...]:
    """Return interval widths of ``summarize`` at this η; empty if η is 0 or no guarantee."""
    mu = 2 * float(special.ndtri(0.5 + eta))
    return tuple(interval_width(mu, n) for n in rows) if 1e-12 <= mu <= _MUS[0] else ()


def target_interval(width: float, rows: int) -> IntervalTarget:
    """Return the smallest η at which 95 % intervals of a mean or share have at most this width.

    Examples:
        >>> found = target_interval(0.02, 10_000)
        >>> round(found.noise.eta, 4), round(found.population.eta, 4)
        (0.0058, 0.0292)
    """
    wanted = positive("target_interval", width)
    count = whole_number("n", rows, at_least=2)
    if wanted >= 1:
        raise InputError(f"target_interval must be less than 1, got {width!r}.")
    least = interval_width(_MUS[0], count)
    if least.noise_upper > wanted:
        narrowest = significant(least.noise_upper, "upper", 2)
        raise InputError(
            f"target_interval must be at least {narrowest} for {count} rows, got {width!r}: a "
            "narrower interval leaves no guarantee."
        )
    population = None
    if least.population_upper <= wanted:
        population = _precise(lambda mu: interval_width(mu, count).population_upper <= wanted)
    noise = _precise(lambda mu: interval_width(mu, count).noise_upper <= wanted)
    return IntervalTarget(wanted, count, noise, population, up(sampling_width(count), 4))


def _precise(enough: Callable[[float], bool]) -> Precise:
    """Return the smallest sufficient μ, and the η of a release with it.

    Half-widths are multiples of half a grid step, so that a μ at a step's very edge would not be
    enough once it is converted to η and back.
    """
    mu = last_true(enough, *_MUS)
    mu = beyond if enough(beyond := mu * _BEYOND) else mu
    return Precise(mu, Budget(mu, Slack(_COORDINATES).total).curve().eta)
