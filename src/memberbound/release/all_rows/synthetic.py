"""A synthetic table of all rows, in the neighbour game: noisy counts, a tree, a label model.

What is counted, with noise, in this order (proofs/synthetic-tables.md):

1. what columns hold, where no bounds say it: their *cells* (:mod:`.cells`);
2. the target: its *groups*;
3. every column with the target's groups: *blocks* of cells;
4. for every pair of columns how far it is from independence given the group: one number, from
   which a *tree* of pairs is chosen;
5. the pairs of the tree with the groups: *triples*, projected onto consistent counts;
6. round by round, what a model of the target gets wrong in every block of a column: *labels*.

Small tables stop after step 3.  New rows are drawn from these numbers alone: post-processing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.files import FORMATS as TABLE_ENDINGS
from memberbound.files import table_writer
from memberbound.numerics.rounding import FloatArray, up
from memberbound.quantities import Certificate
from memberbound.release.all_rows.bounds import Bounds, Categories, Range, read_bounds
from memberbound.release.all_rows.cells import (
    FORMATS,
    MOST_CELLS,
    CategoryCells,
    Cells,
    NumberCells,
    ReleasedColumn,
    Writing,
    declared_writing,
    format_cells,
    projected,
    public_column,
    released_column,
    written_as,
)
from memberbound.release.all_rows.histograms import MOST_CLASSES, counted, noisy_identifiers
from memberbound.release.all_rows.label_model import (
    CLIP,
    FITTED_ROWS,
    ROOM,
    ROUNDS,
    LabelModel,
    fitted_labels,
    probabilities,
)
from memberbound.release.all_rows.marginals import LabelledRows, labelled_rows
from memberbound.release.all_rows.private_columns import (
    MOST_LABELS,
    learn_classes,
    learn_columns,
    look_coordinates,
    look_slack,
    rows_needed,
    take_looks,
)
from memberbound.release.all_rows.tree import best_forest, pair_score, raked_counts, shrunk_counts
from memberbound.release.budget import HISTOGRAM_MOVES, Budget, NoisySums, release_slack
from memberbound.release.calibration import Calibration
from memberbound.release.noise import GaussianNoise
from memberbound.release.randomness import SECURE, RandomSource
from memberbound.release.release_file import Writer
from memberbound.tables.records import Records
from memberbound.tables.shards import Shards

if TYPE_CHECKING:
    import pandas as pd


IntArray = NDArray[np.int64]

#: Parts of the budget for pairs of columns.
_SCORES, _TREE = "scores of pairs", "pairs of the tree"
#: Shares of what preprocessing leaves of μ², chosen once on Adult and ACS (docs/synthetic.md).
_WITH_TARGET = {"target": 0.03, "columns": 0.37, _SCORES: 0.05, _TREE: 0.30, "labels": 0.25}
_WITHOUT_TARGET = {"columns": 0.40, _SCORES: 0.08, _TREE: 0.52}
#: … and where μ·records/√columns is below this, where pairs would drown: single columns only.
_LEAST_SIGNAL = 500.0
_SINGLE_WITH_TARGET = {"target": 0.05, "columns": 0.95}
_SINGLE = {"columns": 1.0}
#: Groups of the target in the tree, and blocks of a column.
_MOST_GROUPS, _MOST_BLOCKS = 16, 32


# ── What is released, and the rows that are drawn from it ─────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class SyntheticTable:
    """Everything that was released about a table, and rows drawn from it.

    Guarantee: nothing here was computed from the secret table without noise that was paid for; so
    any number of rows may be drawn, and anything done with them.
    """

    names: tuple[str, ...]
    columns: tuple[ReleasedColumn, ...]
    #: A column, its parent in the tree, and the counts of (parent, column, group); parents first.
    tree: tuple[tuple[int, int | None, FloatArray], ...]
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
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs of columns whose joint law was counted."""
        names = [column.cells.name for column in self.columns]
        return tuple((names[p], names[c]) for c, p, _ in self.tree if p is not None)

    def blocks(self, rows: int, draws: np.random.Generator) -> tuple[list[IntArray], IntArray]:
        """Return blocks of all columns and groups of the target for new rows."""
        groups = draws.choice(len(self.groups), rows, p=self.groups / self.groups.sum())
        blocks = [np.zeros(rows, dtype=np.int64) for _ in self.columns]
        for child, parent, table in self.tree:
            coarse = self.columns[child].coarse
            law = groups if parent is None else blocks[parent] * len(self.groups) + groups
            # A law of the child's block per (parent, group), cumulated.
            steps = np.cumsum(np.moveaxis(table, 2, 1), axis=2)
            bare = steps[:, :, -1:] <= 0
            steps = np.where(bare, np.cumsum(coarse.T + 1e-9, axis=1)[None], steps)
            steps = (steps / steps[:, :, -1:]).reshape(-1, len(coarse))
            # Law k lies between k and k + 1, so that one search serves all of them.
            ends = (np.arange(len(steps))[:, None] + steps).ravel()
            place = np.searchsorted(ends, law + draws.random(rows), side="right")
            blocks[child] = np.minimum(place - law * len(coarse), len(coarse) - 1)
        return blocks, groups

    def sample(self, rows: int, source: RandomSource) -> pd.DataFrame:
        """Return new rows, with the names and the order of the columns of the table."""
        import pandas as pd

        draws = np.random.default_rng([int(word) for word in source.words(4)])
        blocks, groups = self.blocks(rows, draws)
        labels = groups
        if self.labels is not None:
            steps = np.cumsum(probabilities(self.labels.scores(blocks)), axis=1)
            shares = draws.random(rows)[:, None] * steps[:, -1:]
            labels = np.minimum((steps <= shares).sum(axis=1), steps.shape[1] - 1)
        values: dict[str, pd.Series[object]] = {}
        for column, place in zip(self.columns, blocks, strict=True):
            values[column.cells.name] = column.drawn(place, draws)
        if self.target is not None:
            values[self.target.cells.name] = self.target.drawn(labels, draws)
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
    public, writings = _declared(records, read_bounds(bounds), target)
    slack = _slack(records, public)
    budget = Budget.for_eta(eta, slack=slack, unit=unit, source=source, reserve=reserve)
    _refuse_small(records, public, budget.mu)
    cells, identifiers, left_out = _cells(records, public, writings, target, budget)
    left, count = budget.left, len(records)
    features = [column for name, column in cells.items() if name != target]
    kinds = _WITHOUT_TARGET if target is None else _WITH_TARGET
    if budget.mu * count < _LEAST_SIGNAL * math.sqrt(len(features)):
        kinds = _SINGLE if target is None else _SINGLE_WITH_TARGET
    goal = None if target is None else cells[target]
    counting = _Counting(
        records.shards.map(labelled_rows, features, goal),
        len(features),
        budget,
        {name: share * left for name, share in kinds.items()},
        np.array([float(count)]),
        {},
    )
    if goal is not None:
        counting.group_rows(goal, count)
    columns = counting.columns(features)
    model = SyntheticTable(
        names=names,
        columns=tuple(columns),
        tree=counting.triples(columns, counting.tree(columns)),
        target=counting.target,
        groups=counting.groups,
        labels=None,
        identifiers=identifiers + (() if unit is None else (unit,)),
        left_out=left_out,
        noise=counting.noise,
        budget=budget,
        records=count,
        eta=float(eta),
    )
    if "labels" not in kinds or len(counting.groups) < 2:
        return model
    return replace(model, labels=counting.labels(model))


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


def _slack(records: Records, public: Bounds) -> float:
    """Return the total variation of all counts, from public numbers alone."""
    columns = len(records.columns)
    cells = 0
    for name in records.columns:
        bound = public.get(name)
        listed = len(bound.labels) + 2 if isinstance(bound, Categories) else MOST_CELLS
        cells += max(listed, MOST_LABELS + 2)
    private = columns - len(public)
    coordinates = (
        look_coordinates(private + 1)
        + cells * (_MOST_GROUPS + 1)
        + columns**2 / 2
        + columns * _MOST_BLOCKS**2 * _MOST_GROUPS
        + ROUNDS * columns * _MOST_BLOCKS * _MOST_GROUPS
        + columns * (len(FORMATS) + 1)
    )
    return up(release_slack(coordinates) + look_slack(private + (private > 0)), 2)


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


# ── 2 to 5. Groups, columns, the tree and its triples ─────────────────────────────────────────────


#: Noise scales of a group of the target, and of a block of a column.
_GROUP_SCALES, _BLOCK_SCALES = 6.0, 5.0
#: Independence that is mixed into a pair, so that no draw is without a law.
_LEAST_SHARE = 1e-3


@dataclass(eq=False)
class _Counting:
    """What is counted, what it is paid with, and what is known so far.

    ``rows`` are shards of :class:`LabelledRows`; ``groups`` are the target's noisy counts.
    """

    rows: Shards[LabelledRows]
    width: int
    budget: Budget
    shares: Mapping[str, float]
    groups: FloatArray
    noise: dict[str, float]
    target: ReleasedColumn | None = None

    def sums(self, name: str, *, sensitivity: float, times: int = 1) -> NoisySums:
        """Return the noise of a share of the budget, and note its scale."""
        share = self.budget.take(name, min(self.shares[name], self.budget.left))
        sums = share.sums(sensitivity=sensitivity, times=times)
        self.noise[name] = sums.scale
        return sums

    def group_rows(self, cells: Cells, records: int) -> None:
        """Find the target's groups: classes that stand out, or ranges of numbers."""
        sums = self.sums("target", sensitivity=HISTOGRAM_MOVES)
        exact = self.rows.sum(LabelledRows.counts, [()], [(cells.count,)])
        noisy = sums.measure(exact[0][:, None])
        least = max(_GROUP_SCALES * sums.scale, records / _MOST_GROUPS if cells.ordered else 0.0)
        self.target = target = released_column(
            cells, noisy, self.groups, sums.scale, least=least, most=_MOST_GROUPS
        )
        # A group of nothing is hardly ever drawn.
        self.groups = np.maximum(target.coarse[:, 0], 1e-6)
        self.rows = self.rows.map(LabelledRows.with_groups, target.block_of_cell)

    def columns(self, cells: Sequence[Cells]) -> list[ReleasedColumn]:
        """Count every column with the target's groups, and go over to blocks of cells."""
        sums = self.sums("columns", sensitivity=HISTOGRAM_MOVES, times=len(cells))
        shapes = [(column.count, len(self.groups)) for column in cells]
        places = [(place,) for place in range(len(cells))]
        exact = self.rows.sum(LabelledRows.counts, places, shapes)
        least, columns = _BLOCK_SCALES * self.pair_scale, []
        for column, counts in zip(cells, exact, strict=True):
            noisy = sums.measure(counts)
            columns.append(
                released_column(
                    column, noisy, self.groups, sums.scale, least=least, most=_MOST_BLOCKS
                )
            )
        blocks = [column.block_of_cell for column in columns]
        self.rows = self.rows.map(LabelledRows.with_blocks, blocks)
        return columns

    @property
    def pair_scale(self) -> float:
        """The noise that a pair of columns has if the tree takes all of them.

        Without a tree that of single columns: blocks are made for it.
        """
        edges = max(1, self.width - 1)
        share = self.shares.get(_TREE, self.shares["columns"])
        return math.sqrt(2.0 * edges / share) / self.budget.mu

    def expected(self, a: ReleasedColumn, b: ReleasedColumn) -> FloatArray:
        """Return the counts of two columns that are independent given the target's group."""
        product = a.coarse[:, None, :] * b.coarse[None, :, :]
        return np.asarray(product / np.maximum(self.groups, 1.0))

    def tree(self, columns: Sequence[ReleasedColumn]) -> list[tuple[int, int | None]]:
        """Return a forest of pairs, chosen from noisy scores less what noise adds to a pair's."""
        pairs = list(itertools.combinations(range(len(columns)), 2))
        if not pairs or _SCORES not in self.shares:
            return [(column, None) for column in range(len(columns))]
        expected = [self.expected(columns[a], columns[b]) for a, b in pairs]
        counts = self.rows.sum(LabelledRows.counts, pairs, [e.shape for e in expected])
        exact = [*map(pair_score, counts, expected)]
        cost = [math.sqrt(0.5 / math.pi) * self.pair_scale * table.size for table in expected]
        sums = self.sums(_SCORES, sensitivity=up(2.0 * math.sqrt(len(pairs)), 4))
        scores = np.zeros((len(columns), len(columns)))
        scores[tuple(zip(*pairs, strict=True))] = sums.measure(exact) - np.array(cost)
        return best_forest(scores)

    def triples(
        self, columns: Sequence[ReleasedColumn], order: Sequence[tuple[int, int | None]]
    ) -> tuple[tuple[int, int | None, FloatArray], ...]:
        """Return the tree with consistent (parent, child, group) counts of its pairs."""
        tables: dict[tuple[int | None, int], FloatArray] = {
            (None, column): columns[column].coarse[None] for column, _ in order
        }
        edges = [(parent, child) for child, parent in order if parent is not None]
        if edges:
            sums = self.sums(_TREE, sensitivity=HISTOGRAM_MOVES, times=len(edges))
        likely = [self.expected(columns[parent], columns[child]) for parent, child in edges]
        counts = self.rows.sum(LabelledRows.counts, edges, [table.shape for table in likely])
        for (parent, child), expected, exact in zip(edges, likely, counts, strict=True):
            shrunk = shrunk_counts(sums.measure(exact), expected, sums.scale)
            slices = [
                projected(shrunk[:, :, g], max(float(expected[:, :, g].sum()), 1e-9))
                for g in range(len(self.groups))
            ]
            possible = np.isfinite(shrunk)
            possible |= ~possible.any(axis=1, keepdims=True)
            table = np.stack(slices, axis=2) + _LEAST_SHARE * np.where(possible, expected, 0.0)
            tables[parent, child] = raked_counts(
                table, columns[parent].coarse, columns[child].coarse
            )
        return tuple((child, parent, tables[parent, child]) for child, parent in order)

    def labels(self, model: SyntheticTable) -> LabelModel:
        """Return the label model, fitted on rows that are drawn from what is known so far."""
        times = ROUNDS * len(model.columns)
        sums = self.sums("labels", sensitivity=2 * CLIP * ROOM, times=times)
        size = min(max(model.records, FITTED_ROWS[0]), FITTED_ROWS[1])
        return fitted_labels(
            [column.coarse for column in model.columns],
            self.groups,
            model.blocks(size, np.random.default_rng(0))[0],
            self.rows,
            sums,
            count_scale=self.noise["columns"],
        )
