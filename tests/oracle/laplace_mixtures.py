"""One-dimensional releases with Laplace noise in the subset game, exactly.

P_in,x and P_out,x are mixtures of Laplace laws: piecewise sums of two exponentials, integrated
between their knots and sign changes.
"""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np

ETAS = (0.01, 0.05, 0.1, 0.25, 0.4)


def laplace_cdf(x, centres, b):
    z = (np.asarray(x)[:, None] - np.asarray(centres)[None, :]) / b
    return np.where(z < 0, 0.5 * np.exp(-np.abs(z)), 1 - 0.5 * np.exp(-np.abs(z))).mean(axis=1)


def laplace_mixture_distance(inside, outside, b):
    """TV of two equal mixtures of Laplace laws: exact between knots and sign changes."""
    knots = np.unique(np.concatenate([inside, outside]))
    points = [-np.inf, *knots, np.inf]
    cuts = list(knots)
    for low, high in pairwise(points):
        middle = knots[0] - b if low == -np.inf else knots[-1] + b if high == np.inf else low
        # On (low, high) the difference is A·e^{(x-m)/b} + B·e^{-(x-m)/b}.
        rising = falling = 0.0
        for centres, sign in ((inside, 1.0), (outside, -1.0)):
            right = centres >= high
            rising += sign * np.exp(-(centres[right] - middle) / b).sum() / len(centres)
            falling += sign * np.exp((centres[~right] - middle) / b).sum() / len(centres)
        if rising * falling < 0:
            root = middle + b / 2 * math.log(-falling / rising)
            if low < root < high:
                cuts.append(root)
    cuts = np.sort(cuts)
    steps = np.diff(
        np.concatenate([[0.0], laplace_cdf(cuts, inside, b) - laplace_cdf(cuts, outside, b), [0.0]])
    )
    return 0.5 * np.abs(steps).sum()


def random_statistics(seed):
    """(N, table of outputs over halves): smooth, heavy-tailed, two-valued, one outlier."""
    rng = np.random.default_rng(seed)
    for size in (2, 4, 6):
        count = math.comb(size, size // 2)
        yield size, rng.normal(size=count)
        yield size, rng.standard_cauchy(count)
        yield size, rng.integers(0, 2, count).astype(float)
        yield size, np.eye(count)[0]
        records = rng.standard_cauchy(size)
        yield (
            size,
            np.array([records[list(s)].mean() for s in combinations(range(size), size // 2)]),
        )
        # Outputs that name one record: the worst case for it.
        yield size, np.array([float(0 in s) for s in combinations(range(size), size // 2)])


def eta_of(size, outputs, b):
    halves = list(combinations(range(size), size // 2))
    worst = 0.0
    for x in range(size):
        member = np.array([x in s for s in halves])
        worst = max(worst, laplace_mixture_distance(outputs[member], outputs[~member], b) / 2)
    return worst


def broken_promises(constant, moment):
    """(achieved, promised) wherever noise of scale constant(eta)·sigma_M misses eta."""
    bad, largest = [], 0.0
    for size, outputs in random_statistics(14):
        sigma = (np.abs(outputs - outputs.mean()) ** moment).mean() ** (1 / moment)
        if sigma == 0:
            continue
        for eta in ETAS:
            achieved = eta_of(size, outputs, constant(eta) * sigma)
            largest = max(largest, achieved / eta)
            if achieved > eta * (1 + 1e-12):
                bad.append((size, eta, achieved))
    return bad, largest
