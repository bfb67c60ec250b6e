"""Search over settings of a private model within the budget of one release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import ParameterGrid

from memberbound.errors import InputError
from memberbound.quantities import decimals, percent
from memberbound.release.all_rows.bounds import PublicDocument
from memberbound.release.all_rows.estimator import MembershipPrivate
from memberbound.release.all_rows.learner_forms import Settings, require_form, settings_of
from memberbound.release.all_rows.training import TUNE_SHARE

#: Maximum number of candidates: with more, each would be trained on a tiny share of the budget.
_MOST_CANDIDATES = 20


class SearchedPrivate(MembershipPrivate):
    """The result of :func:`private_search`: a private model with the best of several settings.

    Attributes beside those of ``MembershipPrivate``: ``best_params_`` (the chosen settings),
    ``search_share_`` (the share of μ² spent on the choice) and ``search_cost_`` (the same in
    words).
    """

    best_params_: dict[str, object]
    search_share_: float
    search_cost_: str


def private_search(
    estimator: BaseEstimator,
    grid: Mapping[str, Sequence[object]] | Sequence[Mapping[str, Sequence[object]]],
    X: ArrayLike,
    y: ArrayLike,
    eta: float = 0.05,
    *,
    bounds: PublicDocument = None,
    classes: Sequence[object] | None = None,
    sample_weight: ArrayLike | None = None,
    insecure_seed: int | None = None,
) -> SearchedPrivate:
    """Train a private model with the best settings of a grid; the certificate covers the search.

    Every candidate is trained on all rows with a small part of the budget, and its number of
    correct predictions (or the sum of its squared errors) is released with noise.  The best one
    is trained again with the rest.  Training
    and scoring use the same rows, which favours flexible settings slightly.

    Args:
        estimator: the base, as for ``MembershipPrivate``, with settings that the grid may change.
        grid: values to try by setting, as for ``GridSearchCV``: C or alpha of linear models;
            learning_rate, n_estimators or max_iter, max_depth and max_leaf_nodes of boosting.
        X: raw rows: a table or an array.
        y: one class or number per row.
        eta: largest gain of any attack over blind guessing, for the model and the choice together.
        bounds: public facts about the columns and the target, as for ``MembershipPrivate``.
        classes: the classes of the target, if they are public.
        sample_weight: secret weights in [0, 1], one per row.
        insecure_seed: for tests only: noise from a seed.

    Guarantee: as for ``MembershipPrivate``: ``eta`` holds for all candidates, their scores and the
    chosen model together.
    Theorem: X22 (proofs/gradient-descent.md).
    Assumes: the grid is public, that is, chosen without looking at the rows.

    Examples:
        >>> from sklearn.datasets import make_classification
        >>> from sklearn.linear_model import LogisticRegression
        >>> X, y = make_classification(2000, n_features=5, random_state=0)
        >>> model = private_search(LogisticRegression(), {"C": [0.001, 1]}, X, y, insecure_seed=1)
        >>> sorted(model.best_params_), model.certificate_.value <= 0.05
        (['C'], True)
    """
    candidates = list(ParameterGrid(grid))
    if not 2 <= len(candidates) <= _MOST_CANDIDATES:
        raise InputError(
            f"grid must have 2 to {_MOST_CANDIDATES} candidates, got {len(candidates)}: each one "
            "takes part of the budget."
        )
    usual = require_form(estimator)
    if usual.name == "network" or usual.pipeline or isinstance(estimator, str):
        raise InputError(
            "estimator must be a scikit-learn learner with settings, such as LogisticRegression()."
        )
    settings = [_settings(estimator, changes) for changes in candidates]
    first = settings[0]
    if any(
        (each.class_weight, each.intercept) != (first.class_weight, first.intercept)
        for each in settings
    ):
        raise InputError(
            "grid must not vary class_weight or fit_intercept: they change what a good score is. "
            "Set them in the estimator."
        )
    model = SearchedPrivate(
        clone(estimator).set_params(**candidates[0]),
        eta=eta,
        bounds=bounds,
        classes=classes,
        insecure_seed=insecure_seed,
    )
    model._fit(X, y, sample_weight, settings)
    chosen = settings.index(model.released_.settings)
    model.estimator = clone(estimator).set_params(**candidates[chosen])
    model.best_params_ = dict(candidates[chosen])
    model.search_share_ = TUNE_SHARE
    share, larger = percent(TUNE_SHARE, "given"), (1 - TUNE_SHARE) ** -0.5
    model.search_cost_ = (
        f"choosing among {len(candidates)} settings took {share} of the μ² that preparation left: "
        f"the model's noise is {decimals(larger, 'estimate', 2)} times that of a model without a "
        "choice"
    )
    return model


def _settings(estimator: BaseEstimator, changes: Mapping[str, object]) -> Settings:
    """Return the settings of an estimator with changes; raise for a name that it lacks."""
    unknown = [name for name in changes if name not in estimator.get_params()]
    if unknown:
        raise InputError(
            f"grid must name settings of {type(estimator).__name__}, got {unknown[0]!r}."
        )
    return settings_of(clone(estimator).set_params(**changes))
