"""Scores of the records of one given model.  Every score is oriented: higher means "member".

Some scores read one answer of the model and no other record.  Others compare it with reference
models, or learn from the truth about a random half of the records; these may be measured on the
other half only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from memberbound.attacks.duels import OFFLINE_A, Duel, clip_of, statistic
from memberbound.attacks.evidence import Evidence, References
from memberbound.attacks.shadows import ShadowRun
from memberbound.attacks.signals import BoolArray, Signals, gradient_norms
from memberbound.errors import InputError
from memberbound.learners.examples import Examples
from memberbound.numerics.rounding import FloatArray
from memberbound.numerics.threads import one_thread

__all__ = [
    "Target",
    "above_reference",
    "above_reference_by_own_spread",
    "above_reference_by_shrunk_spread",
    "balancing_weights",
    "certainty",
    "low_entropy",
    "low_loss",
    "low_modified_entropy",
    "relative_likelihood",
    "right_label",
    "short_gradient",
    "told_classifier",
]


@dataclass(frozen=True, eq=False)
class Target:
    """One model that exists, as an attack sees it; ``known`` are records whose truth it is told."""

    evidence: Evidence
    known: BoolArray
    references: References | None = None

    @cached_property
    def signals(self) -> Signals:
        """The usual signals, (1, N)."""
        return self.evidence.signals

    def has(self, need: str) -> bool:
        """Tell whether there is a gradient, or reference models of a kind; the truth there is."""
        refs = self.references
        match need:
            case "gradient":
                return self.gradient is not None
            case "models without":
                return refs is not None and refs.run is not None
            case "models with":
                return refs is not None and refs.pool is not None
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

    @cached_property
    def chances(self) -> FloatArray | None:
        """Probabilities of all classes, (N, K); None where the model does not give them."""
        answers = self.evidence.answers
        if answers.probabilities is not None:
            total = answers.probabilities.sum(axis=1, keepdims=True)
            return np.asarray(answers.probabilities / np.where(total > 0, total, 1.0))
        if answers.logits is None:
            return None
        moved = np.exp(answers.logits - answers.logits.max(axis=1, keepdims=True))
        return np.asarray(moved / moved.sum(axis=1, keepdims=True))

    @property
    def apart(self) -> ShadowRun:
        """Reference models that no evaluated record is in."""
        assert self.references is not None
        assert self.references.run is not None
        return self.references.run

    def pooled(self) -> Duel:
        """The model against reference models with and without each record."""
        assert self.references is not None
        run = self.references.pool
        assert run is not None
        shadow = _comparable(run.signals, self.signals)
        return Duel(self.signals, shadow, run.membership, run.examples, own=False)

    @cached_property
    def outside(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Value, mean, own and shrunk spread of the statistic in models without the record.

        What is pooled comes from the known records alone: the rule must not look at the others.
        """
        run, known = self.apart, self.known
        shadow = _comparable(run.signals, self.signals)
        duel = Duel(self.signals, shadow, run.membership, run.examples, own=False)
        if self.signals.regression:
            floor = 1e-6 * float(shadow.loss[:, known].mean()) + 1e-300
            value, others = (-np.log(s.loss + floor) for s in (self.signals, shadow))
        else:
            clip = clip_of(_columns(shadow, known))
            value, others = statistic(self.signals, clip), statistic(shadow, clip)
        _, outs = duel.moments(others)
        own, shrunk = (
            np.sqrt(outs.variance(kind, among=known))[0] for kind in ("record", "shrunk")
        )
        return value[0], outs.mean[0], own, shrunk


def _comparable(shadow: Signals, target: Signals) -> Signals:
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


def _columns(signals: Signals, kept: BoolArray) -> Signals:
    return Signals(signals.logit[:, kept], signals.correct[:, kept], signals.kind)


def low_loss(target: Target) -> FloatArray:
    """Return minus the loss."""
    return np.asarray(-target.signals.loss[0])


def certainty(target: Target) -> FloatArray:
    """Return the largest probability."""
    assert target.chances is not None
    return np.asarray(target.chances.max(axis=1))


def low_entropy(target: Target) -> FloatArray:
    """Return minus the entropy of the probabilities."""
    assert target.chances is not None
    return np.asarray((target.chances * np.log(np.maximum(target.chances, 1e-300))).sum(axis=1))


def low_modified_entropy(target: Target) -> FloatArray:
    """Return minus the modified entropy (Song and Mittal 2021), low if the model is also right."""
    assert target.chances is not None
    p, rows = target.chances, np.arange(len(target.chances))
    truth = np.asarray(target.evidence.truth)
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


def above_reference(target: Target) -> FloatArray:
    """Return how far the statistic is above its mean in models without the record."""
    value, mean, _, _ = target.outside
    return np.asarray(value - mean)


def above_reference_by_own_spread(target: Target) -> FloatArray:
    """Return the same in standard deviations of the record."""
    value, mean, own, _ = target.outside
    return np.asarray((value - mean) / own)


def above_reference_by_shrunk_spread(target: Target) -> FloatArray:
    """Return the same in deviations shrunk to the pooled one."""
    value, mean, _, shrunk = target.outside
    return np.asarray((value - mean) / shrunk)


def relative_likelihood(target: Target) -> FloatArray:
    """Return ln of P(x|θ)/P(x); the share of records below it, RMIA's score, has its order."""
    shadow, out = _comparable(target.apart.signals, target.signals), ~target.apart.membership

    def confidence(signals: Signals) -> FloatArray:
        if not signals.regression:
            return signals.confidence
        scale = np.maximum(signals.loss[:, target.known].mean(axis=1, keepdims=True), 1e-300)
        return np.asarray(np.exp(-signals.loss / (2 * scale)))

    known = confidence(shadow)
    mean = (known * out).sum(axis=0) / np.maximum(out.sum(axis=0), 1)
    prior = ((1 + OFFLINE_A) * mean + (1 - OFFLINE_A)) / 2
    return np.asarray(np.log(np.maximum(confidence(target.signals)[0], 1e-6) / prior))


def told_classifier(target: Target) -> FloatArray:
    """Return the log-odds of membership from a classifier that was told about the known half."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    table = _features(target)
    told = target.evidence.member[target.known]
    weight = balancing_weights(told)
    straight = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    straight.fit(table[target.known], told, logisticregression__sample_weight=weight)
    score = straight.decision_function(table)
    bent = HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=8, learning_rate=0.1, min_samples_leaf=30, random_state=0
    )
    # Threads that wait for each other on a busy machine cost more than they save.
    with one_thread():
        bent.fit(table[target.known], told, sample_weight=weight)
        score = score + bent.decision_function(table)
    return np.asarray(score, dtype=np.float64)


def balancing_weights(member: BoolArray) -> FloatArray | None:
    """Return weights with which members and others weigh the same; None where they do already.

    With weights that are all one a boosted classifier is the same, but scikit-learn looks for the
    quantiles of every column one after the other.
    """
    share = min(max(float(member.mean()), 1e-9), 1 - 1e-9)
    if share == 0.5:
        return None
    return np.where(member, 0.5 / share, 0.5 / (1 - share))


def _features(target: Target) -> FloatArray:
    """Return (N, F) what the classifier sees of a record: answers, and how unusual they are."""
    logit = target.signals.logit[0]
    columns = [np.arcsinh(logit), np.log(target.signals.loss[0] + 1e-9)]
    if not target.signals.regression:  # "right" is relative to all residuals there
        columns.append(right_label(target))
    chances = target.chances
    if chances is not None:
        top = np.sort(chances, axis=1)[:, ::-1][:, :3]
        columns += [low_entropy(target), low_modified_entropy(target), *np.log(top + 1e-9).T]
        if chances.shape[1] <= 30:
            columns += list(
                (np.asarray(target.evidence.truth)[:, None] == np.arange(chances.shape[1])).T
            )
    if target.signals.regression:
        columns.append(np.asarray(target.evidence.truth, dtype=np.float64))
    if target.references is not None and target.references.run is not None:
        value, mean, own, shrunk = target.outside
        z = (value - mean) / shrunk
        columns += [
            np.arcsinh(z),
            np.arcsinh((value - mean) / own),
            mean,
            np.log(shrunk),
            relative_likelihood(target),
        ]
        columns += [z * np.abs(np.tanh(z)), value - mean]
    return np.column_stack([np.asarray(c, dtype=np.float64) for c in columns])
