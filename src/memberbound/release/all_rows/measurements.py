"""Measure discretised rows for a synthetic table: one-way counts, selected pairs, labels.

:class:`Measurements` takes the secret rows, the budget and its shares, and returns estimates made
of noisy numbers alone.  The split of the budget is a function of public numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from memberbound.numerics.rounding import FloatArray, up
from memberbound.release.all_rows.cells import CategoryCells, Cells
from memberbound.release.all_rows.conditionals import Pair
from memberbound.release.all_rows.histograms import count_cells
from memberbound.release.all_rows.label_model import (
    LabelModel,
    calibrate,
    fit_label_model,
    hit_counts,
    score_cuts,
)
from memberbound.release.all_rows.marginals import (
    LEAST_MISFIT,
    IntArray,
    LabelledRows,
    ReleasedColumn,
    estimate_cells,
    estimate_pair,
    merge,
    pair_counts,
    project,
)
from memberbound.release.all_rows.noisy_marginals import NoisyMarginal
from memberbound.release.all_rows.step_functions import estimate_steps
from memberbound.release.all_rows.synthetic_shares import (
    CALIBRATION,
    CELLS,
    COLUMNS,
    FURTHER,
    FURTHER_SCORES,
    PAIRS,
    SCORES,
    TARGET,
)
from memberbound.release.all_rows.tree import (
    GROUP,
    PairModel,
    keep_edges,
    noise_price,
    pair_score,
    select_forest,
    select_further,
    share_noise,
)
from memberbound.release.budget import HISTOGRAM_MOVES, Budget, NoisySums
from memberbound.tables.shards import Shards

#: Numbers of bins of ordered and of other columns, of groups of the target, and of blocks.
_MOST_BINS, _MOST_LABEL_BINS, _MOST_GROUPS, _MOST_BLOCKS = 12, 40, 16, 32
#: Next to heavy cells, bins may be smaller than an equal share, down to this many noise scales.
_BIN_SCALES = 6.0
#: Do not merge a column that has at most this many more cells than bins.
_FEW_MORE = 4
#: Number of further pairs per column.
_FURTHER_PER_COLUMN = 2
#: Maximum number of (bin, group) counts of a column, and of counts of all pairs per column.
MOST_COUNTED = (_MOST_LABEL_BINS + _FEW_MORE) * _MOST_GROUPS
MOST_PAIR_CELLS = (1 + _FURTHER_PER_COLUMN) * _MOST_BLOCKS**2
#: A pair with this share of the largest possible score may be a function: it is measured finer
#: if, less the largest noise of all scores, it still has the second share.
_FUNCTION_SHARE, _SURE_SHARE = 0.65, 0.4
#: … and its error counts this many times.
_FUNCTION_WEIGHT = 3.0
#: … and codes of columns of many values hold about this many noise scales.
_CODE_SCALES = 10.0
#: … if one of its columns has at most this many values.
_MOST_CODES = 20
#: … It is estimated by steps, where one column has this many times as many values.
_STEP_ROWS = 3
#: Empty cells of a pair stay empty if its sums are off by at most this many times the noise.
_MISFIT_SCALES = 2.5
#: Target error of a pair as a share of the records; it determines the number of blocks.
_PAIR_ERROR = 0.15
#: Other and missing values of the target form a group above this many noise scales.
_GROUP_SCALES = 4.0
#: Minimum number of records of a class of the target.
_LEAST_CLASS = 0.5
#: Maximum number of drawn rows to which pairs and labels are fitted.
_FITTED_ROWS = 20_000


def is_large(cells: Cells) -> bool:
    """Return whether a column has too many cells to count each one with the target."""
    return cells.ordered > _MOST_BINS + _FEW_MORE or cells.count > _MOST_LABEL_BINS + _FEW_MORE


def _diversity(counts: FloatArray) -> float:
    """Return the probability that two records differ (Gini and Simpson)."""
    return float(1.0 - np.square(counts / max(counts.sum(), 1e-9)).sum())


def _explain_misfit(spreads: Sequence[float], sums: Sequence[FloatArray]) -> float:
    """Return the total variation of a table's sums that noise in the one-way counts explains.

    ``spreads`` are the noise scales of the two columns' counts; the column with fewer values
    determines the result.
    """
    prices = [
        noise_price(spread, int(np.count_nonzero(counts)))
        for spread, counts in zip(spreads, sums, strict=True)
    ]
    share = min(prices) / max(float(sums[0].sum()), 1.0)
    return max(_MISFIT_SCALES * share, LEAST_MISFIT)


def _most_distant(table: FloatArray) -> float:
    """Return a bound on the distance between two tables that have the sums of this one."""
    outside = [table.sum() - table.sum(axis=axis).max() for axis in (0, 1)]
    return 4.0 * float(min(outside))


def _finest_maps(
    first: ReleasedColumn, second: ReleasedColumn, scale: float
) -> tuple[IntArray, IntArray]:
    """Return the finest maps to codes that a table of two columns can have, smaller column first.

    If each code of one column belongs to a single code of the other, two columns with many values
    keep all codes that exceed noise of this scale.
    """
    filled = [int(np.count_nonzero(column.weights)) for column in (first, second)]
    if min(filled) > _MOST_CODES:
        most = int(float(first.weights.sum()) / (_CODE_SCALES * scale))
        most = max(min(most, _MOST_BLOCKS), len(first.blocks), len(second.blocks))
        a, b = (merge(c.weights, c.cells.ordered, most) for c in (first, second))
        return a, b
    sizes = [min(size, _MOST_BLOCKS) for size in filled]
    large = int(filled[1] > filled[0])
    sizes[large] = min(filled[large], _MOST_BLOCKS**2 // max(sizes[1 - large], 1))
    a, b = (
        merge(column.weights, column.cells.ordered, max(size, len(column.blocks)))
        for column, size in zip((first, second), sizes, strict=True)
    )
    if (int(a.max()) + 1) * (int(b.max()) + 1) > _MOST_BLOCKS**2:
        return first.block_of_cell, second.block_of_cell
    return a, b


def _are_steps(column: ReleasedColumn, codes: IntArray, shape: tuple[int, ...]) -> bool:
    """Return whether the rows of a table are many neighbouring cells of a column."""
    ordered = column.cells.ordered
    fine = ordered > 2 and int(codes.max()) + 1 > len(column.blocks)
    beside = column.weights[ordered:].any() if ordered else True
    return fine and not beside and shape[0] >= _STEP_ROWS * shape[1]


@dataclass(eq=False)
class Measurements:
    """Measures the secret rows, and keeps the budget and the estimates so far.

    ``rows`` are shards of :class:`LabelledRows`; ``groups`` are the target's estimated counts.
    """

    rows: Shards[LabelledRows]
    records: int
    budget: Budget
    shares: Mapping[str, float]
    target: ReleasedColumn | None = None
    noise: dict[str, float] = field(default_factory=dict)
    #: Unprojected noisy counts, from which intervals are computed.
    marginals: list[NoisyMarginal] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.groups = np.array([float(self.records)])

    def sums(
        self, name: str, *, sensitivity: float, times: int = 1, part: float = 1.0
    ) -> NoisySums:
        """Return the noise of a part of a budget share, and record its scale."""
        wanted = min(part * self.shares[name], self.budget.left)
        sums = self.budget.take(name, wanted).sums(sensitivity=sensitivity, times=times)
        self.noise[name] = max(sums.scale, self.noise.get(name, 0.0))
        return sums

    def measure_target(self, cells: Cells) -> None:
        """Measure the target and form its groups: classes above the noise, or ranges of numbers."""
        sums = self.sums(TARGET, sensitivity=HISTOGRAM_MOVES)
        exact = self.rows.sum(_group_counts, cells.count)
        noisy = sums.measure(exact)
        self._keep([cells], [np.arange(cells.count)], noisy, sums.scale)
        weights = estimate_cells(cells, noisy, sums.scale, float(self.records))
        counts = weights
        if isinstance(cells, CategoryCells):
            # Every named class is a group, even with a noisy count near zero.  Other and missing
            # values form a group only above the noise.
            named = np.arange(cells.count) < len(cells.labels)
            weights = np.where(named, np.maximum(weights, _LEAST_CLASS), weights)
            counts = np.where(named | (weights >= _GROUP_SCALES * sums.scale), weights, 0.0)
        groups = merge(counts, cells.ordered, _MOST_GROUPS)
        alone = np.arange(int(groups.max()) + 1)
        none = np.zeros((0, 1))
        self.target = ReleasedColumn(cells, weights, groups, alone, none, sums.scale)
        self.groups = np.maximum(self.target.blocks, _LEAST_CLASS)
        self.rows = self.rows.map(LabelledRows.with_groups, groups)

    def measure_one_way(self, cells: Sequence[Cells]) -> list[ReleasedColumn]:
        """Measure every column with the target's groups, in bins."""
        bins = [np.arange(column.count) for column in cells]
        fine: dict[int, FloatArray] = {}
        large = [index for index, column in enumerate(cells) if is_large(column)]
        if large:
            sums = self.sums(CELLS, sensitivity=HISTOGRAM_MOVES, times=len(large))
            cliques = [(index,) for index in large]
            exact = self.rows.sum(LabelledRows.counts, cliques, bins)
            for index, counts in zip(large, exact, strict=True):
                column = cells[index]
                measured = sums.measure(counts)
                self._keep([column], [np.arange(column.count)], measured, sums.scale)
                fine[index] = estimate_cells(column, measured, sums.scale, float(self.records))
                most = _MOST_BINS if column.ordered else _MOST_LABEL_BINS
                least = _BIN_SCALES * sums.scale
                bins[index] = merge(fine[index], column.ordered, most, least)
        counting = self.sums(COLUMNS, sensitivity=HISTOGRAM_MOVES, times=len(cells))
        cliques = [(index,) for index in range(len(cells))]
        exact = self.rows.sum(LabelledRows.counts, cliques, bins, len(self.groups))
        noisy = [counting.measure(counts) for counts in exact]
        for column, codes, table in zip(cells, bins, noisy, strict=True):
            self._keep([column], [codes], table, counting.scale)
        self._sharpen_groups(noisy, counting.scale)
        spread = counting.scale * math.sqrt(len(self.groups))
        columns = []
        for index, column in enumerate(cells):
            totals = noisy[index].sum(axis=1)
            if index in fine:
                # Two measurements of a bin: the mean, weighted by precision.
                number = np.bincount(bins[index])
                known = np.bincount(bins[index], fine[index])
                precision = spread**-2, 1 / (sums.scale**2 * number)
                totals = (totals * precision[0] + known * precision[1]) / sum(precision)
                totals = np.where(known > 0, totals, -math.inf)
                inside = fine[index] / np.maximum(known, 1e-12)[bins[index]]
                weights = inside * project(totals, float(self.records))[bins[index]]
            else:
                weights = estimate_cells(
                    column, totals, spread, float(self.records), smoothed=False
                )
            alone = np.arange(len(totals))
            columns.append(
                ReleasedColumn(column, weights, bins[index], alone, noisy[index], counting.scale)
            )
        return columns

    def _keep(
        self, cells: Sequence[Cells], codes: Sequence[IntArray], noisy: FloatArray, scale: float
    ) -> None:
        """Keep noisy counts of columns; an extra last axis is that of the target's groups."""
        if noisy.ndim > len(cells) and self.target is not None:
            cells, codes = [*cells, self.target.cells], [*codes, self.target.bin_of_cell]
        shape = noisy.shape[: len(cells)]
        marginal = NoisyMarginal(tuple(cells), tuple(codes), noisy.reshape(shape), scale)
        self.marginals.append(marginal)

    def _sharpen_groups(self, noisy: Sequence[FloatArray], scale: float) -> None:
        """Re-estimate the target's groups from the counts of all columns and its own."""
        if self.target is None:
            return
        precisions = [self.target.scale**-2, *(1 / (len(table) * scale**2) for table in noisy)]
        counts = [self.groups, *(table.sum(axis=0) for table in noisy)]
        mean = sum(p * c for p, c in zip(precisions, counts, strict=True)) / sum(precisions)
        self.groups = np.maximum(project(np.asarray(mean), float(self.records)), _LEAST_CLASS)

    def measure_pairs(self, columns: list[ReleasedColumn]) -> PairModel:
        """Select and measure pairs: a forest, then pairs that the forest does not explain."""
        count, total = len(columns), float(self.records)
        if PAIRS not in self.shares:
            alone = tuple((column, None) for column in range(count))
            return PairModel(tuple(columns), alone, grouped=self._pair_with_groups(columns))
        scale = math.sqrt(2.0 * (count - 1) / self.shares[PAIRS]) / self.budget.mu
        most = math.sqrt(_PAIR_ERROR * total / noise_price(scale, 1))
        most = min(max(3, int(most)), _MOST_BLOCKS)
        columns = [column.with_blocks(most) for column in columns]
        blocks = [column.block_of_cell for column in columns]
        every = list(itertools.combinations(range(count), 2))
        expected = [np.outer(columns[a].blocks, columns[b].blocks) / total for a, b in every]
        scored = self._measure_scores(SCORES, every, blocks, expected)
        scores, functions = np.zeros((count, count)), np.zeros((count, count), dtype=bool)
        doubt = math.sqrt(2 * math.log(len(every))) * self.noise[SCORES]
        for (a, b), score, table in zip(every, scored.tolist(), expected, strict=True):
            largest = 2 * total * min(map(_diversity, (columns[a].blocks, columns[b].blocks)))
            scores[a, b] = min(score, largest) - noise_price(scale, table.size)
            function = score > _FUNCTION_SHARE * largest and score - doubt > _SURE_SHARE * largest
            functions[a, b] = functions[b, a] = function
        counted = np.array([len(column.blocks) for column in columns])
        scores = keep_edges(scores, counted, scale / math.sqrt(count - 1))
        forest = select_forest(scores)
        edges = [(parent, child) for child, parent in forest if parent is not None]
        maps = [
            _finest_maps(columns[a], columns[b], scale)
            if functions[a, b]
            else (blocks[a], blocks[b])
            for a, b in edges
        ]
        weights = [_FUNCTION_WEIGHT if functions[edge] else 1.0 for edge in edges]
        tables = self._measure_tables(PAIRS, edges, maps, columns, weights=weights)
        pairs = {pair.second: pair for pair in tables}
        model = PairModel(
            tuple(columns),
            tuple((child, pairs.get(child)) for child, _ in forest),
            grouped=self._pair_with_groups(columns),
        )
        if FURTHER not in self.shares:
            return model

        known = {tuple(sorted(edge)) for edge in edges}
        others = [pair for pair in every if pair not in known]
        if not others:
            return model
        rows = min(max(self.records, 1000), _FITTED_ROWS)
        drawn = model.cells(rows, np.random.default_rng(0))
        predicted = []
        for a, b in others:
            shape = len(columns[a].blocks), len(columns[b].blocks)
            indices = blocks[a][drawn[a]] * shape[1] + blocks[b][drawn[b]]
            counts = np.bincount(indices, minlength=math.prod(shape)).reshape(shape)
            predicted.append(np.asarray(counts * (total / rows)))
        scored = self._measure_scores(FURTHER_SCORES, others, blocks, predicted)
        scored = np.minimum(scored, [_most_distant(table) for table in predicted])
        sizes = np.array([table.size for table in predicted], dtype=np.float64)
        one = math.sqrt(2.0 / self.shares[FURTHER]) / self.budget.mu
        noise = self.noise[FURTHER_SCORES]
        chosen = select_further(scored, noise, sizes, one, _FURTHER_PER_COLUMN * count)
        further = [others[index] for index in chosen]
        maps = [(blocks[a], blocks[b]) for a, b in further]
        likely = [predicted[index] for index in chosen]
        tables = self._measure_tables(FURTHER, further, maps, columns, predicted=likely)
        return replace(model, further=tuple(tables))

    def _pair_with_groups(self, columns: Sequence[ReleasedColumn]) -> tuple[Pair, ...]:
        """Estimate the counts of the target's groups with every column's bins."""
        if len(self.groups) < 2:
            return ()
        every, pairs = np.arange(len(self.groups)), []
        for index, column in enumerate(columns):
            expected = np.outer(self.groups, column.bins) / float(self.records)
            table = estimate_pair(column.noisy.T, expected, column.scale, self.groups, column.bins)
            pairs.append(Pair(GROUP, index, table, (every, column.bin_of_cell)))
        return tuple(pairs)

    def _measure_scores(
        self,
        name: str,
        pairs: Sequence[tuple[int, int]],
        maps: Sequence[IntArray],
        expected: Sequence[FloatArray],
    ) -> FloatArray:
        """Measure the distance of pairs from their expected counts."""
        exact = self.rows.sum(LabelledRows.counts, pairs, maps)
        scores = [pair_score(*tables) for tables in zip(exact, expected, strict=True)]
        sums = self.sums(name, sensitivity=up(2.0 * math.sqrt(len(pairs)), 4))
        return sums.measure(scores)

    def _measure_tables(
        self,
        name: str,
        pairs: Sequence[tuple[int, int]],
        maps: Sequence[tuple[IntArray, IntArray]],
        columns: list[ReleasedColumn],
        *,
        predicted: Sequence[FloatArray] = (),
        weights: Sequence[float] = (),
    ) -> list[Pair]:
        """Measure pairs, with less noise for larger tables, and estimate consistent counts.

        Scores are distances from the ``predicted`` tables, or from independence.  ``weights``
        multiply the error of a pair.  Columns with inconsistent counts are replaced.
        """
        exact = [
            self.rows.sum(pair_counts, pair, both) for pair, both in zip(pairs, maps, strict=True)
        ]
        parts = share_noise([counts.size for counts in exact], weights)
        tables = []
        for index, ((a, b), counts, part) in enumerate(zip(pairs, exact, parts, strict=True)):
            sums = self.sums(name, sensitivity=HISTOGRAM_MOVES, part=float(part))
            noisy = sums.measure(counts)
            self._keep([columns[a].cells, columns[b].cells], maps[index], noisy, sums.scale)
            first, second = (
                np.bincount(codes, columns[column].weights, size).astype(np.float64)
                for codes, column, size in zip(maps[index], (a, b), noisy.shape, strict=True)
            )
            spreads = [columns[c].scale * math.sqrt(columns[c].noisy.shape[1]) for c in (a, b)]
            misfit = _explain_misfit(spreads, (first, second))
            if predicted:
                table = estimate_pair(
                    noisy, predicted[index], sums.scale, first, second, misfit=misfit
                )
            elif _are_steps(columns[a], maps[index][0], noisy.shape):
                table = estimate_steps(
                    noisy, sums.scale, first, second, spread=spreads[1], misfit=misfit
                )
            elif _are_steps(columns[b], maps[index][1], noisy.shape[::-1]):
                table = estimate_steps(
                    noisy.T, sums.scale, second, first, spread=spreads[0], misfit=misfit
                ).T
            else:
                expected = np.outer(first, second) / float(self.records)
                table = estimate_pair(noisy, expected, sums.scale, first, second, misfit=misfit)
            if not predicted:
                self._reconcile(columns, (a, b), table, maps[index])
            tables.append(Pair(a, b, table, maps[index]))
        return tables

    def _reconcile(
        self,
        columns: list[ReleasedColumn],
        pair: tuple[int, int],
        table: FloatArray,
        maps: tuple[IntArray, IntArray],
    ) -> None:
        """Adjust the counts of the column with more values to those of the other column.

        Counts of fewer values are more precise.  The sums differ where one column determines the
        other.
        """
        sums = [table.sum(axis=1), table.sum(axis=0)]
        finer = int(np.count_nonzero(sums[1]) > np.count_nonzero(sums[0]))
        column, codes = columns[pair[finer]], maps[finer]
        coarse = columns[pair[1 - finer]]
        known = np.bincount(maps[1 - finer], coarse.weights, len(sums[1 - finer]))
        given = table if finer == 0 else table.T
        given = given / np.maximum(given.sum(axis=0), 1e-12) @ known
        now = np.bincount(codes, column.weights, len(given))
        ratio = np.divide(given, now, out=np.ones_like(given), where=now > 0)
        # Not projected, which would give empty cells records.
        weights = column.weights * ratio[codes]
        weights *= float(self.records) / max(float(weights.sum()), 1e-12)
        columns[pair[finer]] = replace(column, weights=weights)

    def fit_labels(self, model: PairModel) -> LabelModel | None:
        """Fit the label model to rows drawn from the estimates so far, and calibrate it."""
        size = len(self.groups)
        if size < 2:
            return None
        draws = np.random.default_rng(0)
        rows = max(1000, min(self.records, _FITTED_ROWS // (1 if size == 2 else size // 2)))
        cells = zip(model.columns, model.cells(rows, draws), strict=True)
        bins = [column.bin_of_cell[drawn] for column, drawn in cells]
        assert self.target is not None
        numbers = self.target.cells.ordered > 0
        fitted = fit_label_model(model.columns, self.groups, bins, numbers=numbers)
        additive = fitted.additive(bins)
        shares = self.groups / self.groups.sum()
        fitted = fitted.tie_intercepts(additive, shares)
        cuts = score_cuts(fitted, additive)
        sums = self.sums(CALIBRATION, sensitivity=HISTOGRAM_MOVES)
        maps = [column.bin_of_cell for column in model.columns]
        noisy = sums.measure(self.rows.sum(hit_counts, fitted, maps, cuts))
        fitted = calibrate(fitted, additive, self.groups, cuts, (noisy, sums.scale))
        return fitted.tie_intercepts(additive, shares)


def _group_counts(rows: LabelledRows, count: int) -> FloatArray:
    """Count the records in every cell of the target."""
    return count_cells(rows.groups, count, rows.persons)
