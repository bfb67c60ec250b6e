"""Private predictions on a fixed query set, for learners without a parameter vector.

The release is the table of predicted probabilities (or numbers) on public query rows.  The answer
to any other row would be a second release, so it is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray
from memberbound.protection.calibration import Rows
from memberbound.protection.coins import with_public_coins
from memberbound.protection.parameters import Population

__all__ = ["FittedPredictions", "PredictionTable"]


class PredictionTable(BaseEstimator):  # type: ignore[misc]
    """Released answers: what a model says about the rows of ``query``, and about no other.

    ``table`` has a row per query row: one column for two classes (the second one's probability) or
    for a regression, else a column per class.  It is noisy; ``predict_proba`` maps it to
    probabilities, which is post-processing.

    Examples:
        >>> table, names = np.array([[0.75], [-0.2]]), np.array(["no", "yes"])
        >>> answers = PredictionTable(np.eye(2), table, names)
        >>> answers.predict(np.eye(2)).tolist(), answers.predict_proba(np.eye(2)).tolist()
        (['yes', 'no'], [[0.25, 0.75], [1.0, 0.0]])
    """

    def __init__(
        self, query: FloatArray, table: FloatArray, classes: NDArray[Any] | None = None
    ) -> None:
        self.query = query
        self.table = table
        self.classes = classes

    def _answers(self, rows: Any) -> FloatArray:
        asked = np.asarray(rows, dtype=np.float64)
        if asked.ndim != 2 or asked.shape[1] != self.query.shape[1]:
            raise InputError(
                f"rows must have {self.query.shape[1]} columns, got shape {asked.shape!r}."
            )
        # Adding 0.0 makes -0.0 and 0.0 the same bytes.
        places = {row.tobytes(): place for place, row in enumerate(self.query + 0.0)}
        found = [places.get(row.tobytes()) for row in np.ascontiguousarray(asked + 0.0)]
        missing = sum(place is None for place in found)
        if missing:
            raise InputError(
                f"rows must be among the {len(self.query)} released query rows, got {missing} that "
                "are not. An answer to another row would be a second release: put it into query=."
            )
        return np.asarray(self.table[np.array(found, dtype=np.int64)])

    def predict(self, rows: Any) -> NDArray[Any]:
        """Return classes or numbers."""
        answers = self._answers(rows)
        if self.classes is None:
            return answers[:, 0] if answers.shape[1] == 1 else answers
        return np.asarray(self.classes[_probabilities(answers).argmax(axis=1)])

    def predict_proba(self, rows: Any) -> FloatArray:
        """Return probabilities of the classes."""
        answers = self._answers(rows)
        if self.classes is None:
            raise AttributeError("a regression has no predict_proba.")
        return _probabilities(answers)


def _probabilities(answers: FloatArray) -> FloatArray:
    """Return the nearest probabilities: rows projected onto the simplex."""
    if answers.shape[1] == 1:
        second = np.clip(answers, 0.0, 1.0)
        return np.hstack([1.0 - second, second])
    # Euclidean projection: subtract the threshold at which the positive parts add up to one.
    order = -np.sort(-answers, axis=1)
    sums = np.cumsum(order, axis=1) - 1.0
    ranks = np.arange(1, answers.shape[1] + 1)
    kept = (order * ranks > sums).sum(axis=1)
    threshold = np.take_along_axis(sums, kept[:, None] - 1, 1) / kept[:, None]
    return np.asarray(np.maximum(answers - threshold, 0.0))


@dataclass(frozen=True, eq=False)
class FittedPredictions:
    """Predictions on ``query`` of an estimator fitted on a subset, flattened: a Statistic.

    ``asked`` is the query as published; ``query`` the same rows as the estimator gets them.
    """

    estimator: Any
    population: Population
    query: FloatArray
    asked: FloatArray

    @classmethod
    def of(
        cls,
        estimator: Any,
        population: Population,
        query: FloatArray,
        asked: FloatArray | None = None,
    ) -> FittedPredictions:
        """Prepare an unfitted estimator."""
        from sklearn.base import clone

        if query.ndim != 2 or len(query) == 0 or query.shape[1] != population.features.shape[1]:
            raise InputError(
                f"query must be rows of {population.features.shape[1]} features, "
                f"got shape {query.shape!r}."
            )
        published = query if asked is None else asked
        return cls(with_public_coins(clone(estimator)), population, query, published)

    @property
    def dimension(self) -> int:
        """Query rows times released columns."""
        return len(self.query) * self.population.outputs

    def __call__(self, rows: Rows) -> FloatArray:
        """Fit on these records and answer the query."""
        from sklearn.base import clone

        people = self.population
        if people.target is None:
            raise InputError("y must be given for private predictions, got None.")
        target, classes = people.target[rows], people.classes
        if classes is not None and len(np.unique(target)) == 1:
            # Many learners refuse one class; the answer is plain.
            answers = np.tile(classes == target[0], (len(self.query), 1)).astype(np.float64)
            return self._columns(answers)
        model = clone(self.estimator).fit(people.features[rows], target)
        if classes is None:
            return np.ravel(np.asarray(model.predict(self.query), dtype=np.float64))
        answers = np.zeros((len(self.query), len(classes)))
        if hasattr(model, "predict_proba"):
            present = np.searchsorted(classes, model.classes_)
            answers[:, present] = model.predict_proba(self.query)
        else:
            said = np.searchsorted(classes, model.predict(self.query))
            answers[np.arange(len(said)), said] = 1.0
        return self._columns(answers)

    @staticmethod
    def _columns(answers: FloatArray) -> FloatArray:
        return np.ravel(answers[:, 1:] if answers.shape[1] == 2 else answers)

    def model(self, vector: FloatArray) -> PredictionTable:
        """Return the table of answers with this vector."""
        if vector.shape != (self.dimension,) or not np.isfinite(vector).all():
            raise InputError("released predictions must be finite and of the right length.")
        table = vector.reshape(len(self.query), -1).copy()
        return PredictionTable(self.asked.copy(), table, self.population.classes)
