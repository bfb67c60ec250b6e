"""Private predictions on public query rows, for learners without a parameter vector.

The release is the table of predicted probabilities (or numbers) on these rows.  Answering any other
row would be a second release, so it is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from memberbound.errors import InputError
from memberbound.learners.learner import Labels
from memberbound.learners.trained import available_if
from memberbound.numerics.rounding import FloatArray
from memberbound.release.half.fitting import Rows
from memberbound.release.half.linear_fits import Population
from memberbound.release.half.public_coins import with_public_coins
from memberbound.release.half.statistics import clip_rows


class PredictionTable(BaseEstimator):  # type: ignore[misc]
    """Released predictions for the rows of ``query``, and for no others.

    ``table`` has a row per query row: one column for two classes (the second one's probability) or
    for a regression, else a column per class.  It is noisy; ``predict_proba`` maps it to
    probabilities, which is post-processing.

    Examples:
        >>> table, names = np.array([[0.75], [-0.2]]), np.array(["no", "yes"])
        >>> answers = PredictionTable(np.eye(2), table, names)
        >>> answers.predict(np.eye(2)).tolist(), answers.predict_proba(np.eye(2)).tolist()
        (['yes', 'no'], [[0.25, 0.75], [1.0, 0.0]])
    """

    def __init__(self, query: FloatArray, table: FloatArray, classes: Labels | None = None) -> None:
        self.query = query
        self.table = table
        self.classes = classes

    def _answers(self, rows: ArrayLike) -> FloatArray:
        wanted = np.asarray(rows, dtype=np.float64)
        if wanted.ndim != 2 or wanted.shape[1] != self.query.shape[1]:
            raise InputError(
                f"rows must have {self.query.shape[1]} columns, got shape {wanted.shape!r}."
            )
        # Adding 0.0 makes -0.0 and 0.0 the same bytes.
        indices = {row.tobytes(): index for index, row in enumerate(self.query + 0.0)}
        numbers = [indices.get(row.tobytes()) for row in np.ascontiguousarray(wanted + 0.0)]
        missing = sum(index is None for index in numbers)
        if missing:
            raise InputError(
                f"rows must be among the {len(self.query)} released query rows, got {missing} that "
                "are not. An answer to another row would be a second release: put it into query=."
            )
        return np.asarray(self.table[np.array(numbers, dtype=np.int64)])

    def predict(self, rows: ArrayLike) -> Labels:
        """Return classes or numbers."""
        answers = self._answers(rows)
        if self.classes is None:
            return answers[:, 0]
        return np.asarray(self.classes[_probabilities(answers).argmax(axis=1)])

    @available_if(lambda self: self.classes is not None)
    def predict_proba(self, rows: ArrayLike) -> FloatArray:
        """Return probabilities of the classes."""
        return _probabilities(self._answers(rows))


def _probabilities(answers: FloatArray) -> FloatArray:
    """Convert noisy answers to probabilities: clip to [0, 1] and normalise."""
    cut = np.clip(answers, 0.0, 1.0)
    if answers.shape[1] == 1:
        return np.hstack([1.0 - cut, cut])
    cut = np.where(cut.sum(axis=1, keepdims=True) > 0, cut, 1.0)
    return np.asarray(cut / cut.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class FittedPredictions:
    """A Statistic: predictions on ``query`` of an estimator fitted on a subset, flattened.

    The query rows are clipped like those of the population.
    """

    estimator: BaseEstimator
    population: Population
    query: FloatArray
    clip: float | None

    @classmethod
    def of(
        cls,
        estimator: BaseEstimator,
        population: Population,
        query: FloatArray,
        clip: float | None = None,
    ) -> FittedPredictions:
        """Prepare an unfitted estimator."""
        if query.ndim != 2 or len(query) == 0 or query.shape[1] != population.features.shape[1]:
            raise InputError(
                f"query must be rows of {population.features.shape[1]} features, "
                f"got shape {query.shape!r}."
            )
        return cls(with_public_coins(clone(estimator)), population, query, clip)

    @property
    def dimension(self) -> int:
        """Query rows times released columns."""
        return len(self.query) * self.population.outputs

    def __call__(self, rows: Rows) -> FloatArray:
        """Fit on these records and predict the query rows."""
        people = self.population
        target, classes = people.target[rows], people.classes
        if classes is not None and len(np.unique(target)) == 1:
            # Many learners reject a single class; its probability is 1.
            answers = np.tile(classes == target[0], (len(self.query), 1)).astype(np.float64)
            return self._columns(answers)
        model = clone(self.estimator).fit(people.features[rows], target)
        query = clip_rows(self.query, self.clip)
        if classes is None:
            return np.ravel(np.asarray(model.predict(query), dtype=np.float64))
        answers = np.zeros((len(self.query), len(classes)))
        if hasattr(model, "predict_proba"):
            present = np.searchsorted(classes, model.classes_)
            answers[:, present] = model.predict_proba(query)
        else:
            predicted = np.searchsorted(classes, model.predict(query))
            answers[np.arange(len(predicted)), predicted] = 1.0
        return self._columns(answers)

    @staticmethod
    def _columns(answers: FloatArray) -> FloatArray:
        return np.ravel(answers[:, 1:] if answers.shape[1] == 2 else answers)

    def model(self, vector: FloatArray) -> PredictionTable:
        """Return the prediction table with this vector."""
        table = vector.reshape(len(self.query), -1).copy()
        return PredictionTable(self.query.copy(), table, self.population.classes)
