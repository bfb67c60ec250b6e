"""Marginals of discretised rows: exact counts, and consistent estimates from noisy ones.

A column has three resolutions.  *Cells* are public or learnt with the column.  *Bins* are runs of
cells that are counted together with the target.  *Blocks* are runs of bins, as coarse as the noise
of a pair of columns demands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.cells import Cells
from memberbound.release.all_rows.histograms import count_cells
from memberbound.scratch import large_array
from memberbound.tables.persons import Persons
from memberbound.tables.records import Records
from memberbound.tables.values import Values

if TYPE_CHECKING:
    import pandas as pd

IntArray = NDArray[np.int64]
#: Indices of columns that are counted together.
Clique = tuple[int, ...]


# ── Exact counts of the secret rows ───────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Cells of some rows, one row per column, with the target's groups and the persons."""

    codes: NDArray[np.integer[Any]]
    groups: NDArray[np.integer[Any]]
    persons: Persons | None
    #: Arrays of more bytes are kept on disk; None: in memory.
    memory: int | None

    def counts(
        self, cliques: Sequence[Clique], maps: Sequence[IntArray], groups: int = 0
    ) -> tuple[FloatArray, ...]:
        """Count the records of every clique.

        ``maps`` map the cells of every column to codes (bins, blocks).  With ``groups``
        the last axis is the target's group.

        Guarantee: exact; replacing a record changes each table by at most √2 in L2 norm, and by at
        most 2 in L1 norm.
        """
        sizes = [int(mapped.max()) + 1 for mapped in maps]
        used = {column for clique in cliques for column in clique}
        codes = {c: maps[c].astype(np.min_scalar_type(sizes[c]))[self.codes[c]] for c in used}
        tables = []
        for clique in cliques:
            shape = tuple(sizes[column] for column in clique) + ((groups,) if groups else ())
            indices = np.zeros(len(self.groups), dtype=np.int64)
            for column in clique:
                indices = indices * sizes[column] + codes[column]
            if groups:
                indices = indices * groups + self.groups
            tables.append(count_cells(indices, math.prod(shape), self.persons).reshape(shape))
        return tuple(tables)

    def with_groups(self, group_of_cell: IntArray) -> LabelledRows:
        """Replace the target's cells by groups."""
        kind = np.dtype(np.min_scalar_type(int(group_of_cell.max())))
        groups = large_array(self.groups.shape, kind, self.memory)
        groups[:] = group_of_cell[self.groups]
        return replace(self, groups=groups)


def pair_counts(
    rows: LabelledRows, pair: tuple[int, int], maps: tuple[IntArray, IntArray]
) -> FloatArray:
    """Count the records of a pair of columns, with their own maps.

    Guarantee: that of :meth:`LabelledRows.counts`.
    """
    chosen = replace(rows, codes=rows.codes[list(pair)])
    return chosen.counts([(0, 1)], maps)[0]


def label_rows(shard: Records, features: Sequence[Cells], target: Cells | None) -> LabelledRows:
    """Discretise some rows."""
    kind = np.dtype(np.min_scalar_type(max(column.count for column in features)))
    codes = large_array((len(features), shard.rows), kind, shard.memory)
    for line, column in zip(codes, features, strict=True):
        line[:] = column.cell_of(shard.columns[column.name])
    groups = large_array((shard.rows,), np.dtype(np.uint16), shard.memory)
    groups[:] = 0 if target is None else target.cell_of(shard.columns[target.name])
    return LabelledRows(codes, groups, shard.persons, shard.memory)


# ── Estimates from noisy counts: post-processing ──────────────────────────────────────────────────

#: Keep cells of missing, other and empty values only above this many noise scales.
RARE_SCALES = 3.0
#: Penalty per run of equal cells, in units of the noise variance.
_RUN_PRICE = 6.0
#: A pair's count below this many noise scales may be empty.
_EMPTY_SCALES = 2.0
#: … if its estimate is below this many.
_NEAR_SCALES = 1.0
#: A count above this many noise scales rules out that one column is a function of the other.
FUNCTION_SCALES = 4.0
#: Share of independence mixed into a pair, so that every conditional distribution exists.
_LEAST_SHARE = 1e-4
#: Rounds of raking, and the smallest tolerance (total variation) for the sums of a table.
_RAKINGS, LEAST_MISFIT = 30, 0.02
#: Shares of independence to try, in this order, for a table with too many empty cells.
_MIXED_SHARES = (1e-4, 1e-3, 1e-2, 0.1)


def project(noisy: FloatArray, total: float) -> FloatArray:
    """Return the nearest table of nonnegative counts with this total; -∞ marks an empty cell."""
    flat = noisy.ravel()
    if not np.isfinite(flat).any():
        return np.full(noisy.shape, total / flat.size)
    falling = np.sort(flat)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(flat) + 1)
    last = np.flatnonzero(falling > excess)
    cut = excess[last[-1]] if last.size else excess[0]
    return np.asarray(np.maximum(noisy - cut, 0.0))


def smooth(noisy: FloatArray, scale: float) -> FloatArray:
    """Smooth by means over runs of cells that minimise squared error plus a penalty per run.

    Examples:
        >>> smooth(np.array([1.0, -1.0, 0.0, 90.0, 30.0, 32.0]), 1.0).tolist()
        [0.0, 0.0, 0.0, 90.0, 31.0, 31.0]
    """
    count = len(noisy)
    sums, squares = (np.concatenate([[0.0], np.cumsum(x)]) for x in (noisy, np.square(noisy)))
    price = _RUN_PRICE * scale**2
    best, start = np.zeros(count + 1), np.zeros(count + 1, dtype=np.int64)
    for end in range(1, count + 1):
        lengths = end - np.arange(end)
        inside = sums[end] - sums[:end]
        errors = squares[end] - squares[:end] - inside**2 / lengths
        costs = best[:end] + errors + price
        start[end] = costs.argmin()
        best[end] = costs[start[end]]
    means, end = np.empty(count), count
    while end > 0:
        first = int(start[end])
        means[first:end] = (sums[end] - sums[first]) / (end - first)
        end = first
    return means


def merge(counts: FloatArray, ordered: int, most: int, least: float = math.inf) -> IntArray:
    """Merge cells into at most ``most`` runs of similar mass; return the run of every cell.

    Next to heavy cells, runs may be smaller, down to ``least`` records.  Only the first ``ordered``
    cells have neighbours.  Among the other cells the largest have their own run, and the rest,
    including empty cells, share the last one.

    Examples:
        >>> merge(np.array([5.0, 5, 50, 5, 5, 20, 1, 0]), 5, 4).tolist()
        [0, 0, 1, 1, 1, 2, 3, 3]
        >>> merge(np.array([5.0, 50.0, 4.0, 30.0]), 0, 3).tolist()
        [2, 0, 2, 1]
        >>> merge(np.array([5.0, 50.0, 0.0]), 0, 3).tolist()
        [0, 1, 1]
    """
    runs = np.zeros(len(counts), dtype=np.int64)
    beside = counts[ordered:]
    filled = int(np.count_nonzero(beside > 0))
    own = min(filled, most if not ordered else most // 2)
    used = 0
    if ordered:
        runs[:ordered] = _equal_runs(np.maximum(counts[:ordered], 0.0), max(1, most - own), least)
        used = int(runs[ordered - 1]) + 1
    if own == 0:
        runs[ordered:] = max(used - 1, 0)
        return runs
    alone = np.sort(np.argsort(-beside, kind="stable")[: own if filled == own else own - 1])
    runs[ordered:] = used + own - 1
    runs[ordered + alone] = used + np.arange(len(alone))
    return runs


def _equal_runs(mass: FloatArray, most: int, least: float) -> IntArray:
    """Return runs of neighbouring cells; heavy cells stay single, the others have equal mass.

    The mass is an equal share of the total, or ``least`` if that is smaller, so that cells next to
    a heavy one keep their resolution.
    """
    if len(mass) <= most:
        return np.arange(len(mass))
    filled = mass > 0
    if 0 < filled.sum() <= most:
        # Empty cells join the preceding run.
        return np.asarray(np.maximum(np.cumsum(filled) - 1, 0))
    total = max(float(mass.sum()), 1e-9)
    heavy = mass >= total / most
    light = np.where(heavy, 0.0, mass)
    rest = float(light.sum())
    pieces = int(rest / min(least, total / most))
    for count in range(min(max(pieces, 1), most), 0, -1):
        middle = (np.cumsum(light) - light / 2) / max(rest, 1e-9)
        cuts = (np.diff(np.floor(middle * count)) > 0) | heavy[1:] | heavy[:-1]
        if cuts.sum() < most:
            return np.concatenate([[0], np.cumsum(cuts)])
    # Too few runs to keep heavy cells single: cut by mass only.
    middle = (np.cumsum(mass) - mass / 2) / total
    return np.concatenate([[0], np.cumsum(np.diff(np.floor(middle * most)) > 0)])


def rake(
    table: FloatArray, rows: FloatArray, columns: FloatArray, misfit: float = LEAST_MISFIT
) -> FloatArray:
    """Rake a table to these row and column sums (iterative proportional fitting).

    Cells of 0 stay empty unless the row sums then miss their targets by more than ``misfit`` (total
    variation).  In that case, mix in the smallest sufficient share of independence.

    Examples:
        >>> rake(np.eye(2), np.array([70.0, 30.0]), np.array([60.0, 40.0])).round().tolist()
        [[60.0, 10.0], [0.0, 30.0]]
        >>> rake(np.eye(2), np.array([70.0, 30.0]), np.array([60.0, 40.0]), 0.2).round().tolist()
        [[60.0, 0.0], [0.0, 40.0]]
    """
    total = max(float(rows.sum()), 1e-9)
    expected = np.outer(rows, columns) / total
    mixed = table * (total / max(float(table.sum()), 1e-12))
    fitted = mixed
    for share in (0.0, *_MIXED_SHARES):
        fitted = mixed + share * expected
        for _ in range(_RAKINGS):
            fitted = fitted * (rows / np.maximum(fitted.sum(axis=1), 1e-12))[:, None]
            fitted = fitted * (columns / np.maximum(fitted.sum(axis=0), 1e-12))[None, :]
        if np.abs(fitted.sum(axis=1) - rows).sum() <= 2 * misfit * total:
            break
    return fitted


def shrink(distance: FloatArray, scale: float) -> FloatArray:
    """Estimate a table with sums of 0 in rows and columns from a noisy one.

    Singular values are shrunk: optimally those above the noise (Gavish and Donoho 2017), all
    others together (James and Stein).  Few directions carry what two columns have in common, and
    noise is spread over all.

    Examples:
        >>> line = np.linspace(-9, 9, 6)
        >>> noise = np.random.default_rng(0).normal(0, 5, (6, 6))
        >>> near = shrink(np.outer(line, line) + noise, 5.0)
        >>> bool(np.abs(near - np.outer(line, line)).sum() < 0.6 * np.abs(noise).sum())
        True
        >>> float(np.abs(shrink(noise, 5.0)).sum())
        0.0
    """
    centred = distance - distance.mean(axis=0)
    centred = centred - centred.mean(axis=1, keepdims=True)
    first, second = distance.shape[0] - 1, distance.shape[1] - 1
    left, sizes, right = np.linalg.svd(centred, full_matrices=False)
    scaled = sizes / scale
    high = scaled > math.sqrt(first) + math.sqrt(second)
    if min(first, second) == 1:
        high[:] = False
    root = np.sqrt(np.maximum((scaled**2 - first - second) ** 2 - 4 * first * second, 0.0))
    rest = (first - high.sum()) * (second - high.sum())
    weight = 1.0 - max(rest - 2, 0) / max(float(np.square(scaled[~high]).sum()), 1e-12)
    kept = np.where(high, root / np.maximum(scaled, 1e-12), max(weight, 0.0) * scaled)
    return np.asarray(left * (kept * scale) @ right)


def estimate_pair(
    noisy: FloatArray,
    expected: FloatArray,
    scale: float,
    rows: FloatArray,
    columns: FloatArray,
    *,
    misfit: float = LEAST_MISFIT,
) -> FloatArray:
    """Estimate consistent counts of a pair from noisy and expected counts.

    Their distance is shrunk.  Cells with large expected counts but no more than noise stay empty.
    """
    near = expected + shrink(noisy - expected, scale)
    empty = (noisy < _EMPTY_SCALES * scale) & (expected > 2 * _EMPTY_SCALES * scale)
    empty &= near < _NEAR_SCALES * scale
    empty |= _outside_a_function(noisy, expected, scale) | (expected <= 0)
    table = project(np.where(empty, -math.inf, near), float(rows.sum()))
    table += _LEAST_SHARE * np.where(empty, 0.0, expected)
    return rake(table + 1e-12 * ~empty, rows, columns, misfit)


def _outside_a_function(noisy: FloatArray, expected: FloatArray, scale: float) -> NDArray[np.bool_]:
    """Return the empty cells if one column (nearly) determines the other.

    These are all cells except the largest of every row and column.  If they hold too much, only
    those that do not exceed the noise are returned.  Together they must hold no more than noise,
    in sum and in squares, although independence predicts far more.
    """
    small = np.ones(noisy.shape, dtype=bool)
    small[np.arange(len(noisy)), noisy.argmax(axis=1)] = False
    small[noisy.argmax(axis=0), np.arange(noisy.shape[1])] = False
    for outside in (small, small & (noisy < FUNCTION_SCALES * scale)):
        number = max(int(outside.sum()), 1)
        doubt = RARE_SCALES * scale * math.sqrt(number)
        squares = float(np.square(noisy[outside] / scale).sum())
        noise = squares < number + RARE_SCALES * math.sqrt(2 * number)
        if noise and noisy[outside].sum() < doubt and expected[outside].sum() > 2 * doubt:
            return outside
    return np.zeros_like(small)


# ── Released counts of one column ─────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class ReleasedColumn:
    """Estimated counts of a column's cells, and its noisy (bin, group) counts."""

    cells: Cells
    #: Estimated number of records in every cell: nonnegative, with the number of records as total.
    weights: FloatArray
    bin_of_cell: IntArray
    block_of_bin: IntArray
    noisy: FloatArray
    scale: float

    @cached_property
    def block_of_cell(self) -> IntArray:
        """The block of every cell."""
        return np.asarray(self.block_of_bin[self.bin_of_cell])

    @cached_property
    def bins(self) -> FloatArray:
        """Estimated number of records in every bin."""
        return np.bincount(self.bin_of_cell, self.weights).astype(np.float64)

    @cached_property
    def blocks(self) -> FloatArray:
        """Estimated number of records in every block."""
        return np.bincount(self.block_of_cell, self.weights).astype(np.float64)

    @cached_property
    def ordered_bins(self) -> int:
        """Number of bins in an order; the others have no neighbours."""
        return int(self.bin_of_cell[self.cells.ordered - 1]) + 1 if self.cells.ordered else 0

    def with_blocks(self, most: int) -> ReleasedColumn:
        """Merge the column into at most this many blocks."""
        return replace(self, block_of_bin=merge(self.bins, self.ordered_bins, most))

    def blocks_of(self, read: Mapping[str, Values]) -> IntArray:
        """Return the block of every value of the column."""
        return self.block_of_cell[self.cells.cell_of(read[self.cells.name])]

    def cells_in(
        self, codes: IntArray, code_of_cell: IntArray, draws: np.random.Generator
    ) -> IntArray:
        """Draw a cell for every code, in proportion to the estimated counts of its cells."""
        laws = np.zeros((int(code_of_cell.max()) + 1, len(self.weights)))
        laws[code_of_cell, np.arange(len(self.weights))] = self.weights + 1e-12
        return draw(laws, codes, draws)

    def values(self, cells: IntArray, draws: np.random.Generator) -> pd.Series[object]:
        """Draw a value inside every cell."""
        return self.cells.draw(cells, cells, draws)


def estimate_cells(
    cells: Cells, noisy: FloatArray, scale: float, total: float, *, smoothed: bool = True
) -> FloatArray:
    """Estimate consistent counts of a column's cells from noisy ones."""
    counts = noisy.copy()
    rare = [cell for cell in cells.rare if noisy[cell] < RARE_SCALES * scale]
    if len(rare) == len(counts):
        rare = []
    counts[rare] = 0.0
    if cells.ordered > 2 and smoothed:
        counts[: cells.ordered] = smooth(counts[: cells.ordered], scale)
    counts[rare] = -math.inf
    return project(counts, total)


def draw(laws: FloatArray, which: IntArray, draws: np.random.Generator) -> IntArray:
    """Draw from law ``which[i]`` for every row i, with counts next to their expectation.

    Systematic sampling in random order: of m rows with one law, an outcome of probability p has
    ⌊mp⌋ or ⌈mp⌉ of them.
    """
    order = draws.permutation(len(which))
    order = order[np.argsort(which[order], kind="stable")]
    sizes = np.bincount(which, minlength=len(laws))
    starts = np.cumsum(sizes) - sizes
    rank = np.empty(len(which))
    rank[order] = np.arange(len(which)) - np.repeat(starts, sizes)
    steps = np.cumsum(laws, axis=1)
    steps /= np.maximum(steps[:, -1:], 1e-300)
    # Law k occupies the interval from k to k + 1, so that one search serves all laws.
    ends = (np.arange(len(laws))[:, None] + steps).ravel()
    share = (rank + draws.random(len(laws))[which]) / np.maximum(sizes[which], 1)
    indices = np.searchsorted(ends, which + np.minimum(share, 1 - 1e-9), side="right")
    return np.asarray(np.minimum(indices - which * laws.shape[1], laws.shape[1] - 1))
