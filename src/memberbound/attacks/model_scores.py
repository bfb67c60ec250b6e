"""Scores of the records of one given model.  Every score is oriented: higher means "member".

Some scores read one answer of the model and no other record.  Others learn from known records, or
compare the model with reference models trained on known records; these are measured on the other
records only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from memberbound.attacks.evidence import Evidence
from memberbound.attacks.shadow_scores import Targets, clip_of, clipped_logit
from memberbound.attacks.shadows import References, ShadowRun
from memberbound.attacks.signals import BoolArray, Signals, class_probabilities, gradient_norms
from memberbound.errors import InputError
from memberbound.learners.examples import Examples
from memberbound.numerics import one_thread
from memberbound.numerics.rounding import FloatArray

Spread = Literal["one", "own"]
#: Pairs (model, record) that the classifier learns from; more change nothing for so few features.
_MOST_PAIRS = 40_000


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
        match need:
            case "gradient":
                return self.gradient is not None
            case "references":
                return self.references is not None
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

    @cached_property
    def comparison(self) -> Comparison:
        """This model beside reference models without the record, which no measured one is in."""
        run = self.trained
        shadows = _in_kind_of(self.signals, run.signals)
        targets = Targets(self.signals, shadows, run.membership, run.examples, leave_one_out=False)
        return Comparison.of(targets, clip_of(_records(shadows, self.practised)), self.practised)

    @cached_property
    def practice(self) -> Comparison:
        """Every reference model beside the others, on known non-members: there all is known."""
        run = self.trained
        shadows = _records(_in_kind_of(self.signals, run.signals), self.practised)
        inside = run.membership[:, self.practised]
        targets = Targets.each_by_the_others(shadows, inside, run.examples)
        return Comparison.of(targets, clip_of(shadows))

    @property
    def practised(self) -> BoolArray:
        """The known non-members: some reference models are trained on one, others are not."""
        return self.known & ~self.evidence.member

    @property
    def trained(self) -> ShadowRun:
        """The reference models."""
        assert self.references is not None
        return self.references.run


@dataclass(frozen=True, eq=False)
class Comparison:
    """Target models beside reference models, each a (targets, records) array.

    Attributes:
        value: the statistic, higher for a record that the target fits better.
        mean: its mean over reference models without the record.
        spread: its standard deviation over these, shrunk to that of all records.
        confidence: of the target, and ``usual`` its mean over models without the record.
        inside: mean of the statistic, and ``usual_inside`` of the confidence, over models with it.
        counted: whether there are models without the record, and ``both`` also some with it.
    """

    value: FloatArray
    mean: FloatArray
    spread: FloatArray
    confidence: FloatArray
    usual: FloatArray
    inside: FloatArray
    usual_inside: FloatArray
    counted: BoolArray
    both: BoolArray

    @classmethod
    def of(cls, targets: Targets, clip: float, pooled: BoolArray | None = None) -> Comparison:
        """Compare targets with shadows; what is pooled comes from the records ``pooled`` alone."""
        signals, shadows = targets.signals, targets.shadows
        columns = slice(None) if pooled is None else pooled
        if signals.regression:
            scale = float(shadows.loss[:, columns].mean()) + 1e-300
            value, others = (-np.log(s.loss + 1e-6 * scale) for s in (signals, shadows))
            confidence, usual = (np.exp(-s.loss / (2 * scale)) for s in (signals, shadows))
        else:
            value, others = (clipped_logit(s, clip) for s in (signals, shadows))
            confidence, usual = signals.confidence, shadows.confidence
        ins, outs = targets.moments(others)
        sure_in, sure_out = targets.moments(usual)
        shape = value.shape
        return cls(
            value,
            np.broadcast_to(outs.mean, shape),
            np.broadcast_to(np.sqrt(outs.variance("shrunk", among=pooled)), shape),
            confidence,
            np.broadcast_to(sure_out.mean, shape),
            np.broadcast_to(ins.mean, shape),
            np.broadcast_to(sure_in.mean, shape),
            np.broadcast_to(outs.count > 0, shape),
            np.broadcast_to((outs.count > 0) & (ins.count > 0), shape),
        )

    @property
    def features(self) -> FloatArray:
        """What the classifier sees, (targets, records, features)."""
        z = (self.value - self.mean) / self.spread
        gap, size = self.value - self.mean, np.log(self.spread)
        ratio = np.log(np.maximum(self.confidence, 1e-6) / ((self.usual + 1) / 2))
        return np.stack(
            [
                np.arcsinh(z),
                gap,
                self.value,
                self.mean,
                size,
                z * size,
                gap * self.spread,
                ratio,
                self.confidence - self.usual,
                np.clip(z, -4, 4) * self.spread,
            ],
            axis=-1,
        )


def _records(signals: Signals, columns: BoolArray) -> Signals:
    """Return the signals of some of the records."""
    return Signals(signals.logit[:, columns], signals.correct[:, columns], signals.kind)


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

    In units of the statistic, or of the record's own spread over these models.
    """
    seen = target.comparison
    unit = seen.spread if spread == "own" else np.ones_like(seen.spread)
    return np.asarray(((seen.value - seen.mean) / unit)[0])


def likelihood_ratio(target: Target) -> FloatArray:
    """Return ln of the likelihood ratio of two normal laws: with the record against without.

    Nobody trains models with the measured records.  What a record gains by being in is regressed on
    the mean and spread in models without it, over known non-members, which are in some models.
    """
    seen, learned = target.comparison, target.practice
    both = learned.both
    gain = (learned.inside - learned.mean)[both]
    weights, *_ = np.linalg.lstsq(_conditions(learned)[both], gain, rcond=None)
    shift = np.maximum(_conditions(seen)[0] @ weights, 0.0)
    above = (seen.value - seen.mean)[0]
    return np.asarray(shift * (above - shift / 2) / np.square(seen.spread[0]))


def _conditions(seen: Comparison) -> FloatArray:
    spread, mean = seen.spread, seen.mean
    unsure = np.exp(-np.abs(mean)) / (1 + np.exp(-np.abs(mean)))
    columns = (np.ones_like(mean), spread, np.square(spread), mean, np.abs(mean), unsure)
    return np.stack(columns, axis=-1)


def relative_likelihood(target: Target) -> FloatArray:
    """Return ln of P(x|θ)/P(x); the share of records below it, RMIA's score, has its order.

    P(x) is the mean over models with and without x.  Those with it are taken to say a·P_out + 1-a,
    with a from known non-members (RMIA's offline form, with its a learned).
    """
    seen, learned = target.comparison, target.practice
    both = learned.both
    doubt, gain = (1 - learned.usual)[both], (learned.usual_inside - learned.usual)[both]
    share = float(np.clip((gain @ doubt) / max(float(doubt @ doubt), 1e-300), 0.0, 1.0))
    prior = seen.usual + share * (1 - seen.usual) / 2
    return np.asarray(np.log(np.maximum(seen.confidence, 1e-6) / np.maximum(prior, 1e-6))[0])


def classifier_of_known_records(target: Target) -> FloatArray:
    """Return the log-odds of membership from classifiers trained on known records.

    With reference models: on whether a known non-member is in each of them.  Without: on whether a
    known record is a member of the given model.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if target.references is None:
        table = _features(target)
        rows, member = table[target.known], target.evidence.member[target.known]
    else:
        counted = target.practice.counted
        table = target.comparison.features[0]
        rows = target.practice.features[counted]
        member = target.trained.membership[:, target.practised][counted]
        step = max(1, len(rows) // _MOST_PAIRS)
        rows, member = rows[::step], member[::step]
    weight = balancing_weights(member)
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    linear.fit(rows, member, logisticregression__sample_weight=weight)
    boosted = HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=8, learning_rate=0.1, min_samples_leaf=30, random_state=0
    )
    # On a busy machine several threads are slower than one for so small a fit.
    with one_thread():
        boosted.fit(rows, member, sample_weight=weight)
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
    return np.column_stack([np.asarray(c, dtype=np.float64) for c in columns])
