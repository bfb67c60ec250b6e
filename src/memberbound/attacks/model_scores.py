"""Scores of the records of one given model.  Every score is oriented: higher means "member".

Some scores read one answer of the model and no other record.  Others compare it with reference
models, or learn from the truth about a random half of the records; these may be measured on the
other half only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from memberbound.attacks.evidence import Evidence
from memberbound.attacks.references import References
from memberbound.attacks.shadow_scores import OFFLINE_A, Targets, clip_of, clipped_logit
from memberbound.attacks.shadows import ShadowRun
from memberbound.attacks.signals import BoolArray, Signals, class_probabilities, gradient_norms
from memberbound.errors import InputError
from memberbound.learners.examples import Examples
from memberbound.numerics.rounding import FloatArray
from memberbound.numerics.threads import one_thread

__all__ = [
    "Spread",
    "Target",
    "above_references",
    "balancing_weights",
    "classifier_of_known_half",
    "low_entropy",
    "low_modified_entropy",
    "relative_likelihood",
    "right_label",
    "short_gradient",
]

Spread = Literal["one", "own", "shrunk"]


@dataclass(frozen=True, eq=False)
class Target:
    """One given model under attack; of the ``known`` records the attacker knows the membership."""

    evidence: Evidence
    known: BoolArray
    references: References | None = None

    @cached_property
    def signals(self) -> Signals:
        """The usual signals, (1, N)."""
        return self.evidence.signals

    def has(self, need: str) -> bool:
        """Tell whether an attack's need is met."""
        refs = self.references
        match need:
            case "gradient":
                return self.gradient is not None
            case "models without":
                return refs is not None and refs.without is not None
            case "models with":
                return refs is not None and refs.with_and_without is not None
        return need == "truth"

    @cached_property
    def gradient(self) -> FloatArray | None:
        """‖∇ℓ‖ of the model per record, (N,), where there is a closed form."""
        evidence = self.evidence
        model = None if evidence.model is None else evidence.model.model
        rows = None if evidence.model is None else evidence.model.matched(evidence.rows)
        classes = getattr(model, "classes_", None)
        if model is None or not isinstance(rows, np.ndarray) or rows.ndim != 2:
            return None
        truth = evidence.truth if classes is None else np.asarray(classes)[evidence.truth]
        try:
            features = np.asarray(rows, dtype=np.float64)
            norms = gradient_norms(model, Examples(features, truth, evidence.task, ()))
        except (TypeError, ValueError, AttributeError):
            return None
        return norms if norms is not None and np.isfinite(norms).all() else None

    @property
    def has_probabilities(self) -> bool:
        """Whether the model answers with probabilities or logits."""
        return class_probabilities(self.evidence.answers) is not None

    @cached_property
    def probabilities(self) -> FloatArray:
        """Probabilities of all classes, (N, K)."""
        p = class_probabilities(self.evidence.answers)
        assert p is not None
        total = p.sum(axis=1, keepdims=True)
        return np.asarray(p / np.where(total > 0, total, 1.0))

    @property
    def references_without(self) -> ShadowRun:
        """Reference models that no evaluated record is in."""
        assert self.references is not None
        assert self.references.without is not None
        return self.references.without

    def against(self, run: ShadowRun) -> Targets:
        """Return this model as the one target of reference models."""
        shadows = _in_kind_of(self.signals, run.signals)
        return Targets(self.signals, shadows, run.membership, run.examples, leave_one_out=False)

    def against_both(self) -> Targets:
        """Return this model against reference models with and without each record."""
        assert self.references is not None
        assert self.references.with_and_without is not None
        return self.against(self.references.with_and_without)

    @cached_property
    def without_record(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Value, mean, own and shrunk spread of the statistic in models without the record.

        What is pooled comes from the known records alone: the rule must not look at the others.
        """
        targets, known = self.against(self.references_without), self.known
        shadows = targets.shadows
        if self.signals.regression:
            floor = 1e-6 * float(shadows.loss[:, known].mean()) + 1e-300
            value, others = (-np.log(s.loss + floor) for s in (self.signals, shadows))
        else:
            seen = Signals(shadows.logit[:, known], shadows.correct[:, known], shadows.kind)
            clip = clip_of(seen)
            value, others = clipped_logit(self.signals, clip), clipped_logit(shadows, clip)
        _, outs = targets.moments(others)
        own, shrunk = (
            np.sqrt(outs.variance(kind, among=known))[0] for kind in ("record", "shrunk")
        )
        return value[0], outs.mean[0], own, shrunk


def _in_kind_of(target: Signals, shadow: Signals) -> Signals:
    """Return the references' signals in the kind of the target's."""
    if shadow.kind == target.kind:
        return shadow
    if target.kind == "labels":
        return Signals(np.where(shadow.correct, 1.0, -1.0), shadow.correct, "labels")
    if {shadow.kind, target.kind} == {"probabilities", "decision values"}:
        # Both are log-odds of the true class; a network's logits are those of its probabilities.
        return Signals(shadow.logit, shadow.correct, target.kind)
    raise InputError(
        f"learner must answer with {target.kind} as the given model does, got {shadow.kind}. Name "
        "a learner of the model's own kind."
    )


def low_entropy(target: Target) -> FloatArray:
    """Return minus the entropy of the probabilities."""
    p = target.probabilities
    return np.asarray((p * np.log(np.maximum(p, 1e-300))).sum(axis=1))


def low_modified_entropy(target: Target) -> FloatArray:
    """Return minus the modified entropy (Song and Mittal 2021), low if the model is also right."""
    p = target.probabilities
    rows, truth = np.arange(len(p)), np.asarray(target.evidence.truth)
    own = p[rows, truth]
    against = p * np.log(np.maximum(1 - p, 1e-12))
    total = against.sum(axis=1) - against[rows, truth]
    return np.asarray((1 - own) * np.log(np.maximum(own, 1e-12)) + total)


def right_label(target: Target) -> FloatArray:
    """Return whether the label is right."""
    return np.asarray(target.signals.correct[0], dtype=np.float64)


def short_gradient(target: Target) -> FloatArray:
    """Return minus the length of the loss gradient."""
    assert target.gradient is not None
    return np.asarray(-target.gradient)


def above_references(target: Target, spread: Spread = "one") -> FloatArray:
    """Return how far the statistic is above its mean in models without the record.

    In units of the statistic, of the record's own standard deviation over these models, or of
    that shrunk to the pooled one.
    """
    value, mean, own, shrunk = target.without_record
    unit = {"one": np.ones_like(own), "own": own, "shrunk": shrunk}[spread]
    return np.asarray((value - mean) / unit)


def relative_likelihood(target: Target) -> FloatArray:
    """Return ln of P(x|θ)/P(x); the share of records below it, RMIA's score, has its order."""
    run = target.references_without
    shadows, outside = _in_kind_of(target.signals, run.signals), ~run.membership

    def confidence(signals: Signals) -> FloatArray:
        if not signals.regression:
            return signals.confidence
        scale = np.maximum(signals.loss[:, target.known].mean(axis=1, keepdims=True), 1e-300)
        return np.asarray(np.exp(-signals.loss / (2 * scale)))

    mean = (confidence(shadows) * outside).sum(axis=0) / np.maximum(outside.sum(axis=0), 1)
    prior = ((1 + OFFLINE_A) * mean + (1 - OFFLINE_A)) / 2
    return np.asarray(np.log(np.maximum(confidence(target.signals)[0], 1e-6) / prior))


def classifier_of_known_half(target: Target) -> FloatArray:
    """Return the log-odds of membership from classifiers trained on the known half."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    table = _features(target)
    member = target.evidence.member[target.known]
    weight = balancing_weights(member)
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    linear.fit(table[target.known], member, logisticregression__sample_weight=weight)
    boosted = HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=8, learning_rate=0.1, min_samples_leaf=30, random_state=0
    )
    # On a busy machine several threads are slower than one for so small a fit.
    with one_thread():
        boosted.fit(table[target.known], member, sample_weight=weight)
        score = linear.decision_function(table) + boosted.decision_function(table)
    return np.asarray(score, dtype=np.float64)


def balancing_weights(member: BoolArray) -> FloatArray | None:
    """Return weights with which members and others weigh the same; None where they do already.

    Without weights scikit-learn finds the quantiles of all columns at once, which is quicker.
    """
    share = min(max(float(member.mean()), 1e-9), 1 - 1e-9)
    if share == 0.5:
        return None
    return np.where(member, 0.5 / share, 0.5 / (1 - share))


def _features(target: Target) -> FloatArray:
    """Return (N, F) what the classifier sees of a record: answers, and how unusual they are."""
    signals, truth = target.signals, np.asarray(target.evidence.truth)
    columns = [np.arcsinh(signals.logit[0]), np.log(signals.loss[0] + 1e-9)]
    if not signals.regression:  # "right" is relative to all residuals there
        columns.append(right_label(target))
    if target.has_probabilities:
        p = target.probabilities
        top = np.sort(p, axis=1)[:, ::-1][:, :3]
        columns += [low_entropy(target), low_modified_entropy(target), *np.log(top + 1e-9).T]
        if p.shape[1] <= 30:
            columns += list((truth[:, None] == np.arange(p.shape[1])).T)
    if signals.regression:
        columns.append(truth)
    if target.has("models without"):
        value, mean, own, shrunk = target.without_record
        z = (value - mean) / shrunk
        columns += [np.arcsinh(z), np.arcsinh((value - mean) / own), mean, np.log(shrunk)]
        columns += [relative_likelihood(target), z * np.abs(np.tanh(z)), value - mean]
    return np.column_stack([np.asarray(c, dtype=np.float64) for c in columns])
