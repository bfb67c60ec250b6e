"""Encoders: maps from the columns of single records to bounded features.

An encoder holds public or released numbers only; it is stored with a released model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.bounds import Range
from memberbound.release.all_rows.clipping import GRID, on_grid
from memberbound.release.all_rows.histograms import FIXED_CELLS, ROWS_AT_ONCE
from memberbound.scratch import large_array
from memberbound.tables.cells import Beside, Cells, LabelCells, Rest, Selected
from memberbound.tables.persons import row_cuts
from memberbound.tables.spelling import Form
from memberbound.tables.values import Values

#: Standardised numbers are clipped at this many standard deviations.
_FARTHEST = 3.0
#: Mean square of an encoded number; that of an indicator is 1.
_NUMBER_SQUARE = 0.25
#: Maximum number of unknown values that are quoted.
_LISTED = 5


@dataclass(frozen=True)
class Scaling:
    """t = x or arsinh(x/unit), clipped to [low, high]; encoded as ½·(t - centre)/spread.

    Encoded numbers are clipped again to ±``limit``.
    """

    low: float
    high: float
    centre: float
    spread: float
    unit: float = 0.0
    limit: float = _FARTHEST / 2

    def transform(self, numbers: FloatArray) -> FloatArray:
        """Return t; NaN stays NaN."""
        moved = np.arcsinh(numbers / self.unit) if self.unit > 0 else numbers
        return np.clip(moved, self.low, self.high)

    def encode(self, numbers: FloatArray) -> FloatArray:
        """Return bounded numbers; missing ones are imputed with the centre."""
        shifted = (self.transform(numbers) - self.centre) / (2 * self.spread)
        return np.where(np.isnan(shifted), 0.0, np.clip(shifted, -self.limit, self.limit))


def public_scaling(bound: Range, mean: float = 0.0) -> Scaling:
    """Return the scaling that maps [low, high] to [-1, 1], centred at ``mean`` in these units."""
    centre = bound.middle + mean * bound.half
    return Scaling(bound.low, bound.high, centre, bound.half / 2, 0.0, 2.0)


@dataclass(frozen=True)
class ColumnCode:
    """The encoding of a column: a number, and indicators of labels, of cells and of *other*.

    Edge cases: a column with no signal above the noise (identifiers, free text) has no
    code: its width is 0.
    """

    name: str
    scaling: Scaling | None = None
    labels: tuple[str, ...] = ()
    cells: tuple[int, ...] = ()
    other: bool = False
    form: Form = "any"
    #: Public edges of the bins of boosting; empty: derived from the scaling.
    edges: tuple[float, ...] = ()

    @property
    def indicators(self) -> int:
        """Number of indicator columns."""
        return len(self.labels) + len(self.cells) + int(self.other)

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return self.indicators + int(self.scaling is not None)

    @property
    def mean_square(self) -> float:
        """The column's nominal contribution to a row's squared norm."""
        return _NUMBER_SQUARE * (self.scaling is not None) + float(self.indicators > 0)

    @property
    def known(self) -> Cells:
        """The cells of public labels, or of the histogram, that have an indicator."""
        return LabelCells(self.labels) if self.labels else Selected(FIXED_CELLS, self.cells)

    @cached_property
    def indicator_cells(self) -> Beside:
        """The cell of every indicator; values outside these cells set no indicator."""
        return Beside((self.known, Rest()) if self.other else (self.known,))

    def unseen(self, read: Mapping[str, Values]) -> list[str]:
        """Return a note on the number of unknown values in this column."""
        if not self.width:
            return []
        values = read[self.name]
        seen = values.absent | (self.known.cell_of(values) >= 0)
        if self.scaling is not None:
            seen |= ~np.isnan(values.numbers)
        unseen = np.flatnonzero(~seen)
        if not unseen.size:
            return []
        names = dict.fromkeys(values.label(int(row)) for row in unseen[:_LISTED])
        shown = ", ".join(map(repr, names)) + (", …" if unseen.size > _LISTED else "")
        rows = f"{unseen.size} row{'' if unseen.size == 1 else 's'}"
        if self.scaling is not None:
            return [f"{self.name!r} holds text instead of a number in {rows} ({shown})"]
        return [f"{self.name!r} holds in {rows} a category that the model does not know ({shown})"]


@dataclass(frozen=True)
class Encoder:
    """A map from single records to bounded features, given by released numbers.

    Guarantee: every number in it is public or charged to the privacy budget.
    """

    columns: tuple[ColumnCode, ...]

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return sum(code.width for code in self.columns)

    @property
    def length(self) -> float:
        """The nominal norm of a row, by which rows are divided."""
        return math.sqrt(max(1.0, sum(code.mean_square for code in self.columns)))

    @property
    def forms(self) -> dict[str, Form]:
        """The forms of the columns' values."""
        return {code.name: code.form for code in self.columns}

    @property
    def used(self) -> tuple[ColumnCode, ...]:
        """The columns that have a code."""
        used = tuple(code for code in self.columns if code.width)
        if not used:
            raise InputError(
                "the table must have a column that rises above the noise, got none. Give bounds "
                "for its columns."
            )
        return used

    @cached_property
    def layout(self) -> Layout:
        """The feature indices of numbers and indicators."""
        numbers, indicators, start = [], [], 0
        for code in self.used:
            if code.scaling is not None:
                numbers.append(start)
            if code.indicators:
                indicators.append(slice(start + code.width - code.indicators, start + code.width))
            start += code.width
        return Layout(numbers, indicators, float(on_grid(np.array(1 / self.length))), start)

    def rows(self, read: Mapping[str, Values], memory: int | None = None) -> EncodedRows:
        """Encode rows column by column; on disk if they are larger than ``memory``."""
        numeric = [code for code in self.used if code.scaling is not None]
        listed = [code for code in self.used if code.indicators]
        count = len(read[self.used[0].name])
        kind = np.min_scalar_type(max([code.indicators for code in listed], default=0))
        numbers = large_array((len(numeric), count), np.dtype(np.int16), memory)
        indices = large_array((len(listed), count), kind, memory)
        for code in self.used:
            values = read[code.name]
            for cut in row_cuts(count, None, ROWS_AT_ONCE):
                if code.scaling is not None:
                    scaled = on_grid(code.scaling.encode(values.numbers_at(cut)) / self.length)
                    numbers[numeric.index(code), cut] = np.rint(scaled * GRID)
                if code.indicators:
                    indices[listed.index(code), cut] = (
                        code.indicator_cells.cell_of(values.take(cut)) + 1
                    )
        return EncodedRows(self.layout, numbers, indices)

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {"columns": [asdict(code) for code in self.columns]}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Encoder:
        """Restore the encoder from the fields of :meth:`to_dict`."""
        return cls(tuple(map(_code_from, fields["columns"])))


@dataclass(frozen=True)
class Layout:
    """Feature indices of numbers and indicators; an indicator is 0 or ``one``."""

    numbers: list[int]
    indicators: list[slice]
    one: float
    width: int


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Encoded rows in at most two bytes per column: grid numbers and indices of indicators.

    ``numbers`` and ``indices`` have a row per column; index 0 means no indicator.
    """

    layout: Layout
    numbers: NDArray[np.signedinteger]
    indices: NDArray[np.unsignedinteger]

    def __len__(self) -> int:
        return int(self.numbers.shape[1])

    def __getitem__(self, rows: slice | NDArray[np.generic]) -> EncodedBlock:
        """Return some rows as a block for products."""
        indices = self.indices[:, rows].astype(np.intp)
        return EncodedBlock(self.layout, self.numbers[:, rows] / GRID, indices)


@dataclass(frozen=True, eq=False)
class EncodedBlock:
    """A block of rows with exact products: with parameters, and transposed with residuals."""

    layout: Layout
    numbers: FloatArray
    indices: NDArray[np.intp]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and width."""
        return self.numbers.shape[1], self.layout.width

    def squares(self) -> FloatArray:
        """Return the squared length of every row."""
        lengths = np.einsum("ij,ij->j", self.numbers, self.numbers)
        return np.asarray(lengths + self.layout.one**2 * np.count_nonzero(self.indices, axis=0))

    def __matmul__(self, theta: FloatArray) -> FloatArray:
        """Return the scores of all rows."""
        scores = np.asarray(self.numbers.T @ theta[self.layout.numbers])
        for index, inside in zip(self.indices, self.layout.indicators, strict=True):
            table = np.vstack([np.zeros(theta.shape[1]), self.layout.one * theta[inside]])
            scores += table[index]
        return scores

    def transpose_dot(self, residuals: FloatArray) -> FloatArray:
        """Return the product of the transposed rows with residuals, a column per output."""
        total = np.zeros((self.layout.width, residuals.shape[1]))
        total[self.layout.numbers] = self.numbers @ residuals
        for index, inside in zip(self.indices, self.layout.indicators, strict=True):
            for output, column in enumerate(residuals.T):
                sums = np.bincount(index, column, inside.stop - inside.start + 1)
                total[inside, output] = self.layout.one * sums[1:]
        return total

    def matrix(self) -> sparse.csr_array:
        """Convert the rows to a sparse matrix, with an entry per column."""
        starts = np.array([inside.start for inside in self.layout.indicators], dtype=np.intp)
        entries = np.column_stack([self.numbers.T, (self.indices.T > 0) * self.layout.one])
        columns = np.empty(entries.shape, dtype=np.intp)
        columns[:, : len(self.numbers)] = self.layout.numbers
        columns[:, len(self.numbers) :] = starts + np.maximum(self.indices.T, 1) - 1
        ends = np.arange(len(entries) + 1) * entries.shape[1]
        return sparse.csr_array((entries.ravel(), columns.ravel(), ends), shape=self.shape)


def _code_from(fields: Mapping[str, Any]) -> ColumnCode:
    scaling = fields["scaling"]
    return ColumnCode(
        str(fields["name"]),
        None if scaling is None else Scaling(**scaling),
        tuple(map(str, fields["labels"])),
        tuple(map(int, fields["cells"])),
        bool(fields["other"]),
        str(fields["form"]),
        tuple(map(float, fields.get("edges", ()))),
    )


@dataclass(frozen=True)
class TargetCode:
    """The target: named classes, or a range of numbers mapped to [-1, 1]."""

    name: str
    classes: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    form: Form = "any"

    @property
    def range(self) -> Range:
        """The range of a numeric target."""
        return Range(self.low, self.high, self.form)

    def read(self, values: Values) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
        """Return class codes or scaled numbers, and a mask of the rows that have one."""
        if self.classes:
            codes = values.positions(self.classes)
            return codes.astype(np.min_scalar_type(-1 - len(self.classes))), codes >= 0
        scaled = self.range.scale(values.numbers)
        return np.nan_to_num(scaled, nan=0.0), ~np.isnan(scaled)

    def numbers(self, scaled: FloatArray) -> FloatArray:
        """Return predictions in the target's own units."""
        return self.range.rescale(scaled)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> TargetCode:
        """Restore the target from its ``asdict``."""
        return cls(**{**fields, "classes": tuple(map(str, fields["classes"]))})
