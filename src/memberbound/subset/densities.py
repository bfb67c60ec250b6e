"""Distributions "in" and "out" as cubics on cells, and their hockey-sticks (X9).

∫(p_in - c·p_out)₊ over a cell is at most the integral of the positive part of the cubics'
difference raised by both errors, and at most ∫p_in.  If "out" is below its error, the second bound
prevents a large c from multiplying the error (proofs/exact-mixtures.md, steps 1 and 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from memberbound.numerics.rounding import FloatArray, sum_slack

#: Above this ε the "out" densities underflow, and the result is ∞.
LARGEST_EPSILON = 80.0
#: Number of parts of a cell in which the difference may change sign.
_PARTS = 8


def _bernstein_at(points: FloatArray) -> FloatArray:
    """Return the values of the four cubic Bernstein polynomials, one row per point of [0, 1]."""
    t, s = points, 1 - points
    return np.stack([s**3, 3 * s**2 * t, 3 * s * t**2, t**3], axis=1)


_AT_NODES = _bernstein_at(np.linspace(0.0, 1.0, _PARTS + 1))


def bernstein(
    left: FloatArray, left_slope: FloatArray, right: FloatArray, right_slope: FloatArray, h: float
) -> FloatArray:
    """Return Bernstein coefficients of cubics with these values and slopes at the ends of cells."""
    return np.stack([left, left + left_slope * (h / 3), right - right_slope * (h / 3), right])


@dataclass(frozen=True, eq=False)
class DensityPair:
    """Densities "in" and "out" of R records on n cells, with certified errors.

    ``inside`` and ``outside`` have shape (4, R, n); the errors bound |density - cubic| on a cell
    and have shape (R, 1).  ``beyond`` bounds the masses in and out outside all cells, which
    periodic cells may contain nevertheless.  The errors include at least 32 roundings of the
    largest coefficient in the cell, for a cubic times c, for c itself, and for values.
    """

    width: float
    inside: FloatArray
    outside: FloatArray
    error_in: FloatArray
    error_out: FloatArray
    beyond: tuple[float, float] = (0.0, 0.0)

    @property
    def records(self) -> int:
        """R, the number of records."""
        return int(self.inside.shape[1])

    @cached_property
    def _caps(self) -> FloatArray:
        """Upper bounds on ∫p_in over the cells, per unit of width; they do not depend on c."""
        mean = (self.inside[0] + self.inside[1] + self.inside[2] + self.inside[3]) * 0.25
        return np.asarray(np.maximum(mean + self.error_in, 0.0), dtype=np.float64)

    def swapped(self) -> DensityPair:
        """Return the pair with "in" and "out" exchanged."""
        cubics, errors = (self.outside, self.inside), (self.error_out, self.error_in)
        return DensityPair(self.width, *cubics, *errors, self.beyond[::-1])

    def hockey_sticks(
        self, factors: FloatArray, rows: NDArray[np.intp] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return upper bounds on ∫(p_in - c·p_out)₊, one c > 0 per record, and P_out of that set.

        Guarantee: the first array is never below the true hockey-stick (X9).
        Numerics: the second array is not rounded safely; it only guides the search.
        """
        chosen = slice(None) if rows is None or len(rows) == self.records else rows
        c = np.asarray(factors, dtype=np.float64)[:, None]
        p_in, p_out = self.inside[:, chosen], self.outside[:, chosen]
        e_in, e_out = self.error_in[chosen], self.error_out[chosen]
        lifted = p_out * -c
        lifted += p_in
        lifted += e_in + c * e_out
        below, above = lifted < 0, lifted > 0
        # A cubic lies between its Bernstein coefficients, so these cells have no change of sign.
        below = below[0] | below[1] | below[2] | below[3]
        above = above[0] | above[1] | above[2] | above[3]
        part = (lifted[0] + lifted[1] + lifted[2] + lifted[3]) * 0.25
        part[~above] = 0.0
        mixed = np.nonzero(below & above)
        part[mixed] = _positive_parts(lifted[:, mixed[0], mixed[1]])
        part = np.minimum(part, self._caps[chosen])
        total = part.sum(axis=1) * self.width + (self.beyond[0] + c[:, 0] * self.beyond[1])
        mass = self.width * np.where(above, p_out[0], 0.0).sum(axis=1)
        # Sums of numbers with one sign, with at most 64 roundings of each.
        return np.asarray(total * (1 + sum_slack(part.shape[1] + 64))), mass

    def epsilon(self, delta: float, start: FloatArray | None = None) -> FloatArray:
        """Return an ε per record at which H_{e^ε}(in‖out) ≤ δ was verified, or ∞.

        Guarantee: (ε, δ) holds in this direction; an ε smaller by 1e-6 of 1 + ε fails the computed
        bound.  Uses Newton's method on ln H inside a bracket, from 0 or ``start``.
        """
        count = self.records
        low, high, point = np.zeros(count), np.full(count, math.inf), np.zeros(count)
        if start is not None:
            point = np.where(start < LARGEST_EPSILON, start, 0.0)
        active = np.arange(count)
        for _ in range(80):
            eps = point[active]
            factor = np.exp(eps)
            value, mass = self.hockey_sticks(factor, active)
            safe = value <= delta
            high[active] = np.where(safe, np.minimum(high[active], eps), high[active])
            low[active] = np.where(safe, low[active], np.maximum(low[active], eps))
            lo, hi = low[active], high[active]
            tolerance = 1e-6 * (1 + eps)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                step = np.log(value / delta) * value / (factor * mass)
                target = eps + np.clip(step, -20.0, 20.0) + np.where(safe, -0.4, 0.4) * tolerance
            middle = np.where(
                np.isfinite(hi), (lo + hi) / 2, np.minimum(2 * lo + 1, LARGEST_EPSILON)
            )
            bad = ~((target > lo) & (target < hi)) | (target > LARGEST_EPSILON)
            point[active] = np.where(bad, middle, target)
            closed = (hi - lo <= tolerance) | (lo >= LARGEST_EPSILON)
            active = active[~closed]
            if not len(active):
                break
        return high


def _positive_parts(coefficients: FloatArray) -> FloatArray:
    """Return upper bounds on the mean of (cubic)₊ over [0, 1], given Bernstein coefficients.

    Numerics: accurate to 64 roundings of the result and 16 of the largest coefficient.  On a part
    of length ℓ the mean error of the chord is at most ℓ³/12·max|q''|, and q'' is linear.
    """
    values = _AT_NODES @ coefficients
    bend = 6 * np.maximum(
        np.abs(coefficients[0] - 2 * coefficients[1] + coefficients[2]),
        np.abs(coefficients[1] - 2 * coefficients[2] + coefficients[3]),
    )
    left, right = values[:-1], values[1:]
    up_left, up_right = np.maximum(left, 0.0), np.maximum(right, 0.0)
    reach = np.abs(left) + np.abs(right)
    safe_reach = np.where(reach > 0, reach, 1.0)
    chord = np.where(
        left * right < 0, (up_left**2 + up_right**2) / (2 * safe_reach), (up_left + up_right) / 2
    )
    length = 1 / _PARTS
    return np.asarray(chord.sum(axis=0) * length + bend * (length**2 / 12), dtype=np.float64)
