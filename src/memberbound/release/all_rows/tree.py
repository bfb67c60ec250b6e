"""Pairs of columns: score them, select a forest and further pairs, and draw rows that fit them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.marginals import IntArray, ReleasedColumn, draw
from memberbound.tables.persons import PERSON_UNITS

#: Mean absolute value of normal noise that a projection leaves: half of √(2/π).
_NOISE_LEFT = math.sqrt(0.5 / math.pi)
#: Further pairs must promise this many times what noise adds to them.
_FURTHER_PRICE = 2.0
#: … and their scores must exceed it by this many noise scales.
_SCORE_SCALES = 2.0
#: Rows drawn for every row that is kept, where weights choose among them.
_DRAWN_PER_ROW = 3
#: Rows that are drawn at once.
_ROWS_AT_ONCE = 200_000
#: Rounds of raking, and how far one table may raise the weight of a row.
_ROUNDS, _LARGEST_FACTOR = 8, 4.0
#: No row weighs more than this many average rows.
_LARGEST_WEIGHT = 30.0


def pair_score(counts: FloatArray, expected: FloatArray) -> float:
    """Return Σ|count - expected|, exact: what is expected is rounded to units of 2^-20.

    Guarantee: replacing a record moves it by at most 2.
    """
    return float(np.abs(counts - np.rint(expected * PERSON_UNITS) / PERSON_UNITS).sum())


def noise_price(scale: float, cells: int) -> float:
    """Return what noise of a scale adds to the distance of an estimated table, about."""
    return _NOISE_LEFT * scale * cells


def select_forest(scores: FloatArray) -> list[tuple[int, int | None]]:
    """Return (column, parent) of the best forest, parents first, from an upper triangle of scores.

    Scores below 0 are not used.  The column with most neighbours is the root of its tree.
    """
    from scipy.sparse import csgraph

    tree = csgraph.minimum_spanning_tree(-np.maximum(scores, 0.0))
    degrees = np.asarray((tree + tree.T != 0).sum(axis=0)).ravel()
    parents: dict[int, int | None] = {}
    for root in np.argsort(-degrees, kind="stable").tolist():
        if root not in parents:
            order, parent = csgraph.breadth_first_order(tree, root, directed=False)
            parents |= {root: None} | {int(c): int(parent[c]) for c in order[1:]}
    return list(parents.items())


def select_further(
    scores: FloatArray, score_scale: float, cells: FloatArray, scale_of_one: float, most: int
) -> list[int]:
    """Return the pairs whose scores promise most, less what noise costs if all are measured.

    ``score_scale`` is the noise of the scores, ``scale_of_one`` that of the counts of a single
    pair; with m pairs it is √m times as large.
    """
    scores = scores - _SCORE_SCALES * score_scale
    best, chosen = 0.0, np.zeros(0, dtype=np.int64)
    for count in range(1, min(most, len(scores)) + 1):
        price = _FURTHER_PRICE * _NOISE_LEFT * scale_of_one * math.sqrt(count) * cells
        gains = scores - price
        largest = np.argsort(-gains, kind="stable")[:count]
        if gains[largest[-1]] <= 0:
            continue
        if gains[largest].sum() > best:
            best, chosen = float(gains[largest].sum()), largest
    return sorted(chosen.tolist())


@dataclass(frozen=True, eq=False)
class Pair:
    """Consistent counts of two columns' blocks."""

    first: int
    second: int
    counts: FloatArray


@dataclass(frozen=True, eq=False)
class PairModel:
    """Rows whose pairs of columns have the measured counts.

    Rows are drawn along a forest of pairs.  Where further pairs were measured, rows are weighted
    until all pairs fit (raking: the law nearest to the forest's that has these marginals), and
    drawn again by weight.
    """

    columns: tuple[ReleasedColumn, ...]
    #: (column, parent, counts of the parent's and the column's blocks), parents first.
    forest: tuple[tuple[int, int | None, FloatArray], ...]
    further: tuple[Pair, ...] = ()

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The measured pairs of columns."""
        edges = tuple((p, c) for c, p, _ in self.forest if p is not None)
        return edges + tuple((pair.first, pair.second) for pair in self.further)

    def blocks(self, rows: int, draws: np.random.Generator) -> list[IntArray]:
        """Return blocks of all columns for new rows."""
        pieces = []
        for start in range(0, rows, _ROWS_AT_ONCE):
            count = min(_ROWS_AT_ONCE, rows - start)
            pieces.append(self._some_rows(count, draws))
        return [np.concatenate(column) for column in zip(*pieces, strict=True)]

    def _some_rows(self, rows: int, draws: np.random.Generator) -> list[IntArray]:
        if not self.further:
            return self._forest_rows(rows, draws)
        drawn = self._forest_rows(_DRAWN_PER_ROW * rows, draws)
        tables = self._tables(drawn)
        weights = np.ones(len(drawn[0]))
        for _ in range(_ROUNDS):
            _rake_rows(weights, tables)
        weights = np.minimum(weights, _LARGEST_WEIGHT * weights.mean())
        ends = np.cumsum(weights)
        places = (np.arange(rows) + draws.random()) * (ends[-1] / rows)
        chosen = np.minimum(np.searchsorted(ends, places, side="right"), len(ends) - 1)
        chosen = draws.permutation(chosen)
        return [codes[chosen] for codes in drawn]

    def _forest_rows(self, rows: int, draws: np.random.Generator) -> list[IntArray]:
        blocks: list[IntArray] = [np.zeros(0, dtype=np.int64)] * len(self.columns)
        for child, parent, counts in self.forest:
            which = np.zeros(rows, dtype=np.int64) if parent is None else blocks[parent]
            law = self.columns[child].blocks
            bare = counts.sum(axis=1, keepdims=True) <= 0
            blocks[child] = draw(np.where(bare, law + 1e-12, counts), which, draws)
        return blocks

    def _tables(self, blocks: Sequence[IntArray]) -> list[tuple[IntArray, FloatArray]]:
        """Return every measured table, flat, and the place of every drawn row in it."""
        tables: list[tuple[IntArray, FloatArray]] = []
        for pair in self.further:
            places = blocks[pair.first] * pair.counts.shape[1] + blocks[pair.second]
            tables.append((places, pair.counts.ravel()))
        for child, parent, counts in self.forest:
            if parent is not None:
                tables.append((blocks[parent] * counts.shape[1] + blocks[child], counts.ravel()))
        for column, codes in zip(self.columns, blocks, strict=True):
            tables.append((codes, column.blocks))
        return tables


def _rake_rows(weights: FloatArray, tables: Sequence[tuple[IntArray, FloatArray]]) -> None:
    """Multiply weights of rows, table by table, such that their sums are as wanted."""
    for places, counts in tables:
        wanted = counts * (len(weights) / max(float(counts.sum()), 1e-9))
        reached = np.bincount(places, weights, minlength=len(counts))
        ratio = np.divide(wanted, reached, out=np.ones_like(wanted), where=reached > 0)
        weights *= np.minimum(ratio, _LARGEST_FACTOR)[places]
