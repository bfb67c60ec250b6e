"""Support lines of a trade-off curve, and the segments of the polygon that they enclose.

Every statement "(ε, δ)-indistinguishable" is a line that the ROC cannot cross: TPR ≤ δ + e^ε α in
one direction, (1-α) ≤ δ + e^ε (1-TPR) in the other.  A set of such lines encloses the curve, so
leaving lines out is always sound.

In the plane of slope x = e^ε against δ a curve is a convex function (its profile), and lines are
points on or above it, so the chord between two points lies above it too.  The polygon built here
has its corners at these points.  It is sound if its profile reaches δ at every kept line, and at ε
= 0, where the two directions meet.  Masses are computed starting from the steepest line, each just
large enough to reach the next point, with sums of non-negative terms rounded outward.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from memberbound.curve.segments import Segments
from memberbound.errors import InputError
from memberbound.numerics.rounding import SMALLEST, UNIT, FloatArray, down, up, up_array

_Line = tuple[float, float]  # (ε ≥ 0, δ): y ≤ δ + e^ε·x
#: Lines are merged if their ε agree to this many units in the last place.
_CLOSE = 256.0


def _hull(lines: Sequence[_Line]) -> list[_Line]:
    """Keep the lines that touch the enclosed region, steepest first.

    Removing a line is always sound, whatever the rounding or the order of removal.
    """
    if not lines:
        return []
    pairs = np.array(lines)
    pairs = pairs[np.lexsort((pairs[:, 1], -pairs[:, 0]))]
    pairs = pairs[np.append(True, np.diff(pairs[:, 0]) != 0)]
    # Keep one of several lines within a few hundred units in the last place, because dividing by
    # such a gap would magnify rounding.
    gaps = -np.diff(pairs[:, 0])
    pairs = pairs[np.append(True, gaps > _CLOSE * UNIT * pairs[:-1, 0])]
    eps, delta = pairs[:, 0], np.minimum(pairs[:, 1], 1.0)
    # A flatter line with a smaller δ makes every steeper line before it redundant.
    later = np.minimum.accumulate(delta[::-1])[::-1]
    keep = delta < np.append(later[1:], math.inf)
    eps, delta = eps[keep], delta[keep]
    while eps.size > 2:
        # Heights at which neighbours cross.  A line between two crossings in the wrong order never
        # touches the region.  If there are several in a row, remove every other one and repeat.
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
    """Return upper bounds on the total variation allowed by one line in each direction.

    The chord at slope 1 between the points of (a, δ_a) ahead and (b, δ_b) behind is u·δ_a +
    w·(1 - e^{-b} + e^{-b}δ_b) with weights w = (1-e^{-a})/(1-e^{-a-b}) and u = 1 - w.  A missing
    line is (∞, 0).  Shapes (…, 2) broadcast.
    """
    a, b = ahead[..., 0], behind[..., 0]
    rise, fall = -np.expm1(-a), -np.expm1(-b)
    total = rise + np.exp(-a) * fall
    weight, rest = rise / total, np.exp(-a) * fall / total
    value = rest * ahead[..., 1] + weight * (fall + np.exp(-b) * behind[..., 1])
    # Each of three products may have lost half of the smallest double.
    return up_array(value + 2 * SMALLEST, 16)


def _total_variation(ahead: list[_Line], behind: list[_Line]) -> float:
    """Return an upper bound on δ at ε = 0, given the lines of both directions."""
    flat = [line[1] for line in (*ahead, *behind) if line[0] == 0.0]
    best = min([1.0, *flat])
    missing = (math.inf, 0.0)
    one = np.array([line for line in ahead if line[0] > 0.0] + [missing])
    two = np.array([line for line in behind if line[0] > 0.0] + [missing])
    # Every pair gives a valid bound; alternate to find the lowest chord of two convex chains.
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
    """Return log-slopes and heavier masses of one side of the polygon; the last line has ε = 0.

    With S the profile beyond the certain mass, and O the lighter mass so far times e^ε, a step
    from ε to ε - h changes them to S + (O + heavy)(1 - e^{-h}) and (O + heavy)e^{-h}.  Both are
    lowered by more than their error, which also covers the rounding of differences, so that every
    heavy mass is large enough.
    """
    certain = lines[0][1]
    loss, mass = [math.inf], [certain]
    gained = lighter = 0.0
    for line, flatter in pairwise(lines):
        step = line[0] - flatter[0]
        share, left = -math.expm1(-step), math.exp(-step)
        needed = flatter[1] - certain - gained
        # At most the total mass can lie on slopes of e^ε and above.
        total = min(up(needed / share, 8), 2 / left if left > 0 else math.inf)
        heavy = max(0.0, total - lighter)
        loss.append(line[0])
        mass.append(heavy)
        carried = lighter + heavy
        gained = down(gained + carried * share, 8)
        lighter = down(carried * left, 8)
    return loss, mass


def _checked(
    epsilon: Sequence[float] | FloatArray, delta: Sequence[float] | FloatArray
) -> list[_Line]:
    e, d = np.asarray(epsilon, dtype=np.float64), np.asarray(delta, dtype=np.float64)
    if e.ndim != 1 or e.shape != d.shape or np.any(~(e >= 0)) or np.any(~(d >= 0)):
        raise InputError("support lines must be pairs of ε ≥ 0 and δ ≥ 0 of equal number.")
    # A line of infinite slope bounds the TPR at FPR 0 only.
    return [(x, y) for x, y in zip(e.tolist(), d.tolist(), strict=True) if math.isfinite(x)]


def segments_from_lines(
    forward_epsilon: Sequence[float] | FloatArray,
    forward_delta: Sequence[float] | FloatArray,
    backward_epsilon: Sequence[float] | FloatArray,
    backward_delta: Sequence[float] | FloatArray,
) -> Segments:
    """Return the segments of :func:`memberbound.curve.polygon_from_lines`."""
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
    return loss[heavy > 0], heavy[heavy > 0]
