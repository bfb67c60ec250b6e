"""How good a released model is: accuracy, balanced accuracy and AUC of classes, R² of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memberbound.answers import INTERNAL, EstimateOf
from memberbound.numerics.rounding import FloatArray
from memberbound.quantities import decimals

__all__ = ["ModelScores", "Score", "answers_of", "scores_of", "usefulness_notes"]

Labels = NDArray[Any]
#: A model's scores by name; the first is the one that counts.
ModelScores = dict[str, float]
#: A score this far above a constant's says something.
_NOTABLE = 0.05


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


def answers_of(model: Any, rows: Any, classes: Sequence[str]) -> tuple[Labels, FloatArray]:
    """Return a model's answers, and its ranking with a column for every class."""
    answers = np.asarray(model.predict(rows))
    rank = getattr(model, "decision_function", getattr(model, "predict_proba", None))
    if not classes or rank is None:
        return answers, np.zeros((len(answers), 0))
    scores = np.asarray(rank(rows), dtype=np.float64)
    if scores.ndim == 1:
        scores = np.column_stack([-scores, scores])
    ranking = np.full((len(answers), len(classes)), -np.inf)
    for place, name in enumerate(model.classes_):
        if str(name) in classes:
            ranking[:, classes.index(str(name))] = scores[:, place]
    return answers, ranking


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


def usefulness_notes(scores: Sequence[Score]) -> list[str]:
    """Say so where a release does no better than always giving the same answer."""
    constant = scores[0].constant_estimate if scores else None
    if constant is None or scores[0].released_estimate > constant:
        return []
    better = [
        score
        for score in scores
        if score.constant_estimate is not None
        and score.released_estimate > score.constant_estimate + _NOTABLE
    ]
    if better:
        named = " and ".join(
            f"{score.name} {decimals(score.released_estimate, 'estimate', 3)}" for score in better
        )
        return [
            f"always giving the same answer has as good an {scores[0].name}: the classes are "
            f"uneven, so look at {named} instead"
        ]
    return [
        "this release is useless: always giving the same answer scores as well. Allow a larger "
        "eta, or find more rows"
    ]
