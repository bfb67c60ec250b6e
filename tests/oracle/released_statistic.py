"""One-dimensional statistics of small populations, released with noise: eta of every record.

The worlds' laws are mixtures over all subsets; masses of small cells give *lower* bounds on what
the best attacker gains, tight to the width of the cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations

import numpy as np
from scipy.special import ndtr

from memberbound.games import SubsetGame
from memberbound.release.calibration import Calibration
from memberbound.release.half.fitting import FreshSubsets
from memberbound.release.half.least_noise import distance_target, least_draws
from memberbound.release.half.refitting import calibrate
from oracle.subset import swaps

MARGIN = 1e-12
CELLS = 1001


class Column:
    """A statistic of one column of fixed records."""

    dimension = 1

    def __init__(self, records: np.ndarray, how: Callable[[np.ndarray], float]) -> None:
        self.records, self.how = records, how

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return np.atleast_1d(self.how(self.records[rows]))


def statistics(size: int, seed: int = 0) -> Iterator[tuple[str, Column]]:
    """Smooth, heavy-tailed, robust and extreme ones, and one that names a record."""
    rng = np.random.default_rng(seed)
    skew = rng.standard_cauchy(size)
    yield "mean", Column(rng.normal(size=size), np.mean)
    yield "cauchy mean", Column(skew, np.mean)
    yield "median", Column(skew, np.median)
    yield "maximum", Column(rng.exponential(size=size), np.max)
    yield "names one record", Column(np.eye(size)[0], np.sum)
    yield "spread", Column(rng.normal(size=size), np.std)


def calibrated(
    statistic: object, game: SubsetGame, method: str, eta: float, **more: object
) -> Calibration:
    """Calibrate at confidence 0.999, the false-alarm rate of a case, with few fits."""
    target = distance_target(game, eta, 0.0) if method == "neighbour" else eta
    asked = {"confidence": 0.999, "workers": 1} | more
    asked["pairs"] = 5 * least_draws(target, 0.999, game.population)
    return calibrate(statistic, FreshSubsets(game, 1), eta=eta, method=method, **asked)


def normal_cdf(z: np.ndarray) -> np.ndarray:
    return ndtr(z)


def laplace_cdf(z: np.ndarray) -> np.ndarray:
    return np.where(z < 0, 0.5 * np.exp(-np.abs(z)), 1 - 0.5 * np.exp(-np.abs(z)))


def outputs_of(statistic: Callable[[np.ndarray], np.ndarray], size: int, k: int) -> np.ndarray:
    return np.array([float(statistic(np.array(s))[0]) for s in combinations(range(size), k)])


def gains(
    outputs: np.ndarray,
    size: int,
    k: int,
    scale: float,
    cdf: Callable[[np.ndarray], np.ndarray] = normal_cdf,
) -> np.ndarray:
    """Best attacker's accuracy less the likelier answer's, per record, from below."""
    prior = k / size
    # Subsets with one output have one law: outputs once, and how many subsets have them.
    outputs, inverse = np.unique(outputs, return_inverse=True)
    if scale == 0:
        edges_mass = np.eye(len(outputs))
    else:
        reach = 12 * scale
        edges = np.unique(
            np.concatenate(
                [
                    np.linspace(outputs.min() - reach, outputs.max() + reach, CELLS),
                    # Far outputs with little noise need cells of their own.
                    (outputs[:, None] + scale * np.linspace(-4, 4, 41)).ravel(),
                ]
            )
        )
        levels = cdf((edges[None, :] - outputs[:, None]) / scale)
        edges_mass = np.diff(np.pad(levels, ((0, 0), (1, 1)), constant_values=(0, 1)), axis=1)
    worlds = []
    for member in _members(size, k):
        for side in (member, ~member):
            worlds.append(np.bincount(inverse[side], minlength=len(outputs)) / side.sum())
    laws = np.array(worlds) @ edges_mass
    best = np.maximum(prior * laws[::2], (1 - prior) * laws[1::2]).sum(axis=1)
    return best - max(prior, 1 - prior) - MARGIN


@cache
def _members(size: int, k: int) -> np.ndarray:
    """For every record, which subsets it is in."""
    subsets = list(combinations(range(size), k))
    return np.array([[x in s for s in subsets] for x in range(size)])


def neighbour_means(
    outputs: np.ndarray, size: int, k: int, distance: Callable[[float], float]
) -> np.ndarray:
    """X1's mean distance of every record, by a plain double loop."""
    expected = outputs.tolist()
    return np.array(
        [
            np.mean([distance(abs(expected[i] - expected[j])) for i, j in swaps])
            for swaps in _swaps(size, k)
        ]
    )


@cache
def _swaps(size: int, k: int) -> list[list[tuple[int, int]]]:
    """For every record the places of all (D, D') in which another one takes its place."""
    index = {frozenset(s): i for i, s in enumerate(combinations(range(size), k))}
    return [[(index[d], index[e]) for d, e, _ in swaps(size, k, x)] for x in range(size)]


#: Guarantees of noise from a moment (I24-T9, I24-C14, X14).
ETAS = (0.01, 0.05, 0.1, 0.25, 0.4)


def tables_of_halves(seed: int) -> Iterator[tuple[int, np.ndarray]]:
    """(N, outputs over halves): smooth, heavy-tailed, two-valued, one set, a mean, one record."""
    rng = np.random.default_rng(seed)
    for size in (2, 4, 6):
        halves = list(combinations(range(size), size // 2))
        yield size, rng.normal(size=len(halves))
        yield size, rng.standard_cauchy(len(halves))
        yield size, rng.integers(0, 2, len(halves)).astype(float)
        yield size, np.eye(len(halves))[0]
        yield size, outputs_of(Column(rng.standard_cauchy(size), np.mean), size, size // 2)
        yield size, outputs_of(Column(np.eye(size)[0], np.sum), size, size // 2)


def broken_promises(
    constant: Callable[[float], float], moment: float
) -> tuple[list[tuple[int, float, float]], float]:
    """Return the cases in which Laplace noise of scale constant(eta)·sigma_M misses eta.

    Also return the largest ratio to eta.
    """
    bad, largest = [], 0.0
    for size, outputs in tables_of_halves(14):
        sigma = (np.abs(outputs - outputs.mean()) ** moment).mean() ** (1 / moment)
        for eta in ETAS if sigma > 0 else ():
            reached = gains(outputs, size, size // 2, constant(eta) * sigma, laplace_cdf).max()
            largest = max(largest, reached / eta)
            if reached > eta:
                bad.append((size, eta, reached))
    return bad, largest
