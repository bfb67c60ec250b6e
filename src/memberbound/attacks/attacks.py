"""The list of attacks: how each scores target models, what it has to see, and what it needs.

A learner has many targets, each attacked with other models of the learner; a given model is one
target, attacked with reference models.  Every score is a (targets, records) table and is oriented:
higher means "member".  An attack never sees the half of the target that it is measured on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import special

from memberbound.attacks.signals import EXACT, BoolArray, Signals, class_probabilities
from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray

if TYPE_CHECKING:
    from memberbound.attacks.evidence import Evidence

# ── Targets and shadows: the sums over shadow models that every attack is made of ─────────────────


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and centred sum of squares of a statistic over some shadow models, per record.

    Arrays are (T, N), or (1, N) when all targets face the same shadows.
    """

    count: FloatArray
    mean: FloatArray
    squares: FloatArray

    def variance(self, pool: BoolArray | slice) -> FloatArray:
        """Return the variance per record, shrunk to that of the records ``pool`` by 4 models."""
        freedom = np.maximum(self.count - 1, 0.0)
        shape = np.broadcast_shapes(self.squares.shape, freedom.shape)
        free, squares = (np.broadcast_to(a, shape)[:, pool] for a in (freedom, self.squares))
        total = free.sum(axis=1, keepdims=True)
        pooled = squares.sum(axis=1, keepdims=True) / np.maximum(total, 1.0)
        return np.asarray((self.squares + 4 * np.maximum(pooled, 1e-12)) / (freedom + 4))


@dataclass(frozen=True, eq=False)
class Targets:
    """Target models, and the shadow models with known training sets that they are attacked with.

    The targets of a learner are models of their own, or target i *is* shadow i and is left out of
    what the attacker knows about it.  Leaving one out is a subtraction from a sum, so attacking all
    S models with the other S-1 costs O(S·N).  Every record is in some shadows and not in others.

    A given model is one target.  No shadow was trained on a measured record, so what models say
    that were trained on one is predicted, from known non-members.  These are ``pool``: all numbers
    that are shared between records come from them, and the score of a measured record depends on no
    other measured one (proofs/given-models.md claims 1 and 4).

    Attributes:
        signals: what the targets say, (T, N).
        shadows: what the shadows say, (S, N); None where there are none.
        membership: which shadows were trained on which records, (S, N).
        leave_one_out: whether target i is shadow i, attacked with the others.
        pool: the known non-members of a given model; None for a learner, whose records all are.
        evidence: the answers of a given model.
        known: the records whose membership in the given model is known.
    """

    signals: Signals
    shadows: Signals | None = None
    membership: BoolArray | None = None
    leave_one_out: bool = False
    pool: BoolArray | None = None
    evidence: Evidence | None = None
    known: BoolArray | None = None

    @classmethod
    def each_by_the_others(
        cls, signals: Signals, membership: BoolArray, pool: BoolArray | None = None
    ) -> Targets:
        """Attack every model with all the others."""
        return cls(signals, signals, membership, leave_one_out=True, pool=pool)

    @classmethod
    def of_given_model(
        cls,
        evidence: Evidence,
        known: BoolArray,
        shadows: Signals | None = None,
        membership: BoolArray | None = None,
    ) -> Targets:
        """Attack a given model, with reference models where there are any."""
        target = cls(evidence.signals, evidence=evidence, known=known)
        if shadows is None:
            return target
        alike, pool = shadows.in_kind_of(evidence.signals), known & ~evidence.member
        return replace(target, shadows=alike, membership=membership, pool=pool)

    @cached_property
    def practice(self) -> Targets:
        """Every shadow attacked with the others: there all training sets are known."""
        shadows, membership = self.trained
        if self.leave_one_out:
            return self
        if self.pool is None:
            return Targets.each_by_the_others(shadows, membership)
        columns = np.flatnonzero(self.pool)
        everywhere = np.ones(columns.size, dtype=np.bool_)
        return Targets.each_by_the_others(shadows.of(columns), membership[:, columns], everywhere)

    @property
    def trained(self) -> tuple[Signals, BoolArray]:
        """The shadows and their training sets."""
        if self.shadows is None or self.membership is None:
            raise InputError("shadow models must be trained for this attack, got none.")
        return self.shadows, self.membership

    @property
    def pooled(self) -> BoolArray | slice:
        """The records that numbers shared between records come from."""
        return slice(None) if self.pool is None else self.pool

    @cached_property
    def _scale(self) -> float:
        """The mean squared error of the shadows, for regressions."""
        return float(self.trained[0].loss[:, self.pooled].mean()) + 1e-300

    @cached_property
    def statistics(self) -> tuple[Moments, Moments, FloatArray]:
        """A statistic that is about normal: in shadows with the record, without it, in the targets.

        It is the logit of the true class, or minus the logarithm of the squared error.
        """
        shadows, _ = self.trained
        if shadows.regression:
            return self._compared(lambda s: -np.log(s.loss + 1e-6 * self._scale))
        edge = largest_logit(shadows.kind, shadows.logit[:, self.pooled])
        return self._compared(lambda s: np.clip(s.logit, -edge, edge))

    @cached_property
    def confidences(self) -> tuple[Moments, Moments, FloatArray]:
        """The same of the probability of the true class, or of exp(-error²/2·mean error²)."""
        if self.signals.regression:
            return self._compared(lambda s: np.exp(-s.loss / (2 * self._scale)))
        return self._compared(lambda s: special.expit(s.logit))

    def _compared(
        self, statistic: Callable[[Signals], FloatArray]
    ) -> tuple[Moments, Moments, FloatArray]:
        return *self.moments(statistic(self.trained[0])), statistic(self.signals)

    def moments(self, statistic: FloatArray) -> tuple[Moments, Moments]:
        """Return what a statistic of the shadows, (S, N), is with the record in, and without it.

        What is missing is predicted: the mean without the record by the average gap between the
        two, the mean with it by :meth:`_gain`.
        """
        _, membership = self.trained
        centre = statistic.mean(axis=0, keepdims=True)
        # Centred, so that sums of squares keep their digits.
        ins, outs = (self._side(mask, statistic - centre) for mask in (membership, ~membership))
        both = ((ins.count > 0) & (outs.count > 0))[:, self.pooled]
        gaps = np.where(both, (ins.mean - outs.mean)[:, self.pooled], 0.0)
        gap = gaps.sum(axis=1, keepdims=True) / np.maximum(both.sum(axis=1, keepdims=True), 1)
        outs = replace(outs, mean=centre + np.where(outs.count > 0, outs.mean, ins.mean - gap))
        unseen = ins.count == 0
        gain = np.zeros_like(outs.mean)
        if self.pool is not None or unseen.any():
            gain = self._gain(outs, gaps, both)
        if self.pool is not None:
            return replace(outs, mean=outs.mean + gain), outs
        return replace(ins, mean=np.where(unseen, outs.mean + gain, ins.mean + centre)), outs

    def _side(self, mask: BoolArray, value: FloatArray) -> Moments:
        weight = mask.astype(np.float64)
        first = weight * value
        second = first * value
        count = weight.sum(axis=0, keepdims=True)
        total = first.sum(axis=0, keepdims=True)
        square = second.sum(axis=0, keepdims=True)
        if self.leave_one_out:
            count, total, square = count - weight, total - first, square - second
        mean = total / np.maximum(count, 1.0)
        return Moments(count, mean, np.maximum(square - total * mean, 0.0))

    def _gain(self, outs: Moments, gaps: FloatArray, both: BoolArray) -> FloatArray:
        """Predict what a record gains by being in from its mean and spread in models without it."""
        mean, spread = outs.mean, np.sqrt(outs.variance(self.pooled))
        unsure = special.expit(-np.abs(mean))
        columns = (np.ones_like(mean), spread, np.square(spread), mean, np.abs(mean), unsure)
        table = np.stack(columns, axis=-1)
        weights, *_ = np.linalg.lstsq(table[:, self.pooled][both], gaps[both], rcond=None)
        return np.asarray(np.maximum(table @ weights, 0.0))


def largest_logit(kind: str, logits: FloatArray) -> float:
    """Return the size at which logits of shadows are cut off.

    A forest's exact 0 and 1 are counted votes: probabilities are kept away from them by half of the
    smallest step that the shadows show (its first percentile), as if half a vote were missing.
    """
    if kind != "probabilities":
        return np.inf
    clip, edge = 1e-6, np.abs(logits)
    exact = edge >= EXACT
    if exact.mean() >= 0.01 and not exact.all():  # a learner that counts votes
        # p = 1/(1+e^edge) for the smaller of the two probabilities.
        clip = max(clip, float(special.expit(-np.quantile(edge[~exact], 0.99))) / 2)
    return float(np.log((1 - clip) / clip))


# ── Scores ────────────────────────────────────────────────────────────────────────────────────────


def calibrated_loss(targets: Targets) -> FloatArray:
    """Return how much surer the model is than models without the record, on the logit's scale."""
    _, outs, value = targets.statistics
    return np.asarray(value - outs.mean)


def lira(targets: Targets) -> FloatArray:
    """Return the log-likelihood ratio of two normal laws: with the record in, and without it.

    Carlini et al., *Membership inference attacks from first principles* (2022).
    """
    ins, outs, value = targets.statistics
    spread_in, spread_out = (side.variance(targets.pooled) for side in (ins, outs))
    return np.asarray(
        (np.square(value - outs.mean) / spread_out - np.square(value - ins.mean) / spread_in) / 2
        + np.log(spread_out / spread_in) / 2
    )


def rmia(targets: Targets) -> FloatArray:
    """Return ln P(x|θ)/P(x), P(x) the mean over models with and without x, in equal parts.

    Zarifzadeh, Liu and Shokri, *Low-cost high-power membership inference attacks* (2024).  Their
    score is the share of records z with [P(x|θ)/P(x)] / [P(z|θ)/P(z)] ≥ 1, which has this order.
    """
    ins, outs, own = targets.confidences
    return np.asarray(np.log(np.maximum(own, 1e-6) / np.maximum((ins.mean + outs.mean) / 2, 1e-6)))


def combined(targets: Targets) -> FloatArray:
    """Return the log-odds of membership from a classifier of what other attacks compute.

    It is trained on the shadows, whose training sets the attacker knows and attacks with each
    other; without shadows, on known members and non-members of the given model.
    """
    if targets.shadows is None:
        assert targets.evidence is not None
        assert targets.known is not None
        table, known = _answer_features(targets.evidence), targets.known
        return _classified(table[known], targets.evidence.member[known], table)[None, :]
    practice, table = targets.practice, _attack_features(targets)
    rows, member = _attack_features(practice), practice.trained[1]
    if not targets.leave_one_out:
        return _classified(rows, member, table)
    scores = np.empty(table.shape[:2])
    odd = np.arange(len(table)) % 2 == 1
    for half in (odd, ~odd):  # the targets are shadows: no rule is learned on what it scores
        scores[half] = _classified(rows[~half], member[~half], table[half])
    return scores


def _attack_features(targets: Targets) -> FloatArray:
    """Return (T, N, F) features: how the target differs from models that attacks know."""
    ins, outs, value = targets.statistics
    likely_in, likely_out, own = targets.confidences
    spread = np.sqrt(outs.variance(targets.pooled))
    above = value - outs.mean
    z, size = above / spread, np.log(spread)
    columns = [
        np.arcsinh(z),
        np.clip(z, -4, 4) * spread,
        z * size,
        above,
        above * spread,
        value,
        outs.mean,
        size,
        own - likely_out.mean,
        np.log(np.maximum(own, 1e-6) / ((likely_out.mean + 1) / 2)),
    ]
    if targets.pool is None:
        ratio, relative = np.arcsinh(lira(targets)), rmia(targets)
        gap = (ins.mean - outs.mean) / spread
        columns += [
            ratio,
            ratio * np.abs(ratio),
            relative,
            np.square(np.maximum(relative, 0.0)),
            relative * gap,
            gap,
            own - (likely_in.mean + likely_out.mean) / 2,
        ]
    # In single precision: a table of targets × records × features is the largest of the audit.
    return np.stack([np.broadcast_to(c, value.shape) for c in columns], axis=-1, dtype=np.float32)


def _answer_features(evidence: Evidence) -> FloatArray:
    """Return (N, F) what the given model answers to each record, and how unusual that is."""
    signals, truth = evidence.signals, np.asarray(evidence.truth)
    columns = [np.arcsinh(signals.logit[0]), np.log(signals.loss[0] + 1e-9)]
    p = class_probabilities(evidence.answers)
    if p is None:
        return np.column_stack([*columns, truth])
    top = np.log(np.sort(p, axis=1)[:, ::-1][:, :3] + 1e-9)
    columns += [signals.correct[0], special.entr(p).sum(axis=1), *top.T]
    if p.shape[1] <= 30:
        columns += list((truth[:, None] == np.arange(p.shape[1])).T)
    return np.column_stack(columns)


#: Pairs (model, record) that the classifier learns from; more change nothing for so few features.
_MOST_PAIRS = 40_000


def _classified(train: FloatArray, member: BoolArray, test: FloatArray) -> FloatArray:
    """Return the log-odds of a logistic regression; the last axis of the tables are features."""
    from sklearn.linear_model import LogisticRegression

    rows, labels = train.reshape(-1, train.shape[-1]), member.reshape(-1)
    # An odd step visits every target and record alike.
    step = max(1, len(rows) // _MOST_PAIRS) | 1
    rows, labels = rows[::step].astype(np.float64), labels[::step]
    centre, spread = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    model = LogisticRegression(solver="newton-cholesky", class_weight="balanced")
    model.fit((rows - centre) / spread, labels)
    weights = model.coef_[0] / spread
    return np.asarray(test @ weights + (model.intercept_[0] - centre @ weights), dtype=np.float64)


# ── The list ──────────────────────────────────────────────────────────────────────────────────────

#: What an attack has to see of the model: a label, a regression's number, or probabilities.
AccessLevel = Literal["labels", "values", "probabilities"]
#: What an attack cannot do without: of the model's answers, or models to compare it with.
Need = Literal["classes", "graded answers", "references"]
_MISSING: dict[Need, str] = {
    "classes": "a regression has no labels",
    "graded answers": "the model gives labels only",
    "references": "there are no reference models (they need a model that can be trained again or a "
    "named learner, and no quick)",
}


@dataclass(frozen=True)
class Attack:
    """An attack: how it scores :class:`Targets`, what it needs, what it is told about records."""

    name: str
    score: Callable[[Targets], FloatArray]
    needs: tuple[Need, ...] = ()
    #: Whether it learns from known records, so that it is measured on the others.
    learns: bool = True

    def obstacle(self, targets: Targets) -> str:
        """Return why it cannot run, or an empty text."""
        kind = targets.signals.kind
        lacking: dict[Need, bool] = {
            "classes": kind == "residuals",
            "graded answers": kind == "labels",
            "references": targets.shadows is None,
        }
        return next((_MISSING[need] for need in self.needs if lacking[need]), "")

    def access(self, signals: Signals) -> AccessLevel:
        """Return what it has to see of the model."""
        if self.name == "label-only" or signals.kind == "labels":
            return "labels"
        return "values" if signals.regression else "probabilities"


#: Every attack by name.
ATTACKS: dict[str, Attack] = {
    attack.name: attack
    for attack in (
        Attack("loss", lambda targets: -targets.signals.loss, ("graded answers",), learns=False),
        Attack(
            "label-only",
            lambda targets: targets.signals.correct.astype(np.float64),
            ("classes",),
            learns=False,
        ),
        Attack("calibrated-loss", calibrated_loss, ("references",)),
        Attack("lira", lira, ("references",)),
        Attack("rmia", rmia, ("references",)),
        Attack("combined", combined, ("graded answers",)),
    )
}
#: What is run on a learner unless told otherwise; on a given model it is all that can run.
DEFAULT_ATTACKS = ("loss", "calibrated-loss", "lira", "rmia", "combined")


def runnable(
    targets: Targets, names: Iterable[str] | None = None
) -> tuple[dict[str, Attack], list[str]]:
    """Return the attacks that can run, of those named or all, and a sentence for each that cannot.

    Edge cases: unknown names, and a choice of which none can run, are refused.
    """
    chosen = dict.fromkeys(ATTACKS if names is None else names)
    for name in chosen:
        if name not in ATTACKS:
            raise InputError(f"attacks must be among {', '.join(ATTACKS)}, got {name!r}.")
    if not chosen:
        raise InputError("attacks must name at least one attack, got none.")
    obstacles = {name: ATTACKS[name].obstacle(targets) for name in chosen}
    skipped = [f"{name} was left out: {why}." for name, why in obstacles.items() if why]
    if len(skipped) == len(chosen):
        raise InputError(f"attacks must be able to run here. {' '.join(skipped)}")
    return {name: ATTACKS[name] for name, why in obstacles.items() if not why}, skipped


def scored(attack: Attack, targets: Targets) -> FloatArray:
    """Return the scores of an attack, checked: numbers for every target and record."""
    scores = np.asarray(attack.score(targets))
    if scores.shape != targets.signals.logit.shape or np.isnan(scores).any():
        raise InputError(f"scores of {attack.name} must be numbers for every record, got NaN.")
    return scores
