"""Profiles of a table: counts of counts, alone or jointly with a reference (X5a)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from memberbound.errors import InputError, whole_number
from memberbound.numerics.means import log_confidence
from memberbound.numerics.rounding import UNIT, FloatArray, up

# ── Counts of counts, which determine the certificates of a table
# ─────────────────────────────────────
#
# A table of N rows falls into cells (distinct rows over the chosen columns).  Every bound of this
# stage depends on the table only through how many cells hold one row, two rows, and so on, so a
# table of any size becomes a profile of at most about √(2N) pairs.


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
        # Use an array as it is: converting a list would box every number.
        known = isinstance(counts, np.ndarray) or not isinstance(counts, Iterable)
        values = _whole(
            "counts", np.asarray(counts if known else list(cast("Iterable[int]", counts)))
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
        """K, the number of distinct rows."""
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


# ── Two samples: training rows against reference rows of the same law (X5) ────────────────────────
#
# E TV(P̂_n, P̂'_m) ≥ E TV(P̂_n, P) = Δ_n by Jensen's inequality, and the left side is observed.
# Two forms: the distance between two given samples, and its mean over all ways to take n of N rows,
# which depends on the rows only through their counts.  Proofs: ``proofs/two-sample.md``.


@dataclass(frozen=True, eq=False)
class JointProfile:
    """``cells[i]`` cells hold ``train[i]`` training rows and ``reference[i]`` reference rows."""

    train: NDArray[np.int64]
    reference: NDArray[np.int64]
    cells: NDArray[np.int64]

    def __post_init__(self) -> None:
        if not self.train.shape == self.reference.shape == self.cells.shape:
            raise InputError("a joint profile must have as many train as reference counts.")
        if np.any(self.train < 0) or np.any(self.reference < 0) or np.any(self.cells < 1):
            raise InputError("a joint profile must hold counts of at least 0.")
        for name, total in (("training", self.rows), ("reference", self.reference_rows)):
            if total < 1:
                raise InputError(f"a joint profile must hold at least one {name} row.")

    @classmethod
    def from_counts(cls, train: ArrayLike, reference: ArrayLike) -> JointProfile:
        """Return the profile of two counts per cell, in the same order of cells.

        Examples:
            >>> joint = JointProfile.from_counts([2, 0, 1, 0], [1, 3, 0, 0])
            >>> joint.rows, joint.reference_rows, joint.pooled().count.tolist()
            (3, 4, [1, 3])
        """
        first, second = np.asarray(train, dtype=np.int64), np.asarray(reference, dtype=np.int64)
        if first.ndim != 1 or first.shape != second.shape:
            raise InputError("a joint profile must have as many train as reference counts.")
        pairs = np.stack([first, second])
        distinct, cells = np.unique(pairs[:, pairs.any(axis=0)], axis=1, return_counts=True)
        return cls(distinct[0], distinct[1], cells.astype(np.int64))

    @property
    def rows(self) -> int:
        """Number of training rows."""
        return int(self.train @ self.cells)

    @property
    def reference_rows(self) -> int:
        """Number of reference rows."""
        return int(self.reference @ self.cells)

    def pooled(self) -> CountProfile:
        """Return the counts of both samples together."""
        return _merged(self.train + self.reference, self.cells)

    def training(self) -> CountProfile:
        """Return the counts of the training rows alone."""
        return _merged(self.train, self.cells)


def _merged(counts: NDArray[np.int64], cells: NDArray[np.int64]) -> CountProfile:
    count, where = np.unique(counts, return_inverse=True)
    total = np.zeros(count.size, dtype=np.int64)
    np.add.at(total, where, cells)
    return CountProfile(count[count > 0], total[count > 0])


def two_sample_leak_upper(joint: JointProfile, beta: float) -> float:
    """Return TV(P̂_n, P̂'_m) + √(L/2·(1/n + 1/m)), at most 1; two halves give √(L/n).

    Guarantee: at or above Δ_n, n the number of training rows, with probability ≥ 1-β.
    Theorem: X5, ``proofs/two-sample.md``.
    Assumes: training and reference rows are i.i.d. from one law and independent of each other.
    Numerics: rounded up.

    Examples:
        >>> joint = JointProfile.from_counts([500] * 20, [50_000] * 20)
        >>> round(two_sample_leak_upper(joint, 0.05), 4)
        0.0123
    """
    n, m = joint.rows, joint.reference_rows
    columns = zip(joint.train.tolist(), joint.reference.tolist(), joint.cells.tolist(), strict=True)
    # Use whole numbers, so that only the quotient is rounded.
    distance = sum(abs(a * m - b * n) * cells for a, b, cells in columns) / (2 * n * m)
    width = math.sqrt(log_confidence(beta) / 2 * (1 / n + 1 / m))
    return min(1.0, up(distance + width, 16))


def split_leak_upper(profile: CountProfile, n: int, beta: float) -> float:
    """Return the mean of TV(n rows, the other N-n rows) over all splits, plus √(2L/N), at most 1.

    Guarantee: at or above Δ_n with probability ≥ 1-β; tight when n is much smaller than N.
    Theorem: X5, ``proofs/two-sample.md``.  For A ~ Hypergeometric(N, c, n) the terms telescope:
    E|A - EA| = 2a(N-c-n+a)·P(A = a)/N at a = ⌊cn/N⌋ + 1.
    Assumes: the N rows are i.i.d.
    Numerics: rounded up, by 1e-13 at 10 rows and 1e-6 at 2·10⁷, for the logarithms of factorials.
    Edge cases: n ≥ N leaves no reference rows and is rejected.

    Examples:
        >>> round(split_leak_upper(CountProfile.from_counts([50_000] * 20), 10_000, 0.05), 4)
        0.0199
    """
    size, rows = whole_number("n", n), profile.rows
    if size >= rows:
        raise InputError(f"n must be below the table's {rows} rows, got {n!r}.")
    # Terms are raised by more than twice their rounding, hence also by that of their sum: a table
    # of N rows has fewer than √(2N) counts.  L is raised by 16 units, which is 8 of its root: the
    # three roundings of the root and that of the last sum need no more.
    mean_distance = float(_split_terms(profile.count, rows, size) @ profile.cells)
    return min(1.0, mean_distance + math.sqrt(2 * log_confidence(beta) / rows))


def _split_terms(count: NDArray[np.int64], rows: int, n: int) -> FloatArray:
    """Return ½E|A/n - (c-A)/(N-n)| for A ~ Hypergeometric(N, c, n), one value per count."""
    a = np.array([c * n // rows + 1 for c in count.tolist()])  # c·n may not fit into 64 bits
    split = count < rows  # a cell with all rows is the same in every split
    c, a = np.where(split, count, 1), np.where(split, a, 1)
    whole = _log_choices(np.array([rows]), np.array([n]))
    log_mass = _log_choices(c, a) + _log_choices(rows - c, n - a) - whole
    # Nine logarithms of factorials, each with an error of three units of at most N·ln N.
    slack = 64 * UNIT * (rows + 2) * math.log(rows + 2)
    share = (a / n) * ((rows - c - n + a) / (rows - n))
    return np.where(split, share * np.exp(log_mass + slack), 0.0)


def _log_choices(n: NDArray[np.int64], k: NDArray[np.int64]) -> FloatArray:
    """Return ln C(n, k), for k between 0 and n."""
    value = special.gammaln(n + 1.0) - special.gammaln(k + 1.0) - special.gammaln(n - k + 1.0)
    return np.asarray(value, dtype=np.float64)
