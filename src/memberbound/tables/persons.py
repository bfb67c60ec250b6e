"""Group rows by person, if a record is all rows of a person."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray
from memberbound.tables.columns import read_column

if TYPE_CHECKING:
    from pandas import Series

#: Weights of a person's rows are whole multiples of 1/2^20, so their sums are exact.
PERSON_UNITS = 2.0**20


@dataclass(frozen=True, eq=False)
class Persons:
    """Rows sorted by person: those of person k start at ``starts[k]``.

    Guarantee: every method's result for a person is independent of the order of that person's rows
    and of all other rows (proofs/persons.md).

    Examples:
        >>> visits = Persons(np.array([0, 1, 4]), 6)
        >>> visits.sizes.tolist(), visits.weights.tolist()[-2:]
        ([1, 3, 2], [0.5, 0.5])
    """

    starts: NDArray[np.int64]
    rows: int

    @property
    def count(self) -> int:
        """Number of persons."""
        return len(self.starts)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of rows of every person."""
        return np.diff(self.starts, append=self.rows)

    @cached_property
    def weights(self) -> FloatArray:
        """A weight per row: equal for the rows of a person, summing to at most 1 (X26)."""
        return np.repeat(np.floor(PERSON_UNITS / self.sizes) / PERSON_UNITS, self.sizes)

    def starts_within(self, rows: slice) -> NDArray[np.int64]:
        """Return where persons start within a slice that splits no person."""
        first, last = np.searchsorted(self.starts, (rows.start, rows.stop))
        return np.asarray(self.starts[first:last] - rows.start)

    def average(self, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the mean of every person's rows of integers, rounded down."""
        sizes = self.sizes if units.ndim == 1 else self.sizes[:, None]
        return np.asarray(np.add.reduceat(units, self.starts, axis=0) // sizes)

    def most_common(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return every person's most common code (the smallest in a tie), or -1.

        Examples:
            >>> Persons(np.array([0, 3]), 5).most_common(np.array([7, 2, 7, -1, 4])).tolist()
            [7, 4]
        """
        most = int(codes.max(initial=0)) + 1
        whose = np.repeat(np.arange(self.count), self.sizes)[codes >= 0]
        pairs, counts = np.unique(whose * most + codes[codes >= 0], return_counts=True)
        order = np.lexsort((pairs, -counts, pairs // most))
        whose, first = np.unique(pairs[order] // most, return_index=True)
        modes = np.full(self.count, -1, dtype=np.int64)
        modes[whose] = pairs[order][first] % most
        return modes

    def take(self, persons: NDArray[np.intp]) -> tuple[NDArray[np.intp], Persons]:
        """Return the rows of some persons, and their grouping."""
        sizes = self.sizes[persons]
        starts = np.cumsum(sizes) - sizes
        rows = np.arange(int(sizes.sum())) + np.repeat(self.starts[persons] - starts, sizes)
        return rows, Persons(starts, len(rows))


def number_persons(column: Series) -> NDArray[np.int64]:
    """Return the number of every row's person, or -1 if the value is missing.

    Identifiers are texts: ``7``, ``7.0`` and ``+7`` are three persons.  Only in a column of numeric
    type are 7 and 7.0 the same.

    Examples:
        >>> import pandas as pd
        >>> number_persons(pd.Series(["12e4", "120000", "12e4", None])).tolist()
        [1, 0, 1, -1]
    """
    return read_column(column, "unit").factorize()[0]


def check_unit(unit: str | None, used: Collection[str]) -> None:
    """Reject a unit that is also the target or a feature."""
    if unit in used:
        raise InputError(
            f"unit must be neither the target nor among the columns, got {unit!r}: it "
            "identifies the person of a row."
        )


def row_cuts(rows: int, persons: Persons | None, size: int) -> list[slice]:
    """Return consecutive blocks of about ``size`` rows that never split a person."""
    ends = np.arange(0, rows + size, size).clip(max=rows)
    if persons is not None:
        borders = np.append(persons.starts, rows)
        ends = np.unique(borders[np.searchsorted(borders, ends)])
    return [slice(int(a), int(b)) for a, b in pairwise(ends.tolist()) if a < b]
