"""Persons: which rows belong to whom, when one record is all rows of a person."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray

#: Weights of a person's rows are whole multiples of 1/2^20, so that sums of them are exact.
PERSON_UNITS = 2.0**20


@dataclass(frozen=True, eq=False)
class Persons:
    """Which rows are whose: the rows of person k stand together, from ``starts[k]`` on.

    Guarantee: what is computed here about a person does not depend on the order of that person's
    rows, nor on anybody else's (proofs/persons.md).

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
        """A weight for every row: those of a person are equal and add up to at most 1 (X26)."""
        return np.repeat(np.floor(PERSON_UNITS / self.sizes) / PERSON_UNITS, self.sizes)

    def within(self, rows: slice) -> NDArray[np.int64]:
        """Return where persons start within a run of rows that cuts nobody's rows apart."""
        first, last = np.searchsorted(self.starts, (rows.start, rows.stop))
        return np.asarray(self.starts[first:last] - rows.start)

    def averaged(self, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the mean of every person's rows of whole numbers, rounded down."""
        sizes = self.sizes if units.ndim == 1 else self.sizes[:, None]
        return np.asarray(np.add.reduceat(units, self.starts, axis=0) // sizes)

    def commonest(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return every person's commonest code, the smallest of several; -1 for none.

        Examples:
            >>> Persons(np.array([0, 3]), 5).commonest(np.array([7, 2, 7, -1, 4])).tolist()
            [7, 4]
        """
        most = int(codes.max(initial=0)) + 1
        whose = np.repeat(np.arange(self.count), self.sizes)[codes >= 0]
        pairs, counts = np.unique(whose * most + codes[codes >= 0], return_counts=True)
        order = np.lexsort((pairs, -counts, pairs // most))
        whose, first = np.unique(pairs[order] // most, return_index=True)
        chosen = np.full(self.count, -1, dtype=np.int64)
        chosen[whose] = pairs[order][first] % most
        return chosen

    def taken(self, places: NDArray[np.intp]) -> tuple[NDArray[np.intp], Persons]:
        """Return the rows of some persons, and whose they are then."""
        sizes = self.sizes[places]
        starts = np.cumsum(sizes) - sizes
        rows = np.arange(int(sizes.sum())) + np.repeat(self.starts[places] - starts, sizes)
        return rows, Persons(starts, len(rows))


def check_unit(unit: str | None, used: Collection[str]) -> None:
    """Refuse a unit that is used for something else."""
    if unit in used:
        raise InputError(
            f"unit must be neither the target nor among the columns, got {unit!r}: it says whose "
            "row it is."
        )


def row_cuts(rows: int, persons: Persons | None, size: int) -> list[slice]:
    """Return consecutive blocks of about ``size`` rows that never split a person."""
    ends = np.arange(0, rows + size, size).clip(max=rows)
    if persons is not None:
        borders = np.append(persons.starts, rows)
        ends = np.unique(borders[np.searchsorted(borders, ends)])
    return [slice(int(a), int(b)) for a, b in pairwise(ends.tolist()) if a < b]
