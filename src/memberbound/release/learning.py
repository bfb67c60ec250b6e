"""From an estimator and a population to a statistic, a calibrator, and a model again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray
from memberbound.release.calibration import (
    Calibration,
    FreshSubsets,
    Progress,
    Record,
    Rows,
)
from memberbound.release.erm import RegularisedRisk, regularisation_from_c
from memberbound.release.parameters import (
    Adapter,
    FittedParameters,
    FittedPredictions,
    Population,
    clipped_rows,
)
from memberbound.release.refitting import calibrate_izzo, calibrate_moment, calibrate_neighbour

__all__ = [
    "METHODS",
    "ConvexParameters",
    "Learnable",
    "Method",
    "calibrated",
    "convex_loss",
]

Method = Literal["auto", "neighbour", "convex", "moment", "izzo"]
METHODS: tuple[Method, ...] = ("auto", "neighbour", "convex", "moment", "izzo")


class Learnable(Protocol):
    """A Statistic from whose vector a model can be made."""

    @property
    def dimension(self) -> int:
        """Number of released coordinates."""
        ...

    def __call__(self, rows: Rows) -> FloatArray:
        """Return the vector of the records with these row numbers."""
        ...

    def model(self, vector: FloatArray) -> Any:
        """Return a model with this vector that knows nothing else of any subset."""
        ...


def convex_loss(estimator: Any, population: Population) -> str | None:
    """Return the loss of :class:`RegularisedRisk` that this estimator minimises, or None."""
    name, known = type(estimator).__name__, estimator.get_params(deep=False)
    plain = known.get("class_weight") is None and not known.get("positive", False)
    if not type(estimator).__module__.startswith("sklearn.") or not plain:
        return None
    if name == "LogisticRegression" and known.get("penalty", "l2") in ("l2", "deprecated"):
        if known.get("l1_ratio") not in (None, 0, 0.0, "deprecated"):
            return None
        return "logistic" if population.outputs == 1 else "softmax"
    if name == "LinearSVC" and known["penalty"] == "l2" and known["loss"] == "squared_hinge":
        return "squared-hinge"
    if name in ("Ridge", "RidgeClassifier") and np.ndim(known["alpha"]) == 0 and known["alpha"] > 0:
        return "ridge"
    return None


@dataclass(frozen=True, eq=False)
class ConvexParameters:
    """The minimiser of the regularised risk that a linear estimator names: a Statistic.

    The intercept is regularised like the coefficients (X3 needs it); the target of a regression is
    first centred at the population's mean, which is public in the subset game.
    """

    risk: RegularisedRisk
    shape_of: FittedParameters
    offset: FloatArray

    @classmethod
    def of(cls, estimator: Any, population: Population, size: int) -> ConvexParameters:
        """Take loss and regularisation from an estimator that is to be fitted on ``size`` rows."""
        loss = convex_loss(estimator, population)
        if loss is None:
            raise InputError(
                "estimator must be LogisticRegression, LinearSVC, Ridge or RidgeClassifier with an "
                f"L2 penalty for method='convex', got {estimator!r}. Use 'moment' or 'neighbour'."
            )
        known = estimator.get_params(deep=False)
        strength = known["C"] if "C" in known else 1.0 / known["alpha"]
        target, offset = _coded(loss, population)
        risk = RegularisedRisk(
            population.features,
            target,
            loss,
            regularisation_from_c(loss, strength, size),
            classes=None
            if population.classes is None or loss == "ridge"
            else len(population.classes),
            intercept=bool(known["fit_intercept"]),
        )
        return cls(risk, FittedParameters.of(estimator, population), offset)

    @property
    def dimension(self) -> int:
        """Number of released coordinates."""
        return self.risk.dimension

    def __call__(self, rows: Rows) -> FloatArray:
        """Return the minimiser on these records."""
        return self.risk(rows)

    def model(self, vector: FloatArray) -> Any:
        """Return the scikit-learn estimator with these parameters."""
        table = np.array(vector).reshape(self.risk.rule.outputs, -1)
        if self.risk.intercept:
            table[:, -1] += self.offset
        return self.shape_of.model(table.ravel())


def _coded(loss: str, population: Population) -> tuple[NDArray[Any], FloatArray]:
    """Return the target as the loss reads it, and what to add to the intercepts."""
    target = population.target
    if target is None:
        raise InputError("y must be given for a linear model, got None.")
    if population.classes is None:
        numbers = np.asarray(target, dtype=np.float64).reshape(len(target), -1)
        middle = numbers.mean(axis=0)
        return numbers - middle, middle
    codes = np.searchsorted(population.classes, target)
    if loss != "ridge":
        return codes, np.zeros(1)
    if len(population.classes) == 2:
        return (2.0 * codes - 1.0)[:, None], np.zeros(1)
    return 2.0 * np.eye(len(population.classes))[codes] - 1.0, np.zeros(1)


def chosen_method(
    method: str, record: Record, estimator: Any, population: Population, *, parameters: bool
) -> str:
    """Return the method that ``auto`` stands for.

    The neighbour form for the average record; for every record the convex form where it applies,
    else the centre form ("moment").
    """
    if method != "auto":
        return method
    if record == "average":
        return "neighbour"
    return "convex" if parameters and convex_loss(estimator, population) else "moment"


def learnable(
    estimator: Any,
    population: Population,
    *,
    method: str,
    size: int,
    clip: float | None = None,
    adapter: Adapter | None = None,
    query: FloatArray | None = None,
) -> Learnable:
    """Return what is released: parameters, or predictions on ``query``, of clipped rows."""
    people = Population(
        clipped_rows(population.features, clip), population.target, population.classes
    )
    if query is not None:
        if method == "convex":
            raise InputError(
                "method must be 'neighbour' or 'moment' for predictions, got 'convex'."
            )
        return FittedPredictions.of(estimator, people, clipped_rows(query, clip), query)
    if method == "convex":
        if adapter is not None:
            raise InputError("adapter must be left out for method='convex'.")
        return ConvexParameters.of(estimator, people, size)
    return FittedParameters.of(estimator, people, adapter)


def calibrated(
    statistic: Learnable,
    fresh: FreshSubsets,
    *,
    eta: float,
    record: Record,
    method: str,
    confidence: float,
    pairs: int | None = None,
    shape: FloatArray | None = None,
    workers: int | None = None,
    progress: Progress = None,
) -> Calibration:
    """Run the calibrator of that name; ``pairs`` counts pairs, or subsets where there are none."""
    common: dict[str, Any] = {
        "eta": eta,
        "record": record,
        "confidence": confidence,
        "progress": progress,
    }
    run: Callable[..., Calibration]
    extra: dict[str, Any]
    if method == "neighbour":
        run, extra = calibrate_neighbour, {"pairs": pairs, "shape": shape, "workers": workers}
    elif method == "moment":
        run, extra = calibrate_moment, {"subsets": pairs, "shape": shape, "workers": workers}
    elif method == "izzo":
        run, extra = calibrate_izzo, {"subsets": pairs, "workers": workers}
    else:
        from memberbound.release.convex import calibrate_convex

        if not isinstance(statistic, ConvexParameters):
            raise InputError("method must not be 'convex' for this estimator.")
        return calibrate_convex(
            statistic.risk, fresh, **common, subsets=pairs, shape=shape, workers=workers
        )
    return run(statistic, fresh, **common, **extra)
