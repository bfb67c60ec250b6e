"""Learn a column without public bounds from two noisy histograms.

The *first look* counts numbers by sign, octave and number of decimals, missing values, and texts.
Its cells are the same for every table.  It separates numbers from texts and finds the octaves and
the format of the numbers.  The *second look* cuts these octaves into finer cells and counts again.
From both, post-processing estimates a :class:`NumberLaw`.

Texts are counted in buckets of a public hash, which never reveal a name, or *by name*: a name is
released only if its noisy count, over both looks, shows that many people share it
(proofs/private-columns.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from memberbound.errors import TooFewRowsError
from memberbound.numerics.rounding import FloatArray, IntArray
from memberbound.release.all_rows.bounds import Range
from memberbound.release.all_rows.cells import (
    MOST_TEXTS,
    WRITINGS,
    CategoryCells,
    Cells,
    NumberCells,
    Writing,
    format_cells,
)
from memberbound.release.all_rows.histograms import (
    BUCKETS,
    CLASS_SCALES,
    FIXED_CELLS,
    MISSING,
    NUMBER_CELLS,
    count_cells,
    hardly_shared,
    noisy_names,
    octave_cells,
)
from memberbound.release.all_rows.number_laws import (
    MOST_ZOOM_CELLS,
    NumberLaw,
    Octaves,
    ZoomCells,
    find_octaves,
    fit_law,
    zoom_cells,
)
from memberbound.release.budget import HISTOGRAM_MOVES, Budget, BudgetShare, NoisySums
from memberbound.tables.records import Records
from memberbound.tables.values import Values

# ── Budget shares: public numbers, fixed before the table is read ─────────────────────────────────
#
# The shares and thresholds of this module were chosen on simulated columns of 25 shapes (years,
# money, codes, ages, dates, categories, …) at 500 to 50 000 rows, 20 private columns and η = 0.05:
# benchmarks/columns.py.  In number_laws, four rules were changed after looking at compas and Adult:
# other decimals only next to numbers, the threshold for a further run, the remainder outside broad
# peaks, and moments of clear cells.  Figures of these two tables, and of health_insurance (the
# power of bins), are therefore not out of sample.

#: Minimum share of μ² for both looks, and maximum share (for small tables).
_LEAST_SHARE, _MOST_SHARE = 0.15, 0.40
#: The share grows until the number of rows is this many noise scales of one histogram per column.
_WANTED_SCALES = 35.0
#: Share of it for the first look.
_FIRST = 0.7
#: Minimum rows for a private column, in noise scales of the first look at the largest share.
_ROWS_PER_SCALE = 10.0
#: With fewer rows than this divided by μ, noise drowns any table, whatever the bounds.
_FEWEST_SIGNALS = 10.0


def histogram_share(private: int, records: int, mu: float) -> float:
    """Return the share of μ² for both looks at ``private`` columns.

    Examples:
        >>> histogram_share(20, 50_000, 0.25), round(histogram_share(20, 500, 0.25), 2)
        (0.15, 0.4)
    """
    signal = mu * records / math.sqrt(2.0 * max(private, 1))
    return min(max((_WANTED_SCALES / signal) ** 2, _LEAST_SHARE), _MOST_SHARE)


def rows_needed(private: int, mu: float, *, open_target: bool = False) -> int:
    """Return the number of records needed for private columns to rise above the noise.

    A rule of thumb, the same for every verb: ten noise scales of the first look at its
    largest share; if all bounds are given, 10/μ, below which the noise in a mean is as large as
    a typical mean.  With an ``open_target``, one of the private columns, two classes of equal size
    must be named (:func:`learn_classes`).
    """
    spent = mu * math.sqrt(_MOST_SHARE * _FIRST)
    scale = HISTOGRAM_MOVES * math.sqrt(private) / spent
    least = max(_ROWS_PER_SCALE * scale, _FEWEST_SIGNALS / mu)
    if open_target:
        least = max(least, 2.0 * _SURE_SCALES * HISTOGRAM_MOVES / (mu * math.sqrt(_ONLY_SHARE)))
    return math.ceil(least)


def refuse_small(records: Records, private: int, mu: float, *, open_target: bool) -> None:
    """Reject a table with too few rows for the noise, a rule on public numbers for every verb.

    ``private`` columns have no bounds; with ``open_target`` the target is one of them.
    """
    needed = rows_needed(private, mu, open_target=open_target)
    if len(records) >= needed:
        return
    what = "rows" if records.unit is None else f"distinct values of {records.unit!r}"
    target = " (one is the target)" if open_target else ""
    raise TooFewRowsError(
        f"the table must have at least about {needed} {what} at this eta, with {private} "
        f"column{'' if private == 1 else 's'} without bounds{target}, got {len(records)}: the "
        "noise drowns fewer. Give bounds (ranges and categories that are public knowledge), leave "
        "columns out, find more rows, or allow a larger eta."
    )


def take_looks(budget: Budget, private: int, records: int) -> tuple[NoisySums, BudgetShare]:
    """Return the noise of the first look at ``private`` columns, and the share for the second."""
    share = histogram_share(private, records, budget.mu)
    first = budget.take("histograms of values", _FIRST * share)
    second = budget.take("histograms within ranges", (1 - _FIRST) * share)
    return first.sums(sensitivity=HISTOGRAM_MOVES, times=private), second


#: Name classes with this share of the rows if the required share of μ² is within these limits.
_NAMED_SHARE, _CLASS_LIMITS = 0.025, (0.005, 0.05)
#: If nothing else names classes, name those with this share of the rows at the cost of up to this
#: share of μ²; a class with this many noise scales is named almost surely.
_ONLY_NAMED, _ONLY_SHARE, _SURE_SCALES = 0.3, 0.2, CLASS_SCALES + 2.0


def learn_classes(
    records: Records, name: str, budget: Budget, *, alone: bool = False
) -> tuple[tuple[str, ...], float]:
    """Return the classes of a target, by name, and the scale of the noise in their counts.

    Guarantee: a class of a single person is named with probability at most ``CLASS_SLACK``.
    """
    sums = take_classes(budget, len(records), alone=alone).sums(sensitivity=HISTOGRAM_MOVES)
    return noisy_names(records, name, sums), sums.scale


def take_classes(budget: Budget, records: int, *, alone: bool = False) -> BudgetShare:
    """Take the share of a budget that names the classes of a target.

    A separate histogram, because rare classes matter more than rare values of a column. Set
    ``alone`` if nothing else names classes: small tables then spend a larger share.
    """
    signal = budget.mu * records / HISTOGRAM_MOVES
    wanted = (CLASS_SCALES / (_NAMED_SHARE * signal)) ** 2
    fraction = min(max(wanted, _CLASS_LIMITS[0]), _CLASS_LIMITS[1])
    if alone:
        fraction = max(fraction, min((_SURE_SCALES / (_ONLY_NAMED * signal)) ** 2, _ONLY_SHARE))
    return budget.take("classes of the target", fraction)


# ── Cells of the two looks ────────────────────────────────────────────────────────────────────────

_KINDS = len(WRITINGS)
#: Cells of the first look: (octave, format), missing, buckets of texts.
_GONE = NUMBER_CELLS * _KINDS
_FIRST_CELLS = _GONE + 1 + BUCKETS


def look_coordinates(private: int) -> int:
    """Bound the number of noisy counts of the looks at ``private`` columns.

    Among the counts of texts by name, only two per look can differ between neighbouring tables.
    The others have the same distribution for both tables and add nothing to the slack
    (proofs/private-columns.md, claim 4).
    """
    gaps = NUMBER_CELLS
    return private * (_FIRST_CELLS + MOST_ZOOM_CELLS + 3 * gaps + 4)


def look_names(private: int) -> int:
    """Return how many times a single person's text may be named, or change the release."""
    return 2 * private


@dataclass(frozen=True)
class FirstCells:
    """Cells for octave and format of numbers, missing values, and texts (-1 with names)."""

    writing: Writing | None
    named: bool

    @property
    def count(self) -> int:
        """Number of cells."""
        return _GONE + 1 if self.named else _FIRST_CELLS

    def cell_of(self, values: Values) -> IntArray:
        """Return the cell of every value, which depends on that value alone."""
        if self.named:
            cells = octave_cells(values.numbers).astype(np.int64)
            cells = np.where((cells == MISSING) & ~values.absent, -1, cells)
        else:
            cells = FIXED_CELLS.cell_of(values)
        if self.writing is None:
            formats = np.minimum(format_cells(values), _KINDS - 1)
        else:
            formats = np.full(len(cells), WRITINGS.index(self.writing))
        beside = np.where(cells < 0, -1, cells - NUMBER_CELLS + _GONE)
        return np.where((cells >= 0) & (cells < NUMBER_CELLS), cells * _KINDS + formats, beside)

    def label(self, cell: int) -> str:
        """Describe a cell: octave and format, missing, or a bucket."""
        if cell >= _GONE:
            return FIXED_CELLS.label(cell - _GONE + MISSING)
        octave, written = divmod(cell, _KINDS)
        return f"{FIXED_CELLS.label(octave)}, written as {WRITINGS[written]}"


def count_column(
    shard: Records, name: str, cells: FirstCells | ZoomCells, named: bool
) -> tuple[FloatArray, dict[str, float]]:
    """Count the records in every cell and, with ``named``, by text.

    A person's rows share a weight of 1.  By name, all of a person's texts count as their most
    common one; otherwise several texts unique to a person would each have a chance of being named.

    Guarantee: exact; replacing a record changes counts of cells and texts together by at most √2.
    """
    values, persons = shard.columns[name], shard.persons
    index, count = cells.cell_of(values), cells.count
    if not named:
        return count_cells(np.where(index < 0, count, index), count + 1, persons)[:-1], {}
    texts, names = values.factorize()
    texts = np.where(np.isnan(values.numbers), texts, -1)
    index = np.where((texts >= 0) | (index < 0), count, index)
    exact = count_cells(index, count + 1, persons)[:-1]
    weights = (texts >= 0).astype(np.float64)
    if persons is not None:
        weights = np.add.reduceat(weights * persons.weights, persons.starts)
        texts = persons.most_common(texts)
    held = np.bincount(texts[texts >= 0], weights[texts >= 0], minlength=len(names))
    listed = zip(names, held.tolist(), strict=True)
    return exact, {text: weight for text, weight in listed if weight}


# ── One column, and all of them ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class PrivateColumn:
    """Properties of a column, learnt privately from its two noisy histograms alone.

    Attributes:
        law: the distribution of its numbers; None for text columns, or if all counts are noise.
        octaves: the octave cells (:class:`.FixedCells`) of its numbers, and their noisy
            counts.
        beside: cells of missing values and texts (in buckets) above the noise, with counts.
        labels: the texts that many people share, if counted by name.
        missing: the noisy number of missing values, or 0 if it is not above the noise.
    """

    name: str
    records: int
    law: NumberLaw | None = None
    octaves: tuple[int, ...] = ()
    octave_counts: tuple[float, ...] = ()
    beside: tuple[tuple[int, float], ...] = ()
    labels: tuple[str, ...] = ()
    missing: float = 0.0

    @property
    def kind(self) -> str:
        """``number``, ``date``, ``category``, ``missing`` (almost no values) or ``text``."""
        if self.law is not None:
            return "date" if self.law.writing in ("day", "time") else "number"
        if self.labels or self.beside:
            return "category"
        return "missing" if self.missing > self.records / 2 else "text"

    @property
    def range(self) -> Range | None:
        """The range of the numbers, or None if there are none."""
        if self.law is None:
            return None
        low, high = self.law.range
        if high - low < 2.0**-40 * max(1.0, abs(low)):  # one value
            step = self.law.step or 2.0**-20 * max(1.0, abs(low))
            low, high = low - step, high + step
        return Range(low, high)

    def cells(self) -> Cells | None:
        """Return the cells of a synthetic column; None for identifiers and free text."""
        if self.law is not None:
            edges, empty = self.law.cells(_SYNTHETIC_CELLS)
            law, texts = self.law, self.labels[:MOST_TEXTS]
            return NumberCells(self.name, edges, law.step, law.writing, texts=texts, empty=empty)
        if self.labels or self.kind == "missing":
            return CategoryCells(self.name, self.labels)
        return None


#: Threshold for missing values, in noise scales.
_MISSING_SCALES = 3.0
#: A column with fewer texts than this many scales of the first look gets no second look at texts.
_TEXT_SCALES = 3.0
#: Minimum share of numbers among non-missing values.
_NUMBER_SHARE = 0.3
#: Number of cells of a synthetic numeric column.
_SYNTHETIC_CELLS = 128
#: Maximum number of texts, or of buckets of texts, released for a column.
MOST_LABELS = 63
#: Thresholds for buckets.  Spurious indicators do little harm, except next to numbers or where all
#: texts are equally common.
_BUCKET_SCALES, _BESIDE_SCALES = 2.5, 4.5


@dataclass(frozen=True, eq=False)
class _FirstLook:
    """The first look at a column; ``texts`` are noisy counts that must not be released directly."""

    column: PrivateColumn
    octaves: Octaves | None
    texts: Mapping[str, float]
    #: Whether a second look would add no information.
    final: bool


def learn_columns(
    records: Records,
    names: Sequence[str],
    first: NoisySums,
    second: BudgetShare,
    *,
    named: bool,
    bounds: Mapping[str, Range] | None = None,
    writings: Mapping[str, Writing] | None = None,
) -> dict[str, PrivateColumn]:
    """Learn columns from one histogram each (``first``), and a second one (``second``).

    With ``named``, texts that many people share are released by name, otherwise in buckets.
    ``bounds`` are public ranges of numbers, within which the law is learnt; ``writings`` are the
    formats that column types declare.

    Guarantee: all information about the table is charged to the two parts, except that with
    ``named`` a text of one person is released with a probability of at most ``CLASS_SLACK``, each
    of :func:`look_names` times.
    Theorem: X22 (proofs/private-columns.md), of persons X26.
    """
    looks = {
        name: _look(records, name, first, (writings or {}).get(name), named=named) for name in names
    }
    learnt = {name: look.column for name, look in looks.items()}
    # The first look determines the number of second looks, and thus their noise.
    again = [name for name, look in looks.items() if not look.final]
    if again:
        sums = second.sums(sensitivity=HISTOGRAM_MOVES, times=len(again))
    for name in again:
        bound = (bounds or {}).get(name)
        learnt[name] = _look_again(records, looks[name], sums, first.scale, bound, named=named)
    return learnt


def _look(
    records: Records, name: str, sums: NoisySums, writing: Writing | None, *, named: bool
) -> _FirstLook:
    """Measure the first histogram of a column, and interpret it."""
    cells = FirstCells(writing, named)
    noisy, texts = _measure(records, name, cells, sums, named=named)
    scale, count = sums.scale, len(records)
    missing = float(noisy[_GONE]) if noisy[_GONE] > _MISSING_SCALES * scale else 0.0
    octaves = find_octaves(noisy[:_GONE].reshape(NUMBER_CELLS, _KINDS), scale)
    least = 1.0 + CLASS_SCALES * scale
    if named:
        shared = sum(text for text in texts.values() if text > least)
    else:
        buckets = noisy[_GONE + 1 :]
        shared = float(buckets[buckets > _BESIDE_SCALES * scale].sum())
    if octaves is not None:
        held = float(octaves.counts.sum())
        if held <= max(shared, _NUMBER_SHARE * (count - missing)):
            octaves = None
    column = PrivateColumn(name, count, missing=missing)
    if not named:
        column = replace(column, beside=_beside(noisy[_GONE:], scale, octaves is not None))
    if octaves is not None:
        column = replace(
            column,
            octaves=tuple(octaves.cells.tolist()),
            octave_counts=tuple(octaves.counts.tolist()),
        )
    rest = count - missing - (0.0 if octaves is None else float(octaves.counts.sum()))
    texts_left = named and column.kind != "missing" and rest > _TEXT_SCALES * scale
    return _FirstLook(column, octaves, texts, final=octaves is None and not texts_left)


def _measure(
    records: Records, name: str, cells: FirstCells | ZoomCells, sums: NoisySums, *, named: bool
) -> tuple[FloatArray, dict[str, float]]:
    """Measure noisy counts of cells, and of texts by name, with one histogram."""
    exact, texts = records.select([name]).shards.sum(count_column, name, cells, named)
    names = sorted(texts)
    # The number of texts is secret; at most two of their counts differ between neighbouring tables.
    differing = cells.count + (2 if named else 0)
    noisy = sums.measure([*exact, *(texts[text] for text in names)], differing)
    return noisy[: cells.count], dict(zip(names, noisy[cells.count :].tolist(), strict=True))


def _beside(noisy: FloatArray, scale: float, numbers: bool) -> tuple[tuple[int, float], ...]:
    """Return missing values and buckets above the noise, as :class:`.FixedCells`."""
    texts = noisy[1:]
    least = np.full(len(noisy), _BESIDE_SCALES if numbers else _BUCKET_SCALES)
    if not numbers and hardly_shared(texts, scale):
        least[:] = _BESIDE_SCALES
        least[1:] = math.inf
    above = np.flatnonzero(noisy > least * scale)
    best = np.sort(above[np.argsort(-noisy[above], kind="stable")][:MOST_LABELS])
    return tuple((MISSING + int(cell), float(noisy[cell])) for cell in best)


def _look_again(
    records: Records,
    look: _FirstLook,
    sums: NoisySums,
    first_scale: float,
    bound: Range | None,
    *,
    named: bool,
) -> PrivateColumn:
    """Take the second look at a column and combine it with the first."""
    column, octaves, scale = look.column, look.octaves, sums.scale
    zoom = ZoomCells(np.zeros(1), np.zeros(0, dtype=np.int64))
    if octaves is not None:
        zoom = zoom_cells(octaves, scale, bound)
    noisy, texts = _measure(records, column.name, zoom, sums, named=named)
    if octaves is not None and zoom.count:
        column = replace(column, law=fit_law(octaves, zoom, noisy, scale))
    if not named:
        return column
    # Both looks counted every text; the mean weighted by precision has less noise.
    precisions = first_scale**-2, scale**-2
    joint = 1 / math.sqrt(sum(precisions))
    both = {
        text: (precisions[0] * look.texts[text] + precisions[1] * texts.get(text, 0.0)) * joint**2
        for text in look.texts
    }
    shared = [text for text, count in both.items() if count > 1.0 + CLASS_SCALES * joint]
    largest = sorted(shared, key=lambda text: -both[text])[:MOST_LABELS]
    return replace(column, labels=tuple(sorted(largest)))
