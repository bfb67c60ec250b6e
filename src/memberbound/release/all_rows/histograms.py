"""Noisy histograms of columns without public bounds.

The cells are the same for every table: numbers by sign and octave, texts by a bucket of a public
hash, so that a cell never reveals a name.  A name (a class, a value of a synthetic row) is released
only if its noisy count shows that many people share it (proofs/gradient-descent.md).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from memberbound.numerics.rounding import FloatArray, up
from memberbound.release.all_rows.bounds import Range
from memberbound.release.budget import Budget, NoisySums
from memberbound.tables.columns import Values
from memberbound.tables.persons import Persons
from memberbound.tables.records import Records
from memberbound.tables.roles import says_identifier

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
    return np.asarray(values.map(_histogram_cells), dtype=np.int16)


def _histogram_cells(numbers: FloatArray, texts: Sequence[str] | None) -> NDArray[np.int16]:
    cells = _number_cells(numbers)
    if texts is not None:
        for index in np.flatnonzero(np.isnan(numbers)).tolist():
            if texts[index]:
                cells[index] = NUMBER_CELLS + 1 + _hash(texts[index]) % BUCKETS
    return cells


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
    return np.asarray(records.select([name]).shards.sum(_cell_counts, name))


def _cell_counts(shard: Records, name: str) -> FloatArray:
    return counted(cells_of(shard.columns[name]), CELLS, shard.persons)


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
    numbers, texts = records.select([name]).shards.sum(_text_counts, name, cells, count)
    names = sorted(texts)
    noisy = histograms.measure([*numbers, *(texts[text] for text in names)])
    counts = noisy[count:]
    passed = np.flatnonzero(counts > 1.0 + CLASS_SCALES * histograms.scale)
    largest = passed[np.argsort(-counts[passed], kind="stable")][:MOST_CLASSES]
    return noisy[:count], tuple(names[place] for place in sorted(largest))


def _text_counts(
    shard: Records, name: str, cells: NumberCellsOf | None = None, count: int = 0
) -> tuple[NDArray[np.int64], dict[str, int]]:
    """Return how many records are in which cell, or have which text; missing values in none."""
    values = shard.columns[name]
    places, names = values.factorize()
    joint = np.where(places >= 0, count + places, -1)
    if cells is not None:
        joint = np.where(np.isnan(values.numbers), joint, cells(values))
    joint = joint if shard.persons is None else shard.persons.most_common(joint)
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
    share = budget.take("values of columns called identifiers", IDENTIFIER_SHARE)
    hashes = records.select(called).shards.sum(_name_hashes, called)
    distinct = [np.unique(np.concatenate(column)).size for column in hashes]
    noisy = share.sums(sensitivity=up(math.sqrt(len(called)))).measure(distinct)
    half = len(records) / 2
    return tuple(n for n, values in zip(called, noisy, strict=True) if values > half)


def _name_hashes(shard: Records, names: Sequence[str]) -> tuple[list[NDArray[np.uint64]], ...]:
    """Return hashes of the different values that columns have."""
    return tuple([np.array(list(map(_hash, _text_counts(shard, n)[1])), np.uint64)] for n in names)


def hardly_shared(texts: FloatArray, scale: float) -> bool:
    """Tell from noisy counts whether texts fill the buckets as identifiers do: all alike.

    Σcount² is n²/buckets + n where no two rows share a text, and n²/k for k equal categories.
    """
    rows = max(0.0, float(texts.sum()))
    squares = float(np.square(texts).sum()) - texts.size * scale**2
    doubt = 3 * math.sqrt(2 * texts.size) * scale**2
    return squares <= _ALIKE * (rows**2 / texts.size + rows) + doubt
