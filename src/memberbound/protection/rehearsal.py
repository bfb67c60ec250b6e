"""A protected release as a learner, so that it can be repeated on many halves and attacked.

The noise law stays the one that was calibrated; halves and noise are new each time.  This is what
an audit of a protected release needs: the release itself is made once and cannot be repeated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray
from memberbound.protection.calibration import Calibration, Rows
from memberbound.protection.estimator import MembershipPrivate
from memberbound.protection.fitted_parameters import clipped_rows
from memberbound.protection.learning import Learnable, learnable
from memberbound.protection.parameters import adapter_for
from memberbound.protection.randomness import InsecureSource
from memberbound.protection.releasing import released_vector

__all__ = ["Rehearsal", "ReleasedLearner", "released_learner"]


def _key(features: FloatArray, target: Any) -> tuple[bytes, Any]:
    # Adding 0.0 makes -0.0 and 0.0 the same bytes.
    return (features + 0.0).tobytes(), target


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """The statistic of a release, its noise, and the population it knows its rows by."""

    statistic: Learnable
    calibration: Calibration
    clip: float | None
    places: dict[tuple[bytes, Any], list[int]] = field(repr=False)

    def rows(self, features: FloatArray, target: NDArray[Any]) -> Rows:
        """Return the row numbers of these records; equal records are interchangeable."""
        used: dict[tuple[bytes, Any], int] = defaultdict(int)
        found = []
        for row, value in zip(features, target.tolist(), strict=True):
            key = _key(row, value)
            known = self.places.get(key, ())
            if used[key] >= len(known):
                raise InputError("rows must come from the population of the release, got another.")
            found.append(known[used[key]])
            used[key] += 1
        return np.sort(np.array(found, dtype=np.int64))


def _can(name: str) -> Callable[[ReleasedLearner], bool]:
    def check(self: ReleasedLearner) -> bool:
        return hasattr(getattr(self, "released_", None), name)

    return check


class ReleasedLearner(BaseEstimator):  # type: ignore[misc]
    """Fit the protected learner on given rows of its population, with fresh noise from a seed.

    For audits only: halves and noise come from seeds, so this protects nobody.
    """

    def __init__(self, rehearsal: Rehearsal, random_state: int = 0) -> None:
        self.rehearsal = rehearsal
        self.random_state = random_state

    def fit(self, X: FloatArray, y: NDArray[Any]) -> ReleasedLearner:
        """Train on these rows and add the noise of the release."""
        plan = self.rehearsal
        source = InsecureSource(self.random_state)
        rows = plan.rows(np.asarray(X, dtype=np.float64), np.asarray(y))
        vector = released_vector(plan.statistic, plan.calibration, rows, source)
        self.released_ = plan.statistic.model(vector)
        if hasattr(self.released_, "classes_"):
            self.classes_ = self.released_.classes_
        return self

    def _rows(self, X: FloatArray) -> FloatArray:
        return clipped_rows(np.asarray(X, dtype=np.float64), self.rehearsal.clip)

    def predict(self, X: FloatArray) -> NDArray[Any]:
        """Predict with the noisy model."""
        return np.asarray(self.released_.predict(self._rows(X)))

    @available_if(_can("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return the noisy model's class probabilities."""
        return np.asarray(self.released_.predict_proba(self._rows(X)))

    @available_if(_can("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: FloatArray) -> FloatArray:
        """Return the noisy model's scores."""
        return np.asarray(self.released_.decision_function(self._rows(X)))


def released_learner(model: MembershipPrivate, X: FloatArray, y: NDArray[Any]) -> ReleasedLearner:
    """Return a fitted :class:`MembershipPrivate` as a learner on rows of its population (X, y).

    The same statistic, clip radius, regularisation and noise law as in the release.

    Edge cases: predictions on query rows are no parameters and are refused.

    Examples:
        >>> from sklearn.datasets import make_classification
        >>> from sklearn.linear_model import LogisticRegression
        >>> X, y = make_classification(100, n_features=4, random_state=0)
        >>> model = MembershipPrivate(LogisticRegression(), eta=0.1, tune=False, pairs=50)
        >>> learner = released_learner(model.fit(X, y), X, y)
        >>> learner.fit(X[:50], y[:50]).predict_proba(X).shape
        (100, 2)
    """
    if model.release != "parameters":
        raise InputError(f"release must be 'parameters' to be repeated, got {model.release!r}.")
    population = model._population(X, y)  # the same reading of X and y as in fit
    calibration = model.calibration_
    option = model.configuration_
    method = calibration.method
    own = None if model.adapter is None else adapter_for(model.estimator, model.adapter)
    statistic = learnable(
        option.applied(model.estimator),
        population,
        method=method,
        size=calibration.certificate.game.size,  # type: ignore[union-attr]  # a subset game
        clip=option.clip,
        adapter=own,
    )
    places: dict[tuple[bytes, Any], list[int]] = defaultdict(list)
    for number, (row, value) in enumerate(
        zip(population.features, np.asarray(y).tolist(), strict=True)
    ):
        places[_key(row, value)].append(number)
    return ReleasedLearner(Rehearsal(statistic, calibration, option.clip, dict(places)))
