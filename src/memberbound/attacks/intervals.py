"""Confidence bounds for what a threshold attack reaches (proofs/audit-intervals.md).

Every bound holds for any laws of the scores, ties included, at any sample size.  ``error`` is the
probability with which one stated side may fail.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from memberbound.errors import InputError, fraction, whole_number
from memberbound.numerics.roots import guessed_zero, last_true, least_whole
from memberbound.numerics.rounding import UNIT, FloatArray

#: Relative error granted to scipy's incomplete beta functions and their inverses.
_SLACK = 1e-11
#: Cells into which one deviation is divided before the other is added to it.
_CELLS = 4096


def clopper_pearson_lower(hits: ArrayLike, trials: int, error: float) -> FloatArray:
    """Bound a probability from below, from ``hits`` in ``trials``.

    Guarantee: P(result > p) ≤ ``error`` for every p.
    Theorem: Clopper and Pearson 1934: the p at which ``hits`` or more have probability ``error``;
    proofs/audit-intervals.md claim 3 for trials without replacement.
    Assumes: independent trials with one probability; or, for an error of at most ¼, draws without
    replacement from a finite population of which the share p hits.
    Numerics: lowered by 1e-11 of its size, more than the error of the inverse beta function.
    Edge cases: no hits give 0.  One hit gives ``error``/``trials``, a little below Clopper and
    Pearson's value, which would not hold without replacement.

    Examples:
        >>> clopper_pearson_lower([0, 10], 10, 0.025).round(4).tolist()
        [0.0, 0.6915]
    """
    k, n, level = _trials(hits, trials, error)
    several = k > 1
    a = np.where(several, k, 1.0)
    value = np.where(several, special.betaincinv(a, n - a + 1, level), level / n)
    return np.asarray(np.where(k > 0, value * (1 - _SLACK), 0.0))


def clopper_pearson_upper(hits: ArrayLike, trials: int, error: float) -> FloatArray:
    """Bound a probability from above; mirror of :func:`clopper_pearson_lower`.

    Guarantee: P(result < p) ≤ ``error`` for every p.
    Theorem: as :func:`clopper_pearson_lower`, for the misses.
    Assumes: as :func:`clopper_pearson_lower`.
    Numerics: the complemented inverse, raised.
    Edge cases: hits in every trial give 1; one miss gives 1 - ``error``/``trials``.

    Examples:
        >>> clopper_pearson_upper([0, 10], 10, 0.025).round(4).tolist()
        [0.3085, 1.0]
    """
    k, n, level = _trials(hits, trials, error)
    several = n - k > 1
    b = np.where(several, n - k, 1.0)
    # The complemented inverse keeps relative accuracy for small probabilities.
    value = np.where(several, special.betainccinv(n - b + 1, b, level), 1 - level / n)
    return np.asarray(np.where(k < n, np.minimum(value * (1 + _SLACK), 1.0), 1.0))


def _trials(hits: ArrayLike, trials: int, error: float) -> tuple[FloatArray, float, float]:
    n = whole_number("trials", trials)
    level = fraction("error", error, open_left=True, open_right=True)
    k = np.asarray(hits, dtype=np.float64)
    if not ((k >= 0) & (k <= n) & (k == np.floor(k))).all():
        raise InputError(f"hits must be whole numbers from 0 to {n}, got {hits!r}.")
    return k, float(n), level


def auc_lower(auc: float, members: int, non_members: int, error: float) -> float:
    """Bound P(X > Y) + ½P(X = Y) from below, from its Mann-Whitney estimate.

    Guarantee: P(result > AUC) ≤ ``error`` for any laws of X and Y.
    Theorem: proofs/audit-intervals.md claim 1: with n the smaller sample, the estimate deviates no
    more easily than the mean of n coins: P(Û ≥ u) ≤ exp(-n·kl(u, AUC)) for u ≥ AUC.
    Assumes: members' scores i.i.d. or drawn without replacement, non-members' scores i.i.d., the
    two independent.
    Numerics: the last double that the inequality excludes, from a divergence computed from below.
    Edge cases: an estimate of 0 gives 0.

    Examples:
        >>> round(auc_lower(0.9, 1000, 5000, 0.025), 4)
        0.8723
    """
    estimate = fraction("auc", auc)
    pairs = min(whole_number("members", members), whole_number("non_members", non_members))
    level = -math.log(fraction("error", error, open_left=True, open_right=True)) * (1 + _SLACK)

    def excluded(mean: float) -> bool:
        # Each logarithm is off by a few units, each product by its size: 8 units of 1 cover both.
        return pairs * (_divergence(estimate, mean) * (1 - _SLACK) - 16 * UNIT) >= level

    if estimate == 0:
        return 0.0
    return last_true(excluded, 0.0, estimate, _excluded_near(estimate, level / pairs))


def _excluded_near(p: float, level: float) -> float:
    """Return about the q < p with kl(p, q) = ``level``; 0 where there is no good guess.

    By Newton's method: from below, where Pinsker's inequality starts it, it comes nearer without
    overshooting, since kl is convex in q.
    """
    q = p - math.sqrt(level / 2)
    if q <= 0 or p >= 1:
        return math.exp(-level) if p >= 1 else 0.0
    for _ in range(20):
        step = (_divergence(p, q) - level) * q * (1 - q) / (p - q)
        q += step
        if abs(step) <= 1e-14 * q or not 0 < q < p:
            break
    return q


def auc_upper(auc: float, members: int, non_members: int, error: float) -> float:
    """Bound P(X > Y) + ½P(X = Y) from above; mirror of :func:`auc_lower`.

    Guarantee: P(result < AUC) ≤ ``error`` for any laws of X and Y.
    Theorem: proofs/audit-intervals.md claim 1.
    Assumes: as :func:`auc_lower`.
    Numerics: 1 - a lower bound for 1 - ``auc``, raised by one rounding.
    Edge cases: an estimate of 1 gives 1.

    Examples:
        >>> round(auc_upper(0.9, 1000, 5000, 0.025), 4)
        0.9238
    """
    low = auc_lower(1 - fraction("auc", auc), members, non_members, error)
    return min(1.0, math.nextafter(1 - low, 2.0) + 4 * UNIT)


def _divergence(p: float, q: float) -> float:
    """kl(p, q) between two coins."""
    if q in (0.0, 1.0):
        return 0.0 if p == q else math.inf
    first = p * math.log(p / q) if p > 0 else 0.0
    second = (1 - p) * (math.log1p(-p) - math.log1p(-q)) if p < 1 else 0.0
    return max(0.0, first + second)


def two_sample_deviation(members: int, non_members: int, error: float) -> float:
    """Return s: no threshold's TPR - FPR is over-estimated by more than s.

    Guarantee: with probability at least 1 - ``error``, at all thresholds at once, and so also at
    one chosen on the same scores.  The same s bounds under-estimates (a separate event).
    Theorem: proofs/audit-intervals.md claim 2: Massart's inequality for either sample, doubled for
    the members, who may be drawn without replacement, and the law of the sum of the two independent
    deviations instead of a union bound.
    Assumes: as :func:`auc_lower`.
    Numerics: cells of the one deviation count at their upper end; the search returns the safe end.
    Edge cases: can exceed 2, in which case it says nothing.

    Examples:
        >>> round(two_sample_deviation(1000, 1000, 0.025), 4)  # a union bound gives 0.0972
        0.0766
    """
    return _deviation(
        whole_number("members", members),
        whole_number("non_members", non_members),
        fraction("error", error, open_left=True, open_right=True),
    )


# The radius depends on the sizes only, and an audit of many attacks asks for the same again.
@lru_cache(maxsize=1024)
def _deviation(n1: int, n0: int, level: float) -> float:
    # The members' deviation is divided into cells of equal width, from the least value the
    # inequality speaks of to the point it passes with a thousandth of the error.
    floor = math.sqrt(math.log(2) / (2 * n1))
    top = math.sqrt(-math.log(level / 2000) / (2 * n1)) + floor
    ends = np.linspace(floor, top, _CELLS)
    beyond = np.minimum(2.0 * np.exp(-2.0 * n1 * np.square(ends)), 1.0)
    masses = np.concatenate(([1.0], beyond[:-1])) - beyond

    def reached(s: float) -> float:
        return float(masses @ _massart(s - ends, n0) + beyond[-1]) * (1 + 1e-9)

    both = top + math.sqrt(-math.log(level / 4) / (2 * n0)) + 1
    near = guessed_zero(lambda s: math.log(reached(s) / level), both, 0.0)
    return last_true(lambda s: reached(s) <= level, both, 0.0, near) * (1 + _SLACK)


def _massart(s: FloatArray, n: int) -> FloatArray:
    """Return the bound on P(sup(F̂ - F) > s) for n draws: exp(-2ns²) where that is at most ½."""
    tail = np.exp(-2.0 * n * np.square(np.maximum(s, 0.0)))
    return np.asarray(np.where(tail <= 0.5, tail, 1.0))


def rank_within(non_members: int, fpr: float, error: float) -> int:
    """Return k: "score above the k-th largest non-member" has false-positive rate ≤ ``fpr``.

    Guarantee: with probability at least 1 - ``error``.  0 if no rank can promise that.
    Theorem: proofs/audit-intervals.md claim 3: the rate is at most a Beta(k, n-k+1) variable, which
    exceeds α exactly if fewer than k of n coins of probability α come up.
    Numerics: tails granted 1e-11 of their size.

    Examples:
        >>> rank_within(10_000, 0.01, 0.0125), rank_within(400, 0.01, 0.0125)
        (78, 0)
    """
    n, alpha, level = _rank_inputs(non_members, fpr, error)
    # The last k with P(Bin(n, α) ≤ k-1) ≤ error, which switches once: at n + 1 at the latest.
    first = least_whole(lambda k: special.bdtr(k - 1, n, alpha) * (1 + _SLACK) > level, most=n + 1)
    return n if first is None else first - 1


def rank_beyond(non_members: int, fpr: float, error: float) -> int:
    """Return k: "score at least the k-th largest non-member" has false-positive rate > ``fpr``.

    Guarantee: with probability at least 1 - ``error``.  n + 1 if no rank can promise that.
    Theorem: proofs/audit-intervals.md claim 3.
    Numerics: tails granted 1e-11 of their size.

    Examples:
        >>> rank_beyond(10_000, 0.01, 0.0125), rank_beyond(5, 0.9, 0.0125)
        (124, 6)
    """
    n, alpha, level = _rank_inputs(non_members, fpr, error)
    return (
        least_whole(lambda k: special.bdtrc(k - 1, n, alpha) * (1 + _SLACK) <= level, most=n)
        or n + 1
    )


def non_members_needed(fpr: float, error: float) -> int:
    """Return the fewest non-members with which :func:`rank_within` promises anything.

    Examples:
        >>> [non_members_needed(a, 0.0125) for a in (0.1, 0.01, 0.001)]
        [42, 437, 4380]
    """
    _, alpha, level = _rank_inputs(1, fpr, error)
    return _fewest(alpha, level)


@lru_cache(maxsize=1024)
def _fewest(alpha: float, level: float) -> int:
    guess = max(1, math.floor(math.log(level) / math.log1p(-alpha)) - 1)
    while rank_within(guess, alpha, level) < 1:
        guess += 1
    return guess


def _rank_inputs(non_members: int, fpr: float, error: float) -> tuple[int, float, float]:
    n = whole_number("non_members", non_members)
    alpha = fraction("fpr", fpr, open_left=True, open_right=True)
    return n, alpha, fraction("error", error, open_left=True, open_right=True)
