"""Attacks by name.  Every score is oriented: higher means "member".

An attack turns a :class:`~memberbound.auditing.duel.Duel` into a (targets, records) score table.
It sees the target's answers, the shadows' answers and the shadows' halves; never the target's half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from memberbound.auditing import lira as likelihood
from memberbound.auditing import quantile, rmia
from memberbound.auditing.combined import combined
from memberbound.auditing.duel import Duel
from memberbound.auditing.signals import Signals
from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray

__all__ = ["ATTACKS", "DEFAULT_ATTACKS", "Attack", "chosen_attacks"]


@dataclass(frozen=True)
class Attack:
    """A named attack with the settings it runs at."""

    name: str
    says: str
    score: Callable[[Duel], FloatArray]
    settings: Mapping[str, float | str] = field(default_factory=dict)
    #: Why the attack cannot run on these signals, or an empty text.
    obstacle: Callable[[Signals], str] = lambda _: ""


def _loss(duel: Duel) -> FloatArray:
    return -duel.target.loss


def _calibrated(duel: Duel) -> FloatArray:
    # How much lower the loss is than that of models without the record.
    _, outs = duel.moments(duel.shadow.loss)
    return np.asarray(outs.mean - duel.target.loss)


def _gradient(duel: Duel) -> FloatArray:
    own, known = duel.target.gradient, duel.shadow.gradient
    if own is None or known is None:
        raise InputError("the gradient attack must have a linear model or a perceptron.")
    _, outs = duel.moments(known)
    return np.asarray(outs.mean - own)


def _label_only(duel: Duel) -> FloatArray:
    own, known = (
        s.correct.astype(np.float64) if s.agreement is None else s.agreement
        for s in (duel.target, duel.shadow)
    )
    _, outs = duel.moments(known)
    return np.asarray(own - outs.mean)


def _no_gradient(signals: Signals) -> str:
    if signals.gradient is not None:
        return ""
    return "the learner has no gradient in closed form; use logistic, linear, ridge or mlp"


def _no_label(signals: Signals) -> str:
    return "a regression target has no labels" if signals.regression else ""


def _labels_only(signals: Signals) -> str:
    return "the learner gives labels only" if signals.kind == "labels" else ""


_CLIP = {"clip": "half the smallest step of the shadows' probabilities, if they count votes"}
_ALL = (
    Attack("loss", "the loss is low", _loss),
    Attack("calibrated-loss", "the loss is lower than without the record", _calibrated),
    Attack(
        "lira",
        "likelihood ratio of the logit, in against out",
        lambda d: likelihood.lira(d, variance="shrunk"),
        {"mode": "online", "variance": "shrunk to the pooled one by 4 models", **_CLIP},
    ),
    Attack(
        "lira-record",
        "the same with each record's own variance",
        lambda d: likelihood.lira(d, variance="record"),
        {"mode": "online", "variance": "record", **_CLIP},
    ),
    Attack(
        "lira-pooled",
        "the same with one variance for all records",
        lambda d: likelihood.lira(d, variance="pooled"),
        {"mode": "online", "variance": "pooled", **_CLIP},
    ),
    Attack(
        "lira-offline",
        "the logit is higher than without the record",
        lambda d: likelihood.lira_offline(d, variance="record"),
        {"mode": "offline", "variance": "record", **_CLIP},
    ),
    Attack(
        "lira-offline-pooled",
        "the same with one variance for all records",
        lambda d: likelihood.lira_offline(d, variance="pooled"),
        {"mode": "offline", "variance": "pooled", **_CLIP},
    ),
    Attack(
        "rmia",
        "the record is likelier than others, relative to the average model",
        rmia.rmia,
        {"mode": "online", "gamma": rmia.GAMMA, "population": "all other records"},
    ),
    Attack(
        "rmia-offline",
        "the same without models that have the record",
        rmia.rmia_offline,
        {
            "mode": "offline",
            "gamma": rmia.GAMMA,
            "a": rmia.OFFLINE_A,
            "population": "all other records",
        },
    ),
    Attack(
        "quantile",
        "the logit is above a quantile regressed on features and label",
        quantile.quantile_regression,
        {"quantile": quantile.QUANTILE, "models": quantile.MODELS},
        _labels_only,
    ),
    Attack(
        "label-only",
        "perturbed copies keep the true label (without copies: the label is right)",
        _label_only,
        {},
        _no_label,
    ),
    Attack("gradient", "the loss gradient is short", _gradient, {}, _no_gradient),
    Attack(
        "combined",
        "logistic regression on lira and rmia, trained on other targets",
        combined,
        {"gamma": rmia.GAMMA, "variance": "shrunk and pooled", **_CLIP},
        _labels_only,
    ),
)
#: Every attack by name.
ATTACKS: dict[str, Attack] = {a.name: a for a in _ALL}
#: What is run unless told otherwise.
DEFAULT_ATTACKS = ("loss", "calibrated-loss", "lira", "rmia", "combined")


def chosen_attacks(names: Iterable[str], signals: Signals) -> tuple[list[Attack], list[str]]:
    """Return the attacks that can run on these signals, and a sentence for each that cannot.

    Edge cases: unknown names, and a choice of which none can run, are refused.
    """
    runnable, skipped = [], []
    for name in dict.fromkeys(names):
        if name not in ATTACKS:
            raise InputError(f"attacks must be among {', '.join(ATTACKS)}, got {name!r}.")
        reason = ATTACKS[name].obstacle(signals)
        if reason:
            skipped.append(f"{name} was left out: {reason}.")
        else:
            runnable.append(ATTACKS[name])
    if not runnable:
        raise InputError(" ".join(skipped) or "attacks must name at least one attack, got none.")
    return runnable, skipped
