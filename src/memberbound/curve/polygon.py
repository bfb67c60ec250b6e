"""Piecewise-linear trade-off curves: finite pairs exactly, everything else from above.

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
from functools import cached_property

import numpy as np

from memberbound.curve.base import Side, TradeoffCurve
from memberbound.errors import InputError, fraction
from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack, up

__all__ = ["PolygonCurve"]

#: How far probabilities may be from adding up to one before the input is refused.
NORMALISATION_TOLERANCE = 1e-9
#: Entries of the (ε × segment) table held in memory at once.
_BLOCK = 1 << 22


def _frozen(values: FloatArray) -> FloatArray:
    copy = np.array(values, dtype=np.float64)
    copy.setflags(write=False)
    return copy


@dataclass(frozen=True, eq=False)
class PolygonCurve(TradeoffCurve):
    """A concave polygon from (0, certain mass) to (1, 1).

    Build one with :meth:`from_masses` (a finite pair), :func:`memberbound.curve.mixture` or
    :func:`memberbound.curve.polygon_from_lines`.
    """

    loss: FloatArray
    heavy: FloatArray

    def __post_init__(self) -> None:
        order = np.argsort(-self.loss, kind="stable")
        object.__setattr__(self, "loss", _frozen(self.loss[order]))
        object.__setattr__(self, "heavy", _frozen(self.heavy[order]))

    # ---- construction ---------------------------------------------------------------------

    @classmethod
    def from_masses(
        cls, inside: Sequence[float | Fraction], outside: Sequence[float | Fraction]
    ) -> PolygonCurve:
        """Return the curve of a finite pair of laws, vertices by sorted likelihood ratio.

        Guarantee: at or above the exact curve of the rational pair whose entries, rounded to
        doubles, were given; the excess is a few units in the last place plus the amount by which
        the masses fail to add up to one.

        Edge cases: outcomes impossible in one world get slope ∞ or 0; outcomes impossible in both
        are dropped.

        Example:
        >>> curve = PolygonCurve.from_masses([0.75, 0.25], [0.25, 0.75])
        >>> round(curve.advantage, 12), round(curve.tpr(0.25), 12)
        (0.5, 0.75)
        """
        p, p_gap = _law("inside", inside)
        q, q_gap = _law("outside", outside)
        if p.size != q.size:
            raise InputError(
                f"inside and outside must list the same outcomes, got {p.size} and {q.size}."
            )
        keep = (p > 0) | (q > 0)
        p, q = p[keep], q[keep]
        with np.errstate(divide="ignore"):
            loss = np.log(p) - np.log(q)
            size = np.abs(np.log(np.where(p > 0, p, 1))) + np.abs(np.log(np.where(q > 0, q, 1)))
        # Equal masses have loss exactly 0; otherwise |ℓ| is raised by the rounding of both logs
        # and by half an ulp of each mass.
        loss = np.where(p == q, 0.0, loss + np.sign(loss) * 4 * UNIT * (1 + size))
        heavy = np.maximum(p, q) * (1 + p_gap + q_gap + 8 * UNIT)
        return cls(loss, heavy)

    # ---- the form -------------------------------------------------------------------------

    @cached_property
    def inside(self) -> FloatArray:
        """In-mass of every segment."""
        return np.asarray(self.heavy * np.exp(np.minimum(self.loss, 0.0)), dtype=np.float64)

    @cached_property
    def outside(self) -> FloatArray:
        """Out-mass of every segment."""
        return np.asarray(self.heavy * np.exp(np.minimum(-self.loss, 0.0)), dtype=np.float64)

    @cached_property
    def vertices(self) -> tuple[FloatArray, FloatArray]:
        """FPR and TPR at the corners, from (0, 0) on; both end near 1."""
        fpr = np.concatenate([[0.0], np.cumsum(self.outside)])
        tpr = np.concatenate([[0.0], np.cumsum(self.inside)])
        return fpr, tpr

    def _profile(self, epsilon: FloatArray, *, forward: bool) -> FloatArray:
        loss = self.loss if forward else -self.loss
        certain = math.fsum(self.heavy[np.isposinf(loss)])
        active = (loss > 0) & np.isfinite(loss)
        loss, heavy = loss[active], self.heavy[active]
        eps = np.asarray(epsilon, dtype=np.float64)
        result = np.zeros_like(eps)
        if loss.size == 0:
            return np.minimum(result + certain, 1.0)
        rows = max(1, _BLOCK // loss.size)
        for start in range(0, eps.size, rows):
            gap = eps[start : start + rows, None] - loss[None, :]
            result[start : start + rows] = -np.expm1(np.minimum(gap, 0.0)) @ heavy
        # Where no finite segment counts, the certain mass stands unrounded: (ε, δ) comes back as δ.
        total = np.where(
            result > 0, (certain + result * (1 + sum_slack(loss.size))) * (1 + 4 * UNIT), certain
        )
        return np.asarray(np.minimum(total, 1.0), dtype=np.float64)

    def _tpr(self, fpr: FloatArray) -> FloatArray:
        alpha = np.asarray(fpr, dtype=np.float64)
        corner_fpr, corner_tpr = self.vertices
        slack = sum_slack(self.loss.size)
        low = corner_fpr * (1 - slack)
        index = np.clip(np.searchsorted(low, alpha, side="right") - 1, 0, self.loss.size - 1)
        loss, run = self.loss[index], np.maximum(alpha - low[index], 0.0)
        # e^ℓ·run is capped by the segment's in-mass, so large slopes cannot overflow the result.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            rise = np.minimum(np.exp(loss + np.log(run)), self.inside[index])
        rise = np.where(run > 0, rise, 0.0)
        value = (corner_tpr[index] + rise) * (1 + 2 * slack)
        return np.asarray(np.clip(np.maximum(value, alpha), 0.0, 1.0), dtype=np.float64)

    def certain_mass(self) -> float:
        """In-mass of segments with infinite slope."""
        certain = self.heavy[np.isposinf(self.loss)]
        return min(1.0, up(math.fsum(certain)))

    def epsilon(self, delta: float, side: Side = "both") -> float:
        """Return the ε of :meth:`TradeoffCurve.epsilon`; at δ = 0 the largest log-slope."""
        if fraction("delta", delta) == 0.0:
            reach = self.loss[self.heavy > 0]
            largest = float(reach.max(initial=0.0)) if side != "backward" else 0.0
            smallest = float(reach.min(initial=0.0)) if side != "forward" else 0.0
            return max(0.0, largest, -smallest)
        return super().epsilon(delta, side)

    def _search_top(self, target: float, side: Side) -> float:
        finite = np.abs(self.loss[np.isfinite(self.loss)])
        top = float(finite.max(initial=0.0))
        return top if self.delta(top, side) <= target else math.inf

    def reversed(self) -> PolygonCurve:
        """Return the mirror image: losses change sign."""
        return PolygonCurve(-self.loss, self.heavy)

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether the segments mirror each other exactly."""
        mirror = self.reversed()
        return bool(
            np.array_equal(self.loss, mirror.loss) and np.array_equal(self.heavy, mirror.heavy)
        )

    def knots(self) -> FloatArray:
        """Log-slopes of the segments, and 0."""
        finite = self.loss[np.isfinite(self.loss)]
        return np.unique(np.append(finite, 0.0))

    def to_polygon(self) -> PolygonCurve:
        """Return itself."""
        return self


def _law(name: str, masses: Sequence[float | Fraction]) -> tuple[FloatArray, float]:
    """Check one law; return it with the relative gap between its sum and 1."""
    try:
        values = np.array([float(m) for m in masses], dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a list of probabilities, got {masses!r}.") from None
    if values.size == 0:
        raise InputError(f"{name} must be a list of at least one probability, got an empty one.")
    if not np.all(np.isfinite(values)) or np.any(values < 0):
        bad = values[~(np.isfinite(values) & (values >= 0))][0]
        raise InputError(f"{name} must be probabilities in [0, 1], got {float(bad)!r}.")
    total = math.fsum(values)
    gap = abs(total - 1.0)
    if gap > NORMALISATION_TOLERANCE:
        raise InputError(f"{name} must be probabilities that add up to 1, got a sum of {total!r}.")
    return values, gap
