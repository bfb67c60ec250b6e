"""Attacks on a synthetic table: is it closer to its training rows than to fresh rows?

Every attack scores a record against the synthetic table (and a reference table of the same kind
that the synthesizer never saw).  Scales, bins and categories come from these two tables, so a
record's score depends on no other record.  Distance to the closest synthetic row is only one of the
attacks; finding nothing with it proves nothing.

An existing table is audited in the model game.  A synthesizer that can be refitted is audited in
the subset game: it synthesizes random halves of the records, and an attack's result on a fresh half
is one observation of a mean.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from memberbound.answers import EstimateOf
from memberbound.attacks.checks import blind_scores, law_test
from memberbound.attacks.learner_audit import mean_bound
from memberbound.attacks.model_audit import ModelAudit, audit_score_table, with_records
from memberbound.attacks.scores import (
    AttackAudit,
    MeasuredAttacks,
    Scores,
    area_under_roc,
    content_generator,
)
from memberbound.attacks.signals import BoolArray
from memberbound.errors import InputError, fraction, whole_number
from memberbound.games import SubsetGame
from memberbound.iid.overlap import Overlap
from memberbound.iid.profiles import JointProfile
from memberbound.numerics.rounding import FloatArray
from memberbound.quantities import significant
from memberbound.tables.cells import Beside, Intervals, LabelCells, Rest
from memberbound.tables.columns import read_column
from memberbound.tables.public_rows import read_population
from memberbound.tables.roles import Reading
from memberbound.tables.values import Values
from memberbound.threads import one_thread

if TYPE_CHECKING:
    from pandas import DataFrame, Series

IntArray = NDArray[np.int64]
#: Maximum number of rows of a synthetic or reference table in distance computations.
_MOST_ROWS = 20_000
#: Bins of a numeric column, and maximum categories of a column, in contingency tables.
_BINS, _MOST_LABELS = 12, 60
#: Number of nearest neighbours in density estimates.
_NEIGHBOURS = 5
#: Share of the non-members used as reference if none is given.
_REFERENCE_SHARE = 1 / 3
#: Minimum number of rows of each class, and of refits.
_FEWEST, _FEWEST_REFITS = 60, 9
#: Maximum number of refits used to choose thresholds.
_THRESHOLD_REFITS = 8


class Synthesizer(Protocol):
    """The object returned by ``module:factory``: fit it to a table, then sample rows."""

    def fit(self, table: DataFrame) -> object:
        """Learn from a table."""

    def sample(self, rows: int) -> DataFrame:
        """Return new rows."""


# ── Records as coordinates and cells defined by another table ─────────────────────────────────────


@dataclass(frozen=True, eq=False)
class _Axis:
    """A numeric column with scale and bins, or a categorical column with labels."""

    name: str
    form: str
    centre: float = 0.0
    scale: float = 1.0
    edges: FloatArray | None = None
    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, column: Series, reading: Reading) -> _Axis:
        values = read_column(column, reading.form)
        numbers = values.numbers[np.isfinite(values.numbers)]
        if reading.numeric and numbers.size:
            low, middle, high = np.quantile(numbers, (0.1, 0.5, 0.9))
            scale = float(high - low) or float(numbers.std()) or 1.0
            edges = np.unique(np.quantile(numbers, np.arange(1, _BINS) / _BINS))
            return cls(name, reading.form, float(middle), scale, edges)
        codes, names = values.factorize()
        counts = np.bincount(codes[codes >= 0], minlength=len(names))
        common = np.argsort(-counts, kind="stable")[:_MOST_LABELS]
        return cls(name, reading.form, labels=tuple(names[k] for k in sorted(common)))

    @cached_property
    def cells(self) -> Beside:
        """The cells of the column, with one for all other values."""
        if self.edges is None:
            return Beside((Rest(), LabelCells((*self.labels, ""))))
        return Beside((Rest(), Intervals.between_cuts(self.edges)))

    def coordinates(self, values: Values) -> FloatArray:
        """Return coordinates in which two categories, or one spread of numbers, are 1 apart."""
        if self.edges is None:
            return np.asarray(np.eye(self.cells.count)[self.cells.cell_of(values)] / np.sqrt(2.0))
        numbers = np.clip((values.numbers - self.centre) / self.scale, -10.0, 10.0)
        gone = np.isnan(numbers)
        return np.column_stack([np.where(gone, 0.0, numbers), gone.astype(np.float64)])


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of a table in the coordinates and cells of a synthetic table."""

    points: FloatArray
    cells: IntArray
    keys: NDArray[np.uint64]

    @classmethod
    def of(cls, axes: Sequence[_Axis], frame: DataFrame) -> _Rows:
        import pandas as pd

        read = {axis.name: read_column(frame[axis.name], axis.form) for axis in axes}
        points = np.hstack([axis.coordinates(read[axis.name]) for axis in axes])
        cells = np.column_stack([axis.cells.cell_of(read[axis.name]) for axis in axes])
        labels = {}
        for name, values in read.items():
            codes, names = values.codes_and_labels()
            labels[name] = np.array(names, dtype=object)[codes]
        keys = np.asarray(pd.util.hash_pandas_object(pd.DataFrame(labels), index=False))
        return cls(points.astype(np.float32), cells, keys)

    def part(self, rows: NDArray[np.integer | np.bool_]) -> _Rows:
        """Return some of the rows."""
        return _Rows(self.points[rows], self.cells[rows], self.keys[rows])


def _axes(synthetic: DataFrame, names: Sequence[str]) -> list[_Axis]:
    """Return the columns for comparing records, without identifiers and free text."""
    table, _ = read_population(synthetic[list(names)])
    readings = table.readings()
    return [_Axis.of(name, table.frame[name], readings[name]) for name in table.columns]


# ── The attacks ───────────────────────────────────────────────────────────────────────────────────


def _distances(points: FloatArray, table: FloatArray) -> FloatArray:
    """Return the distances of points to their nearest rows of a table, in ascending order."""
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=min(_NEIGHBOURS, len(table))).fit(table)
    return np.asarray(search.kneighbors(points)[0], dtype=np.float64)


def _likelihoods(rows: _Rows, table: _Rows, axes: Sequence[_Axis]) -> FloatArray:
    """Return Σ over column pairs of the log frequency of a record's cells in a table."""
    total = np.zeros(len(rows.cells))
    for a, b in itertools.combinations(range(len(axes)), 2) if len(axes) > 1 else ((0, 0),):
        width = axes[b].cells.count
        cells, own = (t.cells[:, a] * width + t.cells[:, b] for t in (table, rows))
        counts = np.bincount(cells, minlength=axes[a].cells.count * width) + 0.5
        total += np.log(counts[own] / counts.sum())
    return total


def attack_signals(
    rows: _Rows, synthetic: _Rows, reference: _Rows, axes: Sequence[_Axis]
) -> dict[str, FloatArray]:
    """Return each attack's scores of the records, higher for members."""
    near, fresh = (_distances(rows.points, table.points) for table in (synthetic, reference))
    ratio = np.log(fresh + 1e-6) - np.log(near + 1e-6)
    return {
        "distance": -near[:, 0],
        "density ratio": ratio[:, -1],
        "closest ratio": ratio[:, 0],
        "marginals": _likelihoods(rows, synthetic, axes) - _likelihoods(rows, reference, axes),
    }


def _combine(signals: Mapping[str, FloatArray], member: BoolArray, known: BoolArray) -> FloatArray:
    """Train a classifier on the signals of the known records and score all records."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import QuantileTransformer

    table = np.column_stack(list(signals.values()))
    quantiles = min(100, int(known.sum()))
    learner = make_pipeline(
        QuantileTransformer(n_quantiles=quantiles, output_distribution="normal", random_state=0),
        LogisticRegression(class_weight="balanced"),
    )
    with one_thread:  # waiting threads spin, which takes long on a busy machine
        learner.fit(table[known], member[known])
    return np.asarray(learner.decision_function(table), dtype=np.float64)


# ── An existing table ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Copies:
    """Records that appear verbatim in the synthetic table, in all compared columns.

    Fresh records can be copied only by chance, with probability ``non_member_share_estimate``.
    ``member_rows`` lists the first twenty copied members, numbered from 0 as in ``records``.
    """

    members: int
    member_share_estimate: EstimateOf
    non_members: int
    non_member_share_estimate: EstimateOf
    member_rows: tuple[int, ...]


def audit_synthetic(
    members: DataFrame,
    non_members: DataFrame,
    synthetic: DataFrame,
    reference: DataFrame | None = None,
    *,
    confidence: float = 0.95,
    fpr: Sequence[float] = (0.1, 0.01, 0.001),
    seed: int = 0,
) -> tuple[ModelAudit, Copies, tuple[str, ...]]:
    """Measure attacks on a synthetic table, with its training rows against fresh records.

    Return the audit, the copied rows, and the compared columns.

    Guarantee: each interval of an attack contains its quantity with probability at least
    ``confidence``, given the table; ``best_advantage`` holds for all attacks together.
    Theorem: proofs/audit-intervals.md claims 1 to 4, proofs/given-models.md claim 1: scores are
    functions of single records, given the synthetic and the reference table.
    Assumes: :data:`memberbound.attacks.scores.ASSUMPTIONS`, with the table in place of the model.
    Edge cases: without a reference, a third of the non-members serves as one and is not measured.
    """
    tables = [members, non_members, synthetic, *([] if reference is None else [reference])]
    names = [c for c in synthetic.columns if all(c in table.columns for table in tables)]
    if not names:
        raise InputError("members, non-members and the synthetic table must share a column.")
    for kind, table in zip(("members", "non-members", "synthetic"), tables, strict=False):
        if len(table) < _FEWEST:
            raise InputError(f"{kind} must be at least {_FEWEST} records, got {len(table)}.")
    axes = _axes(synthetic, names)
    inside, outside, new = (_Rows.of(axes, table) for table in tables[:3])
    other = None if reference is None else _Rows.of(axes, reference)
    shared = _overlap_notes(inside, outside, other)
    rng = content_generator(seed, new.keys, inside.keys, outside.keys, purpose="synthetic table")
    sides = ((t.points, t.cells, t.keys) for t in (inside, outside))
    rows = _Rows(*(np.concatenate(parts) for parts in zip(*sides, strict=True)))
    member = np.arange(len(rows.keys)) < len(inside.keys)
    measured = np.ones(len(member), dtype=np.bool_)
    warnings: tuple[str, ...] = ()
    if other is None:
        order = rng.permutation(len(outside.keys))
        chosen = order[: int(len(order) * _REFERENCE_SHARE)]
        measured[len(inside.keys) + chosen] = False
        fresh = outside.part(chosen)
        warnings = (f"{len(chosen)} non-members serve as the reference table",)
    else:
        fresh = other
    near, far = (t.part(rng.permutation(len(t.keys))[:_MOST_ROWS]) for t in (new, fresh))
    signals = attack_signals(rows, near, far, axes)
    known = np.zeros(len(member), dtype=np.bool_)
    for side in (member & measured, ~member & measured):
        indices = rng.permutation(np.flatnonzero(side))
        known[indices[: len(indices) // 2]] = True
    scores = {name: (score, measured) for name, score in signals.items()}
    scores["combined"] = _combine(signals, member, known), measured & ~known
    audit = audit_score_table(scores, member, confidence=confidence, fpr=fpr, seed=seed)
    points = rows.points.astype(np.float64)
    law = law_test(points, member, blind_scores, confidence=confidence, seed=seed)
    copied = np.isin(rows.keys, new.keys)
    copies = Copies(
        int(copied[member].sum()),
        float(copied[member].mean()),
        int(copied[~member].sum()),
        float(copied[~member].mean()),
        tuple(np.flatnonzero(copied[member])[:20].tolist()),
    )
    audit = replace(audit, law=law, warnings=(*shared, *warnings, *audit.warnings))
    audit = with_records(audit, np.arange(len(member)), None, None, seed=seed)
    return audit, copies, tuple(axis.name for axis in axes)


def _overlap_notes(inside: _Rows, outside: _Rows, reference: _Rows | None) -> tuple[str, ...]:
    """Return notes about rows that two samples share; refuse samples that are mostly the same.

    Guarantee: independent samples are refused with probability at most about 1e-3 each, however
    coarse their columns (:mod:`memberbound.iid.overlap`).
    """
    pairs = {"members and non-members": (inside, outside)}
    if reference is not None:
        pairs["members and the reference"] = (inside, reference)
        pairs["non-members and the reference"] = (outside, reference)
    notes = []
    for names, (one, two) in pairs.items():
        keys = np.unique(np.concatenate([one.keys, two.keys]), return_inverse=True)[1]
        size = int(keys.max()) + 1
        first, second = keys[: len(one.keys)], keys[len(one.keys) :]
        counts = (np.bincount(part, minlength=size) for part in (first, second))
        found = Overlap.of(JointProfile.from_counts(*counts))
        many = f"{found.shared} of {found.reference_rows} rows"
        chance = f"≈ {significant(found.expected, 'estimate', 3)} expected of independent rows"
        if found.refused:
            raise InputError(f"{names} must be different records, got {many} in common ({chance}).")
        if found.noted:
            notes.append(
                f"{names} have {many} in common ({chance}): the numbers hold only if no record is "
                "in both"
            )
    return tuple(notes)


# ── Refitted synthesizers ─────────────────────────────────────────────────────────────────────────


def audit_refits(
    records: DataFrame,
    synthesizer: Callable[[], Synthesizer],
    *,
    refits: int = 64,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[MeasuredAttacks, tuple[str, ...]]:
    """Measure attacks on a synthesizer refitted to random halves of the records.

    The first refit provides the reference table and the scales, the next ones the thresholds; each
    further refit is one observation of TPR - FPR and of the AUC.  Their means over halves and the
    synthesizer's randomness are bounded.  Also return the compared columns.

    Guarantee: each interval contains the mean with probability at least ``confidence``;
    ``best_advantage`` holds for all attacks together.  Its lower end bounds the average record's
    advantage in the subset game from below.
    Theorem: proofs/bounded-means.md; given the first refits the draws are independent, in [-1, 1].
    Assumes: refits are independent of one another.
    """
    count = whole_number("refits", refits, at_least=_FEWEST_REFITS)
    sure = fraction("confidence", confidence, open_left=True, open_right=True)
    if len(records) < 2 * _FEWEST:
        raise InputError(f"the table must have at least {2 * _FEWEST} rows, got {len(records)}.")
    rng = np.random.default_rng(seed)
    half = len(records) // 2

    def refit() -> tuple[BoolArray, DataFrame]:
        member = np.zeros(len(records), dtype=np.bool_)
        member[rng.permutation(len(records))[:half]] = True
        fitted = synthesizer()
        fitted.fit(records[member].reset_index(drop=True))
        drawn = fitted.sample(half)
        if len(drawn) != half:
            raise InputError(f"sample({half}) must return as many rows, got {len(drawn)}.")
        return member, drawn

    _, reference = refit()
    names = [name for name in records.columns if name in reference.columns]
    if not names:
        raise InputError("the synthesizer must return columns of the table, got others.")
    axes = _axes(reference, names)
    first = np.arange(min(half, _MOST_ROWS))
    rows, fresh = _Rows.of(axes, records), _Rows.of(axes, reference).part(first)
    thresholds = min(_THRESHOLD_REFITS, (count - 1) // 3)
    drawn: dict[str, list[Scores]] = {}
    for number in range(count - 1):
        member, table = refit()
        new = _Rows.of(axes, table).part(first)
        for name, score in attack_signals(rows, new, fresh, axes).items():
            drawn.setdefault(name, []).append(Scores.of(score, member))
        if progress is not None:
            progress(number + 1, count - 1)
    game = SubsetGame(len(records), half, "average")
    attacks = {}
    for name, sides in drawn.items():
        both = (np.concatenate(parts) for parts in zip(*sides[:thresholds], strict=True))
        threshold, _ = Scores.from_samples(*both).best_threshold()
        gaps = np.array([_gap(pair, threshold) for pair in sides[thresholds:]])
        areas = np.array([area_under_roc(*pair) for pair in sides[thresholds:]])
        bound = partial(mean_bound, confidence=sure, game=game, attack=name)
        shared = bound("advantage", gaps, among=len(drawn))
        attacks[name] = AttackAudit(bound("advantage", gaps), shared, bound("AUC", areas))
    measured = MeasuredAttacks(attacks=attacks, confidence=sure)
    return measured, tuple(axis.name for axis in axes)


def _gap(pair: Scores, threshold: float) -> float:
    hits, alarms = pair.hits(threshold)
    return hits / pair.members.size - alarms / pair.non_members.size
