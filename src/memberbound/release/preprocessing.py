"""From columns to bounded numbers: what is public, how values are read, noisy histograms."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from memberbound.errors import InputError, finite_number
from memberbound.files import read_document
from memberbound.learners.examples import is_number
from memberbound.numerics.rounding import FloatArray, up
from memberbound.release.budget import NeighbourBudget, noisy_release
from memberbound.release.gradient import (
    Features,
    clipped_sum,
    noise_for_path,
    path_sensitivity,
    row_lengths,
)
from memberbound.release.randomness import RandomSource
from memberbound.tables.roles import says_identifier

if TYPE_CHECKING:
    from pandas import DataFrame, Series

__all__ = [
    "BUCKETS",
    "CELLS",
    "CENTRE_SHARE",
    "CLASS_SLACK",
    "FIRST_SHARE",
    "HISTOGRAM_SHARE",
    "IDENTIFIER_SHARE",
    "MISSING",
    "MOST_CLASSES",
    "NOTHING_FOUND",
    "NUMBER_CELLS",
    "Bounds",
    "Categories",
    "ColumnCode",
    "Encoder",
    "Range",
    "Scaling",
    "TargetCode",
    "Values",
    "fit_encoder",
    "fit_target",
    "histogram_coordinates",
    "histogram_noise",
    "label_of",
    "noisy_names",
    "noisy_range",
    "octave_ends",
    "public_scaling",
    "read_bounds",
    "rows_needed",
    "widest",
]

# ── What is public about a table's columns, and how a single value is read ────────────────────────
#
# A value is read on its own: as a number, as a text, or as missing.  It never depends on the other
# rows how, so that replacing one record changes one row of whatever is computed and nothing else: a
# column of numbers in which one person wrote a word stays a column of numbers.

#: Exponents of the signed logarithmic grid: from 2^-20 (a millionth) to 2^44.
_LOWEST, _HIGHEST = -20, 43
_OCTAVES = _HIGHEST - _LOWEST + 1
#: Cells of a column's histogram: numbers by sign and octave (zero in the middle), missing, texts.
NUMBER_CELLS = 2 * _OCTAVES + 1
MISSING = NUMBER_CELLS
BUCKETS = 1024
CELLS = NUMBER_CELLS + 1 + BUCKETS
#: How a missing value is written as text, besides what float() reads as not a number.
_GAPS = ("NaT", "None", "<NA>")
#: Dates are numbers of days, as datetimes of a typed table are.
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Range:
    """A column of numbers between two public ends."""

    low: float
    high: float

    def __post_init__(self) -> None:
        low, high = finite_number("low", self.low), finite_number("high", self.high)
        if not low < high or math.isinf(high - low):
            raise InputError(f"a range must be [low, high] with low < high, got {[low, high]!r}.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)


@dataclass(frozen=True)
class Categories:
    """A column of values from a public list; whatever is not in it counts as *other*."""

    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.labels or len(set(self.labels)) != len(self.labels):
            raise InputError(f"categories must be different values, got {list(self.labels)!r}.")


Bounds = Mapping[str, Range | Categories]


def _end(value: object) -> float | None:
    """Return the end of a range: a number, or a date; None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    days = _days(str(value)) if isinstance(value, str | date) else math.nan
    return None if math.isnan(days) else days


def _bound(given: object) -> Range | Categories:
    if isinstance(given, Range | Categories):
        return given
    if isinstance(given, Mapping):
        if set(given) == {"range"}:
            ends = given["range"]
            if isinstance(ends, Sequence) and not isinstance(ends, str) and len(ends) == 2:
                low, high = map(_end, ends)
                if low is not None and high is not None:
                    return Range(low, high)
        elif set(given) == {"categories"} and isinstance(given["categories"], Sequence):
            return Categories(tuple(map(label_of, given["categories"])))
    elif isinstance(given, Sequence) and not isinstance(given, str) and given:
        ends = [_end(value) for value in given]
        if len(ends) == 2 and ends[0] is not None and ends[1] is not None:
            return Range(ends[0], ends[1])
        return Categories(tuple(map(label_of, given)))
    raise InputError(
        f"a bound must be [low, high] or a list of categories, got {given!r}. "
        'Two numbers (or dates) that are categories are written {"categories": [0, 1]}.'
    )


def read_bounds(given: Mapping[str, object] | str | Path | None) -> dict[str, Range | Categories]:
    """Return public bounds from a mapping, or from a YAML or JSON file that holds one.

    Examples:
        >>> found = read_bounds(
        ...     {"age": [17, 90], "sex": ["F", "M"], "ward": {"categories": [1, 2]}}
        ... )
        >>> found["age"], found["ward"]
        (Range(low=17.0, high=90.0), Categories(labels=('1', '2')))
    """
    if given is None:
        return {}
    table: object = given
    if isinstance(given, str | Path):
        table = read_document(given, "bounds", words=True)
    if not isinstance(table, Mapping):
        raise InputError(f"bounds must map columns to ranges or categories, got {table!r}.")
    # An empty entry of a template is no bound.
    found = {}
    for name, value in table.items():
        if value is not None:
            try:
                found[str(name)] = _bound(value)
            except InputError as problem:
                raise InputError(f"bounds of {str(name)!r}: {problem}") from None
    return found


def _number_label(number: float) -> str:
    return str(int(number)) if abs(number) < 2**63 and number.is_integer() else repr(number)


def _days(text: str) -> float:
    """Return days since 1970 of a date as ISO 8601 writes it; NaN for every other text."""
    if not _ISO_DATE.fullmatch(text):
        return math.nan
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:  # the 31st of February
        return math.nan
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH).total_seconds() / 86_400


def _parsed(value: object) -> tuple[float, str]:
    """Return a value as a number (NaN if it is none) and as a label ('' if it is missing)."""
    text = str(value).strip()
    try:
        number = float(text)
    except ValueError:
        return _days(text), "" if text in _GAPS else text
    return (math.nan, "") if math.isnan(number) else (number, _number_label(number))


def label_of(value: object) -> str:
    """Return the text by which a value is compared with a category: 1, 1.0 and "1" are one."""
    return _parsed(value)[1]


def _bucket(label: str) -> int:
    """Return the bucket of a text, the same on every machine and in every table."""
    digest = hashlib.blake2b(label.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % BUCKETS


@dataclass(frozen=True, eq=False)
class Values:
    """A column, read value by value; long arrays are made when asked for, and not kept."""

    raw: NDArray[np.generic]
    parsed: FloatArray | None
    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, column: Series | ArrayLike) -> Values:
        """Read a column of a pandas table, or an array."""
        import pandas as pd
        from pandas.api import types

        series = pd.Series(column)
        if types.is_datetime64_any_dtype(series):
            # Days since 1970; a missing date stays missing.
            if series.dt.tz is not None:
                series = series.dt.tz_convert("UTC").dt.tz_localize(None)
            days = (series.astype("datetime64[ns]") - pd.Timestamp(0)) / pd.Timedelta(days=1)
            return cls(days.to_numpy(dtype=np.float64), None)
        if is_number(series):
            if series.isna().any():
                return cls(series.to_numpy(dtype=np.float64, na_value=np.nan), None)
            return cls(series.to_numpy(), None)
        # As texts: among objects True, 1 and 1.0 would be one value, whichever came first.
        texts = np.array(list(map(str, series.to_numpy(dtype=object))), dtype=object)
        try:
            # Nothing but numbers and gaps: float() of each text, as below, and nothing else kept.
            gaps = np.isin(texts, _GAPS)
            return cls(np.where(gaps, "nan", texts).astype(np.float64), None)
        except ValueError:
            pass
        codes, uniques = pd.factorize(texts)
        parsed = [_parsed(value) for value in uniques]
        numbers = np.array([number for number, _ in parsed], dtype=np.float64)
        return cls(codes.astype(np.int32), numbers, tuple(label for _, label in parsed))

    def __len__(self) -> int:
        return len(self.raw)

    @property
    def plain(self) -> bool:
        """Whether there are numbers and gaps only."""
        return self.parsed is None

    @property
    def numbers(self) -> FloatArray:
        """Every value as a number, NaN where it is none."""
        return self.part(slice(None))

    def part(self, rows: slice) -> FloatArray:
        """These values as numbers."""
        raw = self.raw[rows]
        return np.asarray(raw if self.parsed is None else self.parsed[raw], np.float64)

    @property
    def cells(self) -> NDArray[np.int16]:
        """Histogram cell of every value: octave, missing, or the bucket of its text."""
        if self.parsed is None:
            return _number_cells(self.numbers)
        texts = [NUMBER_CELLS + 1 + _bucket(text) if text else MISSING for text in self.labels]
        numbers = _number_cells(self.parsed)
        table = np.where(np.isnan(self.parsed), np.array(texts, dtype=np.int16), numbers)
        return np.asarray(table[self.raw], dtype=np.int16)

    @property
    def distinct(self) -> int:
        """Number of different values, missing ones not counted; a record moves it by at most 1."""
        if self.parsed is not None:
            return len({label for label in self.labels if label})
        return int(np.unique(self.raw[~np.isnan(self.numbers)]).size)

    def positions(self, labels: Sequence[str]) -> NDArray[np.int64]:
        """Return the place of every value in a list of labels, -1 for those not in it."""
        places = {label: place for place, label in enumerate(labels)}
        if self.parsed is not None:
            table = np.array([places.get(label, -1) for label in self.labels], dtype=np.int64)
            return np.asarray(table[self.raw])
        distinct, inverse = np.unique(self.numbers, return_inverse=True)
        known = [-1 if math.isnan(x) else places.get(_number_label(x), -1) for x in distinct]
        return np.array(known, dtype=np.int64)[inverse]

    def named(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Return every value's place among the labels that occur, sorted; missing is -1."""
        if self.parsed is not None:
            names = sorted({label for label in self.labels if label})
        else:
            names = sorted({_number_label(x) for x in np.unique(self.numbers) if not math.isnan(x)})
        return self.positions(names), tuple(names)


def _number_cells(numbers: FloatArray) -> NDArray[np.int16]:
    """Return sign and octave of numbers as a cell, the one for missing values for NaN."""
    size = np.minimum(np.abs(numbers), 2.0**60)
    octave = np.clip(np.frexp(size)[1] - 1, _LOWEST, _HIGHEST) - (_LOWEST - 1)
    octave = np.where(size < 2.0**_LOWEST, 0, octave)
    signed = _OCTAVES + np.where(numbers < 0, -octave, octave)
    return np.where(np.isnan(numbers), MISSING, signed).astype(np.int16)


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
            found = values.positions(self.labels)
        else:
            table = np.full(CELLS, -1, dtype=np.int64)
            table[list(self.cells)] = np.arange(len(self.cells))
            found = table[values.cells]
        return np.where(found < 0, self.indicators - 1, found) if self.other else found


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

    def transform(self, table: Mapping[str, Series] | DataFrame) -> Features:
        """Return the encoded rows: dense, or sparse where most entries would be 0."""
        read = {code.name: Values.of(table[code.name]) for code in self.columns if code.width}
        return self.encoded(read)

    def encoded(self, read: Mapping[str, Values]) -> Features:
        """Return the encoded rows of columns that were read before."""
        used = [code for code in self.columns if code.width]
        if not used:
            raise InputError(NOTHING_FOUND)
        rows = len(read[used[0].name])
        filled = sum((code.scaling is not None) + (code.indicators > 0) for code in used)
        dense = self.width <= 2 * filled
        data = np.zeros((rows, self.width if dense else filled))
        index = np.zeros((0 if dense else rows, filled), dtype=np.int32)
        place, start = 0, 0
        for code in used:
            values = read[code.name]
            if code.scaling is not None:
                encoded = code.scaling.encoded(values.numbers) / self.length
                data[:, start if dense else place] = encoded
                if not dense:
                    index[:, place] = start
                place, start = place + 1, start + 1
            if code.indicators:
                on = code.places(values)
                if dense:
                    seen = np.flatnonzero(on >= 0)
                    data[seen, start + on[seen]] = 1 / self.length
                else:
                    data[:, place] = (on >= 0) / self.length
                    index[:, place] = start + np.maximum(on, 0)
                place, start = place + 1, start + code.indicators
        if dense:
            return data
        # Ends of the indices' own type, so that scipy keeps both as they are.
        ends = np.arange(0, rows * filled + 1, filled)
        if rows * filled < 2**31:
            ends = ends.astype(np.int32)
        return sparse.csr_array((data.ravel(), index.ravel(), ends), shape=(rows, self.width))

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {"columns": [asdict(code) for code in self.columns]}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Encoder:
        """Return the encoder that :meth:`to_dict` described."""
        return cls(tuple(_code_from(fields) for fields in given["columns"]))


def _code_from(fields: Mapping[str, Any]) -> ColumnCode:
    scaling = fields["scaling"]
    return ColumnCode(
        str(fields["name"]),
        None if scaling is None else Scaling(**scaling),
        tuple(map(str, fields["labels"])),
        tuple(map(int, fields["cells"])),
        bool(fields["other"]),
    )


@dataclass(frozen=True)
class TargetCode:
    """The target: classes by name, or a range of numbers that is mapped to [-1, 1]."""

    name: str
    classes: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0

    def read(self, values: Values) -> tuple[NDArray[np.generic], FloatArray]:
        """Return codes or scaled numbers, and weights: 0 for a class that is not listed."""
        if self.classes:
            codes = values.positions(self.classes)
            return codes, (codes >= 0).astype(np.float64)
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


# ── From columns to bounded numbers, with noisy histograms for what is not public ─────────────────
#
# A column with public bounds costs nothing but, for numbers, a share of one noisy mean.  Any other
# column is put into one histogram: numbers by sign and octave, texts by a bucket of a public hash,
# so that the cells are the same for every table and no name is ever released.  Cells above the
# noise decide whether the column holds numbers, where they lie and which values get an indicator; a
# second histogram inside that range gives a mean and a spread.  Classes of the target need names:
# they are released where their noisy count says that many people share them (proofs/gradient-
# descent.md).

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


def histogram_noise(histograms: int, mu: float) -> float:
    """Return the noise scale of so many histograms that share μ: √(2·histograms)/μ, from above.

    A replaced record takes one count away and adds one, in each: L2 sensitivity √2 per histogram.
    """
    return up(math.sqrt(2.0 * histograms) / mu, 8)


def rows_needed(private: int, mu: float, *, classes: bool = False) -> int:
    """Return how many rows a table must have for its private columns to rise above the noise.

    A rule, not a promise: 40 noise scales of the first histograms, at the default share; where all
    bounds are given, 10/μ, below which the noise in a mean is as large as a typical mean.
    """
    if private + classes == 0:
        return math.ceil(_FEWEST_SIGNALS / mu)
    spent = mu * math.sqrt(HISTOGRAM_SHARE * FIRST_SHARE)
    return math.ceil(_ROWS_PER_SCALE * histogram_noise(private + classes, spent))


def noisy_range(values: Values, scale: float, source: RandomSource) -> Range | None:
    """Return ends of the octaves in which the numbers lie, from one noisy histogram."""
    counts = np.bincount(values.cells, minlength=CELLS)[:NUMBER_CELLS]
    kept = np.flatnonzero(noisy_release(counts, scale, source) > _RANGE_SCALES * scale)
    ends = [end for cell in kept for end in octave_ends(int(cell))]
    return Range(min(ends), max(ends)) if ends and min(ends) < max(ends) else None


def noisy_names(values: Values, scale: float, source: RandomSource) -> tuple[str, ...]:
    """Return the values that many people share, by name, from one noisy histogram.

    Guarantee: what one person has is named with probability at most :data:`CLASS_SLACK`.
    """
    places, names = values.named()
    counts = np.bincount(places[places >= 0], minlength=len(names))
    noisy = noisy_release(counts, scale, source)
    passed = np.flatnonzero(noisy > 1.0 + _CLASS_SCALES * scale)
    largest = passed[np.argsort(-noisy[passed], kind="stable")][:MOST_CLASSES]
    return tuple(names[place] for place in sorted(largest))


def fit_target(
    name: str,
    values: Values,
    bounds: Bounds,
    *,
    kind: Literal["classes", "numbers"],
    scale: float,
    source: RandomSource,
) -> TargetCode:
    """Return the target's code, from public bounds or from one noisy histogram of noise ``scale``.

    Guarantee: a class that one person has is named with probability at most :data:`CLASS_SLACK`,
    so both worlds are within that of a Gaussian pair (proofs/gradient-descent.md, claim 5).
    """
    bound = bounds.get(name)
    if kind == "numbers":
        if isinstance(bound, Range):
            return TargetCode(name, (), bound.low, bound.high)
        if bound is not None:
            raise InputError(f"bounds of {name!r} must be [low, high] for a target of numbers.")
        found = noisy_range(values, scale, source)
        if found is None:
            raise InputError(
                f"target {name!r} must have a range: give bounds [low, high] for it, or take the "
                "learner logistic or svm if it has classes."
            )
        return TargetCode(name, (), found.low, found.high)
    if isinstance(bound, Categories):
        labels = bound.labels
    elif isinstance(bound, Range):
        raise InputError(
            f"bounds of {name!r} must be a list of classes, got a range. "
            'Write {"categories": [0, 1]} if the classes are numbers.'
        )
    else:
        labels = noisy_names(values, scale, source)
    if len(labels) < 2:
        raise InputError(
            f"target {name!r} must have at least two classes, each with more than about "
            f"{math.ceil(1 + _CLASS_SCALES * scale)} rows, got {len(labels)}. "
            "Give the classes in the bounds if they are public, or take the learner ridge or huber "
            "if they are numbers."
        )
    return TargetCode(name, labels)


def fit_encoder(
    read: Mapping[str, Values],
    bounds: Bounds,
    budget: NeighbourBudget,
    source: RandomSource,
    *,
    scale: float | None,
    fine_mu: float | None,
) -> Encoder:
    """Return an encoder from public bounds, noisy histograms and one noisy mean.

    ``scale`` is the noise of the first histograms, which share their part of the budget with the
    target's; ``fine_mu`` is what the second ones may take, ``None`` where no column needs them.

    Guarantee: what it takes from the budget is all that it tells about the table.
    Theorem: X22, proofs/gradient-descent.md claims 1, 3 and 5.
    """
    rows = len(next(iter(read.values())))
    private = [name for name in read if name not in bounds]
    public = [name for name in read if isinstance(bounds.get(name), Range)]
    drafts: dict[str, ColumnCode | _Draft] = _identifiers(read, private, budget, source)
    for name in private:
        if name in drafts:
            continue
        assert scale is not None
        counts = np.bincount(read[name].cells, minlength=CELLS)
        drafts[name] = _draft(name, noisy_release(counts, scale, source), scale, rows)
    numeric = [draft for draft in drafts.values() if isinstance(draft, _Draft)]
    if numeric:
        assert fine_mu is not None
        fine = histogram_noise(len(numeric), fine_mu)
        for draft in numeric:
            counts = draft.fine_counts(read[draft.name])
            drafts[draft.name] = draft.finished(noisy_release(counts, fine, source), fine)
    means = _noisy_mean(read, bounds, public, budget, source) if public else {}
    codes: list[ColumnCode] = []
    for name in read:
        bound = bounds.get(name)
        if isinstance(bound, Range):
            codes.append(ColumnCode(name, public_scaling(bound, means[name])))
        elif isinstance(bound, Categories):
            codes.append(ColumnCode(name, None, bound.labels, (), True))
        else:
            code = drafts[name]
            assert isinstance(code, ColumnCode)
            codes.append(code)
    return Encoder(tuple(codes))


def _identifiers(
    read: Mapping[str, Values], private: list[str], budget: NeighbourBudget, source: RandomSource
) -> dict[str, ColumnCode | _Draft]:
    """Return empty codes for columns that are called identifiers and whose values hardly repeat.

    Names are public; how many values there are is asked with noise.  A replaced record, like an
    added one, moves each number by at most 1 (proofs/gradient-descent.md, claim 5).
    """
    called = [name for name in private if says_identifier(name)]
    if not called:
        return {}
    mu = budget.take("values of columns called identifiers", IDENTIFIER_SHARE)
    scale = up(math.sqrt(len(called)) / mu, 8)
    noisy = noisy_release([read[name].distinct for name in called], scale, source)
    half = len(read[called[0]]) / 2
    return {n: ColumnCode(n) for n, values in zip(called, noisy, strict=True) if values > half}


def _strongest(noisy: FloatArray, least: float) -> tuple[int, ...]:
    """Return the cells above a count, the largest first if there are too many, in their order."""
    above = np.flatnonzero(noisy > least)
    best = above[np.argsort(-noisy[above], kind="stable")][:_MOST_CELLS]
    return tuple(sorted(int(cell) for cell in best))


def _draft(name: str, noisy: FloatArray, scale: float, rows: int) -> ColumnCode | _Draft:
    """Decide from noisy counts what a column holds."""
    numbers = noisy[:NUMBER_CELLS]
    present = rows - max(0.0, float(noisy[MISSING]))
    doubt = 3 * scale * math.sqrt(NUMBER_CELLS)
    kept = np.flatnonzero(numbers > _RANGE_SCALES * scale)
    if float(numbers.sum()) > max(present / 2, doubt) and kept.size:
        ends = [octave_ends(int(cell)) for cell in kept]
        low, high = min(low for low, _ in ends), max(high for _, high in ends)
        if low == high:  # nothing but zeros rises above the noise
            low, high = -1.0, 1.0
        # Values that are no numbers, and heavy tails, get indicators.
        others = _strongest(noisy[MISSING:], _RANGE_SCALES * scale)
        typical = _median_size(kept, numbers[kept])
        heavy = max(abs(low), abs(high)) > typical * 2.0**_HEAVY_OCTAVES
        zeros = bool((kept == NUMBER_CELLS // 2).any()) and kept.size > 1
        octaves = tuple(int(cell) for cell in kept) if heavy or zeros else ()
        cells = (*octaves, *(MISSING + cell for cell in others))[:_MOST_CELLS]
        return _Draft(name, low, high, typical if heavy else 0.0, cells)
    cells = _strongest(noisy, _INDICATOR_SCALES * scale)
    if _hardly_shared(noisy[MISSING + 1 :], scale):
        cells = _strongest(noisy[: MISSING + 1], _RANGE_SCALES * scale)
    return ColumnCode(name, None, (), cells, bool(cells))


def _hardly_shared(texts: FloatArray, scale: float) -> bool:
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

    @property
    def _span(self) -> tuple[float, float]:
        if self.unit > 0:
            return math.asinh(self.low / self.unit), math.asinh(self.high / self.unit)
        return self.low, self.high

    def fine_counts(self, values: Values) -> NDArray[np.int64]:
        """Return the counts of the range's linear cells."""
        low, high = self._span
        numbers = values.numbers[~np.isnan(values.numbers)]
        moved = Scaling(low, high, 0.0, 1.0, self.unit).transformed(numbers)
        places = np.minimum((moved - low) / (high - low) * _FINE, _FINE - 1).astype(np.int64)
        return np.bincount(places, minlength=_FINE)

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
        return ColumnCode(self.name, scaling, (), self.cells, False)


def _noisy_mean(
    read: Mapping[str, Values],
    bounds: Bounds,
    names: list[str],
    budget: NeighbourBudget,
    source: RandomSource,
) -> dict[str, float]:
    """Return means of the columns with public ranges, in [-1, 1], from one noisy sum."""
    plain = [public_scaling(bound) for name in names if isinstance(bound := bounds[name], Range)]
    rows = len(read[names[0]])
    radius = _MEAN_RADIUS * math.sqrt(len(names))
    mu = budget.take("means of columns with public ranges", CENTRE_SHARE)
    noise = noise_for_path(path_sensitivity(radius, rows), 1, mu)
    total = np.zeros(len(names))
    block = 8192
    for start in range(0, rows, block):
        inside = slice(start, start + block)
        table = np.column_stack(
            [s.encoded(read[n].part(inside)) for n, s in zip(names, plain, strict=True)]
        )
        total += clipped_sum(
            [table],
            lambda _number, scores: np.ones_like(scores),
            [row_lengths(table, 0.0)],
            np.zeros((len(names) + 1, 1)),
            clip=radius,
            intercept=0.0,
        )[:-1, 0]
    # Shrunk towards the middle by as much as the noise is large: public numbers, and better than a
    # centre that the noise has moved anywhere.
    trust = _MEAN_SPREAD**2 / (_MEAN_SPREAD**2 + (noise / rows) ** 2)
    found = np.clip(trust * noisy_release(total, noise, source) / rows, -1.0, 1.0)
    return dict(zip(names, found.tolist(), strict=True))
