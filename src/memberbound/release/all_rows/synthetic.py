"""Synthetic tables of all rows in the neighbour game: measure, select, estimate, sample.

Noisy measurements, in this order (proofs/synthetic-tables.md):

1. columns without bounds, to define their *cells* (:mod:`.cells`);
2. the target: its *groups*;
3. the cells of columns with many cells, to merge them into *bins*;
4. every column's bins with the target's groups;
5. the distance of every pair of columns from independence, to select a *forest* of pairs at the
   resolution that the noise of a pair allows;
6. the pairs of the forest;
7. the distance of every other pair from the forest's prediction, and the most distant pairs;
8. the accuracy of a model of the target, by score.

The budget is divided by public numbers alone: :func:`budget_shares`.  New rows are drawn
from the noisy numbers alone, which is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from memberbound.certificate import Certificate
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.bounds import Bounds, Categories, read_bounds
from memberbound.release.all_rows.cells import MOST_CELLS, WRITINGS
from memberbound.release.all_rows.label_model import SCORE_BINS, LabelModel
from memberbound.release.all_rows.marginals import ReleasedColumn, draw, label_rows
from memberbound.release.all_rows.measurements import (
    MOST_COUNTED,
    MOST_PAIR_CELLS,
    Measurements,
    is_large,
)
from memberbound.release.all_rows.noisy_marginals import NoisyMarginal
from memberbound.release.all_rows.private_columns import (
    MOST_LABELS,
    look_coordinates,
    look_names,
    refuse_small,
)
from memberbound.release.all_rows.synthetic_columns import declare_columns, learn_cells
from memberbound.release.all_rows.synthetic_shares import budget_shares
from memberbound.release.all_rows.tree import PairModel
from memberbound.release.budget import Budget, Slack
from memberbound.release.calibration import Calibration
from memberbound.release.noise import GaussianNoise
from memberbound.release.randomness import SECURE, RandomSource
from memberbound.release.release_file import Writer
from memberbound.tables.frame_files import FRAME_ENDINGS, table_writer
from memberbound.tables.records import Records

if TYPE_CHECKING:
    import pandas as pd


# ── The release, and rows drawn from it ───────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class SyntheticTable:
    """Everything released about a table, from which rows can be drawn.

    Guarantee: every number is public or charged to the privacy budget, so any number of rows may be
    drawn and used in any way.
    """

    names: tuple[str, ...]
    model: PairModel
    target: ReleasedColumn | None
    groups: FloatArray
    labels: LabelModel | None
    identifiers: tuple[str, ...]
    left_out: tuple[str, ...]
    noise: Mapping[str, float]
    budget: Budget
    records: int
    eta: float
    #: Unprojected noisy counts.
    marginals: tuple[NoisyMarginal, ...] = ()

    @property
    def certificate_(self) -> Certificate:
        """The certificate of η for every record."""
        certificate = self.budget.certificate(secure=self.budget.source.secure)
        return replace(certificate, theorems=tuple(sorted({*certificate.theorems, "X25"})))

    @property
    def calibration_(self) -> Calibration:
        """The noise of the columns' counts and the certificate of all counts together."""
        size = sum(column.cells.count for column in self.columns) * len(self.groups)
        details = {
            "mu": self.budget.mu,
            "rows_trained": self.records,
            "curve": self.budget.readings(),
            "noise_by_part": dict(self.noise),
        }
        noise = GaussianNoise(self.noise["columns"], size)
        return Calibration(noise, self.certificate_, self.eta, "synthetic", 0, details)

    @property
    def columns(self) -> tuple[ReleasedColumn, ...]:
        """The columns other than the target."""
        return self.model.columns

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs of columns with measured joint counts."""
        names = [column.cells.name for column in self.columns]
        return tuple((names[pair.first], names[pair.second]) for pair in self.model.measured)

    def sample(self, rows: int, source: RandomSource) -> pd.DataFrame:
        """Draw new rows with the table's columns, in the table's order."""
        import pandas as pd

        draws = np.random.default_rng([int(word) for word in source.words(4)])
        cells = self.model.cells(rows, draws)
        values: dict[str, pd.Series[object]] = {}
        for column, indices in zip(self.columns, cells, strict=True):
            values[column.cells.name] = column.values(indices, draws)
        if self.target is not None:
            groups = draw(self.groups[None], np.zeros(rows, dtype=np.int64), draws)
            if self.labels is not None:
                bins = [c.bin_of_cell[p] for c, p in zip(self.columns, cells, strict=True)]
                groups = self.labels.sample(bins, self.groups, draws)
            goal = self.target.cells_in(groups, self.target.bin_of_cell, draws)
            values[self.target.cells.name] = self.target.values(goal, draws)
        for name in self.identifiers:
            values[name] = pd.Series(np.arange(1, rows + 1))
        return pd.DataFrame({name: values[name] for name in self.names if name in values})


@dataclass(frozen=True, eq=False)
class SyntheticRows:
    """Drawn rows with the model they come from."""

    frame: pd.DataFrame
    model: SyntheticTable

    @property
    def file_endings(self) -> tuple[str, ...]:
        """The supported file endings."""
        return FRAME_ENDINGS

    def certificate_fields(self) -> dict[str, object]:
        """Return the fields of its certificate."""
        budget = self.model.budget
        return self.model.calibration_.certificate_fields(
            "synthetic table",
            secure_source=budget.source.secure,
            rows=len(self.frame),
            unit=budget.unit,
            left_out=self.model.left_out,
            **budget.evidence(self.model.records, self.model.certificate_),
        )

    def file_writer(self, path: Path) -> Writer:
        """Return a function that writes the rows as a table file."""
        return table_writer(self.frame, path)


# ── The sequence of measurements ──────────────────────────────────────────────────────────────────


@np.errstate(all="ignore")  # a warning would depend on a record
def fit_synthetic(
    records: Records,
    *,
    eta: float,
    bounds: Mapping[str, object] | str | Path | None = None,
    target: str | None = None,
    unit: str | None = None,
    source: RandomSource = SECURE,
    reserve: Callable[[Budget], None] | None = None,
) -> SyntheticTable:
    """Measure a secret table with noise such that η holds for every record.

    With ``unit`` a record is all rows with one value in that column.  ``reserve`` is called with
    the budget before any noise is drawn (a ledger).

    Guarantee: an attacker who knows all other records and sees everything in the result gains at
    most ``eta`` over guessing which of two records was in the table, with certainty for every
    record, under replace-one.
    Theorem: X25 (proofs/synthetic-tables.md), with ``unit`` X26 (proofs/persons.md).
    Assumes: the number of rows (with ``unit``: of persons), the columns' names and types and the
    given bounds are public.
    Numerics: counts, scores and sums of residuals are exact; μ and the slack are fixed before the
    table is read.
    Edge cases: numbers are clipped to the range of their column; rare values are drawn as
    ``other``; columns of identifiers get fresh numbers, columns of free text are left out.
    """
    names = tuple(records.columns)
    if unit is not None:
        records = records.group_by_person(unit)
    stated = read_bounds(bounds)
    public, writings = declare_columns(records, stated, target)
    slack = _slack(records, public)
    budget = Budget.for_eta(
        eta,
        slack=slack,
        unit=unit,
        source=source,
        reserve=reserve,
        bounds=[name for name in stated if name in names],
    )
    open_target = target is not None and target not in public
    private = sum(name not in public for name in records.columns)
    refuse_small(records, private, budget.mu, open_target=open_target)
    cells, identifiers, left_out = learn_cells(records, public, writings, target, budget)
    left, count = budget.left, len(records)
    features = [column for name, column in cells.items() if name != target]
    goal = None if target is None else cells[target]
    mu = budget.mu * math.sqrt(left)
    large = sum(map(is_large, features))
    shares = budget_shares(count, mu, len(features), large, target=target is not None)
    measuring = Measurements(
        records.shards.map(label_rows, features, goal),
        count,
        budget,
        {name: share * left for name, share in shares.items()},
    )
    if goal is not None:
        measuring.measure_target(goal)
    pairs = measuring.measure_pairs(measuring.measure_one_way(features))
    return SyntheticTable(
        names=names,
        model=pairs,
        target=measuring.target,
        groups=measuring.groups,
        labels=measuring.fit_labels(pairs),
        identifiers=identifiers + (() if unit is None else (unit,)),
        left_out=left_out,
        noise=measuring.noise,
        budget=budget,
        records=count,
        eta=float(eta),
        marginals=tuple(measuring.marginals),
    )


def _slack(records: Records, public: Bounds) -> Slack:
    """Return the slack of all counts, from public numbers alone."""
    columns = len(records.columns)
    cells = 0
    for name in records.columns:
        bound = public.get(name)
        listed = MOST_CELLS + len(getattr(bound, "edges", ()))
        if isinstance(bound, Categories):
            listed = len(bound.labels) + 2
        cells += max(listed, MOST_LABELS + 2)
    private = columns - len(public)
    coordinates = (
        look_coordinates(private + 1)
        + cells
        + columns * MOST_COUNTED
        + columns**2
        + columns * MOST_PAIR_CELLS
        + 2 * SCORE_BINS
        + columns * (len(WRITINGS) + 1)
    )
    return Slack(coordinates, look_names(private + (private > 0)))
