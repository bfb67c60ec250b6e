"""Learners by short name, or by ``package.module:factory``."""

from __future__ import annotations

import importlib
from typing import cast

from memberbound.errors import InputError
from memberbound.learners.learner import Learner, Task, attribute_named, network_factory

#: The scikit-learn class and settings of each short name; imported on demand.
_CLASSIFIERS: dict[str, tuple[str, dict[str, object]]] = {
    "boosting": ("ensemble.HistGradientBoostingClassifier", {}),
    "knn": ("neighbors.KNeighborsClassifier", {}),
    "logistic": ("linear_model.LogisticRegression", {"max_iter": 2000}),
    "mlp": ("neural_network.MLPClassifier", {"hidden_layer_sizes": (64,), "max_iter": 500}),
    "naive-bayes": ("naive_bayes.GaussianNB", {}),
    "random-forest": ("ensemble.RandomForestClassifier", {}),
    "ridge": ("linear_model.RidgeClassifier", {}),
    "svm": ("svm.LinearSVC", {"max_iter": 5000}),
    "tree": ("tree.DecisionTreeClassifier", {}),
}
_REGRESSORS: dict[str, tuple[str, dict[str, object]]] = {
    "boosting": ("ensemble.HistGradientBoostingRegressor", {}),
    "knn": ("neighbors.KNeighborsRegressor", {}),
    "linear": ("linear_model.LinearRegression", {}),
    "mlp": ("neural_network.MLPRegressor", {"hidden_layer_sizes": (64,), "max_iter": 500}),
    "random-forest": ("ensemble.RandomForestRegressor", {}),
    "ridge": ("linear_model.Ridge", {}),
    "tree": ("tree.DecisionTreeRegressor", {}),
}
#: Every short name.
LEARNERS = tuple(sorted({*_CLASSIFIERS, *_REGRESSORS}))


def learner_from_name(name: str, task: Task = "classification", seed: int = 0) -> Learner:
    """Return an unfitted scikit-learn estimator.

    ``name`` is a short name, or ``package.module:factory``.  The factory takes no arguments and
    returns an object with ``fit`` and ``predict``, or it builds torch modules, which
    :class:`memberbound.TorchLearner` trains.

    Examples:
        >>> type(learner_from_name("ridge", "regression")).__name__
        'Ridge'
    """
    if ":" in name:
        return _import_learner(name)
    listed = _CLASSIFIERS if task == "classification" else _REGRESSORS
    if name not in listed:
        raise InputError(
            f"learner must be one of {', '.join(listed)} for {task}, or package.module:factory, "
            f"got {name!r}."
        )
    path, settings = listed[name]
    module, _, kind = path.partition(".")
    learner = getattr(importlib.import_module(f"sklearn.{module}"), kind)(**settings)
    if "random_state" in learner.get_params():
        learner.set_params(random_state=seed)
    return cast("Learner", learner)


def _import_learner(name: str) -> Learner:
    if (modules := network_factory(name)) is not None:
        from memberbound.learners.torch_learner import TorchLearner

        return TorchLearner(modules)
    factory = attribute_named(name)
    try:
        learner = factory() if callable(factory) else factory
    except Exception as problem:
        raise InputError(f"learner {name!r} cannot be made without arguments: {problem}.") from None
    for method in ("fit", "predict"):
        if not callable(getattr(learner, method, None)):
            raise InputError(f"learner {name!r} must have a {method} method.")
    assert isinstance(learner, Learner)
    return learner
