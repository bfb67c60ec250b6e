"""Score pairs of columns, select a forest and further pairs, and draw consistent rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.marginals import IntArray, ReleasedColumn, draw
from memberbound.tables.persons import PERSON_UNITS

#: Mean absolute value of normal noise that is clipped at 0: half of √(2/π).
_NOISE_LEFT = math.sqrt(0.5 / math.pi)
#: The gain of further pairs must exceed the error from noise by this factor.
_FURTHER_PRICE = 2.0
#: Their scores must also exceed it by this many noise scales.
_SCORE_SCALES = 2.0
#: Number of rows drawn per kept row, for resampling by weight, and maximum copies of a row.
_DRAWN_PER_ROW, _MOST_COPIES = 5, 10.0
#: Number of rows drawn at once.
_ROWS_AT_ONCE = 200_000
#: Rounds of raking, and the maximum factor by which a table changes a row's weight, up or down.
_ROUNDS, _LARGEST_FACTOR = 8, 4.0


def pair_score(counts: FloatArray, expected: FloatArray) -> float:
    """Return Σ|count - expected|, exactly: expected counts are rounded to units of 2^-20.

    Guarantee: replacing a record changes it by at most 2.
    """
    return float(np.abs(counts - np.rint(expected * PERSON_UNITS) / PERSON_UNITS).sum())


def noise_price(scale: float, cells: int) -> float:
    """Return the approximate error in an estimated table from noise of this scale."""
    return _NOISE_LEFT * scale * cells


def select_forest(scores: FloatArray) -> list[tuple[int, int | None]]:
    """Select the best forest from an upper triangle of scores.

    Returns (column, parent) pairs, parents first.  Negative scores are not used.  The column with
    the most neighbours is the root of its tree.
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


def keep_edges(scores: FloatArray, blocks: IntArray, scale_of_one: float) -> FloatArray:
    """Return the scores, with 0 for edges that are not worth their noise.

    ``scores`` is an upper triangle, minus the error from noise if every edge of a tree is measured.
    Edges share the budget, so a weak edge adds noise to the strong ones.  Keep the strongest edges
    that maximise the sum of scores minus the error from noise.  ``scale_of_one`` is the noise scale
    if a single pair is measured.
    """
    forest = select_forest(scores)
    edges = [(min(a, b), max(a, b)) for a, b in forest if b is not None]
    if not edges:
        return scores
    sizes = np.array([float(blocks[a] * blocks[b]) for a, b in edges])
    full = _NOISE_LEFT * scale_of_one * math.sqrt(len(blocks) - 1)
    gains = np.array([scores[edge] for edge in edges]) + full * sizes
    order = np.argsort(-gains, kind="stable")
    # The noise of an optimal allocation (share_noise) over the first edges.
    noise = _NOISE_LEFT * scale_of_one * np.cumsum(sizes[order] ** (2 / 3)) ** 1.5
    best = int((np.cumsum(gains[order]) - noise).argmax())
    kept = np.zeros_like(scores)
    for index in order[: best + 1].tolist():
        kept[edges[index]] = max(scores[edges[index]], 1e-9)
    return kept


def share_noise(sizes: Sequence[int], weights: Sequence[float] = ()) -> FloatArray:
    """Split a share of μ² among tables of these sizes; the parts sum to at most 1.

    The total error is least if the noise scale falls with the cube root of the number of cells.
    """
    counts = np.array(sizes, dtype=np.float64) * np.array(weights or np.ones(len(sizes)))
    parts = counts ** (2 / 3)
    return np.asarray(parts / (max(float(parts.sum()), 1.0) * (1 + 2.0**-30)))


def select_further(
    scores: FloatArray, score_scale: float, cells: FloatArray, scale_of_one: float, most: int
) -> list[int]:
    """Select the pairs with the largest total score, minus the cost of noise if all are measured.

    ``score_scale`` is the noise scale of the scores, ``scale_of_one`` that of the counts if a
    single pair is measured; with m pairs it is √m times as large.
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
    """Consistent counts of two columns, with the maps from their cells."""

    first: int
    second: int
    counts: FloatArray
    #: Maps from the cells of the first and second column to rows and columns of the counts.
    maps: tuple[IntArray, IntArray]

    def flat_cells(self, cells: Mapping[int, IntArray]) -> IntArray:
        """Return the index of every row in the flat table."""
        rows, columns = self.maps[0][cells[self.first]], self.maps[1][cells[self.second]]
        return np.asarray(rows * self.counts.shape[1] + columns)


@dataclass(frozen=True, eq=False)
class PairModel:
    """A model of rows that reproduces the measured counts of pairs of columns.

    Rows are drawn along a forest of pairs.  If further pairs were measured, rows are weighted until
    all pairs fit and resampled by weight.  This raking yields the distribution nearest to the
    forest's with these marginals.
    """

    columns: tuple[ReleasedColumn, ...]
    #: Columns with the pair of parent and column, parents first.
    forest: tuple[tuple[int, Pair | None], ...]
    further: tuple[Pair, ...] = ()

    @property
    def measured(self) -> tuple[Pair, ...]:
        """The measured pairs: those of the forest, and further ones."""
        return (*(pair for _, pair in self.forest if pair is not None), *self.further)

    def cells(self, rows: int, draws: np.random.Generator) -> list[IntArray]:
        """Draw cells of all columns for new rows."""
        pieces = []
        for start in range(0, rows, _ROWS_AT_ONCE):
            count = min(_ROWS_AT_ONCE, rows - start)
            pieces.append(self._some_rows(count, draws))
        return [np.concatenate(column) for column in zip(*pieces, strict=True)]

    def _some_rows(self, rows: int, draws: np.random.Generator) -> list[IntArray]:
        core = self._core
        drawn = self._forest_rows({}, core, (_DRAWN_PER_ROW if core else 1) * rows, draws)
        if core:
            kept = self._resample(drawn, rows, draws)
            drawn = {index: cells[kept] for index, cells in drawn.items()}
        rest = frozenset(range(len(self.columns))) - core
        drawn = self._forest_rows(drawn, rest, rows, draws)
        return [drawn[index] for index in range(len(self.columns))]

    @cached_property
    def _core(self) -> frozenset[int]:
        """The columns of further pairs, with all their ancestors in the forest.

        All other columns depend on further pairs through their parents only.
        """
        parents = {index: pair.first for index, pair in self.forest if pair is not None}
        core: set[int] = set()
        for column in itertools.chain.from_iterable((p.first, p.second) for p in self.further):
            index: int | None = column
            while index is not None and index not in core:
                core.add(index)
                index = parents.get(index)
        return frozenset(core)

    def _resample(
        self, drawn: Mapping[int, IntArray], rows: int, draws: np.random.Generator
    ) -> IntArray:
        """Return indices of rows, drawn by weights that make all pairs of the core fit."""
        pairs = [
            pair for pair in reversed(self.measured) if {pair.first, pair.second} <= set(drawn)
        ]
        tables = [(pair.flat_cells(drawn), pair.counts.ravel()) for pair in pairs]
        for index, cells in drawn.items():
            column = self.columns[index]
            tables.append((column.block_of_cell[cells], column.blocks))
        weights = np.ones(len(tables[0][0]))
        for _ in range(_ROUNDS):
            _rake_rows(weights, tables)
        weights = np.minimum(weights, _MOST_COPIES * _DRAWN_PER_ROW * weights.mean())
        ends = np.cumsum(weights)
        indices = (np.arange(rows) + draws.random()) * (ends[-1] / rows)
        chosen = np.minimum(np.searchsorted(ends, indices, side="right"), len(ends) - 1)
        return np.asarray(draws.permutation(chosen))

    def _forest_rows(
        self,
        drawn: Mapping[int, IntArray],
        wanted: frozenset[int],
        rows: int,
        draws: np.random.Generator,
    ) -> dict[int, IntArray]:
        """Draw the wanted columns, given the columns that are already drawn."""
        drawn = dict(drawn)
        for index, pair in self.forest:
            if index not in wanted:
                continue
            column = self.columns[index]
            if pair is None:
                which = np.zeros(rows, dtype=np.int64)
                drawn[index] = draw(column.weights[None] + 1e-12, which, draws)
                continue
            law = np.bincount(pair.maps[1], column.weights, pair.counts.shape[1]) + 1e-12
            bare = pair.counts.sum(axis=1, keepdims=True) <= 0
            laws = np.where(bare, law, pair.counts)
            codes = draw(laws, pair.maps[0][drawn[pair.first]], draws)
            drawn[index] = column.cells_in(codes, pair.maps[1], draws)
        return drawn


def _rake_rows(weights: FloatArray, tables: Sequence[tuple[IntArray, FloatArray]]) -> None:
    """Rake the weights of rows to the given sums, table by table."""
    for indices, counts in tables:
        wanted = counts * (len(weights) / max(float(counts.sum()), 1e-9))
        reached = np.bincount(indices, weights, minlength=len(counts))
        ratio = np.divide(wanted, reached, out=np.ones_like(wanted), where=reached > 0)
        weights *= np.clip(ratio, 1 / _LARGEST_FACTOR, _LARGEST_FACTOR)[indices]
