"""Estimate the joint counts of an ordered column and one that changes with it in steps.

An age group changes at a few ages: the law of the group given the age is constant on runs of
neighbouring cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.marginals import (
    FUNCTION_SCALES,
    LEAST_MISFIT,
    RARE_SCALES,
    project,
    rake,
)

#: A pair is a step function if the largest cells of all rows hold this share of the records.
_PURE = 0.95


def estimate_steps(
    noisy: FloatArray,
    scale: float,
    weights: FloatArray,
    columns: FloatArray,
    *,
    spread: float,
    misfit: float = LEAST_MISFIT,
) -> FloatArray:
    """Estimate consistent counts of a pair with an ordered column as rows.

    The law of the other column given the cell is constant on runs of cells, which minimise
    squared error plus a penalty, so that derived columns (such as an age group) stay consistent.
    If the other column is a step function, its own sums, with noise of scale ``spread``, help to
    find the steps.

    Examples:
        >>> noisy = np.array([[10.0, 0], [9, 1], [11, -1], [0, 10], [1, 9]])
        >>> sums = np.full(5, 10.0), np.array([30.0, 20.0])
        >>> table = estimate_steps(noisy, 1.0, *sums, spread=1.0)
        >>> table.round().tolist()
        [[10.0, 0.0], [10.0, 0.0], [10.0, 0.0], [0.0, 10.0], [0.0, 10.0]]
    """
    count, size = noisy.shape
    price = scale**2 * (2 * size + 2 * math.log(count + 1))
    products = np.cumsum(np.vstack([np.zeros(size), noisy * weights[:, None]]), axis=0)
    squares = np.concatenate([[0.0], np.cumsum(np.square(weights))])
    best, start = np.zeros(count + 1), np.zeros(count + 1, dtype=np.int64)
    for end in range(1, count + 1):
        reached = products[end] - products[:end]
        weight = np.maximum(squares[end] - squares[:end], 1e-12)[:, None]
        # Shares lie between 0 and 1, so a few records cannot explain a large count.
        shares = np.clip(reached / weight, 0.0, 1.0)
        costs = best[:end] + price - (2 * reached * shares - weight * shares**2).sum(axis=1)
        start[end] = costs.argmin()
        best[end] = costs[start[end]]
    table, end = np.zeros(noisy.shape), count
    while end > 0:
        first = int(start[end])
        mass = max(float(weights[first:end].sum()), 1e-12)
        share = (products[end] - products[first]) / max(squares[end] - squares[first], 1e-12)
        noise = scale / math.sqrt(max(squares[end] - squares[first], 1e-12))
        share[(share < RARE_SCALES * noise) & (share < share.max())] = -math.inf
        table[first:end] = np.outer(weights[first:end], project(share * mass, mass) / mass)
        end = first
    runs = _function_runs(table, noisy, weights, scale)
    if runs:
        misfit = 1.0
        table = _align_cuts(noisy, (scale, spread), weights, columns, runs)
    return rake(table + 1e-9 * (table > 0), weights, columns, misfit)


def _function_runs(
    table: FloatArray, noisy: FloatArray, weights: FloatArray, scale: float
) -> list[int]:
    """Return the columns of a table in the order of their rows, if each has one run of rows.

    A second run of a column joins a neighbour if the noisy counts hardly speak against it.
    """
    rows = np.flatnonzero(table.sum(axis=1) > 0)
    filled = table[rows]
    if filled.max(axis=1).sum() < _PURE * filled.sum():
        return []
    codes = filled.argmax(axis=1)
    while True:
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        runs: list[int] = codes[starts].tolist()
        if len(set(runs)) == len(runs):
            return runs if len(runs) > 1 else []
        pieces = np.split(np.arange(len(codes)), starts[1:])
        joins = []
        for place, piece in enumerate(pieces):
            for beside in {max(place - 1, 0), min(place + 1, len(runs) - 1)} - {place}:
                inside = rows[piece]
                lost = noisy[inside, runs[place]] - noisy[inside, runs[beside]]
                if runs.count(runs[place]) > 1:
                    joins.append((2 * float(lost @ weights[inside]), place, runs[beside]))
        price, place, code = min(joins)
        if price > (FUNCTION_SCALES * scale) ** 2:
            return []
        codes[pieces[place]] = code


def _align_cuts(
    noisy: FloatArray,
    scales: tuple[float, float],
    weights: FloatArray,
    columns: FloatArray,
    runs: Sequence[int],
) -> FloatArray:
    """Return the step function that best fits both the noisy counts and the columns' sums.

    ``runs`` are the columns in order, ``scales`` those of the noise of counts and of column sums.
    """
    below = np.concatenate([[0.0], np.cumsum(weights)])
    wanted = np.cumsum(columns[list(runs)])
    wanted *= below[-1] / max(float(wanted[-1]), 1e-9)
    cuts = [0, *np.searchsorted(below, wanted[:-1]).tolist(), len(weights)]
    for _ in range(2):
        for place in range(1, len(runs)):
            left, right = noisy[:, runs[place - 1]], noisy[:, runs[place]]
            # Increase of a cell's error if it moves from the right run to the left one.
            price = weights * (right - left) / scales[0] ** 2
            first, last = cuts[place - 1], cuts[place + 1]
            inside = np.concatenate([[0.0], np.cumsum(price[first:last])])
            off = (below[first : last + 1] - wanted[place - 1]) / (2 * scales[1])
            cuts[place] = first + int((inside + off**2 / 2).argmin())
    table = np.zeros(noisy.shape)
    for place, column in enumerate(runs):
        table[cuts[place] : cuts[place + 1], column] = weights[cuts[place] : cuts[place + 1]]
    return table
