"""Columns as cells of a histogram, and back: what a synthetic table is counted and drawn in.

A column of numbers is cut at public or paid-for edges, a column of categories has one cell per
label; both have a cell for missing values.  The cell of a value is a function of this value and of
public or released numbers.  A draw inside a cell has the column's decimals: whole numbers stay
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
from memberbound.tables.cells import Absent, Beside, Intervals, Labels, Rest
from memberbound.tables.columns import Values
from memberbound.tables.spelling import Form, iso_date, number_label

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

#: How numbers are written: with so many decimals, with more, as a day, as a time.
Writing = Literal["0", "1", "2", "3", "more", "day", "time"]
FORMATS: tuple[Writing, ...] = ("0", "1", "2", "3", "more", "day", "time")
#: Linear cells of a range; cells of a column of numbers altogether.
_LINEAR = 64
#: Whole ranges of at most this many values have a cell for each.
_MOST_VALUES = 500
#: … and texts among numbers that get a cell.
MOST_TEXTS = 8
MOST_CELLS = 512
#: Octaves below the largest end of a range that get an edge of their own.
_OCTAVES = 16
#: Share of the numbers that may have more decimals than the column is written with.
_FEW = 0.01
#: A format is believed from this many noise scales on.
_FORMAT_SCALES = 4.5
OTHER = "other"
#: The days that a calendar has: the years 1 to 9999.
_CALENDAR = (-719_162.0, 2_932_895.0)


@dataclass(frozen=True)
class NumberCells:
    """Cells [edge, next edge) of numbers or days, one per text, and one for everything else.

    ``step`` is the distance of neighbouring values, 0 where there is none; ``texts`` stand among
    the numbers, as codes for what is not known do.
    """

    name: str
    edges: tuple[float, ...]
    step: float
    writing: Writing
    form: Form = "any"
    texts: tuple[str, ...] = ()
    #: Cells in which a noisy histogram found nothing: believed only where their count stands out.
    empty: tuple[int, ...] = ()

    @cached_property
    def _cells(self) -> Beside:
        intervals = Intervals(self.edges, "unbounded")
        return Beside((intervals, Labels(self.texts), Rest("missing")))

    @property
    def count(self) -> int:
        """Number of cells; the last one is for missing values."""
        return self._cells.count

    @property
    def ordered(self) -> int:
        """Number of cells that have neighbours."""
        return len(self.edges) - 1

    @property
    def rare(self) -> tuple[int, ...]:
        """Cells that are believed only where their count stands out."""
        return (*self.empty, self.count - 1)

    def label(self, cell: int) -> str:
        """Return what a cell holds, for a reader."""
        if cell >= self.ordered:
            return self._cells.label(cell)
        low, high = self.edges[cell], self.edges[cell + 1]
        if self.writing in ("day", "time"):
            return f"{iso_date(low)} to {iso_date(high)}"
        return f"{low:g} to {high:g}"

    def cell_of(self, values: Values) -> IntArray:
        """Return the cell of every value; numbers beyond the ends count as the ends."""
        return self._cells.cell_of(values)

    def drawn(self, first: IntArray, last: IntArray, draws: np.random.Generator) -> pd.Series[Any]:
        """Return a value between the ends of runs of cells, first to last.

        Where there are texts, numbers are written as texts too: a column has one type.
        """
        import pandas as pd

        numbers = self._numbers(first, last, draws)
        if not self.texts:
            return numbers
        texts = np.array([*self.texts, None], dtype=object)
        beside = pd.Series(texts[np.maximum(first - self.ordered, 0)], dtype=object)
        # Dates are texts or time stamps already.
        written = numbers.map(
            lambda value: number_label(value) if isinstance(value, float) else str(value),
            na_action="ignore",
        ).astype(object)
        return written.where(pd.Series(first < self.ordered), beside)

    def _numbers(
        self, first: IntArray, last: IntArray, draws: np.random.Generator
    ) -> pd.Series[Any]:
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
            numbers = low + share * (high - low)
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

    def _dates(self, days: FloatArray) -> pd.Series[Any]:
        import pandas as pd

        if "%" in self.form:
            stamps = pd.Series(np.rint(days * 86_400), dtype="Float64")
            stamps = pd.to_datetime(stamps, unit="s", errors="coerce")
            return stamps.dt.strftime(self.form).astype(object).where(~np.isnan(days), None)
        if self.writing == "day":
            texts = [None if math.isnan(day) else iso_date(day) for day in days.tolist()]
            return pd.Series(texts, dtype=object)
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
        return Beside((Labels(self.labels), Rest(OTHER), Absent("missing")))

    @property
    def count(self) -> int:
        """Number of cells."""
        return self._cells.count

    @property
    def ordered(self) -> int:
        """Number of cells that have neighbours: none."""
        return 0

    @property
    def rare(self) -> tuple[int, ...]:
        """Cells that are believed only where their count stands out."""
        return (self.count - 2, self.count - 1)

    def label(self, cell: int) -> str:
        """Return what a cell holds, for a reader."""
        return self._cells.label(cell)

    def cell_of(self, values: Values) -> IntArray:
        """Return the cell of every value."""
        return self._cells.cell_of(values)

    def drawn(self, first: IntArray, last: IntArray, draws: np.random.Generator) -> pd.Series[Any]:
        """Return the labels of cells."""
        import pandas as pd

        del last, draws
        texts = np.array([*self.labels, OTHER, None], dtype=object)
        return pd.Series(texts[first], dtype=object)


Cells = NumberCells | CategoryCells


# ── What is public about how a column is written ──────────────────────────────────────────────────


def declared_writing(kind: object, form: Form) -> Writing | tuple[str, ...] | None:
    """Return what a declared type says: how numbers are written, or all labels; else None.

    ``kind`` is a type of Arrow or pandas, None where there is none.  The categories of a pandas
    categorical are not used: usually they were inferred from the rows.
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
    """Return a type of Arrow, numpy or pandas as one of Arrow's, None where there is none."""
    import pyarrow as pa

    kind = getattr(kind, "pyarrow_dtype", getattr(kind, "numpy_dtype", kind))
    if isinstance(kind, np.dtype):
        try:
            return pa.from_numpy_dtype(kind)
        except pa.ArrowException:  # objects, long doubles
            return None
    return kind if isinstance(kind, pa.DataType) else None


# ── How numbers are written, where no type says it: one more histogram ────────────────────────────


def step_of(writing: Writing) -> float:
    """Return the distance of neighbouring values that are written like this, 0 for none."""
    return 10.0 ** -int(writing) if writing.isdigit() else float(writing == "day")


def format_cells(values: Values) -> IntArray:
    """Return for every value its place in :data:`FORMATS`, the number of formats for no number."""
    numbers = values.numbers
    cells = np.full(len(numbers), FORMATS.index("more"))
    with np.errstate(all="ignore"):
        for decimals in (3, 2, 1, 0):
            scaled = numbers * 10.0**decimals
            near = np.abs(scaled - np.rint(scaled)) <= 1e-9 * np.maximum(1.0, np.abs(scaled))
            cells[near] = decimals
    days = values.dates
    cells[days] = FORMATS.index("day")
    cells[days & (numbers != np.floor(numbers))] = FORMATS.index("time")
    cells[np.isnan(numbers)] = len(FORMATS)
    return cells


def written_as(noisy: FloatArray, scale: float) -> Writing:
    """Return how a column's numbers are written, from the noisy counts of formats."""
    counts = np.maximum(noisy[: len(FORMATS)], 0.0)
    dates = FORMATS.index("day")
    doubt = max(_FORMAT_SCALES * scale, _FEW * float(counts.sum()))
    if counts[dates:].sum() > counts[:dates].sum():
        return "time" if counts[-1] > doubt else "day"
    for decimals in range(dates - 1):
        if all(count <= doubt for count in counts[decimals + 1 : dates]):
            return FORMATS[decimals]
    return "more"


# ── Cells of public columns ───────────────────────────────────────────────────────────────────────


def public_column(name: str, bound: Range | Categories, writing: Writing = "more") -> Cells:
    """Return the cells of a column with public bounds."""
    if isinstance(bound, Categories):
        return CategoryCells(name, tuple(label for label in bound.labels if label), bound.form)
    if bound.edges:
        return NumberCells(name, *_public_edges(bound.edges, writing), writing, bound.form)
    return NumberCells(name, *_edges(bound.low, bound.high, writing), writing, bound.form)


def _public_edges(edges: tuple[float, ...], writing: Writing) -> tuple[tuple[float, ...], float]:
    """Return public edges half a step below the values they begin with, and the step.

    The last one lies above the largest value.  Edges closer than a step keep their place.
    """
    step = step_of(writing)
    if max(map(abs, edges)) >= step * 2.0**50 or min(np.diff(edges)) < step:
        step = 0.0
    if step == 0:
        return (*edges[:-1], float(np.nextafter(edges[-1], math.inf))), 0.0
    first = np.ceil(np.array(edges[:-1]) / step - 2.0**-20) * step - step / 2
    last = np.floor(edges[-1] / step + 2.0**-20) * step + step / 2
    return (*first.tolist(), float(last)), step


def _edges(low: float, high: float, writing: Writing) -> tuple[tuple[float, ...], float]:
    """Return the edges of a range's cells and the step of its values.

    Linear ones, octaves towards 0, and 0 itself; every value where there are few enough.  Edges lie
    half a step below the values they begin with.
    """
    step = step_of(writing)
    if max(abs(low), abs(high)) >= step * 2.0**50:
        step = 0.0
    if step > 0:
        low, high = math.floor(low / step) * step, (math.floor(high / step) + 1) * step
        if round((high - low) / step) <= _MOST_VALUES:
            count = round((high - low) / step)
            return tuple(low + (k - 0.5) * step for k in range(count + 1)), step
    linear = np.linspace(low, high, _LINEAR + 1)
    size = max(abs(low), abs(high))
    octaves = size * 2.0 ** -np.arange(1.0, _OCTAVES)
    least = step if step > 0 else size * 2.0**-_OCTAVES
    # The ends may be codes, or caps that many people share.
    ends = [low + step, high - step] if step > 0 else []
    inner = np.concatenate([linear, octaves, -octaves, [0.0, least], ends])
    if step > 0:
        inner = np.rint(inner / step) * step
    inner = np.unique([low, *inner[(inner > low) & (inner < high)], high])
    # Between two values that can occur, where no rounding moves a value across an edge.
    return tuple((inner - step / 2).tolist()), step


# ── Back to the types that the table had ──────────────────────────────────────────────────────────


def as_declared(column: pd.Series[Any], kind: object, form: Form = "any") -> pd.Series[Any]:
    """Return drawn values in a declared type, or as they are where it cannot hold them.

    Numbers of a column whose decimal mark is declared to be the comma are written with it.
    """
    import pandas as pd
    import pyarrow as pa

    text = kind is None or isinstance(kind, pd.StringDtype) or kind == np.dtype(object)
    if text or _arrow_type(kind) in (pa.string(), pa.large_string()):
        if form != "comma":
            return column
        return column.map(lambda x: str(x).replace(".", ","), na_action="ignore").astype(object)
    if isinstance(kind, pd.CategoricalDtype):
        # Not with the categories of the table's own: one person may be the only one in one.
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
    except Exception:  # a type that a library cannot make of these values stops no release
        return column
