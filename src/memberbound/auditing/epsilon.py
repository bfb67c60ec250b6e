"""Lower bounds on the ε of differential privacy from an attack's hits and false alarms.

An (ε, δ)-DP mechanism allows no attack with TPR > e^ε·FPR + δ, nor 1 - FPR > e^ε·(1 - TPR) + δ
(the hockey-stick, both ways).  So rates that an attack reaches bound ε from below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from memberbound.auditing.intervals import clopper_pearson_lower, clopper_pearson_upper
from memberbound.auditing.samples import Scores
from memberbound.errors import InputError, fraction, whole_number
from memberbound.games import Adjacency, NeighbourGame
from memberbound.numerics.rounding import FloatArray
from memberbound.quantities import AuditBound, Estimate, significant

__all__ = ["CredibleEpsilon", "bayesian_epsilon", "epsilon_from_scores", "epsilon_lower"]

#: Thresholds tried when one is chosen: the best is hardly better among more.
_CANDIDATES = 1024
#: Points of the posterior at which the false-positive rate is held while the other is integrated.
_POINTS = 1024


def epsilon_lower(
    tp: int,
    fp: int,
    n1: int,
    n0: int,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    adjacency: Adjacency = "add-remove",
    attack: str = "scores",
) -> AuditBound:
    """Bound ε from below: ``tp`` of ``n1`` members and ``fp`` of ``n0`` non-members were accused.

    Guarantee: P(lower > ε) ≤ 1 - ``confidence`` for every (ε, ``delta``)-DP mechanism; one-sided,
    so ``upper`` is infinite.
    Theorem: Clopper-Pearson for the TPR from below and the FPR from above, each with half the
    error; both ways of the hockey-stick rest on these two events (proofs/audit-intervals.md
    claim 5).
    Assumes: the rule was fixed before these trials, and the trials are independent: separate runs
    of the mechanism, not many records of one run (for that see :mod:`one_run`).
    Numerics: rounded down.
    Edge cases: an attack no better than chance gives 0; a perfect one is finite below and has an
    infinite estimate (``null`` in JSON).

    Examples:
        >>> bound = epsilon_lower(1000, 0, 1000, 1000)
        >>> round(bound.lower, 3), bound.estimate
        (5.601, inf)
    """
    sizes = _counts(tp, fp, n1, n0)
    slack = fraction("delta", delta)
    sure = fraction("confidence", confidence, open_left=True, open_right=True)
    hits, alarms, inside, outside = sizes
    low = float(_epsilon(hits, alarms, inside, outside, delta=slack, error=(1 - sure) / 2))
    estimate = float(_ratio(np.array(hits / inside), np.array(alarms / outside), slack))
    return AuditBound(
        quantity=f"epsilon at delta {significant(slack, 'given')}",
        estimate=max(estimate, low),
        lower=low,
        upper=math.inf,
        confidence=sure,
        game=NeighbourGame(adjacency),
        attack=attack,
    )


def epsilon_from_scores(
    scores: ArrayLike,
    member: ArrayLike,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    adjacency: Adjacency = "add-remove",
    attack: str = "scores",
    seed: int = 0,
) -> AuditBound:
    """Bound ε from below from scores of independent runs, with the threshold chosen on a third.

    Guarantee: as :func:`epsilon_lower`; the threshold is a function of scores that the bound does
    not use.  The estimate is that of the evaluated part.
    Theorem: proofs/audit-intervals.md claim 5.
    Assumes: every score comes from its own run of the mechanism; higher speaks for "in".  Many
    records of one model, as ``audit`` reads them (the model game), do not qualify: they say how
    this model turned out, and ε is about the mechanism.
    Numerics: rounded down.
    Edge cases: constant scores give 0.

    Examples:
        >>> epsilon_from_scores([0.5] * 40, [0, 1] * 20).lower
        0.0
    """
    slack = fraction("delta", delta)
    sure = fraction("confidence", confidence, open_left=True, open_right=True)
    choose, evaluate = Scores.of(scores, member).split(whole_number("seed", seed, at_least=0))
    if min(sample.size for sample in (*choose, *evaluate)) == 0:
        raise InputError(
            "scores must include at least 2 of members and 2 of non-members, so that a threshold "
            f"can be chosen apart from its evaluation, got {len(choose.members)} and "
            f"{len(choose.non_members)} for choosing."
        )
    threshold = _chosen_threshold(choose, slack, (1 - sure) / 2)
    hits, alarms = evaluate.hits(threshold)
    return epsilon_lower(
        hits,
        alarms,
        evaluate.members.size,
        evaluate.non_members.size,
        delta=slack,
        confidence=sure,
        adjacency=adjacency,
        attack=attack,
    )


@dataclass(frozen=True)
class CredibleEpsilon:
    """Posterior quantiles of ε.  A credible interval: it has no coverage guarantee."""

    lower: Estimate
    median: Estimate
    upper: Estimate


def bayesian_epsilon(
    tp: int, fp: int, n1: int, n0: int, *, delta: float = 0.0, credibility: float = 0.95
) -> CredibleEpsilon:
    """Return posterior quantiles of ε under Jeffreys priors for the two error rates.

    The method of Zanella-Béguelin and others (ICML 2023): P(ε ≤ e) is the posterior mass of the
    error rates that (e, δ)-DP allows.  Estimates, not bounds: over repeated audits the lower end
    lies above the truth more or less often than the credibility says, as the prior has it.  The
    posterior speaks of *this attack's* ε, the least that its two rates allow.

    Numerics: midpoint rule over 1024 posterior quantiles of the FPR; quantiles to 1e-9.
    Edge cases: where enough of the mass is at ε = 0 a quantile is 0.

    Examples:
        >>> interval = bayesian_epsilon(90, 10, 100, 100)
        >>> [round(e.value, 2) for e in (interval.lower, interval.median, interval.upper)]
        [1.84, 2.33, 2.94]
    """
    hits, alarms, inside, outside = _counts(tp, fp, n1, n0)
    slack = fraction("delta", delta)
    mass = fraction("credibility", credibility, open_left=True, open_right=True)
    places = (np.arange(_POINTS) + 0.5) / _POINTS
    fpr = special.betaincinv(alarms + 0.5, outside - alarms + 0.5, places)

    def below(epsilon: float) -> float:
        """Posterior probability that (epsilon, delta) allows the rates."""
        least = np.maximum(
            (1 - slack - fpr) * math.exp(-epsilon), 1 - slack - math.exp(min(epsilon, 700.0)) * fpr
        )
        least = np.clip(least, 0.0, 1.0)
        tail = special.betaincc(inside - hits + 0.5, hits + 0.5, least)
        return float(tail.mean())

    def quantile(share: float) -> float:
        low, high = 0.0, 1.0
        if below(low) >= share:
            return 0.0
        while below(high) < share and high < 700:
            high *= 2
        while high - low > 1e-9 * max(1.0, high):
            middle = (low + high) / 2
            low, high = (middle, high) if below(middle) < share else (low, middle)
        return high

    method = f"Jeffreys posterior, {significant(mass, 'given')} credible, no frequentist guarantee"
    ends = {"lower": (1 - mass) / 2, "median": 0.5, "upper": (1 + mass) / 2}
    found = {
        name: Estimate(
            f"epsilon at delta {significant(slack, 'given')}, {name}", quantile(share), method
        )
        for name, share in ends.items()
    }
    return CredibleEpsilon(**found)


def _epsilon(
    hits: ArrayLike, alarms: ArrayLike, inside: int, outside: int, *, delta: float, error: float
) -> FloatArray:
    """Return the bound of claim 5 with ``error`` for each of the two rates."""
    reached = clopper_pearson_lower(hits, inside, error)
    falsely = clopper_pearson_upper(alarms, outside, error)
    missed = clopper_pearson_upper(np.subtract(inside, hits), inside, error)
    cleared = clopper_pearson_lower(np.subtract(outside, alarms), outside, error)
    value = np.maximum(_log_ratio(reached - delta, falsely), _log_ratio(cleared - delta, missed))
    return np.maximum(value - 1e-13 * np.abs(value) - 1e-13, 0.0)


def _ratio(tpr: FloatArray, fpr: FloatArray, delta: float) -> FloatArray:
    """Return the least ε ≥ 0 that allows the two rates."""
    value = np.maximum(_log_ratio(tpr - delta, fpr), _log_ratio(1 - fpr - delta, 1 - tpr))
    return np.maximum(value, 0.0)


def _log_ratio(top: FloatArray, bottom: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(top) - np.log(bottom)
    return np.asarray(np.where(top > 0, value, -np.inf))


def _chosen_threshold(choose: Scores, delta: float, error: float) -> float:
    """Return the threshold whose bound is largest when all candidates share the error.

    Without sharing, an empty tail of a small part would win, which need not be empty in the rest.
    """
    x, y = choose
    pooled = np.sort(np.concatenate((x, y)))
    # Ranks from both ends, geometrically spaced: the best threshold often lies far in a tail.
    ends = np.unique(np.geomspace(1, pooled.size, _CANDIDATES // 2).astype(np.int64)) - 1
    thresholds = np.unique(np.concatenate((pooled[ends], pooled[::-1][ends])))
    hits = x.size - np.searchsorted(x, thresholds, "left")
    alarms = y.size - np.searchsorted(y, thresholds, "left")
    level = error / thresholds.size
    value = _epsilon(hits, alarms, x.size, y.size, delta=delta, error=level)
    if value.max() > 0:
        return float(thresholds[int(np.argmax(value))])
    return choose.best_threshold((1.0, 1.0))[0]


def _counts(tp: int, fp: int, n1: int, n0: int) -> tuple[int, int, int, int]:
    inside, outside = whole_number("n1", n1), whole_number("n0", n0)
    hits = whole_number("tp", tp, at_least=0)
    alarms = whole_number("fp", fp, at_least=0)
    if hits > inside or alarms > outside:
        raise InputError(
            f"tp and fp must be at most n1 = {inside} and n0 = {outside}, got {tp!r} and {fp!r}."
        )
    return hits, alarms, inside, outside
