"""Confidence bounds for the mean of bounded independent variables, from sums alone.

Every function takes what n i.i.d. draws add up to and ``log_error`` = ln(1/β), and works on arrays,
one variable per entry.  Each bound fails with probability at most β *per entry*; whoever reads many
entries at once pays with :func:`log_error_shared`.  Proofs: ``proofs/bounded-means.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import InputError, fraction, positive, whole_number
from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack, up, up_array

__all__ = [
    "empirical_bernstein_upper",
    "hoeffding_upper",
    "log_error_shared",
    "moment_lower",
    "moment_upper",
]

#: The last bet of the grid in moment_upper: what serves when nothing was seen at all.
_LARGEST_BET = 0.9375


def log_error_shared(
    confidence: float, statements: int, share: Fraction | float = Fraction(1)
) -> float:
    """Return ln(1/β) from above, where ``statements`` errors of β make ``share``·(1 - confidence).

    Numerics: 1 - confidence is taken exactly, so a confidence next to 1 costs no digits.

    Examples:
        >>> round(log_error_shared(0.95, 1000), 4)
        9.9035
    """
    level = fraction("confidence", confidence, open_left=True, open_right=True)
    count = whole_number("statements", statements)
    allowed = (1 - Fraction(level)) * Fraction(share)
    if allowed <= 0:
        raise InputError(f"share must be greater than 0, got {share!r}.")
    # The quotient is rounded once and the logarithm's error is below one unit of its size.
    return up(math.log(float(count / allowed)) + 2 * UNIT, 8)


def hoeffding_upper(
    mean: ArrayLike, count: int, log_error: float, width: float = 1.0
) -> FloatArray:
    """Return mean + width·√(ln(1/β)/(2n)) for variables in an interval of that width.

    Theorem: Hoeffding (1963).  Numerics: rounded up.

    Examples:
        >>> hoeffding_upper([0.5], 200, 2.0).round(6).tolist()
        [0.570711]
    """
    draws = whole_number("count", count)
    span = positive("width", width)
    radius = up(span * math.sqrt(positive("log_error", log_error) / (2 * draws)), 8)
    return up_array(np.asarray(mean, dtype=np.float64) + radius)


def empirical_bernstein_upper(samples: ArrayLike, log_error: float) -> FloatArray:
    """Return the bound of Maurer and Pontil (2009) for the columns of samples in [0, 1].

    With probability at least 1 - β the mean is at most X̄ + √(2V·l/n) + 7l/(3(n-1)), l = ln(2/β), V
    the sample variance.
    Numerics: rounded up; V is raised by the rounding of its sums.
    Edge cases: never above 1.

    Examples:
        >>> empirical_bernstein_upper([[0.0]] * 1000, 3.0).round(6).tolist()
        [0.008626]
    """
    table = unit_samples(samples)
    draws = len(table)
    level = up(positive("log_error", log_error) + math.log(2.0), 4)
    mean = table.mean(axis=0) * (1 + sum_slack(draws))
    if draws == 1:
        return np.ones_like(mean)
    spread = np.square(table - mean).sum(axis=0) / (draws - 1)
    # A centre off by c adds c² to the mean square and never lowers it; the rest is rounding.
    spread = spread * (1 + 4 * sum_slack(draws))
    tail = 7 * level / (3 * (draws - 1))
    return np.minimum(1.0, up_array(mean + np.sqrt(2 * spread * level / draws) + tail, 16))


def moment_upper(
    mean: ArrayLike, square: ArrayLike, count: int, largest: ArrayLike, log_error: float
) -> FloatArray:
    """Bound E X from above for X ≤ ``largest``, from the means of n draws of X and of X².

    Guarantee: with probability at least 1 - β over the draws, per entry.
    Theorem: proofs/bounded-means.md claim 2: for Y = -X/largest ≥ -1 and a bet 0 < λ < 1,
    e^{λY - ψ(λ)Y²} ≤ 1 + λY with ψ(λ) = -ln(1-λ) - λ (Fan, Grama and Liu 2015), so Markov's
    inequality bounds E Y from below.  A fixed grid of bets shares β.
    Assumes: ``mean`` and ``square`` are not below the means of what was drawn: both only raise the
    result.  X needs no lower bound.
    Numerics: rounded up.
    Edge cases: never above ``largest``; 0 there gives at most 0.

    Examples:
        >>> moment_upper([0.0], [0.0], 1000, [1.0], 3.0).round(6).tolist()
        [0.004905]
    """
    draws = whole_number("count", count)
    level = positive("log_error", log_error)
    bets = _bets(draws, level)
    spent = up((level + math.log(len(bets))) / draws, 8)
    centre, second, top = np.broadcast_arrays(
        np.asarray(mean, dtype=np.float64),
        np.asarray(square, dtype=np.float64),
        np.asarray(largest, dtype=np.float64),
    )
    if (top < 0).any():
        raise InputError("largest must be at least 0.")
    scale = np.where(top > 0, top, 1.0)
    with np.errstate(over="ignore"):
        first, second = centre / scale, second / scale / scale
    best = np.full(top.shape, np.inf)
    for bet in bets:
        price = _price(bet)
        worst = bet * first + price * second + spent
        # The sum's terms may differ in sign: its error is relative to their sizes.
        worst = worst + 16 * UNIT * (np.abs(bet * first) + price * second + spent)
        value = -np.expm1(-worst) / bet
        best = np.minimum(best, value + 16 * UNIT * np.abs(value))
    return np.asarray(np.minimum(np.where(top > 0, up_array(best * scale, 8), 0.0), top))


def _price(bet: float) -> float:
    """ψ(λ) = -ln(1-λ) - λ from above.

    It is about λ²/2, so a rounding of the logarithm, whose size is λ, counts 2/λ-fold.
    """
    return up(-math.log1p(-bet) - bet, 16 + math.ceil(4 / bet))


def _bets(draws: int, level: float) -> list[float]:
    """Bets for every second moment between 0 and 1, each twice the one before.

    The best one is near √(2·ln(1/β)/(n·E Y²)); being off by √2 costs 6 % of the width.
    """
    bets = []
    bet = min(math.sqrt(2 * level / draws), 0.5)
    while bet < 0.8:
        bets.append(bet)
        bet *= 2
    return [*bets, _LARGEST_BET]


def moment_lower(mean: ArrayLike, square: ArrayLike, count: int, log_error: float) -> FloatArray:
    """Bound E X from below for X ≥ 0, from the means of n draws of X and of X².

    Guarantee: with probability at least 1 - β over the draws, per entry.
    Theorem: proofs/bounded-means.md claim 3: e^{θX - θ²X²/2} ≤ 1 + θX for X ≥ 0, θ > 0.  A fixed
    grid of θ, made for X of the order of 1 down to ln(1/β)/n, shares β.
    Assumes: ``mean`` is not above and ``square`` not below the mean of what was drawn.
    Numerics: rounded down.
    Edge cases: never below 0.  X may be unbounded above.

    Examples:
        >>> moment_lower([0.25], [0.0625], 10_000, 3.0).round(3).tolist()
        [0.248]
    """
    draws = whole_number("count", count)
    level = positive("log_error", log_error)
    first, second = np.broadcast_arrays(
        np.asarray(mean, dtype=np.float64), np.asarray(square, dtype=np.float64)
    )
    slope = math.sqrt(2 * level / draws)
    steps = max(1, math.ceil(math.log2(draws / level)) + 2) if draws > level else 1
    spent = up((level + math.log(steps)) / draws, 8)
    best = np.zeros(first.shape)
    for _ in range(steps):
        gain, price = slope * first, slope * slope / 2 * second
        least = gain - price - spent - 16 * UNIT * (gain + price + spent)
        value = np.expm1(np.minimum(least, 600.0)) / slope
        best = np.maximum(best, value - 16 * UNIT * np.abs(value))
        slope *= 2
    return np.asarray(np.maximum(-up_array(-best, 8), 0.0))


def unit_samples(samples: ArrayLike) -> FloatArray:
    """Return samples as an (n, M) array of numbers in [0, 1], or refuse them."""
    table = np.asarray(samples, dtype=np.float64)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or len(table) == 0:
        raise InputError(f"samples must be a table of draws × variables, got {table.shape}.")
    if not ((table >= 0) & (table <= 1)).all():
        raise InputError("samples must be in [0, 1]. Rescale them by their known range.")
    return table
