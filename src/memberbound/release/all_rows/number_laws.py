"""The distribution of a private numeric column, estimated from two noisy histograms.

Everything here is post-processing of noisy counts.  The first histogram counts numbers by octave
and format: :func:`find_octaves` finds the octaves above the noise.  The second counts finer cells
within them (:func:`zoom_cells`): :func:`fit_law` turns both into a :class:`NumberLaw`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from memberbound.numerics.rounding import FloatArray, IntArray
from memberbound.release.all_rows.bounds import Range
from memberbound.release.all_rows.cells import WRITINGS, Writing, step_of
from memberbound.release.all_rows.histograms import NUMBER_CELLS, octave_ends
from memberbound.tables.cells import Intervals
from memberbound.tables.values import Values

_KINDS = len(WRITINGS)
_DATES = WRITINGS.index("day")
_ZERO = NUMBER_CELLS // 2
#: Minimum and maximum number of cells of the second look.
_FEWEST_CELLS, MOST_ZOOM_CELLS = 32, 1024


@dataclass(frozen=True, eq=False)
class NumberLaw:
    """The distribution of a numeric column: a noisy weight per cell [edge, next edge).

    Guarantee: post-processing of noisy counts.
    """

    writing: Writing
    edges: FloatArray
    weights: FloatArray
    #: Cells above the noise; the weight of the others is spread over their octaves.
    clear: NDArray[np.bool_]
    #: Noise scale of a cell's count.
    scale: float

    @property
    def step(self) -> float:
        """The distance between neighbouring values, or 0."""
        return step_of(self.writing)

    @cached_property
    def _support(self) -> tuple[int, int]:
        held = np.flatnonzero(self.weights > 0)
        return (int(held[0]), int(held[-1]) + 1) if held.size else (0, len(self.weights))

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest possible draw."""
        first, last = self._support
        half = self.step / 2
        return float(self.edges[first]) + half, float(self.edges[last]) - half

    def moments(
        self, transform: Callable[[FloatArray], FloatArray], low: float, high: float
    ) -> tuple[float, float]:
        """Return the mean and standard deviation of transformed numbers in [low, high].

        If the cells above the noise hold most of the weight, use these only: distant tails are
        noise.  But noise may also hide numbers, as many as one scale, and these may be anywhere.
        """
        weights = np.where(self.clear, self.weights, 0.0)
        if weights.sum() < self.weights.sum() / 2:
            weights = self.weights
        middles = transform((self.edges[:-1] + self.edges[1:]) / 2)
        mean = float(np.average(middles, weights=weights))
        square = float(np.average((middles - mean) ** 2, weights=weights))
        hidden = min(1.0, self.scale / float(self.weights.sum()))
        distance = (low + high) / 2 - mean
        square = (1 - hidden) * (square + hidden * distance**2) + hidden * (high - low) ** 2 / 12
        return mean + hidden * distance, math.sqrt(square)

    def cells(self, most: int) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Return edges of about ``most`` cells of equal weight, and which of them are empty.

        If the column has few values, each one has its own cell.
        """
        first, last = self._support
        edges, weights = self.edges[first : last + 1], self.weights[first:last]
        step, low, high = self.step, float(edges[0]), float(edges[-1])
        if step > 0 and round((high - low) / step) <= most:
            cuts = low + step * np.arange(round((high - low) / step) + 1)
        else:
            cuts = self._equal_cells(edges, weights, 2 * float(weights.sum()) / most)
            while len(cuts) > 2 * most:  # gaps within gaps
                cuts = np.append(cuts[:-1:2], cuts[-1])
        middles = (cuts[:-1] + cuts[1:]) / 2
        within = np.searchsorted(edges, middles, side="right") - 1
        empty = np.flatnonzero(weights[np.clip(within, 0, len(weights) - 1)] <= 0)
        return tuple(cuts.tolist()), tuple(empty.tolist())

    def bins(self, most: int) -> tuple[float, ...]:
        """Return edges of at most ``most`` bins with about equal sums of powers of weights.

        The power is below 1, because boosting also learns from sparse tails.
        """
        first, last = self._support
        edges, held = self.edges[first : last + 1], self.weights[first:last] ** _TAIL_POWER
        goal = float(held.sum()) / most
        cuts = self._equal_cells(edges, held, goal)
        while len(cuts) > most + 1:
            goal *= 1.25
            cuts = self._equal_cells(edges, held, goal)
            if goal > float(held.sum()):
                cuts = np.append(cuts[:most], cuts[-1])
        return tuple(cuts.tolist())

    def _equal_cells(self, edges: FloatArray, weights: FloatArray, goal: float) -> FloatArray:
        """Split cells above the goal and merge neighbours below it; keep empty runs separate."""
        cuts, collected = [float(edges[0])], 0.0
        for low, high, weight in zip(edges[:-1], edges[1:], weights, strict=True):
            empty = weight <= 0
            if empty or weight >= goal or collected < 0:
                # Close the current cell; an empty run is marked by a negative number.
                if collected > 0 or (collected < 0 and not empty):
                    cuts.append(float(low))
                collected = 0.0
            if empty:
                collected = -1.0
            elif weight >= goal:
                parts = max(1, min(round(weight / goal), _MOST_PARTS))
                cuts += self._align_edges(np.linspace(low, high, parts + 1))[1:].tolist()
            else:
                collected += weight
                if collected >= goal:
                    cuts.append(float(high))
                    collected = 0.0
        return np.unique([*cuts, float(edges[-1])])

    def _align_edges(self, edges: FloatArray) -> FloatArray:
        """Align edges half a step below a possible value."""
        if self.step <= 0:
            return edges
        return np.unique(np.rint(edges / self.step + 0.5) * self.step - self.step / 2)


#: The power in :meth:`NumberLaw.bins`, chosen from ½, ¾, 1 on Adult, compas and health_insurance.
_TAIL_POWER = 0.75
#: Maximum number of parts per cell in the second histogram.
_MOST_PARTS = 64
#: Smallest exponent of a nonzero number, by format.
_SMALLEST = (0, -4, -7, -10, -20, 0, -20)
#: Lengths of the runs of octaves to search.
_RUNS = (1, 2, 3, 4, 6, 8)
#: Thresholds in noise scales for the first and further runs of octaves, and maximum number of runs.
_RUN_SCALES, _NEXT_RUN_SCALES, _MOST_RUNS = 4.5, 5.5, 6
#: Thresholds for an octave inside a run, and for a neighbour of a kept one.
_INSIDE_SCALES, _NEIGHBOUR_SCALES = 0.5, 1.75
#: Thresholds for a format: noise scales, and share of the numbers.
_FORMAT_SCALES, _FORMAT_SHARE = 4.0, 0.08
#: Limit the cells of the second look so that the count of all numbers is twice the noise of its
#: sum.
_ZOOM_SCALES = 2.0
#: Thresholds in scales for a run of fine cells, maximum number of runs, and for halves to differ.
_PEAK_SCALES, _MOST_PEAKS, _HALF_SCALES = 4.5, 24, 2.0
#: Peaks that cover less than this share of the cells are narrow.  The rest of an octave is kept if
#: it exceeds this many scales (next to narrow, and to broad peaks) and this share of the octave.
_NARROW, _REST_SCALES, _REST_SHARE = 0.125, (2.5, 1.0), 0.05
#: Extend the ends by this share of the range, within the octaves, with this weight.
_MARGIN, _LEAST_WEIGHT = 0.1, 1e-6


def _octave_order() -> tuple[IntArray, ...]:
    """Return the possible octaves of numbers by format, in order."""
    exponents = np.abs(np.arange(NUMBER_CELLS) - _ZERO) - 1 - 20
    return tuple(
        np.flatnonzero((exponents >= smallest) | (np.arange(NUMBER_CELLS) == _ZERO))
        for smallest in _SMALLEST
    )


_ORDER = _octave_order()


@dataclass(frozen=True, eq=False)
class ZoomCells:
    """Cells [edge, next edge) within the octaves of a column; other numbers have no cell.

    ``octave`` is the index of each cell's octave among those of the column, or -1 in a gap.
    """

    edges: FloatArray
    octave: IntArray

    @property
    def count(self) -> int:
        """Number of cells."""
        return len(self.octave)

    def cell_of(self, values: Values) -> IntArray:
        """Return the cell of every value; -1 for texts, missing values and numbers outside."""
        return Intervals(self.edges).cell_of(values)

    def label(self, cell: int) -> str:
        """Return the ends of a cell."""
        return Intervals(self.edges).label(cell)


@dataclass(frozen=True, eq=False)
class Octaves:
    """The octaves that hold a column's numbers, with noisy counts of noise scale ``scale``."""

    cells: IntArray
    counts: FloatArray
    scale: float
    writing: Writing


def _best_run(
    grid: FloatArray, scale: float, formats: Sequence[int], taken: NDArray[np.bool_]
) -> tuple[float, int, IntArray]:
    """Return the most significant run of octaves of one format, as (scales, format, octaves)."""
    best: tuple[float, int, IntArray] = (0.0, formats[0], np.zeros(0, dtype=np.int64))
    for kind in formats:
        order = _ORDER[kind]
        free = np.where(taken[order, kind], 0.0, grid[order, kind])
        sums = np.concatenate([[0.0], np.cumsum(free)])
        for length in _RUNS:
            scales = (sums[length:] - sums[:-length]) / (scale * math.sqrt(length))
            start = int(scales.argmax())
            if scales[start] > best[0]:
                best = float(scales[start]), kind, order[start : start + length]
    return best


def find_octaves(grid: FloatArray, scale: float) -> Octaves | None:
    """Find the octaves of numbers in noisy (octave, format) counts, or None if all are noise.

    Noise may hide single octaves, and certainly the sum over all cells.  So search for runs of
    octaves first, then extend them, with a lower threshold for neighbouring octaves than for
    distant ones.
    """
    taken = np.zeros(grid.shape, dtype=bool)
    scales, kind, run = _best_run(grid, scale, range(_KINDS), taken)
    if scales <= _RUN_SCALES:
        return None
    family = range(_DATES, _KINDS) if kind >= _DATES else range(_DATES)
    kept, best = set(run.tolist()), int(run[np.argmax(grid[run, kind])])
    taken[run, kind] = True
    for _ in range(_MOST_RUNS):
        scales, another, run = _best_run(grid, scale, family, taken)
        if scales <= _NEXT_RUN_SCALES:
            break
        taken[run, another] = True
        # Keep other decimals only if octaves next to them are kept.
        if another == kind or any(abs(cell - near) <= 1 for cell in run for near in kept):
            kept |= set(run.tolist())
    formats = _select_formats(grid, scale, kept, kind, family)
    counts = np.zeros(NUMBER_CELLS)
    for believed in formats:
        counts[_ORDER[believed]] += grid[_ORDER[believed], believed]
    spread, order = scale * math.sqrt(len(formats)), _ORDER[formats[-1]].tolist()
    kept = {cell for cell in kept if counts[cell] > _INSIDE_SCALES * spread} | {best}
    kept = _grow(kept, order, counts > _NEIGHBOUR_SCALES * spread)
    cells = np.array(sorted(kept))
    least = 0.25 * spread
    return Octaves(cells, np.maximum(counts[cells], least), spread, WRITINGS[formats[-1]])


def _select_formats(
    grid: FloatArray, scale: float, octaves: set[int], best: int, family: range
) -> list[int]:
    """Return the formats above the noise in these octaves, the finest one last."""
    counts, scales = {}, {}
    for kind in family:
        cells = [cell for cell in _ORDER[kind].tolist() if cell in octaves]
        counts[kind] = float(grid[cells, kind].sum())
        scales[kind] = scale * math.sqrt(max(1, len(cells)))
    total = sum(count for kind, count in counts.items() if count > 2 * scales[kind])
    finest = max(
        [
            best,
            *(
                kind
                for kind in family
                if counts[kind] > max(_FORMAT_SCALES * scales[kind], _FORMAT_SHARE * total)
            ),
        ]
    )
    held = [kind for kind in family if kind < finest and counts[kind] > scales[kind]]
    return [*held, finest]


def _grow(kept: set[int], order: list[int], likely: NDArray[np.bool_]) -> set[int]:
    """Extend octaves by likely neighbours, one at a time, and by single gaps in between."""
    waiting, kept = list(kept), set(kept)
    position = {cell: k for k, cell in enumerate(order)}
    while waiting:
        index = position.get(waiting.pop(), -9)
        for near in (index - 1, index + 1):
            if 0 <= near < len(order) and order[near] not in kept and likely[order[near]]:
                kept.add(order[near])
                waiting.append(order[near])
    between = {
        middle
        for below, middle, above in zip(order, order[1:], order[2:], strict=False)
        if below in kept and above in kept
    }
    return kept | between


def zoom_cells(octaves: Octaves, scale: float, bound: Range | None) -> ZoomCells:
    """Split octaves into as many finer cells as the noise of the second look allows.

    Edges lie half a step below a value, so that rounding moves no value across an edge.
    """
    signal = float(octaves.counts.sum()) / (_ZOOM_SCALES * scale)
    most = int(min(max(signal**2, _FEWEST_CELLS), MOST_ZOOM_CELLS))
    real = max(1, int((octaves.cells != _ZERO).sum()))
    parts = 2 ** int(math.log2(max(most / real, 1.0)))
    step = step_of(octaves.writing)
    edges: list[float] = []
    octave: list[int] = []
    for position, cell in enumerate(octaves.cells.tolist()):
        cuts = _octave_edges(cell, step, parts)
        if bound is not None:
            # Include the largest value of the range in its last cell.
            low, high = bound.low - step / 2, np.nextafter(bound.high + step / 2, math.inf)
            low, high = max(float(cuts[0]), low), min(float(cuts[-1]), float(high))
            inside = cuts[(cuts > low) & (cuts < high)]
            cuts = np.array([low, *inside, high]) if low < high else cuts[:0]
        if not len(cuts):
            continue
        if edges and cuts[0] > edges[-1]:
            edges.append(float(cuts[0]))
            octave.append(-1)
        edges += cuts.tolist() if not edges else cuts[1:].tolist()
        octave += [position] * (len(cuts) - 1)
    return ZoomCells(np.array(edges), np.array(octave, dtype=np.int64))


def _octave_edges(cell: int, step: float, parts: int) -> FloatArray:
    """Return the edges of at most ``parts`` cells of an octave, each with at least one value."""
    if cell == _ZERO:
        return np.array([-step / 2, step / 2] if step > 0 else [0.0, np.nextafter(0.0, 1.0)])
    low, high = sorted(map(abs, octave_ends(cell)))
    if 0 < step < high * 2.0**-50:
        step = 0.0
    if step > 0:
        first, last = math.ceil(low / step - 1e-9), math.ceil(high / step - 1e-9)
        whole = np.unique(np.rint(np.linspace(first, last, min(parts, max(1, last - first)) + 1)))
        cuts = whole * step - step / 2
    else:
        cuts = np.linspace(low, high, parts + 1)
    if cell > _ZERO:
        return np.asarray(cuts)
    # Mirror negative numbers: the cell [a, b) of magnitudes is (-b, -a].
    return np.asarray(-cuts[::-1] if step > 0 else np.nextafter(-cuts[::-1], math.inf))


def _peaks(noisy: FloatArray, scale: float) -> list[IntArray]:
    """Return disjoint runs of cells above the noise, the most significant first."""
    taken = np.zeros(len(noisy), dtype=bool)
    powers = [2**k for k in range(int(math.log2(len(noisy))) + 1)]
    lengths = sorted({*powers, *(3 * p for p in powers if 3 * p <= len(noisy))})
    peaks: list[IntArray] = []
    for _ in range(_MOST_PEAKS):
        sums = np.concatenate([[0.0], np.cumsum(np.where(taken, 0.0, noisy))])
        free = np.concatenate([[0], np.cumsum(~taken)])
        best, run = _PEAK_SCALES, None
        for length in lengths:
            sizes = np.sqrt(np.maximum(free[length:] - free[:-length], 1))
            scales = (sums[length:] - sums[:-length]) / (scale * sizes)
            start = int(scales.argmax())
            if scales[start] > best:
                best, run = float(scales[start]), np.arange(start, start + length)
        if run is None:
            break
        run = run[~taken[run]]
        peaks.append(run)
        taken[run] = True
    return peaks


def _share_out(
    noisy: FloatArray, scale: float, total: float, free: NDArray[np.bool_]
) -> FloatArray:
    """Distribute a total over the free cells, evenly where halves differ by no more than noise.

    Bisects recursively, down to single cells.
    """
    weights = np.zeros(len(noisy))
    sums = np.concatenate([[0.0], np.cumsum(np.where(free, noisy, 0.0))])
    sizes = np.concatenate([[0], np.cumsum(free)])
    waiting = [(0, len(noisy), total)]
    while waiting:
        start, end, mass = waiting.pop()
        size = int(sizes[end] - sizes[start])
        if mass <= 0 or size == 0:
            continue
        if end - start == 1:
            weights[start] = mass
            continue
        middle = (start + end) // 2
        left = int(sizes[middle] - sizes[start]) / size
        more = (sums[middle] - sums[start]) - left * (sums[end] - sums[start])
        share = left
        if abs(more) > _HALF_SCALES * scale * math.sqrt(size * left * (1 - left)):
            share = min(max(left + more / mass, 0.0), 1.0)
        waiting += [(start, middle, share * mass), (middle, end, (1 - share) * mass)]
    return weights


def fit_law(octaves: Octaves, zoom: ZoomCells, noisy: FloatArray, scale: float) -> NumberLaw:
    """Estimate the weights of fine cells from the noisy counts of both looks.

    The remainder outside the peaks is spread over its octave.  It needs a higher threshold if the
    peaks are narrow relative to the octaves (years, codes) than if they are broad (ages).
    """
    weights, taken = np.zeros(zoom.count), np.zeros(zoom.count, dtype=bool)
    for run in _peaks(noisy, scale):
        total = float(noisy[run].sum())
        weights[run] = _share_out(noisy[run], scale, total, np.ones(len(run), dtype=bool))
        taken[run] = True
    needed = _REST_SCALES[0] if taken.mean() < _NARROW else _REST_SCALES[1]
    least = _LEAST_WEIGHT * float(octaves.counts.sum())
    for position, count in enumerate(octaves.counts.tolist()):
        inside = np.flatnonzero(zoom.octave == position)
        if not inside.size or taken[inside].all():
            continue
        # Both looks counted this octave, so take the mean weighted by precision.
        precisions = octaves.scale**-2, 1 / (inside.size * scale**2)
        variance = 1 / sum(precisions)
        total = (count * precisions[0] + float(noisy[inside].sum()) * precisions[1]) * variance
        rest = total - float(weights[inside].sum())
        doubt = needed * math.sqrt(variance + int(taken[inside].sum()) * scale**2)
        if taken.any() and rest < max(doubt, _REST_SHARE * total):
            continue
        free = ~taken[inside]
        weights[inside] += np.where(free, least, 0.0)
        weights[inside] += _share_out(noisy[inside], scale, max(rest, 0.0), free)
    return NumberLaw(octaves.writing, zoom.edges, _add_margins(weights), taken, scale)


def _add_margins(weights: FloatArray) -> FloatArray:
    """Add a small weight beyond both ends, because noise hides the ends of the numbers."""
    held, least = weights > 0, _LEAST_WEIGHT * float(weights.sum())
    for order in (slice(None), slice(None, None, -1)):
        run, cells = held[order], weights[order]
        first = int(run.argmax())
        gaps = np.flatnonzero(~run[first:])
        length = int(gaps[0]) if gaps.size else len(run) - first
        cells[max(0, first - int(_MARGIN * length)) : first] = least
    return weights
