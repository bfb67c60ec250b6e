"""Segments of a polygon: their sums, and the segments of finite pairs of laws.

A polygon is stored as its segments, steepest first.  Segment j has the log-slope ``loss`` ℓ_j =
ln(in_j/out_j), possibly ±∞, and the *heavier* of its two masses; the lighter one is
``heavy·e^{-|ℓ|}``.  Nothing overflows, and both profiles are sums of non-negative terms:

    forward(ε) = Σ_{ℓ_j > ε} heavy_j·(1 - e^{ε-ℓ_j}),  ε ≥ 0, and its mirror.

Raising a heavy mass or |ℓ| raises both profiles, so rounding both outward is always safe.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from memberbound.errors import InputError
from memberbound.numerics.rounding import (
    SMALLEST,
    UNIT,
    FloatArray,
    double_above,
    sum_slack,
    up,
    up_array,
)

#: Largest (ε × segment) table to sum entry by entry; beyond it one sweep is faster.
_DENSE = 1 << 14
#: Number of entries of the (ε × segment) table in memory.
_BLOCK = 1 << 22


@dataclass(frozen=True, eq=False)
class OneSided:
    """The sums of one profile: segments steeper than 1, and certain outcomes.

    ``certain`` is the mass of outcomes that are impossible in the other world, from above; a single
    atom is not rounded.
    """

    loss: FloatArray
    heavy: FloatArray
    certain: float
    steepest: float

    @classmethod
    def of(cls, loss: FloatArray, heavy: FloatArray) -> OneSided:
        """Keep the segments that count in one direction."""
        atoms = heavy[loss == math.inf]
        total = math.fsum(atoms)
        if math.fsum([*atoms, -total]) > 0:
            total = math.nextafter(total, math.inf)
        active = (loss > 0) & np.isfinite(loss)
        steepest = float(loss[active].max(initial=0.0))
        return cls(loss[active], heavy[active], min(1.0, total), steepest)

    def profile(self, epsilon: FloatArray) -> FloatArray:
        """Return the sums over the segments at many ε ≥ 0, from above."""
        loss, heavy, certain = self.loss, self.heavy, self.certain
        eps = np.asarray(epsilon, dtype=np.float64)
        result = np.zeros_like(eps)
        if loss.size == 0:
            return result + certain
        with np.errstate(under="ignore"):
            if eps.size > 1 and eps.size * loss.size > _DENSE:
                result, slack = _swept(eps, loss, heavy)
            else:
                slack = sum_slack(loss.size)
                rows = max(1, _BLOCK // loss.size)
                for start in range(0, eps.size, rows):
                    gap = eps[start : start + rows, None] - loss[None, :]
                    result[start : start + rows] = -np.expm1(np.minimum(gap, 0.0)) @ heavy
            raised = (certain + result) * (1 + slack)
        # Every product may have lost half of the smallest double.  If no finite segment counts, the
        # certain mass is not rounded, so that (ε, δ) returns δ.
        lost = 2 * (loss.size + eps.size) * SMALLEST
        total = np.where(eps < self.steepest, raised + lost, certain)
        return np.asarray(np.minimum(total, 1.0), dtype=np.float64)


def _swept(epsilon: FloatArray, loss: FloatArray, heavy: FloatArray) -> tuple[FloatArray, float]:
    """Return profiles at many ε from one sweep down the segments, and their relative error.

    At height x let A = Σ_{ℓ_j > x} m_j e^{x-ℓ_j}, and F = Σ_{ℓ_j > x} m_j(1 - e^{x-ℓ_j}), which is
    the profile.  If x decreases by Δ, F increases by A(1 - e^{-Δ}) and A is multiplied by e^{-Δ};
    passing a segment adds its mass to A.  All terms are non-negative, so after k steps of at most
    four roundings each the relative error is at most (4k + few)·2⁻⁵³.
    """
    heights = np.concatenate([loss, epsilon])
    # At equal height, evaluate first, because a segment of slope e^ε does not count at ε.
    order = np.lexsort((np.repeat([1, 0], [loss.size, epsilon.size]), -heights))
    drops = np.abs(np.diff(heights[order], prepend=heights[order[0]]))
    lost = (-np.expm1(-drops)).tolist()
    kept = np.exp(-drops).tolist()
    result = np.empty(epsilon.size)
    weight = total = 0.0
    mass = heavy.tolist()
    for place, gone, left in zip(order.tolist(), lost, kept, strict=True):
        total += weight * gone
        weight *= left
        if place < loss.size:
            weight += mass[place]
        else:
            result[place - loss.size] = total
    return result, 1.01 * (4 * heights.size + 32) * UNIT


# ── Segments of finite pairs of laws, rounded outward ─────────────────────────────────────────────
# Masses are divided by their sum.  Otherwise an excess in one world would look like a difference in
# one direction and vanish in the other.

#: Largest accepted deviation of a sum of probabilities from 1.
NORMALISATION_TOLERANCE = 1e-9
_LN2 = math.log(2.0)

Segments = tuple[FloatArray, FloatArray]


def _refuse_sum(name: str, total: float) -> InputError:
    return InputError(f"{name} must be probabilities that add up to 1, got a sum of {total!r}.")


def float_law(name: str, masses: Sequence[float | Fraction]) -> FloatArray:
    """Check a law given as doubles, and return it."""
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
    """Check a law, and return it as fractions with sum exactly 1."""
    float_law(name, masses)
    exact = [Fraction(m) for m in masses]
    total = sum(exact)
    return [m / total for m in exact]


def float_segments(p: FloatArray, q: FloatArray) -> Segments:
    """Return the segments of two laws of doubles."""
    keep = (p > 0) | (q > 0)
    p, q = p[keep], q[keep]
    p_sum, q_sum = math.fsum(p), math.fsum(q)
    # ln(Σq/Σp) from the correctly rounded difference, so exactly 0 if the sums agree.
    shift = math.log1p(math.fsum(np.concatenate([q, -p])) / p_sum)
    more, less = np.maximum(p, q), np.minimum(p, q)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        # Within a factor of two the difference is exact, so nearly equal masses lose no digits; for
        # larger ratios the exponents are kept out of the logarithm.
        close = np.log1p((more - less) / less)
        (more_part, more_power), (less_part, less_power) = np.frexp(more), np.frexp(less)
        apart = np.log(more_part / less_part) + (more_power - less_power) * _LN2
        ratio = np.copysign(np.where(more <= 2 * less, close, apart), p - q) + shift
        slack = UNIT * (4 + 16 * np.abs(ratio) + 16 * abs(shift))
        loss = np.where((p == q) & (shift == 0.0), 0.0, ratio + np.copysign(slack, ratio))
        loss = np.where(p == 0, -np.inf, np.where(q == 0, np.inf, loss))
        heavy = up_array(np.maximum(p / p_sum, q / q_sum))
        # If rounding leaves the sign of ℓ undetermined, count the segment in both directions.
        doubt = (np.abs(ratio) <= slack) & (shift != 0.0) & (p > 0) & (q > 0)
    if doubt.any():
        reach = 2 * slack[doubt]
        loss = np.concatenate([loss[~doubt], reach, -reach])
        heavy = np.concatenate([heavy[~doubt], heavy[doubt], heavy[doubt]])
    return loss, heavy


def exact_segments(p: list[Fraction], q: list[Fraction]) -> Segments:
    """Return the segments of two rational laws."""
    pairs = [(a, b) for a, b in zip(p, q, strict=True) if a or b]
    loss = np.array([_log_ratio(a, b) for a, b in pairs])
    return loss, np.array([double_above(max(a, b)) for a, b in pairs])


def _log_ratio(a: Fraction, b: Fraction) -> float:
    """Return ln(a/b), rounded away from zero; 0 only for equal masses."""
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
    size = up(max(value, SMALLEST), 8)
    return size if a > b else -size
