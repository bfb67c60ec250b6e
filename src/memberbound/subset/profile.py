"""Neighbour profiles: the change of a release when one record is replaced by another (X1).

If the release is a sum of vectors v over a uniform k-subset of N known records plus N(0, σ²I), both
hockey-sticks between the worlds "x in" and "x out" are at most

    δ_x(ε) = (1/(N-1)) Σ_{x' ≠ x} H_ε(‖v_x - v_x'‖/σ)        (L24-P12, proofs/coupling.md)

with H_ε(μ) the hockey-stick of N(μ,1) against N(0,1), for any k.  The distances are measured once;
bounds for every ε, σ and prior are computed from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from memberbound.curve import GaussianCurve
from memberbound.curve.base import price_exponent
from memberbound.declarations import Progress
from memberbound.errors import fraction, nonnegative, positive
from memberbound.numerics.normal import gaussian_hockey_stick_of_shifts_upper
from memberbound.numerics.rounding import SMALLEST, FloatArray, up_array
from memberbound.subset.distances import (
    EXACT_RECORDS,
    MOST_PAIRED_RECORDS,
    BinnedDistances,
    Distances,
    ExactDistances,
    MeanSquares,
    Rows,
    checked_vectors,
)

#: Brackets of ε are narrowed to the first ratio before the chord is taken, and if e^ε still
#: varies by more than a tenth, so that the chord is loose, to the second.
_NARROW, _NARROWER = 1.003, 1.0002


@dataclass(frozen=True, eq=False)
class NeighbourProfile:
    """Distances ‖v_x - v_x'‖ to the other records, per record, and bounds for Gaussian noise.

    Guarantee: every result is an upper bound for all attacks on that record, in the subset game
    with any k, on the release Σ_{x ∈ D} v_x + N(0, σ²I) and anything computed from it.
    Theorem: X1, L24-P12; accuracy I24-P2; PMP L24-D2.
    Assumes: the population is fixed and known; D is a uniform k-subset; σ does not depend on D.
    Pass v = f(x)/k for a mean and v = f(x) for a sum; other queries need their own distances.
    Numerics: distances are rounded up, and beyond a few hundred records binned upward (about 0.1 %
    of the distance); hockey-sticks and sums are rounded up.  Beyond 20 000 records the mean over
    the others is bounded by their mean squared distance (claim 11), in linear time.
    Edge cases: replacing a record by its twin changes nothing, so twins lower the average (they
    also make "x is in" ambiguous, see L24-fn2); σ = 0 is rejected.

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
        cls, vectors: ArrayLike, *, progress: Progress | None = None
    ) -> NeighbourProfile:
        """Measure the distances between all rows of an (N, d) table, N ≥ 2 and d ≥ 1."""
        table = checked_vectors(vectors)
        if len(table) <= EXACT_RECORDS:
            return cls(ExactDistances.of(table))
        paired = len(table) <= MOST_PAIRED_RECORDS
        return cls(BinnedDistances.of(table, progress) if paired else MeanSquares.of(table))

    @property
    def records(self) -> int:
        """Number of records N."""
        return self.distances.records

    @property
    def mean_distance(self) -> FloatArray:
        """Upper bound on the mean distance to the other records, per record."""
        # Scale, so that a sum of N distances cannot overflow.
        unit = max(self.diameter, SMALLEST)
        share = self.distances.averages(lambda d: (d / unit)[:, None])[:, 0]
        return up_array(share * unit)

    @property
    def max_distance(self) -> FloatArray:
        """Upper bound on the distance to the farthest other record, per record."""
        return self.distances.largest

    @property
    def diameter(self) -> float:
        """Upper bound on the largest distance between two records, the sensitivity inside X."""
        return float(self.distances.largest.max())

    def delta(self, epsilon: float, sigma: float) -> FloatArray:
        """Return, per record, an upper bound on both hockey-sticks between "in" and "out" at e^ε.

        Theorem: X1, L24-P12; the bound is the same in both directions.
        """
        eps = np.array([nonnegative("epsilon", epsilon)])
        return self._deltas(eps, _noise(sigma))[:, 0]

    def pmp_epsilon(self, delta: float, sigma: float) -> FloatArray:
        """Return, per record, an ε with ``self.delta(ε, sigma)`` ≤ ``delta`` for that record.

        Theorem: L24-D2 with X1.  Numerics: within 3e-4 of the smallest such ε.  Between two
        evaluated ε it is where their chord meets δ, which is safe because δ_x is convex in e^ε.
        Edge cases: δ = 0 gives ∞, or 0 for a record that equals all others.
        """
        target, noise = fraction("delta", delta), _noise(sigma)
        here = self._deltas(np.zeros(1), noise)[:, 0]
        mu = float(shifts(np.array([self.diameter]), noise)[0])
        # Lower the target by the possible excess of an evaluation, so that evaluating the result
        # again, with any summation order of a few thousand terms, stays below the target.
        goal = target * (1 - 1e-10)
        top = GaussianCurve(mu).epsilon(goal)
        result = np.where(here <= target, 0.0, top)
        rows = np.flatnonzero(here > target)
        brackets = []
        if rows.size and math.isfinite(top):
            end = self._deltas(np.array([top]), noise, rows)[:, 0]
            brackets.append(_Bracket(rows, 0.0, top, here[rows], end))
        while brackets:
            around = brackets.pop()
            inner = around.inner(self.distances.at_once)
            if inner.size:
                brackets += around.parts(inner, self._deltas(inner, noise, around.rows), goal)
            else:
                result[around.rows] = around.crossing(goal)
        return result

    def advantage(self, sigma: float) -> FloatArray:
        """Return, per record, an upper bound on the total variation between "in" and "out"."""
        return self.delta(0.0, sigma)

    def accuracy(self, prior: float, sigma: float) -> FloatArray:
        """Return, per record, an upper bound on attack accuracy at the prior k/N.

        Theorem: I24-P2 with X1: max(π, 1-π) + min(π, 1-π)·δ_x at e^ε = the ratio of the two.
        Numerics: also valid for any prior that rounds to the given one, which changes the accuracy
        by at most the rounding of k/N.
        """
        pi = fraction("prior", prior, open_left=True, open_right=True)
        stick = self.delta(price_exponent(pi, 1.0)[0], sigma)
        base, weight = max(pi, 1 - pi), min(pi, 1 - pi)
        value = up_array(base + weight * stick)
        if pi == 0.5:
            value = np.where(stick == 0.0, 0.5, value)
        return np.minimum(value, 1.0)

    def _deltas(self, epsilons: FloatArray, sigma: float, rows: Rows | None = None) -> FloatArray:
        """Return upper bounds on δ_x(ε) for some records (rows) and several ε (columns)."""

        def sticks(distance: FloatArray) -> FloatArray:
            return gaussian_hockey_stick_of_shifts_upper(shifts(distance, sigma)[:, None], epsilons)

        return np.minimum(self.distances.averages(sticks, rows), 1.0)


@dataclass(frozen=True, eq=False)
class _Bracket:
    """Two ε with δ_x at both for several records; at the second, δ_x is at most the goal."""

    rows: Rows
    low: float
    high: float
    at_low: FloatArray
    at_high: FloatArray

    def inner(self, points: int) -> FloatArray:
        """Return the ε at which to cut the bracket; empty if it is narrow enough."""
        low, high = self.low, self.high
        if high <= low * (_NARROW if high - low <= 0.1 else _NARROWER) or high <= 1e-12:
            return np.empty(0)
        if low == 0.0:
            inner = np.geomspace(1e-4 * high, high, points + 1)[:-1]
        else:
            ratio = _NARROW if high > low * _NARROW else _NARROWER
            need = math.ceil(math.log(high / low) / math.log(ratio))
            inner = np.geomspace(low, high, min(need, points) + 2)[1:-1]
        return np.asarray(inner[(inner > low) & (inner < high)])

    def parts(self, inner: FloatArray, deltas: FloatArray, goal: float) -> Iterator[_Bracket]:
        """Yield the brackets between two neighbouring ε, each with the records that cross there."""
        grid = np.concatenate([[self.low], inner, [self.high]])
        sticks = np.column_stack([self.at_low, deltas, self.at_high])
        # The first point that satisfies the goal, per record; the last one always does.
        safe = sticks <= goal
        safe[:, 0], safe[:, -1] = False, True
        index = safe.argmax(axis=1)
        for cell in np.unique(index):
            mine, (low, high) = index == cell, grid[cell - 1 : cell + 1].tolist()
            yield _Bracket(self.rows[mine], low, high, sticks[mine, cell - 1], sticks[mine, cell])

    def crossing(self, goal: float) -> FloatArray:
        """Return where the chord meets the goal; the chord is above, as δ_x is convex in e^ε."""
        low, high, at_low, at_high = self.low, self.high, self.at_low, self.at_high
        with np.errstate(invalid="ignore", divide="ignore"):
            share = (at_low - goal) / (at_low - at_high)
            # e^ε = e^high - (1 - share)(e^high - e^low), all relative to e^high.
            back = np.log1p((1 - share) * np.expm1(low - high))
        crossing = up_array(high + back, 16)
        usable = (at_high <= goal) & (goal < at_low) & (crossing < high)
        return np.asarray(np.where(usable, crossing, high), dtype=np.float64)


def _noise(sigma: float) -> float:
    return positive("sigma", sigma, "A release without noise protects no record.")


def shifts(distance: FloatArray, sigma: float) -> FloatArray:
    """Return μ = distance/σ, rounded up; a positive distance stays positive."""
    with np.errstate(over="ignore", under="ignore"):
        mu = up_array(distance / sigma, 1)
    # Beyond 1e200 two releases never overlap, for any ε that a double can hold.
    return np.where(distance > 0, np.clip(mu, SMALLEST, 1e200), 0.0)
