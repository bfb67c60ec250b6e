"""Statistics of fitted estimators: what fitting on a subset of the population yields."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray
from memberbound.protection.calibration import Rows
from memberbound.protection.parameters import Adapter, Population

__all__ = ["FittedParameters", "clipped_rows"]


@dataclass(frozen=True, eq=False)
class FittedParameters:
    """The parameter vector of an estimator fitted on a subset: a Statistic.

    Examples:
        >>> from sklearn.linear_model import Ridge
        >>> from memberbound.protection.parameters import adapter_for
        >>> people = Population(np.arange(6.0)[:, None], np.arange(6.0))
        >>> slope, height = FittedParameters.of(Ridge(alpha=1e-9), people)(np.arange(4))
        >>> round(float(slope), 6), abs(round(float(height), 6))
        (1.0, 0.0)
    """

    estimator: Any
    adapter: Adapter
    population: Population
    dimension: int

    @classmethod
    def of(
        cls, estimator: Any, population: Population, adapter: Adapter | None = None
    ) -> FittedParameters:
        """Prepare an unfitted estimator."""
        from memberbound.protection.parameters import adapter_for

        how = adapter_for(estimator, adapter)
        size = how.dimension(estimator, population)
        return cls(how.prepared(estimator, population), how, population, size)

    def fitted(self, rows: Rows) -> Any:
        """Return a fresh fit on these records."""
        from sklearn.base import clone

        people = self.population
        model = clone(self.estimator)
        if people.target is None:
            return model.fit(people.features[rows])
        return model.fit(people.features[rows], people.target[rows])

    def __call__(self, rows: Rows) -> FloatArray:
        """Fit on these records and return the vector."""
        people = self.population
        if people.classes is not None and people.target is not None:
            seen = np.unique(people.target[rows])
            if len(seen) == 1:
                place = int(np.searchsorted(people.classes, seen[0]))
                fixed = self.adapter.of_one_class(place, len(rows), people)
                if fixed is not None:
                    # The last column is the intercept's; without one nothing can be said.
                    return fixed if fixed.size == self.dimension else np.zeros(self.dimension)
        return self.adapter.parameters(self.fitted(rows), people)

    @cached_property
    def _shell(self) -> Any:
        return self.adapter.shell(self.estimator, self.population)

    def model(self, vector: FloatArray) -> Any:
        """Return an estimator with this vector, which knows nothing else of any subset."""
        if vector.shape != (self.dimension,) or not np.isfinite(vector).all():
            raise InputError("a released parameter vector must be finite and of the right length.")
        shell = copy.deepcopy(self._shell)
        self.adapter.set_parameters(shell, vector, self.population)
        return shell


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
