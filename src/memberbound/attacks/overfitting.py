"""Overfitting as a ceiling on security (A25 §4): of a trained model, and while it trains."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from memberbound.attacks.intervals import clopper_pearson_lower, clopper_pearson_upper
from memberbound.errors import InputError, fraction, nonnegative, positive, whole_number
from memberbound.games import IidGame, ModelGame
from memberbound.numerics.means import mean_lower, mean_upper
from memberbound.numerics.rounding import FloatArray, down, shared_confidence, up, up_array
from memberbound.quantities import AuditBound, Estimate, json_number, percent, significant

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator
    from torch import Tensor
    from torch.nn import Module

__all__ = [
    "OverfittingCeiling",
    "OverfittingMonitor",
    "TorchWatch",
    "ceiling_from_overfitting",
    "overfitting_ceiling",
    "partial_fit_watched",
    "record_losses",
    "share_above_from_mean_loss",
    "stopping_loss",
]

# ── Overfitting caps security: A25-D9, P10 and T11, measured from losses ──────────────────────────
#
# A learner is (ε, 1-α)-overfitting when a training record has loss at most ε with probability at
# least 1-α.  Then MIS ≤ max(1, 1/γ)·(α + γ·P(loss of a fresh record ≤ ε)): the attack that calls
# everybody with a loss of at most ε a member reaches it.  So this is a *ceiling*: a low value
# proves that a learner leaks, a high one proves nothing.
#
# Both probabilities are over training set, learner and record.  What can be known about them:
#
# * **One training run.**  The threshold is fitted to the training losses, so any training set has a
#   share below some ε that is larger than that of fresh records, also under a model that
#   never saw it.  So both shares are charged with their sampling error: an :class:`AuditBound`
#   about the model.  About MIS, which averages over training sets, one run gives an
#   :class:`Estimate` and no more.
# * **Several independent runs**, each with its own training and fresh records: the mean over runs
#   is bounded, and with it MIS (an :class:`AuditBound`).

#: Thresholds at which Clopper–Pearson bounds share their error.
_THRESHOLDS = 128
#: Fewest losses of either kind: fewer say nothing at the usual confidences.
_FEWEST = 20
ATTACK = "loss threshold"


def ceiling_from_overfitting(share_above: float, fresh_share: float, gamma: float = 1.0) -> float:
    """Return max(1, 1/γ)·(α + γ·q), which MIS cannot exceed, or 1 where that is more.

    Guarantee: MIS is at most the result if a training record has loss above ε with probability at
    most ``share_above`` and a fresh one at most ε with probability at most ``fresh_share``.
    Theorem: A25-T11, first part; at γ = 1 and ε = 0 it is A24-T4.2.
    Assumes: both probabilities hold over training set, learner and record, for one ε.
    Numerics: rounded up.
    Edge cases: 1 is vacuous; α = q = 0 gives 0.

    Examples:
        >>> round(ceiling_from_overfitting(0.01, 0.02), 6)
        0.03
    """
    a, q, g = (
        fraction("share_above", share_above),
        fraction("fresh_share", fresh_share),
        positive("gamma", gamma),
    )
    return min(1.0, up(max(1.0, 1 / g) * (a + g * q), 8))


def stopping_loss(epsilon: float, share_above: float) -> float:
    """Return ε·α: a learner that stops only at a mean loss of at most that is (ε, 1-α)-overfitting.

    Guarantee: in *every* run the share of training losses above ε is at most α, so no sampling
    error enters the training side of A25-T11.
    Theorem: A25-P10 (Markov's inequality for the losses of one run).
    Assumes: the loss is at least 0, and the learner never stops before.
    Numerics: rounded down.

    Examples:
        >>> round(stopping_loss(1e-6, 0.05), 12)
        5e-08
    """
    return max(0.0, down(nonnegative("epsilon", epsilon) * fraction("share_above", share_above)))


def share_above_from_mean_loss(mean_loss: float, epsilon: float) -> float:
    """Return min(1, mean/ε): no larger share of one run's training losses is above ε (A25-P10).

    Assumes: the loss is at least 0.  Numerics: rounded up.  Edge cases: at ε = 0 a mean of 0 gives
    0 and any other 1.

    Examples:
        >>> share_above_from_mean_loss(0.25, 0.5)
        0.5000000000000003
    """
    mean, limit = nonnegative("mean_loss", mean_loss), nonnegative("epsilon", epsilon)
    if mean == 0.0:
        return 0.0
    return 1.0 if limit <= mean else min(1.0, up(mean / limit, 2))


@dataclass(frozen=True, eq=False)
class OverfittingCeiling:
    """What losses say about security; read the class of ``security`` before its number.

    Attributes:
        security: MIS under the loss threshold: an AuditBound from several runs, whose ``upper``
            caps MIS at its confidence; an Estimate from one run.
        model: from one run, the same for this model against its own training set; else ``None``.
        threshold: the ε at which the upper bound is least.
        share_above: share of training losses above it (mean over runs).
        fresh_share: share of fresh losses at most it (mean over runs).
    """

    security: AuditBound | Estimate
    model: AuditBound | None
    threshold: float
    share_above: float
    fresh_share: float
    runs: int
    records: int
    game: IidGame
    theorems: tuple[str, ...] = ("A25-T11", "A25-D9")
    assumptions: tuple[str, ...] = field(default=())

    @property
    def measured(self) -> AuditBound:
        """The bound with an interval: on MIS from several runs, on the model from one."""
        found = self.model if self.model is not None else self.security
        assert isinstance(found, AuditBound)
        return found

    @property
    def leak_lower(self) -> float:
        """1 - upper end of :attr:`measured`: the loss threshold leaks at least that much."""
        return max(0.0, down(1.0 - self.measured.upper))

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {
            "game": self.game.name,
            "protects": self.game.protects,
            "security": self.security.to_dict(),
            "model": None if self.model is None else self.model.to_dict(),
            "threshold": json_number(self.threshold),
            "share_above_estimate": self.share_above,
            "fresh_share_estimate": self.fresh_share,
            "runs": self.runs,
            "records": self.records,
            "theorems": list(self.theorems),
            "assumptions": list(self.assumptions),
        }

    def summary(self) -> str:
        """Return readable lines."""
        lines = [self.security.summary()]
        if self.model is not None:
            lines.append(self.model.summary())
        lines.append(
            f"at loss ≤ {significant(self.threshold, 'given')}: "
            f"{percent(1 - self.share_above, 'estimate')} of training records, "
            f"{percent(self.fresh_share, 'estimate')} of fresh ones"
        )
        return "\n".join(lines)


def overfitting_ceiling(
    train_losses: ArrayLike | Sequence[ArrayLike],
    fresh_losses: ArrayLike | Sequence[ArrayLike],
    nu: float = 0.5,
    lam: float = 1.0,
    confidence: float = 0.95,
    *,
    thresholds: ArrayLike | None = None,
) -> OverfittingCeiling:
    """Bound security from above by the best loss threshold.

    Args:
        train_losses: losses of the training records under the model; for several runs one array
            per run, all of one length (MIS depends on it).
        fresh_losses: losses of records that were used for nothing else; one array per run.
        nu: probability of a fresh record in the i.i.d. game.
        lam: weight of a missed member.
        confidence: of the interval, both sides together.
        thresholds: the ε to try.  By default those that matter for the training losses: of the
            one run, or of the *first* of several, which is then used for nothing else.

    Guarantee: from one run ``model.upper`` is at least min over ε of max(1,1/γ)·(a(ε) + γ·q(ε)) for
    the training share a and the fresh probability q of this model, and ``model.lower`` at most
    that; and it is 1 where the model does not depend on its training records.  From several runs
    ``security.upper`` is at least that minimum over the thresholds with means over training sets
    for a and q, hence at least MIS.  Each of these holds with ``confidence``.
    Theorem: A25-T11 with proofs/overfitting-ceiling.md claims 1 and 2.
    Assumes: fresh records independent of the model and i.i.d. from P; several runs independent,
    each with its own training and fresh records.
    Numerics: upper ends rounded up, lower ends down.
    Edge cases: one run says nothing certain about MIS: ``security`` is an Estimate.  Its threshold
    is fitted to the training set, so the *estimate* of a model that never saw the data is below 1
    by an order of 1/√n.  A result of 1 is vacuous.

    Examples:
        >>> import numpy as np
        >>> train, fresh = np.zeros(1000), np.random.default_rng(0).uniform(0, 1, 1000)
        >>> found = overfitting_ceiling(train, fresh)
        >>> found.model.lower, round(found.model.upper, 4), type(found.security).__name__
        (0.0, 0.0149, 'Estimate')
    """
    game = IidGame(nu, lam)
    level = fraction("confidence", confidence, open_left=True, open_right=True)
    train, fresh = _runs("train_losses", train_losses), _runs("fresh_losses", fresh_losses)
    if len(train) != len(fresh):
        raise InputError(
            f"fresh_losses must have one array per run ({len(train)}), got {len(fresh)}."
        )
    if len({len(one) for one in train}) > 1:
        raise InputError(
            "train_losses must have as many records in every run, got "
            f"{sorted({len(one) for one in train})}. MIS depends on the size of the training set."
        )
    given = None if thresholds is None else _losses("thresholds", thresholds, fewest=1)
    if len(train) == 1:
        return _one_run(train[0], fresh[0], game, level, given)
    return _several_runs(train, fresh, game, level, given)


def _one_run(
    train: FloatArray,
    fresh: FloatArray,
    game: IidGame,
    confidence: float,
    given: FloatArray | None,
) -> OverfittingCeiling:
    candidates = np.unique(train if given is None else given)
    above, below = _shares(train, fresh, candidates)
    # Below every candidate nobody is called a member: α is still below 1 by its sampling error.
    places = np.append(-np.inf, candidates)
    # Two samples with two sides each share the error (claim 1).
    error = (1 - confidence) / 4
    few = np.unique(_spread(candidates)) if given is None else candidates
    high, low = _band(fresh, places, error, few)
    most, least = _band(train, places, error, None if given is None else candidates)
    values = _ceilings(above, below, game.gamma)
    uppers = up_array(_ceilings(1 - least, high, game.gamma), 8)[1:]
    lowers = _ceilings(1 - most, low, game.gamma)
    best = int(np.argmin(uppers))
    estimate = min(1.0, float(values.min()))
    upper = min(1.0, float(uppers.min()))
    lower = max(0.0, down(min(1.0, float(lowers.min())), 8))
    model = AuditBound(
        "security of this model against its training set",
        estimate,
        min(lower, estimate),
        max(upper, estimate),
        confidence,
        ModelGame(),
        ATTACK,
    )
    security = Estimate(
        "security (MIS), from above",
        estimate,
        "shares of one training run in A25-T11",
        (
            "one training run: MIS averages over training sets, and the threshold was fitted to "
            "this one",
        ),
    )
    return OverfittingCeiling(
        security,
        model,
        float(candidates[best]),
        float(above[best]),
        float(below[best]),
        1,
        len(train),
        game,
        assumptions=(
            "The fresh records are independent draws from the law of the training records and "
            "influenced nothing.",
        ),
    )


def _several_runs(
    train: list[FloatArray],
    fresh: list[FloatArray],
    game: IidGame,
    confidence: float,
    given: FloatArray | None,
) -> OverfittingCeiling:
    if given is None:
        if len(train) < 3:
            raise InputError(
                f"train_losses must have at least 3 runs when no thresholds are given, got "
                f"{len(train)}. The first run only chooses the thresholds."
            )
        given = _spread(np.unique(train[0]), 16)
        train, fresh = train[1:], fresh[1:]
    candidates = np.unique(given)
    pairs = [_shares(a, b, candidates) for a, b in zip(train, fresh, strict=True)]
    above = np.array([a for a, _ in pairs])
    below = np.array([b for _, b in pairs])
    gamma, most = game.gamma, max(1.0, 1 / game.gamma) * (1 + game.gamma)
    ceilings = np.minimum(_ceilings(above, below, gamma), most)
    side = shared_confidence(confidence, 2)
    # Each run's ceiling is one draw of a variable whose mean is A25-T11's right-hand side.
    uppers = mean_upper(ceilings, confidence=side, high=most)
    lowers = mean_lower(ceilings, confidence=side, high=most)
    best = int(np.argmin(uppers))
    estimate = min(1.0, float(ceilings.mean(axis=0).min()))
    upper = min(1.0, up(float(uppers.min()), 16))
    lower = max(0.0, down(min(1.0, float(lowers.min())), 16))
    security = AuditBound(
        "security (MIS), from above",
        estimate,
        min(lower, estimate),
        max(upper, estimate),
        confidence,
        game,
        ATTACK,
    )
    return OverfittingCeiling(
        security,
        None,
        float(candidates[best]),
        float(above[:, best].mean()),
        float(below[:, best].mean()),
        len(train),
        len(train[0]),
        game,
        assumptions=(
            "The runs are independent, each with its own training and fresh records from one law.",
            "The thresholds were chosen without the runs that are counted.",
        ),
    )


def _ceilings(above: FloatArray, below: FloatArray, gamma: float) -> FloatArray:
    """Return max(1, 1/γ)·(α + γ·q), not yet capped at 1."""
    return np.asarray(max(1.0, 1 / gamma) * (above + gamma * below))


def _shares(train: FloatArray, fresh: FloatArray, at: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the shares of training losses above and of fresh losses at most each threshold."""
    above = (len(train) - np.searchsorted(np.sort(train), at, side="right")) / len(train)
    below = np.searchsorted(np.sort(fresh), at, side="right") / len(fresh)
    return above, below


def _band(
    sample: FloatArray, at: FloatArray, error: float, few: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Bound P(loss ≤ ε) at all of ``at`` at once, each side with ``error`` (claim 1).

    Massart's inequality is good in the middle, Clopper–Pearson near 0 and 1: at ``few`` thresholds
    that were chosen without the sample, or (``None``) at its own losses of fixed ranks.
    """
    m, ordered = len(sample), np.sort(sample)
    share = np.searchsorted(ordered, at, side="right") / m
    reach = up(math.sqrt(math.log(2 / error) / (2 * m)), 8)
    if few is None:
        # P(loss ≤ X₍ₖ₎) is at least, and P(loss < X₍ₖ₎) at most, the k-th of m uniform numbers.
        ranks = np.unique(_spread(np.arange(1.0, m + 1)))
        few = ordered[ranks.astype(np.intp) - 1]
        hits_under, hits_over = ranks, ranks - 1
        following = np.searchsorted(few, at, side="right")
    else:
        hits_under = hits_over = np.searchsorted(ordered, few, side="right").astype(np.float64)
        following = np.searchsorted(few, at, side="left")
    each = error / (2 * len(few))
    over = np.append(clopper_pearson_upper(hits_over, m, each), 1.0)[following]
    last_one = np.searchsorted(few, at, side="right")
    under = np.append(0.0, clopper_pearson_lower(hits_under, m, each))[last_one]
    high = np.minimum(np.minimum(up_array(share + reach), over), 1.0)
    low = np.maximum(np.maximum(share * (1 - 1e-15) - reach, under), 0.0)
    return high, low


def _spread(ordered: FloatArray, count: int = _THRESHOLDS) -> FloatArray:
    """Return at most ``count`` of the ordered values, spread over their ranks, ends included."""
    if len(ordered) <= count:
        return ordered
    return np.asarray(ordered[np.linspace(0, len(ordered) - 1, count).round().astype(np.intp)])


def _runs(name: str, losses: ArrayLike | Sequence[ArrayLike]) -> list[FloatArray]:
    """Return one array per run: a flat sequence of numbers is one run."""
    rows = list(losses) if isinstance(losses, (list, tuple)) else list(np.asarray(losses))
    if not rows:
        raise InputError(f"{name} must have at least {_FEWEST} losses, got none.")
    if np.ndim(rows[0]) == 0:
        return [_losses(name, losses)]
    return [_losses(name, row) for row in rows]


def _losses(
    name: str, losses: ArrayLike | Sequence[ArrayLike], fewest: int = _FEWEST
) -> FloatArray:
    try:
        values = np.asarray(losses, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers, got {type(losses).__name__}.") from None
    if values.ndim != 1 or len(values) < fewest:
        raise InputError(
            f"{name} must be at least {fewest} numbers per run, got shape {values.shape}."
        )
    if np.isnan(values).any():
        raise InputError(
            f"{name} must be numbers, got nan at place {int(np.isnan(values).argmax())}."
        )
    return values


# ── Watch overfitting while a model trains, and stop when its security is gone (A25-T11, P10) ─────
#
# At every look the monitor bounds what the loss threshold reaches against the current model.  The
# ceiling falls as training losses sink below what fresh records reach.  Stopping may depend on what
# was seen: the error of all looks together is at most 1 - confidence.

#: Losses of one record, from labels and what the estimator says.
RecordLoss: TypeAlias = "Callable[[BaseEstimator, ArrayLike, ArrayLike], ArrayLike]"
_COLUMNS = (
    *("step", "train_loss_mean", "fresh_loss_mean", "threshold", "share_above", "fresh_share"),
    *("ceiling_estimate", "ceiling_lower", "ceiling_upper"),
)


def look_confidence(confidence: float, look: int) -> float:
    """Return the confidence of the ``look``-th look (from 1): its error is (1 - c)/(look·(look+1)).

    The errors of all looks, however many, add up to 1 - c.

    Examples:
        >>> look_confidence(0.95, 1), round(look_confidence(0.95, 9), 6)
        (0.975, 0.999444)
    """
    return shared_confidence(confidence, look * (look + 1))


@dataclass(eq=False)
class OverfittingMonitor:
    """The ceiling of security at every look at a training run, and a rule to stop it.

    Guarantee: with probability ``confidence`` every ceiling of the history holds for the model of
    its look (``OverfittingCeiling.model``), also that of a look at which training was stopped.
    Theorem: A25-T11 with proofs/overfitting-ceiling.md claim 3; A25-P10 for ``overfit_at``.
    Assumes: the fresh records are i.i.d. from the law of the training records and influence
    nothing but when training stops.
    Numerics: as :func:`~memberbound.attacks.overfitting_ceiling`.
    Edge cases: without ``security`` and ``overfit_at`` it only watches.  A high ceiling is no
    promise: another attack may do better than the loss threshold.

    Attributes:
        security: stop once the model's security is *proved* to be below this.
        overfit_at: (ε, α); stop once the mean training loss is at most ε·α, from where on the
            learner is (ε, 1-α)-overfitting whatever the fresh records say.
        nu: probability of a fresh record in the i.i.d. game.
        lam: weight of a missed member.
        confidence: of all looks together.

    Examples:
        >>> import numpy as np
        >>> monitor, fresh = OverfittingMonitor(security=0.5), np.linspace(0, 1, 2000)
        >>> for scale in (1.0, 0.5, 0.1):
        ...     _ = monitor.update(scale * np.linspace(0, 1, 500), fresh)
        ...     print(round(monitor.latest.model.upper, 2), monitor.should_stop)
        1.0 False
        0.56 False
        0.16 True
    """

    security: float | None = None
    overfit_at: tuple[float, float] | None = None
    nu: float = 0.5
    lam: float = 1.0
    confidence: float = 0.95
    _rows: list[tuple[float, ...]] = field(default_factory=list, repr=False)
    _latest: OverfittingCeiling | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        IidGame(self.nu, self.lam)
        fraction("confidence", self.confidence, open_left=True, open_right=True)
        if self.security is not None:
            fraction("security", self.security)
        if self.overfit_at is not None:
            stopping_loss(*self.overfit_at)

    def update(
        self, train_losses: ArrayLike, fresh_losses: ArrayLike, step: float | None = None
    ) -> OverfittingCeiling:
        """Look at the current model: losses of all training and of the fresh records.

        ``step`` is what the history calls this look; by default looks are counted from 0.
        """
        train = np.asarray(train_losses, dtype=np.float64)
        fresh = np.asarray(fresh_losses, dtype=np.float64)
        if train.ndim != 1 or fresh.ndim != 1:
            raise InputError(
                "train_losses and fresh_losses must be one number per record, got shapes "
                f"{train.shape} and {fresh.shape}."
            )
        level = look_confidence(self.confidence, len(self._rows) + 1)
        found = overfitting_ceiling(train, fresh, self.nu, self.lam, level)
        bound = found.measured
        row = (
            float(len(self._rows) if step is None else step),
            *(float(train.mean()), float(fresh.mean())),
            *(found.threshold, found.share_above, found.fresh_share),
            *(bound.estimate, bound.lower, bound.upper),
        )
        self._rows.append(row)
        self._latest = found
        return found

    @property
    def latest(self) -> OverfittingCeiling:
        """The last look."""
        if self._latest is None:
            raise InputError("the monitor must have been updated at least once, got no looks.")
        return self._latest

    @property
    def history(self) -> dict[str, FloatArray]:
        """One array per quantity, one entry per look."""
        table = np.array(self._rows, dtype=np.float64).reshape(len(self._rows), len(_COLUMNS))
        return {name: table[:, place] for place, name in enumerate(_COLUMNS)}

    @property
    def proved_insecure(self) -> bool:
        """Whether the last model's security is below ``security``, at the confidence."""
        return bool(self.security is not None and self._rows and self._rows[-1][-1] < self.security)

    @property
    def forced_overfit(self) -> bool:
        """Whether the mean training loss has reached ε·α (A25-P10)."""
        return bool(
            self.overfit_at is not None
            and self._rows
            and self._rows[-1][1] <= stopping_loss(*self.overfit_at)
        )

    @property
    def should_stop(self) -> bool:
        """Whether one of the two rules asks to stop after the last look."""
        return self.proved_insecure or self.forced_overfit


# ---- scikit-learn ----------------------------------------------------------------------------


def record_losses(estimator: BaseEstimator, X: ArrayLike, y: ArrayLike) -> FloatArray:
    """Return the loss of every record: -ln p(y|x), 0/1 without probabilities, or squared error.

    A label that the estimator has never seen has an infinite loss.
    """
    labels = np.asarray(y)
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        residual = np.asarray(estimator.predict(X), dtype=np.float64) - labels
        return np.asarray(residual**2)
    if not hasattr(estimator, "predict_proba"):
        wrong = np.asarray(estimator.predict(X)) != labels
        return np.asarray(wrong, dtype=np.float64)
    known = np.asarray(classes)
    place = np.minimum(np.searchsorted(known, labels), len(known) - 1)
    likely = np.asarray(estimator.predict_proba(X), dtype=np.float64)[np.arange(len(labels)), place]
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(known[place] == labels, -np.log(likely), np.inf))


def partial_fit_watched(
    estimator: BaseEstimator,
    train: tuple[ArrayLike, ArrayLike],
    fresh: tuple[ArrayLike, ArrayLike],
    monitor: OverfittingMonitor,
    *,
    epochs: int,
    every: int = 1,
    batch: int | None = None,
    seed: int = 0,
    losses: RecordLoss = record_losses,
    progress: Callable[[int, int], None] | None = None,
) -> BaseEstimator:
    """Train with ``partial_fit`` for at most ``epochs`` passes and stop when the monitor says so.

    Args:
        estimator: anything with scikit-learn's ``partial_fit``; it is trained in place.
        train: (X, y) of the training records, all of them members.
        fresh: (X, y) of records for nothing but the monitor.
        monitor: looked at after every ``every`` passes and after the last.
        epochs: passes over the training records.
        every: passes between two looks.
        batch: records per call of ``partial_fit``; by default all at once.
        seed: of the order in which batches are drawn.
        losses: loss of every record, from (estimator, X, y).
        progress: called with (done, total) passes.

    Returns the estimator.  It is that of the last look: to release an earlier one, keep copies.
    """
    if not hasattr(estimator, "partial_fit"):
        raise InputError(
            f"estimator must have partial_fit, got {type(estimator).__name__}. Call "
            "monitor.update with the losses of finished fits instead."
        )
    total, gap = whole_number("epochs", epochs), whole_number("every", every)
    data, labels = np.asarray(train[0]), np.asarray(train[1])
    size = len(data) if batch is None else whole_number("batch", batch)
    rng = np.random.default_rng(whole_number("seed", seed, at_least=0))
    # A classifier must hear of all classes at its first call; a regressor must not be told any.
    more = {"classes": np.unique(labels)} if _is_classifier(estimator) else {}
    for epoch in range(1, total + 1):
        order = rng.permutation(len(data))
        for start in range(0, len(data), size):
            rows = order[start : start + size]
            estimator.partial_fit(data[rows], labels[rows], **more)
            more = {}
        if epoch % gap == 0 or epoch == total:
            monitor.update(losses(estimator, data, labels), losses(estimator, *fresh), step=epoch)
        if progress is not None:
            progress(epoch, total)
        if monitor.should_stop:
            break
    return estimator


def _is_classifier(estimator: BaseEstimator) -> bool:
    from sklearn.base import is_classifier

    return bool(is_classifier(estimator))


# ---- PyTorch ---------------------------------------------------------------------------------


@dataclass(eq=False)
class TorchWatch:
    """A callback for PyTorch training loops: ``if watch(epoch): break``.

    Attributes:
        model: the module that is being trained.
        train: (inputs, labels) of all training records.
        fresh: (inputs, labels) of records for nothing but the monitor.
        loss: maps (outputs, labels) to one loss per record, e.g. ``MSELoss(reduction="none")``;
            further axes of the losses are averaged.
        monitor: what is updated.
        batch: records per forward pass.
    """

    model: Module
    train: tuple[Tensor, Tensor]
    fresh: tuple[Tensor, Tensor]
    loss: Callable[[Tensor, Tensor], Tensor]
    monitor: OverfittingMonitor
    batch: int = 4096

    def __call__(self, step: float | None = None) -> bool:
        """Look at the model (in evaluation mode, without gradients); return whether to stop."""
        training = self.model.training
        self.model.eval()
        try:
            self.monitor.update(self._losses(*self.train), self._losses(*self.fresh), step)
        finally:
            self.model.train(training)
        return self.monitor.should_stop

    def _losses(self, inputs: Tensor, labels: Tensor) -> FloatArray:
        try:
            import torch
        except ImportError:
            raise InputError("this needs PyTorch: pip install 'memberbound[torch]'.") from None
        parts = []
        with torch.no_grad():
            for start in range(0, len(labels), self.batch):
                rows = slice(start, start + self.batch)
                each = self.loss(self.model(inputs[rows]), labels[rows])
                if each.ndim == 0:
                    raise InputError(
                        "loss must give one loss per record, got a single number. Build it with "
                        'reduction="none".'
                    )
                flat = each.reshape(len(each), -1).mean(dim=1)
                parts.append(flat.double().cpu().numpy())
        return np.asarray(np.concatenate(parts))
