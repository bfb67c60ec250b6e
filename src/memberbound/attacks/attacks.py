"""The catalogue of attacks: the score, the required access and the inputs of each.

An audit of a learner has many targets, each attacked with the help of other models of that learner;
an audit of a given model has one target, attacked with reference models.  Every score is a
(targets, records) array, and higher scores mean "member".  An attack never sees the half of the
target that it is evaluated on.
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
from memberbound.threads import one_thread

if TYPE_CHECKING:
    from memberbound.attacks.evidence import Evidence

# ── Targets and shadows: sums over shadow models that the attacks share ───────────────────────────


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and centred sum of squares of a statistic over some shadow models, per record.

    Arrays are (T, N), or (1, N) when all targets face the same shadows.
    """

    count: FloatArray
    mean: FloatArray
    squares: FloatArray

    def variance(self, pool: BoolArray | slice) -> FloatArray:
        """Return the variance per record, shrunk towards that of ``pool`` with weight 4."""
        freedom = np.maximum(self.count - 1, 0.0)
        shape = np.broadcast_shapes(self.squares.shape, freedom.shape)
        free, squares = (np.broadcast_to(a, shape)[:, pool] for a in (freedom, self.squares))
        total = free.sum(axis=1, keepdims=True)
        pooled = squares.sum(axis=1, keepdims=True) / np.maximum(total, 1.0)
        return np.asarray((self.squares + 4 * np.maximum(pooled, 1e-12)) / (freedom + 4))


@dataclass(frozen=True, eq=False)
class Targets:
    """Target models, and the shadow models with known training sets used to attack them.

    In an audit of a learner, the targets are separate models, or target i *is* shadow i and is left
    out of its own attack.  Leaving one model out subtracts it from a sum, so attacking all S models
    with the other S-1 costs O(S·N).  Every record is in some shadows and absent from others.

    A given model is a single target.  No shadow was trained on a measured record, so the attack
    predicts the statistics of models trained on it from known non-members.  These form ``pool``:
    every number shared between records is computed from them, and the score of a measured record
    depends on no other measured record (proofs/given-models.md claims 1 and 4).

    Attributes:
        signals: outputs of the targets, (T, N).
        shadows: outputs of the shadows, (S, N); None without shadows.
        membership: which shadows were trained on which records, (S, N).
        leave_one_out: whether target i is shadow i, attacked with the others.
        pool: the known non-members of a given model; None for a learner, where all records count.
        evidence: the answers of a given model.
        known: mask of the records with known membership in the given model.
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
        """Return targets such that every model is attacked with all others."""
        return cls(signals, signals, membership, leave_one_out=True, pool=pool)

    @classmethod
    def of_given_model(
        cls,
        evidence: Evidence,
        known: BoolArray,
        shadows: Signals | None = None,
        membership: BoolArray | None = None,
    ) -> Targets:
        """Return a given model as the only target, with optional reference models."""
        target = cls(evidence.signals, evidence=evidence, known=known)
        if shadows is None:
            return target
        alike, pool = shadows.in_kind_of(evidence.signals), known & ~evidence.member
        return replace(target, shadows=alike, membership=membership, pool=pool)

    @cached_property
    def practice(self) -> Targets:
        """The shadows as targets of one another, with known training sets."""
        shadows, membership = self.trained_shadows
        if self.leave_one_out:
            return self
        if self.pool is None:
            return Targets.each_by_the_others(shadows, membership)
        columns = np.flatnonzero(self.pool)
        everywhere = np.ones(columns.size, dtype=np.bool_)
        return Targets.each_by_the_others(shadows.of(columns), membership[:, columns], everywhere)

    @property
    def trained_shadows(self) -> tuple[Signals, BoolArray]:
        """The shadows and their training sets."""
        if self.shadows is None or self.membership is None:
            raise InputError("shadow models must be trained for this attack, got none.")
        return self.shadows, self.membership

    @property
    def pool_index(self) -> BoolArray | slice:
        """Index of the records from which shared numbers are computed."""
        return slice(None) if self.pool is None else self.pool

    @cached_property
    def _scale(self) -> float:
        """The mean squared error of the shadows, for regressions."""
        return float(self.trained_shadows[0].loss[:, self.pool_index].mean()) + 1e-300

    @cached_property
    def statistics(self) -> tuple[Moments, Moments, FloatArray]:
        """An approximately normal statistic of shadows with the record, without it, and of targets.

        The statistic is the logit of the true class, or minus the log of the squared error.
        """
        shadows, _ = self.trained_shadows
        if shadows.regression:
            return self._compare(lambda s: -np.log(s.loss + 1e-6 * self._scale))
        edge = largest_logit(shadows.kind, shadows.logit[:, self.pool_index])
        return self._compare(lambda s: np.clip(s.logit, -edge, edge))

    @cached_property
    def confidences(self) -> tuple[Moments, Moments, FloatArray]:
        """Like :attr:`statistics`, for the true-class probability or exp(-error²/2·mean error²)."""
        if self.signals.regression:
            return self._compare(lambda s: np.exp(-s.loss / (2 * self._scale)))
        return self._compare(lambda s: special.expit(s.logit))

    def _compare(
        self, statistic: Callable[[Signals], FloatArray]
    ) -> tuple[Moments, Moments, FloatArray]:
        return *self.moments(statistic(self.trained_shadows[0])), statistic(self.signals)

    def moments(self, statistic: FloatArray) -> tuple[Moments, Moments]:
        """Return the moments of a shadow statistic, (S, N), with and without each record.

        Missing means are predicted: the mean without the record from the average gap between the
        two, the mean with it by :meth:`_gain`.
        """
        _, membership = self.trained_shadows
        centre = statistic.mean(axis=0, keepdims=True)
        # Centre first, to avoid cancellation in the sums of squares.
        ins, outs = (self._side(mask, statistic - centre) for mask in (membership, ~membership))
        both = ((ins.count > 0) & (outs.count > 0))[:, self.pool_index]
        gaps = np.where(both, (ins.mean - outs.mean)[:, self.pool_index], 0.0)
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
        """Predict the gain of inclusion from a record's mean and spread in models without it."""
        mean, spread = outs.mean, np.sqrt(outs.variance(self.pool_index))
        unsure = special.expit(-np.abs(mean))
        columns = (np.ones_like(mean), spread, np.square(spread), mean, np.abs(mean), unsure)
        table = np.stack(columns, axis=-1)
        weights, *_ = np.linalg.lstsq(table[:, self.pool_index][both], gaps[both], rcond=None)
        return np.asarray(np.maximum(table @ weights, 0.0))


def largest_logit(kind: str, logits: FloatArray) -> float:
    """Return the absolute value at which shadow logits are clipped.

    In a forest, an exact 0 or 1 is a unanimous vote.  Clip probabilities to half of the smallest
    step among the shadows (its first percentile), as if half a vote were missing.
    """
    if kind != "probabilities":
        return np.inf
    clip, edge = 1e-6, np.abs(logits)
    exact = edge >= EXACT
    if exact.mean() >= 0.01 and not exact.all():  # the learner counts votes
        # p = 1/(1+e^edge) for the smaller of the two probabilities.
        clip = max(clip, float(special.expit(-np.quantile(edge[~exact], 0.99))) / 2)
    return float(np.log((1 - clip) / clip))


# ── Scores ────────────────────────────────────────────────────────────────────────────────────────


def calibrated_loss(targets: Targets) -> FloatArray:
    """Return the logit of the target minus its mean over models without the record."""
    _, outs, value = targets.statistics
    return np.asarray(value - outs.mean)


def lira(targets: Targets) -> FloatArray:
    """Return the log-likelihood ratio of two normal distributions, with and without the record.

    Carlini et al., *Membership inference attacks from first principles* (2022).
    """
    ins, outs, value = targets.statistics
    spread_in, spread_out = (side.variance(targets.pool_index) for side in (ins, outs))
    return np.asarray(
        (np.square(value - outs.mean) / spread_out - np.square(value - ins.mean) / spread_in) / 2
        + np.log(spread_out / spread_in) / 2
    )


def rmia(targets: Targets) -> FloatArray:
    """Return ln P(x|θ)/P(x), with P(x) averaged equally over models with and without x.

    Zarifzadeh, Liu and Shokri, *Low-cost high-power membership inference attacks* (2024).  Their
    score is the share of records z with [P(x|θ)/P(x)] / [P(z|θ)/P(z)] ≥ 1, which ranks records
    identically.
    """
    ins, outs, own = targets.confidences
    return np.asarray(np.log(np.maximum(own, 1e-6) / np.maximum((ins.mean + outs.mean) / 2, 1e-6)))


def combined_log_odds(targets: Targets) -> FloatArray:
    """Return the log-odds of membership from a classifier on the features of the other attacks.

    The classifier is trained on the shadows, attacked with each other, because their training sets
    are known; without shadows, on known members and non-members of the given model.
    """
    if targets.shadows is None:
        assert targets.evidence is not None
        assert targets.known is not None
        table, known = _answer_features(targets.evidence), targets.known
        return _classify(table[known], targets.evidence.member[known], table)[None, :]
    practice, table = targets.practice, _attack_features(targets)
    rows, member = _attack_features(practice), practice.trained_shadows[1]
    if not targets.leave_one_out:
        return _classify(rows, member, table)
    scores = np.empty(table.shape[:2])
    odd = np.arange(len(table)) % 2 == 1
    for half in (odd, ~odd):  # targets are shadows, so never score the models trained on
        scores[half] = _classify(rows[~half], member[~half], table[half])
    return scores


def _attack_features(targets: Targets) -> FloatArray:
    """Return (T, N, F) features that compare the targets with their shadow models."""
    ins, outs, value = targets.statistics
    likely_in, likely_out, own = targets.confidences
    spread = np.sqrt(outs.variance(targets.pool_index))
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
    # Single precision, because this targets × records × features array is the audit's largest.
    return np.stack([np.broadcast_to(c, value.shape) for c in columns], axis=-1, dtype=np.float32)


def _answer_features(evidence: Evidence) -> FloatArray:
    """Return (N, F) features from the given model's answers alone."""
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


#: Maximum number of (model, record) pairs to train on; more do not help with few features.
_MOST_PAIRS = 40_000


def _classify(train: FloatArray, member: BoolArray, test: FloatArray) -> FloatArray:
    """Return the log-odds of a logistic regression; features are on the last axis."""
    from sklearn.linear_model import LogisticRegression

    rows, labels = train.reshape(-1, train.shape[-1]), member.reshape(-1)
    # An odd step samples targets and records evenly.
    step = max(1, len(rows) // _MOST_PAIRS) | 1
    rows, labels = rows[::step].astype(np.float64), labels[::step]
    centre, spread = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    model = LogisticRegression(solver="newton-cholesky", class_weight="balanced")
    with one_thread:  # waiting threads spin, which takes long on a busy machine
        model.fit((rows - centre) / spread, labels)
    weights = model.coef_[0] / spread
    return np.asarray(test @ weights + (model.intercept_[0] - centre @ weights), dtype=np.float64)


# ── The list ──────────────────────────────────────────────────────────────────────────────────────

#: Model outputs that an attack must see: labels, regression values, or probabilities.
AccessLevel = Literal["labels", "values", "probabilities"]
#: Inputs that an attack requires: kinds of answers, or reference models.
Need = Literal["classes", "graded answers", "references"]
_MISSING: dict[Need, str] = {
    "classes": "a regression has no labels",
    "graded answers": "the model gives labels only",
    "references": "there are no reference models (they need a model that can be retrained or a "
    "named learner, and no quick)",
}


@dataclass(frozen=True)
class Attack:
    """An attack: its scoring function, its required inputs, and whether it learns."""

    name: str
    score: Callable[[Targets], FloatArray]
    needs: tuple[Need, ...] = ()
    #: Whether it trains on known records and is therefore evaluated on the others.
    learns: bool = True

    def obstacle(self, targets: Targets) -> str:
        """Return the reason why the attack cannot run, or an empty string."""
        kind = targets.signals.kind
        lacking: dict[Need, bool] = {
            "classes": kind == "residuals",
            "graded answers": kind == "labels",
            "references": targets.shadows is None,
        }
        return next((_MISSING[need] for need in self.needs if lacking[need]), "")

    def access(self, signals: Signals) -> AccessLevel:
        """Return the model outputs that the attack must see."""
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
        Attack("combined", combined_log_odds, ("graded answers",)),
    )
}
#: Default attacks on a learner; on a given model, the default is every attack that can run.
DEFAULT_ATTACKS = ("loss", "calibrated-loss", "lira", "rmia", "combined")


def runnable(
    targets: Targets, names: Iterable[str | Attack] | None = None
) -> tuple[dict[str, Attack], list[str]]:
    """Return the attacks that can run, and a sentence for each that cannot.

    Edge cases: unknown ``names`` are rejected, and so is a selection without any attack that can
        run.
    """
    chosen: dict[str, Attack] = {}
    for name in ATTACKS if names is None else names:
        if isinstance(name, Attack):
            chosen[name.name] = name
        elif name in ATTACKS:
            chosen[name] = ATTACKS[name]
        else:
            raise InputError(f"attacks must be among {', '.join(ATTACKS)}, got {name!r}.")
    if not chosen:
        raise InputError("attacks must name at least one attack, got none.")
    obstacles = {name: attack.obstacle(targets) for name, attack in chosen.items()}
    skipped = [f"{name} was left out: {why}." for name, why in obstacles.items() if why]
    if len(skipped) == len(chosen):
        raise InputError(f"attacks must be able to run here. {' '.join(skipped)}")
    return {name: chosen[name] for name, why in obstacles.items() if not why}, skipped


def score_targets(attack: Attack, targets: Targets) -> FloatArray:
    """Score all targets with an attack and check that every score is a number."""
    scores = np.asarray(attack.score(targets))
    if scores.shape != targets.signals.logit.shape or np.isnan(scores).any():
        raise InputError(f"scores of {attack.name} must be numbers for every record, got NaN.")
    return scores
