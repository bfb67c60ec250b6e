"""From columns to bounded numbers, with noisy histograms for what is not public.

A column with public bounds costs nothing but, for numbers, a share of one noisy mean.  Any other
column is put into one histogram: numbers by sign and octave, texts by a bucket of a public hash, so
that the cells are the same for every table and no name is ever released.  Cells above the noise
decide whether the column holds numbers, where they lie and which values get an indicator; a second
histogram inside that range gives a mean and a spread.  Classes of the target need names: they are
released where their noisy count says that many people share them (proofs/gradient-descent.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray, up
from memberbound.protection.bounds import (
    CELLS,
    MISSING,
    NUMBER_CELLS,
    Bounds,
    Categories,
    Range,
    Values,
    octave_ends,
)
from memberbound.protection.budget import NeighbourBudget, noisy_release
from memberbound.protection.codes import ColumnCode, Encoder, Scaling, TargetCode, public_scaling
from memberbound.protection.gradient import (
    clipped_sum,
    noise_for_path,
    path_sensitivity,
    row_lengths,
)
from memberbound.protection.randomness import RandomSource

__all__ = [
    "CENTRE_SHARE",
    "CLASS_SLACK",
    "HISTOGRAM_SHARE",
    "MOST_CLASSES",
    "fit_encoder",
    "fit_target",
    "histogram_coordinates",
    "histogram_noise",
    "rows_needed",
    "widest",
]

#: Shares of μ² for histograms (three quarters of it for the first) and for the mean of columns with
#: public ranges.
HISTOGRAM_SHARE = 0.15
CENTRE_SHARE = 0.10
_FIRST = 0.75
#: A cell of numbers counts towards the range from this many noise scales on; a text's indicator
#: may be spurious without harm, so less is asked of it.
_RANGE_SCALES = 4.5
_INDICATOR_SCALES = 2.5
#: Indicators of one column, and classes that are released by name.
_MOST_CELLS = 63
MOST_CLASSES = 32
#: A class that one person has is released with at most this probability: Φ(-6) is below it, and
#: the grid moves a noisy count by at most an eighth of the scale.
CLASS_SLACK = 1e-9
_CLASS_SCALES = 6.2
#: Rows that a private histogram needs, in noise scales.
_ROWS_PER_SCALE = 40.0
#: Linear cells of the second histogram.
_FINE = 32
#: A column that reaches this many octaves beyond its median size is read through an arsinh.
_HEAVY_OCTAVES = 5
#: Rows are cut off at this share of the largest length before they are averaged.
_MEAN_RADIUS = 0.6


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
    """Return how many noisy counts so many private columns take."""
    return columns * (CELLS + _FINE)


def histogram_noise(histograms: int, mu: float) -> float:
    """Return the noise scale of so many histograms that share μ: √(2·histograms)/μ, from above.

    A replaced record takes one count away and adds one, in each: L2 sensitivity √2 per histogram.
    """
    return up(math.sqrt(2.0 * histograms) / mu, 8)


def rows_needed(private: int, mu: float, *, classes: bool = False) -> int:
    """Return how many rows a table must have for its private columns to rise above the noise.

    A rule, not a promise: 40 noise scales of the first histograms, at the default share.
    """
    if private + classes == 0:
        return 1
    spent = mu * math.sqrt(HISTOGRAM_SHARE * _FIRST)
    return math.ceil(_ROWS_PER_SCALE * histogram_noise(private + classes, spent))


def fit_target(
    name: str,
    values: Values,
    bounds: Bounds,
    *,
    kind: Literal["classes", "numbers"],
    scale: float,
    source: RandomSource,
) -> TargetCode:
    """Return the target's code, from public bounds or from one noisy histogram of noise ``scale``.

    Guarantee: a class that one person has is named with probability at most :data:`CLASS_SLACK`,
    so both worlds are within that of a Gaussian pair (proofs/gradient-descent.md, claim 5).
    """
    bound = bounds.get(name)
    if kind == "numbers":
        if isinstance(bound, Range):
            return TargetCode(name, (), bound.low, bound.high)
        if bound is not None:
            raise InputError(f"bounds of {name!r} must be [low, high] for a target of numbers.")
        counts = np.bincount(values.cells, minlength=CELLS)[:NUMBER_CELLS]
        noisy = noisy_release(counts, scale, source)
        kept = np.flatnonzero(noisy > _RANGE_SCALES * scale)
        ends = [end for cell in kept for end in octave_ends(int(cell))]
        if not ends or min(ends) == max(ends):
            raise InputError(
                f"target {name!r} must have a range: give bounds [low, high] for it, or take the "
                "learner logistic or svm if it has classes."
            )
        return TargetCode(name, (), min(ends), max(ends))
    if isinstance(bound, Categories):
        labels = bound.labels
    elif isinstance(bound, Range):
        raise InputError(
            f"bounds of {name!r} must be a list of classes, got a range. "
            'Write {"categories": [0, 1]} if the classes are numbers.'
        )
    else:
        places, names = values.named()
        counts = np.bincount(places[places >= 0], minlength=len(names))
        noisy = noisy_release(counts, scale, source)
        passed = np.flatnonzero(noisy > 1.0 + _CLASS_SCALES * scale)
        largest = passed[np.argsort(-noisy[passed], kind="stable")][:MOST_CLASSES]
        labels = tuple(names[place] for place in sorted(largest))
    if len(labels) < 2:
        raise InputError(
            f"target {name!r} must have at least two classes, each with more than about "
            f"{math.ceil(1 + _CLASS_SCALES * scale)} rows, got {len(labels)}. "
            "Give the classes in the bounds if they are public, or take the learner ridge or huber "
            "if they are numbers."
        )
    return TargetCode(name, labels)


def fit_encoder(
    read: Mapping[str, Values],
    bounds: Bounds,
    budget: NeighbourBudget,
    source: RandomSource,
    *,
    scale: float | None,
    fine_mu: float | None,
) -> Encoder:
    """Return an encoder from public bounds, noisy histograms and one noisy mean.

    ``scale`` is the noise of the first histograms, which share their part of the budget with the
    target's; ``fine_mu`` is what the second ones may take, ``None`` where no column needs them.

    Guarantee: what it takes from the budget is all that it tells about the table.
    Theorem: X22, proofs/gradient-descent.md claims 1, 3 and 5.
    """
    rows = len(next(iter(read.values())))
    private = [name for name in read if name not in bounds]
    public = [name for name in read if isinstance(bounds.get(name), Range)]
    drafts: dict[str, ColumnCode | _Draft] = {}
    for name in private:
        assert scale is not None
        counts = np.bincount(read[name].cells, minlength=CELLS)
        drafts[name] = _draft(name, noisy_release(counts, scale, source), scale, rows)
    numeric = [draft for draft in drafts.values() if isinstance(draft, _Draft)]
    if numeric:
        assert fine_mu is not None
        fine = histogram_noise(len(numeric), fine_mu)
        for draft in numeric:
            counts = draft.fine_counts(read[draft.name])
            drafts[draft.name] = draft.finished(noisy_release(counts, fine, source), fine)
    means = _noisy_mean(read, bounds, public, budget, source) if public else {}
    codes: list[ColumnCode] = []
    for name in read:
        bound = bounds.get(name)
        if isinstance(bound, Range):
            codes.append(ColumnCode(name, public_scaling(bound, means[name])))
        elif isinstance(bound, Categories):
            codes.append(ColumnCode(name, None, bound.labels, (), True))
        else:
            code = drafts[name]
            assert isinstance(code, ColumnCode)
            codes.append(code)
    return Encoder(tuple(codes))


def _strongest(noisy: FloatArray, least: float) -> tuple[int, ...]:
    """Return the cells above a count, the largest first if there are too many, in their order."""
    above = np.flatnonzero(noisy > least)
    best = above[np.argsort(-noisy[above], kind="stable")][:_MOST_CELLS]
    return tuple(sorted(int(cell) for cell in best))


def _draft(name: str, noisy: FloatArray, scale: float, rows: int) -> ColumnCode | _Draft:
    """Decide from noisy counts what a column holds."""
    numbers = noisy[:NUMBER_CELLS]
    present = rows - max(0.0, float(noisy[MISSING]))
    doubt = 3 * scale * math.sqrt(NUMBER_CELLS)
    kept = np.flatnonzero(numbers > _RANGE_SCALES * scale)
    if float(numbers.sum()) > max(present / 2, doubt) and kept.size:
        ends = [octave_ends(int(cell)) for cell in kept]
        low, high = min(low for low, _ in ends), max(high for _, high in ends)
        if low == high:  # nothing but zeros rises above the noise
            low, high = -1.0, 1.0
        # Values that are no numbers, and heavy tails, get indicators.
        others = _strongest(noisy[MISSING:], _RANGE_SCALES * scale)
        typical = _median_size(kept, numbers[kept])
        heavy = max(abs(low), abs(high)) > typical * 2.0**_HEAVY_OCTAVES
        zeros = bool((kept == NUMBER_CELLS // 2).any()) and kept.size > 1
        octaves = tuple(int(cell) for cell in kept) if heavy or zeros else ()
        cells = (*octaves, *(MISSING + cell for cell in others))[:_MOST_CELLS]
        return _Draft(name, low, high, typical if heavy else 0.0, cells)
    cells = _strongest(noisy, _INDICATOR_SCALES * scale)
    return ColumnCode(name, None, (), cells, bool(cells))


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


@dataclass(frozen=True)
class _Draft:
    """A column of numbers whose range is known."""

    name: str
    low: float
    high: float
    unit: float
    cells: tuple[int, ...]

    @property
    def _span(self) -> tuple[float, float]:
        if self.unit > 0:
            return math.asinh(self.low / self.unit), math.asinh(self.high / self.unit)
        return self.low, self.high

    def fine_counts(self, values: Values) -> NDArray[np.int64]:
        """Return the counts of the range's linear cells."""
        low, high = self._span
        numbers = values.numbers[~np.isnan(values.numbers)]
        moved = Scaling(low, high, 0.0, 1.0, self.unit).transformed(numbers)
        places = np.minimum((moved - low) / (high - low) * _FINE, _FINE - 1).astype(np.int64)
        return np.bincount(places, minlength=_FINE)

    def finished(self, noisy: FloatArray, scale: float) -> ColumnCode:
        """Return the code with mean and spread from the noisy counts."""
        low, high = self._span
        step = (high - low) / _FINE
        middles = low + step * (np.arange(_FINE) + 0.5)
        weights = np.where(noisy > 2 * scale, noisy, 0.0)
        if not weights.any():
            weights = np.ones(_FINE)
        mean = float(np.average(middles, weights=weights))
        spread = math.sqrt(float(np.average((middles - mean) ** 2, weights=weights)))
        scaling = Scaling(low, high, mean, max(spread, step / 2), self.unit)
        return ColumnCode(self.name, scaling, (), self.cells, False)


def _noisy_mean(
    read: Mapping[str, Values],
    bounds: Bounds,
    names: list[str],
    budget: NeighbourBudget,
    source: RandomSource,
) -> dict[str, float]:
    """Return means of the columns with public ranges, in [-1, 1], from one noisy sum."""
    plain = [public_scaling(bound) for name in names if isinstance(bound := bounds[name], Range)]
    rows = len(read[names[0]])
    radius = _MEAN_RADIUS * math.sqrt(len(names))
    mu = budget.take("means of columns with public ranges", CENTRE_SHARE)
    noise = noise_for_path(path_sensitivity(radius, rows), 1, mu)
    total = np.zeros(len(names))
    block = 8192
    for start in range(0, rows, block):
        inside = slice(start, start + block)
        table = np.column_stack(
            [s.encoded(read[n].numbers[inside]) for n, s in zip(names, plain, strict=True)]
        )
        total += clipped_sum(
            [table],
            lambda _number, scores: np.ones_like(scores),
            [row_lengths(table, 0.0)],
            np.zeros((len(names) + 1, 1)),
            clip=radius,
            intercept=0.0,
        )[:-1, 0]
    found = np.clip(noisy_release(total, noise, source) / rows, -1.0, 1.0)
    return dict(zip(names, found.tolist(), strict=True))
