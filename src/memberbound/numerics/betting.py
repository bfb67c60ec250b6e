"""Confidence bounds for the mean of variables in [0, 1] by betting against a candidate mean.

A gambler who starts with 1 and stakes a fixed part of the capital on "the next draw is above m"
has, if the mean is m or less, an expected final capital of at most 1; so a capital of 1/β refutes
m with error β (Waudby-Smith and Ramdas, *Estimating means of bounded random variables by betting*,
2024).  The capital is shared among a fixed grid of stakes.  It adapts to the whole law, not only to
its variance, and is the tightest bound of this package for a few variables.  Proofs:
``proofs/bounded-means.md``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import InputError, finite_number, one_of, positive
from memberbound.numerics.bernstein import (
    empirical_bernstein_upper,
    hoeffding_upper,
    log_error_shared,
    unit_samples,
)
from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack, up_array

__all__ = ["betting_lower", "betting_upper", "mean_lower", "mean_upper"]

#: Halvings of the interval of candidate means; the last step is 2⁻⁴⁰ of the sample mean.
_HALVINGS = 40
#: Below 1, so that one losing draw never takes all and 1 + c·gain keeps its digits.
_LARGEST_STAKE = 1 - 2.0**-16
#: Stakes are added up in blocks of draws, so that memory stays small.
_BLOCK = 4096


def betting_lower(samples: ArrayLike, log_error: float) -> FloatArray:
    """Bound the means of the columns of samples in [0, 1] from below.

    Guarantee: each column's bound fails with probability at most β = e^{-log_error}.
    Theorem: proofs/bounded-means.md claim 4.  With stakes c_j in (0, 1) and weights 1/J the capital
    K(m) = (1/J)Σ_j Π_i(1 + c_j(X_i/m - 1)) has E K(m) ≤ 1 if the mean is at most m, and falls in m.
    Numerics: only means m at which K(m) ≥ 1/β was seen, with room for rounding, are returned.
    Edge cases: a column of zeros gives 0, a constant column nearly its constant times (β/J)^{1/n}.

    Examples:
        >>> betting_lower([[0.25]] * 1000, 3.0).round(3).tolist()
        [0.249]
    """
    table = unit_samples(samples)
    level = positive("log_error", log_error)
    stakes = _stakes(len(table), level)
    low = np.zeros(table.shape[1])
    high = table.mean(axis=0)
    live = high > 0
    for _ in range(_HALVINGS):
        middle = np.where(live, low / 2 + high / 2, 1.0)
        refuted = live & (middle > 0) & (_log_capital(table, middle, stakes) >= level)
        low, high = np.where(refuted, middle, low), np.where(refuted, high, middle)
    return low


def betting_upper(samples: ArrayLike, log_error: float) -> FloatArray:
    """Bound the means of the columns from above: 1 minus :func:`betting_lower` of 1 - samples.

    Examples:
        >>> betting_upper([[0.0]] * 1000, 3.0).round(4).tolist()
        [0.0045]
    """
    table = unit_samples(samples)
    # Rounded down, so that the capital is never overstated; exact at 0 and 1.
    mirror = np.where(table == 0.0, 1.0, np.maximum(np.nextafter(1.0 - table, 0.0), 0.0))
    return np.minimum(1.0, up_array(1.0 - betting_lower(mirror, log_error)))


def _stakes(draws: int, level: float) -> FloatArray:
    """Stakes for every relative spread: doubling from √(ln(1/β)/n)/4 to nearly 1."""
    least = min(0.5, math.sqrt(level / draws) / 4)
    doublings = math.ceil(-math.log2(least))
    return np.asarray(np.minimum(_LARGEST_STAKE, least * 2.0 ** np.arange(doublings + 1)))


def _log_capital(table: FloatArray, mean: FloatArray, stakes: FloatArray) -> FloatArray:
    """Return ln K(m) per column, from below."""
    logs = np.zeros((len(stakes), len(mean)))
    sizes = np.zeros_like(logs)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for start in range(0, len(table), _BLOCK):
            gain = table[start : start + _BLOCK] / mean - 1.0
            for place, stake in enumerate(stakes):
                log = np.log1p(stake * gain)
                logs[place] += log.sum(axis=0)
                sizes[place] += np.abs(log).sum(axis=0)
        # c·gain is off by 3 units of at most its size; next to 1 + c·gain ≥ 1 - c that is at most
        # 3·(1 + 1/(1-c)) units, an absolute error of the logarithm.
        lost = 8 * UNIT * len(table) * (1 + 1 / (1 - stakes))
        room = sum_slack(len(table)) * sizes + lost[:, None]
        safe = np.where(np.isfinite(logs), logs - room, -np.inf)
        top = safe.max(axis=0)
        shift = np.where(np.isfinite(top), top, 0.0)
        mixed = shift + np.log(np.exp(safe - shift).mean(axis=0))
    return np.where(np.isfinite(top), mixed - 16 * UNIT * (1 + np.abs(mixed)), -np.inf)


def mean_upper(
    samples: ArrayLike,
    *,
    confidence: float = 0.95,
    low: float = 0.0,
    high: float = 1.0,
    method: str = "betting",
) -> FloatArray:
    """Bound the means of all columns at once from above, at the stated confidence.

    Guarantee: with probability at least ``confidence`` over n i.i.d. rows, no column's mean exceeds
    its bound (columns may depend on each other).
    Theorem: proofs/bounded-means.md (``betting``), Maurer–Pontil (``bernstein``), ``hoeffding``;
    union over the columns.
    Assumes: rows are independent draws of variables in [``low``, ``high``]; the method is chosen
    before looking at them.
    Numerics: rounded up.
    Edge cases: never above ``high``.

    Examples:
        >>> draws = [0.0] * 990 + [1.0] * 10
        >>> [mean_upper(draws, method=m).round(3).tolist() for m in ("betting", "hoeffding")]
        [[0.024], [0.049]]
    """
    kind = one_of("method", method, ("betting", "bernstein", "hoeffding"))
    values, bottom, top = _ranged(samples, low, high)
    width = top - bottom
    plain = (bottom, top) == (0.0, 1.0)
    # A larger sample can only raise the bound, and 0 and 1 stay where they are.
    scaled = values if plain else np.clip(up_array((values - bottom) / width, 8), 0.0, 1.0)
    table = unit_samples(scaled)
    level = log_error_shared(confidence, table.shape[1])
    if kind == "betting":
        bound = betting_upper(table, level)
    elif kind == "bernstein":
        bound = empirical_bernstein_upper(table, level)
    else:
        bound = hoeffding_upper(table.mean(axis=0) * (1 + sum_slack(len(table))), len(table), level)
    if plain:
        return np.minimum(bound, 1.0)
    raised = bottom + up_array(bound * width, 8)
    return np.minimum(top, raised + 8 * UNIT * (abs(bottom) + np.abs(raised)))


def mean_lower(
    samples: ArrayLike,
    *,
    confidence: float = 0.95,
    low: float = 0.0,
    high: float = 1.0,
    method: str = "betting",
) -> FloatArray:
    """Mirror of :func:`mean_upper`.

    Examples:
        >>> mean_lower([0.0] * 990 + [1.0] * 10).round(4).tolist()
        [0.0025]
    """
    values, bottom, top = _ranged(samples, low, high)
    return -mean_upper(-values, confidence=confidence, low=-top, high=-bottom, method=method)


def _ranged(samples: ArrayLike, low: float, high: float) -> tuple[FloatArray, float, float]:
    """Return the samples and the ends of their range, or refuse them."""
    bottom, top = finite_number("low", low), finite_number("high", high)
    if not bottom < top:
        raise InputError(f"high must be greater than low = {bottom!r}, got {high!r}.")
    finite_number("high - low", top - bottom)
    values = np.asarray(samples, dtype=np.float64)
    if not ((values >= bottom) & (values <= top)).all():
        raise InputError(f"samples must be in [{bottom!r}, {top!r}].")
    return values, bottom, top
