"""A released model of the papers' game with the columns of its table: raw rows in, answers out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.learners import encoded_rows, raw_rows
from memberbound.learners.capabilities import available_if
from memberbound.learners.examples import as_numbers, as_texts
from memberbound.numerics.rounding import FloatArray
from memberbound.quantities import Certificate
from memberbound.release.calibration import Calibration
from memberbound.release.half.half_estimator import HalfPrivate
from memberbound.release.half.methods import Configuration, Scores, Trial
from memberbound.release.half.parameters import Labels, PairAdapter, PredictionTable
from memberbound.release.noise import GaussianNoise, NoNoise, NormExponentialNoise, ScaledNorm
from memberbound.tables.columns import label_of

__all__ = ["ESTIMATORS", "TRUSTED", "TableModel"]


def _can(name: str) -> Callable[[TableModel], bool]:
    return lambda self: hasattr(self.model, name)


class TableModel(BaseEstimator):  # type: ignore[misc]
    """What ``protect-half`` releases and saves: it takes the columns of the table, by name.

    Scales, categories and class names come from the whole population, which is public in the game
    that the certificate is about.

    Args:
        model: the released model on encoded features.
        encoder: makes the features of raw rows; None: the rows are numbers as they are.
        columns: names of the columns it takes, in any order; None: all, in the table's order.
        target: name of the column that it predicts.
        class_values: the classes as that column has them.

    Attributes: ``classes_``, ``certificate_``, ``calibration_``.
    """

    def __init__(
        self,
        model: HalfPrivate,
        encoder: Any = None,
        columns: tuple[str, ...] | None = None,
        target: str | None = None,
        class_values: Labels | None = None,
    ) -> None:
        self.model = model
        self.encoder = encoder
        self.columns = columns
        self.target = target
        self.class_values = class_values

    @classmethod
    def of(cls, model: HalfPrivate | TableModel) -> TableModel:
        """Return a model that takes tables: a fitted HalfPrivate takes numbers."""
        if isinstance(model, TableModel):
            return model
        names = getattr(model, "feature_names_in_", None)
        columns = None if names is None else tuple(map(str, names))
        return cls(model, columns=columns, class_values=getattr(model, "classes_", None))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self.model, "released_")

    @property
    def calibration_(self) -> Calibration:
        """How the noise was found to be enough."""
        return self.model.calibration_

    @property
    def certificate_(self) -> Certificate:
        """What is promised."""
        return self.model.certificate_

    @property
    def classes_(self) -> Labels:
        """The classes as the target's column has them, in the order of the probabilities."""
        if self.class_values is None:
            raise AttributeError("a regression has no classes.")
        return np.asarray(self.class_values)

    def encoded(
        self, table: object, database_table: str | None = None
    ) -> tuple[Any, tuple[str, ...]]:
        """Return the features of raw rows, and what has to be said about them."""
        if self.encoder is not None:
            return encoded_rows(
                self.encoder,
                tuple(self.columns or ()),
                table,
                ignore=self.target,
                database_table=database_table,
            )
        wanted = self.model.n_features_in_ if self.columns is None else tuple(self.columns)
        frame, notices, name = raw_rows(table, wanted, database_table=database_table)
        try:
            rows = np.ascontiguousarray(frame.to_numpy(dtype=np.float64))
        except (TypeError, ValueError):
            rows = np.full((1, 1), np.nan)
        if not np.isfinite(rows).all():
            raise InputError(
                f"{name} must hold finite numbers in {', '.join(frame.columns)}: this model was "
                "fitted on an array of them."
            )
        # A model that was fitted on names is asked by names.
        named = frame.astype(np.float64) if self.columns is not None else None
        return rows if named is None else named, notices

    def predict(self, table: object) -> Labels:
        """Return classes or numbers for the rows of a file, a frame or an array."""
        return self.answered(self.encoded(table)[0])

    @available_if(_can("predict_proba"))
    def predict_proba(self, table: object) -> FloatArray:
        """Return probabilities in the order of ``classes_``."""
        return np.asarray(self.model.predict_proba(self.encoded(table)[0]))

    @available_if(_can("decision_function"))
    def decision_function(self, table: object) -> FloatArray:
        """Return the released model's scores."""
        return np.asarray(self.model.decision_function(self.encoded(table)[0]))

    def answered(self, rows: FloatArray) -> Labels:
        """Return classes or numbers for encoded rows."""
        found = np.asarray(self.model.predict(rows))
        # With an encoder the inner model knows classes by their numbers.
        if self.encoder is None or self.class_values is None:
            return found
        return np.asarray(self.classes_[found.astype(np.int64)])

    def probabilities(self, rows: FloatArray) -> FloatArray | None:
        """Return probabilities of encoded rows, or None where the model has none."""
        if self.class_values is None or not hasattr(self.model, "predict_proba"):
            return None
        return np.asarray(self.model.predict_proba(rows))

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes as text, in the order of the probabilities."""
        return tuple(label_of(c, "text") for c in self.classes_.tolist())

    def score(self, table: object, target: ArrayLike) -> float:
        """Return accuracy or R² of the rows of a table."""
        from sklearn.metrics import accuracy_score, r2_score

        said = self.predict(table)
        rule = r2_score if self.class_values is None else accuracy_score
        return float(rule(np.asarray(target), said))


#: What a file of skops can hold as an estimator.
ESTIMATORS = (TableModel, HalfPrivate)
#: Types of ours inside; skops refuses every other it does not know.
TRUSTED = tuple(
    f"{kind.__module__}.{kind.__qualname__}"
    for kind in (
        SubsetGame,
        as_numbers,
        as_texts,
        Calibration,
        HalfPrivate,
        NormExponentialNoise,
        GaussianNoise,
        NoNoise,
        ScaledNorm,
        PairAdapter,
        PredictionTable,
        TableModel,
        Configuration,
        Scores,
        Trial,
        Certificate,
    )
)
