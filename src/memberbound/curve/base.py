"""The trade-off curve: the best attacker's ROC, from which every notion is read.

A curve belongs to a pair of laws of what the attacker sees, *in* (the record was used) and *out*
(it was not).  It is determined by its two privacy profiles, the hockey-sticks at ε ≥ 0

    forward(ε)  = max_α TPR(α) - e^ε α              (in against out)
    backward(ε) = max_α (1-α) - e^ε (1-TPR(α))      (out against in)

and this is how the forms below store it: both ends of the ROC keep full relative precision, and
no read-off subtracts two numbers near one.  See ``docs/theory.md`` for the dictionary.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from memberbound.errors import (
    InputError,
    fraction,
    nonnegative,
    one_of,
    positive,
    whole_number,
)
from memberbound.games import gamma_from_priors
from memberbound.numerics.roots import guessed_zero, last_true
from memberbound.numerics.rounding import SMALLEST, FloatArray, down, half_up, sum_up, up

if TYPE_CHECKING:
    from memberbound.curve.polygon import PolygonCurve

#: Direction of a hockey-stick divergence: in against out, out against in, or their maximum.
Side = Literal["forward", "backward", "both"]
_SIDES = ("forward", "backward", "both")

#: ε at which the pessimistic polygon of an analytic curve gets its support lines.
_LINES = 1000
#: Spacing of the lines below this ε is uniform, beyond it geometric.
_DENSE_TO = 20.0


class TradeoffCurve(ABC):
    """The ROC of the best attacker, never below the truth.

    Guarantee: every read-off is an upper bound on the attacker (a lower bound where the name says
    security).  Forms that are exact, such as those of finite or Gaussian pairs, are exact up to
    the stated rounding; pessimistic forms lie above the truth.
    """

    # ---- what a form has to provide -------------------------------------------------------

    @abstractmethod
    def _profile(self, epsilon: FloatArray, *, forward: bool) -> FloatArray:
        """Hockey-sticks at ε ≥ 0 from above."""

    @abstractmethod
    def _tpr(self, fpr: FloatArray) -> FloatArray:
        """TPR at FPR in (0, 1) from above."""

    @abstractmethod
    def reversed(self) -> TradeoffCurve:
        """Return the curve with the two worlds exchanged (mirror at the antidiagonal)."""

    @property
    @abstractmethod
    def is_symmetric(self) -> bool:
        """Whether the curve equals its reverse."""

    @abstractmethod
    def knots(self) -> FloatArray:
        """Slopes, as ε = ln(slope), at which support lines describe the curve (all finite)."""

    # ---- read-offs ------------------------------------------------------------------------

    def delta(self, epsilon: float, side: Side = "both") -> float:
        """Return the hockey-stick at e^ε, the δ of (ε, δ)-indistinguishability, from above.

        Theorem: theory §1.  ``side="both"`` is the larger of the two directions, which is what
        DP and PMP ask for (L24-D2).
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
        """Some ε at which the profile is at most ``target``, by doubling."""
        top = 1.0
        while top < 1e300:
            if self.delta(top, side) <= target:
                return top
            top *= 2
        return math.inf

    def tpr(self, fpr: float) -> float:
        """Return the best true-positive rate at false-positive rate ``fpr``, from above.

        Edge cases: ``fpr=0`` gives the mass of outcomes that betray membership for certain.
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
        inner = np.clip(alpha, SMALLEST, 1.0)
        values = np.where(alpha >= 1.0, 1.0, self._tpr(inner))
        return np.asarray(np.where(alpha <= 0.0, self.certain_mass(), values), dtype=np.float64)

    @property
    def advantage(self) -> float:
        """max_α TPR(α) - α, the total variation between the worlds, from above."""
        # Both directions give the same number at ε = 0; the smaller float is still a bound.
        zero = np.zeros(1)
        forward = float(self._profile(zero, forward=True)[0])
        return min(1.0, forward, float(self._profile(zero, forward=False)[0]))

    @property
    def eta(self) -> float:
        """The η of Membership Inference Privacy at k = N/2: half the advantage (I24-D1, P2)."""
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
            # 1 - base is exact: where it exceeds π, the subtraction 1 - π was rounded down.
            return math.nextafter(base, 1.0) if pi < min(0.5, 1 - base) else base
        if pi == 0.5:
            return min(1.0, sum_up(base, half_up(stick)))
        return min(1.0, up(base + weight * stick))

    def precision(self, prior: float = 0.5, fpr: float | None = None) -> float:
        """Return the best probability that a record named "in" was in.

        With ``fpr`` the attacker must use that false-positive rate; without it the attacker may
        name as few records as it likes, which is unbounded whenever some outcome betrays
        membership for certain.
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
        from memberbound.curve.polygon import polygon_from_lines

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

        DP speaks of both orders of two neighbours at once, so its curves are symmetric.
        """
        if self.is_symmetric:
            return self
        from memberbound.curve.polygon import polygon_from_lines

        knots = np.unique(np.append(np.abs(self.knots()), 0.0))
        gap = self._profile(knots, forward=True) - self._profile(knots, forward=False)
        # If the two profiles cross, their maximum has a corner that neither of them has.
        first = np.flatnonzero(gap[:-1] * gap[1:] < 0)
        share = gap[first] / (gap[first] - gap[first + 1])
        step = knots[first + 1] - knots[first]
        corner = step + np.log(share + (1 - share) * np.exp(-step))
        knots = np.unique(np.append(knots, knots[first] + np.clip(corner, 0.0, step)))
        sticks = np.maximum(self._profile(knots, forward=True), self._profile(knots, forward=False))
        return polygon_from_lines(knots, sticks, knots, sticks)

    def then(self, other: TradeoffCurve) -> TradeoffCurve:
        """Chain two curves through a middle world: TPR(α) = other.TPR(self.TPR(α)).

        If ``self`` bounds (middle against out) and ``other`` bounds (in against middle), the
        result bounds (in against out).  This is group privacy for two steps (theory §6.7).
        """
        from memberbound.curve.polygon import chained

        return chained(self, other)

    def group(self, records: int) -> TradeoffCurve:
        """Return the curve of a group: this many records replaced one after the other.

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

        Theorem (Blackwell): then ``other`` can be simulated from what this attacker sees.
        ``tolerance`` is absolute, on the hockey-sticks, and absorbs both curves' rounding.
        Analytic curves are compared on their grid of support lines.
        """
        nonnegative("tolerance", tolerance)
        for forward in (True, False):
            knots = np.concatenate([self.knots(), other.knots()])
            side = knots if forward else -knots
            grid = np.unique(np.concatenate([[0.0], side[side >= 0]]))
            mine = self._profile(grid, forward=forward)
            theirs = other._profile(grid, forward=forward)
            if np.any(theirs > mine + tolerance):
                return False
        return True


def _lowered(*logarithms: float) -> tuple[float, bool]:
    """Size of a sum of logarithms from below, and whether it is positive.

    Lowering the ε of a hockey-stick can only raise it: that absorbs the rounding, at most two
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
    # The last step pays for every rounding; among the smallest doubles the product is exact.
    return min(1.0, up(prior / (prior + (1 - prior) * ratio), 8))


def analytic_knots(reach: float) -> FloatArray:
    """ε at which an analytic curve gets support lines: dense near 0, geometric up to ``reach``."""
    limit = positive("reach", reach)
    dense = np.linspace(0.0, min(limit, _DENSE_TO), _LINES)
    if limit <= _DENSE_TO:
        return dense
    sparse = np.geomspace(_DENSE_TO, limit, max(2, int(200 * math.log(limit / _DENSE_TO))))
    return np.concatenate([dense, sparse[1:]])
