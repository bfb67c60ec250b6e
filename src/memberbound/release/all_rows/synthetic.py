"""A synthetic table of all rows, in the neighbour game: measure, select, estimate, sample.

What is measured, with noise, in this order (proofs/synthetic-tables.md):

1. what columns hold, where no bounds say it: their *cells* (:mod:`.cells`);
2. the target: its *groups*;
3. the cells of columns that have many, to merge them into *bins*;
4. every column's bins with the target's groups;
5. for every pair of columns how far it is from independence: one number, from which a *forest* of
   pairs is selected at the resolution that the noise of a pair allows;
6. the pairs of the forest;
7. for every other pair how far it is from what the forest predicts, and the pairs that are far;
8. how often a model of the target is right at which score.

How the budget is shared is a function of public numbers: :func:`budget_shares`.  New rows are drawn
from the noisy numbers alone: post-processing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from memberbound.errors import InputError
from memberbound.files import TABLE_ENDINGS, table_writer
from memberbound.numerics.rounding import FloatArray, up
from memberbound.quantities import Certificate
from memberbound.release.all_rows.bounds import Bounds, Categories, Range, read_bounds
from memberbound.release.all_rows.cells import (
    FORMATS,
    MOST_CELLS,
    CategoryCells,
    Cells,
    NumberCells,
    Writing,
    declared_writing,
    format_cells,
    public_column,
    written_as,
)
from memberbound.release.all_rows.histograms import MOST_CLASSES, counted, noisy_identifiers
from memberbound.release.all_rows.label_model import (
    SCORE_BINS,
    LabelModel,
    calibrate,
    fit_label_model,
    hit_counts,
    score_cuts,
)
from memberbound.release.all_rows.marginals import (
    IntArray,
    LabelledRows,
    ReleasedColumn,
    draw,
    estimate_cells,
    estimate_pair,
    estimate_steps,
    labelled_rows,
    merge,
    pair_counts,
    project,
)
from memberbound.release.all_rows.private_columns import (
    MOST_LABELS,
    learn_classes,
    learn_columns,
    look_coordinates,
    look_names,
    rows_needed,
    take_looks,
)
from memberbound.release.all_rows.tree import (
    Pair,
    PairModel,
    noise_price,
    pair_score,
    select_forest,
    select_further,
)
from memberbound.release.budget import HISTOGRAM_MOVES, Budget, NoisySums, Slack
from memberbound.release.calibration import Calibration
from memberbound.release.noise import GaussianNoise
from memberbound.release.randomness import SECURE, RandomSource
from memberbound.release.release_file import Writer
from memberbound.tables.records import Records
from memberbound.tables.shards import Shards

if TYPE_CHECKING:
    import pandas as pd


#: Kinds of measurements, as the shares of the budget are named.
_TARGET, _CELLS, _COLUMNS, _CALIBRATION = "target", "cells", "columns", "calibration"
_SCORES, _PAIRS = "scores of pairs", "pairs"
_FURTHER_SCORES, _FURTHER = "scores of further pairs", "further pairs"
#: Shares of μ² that do not depend on the table.
_FIXED = {_TARGET: 0.02, _CELLS: 0.12, _CALIBRATION: 0.05, _SCORES: 0.05, _FURTHER_SCORES: 0.04}
#: Signals (μ·records/√columns) between which pairs, and further pairs, take over from columns.
_PAIR_SIGNALS, _FURTHER_SIGNALS = (200.0, 2000.0), (450.0, 1500.0)
#: What the columns get of the rest at the two ends; of what they leave, what further pairs get.
_COLUMN_SHARES, _FURTHER_SHARES = (0.85, 0.5), (0.0, 0.6)
#: Pairs are measured only if the noise of a score is below this share of the records.
_LARGEST_SCORE_NOISE = 0.25
#: Bins of a column with neighbouring cells, and of any other; groups of the target; blocks.
_MOST_BINS, _MOST_LABEL_BINS, _MOST_GROUPS, _MOST_BLOCKS = 12, 40, 16, 32
#: Beside heavy cells, bins may be smaller than an equal share, down to this many noise scales.
_BIN_SCALES = 6.0
#: A column with this many cells more than bins is not worth merging.
_FEW_MORE = 4
#: Further pairs, for every column.
_FURTHER_PER_COLUMN = 2
#: A pair with this share of the largest possible score may be a function: it is measured finer.
_FUNCTION_SHARE = 0.65
#: … if one of its columns has at most this many values.
_MOST_CODES = 20
#: … It is estimated by steps, where one column has this many times as many values.
_STEP_ROWS = 3
#: Expected distance of a pair from the truth, as a share of the records, that sets its blocks.
_PAIR_ERROR = 0.15
#: Other and missing values of the target are a group from this many noise scales on.
_GROUP_SCALES = 4.0
#: Records that a class of the target has at least.
_LEAST_CLASS = 0.5
#: Drawn rows that pairs and labels are fitted on, at most.
_FITTED_ROWS = 20_000


def budget_shares(
    records: int, mu: float, columns: int, large: int, *, target: bool
) -> dict[str, float]:
    """Return how μ² is shared between measurements, from public numbers alone.

    ``columns`` does not count the target; ``large`` of them have too many cells to be counted with
    the target one by one.

    Examples:
        >>> shares = budget_shares(40_000, 0.25, 14, 5, target=True)
        >>> {name: round(shares[name], 2) for name in ("columns", "pairs", "further pairs")}
        {'columns': 0.36, 'pairs': 0.14, 'further pairs': 0.22}
    """
    signal = mu * records / math.sqrt(columns)
    count = columns * (columns - 1) // 2
    noise = 2.0 * math.sqrt(count / _FIXED[_SCORES]) / mu
    parts = [_TARGET, _CALIBRATION] if target else []
    parts += [_CELLS] if large else []
    pairs = columns > 1 and noise < _LARGEST_SCORE_NOISE * records
    further = pairs and columns > 2 and signal > _FURTHER_SIGNALS[0]
    parts += [_SCORES] if pairs else []
    parts += [_FURTHER_SCORES] if further else []
    shares = {name: share for name, share in _FIXED.items() if name in parts}
    rest = 1.0 - sum(shares.values())
    if not pairs:
        return {**shares, _COLUMNS: rest}
    shares[_COLUMNS] = rest * _between(signal, _PAIR_SIGNALS, _COLUMN_SHARES)
    rest -= shares[_COLUMNS]
    if further:
        part = rest * _between(signal, _FURTHER_SIGNALS, _FURTHER_SHARES)
        return {**shares, _PAIRS: rest - part, _FURTHER: part}
    return {**shares, _PAIRS: rest}


def _between(signal: float, signals: tuple[float, float], values: tuple[float, float]) -> float:
    """Return a value that moves from the first to the second with the logarithm of the signal."""
    place = math.log(signal / signals[0]) / math.log(signals[1] / signals[0])
    return values[0] + min(max(place, 0.0), 1.0) * (values[1] - values[0])


# ── What is released, and the rows that are drawn from it ─────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class SyntheticTable:
    """Everything that was released about a table, and rows drawn from it.

    Guarantee: nothing here was computed from the secret table without noise that was paid for; so
    any number of rows may be drawn, and anything done with them.
    """

    names: tuple[str, ...]
    model: PairModel
    target: ReleasedColumn | None
    groups: FloatArray
    labels: LabelModel | None
    identifiers: tuple[str, ...]
    left_out: tuple[str, ...]
    noise: Mapping[str, float]
    budget: Budget
    records: int
    eta: float

    @property
    def certificate_(self) -> Certificate:
        """What is promised."""
        certificate = self.budget.certificate(secure=self.budget.source.secure)
        return replace(certificate, theorems=tuple(sorted({*certificate.theorems, "X25"})))

    @property
    def calibration_(self) -> Calibration:
        """The noise of the columns' counts and the certificate of all counts together."""
        size = sum(column.cells.count for column in self.columns) * len(self.groups)
        details = {
            "mu": self.budget.mu,
            "rows_trained": self.records,
            "curve": self.budget.readings(),
            "noise_by_part": dict(self.noise),
        }
        noise = GaussianNoise(self.noise["columns"], size)
        return Calibration(noise, self.certificate_, self.eta, "synthetic", 0, details)

    @property
    def columns(self) -> tuple[ReleasedColumn, ...]:
        """The columns beside the target."""
        return self.model.columns

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs of columns whose joint law was measured."""
        names = [column.cells.name for column in self.columns]
        return tuple((names[pair.first], names[pair.second]) for pair in self.model.measured)

    def sample(self, rows: int, source: RandomSource) -> pd.DataFrame:
        """Return new rows, with the names and the order of the columns of the table."""
        import pandas as pd

        draws = np.random.default_rng([int(word) for word in source.words(4)])
        cells = self.model.cells(rows, draws)
        values: dict[str, pd.Series[object]] = {}
        for column, places in zip(self.columns, cells, strict=True):
            values[column.cells.name] = column.values(places, draws)
        if self.target is not None:
            groups = draw(self.groups[None], np.zeros(rows, dtype=np.int64), draws)
            if self.labels is not None:
                bins = [c.bin_of_cell[p] for c, p in zip(self.columns, cells, strict=True)]
                groups = self.labels.sample(bins, self.groups, draws)
            goal = self.target.cells_in(groups, self.target.bin_of_cell, draws)
            values[self.target.cells.name] = self.target.values(goal, draws)
        for name in self.identifiers:
            values[name] = pd.Series(np.arange(1, rows + 1))
        return pd.DataFrame({name: values[name] for name in self.names if name in values})


@dataclass(frozen=True, eq=False)
class SyntheticRows:
    """Rows that were drawn, and what they were drawn from."""

    frame: pd.DataFrame
    model: SyntheticTable

    @property
    def file_endings(self) -> tuple[str, ...]:
        """The endings of the files that it can be written to."""
        return TABLE_ENDINGS

    def certificate_fields(self) -> dict[str, object]:
        """Return the fields of its certificate."""
        budget = self.model.budget
        return self.model.calibration_.certificate_fields(
            "synthetic table",
            secure_source=budget.source.secure,
            rows=len(self.frame),
            unit=budget.unit,
            left_out=self.model.left_out,
            **budget.evidence(self.model.records, self.model.certificate_),
        )

    def file_writer(self, path: Path) -> Writer:
        """Return a function that writes the rows as a table file."""
        return table_writer(self.frame, path)


# ── The order of what is counted ──────────────────────────────────────────────────────────────────


@np.errstate(all="ignore")  # no record decides whether numpy warns
def fit_synthetic(
    records: Records,
    *,
    eta: float,
    bounds: Mapping[str, object] | str | Path | None = None,
    target: str | None = None,
    unit: str | None = None,
    source: RandomSource = SECURE,
    reserve: Callable[[Budget], None] | None = None,
) -> SyntheticTable:
    """Count a secret table with noise such that η holds for every record of it.

    With ``unit`` a record is all rows with one value in that column.  ``reserve`` is called with
    the budget before any noise is drawn (a ledger).

    Guarantee: whoever knows all other records and sees everything in the result gains at most
    ``eta`` over guessing which of two records was in the table: for every record of any table,
    replace-one, without any confidence level.
    Theorem: X25 (proofs/synthetic-tables.md), with ``unit`` X26 (proofs/persons.md).
    Assumes: the number of rows (with ``unit``: of persons), the columns' names and types and the
    given bounds are public.
    Numerics: counts, scores and sums of residuals are exact; μ and the slack are fixed before the
    table is looked at.
    Edge cases: numbers beyond a range count as its end; values that few people share are drawn as
    ``other``; columns of identifiers get fresh numbers, columns of free text are left out.
    """
    names = tuple(records.columns)
    if unit is not None:
        records = records.group_by_person(unit)
    stated = read_bounds(bounds)
    public, writings = _declared(records, stated, target)
    slack = _slack(records, public)
    budget = Budget.for_eta(
        eta,
        slack=slack,
        unit=unit,
        source=source,
        reserve=reserve,
        bounds=[name for name in stated if name in names],
    )
    _refuse_small(records, public, budget.mu)
    cells, identifiers, left_out = _cells(records, public, writings, target, budget)
    left, count = budget.left, len(records)
    features = [column for name, column in cells.items() if name != target]
    goal = None if target is None else cells[target]
    mu = budget.mu * math.sqrt(left)
    large = sum(map(_is_large, features))
    shares = budget_shares(count, mu, len(features), large, target=target is not None)
    measuring = _Measuring(
        records.shards.map(labelled_rows, features, goal),
        count,
        budget,
        {name: share * left for name, share in shares.items()},
    )
    if goal is not None:
        measuring.target_groups(goal)
    pairs = measuring.pairs(measuring.columns(features))
    return SyntheticTable(
        names=names,
        model=pairs,
        target=measuring.target,
        groups=measuring.groups,
        labels=measuring.labels(pairs),
        identifiers=identifiers + (() if unit is None else (unit,)),
        left_out=left_out,
        noise=measuring.noise,
        budget=budget,
        records=count,
        eta=float(eta),
    )


_MOST_ROWS = 2**31


def _declared(
    records: Records, bounds: Bounds, target: str | None
) -> tuple[dict[str, Range | Categories], dict[str, Writing]]:
    """Return what is public about columns, and how they are written where a type says it."""
    used = list(records.columns)
    public = {name: bound for name, bound in bounds.items() if name in used}
    writings: dict[str, Writing] = {}
    for name in used:
        form = public[name].form if name in public else "any"
        declared = declared_writing(records.types.get(name), form)
        if isinstance(declared, str):
            writings[name] = declared
        elif declared is not None and name not in public:
            public[name] = Categories(declared)
    if len(used) < 2:
        raise InputError(
            f"the table must have at least two columns, got {len(used)}. The distribution "
            "of one column is released by summarize, as a histogram."
        )
    if len(records) < 2 or records.rows >= _MOST_ROWS:
        raise InputError("the table must have at least two rows (or persons), and fewer than 2^31.")
    labels = getattr(public.get(target or ""), "labels", None)
    if labels is not None and not 2 <= sum(map(bool, labels)) <= MOST_CLASSES:
        raise InputError(
            f"target {target!r} must have 2 to {MOST_CLASSES} classes, got {len(labels)}. "
            "A target of numbers has a range as bounds."
        )
    return public, writings


def _slack(records: Records, public: Bounds) -> Slack:
    """Return the total variation of all counts, from public numbers alone."""
    columns = len(records.columns)
    cells = 0
    for name in records.columns:
        bound = public.get(name)
        listed = MOST_CELLS + len(getattr(bound, "edges", ()))
        if isinstance(bound, Categories):
            listed = len(bound.labels) + 2
        cells += max(listed, MOST_LABELS + 2)
    private = columns - len(public)
    tables = columns * (1 + _FURTHER_PER_COLUMN) * _MOST_BLOCKS**2
    coordinates = (
        look_coordinates(private + 1)
        + cells
        + columns * (_MOST_LABEL_BINS + _FEW_MORE) * _MOST_GROUPS
        + columns**2
        + tables
        + 2 * SCORE_BINS
        + columns * (len(FORMATS) + 1)
    )
    return Slack(coordinates, look_names(private + (private > 0)))


def _refuse_small(records: Records, public: Bounds, mu: float) -> None:
    """Refuse a table that the noise drowns, for public reasons only."""
    columns = len(records.columns)
    private = columns - len(public)
    needed = rows_needed(private, mu)
    if len(records) < needed:
        what = "rows" if records.unit is None else f"different values of {records.unit!r}"
        raise InputError(
            f"the table must have at least about {needed} {what} for {columns} "
            f"columns ({private} without bounds) at this eta, got {len(records)}. Give bounds that "
            "are public knowledge, allow a larger eta, name fewer columns, or find more rows."
        )


# ── 1. The cells of columns ───────────────────────────────────────────────────────────────────────


#: Share of μ² for how numbers of columns with public ranges are written, where no type says it.
_WRITING_SHARE = 0.01


def _cells(
    records: Records,
    public: Bounds,
    writings: Mapping[str, Writing],
    target: str | None,
    budget: Budget,
) -> tuple[dict[str, Cells], tuple[str, ...], tuple[str, ...]]:
    """Return the cells of columns; the names of identifiers, and of what is left out."""
    unbounded = [name for name in records.columns if name not in public]
    named = [name for name in unbounded if name != target]
    identifiers = noisy_identifiers(records, named, budget)
    private = [name for name in unbounded if name not in identifiers]
    cells: dict[str, Cells | None] = {}
    if private:
        looks = take_looks(budget, len(private), len(records))
        learnt = learn_columns(records, private, *looks, named=True, writings=writings)
        cells |= {name: column.cells() for name, column in learnt.items()}
    if target in private and not isinstance(cells[target], NumberCells):
        classes, _ = learn_classes(records, target, budget)
        found = getattr(cells[target], "labels", ())
        cells[target] = CategoryCells(target, tuple(sorted({*found, *classes})[:MOST_CLASSES]))
    unwritten = [
        name for name, bound in public.items() if isinstance(bound, Range) and name not in writings
    ]
    if unwritten:
        share = budget.take("how numbers are written", _WRITING_SHARE)
        formats = share.sums(sensitivity=HISTOGRAM_MOVES, times=len(unwritten))
        counts = zip(unwritten, records.shards.sum(_format_counts, unwritten), strict=True)
        paid = {name: written_as(formats.measure(exact), formats.scale) for name, exact in counts}
        writings = {**writings, **paid}
    for name, bound in public.items():
        cells[name] = public_column(name, bound, writings.get(name, "more"))
    ordered = {n: column for n in records.columns if (column := cells.get(n)) is not None}
    if len(ordered) < 2:
        raise InputError(
            "the table must have at least two columns whose values many people share, got "
            f"{len(ordered)}; identifiers and free text are not drawn. Give bounds for columns."
        )
    goal = None if target is None else ordered.get(target)
    few = isinstance(goal, CategoryCells) and len(goal.labels) < 2
    if target is not None and (goal is None or few):
        raise InputError(
            f"target {target!r} must have at least two classes that many people share. Give "
            "its classes in the bounds, or leave the target out."
        )
    return ordered, identifiers, tuple(name for name in private if cells[name] is None)


def _format_counts(shard: Records, names: Sequence[str]) -> FloatArray:
    """Return how many records write their numbers in which format, column by column."""
    cells = (format_cells(shard.columns[name]) for name in names)
    return np.array([counted(places, len(FORMATS) + 1, shard.persons) for places in cells])


# ── 2 to 8. Groups, columns, pairs, labels ────────────────────────────────────────────────────────


def _is_large(cells: Cells) -> bool:
    """Tell whether a column has too many cells to be counted with the target one by one."""
    return cells.ordered > _MOST_BINS + _FEW_MORE or cells.count > _MOST_LABEL_BINS + _FEW_MORE


def _diversity(counts: FloatArray) -> float:
    """Return the probability that two records differ (Gini and Simpson)."""
    return float(1.0 - np.square(counts / max(counts.sum(), 1e-9)).sum())


def _finest_maps(first: ReleasedColumn, second: ReleasedColumn) -> tuple[IntArray, IntArray]:
    """Return maps to as many codes as a table of two columns can have: the smaller one's first."""
    filled = [int(np.count_nonzero(column.weights)) for column in (first, second)]
    if min(filled) > _MOST_CODES:
        return first.block_of_cell, second.block_of_cell
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
    """Tell whether the rows of a table are neighbouring cells of a column, and many of them."""
    ordered = column.cells.ordered
    fine = ordered > 2 and int(codes.max()) + 1 > len(column.blocks)
    beside = column.weights[ordered:].any() if ordered else True
    return fine and not beside and shape[0] >= _STEP_ROWS * shape[1]


@dataclass(eq=False)
class _Measuring:
    """Measures the secret rows, and keeps what was paid and what is known so far.

    ``rows`` are shards of :class:`LabelledRows`; ``groups`` are the target's estimated counts.
    """

    rows: Shards[LabelledRows]
    records: int
    budget: Budget
    shares: Mapping[str, float]
    target: ReleasedColumn | None = None
    noise: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.groups = np.array([float(self.records)])

    def sums(
        self, name: str, *, sensitivity: float, times: int = 1, part: float = 1.0
    ) -> NoisySums:
        """Return the noise that a part of a share of the budget pays for, and note its scale."""
        wanted = min(part * self.shares[name], self.budget.left)
        sums = self.budget.take(name, wanted).sums(sensitivity=sensitivity, times=times)
        self.noise[name] = max(sums.scale, self.noise.get(name, 0.0))
        return sums

    def target_groups(self, cells: Cells) -> None:
        """Measure the target, and find its groups: classes that stand out, or ranges of numbers."""
        sums = self.sums(_TARGET, sensitivity=HISTOGRAM_MOVES)
        exact = self.rows.sum(_group_counts, cells.count)
        weights = estimate_cells(cells, sums.measure(exact), sums.scale, float(self.records))
        counts = weights
        if isinstance(cells, CategoryCells):
            # Every class is a group, however few records the noise leaves it; other and missing
            # values only if they stand out.
            named = np.arange(cells.count) < len(cells.labels)
            weights = np.where(named, np.maximum(weights, _LEAST_CLASS), weights)
            counts = np.where(named | (weights >= _GROUP_SCALES * sums.scale), weights, 0.0)
        groups = merge(counts, cells.ordered, _MOST_GROUPS)
        alone = np.arange(int(groups.max()) + 1)
        none = np.zeros((0, 1))
        self.target = ReleasedColumn(cells, weights, groups, alone, none, sums.scale)
        self.groups = np.maximum(self.target.blocks, _LEAST_CLASS)
        self.rows = self.rows.map(LabelledRows.with_groups, groups)

    def columns(self, cells: Sequence[Cells]) -> list[ReleasedColumn]:
        """Measure every column with the target's groups, in bins."""
        bins = [np.arange(column.count) for column in cells]
        fine: dict[int, FloatArray] = {}
        large = [place for place, column in enumerate(cells) if _is_large(column)]
        if large:
            sums = self.sums(_CELLS, sensitivity=HISTOGRAM_MOVES, times=len(large))
            cliques = [(place,) for place in large]
            exact = self.rows.sum(LabelledRows.counts, cliques, bins)
            for place, counts in zip(large, exact, strict=True):
                column = cells[place]
                fine[place] = estimate_cells(
                    column, sums.measure(counts), sums.scale, float(self.records)
                )
                most = _MOST_BINS if column.ordered else _MOST_LABEL_BINS
                least = _BIN_SCALES * sums.scale
                bins[place] = merge(fine[place], column.ordered, most, least)
        counting = self.sums(_COLUMNS, sensitivity=HISTOGRAM_MOVES, times=len(cells))
        cliques = [(place,) for place in range(len(cells))]
        exact = self.rows.sum(LabelledRows.counts, cliques, bins, len(self.groups))
        noisy = [counting.measure(counts) for counts in exact]
        self._sharpen_groups(noisy, counting.scale)
        spread = counting.scale * math.sqrt(len(self.groups))
        columns = []
        for place, column in enumerate(cells):
            totals = noisy[place].sum(axis=1)
            if place in fine:
                # Two measurements of a bin: the mean, weighted by precision.
                number = np.bincount(bins[place])
                known = np.bincount(bins[place], fine[place])
                precision = spread**-2, 1 / (sums.scale**2 * number)
                totals = (totals * precision[0] + known * precision[1]) / sum(precision)
                totals = np.where(known > 0, totals, -math.inf)
                inside = fine[place] / np.maximum(known, 1e-12)[bins[place]]
                weights = inside * project(totals, float(self.records))[bins[place]]
            else:
                weights = estimate_cells(
                    column, totals, spread, float(self.records), smoothed=False
                )
            alone = np.arange(len(totals))
            columns.append(
                ReleasedColumn(column, weights, bins[place], alone, noisy[place], counting.scale)
            )
        return columns

    def _sharpen_groups(self, noisy: Sequence[FloatArray], scale: float) -> None:
        """Estimate the groups from all columns' counts together with the target's own."""
        if self.target is None:
            return
        precisions = [self.target.scale**-2, *(1 / (len(table) * scale**2) for table in noisy)]
        counts = [self.groups, *(table.sum(axis=0) for table in noisy)]
        mean = sum(p * c for p, c in zip(precisions, counts, strict=True)) / sum(precisions)
        self.groups = np.maximum(project(np.asarray(mean), float(self.records)), _LEAST_CLASS)

    def pairs(self, columns: list[ReleasedColumn]) -> PairModel:
        """Select and measure pairs of columns: a forest, then those that it does not explain."""
        count, total = len(columns), float(self.records)
        if _PAIRS not in self.shares:
            return PairModel(tuple(columns), tuple((column, None) for column in range(count)))
        scale = math.sqrt(2.0 * (count - 1) / self.shares[_PAIRS]) / self.budget.mu
        most = math.sqrt(_PAIR_ERROR * total / noise_price(scale, 1))
        most = min(max(3, int(most)), _MOST_BLOCKS)
        columns = [column.with_blocks(most) for column in columns]
        blocks = [column.block_of_cell for column in columns]
        every = list(itertools.combinations(range(count), 2))
        expected = [np.outer(columns[a].blocks, columns[b].blocks) / total for a, b in every]
        scored = self._scores(_SCORES, every, blocks, expected)
        scores, functions = np.zeros((count, count)), np.zeros((count, count), dtype=bool)
        for (a, b), score, table in zip(every, scored.tolist(), expected, strict=True):
            scores[a, b] = score - noise_price(scale, table.size)
            largest = 2 * total * min(map(_diversity, (columns[a].blocks, columns[b].blocks)))
            functions[a, b] = functions[b, a] = score > _FUNCTION_SHARE * largest
        forest = select_forest(scores)
        edges = [(parent, child) for child, parent in forest if parent is not None]
        maps = [
            _finest_maps(columns[a], columns[b]) if functions[a, b] else (blocks[a], blocks[b])
            for a, b in edges
        ]
        pairs = {pair.second: pair for pair in self._tables(_PAIRS, edges, maps, columns)}
        model = PairModel(tuple(columns), tuple((child, pairs.get(child)) for child, _ in forest))
        if _FURTHER not in self.shares:
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
            places = blocks[a][drawn[a]] * shape[1] + blocks[b][drawn[b]]
            counts = np.bincount(places, minlength=math.prod(shape)).reshape(shape)
            predicted.append(np.asarray(counts * (total / rows)))
        scored = self._scores(_FURTHER_SCORES, others, blocks, predicted)
        sizes = np.array([table.size for table in predicted], dtype=np.float64)
        one = math.sqrt(2.0 / self.shares[_FURTHER]) / self.budget.mu
        noise = self.noise[_FURTHER_SCORES]
        chosen = select_further(scored, noise, sizes, one, _FURTHER_PER_COLUMN * count)
        further = [others[index] for index in chosen]
        maps = [(blocks[a], blocks[b]) for a, b in further]
        likely = [predicted[index] for index in chosen]
        tables = self._tables(_FURTHER, further, maps, columns, likely)
        return replace(model, further=tuple(tables))

    def _scores(
        self,
        name: str,
        pairs: Sequence[tuple[int, int]],
        maps: Sequence[IntArray],
        expected: Sequence[FloatArray],
    ) -> FloatArray:
        """Measure how far pairs are from what is expected."""
        exact = self.rows.sum(LabelledRows.counts, pairs, maps)
        scores = [pair_score(*tables) for tables in zip(exact, expected, strict=True)]
        sums = self.sums(name, sensitivity=up(2.0 * math.sqrt(len(pairs)), 4))
        return sums.measure(scores)

    def _tables(
        self,
        name: str,
        pairs: Sequence[tuple[int, int]],
        maps: Sequence[tuple[IntArray, IntArray]],
        columns: Sequence[ReleasedColumn],
        predicted: Sequence[FloatArray] = (),
    ) -> list[Pair]:
        """Measure pairs, large tables with less noise, and estimate consistent counts.

        What is expected without them is ``predicted``, or independence.
        """
        exact = [
            self.rows.sum(pair_counts, pair, both) for pair, both in zip(pairs, maps, strict=True)
        ]
        # Least total error: noise that falls with the cube root of the number of cells.
        parts = np.array([counts.size ** (2 / 3) for counts in exact])
        parts /= max(float(parts.sum()), 1.0) * (1 + 2.0**-30)
        tables = []
        for index, ((a, b), counts, part) in enumerate(zip(pairs, exact, parts, strict=True)):
            sums = self.sums(name, sensitivity=HISTOGRAM_MOVES, part=float(part))
            noisy = sums.measure(counts)
            first, second = (
                np.bincount(codes, columns[column].weights, size).astype(np.float64)
                for codes, column, size in zip(maps[index], (a, b), noisy.shape, strict=True)
            )
            if predicted:
                table = estimate_pair(
                    noisy, predicted[index], sums.scale, first, second, by_row=False
                )
            elif _are_steps(columns[a], maps[index][0], noisy.shape):
                table = estimate_steps(noisy, sums.scale, first, second)
            elif _are_steps(columns[b], maps[index][1], noisy.shape[::-1]):
                table = estimate_steps(noisy.T, sums.scale, second, first).T
            else:
                expected = np.outer(first, second) / float(self.records)
                table = estimate_pair(noisy, expected, sums.scale, first, second)
            tables.append(Pair(a, b, table, maps[index]))
        return tables

    def labels(self, model: PairModel) -> LabelModel | None:
        """Fit the label model on rows that are drawn from what is known, and calibrate it."""
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
        fitted = fitted.tied(additive, shares)
        cuts = score_cuts(fitted, additive)
        sums = self.sums(_CALIBRATION, sensitivity=HISTOGRAM_MOVES)
        maps = [column.bin_of_cell for column in model.columns]
        noisy = sums.measure(self.rows.sum(hit_counts, fitted, maps, cuts))
        fitted = calibrate(fitted, additive, self.groups, cuts, (noisy, sums.scale))
        if not numbers:
            fitted = fitted.sharpened(self.records * (1 - float(shares.max())))
        return fitted.tied(additive, shares)


def _group_counts(rows: LabelledRows, count: int) -> FloatArray:
    """Return how many records have which cell of the target."""
    return counted(rows.groups, count, rows.persons)
