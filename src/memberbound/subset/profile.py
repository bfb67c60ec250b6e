"""The neighbour profile: how far a release moves when one record is replaced by another (X1).

In the subset game D is a uniform k-subset of N known records.  Replacing x in D by a uniform record
outside D turns a uniform set with x into a uniform set without it, and the newcomer is uniform
among the N - 1 others whatever k is.  If the release is a sum of vectors v plus N(0, σ²I), the two
releases are Gaussians ‖v_x - v_x'‖ apart, and by joint convexity both hockey-sticks between the
worlds "x in" and "x out" are at most

    δ_x(ε) = (1/(N-1)) Σ_{x' ≠ x} H_ε(‖v_x - v_x'‖/σ)        (L24-P12, proofs/coupling.md)

with H_ε(μ) the hockey-stick of N(μ,1) against N(0,1).  The distances are measured once; every ε, σ,
prior and false-positive rate is read from them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from memberbound.curve import GaussianCurve
from memberbound.curve.base import price_exponent
from memberbound.errors import InputError, fraction, nonnegative, positive
from memberbound.numerics.normal import gaussian_hockey_stick_of_shifts_upper
from memberbound.numerics.rounding import SMALLEST, UNIT, FloatArray, sum_slack, up_array
from memberbound.subset.distances import (
    EXACT_RECORDS,
    MOST_PAIRED_RECORDS,
    BinnedDistances,
    Distances,
    ExactDistances,
    GroupedDistances,
    Progress,
    Rows,
    checked_vectors,
)

__all__ = ["NeighbourProfile"]

#: Beyond this μ the two releases never overlap, whatever ε a double can hold.
_APART = 1e200
#: Brackets of ε are narrowed to the first ratio before the chord is taken, and where e^ε still
#: varies by more than a tenth, so that the chord says little, to the second.
_NARROW, _NARROWER = 1.003, 1.0002
#: Hockey-sticks that are worked out at once: more do not fit into fast memory.
_AT_ONCE = 1 << 14
#: An ε this small says "indistinguishable"; the search stops there.
_NO_EPSILON = 1e-12
#: TPRs are read from slopes e^±ε up to this ε at least: e^-37 is below the spacing of doubles at 1.
_STEEPEST = 37.0


@dataclass(frozen=True, eq=False)
class NeighbourProfile:
    """Per record, the law of ‖v_x - v_x'‖ over the other records x', and what Gaussian noise hides.

    Guarantee: every read-off is an upper bound, for every attack on that record, in the subset game
    with any k, on the release Σ_{x ∈ D} v_x + N(0, σ²I) and anything computed from it.
    Theorem: X1, L24-P12; accuracy I24-P2; PMP L24-D2.
    Assumes: the population is fixed and known; D is a uniform k-subset; σ does not depend on D.
    For a mean give v = f(x)/k, for a sum v = f(x); other queries need their own distances.
    Numerics: distances are measured from above, and binned upward beyond a few hundred records
    (about 0.1 % in the distance); hockey-sticks and sums are rounded up.  Beyond 20 000 records the
    mean over a group of others is bounded by its mean squared distance (claim 11), in linear time.
    Edge cases: a record with a twin moves nothing when the twin replaces it, so twins lower the
    average (they also make "x is in" ambiguous, see L24-fn2); σ = 0 is refused.

    Examples:
        >>> profile = NeighbourProfile.from_vectors([[0.0], [0.0], [3.0], [4.0]])
        >>> profile.mean_distance.round(6).tolist()
        [2.333333, 2.333333, 2.333333, 3.0]
        >>> profile.accuracy(0.5, sigma=4.0).round(4).tolist()
        [0.6125, 0.6125, 0.614, 0.6442]
    """

    distances: Distances

    @classmethod
    def from_vectors(
        cls,
        vectors: ArrayLike,
        *,
        bins: int | None = None,
        exact: bool | None = None,
        progress: Progress | None = None,
    ) -> NeighbourProfile:
        """Measure the distances between all rows of an (N, d) table.

        Args:
            vectors: one row per record, N ≥ 2 and d ≥ 1: f(x) for a sum query, f(x)/k for a mean.
            bins: how many bins the histogram of each record may have, if distances are binned.
            exact: keep all distances (True), bin them (False), or decide by N.  Beyond 20 000
                records, unless ``bins`` is given, groups of records stand in for pairs.
            progress: called with (records done, records).
        """
        table = checked_vectors(vectors)
        if exact is None:
            exact = bins is None and table.shape[0] <= EXACT_RECORDS
        if not exact and bins is None and len(table) > MOST_PAIRED_RECORDS:
            return cls(GroupedDistances.of(table, progress=progress))
        if not exact:
            return cls(BinnedDistances.of(table, bins, progress))
        if bins is not None:
            raise InputError(f"bins must be left out for exact distances, got {bins!r}.")
        return cls(ExactDistances.of(table, progress))

    @property
    def records(self) -> int:
        """Number of records N."""
        return self.distances.records

    @property
    def mean_distance(self) -> FloatArray:
        """Per record, the mean distance to the other records, from above."""
        # Scaled, so that a sum of N distances cannot overflow.
        unit = max(self.diameter, SMALLEST)
        share = self.distances.averages(lambda d: up_array(d / unit)[:, None])[:, 0]
        return up_array(share * unit)

    @property
    def max_distance(self) -> FloatArray:
        """Per record, the distance to the farthest other record, from above."""
        return self.distances.largest

    @property
    def diameter(self) -> float:
        """The largest distance between two records, from above: the sensitivity inside X."""
        return float(self.distances.largest.max())

    # ---- hockey-sticks --------------------------------------------------------------------

    def delta(self, epsilon: float, sigma: float) -> FloatArray:
        """Return, per record, both hockey-sticks between "in" and "out" at e^ε, from above.

        Theorem: X1, L24-P12; the bound is the same both ways.
        """
        eps = np.array([nonnegative("epsilon", epsilon)])
        return self._deltas(eps, _noise(sigma))[:, 0]

    def pmp_epsilon(self, delta: float, sigma: float) -> FloatArray:
        """Return, per record, an ε with ``self.delta(ε, sigma)`` ≤ ``delta`` for that record.

        Theorem: L24-D2 with X1.  Numerics: within 3e-4 of the smallest such ε; the ε between two
        evaluated ones is where their chord meets δ, and δ_x is convex in e^ε.
        Edge cases: δ = 0 gives ∞, or 0 for a record all others are twins of.
        """
        target, noise = fraction("delta", delta), _noise(sigma)
        here = self._deltas(np.zeros(1), noise)[:, 0]
        mu = float(_shifts(np.array([self.diameter]), noise)[0])
        # Lowered by what an evaluation may exceed the true value, so that evaluating a result
        # again, in whatever order sums are taken, stays at or below the target.
        excess = 1e-10 + 4096 * UNIT * mu + 8 * sum_slack(self.distances.terms)
        goal = target * max(0.0, 1 - excess)
        top = GaussianCurve(mu).epsilon(goal)
        result = np.where(here <= target, 0.0, top)
        rows = np.flatnonzero(here > target)
        if rows.size and math.isfinite(top):
            end = self._deltas(np.array([top]), noise, rows)[:, 0]
            around = _Bracket(0.0, top, here[rows], end)
            self._narrow(result, rows, around, goal=goal, sigma=noise)
        return result

    def advantage(self, sigma: float) -> FloatArray:
        """Return, per record, the total variation between "in" and "out", from above."""
        return self.delta(0.0, sigma)

    def accuracy(self, prior: float, sigma: float) -> FloatArray:
        """Return, per record, how often an attack can be right at the prior k/N, from above.

        Theorem: I24-P2 with X1: max(π, 1-π) + min(π, 1-π)·δ_x at e^ε = the ratio of the two.
        """
        pi = fraction("prior", prior, open_left=True, open_right=True)
        stick = self.delta(price_exponent(pi, 1.0)[0], sigma)
        base, weight = max(pi, 1 - pi), min(pi, 1 - pi)
        value = up_array(base + weight * stick)
        if pi == 0.5:
            value = np.where(stick == 0.0, 0.5, value)
        return np.minimum(value, 1.0)

    def tpr(self, fpr: float, sigma: float) -> FloatArray:
        """Return, per record, the best true-positive rate at false-positive rate α, from above.

        Theorem: X1; the ROC lies below the lines δ_x(ε) + e^ε·α and 1 - e^-ε·(1 - α - δ_x(ε)).
        Numerics: the lowest of lines chosen in two rounds, within 1e-3 of the lowest of all.
        Edge cases: α = 0 gives 0 (Gaussian noise betrays nobody for certain), α = 1 gives 1.
        """
        alpha, noise = fraction("fpr", fpr), _noise(sigma)
        if alpha in (0.0, 1.0):
            return np.full(self.records, alpha)
        reach = max(-math.log(alpha), _STEEPEST)
        grid = np.append(0.0, np.geomspace(1e-5 * reach, reach, 63))
        lines = self._lines(grid, alpha, noise, None)
        best = lines.argmin(axis=1)
        result = lines.min(axis=1)
        for place in np.unique(best):
            rows = np.flatnonzero(best == place)
            ends = grid[max(place - 1, 0)], grid[min(place + 1, grid.size - 1)]
            closer = self._lines(np.linspace(*ends, 26)[1:-1], alpha, noise, rows)
            result[rows] = np.minimum(result[rows], closer.min(axis=1))
        return np.asarray(np.clip(result, alpha, 1.0), dtype=np.float64)

    # ---- machinery ------------------------------------------------------------------------

    def _deltas(self, epsilons: FloatArray, sigma: float, rows: Rows | None = None) -> FloatArray:
        """δ_x(ε) for chosen records (rows) and several ε (columns), from above."""

        def sticks(distance: FloatArray) -> FloatArray:
            mu = _shifts(distance, sigma)[:, None]
            of_shifts = gaussian_hockey_stick_of_shifts_upper
            step = max(1, _AT_ONCE // mu.size)
            starts = range(0, epsilons.size, step)
            return np.hstack([of_shifts(mu, epsilons[at : at + step]) for at in starts])

        averages = self.distances.averages(sticks, rows)
        return np.minimum(averages, 1.0, out=averages)

    def _lines(
        self, epsilons: FloatArray, alpha: float, sigma: float, rows: Rows | None
    ) -> FloatArray:
        """Heights at α of the support lines of slope e^ε and e^-ε, the lower of the two."""
        delta = self._deltas(epsilons, sigma, rows)
        with np.errstate(over="ignore", under="ignore"):
            steep = up_array(delta + alpha * np.exp(epsilons), 8)
            # 1 - e^-ε + e^-ε(α + δ): no difference of numbers near one.
            flat = up_array(-np.expm1(-epsilons) + np.exp(-epsilons) * (alpha + delta), 8)
        return np.minimum(steep, flat)

    def _narrow(
        self, result: FloatArray, rows: Rows, around: _Bracket, *, goal: float, sigma: float
    ) -> None:
        """Write the ε of ``rows`` into ``result``: δ_x ≤ goal at the high end of the bracket."""
        low, high = around.low, around.high
        points = self.distances.at_once
        if low == 0.0:
            inner = np.geomspace(1e-4 * high, high, points + 1)[:-1]
        else:
            ratio = _NARROW if high > low * _NARROW else _NARROWER
            need = math.ceil(math.log(high / low) / math.log(ratio))
            inner = np.geomspace(low, high, min(need, points) + 2)[1:-1]
        inner = inner[(inner > low) & (inner < high)]
        narrow = high <= low * (_NARROW if high - low <= 0.1 else _NARROWER)
        if narrow or high <= _NO_EPSILON or inner.size == 0:
            result[rows] = around.crossing(goal)
            return
        deltas = self._deltas(inner, sigma, rows)
        grid = np.concatenate([[low], inner, [high]])
        sticks = np.column_stack([around.at_low, deltas, around.at_high])
        # The first point that satisfies the goal, per record; the last one always does.
        safe = sticks <= goal
        safe[:, 0], safe[:, -1] = False, True
        place = safe.argmax(axis=1)
        parts = []
        for cell in np.unique(place):
            mine = place == cell
            ends = sticks[mine, cell - 1], sticks[mine, cell]
            parts.append((rows[mine], _Bracket(float(grid[cell - 1]), float(grid[cell]), *ends)))
        # Of many records these are the largest arrays: not one of each for every level below.
        del deltas, sticks, safe, place
        for chosen, part in parts:
            self._narrow(result, chosen, part, goal=goal, sigma=sigma)


@dataclass(frozen=True, eq=False)
class _Bracket:
    """Two ε, and δ_x at each of them for several records."""

    low: float
    high: float
    at_low: FloatArray
    at_high: FloatArray

    def crossing(self, goal: float) -> FloatArray:
        """Where the chord meets the goal: δ_x is convex in e^ε, so the chord lies above it."""
        low, high, at_low, at_high = self.low, self.high, self.at_low, self.at_high
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.clip((at_low - goal) / (at_low - at_high), 0.0, 1.0)
        # e^ε = e^high - (1 - share)(e^high - e^low), all relative to e^high.
        back = np.log1p((1 - share) * np.expm1(low - high))
        crossing = up_array(high + back, 16)
        usable = (at_high <= goal) & (goal < at_low) & (crossing < high)
        return np.asarray(np.where(usable, crossing, high), dtype=np.float64)


def _noise(sigma: float) -> float:
    return positive("sigma", sigma, "A release without noise hides nobody.")


def _shifts(distance: FloatArray, sigma: float) -> FloatArray:
    """μ = distance/σ from above; a positive distance stays positive."""
    with np.errstate(over="ignore", under="ignore"):
        mu = up_array(distance / sigma, 1)
    return np.where(distance > 0, np.clip(mu, SMALLEST, _APART), 0.0)
