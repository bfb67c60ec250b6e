"""A combination of attacks: a logistic regression on their scores, trained on other targets.

The attacker owns the shadows, knows their halves, and can attack each with the others.  So the
weight of every attack is learned without looking at the target.
"""

from __future__ import annotations

import numpy as np

from memberbound.auditing.duel import Duel
from memberbound.auditing.lira import clip_of, lira, logit_moments
from memberbound.auditing.rmia import rmia, rmia_offline
from memberbound.auditing.signals import BoolArray
from memberbound.numerics.rounding import FloatArray

__all__ = ["combined"]

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
    known: FloatArray = duel.remembered("combined", lambda: _computed_features(duel))
    return known


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
