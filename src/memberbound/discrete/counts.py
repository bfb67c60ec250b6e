"""Counts of counts: all that a certificate needs to know about a table.

A table of N rows falls into cells (distinct rows over the chosen columns).  Every bound of this
stage depends on the table only through how many cells hold one row, two rows, and so on, so a
table of any size becomes a profile of at most about √(2N) pairs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memberbound.errors import InputError

__all__ = ["CountProfile"]


@dataclass(frozen=True, eq=False)
class CountProfile:
    """``cells[i]`` cells hold exactly ``count[i]`` rows each; counts ascend and are positive."""

    count: NDArray[np.int64]
    cells: NDArray[np.int64]

    def __post_init__(self) -> None:
        count, cells = _whole("count", self.count), _whole("cells", self.cells)
        if count.size == 0 or count.shape != cells.shape:
            raise InputError("a profile must hold at least one count, with its number of cells.")
        if np.any(count < 1) or np.any(cells < 1) or np.any(np.diff(count) <= 0):
            raise InputError("a profile must list ascending counts and cells, all at least 1.")
        for name, values in (("count", count), ("cells", cells)):
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    @classmethod
    def from_counts(cls, counts: Iterable[int] | ArrayLike) -> CountProfile:
        """Return the profile of a list with one count per cell; zeros are left out.

        Examples:
            >>> profile = CountProfile.from_counts([3, 1, 1, 0, 2])
            >>> profile.rows, profile.atoms, profile.count.tolist(), profile.cells.tolist()
            (7, 4, [1, 2, 3], [2, 1, 1])
        """
        values = _whole(
            "counts", np.asarray(list(counts) if isinstance(counts, Iterable) else counts)
        )
        if np.any(values < 0):
            raise InputError(f"counts must be at least 0, got {int(values.min())!r}.")
        count, cells = np.unique(values[values > 0], return_counts=True)
        return cls(count, cells.astype(np.int64))

    @property
    def rows(self) -> int:
        """N, the number of rows."""
        return int(self.count @ self.cells)

    @property
    def atoms(self) -> int:
        """K, the number of distinct rows seen."""
        return int(self.cells.sum())

    def expanded(self) -> NDArray[np.int64]:
        """Return one count per cell (for small tables and tests)."""
        return np.repeat(self.count, self.cells)


def _whole(name: str, values: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(values)
    whole = np.issubdtype(array.dtype, np.integer)
    if not whole and (not np.all(np.isfinite(array)) or np.any(array != np.floor(array))):
        raise InputError(f"{name} must be whole numbers, got {array!r}.")
    return np.array(array, dtype=np.int64)
