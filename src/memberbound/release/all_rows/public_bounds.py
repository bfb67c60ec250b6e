"""What is public about a table's columns, and noisy histograms for what is not.

Public categories cost nothing.  Any other column is put into one histogram: numbers by sign and
octave, texts by a bucket of a public hash, so that the cells are the same for every table and no
name is ever released by them.  Names (classes, values of synthetic rows) are released where their
noisy count says that many people share them (proofs/gradient-descent.md).
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError, finite_number
from memberbound.files import read_document
from memberbound.numerics.rounding import FloatArray, up
from memberbound.release.all_rows.gradient import row_cuts
from memberbound.release.budget import Budget, NoisySums
from memberbound.tables.columns import Form, Values, checked_format, label_of, read_value
from memberbound.tables.in_memory import Persons, Records
from memberbound.tables.roles import says_identifier

# ── What is public about a table's columns ────────────────────────────────────────────────────────


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
    kind, entries, form = "", stated, "any"
    if isinstance(stated, Mapping):
        kinds = [key for key in stated if key not in ("decimal", "format")]
        if kinds in (["range"], ["categories"]) and len(stated) <= 2:
            kind, entries, form = str(kinds[0]), stated[kinds[0]], _form(stated)
    if isinstance(entries, Sequence) and not isinstance(entries, str) and entries:
        ends = None if kind == "categories" else _ends(entries, form)
        if ends is not None:
            return Range(*ends, form)
        if kind != "range":
            return Categories(tuple(label_of(value, form) for value in entries), form)
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

#: Exponents of the signed logarithmic grid: from 2^-20 (a millionth) to 2^44.
_LOWEST, _HIGHEST = -20, 43
_OCTAVES = _HIGHEST - _LOWEST + 1
#: Cells of a column's histogram: numbers by sign and octave (zero in the middle), missing, texts.
NUMBER_CELLS = 2 * _OCTAVES + 1
MISSING = NUMBER_CELLS
BUCKETS = 1024
CELLS = NUMBER_CELLS + 1 + BUCKETS
#: Rows that are encoded at once.
ROWS_AT_ONCE = 2**17


def _hash(label: str) -> int:
    """Return the hash of a text, the same on every machine and in every table."""
    digest = hashlib.blake2b(label.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def cells_of(values: Values) -> NDArray[np.int16]:
    """Return the histogram cell of every value: octave, missing, or the bucket of its text."""
    if values.parsed is None:
        cells = np.empty(len(values), dtype=np.int16)
        for cut in row_cuts(len(values), None, ROWS_AT_ONCE):
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


# ── What noisy histograms say about a column ──────────────────────────────────────────────────────

#: Share of μ² for histograms of columns that are not public.
HISTOGRAM_SHARE = 0.15
#: Share of μ² for the number of different values in columns whose names say that they identify.
IDENTIFIER_SHARE = 0.005
#: A cell of numbers counts towards the range from this many noise scales on.
RANGE_SCALES = 4.5
#: Values of a column that are released by name.
MOST_CLASSES = 32
#: A value that one person has is named with at most this probability: Φ(-6) is below it, and
#: the grid moves a noisy count by at most an eighth of the scale.
CLASS_SLACK = 1e-9
CLASS_SCALES = 6.2
#: A column of texts whose Σcount² is at most this many times that of identifiers has no indicators.
_ALIKE = 3.0


def octave_span(cells: NDArray[np.intp]) -> tuple[float, float]:
    """Return the ends of the octaves of some number cells."""
    ends = [end for cell in cells for end in octave_ends(int(cell))]
    return min(ends), max(ends)


def noisy_range(records: Records, name: str, histograms: NoisySums) -> Range | None:
    """Return ends of the octaves in which the numbers lie, from one noisy histogram."""
    counts = cell_counts(records, name)[:NUMBER_CELLS]
    kept = np.flatnonzero(histograms.measure(counts) > RANGE_SCALES * histograms.scale)
    low, high = octave_span(kept) if kept.size else (0.0, 0.0)
    return Range(low, high) if low < high else None


def noisy_octaves(noisy: FloatArray, scale: float, records: int) -> NDArray[np.intp]:
    """Return the number cells above the noise, none where a column does not hold numbers."""
    numbers = noisy[:NUMBER_CELLS]
    present = records - max(0.0, float(noisy[MISSING]))
    doubt = 3 * scale * math.sqrt(NUMBER_CELLS)
    if float(numbers.sum()) > max(present / 2, doubt):
        return np.flatnonzero(numbers > RANGE_SCALES * scale)
    return np.zeros(0, dtype=np.intp)


def noisy_names(records: Records, name: str, histograms: NoisySums) -> tuple[str, ...]:
    """Return the values that many people share, by name, from one noisy histogram.

    Guarantee: that of :func:`noisy_texts`.
    """
    return noisy_texts(records, name, None, 0, histograms)[1]


#: Puts values that are numbers into cells.
NumberCellsOf = Callable[[Values], NDArray[np.int64]]


def noisy_texts(
    records: Records, name: str, cells: NumberCellsOf | None, count: int, histograms: NoisySums
) -> tuple[FloatArray, tuple[str, ...]]:
    """Return noisy counts of cells of numbers, and the texts that many people share.

    One histogram: a value is a number, and in one of the ``count`` cells, or a text; without
    ``cells`` numbers are texts, too.  A person counts for the commonest of these: several that
    nobody else has would each have a chance of being named.

    Guarantee: what one person has is named with probability at most :data:`CLASS_SLACK`.
    """
    numbers, texts = records.chosen([name]).total(_text_counts, name, cells, count)
    names = sorted(texts)
    noisy = histograms.measure([*numbers, *(texts[text] for text in names)])
    counts = noisy[count:]
    passed = np.flatnonzero(counts > 1.0 + CLASS_SCALES * histograms.scale)
    largest = passed[np.argsort(-counts[passed], kind="stable")][:MOST_CLASSES]
    return noisy[:count], tuple(names[place] for place in sorted(largest))


def _text_counts(
    part: Records, name: str, cells: NumberCellsOf | None = None, count: int = 0
) -> tuple[NDArray[np.int64], dict[str, int]]:
    """Return how many records are in which cell, or have which text; missing values in none."""
    values = part.columns[name]
    places, names = values.named()
    joint = np.where(places >= 0, count + places, -1)
    if cells is not None:
        joint = np.where(np.isnan(values.numbers), joint, cells(values))
    joint = joint if part.persons is None else part.persons.commonest(joint)
    counts = np.bincount(joint[joint >= 0], minlength=count + len(names))
    listed = zip(names, counts[count:].tolist(), strict=True)
    return counts[:count], {text: number for text, number in listed if number}


def noisy_identifiers(records: Records, private: Sequence[str], budget: Budget) -> tuple[str, ...]:
    """Return the columns that are called identifiers and whose values hardly repeat.

    Names are public; how many values there are is asked with noise.  A replaced record, like an
    added one, moves each number by at most 1 (proofs/gradient-descent.md, claim 5).
    """
    called = [name for name in private if says_identifier(name)]
    if not called:
        return ()
    part = budget.take("values of columns called identifiers", IDENTIFIER_SHARE)
    hashes = records.chosen(called).total(_name_hashes, called)
    distinct = [np.unique(np.concatenate(column)).size for column in hashes]
    noisy = part.sums(sensitivity=up(math.sqrt(len(called)))).measure(distinct)
    half = len(records) / 2
    return tuple(n for n, values in zip(called, noisy, strict=True) if values > half)


def _name_hashes(part: Records, names: Sequence[str]) -> tuple[list[NDArray[np.uint64]], ...]:
    """Return hashes of the different values that columns have."""
    return tuple([np.array(list(map(_hash, _text_counts(part, n)[1])), np.uint64)] for n in names)


def hardly_shared(texts: FloatArray, scale: float) -> bool:
    """Tell from noisy counts whether texts fill the buckets as identifiers do: all alike.

    Σcount² is n²/buckets + n where no two rows share a text, and n²/k for k equal categories.
    """
    rows = max(0.0, float(texts.sum()))
    squares = float(np.square(texts).sum()) - texts.size * scale**2
    doubt = 3 * math.sqrt(2 * texts.size) * scale**2
    return squares <= _ALIKE * (rows**2 / texts.size + rows) + doubt
