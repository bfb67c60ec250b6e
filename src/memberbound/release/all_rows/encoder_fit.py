"""Fit an encoder and a target code from public bounds and noisy histograms.

Public categories cost nothing, and public ranges of small tables a share of one noisy mean.  For
any other column the cells above the noise decide whether it holds numbers, where they lie and which
values get an indicator; a second histogram inside that range gives a mean and a spread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError, TooFewRowsError
from memberbound.files import large_array
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.bounds import Bounds, Categories, Range
from memberbound.release.all_rows.clipping import (
    BLOCK_ROWS,
    GRID,
    clipped_residuals,
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
    CELLS,
    CLASS_SCALES,
    HISTOGRAM_SHARE,
    MISSING,
    MOST_CLASSES,
    NUMBER_CELLS,
    RANGE_SCALES,
    ROWS_AT_ONCE,
    cell_counts,
    counted,
    hardly_shared,
    noisy_identifiers,
    noisy_names,
    noisy_octaves,
    noisy_range,
    octave_ends,
    octave_span,
)
from memberbound.release.budget import HISTOGRAM_MOVES, Budget, BudgetShare, NoisySums
from memberbound.tables.persons import row_cuts
from memberbound.tables.records import Records

#: Share of the histograms' budget for the first histogram of each column, and share of μ² for the
#: mean of columns with public ranges.
FIRST_SHARE = 0.75
_CENTRE_SHARE = 0.10
#: A text's indicator may be spurious without harm, so less is asked of it than of a range.
_INDICATOR_SCALES = 2.5
#: Indicators of one column.
_MOST_CELLS = 63
#: Rows that a private histogram needs, in noise scales.
_ROWS_PER_SCALE = 40.0
#: A table with fewer rows than this over μ is drowned by the noise, whatever its bounds are.
_FEWEST_SIGNALS = 10.0
#: … and classes with fewer: digits, 900 rows at η = 0.01, has 4.5 and an accuracy of 0.2.
_CLASS_SIGNALS = 4.0
#: Linear cells of the second histogram.
_FINE = 32
#: A column that reaches this many octaves beyond its median size is read through an arsinh.
_HEAVY_OCTAVES = 5
#: Rows are cut off at this share of the largest length before they are averaged.
_MEAN_RADIUS = 0.6
#: How far means lie from the middle of a public range, in halves of it, as a rule of thumb.
_MEAN_SPREAD = 1.0


def widest(names: list[str], bounds: Bounds) -> int:
    """Return the largest width an encoder of these columns can have, before the table is seen."""
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


def histogram_coordinates(columns: int) -> int:
    """Return how many noisy counts so many private columns take, at most."""
    return columns * (CELLS + _FINE + 1)


def rows_needed(private: int, mu: float, *, classes: bool = False) -> int:
    """Return how many rows a table must have for its private columns to rise above the noise.

    A rule, not a promise: 40 noise scales of the first histograms, at the default share; where all
    bounds are given, 10/μ, below which the noise in a mean is as large as a typical mean.
    """
    if private + classes == 0:
        return math.ceil(_FEWEST_SIGNALS / mu)
    spent = mu * math.sqrt(HISTOGRAM_SHARE * FIRST_SHARE)
    scale = HISTOGRAM_MOVES * math.sqrt(private + classes) / spent
    return math.ceil(_ROWS_PER_SCALE * scale)


def most_classes(rows: int, mu: float) -> int:
    """Return how many public classes a table can have: each needs 4/μ rows."""
    return max(2, math.floor(rows * mu / _CLASS_SIGNALS))


def fit_target(
    records: Records,
    name: str,
    bounds: Bounds,
    *,
    classifier: bool,
    histograms: NoisySums | None,
) -> TargetCode:
    """Return the target's code, from public bounds or else from one noisy histogram.

    Guarantee: a class that one person has is named with probability at most :data:`CLASS_SLACK`,
    so both worlds are within that of a Gaussian pair (proofs/gradient-descent.md, claim 5).
    """
    bound = bounds.get(name)
    if bound is not None and isinstance(bound, Range) == classifier:
        raise InputError(
            f"bounds of {name!r} must be [low, high] for a target of numbers, and a list of "
            'classes for a target of classes; write {"categories": [0, 1]} if these are numbers.'
        )
    if not classifier:
        if bound is None:
            assert histograms is not None
            bound = noisy_range(records, name, histograms)
        if not isinstance(bound, Range):
            raise InputError(
                f"target {name!r} must have a range: give bounds [low, high] for it, or take the "
                "learner logistic or svm if it has classes."
            )
        return TargetCode(name, (), bound.low, bound.high, bound.form)
    if isinstance(bound, Categories):
        code = TargetCode(name, bound.labels, form=bound.form)
    else:
        assert histograms is not None
        code = TargetCode(name, noisy_names(records, name, histograms))
    if len(code.classes) < 2:
        scale = 1.0 if histograms is None else histograms.scale
        raise TooFewRowsError(
            f"target {name!r} must have at least two classes, each with more than about "
            f"{math.ceil(1 + CLASS_SCALES * scale)} rows, got {len(code.classes)}. "
            f"At most {MOST_CLASSES} classes are named. Merge rare classes, give them in the "
            "bounds if they are public, or take the learner ridge or huber if they are numbers."
        )
    return code


def settled_bounds(
    bounds: Bounds, features: list[str], rows: int, mu: float, *, classes: bool
) -> Bounds:
    """Return the bounds that say all about their columns; ranges wait for private scales else.

    A range says where numbers may lie, not where they do.  Where the budget pays for histograms of
    all columns, centre and spread within a range are learnt as those of private columns are, so
    that an honest wide range costs nothing.  Smaller tables keep the scale of their ranges.
    """
    ranged = [name for name in features if isinstance(bounds.get(name), Range)]
    private = sum(name not in bounds for name in features)
    if rows < rows_needed(private + len(ranged), mu, classes=classes):
        return bounds
    return {name: bound for name, bound in bounds.items() if name not in ranged}


def fit_encoder(
    table: Records,
    bounds: Bounds,
    settled: Bounds,
    budget: Budget,
    *,
    histograms: NoisySums | None,
    fine: BudgetShare | None,
) -> Encoder:
    """Return an encoder from public bounds, noisy histograms and one noisy mean.

    ``settled`` are those of :func:`settled_bounds`.  ``histograms`` are the first ones, which share
    their share of the budget with the target's; ``fine`` is the share of the second ones.  Both are
    None where all bounds are settled.

    Guarantee: what it takes from the budget is all that it tells about the table.
    Theorem: X22, proofs/gradient-descent.md claims 1, 3 and 5.
    """
    unbounded = [name for name in table.columns if name not in bounds]
    codes = {name: ColumnCode(name) for name in noisy_identifiers(table, unbounded, budget)}
    ranges: dict[str, Range] = {}
    for name in table.columns:
        bound = bounds.get(name)
        if isinstance(bound, Categories):
            codes[name] = ColumnCode(name, None, bound.labels, (), True, bound.form)
        elif bound is not None and name in settled:
            ranges[name] = bound
        elif name not in codes:
            assert histograms is not None
            noisy = histograms.measure(cell_counts(table, name))
            if bound is None:
                codes[name] = _private_code(name, noisy, histograms.scale, len(table))
            else:
                codes[name] = _ranged_code(name, bound, noisy, histograms.scale)
    numeric = [code for code in codes.values() if code.scaling and not code.scaling.spread]
    if numeric:
        assert fine is not None
        second = fine.sums(sensitivity=HISTOGRAM_MOVES, times=len(numeric))
        for code in numeric:
            noisy = second.measure(table.select([code.name]).shards.sum(_fine_counts, code))
            codes[code.name] = _finished(code, noisy, second.scale)
    if ranges:
        for name, mean in _noisy_mean(table, ranges, budget).items():
            scaling = public_scaling(ranges[name], mean)
            codes[name] = ColumnCode(name, scaling, form=ranges[name].form)
    return Encoder(tuple(codes[name] for name in table.columns))


def _strongest(noisy: FloatArray, least: float) -> tuple[int, ...]:
    """Return the cells above a count, the largest first if there are too many, in their order."""
    above = np.flatnonzero(noisy > least)
    best = above[np.argsort(-noisy[above], kind="stable")][:_MOST_CELLS]
    return tuple(sorted(int(cell) for cell in best))


def _private_code(name: str, noisy: FloatArray, scale: float, records: int) -> ColumnCode:
    """Decide from noisy counts what a column holds."""
    octaves = noisy_octaves(noisy, scale, records)
    if octaves.size:
        return _number_code(name, noisy, octaves, scale)
    cells = _strongest(noisy, _INDICATOR_SCALES * scale)
    if hardly_shared(noisy[MISSING + 1 :], scale):
        cells = _strongest(noisy[: MISSING + 1], RANGE_SCALES * scale)
    return ColumnCode(name, None, (), cells, bool(cells))


def _ranged_code(name: str, bound: Range, noisy: FloatArray, scale: float) -> ColumnCode:
    """Return where the numbers of a column with a public range lie within it, from noisy counts."""
    kept = np.flatnonzero(noisy[:NUMBER_CELLS] > RANGE_SCALES * scale)
    ends = [octave_ends(int(cell)) for cell in kept]
    inside = [max(low, bound.low) <= min(high, bound.high) for low, high in ends]
    if not any(inside):
        return ColumnCode(name, public_scaling(bound), form=bound.form)
    return _number_code(name, noisy, kept[np.array(inside)], scale, bound)


def _number_code(
    name: str, noisy: FloatArray, kept: NDArray[np.int64], scale: float, bound: Range | None = None
) -> ColumnCode:
    """Return the code of numbers in these octaves; the spread is 0 until it is measured."""
    low, high = octave_span(kept)
    if bound is not None:
        low, high = max(low, bound.low), min(high, bound.high)
    if low == high:  # nothing but zeros rises above the noise
        low, high = -1.0, 1.0
    # Values that are no numbers, and heavy tails, get indicators.
    others = _strongest(noisy[MISSING:], RANGE_SCALES * scale)
    unit = _median_size(kept, noisy[kept])
    heavy = max(abs(low), abs(high)) > unit * 2.0**_HEAVY_OCTAVES
    zeros = bool((kept == NUMBER_CELLS // 2).any()) and kept.size > 1
    octaves = tuple(int(cell) for cell in kept) if heavy or zeros else ()
    cells = (*octaves, *(MISSING + cell for cell in others))[:_MOST_CELLS]
    scaling = Scaling(low, high, 0.0, 0.0)
    if heavy:
        scaling = Scaling(math.asinh(low / unit), math.asinh(high / unit), 0.0, 0.0, unit)
    return ColumnCode(name, scaling, (), cells, False, "any" if bound is None else bound.form)


def _median_size(cells: NDArray[np.int64], weights: FloatArray) -> float:
    """Return the power of two at the median size of the numbers in these cells, zeros left out."""
    sizes = [
        (max(map(abs, octave_ends(int(cell)))), float(w))
        for cell, w in zip(cells, weights, strict=True)
    ]
    sizes = sorted(pair for pair in sizes if pair[0] > 0)
    if not sizes:
        return 1.0
    reached = np.cumsum([weight for _, weight in sizes])
    return sizes[int(np.searchsorted(reached, reached[-1] / 2))][0]


def _fine_counts(shard: Records, code: ColumnCode) -> FloatArray:
    """Return the counts of the range's linear cells."""
    values, scaling = shard.columns[code.name], code.scaling
    assert scaling is not None
    places = np.empty(len(values), dtype=np.int8)
    for cut in row_cuts(len(values), None, ROWS_AT_ONCE):
        moved = scaling.transformed(values.numbers_at(cut))
        share = (moved - scaling.low) / (scaling.high - scaling.low) * _FINE
        places[cut] = np.where(np.isnan(share), _FINE, np.minimum(share, _FINE - 1))
    return counted(places, _FINE + 1, shard.persons)[:_FINE]


def _finished(code: ColumnCode, noisy: FloatArray, scale: float) -> ColumnCode:
    """Return the code with mean and spread from the noisy counts."""
    scaling = code.scaling
    assert scaling is not None
    step = (scaling.high - scaling.low) / _FINE
    middles = scaling.low + step * (np.arange(_FINE) + 0.5)
    weights = np.where(noisy > 2 * scale, noisy, 0.0)
    if not weights.any():
        weights = np.ones(_FINE)
    mean = float(np.average(middles, weights=weights))
    spread = math.sqrt(float(np.average((middles - mean) ** 2, weights=weights)))
    return replace(code, scaling=replace(scaling, centre=mean, spread=max(spread, step / 2)))


def _noisy_mean(table: Records, ranges: Mapping[str, Range], budget: Budget) -> dict[str, float]:
    """Return means of the columns with public ranges, in [-1, 1], from one noisy sum."""
    records = len(table)
    radius = _MEAN_RADIUS * math.sqrt(len(ranges))
    share = budget.take("means of columns with public ranges", _CENTRE_SHARE)
    sums = share.sums(sensitivity=path_sensitivity(radius, records))
    total = table.select(ranges).shards.sum(
        _clipped_means, ranges, radius, summand_step(radius, records)
    )
    # Shrunk towards the middle of the range in proportion to the noise; the factor is public.
    trust = _MEAN_SPREAD**2 / (_MEAN_SPREAD**2 + (sums.scale / records) ** 2)
    means = np.clip(trust * sums.measure(total) / records, -1.0, 1.0)
    return dict(zip(ranges, means.tolist(), strict=True))


def _clipped_means(
    shard: Records, ranges: Mapping[str, Range], radius: float, step: float
) -> FloatArray:
    """Return the sum of rows scaled to [-1, 1], each cut off at the radius."""
    persons = shard.persons
    grid = large_array((len(ranges), shard.rows), np.dtype(np.int16), shard.memory)
    for place, (name, bound) in enumerate(ranges.items()):
        scaled = public_scaling(bound).encoded(shard.columns[name].numbers)
        grid[place] = np.rint(on_grid(scaled) * GRID)
    total = np.zeros(len(ranges))
    for cut in row_cuts(shard.rows, persons, BLOCK_ROWS):
        block = grid[:, cut] / GRID
        weights = np.ones(block.shape[1]) if persons is None else persons.weights[cut]
        lengths = row_lengths(np.einsum("ij,ij->j", block, block), len(block), 0.0)
        starts = None if persons is None else persons.starts_within(cut)
        moved = clipped_residuals(weights[:, None], lengths, radius, starts)[:, 0]
        total += block @ (np.trunc(moved / step) * step)
    return total
