"""What an estimator of scikit-learn says about training that the private form honours.

Every setting is a public number.  A setting that the private form has no counterpart for must be at
its default: a search over it would compare noise with noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from memberbound.errors import InputError, nonnegative, positive, whole_number
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.encoding import TargetCode, counted
from memberbound.release.budget import HISTOGRAM_MOVES, Budget
from memberbound.tables.columns import label_of
from memberbound.tables.in_memory import Records

#: How a minimum is found, how fast, and what is printed: nothing that the private form takes.
_NUMERICAL = (
    *("copy_X", "dual", "max_iter", "n_jobs", "random_state", "solver", "tol", "verbose"),
    "warm_start",
)
#: Settings that are honoured, by the class of the estimator.
_LINEAR = ("C", "class_weight", "fit_intercept")
_HONOURED = {
    "LogisticRegression": (*_LINEAR, "penalty"),
    "LinearSVC": _LINEAR,
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
MOST_ROUNDS, MOST_LEAVES, _MOST_DEPTH = 1000, 32, 5
#: Share of μ² for the class frequencies of balanced weights.
_FREQUENCY_SHARE = 0.01


@dataclass(frozen=True)
class Settings:
    """Public numbers that change how a private form is trained; by default nothing is changed.

    ``penalty`` is the λ of λ/2·‖β‖² beside the sum of all losses, for standardised columns (1/C, or
    alpha).  ``class_weight`` has a weight per class, or is ``"balanced"``.  ``pace`` multiplies the
    rate; ``rounds`` and ``leaves`` (per tree, which has one column) are those of boosting.
    """

    penalty: float = 0.0
    intercept: bool = True
    class_weight: Mapping[str, float] | str | None = None
    rounds: int | None = None
    leaves: int | None = None
    pace: float = 1.0

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return asdict(self)

    def weights(self, code: TargetCode, records: Records, budget: Budget) -> FloatArray:
        """Return a weight from 0 to 1 for every class, the largest being 1.

        Guarantee: balanced weights are computed from noisy counts that the budget pays for.
        Edge cases: a class that is not mentioned has the weight 1 before scaling; a class that is
        not the target's is refused.
        """
        stated, classes = self.class_weight, code.classes
        if not classes or stated is None:
            return np.ones(len(classes))
        if isinstance(stated, str):
            part = budget.take("class frequencies", _FREQUENCY_SHARE)
            noise = part.sums(sensitivity=HISTOGRAM_MOVES)
            counts = records.chosen([code.name]).total(_class_counts, code)
            weights = 1.0 / np.maximum(noise.measure(counts), noise.scale)
        else:
            unknown = [name for name in stated if name not in classes]
            if unknown:
                raise InputError(
                    f"class_weight must be of the target's classes {list(classes)!r}, got "
                    f"{unknown[0]!r}."
                )
            weights = np.array([stated.get(name, 1.0) for name in classes])
        return np.asarray(weights / weights.max())


def _class_counts(part: Records, code: TargetCode) -> FloatArray:
    places = part.columns[code.name].positions(code.classes)
    # The first cell is for rows of other classes.
    return counted(places + 1, len(code.classes) + 1, part.persons)[1:]


def settings_of(learner: object) -> Settings:
    """Return the settings of an estimator of scikit-learn; a name has none.

    Edge cases: of a pipeline they are those of its last step.

    Examples:
        >>> from sklearn.linear_model import LogisticRegression
        >>> settings_of(LogisticRegression(C=0.1, fit_intercept=False)).intercept
        False
        >>> settings_of(LogisticRegression(l1_ratio=0.5))
        Traceback (most recent call last):
        ...
        memberbound.errors.InputError: l1_ratio must be left at its default 0.0: the private form \
of LogisticRegression has no such setting, got 0.5.
    """
    steps = getattr(learner, "steps", None)
    inner: Any = steps[-1][1] if steps else learner
    name = type(inner).__name__
    if name not in _HONOURED or not hasattr(inner, "get_params"):
        return Settings()
    usual, values = type(inner)().get_params(), inner.get_params()
    changes = {key: value for key, value in values.items() if repr(value) != repr(usual[key])}
    honoured = _HONOURED[name]
    for key, value in changes.items():
        same = repr(value) in map(repr, _SAME_AS_DEFAULT.get(key, ()))
        if not same and (key not in (*honoured, *_NUMERICAL) or key in _SAME_AS_DEFAULT):
            raise InputError(
                f"{key} must be left at its default {usual[key]!r}: the private form of {name} has "
                f"no such setting, got {value!r}."
            )
    own = {key: values[key] for key in honoured if key in values}
    return _linear(own) if "fit_intercept" in own else _boosted(own, changes)


def _linear(own: Mapping[str, Any]) -> Settings:
    penalty = 0.0
    if "C" in own and own.get("penalty", "") is not None:
        strength = own["C"]
        penalty = 0.0 if strength == np.inf else 1.0 / positive("C", strength)
    if "alpha" in own:
        penalty = nonnegative("alpha", own["alpha"])
    weights = _class_weight(own.get("class_weight"))
    return Settings(penalty, bool(own["fit_intercept"]), weights)


def _boosted(own: Mapping[str, Any], changes: Mapping[str, Any]) -> Settings:
    """Return settings of boosting; defaults of scikit-learn leave those of the private form."""
    rounds = changes.get("n_estimators", changes.get("max_iter"))
    leaves = changes.get("max_leaf_nodes")
    depth = changes.get("max_depth")
    if rounds is not None:
        rounds = _at_most("rounds", whole_number("rounds", rounds), MOST_ROUNDS)
    if leaves is not None:
        stated = whole_number("max_leaf_nodes", leaves, at_least=2)
        leaves = _at_most("max_leaf_nodes", stated, MOST_LEAVES)
    if depth is not None:
        deepest = _at_most("max_depth", whole_number("max_depth", depth), _MOST_DEPTH)
        leaves = min(2**deepest, leaves or MOST_LEAVES)
    pace = positive("learning_rate", own["learning_rate"]) / 0.1
    weights = _class_weight(own.get("class_weight"))
    return Settings(class_weight=weights, rounds=rounds, leaves=leaves, pace=pace)


def _at_most(name: str, value: int, most: int) -> int:
    if value > most:
        raise InputError(f"{name} must be at most {most} in the private form, got {value}.")
    return value


def _class_weight(stated: Any) -> Mapping[str, float] | str | None:
    if stated is None:
        return None
    if isinstance(stated, str) and stated == "balanced":
        return stated
    if not isinstance(stated, Mapping):
        raise InputError(
            f"class_weight must be 'balanced' or map classes to weights, got {stated!r}."
        )
    weights = {label_of(key): nonnegative("class_weight", value) for key, value in stated.items()}
    if not any(weights.values()):
        raise InputError(f"class_weight must have a weight above 0, got {stated!r}.")
    return weights
