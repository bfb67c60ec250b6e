"""A fitted linear model as a vector of numbers, and back.

The vector has the same length for every subset: classes are the population's, and a class absent
from a subset gets fixed values.  The inverse fills a *shell*: an estimator fitted on a few made-up
rows, so that nothing of the secret fit but the released vector reaches it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn.base import BaseEstimator, clone

from memberbound.errors import InputError
from memberbound.learners.learner import Labels
from memberbound.numerics.rounding import FloatArray
from memberbound.release.half.fitting import Rows
from memberbound.release.half.public_coins import with_public_coins
from memberbound.threads import no_warnings

#: Estimators of scikit-learn with releasable coefficients and intercepts.
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
        """Outputs of a linear model per row: one per class beyond two classes, else one."""
        return 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)


@dataclass(frozen=True, eq=False)
class FittedParameters:
    """A Statistic: coefficients and intercepts of a linear model fitted on a subset.

    Scores of logistic regression are defined up to a common shift.  With several classes they are
    centred, and an absent class gets zeros: the mean score, which is never above the largest score
    of a present class.  Other models have one-versus-rest scores, and an absent class gets the
    constant score -1, its own perfect fit.

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
        """Outputs times features, plus one intercept per output."""
        width = self.population.features.shape[1] + bool(self.estimator.fit_intercept)
        return self.population.outputs * int(width)

    @property
    def _softmax(self) -> bool:
        return type(self.estimator).__name__ == "LogisticRegression"

    def __call__(self, rows: Rows) -> FloatArray:
        """Fit on these records and return the vector."""
        people = self.population
        features, target = people.features[rows], people.target[rows]
        present = target[:0] if people.classes is None else np.unique(target)
        if len(present) == 1:  # a learner may refuse a single class
            table = np.zeros((1, self.dimension // people.outputs))
            if self.estimator.fit_intercept:
                # The log-odds with one made-up record of the other class, or a perfect 1.
                table[0, -1] = np.log(len(rows) + 1.0) if self._softmax else 1.0
        else:
            model = clone(self.estimator).fit(features, target)
            table = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
            if model.fit_intercept:
                heights = np.broadcast_to(np.ravel(model.intercept_), (len(table),))
                table = np.column_stack([table, heights])
        if people.classes is not None:
            table = self._of_all_classes(table, np.searchsorted(people.classes, present))
        return np.asarray(table.ravel())

    def _of_all_classes(self, table: FloatArray, present: Rows) -> FloatArray:
        """Return the scores of all classes, from those of the present ones."""
        if self.population.outputs == 1:
            return -table if present.tolist() == [0] else table
        if len(present) == 2:
            # A binary fit has one row of scores: the second class's minus the first's.
            table = np.vstack([-table, table]) / (2.0 if self._softmax else 1.0)
        full = np.zeros((self.population.outputs, table.shape[1]))
        if self._softmax:
            full[present] = table - (table.mean(axis=0) if len(present) > 1 else 0.0)
            return full - (full.mean(axis=0) if len(present) == 1 else 0.0)
        if self.estimator.fit_intercept:
            full[:, -1] = -1.0
        full[present] = table
        return full

    @cached_property
    def _shell(self) -> BaseEstimator:
        """Return a fit on a few rows that are the same for every population of this shape."""
        classes, width = self.population.classes, self.population.features.shape[1]
        count = 8 if classes is None else 4 * len(classes)
        rows = np.sin(np.arange(1.0, count * width + 1)).reshape(count, width)
        target = np.cos(np.arange(1.0, count + 1)) if classes is None else np.repeat(classes, 4)
        with no_warnings:
            return clone(self.estimator).fit(rows, target)

    def model(self, vector: FloatArray) -> BaseEstimator:
        """Return an estimator with this vector that depends on no subset otherwise."""
        model = copy.deepcopy(self._shell)
        table = vector.reshape(self.population.outputs, -1)
        flat = np.ndim(model.coef_) == 1
        if model.fit_intercept:
            heights = table[:, -1].copy()
            model.intercept_ = float(heights[0]) if np.ndim(model.intercept_) == 0 else heights
            table = table[:, :-1]
        model.coef_ = table[0].copy() if flat else table.copy()
        return model
