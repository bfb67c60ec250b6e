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
from memberbound.curve.finite import (
    exact_segments,
    float_law,
    float_segments,
    hull_masses,
    rational_law,
)
from memberbound.errors import InputError, fraction
from memberbound.numerics.rounding import SMALLEST, UNIT, FloatArray, sum_slack, up

__all__ = ["PolygonCurve"]

#: Largest (ε × segment) table that is added up entry by entry; beyond it one sweep is quicker.
_DENSE = 1 << 14
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

        Guarantee: at or above the exact curve of the two laws, each divided by its sum.  Fractions
        are exact.  Doubles may be rounded probabilities: the curve also covers laws whose masses
        are within half a unit in the last place, except that equal doubles count as equal masses.
        Numerics: the excess is a few units in the last place.

        Edge cases: outcomes impossible in one world get slope ∞ or 0; outcomes impossible in both
        are dropped.

        Examples:
            >>> curve = PolygonCurve.from_masses([0.75, 0.25], [0.25, 0.75])
            >>> round(curve.advantage, 12), round(curve.tpr(0.25), 12)
            (0.5, 0.75)
        """
        if len(inside) != len(outside):
            raise InputError(
                "inside and outside must list the same outcomes, "
                f"got {len(inside)} and {len(outside)}."
            )
        if any(isinstance(m, Fraction) for law in (inside, outside) for m in law):
            return cls(
                *exact_segments(rational_law("inside", inside), rational_law("outside", outside))
            )
        return cls(*float_segments(float_law("inside", inside), float_law("outside", outside)))

    @classmethod
    def from_points(cls, fpr: Sequence[float], tpr: Sequence[float]) -> PolygonCurve:
        """Return the smallest concave ROC at or above the given points (and the diagonal).

        An attacker who can reach two points can reach the line between them by tossing a coin, so
        this hull is what a set of attacks reaches together (in terms of the trade-off function
        1 - TPR, its lower convex hull).
        Numerics: the hull is taken in exact arithmetic, then rounded up.

        Examples:
            >>> curve = PolygonCurve.from_points([0.1, 0.2, 0.5], [0.4, 0.3, 0.8])
            >>> round(curve.tpr(0.3), 12)
            0.6
        """
        return cls.from_masses(*hull_masses(fpr, tpr))

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

    def _certain(self, *, forward: bool) -> float:
        """Mass of outcomes impossible in the other world, from above; one atom stands unrounded."""
        atoms = self.heavy[np.isposinf(self.loss if forward else -self.loss)]
        total = math.fsum(atoms)
        return min(1.0, total if atoms.size <= 1 else up(total, 1))

    def _profile(self, epsilon: FloatArray, *, forward: bool) -> FloatArray:
        # Steepest first either way, so that a curve and its reverse add in the same order.
        loss, heavy = (self.loss, self.heavy) if forward else (-self.loss[::-1], self.heavy[::-1])
        certain = self._certain(forward=forward)
        active = (loss > 0) & np.isfinite(loss)
        loss, heavy = loss[active], heavy[active]
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
            raised = (certain + result * (1 + slack)) * (1 + 4 * UNIT)
        # Every product may have lost half of the smallest double.  Where no finite segment counts,
        # the certain mass stands unrounded: (ε, δ) comes back as δ.
        lost = 2 * (loss.size + eps.size) * SMALLEST
        total = np.where(eps < loss.max(), raised + lost, certain)
        return np.asarray(np.minimum(total, 1.0), dtype=np.float64)

    def _tpr(self, fpr: FloatArray) -> FloatArray:
        # Any support line bounds the TPR; the corners only say which lines come closest.
        alpha = np.asarray(fpr, dtype=np.float64)
        finite = self.loss[np.isfinite(self.loss)]
        best = np.ones_like(alpha)
        if finite.size == 0:
            return best
        corners = np.cumsum(self.outside)[np.isfinite(self.loss)]
        touching = np.searchsorted(corners, alpha)
        for shift in (-1, 0, 1):
            log_slope = finite[np.clip(touching + shift, 0, finite.size - 1)]
            best = np.minimum(best, self._line_height(log_slope, alpha))
        return best

    def _line_height(self, log_slope: FloatArray, alpha: FloatArray) -> FloatArray:
        """Height at α of the support line of a given log-slope, from above."""
        slopes, where = np.unique(log_slope, return_inverse=True)
        ahead = self._profile(np.maximum(slopes, 0.0), forward=True)
        behind = self._profile(np.maximum(-slopes, 0.0), forward=False)
        stick = np.where(slopes >= 0, ahead, behind)[where]
        with np.errstate(over="ignore", under="ignore"):
            # In two halves where e^ℓ overflows: α may be as small as it is large.
            half = np.exp(log_slope / 2)
            rise = np.where(log_slope < 700, alpha * np.exp(log_slope), alpha * half * half)
            steep = stick + rise
            # 1 - e^ℓ(1 - α - δ), written without subtracting numbers near one.
            flat = -np.expm1(np.minimum(log_slope, 0.0)) + np.exp(log_slope) * (alpha + stick)
            value = np.where(log_slope >= 0, steep, flat)
            raised = np.nextafter(value * (1 + 32 * UNIT) + 2 * SMALLEST, np.inf)
        # The diagonal itself needs no rounding.
        raised = np.where((log_slope == 0) & (stick == 0), alpha, raised)
        return np.minimum(raised, 1.0)

    def certain_mass(self) -> float:
        """In-mass of segments with infinite slope."""
        return self._certain(forward=True)

    def epsilon(self, delta: float, side: Side = "both") -> float:
        """Return the ε of :meth:`TradeoffCurve.epsilon`; at δ = 0 the largest log-slope."""
        if fraction("delta", delta) == 0.0:
            reach = self.loss[self.heavy > 0]
            largest = float(reach.max(initial=0.0)) if side != "backward" else 0.0
            smallest = float(reach.min(initial=0.0)) if side != "forward" else 0.0
            return max(0.0, largest, -smallest)
        quick = self._chord_epsilon(fraction("delta", delta), side)
        return super().epsilon(delta, side) if quick is None else quick

    def _chord_epsilon(self, target: float, side: Side) -> float | None:
        """Return ε at δ from the two knots around it, checked on both sides; else ``None``.

        Between knots the profile is linear in e^ε, so one division replaces the bisection.
        """
        if side == "both" and not self.is_symmetric:
            return None
        forward = side != "backward"
        knots = np.unique(np.append(np.abs(self.loss[np.isfinite(self.loss)]), 0.0))
        sticks = self._profile(knots, forward=forward)
        index = int(np.searchsorted(-sticks, -target))  # first knot at which the profile is ≤ δ
        if index in (0, knots.size):
            return None
        low, high = float(knots[index - 1]), float(knots[index])
        above, below = float(sticks[index - 1]), float(sticks[index])
        if high - low > 1.0 or not above > target > below:
            return None
        share = (above - target) / (above - below)
        guess = low + math.log1p(share * math.expm1(high - low))
        found = min(high, guess * (1 + 1e-11) + 1e-300)
        tight = self.delta(max(low, found * (1 - 1e-9)), side) > target
        return found if tight and self.delta(found, side) <= target else None

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


def _swept(epsilon: FloatArray, loss: FloatArray, heavy: FloatArray) -> tuple[FloatArray, float]:
    """Profiles at many ε by one sweep from the steepest segment down, and their relative error.

    At height x let A = Σ_{ℓ_j > x} m_j e^{x-ℓ_j}, and F = Σ_{ℓ_j > x} m_j(1 - e^{x-ℓ_j}), which is
    the profile.  Going down by Δ, F gains A(1 - e^{-Δ}) and A shrinks by e^{-Δ}; passing a segment
    adds its mass to A.  All terms are non-negative, so after k steps of at most four roundings each
    the relative error is at most (4k + few)·2⁻⁵³.
    """
    heights = np.concatenate([loss, epsilon])
    # At equal height read first: a segment of slope e^ε does not count at ε.
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
