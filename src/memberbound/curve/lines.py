"""Polygons from support lines, and the chain of two curves.

Every statement "(ε, δ)-indistinguishable" is a line that the ROC cannot cross: TPR ≤ δ + e^ε α in
one direction, (1-α) ≤ δ + e^ε (1-TPR) in the other.  A set of such lines encloses the curve, so
leaving lines out is always sound.  The polygon built here is checked line by line at the end:
each of its own segments lies on or above the line it came from, hence above the true curve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from memberbound.curve.base import TradeoffCurve
from memberbound.curve.polygon import PolygonCurve
from memberbound.errors import InputError
from memberbound.numerics.rounding import UNIT, FloatArray

__all__ = ["chained", "mixture", "polygon_from_lines"]

_Line = tuple[float, float]  # (ε ≥ 0, δ): y ≤ δ + e^ε·x
_Half = tuple[list[float], list[float]]  # log-slopes and masses of one side of the polygon


def _meet(steep: _Line, flat: _Line) -> float:
    """Height y at which two lines cross; ``steep`` has the larger ε."""
    gap = -math.expm1(flat[0] - steep[0])
    return steep[1] + (flat[1] - steep[1]) / gap


def _hull(epsilon: FloatArray, delta: FloatArray) -> list[_Line]:
    """Keep the lines that touch the enclosed region, steepest first."""
    best: dict[float, float] = {}
    for e, d in zip(epsilon.tolist(), delta.tolist(), strict=True):
        best[e] = min(d, best.get(e, math.inf))
    kept: list[_Line] = []
    for e in sorted(best, reverse=True):
        line = (e, min(1.0, best[e]))
        if kept and line[1] <= kept[-1][1]:
            # A flatter line with a smaller δ makes every steeper line before it redundant.
            while kept and line[1] <= kept[-1][1]:
                kept.pop()
        while len(kept) > 1 and _meet(kept[-2], kept[-1]) >= _meet(kept[-1], line):
            kept.pop()
        kept.append(line)
    return kept


def _centre(near: _Line, far: _Line) -> float:
    """Height where a line of one direction meets one of the other, in ``near``'s coordinates.

    From above: this corner fixes the profile between ε = 0 and the flattest line, where no line of
    the polygon would show a shortfall.  The difference (1-δ) - e^{-ε'}(1-δ') is written without
    subtracting numbers near one, and what rounding is left is added.
    """
    drop = -math.expm1(-far[0]) * (1 - far[1])
    rise = (far[1] - near[1]) + drop + 8 * UNIT * (abs(far[1] - near[1]) + drop)
    gap = -math.expm1(-near[0] - far[0])
    return (near[1] + rise / gap) * (1 + 8 * UNIT)


def _segments(lines: list[_Line], end: float) -> _Half:
    """Log-slopes and masses of one half of the polygon, from the certain atom to the centre."""
    loss, mass = [math.inf], [lines[0][1]]
    height = lines[0][1]
    for i, line in enumerate(lines):
        top = _meet(line, lines[i + 1]) if i + 1 < len(lines) else end
        loss.append(line[0])
        mass.append(max(0.0, top - height))
        height = max(height, top)
    return loss, mass


def polygon_from_lines(
    forward_epsilon: Sequence[float] | FloatArray,
    forward_delta: Sequence[float] | FloatArray,
    backward_epsilon: Sequence[float] | FloatArray,
    backward_delta: Sequence[float] | FloatArray,
) -> PolygonCurve:
    """Return the polygon enclosed by support lines in both directions (ε ≥ 0, δ in [0, 1]).

    Guarantee: at or above every curve that satisfies all the lines.
    Numerics: masses are raised until each segment lies on or above its line when evaluated.
    Edge cases: no lines in a direction means no information in that direction.
    """
    halves = []
    for eps, dlt in ((forward_epsilon, forward_delta), (backward_epsilon, backward_delta)):
        e, d = np.asarray(eps, dtype=np.float64), np.asarray(dlt, dtype=np.float64)
        if e.shape != d.shape or np.any(~(e >= 0)) or np.any(~(d >= 0)):
            raise InputError("support lines must be pairs of ε ≥ 0 and δ ≥ 0 of equal number.")
        halves.append(_hull(e, d) or [(math.inf, 0.0)])
    ahead, behind = halves
    if ahead[-1][0] == 0.0 and behind[-1][0] == 0.0:
        return _raised_onto_lines(_around_unit_slope(ahead, behind), (ahead, behind))
    # Drop the flattest line of a half while the other half cuts it off entirely.
    while len(ahead) > 1 and _centre(ahead[-1], behind[-1]) <= _meet(ahead[-2], ahead[-1]):
        ahead.pop()
    while len(behind) > 1 and _centre(behind[-1], ahead[-1]) <= _meet(behind[-2], behind[-1]):
        behind.pop()
    up = _segments(ahead, _centre(ahead[-1], behind[-1]))
    down = _segments(behind, _centre(behind[-1], ahead[-1]))
    return _raised_onto_lines((up, down), (ahead, behind))


def _around_unit_slope(ahead: list[_Line], behind: list[_Line]) -> tuple[_Half, _Half]:
    """Both halves share the diagonal line TPR ≤ δ + α: its segment joins them."""
    shared = min(ahead[-1][1], behind[-1][1])
    ahead[-1] = behind[-1] = (0.0, shared)
    for half in (ahead, behind):
        while len(half) > 1 and half[-2][1] >= shared:
            half.pop(-2)
        while len(half) > 2 and _meet(half[-3], half[-2]) >= _meet(half[-2], half[-1]):
            half.pop(-2)
    top = _meet(ahead[-2], ahead[-1]) if len(ahead) > 1 else shared
    far = _meet(behind[-2], behind[-1]) if len(behind) > 1 else shared
    up_loss, up_mass = _segments(ahead, top)
    down = _segments(behind[:-1], far) if len(behind) > 1 else ([math.inf], [shared])
    # From FPR = top - δ to FPR = 1 - far along the diagonal.
    up_mass[-1] = max(0.0, 1 - far - (top - shared))
    return (up_loss, up_mass), down


def _raised_onto_lines(
    halves: tuple[_Half, _Half], lines: tuple[list[_Line], list[_Line]]
) -> PolygonCurve:
    """Make the polygon, and raise its masses until every segment lies on or above its line."""
    (up_loss, up_mass), (down_loss, down_mass) = halves
    loss = np.array(up_loss + [-x for x in down_loss])
    heavy = np.array(up_mass + down_mass)
    heavy = np.where(np.isinf(loss), heavy, heavy * (1 + 8 * UNIT))
    curve = PolygonCurve(loss[heavy > 0], heavy[heavy > 0])
    factor, certain = 0.0, [0.0, 0.0]
    for side in (0, 1):
        finite = [line for line in lines[side] if math.isfinite(line[0])]
        eps = np.array([line[0] for line in finite])
        want = np.array([line[1] for line in finite])
        have = curve._profile(eps, forward=side == 0)
        short = want - have
        if np.any(short > 0):
            ratio = np.where(have > 0, short / np.where(have > 0, have, 1.0), 0.0)
            factor = max(factor, float(ratio.max()))
            certain[side] = float(np.where(have > 0, 0.0, np.maximum(short, 0.0)).max())
    if factor == 0.0 and not any(certain):
        return curve
    extra_loss = np.array([math.inf, -math.inf])
    extra = np.array(certain)
    heavy = np.concatenate([curve.heavy * (1 + 2 * factor + 8 * UNIT), extra])
    return PolygonCurve(
        np.concatenate([curve.loss, extra_loss])[heavy > 0],
        heavy[heavy > 0],
    )


def chained(first: TradeoffCurve, second: TradeoffCurve) -> TradeoffCurve:
    """Return TPR(α) = second(first(α)), through lines (see :meth:`TradeoffCurve.then`).

    For lines R₁ ≤ δ₁ + γ₁α and R₂ ≤ δ₂ + γ₂t the chain obeys R₂(R₁(α)) ≤ (δ₂ + γ₂δ₁) + γ₁γ₂α, for
    *any* choice of the two lines; walking both polygons along the middle axis picks the pairs that
    touch.
    """
    from memberbound.curve.gaussian import GaussianCurve

    if isinstance(first, GaussianCurve) and isinstance(second, GaussianCurve):
        return GaussianCurve(first.mu + second.mu)
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
    slope = np.exp(np.minimum(b, 700.0))
    sticks = _full_stick(two, b) + slope * _full_stick(one, a)
    sticks = np.where(b > 700.0, 1.0, sticks)
    # ℓ₁ + ℓ₂ is rounded; a line with a slightly larger slope and the same δ is weaker, so round up.
    total = (a + b) * (1 + 4 * UNIT)
    return total, np.minimum(sticks * (1 + 16 * UNIT), 1.0)


def mixture(curves: Sequence[TradeoffCurve], weights: Sequence[float]) -> PolygonCurve:
    """Return the curve of an attacker who also sees *which* record, drawn with ``weights``.

    Theorem: hockey-sticks of a joint law with a public label are the weighted means, so this is
    the "average record" of the i.i.d. game (A25-P5).
    """
    share = np.asarray(weights, dtype=np.float64)
    if len(curves) == 0 or share.shape != (len(curves),):
        raise InputError(
            f"weights must be one number per curve, got {len(share)} for {len(curves)}."
        )
    total = math.fsum(share)
    if np.any(~(share >= 0)) or abs(total - 1) > 1e-9:
        raise InputError(f"weights must be probabilities that add up to 1, got a sum of {total!r}.")
    polygons = [curve.to_polygon() for curve in curves]
    loss = np.concatenate([p.loss for p in polygons])
    heavy = np.concatenate([p.heavy * w for p, w in zip(polygons, share, strict=True)])
    return PolygonCurve(loss, heavy * (1 + abs(total - 1) + 8 * UNIT))
