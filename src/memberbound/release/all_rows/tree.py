"""Score pairs of columns, select a forest and further pairs, and draw consistent rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.conditionals import Conditional, Pair, fit_conditional
from memberbound.release.all_rows.marginals import IntArray, ReleasedColumn, draw
from memberbound.tables.persons import PERSON_UNITS

#: Mean absolute value of normal noise that is clipped at 0: half of √(2/π).
_NOISE_LEFT = math.sqrt(0.5 / math.pi)
#: The gain of further pairs must exceed the error from noise by this factor.
_FURTHER_PRICE = 2.0
#: Their scores must also exceed it by this many noise scales.
_SCORE_SCALES = 2.0
#: Index of the target's groups beside those of columns.
GROUP = -1
#: Number of rows drawn at once, and of rows to which laws given several columns are fitted.
_ROWS_AT_ONCE, _FITTED_ROWS = 100_000, 20_000


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
class PairModel:
    """A model of rows that reproduces the measured counts of pairs of columns.

    Columns are drawn in the order of a forest, each one given all columns before it that it was
    measured with, and given a hidden group of the target: so columns that depend on the target
    depend on each other.
    """

    columns: tuple[ReleasedColumn, ...]
    #: Columns with the pair of parent and column, parents first.
    forest: tuple[tuple[int, Pair | None], ...]
    further: tuple[Pair, ...] = ()
    #: Pairs of the target's groups (column ``GROUP``) and every column.
    grouped: tuple[Pair, ...] = ()

    @property
    def measured(self) -> tuple[Pair, ...]:
        """The measured pairs: those of the forest, and further ones."""
        return (*(pair for _, pair in self.forest if pair is not None), *self.further)

    def cells(self, rows: int, draws: np.random.Generator) -> list[IntArray]:
        """Draw cells of all columns for new rows."""
        pieces = []
        for start in range(0, rows, _ROWS_AT_ONCE):
            count = min(_ROWS_AT_ONCE, rows - start)
            drawn = self._draw_groups(count, draws)
            for index, law in self._laws.items():
                drawn[index] = law.sample(drawn, count, draws)
            pieces.append([drawn[index] for index in range(len(self.columns))])
        return [np.concatenate(column) for column in zip(*pieces, strict=True)]

    def _draw_groups(self, rows: int, draws: np.random.Generator) -> dict[int, IntArray]:
        """Draw a hidden group for every row, if columns were measured with the target."""
        if not self.grouped:
            return {}
        law = self.grouped[0].counts.sum(axis=1)[None] + 1e-12
        return {GROUP: draw(law, np.zeros(rows, dtype=np.int64), draws)}

    @cached_property
    def _laws(self) -> dict[int, Conditional]:
        """The law of every column given columns before it, in the order of the forest."""
        draws = np.random.default_rng(0)
        drawn = self._draw_groups(_FITTED_ROWS, draws)
        laws = {}
        for index, parent in self.forest:
            pairs = [] if parent is None else [parent]
            for pair in (*self.further, *self.grouped):
                turned = pair if pair.second == index else pair.transpose()
                if turned.second == index and turned.first in drawn:
                    pairs.append(turned)
            laws[index] = fit_conditional(self.columns[index], pairs, drawn, _FITTED_ROWS)
            drawn[index] = laws[index].sample(drawn, _FITTED_ROWS, draws)
        return laws
