"""Target models against shadow models: likelihood ratios, ranks, quantiles, a combination."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from memberbound.attacks.signals import EXACT, BoolArray, Signals
from memberbound.errors import InputError
from memberbound.learners import Examples
from memberbound.numerics.rounding import FloatArray
from memberbound.numerics.threads import one_thread

__all__ = [
    "GAMMA",
    "MODELS",
    "OFFLINE_A",
    "QUANTILE",
    "Duel",
    "Moments",
    "calibrated_gradient",
    "calibrated_label",
    "calibrated_loss",
    "clip_of",
    "combined",
    "lira",
    "lira_offline",
    "logit_moments",
    "quantile_regression",
    "rmia",
    "rmia_offline",
    "statistic",
]

T = TypeVar("T")

# ── Targets against shadows: the sums over shadow models that every attack is made of ─────────────
#
# Either the targets are models of their own (``own`` is false), or target i *is* shadow i and is
# left out of what the attacker knows about it.  Leaving one out is a subtraction from a sum, so
# attacking all S models with the other S-1 costs O(S·N), not O(S²·N).


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
        # One model has no spread: the pooled one stands in.
        own = self.squares / np.maximum(freedom, 1.0)
        return np.asarray(np.where(freedom > 0, np.maximum(own, 1e-6 * pooled), pooled))


@dataclass(frozen=True, eq=False)
class Duel:
    """Target models attacked with shadow models whose halves are known."""

    target: Signals
    shadow: Signals
    membership: BoolArray
    examples: Examples
    own: bool
    #: The shadows against each other, where the attacker can learn; made when left out.
    practice: Duel | None = None
    _known: dict[str, Any] = field(default_factory=dict, repr=False)

    def remembered(self, name: str, compute: Callable[[], T]) -> T:
        """Return a table that several attacks share, computed once."""
        if name not in self._known:
            self._known[name] = compute()
        found: T = self._known[name]
        return found

    def learning(self) -> Duel:
        """Return the duel of every shadow with the others, in which all halves are known."""
        if self.own:
            return self
        if self.practice is not None:
            return self.practice
        return Duel.leave_one_out(self.shadow, self.membership, self.examples)

    def __post_init__(self) -> None:
        if self.membership.shape != self.shadow.logit.shape:
            raise InputError(
                f"membership must be of the shape of the signals {self.shadow.logit.shape!r}, got "
                f"{self.membership.shape!r}."
            )
        least = 3 if self.own else 2
        if self.shadow.models < least:
            raise InputError(f"shadow models must be at least {least}, got {self.shadow.models!r}.")

    @classmethod
    def leave_one_out(cls, signals: Signals, membership: BoolArray, examples: Examples) -> Duel:
        """Attack every model with all the others."""
        return cls(signals, signals, membership, examples, True)

    def moments(self, statistic: FloatArray) -> tuple[Moments, Moments]:
        """Return what a statistic of the shadows is when the record is in, and when it is out.

        ``statistic`` is (S, N).  A record that no shadow has in (or out) gets the mean of the other
        side, moved by the average gap.
        """
        centre = statistic.mean(axis=0, keepdims=True)
        # Centred, so that sums of squares keep their digits.
        value = statistic - centre
        sides = [self._side(mask, value) for mask in (self.membership, ~self.membership)]
        ins, outs = sides
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
        if self.own:
            count, total, square = count - weight, total - first, square - second
        many = np.maximum(count, 1.0)
        mean = total / many
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


def clip_of(shadow: Signals) -> float:
    """Return the distance from 0 and 1 at which the attack keeps probabilities.

    A forest's exact 0 and 1 are votes counted, not certainty, and their infinite logits would drown
    every other difference.  So if such answers occur, probabilities are kept away from 0 and 1 by
    half of the smallest step that the shadows show (its first percentile), as if half a vote were
    missing.
    """
    if shadow.kind != "probabilities":
        return _FINEST
    edge = np.abs(shadow.logit)
    exact = edge >= EXACT
    if exact.mean() < _VOTES or exact.all():
        return _FINEST
    # p = 1/(1+e^edge) for the smaller of the two probabilities.
    step = float(1.0 / (1.0 + np.exp(np.quantile(edge[~exact], 0.99))))
    return max(_FINEST, step / 2)


def statistic(signals: Signals, clip: float) -> FloatArray:
    """Return the logit kept within that of ``clip`` and 1 - ``clip``, or the residual."""
    if signals.kind != "probabilities":
        return signals.logit
    edge = float(np.log((1 - clip) / clip))
    return np.asarray(np.clip(signals.logit, -edge, edge))


def logit_moments(duel: Duel, clip: float) -> tuple[Moments, Moments, FloatArray]:
    """Return the statistic's moments with the record in and out, and the targets' own values."""

    def compute() -> tuple[Moments, Moments, FloatArray]:
        ins, outs = duel.moments(statistic(duel.shadow, clip))
        return ins, outs, statistic(duel.target, clip)

    return duel.remembered(f"logits at {clip!r}", compute)


def lira(duel: Duel, *, variance: str = "record", clip: float | None = None) -> FloatArray:
    """Return the log-likelihood ratio of in against out, per target and record.

    ``variance`` is ``record`` (each record's own), ``pooled`` (one for all) or ``shrunk``; ``clip``
    is taken from the shadows (:func:`clip_of`) unless given.
    """
    clip = clip_of(duel.shadow) if clip is None else clip
    ins, outs, value = logit_moments(duel, clip)
    spread_in, spread_out = ins.variance(variance), outs.variance(variance)
    return np.asarray(
        (np.square(value - outs.mean) / spread_out - np.square(value - ins.mean) / spread_in) / 2
        + np.log(spread_out / spread_in) / 2
    )


def lira_offline(duel: Duel, *, variance: str = "record", clip: float | None = None) -> FloatArray:
    """Return how many standard deviations the target lies above models without the record.

    For regression: how much smaller the loss is, on the scale of its spread.
    """
    clip = clip_of(duel.shadow) if clip is None else clip
    if duel.target.regression:
        # A member's residual is nearer to 0; the logarithm makes the losses comparable.
        value, known = -_log_loss(duel.target), -_log_loss(duel.shadow)
        _, outs = duel.moments(known)
    else:
        _, outs, value = logit_moments(duel, clip)
    return np.asarray((value - outs.mean) / np.sqrt(outs.variance(variance)))


def _log_loss(signals: Signals) -> FloatArray:
    loss = signals.loss
    return np.asarray(np.log(loss + 1e-6 * loss.mean(axis=1, keepdims=True) + 1e-300))


# ── The robust membership inference attack (RMIA): is the record likelier than other records are?
#
# Zarifzadeh, Liu and Shokri, *Low-cost high-power membership inference attacks* (2024).  The score
# is the share of population records z with LR(x, z) = [P(x|θ)/P(x)] / [P(z|θ)/P(z)] ≥ γ.  That is a
# rank: P(z|θ)/P(z) ≤ (P(x|θ)/P(x))/γ, so one sort per target replaces all pairs.

#: Probabilities are not taken below this.
_FLOOR = 1e-6
#: γ, and a of the offline form P(x) = ½((1+a)P_out(x) + (1-a)).
GAMMA = 1.0
OFFLINE_A = 0.3


def rmia(duel: Duel, *, gamma: float = GAMMA) -> FloatArray:
    """Return RMIA's score with P(x) the mean over models with and without x, in equal parts."""
    ins, outs, own = _confidences(duel)
    return _share_below(own, (ins.mean + outs.mean) / 2, gamma)


def rmia_offline(duel: Duel, *, gamma: float = GAMMA, a: float = OFFLINE_A) -> FloatArray:
    """Return RMIA's score from models without x alone: P(x) = ½((1+a)P_out(x) + (1-a))."""
    _, outs, own = _confidences(duel)
    return _share_below(own, ((1 + a) * outs.mean + (1 - a)) / 2, gamma)


def _confidences(duel: Duel) -> tuple[Moments, Moments, FloatArray]:
    def compute() -> tuple[Moments, Moments, FloatArray]:
        return *duel.moments(duel.shadow.confidence), duel.target.confidence

    return duel.remembered("confidences", compute)


def _share_below(confidence: FloatArray, prior: FloatArray, gamma: float) -> FloatArray:
    """Return, per target, the share of other records whose ratio is at most the record's own/γ."""
    ratio = np.maximum(confidence, _FLOOR) / np.maximum(prior, _FLOOR)
    share = np.empty_like(ratio)
    others = ratio.shape[1] - 1
    for row, values in enumerate(ratio):
        below = np.searchsorted(np.sort(values), values / gamma, side="right")
        # The record is not its own reference.
        share[row] = (below - (gamma <= 1)) / others
    return share


# ── The quantile-regression attack: one extra model instead of many shadows per record ────────────
#
# Bertran et al., *Scalable membership inference attacks via quantile regression* (2023): a
# regression on the record's features and label predicts a high quantile of the logit that records
# get while they are *out*; a record above its own quantile is called a member.  Here the "out"
# logits come from a few shadow models, since a target's own non-members are what the attacker wants
# to know.

#: The quantile that is regressed on, and how many shadow models give a logit per record.
QUANTILE = 0.8
MODELS = 4


def quantile_regression(duel: Duel, *, quantile: float = QUANTILE) -> FloatArray:
    """Return how far a target's logit lies above the regressed quantile of non-members.

    Targets that are shadows themselves are scored by a regression on the other half of the models.
    For regression targets the statistic is minus the loss.
    """
    value = _statistic(duel.target, clip_of(duel.shadow))
    if not duel.own:
        return value - _regressed(duel.shadow, duel.membership, duel.examples, quantile)
    score = np.empty_like(value)
    fold = np.arange(duel.shadow.models) % 2 == 1
    for mine in (fold, ~fold):
        theirs = ~mine
        level = _regressed(duel.shadow[theirs], duel.membership[theirs], duel.examples, quantile)
        score[mine] = value[mine] - level
    return score


def _statistic(signals: Signals, clip: float) -> FloatArray:
    return -np.sqrt(signals.loss) if signals.regression else statistic(signals, clip)


def _regressed(
    shadow: Signals, membership: BoolArray, examples: Examples, quantile: float
) -> FloatArray:
    """Fit the quantile on shadows' non-members and predict it for every record."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    features = _with_target(examples)
    logits = _statistic(shadow, clip_of(shadow))
    rows, answers = [], []
    for model in range(min(MODELS, shadow.models)):
        out = ~membership[model]
        rows.append(features[out])
        answers.append(logits[model][out])
    learner = HistGradientBoostingRegressor(
        loss="quantile", quantile=quantile, max_iter=50, max_leaf_nodes=15, random_state=0
    )
    # Threads that wait for each other on a busy machine cost more than they save.
    with one_thread():
        learner.fit(np.vstack(rows), np.concatenate(answers))
        level = learner.predict(features)
    return np.asarray(level, dtype=np.float64)[None, :]


def _with_target(examples: Examples) -> FloatArray:
    if examples.task == "regression":
        label = np.asarray(examples.target, dtype=np.float64)[:, None]
    else:
        label = (examples.target[:, None] == np.unique(examples.target)[None, :]).astype(np.float64)
    return np.hstack([examples.features, label])


# ── A combination of attacks: a logistic regression on their scores, trained on other targets ─────
#
# The attacker owns the shadows, knows their halves, and can attack each with the others.  So the
# weight of every attack is learned without looking at the target.

#: Pairs (target, record) that the regression sees; more change nothing for a dozen weights.
_PAIRS = 20_000


def combined(duel: Duel) -> FloatArray:
    """Return the log-odds of membership from a cross-fitted logistic regression.

    Targets that are shadows themselves are scored by a regression on the other half of the models.
    """
    features = _features(duel)
    if not duel.own:
        return _fitted_scores(_features(duel.learning()), duel.membership, features)
    score = np.empty(duel.target.logit.shape)
    fold = np.arange(duel.shadow.models) % 2 == 1
    for mine in (fold, ~fold):
        theirs = ~mine
        score[mine] = _fitted_scores(features[theirs], duel.membership[theirs], features[mine])
    return score


def _features(duel: Duel) -> FloatArray:
    return duel.remembered("combined", lambda: _computed_features(duel))


def _computed_features(duel: Duel) -> FloatArray:
    """Return (T, N, F) features: the attacks' scores, bounded, and what they depend on."""
    clip = clip_of(duel.shadow)
    ratio = np.arcsinh(lira(duel, variance="shrunk", clip=clip))
    pooled = np.arcsinh(lira(duel, variance="pooled", clip=clip))
    online, offline = _logit_of_rank(rmia(duel)), _logit_of_rank(rmia_offline(duel))
    ins, outs, value = logit_moments(duel, clip)
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


def _fitted_scores(train: FloatArray, member: BoolArray, test: FloatArray) -> FloatArray:
    from sklearn.linear_model import LogisticRegression

    width = train.shape[-1]
    rows, answers = train.reshape(-1, width), member.reshape(-1)
    # A fixed stride visits every target and record alike.
    step = max(1, len(rows) // _PAIRS)
    step += step % 2 == 0
    rows, answers = rows[::step].astype(np.float64), answers[::step]
    centre, spread = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    model = LogisticRegression(solver="newton-cholesky")
    model.fit((rows - centre) / spread, answers)
    weights = model.coef_[0] / spread
    score = test @ weights.astype(np.float32) + (model.intercept_[0] - centre @ weights)
    return np.asarray(score, dtype=np.float64)


# ── Signals of the target less their mean over shadow models without the record ───────────────────


def calibrated_loss(duel: Duel) -> FloatArray:
    """Return how much lower the loss is than that of models without the record."""
    _, outs = duel.moments(duel.shadow.loss)
    return np.asarray(outs.mean - duel.target.loss)


def calibrated_gradient(duel: Duel) -> FloatArray:
    """Return how much shorter the loss gradient is than that of models without the record."""
    own, known = duel.target.gradient, duel.shadow.gradient
    if own is None or known is None:
        raise InputError("the gradient attack needs a linear model or a multilayer perceptron.")
    _, outs = duel.moments(known)
    return np.asarray(outs.mean - own)


def calibrated_label(duel: Duel) -> FloatArray:
    """Return how much oftener the label is right than in models without the record."""
    own, known = (
        s.correct.astype(np.float64) if s.agreement is None else s.agreement
        for s in (duel.target, duel.shadow)
    )
    _, outs = duel.moments(known)
    return np.asarray(own - outs.mean)
