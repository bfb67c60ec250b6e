"""What scikit-learn estimators of released models share: tags, and answers of the noisy model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from memberbound.learners.trained import available_if
from memberbound.numerics.rounding import FloatArray


def released_can(name: str) -> Callable[[PrivateEstimator], bool]:
    """Return a check: before ``fit`` what the base promises, afterwards what was released."""
    return lambda self: hasattr(getattr(self, "released_", None) or self._base, name)


class PrivateEstimator(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator whose ``released_`` model, which is noisy, answers for it."""

    estimator: Any
    insecure_seed: int | None
    released_: Any

    @property
    def _base(self) -> Any:
        """The base; of one that is named, an estimator of its kind."""
        if not isinstance(self.estimator, str):
            return self.estimator
        from sklearn.linear_model import LogisticRegression, Ridge

        return Ridge() if self.estimator in ("huber", "linear", "ridge") else LogisticRegression()

    def __sklearn_tags__(self) -> Any:
        """Be a classifier, a regressor or a clusterer as the base is."""
        tags = super().__sklearn_tags__()
        base = get_tags(self._base)
        tags.estimator_type = base.estimator_type
        tags.classifier_tags = base.classifier_tags
        tags.regressor_tags = base.regressor_tags
        tags.target_tags = base.target_tags
        tags.non_deterministic = self.insecure_seed is None
        return tags

    def _read(self, X: ArrayLike) -> Any:
        """Return rows as the released model takes them."""
        return X

    def _rows(self, X: ArrayLike) -> Any:
        check_is_fitted(self, "released_")
        return self._read(X)

    @available_if(released_can("predict"))
    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict with the released model."""
        return np.asarray(self.released_.predict(self._rows(X)))

    @available_if(released_can("predict_proba"))
    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return the released model's class probabilities."""
        return np.asarray(self.released_.predict_proba(self._rows(X)))

    @available_if(released_can("decision_function"))
    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return the released model's scores."""
        return np.asarray(self.released_.decision_function(self._rows(X)))
