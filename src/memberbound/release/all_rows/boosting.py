"""Boosting on all rows in the neighbour game: an additive model of binned columns.

Round by round, column by column, the residuals of all rows are summed by leaf, Gaussian noise is
added, and the column's table of scores is updated.  Leaves are runs of bins chosen by public coin
flips, the same for every table.  A record falls into one leaf of each column, so replacing it
changes a vector of sums by at most twice the clip (proofs/boosting.md).
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import one_of
from memberbound.numerics.rounding import FloatArray, IntArray
from memberbound.release.all_rows.clipping import clip_residuals
from memberbound.release.all_rows.encoder import ColumnCode, Encoder
from memberbound.release.all_rows.gradient import MOST_DRAWS, TrainingRows
from memberbound.release.all_rows.histograms import FIXED_CELLS, MISSING
from memberbound.release.all_rows.learner_forms import MOST_LEAVES, Settings
from memberbound.release.all_rows.losses import LOSSES, Loss
from memberbound.release.budget import BudgetShare
from memberbound.scratch import large_array
from memberbound.tables.cells import Beside, Intervals, Rest, Selected
from memberbound.tables.shards import Shards
from memberbound.tables.values import Values

#: Number of bins of a numeric column.
_BINS = MOST_LEAVES
#: Tuned once on breast cancer, heart, Adult and ACS; see docs/gradient.md.
LEAF_CLIP = 0.25
_ROUNDS = 60
_REACH = {"classes": 0.5, "numbers": 0.25}
_FASTEST = 16.0
#: Leaves of a numeric column for weak and for strong signals, and the threshold between them in
#: units of the signal μ·rows/√columns.
_FEW_LEAVES, _MORE_LEAVES, _STRONG = 2, 4, 100.0
#: Number of rows per sum of residuals.
_ROWS = 2**17
#: A clipped residual is a whole number of at most 2^30 units, so that sums are exact.
_UNITS = 30
#: Tables of scores are whole multiples of 1/2^32, so that scores are exact in any order.
_GRID = 2.0**32
#: When bins are placed, means are clipped to stay at least this far inside their range.
_OUTERMOST = 0.02


@dataclass(frozen=True)
class Boosting:
    """Settings of boosting: public numbers, chosen without the data.

    ``rate`` multiplies a leaf's noisy sum over the number of rows; ``averaged`` is the share of the
    rounds, at the end, over which tables are averaged.
    """

    rounds: int
    rate: float
    leaves: int = _MORE_LEAVES
    clip: float = LEAF_CLIP
    averaged: float = 0.5

    @classmethod
    def default(
        cls, encoder: Encoder, loss: Loss, settings: Settings, *, records: int, mu: float
    ) -> Boosting:
        """Return the default settings (docs/gradient.md), from public and released numbers only.

        ``settings`` may fix rounds and leaves, and multiply the rate.  Noise in a column's table is
        about 2·clip·rounds·rate·√columns/(μ·rows).  It depends on rounds and rate only through
        their product, so the number of rounds is fixed and the rate keeps this noise at most of
        order one.
        """
        binned, most = column_bins(encoder), settings.leaves or _MORE_LEAVES
        draws = loss.outputs * sum(column.leaf_count(most) for column in binned)
        signal = mu * records / math.sqrt(len(binned))
        rounds = settings.rounds or max(1, min(_ROUNDS, MOST_DRAWS // draws))
        reach = _REACH["numbers" if loss.name == "ridge" else "classes"]
        leaves = settings.leaves or (_MORE_LEAVES if signal >= _STRONG else _FEW_LEAVES)
        rate = reach * signal / rounds
        # Clip residuals less if the noise does not limit the rate.
        clip = LEAF_CLIP if rate < _FASTEST else 2 * LEAF_CLIP
        return cls(rounds, min(rate, _FASTEST) * settings.rate_factor, leaves, clip)


def most_boosting_draws(width: int, columns: int, outputs: int, settings: Settings) -> int:
    """Return an upper bound on the noise draws of boosting with an encoder of this width."""
    per_round = outputs * (width + columns * ((settings.leaves or _MORE_LEAVES) + 1))
    if settings.rounds is not None:
        return settings.rounds * per_round
    return max(per_round, min(_ROUNDS * per_round, MOST_DRAWS))


# ── Bins: a function of single records, derived from the encoder ──────────────────────────────────


@dataclass(frozen=True)
class BinnedColumn:
    """The bins of a column: ``ordered`` runs of numbers first, then a bin for each other cell."""

    code: ColumnCode

    @property
    def ordered(self) -> int:
        """Number of runs of numbers."""
        if self.code.scaling is None:
            return 0
        return len(self.code.edges) - 1 if self.code.edges else _BINS

    @property
    def texts(self) -> tuple[int, ...]:
        """Cells of non-numeric values with their own bin."""
        return tuple(cell for cell in self.code.cells if cell >= MISSING)

    @property
    def count(self) -> int:
        """Number of bins."""
        if self.code.scaling is None:
            return self.code.indicators + int(not self.code.other)
        return self.ordered + len(self.texts) + 1

    def leaf_count(self, leaves: int) -> int:
        """Return the number of leaves of the column if its numbers have at most ``leaves``."""
        return self.count - self.ordered + min(leaves, self.ordered)

    @property
    def cuts(self) -> FloatArray:
        """Edges of the runs on the transformed scale: public ones, or denser near the mean."""
        scaling = self.code.scaling
        assert scaling is not None
        if self.code.edges:
            return scaling.transform(np.array(self.code.edges[1:-1]))
        reach = 2 * scaling.limit * scaling.spread
        low = max(scaling.low, scaling.centre - reach)
        high = min(scaling.high, scaling.centre + reach)
        mean = min(max((scaling.centre - low) / (high - low), _OUTERMOST), 1 - _OUTERMOST)
        position = np.arange(1, _BINS) / _BINS
        # The middle cut is the mean.
        if mean < 0.5:
            share = position ** -math.log2(mean)
        else:
            share = 1 - (1 - position) ** -math.log2(1 - mean)
        return np.asarray(low + (high - low) * share)

    @cached_property
    def cells(self) -> Beside:
        """The bins as cells; they cover every value."""
        scaling = self.code.scaling
        if scaling is None:
            parts = self.code.indicator_cells.parts
            return Beside(parts if self.code.other else (*parts, Rest()))
        runs = Intervals.between_cuts(self.cuts, transform=scaling.transform)
        return Beside((runs, Selected(FIXED_CELLS, self.texts), Rest()))

    def leaves(self, count: int, coins: np.random.Generator) -> IntArray:
        """Return the leaf of every bin: random runs for numbers, and one leaf per remaining bin."""
        if not self.ordered:
            return np.arange(self.count)
        count = min(count, self.ordered)
        cuts = 1 + coins.permutation(self.ordered - 1)[: count - 1]
        runs = np.searchsorted(np.sort(cuts), np.arange(self.ordered), side="right")
        return np.concatenate([runs, count + np.arange(self.count - self.ordered)])


def column_bins(encoder: Encoder) -> list[BinnedColumn]:
    """Return the bins of the used columns, in the order of the tables."""
    return [BinnedColumn(code) for code in encoder.used]


def bins_of(
    encoder: Encoder, read: Mapping[str, Values], memory: int | None = None
) -> NDArray[np.generic]:
    """Return the bins of parsed columns, (rows, columns); on disk beyond ``memory``."""
    columns = column_bins(encoder)
    kind = np.min_scalar_type(max(column.count for column in columns))
    rows = len(read[columns[0].code.name])
    bins = large_array((len(columns), rows), np.dtype(kind), memory)
    for line, column in zip(bins, columns, strict=True):
        line[:] = column.cells.cell_of(read[column.code.name])
    return bins.T


@dataclass(frozen=True, eq=False)
class BoostedModel:
    """A released score table per column, computed from noisy sums only.

    ``scale`` is the noise scale of a leaf's sum, ``released_size`` the number of sums per round.
    """

    kind: ClassVar[str] = "boosted model"
    method: ClassVar[str] = "boosting"

    tables: tuple[FloatArray, ...]
    loss: str
    boosting: Boosting
    scale: float
    released_size: int

    @staticmethod
    def encode(encoder: Encoder, columns: Mapping[str, Values]) -> NDArray[np.generic]:
        """Return the bins of raw columns."""
        return bins_of(encoder, columns)

    def scores(self, bins: NDArray[np.generic]) -> FloatArray:
        """Return the scores of binned records."""
        return np.asarray(sum(table[bins[:, k]] for k, table in enumerate(self.tables)))

    def rescale(self, slope: float, offsets: FloatArray) -> BoostedModel:
        """Return the model with scores slope·score + offset."""
        first, *others = (slope * table for table in self.tables)
        return replace(self, tables=(first + offsets, *others))

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {
            "loss": self.loss,
            "tables": [table.tolist() for table in self.tables],
            "boosting": asdict(self.boosting),
            "scale": self.scale,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], encoder: Encoder) -> BoostedModel:
        """Restore the model from the fields of :meth:`to_dict`."""
        tables = tuple(np.array(table, dtype=np.float64) for table in fields["tables"])
        parts = column_bins(encoder)
        outputs = tables[0].shape[-1]
        if [table.shape for table in tables] != [(part.count, outputs) for part in parts]:
            raise ValueError("tables do not fit the columns")
        loss = one_of("loss", fields["loss"], LOSSES)
        boosting = Boosting(**fields["boosting"])
        size = outputs * sum(part.leaf_count(boosting.leaves) for part in parts)
        return cls(tables, loss, boosting, float(fields["scale"]), size)


# ── Boosting itself ───────────────────────────────────────────────────────────────────────────────


def leaf_sums(
    residuals: FloatArray,
    leaves: IntArray,
    count: int,
    *,
    clip: float,
    units: int,
    starts: IntArray | None = None,
    weights: FloatArray | None = None,
) -> FloatArray:
    """Sum clipped residuals by leaf in units of clip/2^units: exact whole numbers.

    ``starts`` are the first rows of persons, if a record is a person.  ``weights`` from 0 to 1
    multiply clipped residuals.

    Guarantee: replacing one record changes the result by at most 2·2^units in norm
    (proofs/boosting.md, claim 1), as long as there are at most 2^(53 - units) records.
    """
    largest = math.ldexp(1.0, units)
    scaled = residuals * (largest / clip)
    if residuals.shape[1] == 1 and starts is None:
        kept = np.clip(scaled, -largest, largest)
    else:
        kept = clip_residuals(scaled, np.ones(len(scaled)), largest, starts)
    # Neither weights up to 1 nor truncation towards zero increase a residual's norm.
    columns = np.trunc(kept if weights is None else kept * weights[:, None]).T
    return np.column_stack([np.bincount(leaves, column, count) for column in columns])


@dataclass(frozen=True, eq=False)
class _Move:
    """One update of boosting: a column of a round, with the score tables before it.

    ``last`` is the previous update (a table and its change); ``run`` and ``number`` identify this
    one.
    """

    run: str
    number: int
    tables: list[FloatArray]
    last: tuple[int, FloatArray] | None
    column: int
    leaves: IntArray
    count: int
    clip: float
    units: int


def _scores(rows: TrainingRows, move: _Move) -> FloatArray:
    """Return the scores of all rows, updated from the previous move if it is cached.

    Updating and recomputing agree exactly, because moves are whole multiples of 1/2^32.
    """
    cache = rows.cache
    outputs = move.tables[0].shape[1]
    # Drop the cached scores while they change, so that an interrupted update is recomputed.
    if move.last is not None and cache.pop("scored", None) == (move.run, move.number - 1):
        changes = [move.last]
    else:
        changes = list(enumerate(move.tables))
        cache["scores"] = large_array((len(rows.codes), outputs), np.dtype(np.float64), rows.memory)
        cache["scores"][:] = 0.0
    scores: FloatArray = cache["scores"]
    for cut in rows.cuts(_ROWS):
        for column, table in changes:
            scores[cut] += table[rows.features[cut, column]]
    cache["scored"] = (move.run, move.number)
    return scores


def _leaf_residuals(rows: TrainingRows, loss: Loss, move: _Move) -> FloatArray:
    """Sum the shard's clipped residuals by leaf, in units."""
    scores = _scores(rows, move)
    total = np.zeros((move.count, loss.outputs))
    for cut in rows.cuts(_ROWS):
        total += leaf_sums(
            rows.residuals(loss, scores[cut], cut),
            move.leaves[rows.features[cut, move.column]],
            move.count,
            clip=move.clip,
            units=move.units,
            starts=rows.starts(cut),
            weights=rows.weight(cut),
        )
    return total


def boost(
    rows: Shards[TrainingRows],
    loss: Loss,
    boosting: Boosting,
    share: BudgetShare,
    *,
    records: int,
    encoder: Encoder,
    score: float = 0.0,
) -> BoostedModel:
    """Boost on all rows with noise charged to ``share``; return the mean of the last tables.

    ``rows`` are shards of ``TrainingRows`` of bins; ``records`` is the number of all
    rows, or of persons with all their rows.  All records start with the constant ``score``.

    Guarantee: the noisy sums of all rounds, and so anything computed from them, are within the
    slack of their draws of a ``share.mu``-GDP pair under replace-one, for every record of any
    table.
    Theorem: X22 (proofs/boosting.md); for persons, X26 (proofs/persons.md).
    Assumes: bins and target of a record are functions of that record and of public or released
    numbers; the number of records is public.
    Numerics: clipped residuals are whole numbers and their sums exact; noisy sums are on a grid.
    Edge cases: records of weight 0 have no effect.
    """
    binned = column_bins(encoder)
    columns = len(binned)
    units = min(_UNITS, 52 - records.bit_length())
    sums = share.sums(sensitivity=math.ldexp(2.0, units), times=boosting.rounds * columns)
    step = boosting.rate * boosting.clip / math.ldexp(1.0, units) / records
    # Structure is public: the same coins for every table.
    coins = np.random.default_rng(0)
    run, last = uuid.uuid4().hex, None
    tables = [np.zeros((column.count, loss.outputs)) for column in binned]
    tables[0] += np.rint(score * _GRID) / _GRID
    means = [np.zeros_like(table) for table in tables]
    first = boosting.rounds - max(1, math.ceil(boosting.rounds * boosting.averaged))
    for number in range(boosting.rounds):
        for k, column in enumerate(binned):
            leaves = column.leaves(boosting.leaves, coins)
            count = column.leaf_count(boosting.leaves)
            asked = _Move(
                run, number * columns + k, tables, last, k, leaves, count, boosting.clip, units
            )
            exact = rows.sum(_leaf_residuals, loss, asked)
            # From here on nothing but the noisy sums is used: post-processing.
            change = np.rint(-step * sums.measure(exact)[leaves] * _GRID) / _GRID
            tables[k] += change
            last = (k, change)
        if number >= first:
            for k, table in enumerate(tables):
                means[k] += (table - means[k]) / (number - first + 1)
    in_residuals = sums.scale * boosting.clip / math.ldexp(1.0, units)
    size = loss.outputs * sum(column.leaf_count(boosting.leaves) for column in binned)
    return BoostedModel(tuple(means), loss.name, boosting, in_residuals, size)
