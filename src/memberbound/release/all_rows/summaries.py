"""Statistics of all rows of a secret table, in the neighbour game: noisy sums and counts (X22).

Each record contributes one vector of bounded length, computed from that record alone, with entries
that are integer multiples of 2^-30.  So sums are exact, with exactly the sensitivities stated here
(proofs/gradient-descent.md, claim 6).  Ranges and names that are not public are learned privately.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memberbound.errors import InputError, one_of
from memberbound.numerics.rounding import FloatArray
from memberbound.quantities import significant
from memberbound.release.all_rows.bounds import Categories, Range, forms_of, read_bounds
from memberbound.release.all_rows.histograms import count_cells, noisy_names
from memberbound.release.all_rows.intervals import (
    Noise,
    NoisyMean,
    count_interval,
    covariance_intervals,
    quantile_interval,
)
from memberbound.release.all_rows.marginals import project
from memberbound.release.all_rows.private_columns import (
    histogram_share,
    learn_columns,
    look_coordinates,
    rows_needed,
    take_looks,
)
from memberbound.release.budget import HISTOGRAM_MOVES, Budget, Slack
from memberbound.release.calibration import Calibration, Release
from memberbound.release.noise import GaussianNoise, check_eta_range
from memberbound.release.precision import NumberInterval
from memberbound.release.randomness import SECURE, RandomSource
from memberbound.tables.cells import Beside, Intervals, LabelCells, Rest
from memberbound.tables.persons import Persons
from memberbound.tables.records import Records, read_records

#: Numbers in [-1, 1] are represented in units of 2^-30.
_UNITS = 2.0**30
#: Upper bound on the factor by which rounding to units and to floating point increases a norm.
_ROOM = 1.0 + 2.0**-20
_MOST_ROWS = 2**32
#: Maximum number of cells, number of bins of a range without edges, and depth of quantile trees.
_MOST_COUNTS = 100_000
_BINS = 20
_DEPTH = 12
#: Share of a covariance's budget for the means.
_MEANS = 0.25
#: Factor of sums of squares, small enough that they do not increase the sensitivity (claim 6).
_SQUARES = math.sqrt(2.0) * (1.0 - 2.0**-50)


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Released numbers with their names, the scale of their noise, and their intervals."""

    values: FloatArray
    names: Sequence[str]
    scale: float
    intervals: Sequence[NumberInterval]


@np.errstate(all="ignore")  # a warning would depend on a record
def release_table_statistic(
    table: object,
    statistic: str,
    *,
    eta: float,
    bounds: Mapping[str, object] | str | Path | None = None,
    bins: ArrayLike | None = None,
    levels: ArrayLike | None = None,
    consistent: bool = False,
    source: RandomSource = SECURE,
    reserve: Callable[[Budget], None] | None = None,
) -> Release:
    """Release a statistic of all rows such that η holds for every record of any table.

    Mean, sum, covariance and quantiles take numeric columns; histogram and contingency count cells:
    public categories, edges, or values that many rows share.  Missing values are counted and left
    out; covariances use complete rows only.  ``reserve`` is called with the budget
    before any noise is drawn (for a ledger).  ``consistent`` makes counts nonnegative and adds them
    up to the number of records; their intervals stay those of the noisy counts.

    Guarantee: an attacker who knows all other rows gains at most ``eta``, replace-one, with
    certainty.
    Theorem: X22 (proofs/gradient-descent.md, claims 1, 3, 5 and 6), for persons X26
    (proofs/persons.md): every person counts once, with the mean of their rows.
    Assumes: the number of rows (of persons, with a unit), the columns' names and types, and the
    given bounds and bins are public.
    Edge cases: numbers are clipped to the range of their column; a noisy count can be negative.
    """
    form = _STATISTICS[one_of("statistic", statistic, TABLE_STATISTICS)]
    stated = read_bounds(bounds)
    records = read_records(table, forms_of(stated))
    names, rows = list(records.columns), len(records)
    public = {name: bound for name, bound in stated.items() if name in names}
    if rows < 2 or records.rows >= _MOST_ROWS or not names:
        raise InputError("the table must have at least two rows (or persons) and a column.")
    if bins is not None:
        if statistic != "histogram":
            raise InputError("bins apply only to a histogram.")
        public[names[0]] = _edges(bins)
    if consistent and not form.counted:
        raise InputError(f"consistent applies only to histogram and contingency, got {statistic}.")
    if statistic == "histogram" and len(names) != 1:
        raise InputError(f"a histogram needs one column, got {', '.join(names)}.")
    wrong = [name for name, bound in public.items() if isinstance(bound, Categories)]
    if wrong and not form.counted:
        raise InputError(f"{statistic} needs columns of numbers, got categories {wrong[0]!r}.")
    chosen = np.atleast_1d(np.asarray((0.25, 0.5, 0.75) if levels is None else levels, float))
    if chosen.ndim != 1 or not ((chosen >= 0) & (chosen <= 1)).all():
        raise InputError(f"levels must be in [0, 1], got {levels!r}.")

    private = [name for name in names if name not in public]
    coordinates = look_coordinates(len(private)) + form.coordinates(len(names))
    budget = Budget.for_eta(
        eta,
        slack=Slack(coordinates, len(private) if form.counted else 0),
        unit=records.unit,
        source=source,
        reserve=reserve,
        bounds=tuple(public),
    )
    needed = rows_needed(len(private), budget.mu) if private else 1
    if rows < needed:
        columns = "one column" if len(private) == 1 else f"{len(private)} columns"
        raise InputError(
            f"the table must have at least about {needed} rows for {columns} without "
            f"bounds at this eta, got {rows}. Give bounds that are public knowledge."
        )
    if private:
        public |= _learn_bounds(records, private, budget, counted=form.counted)
    work = _Work(records, {name: public[name] for name in names}, budget, chosen)
    found = form.release(work)
    values = project(found.values, float(rows)) if consistent else found.values
    details = {"mu": budget.mu, "rows_trained": rows, "curve": budget.readings()}
    calibration = Calibration(
        GaussianNoise(found.scale, len(values)),
        budget.certificate(secure=source.secure),
        check_eta_range(eta),
        statistic,
        0,
        details,
    )
    return Release(
        values,
        calibration,
        tuple(found.names),
        source.secure,
        budget=budget,
        rows=rows,
        intervals=tuple(found.intervals),
        ranges={n: (b.low, b.high) for n, b in work.bounds.items() if isinstance(b, Range)},
    )


def _edges(bins: ArrayLike) -> Range:
    edges = np.asarray(bins, dtype=np.float64)
    if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
        raise InputError("bins must be at least two edges in increasing order.")
    return Range(float(edges[0]), float(edges[-1]), edges=tuple(edges.tolist()))


def _learn_bounds(
    records: Records, private: Sequence[str], budget: Budget, *, counted: bool
) -> dict[str, Range | Categories]:
    """Learn the ranges of private columns, or the values that many people share."""
    found: dict[str, Range | Categories | None] = {}
    if counted:
        share = budget.take(
            "histograms of values", histogram_share(len(private), len(records), budget.mu)
        )
        histograms = share.sums(sensitivity=HISTOGRAM_MOVES, times=len(private))
        for name in private:
            labels = noisy_names(records, name, histograms)
            found[name] = Categories(labels) if labels else None
    else:
        looks = take_looks(budget, len(private), len(records))
        learnt = learn_columns(records, private, *looks, named=False)
        found = {name: column.range for name, column in learnt.items()}
    for name, bound in found.items():
        if bound is None:
            raise InputError(
                f"column {name!r} must have values that rise above the noise. Give bounds for it."
            )
    return {name: bound for name, bound in found.items() if bound is not None}


@dataclass(frozen=True, eq=False)
class _Work:
    """Computes one statistic from records, bounds, budget, and levels of quantiles."""

    table: Records
    bounds: Mapping[str, Range | Categories]
    budget: Budget
    levels: FloatArray

    @property
    def _ranges(self) -> list[Range]:
        return [bound for bound in self.bounds.values() if isinstance(bound, Range)]

    @property
    def _halves(self) -> FloatArray:
        return np.array([bound.half for bound in self._ranges])

    def means(self, *, total: bool = False) -> _Numbers:
        """Return means or sums; each value, or its absence, contributes a vector of norm ≤ √3.

        The sums of squares cost nothing, because two such vectors are at most 2 apart (claim 6).
        """
        sums, missing, squares = self.table.shards.sum(_column_sums, self._ranges) / _UNITS
        width, rows = len(sums), len(self.table)
        share = self.budget.take("sums and missing values")
        sensitivity = 2 * math.sqrt(width) * _ROOM
        drawn = share.sums(sensitivity=sensitivity)
        noisy = drawn.measure([*sums, *missing, *squares * _SQUARES])
        noise = Noise(drawn.scale, several=True)
        present = np.clip(rows - noisy[width : 2 * width], 1.0, rows)
        columns = zip(noisy, present, noisy[2 * width :] / _SQUARES, self._ranges, strict=False)
        values, intervals = [], []
        for added, number, square, bound in columns:
            mean = NoisyMean(float(added), float(number), float(square), noise)
            value = float(bound.rescale(added / number))
            values.append(value * number if total else value)
            intervals.append(mean.intervals(bound.half, bound.middle, rows, total=total))
        return _Numbers(np.array(values), tuple(self.bounds), noise.scale, intervals)

    def covariance(self) -> _Numbers:
        """Return the covariance about the sample mean, upper triangle row by row."""
        names, rows = list(self.bounds), len(self.table)
        width = len(names)
        first, rows_with_gaps, second = self.table.shards.sum(_moments, self._ranges)
        # A row with a missing value adds √width to a separate coordinate, so all rows have equal
        # norm.
        gaps = math.sqrt(width) * (rows_with_gaps / _UNITS)
        share = self.budget.take("means", _MEANS * self.budget.left)
        noise = share.sums(sensitivity=2 * math.sqrt(width) * _ROOM)
        sums = noise.measure([*first / _UNITS, gaps])
        upper = np.triu_indices(width)
        weight = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
        further = self.budget.take("products").sums(sensitivity=math.sqrt(2.0) * width * _ROOM)
        noisy = further.measure(second / _UNITS * weight)
        present = float(np.clip(rows - sums[-1] / math.sqrt(width), 1.0, rows))
        mean = np.clip(sums[:-1] / present, -1.0, 1.0)
        moments = noisy / weight / present
        units = self._halves[upper[0]] * self._halves[upper[1]]
        values = (moments - mean[upper[0]] * mean[upper[1]]) * units
        labels = [f"{names[i]}, {names[j]}" for i, j in zip(*upper, strict=True)]
        laws = Noise(noise.scale, several=True), Noise(further.scale, several=True)
        intervals = covariance_intervals(
            values, units, pairs=upper, mean=mean, moments=moments, present=present, noises=laws
        )
        return _Numbers(values, labels, further.scale, intervals)

    def counts(self) -> _Numbers:
        """Return counts over the product of the columns' cells, each with a cell for *other*."""
        cells = {name: _count_cells(bound) for name, bound in self.bounds.items()}
        shape = tuple(column.count for column in cells.values())
        if math.prod(shape) > _MOST_COUNTS:
            raise InputError(
                f"columns must have at most {_MOST_COUNTS} cells together, got {math.prod(shape)}. "
                "Name fewer, or merge categories."
            )
        counts = self.table.shards.sum(_joint_counts, cells)
        labels = product(*([c.label(k) for k in range(c.count)] for c in cells.values()))
        drawn = self.budget.take("counts").sums(sensitivity=HISTOGRAM_MOVES)
        noisy, noise = drawn.measure(counts), Noise(drawn.scale)
        intervals = [count_interval(count, noise, len(self.table)) for count in noisy.tolist()]
        return _Numbers(noisy, list(map(", ".join, labels)), noise.scale, intervals)

    def quantiles(self) -> _Numbers:
        """Return quantiles from noisy dyadic counts; a record is in one interval of every level."""
        share = self.budget.take("counts of halves")
        noise = share.sums(sensitivity=HISTOGRAM_MOVES, times=_DEPTH * len(self.bounds))
        by_column, intervals = [], []
        leaf_counts = self.table.shards.sum(_leaf_counts, self._ranges)
        for leaves, bound in zip(leaf_counts, self._ranges, strict=True):
            halves = [
                noise.measure(leaves.reshape(2**depth, -1).sum(axis=1))
                for depth in range(1, _DEPTH + 1)
            ]
            by_column.append([_descend_to_quantile(halves, level, bound) for level in self.levels])
            ends, law = (bound.low, bound.high), Noise(noise.scale, several=True)
            intervals.append(
                [quantile_interval(halves, float(level), ends, law) for level in self.levels]
            )
        names = [f"{n} at {significant(p, 'given')}" for p in self.levels for n in self.bounds]
        ordered = [interval for row in zip(*intervals, strict=True) for interval in row]
        return _Numbers(np.array(by_column).T.ravel(), names, noise.scale, ordered)


# ── Exact sums over a shard of rows ───────────────────────────────────────────────────────────────


def _units_by_record(
    values: FloatArray | NDArray[np.bool_], persons: Persons | None
) -> NDArray[np.int64]:
    """Convert numbers in [-1, 1] to whole units per record, averaging each person's rows."""
    units = np.rint(values * _UNITS).astype(np.int64)
    return units if persons is None else persons.average(units)


def _units(values: FloatArray | NDArray[np.bool_], persons: Persons | None) -> int:
    """Return the sum over records of numbers in [-1, 1], in units.

    Every number, and every person's mean, is rounded to whole units before the summation.
    """
    return int(_units_by_record(values, persons).sum())


def _scale_columns(shard: Records, ranges: Sequence[Range]) -> Iterator[FloatArray]:
    """Yield the columns scaled to [-1, 1], with NaN where there is no number."""
    for values, bound in zip(shard.columns.values(), ranges, strict=True):
        yield bound.scale(values.numbers)


def _column_sums(shard: Records, ranges: Sequence[Range]) -> NDArray[np.int64]:
    """Return the sum, the number of missing values and the sum of squares of every column."""
    sums = []
    for scaled in _scale_columns(shard, ranges):
        gaps = np.isnan(scaled)
        numbers = _units_by_record(np.where(gaps, 0.0, scaled), shard.persons)
        squares = np.rint(np.square(numbers / _UNITS) * _UNITS).astype(np.int64)
        sums.append([int(numbers.sum()), _units(gaps, shard.persons), int(squares.sum())])
    return np.array(sums).T


def _moments(
    shard: Records, ranges: Sequence[Range]
) -> tuple[NDArray[np.int64], int, NDArray[np.int64]]:
    """Return column sums, the number of incomplete rows, and sums of pairwise products.

    Sums and products are over the complete rows.
    """
    columns = np.array([*_scale_columns(shard, ranges)])
    gaps = np.isnan(columns).any(axis=0)
    columns[:, gaps] = 0.0
    pairs = zip(*np.triu_indices(len(columns)), strict=True)
    products = [_units(columns[i] * columns[j], shard.persons) for i, j in pairs]
    sums = [_units(column, shard.persons) for column in columns]
    return np.array(sums), _units(gaps, shard.persons), np.array(products)


def _joint_counts(shard: Records, cells: Mapping[str, Beside]) -> FloatArray:
    """Count the records in every joint cell of the columns."""
    flat = np.zeros(shard.rows, dtype=np.int64)
    for name, column in cells.items():
        flat = flat * column.count + column.cell_of(shard.columns[name])
    return count_cells(flat, math.prod(column.count for column in cells.values()), shard.persons)


def _leaf_counts(shard: Records, ranges: Sequence[Range]) -> FloatArray:
    """Count the records in every leaf of every column, except missing values."""
    counts = []
    for values, bound in zip(shard.columns.values(), ranges, strict=True):
        leaves = Intervals(np.linspace(bound.low, bound.high, 2**_DEPTH + 1), "unbounded")
        cells = Beside((leaves, Rest()))
        counts.append(count_cells(cells.cell_of(values), cells.count, shard.persons)[:-1])
    return np.array(counts)


@dataclass(frozen=True)
class _Statistic:
    """A statistic's release function, and its number of noisy numbers by number of columns."""

    release: Callable[[_Work], _Numbers]
    coordinates: Callable[[int], int]
    #: Whether the statistic counts cells, and so accepts categories, instead of adding up numbers.
    counted: bool = False


_COUNTS = _Statistic(_Work.counts, lambda _: _MOST_COUNTS, counted=True)
_STATISTICS = {
    "mean": _Statistic(_Work.means, lambda columns: 3 * columns),
    "sum": _Statistic(partial(_Work.means, total=True), lambda columns: 3 * columns),
    "histogram": _COUNTS,
    "contingency": _COUNTS,
    "covariance": _Statistic(_Work.covariance, lambda columns: 2 * columns + columns**2),
    "quantiles": _Statistic(_Work.quantiles, lambda columns: columns * 2 ** (_DEPTH + 1)),
}
TABLE_STATISTICS = tuple(_STATISTICS)


def _count_cells(bound: Range | Categories) -> Beside:
    """Return the cells to count; the last cell is *other*."""
    if isinstance(bound, Categories):
        return Beside((LabelCells(bound.labels), Rest()))
    edges = bound.edges or np.linspace(bound.low, bound.high, _BINS + 1)
    return Beside((Intervals(edges, "closed", text=partial(significant, side="given")), Rest()))


def _descend_to_quantile(halves: Sequence[FloatArray], level: float, bound: Range) -> float:
    """Descend from the whole range to the leaf that contains the rank, and return its middle."""
    rank = level * max(1.0, float(halves[0].sum()))
    node = 0
    for noisy in halves:
        left = float(np.maximum(noisy[2 * node], 0.0))
        node = 2 * node + int(rank > left)
        rank -= left * (node % 2)
    return bound.low + (node + 0.5) / len(halves[-1]) * (bound.high - bound.low)
