"""Trade-off curves in closed form, and curves known up to a small total variation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from memberbound.curve.base import Side, TradeoffCurve
from memberbound.errors import fraction, nonnegative, positive, whole_number
from memberbound.numerics.normal import gaussian_hockey_stick_upper, gaussian_tpr_upper
from memberbound.numerics.rounding import SMALLEST, UNIT, FloatArray, sum_up, up, up_array

#: ε at which the pessimistic polygon of an analytic curve gets its support lines.
_LINES = 1000
#: Spacing of the lines below this ε is uniform, beyond it geometric.
_DENSE_TO = 20.0


def analytic_knots(reach: float) -> FloatArray:
    """Return ε for support lines of an analytic curve: dense near 0, geometric up to ``reach``."""
    limit = positive("reach", reach)
    dense = np.linspace(0.0, min(limit, _DENSE_TO), _LINES)
    if limit <= _DENSE_TO:
        return dense
    sparse = np.geomspace(_DENSE_TO, limit, max(2, int(200 * math.log(limit / _DENSE_TO))))
    return np.concatenate([dense, sparse[1:]])


# ── The curve of N(μ, 1) against N(0, 1): Gaussian differential privacy, in closed form ───────────

#: Support lines beyond this ε would only describe attackers who are always right.
_FARTHEST = 1e9


@dataclass(frozen=True)
class GaussianCurve(TradeoffCurve):
    """TPR(α) = Φ(Φ⁻¹(α) + μ), exact up to rounding.

    Examples:
        >>> round(GaussianCurve(1.0).tpr(0.05), 6)
        0.259511
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", nonnegative("mu", self.mu))

    def _profile(self, epsilon: FloatArray, *, forward: bool) -> FloatArray:
        del forward  # the pair is symmetric
        return gaussian_hockey_stick_upper(self.mu, epsilon)

    def _tpr(self, fpr: FloatArray) -> FloatArray:
        return gaussian_tpr_upper(self.mu, fpr)

    def _search_top(self, target: float, side: object) -> float:
        del side
        if target == 0.0:
            return math.inf
        # δ(ε) ≤ Φ(μ/2 - ε/μ), and Φ(-39) is below every positive double.
        top = self.mu * (self.mu / 2 + 40.0)
        return top if math.isfinite(top) and self.delta(top) <= target else math.inf

    def reversed(self) -> GaussianCurve:
        """Return itself: the pair is symmetric."""
        return self

    def then(self, other: TradeoffCurve) -> TradeoffCurve:
        """Chain two curves; shifts of Gaussian curves add up, because thresholds are optimal."""
        if isinstance(other, GaussianCurve):
            return GaussianCurve(sum_up(self.mu, other.mu))
        return super().then(other)

    def group(self, records: int) -> GaussianCurve:
        """Return the curve of several records, which has the sum of their shifts."""
        return GaussianCurve(up(whole_number("records", records) * self.mu, 2))

    @property
    def is_symmetric(self) -> bool:
        """Always true."""
        return True

    def knots(self) -> FloatArray:
        """Return an ε grid of support lines, where the profile is above about 1e-300."""
        if self.mu == 0.0:
            return np.zeros(1)
        ahead = analytic_knots(min(self.mu * (self.mu / 2 + 37.0), _FARTHEST))
        return np.concatenate([-ahead[:0:-1], ahead])


# ── The curve of the Laplace mechanism: two Laplace laws one sensitivity apart, in closed form ────


@dataclass(frozen=True)
class LaplaceCurve(TradeoffCurve):
    """Laplace noise of scale b on a statistic of sensitivity s, with ``reach`` = s/b.

    Its hockey-stick is 1 - e^{-(reach-ε)/2} for ε ≤ reach and 0 beyond: strictly below the
    (reach, 0)-DP curve everywhere inside.
    """

    reach: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "reach", nonnegative("reach", self.reach))

    def _profile(self, epsilon: FloatArray, *, forward: bool) -> FloatArray:
        del forward  # the pair is symmetric
        gap = np.maximum(self.reach - np.asarray(epsilon, dtype=np.float64), 0.0)
        with np.errstate(under="ignore"):
            value = up_array(np.maximum(-np.expm1(-gap / 2), SMALLEST))
        return np.where(gap > 0, np.minimum(value, 1.0), 0.0)

    def _tpr(self, fpr: FloatArray) -> FloatArray:
        alpha = np.asarray(fpr, dtype=np.float64)
        if self.reach == 0.0:
            return alpha
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            # In two halves where e^reach overflows: α may be as small as it is large.
            half = np.exp(self.reach / 2)
            steep = alpha * np.exp(self.reach) if self.reach < 700 else alpha * half * half
            middle = 1 - 1 / (4 * steep)
            flat = 1 - np.exp(-self.reach) * (1 - alpha)
            value = np.where(steep < 0.5, steep, np.where(alpha <= 0.5, middle, flat))
        # steep has an error of about 10 roundings, which middle feels half.
        return np.asarray(np.minimum(np.maximum(up_array(value, 16), alpha), 1.0), dtype=np.float64)

    def epsilon(self, delta: float, side: Side = "both") -> float:
        """Return the ε of :meth:`TradeoffCurve.epsilon`; at δ = 0 it is ``reach``."""
        if delta == 0.0:
            return self.reach
        return super().epsilon(delta, side)

    def _search_top(self, target: float, side: object) -> float:
        del target, side
        return self.reach

    def reversed(self) -> LaplaceCurve:
        """Return itself: the pair is symmetric."""
        return self

    def then(self, other: TradeoffCurve) -> TradeoffCurve:
        """Chain two curves; shifts of Laplace curves add up, because thresholds are optimal."""
        if isinstance(other, LaplaceCurve):
            return LaplaceCurve(sum_up(self.reach, other.reach))
        return super().then(other)

    @property
    def is_symmetric(self) -> bool:
        """Always true."""
        return True

    def knots(self) -> FloatArray:
        """Return a uniform grid of log-slopes in [-reach, reach]."""
        if self.reach == 0.0:
            return np.zeros(1)
        ahead = np.linspace(0.0, self.reach, 1001)
        return np.concatenate([-ahead[:0:-1], ahead])


# ── Curves of worlds that are known up to a small total variation ─────────────────────────────────


@dataclass(frozen=True)
class SlackCurve(TradeoffCurve):
    """The curve of laws that lie within ``slack`` (total variation) of a pair with curve ``base``.

    Guarantee: TPR(α) ≤ base(α + slack) + slack and H_ε ≤ base's + (1 + e^ε)·slack, because every
    event's probability is off by at most ``slack`` in either world (proofs/gradient-descent.md,
    claim 4).  The two worlds may differ by different amounts, up to ``slack`` each.
    Numerics: rounded up.

    Examples:
        >>> from memberbound.curve import GaussianCurve
        >>> exact = GaussianCurve(0.25)
        >>> round(SlackCurve(exact, 1e-3).eta - exact.eta, 9)
        0.001
    """

    base: TradeoffCurve
    slack: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "slack", fraction("slack", self.slack))

    def _raised(self, epsilon: FloatArray, *, forward: bool) -> FloatArray:
        exact = self.base._profile(epsilon, forward=forward)
        with np.errstate(over="ignore"):
            added = (1.0 + np.exp(epsilon)) * self.slack
        return np.asarray(np.minimum(up_array(exact + added), 1.0), dtype=np.float64)

    @cached_property
    def _lowest(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return (ε, δ) where the raised profile is lowest on a grid, backward and forward."""
        knots, lowest = self.base.knots(), []
        for forward in (False,) if self.is_symmetric else (False, True):
            grid = np.append(0.0, knots[knots > 0] if forward else -knots[knots < 0])
            values = self._raised(grid, forward=forward)
            best = int(np.argmin(values))
            lowest.append((float(grid[best]), float(values[best])))
        return lowest[0], lowest[-1]

    def _profile(self, epsilon: FloatArray, *, forward: bool) -> FloatArray:
        if self.slack == 0.0:
            return self.base._profile(epsilon, forward=forward)
        raised = self._raised(epsilon, forward=forward)
        if not np.any(epsilon):
            return raised  # The advantage, at ε = 0, needs no search for the minimum.
        # A profile never increases, so the lowest bound also holds at larger ε.
        threshold, value = self._lowest[int(forward)]
        return np.where(epsilon >= threshold, np.minimum(raised, value), raised)

    def _tpr(self, fpr: FloatArray) -> FloatArray:
        if self.slack == 0.0:
            return self.base._tpr(fpr)
        moved = np.nextafter(fpr + self.slack, np.inf)
        inner = self.base._tpr(np.minimum(moved, 1.0))
        return np.minimum(np.nextafter(inner + self.slack, np.inf), 1.0)

    def certain_mass(self) -> float:
        """Return a bound on the certain mass: the TPR at FPR ``slack``, plus the slack."""
        if self.slack == 0.0:
            return self.base.certain_mass()
        return min(1.0, sum_up(self.base.tpr(self.slack), self.slack))

    def group(self, records: int) -> SlackCurve:
        """Return the curve of several records, each with its own slack.

        Theorem: X33, proofs/chained-curves.md: the slack of k records is s_k = f(s_{k-1} + s) + s.
        """
        added = self.slack
        for _ in range(whole_number("records", records) - 1 if added else 0):
            before = min(1.0, sum_up(added, self.slack))
            added = min(1.0, sum_up(self.base.tpr(before), self.slack))
        return SlackCurve(self.base.group(records), added)

    def reversed(self) -> TradeoffCurve:
        """Return the curve with the two worlds exchanged."""
        return SlackCurve(self.base.reversed(), self.slack)

    @property
    def is_symmetric(self) -> bool:
        """Whether the base curve is symmetric."""
        return self.base.is_symmetric

    def knots(self) -> FloatArray:
        """Return the ε grid of the base curve."""
        return self.base.knots()


# ── Summarise a curve by μ of Gaussian differential privacy ───────────────────────────────────────

#: Shift of the μ-GDP curve before it must bound a curve.  Without a shift, no Gaussian curve bounds
#: one with a δ; a larger shift would hide differences at small FPR.
_MOVED = 1e-5


def gaussian_summary(curve: TradeoffCurve) -> tuple[float, float]:
    """Return μ and the regret of summarising a curve by it.

    Guarantee: with r the regret and G(α) = Φ(Φ⁻¹(α) + μ), TPR(α) ≤ G(α + r) + r and
    G(α) ≤ TPR(α + r) + r for every α: after a shift by r in both rates, neither curve is more
    private than the other.  μ is the least for which the first inequality holds with 1e-5 instead
    of r, so a large regret means a cautious μ, not an unsafe one.
    Theorem: G(· + r) + r is concave, so it bounds a polygon if it bounds its corners; and
    TPR(· + r) + r, the least of its support lines, bounds G if r ≥ (δ_G(ε) - δ(ε))/(1 + e^ε) for
    the slope e^ε of each line.
    Numerics: r covers the rounding of both numbers.  Edge cases: μ = 8.53 means no protection.

    Examples:
        >>> gaussian_summary(SlackCurve(GaussianCurve(0.25), 1e-9))
        (0.25, 1e-09)
    """
    if isinstance(curve, GaussianCurve):
        return curve.mu, 0.0
    if isinstance(curve, SlackCurve):
        mu, regret = gaussian_summary(curve.base)
        return mu, regret + curve.slack
    polygon = curve.to_polygon()
    fpr, tpr = polygon.vertices
    inside = (tpr > _MOVED) & (fpr + _MOVED < 1.0)
    shifts = special.ndtri(np.minimum(tpr[inside], 1.0) - _MOVED) - special.ndtri(
        fpr[inside] + _MOVED
    )
    mu = float(shifts.max(initial=0.0))
    # Corners and profiles are sums of masses, with errors from rounding and from a total other than
    # 1.
    rounding = abs(1.0 - float(fpr[-1])) + abs(1.0 - float(tpr[-1])) + 8 * (fpr.size + 8) * UNIT
    normal, knots, hidden = GaussianCurve(mu), polygon.knots(), 0.0
    for forward in (True, False):
        slopes = knots[knots >= 0] if forward else -knots[knots <= 0]
        above = normal._profile(slopes, forward=forward) - polygon._profile(slopes, forward=forward)
        with np.errstate(under="ignore"):
            lines = above * np.exp(-slopes) / (1.0 + np.exp(-slopes))
        hidden = max(hidden, float(lines.max(initial=0.0)))
    return mu, max(_MOVED, hidden) + rounding
