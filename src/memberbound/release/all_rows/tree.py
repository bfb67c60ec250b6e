"""The tree of a synthetic table: scores of pairs, a forest, and consistent counts of its edges."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.cells import CELL_SCALES
from memberbound.tables.persons import PERSON_UNITS

#: A pair's count below this many noise scales may be empty.
_EMPTY_SCALES = 2.0


def pair_score(counts: FloatArray, expected: FloatArray) -> float:
    """Return Σ|count - expected|, exact: what is expected is rounded to units of 2^-20.

    Guarantee: replacing a record moves it by at most 2.
    """
    return float(np.abs(counts - np.rint(expected * PERSON_UNITS) / PERSON_UNITS).sum())


def best_forest(scores: FloatArray) -> list[tuple[int, int | None]]:
    """Return (column, parent) of the best forest, parents first, from an upper triangle of scores.

    Scores below 0 are not used.
    """
    from scipy.sparse import csgraph

    tree = csgraph.minimum_spanning_tree(-np.maximum(scores, 0.0))
    parents: dict[int, int | None] = {}
    for root in range(len(scores)):
        if root not in parents:
            order, parent = csgraph.breadth_first_order(tree, root, directed=False)
            parents |= {root: None} | {int(c): int(parent[c]) for c in order[1:]}
    return list(parents.items())


def shrunk_counts(noisy: FloatArray, expected: FloatArray, scale: float) -> FloatArray:
    """Return noisy (parent, child, group) counts, drawn towards independence (James and Stein).

    Each parent's by as much as its distance from independence may be noise.
    """
    distance = noisy - expected
    squares = np.square(distance).sum(axis=1, keepdims=True)
    noise = max(noisy.shape[1] - 2, 0) * scale**2
    weight = np.clip(1.0 - noise / np.maximum(squares, 1e-12), 0.0, 1.0)
    # Where independence expects many and the noise explains what was counted, there is nothing.
    empty = (noisy < _EMPTY_SCALES * scale) & (expected > 2 * _EMPTY_SCALES * scale)
    empty |= _outside_a_function(noisy, expected, scale)[:, :, None]
    return np.where(empty, -math.inf, expected + weight * distance)


def _outside_a_function(noisy: FloatArray, expected: FloatArray, scale: float) -> NDArray[np.bool_]:
    """Return the (parent, child) cells that do not stand out, where one decides the other.

    Together they must hold no more than noise explains, where independence expects far more.
    """
    totals = noisy.sum(axis=2)
    spread = scale * math.sqrt(noisy.shape[2])
    outside = np.asarray(totals < CELL_SCALES * spread)
    outside[np.arange(len(totals)), totals.argmax(axis=1)] = False
    outside[totals.argmax(axis=0), np.arange(totals.shape[1])] = False
    doubt = _EMPTY_SCALES * spread * math.sqrt(max(int(outside.sum()), 1))
    if totals[outside].sum() < doubt and expected.sum(axis=2)[outside].sum() > 2 * doubt:
        return outside
    return np.zeros_like(outside)


def raked_counts(table: FloatArray, parents: FloatArray, children: FloatArray) -> FloatArray:
    """Return a (parent, child, group) table with these (parent, group) and (child, group) sums."""
    for _ in range(10):
        table = table * (parents / np.maximum(table.sum(axis=1), 1e-12))[:, None, :]
        table = table * (children / np.maximum(table.sum(axis=0), 1e-12))[None, :, :]
    return table
