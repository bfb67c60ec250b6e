"""Finite pairs of laws as polygon segments: log-likelihood ratios and heavier masses, outward.

A segment is a pair (ℓ, heavy) as in :mod:`memberbound.curve.polygon`.  Masses that do not add up to
one are divided by their sum, because a law does: without that, an excess in one world would look
like a difference in one direction and vanish in the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from memberbound.errors import InputError, fraction
from memberbound.numerics.rounding import SMALLEST, UNIT, FloatArray

__all__ = ["exact_segments", "float_law", "float_segments", "hull_masses", "rational_law"]

#: How far probabilities may be from adding up to one before the input is refused.
NORMALISATION_TOLERANCE = 1e-9
_LN2 = math.log(2.0)

_Segments = tuple[FloatArray, FloatArray]


def _refuse_sum(name: str, total: float) -> InputError:
    return InputError(f"{name} must be probabilities that add up to 1, got a sum of {total!r}.")


def float_law(name: str, masses: Sequence[float | Fraction]) -> FloatArray:
    """Check one law given as doubles."""
    try:
        values = np.array([float(m) for m in masses], dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a list of probabilities, got {masses!r}.") from None
    if values.size == 0:
        raise InputError(f"{name} must be a list of at least one probability, got an empty one.")
    if not np.all(np.isfinite(values)) or np.any(values < 0):
        bad = values[~(np.isfinite(values) & (values >= 0))][0]
        raise InputError(f"{name} must be probabilities in [0, 1], got {float(bad)!r}.")
    total = math.fsum(values)
    if abs(total - 1.0) > NORMALISATION_TOLERANCE:
        raise _refuse_sum(name, total)
    return values


def rational_law(name: str, masses: Sequence[float | Fraction]) -> list[Fraction]:
    """Check one law and return it as fractions that add up to one exactly."""
    float_law(name, masses)
    exact = [Fraction(m) for m in masses]
    total = sum(exact)
    return [m / total for m in exact]


def float_segments(p: FloatArray, q: FloatArray) -> _Segments:
    """Segments of two laws of doubles."""
    keep = (p > 0) | (q > 0)
    p, q = p[keep], q[keep]
    p_sum, q_sum = math.fsum(p), math.fsum(q)
    # ln(Σq/Σp), from the correctly rounded difference: exactly 0 when the sums agree.
    shift = math.log1p(math.fsum(np.concatenate([q, -p])) / p_sum)
    more, less = np.maximum(p, q), np.minimum(p, q)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        # The difference is exact within a factor of two, so that nearly equal masses lose no
        # digits; farther apart the exponents are kept out of the logarithm.
        close = np.log1p((more - less) / less)
        (more_part, more_power), (less_part, less_power) = np.frexp(more), np.frexp(less)
        apart = np.log(more_part / less_part) + (more_power - less_power) * _LN2
        ratio = np.copysign(np.where(more <= 2 * less, close, apart), p - q) + shift
        slack = UNIT * (4 + 16 * np.abs(ratio) + 16 * abs(shift))
        loss = np.where((p == q) & (shift == 0.0), 0.0, ratio + np.copysign(slack, ratio))
        loss = np.where(p == 0, -np.inf, np.where(q == 0, np.inf, loss))
        heavy = np.nextafter(np.maximum(p / p_sum, q / q_sum) * (1 + 8 * UNIT), np.inf)
        # Where rounding leaves the sign of ℓ in doubt the segment counts in both directions.
        doubt = (np.abs(ratio) <= slack) & (shift != 0.0) & (p > 0) & (q > 0)
    if doubt.any():
        reach = 2 * slack[doubt]
        loss = np.concatenate([loss[~doubt], reach, -reach])
        heavy = np.concatenate([heavy[~doubt], heavy[doubt], heavy[doubt]])
    return loss, heavy


def exact_segments(p: list[Fraction], q: list[Fraction]) -> _Segments:
    """Segments of two rational laws."""
    pairs = [(a, b) for a, b in zip(p, q, strict=True) if a or b]
    loss = np.array([_log_ratio(a, b) for a, b in pairs])
    return loss, np.array([_from_above(max(a, b)) for a, b in pairs])


def _from_above(value: Fraction) -> float:
    """Return the smallest double at or above a positive rational."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def _log_ratio(a: Fraction, b: Fraction) -> float:
    """ln(a/b), rounded away from zero; 0 only for equal masses."""
    if a == b:
        return 0.0
    if not a or not b:
        return math.inf if a else -math.inf
    ratio = max(a, b) / min(a, b)
    if ratio <= 2:
        value = math.log1p(float(ratio - 1))
    else:
        power = ratio.numerator.bit_length() - ratio.denominator.bit_length()
        value = math.log(float(ratio / Fraction(2) ** power)) + power * _LN2
    size = math.nextafter(max(value * (1 + 16 * UNIT), SMALLEST), math.inf)
    return size if a > b else -size


def hull_masses(
    fpr: Sequence[float], tpr: Sequence[float]
) -> tuple[list[Fraction], list[Fraction]]:
    """In- and out-masses of the upper concave hull of ROC points, steepest first, exactly."""
    if len(fpr) != len(tpr):
        raise InputError(f"fpr and tpr must be of equal number, got {len(fpr)} and {len(tpr)}.")
    points = {Fraction(0): Fraction(0), Fraction(1): Fraction(1)}
    for x, y in zip(fpr, tpr, strict=True):
        at, height = Fraction(fraction("fpr", x)), Fraction(fraction("tpr", y))
        points[at] = max(height, points.get(at, height))
    corners: list[tuple[Fraction, Fraction]] = []
    for point in sorted(points.items()):
        while len(corners) > 1 and _turns_up(corners[-2], corners[-1], point):
            corners.pop()
        corners.append(point)
    # The first corner stands above (0, 0) when an attack never errs: a segment of infinite slope.
    steps = list(pairwise([(Fraction(0), Fraction(0)), *corners]))
    inside = [max(Fraction(0), b[1] - a[1]) for a, b in steps]
    return inside, [b[0] - a[0] for a, b in steps]


def _turns_up(
    a: tuple[Fraction, Fraction], b: tuple[Fraction, Fraction], c: tuple[Fraction, Fraction]
) -> bool:
    """Whether b lies on or below the line from a to c."""
    return (b[1] - a[1]) * (c[0] - a[0]) <= (c[1] - a[1]) * (b[0] - a[0])
