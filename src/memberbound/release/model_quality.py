"""How good a released model is: accuracy, AUC and log loss of classes, R² of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memberbound.answers import INTERNAL, EstimateOf
from memberbound.learners.examples import Labels
from memberbound.numerics.rounding import FloatArray
from memberbound.tables.columns import Values

#: A model's scores by name; the first is the one that counts.
ModelScores = dict[str, float]
#: Scores of probabilities, of which less is better.
_LOG_LOSS, _CALIBRATION = "log loss", "calibration error"
#: Rows are put into so many groups of equal size for the calibration error.
_GROUPS = 10


@dataclass(frozen=True)
class Score:
    """One score on rows that were not trained on: without noise, released, of a constant.

    All are estimates.
    """

    name: str = field(metadata=INTERNAL)
    clean_estimate: EstimateOf | None
    released_estimate: EstimateOf
    constant_estimate: EstimateOf | None

    @property
    def finite(self) -> bool:
        """Whether all of it are numbers that can be shown."""
        numbers = (self.clean_estimate, self.released_estimate, self.constant_estimate)
        return all(math.isfinite(number) for number in numbers if number is not None)


def truth_of(values: Values, *, numbers: bool) -> tuple[Labels, NDArray[np.bool_]]:
    """Return a target as numbers or texts, and where it has a value."""
    if numbers:
        return values.numbers, np.isfinite(values.numbers)
    places, names = values.factorize()
    return np.array([*names, ""], dtype=str)[places], places >= 0


def constant_answer(truth: Labels) -> Any:
    """Return the best answer that is the same for all rows: the mean, or the commonest class."""
    if truth.dtype.kind == "f":
        return truth.mean()
    names, counts = np.unique(truth, return_counts=True)
    return names[int(counts.argmax())]


def answers_of(model: Any, rows: Any, classes: Sequence[str]) -> tuple[Labels, FloatArray]:
    """Return a model's answers, and its ranking with a column for every class."""
    answers = np.asarray(model.predict(rows))
    rank = getattr(model, "decision_function", getattr(model, "predict_proba", None))
    if not classes or rank is None:
        return answers, np.zeros((len(answers), 0))
    scores = np.asarray(rank(rows), dtype=np.float64)
    if scores.ndim == 1:
        scores = np.column_stack([-scores, scores])
    return answers, by_class(model, scores, classes, -np.inf)


def by_class(model: Any, values: FloatArray, classes: Sequence[str], absent: float) -> FloatArray:
    """Return a model's values with a column for every class, also of those it does not know."""
    ordered = np.full((len(values), len(classes)), absent)
    for place, name in enumerate(model.classes_):
        if str(name) in classes:
            ordered[:, classes.index(str(name))] = values[:, place]
    return ordered


def scores_of(
    truth: Labels, answers: Labels, ranking: FloatArray, classes: Sequence[str]
) -> ModelScores:
    """Return the scores of answers to rows with a known truth; without classes they are numbers.

    The AUC is the mean over classes, each against the rest; it is left out where there is none.
    """
    from sklearn.metrics import accuracy_score, balanced_accuracy_score, r2_score, roc_auc_score

    if not classes:
        return {"R²": float(r2_score(truth, answers))}
    names = truth.astype(str)
    scores = {
        "accuracy": float(accuracy_score(names, answers.astype(str))),
        "balanced accuracy": float(balanced_accuracy_score(names, answers.astype(str))),
    }
    areas = []
    for place, name in enumerate(classes[: ranking.shape[1]]):
        of_it = names == name
        if 0 < of_it.sum() < len(of_it):
            others = np.delete(ranking, place, axis=1).max(axis=1)
            margin = np.nan_to_num(ranking[:, place] - others, neginf=-1e300, posinf=1e300)
            areas.append(roc_auc_score(of_it, margin))
    return scores | ({"AUC": float(np.mean(areas))} if areas else {})


def probability_scores(
    truth: Labels, probabilities: FloatArray, classes: Sequence[str]
) -> ModelScores:
    """Return the log loss of class probabilities, and how far they are off; less is better.

    The calibration error is the mean distance between probability and share of the class in ten
    groups of rows, by their probability: of the second of two classes, else of the likeliest class.
    Rows of other classes are left out.

    Examples:
        >>> truth = np.array(["no", "yes"] * 50)
        >>> scores = probability_scores(truth, np.full((100, 2), [0.4, 0.6]), ("no", "yes"))
        >>> {name: round(score, 3) for name, score in scores.items()}
        {'log loss': 0.714, 'calibration error': 0.1}
    """
    places = {name: place for place, name in enumerate(classes)}
    codes = np.array([places.get(name, -1) for name in truth.astype(str)])
    codes, probabilities = codes[codes >= 0], probabilities[codes >= 0]
    rows = np.arange(len(codes))
    loss = -float(np.mean(np.log(np.maximum(probabilities[rows, codes], 1e-15))))
    best = np.ones_like(codes) if len(classes) == 2 else probabilities.argmax(axis=1)
    stated, right = probabilities[rows, best], codes == best
    # Equal probabilities are in one group.
    groups = np.searchsorted(np.quantile(stated, np.arange(1, _GROUPS) / _GROUPS), stated)
    off = np.bincount(groups, stated - right, _GROUPS)
    return {_LOG_LOSS: loss, _CALIBRATION: float(np.abs(off).sum()) / len(codes)}


def usefulness_notes(scores: Sequence[Score]) -> list[str]:
    """Say so where a release does no better than always giving the same answer."""
    constant = scores[0].constant_estimate if scores else None
    if constant is None or scores[0].released_estimate > constant:
        return []
    return [
        f"always giving the same answer has as good an {scores[0].name}: look at the other scores, "
        "allow a larger eta, or find more rows"
    ]
