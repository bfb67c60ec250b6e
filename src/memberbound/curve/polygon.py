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
from memberbound.curve.families import GaussianCurve, LaplaceCurve
from memberbound.errors import InputError, fraction
from memberbound.numerics.rounding import (
    SMALLEST,
    UNIT,
    FloatArray,
    double_above,
    sum_slack,
    sum_up,
    up,
)

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
    """Sums of one profile: segments steeper than 1, and certain outcomes.

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
        # the certain mass is not rounded, so that (ε, δ) returns δ.
        lost = 2 * (loss.size + eps.size) * SMALLEST
        total = np.where(eps < side.steepest, raised + lost, certain)
        return np.asarray(np.minimum(total, 1.0), dtype=np.float64)

    def _tpr(self, fpr: FloatArray) -> FloatArray:
        # Every support line bounds the TPR; the corners only select the closest lines.
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

#: Largest deviation of a sum of probabilities from 1 before the input is refused.
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
        # If rounding leaves the sign of ℓ in doubt, the segment counts in both directions.
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
    return loss, np.array([double_above(max(a, b)) for a, b in pairs])


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


# ── Polygons from support lines, and the chain of two curves ──────────────────────────────────────
#
# Every statement "(ε, δ)-indistinguishable" is a line that the ROC cannot cross: TPR ≤ δ + e^ε α in
# one direction, (1-α) ≤ δ + e^ε (1-TPR) in the other.  A set of such lines encloses the curve, so
# leaving lines out is always sound.
#
# In the plane of slope x = e^ε against δ a curve is a convex function (its profile), and lines are
# points on or above it, so the chord between two points lies above it too.  The polygon built here
# has its corners at the points: it is sound once its profile reaches δ at every line that was kept,
# and at ε = 0, where the two directions meet.  Masses are computed from the steepest line on, each
# just large enough to reach the next point, with sums of non-negative terms rounded outward.

_Line = tuple[float, float]  # (ε ≥ 0, δ): y ≤ δ + e^ε·x
#: Lines whose ε agree to this many units in the last place count as one.
_CLOSE = 256.0


def _hull(lines: Sequence[_Line]) -> list[_Line]:
    """Keep the lines that touch the enclosed region, steepest first.

    Leaving out a line is sound, so neither rounding nor the order of removal can do harm.
    """
    if not lines:
        return []
    pairs = np.array(lines)
    pairs = pairs[np.lexsort((pairs[:, 1], -pairs[:, 0]))]
    pairs = pairs[np.append(True, np.diff(pairs[:, 0]) != 0)]
    # Of lines closer than a few hundred units in the last place one is enough: dividing by such a
    # gap would only magnify rounding.
    gaps = -np.diff(pairs[:, 0])
    pairs = pairs[np.append(True, gaps > _CLOSE * UNIT * pairs[:-1, 0])]
    eps, delta = pairs[:, 0], np.minimum(pairs[:, 1], 1.0)
    # A flatter line with a smaller δ makes every steeper line before it redundant.
    later = np.minimum.accumulate(delta[::-1])[::-1]
    keep = delta < np.append(later[1:], math.inf)
    eps, delta = eps[keep], delta[keep]
    while eps.size > 2:
        # Heights at which neighbours cross; a line between two crossings in the wrong order never
        # touches.  Of several such lines in a row every other one goes; the rest are seen again.
        with np.errstate(over="ignore"):
            cross = delta[:-1] + np.diff(delta) / -np.expm1(np.diff(eps))
        idle = cross[:-1] >= cross[1:]
        if not idle.any():
            break
        index = np.arange(idle.size)
        starts = idle & ~np.append(False, idle[:-1])
        run = index - np.maximum.accumulate(np.where(starts, index, 0))
        keep = np.concatenate([[True], ~(idle & (run % 2 == 0)), [True]])
        eps, delta = eps[keep], delta[keep]
    return list(zip(eps.tolist(), delta.tolist(), strict=True))


def _chords(ahead: FloatArray, behind: FloatArray) -> FloatArray:
    """Total variation allowed by one line in each direction, from above.

    The chord at slope 1 between the points of (a, δ_a) ahead and (b, δ_b) behind is u·δ_a +
    w·(1 - e^{-b} + e^{-b}δ_b) with weights w = (1-e^{-a})/(1-e^{-a-b}) and u = 1 - w.  A missing
    line is (∞, 0).  Shapes (…, 2) broadcast.
    """
    a, b = ahead[..., 0], behind[..., 0]
    rise, fall = -np.expm1(-a), -np.expm1(-b)
    total = rise + np.exp(-a) * fall
    weight, rest = rise / total, np.exp(-a) * fall / total
    value = rest * ahead[..., 1] + weight * (fall + np.exp(-b) * behind[..., 1])
    raised = np.nextafter(value * (1 + 32 * UNIT) + 2 * SMALLEST, np.inf)
    return np.asarray(raised, dtype=np.float64)


def _total_variation(ahead: list[_Line], behind: list[_Line]) -> float:
    """δ at ε = 0 that the lines of both directions allow together, from above."""
    flat = [line[1] for line in (*ahead, *behind) if line[0] == 0.0]
    best = min([1.0, *flat])
    missing = (math.inf, 0.0)
    one = np.array([line for line in ahead if line[0] > 0.0] + [missing])
    two = np.array([line for line in behind if line[0] > 0.0] + [missing])
    # Every pair is a valid bound; going back and forth finds the lowest chord of two convex chains.
    with np.errstate(under="ignore"):
        for i, j in ((0, 0), (one.shape[0] - 1, two.shape[0] - 1)):
            best = min(best, _lowest_chord(one, two, i, j))
    return best


def _lowest_chord(one: FloatArray, two: FloatArray, i: int, j: int) -> float:
    for _ in range(one.shape[0] + two.shape[0]):
        before = (i, j)
        i = int(np.argmin(_chords(one, two[j])))
        j = int(np.argmin(_chords(one[i], two)))
        if (i, j) == before:
            break
    return float(_chords(one[i], two[j]))


def _half(lines: list[_Line]) -> tuple[list[float], list[float]]:
    """Log-slopes and heavier masses of one side of the polygon, the flattest line having ε = 0.

    With S the profile beyond the certain mass, and O the lighter mass so far times e^ε, a step
    from ε to ε - h turns them into S + (O + heavy)(1 - e^{-h}) and (O + heavy)e^{-h}.  Both are
    kept from below, so that every heavy mass comes out large enough.
    """
    certain = lines[0][1]
    loss, mass = [math.inf], [certain]
    gained = lighter = 0.0
    for line, flatter in pairwise(lines):
        step = line[0] - flatter[0]
        share, left = -math.expm1(-step), math.exp(-step)
        target = flatter[1] - certain
        needed = (target - gained) + 4 * UNIT * target + 4 * SMALLEST
        # No more than all of the mass can lie on slopes of e^ε and above.
        total = min(needed / share * (1 + 16 * UNIT), 2 / left if left > 0 else math.inf)
        heavy = max(0.0, (total - lighter) + 4 * UNIT * total + 4 * SMALLEST)
        loss.append(line[0])
        mass.append(heavy)
        carried = lighter + heavy
        gained = max(0.0, (gained + carried * share) * (1 - 16 * UNIT) - 4 * SMALLEST)
        lighter = max(0.0, carried * left * (1 - 16 * UNIT) - 4 * SMALLEST)
    return loss, mass


def _checked(
    epsilon: Sequence[float] | FloatArray, delta: Sequence[float] | FloatArray
) -> list[_Line]:
    e, d = np.asarray(epsilon, dtype=np.float64), np.asarray(delta, dtype=np.float64)
    if e.ndim != 1 or e.shape != d.shape or np.any(~(e >= 0)) or np.any(~(d >= 0)):
        raise InputError("support lines must be pairs of ε ≥ 0 and δ ≥ 0 of equal number.")
    # A line of infinite slope bounds the TPR at FPR 0 only.
    return [(x, y) for x, y in zip(e.tolist(), d.tolist(), strict=True) if math.isfinite(x)]


def polygon_from_lines(
    forward_epsilon: Sequence[float] | FloatArray,
    forward_delta: Sequence[float] | FloatArray,
    backward_epsilon: Sequence[float] | FloatArray,
    backward_delta: Sequence[float] | FloatArray,
) -> PolygonCurve:
    """Return the polygon enclosed by support lines in both directions (ε ≥ 0, δ in [0, 1]).

    Guarantee: at or above every curve that satisfies all the lines.
    Numerics: the profile exceeds δ at a line that matters by about 16 roundings per line.
    Edge cases: no lines in a direction means no information in that direction; at the steepest
    line δ comes back unrounded.
    """
    ahead = _hull(_checked(forward_epsilon, forward_delta))
    same = backward_epsilon is forward_epsilon and backward_delta is forward_delta
    behind = ahead if same else _hull(_checked(backward_epsilon, backward_delta))
    shared = (0.0, _total_variation(ahead, behind))
    up_loss, up_mass = _half(_hull([*ahead, shared]))
    down_loss, down_mass = (up_loss, up_mass) if same else _half(_hull([*behind, shared]))
    # The remainder lies on the diagonal and counts in neither profile.
    outside = math.fsum(m * math.exp(-x) for x, m in zip(up_loss, up_mass, strict=True))
    middle = max(0.0, 1.0 - outside - math.fsum(down_mass))
    loss = np.array([*up_loss, 0.0, *(-x for x in down_loss)])
    heavy = np.array([*up_mass, middle, *down_mass])
    return PolygonCurve(loss[heavy > 0], heavy[heavy > 0])


def chained(first: TradeoffCurve, second: TradeoffCurve) -> TradeoffCurve:
    """Return TPR(α) = second(first(α)), through lines (see :meth:`TradeoffCurve.then`).

    For lines R₁ ≤ δ₁ + γ₁α and R₂ ≤ δ₂ + γ₂t the chain obeys R₂(R₁(α)) ≤ (δ₂ + γ₂δ₁) + γ₁γ₂α, for
    *any* choice of the two lines; walking both polygons along the middle axis picks the pairs that
    touch.  Shifts of one log-concave noise law chain exactly, because thresholds are the best tests
    for every shift: Gaussian and Laplace curves add up.
    """
    if isinstance(first, GaussianCurve) and isinstance(second, GaussianCurve):
        return GaussianCurve(sum_up(first.mu, second.mu))
    if isinstance(first, LaplaceCurve) and isinstance(second, LaplaceCurve):
        return LaplaceCurve(sum_up(first.reach, second.reach))
    one, two = first.to_polygon(), second.to_polygon()
    ahead = _chain_lines(one, two)
    behind = _chain_lines(two.reversed(), one.reversed())
    return polygon_from_lines(*ahead, *behind)


def _touching(one: PolygonCurve, two: PolygonCurve) -> list[tuple[float, float]]:
    """Pairs of finite log-slopes with segments that overlap on the middle axis."""
    mid_one = np.cumsum(one.inside)
    mid_two = np.cumsum(two.outside)
    i = j = 0
    pairs = []
    while i < one.loss.size and j < two.loss.size:
        if math.isfinite(one.loss[i]) and math.isfinite(two.loss[j]):
            pairs.append((float(one.loss[i]), float(two.loss[j])))
        if mid_one[i] <= mid_two[j]:
            i += 1
        else:
            j += 1
    return pairs


def _full_stick(curve: PolygonCurve, log_slope: FloatArray) -> FloatArray:
    """max_α TPR - e^ℓ α for a log-slope of either sign."""
    ahead = curve._profile(np.maximum(log_slope, 0.0), forward=True)
    behind = curve._profile(np.maximum(-log_slope, 0.0), forward=False)
    with np.errstate(under="ignore"):
        low = -np.expm1(np.minimum(log_slope, 0.0)) + np.exp(np.minimum(log_slope, 0.0)) * behind
    return np.asarray(np.where(log_slope >= 0, ahead, low), dtype=np.float64)


def _chain_lines(one: PolygonCurve, two: PolygonCurve) -> tuple[FloatArray, FloatArray]:
    """Lines of non-negative total log-slope for the chain."""
    pairs = _touching(one, two)
    extra = sorted({float(x) for x in one.loss if math.isfinite(x)}, reverse=True)
    pairs += [(x, -x) for x in extra]  # the diagonal line, whichever pair touches there
    a = np.array([p[0] for p in pairs])
    b = np.array([p[1] for p in pairs])
    keep = a + b >= 0
    a, b = a[keep], b[keep]
    lower, upper = _full_stick(one, a), _full_stick(two, b)
    with np.errstate(under="ignore"):
        sticks = (upper + np.exp(np.minimum(b, 700.0)) * lower) * (1 + 32 * UNIT)
        # A product that underflows is still positive.
        sticks = np.where(lower > 0, np.nextafter(sticks, np.inf), sticks)
    sticks = np.where((b > 700.0) & (lower > 0), 1.0, np.minimum(sticks, 1.0))
    # A line with a slightly larger slope and the same δ is weaker: ℓ₁ + ℓ₂ is rounded up, by the
    # sign of its rounding error (Knuth's two-sum), so that 2ε stays 2ε.
    total = a + b
    tail = total - a
    missing = (a - (total - tail)) + (b - tail)
    return np.where(missing > 0, np.nextafter(total, np.inf), total), sticks


def mixture(curves: Sequence[TradeoffCurve], weights: Sequence[float]) -> PolygonCurve:
    """Return the curve of an attacker who also sees *which* record, drawn with ``weights``.

    Theorem: hockey-sticks of a joint law with a public label are the weighted means, so this is
    the "average record" of the i.i.d. game (A25-P5).
    """
    share = np.asarray(weights, dtype=np.float64)
    if len(curves) == 0 or share.shape != (len(curves),):
        raise InputError(
            f"weights must be one number per curve, got {share.size} for {len(curves)}."
        )
    total = math.fsum(share)
    if np.any(~(share >= 0)) or abs(total - 1) > 1e-9:
        raise InputError(f"weights must be probabilities that add up to 1, got a sum of {total!r}.")
    polygons = [curve.to_polygon() for curve in curves]
    loss = np.concatenate([p.loss for p in polygons])
    heavy = np.concatenate([_scaled(p.heavy, w) for p, w in zip(polygons, share, strict=True)])
    heavy = heavy * (1 + abs(total - 1) + 8 * UNIT)
    return PolygonCurve(loss[heavy > 0], heavy[heavy > 0])


def _scaled(masses: FloatArray, weight: float) -> FloatArray:
    """Product with a weight; a positive one stays positive."""
    if weight == 0.0:
        return np.zeros_like(masses)
    with np.errstate(under="ignore"):
        return np.where(masses > 0, np.nextafter(masses * weight, np.inf), 0.0)
