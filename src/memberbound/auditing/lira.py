"""The likelihood-ratio attack: Gaussian laws of the logit with the record in and out.

Carlini et al., *Membership inference attacks from first principles* (2022).  Online it compares the
two laws; offline it knows only models without the record and asks how far above them the target is.
For regression the statistic is the residual, which two Gaussians fit as it is.
"""

from __future__ import annotations

import numpy as np

from memberbound.auditing.duel import Duel, Moments
from memberbound.auditing.signals import EXACT, Signals
from memberbound.numerics.rounding import FloatArray

__all__ = ["clip_of", "lira", "lira_offline", "logit_moments", "statistic"]

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

    known: tuple[Moments, Moments, FloatArray] = duel.remembered(f"logits at {clip!r}", compute)
    return known


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
