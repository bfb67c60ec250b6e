"""Unprojected noisy counts behind a synthetic table, and intervals of statistics from them.

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

#: Maximum number of values of a cell at which a statistic is evaluated.
_MOST_VALUES = 64
#: Maximum number of labels shown for a merged cell.
_MOST_LABELS = 3


@dataclass(frozen=True)
class MeasuredStatistic:
    """The mean of a statistic over all records, from noisy counts, with its intervals."""

    value: Given
    columns: tuple[str, ...]
    intervals: NumberInterval
    #: Columns with other and missing values that were counted together with named ones, and as
    #: those.
    recoded: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class NoisyMarginal:
    """Noisy joint counts of some columns; ``codes`` map each column's cells to an axis."""

    cells: tuple[Cells, ...]
    codes: tuple[IntArray, ...]
    counts: FloatArray
    scale: float

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, one per axis."""
        return tuple(column.name for column in self.cells)

    def _axes(self, columns: Sequence[str]) -> tuple[FloatArray, list[int], int]:
        """Return the marginal counts of some columns, their axes, and the cells summed for each."""
        axes = [self.columns.index(name) for name in columns]
        away = tuple(axis for axis in range(self.counts.ndim) if axis not in axes)
        summed = self.counts.sum(axis=away)
        kept = [axis for axis in range(self.counts.ndim) if axis in axes]
        turned = np.transpose(summed, [kept.index(axis) for axis in axes])
        return turned, axes, self.counts.size // summed.size

    def frame(self, columns: Sequence[str], records: int) -> pd.DataFrame:
        """Return a row per cell: labels, noisy count, standard error and intervals."""
        import pandas as pd

        counts, axes, added = self._axes(columns)
        noise = Noise(self.scale, length=math.sqrt(added), several=added > 1)
        labels = [self._labels(axis) for axis in axes]
        lines = []
        for names, count in zip(itertools.product(*labels), counts.ravel().tolist(), strict=True):
            bar = count_interval(count, noise, records)
            lines.append(dict(zip(columns, names, strict=True)) | {"count": count} | vars(bar))
        return pd.DataFrame(lines)

    def _labels(self, axis: int) -> list[str]:
        """Return a label for every code of an axis."""
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
        """Return the statistic in every cell of the columns; None if it varies within a cell."""
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

        Other and missing values that were counted with named ones are treated as those.
        """
        cells, codes = self.cells[axis], self.codes[axis]
        for code in range(int(codes.max()) + 1):
            inside = np.flatnonzero(codes == code).tolist()
            inside = [cell for cell in inside if cell not in _rest(cells)] or inside
            yield [value for cell in inside for value in _cell_values(cells, cell)]

    def recoded(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the columns with other or missing values in a cell of named ones."""
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

        The number of records is known, so a constant adds no noise: only the centred weights do.
        """
        counts, _, added = self._axes(columns)
        centre, low, width = float(weights.mean()), float(weights.min()), float(np.ptp(weights))
        value = centre + float(((weights - centre) * counts).sum()) / records
        if width == 0:
            raise InputError(
                f"statistic must differ between the cells of {' and '.join(columns)}, got {low!r} "
                "for each. A value without its own cell counts as 'other'."
            )
        length = float(np.linalg.norm(weights - centre)) * math.sqrt(added)
        noise = Noise(self.scale, length=length / width, several=True)
        # Noisy sums of the values, scaled to [0, 1], and of their squares.
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
    """Return the finest noisy joint counts of these columns."""
    wanted = (columns,) if isinstance(columns, str) else tuple(columns)
    if not wanted or len(set(wanted)) != len(wanted):
        raise InputError(f"columns must be distinct column names, got {columns!r}.")
    found = _measured_together(measured, wanted)
    sizes = [math.prod(int(m.codes[m.columns.index(c)].max()) + 1 for c in wanted) for m in found]
    best = max(zip(sizes, (-m.counts.size for m in found), range(len(found)), strict=True))[2]
    return found[best].frame(wanted, records)


def estimate_statistic(
    measured: Sequence[NoisyMarginal], statistic: Callable[..., float], records: int
) -> MeasuredStatistic:
    """Return the mean over all records of a function of some columns, with its intervals.

    The function's arguments are named like the columns.  Among the measurements that determine the
    mean, the one with the least noise is used.  Which cells are merged can depend on the noise of
    another one of them, which costs less than a point of coverage (proofs/intervals.md, claim 7).
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
    """Return the marginals that contain all of these columns."""
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
    """Return all values of a cell if there are few, or else some that are spread over it."""
    if isinstance(cells, CategoryCells):
        return [[*cells.labels, OTHER, None][cell]]
    if cell >= cells.ordered:
        return [[*cells.texts, math.nan][cell - cells.ordered]]
    low, high = cells.edges[cell], cells.edges[cell + 1]
    steps = round((high - low) / cells.step) if cells.step > 0 else _MOST_VALUES
    places = np.unique(np.linspace(0, steps - 1, min(steps, _MOST_VALUES)).astype(int))
    values = (low + (places + 0.5) * (high - low) / steps).tolist()
    if cells.step == 0:
        # Include both ends of the half-open cell [low, high).
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
