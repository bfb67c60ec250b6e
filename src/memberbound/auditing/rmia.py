"""The robust membership inference attack (RMIA): is the record likelier than other records are?

Zarifzadeh, Liu and Shokri, *Low-cost high-power membership inference attacks* (2024).  The score is
the share of population records z with LR(x, z) = [P(x|θ)/P(x)] / [P(z|θ)/P(z)] ≥ γ.  That is a
rank: P(z|θ)/P(z) ≤ (P(x|θ)/P(x))/γ, so one sort per target replaces all pairs.
"""

from __future__ import annotations

import numpy as np

from memberbound.auditing.duel import Duel, Moments
from memberbound.numerics.rounding import FloatArray

__all__ = ["rmia", "rmia_offline"]

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

    known: tuple[Moments, Moments, FloatArray] = duel.remembered("confidences", compute)
    return known


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
