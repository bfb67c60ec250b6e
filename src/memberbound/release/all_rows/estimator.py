"""A scikit-learn meta-estimator that trains on all rows and hides every record."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from memberbound.errors import InputError
from memberbound.learners.learner import Labels
from memberbound.learners.raw_rows import as_columns
from memberbound.learners.trained import available_if
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.bounds import Bounds, PublicDocument, forms_of, read_bounds
from memberbound.release.all_rows.learner_forms import Settings, require_form
from memberbound.release.all_rows.training import fit_private
from memberbound.release.noise import check_eta_range
from memberbound.release.randomness import source_from_seed
from memberbound.tables.columns import read_column, read_value
from memberbound.tables.records import Records, read_records

#: Column names of the target and of the weights when X and y are joined into one table.
_TARGET, _WEIGHT = "y", "sample_weight"
_RAW_COLUMNS = (
    "Put transformers inside, MembershipPrivate(make_pipeline(StandardScaler(), "
    "LogisticRegression())), where private ones replace them: transformers before this step would "
    "learn from secret rows without noise."
)


def _shape(target: Any) -> tuple[int, ...]:
    """Return the shape of a target without inspecting the values of a list."""
    return (len(target),) if isinstance(target, list | tuple) else np.shape(target)


def _like(labels: tuple[str, ...], target: object) -> Labels:
    """Convert class names to the target's type.

    A list has no type.  Its classes are numbers if all names are, whatever the rows hold.
    """
    kind = getattr(target, "dtype", None)
    kind = getattr(kind, "numpy_dtype", kind)
    if kind is None or (isinstance(kind, np.dtype) and kind.kind in "iuf"):
        numbers = np.array([read_value(label)[0] for label in labels])
        if not np.isnan(numbers).any():  # otherwise the bounds do not match the target's type
            whole = bool((numbers == np.round(numbers)).all())
            return numbers.astype(kind or (np.int64 if whole else np.float64))
    truths = kind is None or (isinstance(kind, np.dtype) and kind.kind == "b")
    if truths and set(labels) <= {"False", "True"}:
        return np.array([label == "True" for label in labels])
    return np.array(labels, dtype=object)


def _released_has(name: str) -> Callable[[PrivateEstimator], bool]:
    """Return a check for a method: on the base before ``fit``, on the released model afterwards."""
    return lambda self: hasattr(getattr(self, "released_", None) or self._base, name)


class PrivateEstimator(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator that predicts with its noisy ``released_`` model."""

    estimator: Any
    insecure_seed: int | None
    released_: Any

    @property
    def _base(self) -> Any:
        """The base estimator, created from its name if necessary."""
        if not isinstance(self.estimator, str):
            return self.estimator
        from sklearn.linear_model import LogisticRegression, Ridge

        return Ridge() if self.estimator in ("huber", "linear", "ridge") else LogisticRegression()

    def __sklearn_tags__(self) -> Any:
        """Return the tags of the base, such as classifier or regressor."""
        tags = super().__sklearn_tags__()
        base = get_tags(self._base)
        tags.estimator_type = base.estimator_type
        tags.classifier_tags = base.classifier_tags
        tags.regressor_tags = base.regressor_tags
        tags.target_tags = base.target_tags
        tags.non_deterministic = self.insecure_seed is None
        return tags

    def _read(self, X: ArrayLike) -> object:
        """Convert rows to the input of the released model."""
        return X

    def _rows(self, X: ArrayLike) -> object:
        check_is_fitted(self, "released_")
        return self._read(X)

    @available_if(_released_has("predict"))
    def predict(self, X: ArrayLike) -> NDArray[np.generic]:
        """Predict with the released model."""
        rows = self._rows(X)  # first, because it raises if the estimator is not fitted
        return np.asarray(self.released_.predict(rows))

    @available_if(_released_has("predict_proba"))
    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return the released model's class probabilities."""
        rows = self._rows(X)
        return np.asarray(self.released_.predict_proba(rows))

    @available_if(_released_has("decision_function"))
    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return the released model's scores."""
        rows = self._rows(X)
        return np.asarray(self.released_.decision_function(rows))


class MembershipPrivate(PrivateEstimator):
    """Train a model on all rows without revealing who is in the data.

    An attacker who knows all other records and sees the model gains at most ``eta`` over blind
    guessing about any record's membership.  X may hold texts and missing values; it is encoded
    internally, from ``bounds`` or from noisy histograms, so do not scale or encode it
    before: preprocessing fitted on these rows is not covered.  The base determines the learner, and
    these settings are supported: C, alpha, class_weight and fit_intercept of linear models;
    learning_rate, n_estimators or max_iter, max_depth and max_leaf_nodes (of trees with one
    column each) and class_weight of boosting.  Solvers and tolerances are not needed; any other
    setting must keep its default.

    A search over settings (GridSearchCV) trains a model per candidate and fold on the same rows,
    but the certificate covers only one.  Give it ``error_score="raise"``, because by default it
    picks a winner among the fits that did not fail.  :func:`memberbound.private_search` accounts
    for its choice; on a synthetic table (``synthesize``) any search is free.

    Args:
        estimator: LogisticRegression, LinearSVC, Ridge, LinearRegression, HuberRegressor,
            (Hist)GradientBoostingClassifier, or a name such as ``"boosting"``; of a pipeline, only
            the last step is used.
        eta: largest gain of any attack over blind guessing, in (0, ½).
        bounds: public facts about the columns (``x0``, ``x1``, … of an array) and the target
            (``y``, or the name of its series): a mapping, or a YAML or JSON file.
        classes: the classes of the target, if they are public.  Otherwise they are read from noisy
            counts, which miss rare classes, so that some folds of a cross-validation may fail.
        tune: try several learning rates, at the expense of the privacy budget.
        insecure_seed: for tests only: noise from a seed.

    Attributes: ``certificate_``, ``calibration_``, ``released_`` (the noisy model), ``classes_``,
    ``n_features_in_`` and ``secure_``.  The rows are not kept.

    Guarantee, Theorem, Assumes: stated in ``certificate_``.

    Examples:
        >>> from sklearn.datasets import make_classification
        >>> from sklearn.linear_model import LogisticRegression
        >>> X, y = make_classification(400, n_features=5, random_state=0)
        >>> public = {f"x{column}": [-4, 4] for column in range(5)} | {"y": {"categories": [0, 1]}}
        >>> model = MembershipPrivate(LogisticRegression(), bounds=public, insecure_seed=1)
        >>> model.fit(X, y).certificate_.value <= 0.05
        True
        >>> model.score(X, y) > 0.7
        True
    """

    def __init__(
        self,
        estimator: BaseEstimator | str,
        *,
        eta: float = 0.05,
        bounds: PublicDocument = None,
        classes: Sequence[object] | None = None,
        tune: bool = False,
        insecure_seed: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.eta = eta
        self.bounds = bounds
        self.classes = classes
        self.tune = tune
        self.insecure_seed = insecure_seed

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> MembershipPrivate:
        """Train on all rows: a table or an array, and one class or number per row.

        ``sample_weight`` are secret numbers, one per row, clipped to [0, 1]: divide
        them by a public maximum.
        """
        return self._fit(X, y, sample_weight)

    def _fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        candidates: Sequence[Settings] = (),
    ) -> MembershipPrivate:
        """Train on all rows, with the best of several candidate settings if there are any."""
        check_eta_range(self.eta)
        form = require_form(self.estimator)
        if form.pipeline:
            warnings.warn(
                "the pipeline's own preprocessing would look at secret rows: it is replaced by a "
                "private one, and only its last step is trained.",
                stacklevel=3,
            )
        public = self._public(X, y)
        records = self._records(X, public, reset=True)
        if _shape(y) != (records.rows,):
            raise InputError("y must be one class or number per row of X.")
        columns = {**records.columns, _TARGET: read_column(y, forms_of(public).get(_TARGET, "any"))}
        if _TARGET in records.columns:
            raise InputError(f"X must not have a column {_TARGET!r}, the name of the target.")
        if sample_weight is not None:
            if _shape(sample_weight) != (records.rows,):
                raise InputError("sample_weight must be one number per row of X.")
            if _WEIGHT in records.columns:
                raise InputError(f"X must not have a column {_WEIGHT!r} beside sample_weight.")
            if getattr(sample_weight, "dtype", None) == np.bool_:  # a mask, by its declared type
                sample_weight = np.asarray(sample_weight, dtype=np.float64)
            columns[_WEIGHT] = read_column(sample_weight)
        unknown = [name for name in public if name != _TARGET and name not in records.columns]
        if unknown:
            raise InputError(
                f"bounds must name columns of X, or the target as {_TARGET!r}, got "
                f"{unknown[0]!r}. {_RAW_COLUMNS}"
            )
        self.released_ = fit_private(
            Records(columns, records.rows),
            _TARGET,
            eta=self.eta,
            learner=form.name,
            bounds=public,
            tune=bool(self.tune),
            settings=form.settings,
            candidates=candidates,
            weight=None if sample_weight is None else _WEIGHT,
            source=source_from_seed(self.insecure_seed),
        )
        self.calibration_ = self.released_.calibration_
        self.certificate_ = self.released_.certificate_
        self.secure_ = self.released_.secure
        self.__dict__.pop("classes_", None)
        if self.released_.class_names:
            self.classes_ = _like(self.released_.class_names, y)
        return self

    def _public(self, X: object, y: object) -> Bounds:
        """Return the bounds, with the entry under the series' name moved to the target."""
        public = read_bounds(self.bounds)
        name = getattr(y, "name", None)
        if name in public and name not in getattr(X, "columns", ()):
            public = {_TARGET if key == name else key: bound for key, bound in public.items()}
        if self.classes is None:
            return public
        if _TARGET in public:
            raise InputError("classes must be left out if the bounds have the target's.")
        return {**public, **read_bounds({_TARGET: {"categories": list(self.classes)}})}

    def _records(self, X: ArrayLike, bounds: Bounds, *, reset: bool) -> Records:
        """Parse raw rows value by value; name unnamed columns x0, x1, …."""
        validate_data(self, X, skip_check_array=True, reset=reset)
        sparse = hasattr(X, "toarray")
        if sparse or (
            not (isinstance(X, list | tuple) or hasattr(X, "columns")) and np.ndim(X) != 2
        ):
            shown = "a sparse matrix" if sparse else f"shape {np.shape(X)}"
            raise InputError(f"X must be the raw columns, got {shown}. {_RAW_COLUMNS}")
        return read_records(X, forms_of(bounds))

    def _read(self, X: ArrayLike) -> Records:
        named = as_columns(X)
        if named is not None and hasattr(self, "feature_names_in_"):
            import pandas as pd

            X = pd.DataFrame(named).reindex(columns=self.feature_names_in_)
        return self._records(X, read_bounds(self.bounds), reset=False)

    @available_if(_released_has("predict"))
    def predict(self, X: ArrayLike) -> Labels:
        """Predict with the released model, in the target's type."""
        answers = super().predict(X)
        if not hasattr(self, "classes_"):
            return answers
        positions = {name: index for index, name in enumerate(self.released_.class_names)}
        return np.asarray(self.classes_[[positions[name] for name in answers]])

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return accuracy or R²."""
        from sklearn.metrics import r2_score

        if not hasattr(self, "classes_"):
            return float(r2_score(read_column(y).numbers, self.predict(X)))
        # Compare parsed classes: 1, 1.0 and "1" are equal.
        names = self.released_.class_names
        truth = read_column(y).positions(names)
        answers = read_column(np.asarray(self.released_.predict(self._rows(X)))).positions(names)
        return float(np.mean(answers == truth))
