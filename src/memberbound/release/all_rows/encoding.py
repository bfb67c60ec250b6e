"""From columns to bounded numbers: scales, indicators, and what of them is paid for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

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
    cells_of,
    counted,
    hardly_shared,
    noisy_identifiers,
    noisy_names,
    noisy_octaves,
    noisy_range,
    octave_ends,
    octave_span,
)
from memberbound.release.budget import HISTOGRAM_MOVES, Budget, NoisySums, Part
from memberbound.tables.columns import Form, Values
from memberbound.tables.persons import row_cuts
from memberbound.tables.records import Records

# ── How columns become bounded numbers once ranges, cells and names are known ─────────────────────
#
# Everything here is a map of single records, made of public or released numbers: this is what is
# stored beside a released model.

#: Standard deviations at which a standardised number is cut off.
_FARTHEST = 3.0
#: Mean square of an encoded number; an indicator has 1.
_NUMBER_SQUARE = 0.25
#: Rows whose values are quoted where the model does not know them.
_LISTED = 5


@dataclass(frozen=True)
class Scaling:
    """t = x or arsinh(x/unit), cut off at [low, high]; encoded as ½·(t - centre)/spread.

    ``limit`` cuts off once more, in encoded units.
    """

    low: float
    high: float
    centre: float
    spread: float
    unit: float = 0.0
    limit: float = _FARTHEST / 2

    def transformed(self, numbers: FloatArray) -> FloatArray:
        """Return t; not a number stays so."""
        moved = np.arcsinh(numbers / self.unit) if self.unit > 0 else numbers
        return np.clip(moved, self.low, self.high)

    def encoded(self, numbers: FloatArray) -> FloatArray:
        """Return bounded numbers; what is missing sits at the centre."""
        shifted = (self.transformed(numbers) - self.centre) / (2 * self.spread)
        return np.where(np.isnan(shifted), 0.0, np.clip(shifted, -self.limit, self.limit))


def public_scaling(bound: Range, mean: float = 0.0) -> Scaling:
    """Return the map of [low, high] to [-1, 1], about a mean in these units."""
    half = (bound.high - bound.low) / 2
    middle = bound.low + half
    return Scaling(bound.low, bound.high, middle + mean * half, half / 2, 0.0, 2.0)


@dataclass(frozen=True)
class ColumnCode:
    """How one column is encoded: a number, indicators of public labels or of cells, and *other*.

    Edge cases: a column in which nothing rises above the noise (identifiers, free text) has no
    code: its width is 0.
    """

    name: str
    scaling: Scaling | None = None
    labels: tuple[str, ...] = ()
    cells: tuple[int, ...] = ()
    other: bool = False
    form: Form = "any"

    @property
    def indicators(self) -> int:
        """Number of indicator columns."""
        return len(self.labels) + len(self.cells) + int(self.other)

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return self.indicators + int(self.scaling is not None)

    @property
    def mean_square(self) -> float:
        """What the column adds to a row's squared length, nominally."""
        return _NUMBER_SQUARE * (self.scaling is not None) + float(self.indicators > 0)

    def places(self, values: Values) -> NDArray[np.int64]:
        """Return which indicator every value switches on, -1 for none."""
        if self.labels:
            places = values.positions(self.labels)
        else:
            table = np.full(CELLS, -1, dtype=np.int64)
            table[list(self.cells)] = np.arange(len(self.cells))
            places = table[cells_of(values)]
        return np.where(places < 0, self.indicators - 1, places) if self.other else places

    def unseen(self, read: Mapping[str, Values]) -> list[str]:
        """Say how many values this column has no number and no category for."""
        if not self.width:
            return []
        values = read[self.name]
        seen = values.absent
        if self.labels:
            seen |= values.positions(self.labels) >= 0
        else:
            seen |= np.isin(cells_of(values), self.cells)
        if self.scaling is not None:
            seen |= ~np.isnan(values.numbers)
        places = np.flatnonzero(~seen)
        if not places.size:
            return []
        names = dict.fromkeys(values.label(int(row)) for row in places[:_LISTED])
        shown = ", ".join(map(repr, names)) + (", …" if places.size > _LISTED else "")
        rows = f"{places.size} row{'' if places.size == 1 else 's'}"
        if self.scaling is not None:
            return [f"{self.name!r} holds text instead of a number in {rows} ({shown})"]
        return [f"{self.name!r} holds in {rows} a category that the model does not know ({shown})"]


@dataclass(frozen=True)
class Encoder:
    """Columns to a table of bounded numbers: a map of single records, made of released numbers.

    Guarantee: nothing in it was computed from the secret table without noise that was paid for.
    """

    columns: tuple[ColumnCode, ...]

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return sum(code.width for code in self.columns)

    @property
    def length(self) -> float:
        """The nominal length of a row, by which rows are divided."""
        return math.sqrt(max(1.0, sum(code.mean_square for code in self.columns)))

    @property
    def forms(self) -> dict[str, Form]:
        """How the values of the columns are written."""
        return {code.name: code.form for code in self.columns}

    @property
    def used(self) -> tuple[ColumnCode, ...]:
        """The columns that have a code."""
        used = tuple(code for code in self.columns if code.width)
        if not used:
            raise InputError(
                "the table must have a column that rises above the noise, got none. Give bounds "
                "for its columns."
            )
        return used

    @cached_property
    def layout(self) -> Layout:
        """Where numbers, and the indicators of columns, stand among the features."""
        numbers, indicators, start = [], [], 0
        for code in self.used:
            if code.scaling is not None:
                numbers.append(start)
            if code.indicators:
                indicators.append(slice(start + code.width - code.indicators, start + code.width))
            start += code.width
        return Layout(numbers, indicators, float(on_grid(np.array(1 / self.length))), start)

    def rows(self, read: Mapping[str, Values], memory: int | None = None) -> EncodedRows:
        """Return the encoded rows, column by column; on disk if they are larger than ``memory``."""
        numeric = [code for code in self.used if code.scaling is not None]
        listed = [code for code in self.used if code.indicators]
        count = len(read[self.used[0].name])
        kind = np.min_scalar_type(max([code.indicators for code in listed], default=0))
        numbers = large_array((len(numeric), count), np.dtype(np.int16), memory)
        places = large_array((len(listed), count), kind, memory)
        for code in self.used:
            values = read[code.name]
            for cut in row_cuts(count, None, ROWS_AT_ONCE):
                if code.scaling is not None:
                    scaled = on_grid(code.scaling.encoded(values.part(cut)) / self.length)
                    numbers[numeric.index(code), cut] = np.rint(scaled * GRID)
                if code.indicators:
                    places[listed.index(code), cut] = code.places(values.taken(cut)) + 1
        return EncodedRows(self.layout, numbers, places)

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {"columns": [asdict(code) for code in self.columns]}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Encoder:
        """Return the encoder that :meth:`to_dict` described."""
        return cls(tuple(map(_code_from, fields["columns"])))


@dataclass(frozen=True)
class Layout:
    """Where features of numbers and of indicators stand; ``one`` is a switched-on indicator's."""

    numbers: list[int]
    indicators: list[slice]
    one: float
    width: int


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Encoded rows in two bytes or less a column: whole numbers of the grid, places of indicators.

    ``numbers`` and ``places`` have a line per column; place 0 switches nothing on.
    """

    layout: Layout
    numbers: NDArray[Any]
    places: NDArray[Any]

    def __len__(self) -> int:
        return int(self.numbers.shape[1])

    def __getitem__(self, rows: slice | NDArray[np.generic]) -> EncodedBlock:
        """Return some rows, ready to be multiplied."""
        places = self.places[:, rows].astype(np.intp)
        return EncodedBlock(self.layout, self.numbers[:, rows] / GRID, places)


@dataclass(frozen=True, eq=False)
class EncodedBlock:
    """Rows that are multiplied with parameters, and their transpose with residuals: exactly."""

    layout: Layout
    numbers: FloatArray
    places: NDArray[np.intp]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and width."""
        return self.numbers.shape[1], self.layout.width

    def squares(self) -> FloatArray:
        """Return the squared length of every row."""
        lengths = np.einsum("ij,ij->j", self.numbers, self.numbers)
        return np.asarray(lengths + self.layout.one**2 * np.count_nonzero(self.places, axis=0))

    def __matmul__(self, theta: FloatArray) -> FloatArray:
        """Return the scores of all rows."""
        scores = np.asarray(self.numbers.T @ theta[self.layout.numbers])
        for place, inside in zip(self.places, self.layout.indicators, strict=True):
            table = np.vstack([np.zeros(theta.shape[1]), self.layout.one * theta[inside]])
            scores += table[place]
        return scores

    def turned(self, moved: FloatArray) -> FloatArray:
        """Return the transpose times a column per output."""
        total = np.zeros((self.layout.width, moved.shape[1]))
        total[self.layout.numbers] = self.numbers @ moved
        for place, inside in zip(self.places, self.layout.indicators, strict=True):
            for output, column in enumerate(moved.T):
                sums = np.bincount(place, column, inside.stop - inside.start + 1)
                total[inside, output] = self.layout.one * sums[1:]
        return total

    def matrix(self) -> sparse.csr_array:
        """Return the rows as other libraries take them: an entry per column."""
        starts = np.array([inside.start for inside in self.layout.indicators], dtype=np.intp)
        entries = np.column_stack([self.numbers.T, (self.places.T > 0) * self.layout.one])
        columns = np.empty(entries.shape, dtype=np.intp)
        columns[:, : len(self.numbers)] = self.layout.numbers
        columns[:, len(self.numbers) :] = starts + np.maximum(self.places.T, 1) - 1
        ends = np.arange(len(entries) + 1) * entries.shape[1]
        return sparse.csr_array((entries.ravel(), columns.ravel(), ends), shape=self.shape)


def _code_from(fields: Mapping[str, Any]) -> ColumnCode:
    scaling = fields["scaling"]
    return ColumnCode(
        str(fields["name"]),
        None if scaling is None else Scaling(**scaling),
        tuple(map(str, fields["labels"])),
        tuple(map(int, fields["cells"])),
        bool(fields["other"]),
        str(fields["form"]),
    )


@dataclass(frozen=True)
class TargetCode:
    """The target: classes by name, or a range of numbers that is mapped to [-1, 1]."""

    name: str
    classes: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    form: Form = "any"

    def read(self, values: Values) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
        """Return codes or scaled numbers, and which are known: listed classes, numbers."""
        if self.classes:
            codes = values.positions(self.classes)
            return codes.astype(np.min_scalar_type(-1 - len(self.classes))), codes >= 0
        scaling = public_scaling(Range(self.low, self.high))
        return scaling.encoded(values.numbers), ~np.isnan(values.numbers)

    def numbers(self, scaled: FloatArray) -> FloatArray:
        """Return predictions in the target's own units."""
        half = (self.high - self.low) / 2
        return np.asarray(self.low + half + half * np.clip(scaled, -1.0, 1.0))

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> TargetCode:
        """Return the target that ``asdict`` described."""
        return cls(**{**fields, "classes": tuple(map(str, fields["classes"]))})


# ── Scales and indicators from noisy histograms ───────────────────────────────────────────────────
#
# Public categories cost nothing.  Public ranges of small tables cost a share of one noisy mean.
# Of any other column cells above the noise decide whether it holds numbers, where they lie and
# which values get an indicator; a second histogram inside that range gives a mean and a spread.

#: Share of that for histograms that the first ones take, and share of μ² for the mean of columns
#: with public ranges.
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
    fine: Part | None,
) -> Encoder:
    """Return an encoder from public bounds, noisy histograms and one noisy mean.

    ``settled`` are those of :func:`settled_bounds`.  ``histograms`` are the first ones, which share
    their part of the budget with the target's; ``fine`` is the part of the second ones.  Both are
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
            noisy = second.measure(table.chosen([code.name]).total(_fine_counts, code))
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


def _fine_counts(part: Records, code: ColumnCode) -> FloatArray:
    """Return the counts of the range's linear cells."""
    values, scaling = part.columns[code.name], code.scaling
    assert scaling is not None
    places = np.empty(len(values), dtype=np.int8)
    for cut in row_cuts(len(values), None, ROWS_AT_ONCE):
        moved = scaling.transformed(values.part(cut))
        share = (moved - scaling.low) / (scaling.high - scaling.low) * _FINE
        places[cut] = np.where(np.isnan(share), _FINE, np.minimum(share, _FINE - 1))
    return counted(places, _FINE + 1, part.persons)[:_FINE]


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
    part = budget.take("means of columns with public ranges", _CENTRE_SHARE)
    sums = part.sums(sensitivity=path_sensitivity(radius, records))
    total = table.chosen(ranges).total(
        _clipped_means, ranges, radius, summand_step(radius, records)
    )
    # Shrunk towards the middle of the range in proportion to the noise; the factor is public.
    trust = _MEAN_SPREAD**2 / (_MEAN_SPREAD**2 + (sums.scale / records) ** 2)
    means = np.clip(trust * sums.measure(total) / records, -1.0, 1.0)
    return dict(zip(ranges, means.tolist(), strict=True))


def _clipped_means(
    part: Records, ranges: Mapping[str, Range], radius: float, step: float
) -> FloatArray:
    """Return the sum of rows scaled to [-1, 1], each cut off at the radius."""
    persons = part.persons
    grid = large_array((len(ranges), part.rows), np.dtype(np.int16), part.memory)
    for place, (name, bound) in enumerate(ranges.items()):
        scaled = public_scaling(bound).encoded(part.columns[name].numbers)
        grid[place] = np.rint(on_grid(scaled) * GRID)
    total = np.zeros(len(ranges))
    for cut in row_cuts(part.rows, persons, BLOCK_ROWS):
        block = grid[:, cut] / GRID
        weights = np.ones(block.shape[1]) if persons is None else persons.weights[cut]
        lengths = row_lengths(np.einsum("ij,ij->j", block, block), len(block), 0.0)
        starts = None if persons is None else persons.within(cut)
        moved = clipped_residuals(weights[:, None], lengths, radius, starts)[:, 0]
        total += block @ (np.trunc(moved / step) * step)
    return total
