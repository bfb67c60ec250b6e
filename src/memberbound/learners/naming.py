"""Learners by short name, or by ``package.module:factory``."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any, Literal

from memberbound.errors import InputError

__all__ = ["LEARNERS", "Task", "learner_from_name", "network_factory", "takes_sizes"]

Task = Literal["classification", "regression"]


def _logistic(seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=2000, random_state=seed)


def _ridge_classifier(seed: int) -> Any:
    from sklearn.linear_model import RidgeClassifier

    return RidgeClassifier(random_state=seed)


def _ridge(seed: int) -> Any:
    from sklearn.linear_model import Ridge

    return Ridge(random_state=seed)


def _linear(seed: int) -> Any:
    from sklearn.linear_model import LinearRegression

    del seed
    return LinearRegression()


def _svm(seed: int) -> Any:
    from sklearn.svm import LinearSVC

    return LinearSVC(random_state=seed, max_iter=5000)


def _bayes(seed: int) -> Any:
    from sklearn.naive_bayes import GaussianNB

    del seed
    return GaussianNB()


def _tree(seed: int) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(random_state=seed)


def _tree_regressor(seed: int) -> Any:
    from sklearn.tree import DecisionTreeRegressor

    return DecisionTreeRegressor(random_state=seed)


def _forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=100, random_state=seed)


def _forest_regressor(seed: int) -> Any:
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(n_estimators=100, random_state=seed)


def _boosting(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed)


def _boosting_regressor(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(random_state=seed)


def _mlp(seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(hidden_layer_sizes=(64,), max_iter=500, random_state=seed)


def _mlp_regressor(seed: int) -> Any:
    from sklearn.neural_network import MLPRegressor

    return MLPRegressor(hidden_layer_sizes=(64,), max_iter=500, random_state=seed)


def _knn(seed: int) -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    del seed
    return KNeighborsClassifier()


def _knn_regressor(seed: int) -> Any:
    from sklearn.neighbors import KNeighborsRegressor

    del seed
    return KNeighborsRegressor()


_MAKERS: dict[str, dict[str, Callable[[int], Any]]] = {
    "classification": {
        "boosting": _boosting,
        "knn": _knn,
        "logistic": _logistic,
        "mlp": _mlp,
        "naive-bayes": _bayes,
        "random-forest": _forest,
        "ridge": _ridge_classifier,
        "svm": _svm,
        "tree": _tree,
    },
    "regression": {
        "boosting": _boosting_regressor,
        "knn": _knn_regressor,
        "linear": _linear,
        "mlp": _mlp_regressor,
        "random-forest": _forest_regressor,
        "ridge": _ridge,
        "tree": _tree_regressor,
    },
}
#: Every short name.
LEARNERS = tuple(sorted({name for makers in _MAKERS.values() for name in makers}))


def learner_from_name(name: str, task: Task = "classification", seed: int = 0) -> Any:
    """Return an unfitted scikit-learn estimator.

    ``name`` is a short name, or ``package.module:factory`` where the factory, called without
    arguments, returns an object with ``fit`` and ``predict``.

    Examples:
        >>> type(learner_from_name("ridge", "regression")).__name__
        'Ridge'
    """
    if ":" in name:
        return _imported(name)
    makers = _MAKERS[task]
    if name not in makers:
        raise InputError(
            f"learner must be one of {', '.join(makers)} for {task}, or package.module:factory, "
            f"got {name!r}."
        )
    return makers[name](seed)


def takes_sizes(factory: Callable[..., Any]) -> bool:
    """Tell whether a factory asks for two numbers: inputs and outputs of a network."""
    try:
        asked = list(inspect.signature(factory).parameters.values())
    except (TypeError, ValueError):
        return False
    return len(asked) >= 2 and asked[0].default is asked[0].empty


def network_factory(learner: Any) -> Callable[..., Any] | None:
    """Return the factory of PyTorch modules that a learner is, None if it is something else.

    ``learner`` is ``package.module:factory`` or the factory itself: ``factory(inputs, outputs)``,
    or ``factory()`` if it returns a module.

    Examples:
        >>> network_factory("logistic") is None
        True
    """
    named = isinstance(learner, str)
    factory = _attribute(learner) if named and ":" in learner else learner
    torch = sys.modules.get("torch")
    if torch is None or isinstance(factory, str) or not callable(factory):
        return None
    if hasattr(factory, "fit") or isinstance(factory, torch.nn.Module):
        return None
    if takes_sizes(factory):
        return factory  # type: ignore[no-any-return]
    try:
        return factory if isinstance(factory(), torch.nn.Module) else None
    except Exception:
        return None


def _attribute(name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as problem:
        raise InputError(f"learner {name!r} cannot be imported: {problem}.") from None


def _imported(name: str) -> Any:
    factory = _attribute(name)
    try:
        learner = factory() if callable(factory) else factory
    except Exception as problem:
        raise InputError(f"learner {name!r} cannot be made without arguments: {problem}.") from None
    for method in ("fit", "predict"):
        if not callable(getattr(learner, method, None)):
            raise InputError(f"learner {name!r} must have a {method} method.")
    return learner
