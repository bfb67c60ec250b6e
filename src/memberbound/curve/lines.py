"""Polygons from support lines, and the chain of two curves.

Every statement "(ε, δ)-indistinguishable" is a line that the ROC cannot cross: TPR ≤ δ + e^ε α in
one direction, (1-α) ≤ δ + e^ε (1-TPR) in the other.  A set of such lines encloses the curve, so
leaving lines out is always sound.

In the plane of slope x = e^ε against δ a curve is a convex function (its profile), and lines are
points on or above it, so the chord between two points lies above it too.  The polygon built here
has its corners at the points: it is sound once its profile reaches δ at every line that was kept,
and at ε = 0, where the two directions meet.  Masses are computed from the steepest line on, each
just large enough to reach the next point, with sums of non-negative terms rounded outward.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from memberbound.curve.base import TradeoffCurve
from memberbound.curve.families import GaussianCurve, LaplaceCurve
from memberbound.curve.polygon import PolygonCurve
from memberbound.errors import InputError
from memberbound.numerics.rounding import SMALLEST, UNIT, FloatArray, sum_up

__all__ = ["chained", "mixture", "polygon_from_lines"]

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
    # A line of infinite slope bounds the TPR at FPR 0 only, which says nothing beside it.
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
    # What is left lies on the diagonal; it counts in neither profile.
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
    """Pairs of finite log-slopes whose segments overlap on the middle axis."""
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
