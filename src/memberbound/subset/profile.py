"""Neighbour profiles: the change of a release when one record is replaced by another (X1).

If the release is a sum of vectors v over a uniform k-subset of N known records plus N(0, σ²I), both
hockey-sticks between the worlds "x in" and "x out" are at most

    δ_x(ε) = (1/(N-1)) Σ_{x' ≠ x} H_ε(‖v_x - v_x'‖/σ)        (L24-P12, proofs/coupling.md)

with H_ε(μ) the hockey-stick of N(μ,1) against N(0,1), for any k.  The distances are measured once;
bounds for every ε, σ and prior are computed from them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memberbound.curve import GaussianCurve
from memberbound.curve.base import price_exponent
from memberbound.declarations import Progress
from memberbound.errors import InputError, fraction, nonnegative, positive
from memberbound.numerics.normal import gaussian_hockey_stick_of_shifts_upper
from memberbound.numerics.rounding import SMALLEST, UNIT, FloatArray, sum_slack, up_array

# ── Clipping records to bounded contributions ─────────────────────────────────────────────────────


class ClippedRecords(NamedTuple):
    """Records in a ball; ``moved`` of them were outside and have been projected onto it."""

    vectors: FloatArray
    moved: int


def clipped(vectors: ArrayLike, radius: float) -> ClippedRecords:
    """Project every row onto the ℓ₂-ball of radius C.

    Guarantee: the exact norm of every returned row is at most C.  Rows inside are unchanged.
    Numerics: scaled rows are rounded towards the origin, by about 2(d + 20) units in the last
    place.  Rows within rounding of the surface are compared in integers.
    Edge cases: one-dimensional input is one number per record, and so is the output.

    Examples:
        >>> clipped([[3.0, 4.0], [0.0, 2.0]], 2.5).vectors.round(12).tolist()
        [[1.5, 2.0], [0.0, 2.0]]
    """
    reach = positive("radius", radius)
    shape, rows = np.shape(vectors), checked_table("vectors", vectors).copy()
    # Scaling by powers of two prevents overflow of squares and changes no digit.
    exponent = np.frexp(np.abs(rows).max(axis=1))[1]
    with np.errstate(under="ignore"):
        unit = np.ldexp(rows, -exponent[:, None])
    slack = sum_slack(rows.shape[1] + 4)
    norm = np.sqrt(np.square(unit).sum(axis=1))
    with np.errstate(over="ignore", under="ignore"):
        share = np.ldexp(reach, -exponent)  # C in the row's own unit
    outside = norm * (1 - slack) > share
    for row in np.flatnonzero(~outside & (norm * (1 + slack) >= share)):
        outside[row] = not _in_ball(rows[row], reach)
    if outside.any():
        # Scale C to between ½ and 1 as well, because C/norm itself may overflow.
        mantissa, power = np.frexp(reach)
        factor = mantissa / norm[outside] * (1 - 2 * slack)
        with np.errstate(under="ignore"):
            rows[outside] = np.nextafter(np.ldexp(unit[outside] * factor[:, None], power), 0.0)
    return ClippedRecords(rows.reshape(shape), int(outside.sum()))


def _in_ball(row: FloatArray, radius: float) -> bool:
    """Return whether the norm is at most the radius, exactly, in integer multiples of 2^-e."""
    pairs = [float(value).as_integer_ratio() for value in (*row, radius)]
    common = max(bottom for _, bottom in pairs)
    *entries, reach = (top * (common // bottom) for top, bottom in pairs)
    return sum(entry * entry for entry in entries) <= reach * reach


# ── Upper bounds on the distances between records: all of them, or histograms ─────────────────────
# In each case every average of an increasing function over the other records is an upper bound.

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


# ── Bounds for Gaussian noise, from the distances ─────────────────────────────────────────────────

#: Brackets of ε are narrowed to the first ratio before the chord is taken, and if e^ε still
#: varies by more than a tenth, so that the chord is loose, to the second.
_NARROW, _NARROWER = 1.003, 1.0002


@dataclass(frozen=True, eq=False)
class NeighbourProfile:
    """Distances ‖v_x - v_x'‖ to the other records, per record, and bounds for Gaussian noise.

    Guarantee: every result is an upper bound for all attacks on that record, in the subset game
    with any k, on the release Σ_{x ∈ D} v_x + N(0, σ²I) and anything computed from it.
    Theorem: X1, L24-P12; accuracy I24-P2; PMP L24-D2.
    Assumes: the population is fixed and known; D is a uniform k-subset; σ does not depend on D.
    Pass v = f(x)/k for a mean and v = f(x) for a sum; other queries need their own distances.
    Numerics: distances are rounded up, and beyond a few hundred records binned upward (about 0.1 %
    of the distance); hockey-sticks and sums are rounded up.  Beyond 20 000 records the mean over
    the others is bounded by their mean squared distance (claim 11), in linear time.
    Edge cases: replacing a record by its twin changes nothing, so twins lower the average (they
    also make "x is in" ambiguous, see L24-fn2); σ = 0 is rejected.

    Examples:
        >>> profile = NeighbourProfile.from_vectors([[0.0], [0.0], [3.0], [4.0]])
        >>> profile.mean_distance.round(6).tolist()
        [2.333333, 2.333333, 2.333333, 3.0]
        >>> profile.accuracy(0.5, sigma=4.0).round(4).tolist()
        [0.6125, 0.6125, 0.614, 0.6442]
    """

    distances: Distances

    @classmethod
    def from_vectors(
        cls, vectors: ArrayLike, *, progress: Progress | None = None
    ) -> NeighbourProfile:
        """Measure the distances between all rows of an (N, d) table, N ≥ 2 and d ≥ 1."""
        table = checked_vectors(vectors)
        if len(table) <= EXACT_RECORDS:
            return cls(ExactDistances.of(table))
        paired = len(table) <= MOST_PAIRED_RECORDS
        return cls(BinnedDistances.of(table, progress) if paired else MeanSquares.of(table))

    @property
    def records(self) -> int:
        """Number of records N."""
        return self.distances.records

    @property
    def mean_distance(self) -> FloatArray:
        """Upper bound on the mean distance to the other records, per record."""
        # Scale, so that a sum of N distances cannot overflow.
        unit = max(self.diameter, SMALLEST)
        share = self.distances.averages(lambda d: (d / unit)[:, None])[:, 0]
        return up_array(share * unit)

    @property
    def max_distance(self) -> FloatArray:
        """Upper bound on the distance to the farthest other record, per record."""
        return self.distances.largest

    @property
    def diameter(self) -> float:
        """Upper bound on the largest distance between two records, the sensitivity inside X."""
        return float(self.distances.largest.max())

    def delta(self, epsilon: float, sigma: float) -> FloatArray:
        """Return, per record, an upper bound on both hockey-sticks between "in" and "out" at e^ε.

        Theorem: X1, L24-P12; the bound is the same in both directions.
        """
        eps = np.array([nonnegative("epsilon", epsilon)])
        return self._deltas(eps, _noise(sigma))[:, 0]

    def pmp_epsilon(self, delta: float, sigma: float) -> FloatArray:
        """Return, per record, an ε with ``self.delta(ε, sigma)`` ≤ ``delta`` for that record.

        Theorem: L24-D2 with X1.  Numerics: within 3e-4 of the smallest such ε.  Between two
        evaluated ε it is where their chord meets δ, which is safe because δ_x is convex in e^ε.
        Edge cases: δ = 0 gives ∞, or 0 for a record that equals all others.
        """
        target, noise = fraction("delta", delta), _noise(sigma)
        here = self._deltas(np.zeros(1), noise)[:, 0]
        mu = float(shifts(np.array([self.diameter]), noise)[0])
        # Lower the target by the possible excess of an evaluation, so that evaluating the result
        # again, with any summation order of a few thousand terms, stays below the target.
        goal = target * (1 - 1e-10)
        top = GaussianCurve(mu).epsilon(goal)
        result = np.where(here <= target, 0.0, top)
        rows = np.flatnonzero(here > target)
        brackets = []
        if rows.size and math.isfinite(top):
            end = self._deltas(np.array([top]), noise, rows)[:, 0]
            brackets.append(_Bracket(rows, 0.0, top, here[rows], end))
        while brackets:
            around = brackets.pop()
            inner = around.inner(self.distances.at_once)
            if inner.size:
                brackets += around.parts(inner, self._deltas(inner, noise, around.rows), goal)
            else:
                result[around.rows] = around.crossing(goal)
        return result

    def advantage(self, sigma: float) -> FloatArray:
        """Return, per record, an upper bound on the total variation between "in" and "out"."""
        return self.delta(0.0, sigma)

    def accuracy(self, prior: float, sigma: float) -> FloatArray:
        """Return, per record, an upper bound on attack accuracy at the prior k/N.

        Theorem: I24-P2 with X1: max(π, 1-π) + min(π, 1-π)·δ_x at e^ε = the ratio of the two.
        Numerics: also valid for any prior that rounds to the given one, which changes the accuracy
        by at most the rounding of k/N.
        """
        pi = fraction("prior", prior, open_left=True, open_right=True)
        stick = self.delta(price_exponent(pi, 1.0)[0], sigma)
        base, weight = max(pi, 1 - pi), min(pi, 1 - pi)
        value = up_array(base + weight * stick)
        if pi == 0.5:
            value = np.where(stick == 0.0, 0.5, value)
        return np.minimum(value, 1.0)

    def _deltas(self, epsilons: FloatArray, sigma: float, rows: Rows | None = None) -> FloatArray:
        """Return upper bounds on δ_x(ε) for some records (rows) and several ε (columns)."""

        def sticks(distance: FloatArray) -> FloatArray:
            return gaussian_hockey_stick_of_shifts_upper(shifts(distance, sigma)[:, None], epsilons)

        return np.minimum(self.distances.averages(sticks, rows), 1.0)


@dataclass(frozen=True, eq=False)
class _Bracket:
    """Two ε with δ_x at both for several records; at the second, δ_x is at most the goal."""

    rows: Rows
    low: float
    high: float
    at_low: FloatArray
    at_high: FloatArray

    def inner(self, points: int) -> FloatArray:
        """Return the ε at which to cut the bracket; empty if it is narrow enough."""
        low, high = self.low, self.high
        if high <= low * (_NARROW if high - low <= 0.1 else _NARROWER) or high <= 1e-12:
            return np.empty(0)
        if low == 0.0:
            inner = np.geomspace(1e-4 * high, high, points + 1)[:-1]
        else:
            ratio = _NARROW if high > low * _NARROW else _NARROWER
            need = math.ceil(math.log(high / low) / math.log(ratio))
            inner = np.geomspace(low, high, min(need, points) + 2)[1:-1]
        return np.asarray(inner[(inner > low) & (inner < high)])

    def parts(self, inner: FloatArray, deltas: FloatArray, goal: float) -> Iterator[_Bracket]:
        """Yield the brackets between two neighbouring ε, each with the records that cross there."""
        grid = np.concatenate([[self.low], inner, [self.high]])
        sticks = np.column_stack([self.at_low, deltas, self.at_high])
        # The first point that satisfies the goal, per record; the last one always does.
        safe = sticks <= goal
        safe[:, 0], safe[:, -1] = False, True
        index = safe.argmax(axis=1)
        for cell in np.unique(index):
            mine, (low, high) = index == cell, grid[cell - 1 : cell + 1].tolist()
            yield _Bracket(self.rows[mine], low, high, sticks[mine, cell - 1], sticks[mine, cell])

    def crossing(self, goal: float) -> FloatArray:
        """Return where the chord meets the goal; the chord is above, as δ_x is convex in e^ε."""
        low, high, at_low, at_high = self.low, self.high, self.at_low, self.at_high
        with np.errstate(invalid="ignore", divide="ignore"):
            share = (at_low - goal) / (at_low - at_high)
            # e^ε = e^high - (1 - share)(e^high - e^low), all relative to e^high.
            back = np.log1p((1 - share) * np.expm1(low - high))
        crossing = up_array(high + back, 16)
        usable = (at_high <= goal) & (goal < at_low) & (crossing < high)
        return np.asarray(np.where(usable, crossing, high), dtype=np.float64)


def _noise(sigma: float) -> float:
    return positive("sigma", sigma, "A release without noise protects no record.")


def shifts(distance: FloatArray, sigma: float) -> FloatArray:
    """Return μ = distance/σ, rounded up; a positive distance stays positive."""
    with np.errstate(over="ignore", under="ignore"):
        mu = up_array(distance / sigma, 1)
    # Beyond 1e200 two releases never overlap, for any ε that a double can hold.
    return np.where(distance > 0, np.clip(mu, SMALLEST, 1e200), 0.0)
