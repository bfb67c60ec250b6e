"""Sample neighbouring sets of the subset game; measure distances to mixtures of neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memberbound.numerics.rounding import FloatArray, sum_slack
from memberbound.release.half.fitting import FreshSubsets, Rows


def match_neighbours(
    stream: FreshSubsets, count: int
) -> tuple[list[list[Rows]], NDArray[np.int64]]:
    """Return groups [D, D'_1, D'_2, …] and, per group, the neighbour assigned to each record.

    Members and non-members are matched at random; the swap of a matched pair serves both records
    (proofs/retraining.md, claim 2).  If one side is larger, its surplus is matched again.
    """
    game = stream.game
    groups, indices = [], []
    for order in stream.orders(count):
        inside, outside = order[: game.size], order[game.size :]
        index = np.empty(game.population, dtype=np.int64)
        group = [np.sort(inside)]
        for swap in range(max(inside.size, outside.size)):
            gone, new = inside[swap % inside.size], outside[swap % outside.size]
            group.append(np.sort(np.append(inside[inside != gone], new)))
        # A record of the smaller side uses its first swap.
        index[inside] = np.arange(inside.size)
        index[outside] = np.arange(outside.size)
        groups.append(group)
        indices.append(index)
    return groups, np.array(indices)


def neighbour_groups(stream: FreshSubsets, count: int, width: int) -> list[list[Rows]]:
    """Return ``count`` independent groups D₀ ∪ x₁ … D₀ ∪ x_g: D₀ and the x_i uniform.

    Edge cases: g = ``width`` is at most N - k + 1, the number of records outside D₀.
    """
    size = stream.game.size
    return [
        [np.sort(np.append(order[: size - 1], x)) for x in order[size - 1 :][:width]]
        for order in stream.orders(count)
    ]


@dataclass(frozen=True, eq=False)
class MixtureDistances:
    """Unbiased estimates of X20's distances on sampled groups, in [0, 1] and rounded up.

    ``points`` (draws, sets, d) are the outputs relative to the first set of their group, ``noise``
    (draws, n, d) standard normal vectors, the same at every scale and for every set.

    Numerics: points have a relative error of at most ``room``; exponents are lowered by a bound on
    that and on the rounding of their sums, so likelihood ratios are too small and distances too
    large.  If an exponential overflows, the distance is 0, which is correct.
    """

    points: FloatArray
    noise: FloatArray
    room: float

    @classmethod
    def of(
        cls, outputs: FloatArray, seed: int | tuple[int, ...], draws: int = 8
    ) -> MixtureDistances:
        """Sample antithetic noise for the outputs (draws, sets, d)."""
        moved = outputs - outputs[:, :1]
        count, _, dimension = moved.shape
        noise = np.random.default_rng(seed).standard_normal((count, draws, dimension))
        # Antithetic draws reduce the variance of the mean.
        noise = np.concatenate([noise, -noise], axis=1)
        # Covers the rounding of the difference and of inner products.
        return cls(moved, noise, 32 * sum_slack(dimension + 8))

    def average(self, scale: float) -> FloatArray:
        """Return, per draw, the mean over sets of the distance to their partners' mixture."""
        table = self.each(scale)
        return np.asarray(np.minimum(table.mean(axis=1) * (1 + 2 * sum_slack(table.shape[1])), 1.0))

    def each(self, scale: float) -> FloatArray:
        """Return unbiased estimates, per draw and set, of the distance to its partners' mixture."""
        points, noise, sets = self.points, self.noise, self.points.shape[1]
        partners = sets - 1
        # The partners of index i are the other indices of the group.
        indices = (np.arange(sets)[:, None] + np.arange(1, sets)) % sets
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            lengths = np.square(points).sum(axis=2)
            reach = 2 * np.sqrt(lengths.max(axis=1)) / scale
            squares = lengths[:, :, None] + lengths[:, None, :]
            squares = squares - 2 * points @ points.transpose(0, 2, 1)
            squares = np.maximum(squares, 0.0) / scale / scale
            along = noise @ points.transpose(0, 2, 1) / scale
            sizes = np.linalg.norm(noise, axis=2)
            lost = self.room * reach[:, None] * (sizes + reach[:, None])
            moved = squares[:, np.arange(sets)[:, None], indices] / 2
            exponents = along[:, :, indices] - along[..., None]
            exponents -= moved[:, None] + lost[:, :, None, None]
            ratio = np.exp(exponents).sum(axis=3) / partners
            value = np.clip(1 - ratio * (1 - 2 * sum_slack(partners + 16)), 0.0, 1.0)
        # Beyond the range of doubles, use the trivial bound.
        value = np.where((reach < 1e100)[:, None, None], value, 1.0)
        mean = value.mean(axis=1) * (1 + 2 * sum_slack(noise.shape[1]))
        return np.asarray(np.minimum(mean, 1.0))


def scales_around(scale: float, step: float = 0.01) -> list[float]:
    """Return scales to test in descending order, dense near a guess.

    They are sparse far above the guess, where precision matters little, and end at a quarter of it.
    """
    coarse = [scale * 4.0**power for power in range(12, 0, -1)] + [2 * scale]
    fine = math.ceil(math.log(6) / math.log1p(step))
    return coarse + [1.5 * scale / (1 + step) ** turn for turn in range(fine + 1)]
