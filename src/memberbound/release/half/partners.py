"""Circles of neighbouring training sets: the coupling with several partners (X20)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from memberbound.numerics.rounding import FloatArray, sum_slack
from memberbound.release.calibration import FreshSubsets, Rows, ScaleFamily
from memberbound.release.noise import GaussianNoise, gaussian_distance

__all__ = ["MOST_PARTNERS", "CircleValues", "circles", "full_circles", "rungs_around"]

# ── Circles: training sets of which any two differ in one record ──────────────────────────────────
#
# X1 compares M(D₀ ∪ x) with M(D₀ ∪ x') for one outsider x'.  The attacker sees the mixture over x',
# so several outsiders may be mixed before the distance is taken, which only lowers it (X20,
# proofs/several-partners.md).  In a circle every record takes its turn as x, with the others for
# partners; the fits serve all of them.

#: Draws of noise per circle, and as many opposites, at which the distance is averaged.
_DRAWS = 8
#: Partners of one record at most: beyond that the mixture changes little, the work does.
MOST_PARTNERS = 64
#: Exponents that are computed at once.
_AT_ONCE = 2**19


def circles(stream: FreshSubsets, count: int, width: int) -> list[list[Rows]]:
    """Return ``count`` independent circles D₀ ∪ x₁ … D₀ ∪ x_g: D₀ and the x_i uniform.

    Edge cases: g = ``width`` is at most N - k + 1, the number of records outside D₀.
    """
    game = stream.game
    draws = np.random.default_rng(stream.seed)
    found = []
    for _ in range(count):
        order = draws.permutation(game.population)
        base, others = order[: game.size - 1], order[game.size - 1 :][:width]
        found.append([np.sort(np.append(base, other)) for other in others])
    return found


def full_circles(
    stream: FreshSubsets, count: int
) -> tuple[list[list[Rows]], NDArray[np.int64], int]:
    """Return two circles per draw that speak for every record, the records' places, and the border.

    D₀ ⊂ D₁ are uniform of k-1 and k+1 records.  The first N-k+1 sets are D₀ ∪ x for the records
    outside D₀, the others D₁ ∖ x for those of D₁: there x is *out* and its partners have it
    (claim 3).  ``places[b, x]`` is the place of the set that speaks for x.
    """
    game = stream.game
    draws = np.random.default_rng(stream.seed)
    border = game.population - game.size + 1
    groups, places = [], []
    for _ in range(count):
        order = draws.permutation(game.population)
        base, outside = order[: game.size - 1], order[game.size - 1 :]
        above = np.concatenate([outside[:2], base])
        # D₁ ∖ x, the records of D₀ in random order: neighbours in a circle are random partners.
        inner = draws.permutation(above)
        place = np.empty(game.population, dtype=np.int64)
        place[inner] = border + np.arange(inner.size)
        place[outside] = np.arange(outside.size)
        groups.append(
            [np.sort(np.append(base, x)) for x in outside]
            + [np.sort(above[above != x]) for x in inner]
        )
        places.append(place)
    return groups, np.array(places), border


@dataclass(frozen=True, eq=False)
class CircleValues:
    """The distances of X20 on sampled circles, at any scale: unbiased, in [0, 1], rounded up.

    ``points`` (draws, sets, d) are the whitened outputs relative to the first set of their circle,
    ``noise`` (draws, n, d) standard normal vectors, the same at every scale and for every set.

    Numerics: whitened points are off by at most ``room`` relative; exponents are lowered by what
    that and the rounding of their sums can amount to, so likelihood ratios come out too small and
    distances too large.  An exponential that overflows makes a distance of 0, as it should.
    """

    points: FloatArray
    noise: FloatArray
    room: float

    @classmethod
    def of(
        cls, outputs: FloatArray, family: ScaleFamily, seed: int | tuple[int, ...]
    ) -> CircleValues:
        """Whiten the outputs (draws, sets, d) of circles, and draw the noise."""
        moved = outputs - outputs[:, :1]
        draws, _, dimension = moved.shape
        if not isinstance(family.unit, GaussianNoise):
            raise TypeError("circles need normal noise")
        source = np.random.default_rng(seed)
        noise = source.standard_normal((draws, _DRAWS, dimension))
        # With every vector its opposite: two values with means as before, seldom large together.
        noise = np.concatenate([noise, -noise], axis=1)
        # One rounding of the difference, and inner products.
        return cls(moved, noise, 32 * sum_slack(dimension + 8))

    def split(self, width: int) -> list[CircleValues]:
        """Return smaller circles of the same sets, for a pilot: their rounding is not counted."""
        sets = self.points.shape[1]
        return [
            replace(self, points=self.points[:, at : at + width])
            for at in range(0, sets - width + 1, width)
        ]

    def pairwise(self, scale: float) -> FloatArray:
        """Return, per draw and set, X1's mean distance to the other sets; an estimate, rounded."""
        sets = self.points.shape[1]
        found = np.zeros(self.points.shape[:2])
        for turn in range(1, sets):
            moved = self.points - np.roll(self.points, turn, axis=1)
            found += gaussian_distance(np.linalg.norm(moved, axis=2) / scale)
        return np.asarray(found / max(sets - 1, 1))

    def average(self, scale: float) -> FloatArray:
        """Return, per draw, the mean over sets of the distance to their partners' mixture."""
        table = self.each(scale)
        return np.asarray(np.minimum(table.mean(axis=1) * (1 + 2 * sum_slack(table.shape[1])), 1.0))

    def each(self, scale: float) -> FloatArray:
        """Return, per draw and set, an unbiased value of its distance to its partners' mixture."""
        draws, sets, _ = self.points.shape
        # Small circles together, large ones one by one: exponents are (draws, n, sets, partners).
        portion = max(1, _AT_ONCE // (self.noise.shape[1] * sets * min(sets - 1, MOST_PARTNERS)))
        return np.concatenate(
            [self._some(slice(at, at + portion), scale) for at in range(0, draws, portion)]
        )

    def _some(self, which: slice, scale: float) -> FloatArray:
        points, noise = self.points[which], self.noise[which]
        sets = points.shape[1]
        partners = min(sets - 1, MOST_PARTNERS)
        # Partners of place i are the next places of the circle, whose order is random.
        places = (np.arange(sets)[:, None] + np.arange(1, partners + 1)) % sets
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            lengths = np.square(points).sum(axis=2)
            reach = 2 * np.sqrt(lengths.max(axis=1)) / scale
            squares = lengths[:, :, None] + lengths[:, None, :]
            squares = squares - 2 * points @ points.transpose(0, 2, 1)
            squares = np.maximum(squares, 0.0) / scale / scale
            along = noise @ points.transpose(0, 2, 1) / scale
            sizes = np.linalg.norm(noise, axis=2)
            lost = self.room * reach[:, None] * (sizes + reach[:, None])
            moved = squares[:, np.arange(sets)[:, None], places] / 2
            exponents = along[:, :, places] - along[..., None]
            exponents -= moved[:, None] + lost[:, :, None, None]
            ratio = np.exp(exponents).sum(axis=3) / partners
            value = np.clip(1 - ratio * (1 - 2 * sum_slack(partners + 16)), 0.0, 1.0)
        # Beyond the range of doubles nothing is known.
        value = np.where((reach < 1e100)[:, None, None], value, 1.0)
        mean = value.mean(axis=1) * (1 + 2 * sum_slack(noise.shape[1]))
        return np.asarray(np.minimum(mean, 1.0))


def rungs_around(scale: float, step: float) -> list[float]:
    """Return scales from large to small, to be tested in that order, close together near a guess.

    Far above the guess they are few: there little is gained.  The last is a quarter of it.
    """
    coarse = [scale * 4.0**power for power in range(12, 0, -1)] + [2 * scale]
    fine = math.ceil(math.log(6) / math.log1p(step))
    return coarse + [1.5 * scale / (1 + step) ** turn for turn in range(fine + 1)]
