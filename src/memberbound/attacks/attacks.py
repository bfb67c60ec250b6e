"""The list of attacks: how each scores its targets, what it has to see, and what it needs.

A learner has many target models, which an attack scores as a (targets, records) table of
:class:`Targets`; a given model is one :class:`Target`.  Every score is oriented: higher means
"member".  An attack never sees the half of the target that it is measured on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from memberbound.attacks import model_scores, shadow_scores
from memberbound.attacks.model_scores import Target
from memberbound.attacks.shadow_scores import GAMMA, OFFLINE_A, QUANTILE, QUANTILE_MODELS
from memberbound.attacks.signals import Signals
from memberbound.errors import InputError
from memberbound.learners.examples import Task
from memberbound.numerics.rounding import FloatArray

#: What an attack has to see of the model: a label, its probabilities (or a regression's number), or
#: the model itself.
AccessLevel = Literal["labels", "values", "probabilities", "parameters"]
#: What an attack cannot do without: of the model's answers, reference models of known records, or
#: the truth about other records.
Need = Literal["classes", "graded answers", "probabilities", "gradient", "references", "truth"]
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
class Rule:
    """How an attack scores its targets, what it needs, and the settings it runs at."""

    score: Callable[[Any], FloatArray]
    needs: tuple[Need, ...] = ()
    settings: Mapping[str, float | str] = field(default_factory=dict)

    @property
    def learns(self) -> bool:
        """Whether it depends on known records, so that it is measured on the others."""
        return "references" in self.needs or "truth" in self.needs


@dataclass(frozen=True)
class Attack:
    """An attack: how it scores a learner's :class:`Targets`, or one :class:`Target`."""

    name: str
    on_learner: Rule | None = None
    on_model: Rule | None = None
    access: AccessLevel = "probabilities"


_GRADED: tuple[Need, ...] = ("graded answers",)
_ANSWERS: tuple[Need, ...] = ("graded answers", "probabilities")
_REFERENCES: tuple[Need, ...] = ("graded answers", "references")
_CLIP = {"clip": "half the smallest step of the shadows' probabilities, if they count votes"}
_RANKED: dict[str, float | str] = {"gamma": GAMMA, "population": "all other records"}


def _lira(variance: str, shown: str | None = None, *, mode: str = "online") -> Rule:
    score = shadow_scores.lira if mode == "online" else shadow_scores.lira_offline
    settings = {"mode": mode, "variance": shown or variance, **_CLIP}
    return Rule(partial(score, variance=variance), (), settings)


_ALL = (
    Attack(
        "loss",
        on_learner=Rule(lambda targets: -targets.signals.loss),
        on_model=Rule(lambda target: -target.signals.loss[0], _GRADED),
    ),
    Attack(
        "confidence",
        on_model=Rule(lambda target: target.probabilities.max(axis=1), _ANSWERS),
    ),
    Attack("entropy", on_model=Rule(model_scores.low_entropy, _ANSWERS)),
    Attack("modified-entropy", on_model=Rule(model_scores.low_modified_entropy, _ANSWERS)),
    Attack(
        "label-only",
        on_learner=Rule(shadow_scores.calibrated_label, ("classes",)),
        on_model=Rule(model_scores.right_label, ("classes",)),
        access="labels",
    ),
    Attack(
        "gradient",
        on_learner=Rule(shadow_scores.calibrated_gradient, ("gradient",)),
        on_model=Rule(model_scores.short_gradient, ("graded answers", "gradient")),
        access="parameters",
    ),
    Attack(
        "calibrated-loss",
        on_learner=Rule(shadow_scores.calibrated_loss),
        on_model=Rule(model_scores.above_references, _REFERENCES),
    ),
    Attack(
        "lira",
        on_learner=_lira("shrunk", "shrunk to the pooled one by 4 models"),
        on_model=Rule(model_scores.likelihood_ratio, _REFERENCES),
    ),
    Attack("lira-record", on_learner=_lira("record")),
    Attack("lira-pooled", on_learner=_lira("pooled")),
    Attack(
        "lira-offline",
        on_learner=_lira("record", mode="offline"),
        on_model=Rule(partial(model_scores.above_references, spread="own"), _REFERENCES),
    ),
    Attack("lira-offline-pooled", on_learner=_lira("pooled", mode="offline")),
    Attack(
        "rmia",
        on_learner=Rule(shadow_scores.rmia, (), {"mode": "online", **_RANKED}),
        on_model=Rule(model_scores.relative_likelihood, _REFERENCES),
    ),
    Attack(
        "rmia-offline",
        on_learner=Rule(
            shadow_scores.rmia_offline, (), {"mode": "offline", **_RANKED, "a": OFFLINE_A}
        ),
    ),
    Attack(
        "quantile",
        on_learner=Rule(
            shadow_scores.quantile_regression,
            _GRADED,
            {"quantile": QUANTILE, "models": QUANTILE_MODELS},
        ),
    ),
    Attack(
        "combined",
        on_learner=Rule(
            shadow_scores.combined,
            _GRADED,
            {"gamma": GAMMA, "variance": "shrunk and pooled", **_CLIP},
        ),
        on_model=Rule(model_scores.classifier_of_known_records, ("graded answers", "truth")),
    ),
    Attack("learned", on_learner=Rule(shadow_scores.learned)),
)
#: Every attack by name.
ATTACKS: dict[str, Attack] = {attack.name: attack for attack in _ALL}
#: What is run on a learner unless told otherwise; on a model it is all that can run.
DEFAULT_ATTACKS = ("loss", "calibrated-loss", "lira", "rmia", "combined")


def attacks_on_learners() -> dict[str, Rule]:
    """Return the attacks that a learner's models can be attacked with, by name."""
    return {n: a.on_learner for n, a in ATTACKS.items() if a.on_learner is not None}


def attacks_on_models() -> dict[str, Rule]:
    """Return the attacks that a given model can be attacked with, by name."""
    return {n: a.on_model for n, a in ATTACKS.items() if a.on_model is not None}


def access_of(name: str, task: Task) -> AccessLevel:
    """Return what an attack has to see of the model."""
    level = ATTACKS[name].access
    return "values" if task == "regression" and level == "probabilities" else level


def runnable_on_learner(
    names: Iterable[str], signals: Signals
) -> tuple[dict[str, Rule], list[str]]:
    """Return the attacks that can run on a learner, and a sentence for each that cannot.

    Edge cases: unknown names, and a choice of which none can run, are refused.
    """
    runnable, skipped = {}, []
    for name, rule in _named(names, attacks_on_learners()).items():
        # Whoever trained the shadows has all kinds of models and knows their halves.
        reason = _obstacle(
            rule, signals, lambda need: need != "gradient" or signals.gradient is not None
        )
        if reason:
            skipped.append(f"{name} was left out: {reason}.")
        else:
            runnable[name] = rule
    if not runnable:
        raise InputError(" ".join(skipped))
    return runnable, skipped


def runnable_on_model(target: Target, names: Iterable[str] | None) -> dict[str, Rule]:
    """Return the attacks that can run on a given model: all of them, or those that are named.

    Edge cases: an unknown name is refused, and so is a named attack that cannot run here.
    """
    listed = attacks_on_models()
    runnable = {}
    for name, rule in (listed if names is None else _named(names, listed)).items():
        reason = _obstacle(rule, target.signals, target.has)
        if not reason:
            runnable[name] = rule
        elif names is not None:
            raise InputError(f"attacks must be able to run here, got {name!r}: {reason}.")
    return runnable


def _named(names: Iterable[str], listed: Mapping[str, Rule]) -> dict[str, Rule]:
    chosen = dict.fromkeys(names)
    for name in chosen:
        if name not in listed:
            raise InputError(f"attacks must be among {', '.join(listed)}, got {name!r}.")
    if not chosen:
        raise InputError("attacks must name at least one attack, got none.")
    return {name: listed[name] for name in chosen}


def _obstacle(rule: Rule, signals: Signals, has: Callable[[Need], bool]) -> str:
    """Return why an attack cannot run, or an empty text."""
    lacking = {
        "classes": signals.regression,
        "graded answers": signals.kind == "labels",
        "probabilities": signals.regression or signals.kind == "labels",
    }
    for need in rule.needs:
        if lacking[need] if need in lacking else not has(need):
            return _MISSING[need]
    return ""
