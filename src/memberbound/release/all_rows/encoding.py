"""From columns to bounded numbers: what is public, how values are read, noisy histograms."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from memberbound.errors import InputError, TooFewRowsError, finite_number
from memberbound.files import large_array, read_document
from memberbound.numerics.rounding import FloatArray, up
from memberbound.release.all_rows.gradient import (
    GRID,
    Features,
    clipped_residuals,
    on_grid,
    path_sensitivity,
    row_cuts,
    row_lengths,
    summand_step,
)
from memberbound.release.budget import HISTOGRAM_MOVES, Budget, NoisySums, Part
from memberbound.tables.columns import Form, Values, checked_format, label_of, read_value
from memberbound.tables.in_memory import Persons, Records
from memberbound.tables.roles import says_identifier

# ── What is public about a table's columns ────────────────────────────────────────────────────────

#: Exponents of the signed logarithmic grid: from 2^-20 (a millionth) to 2^44.
_LOWEST, _HIGHEST = -20, 43
_OCTAVES = _HIGHEST - _LOWEST + 1
#: Cells of a column's histogram: numbers by sign and octave (zero in the middle), missing, texts.
NUMBER_CELLS = 2 * _OCTAVES + 1
MISSING = NUMBER_CELLS
BUCKETS = 1024
CELLS = NUMBER_CELLS + 1 + BUCKETS


@dataclass(frozen=True)
class Range:
    """A column of numbers (or days) between two public ends, and how its texts are written."""

    low: float
    high: float
    form: Form = "any"

    def __post_init__(self) -> None:
        low, high = finite_number("low", self.low), finite_number("high", self.high)
        # Half of the width is a divisor, so it must not underflow to 0.
        if not 4 * sys.float_info.min <= high - low < math.inf:
            raise InputError(f"a range must be [low, high] with low < high, got {[low, high]!r}.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)


@dataclass(frozen=True)
class Categories:
    """A column of values from a public list; whatever is not in it counts as *other*.

    The empty label stands for missing values: they are a category where it is listed.
    """

    labels: tuple[str, ...]
    form: Form = "any"

    def __post_init__(self) -> None:
        if not self.labels or len(set(self.labels)) != len(self.labels):
            # Not quoted: they may be a column of a secret table.
            raise InputError(
                f"categories must be different values, got {len(self.labels)} of which "
                f"{len(set(self.labels))} differ."
            )


Bounds = Mapping[str, Range | Categories]
_DECIMALS = {".": "number", ",": "comma"}
#: Endings of files that can hold bounds.
_DOCUMENTS = (".yaml", ".yml", ".json", ".txt", "")


def _bound(stated: object) -> Range | Categories:
    if isinstance(stated, Range | Categories):
        return stated
    if isinstance(stated, Mapping):
        kinds = [key for key in ("range", "categories") if key in stated]
        ways = [key for key in ("decimal", "format") if key in stated]
        if len(kinds) == 1 and len(ways) <= 1 and set(stated) == {*kinds, *ways}:
            form = _form(stated)
            inner = stated[kinds[0]]
            if isinstance(inner, Sequence) and not isinstance(inner, str) and inner:
                ends = _ends(inner, form) if kinds == ["range"] else None
                if ends is not None:
                    return Range(*ends, form)
                if kinds == ["categories"]:
                    return Categories(tuple(label_of(value, form) for value in inner), form)
    elif isinstance(stated, Sequence) and not isinstance(stated, str) and stated:
        ends = _ends(stated, "any")
        if ends is not None:
            return Range(*ends)
        return Categories(tuple(map(label_of, stated)))
    raise InputError(
        "a bound must be [low, high], a list of categories, or {range: [low, high]} with decimal "
        f"or format, got {_shortened(stated)}. "
        "Two numbers (or dates) that are categories are written {categories: [0, 1]}."
    )


def _ends(stated: Sequence[object], form: Form) -> tuple[float, float] | None:
    """Return the ends of a range: two numbers, or two dates; None for anything else."""
    if len(stated) != 2:
        return None
    low, high = (_end(value, form) for value in stated)
    return None if math.isnan(low) or math.isnan(high) else (low, high)


def _end(value: object, form: Form) -> float:
    if isinstance(value, bool):
        return math.nan
    if not isinstance(value, str):
        return read_value(value)[0]
    # A text is an end only as a date with one meaning: "1" is a category.
    forms = (form,) if "%" in form else ()
    days = [read_value(value, way)[0] for way in (*forms, "date", "day-first")]
    meanings = {day for day in days if not math.isnan(day)}
    return meanings.pop() if len(meanings) == 1 else math.nan


def _form(stated: Mapping[object, object]) -> Form:
    if "decimal" in stated:
        mark = stated["decimal"]
        if mark not in _DECIMALS:
            raise InputError(f"decimal must be '.' or ',', got {mark!r}.")
        return _DECIMALS[str(mark)]
    if "format" in stated:
        return checked_format(str(stated["format"]))
    return "any"


def _shortened(stated: object) -> str:
    """Return what was given without quoting more than a bound has: it may be a secret column."""
    text = repr(stated)
    if isinstance(stated, Sequence | Mapping) and not isinstance(stated, str) and len(stated) > 2:
        return f"a {type(stated).__name__} of {len(stated)} entries"
    return text if len(text) <= 60 else f"{text[:57]}…"


def read_bounds(stated: Mapping[str, object] | str | Path | None) -> dict[str, Range | Categories]:
    """Return public bounds from a mapping, or from a YAML or JSON file that holds one.

    Examples:
        >>> public = read_bounds(
        ...     {"ward": {"categories": [1, 2]}, "kg": {"range": [0, 300], "decimal": ","}}
        ... )
        >>> public["ward"].labels, public["kg"]
        (('1', '2'), Range(low=0.0, high=300.0, form='comma'))
    """
    if stated is None:
        return {}
    table: object = stated
    if isinstance(stated, str | Path):
        if Path(stated).suffix.lower() not in _DOCUMENTS:
            # It may be the secret table: none of it is read.
            raise InputError(
                f"bounds must be a YAML or JSON file, got {Path(stated).name!r}. "
                "memberbound bounds FILE writes a template for the columns of a table."
            )
        table = read_document(stated, "bounds", words=True)
    if not isinstance(table, Mapping):
        # What was given may be the secret table itself: none of it is quoted.
        raise InputError(
            "bounds must map columns to ranges or categories (memberbound bounds writes a "
            f"template), got {type(table).__name__}."
        )
    bounds = {}
    for name, value in table.items():
        # An empty entry of a template is no bound.
        if value is not None:
            try:
                bounds[str(name)] = _bound(value)
            except InputError as problem:
                raise InputError(f"bounds of {str(name)!r}: {problem}") from None
    return bounds


def forms_of(bounds: Bounds) -> dict[str, Form]:
    """Return how the values of bounded columns are written."""
    return {name: bound.form for name, bound in bounds.items()}


# ── Cells of a histogram that is the same for every table ─────────────────────────────────────────


def _hash(label: str) -> int:
    """Return the hash of a text, the same on every machine and in every table."""
    digest = hashlib.blake2b(label.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def cells_of(values: Values) -> NDArray[np.int16]:
    """Return the histogram cell of every value: octave, missing, or the bucket of its text."""
    if values.parsed is None:
        cells = np.empty(len(values), dtype=np.int16)
        for cut in row_cuts(len(values), None, _ROWS):
            cells[cut] = _number_cells(values.part(cut))
        return cells
    table = _number_cells(values.parsed)
    texts = np.flatnonzero(np.isnan(values.parsed))
    labels = values.labels
    table[texts] = [
        NUMBER_CELLS + 1 + _hash(labels[code]) % BUCKETS if labels[code] else MISSING
        for code in texts
    ]
    return np.asarray(table[values.raw], dtype=np.int16)


def _number_cells(numbers: FloatArray) -> NDArray[np.int16]:
    """Return sign and octave of numbers as a cell, the one for missing values for NaN."""
    size = np.minimum(np.abs(numbers), 2.0**60)
    octave = np.clip(np.frexp(size)[1] - 1, _LOWEST, _HIGHEST) - (_LOWEST - 1)
    octave = np.where(size < 2.0**_LOWEST, 0, octave)
    signed = _OCTAVES + np.where(numbers < 0, -octave, octave)
    return np.where(np.isnan(numbers), MISSING, signed).astype(np.int16)


def counted(places: NDArray[np.generic], count: int, persons: Persons | None) -> FloatArray:
    """Return how many records are in every cell; a person's rows count in parts of one.

    Guarantee: exact; replacing a record moves it by at most √2 (X26, proofs/persons.md).
    """
    weights = None if persons is None else persons.weights
    return np.asarray(np.bincount(places, weights, minlength=count), dtype=np.float64)


def cell_counts(records: Records, name: str) -> FloatArray:
    """Return the histogram of a column of all rows."""
    return np.asarray(records.chosen([name]).total(_cell_counts, name))


def _cell_counts(part: Records, name: str) -> FloatArray:
    return counted(cells_of(part.columns[name]), CELLS, part.persons)


def octave_ends(cell: int) -> tuple[float, float]:
    """Return the numbers between which a number cell lies."""
    place = cell - _OCTAVES
    if place == 0:
        return 0.0, 0.0
    exponent = abs(place) - 1 + _LOWEST
    low, high = math.ldexp(1.0, exponent), math.ldexp(1.0, exponent + 1)
    return (low, high) if place > 0 else (-high, -low)


# ── How columns become bounded numbers once ranges, cells and names are known ─────────────────────
#
# Everything here is a map of single records, made of public or released numbers: this is what is
# stored beside a released model.

#: Standard deviations at which a standardised number is cut off.
_FARTHEST = 3.0
#: Mean square of an encoded number; an indicator has 1.
_NUMBER_SQUARE = 0.25
#: Rows whose values are quoted where the model does not know them.
_LISTED = 5
#: Rows that are encoded at once.
_ROWS = 2**17
#: Bytes of encoded rows that are kept ready to be multiplied where no limit is given.
_MOST_READY = 2**31
NOTHING_FOUND = (
    "the table must have a column that rises above the noise, got none. "
    "Give bounds for its columns."
)


@dataclass(frozen=True)
class Scaling:
    """t = x or arsinh(x/unit), cut off at [low, high]; encoded as ½·(t - centre)/spread.

    ``limit`` cuts off once more, in encoded units.
    """

    low: float
    high: float
    centre: float
    spread: float
    unit: float = 0.0
    limit: float = _FARTHEST / 2

    def transformed(self, numbers: FloatArray) -> FloatArray:
        """Return t; not a number stays so."""
        moved = np.arcsinh(numbers / self.unit) if self.unit > 0 else numbers
        return np.clip(moved, self.low, self.high)

    def encoded(self, numbers: FloatArray) -> FloatArray:
        """Return bounded numbers; what is missing sits at the centre."""
        shifted = (self.transformed(numbers) - self.centre) / (2 * self.spread)
        return np.where(np.isnan(shifted), 0.0, np.clip(shifted, -self.limit, self.limit))

    def decoded(self, encoded: FloatArray) -> FloatArray:
        """Return numbers from encoded ones."""
        moved = np.clip(encoded * 2 * self.spread + self.centre, self.low, self.high)
        return np.asarray(np.sinh(moved) * self.unit if self.unit > 0 else moved)


def public_scaling(bound: Range, mean: float = 0.0) -> Scaling:
    """Return the map of [low, high] to [-1, 1], about a mean in these units."""
    half = (bound.high - bound.low) / 2
    middle = bound.low + half
    return Scaling(bound.low, bound.high, middle + mean * half, half / 2, 0.0, 2.0)


@dataclass(frozen=True)
class ColumnCode:
    """How one column is encoded: a number, indicators of public labels or of cells, and *other*.

    Edge cases: a column in which nothing rises above the noise (identifiers, free text) has no
    code: its width is 0.
    """

    name: str
    scaling: Scaling | None = None
    labels: tuple[str, ...] = ()
    cells: tuple[int, ...] = ()
    other: bool = False
    form: Form = "any"

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
        """What the column adds to a row's squared length, nominally."""
        return _NUMBER_SQUARE * (self.scaling is not None) + float(self.indicators > 0)

    def places(self, values: Values) -> NDArray[np.int64]:
        """Return which indicator every value switches on, -1 for none."""
        if self.labels:
            places = values.positions(self.labels)
        else:
            table = np.full(CELLS, -1, dtype=np.int64)
            table[list(self.cells)] = np.arange(len(self.cells))
            places = table[cells_of(values)]
        return np.where(places < 0, self.indicators - 1, places) if self.other else places

    def unseen(self, read: Mapping[str, Values]) -> list[str]:
        """Say how many values this column has no number and no category for."""
        if not self.width:
            return []
        values = read[self.name]
        seen = values.positions([""]) == 0
        if self.labels:
            seen |= values.positions(self.labels) >= 0
        else:
            seen |= np.isin(cells_of(values), self.cells)
        if self.scaling is not None:
            seen |= ~np.isnan(values.numbers)
        places = np.flatnonzero(~seen)
        if not places.size:
            return []
        names = dict.fromkeys(values.label(int(row)) for row in places[:_LISTED])
        shown = ", ".join(map(repr, names)) + (", …" if places.size > _LISTED else "")
        rows = f"{places.size} row{'' if places.size == 1 else 's'}"
        if self.scaling is not None:
            return [f"{self.name!r} holds text instead of a number in {rows} ({shown})"]
        return [f"{self.name!r} holds in {rows} a category that the model does not know ({shown})"]


@dataclass(frozen=True)
class Encoder:
    """Columns to a table of bounded numbers: a map of single records, made of released numbers.

    Guarantee: nothing in it was computed from the secret table without noise that was paid for.
    """

    columns: tuple[ColumnCode, ...]

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return sum(code.width for code in self.columns)

    @property
    def length(self) -> float:
        """The nominal length of a row, by which rows are divided."""
        return math.sqrt(max(1.0, sum(code.mean_square for code in self.columns)))

    @property
    def forms(self) -> dict[str, Form]:
        """How the values of the columns are written."""
        return {code.name: code.form for code in self.columns}

    @property
    def used(self) -> tuple[ColumnCode, ...]:
        """The columns that have a code."""
        used = tuple(code for code in self.columns if code.width)
        if not used:
            raise InputError(NOTHING_FOUND)
        return used

    def rows(self, read: Mapping[str, Values], memory: int | None = None) -> EncodedRows:
        """Return the encoded rows, column by column; on disk if they are larger than ``memory``."""
        numbers = [code for code in self.used if code.scaling is not None]
        listed = [code for code in self.used if code.indicators]
        kind = np.min_scalar_type(max([code.indicators for code in listed], default=0))
        encoded: EncodedRows | None = None
        for code in self.used:
            values = read[code.name]
            if encoded is None:
                encoded = EncodedRows(
                    self,
                    large_array((len(numbers), len(values)), np.dtype(np.int16), memory),
                    large_array((len(listed), len(values)), kind, memory),
                )
            for cut in row_cuts(len(values), None, _ROWS):
                if code.scaling is not None:
                    scaled = on_grid(code.scaling.encoded(values.part(cut)) / self.length)
                    encoded.numbers[numbers.index(code), cut] = np.rint(scaled * GRID)
                if code.indicators:
                    encoded.places[listed.index(code), cut] = code.places(values.taken(cut)) + 1
        assert encoded is not None
        return encoded

    def fits(self, rows: int, memory: int | None) -> bool:
        """Whether so many rows may be kept as blocks that are ready to be multiplied."""
        entries = sum((code.scaling is not None) + (code.indicators > 0) for code in self.used)
        return entries * rows * 8 <= (_MOST_READY if memory is None else memory)

    def encoded(self, read: Mapping[str, Values]) -> Features:
        """Return the encoded rows as numbers: dense, or sparse where most entries would be 0."""
        return self.rows(read)[:]

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {"columns": [asdict(code) for code in self.columns]}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Encoder:
        """Return the encoder that :meth:`to_dict` described."""
        return cls(tuple(map(_code_from, fields["columns"])))


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Encoded rows in two bytes or less a column: whole numbers of the grid, places of indicators.

    ``numbers`` and ``places`` have a row per column; place 0 switches nothing on.  A block of rows
    is multiplied with parameters, and its transpose with residuals, as the table of numbers would
    be that ``[:]`` returns: all of it is exact.
    """

    encoder: Encoder
    numbers: NDArray[Any]
    places: NDArray[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and width."""
        return self.numbers.shape[1], self.encoder.width

    @cached_property
    def _starts(self) -> tuple[list[int], list[slice]]:
        """Return where numbers, and the indicators of columns, stand among the features."""
        numbers, indicators, start = [], [], 0
        for code in self.encoder.used:
            if code.scaling is not None:
                numbers.append(start)
            if code.indicators:
                indicators.append(slice(start + code.width - code.indicators, start + code.width))
            start += code.width
        return numbers, indicators

    @cached_property
    def _one(self) -> float:
        return float(on_grid(np.array(1 / self.encoder.length)))

    def block(self, rows: slice) -> EncodedRows:
        """Return some rows, ready to be multiplied."""
        numbers = self.numbers[:, rows] / GRID
        return replace(self, numbers=numbers, places=self.places[:, rows].astype(np.intp))

    def squares(self) -> FloatArray:
        """Return the squared length of every row of a block."""
        lengths = np.einsum("ij,ij->j", self.numbers, self.numbers)
        return np.asarray(lengths + self._one**2 * np.count_nonzero(self.places, axis=0))

    def __matmul__(self, theta: FloatArray) -> FloatArray:
        """Return the scores of a block."""
        numbers, indicators = self._starts
        scores = np.asarray(self.numbers.T @ theta[numbers])
        for place, inside in zip(self.places, indicators, strict=True):
            table = np.vstack([np.zeros(theta.shape[1]), self._one * theta[inside]])
            scores += table[place]
        return scores

    def turned(self, moved: FloatArray) -> FloatArray:
        """Return the transpose of a block times a column per output."""
        numbers, indicators = self._starts
        total = np.zeros((self.encoder.width, moved.shape[1]))
        total[numbers] = self.numbers @ moved
        for place, inside in zip(self.places, indicators, strict=True):
            for output, column in enumerate(moved.T):
                sums = np.bincount(place, column, inside.stop - inside.start + 1)
                total[inside, output] = self._one * sums[1:]
        return total

    def __getitem__(self, rows: slice | NDArray[np.generic]) -> Features:
        """Return rows as numbers: dense, or sparse where most entries would be 0."""
        numbers, places = self.numbers[:, rows].T / GRID, self.places[:, rows].T.astype(np.int32)
        (count, filled), (at, inside) = numbers.shape, self._starts
        filled += places.shape[1]
        first = np.array([indicators.start for indicators in inside], dtype=np.int32)
        if self.encoder.width <= 2 * filled:
            dense = np.zeros((count, self.encoder.width))
            dense[:, at] = numbers
            row, column = np.nonzero(places)
            dense[row, first[column] + places[row, column] - 1] = self._one
            return dense
        data = np.column_stack([numbers, (places > 0) * self._one])
        index = np.empty((count, filled), dtype=np.int32)
        index[:, : len(at)], index[:, len(at) :] = at, first + np.maximum(places, 1) - 1
        # indptr has the type of the indices, so that scipy copies neither.
        ends = np.arange(0, count * filled + 1, filled)
        if count * filled < 2**31:
            ends = ends.astype(np.int32)
        return sparse.csr_array((data.ravel(), index.ravel(), ends), shape=(count, self.shape[1]))


def _code_from(fields: Mapping[str, Any]) -> ColumnCode:
    scaling = fields["scaling"]
    return ColumnCode(
        str(fields["name"]),
        None if scaling is None else Scaling(**scaling),
        tuple(map(str, fields["labels"])),
        tuple(map(int, fields["cells"])),
        bool(fields["other"]),
        str(fields["form"]),
    )


@dataclass(frozen=True)
class TargetCode:
    """The target: classes by name, or a range of numbers that is mapped to [-1, 1]."""

    name: str
    classes: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    form: Form = "any"

    def read(self, values: Values) -> tuple[NDArray[np.generic], FloatArray]:
        """Return codes or scaled numbers, and weights: 0 for a class that is not listed."""
        if self.classes:
            codes = values.positions(self.classes)
            weights = (codes >= 0).astype(np.float64)
            return codes.astype(np.min_scalar_type(-1 - len(self.classes))), weights
        half = (self.high - self.low) / 2
        scaled = (np.clip(values.numbers, self.low, self.high) - (self.low + half)) / half
        missing = np.isnan(scaled)
        return np.where(missing, 0.0, scaled), 1.0 - missing

    def numbers(self, scaled: FloatArray) -> FloatArray:
        """Return predictions in the target's own units."""
        half = (self.high - self.low) / 2
        return np.asarray(self.low + half + half * np.clip(scaled, -1.0, 1.0))

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> TargetCode:
        """Return the target that :meth:`to_dict` described."""
        return cls(**{**fields, "classes": tuple(map(str, fields["classes"]))})


# ── From columns to bounded numbers, with noisy histograms for what is not public ─────────────────
#
# Public categories cost nothing.  Public ranges of small tables cost a share of one noisy mean.
# Any other column is put into one histogram: numbers by sign and octave, texts by a bucket of a
# public hash, so that the cells are the same for every table and no name is ever released.  Cells
# above the noise decide whether the column holds numbers, where they lie and which values get an
# indicator; a second histogram inside that range gives a mean and a spread.  Classes of the target
# need names: they are released where their noisy count says that many people share them
# (proofs/gradient-descent.md).

#: Shares of μ² for histograms (three quarters of it for the first) and for the mean of columns with
#: public ranges.
HISTOGRAM_SHARE = 0.15
CENTRE_SHARE = 0.10
FIRST_SHARE = 0.75
#: Share of μ² for the number of different values in columns whose names say that they identify.
IDENTIFIER_SHARE = 0.005
#: A cell of numbers counts towards the range from this many noise scales on; a text's indicator
#: may be spurious without harm, so less is asked of it.
_RANGE_SCALES = 4.5
_INDICATOR_SCALES = 2.5
#: Indicators of one column, and classes that are released by name.
_MOST_CELLS = 63
MOST_CLASSES = 32
#: A class that one person has is released with at most this probability: Φ(-6) is below it, and
#: the grid moves a noisy count by at most an eighth of the scale.
CLASS_SLACK = 1e-9
_CLASS_SCALES = 6.2
#: Rows that a private histogram needs, in noise scales.
_ROWS_PER_SCALE = 40.0
#: A column of texts whose Σcount² is at most this many times that of identifiers has no indicators.
_ALIKE = 3.0
#: A table with fewer rows than this over μ is drowned by the noise, whatever its bounds are.
_FEWEST_SIGNALS = 10.0
#: … and classes with fewer: digits, 900 rows at η = 0.01, has 4.5 and an accuracy of 0.2.
_CLASS_SIGNALS = 4.0
#: Linear cells of the second histogram.
_FINE = 32
#: A column that reaches this many octaves beyond its median size is read through an arsinh.
_HEAVY_OCTAVES = 5
#: Rows are cut off at this share of the largest length before they are averaged.
_MEAN_RADIUS = 0.6
#: How far means lie from the middle of a public range, in halves of it, as a rule of thumb.
_MEAN_SPREAD = 1.0


def widest(names: list[str], bounds: Bounds) -> int:
    """Return the largest width an encoder of these columns can have, before the table is seen."""
    total = 0
    for name in names:
        bound = bounds.get(name)
        if isinstance(bound, Range):
            total += 1
        elif isinstance(bound, Categories):
            total += len(bound.labels) + 1
        else:
            total += _MOST_CELLS + 2
    return total


def histogram_coordinates(columns: int) -> int:
    """Return how many noisy counts so many private columns take, at most."""
    return columns * (CELLS + _FINE + 1)


def rows_needed(private: int, mu: float, *, classes: bool = False) -> int:
    """Return how many rows a table must have for its private columns to rise above the noise.

    A rule, not a promise: 40 noise scales of the first histograms, at the default share; where all
    bounds are given, 10/μ, below which the noise in a mean is as large as a typical mean.
    """
    if private + classes == 0:
        return math.ceil(_FEWEST_SIGNALS / mu)
    spent = mu * math.sqrt(HISTOGRAM_SHARE * FIRST_SHARE)
    scale = HISTOGRAM_MOVES * math.sqrt(private + classes) / spent
    return math.ceil(_ROWS_PER_SCALE * scale)


def most_classes(rows: int, mu: float) -> int:
    """Return how many public classes a table can have: each needs 4/μ rows."""
    return max(2, math.floor(rows * mu / _CLASS_SIGNALS))


def noisy_range(records: Records, name: str, histograms: NoisySums) -> Range | None:
    """Return ends of the octaves in which the numbers lie, from one noisy histogram."""
    counts = cell_counts(records, name)[:NUMBER_CELLS]
    kept = np.flatnonzero(histograms.measure(counts) > _RANGE_SCALES * histograms.scale)
    ends = [end for cell in kept for end in octave_ends(int(cell))]
    return Range(min(ends), max(ends)) if ends and min(ends) < max(ends) else None


def noisy_names(records: Records, name: str, histograms: NoisySums) -> tuple[str, ...]:
    """Return the values that many people share, by name, from one noisy histogram.

    A person counts for the commonest of their values: several that nobody else has would each have
    a chance of being named.

    Guarantee: what one person has is named with probability at most :data:`CLASS_SLACK`.
    """
    counts = dict(sorted(records.chosen([name]).total(_name_counts, name).items()))
    noisy = histograms.measure(list(counts.values()))
    return _named(tuple(counts), noisy, histograms.scale)


def noisy_texts(
    records: Records,
    name: str,
    cells: Callable[[Values], NDArray[np.int64]],
    count: int,
    histograms: NoisySums,
) -> tuple[FloatArray, tuple[str, ...]]:
    """Return noisy counts of cells of numbers, and the texts that many people share.

    One histogram: a value is a number, and in one of the ``count`` cells, or a text.  A person
    counts for the commonest of these.

    Guarantee: that of :func:`noisy_names`.
    """
    numbers, texts = records.chosen([name]).total(_text_counts, name, cells, count)
    listed = dict(sorted(texts.items()))
    noisy = histograms.measure([*numbers, *listed.values()])
    return noisy[:count], _named(tuple(listed), noisy[count:], histograms.scale)


def _text_counts(
    part: Records, name: str, cells: Callable[[Values], NDArray[np.int64]], count: int
) -> tuple[NDArray[np.int64], dict[str, int]]:
    values = part.columns[name]
    places, names = values.named()
    texts = np.where(places >= 0, count + places, -1)
    joint = np.where(np.isnan(values.numbers), texts, cells(values))
    joint = joint if part.persons is None else part.persons.commonest(joint)
    counts = np.bincount(joint[joint >= 0], minlength=count + len(names))
    return counts[:count], _occurring(names, counts[count:])


def _name_counts(part: Records, name: str) -> dict[str, int]:
    """Return how many records have which value; those without any are left out."""
    places, names = part.columns[name].named()
    places = places if part.persons is None else part.persons.commonest(places)
    return _occurring(names, np.bincount(places[places >= 0], minlength=len(names)))


def _occurring(names: Sequence[str], counts: NDArray[np.int64]) -> dict[str, int]:
    return {name: count for name, count in zip(names, counts.tolist(), strict=True) if count}


def _name_hashes(part: Records, names: Sequence[str]) -> tuple[list[NDArray[np.uint64]], ...]:
    """Return hashes of the different values that columns have."""
    return tuple([np.array(list(map(_hash, _name_counts(part, n))), np.uint64)] for n in names)


def _named(names: Sequence[str], noisy: FloatArray, scale: float) -> tuple[str, ...]:
    """Return the names whose noisy count says that more than one person has them."""
    passed = np.flatnonzero(noisy > 1.0 + _CLASS_SCALES * scale)
    largest = passed[np.argsort(-noisy[passed], kind="stable")][:MOST_CLASSES]
    return tuple(names[place] for place in sorted(largest))


def fit_target(
    records: Records,
    name: str,
    bounds: Bounds,
    *,
    kind: Literal["classes", "numbers"],
    histograms: NoisySums | None,
) -> TargetCode:
    """Return the target's code, from public bounds or else from one noisy histogram.

    Guarantee: a class that one person has is named with probability at most :data:`CLASS_SLACK`,
    so both worlds are within that of a Gaussian pair (proofs/gradient-descent.md, claim 5).
    """
    bound = bounds.get(name)
    if kind == "numbers":
        if isinstance(bound, Range):
            return TargetCode(name, (), bound.low, bound.high, bound.form)
        if bound is not None:
            raise InputError(f"bounds of {name!r} must be [low, high] for a target of numbers.")
        assert histograms is not None
        span = noisy_range(records, name, histograms)
        if span is None:
            raise InputError(
                f"target {name!r} must have a range: give bounds [low, high] for it, or take the "
                "learner logistic or svm if it has classes."
            )
        return TargetCode(name, (), span.low, span.high)
    form: Form = "any"
    if isinstance(bound, Categories):
        labels, form = bound.labels, bound.form
    elif isinstance(bound, Range):
        raise InputError(
            f"bounds of {name!r} must be a list of classes, got a range. "
            'Write {"categories": [0, 1]} if the classes are numbers.'
        )
    else:
        assert histograms is not None
        labels = noisy_names(records, name, histograms)
    if len(labels) < 2:
        scale = 1.0 if histograms is None else histograms.scale
        raise TooFewRowsError(
            f"target {name!r} must have at least two classes, each with more than about "
            f"{math.ceil(1 + _CLASS_SCALES * scale)} rows, got {len(labels)}. "
            f"At most {MOST_CLASSES} classes are named. Merge rare classes, give them in the "
            "bounds if they are public, or take the learner ridge or huber if they are numbers."
        )
    return TargetCode(name, labels, form=form)


def settled_bounds(
    bounds: Bounds, features: list[str], rows: int, mu: float, *, classes: bool
) -> Bounds:
    """Return the bounds that say all about their columns; ranges wait for private scales else.

    A range says where numbers may lie, not where they do.  Where the budget pays for histograms of
    all columns, centre and spread within a range are learnt as those of private columns are, so
    that an honest wide range costs nothing.  Smaller tables keep the scale of their ranges.
    """
    ranged = [name for name in features if isinstance(bounds.get(name), Range)]
    private = sum(name not in bounds for name in features)
    if rows < rows_needed(private + len(ranged), mu, classes=classes):
        return bounds
    return {name: bound for name, bound in bounds.items() if name not in ranged}


def fit_encoder(
    table: Records,
    bounds: Bounds,
    settled: Bounds,
    budget: Budget,
    *,
    histograms: NoisySums | None,
    fine: Part | None,
) -> Encoder:
    """Return an encoder from public bounds, noisy histograms and one noisy mean.

    ``settled`` are those of :func:`settled_bounds`.  ``histograms`` are the first ones, which share
    their part of the budget with the target's; ``fine`` is the part of the second ones.  Both are
    None where all bounds are settled.

    Guarantee: what it takes from the budget is all that it tells about the table.
    Theorem: X22, proofs/gradient-descent.md claims 1, 3 and 5.
    """
    read, records = tuple(table.columns), len(table)
    public = [name for name in read if isinstance(settled.get(name), Range)]
    unbounded = [name for name in read if name not in bounds]
    drafts: dict[str, ColumnCode | _Draft] = identifier_codes(table, unbounded, budget)
    for name in read:
        if name in drafts or name in settled:
            continue
        assert histograms is not None
        noisy = histograms.measure(cell_counts(table, name))
        bound = bounds.get(name)
        if isinstance(bound, Range):
            drafts[name] = _ranged(name, bound, noisy, histograms.scale)
        else:
            drafts[name] = _draft(name, noisy, histograms.scale, records)
    numeric = [draft for draft in drafts.values() if isinstance(draft, _Draft)]
    if numeric:
        assert fine is not None
        second = fine.sums(sensitivity=HISTOGRAM_MOVES, times=len(numeric))
        for draft in numeric:
            noisy = second.measure(table.chosen([draft.name]).total(_fine_counts, draft))
            drafts[draft.name] = draft.finished(noisy, second.scale)
    means = _noisy_mean(table, settled, public, budget) if public else {}
    codes: list[ColumnCode] = []
    for name in read:
        bound = settled.get(name)
        if isinstance(bound, Range):
            scaling = public_scaling(bound, means[name])
            codes.append(ColumnCode(name, scaling, form=bound.form))
        elif isinstance(bound, Categories):
            codes.append(ColumnCode(name, None, bound.labels, (), True, bound.form))
        else:
            code = drafts[name]
            assert isinstance(code, ColumnCode)
            codes.append(code)
    return Encoder(tuple(codes))


def identifier_codes(
    records: Records, private: list[str], budget: Budget
) -> dict[str, ColumnCode | _Draft]:
    """Return empty codes for columns that are called identifiers and whose values hardly repeat.

    Names are public; how many values there are is asked with noise.  A replaced record, like an
    added one, moves each number by at most 1 (proofs/gradient-descent.md, claim 5).
    """
    called = [name for name in private if says_identifier(name)]
    if not called:
        return {}
    part = budget.take("values of columns called identifiers", IDENTIFIER_SHARE)
    hashes = records.chosen(called).total(_name_hashes, called)
    distinct = [np.unique(np.concatenate(column)).size for column in hashes]
    noisy = part.sums(sensitivity=up(math.sqrt(len(called)))).measure(distinct)
    half = len(records) / 2
    return {n: ColumnCode(n) for n, values in zip(called, noisy, strict=True) if values > half}


def _strongest(noisy: FloatArray, least: float) -> tuple[int, ...]:
    """Return the cells above a count, the largest first if there are too many, in their order."""
    above = np.flatnonzero(noisy > least)
    best = above[np.argsort(-noisy[above], kind="stable")][:_MOST_CELLS]
    return tuple(sorted(int(cell) for cell in best))


def _draft(name: str, noisy: FloatArray, scale: float, records: int) -> ColumnCode | _Draft:
    """Decide from noisy counts what a column holds."""
    numbers = noisy[:NUMBER_CELLS]
    present = records - max(0.0, float(noisy[MISSING]))
    doubt = 3 * scale * math.sqrt(NUMBER_CELLS)
    kept = np.flatnonzero(numbers > _RANGE_SCALES * scale)
    if float(numbers.sum()) > max(present / 2, doubt) and kept.size:
        return _number_draft(name, noisy, kept, scale)
    cells = _strongest(noisy, _INDICATOR_SCALES * scale)
    if hardly_shared(noisy[MISSING + 1 :], scale):
        cells = _strongest(noisy[: MISSING + 1], _RANGE_SCALES * scale)
    return ColumnCode(name, None, (), cells, bool(cells))


def _number_draft(
    name: str, noisy: FloatArray, kept: NDArray[np.int64], scale: float, bound: Range | None = None
) -> _Draft:
    """Return the draft of a column of numbers in these octaves, within a public range or not."""
    ends = [octave_ends(int(cell)) for cell in kept]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    if bound is not None:
        low, high = max(low, bound.low), min(high, bound.high)
    if low == high:  # nothing but zeros rises above the noise
        low, high = -1.0, 1.0
    # Values that are no numbers, and heavy tails, get indicators.
    others = _strongest(noisy[MISSING:], _RANGE_SCALES * scale)
    typical = _median_size(kept, noisy[kept])
    heavy = max(abs(low), abs(high)) > typical * 2.0**_HEAVY_OCTAVES
    zeros = bool((kept == NUMBER_CELLS // 2).any()) and kept.size > 1
    octaves = tuple(int(cell) for cell in kept) if heavy or zeros else ()
    cells = (*octaves, *(MISSING + cell for cell in others))[:_MOST_CELLS]
    form = "any" if bound is None else bound.form
    return _Draft(name, low, high, typical if heavy else 0.0, cells, form)


def _ranged(name: str, bound: Range, noisy: FloatArray, scale: float) -> ColumnCode | _Draft:
    """Return where the numbers of a column with a public range lie within it, from noisy counts."""
    kept = np.flatnonzero(noisy[:NUMBER_CELLS] > _RANGE_SCALES * scale)
    ends = [octave_ends(int(cell)) for cell in kept]
    inside = [max(low, bound.low) <= min(high, bound.high) for low, high in ends]
    if not any(inside):
        return ColumnCode(name, public_scaling(bound), form=bound.form)
    return _number_draft(name, noisy, kept[np.array(inside)], scale, bound)


def hardly_shared(texts: FloatArray, scale: float) -> bool:
    """Tell from noisy counts whether texts fill the buckets as identifiers do: all alike.

    Σcount² is n²/buckets + n where no two rows share a text, and n²/k for k equal categories.
    """
    rows = max(0.0, float(texts.sum()))
    squares = float(np.square(texts).sum()) - texts.size * scale**2
    doubt = 3 * math.sqrt(2 * texts.size) * scale**2
    return squares <= _ALIKE * (rows**2 / texts.size + rows) + doubt


def _median_size(cells: NDArray[np.int64], weights: FloatArray) -> float:
    """Return the power of two at the median size of the numbers in these cells, zeros left out."""
    sizes = [
        (max(map(abs, octave_ends(int(cell)))), float(w))
        for cell, w in zip(cells, weights, strict=True)
    ]
    sizes = sorted(pair for pair in sizes if pair[0] > 0)
    if not sizes:
        return 1.0
    reached = np.cumsum([weight for _, weight in sizes])
    return sizes[int(np.searchsorted(reached, reached[-1] / 2))][0]


@dataclass(frozen=True)
class _Draft:
    """A column of numbers whose range is known."""

    name: str
    low: float
    high: float
    unit: float
    cells: tuple[int, ...]
    form: Form = "any"

    @property
    def _span(self) -> tuple[float, float]:
        if self.unit > 0:
            return math.asinh(self.low / self.unit), math.asinh(self.high / self.unit)
        return self.low, self.high

    def fine_counts(self, values: Values, persons: Persons | None) -> FloatArray:
        """Return the counts of the range's linear cells."""
        low, high = self._span
        scaling = Scaling(low, high, 0.0, 1.0, self.unit)
        places = np.empty(len(values), dtype=np.int8)
        for cut in row_cuts(len(values), None, _ROWS):
            share = (scaling.transformed(values.part(cut)) - low) / (high - low) * _FINE
            places[cut] = np.where(np.isnan(share), _FINE, np.minimum(share, _FINE - 1))
        return counted(places, _FINE + 1, persons)[:_FINE]

    def finished(self, noisy: FloatArray, scale: float) -> ColumnCode:
        """Return the code with mean and spread from the noisy counts."""
        low, high = self._span
        step = (high - low) / _FINE
        middles = low + step * (np.arange(_FINE) + 0.5)
        weights = np.where(noisy > 2 * scale, noisy, 0.0)
        if not weights.any():
            weights = np.ones(_FINE)
        mean = float(np.average(middles, weights=weights))
        spread = math.sqrt(float(np.average((middles - mean) ** 2, weights=weights)))
        scaling = Scaling(low, high, mean, max(spread, step / 2), self.unit)
        return ColumnCode(self.name, scaling, (), self.cells, False, self.form)


def _fine_counts(part: Records, draft: _Draft) -> FloatArray:
    return draft.fine_counts(part.columns[draft.name], part.persons)


def _noisy_mean(
    table: Records, bounds: Bounds, names: list[str], budget: Budget
) -> dict[str, float]:
    """Return means of the columns with public ranges, in [-1, 1], from one noisy sum."""
    ranges = {name: bound for name in names if isinstance(bound := bounds[name], Range)}
    records = len(table)
    radius = _MEAN_RADIUS * math.sqrt(len(names))
    part = budget.take("means of columns with public ranges", CENTRE_SHARE)
    sums = part.sums(sensitivity=path_sensitivity(radius, records))
    total = table.chosen(names).total(_clipped_means, ranges, radius, summand_step(radius, records))
    # Shrunk towards the middle of the range in proportion to the noise; the factor is public.
    trust = _MEAN_SPREAD**2 / (_MEAN_SPREAD**2 + (sums.scale / records) ** 2)
    means = np.clip(trust * sums.measure(total) / records, -1.0, 1.0)
    return dict(zip(names, means.tolist(), strict=True))


def _clipped_means(
    part: Records, ranges: Mapping[str, Range], radius: float, step: float
) -> FloatArray:
    """Return the sum of rows scaled to [-1, 1], each cut off at the radius."""
    persons = part.persons
    grid = large_array((len(ranges), part.rows), np.dtype(np.int16), part.memory)
    for place, (name, bound) in enumerate(ranges.items()):
        scaled = public_scaling(bound).encoded(part.columns[name].numbers)
        grid[place] = np.rint(on_grid(scaled) * GRID)
    total = np.zeros(len(ranges))
    for cut in row_cuts(part.rows, persons):
        block = grid[:, cut] / GRID
        weights = np.ones(block.shape[1]) if persons is None else persons.weights[cut]
        lengths = row_lengths(np.einsum("ij,ij->j", block, block), len(block), 0.0)
        starts = None if persons is None else persons.within(cut)
        moved = clipped_residuals(weights[:, None], lengths, radius, starts)[:, 0]
        total += block @ (np.trunc(moved / step) * step)
    return total
