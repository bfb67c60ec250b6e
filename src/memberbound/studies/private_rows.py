"""The private learner of all rows, as an audit repeats it on halves."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator

from memberbound.learners.examples import Labels
from memberbound.learners.trained import available_if
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.encoding import Bounds
from memberbound.release.all_rows.models import fit_private, private_form
from memberbound.release.randomness import InsecureSource
from memberbound.tables.in_memory import Records

__all__ = ["PrivateRows"]


class PrivateRows(BaseEstimator):  # type: ignore[misc]
    """The private learner of a table's rows, which it is given by their numbers: for audits.

    Halves and noise come from seeds, so this protects nobody.
    """

    def __init__(
        self,
        table: Records,
        target: str,
        classes: tuple[str, ...] = (),
        *,
        learner: str = "logistic",
        eta: float = 0.05,
        bounds: Bounds | None = None,
        random_state: int = 0,
    ) -> None:
        self.table = table
        self.target = target
        self.classes = classes
        self.learner = learner
        self.eta = eta
        self.bounds = bounds
        self.random_state = random_state

    def fit(self, X: FloatArray, _y: Labels) -> PrivateRows:
        """Train on the rows with the numbers in ``X``; the table has their targets."""
        self.released_ = fit_private(
            self._rows(X),
            self.target,
            eta=self.eta,
            learner=str(private_form(self.learner)),
            bounds=self.bounds,
            source=InsecureSource(self.random_state),
        )
        if self.released_.class_names:
            self.classes_ = np.arange(len(self.classes))
            self._places = [self.classes.index(name) for name in self.released_.class_names]
        return self

    def _rows(self, X: FloatArray) -> Records:
        return self.table.taken(np.asarray(X, dtype=np.float64)[:, 0].astype(np.intp))

    def predict(self, X: FloatArray) -> Labels:
        """Return codes of classes, or numbers."""
        if not self.released_.class_names:
            return self.released_.predict(self._rows(X))
        return np.asarray(self.classes_[self._scores(X).argmax(axis=1)])

    def _scores(self, X: FloatArray) -> FloatArray:
        encoded = self.released_.encoded(self._rows(X))[0]
        return self._of_all_classes(self.released_.ranking(encoded), -np.inf)

    def _of_all_classes(self, columns: FloatArray, otherwise: float) -> FloatArray:
        """Return columns of the released classes among those of all classes."""
        values = np.full((len(columns), len(self.classes_)), otherwise)
        values[:, self._places] = columns
        return values

    @available_if(lambda self: bool(self.classes) and private_form(self.learner) != "svm")
    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return class probabilities, in the order of the codes."""
        return self._of_all_classes(self.released_.predict_proba(self._rows(X)), 0.0)

    @available_if(lambda self: private_form(self.learner) == "svm")
    def decision_function(self, X: FloatArray) -> FloatArray:
        """Return scores of classes, of two classes the second one's."""
        scores = self._scores(X)
        return scores[:, 1] if scores.shape[1] == 2 else scores
