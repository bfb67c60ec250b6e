"""What a fit gives away as numbers: a linear model's parameters, or predictions on a query set."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray
from memberbound.release.half.fitting import with_public_coins
from memberbound.release.half.least_noise import Rows

# ── A fitted linear model as a vector of numbers, and back ────────────────────────────────────────
#
# The vector has one length whatever the subset: classes are the population's, and a class that a
# subset lacks gets fixed values.  The way back fills a *shell*: an estimator fitted on a few made-
# up rows, so that nothing of the secret fit but the released vector reaches it.

#: Classes of any kind, or numbers.
Labels = NDArray[Any]

#: Estimators of scikit-learn whose coefficients and intercepts are released.
_LINEAR = ("LinearRegression", "LinearSVC", "LogisticRegression", "Ridge", "RidgeClassifier")


@dataclass(frozen=True, eq=False)
class Population:
    """All records: features, target, and the classes of a classification."""

    features: FloatArray
    target: Labels
    classes: Labels | None = None

    @property
    def records(self) -> int:
        """Number of records."""
        return len(self.features)

    @property
    def outputs(self) -> int:
        """Numbers that a linear model predicts per row: classes beyond two, else one."""
        return 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)


@dataclass(frozen=True, eq=False)
class FittedParameters:
    """Coefficients and intercepts of a linear model fitted on a subset: a Statistic.

    Scores of logistic regression count up to a common shift, so those of several classes are
    centred, and an absent class has zeros: the mean score, which the largest present score is never
    below.  Others have one score per class against the rest, and an absent class has the constant
    score -1, its own perfect fit.

    Examples:
        >>> from sklearn.linear_model import Ridge
        >>> people = Population(np.arange(6.0)[:, None], np.arange(6.0))
        >>> slope, height = FittedParameters.of(Ridge(alpha=1e-9), people)(np.arange(4))
        >>> round(float(slope), 6), abs(round(float(height), 6))
        (1.0, 0.0)
    """

    estimator: BaseEstimator
    population: Population

    @classmethod
    def of(cls, estimator: BaseEstimator, population: Population) -> FittedParameters:
        """Prepare an unfitted estimator."""
        name = type(estimator).__name__
        if type(estimator).__module__.partition(".")[0] != "sklearn" or name not in _LINEAR:
            raise InputError(
                f"estimator must be one of {', '.join(_LINEAR)}, or come with query rows, got "
                f"{name}. Put scalers before HalfPrivate, not inside."
            )
        return cls(with_public_coins(clone(estimator)), population)

    @property
    def dimension(self) -> int:
        """Outputs times features, and an intercept each."""
        width = self.population.features.shape[1] + bool(self.estimator.fit_intercept)
        return self.population.outputs * int(width)

    @property
    def _softmax(self) -> bool:
        return type(self.estimator).__name__ == "LogisticRegression"

    def __call__(self, rows: Rows) -> FloatArray:
        """Fit on these records and return the vector."""
        people = self.population
        features, target = people.features[rows], people.target[rows]
        if people.classes is not None:
            present = np.unique(target)
            if len(present) == 1:
                return self._of_one_class(int(np.searchsorted(people.classes, present[0])), rows)
        model = clone(self.estimator).fit(features, target)
        table = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
        if model.fit_intercept:
            heights = np.broadcast_to(np.ravel(model.intercept_), (len(table),))
            table = np.column_stack([table, heights])
        if people.classes is not None and people.outputs > 1:
            table = self._of_all_classes(table, model.classes_, people.classes)
        return np.asarray(table.ravel())

    def _of_all_classes(self, table: FloatArray, present: Labels, classes: Labels) -> FloatArray:
        if len(table) == 1:
            # A binary fit has one row of scores: the second class's, minus that of the first.
            table = np.vstack([-table, table]) / (2.0 if self._softmax else 1.0)
        full = np.zeros((len(classes), table.shape[1]))
        if not self._softmax and self.estimator.fit_intercept:
            full[:, -1] = -1.0
        places = np.searchsorted(classes, present)
        full[places] = table - table.mean(axis=0) if self._softmax else table
        return full

    def _of_one_class(self, place: int, rows: Rows) -> FloatArray:
        """Return the vector of a subset with one class only, which a learner may refuse."""
        outputs = self.population.outputs
        table = np.zeros((outputs, self.dimension // outputs))
        if self.estimator.fit_intercept:
            # The logarithm of the odds with one made-up member of the other side, or a perfect ±1.
            height = float(np.log(len(rows) + 1.0)) if self._softmax else 1.0
            if outputs == 1:
                table[0, -1] = height if place else -height
            else:
                table[:, -1] = 0.0 if self._softmax else -1.0
                table[place, -1] = height
                table[:, -1] -= table[:, -1].mean() if self._softmax else 0.0
        return table.ravel()

    @cached_property
    def _shell(self) -> BaseEstimator:
        """A fit on a few rows that are the same for every population of this shape."""
        classes, width = self.population.classes, self.population.features.shape[1]
        count = 8 if classes is None else 4 * len(classes)
        rows = np.sin(np.arange(1.0, count * width + 1)).reshape(count, width)
        target = np.cos(np.arange(1.0, count + 1)) if classes is None else np.repeat(classes, 4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return clone(self.estimator).fit(rows, target)

    def model(self, vector: FloatArray) -> BaseEstimator:
        """Return an estimator with this vector, which knows nothing else of any subset."""
        if vector.shape != (self.dimension,) or not np.isfinite(vector).all():
            raise InputError("a released parameter vector must be finite and of the right length.")
        model = copy.deepcopy(self._shell)
        table = vector.reshape(self.population.outputs, -1)
        flat = np.ndim(model.coef_) == 1
        if model.fit_intercept:
            heights = table[:, -1].copy()
            model.intercept_ = float(heights[0]) if np.ndim(model.intercept_) == 0 else heights
            table = table[:, :-1]
        model.coef_ = table[0].copy() if flat else table.copy()
        return model


def clipped_rows(rows: FloatArray, radius: float | None) -> FloatArray:
    """Scale every row that is longer than the radius to that length; None leaves all as they are.

    Examples:
        >>> clipped_rows(np.array([[3.0, 4.0], [0.3, 0.4]]), 2.5).tolist()
        [[1.5, 2.0], [0.3, 0.4]]
    """
    if radius is None:
        return rows
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.where(lengths > radius, radius / np.maximum(lengths, radius), 1.0))


# ── Private predictions on a fixed query set, for learners without a parameter vector ─────────────
#
# The release is the table of predicted probabilities (or numbers) on public query rows.  The answer
# to any other row would be a second release, so it is refused.


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
        places = {row.tobytes(): place for place, row in enumerate(self.query + 0.0)}
        numbers = [places.get(row.tobytes()) for row in np.ascontiguousarray(wanted + 0.0)]
        missing = sum(place is None for place in numbers)
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

    def predict_proba(self, rows: ArrayLike) -> FloatArray:
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
    count = (order * ranks > sums).sum(axis=1)
    threshold = np.take_along_axis(sums, count[:, None] - 1, 1) / count[:, None]
    return np.asarray(np.maximum(answers - threshold, 0.0))


@dataclass(frozen=True, eq=False)
class FittedPredictions:
    """Predictions on ``query`` of an estimator fitted on a subset, flattened: a Statistic.

    ``asked`` is the query as published; ``query`` the same rows as the estimator gets them.
    """

    estimator: BaseEstimator
    population: Population
    query: FloatArray
    asked: FloatArray

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
        learner = with_public_coins(clone(estimator))
        return cls(learner, population, clipped_rows(query, clip), query)

    @property
    def dimension(self) -> int:
        """Query rows times released columns."""
        return len(self.query) * self.population.outputs

    def __call__(self, rows: Rows) -> FloatArray:
        """Fit on these records and answer the query."""
        people = self.population
        target, classes = people.target[rows], people.classes
        if classes is not None and len(np.unique(target)) == 1:
            # Many learners refuse a single class; its probability is 1.
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
            predicted = np.searchsorted(classes, model.predict(self.query))
            answers[np.arange(len(predicted)), predicted] = 1.0
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


#: Statistics from whose vector a model can be made.
Learnable = FittedParameters | FittedPredictions
