"""Draw a column given several others, with the joint counts measured with each of them.

The law of the column is the one nearest to its own counts (in relative entropy) that has these
joint counts: a factor per measured pair, fitted by raking to rows that are already drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.marginals import IntArray, ReleasedColumn, draw

#: Rounds of raking, and the largest change of a factor in a round.
_ROUNDS, _LARGEST_FACTOR = 10, 4.0
#: Rows of similar laws that share a stratified sample.
_STRATUM = 32


@dataclass(frozen=True, eq=False)
class Pair:
    """Consistent counts of two columns, with the maps from their cells."""

    first: int
    second: int
    counts: FloatArray
    #: Maps from the cells of the first and second column to rows and columns of the counts.
    maps: tuple[IntArray, IntArray]

    def transpose(self) -> Pair:
        """Return the pair with its columns swapped."""
        return Pair(self.second, self.first, self.counts.T, self.maps[::-1])

    def flat_cells(self, cells: Mapping[int, IntArray]) -> IntArray:
        """Return the index of every row in the flat table."""
        rows, columns = self.maps[0][cells[self.first]], self.maps[1][cells[self.second]]
        return np.asarray(rows * self.counts.shape[1] + columns)


@dataclass(frozen=True, eq=False)
class Conditional:
    """The law of a column given columns that are drawn before it.

    ``factors[k]`` has a row per code of the k-th pair's first column.  A row's law is ``law`` times
    one row of every factor.
    """

    column: ReleasedColumn
    pairs: tuple[Pair, ...]
    #: Map from the column's cells to codes that a pair tells apart, and the codes' own law.
    code_of_cell: IntArray
    law: FloatArray
    factors: tuple[FloatArray, ...]

    def sample(
        self, drawn: Mapping[int, IntArray], rows: int, draws: np.random.Generator
    ) -> IntArray:
        """Draw a cell of the column for every row, given the columns drawn so far."""
        codes, which, _ = _distinct(self.pairs, drawn, rows)
        laws = self._laws(codes)
        if len(self.pairs) < 2:
            found = draw(laws, which, draws)
        else:
            found = _draw_stratified(laws, which, draws)
        return self.column.cells_in(found, self.code_of_cell, draws)

    def _laws(self, codes: Sequence[IntArray]) -> FloatArray:
        """Return a law per combination of the pairs' codes."""
        laws = np.tile(self.law, (len(codes[0]) if codes else 1, 1))
        for factor, code in zip(self.factors, codes, strict=True):
            laws *= factor[code]
        if len(self.factors) > 1:
            # Measured zeros that contradict each other: the first pair decides.
            none = laws.sum(axis=1) < 1e-9 * float(self.law.sum())
            laws[none] = self.law * self.factors[0][codes[0][none]]
        return laws


def fit_conditional(
    column: ReleasedColumn, pairs: Sequence[Pair], drawn: Mapping[int, IntArray], rows: int
) -> Conditional:
    """Fit the law of a column to its joint counts with columns that are already drawn.

    Every pair's second column is this one.
    """
    maps = [pair.maps[1] for pair in pairs] or [np.zeros(len(column.weights), dtype=np.int64)]
    if not pairs:
        maps = [np.arange(len(column.weights))]
    _, code_of_cell = np.unique(np.stack(maps), axis=1, return_inverse=True)
    code_of_cell = code_of_cell.ravel()
    law = np.bincount(code_of_cell, column.weights).astype(np.float64) + 1e-12
    law /= law.sum()
    factors = []
    for pair in pairs:
        code_of_code = np.zeros(len(law), dtype=np.int64)
        code_of_code[code_of_cell] = pair.maps[1]
        sums = np.bincount(code_of_code, law, pair.counts.shape[1])
        totals = pair.counts.sum(axis=1, keepdims=True)
        given = pair.counts / np.maximum(totals, 1e-300)
        factor = (given / np.maximum(sums, 1e-300))[:, code_of_code]
        factors.append(np.where(totals <= 0, 1.0, factor))
    model = Conditional(column, tuple(pairs), code_of_cell, law, tuple(factors))
    if len(pairs) > 1:
        _rake_factors(model, drawn, rows)
    return model


def _rake_factors(model: Conditional, drawn: Mapping[int, IntArray], rows: int) -> None:
    """Rake the factors such that the drawn rows are expected to have the pairs' counts."""
    from scipy.sparse import csr_array

    codes, _, number = _distinct(model.pairs, drawn, rows)
    every = np.arange(len(number))
    members = [
        csr_array((number, (code, every)), shape=(len(factor), len(number)))
        for factor, code in zip(model.factors, codes, strict=True)
    ]
    wanted = [
        part.sum(axis=1)[:, None] * factor * model.law
        for part, factor in zip(members, model.factors, strict=True)
    ]
    for _ in range(_ROUNDS):
        for k, (part, goal) in enumerate(zip(members, wanted, strict=True)):
            laws = model._laws(codes)
            laws /= laws.sum(axis=1, keepdims=True)
            reached = part @ laws
            ratio = np.divide(goal, reached, out=np.ones_like(goal), where=reached > 0)
            model.factors[k][:] *= np.clip(ratio, 1 / _LARGEST_FACTOR, _LARGEST_FACTOR)


def _distinct(
    pairs: Sequence[Pair], drawn: Mapping[int, IntArray], rows: int
) -> tuple[list[IntArray], IntArray, IntArray]:
    """Return the distinct combinations of the pairs' first codes, their rows, and their number."""
    if not pairs:
        return [], np.zeros(rows, dtype=np.int64), np.array([rows])
    sizes = [len(pair.counts) for pair in pairs]
    codes = [pair.maps[0][drawn[pair.first]] for pair in pairs]
    index = np.zeros(rows, dtype=np.int64)
    for code, size in zip(codes, sizes, strict=True):
        index = index * size + code
        if math.prod(sizes) > 2**62:
            index = np.unique(index, return_inverse=True)[1]
    _, first, which, number = np.unique(
        index, return_index=True, return_inverse=True, return_counts=True
    )
    return [code[first] for code in codes], which, number


def _draw_stratified(laws: FloatArray, which: IntArray, draws: np.random.Generator) -> IntArray:
    """Draw from law ``which[i]`` for every row i; rows of similar laws share strata.

    Less of the drawing's own noise than from independent draws.
    """
    rows = len(which)
    order = draws.permutation(rows)
    order = order[np.argsort(which[order], kind="stable")]
    blocks = -(-rows // _STRATUM)
    ranks = draws.permuted(np.tile(np.arange(_STRATUM), (blocks, 1)), axis=1).ravel()[:rows]
    share = np.empty(rows)
    share[order] = (ranks + draws.random(rows)) / _STRATUM
    ends = np.cumsum(laws, axis=1)
    ends /= ends[:, -1:]
    ends += np.arange(len(laws))[:, None]
    found = np.searchsorted(ends.ravel(), which + np.minimum(share, 1 - 1e-9), side="right")
    return np.asarray(np.minimum(found - which * laws.shape[1], laws.shape[1] - 1))
