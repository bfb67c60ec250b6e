"""Functions of the drawn rows as statistics, calibrated by computing them again on other subsets.

All other inputs, such as edges and levels, are public.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import InputError
from memberbound.learners.learner import Labels
from memberbound.numerics.rounding import FloatArray
from memberbound.release.half.fitting import Rows
from memberbound.subset.clipping import clipped
from memberbound.subset.distances import checked_table


@dataclass(frozen=True, eq=False)
class CallableStatistic:
    """A Statistic: ``function`` of the chosen rows of ``data``, flattened."""

    data: Labels
    function: Callable[[Labels], ArrayLike]
    dimension: int

    def __call__(self, rows: Rows) -> FloatArray:
        """Return the function's value on these records."""
        return np.ravel(np.asarray(self.function(self.data[rows]), dtype=np.float64))


def quantiles(data: ArrayLike, levels: Sequence[float]) -> CallableStatistic:
    """Return the quantiles of every column at the given levels, ordered by level."""
    return callable_statistic(checked_table("data", data), partial(np.quantile, q=levels, axis=0))


def callable_statistic(
    data: ArrayLike, function: Callable[[Labels], ArrayLike]
) -> CallableStatistic:
    """Wrap any function of the selected rows; its output length is taken from the first rows.

    Examples:
        >>> callable_statistic([1.0, 2.0, 4.0, 8.0], np.max)(np.array([0, 2])).tolist()
        [4.0]
    """
    table: Labels = np.asarray(data)
    if not callable(function):
        raise InputError(f"function must be callable, got {function!r}.")
    # Only the length is used; the first rows are public like all rows.
    first = np.ravel(np.asarray(function(table[: (len(table) + 1) // 2]), dtype=np.float64))
    if first.size == 0:
        raise InputError("function must return at least one number.")
    return CallableStatistic(table, function, int(first.size))


def clip_rows(rows: FloatArray, radius: float | None) -> FloatArray:
    """Clip rows to the norm ``radius``; None leaves them unchanged."""
    return rows if radius is None else clipped(rows, radius).vectors
