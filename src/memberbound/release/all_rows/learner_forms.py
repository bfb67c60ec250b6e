"""Which learners have a private form, and which of their settings it honours.

Every setting is a public number.  A setting that the private form has no counterpart for must be at
its default: a search over it would compare noise with noise.
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

#: What can be trained; logistic becomes softmax where there are more than two classes.
PRIVATE_LEARNERS = ("logistic", "svm", "ridge", "huber", "boosting")
#: Learners of scikit-learn, and other names, by their form here.
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
#: How a minimum is found, how fast, and what is printed: nothing that the private form takes.
_NUMERICAL = (
    *("copy_X", "dual", "max_iter", "n_jobs", "random_state", "solver", "tol", "verbose"),
    "warm_start",
)
#: Settings that are honoured, by the class of the estimator.
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
#: Further values that the private form takes: it does the same.
_SAME_AS_DEFAULT = {"penalty": (None, "l2"), "early_stopping": (False,)}
#: A tree of the largest depth has the most leaves.
_MOST_ROUNDS, MOST_LEAVES, _MOST_DEPTH = 1000, 32, 5


@dataclass(frozen=True)
class Settings:
    """Public numbers that change how a private form is trained; by default nothing is changed.

    ``penalty`` is the λ of λ/2·‖β‖² beside the sum of all losses, for standardised columns (1/C, or
    alpha).  ``pace`` multiplies the rate; ``rounds`` and ``leaves`` (per tree, which has one
    column) are those of boosting.  ``class_weight`` has weights by class, or is ``"balanced"``.
    """

    penalty: float = 0.0
    intercept: bool = True
    rounds: int | None = None
    leaves: int | None = None
    pace: float = 1.0
    class_weight: dict[str, float] | str | None = None


_USUAL = Settings()


@dataclass(frozen=True)
class LearnerForm:
    """How a learner is trained on all rows: one of :data:`PRIVATE_LEARNERS`, or ``network``.

    Of a network ``factory`` makes the modules, and ``title`` is what a model is called.  Of a
    ``pipeline`` the last step counts: the others, which would look at secret rows, are replaced by
    private preprocessing.
    """

    name: str
    settings: Settings = _USUAL
    pipeline: bool = False
    factory: Callable[..., Module] | None = None
    title: str = ""


def _last_step(learner: object) -> tuple[Any, bool]:
    """Return the last step of a pipeline, or a learner as it is, and whether it is a pipeline."""
    if type(learner).__name__ == "Pipeline" and hasattr(learner, "steps"):
        return learner.steps[-1][1], True
    return learner, False


def private_form(learner: object) -> str | None:
    """Return the name of the form in which a learner can be trained on all rows, None without.

    >>> private_form("linear"), private_form("tree")
    ('ridge', None)
    """
    inner, _ = _last_step(learner)
    form = _FORMS.get(inner if isinstance(inner, str) else type(inner).__name__)
    return "network" if form is None and network_factory(learner) is not None else form


def checked_form(learner: object) -> LearnerForm:
    """Return the private form of a learner, or refuse one that has none."""
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
    """Return the settings of an estimator of scikit-learn; a name has none."""
    name = type(learner).__name__
    if name not in _HONOURED or not hasattr(learner, "get_params"):
        return Settings()
    usual, values = type(learner)().get_params(), learner.get_params()
    changes = {key: value for key, value in values.items() if repr(value) != repr(usual[key])}
    for key, value in changes.items():
        same = repr(value) in map(repr, _SAME_AS_DEFAULT.get(key, ()))
        taken = key in (*_HONOURED[name], *_NUMERICAL) and key not in _SAME_AS_DEFAULT
        if not same and not taken:
            raise InputError(
                f"{key} must be left at its default {usual[key]!r}: the private form of {name} has "
                f"no such setting, got {value!r}."
            )
    weights = _class_weight(values.get("class_weight"))
    if "fit_intercept" not in values:
        return replace(_boosted(values, changes), class_weight=weights)
    penalty = 0.0
    if "C" in values and values.get("penalty", "") is not None and values["C"] != np.inf:
        penalty = 1.0 / positive("C", values["C"])
    if "alpha" in values:
        penalty = nonnegative("alpha", values["alpha"])
    return Settings(penalty, bool(values["fit_intercept"]), class_weight=weights)


def _class_weight(value: Any) -> dict[str, float] | str | None:
    """Return weights by the names of classes."""
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


def _boosted(values: dict[str, Any], changes: dict[str, Any]) -> Settings:
    """Return settings of boosting; defaults of scikit-learn leave those of the private form."""

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
    pace = positive("learning_rate", values["learning_rate"]) / 0.1
    return Settings(rounds=rounds, leaves=leaves, pace=pace)


def other_learners(task: Task) -> tuple[str, ...]:
    """Return the learners that work well with noise on all rows.

    >>> other_learners("classification")
    ('logistic', 'boosting')
    """
    return ("ridge" if task == "regression" else "logistic", "boosting")
