"""Sums over k of N known records plus normal noise: tests between a record's two worlds.

Every number is that of a test, so it is at most the truth on any grid; it is near the truth because
the test is (nearly) the best one.  A law of sums is a pair (places, weights).
"""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from typing import NamedTuple

import mpmath as mp
import numpy as np
from scipy.special import ndtr

Law = tuple[np.ndarray, np.ndarray]

MARGIN = 1e-12


def world_sums(vectors: np.ndarray, k: int, x: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums of all k rows with row x, and of all k rows without it."""
    others = [y for y in range(len(vectors)) if y != x]
    inside = np.array([vectors[[x, *s]].sum(axis=0) for s in combinations(others, k - 1)])
    return inside, np.array([vectors[list(s)].sum(axis=0) for s in combinations(others, k)])


# ---- one number: sets of intervals, to 30 digits -------------------------------------------------


def subset_laws(values: np.ndarray, k: int, x: int) -> tuple[Law, Law]:
    """Laws of the sum with record x and without it, by listing all subsets."""
    inside, outside = world_sums(np.asarray(values, dtype=float), k, x)
    return (inside, np.full(len(inside), 1 / len(inside))), (
        outside,
        np.full(len(outside), 1 / len(outside)),
    )


def lattice_laws(values: np.ndarray, k: int, x: int) -> tuple[Law, Law]:
    """The same for whole numbers, by counting subsets in exact integers."""
    others = np.delete(values, x).astype(int)
    counts = np.zeros((k + 1, others.sum() + 1), dtype=object)
    counts[0, 0] = 1
    for value in others:
        before = counts.copy()
        counts[1:, value:] += before[:-1, : counts.shape[1] - value]

    def law(row: np.ndarray, shift: int) -> Law:
        sums = np.flatnonzero(row)
        return sums + float(shift), (row[sums] / row.sum()).astype(float)

    return law(counts[k - 1], int(values[x])), law(counts[k], 0)


def stick(first: Law, second: Law, sigma: float, c: float) -> mp.mpf:
    """∫(p - c·q)₊ over the intervals where p > c·q: roots in doubles, their masses to 30 digits."""
    laws = [(points / sigma, weights) for points, weights in (first, second)]

    def gap(t: np.ndarray) -> np.ndarray:
        p, q = (np.exp(-0.5 * np.square(t[:, None] - points)) @ weights for points, weights in laws)
        return p - c * q

    ends = [end for points, _ in laws for end in (points.min(), points.max())]
    grid = np.linspace(min(ends) - 9, max(ends) + 9, 6001)
    ahead = gap(grid) > 0
    turn = np.flatnonzero(np.diff(ahead))
    low, high = grid[turn], grid[turn + 1]
    for _ in range(40):  # bisection of all roots at once
        middle = (low + high) / 2
        same = (gap(middle) > 0) == ahead[turn]
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    total = mp.mpf(0)
    with mp.workdps(30):
        for left, right in pairwise([-mp.inf, *low.tolist(), mp.inf]):
            p, q = (
                mp.fsum(
                    w * (mp.ncdf(right - s) - mp.ncdf(left - s))
                    for s, w in zip(points.tolist(), weights.tolist(), strict=True)
                )
                for points, weights in laws
            )
            total += max(p - c * q, mp.mpf(0))
    return total


def accuracy(inside: Law, outside: Law, sigma: float, prior: float) -> mp.mpf:
    """Accuracy of the best attack at this prior of "in"."""
    return (1 - prior) + prior * stick(inside, outside, sigma, (1 - prior) / prior)


# ---- one or two numbers: exact masses of small cells ---------------------------------------------


class Cells(NamedTuple):
    """Masses of all cells in the two worlds of one record; the margin covers the rounding of Φ."""

    inside: np.ndarray
    outside: np.ndarray

    def sticks(self, epsilon: float) -> tuple[float, float]:
        """Both hockey-sticks at e^epsilon, from below; 0 beyond epsilon = 500, for safety."""
        if epsilon > 500:
            return 0.0, 0.0
        g = math.exp(epsilon) * (1 + 1e-12)
        p, q = self.inside, self.outside
        forward = np.maximum(p - g * q, 0).sum() - MARGIN
        return float(forward), float(np.maximum(q - g * p, 0).sum() - MARGIN)

    def accuracy(self, prior: float) -> float:
        """Accuracy of the best test on cells, from below."""
        best = np.maximum(prior * self.inside, (1 - prior) * self.outside).sum()
        return float(best - MARGIN)


def _masses(centres: np.ndarray, sigma: float, edges: list[np.ndarray]) -> np.ndarray:
    along = []
    for e, c in zip(edges, centres.T, strict=True):
        z = (e - c[:, None]) / sigma
        a, b = z[:, :-1], z[:, 1:]
        # Relative precision in both tails, which e^epsilon magnifies.
        along.append(np.where(a + b > 0, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a)))
    if len(along) == 1:
        return along[0].mean(axis=0)
    return along[0].T @ along[1] / len(centres)


def cells(vectors: np.ndarray, k: int, x: int, sigma: float, count: int) -> Cells:
    """Record x against the rest: the sum of k rows plus N(0, sigma^2 I), d = 1 or 2."""
    inside, outside = world_sums(vectors, k, x)
    every = np.vstack([inside, outside])
    edges = [
        np.linspace(low - 8 * sigma, high + 8 * sigma, count + 1)
        for low, high in zip(every.min(axis=0), every.max(axis=0), strict=True)
    ]
    return Cells(_masses(inside, sigma, edges), _masses(outside, sigma, edges))
