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
from itertools import pairwise

import numpy as np

from memberbound.curve.base import Side, TradeoffCurve
from memberbound.errors import InputError, fraction
from memberbound.numerics.rounding import SMALLEST, UNIT, FloatArray, sum_slack, up

__all__ = [
    "PolygonCurve",
    "exact_segments",
    "float_law",
    "float_segments",
    "hull_masses",
    "rational_law",
]

#: Largest (ε × segment) table that is added up entry by entry; beyond it one sweep is quicker.
_DENSE = 1 << 14
#: Entries of the (ε × segment) table held in memory at once.
_BLOCK = 1 << 22


def _frozen(values: FloatArray) -> FloatArray:
    copy = np.array(values, dtype=np.float64)
    copy.setflags(write=False)
    return copy


@dataclass(frozen=True, eq=False)
class _Direction:
    """What one profile adds up: segments steeper than 1, and what is certain.

    ``certain`` is the mass of outcomes that are impossible in the other world, from above; one atom
    stands unrounded.
    """

    loss: FloatArray
    heavy: FloatArray
    certain: float
    steepest: float

    @classmethod
    def of(cls, loss: FloatArray, heavy: FloatArray) -> _Direction:
        atoms = heavy[loss == math.inf]
        total = math.fsum(atoms)
        certain = min(1.0, total if atoms.size <= 1 else up(total, 1))
        active = (loss > 0) & np.isfinite(loss)
        return cls(loss[active], heavy[active], certain, float(loss[active].max(initial=0.0)))


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

    @cached_property
    def _ahead(self) -> _Direction:
        return _Direction.of(self.loss, self.heavy)

    @cached_property
    def _behind(self) -> _Direction:
        # Steepest first either way, so that a curve and its reverse add in the same order.
        return _Direction.of(-self.loss[::-1], self.heavy[::-1])

    def _profile(self, epsilon: FloatArray, *, forward: bool) -> FloatArray:
        side = self._ahead if forward else self._behind
        loss, heavy, certain = side.loss, side.heavy, side.certain
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
        total = np.where(eps < side.steepest, raised + lost, certain)
        return np.asarray(np.minimum(total, 1.0), dtype=np.float64)

    def _tpr(self, fpr: FloatArray) -> FloatArray:
        # Every support line bounds the TPR; the corners only say which lines come closest.
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
        return self._ahead.certain

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
        epsilon = min(high, guess * (1 + 1e-11) + 1e-300)
        tight = self.delta(max(low, epsilon * (1 - 1e-9)), side) > target
        return epsilon if tight and self.delta(epsilon, side) <= target else None

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


# ── Finite pairs of laws as segments: log-likelihood ratios and heavier masses, outward ───────────
#
# Masses that do not add up
# to one are divided by their sum, because a law does: without that, an excess in one world would
# look like a difference in one direction and vanish in the other.

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
