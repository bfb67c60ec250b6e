"""Learners that are functions of sums over the training set: least squares, naive Bayes, one step.

The sums are released with noise, and the model is computed from them.  A sum over many records is
nearly normal, so the crowd hides each of them (X21), whatever the model does with it afterwards.
Columns are centred and scaled by the population's means and spreads, which are public in the
subset game.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray
from memberbound.release.parameters import FittedParameters, Population, coded_target
from memberbound.release.statistics import SumStatistic

__all__ = ["SUM_LEARNERS", "SumParameters", "sum_recipe"]

#: Learners by the name of their scikit-learn class.
SUM_LEARNERS = (
    "Ridge",
    "RidgeClassifier",
    "LinearRegression",
    "LogisticRegression",
    "GaussianNB",
)
#: Spreads are not taken below this share of the widest one's.
_LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class _Recipe(ABC):
    """How records become vectors, and means of vectors a parameter vector of the learner."""

    estimator: BaseEstimator
    population: Population
    centre: FloatArray
    width: FloatArray

    @property
    def standard(self) -> FloatArray:
        """The rows, centred and scaled by public numbers."""
        return np.asarray((self.population.features - self.centre) / self.width)

    @property
    def augmented(self) -> FloatArray:
        """The same with a column of ones, if the learner has an intercept."""
        rows = self.standard
        return np.column_stack([rows, np.ones(len(rows))]) if self.intercept else rows

    @property
    def intercept(self) -> bool:
        """Whether the learner has one."""
        return bool(self.estimator.get_params(deep=False).get("fit_intercept", True))

    def _classes(self) -> tuple[NDArray[np.int64], int]:
        """Return the class of each record by its place, and how many there are."""
        known, target = self.population.classes, self.population.target
        assert known is not None
        assert target is not None
        return np.searchsorted(known, target), len(known)

    def linear(self, table: FloatArray, offset: FloatArray) -> FloatArray:
        """Return rows (output, column) in the units of the features, as scikit-learn has them."""
        slopes = table[:, : len(self.width)] / self.width
        if not self.intercept:
            return np.asarray(slopes.ravel())
        heights = table[:, -1] - slopes @ self.centre + offset
        return np.column_stack([slopes, heights]).ravel()

    @abstractmethod
    def vectors(self) -> FloatArray:
        """Return one vector per record."""

    @abstractmethod
    def parameters(self, means: FloatArray, size: int) -> FloatArray:
        """Return the learner's parameters from the means of the vectors over ``size`` records."""


class _LeastSquares(_Recipe):
    """Σzzᵀ and Σzy, z with the constant: the normal equations."""

    @property
    def _targets(self) -> tuple[FloatArray, FloatArray]:
        coded, offset = coded_target("ridge", self.population)
        return np.asarray(coded, dtype=np.float64), offset

    def vectors(self) -> FloatArray:
        rows, (targets, _) = self.augmented, self._targets
        first, second = np.triu_indices(rows.shape[1])
        products = rows[:, first] * rows[:, second]
        cross = rows[:, :, None] * targets[:, None, :]
        return np.column_stack([products, cross.reshape(len(rows), -1)])

    def parameters(self, means: FloatArray, size: int) -> FloatArray:
        _, offset = self._targets
        wide = len(self.width) + self.intercept
        first, second = np.triu_indices(wide)
        square = np.zeros((wide, wide))
        square[first, second] = means[: len(first)]
        square[second, first] = means[: len(first)]
        cross = means[len(first) :].reshape(wide, -1)
        known = self.estimator.get_params(deep=False)
        # alpha is a price for slopes per unit of the features; the intercept is free.
        price = np.zeros(wide)
        price[: len(self.width)] = float(known.get("alpha", 0.0)) / np.square(self.width) / size
        # Noise may have made the matrix of second moments indefinite: the nearest that is not.
        values, axes = np.linalg.eigh((square + square.T) / 2)
        square = (axes * np.maximum(values, 0.0)) @ axes.T
        weights = np.linalg.lstsq(square + np.diag(price), cross, rcond=1e-10)[0]
        return self.linear(weights.T, np.atleast_1d(offset))


class _NewtonStep(_Recipe):
    """Σ(1{y = c} - 1/K)z: the gradient at 0, with the population's own curvature there.

    For two classes one row of weights: Σ(y - ½)z and a quarter of the second moments.
    """

    def vectors(self) -> FloatArray:
        rows, codes, groups = self.augmented, *self._classes()
        if groups == 2:
            return np.asarray(rows * (codes - 0.5)[:, None])
        pulls = np.eye(groups)[codes] - 1 / groups
        return np.asarray((pulls[:, :, None] * rows[:, None, :]).reshape(len(rows), -1))

    def parameters(self, means: FloatArray, size: int) -> FloatArray:
        rows, (_, groups) = self.augmented, self._classes()
        bend = 0.25 if groups == 2 else 1 / groups
        price = np.zeros(rows.shape[1])
        strength = float(self.estimator.get_params(deep=False)["C"]) * size
        price[: len(self.width)] = 1 / (strength * np.square(self.width))
        # A trace of it everywhere: constant columns bend nothing.
        curvature = bend * rows.T @ rows / len(rows) + np.diag(price + 1e-9)
        table = np.asarray(
            np.linalg.solve(curvature, means.reshape(-1, rows.shape[1]).T).T, dtype=np.float64
        )
        return self.linear(table, np.zeros(len(table)))


class _Bayes(_Recipe):
    """Per class the count, Σz and Σz²."""

    def vectors(self) -> FloatArray:
        rows, (codes, groups) = self.standard, self._classes()
        own = np.column_stack([np.ones(len(rows)), rows, np.square(rows)])
        blocks = np.eye(groups)[codes][:, :, None] * own[:, None, :]
        return np.asarray(blocks.reshape(len(rows), -1))

    def parameters(self, means: FloatArray, size: int) -> FloatArray:
        groups, wide = self._classes()[1], len(self.width)
        table = means.reshape(groups, -1)
        shares = np.maximum(table[:, 0], 1 / size)
        centres = table[:, 1 : 1 + wide] / shares[:, None]
        # Standardised columns have spread one: a hundredth of it is the least that noise may leave.
        spreads = np.maximum(table[:, 1 + wide :] / shares[:, None] - np.square(centres), 0.01)
        parts = [
            (self.centre + centres * self.width).ravel(),
            np.log(spreads * np.square(self.width)).ravel(),
        ]
        if self.estimator.get_params(deep=False).get("priors") is None:
            parts.append(np.log((shares * size + 0.5) / (shares.sum() * size + 0.5 * groups)))
        return np.concatenate(parts)


#: 1952 sums: noise on more leaves nothing of the model, and finding it takes minutes and gigabytes.
_MOST_COLUMNS = 60


def sum_recipe(estimator: BaseEstimator) -> type[_Recipe] | None:
    """Return how this learner is made from sums, or None if it is not.

    Edge cases: other penalties than scikit-learn's plain L2 one, class weights and positive
    coefficients are not functions of these sums.
    """
    name, known = type(estimator).__name__, estimator.get_params(deep=False)
    if not type(estimator).__module__.startswith("sklearn.") or name not in SUM_LEARNERS:
        return None
    if known.get("class_weight") is not None or known.get("positive", False):
        return None
    if name == "GaussianNB":
        return _Bayes
    if name == "LogisticRegression":
        plain = known.get("penalty", "l2") in ("l2", "deprecated")
        return (
            _NewtonStep if plain and known.get("l1_ratio") in (None, 0, 0.0, "deprecated") else None
        )
    return _LeastSquares if np.ndim(known.get("alpha", 0.0)) == 0 else None


@dataclass(frozen=True, eq=False)
class SumParameters(SumStatistic):
    """A learner's sums, each over its spread in the population: a SumStatistic with a model.

    Examples:
        >>> from sklearn.linear_model import Ridge
        >>> people = Population(np.arange(6.0)[:, None], 2 * np.arange(6.0))
        >>> sums = SumParameters.of(Ridge(alpha=1e-9), people, size=4)
        >>> model = sums.model(sums(np.arange(4)))
        >>> round(float(model.coef_[0]), 6), abs(round(float(model.intercept_), 6))
        (2.0, 0.0)
    """

    recipe: _Recipe | None = None
    spread: FloatArray | None = None
    shape_of: FittedParameters | None = None

    @classmethod
    def of(cls, estimator: BaseEstimator, population: Population, size: int) -> SumParameters:
        """Take the sums that an estimator is a function of."""
        kind = sum_recipe(estimator)
        if kind is None:
            raise InputError(
                f"estimator must be one of {', '.join(SUM_LEARNERS)} of scikit-learn, with a plain "
                f"L2 penalty, for method='crowd', got {estimator!r}: others are no functions of "
                "sums. Use 'neighbour', 'convex' or 'moment'."
            )
        if population.target is None:
            raise InputError("y must be given for a learner from sums, got None.")
        features = population.features
        if kind is _LeastSquares and features.shape[1] > _MOST_COLUMNS:
            raise InputError(
                f"features must have at most {_MOST_COLUMNS} encoded columns for method='crowd', "
                f"got {features.shape[1]}: {type(estimator).__name__} is a function of a sum for "
                "every pair of them. Leave columns out, or use method='gradient'."
            )
        recipe = kind(estimator, population, features.mean(axis=0), _positive(features.std(axis=0)))
        vectors = recipe.vectors()
        spread = _positive(vectors.std(axis=0))
        shape = FittedParameters.of(estimator, population)
        return cls(vectors / spread, (), size, recipe, spread, shape)

    def model(self, vector: FloatArray) -> BaseEstimator:
        """Return the scikit-learn estimator with the parameters that these means give."""
        assert self.recipe is not None
        assert self.spread is not None
        assert self.shape_of is not None
        if vector.shape != (self.dimension,) or not np.isfinite(vector).all():
            raise InputError("released means must be finite and of the right length.")
        found = self.recipe.parameters(vector * self.spread, self.size)
        return self.shape_of.model(found)


def _positive(spread: FloatArray) -> FloatArray:
    """Return spreads, with 1 for what does not vary."""
    least = _LEAST * float(spread.max(initial=0.0))
    return np.asarray(np.where(spread > least, spread, 1.0))
