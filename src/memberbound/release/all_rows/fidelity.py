"""What a synthetic table is good for, for whoever owns the rows: estimates that nothing covers."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memberbound.answers import EstimateOf
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.cells import CategoryCells, NumberCells
from memberbound.release.all_rows.synthetic import ReleasedColumn, SyntheticTable
from memberbound.release.model_quality import answers_of, scores_of
from memberbound.tables.columns import Values
from memberbound.tables.in_memory import Records

if TYPE_CHECKING:
    import pandas as pd

IntArray = NDArray[np.int64]
#: Rows of a comparison, and the share of the real ones that models are tested on.
_MOST_ROWS = 20_000
_TESTED = 0.25
_FEWEST = 40
#: Real rows that drawn ones are compared with, at most.
_MOST_COMPARED = 250_000


@dataclass(frozen=True)
class TrainedScores:
    """Scores of a model on the same real rows: trained on synthetic rows, on other real rows."""

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
class Fidelity:
    """Distances of pairs of columns between the two tables, and scores of standard models.

    ``scores`` are by model and score: ``scores["boosting"]["AUC"].synthetic_estimate``.
    """

    two_way_tvd_estimate: EstimateOf
    worst_two_way_tvd_estimate: EstimateOf
    worst_pair: tuple[str, str]
    scores: Mapping[str, Mapping[str, TrainedScores]]
    marginals: Mapping[str, Marginal]


def fidelity_of(model: SyntheticTable, records: Records, frame: pd.DataFrame) -> Fidelity:
    """Compare drawn rows with the real ones, on the cells by which both were counted.

    Of 250 000 real rows, if there are more.
    Edge cases: where models cannot be trained there are no scores.
    """
    compared = min(records.rows, _MOST_COMPARED)
    places = np.random.default_rng(0).choice(records.rows, compared, replace=False)
    records = records.taken(np.sort(places))
    columns = [*model.columns, *([] if model.target is None else [model.target])]
    drawn = {c.cells.name: Values.of(frame[c.cells.name], c.cells.form) for c in columns}
    names = [column.cells.name for column in columns]
    real = [c.block_of_cell[c.cells.of(records.columns[c.cells.name])] for c in columns]
    new = [c.block_of_cell[c.cells.of(drawn[c.cells.name])] for c in columns]
    distances = {
        (names[a], names[b]): _distance((real[a], real[b]), (new[a], new[b]))
        for a, b in itertools.combinations(range(len(columns)), 2)
    }
    worst = max(distances, key=lambda pair: distances[pair])
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = {} if model.target is None else _scores(model, records, drawn)
    except Exception:  # the rows decide what libraries do with them
        scores = {}
    marginals = {
        column.cells.name: Marginal(_block_names(column), _shares(a, column), _shares(b, column))
        for column, a, b in zip(columns, real, new, strict=True)
    }
    mean = float(np.mean(list(distances.values())))
    return Fidelity(mean, distances[worst], worst, scores, marginals)


def _shares(blocks: IntArray, column: ReleasedColumn) -> tuple[float, ...]:
    counts = np.bincount(blocks, minlength=len(column.coarse))
    return tuple((counts / len(blocks)).tolist())


def _block_names(column: ReleasedColumn) -> tuple[str, ...]:
    """Return what a block holds: a range of numbers, or its labels."""
    names = []
    for block in range(len(column.coarse)):
        cells = np.flatnonzero(column.block_of_cell == block)
        parts = [column.cells.label(int(cell)) for cell in cells[:3]]
        if isinstance(column.cells, NumberCells) and len(cells) > 1:
            first, last = (column.cells.label(int(cell)) for cell in (cells[0], cells[-1]))
            parts = [f"{first.split(' to ')[0]} to {last.split(' to ')[-1]}"]
        more = ["…"] if isinstance(column.cells, CategoryCells) and len(cells) > 3 else []
        names.append(", ".join([*parts, *more]))
    return tuple(names)


def _distance(real: tuple[IntArray, IntArray], new: tuple[IntArray, IntArray]) -> float:
    width = 1 + int(max(real[1].max(), new[1].max()))
    size = width * (1 + int(max(real[0].max(), new[0].max())))
    laws = [np.bincount(a * width + b, minlength=size) / len(a) for a, b in (real, new)]
    return float(0.5 * np.abs(laws[0] - laws[1]).sum())


def _scores(
    model: SyntheticTable, records: Records, drawn: Mapping[str, Values]
) -> dict[str, dict[str, TrainedScores]]:
    """Train on real and on synthetic rows, and test on other real rows."""
    assert model.target is not None
    name, numeric = model.target.cells.name, isinstance(model.target.cells, NumberCells)
    real = records.taken(_some_rows(records.rows)).columns
    new = {key: values.taken(_some_rows(len(values))) for key, values in drawn.items()}
    answers, made = (_answers(model.target, read[name]) for read in (real, new))
    usable, synthetic = (
        np.flatnonzero(np.isfinite(goal) if numeric else goal != "") for goal in (answers, made)
    )
    cut = int(len(usable) * _TESTED)
    test, train = usable[:cut], usable[cut:]
    if min(len(test), len(train), len(synthetic)) < _FEWEST:
        return {}
    classes = () if numeric else tuple(np.unique(answers[usable]).tolist())
    truth = answers[test]
    constant: Any = answers[train].mean() if numeric else _commonest(answers[train])
    blank = np.zeros((len(test), len(classes)))
    floor = scores_of(truth, np.full(len(test), constant), blank, classes)
    result = {}
    for kind, learner in _learners(numeric=numeric).items():
        linear = kind == "linear"
        features, rows = (_features(model.columns, read, one_hot=linear) for read in (real, new))
        reached = []
        for table, goal in ((rows[synthetic], made[synthetic]), (features[train], answers[train])):
            fitted = learner.fit(table, goal)
            reached.append(scores_of(truth, *answers_of(fitted, features[test], classes), classes))
        result[kind] = {
            score: TrainedScores(reached[0][score], reached[1][score], floor[score])
            for score in floor
            if score in reached[0] and score in reached[1]
        }
    return result


def _learners(*, numeric: bool) -> dict[str, Any]:
    from sklearn import ensemble, linear_model

    if numeric:
        boosting = ensemble.HistGradientBoostingRegressor(random_state=0)
        return {"boosting": boosting, "linear": linear_model.Ridge()}
    boosting = ensemble.HistGradientBoostingClassifier(random_state=0)
    return {"boosting": boosting, "linear": linear_model.LogisticRegression(max_iter=300)}


def _some_rows(rows: int) -> IntArray:
    """Return at most so many rows as a comparison needs, in random order."""
    return np.random.default_rng(0).permutation(rows)[:_MOST_ROWS]


def _answers(target: ReleasedColumn, values: Values) -> NDArray[Any]:
    """Return numbers, or labels with '' where there is none."""
    if isinstance(target.cells, NumberCells):
        return values.numbers
    places, names = values.named()
    return np.array([*names, ""], dtype=object)[places].astype(str)


def _commonest(labels: NDArray[Any]) -> Any:
    names, counts = np.unique(labels, return_counts=True)
    return names[int(np.argmax(counts))]


def _features(
    columns: Sequence[ReleasedColumn], read: Mapping[str, Values], *, one_hot: bool
) -> FloatArray:
    """Return numbers and blocks as features, or an indicator per block."""
    parts = []
    for column in columns:
        values = read[column.cells.name]
        blocks = column.block_of_cell[column.cells.of(values)]
        if one_hot:
            parts.append(np.eye(len(column.coarse), dtype=np.float64)[blocks])
        elif isinstance(column.cells, NumberCells):
            parts.append(values.numbers[:, None])
        else:
            parts.append(blocks[:, None].astype(np.float64))
    return np.hstack(parts)
