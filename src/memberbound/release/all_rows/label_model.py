"""The label model of a synthetic table: an additive softmax, corrected by noisy sums of residuals.

A row is in one block of every column.  The score of a group of the target is an intercept plus an
effect per block.  A row's residual is a function of that row alone, bit by bit, and sums are exact
(proofs/synthetic-tables.md, claim 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.marginals import LabelledRows
from memberbound.release.budget import NoisySums
from memberbound.tables.persons import PERSON_UNITS
from memberbound.tables.shards import Shards

IntArray = NDArray[np.int64]

#: Rows whose residuals are added up at once.
_ROWS = 2**17
#: Rounds of the label model, length at which residuals are cut off, and what effects are worth.
ROUNDS = 4
CLIP = 0.7
_DAMPING = 0.6
_START_VARIANCE = 4.0
_ROUND_VARIANCE = 0.25
#: Computed lengths exceed exact ones by less than this.
ROOM = 1.0 + 2.0**-20
#: Scores are whole multiples of 1/64, and their exponentials come from a table: the same for every
#: record wherever it stands in the table.
_GRID = 64.0
_EXPONENTIALS = np.exp(-np.arange(0, 20 * int(_GRID) + 1) / _GRID)
#: Drawn rows that the label model is fitted on: at least, at most.
FITTED_ROWS = (5_000, 40_000)


def probabilities(scores: FloatArray) -> FloatArray:
    """Return softmax probabilities of scores on the grid, a function of each row alone."""
    lowered = (scores.max(axis=1, keepdims=True) - scores) * _GRID
    sizes = _EXPONENTIALS[np.minimum(lowered, len(_EXPONENTIALS) - 1).astype(np.int64)]
    total = np.zeros(len(scores))
    for group in range(scores.shape[1]):
        total += sizes[:, group]
    return np.asarray(sizes / total[:, None])


def clipped_residual_units(
    groups: NDArray[np.integer[Any]], probabilities: FloatArray, weights: FloatArray | None
) -> FloatArray:
    """Return weight · (indicator of the group - probabilities), cut off at the clip, in units.

    Guarantee: the rows of one record add up to a vector of at most clip · 2^20 · (1 + 2^-20), in
    whatever cells they are: weights of a record add up to at most 1.  Whole numbers: sums are
    exact.
    """
    residuals = -probabilities
    residuals[np.arange(len(groups)), groups] += 1.0
    squares = np.zeros(len(groups))
    for column in residuals.T:
        squares += column * column
    factor = np.minimum(1.0, CLIP / np.maximum(np.sqrt(squares), 1e-12)) * PERSON_UNITS
    if weights is not None:
        factor = factor * weights
    return np.asarray(np.trunc(residuals * factor[:, None]))


@dataclass(frozen=True, eq=False)
class LabelModel:
    """Scores of the target's groups: intercepts and an effect per block of every column."""

    intercepts: FloatArray
    effects: tuple[FloatArray, ...]

    def scores(self, blocks: Sequence[NDArray[np.generic]]) -> FloatArray:
        """Return scores on the grid."""
        rows = len(blocks[0]) if blocks else 0
        scores = np.tile(self.intercepts, (rows, 1))
        for effect, place in zip(self.effects, blocks, strict=True):
            scores += effect[place]
        return scores

    def moved(self, by: Sequence[FloatArray]) -> LabelModel:
        """Return the model with other effects, rounded to the grid."""
        pairs = zip(self.effects, by, strict=True)
        return replace(self, effects=tuple(np.rint((a + b) * _GRID) / _GRID for a, b in pairs))


def _summed(blocks: NDArray[np.integer[Any]], values: FloatArray, count: int) -> FloatArray:
    """Return the sum of rows of values per block."""
    return np.column_stack([np.bincount(blocks, column, count) for column in values.T])


def _additive(
    blocks: Sequence[IntArray],
    curvature: FloatArray,
    moments: Sequence[FloatArray],
    shrinkage: float,
    effects: Sequence[FloatArray],
) -> list[FloatArray]:
    """Return changes of effects for which a linear model has these moments, shrunk by a penalty."""
    sizes = [_summed(p, curvature, len(e)) + 1.0 for p, e in zip(blocks, effects, strict=True)]
    penalties = [shrinkage / size for size in sizes]
    changes = [np.zeros_like(effect) for effect in effects]
    total = np.zeros_like(curvature)
    for _ in range(8):
        for c, place in enumerate(blocks):
            reached = _summed(place, curvature * total, len(effects[c]))
            wanted = moments[c] - reached - penalties[c] * (effects[c] + changes[c])
            step = np.clip(wanted / (sizes[c] + penalties[c]), -1.0, 1.0)
            changes[c] += step
            total += step[place]
    return changes


def fitted_labels(
    coarse: Sequence[FloatArray],
    groups: FloatArray,
    blocks: Sequence[IntArray],
    rows: Shards[LabelledRows],
    sums: NoisySums,
    *,
    count_scale: float,
) -> LabelModel:
    """Return the label model: from the columns' counts, then from noisy sums of residuals.

    ``coarse`` are noisy (block, group) counts of noise ``count_scale``, ``blocks`` those of drawn
    rows, on which it is fitted.  Each round the residuals of all rows (shards of
    :class:`LabelledRows`) are summed per block of every column, with noise, and the effects move
    such that drawn rows would show the same sums.
    """
    count, size = len(groups), len(blocks[0])
    ratio = size / groups.sum()
    share = groups / groups.sum()
    intercepts = np.rint(np.log(share) * _GRID) / _GRID
    labels = LabelModel(intercepts, tuple(np.zeros_like(counts) for counts in coarse))
    wide = count / (count - 1)
    drawn = [np.bincount(b, minlength=len(c)) for b, c in zip(blocks, coarse, strict=True)]
    excess = [counts - counts.sum(axis=1, keepdims=True) * share for counts in coarse]
    shrinkage = (count_scale * ratio) ** 2 * 0.6 / _START_VARIANCE
    for _ in range(4):
        likely = probabilities(labels.scores(blocks))
        moments = [
            number[:, None] * share + more * ratio - _summed(place, likely, len(number))
            for place, number, more in zip(blocks, drawn, excess, strict=True)
        ]
        curvature = wide * likely * (1 - likely)
        labels = labels.moved(_additive(blocks, curvature, moments, shrinkage, labels.effects))

    shrinkage = (sums.scale * ratio) ** 2 * (1 - 1 / count) / _ROUND_VARIANCE
    for _ in range(ROUNDS):
        moments = []
        for exact in rows.sum(_residual_sums, labels, [len(counts) for counts in coarse]):
            noisy = sums.measure(exact / PERSON_UNITS) * ratio
            moments.append(noisy - noisy.mean(axis=1, keepdims=True))
        likely = probabilities(labels.scores(blocks))
        # How likely a drawn row's residual is shorter than the clip.
        lengths = np.square(likely).sum(axis=1, keepdims=True) - 2 * likely + 1.0
        unclipped = (likely * (lengths < CLIP**2)).sum(axis=1, keepdims=True)
        curvature = wide * likely * (1 - likely) * np.maximum(unclipped, 0.1)
        none = [np.zeros_like(effect) for effect in labels.effects]
        change = _additive(blocks, curvature, moments, shrinkage, none)
        labels = labels.moved([_DAMPING * c for c in change])
    return labels


def _residual_sums(
    rows: LabelledRows, labels: LabelModel, sizes: Sequence[int]
) -> tuple[FloatArray, ...]:
    """Return sums of residuals per block of every column, in units: exact, whatever the order."""
    sums = [np.zeros((size, len(labels.intercepts))) for size in sizes]
    for start in range(0, len(rows.groups), _ROWS):
        cut = slice(start, start + _ROWS)
        codes = [code[cut] for code in rows.codes]
        weights = None if rows.persons is None else rows.persons.weights[cut]
        likely = probabilities(labels.scores(codes))
        units = clipped_residual_units(rows.groups[cut], likely, weights)
        for place, (code, size) in enumerate(zip(codes, sizes, strict=True)):
            sums[place] += _summed(code, units, size)
    return tuple(sums)
