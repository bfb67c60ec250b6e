"""Scores of target models from shadow models whose training sets are known.

Every score is a (targets, records) table; higher means "member".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from memberbound.attacks.signals import EXACT, BoolArray, Signals
from memberbound.errors import InputError
from memberbound.learners import Examples
from memberbound.numerics import one_thread
from memberbound.numerics.rounding import FloatArray

# ── Targets and shadows: the sums over shadow models that every attack is made of ─────────────────
#
# Either the targets are models of their own, or target i *is* shadow i and is left out of what the
# attacker knows about it.  Leaving one out is a subtraction from a sum, so attacking all S models
# with the other S-1 costs O(S·N), not O(S²·N).


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and centred sum of squares of a statistic over some shadow models, per record.

    Arrays are (T, N), or (1, N) when all targets face the same shadows.
    """

    count: FloatArray
    mean: FloatArray
    squares: FloatArray

    def variance(
        self, kind: str, *, prior: float = 4.0, among: BoolArray | None = None
    ) -> FloatArray:
        """Return the variance per record, ``pooled`` over records, or ``shrunk`` between.

        ``shrunk`` adds the pooled variance with the weight of ``prior`` models.  Pooled are all
        records, or those ``among`` which the attacker may look.
        """
        freedom = np.maximum(self.count - 1, 0.0)
        free, squares = freedom, self.squares
        if among is not None:
            free, squares = (np.broadcast_to(a, squares.shape)[:, among] for a in (free, squares))
        total = free.sum(axis=1, keepdims=True)
        pooled = squares.sum(axis=1, keepdims=True) / np.maximum(total, 1.0)
        pooled = np.maximum(pooled, 1e-12)
        if kind == "pooled":
            return np.asarray(np.broadcast_to(pooled, self.squares.shape))
        if kind == "shrunk":
            return np.asarray((self.squares + prior * pooled) / (freedom + prior))
        # A single model has no spread: the pooled one is used.
        own = self.squares / np.maximum(freedom, 1.0)
        return np.asarray(np.where(freedom > 0, np.maximum(own, 1e-6 * pooled), pooled))


@dataclass(frozen=True, eq=False)
class Targets:
    """Target models, and the shadow models with known training sets that they are attacked with."""

    signals: Signals
    shadows: Signals
    membership: BoolArray
    examples: Examples
    #: Whether target i is shadow i, attacked with the others.
    leave_one_out: bool
    #: The shadows attacked with each other, where the attacker can learn; made when left out.
    practice: Targets | None = None

    def __post_init__(self) -> None:
        if self.membership.shape != self.shadows.logit.shape:
            raise InputError(
                f"membership must be of the shape of the signals {self.shadows.logit.shape!r}, got "
                f"{self.membership.shape!r}."
            )
        least = 3 if self.leave_one_out else 2
        if self.shadows.models < least:
            raise InputError(
                f"shadow models must be at least {least}, got {self.shadows.models!r}."
            )

    @classmethod
    def each_by_the_others(
        cls, signals: Signals, membership: BoolArray, examples: Examples
    ) -> Targets:
        """Attack every model with all the others."""
        return cls(signals, signals, membership, examples, leave_one_out=True)

    @cached_property
    def logits(self) -> tuple[Moments, Moments, FloatArray]:
        """The logit's moments with the record in and out, and the targets' own values."""
        clip = clip_of(self.shadows)
        ins, outs = self.moments(clipped_logit(self.shadows, clip))
        return ins, outs, clipped_logit(self.signals, clip)

    @cached_property
    def confidences(self) -> tuple[Moments, Moments, FloatArray]:
        """The same of the probability of the true class."""
        return *self.moments(self.shadows.confidence), self.signals.confidence

    @cached_property
    def attack_features(self) -> FloatArray:
        """What the combined attack sees, (targets, records, features)."""
        return _attack_features(self)

    def for_learning(self) -> Targets:
        """Return every shadow attacked with the others: there all training sets are known."""
        if self.leave_one_out:
            return self
        if self.practice is not None:
            return self.practice
        return Targets.each_by_the_others(self.shadows, self.membership, self.examples)

    def moments(self, statistic: FloatArray) -> tuple[Moments, Moments]:
        """Return what a statistic of the shadows is when the record is in, and when it is out.

        ``statistic`` is (S, N).  A record that no shadow has in (or out) gets the mean of the other
        side, moved by the average gap.
        """
        centre = statistic.mean(axis=0, keepdims=True)
        # Centred, so that sums of squares keep their digits.
        value = statistic - centre
        ins, outs = (self._side(mask, value) for mask in (self.membership, ~self.membership))
        both = (ins.count > 0) & (outs.count > 0)
        gap = np.where(both, ins.mean - outs.mean, 0.0).sum(axis=1, keepdims=True)
        gap = gap / np.maximum(both.sum(axis=1, keepdims=True), 1)
        mean_in = np.where(ins.count > 0, ins.mean, outs.mean + gap)
        mean_out = np.where(outs.count > 0, outs.mean, ins.mean - gap)
        return (
            Moments(ins.count, mean_in + centre, ins.squares),
            Moments(outs.count, mean_out + centre, outs.squares),
        )

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


# ── The likelihood-ratio attack: Gaussian laws of the logit with the record in and out ────────────
#
# Carlini et al., *Membership inference attacks from first principles* (2022).  Online it compares
# the two laws; offline it knows only models without the record and asks how far above them the
# target is. For regression the statistic is the residual, which two Gaussians fit as it is.

#: Smallest distance of a probability from 0 and 1 that any learner is trusted with.
_FINEST = 1e-6
#: A learner that answers exactly 0 or 1 this often counts votes.
_VOTES = 0.01


def clip_of(shadows: Signals) -> float:
    """Return the distance from 0 and 1 at which the attack keeps probabilities.

    A forest's exact 0 and 1 are counted votes, and their infinite logits would hide every other
    difference.  If such answers occur, probabilities are kept away from 0 and 1 by half of the
    smallest step that the shadows show (its first percentile), as if half a vote were missing.
    """
    if shadows.kind != "probabilities":
        return _FINEST
    edge = np.abs(shadows.logit)
    exact = edge >= EXACT
    if exact.mean() < _VOTES or exact.all():
        return _FINEST
    # p = 1/(1+e^edge) for the smaller of the two probabilities.
    step = float(1.0 / (1.0 + np.exp(np.quantile(edge[~exact], 0.99))))
    return max(_FINEST, step / 2)


def clipped_logit(signals: Signals, clip: float) -> FloatArray:
    """Return the logit kept within that of ``clip`` and 1 - ``clip``, or the residual."""
    if signals.kind != "probabilities":
        return signals.logit
    edge = float(np.log((1 - clip) / clip))
    return np.asarray(np.clip(signals.logit, -edge, edge))


def lira(targets: Targets, *, variance: str = "record") -> FloatArray:
    """Return the log-likelihood ratio of in against out, per target and record.

    ``variance`` is ``record`` (each record's own), ``pooled`` (one for all) or ``shrunk``.
    """
    ins, outs, value = targets.logits
    spread_in, spread_out = ins.variance(variance), outs.variance(variance)
    return np.asarray(
        (np.square(value - outs.mean) / spread_out - np.square(value - ins.mean) / spread_in) / 2
        + np.log(spread_out / spread_in) / 2
    )


def lira_offline(targets: Targets, *, variance: str = "record") -> FloatArray:
    """Return how many standard deviations the target lies above models without the record.

    For regression: how much smaller the loss is, on the scale of its spread.
    """
    if targets.signals.regression:
        # A member's residual is nearer to 0; the logarithm makes the losses comparable.
        value = -_log_loss(targets.signals)
        _, outs = targets.moments(-_log_loss(targets.shadows))
    else:
        _, outs, value = targets.logits
    return np.asarray((value - outs.mean) / np.sqrt(outs.variance(variance)))


def _log_loss(signals: Signals) -> FloatArray:
    loss = signals.loss
    return np.asarray(np.log(loss + 1e-6 * loss.mean(axis=1, keepdims=True) + 1e-300))


# ── The robust membership inference attack (RMIA): is the record likelier than other records are?
#
# Zarifzadeh, Liu and Shokri, *Low-cost high-power membership inference attacks* (2024).  The score
# is the share of population records z with LR(x, z) = [P(x|θ)/P(x)] / [P(z|θ)/P(z)] ≥ γ.  That is a
# rank: P(z|θ)/P(z) ≤ (P(x|θ)/P(x))/γ, so one sort per target replaces all pairs.

#: γ, and a of the offline form P(x) = ½((1+a)P_out(x) + (1-a)).
GAMMA = 1.0
OFFLINE_A = 0.3


def rmia(targets: Targets) -> FloatArray:
    """Return RMIA's score with P(x) the mean over models with and without x, in equal parts."""
    ins, outs, own = targets.confidences
    return _share_below(own, (ins.mean + outs.mean) / 2)


def rmia_offline(targets: Targets) -> FloatArray:
    """Return RMIA's score from models without x alone: P(x) = ½((1+a)P_out(x) + (1-a))."""
    _, outs, own = targets.confidences
    return _share_below(own, ((1 + OFFLINE_A) * outs.mean + (1 - OFFLINE_A)) / 2)


def _share_below(confidence: FloatArray, prior: FloatArray) -> FloatArray:
    """Return, per target, the share of other records whose ratio is at most the record's own/γ."""
    least = 1e-6
    ratio = np.maximum(confidence, least) / np.maximum(prior, least)
    share = np.empty_like(ratio)
    others = ratio.shape[1] - 1
    for row, values in enumerate(ratio):
        below = np.searchsorted(np.sort(values), values / GAMMA, side="right")
        # The record is not its own reference.
        share[row] = (below - (GAMMA <= 1)) / others
    return share


# ── Signals of the target less their mean over shadow models without the record ───────────────────


def calibrated_loss(targets: Targets) -> FloatArray:
    """Return how much lower the loss is than that of models without the record."""
    _, outs = targets.moments(targets.shadows.loss)
    return np.asarray(outs.mean - targets.signals.loss)


def calibrated_gradient(targets: Targets) -> FloatArray:
    """Return how much shorter the loss gradient is than that of models without the record."""
    assert targets.signals.gradient is not None
    assert targets.shadows.gradient is not None
    _, outs = targets.moments(targets.shadows.gradient)
    return np.asarray(outs.mean - targets.signals.gradient)


def calibrated_label(targets: Targets) -> FloatArray:
    """Return how much oftener the label is right than in models without the record."""
    _, outs = targets.moments(targets.shadows.correct.astype(np.float64))
    return np.asarray(targets.signals.correct - outs.mean)


# ── The quantile-regression attack: one extra model instead of many shadows per record ────────────
#
# Bertran et al., *Scalable membership inference attacks via quantile regression* (2023): a
# regression on the record's features and label predicts a high quantile of the logit that records
# get while they are *out*; a record above its own quantile is called a member.  Here the "out"
# logits come from a few shadow models, since a target's own non-members are what the attacker wants
# to know.

#: The quantile that is regressed on, and how many shadow models give a logit per record.
QUANTILE = 0.8
QUANTILE_MODELS = 4


def quantile_regression(targets: Targets) -> FloatArray:
    """Return how far a target's logit lies above the regressed quantile of non-members.

    Targets that are shadows themselves are scored by a regression on the other half of the models.
    For regression targets the statistic is minus the root of the loss.
    """
    value = _quantile_statistic(targets.signals, targets.shadows)

    def score(learn: BoolArray, score: BoolArray) -> FloatArray:
        shadows, member = targets.shadows[learn], targets.membership[learn]
        return value[score] - _regressed_quantile(shadows, member, targets.examples)

    return _cross_fitted(targets, score)


def _cross_fitted(
    targets: Targets, score: Callable[[BoolArray, BoolArray], FloatArray]
) -> FloatArray:
    """Return scores by rules that were learned on shadows other than the target.

    ``score`` is called with the shadows to learn on and the targets to score.
    """
    if not targets.leave_one_out:
        everyone = np.ones(targets.shadows.models, dtype=np.bool_)
        return score(everyone, np.ones(targets.signals.models, dtype=np.bool_))
    scores = np.empty(targets.signals.logit.shape)
    odd = np.arange(targets.shadows.models) % 2 == 1
    for half in (odd, ~odd):
        scores[half] = score(~half, half)
    return scores


def _quantile_statistic(signals: Signals, shadows: Signals) -> FloatArray:
    return (
        -np.sqrt(signals.loss) if signals.regression else clipped_logit(signals, clip_of(shadows))
    )


def _regressed_quantile(shadows: Signals, membership: BoolArray, examples: Examples) -> FloatArray:
    """Fit the quantile on shadows' non-members and predict it for every record."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    if examples.task == "regression":
        label = np.asarray(examples.target, dtype=np.float64)[:, None]
    else:
        label = (examples.target[:, None] == np.unique(examples.target)[None, :]).astype(np.float64)
    features = np.hstack([examples.features, label])
    logits = _quantile_statistic(shadows, shadows)
    outside = ~membership[:QUANTILE_MODELS]
    rows = np.vstack([features[out] for out in outside])
    learner = HistGradientBoostingRegressor(
        loss="quantile", quantile=QUANTILE, max_iter=50, max_leaf_nodes=15, random_state=0
    )
    # On a busy machine several threads are slower than one for so small a fit.
    with one_thread():
        learner.fit(rows, logits[:QUANTILE_MODELS][outside])
        level = learner.predict(features)
    return np.asarray(level, dtype=np.float64)[None, :]


# ── Classifiers on what other attacks compute, trained on the shadows ─────────────────────────────
#
# The attacker owns the shadows, knows their halves, and can attack each with the others.  So the
# classifier is trained without looking at the target.


def combined(targets: Targets) -> FloatArray:
    """Return the log-odds of membership from a logistic regression on the attacks' scores."""
    practice, table = targets.for_learning().attack_features, targets.attack_features

    def score(learn: BoolArray, score: BoolArray) -> FloatArray:
        return _regressed(practice[learn], targets.membership[learn], table[score])

    return _cross_fitted(targets, score)


def _attack_features(targets: Targets) -> FloatArray:
    """Return (T, N, F) features: the attacks' scores, bounded, and what they depend on."""
    ratio = np.arcsinh(lira(targets, variance="shrunk"))
    pooled = np.arcsinh(lira(targets, variance="pooled"))
    online, offline = _logit_of_rank(rmia(targets)), _logit_of_rank(rmia_offline(targets))
    ins, outs, value = targets.logits
    gap = np.broadcast_to(ins.mean - outs.mean, value.shape)
    spread = np.sqrt(outs.variance("pooled"))
    from_out = (value - outs.mean) / spread
    scaled = gap / spread
    return np.stack(
        [
            ratio,
            ratio * np.abs(ratio),
            pooled,
            online,
            np.maximum(online, 0.0) ** 2,
            offline,
            np.maximum(offline, 0.0) ** 2,
            np.arcsinh(from_out),
            scaled,
            online * scaled,
        ],
        axis=-1,
        dtype=np.float32,  # a table of targets × records × features is the largest of the audit
    )


def _logit_of_rank(share: FloatArray) -> FloatArray:
    many = share.shape[1]
    return np.asarray(np.log((share * many + 0.5) / ((1 - share) * many + 0.5)))


def _regressed(train: FloatArray, member: BoolArray, test: FloatArray) -> FloatArray:
    from sklearn.linear_model import LogisticRegression

    rows, answers = train.reshape(-1, train.shape[-1]), member.reshape(-1)
    # More pairs (target, record) change nothing for a dozen weights.
    step = _stride(len(rows), 20_000)
    rows, answers = rows[::step].astype(np.float64), answers[::step]
    centre, spread = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    model = LogisticRegression(solver="newton-cholesky")
    model.fit((rows - centre) / spread, answers)
    weights = model.coef_[0] / spread
    score = test @ weights.astype(np.float32) + (model.intercept_[0] - centre @ weights)
    return np.asarray(score, dtype=np.float64)


def _stride(rows: int, most: int) -> int:
    """Return an odd step that visits every target and record alike, about ``most`` in all."""
    step = max(1, rows // most)
    return step + (step % 2 == 0)


def learned(targets: Targets) -> FloatArray:
    """Return the log-odds of membership from boosted trees on signals and the record (A25 §7)."""
    practice, table = _signal_features(targets.for_learning()), _signal_features(targets)
    records = targets.examples.features

    def score(learn: BoolArray, score: BoolArray) -> FloatArray:
        return _boosted(practice[learn], targets.membership[learn], table[score], records)

    return _cross_fitted(targets, score)


def _signal_features(targets: Targets) -> FloatArray:
    """Return (T, N, 4): logit and loss, and both less their mean without the record."""
    columns = []
    for name in ("logit", "loss"):
        own = getattr(targets.signals, name)
        _, outs = targets.moments(getattr(targets.shadows, name))
        columns += [own, own - outs.mean]
    return np.stack(columns, axis=-1)


def _boosted(
    train: FloatArray, member: BoolArray, test: FloatArray, records: FloatArray
) -> FloatArray:
    from sklearn.ensemble import HistGradientBoostingClassifier

    rows = train.reshape(-1, train.shape[-1])
    pairs = np.arange(0, len(rows), _stride(len(rows), 50_000))
    model = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, random_state=0)
    with one_thread():
        seen = np.hstack([rows[pairs], records[pairs % len(records)]])
        model.fit(seen, member.reshape(-1)[pairs])
        scores = [model.decision_function(np.hstack([signals, records])) for signals in test]
    return np.asarray(scores, dtype=np.float64)
