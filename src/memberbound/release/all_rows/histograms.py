"""Noisy histograms of columns without public bounds.

The cells are the same for every table: numbers by sign and octave, texts by bucket of a public
hash, so that a cell never reveals a name.  A name (of a class, or a value in a synthetic row) is
released only if its noisy count shows that many people share it (proofs/gradient-descent.md).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memberbound.numerics.rounding import FloatArray, IntArray, up
from memberbound.release.budget import Budget, NoisySums
from memberbound.tables.persons import Persons
from memberbound.tables.records import Records
from memberbound.tables.roles import says_identifier
from memberbound.tables.spelling import number_label
from memberbound.tables.values import Values

# ── Cells: the same for every table ───────────────────────────────────────────────────────────────

#: Exponents of the signed logarithmic grid, from 2^-20 (about 1e-6) to 2^44.
_LOWEST, _HIGHEST = -20, 43
_OCTAVES = _HIGHEST - _LOWEST + 1
#: Cells: numbers by sign and octave (zero in the middle), missing values, buckets of texts.
NUMBER_CELLS = 2 * _OCTAVES + 1
MISSING = NUMBER_CELLS
BUCKETS = 1024
CELLS = NUMBER_CELLS + 1 + BUCKETS
#: Number of rows encoded at once.
ROWS_AT_ONCE = 2**17


def _hash(label: str) -> int:
    """Return the hash of a text, the same on every machine and in every table."""
    digest = hashlib.blake2b(label.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


class FixedCells:
    """Cells that are the same for every table: octaves, missing values, buckets of texts."""

    @property
    def count(self) -> int:
        """Number of cells."""
        return CELLS

    def cell_of(self, values: Values) -> IntArray:
        """Return the octave of every number, and the bucket of every text."""
        return np.asarray(values.map(_cells_of_values), dtype=np.int64)

    def label(self, cell: int) -> str:
        """Return the ends of an octave, or the number of a bucket."""
        if cell > MISSING:
            return f"texts of bucket {cell - MISSING - 1}"
        if cell == MISSING:
            return "(missing)"
        low, high = octave_ends(cell)
        return f"{number_label(low)} to {number_label(high)}" if low < high else "0"


FIXED_CELLS = FixedCells()


def _cells_of_values(numbers: FloatArray, texts: Sequence[str] | None) -> NDArray[np.int16]:
    cells = octave_cells(numbers)
    if texts is not None:
        for index in np.flatnonzero(np.isnan(numbers)).tolist():
            if texts[index]:
                cells[index] = NUMBER_CELLS + 1 + _hash(texts[index]) % BUCKETS
    return cells


def octave_cells(numbers: FloatArray) -> NDArray[np.int16]:
    """Return the cell of every number by sign and octave, or MISSING for NaN."""
    size = np.minimum(np.abs(numbers), 2.0**60)
    octave = np.clip(np.frexp(size)[1] - 1, _LOWEST, _HIGHEST) - (_LOWEST - 1)
    octave = np.where(size < 2.0**_LOWEST, 0, octave)
    signed = _OCTAVES + np.where(numbers < 0, -octave, octave)
    return np.where(np.isnan(numbers), MISSING, signed).astype(np.int16)


def count_cells(cells: NDArray[np.generic], count: int, persons: Persons | None) -> FloatArray:
    """Count the records in every cell; with persons, each person's rows share a weight of 1.

    Guarantee: exact; L2 sensitivity at most √2 under replace-one (X26, proofs/persons.md).
    """
    weights = None if persons is None else persons.weights
    return np.asarray(np.bincount(cells, weights, minlength=count), dtype=np.float64)


def octave_ends(cell: int) -> tuple[float, float]:
    """Return the ends of a number cell."""
    octave = cell - _OCTAVES
    if octave == 0:
        return 0.0, 0.0
    exponent = abs(octave) - 1 + _LOWEST
    low, high = math.ldexp(1.0, exponent), math.ldexp(1.0, exponent + 1)
    return (low, high) if octave > 0 else (-high, -low)


# ── Released names and identifiers ────────────────────────────────────────────────────────────────

#: Share of μ² for the numbers of distinct values in columns named like identifiers.
IDENTIFIER_SHARE = 0.005
#: Maximum number of values of a column that are released by name.
MOST_CLASSES = 32
#: A value of a single person is released with a probability of at most ``CLASS_SLACK``: a noisy
#: count must exceed 1 by this many scales, Φ(-6) is below it, and the grid changes a count by at
#: most scale/8.
CLASS_SCALES = 6.2
#: A text column gets no indicators if its Σcount² is at most this multiple of an identifier's.
_ALIKE = 3.0


def noisy_names(records: Records, name: str, histograms: NoisySums) -> tuple[str, ...]:
    """Release the names of values that many people share, from one noisy histogram.

    Each person counts once, for their most common value.  Otherwise a person with several unique
    values would have several chances of having one released.

    Guarantee: a value of a single person is released with probability at most ``CLASS_SLACK``.
    """
    exact = records.select([name]).shards.sum(_name_counts, name)
    names = sorted(exact)
    # The number of values is secret; neighbouring tables differ in at most two counts.
    noisy = histograms.measure([exact[label] for label in names], differing=2)
    passed = np.flatnonzero(noisy > 1.0 + CLASS_SCALES * histograms.scale)
    largest = passed[np.argsort(-noisy[passed], kind="stable")][:MOST_CLASSES]
    return tuple(names[index] for index in sorted(largest))


def _name_counts(shard: Records, name: str) -> dict[str, int]:
    """Count the records of every value, except missing values."""
    codes, names = shard.columns[name].factorize()
    codes = codes if shard.persons is None else shard.persons.most_common(codes)
    counts = np.bincount(codes[codes >= 0], minlength=len(names)).tolist()
    return {label: count for label, count in zip(names, counts, strict=True) if count}


def noisy_identifiers(records: Records, private: Sequence[str], budget: Budget) -> tuple[str, ...]:
    """Return the columns with identifier-like names and few repeated values.

    Column names are public; the number of distinct values is measured with noise, and replacing or
    adding a record changes it by at most 1 (proofs/gradient-descent.md, claim 5).
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
    """Return the hashes of each column's distinct values."""
    return tuple([np.array(list(map(_hash, _name_counts(shard, n))), np.uint64)] for n in names)


def hardly_shared(texts: FloatArray, scale: float) -> bool:
    """Return whether a column's texts look unique: their noisy bucket counts are nearly uniform.

    Σcount² is n²/buckets + n if no two rows share a text, and n²/k for k categories of equal size.
    """
    rows = max(0.0, float(texts.sum()))
    squares = float(np.square(texts).sum()) - texts.size * scale**2
    doubt = 3 * math.sqrt(2 * texts.size) * scale**2
    return squares <= _ALIKE * (rows**2 / texts.size + rows) + doubt
