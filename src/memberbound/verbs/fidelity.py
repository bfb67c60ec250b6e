"""Similarity of new rows to real ones, for the owner of the rows only: computed without noise."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memberbound.answers import EstimateOf
from memberbound.learners.holdout import (
    find_shortcoming,
    predict_rows,
    quiet_training,
    read_target,
    score_beside_constant,
)
from memberbound.release.all_rows.cells import NumberCells
from memberbound.release.all_rows.marginals import ReleasedColumn
from memberbound.release.all_rows.synthetic import SyntheticTable
from memberbound.tables.columns import read_column
from memberbound.tables.records import Records
from memberbound.tables.values import Values

if TYPE_CHECKING:
    import pandas as pd

#: Maximum number of real rows compared with synthetic ones, and used to train or test models.
_MOST_COMPARED, _MOST_ROWS = 250_000, 20_000
#: Share of the real rows used to test models, and the minimum number of rows of each kind.
_TESTED, _FEWEST = 0.25, 40
#: Maximum number of worst pairs.
_WORST_PAIRS = 3


@dataclass(frozen=True)
class TrainedScores:
    """Test scores on real rows of models trained on synthetic rows and on other real rows."""

    synthetic_estimate: EstimateOf
    real_estimate: EstimateOf
    constant_estimate: EstimateOf


@dataclass(frozen=True)
class Marginal:
    """The shares of a column's blocks in the two tables."""

    blocks: tuple[str, ...]
    real_estimate: tuple[EstimateOf, ...]
    synthetic_estimate: tuple[EstimateOf, ...]


@dataclass(frozen=True)
class PairDistance:
    """The distance of a pair of columns between the two tables."""

    columns: tuple[str, str]
    tvd_estimate: EstimateOf


@dataclass(frozen=True)
class Fidelity:
    """Distances of pairs of columns between the two tables, and scores of boosting by name.

    ``worst_pairs`` is sorted, worst first.  ``shortcoming`` describes how models trained on the new
    rows are worse than a constant; None if they are not, or were not trained.
    """

    two_way_tvd_estimate: EstimateOf
    worst_two_way_tvd_estimate: EstimateOf
    worst_pairs: tuple[PairDistance, ...]
    scores: Mapping[str, TrainedScores]
    shortcoming: str | None
    marginals: Mapping[str, Marginal]


def sample_real_rows(records: Records) -> Mapping[str, Values]:
    """Sample real rows for the comparison with new ones."""
    return records.take(_sample_indices(records.rows)).columns


def _sample_indices(rows: int) -> NDArray[np.int64]:
    """Return the sorted indices of the rows that are compared."""
    compared = min(rows, _MOST_COMPARED)
    return np.sort(np.random.default_rng(0).choice(rows, compared, replace=False))


def measure_fidelity(model: SyntheticTable, records: Records, frame: pd.DataFrame) -> Fidelity:
    """Compare new rows with real ones on the model's cells.

    Edge cases: there are no scores if models cannot be trained.
    """
    columns = [*model.columns, *([] if model.target is None else [model.target])]
    real = dict(sample_real_rows(records))
    if len(frame) > _MOST_COMPARED:
        frame = frame.iloc[_sample_indices(len(frame))]
    drawn = {c.cells.name: read_column(frame[c.cells.name], c.cells.form) for c in columns}
    blocks = {c.cells.name: (c.blocks_of(real), c.blocks_of(drawn)) for c in columns}
    distances = {
        (a, b): _distance(blocks[a], blocks[b]) for a, b in itertools.combinations(blocks, 2)
    }
    worst = sorted(distances, key=lambda pair: -distances[pair])[:_WORST_PAIRS]
    try:
        with quiet_training():
            scores = {} if model.target is None else _score_models(model, real, drawn)
    except Exception:  # any error of a library may depend on the rows
        scores = {}
    mean = float(np.mean(list(distances.values())))
    marginals = {c.cells.name: _marginal(c, *blocks[c.cells.name]) for c in columns}
    pairs = tuple(PairDistance(pair, distances[pair]) for pair in worst)
    return Fidelity(mean, distances[worst[0]], pairs, scores, _shortcoming(scores), marginals)


def _shortcoming(scores: Mapping[str, TrainedScores]) -> str | None:
    """Describe how models trained on the new rows are worse than a constant, or return None."""
    if not scores:
        return None
    kinds = ("synthetic_estimate", "constant_estimate", "real_estimate")
    found = (
        {name: float(getattr(score, kind)) for name, score in scores.items()} for kind in kinds
    )
    clause = find_shortcoming(*found)
    return None if clause is None else f"models trained on this table {clause}"


Blocks = NDArray[np.int64]


def _distance(first: tuple[Blocks, Blocks], second: tuple[Blocks, Blocks]) -> float:
    """Return the total variation distance of two columns' joint blocks, real against new."""
    width, height = (1 + int(max(map(np.max, column))) for column in (first, second))
    laws = [
        np.bincount(a * height + b, minlength=width * height) / len(a)
        for a, b in zip(first, second, strict=True)
    ]
    return float(0.5 * np.abs(laws[0] - laws[1]).sum())


def _marginal(column: ReleasedColumn, *tables: Blocks) -> Marginal:
    """Return the blocks' labels (a range of numbers, or up to three labels) and their shares."""
    names = []
    for block in range(len(column.blocks)):
        inside = np.flatnonzero(column.block_of_cell == block)
        drawn = inside[column.weights[inside] > 0]
        labels = [column.cells.label(int(c)) for c in (drawn if drawn.size else inside)]
        if isinstance(column.cells, NumberCells) and len(labels) > 1:
            labels = [f"{labels[0].split(' to ')[0]} to {labels[-1].split(' to ')[-1]}"]
        names.append(", ".join(labels[:3] + ["…"] * (len(labels) > 3)))
    counts = [np.bincount(blocks, minlength=len(names)) / len(blocks) for blocks in tables]
    return Marginal(tuple(names), *(tuple(shares.tolist()) for shares in counts))


def _score_models(
    model: SyntheticTable, real: Mapping[str, Values], drawn: Mapping[str, Values]
) -> dict[str, TrainedScores]:
    """Train on real and on synthetic rows, and score on held-out real rows."""
    from sklearn import ensemble

    assert model.target is not None
    coded = isinstance(model.target.cells, NumberCells)
    numbers = coded and np.count_nonzero(model.target.weights) > 2
    tables = []
    for read in (real, drawn):
        goal, there = read_target(read[model.target.cells.name], numbers=coded)
        if coded and not numbers:  # a code such as 0 and 1
            goal = np.array([f"{value:g}" for value in goal.tolist()])
        rows = np.random.default_rng(0).permutation(np.flatnonzero(there))[:_MOST_ROWS]
        columns = [
            read[c.cells.name].numbers if isinstance(c.cells, NumberCells) else c.blocks_of(read)
            for c in model.columns
        ]
        tables.append((np.column_stack(columns)[rows], goal[rows]))
    features, goal = tables[0]
    cut = int(len(goal) * _TESTED)
    test, truth, train, seen = features[:cut], goal[:cut], features[cut:], goal[cut:]
    if min(len(truth), len(seen), len(tables[1][1])) < _FEWEST:
        return {}
    classes = () if numbers else tuple(np.unique(goal).tolist())
    predictions = []
    for features, goal in (tables[1], (train, seen)):
        learner: Any = ensemble.HistGradientBoostingRegressor(random_state=0)
        if not numbers:
            learner = ensemble.HistGradientBoostingClassifier(random_state=0)
        learner.fit(features, goal)
        predictions.append(predict_rows(learner, test, classes, probabilities=not numbers))
    fixed, synthetic, actual = score_beside_constant(truth, seen, classes, *predictions)
    return {
        name: TrainedScores(synthetic[name], actual[name], constant)
        for name, constant in fixed.items()
        if name in synthetic and name in actual
    }
