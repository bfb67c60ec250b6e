"""The list of attacks: what each says of a record, what it has to see, and what it needs.

A learner has many target models, which an attack scores as a (targets, records) table of
:class:`Targets`; a given model is one :class:`Target`.  Every score is oriented: higher means
"member".  An attack never sees the half of the target that it is measured on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeVar

from memberbound.attacks import model_scores, shadow_scores
from memberbound.attacks.model_scores import Target
from memberbound.attacks.shadow_scores import GAMMA, OFFLINE_A, QUANTILE, QUANTILE_MODELS, Targets
from memberbound.attacks.signals import Signals
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
    "runnable_on_learner",
    "runnable_on_model",
]

On = TypeVar("On")

#: What an attack has to see of the model: a label, its probabilities (or a regression's number), or
#: the model itself.
AccessLevel = Literal["labels", "values", "probabilities", "parameters"]
#: What an attack cannot do without: of the model's answers, reference models of known records, or
#: the truth about other records.
Need = Literal[
    "classes",
    "graded answers",
    "probabilities",
    "gradient",
    "references",
    "truth",
]
_MISSING: dict[Need, str] = {
    "classes": "a regression has no labels",
    "graded answers": "the model gives labels only",
    "probabilities": "there are no probabilities",
    "gradient": "there is no gradient in closed form; logistic, linear, ridge and mlp have one",
    "references": "there are no reference models (they need a model that can be trained again or a "
    "named learner, and no quick)",
    "truth": "nobody's membership is known",
}


@dataclass(frozen=True)
class OnLearner:
    """How an attack scores models of a learner, the settings it runs at, and what it needs."""

    score: Callable[[Targets], FloatArray]
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
        return "references" in self.needs or "truth" in self.needs


@dataclass(frozen=True)
class Attack:
    """An attack: when it calls a record a member, what it has to see, and whom it can attack."""

    name: str
    says: str
    access: AccessLevel = "probabilities"
    on_learner: OnLearner | None = None
    on_model: OnModel | None = None


_CLIP = {"clip": "half the smallest step of the shadows' probabilities, if they count votes"}
_RANKED: dict[str, float | str] = {"gamma": GAMMA, "population": "all other records"}
_ANSWERS: tuple[Need, ...] = ("graded answers", "probabilities")
_REFERENCES: tuple[Need, ...] = ("graded answers", "references")


def _lira(variance: str, shown: str | None = None) -> OnLearner:
    score = partial(shadow_scores.lira, variance=variance)
    return OnLearner(score, {"mode": "online", "variance": shown or variance, **_CLIP})


def _lira_offline(variance: str) -> OnLearner:
    score = partial(shadow_scores.lira_offline, variance=variance)
    return OnLearner(score, {"mode": "offline", "variance": variance, **_CLIP})


_ALL = (
    Attack(
        "loss",
        "the loss of the true target is low",
        on_learner=OnLearner(lambda targets: -targets.signals.loss),
        on_model=OnModel(lambda target: -target.signals.loss[0]),
    ),
    Attack(
        "confidence",
        "the model is sure",
        on_model=OnModel(lambda target: target.probabilities.max(axis=1), _ANSWERS),
    ),
    Attack(
        "entropy",
        "its probabilities have low entropy",
        on_model=OnModel(model_scores.low_entropy, _ANSWERS),
    ),
    Attack(
        "modified-entropy",
        "it is sure and right",
        on_model=OnModel(model_scores.low_modified_entropy, _ANSWERS),
    ),
    Attack(
        "label-only",
        "the label is right (of a learner: oftener than without the record)",
        "labels",
        OnLearner(shadow_scores.calibrated_label, needs=("classes",)),
        OnModel(model_scores.right_label, ("classes",)),
    ),
    Attack(
        "gradient",
        "the loss gradient is short (of a learner: shorter than without the record)",
        "parameters",
        OnLearner(shadow_scores.calibrated_gradient, needs=("gradient",)),
        OnModel(model_scores.short_gradient, ("graded answers", "gradient")),
    ),
    Attack(
        "calibrated-loss",
        "the loss is lower than in models without the record",
        on_learner=OnLearner(shadow_scores.calibrated_loss),
        on_model=OnModel(model_scores.above_references, _REFERENCES),
    ),
    Attack(
        "lira",
        "likelihood ratio of the logit, with the record against without",
        on_learner=_lira("shrunk", "shrunk to the pooled one by 4 models"),
        on_model=OnModel(model_scores.likelihood_ratio, _REFERENCES),
    ),
    Attack(
        "lira-record",
        "the same with each record's own variance",
        on_learner=_lira("record"),
    ),
    Attack(
        "lira-pooled",
        "the same with one variance for all records",
        on_learner=_lira("pooled"),
    ),
    Attack(
        "lira-offline",
        "the logit is above that of models without the record, in standard deviations",
        on_learner=_lira_offline("record"),
        on_model=OnModel(partial(model_scores.above_references, spread="own"), _REFERENCES),
    ),
    Attack(
        "lira-offline-pooled",
        "the same with one variance for all records",
        on_learner=_lira_offline("pooled"),
    ),
    Attack(
        "rmia",
        "the record is likelier than others, relative to models with and without it",
        on_learner=OnLearner(shadow_scores.rmia, {"mode": "online", **_RANKED}),
        on_model=OnModel(model_scores.relative_likelihood, _REFERENCES),
    ),
    Attack(
        "rmia-offline",
        "the same with models without the record alone",
        on_learner=OnLearner(
            shadow_scores.rmia_offline, {"mode": "offline", **_RANKED, "a": OFFLINE_A}
        ),
    ),
    Attack(
        "quantile",
        "the logit is above a quantile regressed on features and label",
        on_learner=OnLearner(
            shadow_scores.quantile_regression,
            {"quantile": QUANTILE, "models": QUANTILE_MODELS},
            ("graded answers",),
        ),
    ),
    Attack(
        "combined",
        "a classifier on the scores of others says so, trained on other targets or records",
        on_learner=OnLearner(
            shadow_scores.combined,
            {"gamma": GAMMA, "variance": "shrunk and pooled", **_CLIP},
            ("graded answers",),
        ),
        on_model=OnModel(model_scores.classifier_of_known_records, ("graded answers", "truth")),
    ),
    Attack(
        "learned",
        "boosted trees on signals and record say so, trained on other targets (A25 §7)",
        on_learner=OnLearner(shadow_scores.learned),
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
    """Return the attacks that a given model can be attacked with, by name."""
    return {n: a.on_model for n, a in ATTACKS.items() if a.on_model is not None}


def access_of(name: str, task: Task) -> AccessLevel:
    """Return what an attack has to see of the model."""
    level = ATTACKS[name].access
    return "values" if task == "regression" and level == "probabilities" else level


def runnable_on_learner(
    names: Iterable[str], signals: Signals
) -> tuple[dict[str, OnLearner], list[str]]:
    """Return the attacks that can run on a learner, and a sentence for each that cannot.

    Edge cases: unknown names, and a choice of which none can run, are refused.
    """
    runnable, skipped = {}, []
    for name, attack in _named(names, attacks_on_learners()).items():
        # Whoever trained the shadows has all kinds of models and knows their halves.
        reason = _obstacle(
            attack.needs, signals, lambda need: need != "gradient" or signals.gradient is not None
        )
        if reason:
            skipped.append(f"{name} was left out: {reason}.")
        else:
            runnable[name] = attack
    if not runnable:
        raise InputError(" ".join(skipped))
    return runnable, skipped


def runnable_on_model(target: Target, names: Iterable[str] | None) -> dict[str, OnModel]:
    """Return the attacks that can run on a given model: all of them, or those that are named.

    Edge cases: an unknown name is refused, and so is a named attack that cannot run here.
    """
    listed = attacks_on_models()
    runnable = {}
    for name, attack in (listed if names is None else _named(names, listed)).items():
        reason = _obstacle(attack.needs, target.signals, target.has)
        if not reason:
            runnable[name] = attack
        elif names is not None:
            raise InputError(f"attacks must be able to run here, got {name!r}: {reason}.")
    return runnable


def _named(names: Iterable[str], listed: Mapping[str, On]) -> dict[str, On]:
    chosen = dict.fromkeys(names)
    for name in chosen:
        if name not in listed:
            raise InputError(f"attacks must be among {', '.join(listed)}, got {name!r}.")
    if not chosen:
        raise InputError("attacks must name at least one attack, got none.")
    return {name: listed[name] for name in chosen}


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
