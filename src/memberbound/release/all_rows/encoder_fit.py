"""Fit an encoder and a target code from public bounds and noisy histograms.

Public categories are free, and public ranges of small tables cost a share of one noisy mean.  For
any other column the cells above the noise determine whether it holds numbers, their range and which
values get an indicator; a second histogram within that range gives a mean and a spread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from memberbound.errors import InputError, TooFewRowsError
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.bounds import Bounds, Categories, Range
from memberbound.release.all_rows.clipping import (
    BLOCK_ROWS,
    GRID,
    clip_residuals,
    on_grid,
    path_sensitivity,
    row_lengths,
    summand_step,
)
from memberbound.release.all_rows.encoder import (
    ColumnCode,
    Encoder,
    Scaling,
    TargetCode,
    public_scaling,
)
from memberbound.release.all_rows.histograms import (
    CLASS_SCALES,
    MOST_CLASSES,
    NUMBER_CELLS,
    octave_ends,
)
from memberbound.release.all_rows.learner_forms import MOST_LEAVES
from memberbound.release.all_rows.number_laws import NumberLaw
from memberbound.release.all_rows.private_columns import (
    MOST_LABELS,
    PrivateColumn,
    learn_classes,
    rows_needed,
)
from memberbound.release.budget import Budget
from memberbound.scratch import large_array
from memberbound.tables.persons import row_cuts
from memberbound.tables.records import Records

#: Share of μ² for the mean of columns with public ranges.
_CENTRE_SHARE = 0.10
#: Maximum number of indicators of a column.
_MOST_CELLS = MOST_LABELS
#: Learning scales within public ranges takes this factor times :func:`rows_needed` rows; smaller
#: tables use the ranges themselves.
_RANGE_ROWS = 6.0
#: Classes with fewer rows than this divided by μ are lost in the noise: digits with 900 rows at
#: η = 0.01 has 4.5 and an accuracy of 0.2.
_CLASS_SIGNALS = 4.0
#: A column that extends this many octaves beyond its median size is transformed by arsinh.
_HEAVY_OCTAVES = 5
#: The spread of numbers is at least this share of their range.
_LEAST_SPREAD = 1 / 64
#: Rows are clipped to this share of the largest norm before they are averaged.
_MEAN_RADIUS = 0.6
#: Prior spread of means around the middle of a public range, in half-widths.
_MEAN_SPREAD = 1.0


def widest(names: list[str], bounds: Bounds) -> int:
    """Return an upper bound on an encoder's width, before the table is read."""
    total = 0
    for name in names:
        bound = bounds.get(name)
        if isinstance(bound, Range):
            total += 1
        elif isinstance(bound, Categories):
            total += len(bound.labels) + 1
        else:
            total += _MOST_CELLS + 2
    return total


def most_classes(rows: int, mu: float) -> int:
    """Return the maximum number of public classes of a target: each needs 4/μ rows."""
    return max(2, math.floor(rows * mu / _CLASS_SIGNALS))


def fit_target(
    records: Records,
    name: str,
    bounds: Bounds,
    *,
    classifier: bool,
    budget: Budget,
    learnt: PrivateColumn | None = None,
) -> TargetCode:
    """Fit the target's code: from public bounds, noisy names of classes, or a learnt range.

    Guarantee: a class of a single person is named with probability at most :data:`CLASS_SLACK`,
    so the release is within that probability of a Gaussian pair (proofs/gradient-descent.md, claim
    5).
    """
    bound = bounds.get(name)
    if bound is not None and isinstance(bound, Range) == classifier:
        raise InputError(
            f"bounds of {name!r} must be [low, high] for a target of numbers, and a list of "
            'classes for a target of classes; write {"categories": [0, 1]} if these are numbers.'
        )
    if not classifier:
        if bound is None and learnt is not None:
            bound = learnt.range
        if not isinstance(bound, Range):
            raise InputError(
                f"target {name!r} must have a range: give bounds [low, high] for it, or take the "
                "learner logistic or svm if it has classes."
            )
        return TargetCode(name, (), bound.low, bound.high, bound.form)
    if isinstance(bound, Categories):
        code, scale = TargetCode(name, bound.labels, form=bound.form), 1.0
    else:
        classes, scale = learn_classes(records, name, budget, alone=True)
        code = TargetCode(name, classes)
    if len(code.classes) < 2:
        raise TooFewRowsError(
            f"target {name!r} must have at least two classes, each with more than about "
            f"{math.ceil(1 + CLASS_SCALES * scale)} rows, got {len(code.classes)}. "
            f"At most {MOST_CLASSES} classes are named. Merge rare classes, name them "
            "if they are public (in the bounds, or as classes=[…] of MembershipPrivate), or take "
            "the learner ridge or huber if they are numbers."
        )
    return code


def choose_bounds(
    bounds: Bounds, features: list[str], rows: int, mu: float, *, classes: bool
) -> Bounds:
    """Return the bounds to use as they are, without learning a scale within the range.

    A range covers the possible numbers, not the typical ones.  If the budget allows histograms of
    all columns, centre and spread within a range are learnt as for private columns, so that a wide
    range costs no accuracy.  Smaller tables, and columns with public edges, keep the scale of the
    range.
    """
    ranged = [n for n in features if isinstance(b := bounds.get(n), Range) and not b.edges]
    private = sum(name not in bounds for name in features)
    if rows < _RANGE_ROWS * rows_needed(private + len(ranged) + int(classes), mu):
        return bounds
    return {name: bound for name, bound in bounds.items() if name not in ranged}


def fit_encoder(
    table: Records,
    bounds: Bounds,
    settled: Bounds,
    learnt: Mapping[str, PrivateColumn],
    budget: Budget,
) -> Encoder:
    """Fit an encoder from public bounds, privately learnt columns, and one noisy mean.

    ``settled`` come from :func:`choose_bounds`; ``learnt`` has the other columns except
    identifiers, which have no code.

    Guarantee: all information about the table is charged to the budget.
    Theorem: X22, proofs/gradient-descent.md claims 1, 3 and 5.
    """
    codes: dict[str, ColumnCode] = {}
    ranges: dict[str, Range] = {}
    for name in table.columns:
        bound = bounds.get(name)
        if isinstance(bound, Categories):
            codes[name] = ColumnCode(name, None, bound.labels, (), True, bound.form)
        elif bound is not None and name in settled:
            ranges[name] = bound
        elif name in learnt:
            codes[name] = _private_code(learnt[name], bound)
        else:
            codes[name] = ColumnCode(name)
    if ranges:
        for name, mean in _noisy_mean(table, ranges, budget).items():
            scaling = public_scaling(ranges[name], mean)
            bound = ranges[name]
            codes[name] = ColumnCode(name, scaling, form=bound.form, edges=bound.edges)
    return Encoder(tuple(codes[name] for name in table.columns))


def _private_code(column: PrivateColumn, bound: Range | None = None) -> ColumnCode:
    """Return the code of a privately learnt column, within a public range if there is one."""
    if column.law is not None and column.law.weights.any():
        return _number_code(column, column.law, bound)
    if bound is not None:
        return ColumnCode(column.name, public_scaling(bound), form=bound.form)
    cells = tuple(cell for cell, _ in column.beside)
    return ColumnCode(column.name, None, (), cells, bool(cells))


def _number_code(column: PrivateColumn, law: NumberLaw, bound: Range | None) -> ColumnCode:
    """Return the code of a numeric column: mean and spread, and indicators of other cells."""
    found = column.range
    assert found is not None
    low, high = found.low, found.high
    if bound is not None:
        low, high = max(low, bound.low), min(high, bound.high)
        if low >= high:
            low, high = bound.low, bound.high
    # Non-numeric values, and heavy tails, get indicators.
    unit = _median_size(column.octaves, column.octave_counts)
    heavy = max(abs(low), abs(high)) > unit * 2.0**_HEAVY_OCTAVES
    zeros = NUMBER_CELLS // 2 in column.octaves and len(column.octaves) > 1
    octaves = column.octaves if heavy or zeros else ()
    cells = (*octaves, *(cell for cell, _ in column.beside))[:_MOST_CELLS]
    scaling = Scaling(low, high, 0.0, 0.0)
    if heavy:
        scaling = Scaling(math.asinh(low / unit), math.asinh(high / unit), 0.0, 0.0, unit)
    mean, spread = law.moments(scaling.transform, scaling.low, scaling.high)
    spread = max(spread, (scaling.high - scaling.low) * _LEAST_SPREAD)
    scaling = replace(scaling, centre=mean, spread=spread)
    form = "any" if bound is None else bound.form
    return ColumnCode(column.name, scaling, (), cells, False, form, law.bins(MOST_LEAVES))


def _median_size(cells: Sequence[int], weights: Sequence[float]) -> float:
    """Return the median magnitude of the nonzero numbers in these cells, as a power of two."""
    sizes = [
        (max(map(abs, octave_ends(cell))), weight)
        for cell, weight in zip(cells, weights, strict=True)
    ]
    sizes = sorted(pair for pair in sizes if pair[0] > 0)
    if not sizes:
        return 1.0
    reached = np.cumsum([weight for _, weight in sizes])
    return sizes[int(np.searchsorted(reached, reached[-1] / 2))][0]


def _noisy_mean(table: Records, ranges: Mapping[str, Range], budget: Budget) -> dict[str, float]:
    """Return means in [-1, 1] of the columns with public ranges, from one noisy sum."""
    records = len(table)
    radius = _MEAN_RADIUS * math.sqrt(len(ranges))
    share = budget.take("means of columns with public ranges", _CENTRE_SHARE)
    sums = share.sums(sensitivity=path_sensitivity(radius, records))
    total = table.select(ranges).shards.sum(
        _sum_clipped_rows, ranges, radius, summand_step(radius, records)
    )
    # Shrink towards the middle of the range according to the noise; the factor is public.
    trust = _MEAN_SPREAD**2 / (_MEAN_SPREAD**2 + (sums.scale / records) ** 2)
    means = np.clip(trust * sums.measure(total) / records, -1.0, 1.0)
    return dict(zip(ranges, means.tolist(), strict=True))


def _sum_clipped_rows(
    shard: Records, ranges: Mapping[str, Range], radius: float, step: float
) -> FloatArray:
    """Sum rows that are scaled to [-1, 1] and clipped to the radius."""
    persons = shard.persons
    grid = large_array((len(ranges), shard.rows), np.dtype(np.int16), shard.memory)
    for index, (name, bound) in enumerate(ranges.items()):
        scaled = public_scaling(bound).encode(shard.columns[name].numbers)
        grid[index] = np.rint(on_grid(scaled) * GRID)
    total = np.zeros(len(ranges))
    for cut in row_cuts(shard.rows, persons, BLOCK_ROWS):
        block = grid[:, cut] / GRID
        weights = np.ones(block.shape[1]) if persons is None else persons.weights[cut]
        lengths = row_lengths(np.einsum("ij,ij->j", block, block), len(block), 0.0)
        starts = None if persons is None else persons.starts_within(cut)
        clipped = clip_residuals(weights[:, None], lengths, radius, starts)[:, 0]
        total += block @ (np.trunc(clipped / step) * step)
    return total
