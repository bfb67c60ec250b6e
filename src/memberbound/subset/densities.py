"""Densities of a noisy sum with a record in and out: cubics on cells with certified errors (X9)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray

from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack, up_array

__all__ = ["DensityPair", "affordable", "bernstein", "enumerated_pair", "subset_sums"]

# ── The laws "in" and "out" of several records as cubics on cells, and their hockey-sticks ────────
#
# What is known of a density on a cell of width h is its cubic Hermite interpolant, in Bernstein
# form, and a bound e on the distance.  ∫(p_in - c·p_out)₊ over the cell is then at most the
# integral of the positive part of the cubic raised by e_in + c·e_out, and at most ∫p_in, whatever c
# is.  The second bound keeps the error from being multiplied by a large c where "out" is below the
# error (proofs/exact-mixtures.md, steps 1 and 2).

#: Beyond this ε the densities "out" are too small to be told from nothing; the answer is ∞.
LARGEST_EPSILON = 80.0
#: ε is found to this part of 1 + ε, from above.
EPSILON_TOLERANCE = 1e-6
_SEARCH_STEPS = 80
#: A cell in which the difference may change sign is cut into so many parts.
_PARTS = 8


def _bernstein_at(points: FloatArray) -> FloatArray:
    """Values of the four cubic Bernstein polynomials, one row per point of [0, 1]."""
    t, s = points, 1 - points
    return np.stack([s**3, 3 * s**2 * t, 3 * s * t**2, t**3], axis=1)


_AT_NODES = _bernstein_at(np.linspace(0.0, 1.0, _PARTS + 1))


def bernstein(
    left: FloatArray, left_slope: FloatArray, right: FloatArray, right_slope: FloatArray, h: float
) -> FloatArray:
    """Bernstein coefficients of the cubics with these values and slopes at the ends of cells."""
    return np.stack([left, left + left_slope * (h / 3), right - right_slope * (h / 3), right])


@dataclass(frozen=True, eq=False)
class DensityPair:
    """Densities "in" and "out" of R records on n cells, with certified errors.

    ``inside`` and ``outside`` have shape (4, R, n); the errors bound |density - cubic| on a cell
    and have shape (R, n) or (R, 1).  ``uncovered`` bounds the masses in and out that no cell holds;
    ``folded`` the masses that cells hold although they belong elsewhere (0 unless periodic).
    The errors include at least 32 roundings of the largest coefficient in the cell.
    """

    width: float
    inside: FloatArray
    outside: FloatArray
    error_in: FloatArray
    error_out: FloatArray
    uncovered: tuple[float, float] = (0.0, 0.0)
    folded: tuple[float, float] = (0.0, 0.0)

    @property
    def records(self) -> int:
        """R."""
        return int(self.inside.shape[1])

    @cached_property
    def _caps(self) -> FloatArray:
        """∫p_in over every cell, from above and without its width: the same at every c."""
        mean = (self.inside[0] + self.inside[1] + self.inside[2] + self.inside[3]) * 0.25
        return np.asarray(np.maximum(mean + self.error_in, 0.0), dtype=np.float64)

    def swapped(self) -> DensityPair:
        """Return the pair with "in" and "out" exchanged."""
        return DensityPair(
            self.width,
            self.outside,
            self.inside,
            self.error_out,
            self.error_in,
            self.uncovered[::-1],
            self.folded[::-1],
        )

    def hockey_sticks(
        self, factors: FloatArray, rows: NDArray[np.intp] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return ∫(p_in - c·p_out)₊ from above, one c > 0 per record, and P_out of that set.

        Guarantee: the first array is never below the true hockey-stick (X9).
        Numerics: the second is a plain number for the search only.
        """
        chosen = slice(None) if rows is None or len(rows) == self.records else rows
        c = np.asarray(factors, dtype=np.float64)[:, None]
        p_in, p_out = self.inside[:, chosen], self.outside[:, chosen]
        e_in, e_out = self.error_in[chosen], self.error_out[chosen]
        lifted = p_out * -c
        lifted += p_in
        lifted += e_in + c * e_out
        below, above = lifted < 0, lifted > 0
        # A cubic lies between its Bernstein coefficients: no change of sign, nothing to cut off.
        below = below[0] | below[1] | below[2] | below[3]
        above = above[0] | above[1] | above[2] | above[3]
        part = (lifted[0] + lifted[1] + lifted[2] + lifted[3]) * 0.25
        part[~above] = 0.0
        mixed = np.nonzero(below & above)
        part[mixed] = _positive_parts(lifted[:, mixed[0], mixed[1]])
        part = np.minimum(part, self._caps[chosen])
        total = part.sum(axis=1) * (self.width * (1 + sum_slack(part.shape[1])))
        total += (self.uncovered[0] + c[:, 0] * self.folded[1]) * (1 + 8 * UNIT)
        mass = self.width * np.where(above, p_out[0], 0.0).sum(axis=1)
        return up_array(total), mass

    def epsilon(self, delta: float, start: FloatArray | None = None) -> FloatArray:
        """Return per record an ε at which H_{e^ε}(in‖out) ≤ δ was seen, or ∞.

        Guarantee: (ε, δ) holds in this direction; smaller ε by :data:`EPSILON_TOLERANCE` of 1 + ε
        fail the computed bound.  Newton's method on ln H inside a bracket, from 0 or ``start``.
        """
        count = self.records
        low, high, point = np.zeros(count), np.full(count, math.inf), np.zeros(count)
        if start is not None:
            point = np.where(start < LARGEST_EPSILON, start, 0.0)
        active = np.arange(count)
        for _ in range(_SEARCH_STEPS):
            eps = point[active]
            # The hockey-stick at a factor just below e^ε is the larger one.
            factor = np.exp(eps) * (1 - 8 * UNIT)
            value, mass = self.hockey_sticks(np.where(eps == 0, 1.0, factor), active)
            safe = value <= delta
            high[active] = np.where(safe, np.minimum(high[active], eps), high[active])
            low[active] = np.where(safe, low[active], np.maximum(low[active], eps))
            lo, hi = low[active], high[active]
            tolerance = EPSILON_TOLERANCE * (1 + eps)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                step = np.log(value / delta) * value / (factor * mass)
                target = eps + np.clip(step, -20.0, 20.0) + np.where(safe, -0.4, 0.4) * tolerance
            middle = np.where(
                np.isfinite(hi), (lo + hi) / 2, np.minimum(2 * lo + 1, LARGEST_EPSILON)
            )
            bad = ~((target > lo) & (target < hi)) | (target > LARGEST_EPSILON)
            point[active] = np.where(bad, middle, target)
            closed = (hi - lo <= tolerance) | (lo >= LARGEST_EPSILON)
            active = active[~closed]
            if not len(active):
                break
        return high


def _positive_parts(coefficients: FloatArray) -> FloatArray:
    """Upper bounds of the mean of (cubic)₊ over [0, 1], for columns of Bernstein coefficients.

    On a part of length ℓ the chord is off by at most ℓ³/12·max|q''| in the mean, and q'' is linear.
    """
    values = _AT_NODES @ coefficients
    bend = 6 * np.maximum(
        np.abs(coefficients[0] - 2 * coefficients[1] + coefficients[2]),
        np.abs(coefficients[1] - 2 * coefficients[2] + coefficients[3]),
    )
    left, right = values[:-1], values[1:]
    up_left, up_right = np.maximum(left, 0.0), np.maximum(right, 0.0)
    reach = np.abs(left) + np.abs(right)
    safe_reach = np.where(reach > 0, reach, 1.0)
    chord = np.where(
        left * right < 0, (up_left**2 + up_right**2) / (2 * safe_reach), (up_left + up_right) / 2
    )
    length = 1 / _PARTS
    total = chord.sum(axis=0) * length + bend * (length**2 / 12)
    return np.asarray(total * (1 + 64 * UNIT), dtype=np.float64)


# ── The law of the sum of a random subset by enumeration, and the densities "in" and "out" from it
#
# All C(N, k) subsets are listed, equal sums are counted together, and the mixtures of normal
# densities are added up near their atoms only.  Every term is positive, so the errors are relative:
# ε stays sharp at tiny δ (proofs/exact-mixtures.md, step 3).

#: More subsets than this, or subsets times records, are left to the Fourier route.
_MOST_LISTED = 60_000
_MOST_MEMBERSHIPS = 6_000_000
#: Atoms farther than this many σ from a cell are left out of it.
REACH = 10.0
_FINEST, _COARSEST = 1 / 64, 1 / 4
_MOST_NODES = 1_500_000
#: Nodes that share one slice of atoms, and how many distances are held at once.
_BLOCK, _MOST_DISTANCES = 128, 2_000_000


@dataclass(frozen=True, eq=False)
class SubsetSums:
    """Distinct sums in increasing order; per sum the number of subsets, and of those with x."""

    sums: FloatArray
    subsets: FloatArray
    members: FloatArray


def affordable(records: int, size: int) -> bool:
    """Tell whether listing all subsets is the cheaper route."""
    # C(n, j) rises up to j = n/2: a small j refuses at once what would be a huge number.
    if math.comb(records, min(size, records - size, 3)) > _MOST_LISTED:
        return False
    count = math.comb(records, size)
    return count <= _MOST_LISTED and count * records <= _MOST_MEMBERSHIPS


def subset_sums(values: FloatArray, size: int) -> SubsetSums:
    """Return every sum of ``size`` of the values with its counts, which are exact.

    Examples:
        >>> law = subset_sums(np.array([0.0, 1.0, 1.0]), 2)
        >>> law.sums.tolist(), law.subsets.tolist(), law.members[:, 1].tolist()
        ([1.0, 2.0], [2.0, 1.0], [1.0, 1.0])
    """
    records = len(values)
    count = math.comb(records, size)
    flat = chain.from_iterable(combinations(range(records), size))
    chosen = np.fromiter(flat, dtype=np.intp, count=count * size).reshape(count, size)
    sums, place = np.unique(values[chosen].sum(axis=1), return_inverse=True)
    cell = place.reshape(-1, 1) * records + chosen
    members = np.bincount(cell.ravel(), minlength=len(sums) * records).reshape(-1, records)
    subsets = np.bincount(place.ravel(), minlength=len(sums))
    return SubsetSums(sums, subsets.astype(np.float64), members.astype(np.float64))


def _node_blocks(atoms: FloatArray, width: float) -> list[tuple[int, int]]:
    """Runs [first, last] of nodes of width·ℤ that cover every atom ± REACH; ends are shared."""
    step = max(4, min(_BLOCK, _MOST_DISTANCES // len(atoms)))
    first = np.floor((atoms - REACH) / width).astype(np.int64)
    last = np.ceil((atoms + REACH) / width).astype(np.int64)
    gaps = np.nonzero(first[1:] > last[:-1])[0]
    starts = np.concatenate([first[:1], first[gaps + 1]])
    ends = np.concatenate([last[gaps], last[-1:]])
    return [
        (a, min(a + step, int(end)))
        for start, end in zip(starts, ends, strict=True)
        for a in range(int(start), int(end), step)
    ]


def _width(atoms: FloatArray, records: int) -> float | None:
    """Return the finest affordable cell, or None."""
    gaps = np.minimum(np.diff(atoms), 2 * REACH).sum() + 2 * REACH
    width = _FINEST
    while gaps / width * records > _MOST_NODES:
        width *= 2
    return width if width <= _COARSEST else None


def _bend(distance: FloatArray, half: float) -> FloatArray:
    """Upper bound of |φ''''|, 3φ and 6|φ'| within ``half`` of the distance: (z⁴ + 6z² + 3)·φ(z)."""
    far = np.abs(distance) + half
    near = np.maximum(np.abs(distance) - half, 0.0)
    square = far * far
    density = np.exp(-0.5 * near * near) / math.sqrt(2 * math.pi)
    return np.asarray((square * (square + 6) + 3) * density, dtype=np.float64)


def enumerated_pair(values: FloatArray, size: int, sigma: float) -> DensityPair | None:
    """Return the densities "in" and "out" of every record, or None where they take too many cells.

    Guarantee: the true densities of a/σ lie within the errors of the cubics (X9).
    Assumes: ``values`` are exact; the release is their sum over a uniform subset plus N(0, σ²).
    Numerics: relative error about 2e-10·z⁴ at z standard deviations; atoms beyond 10 σ are
    dropped, which is accounted for.
    Edge cases: far clusters of sums are covered apart, so outliers cost nothing.
    """
    records = len(values)
    # Adding `size` doubles and one division, in units of σ; infinite where sums overflow.
    with np.errstate(over="ignore"):
        largest = float(np.sort(np.abs(values))[-size:].sum()) / sigma
    moved = (size + 4) * UNIT * largest * 1.01
    if moved > 1e-3:
        return None
    law = subset_sums(values, size)
    atoms = law.sums / sigma
    width = _width(atoms, records)
    if width is None:
        return None
    weight_in = law.members / math.comb(records - 1, size - 1)
    weight_out = (law.subsets[:, None] - law.members) / math.comb(records - 1, size)
    weights = np.concatenate([weight_in, weight_out], axis=1)
    cubics, bends = [], []
    for first, last in _node_blocks(atoms, width):
        nodes = np.arange(first, last + 1) * width
        near = slice(*np.searchsorted(atoms, [nodes[0] - REACH, nodes[-1] + REACH]))
        distance = nodes[:, None] - atoms[None, near]
        density = np.exp(-0.5 * distance * distance) / math.sqrt(2 * math.pi)
        value = density @ weights[near]
        slope = -(distance * density) @ weights[near]
        cubics.append(bernstein(value[:-1], slope[:-1], value[1:], slope[1:], width))
        # width is a power of two, so nodes and middles are exact.
        middle = distance[:-1] + width / 2
        bends.append(_bend(middle, width / 2 + moved) @ weights[near])
    cubic, bend = np.concatenate(cubics, axis=1), np.concatenate(bends, axis=0)
    # Hermite's remainder; moved atoms (|φ'| ≤ bend/6, |φ''| ≤ bend/3 through slopes, times h/4);
    # rounding of exponents up to (REACH + 4)²/2 and of sums of positive terms.
    slack = width**4 / 384 + moved + sum_slack(len(atoms)) + 400 * UNIT
    # An atom farther than REACH adds at most φ(REACH) here, and (4/3)φ(REACH) through slopes.
    dropped = 8 * math.exp(-0.5 * REACH**2)
    error = (bend * (slack * (1 + 1e-9)) + dropped).T
    tail = 2 * math.erfc(REACH / math.sqrt(2))
    inside, outside = cubic[:, :, :records], cubic[:, :, records:]
    return DensityPair(
        width,
        np.ascontiguousarray(inside.transpose(0, 2, 1)),
        np.ascontiguousarray(outside.transpose(0, 2, 1)),
        np.ascontiguousarray(error[:records]),
        np.ascontiguousarray(error[records:]),
        uncovered=(tail, tail),
    )
