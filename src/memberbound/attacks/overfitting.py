"""Overfitting as a ceiling on security, from the losses of trained models (A25 §4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from memberbound.answers import EstimateOf, Given
from memberbound.attacks.intervals import clopper_pearson_lower, clopper_pearson_upper
from memberbound.errors import InputError, fraction, nonnegative, positive
from memberbound.games import ModelGame
from memberbound.numerics.rounding import FloatArray, down, up, up_array
from memberbound.quantities import CERTIFICATE, INTERVAL, AuditBound, Estimate, Sides

# A learner is (ε, 1-α)-overfitting when a training record has loss at most ε with probability at
# least 1-α.  Then MIS ≤ max(1, 1/γ)·(α + γ·P(loss of a fresh record ≤ ε)): the attack that calls
# everybody with a loss of at most ε a member reaches it.  So this is a *ceiling*: a low value
# proves that a learner leaks, a high one proves nothing.
#
# The threshold is fitted to the training losses, so any training set has a share below some ε that
# is larger than that of fresh records, also under a model that never saw it.  So both shares are
# charged with their sampling error: an AuditBound about the model.  About MIS, which averages over
# training sets, one run gives an Estimate and no more.

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


@dataclass(frozen=True)
class OverfittingCeiling:
    """What the losses of one run say about security; read the class of a number before it.

    Attributes:
        security: MIS under the loss threshold, from above: an Estimate.
        model: the same for this model against its own training set.
        threshold: the ε at which the upper bound is least.
        share_above_estimate: share of training losses above it.
        fresh_share_estimate: share of fresh losses at most it.
    """

    SIDES: ClassVar[Sides] = {
        "fresh_share_estimate": "estimate",
        "model": {**INTERVAL, "confidence": "lower"},
        "security": {**INTERVAL, **CERTIFICATE},
        "share_above_estimate": "estimate",
        "threshold": "given",
    }

    security: Estimate
    model: AuditBound
    threshold: Given
    share_above_estimate: EstimateOf
    fresh_share_estimate: EstimateOf
    records: int
    assumptions: tuple[str, ...] = (
        "The fresh records are independent draws from the distribution of the training records and "
        "influenced nothing.",
    )
    theorems: tuple[str, ...] = ("A25-T11", "A25-D9")
    game: str = "iid"
    protects: str = "average record"


def overfitting_ceiling(
    train_losses: ArrayLike,
    fresh_losses: ArrayLike,
    *,
    gamma: float = 1.0,
    confidence: float = 0.95,
) -> OverfittingCeiling:
    """Bound from above the security of a model by the best threshold on its losses.

    ``fresh_losses`` are those of records that were used for nothing else.

    Guarantee: ``model.upper`` is at least min over ε of max(1,1/γ)·(a(ε) + γ·q(ε)) for the training
    share a and the fresh probability q of this model, and ``model.lower`` at most that; and it is 1
    where the model does not depend on its training records.  Each holds with ``confidence``.
    Theorem: A25-T11 with proofs/overfitting-ceiling.md claim 1.
    Assumes: fresh records independent of the model and i.i.d. from P.
    Numerics: upper ends rounded up, lower ends down.
    Edge cases: nothing certain is said about MIS: the threshold is fitted to the training set, so
    the *estimate* of a model that never saw the data is below 1 by an order of 1/√n.  A result of 1
    is vacuous.

    Examples:
        >>> train, fresh = np.zeros(1000), np.random.default_rng(0).uniform(0, 1, 1000)
        >>> bound = overfitting_ceiling(train, fresh).model
        >>> bound.lower, round(bound.upper, 4)
        (0.0, 0.0149)
    """
    weight = positive("gamma", gamma)
    sure = fraction("confidence", confidence, open_left=True, open_right=True)
    train, fresh = _losses("train_losses", train_losses), _losses("fresh_losses", fresh_losses)
    candidates = np.unique(train)
    reached = np.searchsorted(np.sort(train), candidates, side="right")
    above = (len(train) - reached) / len(train)
    below = np.searchsorted(np.sort(fresh), candidates, side="right") / len(fresh)
    # Below every candidate nobody is called a member: α is still below 1 by its sampling error.
    places = np.append(-np.inf, candidates)
    # Two samples with two sides each share the error (claim 1).
    error = (1 - sure) / 4
    high, low = _band(fresh, places, error, np.unique(_spread(candidates)))
    most, least = _band(train, places, error, None)
    uppers = up_array(_ceilings(1 - least, high, weight), 8)[1:]
    best = int(np.argmin(uppers))
    estimate = min(1.0, float(_ceilings(above, below, weight).min()))
    upper = min(1.0, float(uppers.min()))
    lower = max(0.0, down(min(1.0, float(_ceilings(1 - most, low, weight).min())), 8))
    return OverfittingCeiling(
        Estimate(
            "security (MIS), from above",
            estimate,
            "shares of one training run in A25-T11",
            (
                "one training run: MIS averages over training sets, and the threshold was fitted "
                "to this one",
            ),
        ),
        AuditBound(
            "security of this model against its training set",
            estimate,
            min(lower, estimate),
            max(upper, estimate),
            sure,
            ModelGame(),
            ATTACK,
        ),
        float(candidates[best]),
        float(above[best]),
        float(below[best]),
        len(train),
    )


def _ceilings(above: FloatArray, below: FloatArray, gamma: float) -> FloatArray:
    """Return max(1, 1/γ)·(α + γ·q), not yet capped at 1."""
    return np.asarray(max(1.0, 1 / gamma) * (above + gamma * below))


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


def _spread(ordered: FloatArray) -> FloatArray:
    """Return at most 128 of the ordered values, spread over their ranks, ends included."""
    if len(ordered) <= _THRESHOLDS:
        return ordered
    ranks = np.linspace(0, len(ordered) - 1, _THRESHOLDS).round().astype(np.intp)
    return np.asarray(ordered[ranks])


def _losses(name: str, losses: ArrayLike) -> FloatArray:
    try:
        values = np.asarray(losses, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers, got {type(losses).__name__}.") from None
    if values.ndim != 1 or len(values) < _FEWEST:
        raise InputError(f"{name} must be at least {_FEWEST} numbers, got shape {values.shape}.")
    if np.isnan(values).any():
        raise InputError(
            f"{name} must be numbers, got nan at place {int(np.isnan(values).argmax())}."
        )
    return values
