"""The law of the sum of a random subset by enumeration, and the densities "in" and "out" from it.

All C(N, k) subsets are listed, equal sums are counted together, and the mixtures of normal
densities are added up near their atoms only.  Every term is positive, so the errors are relative:
ε stays sharp at tiny δ (proofs/exact-mixtures.md, step 3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack
from memberbound.subset.density_pairs import DensityPair, bernstein

__all__ = ["SubsetSums", "enumerated_pair", "subset_sums"]

#: More subsets than this, or subsets times records, are left to the Fourier route.
MOST_SUBSETS = 60_000
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
    if math.comb(records, min(size, records - size, 3)) > MOST_SUBSETS:
        return False
    count = math.comb(records, size)
    return count <= MOST_SUBSETS and count * records <= _MOST_MEMBERSHIPS


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
