"""Statistics of a population's subsets: means, sums, histograms, covariances, quantiles, any other.

Those that are sums over records are :class:`~memberbound.protection.sums.SumStatistic` and are
calibrated exactly; the others go through the calibrators that refit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memberbound.errors import InputError, whole_number
from memberbound.numerics.rounding import FloatArray
from memberbound.protection.calibration import Rows
from memberbound.protection.sums import SumStatistic
from memberbound.quantities import significant
from memberbound.subset.distances import clipped

__all__ = [
    "CallableStatistic",
    "computed",
    "covariance",
    "histogram",
    "mean",
    "quantiles",
    "total",
]


def _table(data: ArrayLike) -> FloatArray:
    try:
        table = np.array(data, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("data must be numbers, one row per record.") from None
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or table.shape[0] < 4 or table.shape[1] == 0:
        raise InputError(f"data must be a table of at least 4 records, got shape {table.shape!r}.")
    if not np.isfinite(table).all():
        raise InputError("data must be finite, got NaN or infinity. Drop or fill those rows.")
    return table


def _size(size: int | None, records: int) -> int:
    """Return the training set's size: half the population unless said."""
    return records // 2 if size is None else whole_number("size", size)


def total(data: ArrayLike, *, clip: float | None = None) -> SumStatistic:
    """Return the sum, every row first shortened to length ``clip`` if given.

    Examples:
        >>> total([[3.0, 4.0], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])(np.array([0, 1])).tolist()
        [3.0, 5.0]
    """
    table = _table(data)
    return SumStatistic(table if clip is None else clipped(table, clip).vectors)


def mean(data: ArrayLike, *, size: int | None = None, clip: float | None = None) -> SumStatistic:
    """Return the mean over ``size`` records (default: half of them).

    Examples:
        >>> mean([1.0, 2.0, 3.0, 4.0])(np.array([1, 3])).tolist()
        [3.0]
    """
    rows = total(data, clip=clip).vectors
    return SumStatistic(rows / _size(size, len(rows)))


def histogram(
    data: ArrayLike, *, bins: ArrayLike | None = None, categories: Sequence[Any] | None = None
) -> SumStatistic:
    """Return counts: of numbers between the edges ``bins``, or of the given ``categories``.

    Bins and categories are public, so they must not be chosen by looking at the secret.  The last
    bin contains its right edge; a value outside all bins or categories is counted nowhere.

    Examples:
        >>> histogram(["a", "b", "a", "c"], categories=["a", "b"])(np.array([0, 2, 3])).tolist()
        [2.0, 0.0]
    """
    given: NDArray[Any] = np.asarray(data)
    if given.ndim != 1 or given.size < 4:
        raise InputError(
            f"data must be one value for each of 4 or more records, got {given.shape}."
        )
    if (bins is None) == (categories is None):
        raise InputError("one of bins and categories must be given.")
    if categories is not None:
        names = list(dict.fromkeys(categories))
        if len(names) != len(categories) or not names:
            raise InputError("categories must be different, and at least one.")
        counts = np.stack([given == name for name in names], axis=1)
        return SumStatistic(counts.astype(np.float64), tuple(str(name) for name in names))
    edges = np.asarray(bins, dtype=np.float64)
    if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
        raise InputError("bins must be at least two edges in increasing order.")
    numbers = _table(given)[:, 0]
    place = np.searchsorted(edges, numbers, side="right") - 1
    place[numbers == edges[-1]] = len(edges) - 2
    counts = place[:, None] == np.arange(len(edges) - 1)
    names = [f"[{significant(a, 'given')}, {significant(b, 'given')})" for a, b in pairwise(edges)]
    names[-1] = names[-1][:-1] + "]"
    return SumStatistic(counts.astype(np.float64), tuple(names))


def covariance(
    data: ArrayLike,
    *,
    centre: ArrayLike | str = "population",
    size: int | None = None,
) -> SumStatistic | CallableStatistic:
    """Return the upper triangle of the covariance matrix, row by row.

    About a known centre (the population's mean, which the attacker of the subset game knows anyway,
    or given numbers) it is a mean of products; about the subset's own mean (``centre="subset"``) it
    is not, and is calibrated by refitting.

    Examples:
        >>> covariance([[0.0], [2.0], [0.0], [2.0]])(np.array([0, 1])).tolist()
        [1.0]
    """
    table = _table(data)
    which = np.triu_indices(table.shape[1])
    if isinstance(centre, str):
        if centre not in ("population", "subset"):
            raise InputError(f"centre must be 'population', 'subset' or numbers, got {centre!r}.")
        if centre == "subset":
            return CallableStatistic(table, _SubsetCovariance(table.shape[1]), len(which[0]))
        middle = table.mean(axis=0)
    else:
        middle = np.broadcast_to(np.asarray(centre, dtype=np.float64), (table.shape[1],))
    moved = table - middle
    products = (moved[:, :, None] * moved[:, None, :])[:, which[0], which[1]]
    return SumStatistic(products / _size(size, len(table)))


@dataclass(frozen=True)
class _SubsetCovariance:
    width: int

    def __call__(self, rows: FloatArray) -> FloatArray:
        moved = rows - rows.mean(axis=0)
        full = moved.T @ moved / len(rows)
        return np.asarray(full[np.triu_indices(self.width)])


@dataclass(frozen=True)
class _Quantiles:
    levels: tuple[float, ...]

    def __call__(self, rows: FloatArray) -> FloatArray:
        return np.asarray(np.quantile(rows, self.levels, axis=0).ravel())


def quantiles(data: ArrayLike, levels: ArrayLike) -> CallableStatistic:
    """Return the quantiles of every column at the given levels, level by level.

    Examples:
        >>> quantiles([1.0, 2.0, 3.0, 10.0], 0.5)(np.arange(3)).tolist()
        [2.0]
    """
    table = _table(data)
    chosen = np.atleast_1d(np.asarray(levels, dtype=np.float64))
    if chosen.ndim != 1 or not ((chosen >= 0) & (chosen <= 1)).all():
        raise InputError(f"levels must be in [0, 1], got {levels!r}.")
    return CallableStatistic(
        table, _Quantiles(tuple(chosen.tolist())), chosen.size * table.shape[1]
    )


@dataclass(frozen=True, eq=False)
class CallableStatistic:
    """``function`` of the chosen rows of ``data``, flattened: a Statistic."""

    data: NDArray[Any]
    function: Callable[[NDArray[Any]], ArrayLike]
    dimension: int
    names: tuple[str, ...] = field(default=())

    def __call__(self, rows: Rows) -> FloatArray:
        """Return the function's value on these records."""
        return np.ravel(np.asarray(self.function(self.data[rows]), dtype=np.float64))


def computed(
    data: ArrayLike, function: Callable[[NDArray[Any]], ArrayLike], *, size: int | None = None
) -> CallableStatistic:
    """Return any function of the chosen rows, found to be of one length on the first rows.

    Examples:
        >>> computed([1.0, 2.0, 4.0, 8.0], np.max)(np.array([0, 2])).tolist()
        [4.0]
    """
    table: NDArray[Any] = np.asarray(data)
    if table.ndim == 0 or len(table) < 4:
        raise InputError(f"data must have at least 4 records, got shape {table.shape!r}.")
    if not callable(function):
        raise InputError(f"function must be callable, got {function!r}.")
    # The length only: rows 0 … k-1 are as public as any.
    first = np.ravel(np.asarray(function(table[: _size(size, len(table))]), dtype=np.float64))
    if first.size == 0:
        raise InputError("function must return at least one number.")
    return CallableStatistic(table, function, int(first.size))
