"""The base class of trade-off curves (the best attacker's ROC), and polygons.

A curve belongs to a pair of laws of what the attacker sees, *in* (the record was used) and *out*
(it was not).  It is determined by its two privacy profiles, the hockey-sticks at ε ≥ 0

    forward(ε)  = max_α TPR(α) - e^ε α              (in against out)
    backward(ε) = max_α (1-α) - e^ε (1-TPR(α))      (out against in)

and the classes below store it in this form, so that both ends of the ROC keep full relative
precision, and no result is a difference of two numbers near one.  See ``docs/theory.md`` for the
dictionary.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from memberbound.curve.lines import segments_from_lines
from memberbound.curve.segments import (
    OneSided,
    exact_segments,
    float_law,
    float_segments,
    rational_law,
)
from memberbound.errors import (
    InputError,
    fraction,
    nonnegative,
    one_of,
    whole_number,
)
from memberbound.games import gamma_from_priors
from memberbound.numerics.roots import guessed_zero, last_true
from memberbound.numerics.rounding import SMALLEST, FloatArray, down, half_up, sum_up, up, up_array

#: Direction of a hockey-stick divergence: in against out, out against in, or their maximum.
Side = Literal["forward", "backward", "both"]
_SIDES = ("forward", "backward", "both")


class TradeoffCurve(ABC):
    """An upper bound on the ROC of the best attacker.

    Guarantee: every number is an upper bound on the attacker (a lower bound for security).  Curves
    of finite or Gaussian pairs are exact up to the stated rounding; pessimistic curves are above
    the truth.
    """

    # ---- methods of a subclass -------------------------------------------------------

    @abstractmethod
    def _profile(self, epsilon: FloatArray, *, forward: bool) -> FloatArray:
        """Return upper bounds on hockey-sticks at ε ≥ 0."""

    @abstractmethod
    def _tpr(self, fpr: FloatArray) -> FloatArray:
        """Return upper bounds on the TPR at FPR in (0, 1]."""

    @abstractmethod
    def reversed(self) -> TradeoffCurve:
        """Return the curve with the two worlds exchanged (mirror at the antidiagonal)."""

    @property
    @abstractmethod
    def is_symmetric(self) -> bool:
        """Whether the curve equals its reverse."""

    @abstractmethod
    def knots(self) -> FloatArray:
        """Return finite ε = ln(slope) at which support lines describe the curve."""

    # ---- numbers of the curve
    # ------------------------------------------------------------------------

    def delta(self, epsilon: float, side: Side = "both") -> float:
        """Return the hockey-stick at e^ε, the δ of (ε, δ)-indistinguishability, from above.

        Theorem: theory §1.  ``side="both"`` is the larger of the two directions, as in DP and PMP
        (L24-D2).
        """
        one_of("side", side, _SIDES)
        eps = np.array([nonnegative("epsilon", epsilon)])
        if side == "both" and self.is_symmetric:
            side = "forward"
        values = [
            float(self._profile(eps, forward=forward)[0])
            for forward, name in ((True, "forward"), (False, "backward"))
            if side in (name, "both")
        ]
        return max(values)

    def epsilon(self, delta: float, side: Side = "both") -> float:
        """Return an ε with ``self.delta(ε) ≤ delta``, the smallest up to rounding; ``inf`` if none.

        Numerics: the returned ε was evaluated and satisfies the inequality (theory §6.5).
        """
        target = fraction("delta", delta)
        if self.delta(0.0, side) <= target:
            return 0.0
        top = self._search_top(target, side)
        if math.isinf(top):
            return math.inf
        # δ falls over many magnitudes, its logarithm smoothly.
        near = None
        if target > 0:
            near = guessed_zero(
                lambda e: math.log(max(self.delta(e, side), SMALLEST) / target), top, 0.0
            )
        return last_true(lambda e: self.delta(e, side) <= target, top, 0.0, near)

    def _search_top(self, target: float, side: Side) -> float:
        """Return an ε at which the profile is at most ``target``, by doubling."""
        top = 1.0
        while top < 1e300:
            if self.delta(top, side) <= target:
                return top
            top *= 2
        return math.inf

    def tpr(self, fpr: float) -> float:
        """Return the best true-positive rate at false-positive rate ``fpr``, from above.

        Edge cases: ``fpr=0`` gives the mass of outcomes that reveal membership with certainty.
        """
        alpha = fraction("fpr", fpr)
        if alpha == 1.0:
            return 1.0
        if alpha == 0.0:
            return min(1.0, self.certain_mass())
        return float(self._tpr(np.array([alpha]))[0])

    def certain_mass(self) -> float:
        """Return the in-mass of outcomes that are impossible in the out-world (TPR at FPR 0)."""
        return 0.0

    def roc(self, fpr: Sequence[float] | FloatArray) -> FloatArray:
        """Return the TPR at many FPRs at once, from above."""
        alpha = np.asarray(fpr, dtype=np.float64)
        if not np.all((alpha >= 0) & (alpha <= 1)):
            raise InputError(f"fpr must be numbers in [0, 1], got {fpr!r}.")
        values = self._tpr(np.maximum(alpha, SMALLEST))
        return np.asarray(np.where(alpha == 0.0, self.certain_mass(), values), dtype=np.float64)

    @property
    def advantage(self) -> float:
        """max_α TPR(α) - α, the total variation between the worlds, from above."""
        # Both directions agree at ε = 0, so the smaller double is a bound too.
        zero = np.zeros(1)
        forward = float(self._profile(zero, forward=True)[0])
        return min(1.0, forward, float(self._profile(zero, forward=False)[0]))

    @property
    def eta(self) -> float:
        """η of Membership Inference Privacy at k = N/2, half the advantage (I24-D1, P2)."""
        return half_up(self.advantage)

    def accuracy(self, prior: float = 0.5) -> float:
        """Return the best probability of being right when "in" has probability ``prior``.

        Theorem: I24-P2; accuracy = (1-π) + π·H(e^ε) with e^ε = (1-π)/π, in the direction in which
        ε ≥ 0, so that nothing cancels.
        """
        pi = fraction("prior", prior)
        if pi in (0.0, 1.0):
            return 1.0
        eps, rare = _lowered(math.log1p(-pi), -math.log(pi))
        stick = self.advantage if eps == 0.0 else self.delta(eps, "forward" if rare else "backward")
        base, weight = max(pi, 1 - pi), min(pi, 1 - pi)
        if stick == 0.0:
            # 1 - base is exact; if it exceeds π, the subtraction 1 - π was rounded down.
            return math.nextafter(base, 1.0) if pi < min(0.5, 1 - base) else base
        if pi == 0.5:
            return min(1.0, sum_up(base, half_up(stick)))
        return min(1.0, up(base + weight * stick))

    def precision(self, prior: float = 0.5, fpr: float | None = None) -> float:
        """Return the best probability that a record named "in" was in.

        With ``fpr`` the attacker must use that false-positive rate.  Without it, the attacker may
        name as few records as it likes, so the precision is 1 if some outcome reveals membership
        with certainty.
        """
        pi = fraction("prior", prior)
        if pi in (0.0, 1.0):
            return pi
        if fpr is None:
            # Odds of being in grow by at most the largest likelihood ratio, e^{ε at δ = 0}.
            largest = self.epsilon(0.0, "forward")
            return posterior_upper(pi, math.exp(-largest))
        alpha = fraction("fpr", fpr, open_left=True)
        return posterior_upper(pi, alpha / self.tpr(alpha))

    def leak(self, nu: float = 0.5, lam: float = 1.0) -> float:
        """Return Δ_{ν,λ} of the i.i.d. game, from above (A25-P5 eq 7).

        With γ = ν/(λ(1-ν)) the formula collapses to a hockey-stick: Δ = H_γ(in‖out) for γ ≥ 1 and
        H_{1/γ}(out‖in) for γ < 1.
        """
        eps, dear = price_exponent(nu, lam)
        if eps == 0.0:
            return self.advantage
        return self.delta(eps, "forward" if dear else "backward")

    def security(self, nu: float = 0.5, lam: float = 1.0) -> float:
        """Return MIS = 1 - Δ_{ν,λ}, from below (A25-T6)."""
        leak = self.leak(nu, lam)
        return 1.0 if leak == 0.0 else max(0.0, down(1.0 - leak))

    # ---- operations -----------------------------------------------------------------------

    def to_polygon(self) -> PolygonCurve:
        """Return a piecewise-linear curve at or above this one (pessimistic)."""
        knots = self.knots()
        forward, backward = knots[knots >= 0], -knots[knots <= 0][::-1]
        return polygon_from_lines(
            forward,
            self._profile(forward, forward=True),
            backward,
            self._profile(backward, forward=False),
        )

    def symmetrised(self) -> TradeoffCurve:
        """Return the smallest symmetric curve at or above this one and its reverse.

        DP bounds both orders of two neighbours, so its curves are symmetric.
        """
        if self.is_symmetric:
            return self
        knots = np.unique(np.append(np.abs(self.knots()), 0.0))
        gap = self._profile(knots, forward=True) - self._profile(knots, forward=False)
        gap[0] = 0.0  # at ε = 0 both are the advantage, so a sign from rounding is no crossing
        # If the two profiles cross, their maximum has a corner that neither of them has.
        first = np.flatnonzero(gap[:-1] * gap[1:] < 0)
        share = gap[first] / (gap[first] - gap[first + 1])
        step = knots[first + 1] - knots[first]
        corner = step + np.log(share + (1 - share) * np.exp(-step))
        knots = np.unique(np.append(knots, knots[first] + np.maximum(corner, 0.0)))
        sticks = np.maximum(self._profile(knots, forward=True), self._profile(knots, forward=False))
        return polygon_from_lines(knots, sticks, knots, sticks)

    def then(self, other: TradeoffCurve) -> TradeoffCurve:
        """Chain two curves through a middle world: TPR(α) = other.TPR(self.TPR(α)).

        If ``self`` bounds (middle against out) and ``other`` bounds (in against middle), the
        result bounds (in against out).  This is group privacy for two steps (theory §6.7).
        """
        one, two = self.to_polygon(), other.to_polygon()
        ahead = _chain_lines(one, two)
        behind = _chain_lines(two.reversed(), one.reversed())
        return polygon_from_lines(*ahead, *behind)

    def group(self, records: int) -> TradeoffCurve:
        """Return the curve of a group of records that are replaced one after the other.

        Theorem: X33, f chained with itself (proofs/chained-curves.md); exact for Gaussian curves.
        """
        left = whole_number("records", records)
        power: TradeoffCurve = self
        result: TradeoffCurve | None = None
        while True:
            if left % 2:
                result = power if result is None else result.then(power)
            left //= 2
            if not left:
                return result or power
            power = power.then(power)

    def dominates(self, other: TradeoffCurve, tolerance: float = 1e-9) -> bool:
        """Whether this attacker is at least as strong everywhere (post-processing order).

        Theorem (Blackwell): if so, ``other`` can be simulated from this attacker's view.
        ``tolerance`` is absolute, on the hockey-sticks, and absorbs both curves' rounding.
        Analytic curves are compared on their grid of support lines.
        """
        nonnegative("tolerance", tolerance)
        for forward in (True, False):
            knots = np.concatenate([self.knots(), other.knots()])
            side = knots if forward else -knots
            grid = np.unique(np.append(side[side > 0], 0.0))
            mine = self._profile(grid, forward=forward)
            theirs = other._profile(grid, forward=forward)
            if np.any(theirs > mine + tolerance):
                return False
        return True


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
        are exact.  Doubles may be rounded probabilities: the curve also covers laws with masses
        within half a unit in the last place, except that equal doubles count as equal masses.
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
    def _ahead(self) -> OneSided:
        return OneSided.of(self.loss, self.heavy)

    @cached_property
    def _behind(self) -> OneSided:
        # Steepest first in both cases, so that a curve and its reverse are summed in the same
        # order.
        return OneSided.of(-self.loss[::-1], self.heavy[::-1])

    def _profile(self, epsilon: FloatArray, *, forward: bool) -> FloatArray:
        return (self._ahead if forward else self._behind).profile(epsilon)

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
            # Split e^ℓ into two factors, because it may overflow while α is tiny.
            half = np.exp(log_slope / 2)
            rise = np.where(log_slope < 700, alpha * np.exp(log_slope), alpha * half * half)
            steep = stick + rise
            # 1 - e^ℓ(1 - α - δ), written without subtracting numbers near one.
            flat = -np.expm1(np.minimum(log_slope, 0.0)) + np.exp(log_slope) * (alpha + stick)
            value = np.where(log_slope >= 0, steep, flat)
        # The diagonal itself needs no rounding.
        raised = np.where((log_slope == 0) & (stick == 0), alpha, up_array(value, 16))
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
        """Return ε at δ by interpolation between knots, verified on both sides, or ``None``.

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
        epsilon = min(high, guess * (1 + 1e-11))
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
        """Whether the segments are exactly symmetric."""
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


def polygon_from_lines(
    forward_epsilon: Sequence[float] | FloatArray,
    forward_delta: Sequence[float] | FloatArray,
    backward_epsilon: Sequence[float] | FloatArray,
    backward_delta: Sequence[float] | FloatArray,
) -> PolygonCurve:
    """Return the polygon enclosed by support lines in both directions (ε ≥ 0, δ in [0, 1]).

    Guarantee: at or above every curve that satisfies all the lines.
    Numerics: the profile exceeds δ at an active line by about 16 roundings per line.
    Edge cases: without lines in a direction there is no information in that direction; at the
    steepest line δ is not rounded.
    """
    return PolygonCurve(
        *segments_from_lines(forward_epsilon, forward_delta, backward_epsilon, backward_delta)
    )


# ── The chain of two polygons ─────────────────────────────────────────────────────────────────────
#
# For lines R₁ ≤ δ₁ + γ₁α and R₂ ≤ δ₂ + γ₂t the chain satisfies R₂(R₁(α)) ≤ (δ₂ + γ₂δ₁) + γ₁γ₂α, for
# *any* two lines; a sweep of both polygons along the middle axis finds the pairs that touch.


def _touching(one: PolygonCurve, two: PolygonCurve) -> list[tuple[float, float]]:
    """Return pairs of finite log-slopes with segments that overlap on the middle axis."""
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
    """Return max_α TPR - e^ℓ α from above, for log-slopes of either sign."""
    ahead = curve._profile(np.maximum(log_slope, 0.0), forward=True)
    behind = curve._profile(np.maximum(-log_slope, 0.0), forward=False)
    with np.errstate(under="ignore"):
        low = -np.expm1(np.minimum(log_slope, 0.0)) + np.exp(np.minimum(log_slope, 0.0)) * behind
    return np.asarray(np.where(log_slope >= 0, ahead, up_array(low, 8)), dtype=np.float64)


def _chain_lines(one: PolygonCurve, two: PolygonCurve) -> tuple[FloatArray, FloatArray]:
    """Return the lines of the chain with non-negative total log-slope."""
    pairs = _touching(one, two)
    extra = sorted({float(x) for x in one.loss if math.isfinite(x)}, reverse=True)
    pairs += [(x, -x) for x in extra]  # for the diagonal line
    a = np.array([p[0] for p in pairs])
    b = np.array([p[1] for p in pairs])
    keep = a + b >= 0
    a, b = a[keep], b[keep]
    lower, upper = _full_stick(one, a), _full_stick(two, b)
    with np.errstate(under="ignore"):
        # A product that underflows is still positive.
        more = np.maximum(np.exp(np.minimum(b, 700.0)) * lower, SMALLEST)
    sticks = np.where(lower > 0, up_array(upper + more, 16), upper)
    sticks = np.where((b > 700.0) & (lower > 0), 1.0, np.minimum(sticks, 1.0))
    # A line with a slightly larger slope and the same δ is weaker: ℓ₁ + ℓ₂ is rounded up, by the
    # sign of its rounding error (Knuth's two-sum), so that 2ε stays 2ε.
    total = a + b
    tail = total - a
    missing = (a - (total - tail)) + (b - tail)
    return np.where(missing > 0, np.nextafter(total, np.inf), total), sticks


def _lowered(*logarithms: float) -> tuple[float, bool]:
    """Return a lower bound on |Σ logarithms|, and whether the sum is positive.

    Lowering the ε of a hockey-stick can only raise it, which absorbs the rounding: at most two
    units in the last place of every term and of the sum.
    """
    total = math.fsum(logarithms)
    size = math.fsum(map(abs, logarithms))
    return max(0.0, abs(total) - 1e-15 * (1 + size)), total > 0


def price_exponent(nu: float, lam: float) -> tuple[float, bool]:
    """Return |ln γ| from below and whether γ > 1, for γ = ν/(λ(1-ν)) of the i.i.d. game."""
    gamma_from_priors(nu, lam)
    fresh = float(nu)
    return _lowered(math.log(fresh), -math.log(lam), -math.log1p(-fresh))


def posterior_upper(prior: float, ratio: float) -> float:
    """Return π/(π + (1-π)·out/in) from above, for a likelihood ratio out/in ≤ 1 off by one ulp."""
    # The last step covers all roundings; for subnormal numbers the product is exact.
    return min(1.0, up(prior / (prior + (1 - prior) * ratio), 8))
