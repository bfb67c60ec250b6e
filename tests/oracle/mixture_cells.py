"""Gaussian noise on a subset sum, in one or two dimensions, by exact masses of small cells.

Any test that only looks at the cell is a test, so hockey-sticks and accuracies of the cell masses
are *lower* bounds on the truth, whatever the grid; the margin below covers the rounding of Phi.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

MARGIN = 1e-12


class Cells(NamedTuple):
    """Masses of all cells in the two worlds of one record."""

    inside: np.ndarray
    outside: np.ndarray

    def sticks(self, epsilon: float) -> tuple[float, float]:
        """Both hockey-sticks at e^epsilon, from below; 0 beyond epsilon = 500, for safety."""
        if epsilon > 500:
            return 0.0, 0.0
        g = np.exp(epsilon) * (1 + 1e-12)
        p, q = self.inside, self.outside
        forward = np.maximum(p - g * q, 0).sum() - MARGIN
        return float(forward), float(np.maximum(q - g * p, 0).sum() - MARGIN)

    def accuracy(self, prior: float) -> float:
        """Accuracy of the best test on cells, from below."""
        best = np.maximum(prior * self.inside, (1 - prior) * self.outside).sum()
        return float(best - MARGIN)


def _between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Phi(b) - Phi(a) with relative precision in both tails, which e^epsilon magnifies."""
    upper = a + b > 0
    return np.where(upper, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a))


def _masses(centres: np.ndarray, sigma: float, edges: list[np.ndarray]) -> np.ndarray:
    along = []
    for e, c in zip(edges, centres.T, strict=True):
        z = (e - c[:, None]) / sigma
        along.append(_between(z[:, :-1], z[:, 1:]))
    if len(along) == 1:
        return along[0].mean(axis=0)
    return along[0].T @ along[1] / len(centres)


def world_sums(vectors: np.ndarray, k: int, x: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums of all k rows with row x, and of all k rows without it."""
    others = [y for y in range(len(vectors)) if y != x]
    inside = np.array([vectors[[x, *s]].sum(axis=0) for s in combinations(others, k - 1)])
    return inside, np.array([vectors[list(s)].sum(axis=0) for s in combinations(others, k)])


def cells(vectors: np.ndarray, k: int, x: int, sigma: float, count: int) -> Cells:
    """Record x against the rest: the sum of k rows plus N(0, sigma^2 I), d = 1 or 2."""
    inside, outside = world_sums(vectors, k, x)
    every = np.vstack([inside, outside])
    edges = [
        np.linspace(low - 8 * sigma, high + 8 * sigma, count + 1)
        for low, high in zip(every.min(axis=0), every.max(axis=0), strict=True)
    ]
    return Cells(_masses(inside, sigma, edges), _masses(outside, sigma, edges))
