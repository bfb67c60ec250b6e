"""Private forms of learners, and the settings that they support.

Every setting is a public number.  A setting without a counterpart in the private form must keep its
default, because a search over it would only compare noise with noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from memberbound.errors import InputError, nonnegative, positive, whole_number
from memberbound.learners.learner import Task, network_factory
from memberbound.tables.columns import label_of

if TYPE_CHECKING:
    from torch.nn import Module

#: The supported learners; logistic becomes softmax for more than two classes.
PRIVATE_LEARNERS = ("logistic", "svm", "ridge", "huber", "boosting")
#: Private forms by name, for scikit-learn's learners and aliases.
_FORMS = {
    "GradientBoostingClassifier": "boosting",
    "HistGradientBoostingClassifier": "boosting",
    "LinearRegression": "ridge",
    "LinearSVC": "svm",
    "LogisticRegression": "logistic",
    "HuberRegressor": "huber",
    "Ridge": "ridge",
    "linear": "ridge",
} | {name: name for name in PRIVATE_LEARNERS}
#: Settings of solvers and logging, which the private form ignores.
_NUMERICAL = (
    *("copy_X", "dual", "max_iter", "n_jobs", "random_state", "solver", "tol", "verbose"),
    "warm_start",
)
#: Supported settings by class of the estimator.
_HONOURED = {
    "LogisticRegression": ("C", "class_weight", "fit_intercept", "penalty"),
    "LinearSVC": ("C", "class_weight", "fit_intercept"),
    "Ridge": ("alpha", "fit_intercept"),
    "LinearRegression": ("fit_intercept",),
    "HuberRegressor": ("alpha", "fit_intercept"),
    "GradientBoostingClassifier": ("learning_rate", "max_depth", "max_leaf_nodes", "n_estimators"),
    "HistGradientBoostingClassifier": (
        *("class_weight", "learning_rate", "max_depth", "max_iter", "max_leaf_nodes"),
    ),
}
#: Further values that mean the same as the default in the private form.
_SAME_AS_DEFAULT = {"penalty": (None, "l2"), "early_stopping": (False,)}
#: A tree of the largest depth has the most leaves.
_MOST_ROUNDS, MOST_LEAVES, _MOST_DEPTH = 1000, 32, 5


@dataclass(frozen=True)
class Settings:
    """Public settings of a private form; the defaults change nothing.

    ``penalty`` is the λ of λ/2·‖β‖² added to the sum of all losses, for standardised columns (1/C,
    or alpha).  ``rate_factor`` multiplies the learning rate; ``rounds`` and ``leaves`` (per tree of
    one column) apply to boosting.  ``class_weight`` maps classes to weights, or is ``"balanced"``.
    """

    penalty: float = 0.0
    intercept: bool = True
    rounds: int | None = None
    leaves: int | None = None
    rate_factor: float = 1.0
    class_weight: dict[str, float] | str | None = None


_USUAL = Settings()


@dataclass(frozen=True)
class LearnerForm:
    """The private form of a learner: one of :data:`PRIVATE_LEARNERS`, or ``network``.

    For a network, ``factory`` creates the modules and ``title`` names the model.  For a
    ``pipeline`` only the last step is used: the others would look at secret rows, and are replaced
    by private preprocessing.
    """

    name: str
    settings: Settings = _USUAL
    pipeline: bool = False
    factory: Callable[..., Module] | None = None
    title: str = ""


def _last_step(learner: object) -> tuple[Any, bool]:
    """Return a pipeline's last step, or the learner itself, and whether it is a pipeline."""
    if type(learner).__name__ == "Pipeline" and hasattr(learner, "steps"):
        return learner.steps[-1][1], True
    return learner, False


def private_form(learner: object) -> str | None:
    """Return the name of a learner's private form, or None if it has none.

    >>> private_form("linear"), private_form("tree")
    ('ridge', None)
    """
    inner, _ = _last_step(learner)
    form = _FORMS.get(inner if isinstance(inner, str) else type(inner).__name__)
    return "network" if form is None and network_factory(learner) is not None else form


def require_form(learner: object) -> LearnerForm:
    """Return the private form of a learner; raise if it has none."""
    name, factory = private_form(learner), network_factory(learner)
    if name is None:
        shown = learner if isinstance(learner, str) else type(learner).__name__
        raise InputError(
            "learner must be one that can be trained on all rows with a guarantee for every "
            f"record, got {shown!r}. Take one of {', '.join(PRIVATE_LEARNERS)} (boosting is the "
            "private form of trees) or a factory of PyTorch modules."
        )
    if name == "network":
        title = learner if isinstance(learner, str) else getattr(factory, "__name__", name)
        return LearnerForm(name, factory=factory, title=title)
    inner, pipeline = _last_step(learner)
    return LearnerForm(name, settings_of(inner), pipeline)


def settings_of(learner: Any) -> Settings:
    """Return the settings of a scikit-learn estimator; a name has the defaults."""
    name = type(learner).__name__
    if name not in _HONOURED or not hasattr(learner, "get_params"):
        return Settings()
    usual, values = type(learner)().get_params(), learner.get_params()
    changes = {key: value for key, value in values.items() if repr(value) != repr(usual[key])}
    for key, value in changes.items():
        same = repr(value) in map(repr, _SAME_AS_DEFAULT.get(key, ()))
        supported = key in (*_HONOURED[name], *_NUMERICAL) and key not in _SAME_AS_DEFAULT
        if not same and not supported:
            raise InputError(
                f"{key} must be left at its default {usual[key]!r}: the private form of {name} has "
                f"no such setting, got {value!r}."
            )
    weights = _class_weight(values.get("class_weight"))
    if "fit_intercept" not in values:
        return replace(_boosting_settings(values, changes), class_weight=weights)
    penalty = 0.0
    if "C" in values and values.get("penalty", "") is not None and values["C"] != np.inf:
        penalty = 1.0 / positive("C", values["C"])
    if "alpha" in values:
        penalty = nonnegative("alpha", values["alpha"])
    return Settings(penalty, bool(values["fit_intercept"]), class_weight=weights)


def _class_weight(value: object) -> dict[str, float] | str | None:
    """Return class weights by label."""
    if value is None or (isinstance(value, str) and value == "balanced"):
        return value
    if not isinstance(value, Mapping):
        raise InputError(
            f"class_weight must be 'balanced' or map classes to weights, got {value!r}."
        )
    weights = {label_of(key): nonnegative("class_weight", size) for key, size in value.items()}
    if not any(weights.values()):
        raise InputError(f"class_weight must have a weight above 0, got {value!r}.")
    return weights


def _boosting_settings(values: dict[str, object], changes: dict[str, object]) -> Settings:
    """Return settings of boosting; scikit-learn's defaults map to those of the private form."""

    def within(name: str, value: object, least: int, most: int) -> int:
        number = whole_number(name, value, at_least=least)
        if number > most:
            raise InputError(f"{name} must be at most {most} in the private form, got {value}.")
        return number

    rounds = changes.get("n_estimators", changes.get("max_iter"))
    leaves, depth = changes.get("max_leaf_nodes"), changes.get("max_depth")
    if rounds is not None:
        rounds = within("rounds", rounds, 1, _MOST_ROUNDS)
    if leaves is not None:
        leaves = within("max_leaf_nodes", leaves, 2, MOST_LEAVES)
    if depth is not None:
        leaves = min(2 ** within("max_depth", depth, 1, _MOST_DEPTH), leaves or MOST_LEAVES)
    rate_factor = positive("learning_rate", values["learning_rate"]) / 0.1
    return Settings(rounds=rounds, leaves=leaves, rate_factor=rate_factor)


def other_learners(task: Task) -> tuple[str, ...]:
    """Return the learners that work well with noise on all rows.

    >>> other_learners("classification")
    ('logistic', 'boosting')
    """
    return ("ridge" if task == "regression" else "logistic", "boosting")
