"""Random subsets, and how the exponential mechanism answers when one record is swapped (X10, X1).

For every record x at once: a uniform data set D with x in it, and D' = D with x replaced by a
uniform outsider.  One random subset serves every record: a member is swapped for a common random
outsider, an outsider for a common random member, and both give the same law of pairs
(``proofs/sampled-pmp.md`` claim 1).  A swap only tilts the probabilities of the release, so all
records of a block of subsets are scored by a few matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memberbound.games import SubsetGame
from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack
from memberbound.subset.exponential import ExponentialMechanism

__all__ = ["SwapMeans", "swap_means", "uniform_subsets"]

#: Entries of the largest temporary array (records × subsets of a block).
_BLOCK_ENTRIES = 1 << 21
#: Scores up to this size are exponentiated once per record; e^{4·30} and its square are harmless.
_TAME = 30.0
#: What underflow can hide in a mean: far below every bound, which is at least 1/draws of the range.
_HIDDEN = 1e-80


@dataclass(frozen=True, eq=False)
class SwapMeans:
    """Means over ``draws`` random subsets; outcomes stand in ``order``, likeliest first.

    ``order`` sorts the outcomes by the score of the whole population, so it is not random.
    With A = P(w given D), A' = P(w given D') and p = P(w given a random subset):

    Attributes:
        draws: number of subsets n.
        order: (m,) outcomes, likeliest for the whole population first.
        chosen: (m,) mean of p, from below.
        chosen_square: (m,) mean of p², from above.
        tail: (m+1,) mean probability of all outcomes from the j-th on, from above.
        tail_square: (m+1,) mean of its square, from above.
        difference: (N, m) mean of A - A', to ``rounding``.
        square: (N, m) mean of (A - A')², from above.
        rounding: (N, m) what ``difference`` may be off by.
    """

    draws: int
    order: NDArray[np.intp]
    chosen: FloatArray
    chosen_square: FloatArray
    tail: FloatArray
    tail_square: FloatArray
    difference: FloatArray
    square: FloatArray
    rounding: FloatArray


def uniform_subsets(rng: np.random.Generator, game: SubsetGame, count: int) -> NDArray[np.bool_]:
    """Return ``count`` independent uniform k-subsets as a (count, N) array of booleans.

    A set of independent coins is exchangeable, and stays so when uniform outsiders join or uniform
    members leave until k are left: any k-subset is as likely as any other.
    """
    population = game.population
    size = min(game.size, population - game.size)
    share = max(0.0, size - 2 * size**0.5) / population
    chosen = rng.random((count, population), dtype=np.float32) < share
    missing = size - chosen.sum(axis=1)
    while (rows := np.flatnonzero(missing)).size:
        record = rng.integers(population, size=rows.size)
        join = missing[rows] > 0
        moved = chosen[rows, record] != join
        chosen[rows[moved], record[moved]] = join[moved]
        missing[rows[moved]] -= np.where(join[moved], 1, -1)
    return np.asarray(chosen if size == game.size else ~chosen)


def swap_means(
    mechanism: ExponentialMechanism,
    draws: int,
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    in_log_space: bool | None = None,
) -> SwapMeans:
    """Draw subsets and average what every record's swap changes.

    Numerics: the probability of a data set is known to a relative error of a few roundings per
    record's score; that and the rounding of the sums go into the stated side of every mean.
    ``in_log_space`` forces the slow way, which any size of scores passes through.
    """
    game = mechanism.game
    scores = mechanism.centred_scores
    order = np.argsort(-scores.sum(axis=0), kind="stable")
    scores = np.ascontiguousarray(scores[:, order])
    slow = bool(np.abs(scores).max() > _TAME) if in_log_space is None else in_log_space
    score_block = _log_space_block if slow else _product_block
    sums = _Sums.zeros(*scores.shape)
    rng = np.random.default_rng(seed)
    rows = max(8, min(1024, _BLOCK_ENTRIES // game.population))
    for start in range(0, draws, rows):
        count = min(rows, draws - start)
        block = _Block.drawn(rng, game, scores, count)
        sums.add(block)
        score_block(block, scores, sums)
        if progress is not None:
            progress(start + count, draws)
    return sums.means(draws, order, _score_error(scores, game.size))


def _score_error(scores: FloatArray, size: int) -> float:
    """Relative error of a computed P(w given D): two scores of D, each a sum of k entries."""
    largest = float(np.abs(scores).sum(axis=0).max())
    exponent = 1.01 * (size + 64) * UNIT * largest
    return math.expm1(2 * exponent) + int(scores.shape[1] + 64) * UNIT


def _one_of_each(rng: np.random.Generator, chosen: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return a uniform member of every row's set: guess until one is met, or list the set."""
    count, population = chosen.shape
    found = np.zeros(count, dtype=np.intp)
    rows = np.arange(count)
    for _ in range(64):
        found[rows] = rng.integers(population, size=rows.size)
        rows = rows[~chosen[rows, found[rows]]]
    for row in rows:
        found[row] = rng.choice(np.flatnonzero(chosen[row]))
    return found


@dataclass(frozen=True, eq=False)
class _Block:
    """Some random subsets, the probabilities of their releases, and one swap each way.

    ``inside`` is N × subsets, of zeros and ones.
    """

    inside: FloatArray
    logs: FloatArray
    chances: FloatArray
    outsider: NDArray[np.intp]
    insider: NDArray[np.intp]

    @classmethod
    def drawn(
        cls, rng: np.random.Generator, game: SubsetGame, scores: FloatArray, count: int
    ) -> _Block:
        """Draw subsets, and of each a uniform member and a uniform outsider."""
        chosen = uniform_subsets(rng, game, count)
        insider, outsider = _one_of_each(rng, chosen), _one_of_each(rng, ~chosen)
        inside = chosen.T.astype(np.float64)
        logs = inside.T @ scores
        logs -= logs.max(axis=1, keepdims=True)
        logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
        return cls(inside, logs, np.exp(logs), outsider, insider)


@dataclass(eq=False)
class _Sums:
    """Running sums of a sampling run; ``squares`` is Σ(A² + A'²), ``cross`` is ΣAA'."""

    chosen: FloatArray
    chosen_square: FloatArray
    tail: FloatArray
    tail_square: FloatArray
    difference: FloatArray
    mass: FloatArray
    squares: FloatArray
    cross: FloatArray

    @classmethod
    def zeros(cls, records: int, outcomes: int) -> _Sums:
        small = [np.zeros(outcomes), np.zeros(outcomes)]
        tails = [np.zeros(outcomes + 1), np.zeros(outcomes + 1)]
        return cls(*small, *tails, *(np.zeros((records, outcomes)) for _ in range(4)))

    def add(self, block: _Block) -> None:
        """Add what does not depend on the record."""
        chances = block.chances
        self.chosen += chances.sum(axis=0)
        self.chosen_square += np.square(chances).sum(axis=0)
        tails = np.cumsum(chances[:, ::-1], axis=1)[:, ::-1]
        self.tail[:-1] += tails.sum(axis=0)
        self.tail_square[:-1] += np.square(tails).sum(axis=0)

    def means(self, draws: int, order: NDArray[np.intp], error: float) -> SwapMeans:
        """Divide by the number of draws and round to the stated sides."""
        # Blocks add in any order; every term went through at most a few sums of m terms.
        added = sum_slack(draws + 2 * len(order))
        once, twice = 1 + 1.01 * (error + added), 1 + 2.1 * (error + added)
        # (A - A')² from its three sums: their errors do not cancel, whatever the sums do.
        spread = self.squares - 2 * self.cross + 4 * (twice - 1) * self.squares
        return SwapMeans(
            draws,
            order,
            np.maximum(self.chosen / draws * (2 - once) - _HIDDEN, 0.0),
            self.chosen_square / draws * twice + _HIDDEN,
            np.minimum(self.tail / draws * once + _HIDDEN, 1.0),
            np.minimum(self.tail_square / draws * twice + _HIDDEN, 1.0),
            self.difference / draws,
            np.maximum(spread, 0.0) / draws * (1 + 8 * UNIT) + _HIDDEN,
            self.mass / draws * (4 * (once - 1)) + _HIDDEN,
        )


def _product_block(block: _Block, scores: FloatArray, sums: _Sums) -> None:
    """Score every record's swap by matrix products.

    Swapping x for y tilts P(w) to P(w)e^{s_y(w)}·e^{-s_x(w)}/Z, which factors into a part of the
    subset, a part of the record and one normaliser per pair.
    """
    own, inside = block.chances, block.inside
    sums.difference += 2 * (inside @ own) - own.sum(axis=0)
    sums.mass += own.sum(axis=0)
    sums.squares += np.square(own).sum(axis=0)
    outcomes = scores.shape[1]
    leave = own * np.exp(scores[block.outsider])
    join = own * np.exp(-scores[block.insider])
    sides = ((1.0, leave, np.exp(-scores), inside), (-1.0, join, np.exp(scores), 1.0 - inside))
    for side, tilt, weight, concerned in sides:
        share = weight @ tilt.T
        np.divide(concerned, share, out=share)
        both = share @ np.hstack([tilt, tilt * own])
        swapped = weight * both[:, :outcomes]
        sums.difference -= side * swapped
        sums.mass += swapped
        sums.cross += weight * both[:, outcomes:]
        np.square(share, out=share)
        sums.squares += np.square(weight) * (share @ np.square(tilt))


def _log_space_block(block: _Block, scores: FloatArray, sums: _Sums) -> None:
    """Score every record's swap one subset at a time, for scores too large to exponentiate."""
    for inside, logs, own, outsider, insider in zip(
        block.inside.T, block.logs, block.chances, block.outsider, block.insider, strict=True
    ):
        member = inside[:, None] > 0
        tilted = np.where(member, scores[outsider] - scores, scores - scores[insider]) + logs
        tilted -= tilted.max(axis=1, keepdims=True)
        np.exp(tilted, out=tilted)
        tilted /= tilted.sum(axis=1, keepdims=True)
        sums.difference += np.where(member, own - tilted, tilted - own)
        sums.mass += own + tilted
        sums.squares += np.square(own) + np.square(tilted)
        sums.cross += own * tilted
