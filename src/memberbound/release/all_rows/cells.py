"""Discretise columns into cells, and draw values from cells, for synthetic tables.

A numeric column is cut at public or privately learnt edges, a categorical column has one cell per
label; both have a cell for missing values.  The cell of a value depends on this value and on
public or released numbers only.  A draw from a cell has the column's decimals: whole numbers stay
whole, dates stay dates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from memberbound.numerics.rounding import FloatArray, IntArray
from memberbound.release.all_rows.bounds import Categories, Range
from memberbound.tables.cells import Absent, Beside, Intervals, LabelCells, Rest
from memberbound.tables.spelling import Form, iso_date, number_label
from memberbound.tables.values import Values

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

#: Formats of numbers: this many decimals, more decimals, a day, a time.
Writing = Literal["0", "1", "2", "3", "more", "day", "time"]
WRITINGS: tuple[Writing, ...] = ("0", "1", "2", "3", "more", "day", "time")
#: Minimum and maximum number of linear cells of a range; maximum number of cells of a numeric
#: column.
LINEAR, MOST_LINEAR = 64, 1024
#: Ranges of at most this many values have a cell per value.
_MOST_VALUES = 500
#: … even if public edges are coarser, for at most this many values.
_FEW_VALUES = 16
#: Maximum number of texts among numbers that get a cell of their own.
MOST_TEXTS = 8
MOST_CELLS = 1200
#: Number of octaves below the largest end of a range with their own edge.
_OCTAVES = 16
#: Maximum share of numbers with more decimals than the column's format.
_FEW = 0.01
#: Keep a format only if its noisy count exceeds this many noise scales.
_FORMAT_SCALES = 3.5
OTHER = "other"
#: Range of calendar days: the years 1 to 9999.
_CALENDAR = (-719_162.0, 2_932_895.0)


@dataclass(frozen=True)
class NumberCells:
    """Cells [edge, next edge) of numbers or days, one cell per text, and one for missing values.

    ``step`` is the distance between neighbouring values, or 0 if there is none.  ``texts`` are
    texts that occur among the numbers, such as codes for unknown values.
    """

    name: str
    edges: tuple[float, ...]
    step: float
    writing: Writing
    form: Form = "any"
    texts: tuple[str, ...] = ()
    #: Cells that were empty in a noisy histogram: kept only if their count exceeds the noise.
    empty: tuple[int, ...] = ()

    @cached_property
    def _cells(self) -> Beside:
        intervals = Intervals(self.edges, "unbounded")
        return Beside((intervals, LabelCells(self.texts), Rest("missing")))

    @property
    def count(self) -> int:
        """Number of cells; the last one is for missing values."""
        return self._cells.count

    @property
    def ordered(self) -> int:
        """Number of cells in an order; the others have no neighbours."""
        return len(self.edges) - 1

    @property
    def rare(self) -> tuple[int, ...]:
        """Cells that are kept only if their count exceeds the noise."""
        return (*self.empty, self.count - 1)

    def label(self, cell: int) -> str:
        """Return a readable description of a cell."""
        if cell >= self.ordered:
            return self._cells.label(cell)
        low, high = self.edges[cell], self.edges[cell + 1]
        if self.writing in ("day", "time"):
            return f"{iso_date(low)} to {iso_date(high)}"
        return f"{low:g} to {high:g}"

    def cell_of(self, values: Values) -> IntArray:
        """Return the cell of every value, with numbers clipped to the range."""
        return self._cells.cell_of(values)

    def draw(
        self, first: IntArray, last: IntArray, draws: np.random.Generator
    ) -> pd.Series[object]:
        """Draw a value from every run of cells, first to last.

        If the column has texts, numbers are returned as texts too, so that it has one type.
        """
        import pandas as pd

        numbers = self._numbers(first, last, draws)
        if not self.texts:
            return numbers
        texts = np.array([*self.texts, None], dtype=object)
        beside = pd.Series(texts[np.maximum(first - self.ordered, 0)], dtype=object)
        # Dates are already texts or timestamps.
        written = numbers.map(
            lambda value: number_label(value) if isinstance(value, float) else str(value),
            na_action="ignore",
        ).astype(object)
        return written.where(pd.Series(first < self.ordered), beside)

    def _numbers(
        self, first: IntArray, last: IntArray, draws: np.random.Generator
    ) -> pd.Series[object]:
        import pandas as pd

        edges = np.array(self.edges)
        gone = first >= self.ordered
        low = edges[np.where(gone, 0, first)]
        high = edges[np.where(gone, 1, last + 1)]
        share = draws.random(len(low))
        if self.step > 0:
            steps = np.maximum(1.0, np.rint((high - low) / self.step))
            numbers = low + (np.floor(share * steps) + 0.5) * self.step
        else:
            alone = high <= np.nextafter(low, math.inf)
            numbers = np.where(alone, low, low + share * (high - low))
        if self.writing in ("day", "time"):
            days = np.clip(numbers, *_CALENDAR)
            days = np.rint(days) if self.writing == "day" else days
            return self._dates(np.where(gone, np.nan, days))
        decimals = int(self.writing) if self.writing.isdigit() else None
        if decimals == 0 and max(map(abs, self.edges)) < 2.0**53:
            return pd.Series(np.rint(numbers).astype(np.int64), dtype="Int64").mask(gone)
        if decimals is not None:
            numbers = np.round(numbers, decimals)
        return pd.Series(np.where(gone, np.nan, numbers))

    def _dates(self, days: FloatArray) -> pd.Series[object]:
        import pandas as pd

        if "%" in self.form or self.writing == "day":
            # A table has few distinct days, so format each once.
            moments = days if self.writing == "day" else np.rint(days * 86_400) / 86_400
            different, inverse = np.unique(moments, return_inverse=True)
            if "%" in self.form:
                stamps = pd.Series(np.rint(different * 86_400), dtype="Float64")
                stamps = pd.to_datetime(stamps, unit="s", errors="coerce")
                texts = stamps.dt.strftime(self.form).astype(object)
            else:
                texts = pd.Series([iso_date(day) for day in np.nan_to_num(different).tolist()])
            texts = texts.astype(object).where(~np.isnan(different), None)
            return pd.Series(texts.to_numpy()[inverse], dtype=object)
        micros = np.where(np.isnan(days), np.iinfo(np.int64).min, np.rint(days * 86_400) * 1e6)
        return pd.Series(micros.astype(np.int64).astype("datetime64[us]"))


@dataclass(frozen=True)
class CategoryCells:
    """A cell per label, one for other values, one for missing ones."""

    name: str
    labels: tuple[str, ...]
    form: Form = "any"

    @cached_property
    def _cells(self) -> Beside:
        return Beside((LabelCells(self.labels), Rest(OTHER), Absent("missing")))

    @property
    def count(self) -> int:
        """Number of cells."""
        return self._cells.count

    @property
    def ordered(self) -> int:
        """Number of cells in an order: none."""
        return 0

    @property
    def rare(self) -> tuple[int, ...]:
        """Cells that are kept only if their count exceeds the noise."""
        return (self.count - 2, self.count - 1)

    def label(self, cell: int) -> str:
        """Return a readable description of a cell."""
        return self._cells.label(cell)

    def cell_of(self, values: Values) -> IntArray:
        """Return the cell of every value."""
        return self._cells.cell_of(values)

    def draw(
        self, first: IntArray, last: IntArray, draws: np.random.Generator
    ) -> pd.Series[object]:
        """Return the label of every cell in ``first``."""
        import pandas as pd

        del last, draws
        texts = np.array([*self.labels, OTHER, None], dtype=object)
        return pd.Series(texts[first], dtype=object)


Cells = NumberCells | CategoryCells


# ── Formats that the declared type of a column makes public ───────────────────────────────────────


def writing_from_type(kind: object, form: Form) -> Writing | tuple[str, ...] | None:
    """Return the format of numbers, or all labels, that a declared type implies, else None.

    ``kind`` is a type of Arrow or pandas, or None.  The categories of a pandas categorical are not
    used, because they are usually inferred from the rows.
    """
    from pyarrow import types

    if "%" in form:
        return "time" if any(mark in form for mark in ("%H", "%I", "%T", "%X", "%c")) else "day"
    declared = _arrow_type(kind)
    if declared is None:
        return None
    if types.is_boolean(declared):
        return ("False", "True")
    if types.is_integer(declared):
        return "0"
    if types.is_date(declared):
        return "day"
    return "time" if types.is_timestamp(declared) else None


def _arrow_type(kind: object) -> pa.DataType | None:
    """Convert a type of Arrow, numpy or pandas to Arrow's, or return None."""
    import pyarrow as pa

    kind = getattr(kind, "pyarrow_dtype", getattr(kind, "numpy_dtype", kind))
    if isinstance(kind, np.dtype):
        try:
            return pa.from_numpy_dtype(kind)
        except pa.ArrowException:  # objects, long doubles
            return None
    return kind if isinstance(kind, pa.DataType) else None


# ── Formats of numbers without a declared type, from a separate histogram ─────────────────────────


def step_of(writing: Writing) -> float:
    """Return the distance between neighbouring values in this format, or 0."""
    return 10.0 ** -int(writing) if writing.isdigit() else float(writing == "day")


def format_cells(values: Values) -> IntArray:
    """Return the index of every value's format in :data:`WRITINGS`; non-numbers come last."""
    numbers = values.numbers
    cells = np.full(len(numbers), WRITINGS.index("more"))
    with np.errstate(all="ignore"):
        for decimals in (3, 2, 1, 0):
            scaled = numbers * 10.0**decimals
            near = np.abs(scaled - np.rint(scaled)) <= 1e-9 * np.maximum(1.0, np.abs(scaled))
            cells[near] = decimals
    days = values.dates
    cells[days] = WRITINGS.index("day")
    cells[days & (numbers != np.floor(numbers))] = WRITINGS.index("time")
    cells[np.isnan(numbers)] = len(WRITINGS)
    return cells


def detect_format(noisy: FloatArray, scale: float) -> Writing:
    """Return the format of a column's numbers, from the noisy counts of formats."""
    counts = np.maximum(noisy[: len(WRITINGS)], 0.0)
    dates = WRITINGS.index("day")
    doubt = max(_FORMAT_SCALES * scale, _FEW * float(counts.sum()))
    if counts[dates:].sum() > counts[:dates].sum():
        return "time" if counts[-1] > doubt else "day"
    for decimals in range(dates - 1):
        finer = noisy[decimals + 1 : dates]
        # Decimals of several lengths may each be lost in noise, but not all together.
        if finer.max() <= doubt and finer.sum() <= doubt * math.sqrt(len(finer)):
            return WRITINGS[decimals]
    return "more"


# ── Cells of public columns ───────────────────────────────────────────────────────────────────────


def public_column(
    name: str, bound: Range | Categories, writing: Writing = "more", linear: int = LINEAR
) -> Cells:
    """Return the cells of a column with public bounds; a wide range has ``linear`` cells."""
    if isinstance(bound, Categories):
        return CategoryCells(name, tuple(label for label in bound.labels if label), bound.form)
    if bound.edges and not _has_few_values(bound, writing):
        return NumberCells(name, *_public_edges(bound.edges, writing), writing, bound.form)
    edges, step = _edges(bound.low, bound.high, writing, linear)
    # Without decimals that end, 0 and the ends have cells of one value: kept if many share it.
    single = np.flatnonzero(np.nextafter(edges[:-1], math.inf) >= edges[1:]).tolist()
    return NumberCells(name, edges, step, writing, bound.form, empty=tuple(single))


def _has_few_values(bound: Range, writing: Writing) -> bool:
    """Return whether every value of a range gets its own cell, even if public edges are coarser.

    Coarser edges would merge codes and so hide how other columns depend on them.
    """
    step = step_of(writing)
    return step > 0 and bound.high - bound.low < _FEW_VALUES * step


def _public_edges(edges: tuple[float, ...], writing: Writing) -> tuple[tuple[float, ...], float]:
    """Return public edges half a step below the values they begin with, and the step.

    The last one lies above the largest value.  Edges closer than a step are unchanged.
    """
    step = step_of(writing)
    if max(map(abs, edges)) >= step * 2.0**50 or min(np.diff(edges)) < step:
        step = 0.0
    if step == 0:
        return (*edges[:-1], float(np.nextafter(edges[-1], math.inf))), 0.0
    first = np.ceil(np.array(edges[:-1]) / step - 2.0**-20) * step - step / 2
    last = np.floor(edges[-1] / step + 2.0**-20) * step + step / 2
    return (*first.tolist(), float(last)), step


def _edges(
    low: float, high: float, writing: Writing, linear: int
) -> tuple[tuple[float, ...], float]:
    """Return the edges of a range's cells and the step of its values.

    Edges are linear, with octaves towards 0 and 0 itself, or one per value if there are few.  They
    lie half a step below the values they begin with.
    """
    step = step_of(writing)
    if max(abs(low), abs(high)) >= step * 2.0**50:
        step = 0.0
    if step > 0:
        low, high = math.floor(low / step) * step, (math.floor(high / step) + 1) * step
        if round((high - low) / step) <= _MOST_VALUES:
            count = round((high - low) / step)
            return tuple(low + (k - 0.5) * step for k in range(count + 1)), step
    even = np.linspace(low, high, linear + 1)
    size = max(abs(low), abs(high))
    octaves = size * 2.0 ** -np.arange(1.0, _OCTAVES)
    least = step if step > 0 else size * 2.0**-_OCTAVES
    # The ends may be codes, or caps that many people share.
    ends = [low + step, high - step] if step > 0 else []
    inner = np.concatenate([even, octaves, -octaves, [0.0, least], ends])
    if step > 0:
        inner = np.rint(inner / step) * step
    inner = np.unique([low, *inner[(inner > low) & (inner < high)], high])
    if step == 0:
        single = [value for value in (low, 0.0, high) if low <= value <= high]
        inner = np.unique([*inner, *np.nextafter(single, math.inf)])
    # Place edges midway between possible values, so that rounding moves no value across one.
    return tuple((inner - step / 2).tolist()), step


# ── Back to the types that the table had ──────────────────────────────────────────────────────────


def cast_to_declared(
    column: pd.Series[object], kind: object, form: Form = "any"
) -> pd.Series[object]:
    """Cast drawn values to a declared type, or return them unchanged if it cannot hold them.

    Numbers are written with a decimal comma if that is the declared decimal mark.
    """
    import pandas as pd
    import pyarrow as pa

    text = kind is None or isinstance(kind, pd.StringDtype) or kind == np.dtype(object)
    if text or _arrow_type(kind) in (pa.string(), pa.large_string()):
        if form != "comma":
            return column
        return column.map(lambda x: str(x).replace(".", ","), na_action="ignore").astype(object)
    if isinstance(kind, pd.CategoricalDtype):
        # Do not use the table's own categories: one of them may belong to a single person.
        return column.astype("category")
    wanted: Any = pd.ArrowDtype(kind) if isinstance(kind, pa.DataType) else kind
    numpy_kind = getattr(wanted, "kind", "")
    try:
        if column.dtype == object and numpy_kind in "iuf":
            column = pd.to_numeric(column, errors="coerce")
        if column.dtype == object and set(column.dropna()) <= {"True", "False", OTHER}:
            column = column.map({"True": True, "False": False}).astype("boolean")
        if isinstance(wanted, np.dtype) and numpy_kind in "iub" and column.isna().any():
            wanted = {"b": "boolean"}.get(numpy_kind, "Int64")
        return column.astype(wanted)
    except Exception:  # a failed conversion must not stop a release
        return column
