"""The laws "in" and "out" of several records as cubics on cells, and their hockey-sticks.

What is known of a density on a cell of width h is its cubic Hermite interpolant, in Bernstein form,
and a bound e on the distance.  ∫(p_in - c·p_out)₊ over the cell is then at most the integral of the
positive part of the cubic raised by e_in + c·e_out, and at most ∫p_in, whatever c is.  The second
bound keeps the error from being multiplied by a large c where "out" is below the error
(proofs/exact-mixtures.md, steps 1 and 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack, up_array

__all__ = ["LARGEST_EPSILON", "DensityPair", "bernstein"]

#: Beyond this ε the densities "out" are too small to be told from nothing; the answer is ∞.
LARGEST_EPSILON = 80.0
#: ε is found to this part of 1 + ε, from above.
EPSILON_TOLERANCE = 1e-6
_SEARCH_STEPS = 80
#: A cell in which the difference may change sign is cut into so many parts.
_PARTS = 8


def _bernstein_at(points: FloatArray) -> FloatArray:
    """Values of the four cubic Bernstein polynomials, one row per point of [0, 1]."""
    t, s = points, 1 - points
    return np.stack([s**3, 3 * s**2 * t, 3 * s * t**2, t**3], axis=1)


_AT_NODES = _bernstein_at(np.linspace(0.0, 1.0, _PARTS + 1))


def bernstein(
    left: FloatArray, left_slope: FloatArray, right: FloatArray, right_slope: FloatArray, h: float
) -> FloatArray:
    """Bernstein coefficients of the cubics with these values and slopes at the ends of cells."""
    return np.stack([left, left + left_slope * (h / 3), right - right_slope * (h / 3), right])


@dataclass(frozen=True, eq=False)
class DensityPair:
    """Densities "in" and "out" of R records on n cells, with certified errors.

    ``inside`` and ``outside`` have shape (4, R, n); the errors bound |density - cubic| on a cell
    and have shape (R, n) or (R, 1).  ``uncovered`` bounds the masses in and out that no cell holds;
    ``folded`` the masses that cells hold although they belong elsewhere (0 unless periodic).
    The errors include at least 32 roundings of the largest coefficient in the cell.
    """

    width: float
    inside: FloatArray
    outside: FloatArray
    error_in: FloatArray
    error_out: FloatArray
    uncovered: tuple[float, float] = (0.0, 0.0)
    folded: tuple[float, float] = (0.0, 0.0)

    @property
    def records(self) -> int:
        """R."""
        return int(self.inside.shape[1])

    def swapped(self) -> DensityPair:
        """Return the pair with "in" and "out" exchanged."""
        return DensityPair(
            self.width,
            self.outside,
            self.inside,
            self.error_out,
            self.error_in,
            self.uncovered[::-1],
            self.folded[::-1],
        )

    def hockey_sticks(
        self, factors: FloatArray, rows: NDArray[np.intp] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return ∫(p_in - c·p_out)₊ from above, one c > 0 per record, and P_out of that set.

        Guarantee: the first array is never below the true hockey-stick (X9).
        Numerics: the second is a plain number for the search only.
        """
        chosen = slice(None) if rows is None or len(rows) == self.records else rows
        c = np.asarray(factors, dtype=np.float64)[:, None]
        p_in, p_out = self.inside[:, chosen], self.outside[:, chosen]
        e_in, e_out = self.error_in[chosen], self.error_out[chosen]
        lifted = p_out * -c
        lifted += p_in
        lifted += e_in + c * e_out
        below, above = lifted < 0, lifted > 0
        # A cubic lies between its Bernstein coefficients: no change of sign, nothing to cut off.
        below = below[0] | below[1] | below[2] | below[3]
        above = above[0] | above[1] | above[2] | above[3]
        part = (lifted[0] + lifted[1] + lifted[2] + lifted[3]) * 0.25
        part[~above] = 0.0
        mixed = np.nonzero(below & above)
        part[mixed] = _positive_parts(lifted[:, mixed[0], mixed[1]])
        cap = (p_in[0] + p_in[1] + p_in[2] + p_in[3]) * 0.25 + e_in
        part = np.minimum(part, np.maximum(cap, 0.0))
        total = part.sum(axis=1) * (self.width * (1 + sum_slack(part.shape[1])))
        total += (self.uncovered[0] + c[:, 0] * self.folded[1]) * (1 + 8 * UNIT)
        mass = self.width * np.where(above, p_out[0], 0.0).sum(axis=1)
        return up_array(total), mass

    def epsilon(self, delta: float, start: FloatArray | None = None) -> FloatArray:
        """Return per record an ε at which H_{e^ε}(in‖out) ≤ δ was seen, or ∞.

        Guarantee: (ε, δ) holds in this direction; smaller ε by :data:`EPSILON_TOLERANCE` of 1 + ε
        fail the computed bound.  Newton's method on ln H inside a bracket, from 0 or ``start``.
        """
        count = self.records
        low, high, point = np.zeros(count), np.full(count, math.inf), np.zeros(count)
        if start is not None:
            point = np.where(start < LARGEST_EPSILON, start, 0.0)
        active = np.arange(count)
        for _ in range(_SEARCH_STEPS):
            eps = point[active]
            # The hockey-stick at a factor just below e^ε is the larger one.
            factor = np.exp(eps) * (1 - 8 * UNIT)
            value, mass = self.hockey_sticks(np.where(eps == 0, 1.0, factor), active)
            safe = value <= delta
            high[active] = np.where(safe, np.minimum(high[active], eps), high[active])
            low[active] = np.where(safe, low[active], np.maximum(low[active], eps))
            lo, hi = low[active], high[active]
            tolerance = EPSILON_TOLERANCE * (1 + eps)
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
    """Upper bounds of the mean of (cubic)₊ over [0, 1], for columns of Bernstein coefficients.

    On a part of length ℓ the chord is off by at most ℓ³/12·max|q''| in the mean, and q'' is linear.
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
    total = chord.sum(axis=0) * length + bend * (length**2 / 12)
    return np.asarray(total * (1 + 64 * UNIT), dtype=np.float64)
