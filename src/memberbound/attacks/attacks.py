"""The list of attacks: what each says of a record, what it has to see, and what it needs.

A learner has many target models, which an attack scores as a (targets, records) table of a
:class:`Duel`; a model that exists is one :class:`Target`.  Every score is oriented: higher means
"member".  An attack never sees the half of the target that it is measured on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from memberbound.attacks import duels, target
from memberbound.attacks.duels import GAMMA, MODELS, OFFLINE_A, QUANTILE, Duel
from memberbound.attacks.signals import Signals
from memberbound.attacks.target import Target
from memberbound.errors import InputError
from memberbound.learners.examples import Task
from memberbound.numerics.rounding import FloatArray

__all__ = [
    "ATTACKS",
    "DEFAULT_ATTACKS",
    "AccessLevel",
    "Attack",
    "Need",
    "OnLearner",
    "OnModel",
    "access_of",
    "attacks_on_learners",
    "attacks_on_models",
    "chosen_attacks",
    "runnable_on",
]

On = TypeVar("On")

#: What an attack has to see of the model: a label, its probabilities (or a regression's number), or
#: the model itself.
AccessLevel = Literal["labels", "values", "probabilities", "parameters"]
#: What an attack cannot do without: of the model's answers, of other models (trained without the
#: record, or some with it and some without), or the truth about other records.
Need = Literal[
    "classes",
    "graded answers",
    "probabilities",
    "gradient",
    "models without",
    "models with",
    "truth",
]
_MISSING: dict[Need, str] = {
    "classes": "a regression has no labels",
    "graded answers": "the model gives labels only",
    "probabilities": "there are no probabilities",
    "gradient": "there is no gradient in closed form; logistic, linear, ridge and mlp have one",
    "models without": "no learner is named, so there are no reference models",
    "models with": "no learner is named, so there are no reference models",
    "truth": "nobody's membership is known",
}


@dataclass(frozen=True)
class OnLearner:
    """How an attack scores models of a learner, the settings it runs at, and what it needs."""

    score: Callable[[Duel], FloatArray]
    settings: Mapping[str, float | str] = field(default_factory=dict)
    needs: tuple[Need, ...] = ()


@dataclass(frozen=True)
class OnModel:
    """How an attack scores the records of one given model, and what it needs."""

    score: Callable[[Target], FloatArray]
    needs: tuple[Need, ...] = ("graded answers",)

    @property
    def learns(self) -> bool:
        """Whether the rule depends on known records, so that it is measured on the others."""
        return "models without" in self.needs or "truth" in self.needs

    @property
    def proved(self) -> bool:
        """Whether an interval of ours covers it: not where models are trained on all records."""
        return "models with" not in self.needs


@dataclass(frozen=True)
class Attack:
    """An attack: when it calls a record a member, what it has to see, and whom it can attack."""

    name: str
    says: str
    access: AccessLevel = "probabilities"
    on_learner: OnLearner | None = None
    on_model: OnModel | None = None


_CLIP: dict[str, float | str] = {
    "clip": "half the smallest step of the shadows' probabilities, if they count votes"
}
_ONLINE: dict[str, float | str] = {"mode": "online"}
_OFFLINE: dict[str, float | str] = {"mode": "offline"}
_RANKED: dict[str, float | str] = {"gamma": GAMMA, "population": "all other records"}
_ANSWERS: tuple[Need, ...] = ("graded answers", "probabilities")
_OUTSIDE: tuple[Need, ...] = ("graded answers", "models without")
_BOTH: tuple[Need, ...] = ("graded answers", "models with")


def _lira(variance: str) -> Callable[[Duel], FloatArray]:
    return lambda duel: duels.lira(duel, variance=variance)


def _lira_offline(variance: str) -> Callable[[Duel], FloatArray]:
    return lambda duel: duels.lira_offline(duel, variance=variance)


def _pooled(score: Callable[[Duel], FloatArray]) -> OnModel:
    """The same attack on one model, with reference models on halves of all records as shadows."""
    return OnModel(lambda model: score(model.pooled())[0], _BOTH)


_ALL = (
    Attack(
        "loss",
        "the loss of the true target is low",
        on_learner=OnLearner(lambda duel: -duel.target.loss),
        on_model=OnModel(target.low_loss),
    ),
    Attack("confidence", "the model is sure", on_model=OnModel(target.certainty, _ANSWERS)),
    Attack(
        "entropy",
        "its probabilities have low entropy",
        on_model=OnModel(target.low_entropy, _ANSWERS),
    ),
    Attack(
        "modified-entropy",
        "it is sure and right",
        on_model=OnModel(target.low_modified_entropy, _ANSWERS),
    ),
    Attack(
        "label-only",
        "the label is right (of a learner: oftener than without the record, also for noisy copies)",
        "labels",
        OnLearner(duels.calibrated_label, needs=("classes",)),
        OnModel(target.right_label, ("classes",)),
    ),
    Attack(
        "gradient",
        "the loss gradient is short (of a learner: shorter than without the record)",
        "parameters",
        OnLearner(duels.calibrated_gradient, needs=("gradient",)),
        OnModel(target.short_gradient, ("graded answers", "gradient")),
    ),
    Attack(
        "calibrated-loss",
        "the loss is lower than in models without the record",
        on_learner=OnLearner(duels.calibrated_loss),
        on_model=OnModel(target.above_reference, _OUTSIDE),
    ),
    Attack(
        "lira",
        "likelihood ratio of the logit, with the record against without",
        on_learner=OnLearner(
            _lira("shrunk"),
            _ONLINE | {"variance": "shrunk to the pooled one by 4 models"} | _CLIP,
        ),
        on_model=_pooled(_lira("shrunk")),
    ),
    Attack(
        "lira-record",
        "the same with each record's own variance",
        on_learner=OnLearner(_lira("record"), _ONLINE | {"variance": "record"} | _CLIP),
    ),
    Attack(
        "lira-pooled",
        "the same with one variance for all records",
        on_learner=OnLearner(_lira("pooled"), _ONLINE | {"variance": "pooled"} | _CLIP),
    ),
    Attack(
        "lira-offline",
        "the logit is above that of models without the record, in standard deviations",
        on_learner=OnLearner(_lira_offline("record"), _OFFLINE | {"variance": "record"} | _CLIP),
        on_model=OnModel(target.above_reference_by_own_spread, _OUTSIDE),
    ),
    Attack(
        "lira-offline-pooled",
        "the same with one variance for all records",
        on_learner=OnLearner(_lira_offline("pooled"), _OFFLINE | {"variance": "pooled"} | _CLIP),
    ),
    Attack(
        "lira-shrunk",
        "the same with variances shrunk to the pooled one, for few models",
        on_model=OnModel(target.above_reference_by_shrunk_spread, _OUTSIDE),
    ),
    Attack(
        "rmia",
        "the record is likelier than others, relative to models with and without it",
        on_learner=OnLearner(duels.rmia, _ONLINE | _RANKED),
        on_model=_pooled(duels.rmia),
    ),
    Attack(
        "rmia-offline",
        "the same with models without the record alone",
        on_learner=OnLearner(duels.rmia_offline, _OFFLINE | _RANKED | {"a": OFFLINE_A}),
        on_model=OnModel(target.relative_likelihood, _OUTSIDE),
    ),
    Attack(
        "quantile",
        "the logit is above a quantile regressed on features and label",
        on_learner=OnLearner(
            duels.quantile_regression,
            {"quantile": QUANTILE, "models": MODELS},
            ("graded answers",),
        ),
    ),
    Attack(
        "combined",
        "a classifier on the scores of others says so, trained on other targets or records",
        on_learner=OnLearner(
            duels.combined,
            {"gamma": GAMMA, "variance": "shrunk and pooled", **_CLIP},
            ("graded answers",),
        ),
        on_model=OnModel(target.told_classifier, ("graded answers", "truth")),
    ),
)
#: Every attack by name.
ATTACKS: dict[str, Attack] = {attack.name: attack for attack in _ALL}
#: What is run on a learner unless told otherwise; on a model it is all that can run.
DEFAULT_ATTACKS = ("loss", "calibrated-loss", "lira", "rmia", "combined")


def attacks_on_learners() -> dict[str, OnLearner]:
    """Return the attacks that a learner's models can be attacked with, by name."""
    return {n: a.on_learner for n, a in ATTACKS.items() if a.on_learner is not None}


def attacks_on_models() -> dict[str, OnModel]:
    """Return the attacks that a model that exists can be attacked with, by name."""
    return {n: a.on_model for n, a in ATTACKS.items() if a.on_model is not None}


def access_of(name: str, task: Task) -> AccessLevel:
    """Return what an attack has to see of the model."""
    level = ATTACKS[name].access
    return "values" if task == "regression" and level == "probabilities" else level


def chosen_attacks(
    names: Iterable[str], signals: Signals
) -> tuple[dict[str, OnLearner], list[str]]:
    """Return the attacks that can run on a learner, and a sentence for each that cannot.

    Edge cases: unknown names, and a choice of which none can run, are refused.
    """
    listed = attacks_on_learners()
    runnable, skipped = {}, []
    for name in dict.fromkeys(names):
        attack = _named(name, listed)
        # Whoever trained the shadows has all kinds of models and knows their halves.
        reason = _obstacle(
            attack.needs, signals, lambda need: need != "gradient" or signals.gradient is not None
        )
        if reason:
            skipped.append(f"{name} was left out: {reason}.")
        else:
            runnable[name] = attack
    if not runnable:
        raise InputError(" ".join(skipped) or "attacks must name at least one attack, got none.")
    return runnable, skipped


def runnable_on(model: Target, names: Iterable[str] | None) -> dict[str, OnModel]:
    """Return the attacks that can run on a given model: all of them, or those that are named.

    Edge cases: an unknown name is refused, and so is a named attack that cannot run here.
    """
    listed = attacks_on_models()
    runnable = {}
    for name in listed if names is None else dict.fromkeys(names):
        attack = _named(name, listed)
        reason = _obstacle(attack.needs, model.signals, model.has)
        if not reason:
            runnable[name] = attack
        elif names is not None:
            raise InputError(f"attacks must be able to run here, got {name!r}: {reason}.")
    if not runnable:
        raise InputError("attacks must name at least one attack, got none.")
    return runnable


def _named(name: str, listed: Mapping[str, On]) -> On:
    if name not in listed:
        raise InputError(f"attacks must be among {', '.join(listed)}, got {name!r}.")
    return listed[name]


def _obstacle(needs: Iterable[Need], signals: Signals, has: Callable[[Need], bool]) -> str:
    """Return why an attack cannot run, or an empty text."""
    lacking = {
        "classes": signals.regression,
        "graded answers": signals.kind == "labels",
        "probabilities": signals.regression or signals.kind == "labels",
    }
    for need in needs:
        if lacking[need] if need in lacking else not has(need):
            return _MISSING[need]
    return ""
