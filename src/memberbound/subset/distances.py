"""Upper bounds on the distances between records: all of them, histograms, or mean squares.

In each case every average of an increasing function over the other records is an upper bound.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memberbound.declarations import Progress
from memberbound.errors import InputError
from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack, up_array

#: Indices of records.
Rows = NDArray[np.intp]
#: Maps m distances to an (m, G) array of G non-negative increasing functions that vanish at 0.
Functions = Callable[[FloatArray], FloatArray]

#: Up to the first number of records store all distances, up to the second their histograms, and
#: beyond it the mean square of every record's distances.
EXACT_RECORDS, MOST_PAIRED_RECORDS = 256, 20_000
#: Squared distances this many powers of two below the largest are raised to one lowest edge.
_OCTAVES = 96
#: Number of squared distances per block.
_BLOCK = 1 << 19
_LARGEST = 1e300
#: Absolute slack on squared distances of numbers of at most one, for underflow of products.
_UNDERFLOW = 1e-290


def checked_table(name: str, values: ArrayLike) -> FloatArray:
    """Return finite doubles, one row per record; a plain list of numbers is one column."""
    try:
        table = np.asarray(values, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a table of numbers, one row per record.") from None
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or table.size == 0:
        raise InputError(f"{name} must be a table with one row per record, got {table.shape!r}.")
    if not np.isfinite(table).all():
        row = int(np.flatnonzero(~np.isfinite(table).all(axis=1))[0])
        raise InputError(
            f"{name} must be finite numbers, got {table[row].tolist()!r} in row {row}. "
            "Drop or fill such rows."
        )
    return table


def checked_vectors(vectors: ArrayLike) -> FloatArray:
    """Return an (N, d) array of finite doubles with N ≥ 2, within the range of the distances."""
    table = checked_table("vectors", vectors)
    if np.ndim(vectors) != 2 or len(table) < 2:
        raise InputError(
            f"vectors must be a table of at least two records (rows), got shape "
            f"{np.shape(vectors)!r}. For one number per record pass a column, x[:, None]."
        )
    if largest_entry(table) > _LARGEST:
        raise InputError(f"vectors must be at most {_LARGEST!r} in absolute value. Rescale them.")
    return table


def largest_entry(table: FloatArray) -> float:
    """Return the largest absolute value, without a copy of the table."""
    return max(float(table.max()), -float(table.min()))


@dataclass(frozen=True, eq=False)
class Distances(ABC):
    """Per record, an upper bound on the distribution of its distance to a random other record.

    ``largest`` bounds each record's distance to the farthest other one; ``terms`` numbers are added
    up in one average; ``at_once`` functions are best averaged together.
    """

    largest: FloatArray
    terms: int
    at_once: ClassVar[int]

    @property
    def records(self) -> int:
        """Number of records."""
        return len(self.largest)

    @abstractmethod
    def averages(self, functions: Functions, rows: Rows | None = None) -> FloatArray:
        """Average G increasing functions of the distance over the *other* records.

        Guarantee: an array (rows, G) at or above the true averages if ``functions`` returns
        values at or above the true ones.  Numerics: relative excess of 4·sum_slack(``terms``).
        """

    def _averaged(self, sums: FloatArray) -> FloatArray:
        """Convert sums over the others to averages over N - 1, raised by the rounding of the sums.

        They are raised by twice that rounding, which also covers these steps and one or two steps
        of the caller.
        """
        average = sums * (1 + 2 * sum_slack(self.terms)) / (self.records - 1)
        # Rounding errors of subnormal numbers are absolute.
        return np.where(sums > 0, np.nextafter(average, np.inf), 0.0)


@dataclass(frozen=True, eq=False)
class ExactDistances(Distances):
    """All N² distances, rounded up by a few units; the distance of twins is exactly 0."""

    matrix: FloatArray
    #: A small number, because every function is evaluated at every distance.
    at_once: ClassVar[int] = 3

    @classmethod
    def of(cls, vectors: FloatArray) -> ExactDistances:
        """Measure every pair by the difference of its vectors."""
        records = vectors.shape[0]
        scaled, exponent = scaled_entries(vectors)
        matrix = np.empty((records, records))
        for row in range(records):
            matrix[row] = _row(vectors, scaled, row)
        matrix = up_array(np.ldexp(matrix, exponent), vectors.shape[1] + 4)
        return cls(matrix.max(axis=1), records, matrix)

    def averages(self, functions: Functions, rows: Rows | None = None) -> FloatArray:
        """Average over the other records; see :meth:`Distances.averages`."""
        chosen = np.arange(self.records) if rows is None else rows
        step = max(1, (1 << 14) // self.records)
        sums = []
        for first in range(0, chosen.size, step):
            block = self.matrix[chosen[first : first + step]]
            sums.append(functions(block.ravel()).reshape(*block.shape, -1).sum(axis=1))
        return self._averaged(np.concatenate(sums))


@dataclass(frozen=True, eq=False)
class BinnedDistances(Distances):
    """Histograms over shared upper edges; ``counts[x]`` sums to N - 1, the other records."""

    edges: FloatArray
    counts: NDArray[np.unsignedinteger]
    #: A large number, because functions are evaluated at the edges only, and counts are read once.
    at_once: ClassVar[int] = 48

    @classmethod
    def of(cls, vectors: FloatArray, progress: Progress | None = None) -> BinnedDistances:
        """Bin all distances upward in one blocked pass.

        Numerics: squared distances are |a|² + |b|² - 2a·b of centred vectors.  For numbers of at
        most one, any summation order and u = 2⁻⁵³, their error is at most (2d + 8)·u·(|a|² + |b|²),
        and that of centring at most 4u·(|a|² + |b|²).  The columns with |a|² and |b|² are raised by
        8(d + 8)·u, so that no computed value is below the true one, nor is its root.  For subnormal
        numbers the last rounding is covered separately.
        """
        records, dimension = vectors.shape
        kind = np.min_scalar_type(records - 1)
        # Use fewer bins for a large population, to stay within a quarter of a gigabyte.
        bins = max(min(4096, (1 << 28) // (records * kind.itemsize)), 256)
        if (vectors == vectors[0]).all():
            others = np.full((records, 1), records - 1, dtype=kind)
            return cls(np.zeros(records), 1, np.zeros(1), others)
        centred, exponent = _centred(vectors)
        norms = np.einsum("ij,ij->i", centred, centred)
        raised = norms * (1 + 8 * (dimension + 8) * UNIT) + _UNDERFLOW
        ones = np.ones((records, 1))
        left = np.hstack([-2.0 * centred, raised[:, None], ones])
        right = np.ascontiguousarray(np.hstack([centred, ones, raised[:, None]]).T)

        outer = np.argpartition(-norms, min(32, records) - 1)[:32]
        sampled = np.unique(np.append(outer, np.linspace(0, records - 1, 32, dtype=int)))
        grid = _Grid.shared_out(left[sampled] @ right, 4.01 * raised.max(), bins)

        counts = np.empty((records, grid.edges.size), dtype=kind)
        farthest = np.empty(records)
        step = max(1, min(records, _BLOCK // records))
        block, bin_of = np.empty((step, records)), np.empty((step, records), dtype=np.intp)
        for first in range(0, records, step):
            size = min(step, records - first)
            squared = np.matmul(left[first : first + size], right, out=block[:size])
            squared[np.arange(size), np.arange(first, first + size)] = 0.0  # the record itself
            squared.max(axis=1, out=farthest[first : first + size])
            histogram = grid.count(squared, bin_of[:size])
            histogram[:, 0] -= 1
            counts[first : first + size] = histogram
            if progress is not None:
                progress(first + size, records)
        used = counts.any(axis=0)
        reach = up_array(np.ldexp(np.sqrt(farthest), exponent), 1)
        edges = up_array(np.ldexp(np.sqrt(grid.edges[used]), exponent), 1)
        # No distance exceeds the largest one, so lower the last edge to it.
        edges = np.minimum(edges, reach.max())
        return cls(reach, edges.size, edges, np.ascontiguousarray(counts[:, used]))

    def averages(self, functions: Functions, rows: Rows | None = None) -> FloatArray:
        """Average over the other records; see :meth:`Distances.averages`."""
        values = functions(self.edges)
        total = self.records if rows is None else rows.size
        sums = np.empty((total, values.shape[1]))
        step = max(1, 4 * _BLOCK // self.edges.size)
        for first in range(0, total, step):
            part = slice(first, min(first + step, total))
            block = self.counts[part if rows is None else rows[part]]
            np.matmul(block.astype(np.float64), values, out=sums[part])
        return self._averaged(sums)


@dataclass(frozen=True, eq=False)
class MeanSquares(Distances):
    """The mean square of every record's distances to the others, in time linear in N.

    ``bins[x]`` is the edge at or above its root; no distance exceeds the last edge.

    Guarantee: averages of increasing functions are upper bounds, because a concave function of the
    squared distance is on average at most its value at the mean.
    Theorem: proofs/coupling.md claim 11.
    """

    edges: FloatArray
    bins: NDArray[np.intp]
    #: A few, because each function is evaluated at the edges and needs a concave majorant.
    at_once: ClassVar[int] = 12

    @classmethod
    def of(cls, vectors: FloatArray) -> MeanSquares:
        """Measure every record's distance from the common centre."""
        records = len(vectors)
        if (vectors == vectors[0]).all():
            return cls(np.zeros(records), 1, np.zeros(1), np.zeros(records, dtype=np.intp))
        centred, exponent = _centred(vectors)
        reach = up_array(np.ldexp(_reach(centred), exponent), 1)
        # Divide each octave of the squared distance into a hundred parts.
        edges = np.append(0.0, reach.max() * np.exp2(-np.arange(4095)[::-1] / 200))
        # No mean exceeds the largest distance.
        root = up_array(np.ldexp(_root_mean_squares(centred), exponent), 1)
        root = np.minimum(root, edges[-1])
        return cls(reach, 1, edges, np.searchsorted(edges, root))

    def averages(self, functions: Functions, rows: Rows | None = None) -> FloatArray:
        """Average over the other records; see :meth:`Distances.averages`."""
        unit = float(self.edges[-1]) or 1.0
        values = up_array(_concave(np.square(self.edges / unit), functions(self.edges)), 1)
        return np.asarray(values[self.bins if rows is None else self.bins[rows]])


def _root_mean_squares(centred: FloatArray) -> FloatArray:
    """Return upper bounds on the root mean square of every record's distances to the others.

    Σ_y ‖a - y‖² = N·(‖a - m‖² + s) for the exact mean m and the mean square s about it.

    Numerics: rows are about their median, so each coordinate's mean is within its standard
    deviation of 0, and the root of the mean squared length at most √(2s).  So the computed mean is
    off by at most 1.5·``sum_slack``(N)·√s, and a row, which was rounded when it was centred, by a
    unit of ‖a - m‖ + √s.  Both move √(‖a - m‖² + s) by √2 times as much at most, and the sums over
    rows and coordinates by half of their slack: four of them are enough for everything.  Squares
    that underflow hide roots far below the lowest edge, to which the caller raises them.
    """
    records, dimension = centred.shape
    moved = centred - centred.mean(axis=0)
    squares = np.einsum("ij,ij->i", moved, moved)
    root = np.sqrt((squares + squares.mean()) * (records / (records - 1)))
    return np.asarray(root * (1 + 4 * sum_slack(records + dimension)))


def _reach(centred: FloatArray) -> FloatArray:
    """Return upper bounds on the distance to the farthest other record, from 128 outliers."""
    records, dimension = centred.shape
    squares = np.einsum("ij,ij->i", centred, centred)
    slack = 8 * (dimension + 8) * UNIT  # as in :class:`BinnedDistances`: for roots and sums too
    # What squares that underflow hide is less than the slack, or than each of ``away`` below.
    norms = np.sqrt(squares * (1 + slack))
    order = np.argsort(-norms)[:129]
    outer = order[:-1] if records > 129 else order
    # No other record is farther from the centre than the next one.
    reach = norms + norms[order[-1]]
    far = np.zeros(outer.size)
    step = max(1, _BLOCK // outer.size)
    for first in range(0, records, step):
        part = slice(first, first + step)
        both = squares[part, None] + squares[outer]
        away = np.maximum(both - 2 * centred[part] @ centred[outer].T, 0.0) + slack * both
        away = np.sqrt(away + _UNDERFLOW)
        reach[part] = np.maximum(reach[part], away.max(axis=1))
        far = np.maximum(far, away.max(axis=0))
    reach[outer] = far
    return np.asarray(reach)


def _concave(squares: FloatArray, values: FloatArray) -> FloatArray:
    """Return, at each edge, a concave majorant (in the square) of a step function between edges.

    Between two edges a function is at most its value at the upper one, so the value of edge i must
    be reached at edge i - 1 already.  The least concave function that does so is the upper hull.
    """
    edges = np.append(0.0, squares[:-1])
    xs = edges.tolist()  # Python numbers are faster than numpy's in a loop
    raised = np.empty_like(values)
    for column in range(values.shape[1]):
        heights = np.maximum.accumulate(values[:, column])
        # In units of the last one, because products of subnormal numbers would all be 0.
        unit = float(heights[-1]) or 1.0
        heights = heights / unit
        ys = heights.tolist()
        hull: list[int] = []
        for index in range(len(xs)):
            if hull and xs[index] == xs[hull[-1]]:
                hull.pop()  # keep the higher of two points at one position
            while len(hull) > 1:
                a, b = hull[-2], hull[-1]
                turn = (ys[b] - ys[a]) * (xs[index] - xs[a]) - (ys[index] - ys[a]) * (xs[b] - xs[a])
                if turn > 0:
                    break
                hull.pop()
            hull.append(index)
        raised[:, column] = np.interp(squares, edges[hull], heights[hull]) * unit
    # Covers the rounding of slopes and interpolation.
    return np.maximum(raised * (1 + 1e-9), values)


@dataclass(frozen=True, eq=False)
class _Grid:
    """Bins of squared distances, as a lookup table from the leading bits of a double.

    The bit pattern of a positive double, as an integer, is increasing in its value; dropping the
    lower bits of the mantissa divides every octave into 2^j parts of equal width.
    """

    edges: FloatArray
    table: NDArray[np.intp]
    lowest: int
    shift: int

    @classmethod
    def shared_out(cls, sample: FloatArray, largest: float, bins: int) -> _Grid:
        """Allocate fine bins to the octaves that contain the distances of a row of the sample.

        The most exposed record is far from all others, and its distances lie in octaves with almost
        no other distances.  So an octave is weighted by its largest share of any single row.
        """
        top = math.frexp(largest)[1]  # all squared distances are below 2^top
        octave = np.clip(top - np.frexp(sample)[1], 0, _OCTAVES - 1)
        share = np.stack([np.bincount(row, minlength=_OCTAVES) for row in octave]).max(axis=0)
        populated = share > 0.005 * sample.shape[1]
        # A quarter of the bins (in powers of two) is for all octaves, the rest for the populated
        # ones.
        coarse = 1 << max(bins // (4 * _OCTAVES), 1).bit_length() - 1
        rest = (bins - _OCTAVES * coarse) // max(1, int(populated.sum()))
        bits = max(coarse, rest).bit_length() - 1
        fine = 1 << bits
        # Octaves in ascending order, each cut into `fine` parts, which have their own bin or share
        # one.
        width = np.where(populated[::-1], 1, fine // coarse)
        starts = np.concatenate([np.arange(fine) % w == 0 for w in width])
        starts[0] = True
        table = np.cumsum(starts) - 1
        part = np.arange(_OCTAVES * fine)
        upper = np.ldexp(1.0 + (part % fine + 1) / fine, top - _OCTAVES + part // fine)
        last = np.append(np.flatnonzero(starts)[1:] - 1, part[-1])
        shift = 52 - bits  # number of mantissa bits to drop
        lowest = int(np.ldexp(1.0, top - _OCTAVES).view(np.int64)) >> shift
        return cls(upper[last], table.astype(np.intp), lowest, shift)

    def count(self, squared: FloatArray, bin_of: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the histogram of every row; overwrites both arrays."""
        code = squared.view(np.int64)
        np.right_shift(code, self.shift, out=code)
        np.subtract(code, self.lowest, out=code)
        np.take(self.table, code, out=bin_of, mode="clip")  # clip to the lowest edge
        bin_of += (np.arange(bin_of.shape[0]) * self.edges.size)[:, None]
        length = bin_of.shape[0] * self.edges.size
        return np.bincount(bin_of.ravel(), minlength=length).reshape(-1, self.edges.size)


def scaled_entries(vectors: FloatArray) -> tuple[FloatArray, int]:
    """Return vectors times a power of two, all entries at most one, and the exponent to undo it."""
    exponent = math.frexp(largest_entry(vectors))[1]
    with np.errstate(under="ignore"):
        return np.ldexp(vectors, -exponent), exponent


def _centred(vectors: FloatArray) -> tuple[FloatArray, int]:
    """Return scaled vectors, centred at their median, and the exponent, in a single table."""
    scaled, exponent = scaled_entries(vectors)
    for column in scaled.T:
        column -= np.median(column)  # noqa: PLW2901  # in place: the column is a view
    return scaled, exponent


def _row(vectors: FloatArray, scaled: FloatArray, record: int) -> FloatArray:
    """Return the distances of one record to all, in scaled units; 0 for equal vectors only.

    Numerics: accurate to (d + 6)/2 units: half of those of the sum of squares, and one of the root.
    """
    gap = scaled - scaled[record]
    with np.errstate(under="ignore"):
        squared = np.einsum("ij,ij->i", gap, gap)
    # Scaled or squared differences may underflow, so compare the vectors themselves.
    differ = (vectors != vectors[record]).any(axis=1)
    return np.sqrt(np.where(differ, squared + _UNDERFLOW, 0.0))
