"""Noisy counts of a synthetic table as they were measured, with intervals of what they determine.

Synthetic rows are drawn from consistent estimates, which are biased: cells are merged, shrunk and
made nonnegative.  Intervals are computed from the unprojected counts instead (X32 (d)).
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from memberbound.answers import Given
from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray, IntArray
from memberbound.release.all_rows.cells import OTHER, CategoryCells, Cells, NumberCells
from memberbound.release.all_rows.intervals import Noise, bounded_interval, count_interval
from memberbound.release.precision import NumberInterval
from memberbound.tables.spelling import iso_date

if TYPE_CHECKING:
    import pandas as pd

#: Values of a cell for which a statistic is evaluated, at most.
_MOST_VALUES = 64
#: Labels that name a merged cell; more are abbreviated.
_MOST_LABELS = 3


@dataclass(frozen=True)
class MeasuredStatistic:
    """The mean of a statistic over all records, from noisy counts, with its intervals."""

    value: Given
    columns: tuple[str, ...]
    intervals: NumberInterval
    #: Columns whose other and missing values were counted together with named ones, as these.
    recoded: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class NoisyMarginal:
    """Noisy counts of some columns together; ``codes`` map each column's cells to an axis."""

    cells: tuple[Cells, ...]
    codes: tuple[IntArray, ...]
    counts: FloatArray
    scale: float

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, one per axis."""
        return tuple(column.name for column in self.cells)

    def _axes(self, columns: Sequence[str]) -> tuple[FloatArray, list[int], int]:
        """Return the counts of these columns alone, their axes, and the cells added up for each."""
        axes = [self.columns.index(name) for name in columns]
        away = tuple(axis for axis in range(self.counts.ndim) if axis not in axes)
        summed = self.counts.sum(axis=away)
        kept = [axis for axis in range(self.counts.ndim) if axis in axes]
        turned = np.transpose(summed, [kept.index(axis) for axis in axes])
        return turned, axes, self.counts.size // summed.size

    def frame(self, columns: Sequence[str], records: int) -> pd.DataFrame:
        """Return a line per cell: labels, noisy count, standard error and intervals."""
        import pandas as pd

        counts, axes, added = self._axes(columns)
        noise = Noise(self.scale, length=math.sqrt(added))
        labels = [self._labels(axis) for axis in axes]
        lines = []
        for names, count in zip(itertools.product(*labels), counts.ravel().tolist(), strict=True):
            bar = count_interval(count, noise, records)
            lines.append(dict(zip(columns, names, strict=True)) | {"count": count} | vars(bar))
        return pd.DataFrame(lines)

    def _labels(self, axis: int) -> list[str]:
        """Return what each code of an axis holds."""
        cells, codes, found = self.cells[axis], self.codes[axis], []
        for code in range(int(codes.max()) + 1):
            labels = [cells.label(cell) for cell in np.flatnonzero(codes == code).tolist()]
            if isinstance(cells, NumberCells) and len(labels) > 1 and " to " in labels[0]:
                inner = [label for label in labels if " to " in label]
                labels = [f"{inner[0].split(' to ')[0]} to {inner[-1].split(' to ')[-1]}"] + [
                    label for label in labels if " to " not in label
                ]
            more = ["…"] * (len(labels) > _MOST_LABELS)
            found.append(", ".join(labels[:_MOST_LABELS] + more))
        return found

    def coefficients(
        self, statistic: Callable[..., float], columns: Sequence[str]
    ) -> FloatArray | None:
        """Return the statistic for every cell of the columns; None if a cell has several values."""
        counts, axes, _ = self._axes(columns)
        values = [list(self._values(axis)) for axis in axes]
        found = np.empty(counts.shape)
        for place in np.ndindex(counts.shape):
            inside = [values[axis][code] for axis, code in enumerate(place)]
            seen = {_number(statistic, chosen, columns) for chosen in itertools.product(*inside)}
            if len(seen) != 1:
                return None
            found[place] = seen.pop()
        return found

    def _values(self, axis: int) -> Iterator[list[Any]]:
        """Yield the values that each code of an axis stands for.

        Other and missing values that were counted with named ones count as these.
        """
        cells, codes = self.cells[axis], self.codes[axis]
        for code in range(int(codes.max()) + 1):
            inside = np.flatnonzero(codes == code).tolist()
            inside = [cell for cell in inside if cell not in _rest(cells)] or inside
            yield [value for cell in inside for value in _cell_values(cells, cell)]

    def recoded(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the columns whose other or missing values share a cell with named ones."""
        found = []
        for axis in self._axes(columns)[1]:
            cells, codes = self.cells[axis], self.codes[axis]
            rest = _rest(cells)
            named = {int(code) for cell, code in enumerate(codes) if cell not in rest}
            if named & {int(codes[cell]) for cell in rest}:
                found.append(cells.name)
        return tuple(found)

    def estimate(
        self, weights: FloatArray, columns: Sequence[str], records: int
    ) -> MeasuredStatistic:
        """Return the mean over the records of a statistic with these values.

        The number of records is known, so a constant is free: the noise is that of the centred
        weights.
        """
        counts, _, added = self._axes(columns)
        centre, low, width = float(weights.mean()), float(weights.min()), float(np.ptp(weights))
        value = centre + float(((weights - centre) * counts).sum()) / records
        if width == 0:
            same = NumberInterval.between(0.0, (value, value), (value, value))
            return MeasuredStatistic(value, tuple(columns), same)
        length = float(np.linalg.norm(weights - centre)) * math.sqrt(added)
        noise = Noise(self.scale, length=length / width)
        # Of values in [0, 1]: their noisy sum, and the noisy sum of their squares.
        unit, total = (weights - low) / width, records * (value - low) / width
        if np.isin(unit, (0.0, 1.0)).all():
            bar = count_interval(total, noise, records)
            ends = (bar.population_lower or 0.0, bar.population_upper or 0.0)
        else:
            middle = float(np.square(unit).mean())
            squares = records * middle + float(((np.square(unit) - middle) * counts).sum())
            ends = bounded_interval(total, squares, noise, records)
        scaled = width / records
        half = noise.half * scaled
        population = (low + scaled * ends[0], low + scaled * ends[1])
        bars = NumberInterval.between(
            noise.error * scaled, (value - half, value + half), population
        )
        return MeasuredStatistic(value, tuple(columns), bars, self.recoded(columns))


def read_marginal(
    measured: Sequence[NoisyMarginal], columns: Sequence[str], records: int
) -> pd.DataFrame:
    """Return the finest noisy counts of these columns together."""
    wanted = (columns,) if isinstance(columns, str) else tuple(columns)
    if not wanted or len(set(wanted)) != len(wanted):
        raise InputError(f"columns must be different names of columns, got {columns!r}.")
    found = _measured_together(measured, wanted)
    sizes = [math.prod(int(m.codes[m.columns.index(c)].max()) + 1 for c in wanted) for m in found]
    best = max(zip(sizes, (-m.counts.size for m in found), range(len(found)), strict=True))[2]
    return found[best].frame(wanted, records)


def estimate_statistic(
    measured: Sequence[NoisyMarginal], statistic: Callable[..., float], records: int
) -> MeasuredStatistic:
    """Return the mean over all records of a function of some columns, with its intervals.

    Its arguments are named like the columns.  Of the measurements that determine it the one with
    the least noise is used; which it is does not depend on the noise.
    """
    try:
        columns = tuple(inspect.signature(statistic).parameters)
    except (TypeError, ValueError):
        columns = ()
    if not columns:
        raise InputError(
            "statistic must be a function whose arguments are columns, such as "
            f"lambda age: age > 40, got {statistic!r}."
        )
    found = []
    for marginal in _measured_together(measured, columns):
        weights = marginal.coefficients(statistic, columns)
        if weights is not None:
            found.append(marginal.estimate(weights, columns, records))
    if not found:
        raise InputError(
            f"statistic must have one value in every cell in which {' and '.join(columns)} were "
            "counted, got several: no interval was shown to hold for it. See marginal() for the "
            "cells."
        )
    return min(found, key=lambda made: made.intervals.standard_error or 0.0)


def _measured_together(
    measured: Sequence[NoisyMarginal], columns: tuple[str, ...]
) -> list[NoisyMarginal]:
    """Return the marginals that have all of these columns."""
    found = [marginal for marginal in measured if set(columns) <= set(marginal.columns)]
    if not found:
        known = sorted({", ".join(marginal.columns) for marginal in measured})
        raise InputError(
            f"columns must have been measured together, got {', '.join(columns)}; measured were: "
            f"{'; '.join(known)}."
        )
    return found


def _rest(cells: Cells) -> tuple[int, ...]:
    """Return the cells of other and missing values."""
    return cells.rare if isinstance(cells, CategoryCells) else (cells.count - 1,)


def _cell_values(cells: Cells, cell: int) -> list[Any]:
    """Return values of a cell: all of a few, or some that are spread over it."""
    if isinstance(cells, CategoryCells):
        return [[*cells.labels, OTHER, None][cell]]
    if cell >= cells.ordered:
        return [[*cells.texts, math.nan][cell - cells.ordered]]
    low, high = cells.edges[cell], cells.edges[cell + 1]
    steps = round((high - low) / cells.step) if cells.step > 0 else _MOST_VALUES
    places = np.unique(np.linspace(0, steps - 1, min(steps, _MOST_VALUES)).astype(int))
    values = (low + (places + 0.5) * (high - low) / steps).tolist()
    if cells.step == 0:
        # The ends belong to what may be cut off: [low, high).
        values = [low, *values, float(np.nextafter(high, -math.inf))]
    elif cells.step >= 1:
        values = [round(value) for value in values]
    else:
        values = [round(value, 12) for value in values]
    return [iso_date(v) for v in values] if cells.writing in ("day", "time") else values


def _number(
    statistic: Callable[..., float], values: Sequence[Any], columns: Sequence[str]
) -> float:
    """Return the statistic of a record, as a finite number."""
    where = ", ".join(f"{name} = {value!r}" for name, value in zip(columns, values, strict=True))
    try:
        found = statistic(*values)
    except Exception as error:
        raise InputError(
            f"statistic must return a number for {where}, got {type(error).__name__}: {error}."
        ) from error
    numeric = isinstance(found, (bool, int, float, np.bool_, np.integer, np.floating))
    if not numeric or not math.isfinite(found):
        raise InputError(f"statistic must return a number for {where}, got {found!r}.")
    return float(found)
