"""The quantile-regression attack: one extra model instead of many shadows per record.

Bertran et al., *Scalable membership inference attacks via quantile regression* (2023): a regression
on the record's features and label predicts a high quantile of the logit that records get while they
are *out*; a record above its own quantile is called a member.  Here the "out" logits come from a
few shadow models, since a target's own non-members are what the attacker wants to know.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from memberbound.auditing.duel import Duel
from memberbound.auditing.lira import clip_of, statistic
from memberbound.auditing.signals import BoolArray, Signals
from memberbound.learners import Examples
from memberbound.numerics.rounding import FloatArray

__all__ = ["quantile_regression"]

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
    learner: Any = HistGradientBoostingRegressor(
        loss="quantile", quantile=quantile, max_iter=50, max_leaf_nodes=15, random_state=0
    )
    # Threads that wait for each other on a busy machine cost more than they save.
    with import_module("threadpoolctl").threadpool_limits(1):
        learner.fit(np.vstack(rows), np.concatenate(answers))
        level = learner.predict(features)
    return np.asarray(level, dtype=np.float64)[None, :]


def _with_target(examples: Examples) -> FloatArray:
    if examples.task == "regression":
        label = np.asarray(examples.target, dtype=np.float64)[:, None]
    else:
        label = (examples.target[:, None] == np.unique(examples.target)[None, :]).astype(np.float64)
    return np.hstack([examples.features, label])
