"""All subsets instead of a sample: certificates without a confidence level.

With few records every training set can be fitted; the means of X1 and X19 are then sums, and what
they certify holds always.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import FloatArray, sum_slack
from memberbound.protection.calibration import Rows, Statistic
from memberbound.protection.fitting import tosses_coins
from memberbound.protection.searching import ScaleFamily

__all__ = ["NeighbourLengths", "all_subsets", "worth_enumerating"]

#: Pairs of neighbouring subsets beyond which their lengths would not fit into memory.
_LARGEST_PAIRS = 3 * 10**7
#: Subsets that are fitted twice to find out whether the statistic tosses coins.
_PROBES = 16


def worth_enumerating(
    statistic: Statistic, game: SubsetGame, fits: int, exact: bool | None
) -> bool:
    """Whether to fit all subsets: ``exact`` if given, else when that is no more than ``fits``.

    One fit per subset is exact only for a statistic without coins of its own: some subsets are
    fitted twice, and a statistic that differs on one of them is sampled instead.
    """
    pairs = math.comb(game.population, game.size) * game.size * (game.population - game.size) // 2
    # Subsets are written as bit masks; larger games are out of reach anyway.
    possible = game.population <= 62 and pairs <= _LARGEST_PAIRS
    if exact and not possible:
        raise InputError(
            f"exact must be False for {game.size} of {game.population} records, got True: "
            "there are too many subsets to fit."
        )
    wanted = possible and math.comb(game.population, game.size) <= fits if exact is None else exact
    if not wanted:
        return False
    # Several of them, from the first to the last: coins may matter for some records only.
    everything = all_subsets(game)
    places = np.unique(np.linspace(0, len(everything) - 1, _PROBES).round().astype(np.int64))
    repeats = not tosses_coins(statistic, [everything[place] for place in places])
    if exact and not repeats:
        raise InputError(
            "exact must be False for a statistic that differs from fit to fit on the same subset, "
            "got True. Let the learner draw from a seeded generator, or the subsets be sampled."
        )
    return repeats


def all_subsets(game: SubsetGame) -> list[Rows]:
    """Return every subset of the game's size, in lexicographic order."""
    return [
        np.array(rows, dtype=np.int64) for rows in combinations(range(game.population), game.size)
    ]


class NeighbourLengths:
    """Lengths of all displacements q(D) - q(D') between subsets that differ in one record.

    ``outputs`` holds q of :func:`all_subsets`, in that order.
    """

    def __init__(self, outputs: FloatArray, game: SubsetGame, family: ScaleFamily) -> None:
        """Measure every pair once: T is the same both ways."""
        subsets = all_subsets(game)
        masks = np.array([sum(1 << int(x) for x in rows) for rows in subsets], dtype=np.int64)
        order = np.argsort(masks)
        pieces, first, second = [], [], []
        for x, other in combinations(range(game.population), 2):
            inside = np.flatnonzero((masks >> x & 1 == 1) & (masks >> other & 1 == 0))
            swapped = masks[inside] ^ ((1 << x) | (1 << other))
            partner = order[np.searchsorted(masks, swapped, sorter=order)]
            pieces.append(family.lengths(outputs[inside] - outputs[partner]))
            first.append(np.full(len(inside), x))
            second.append(np.full(len(inside), other))
        self._lengths = np.concatenate(pieces)
        self._first, self._second = np.concatenate(first), np.concatenate(second)
        self._game, self._family = game, family

    @property
    def longest(self) -> float:
        """The largest length."""
        return float(self._lengths.max())

    def means(self, scale: float) -> FloatArray:
        """Return X1's mean distance for every record, from above: one row."""
        game = self._game
        values = self._family.distances(self._lengths, scale)
        sums = np.bincount(self._first, values, game.population) + np.bincount(
            self._second, values, game.population
        )
        terms = math.comb(game.population - 1, game.size - 1) * (game.population - game.size)
        return np.asarray(np.minimum(sums / terms * (1 + 2 * sum_slack(terms)), 1.0))[None, :]

    def average(self, scale: float) -> FloatArray:
        """Return the mean distance over all pairs, from above: one row of one column."""
        values = self._family.distances(self._lengths, scale)
        return np.array([[min(float(values.mean()) * (1 + 2 * sum_slack(values.size)), 1.0)]])
