"""Confidence bounds on the performance of a threshold attack (proofs/audit-intervals.md).

Every bound holds for any score distributions, ties included, at any sample size.  ``error`` bounds
the failure probability of the stated side.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from memberbound.numerics.roots import guessed_zero, last_true, least_whole
from memberbound.numerics.rounding import UNIT, FloatArray

#: Allowance for the relative error of scipy's incomplete beta functions and their inverses.
_SLACK = 1e-11
#: Grid size for one deviation in the convolution of two.
_CELLS = 4096


def clopper_pearson_lower(hits: ArrayLike, trials: int, error: float) -> FloatArray:
    """Return a lower confidence bound on a probability, given ``hits`` in ``trials``.

    Guarantee: P(result > p) ≤ ``error`` for every p.
    Theorem: Clopper and Pearson 1934: the p at which ``hits`` or more have probability ``error``;
    proofs/audit-intervals.md claim 3 for trials without replacement.
    Assumes: independent trials with one probability; or, for an error of at most ¼, draws without
    replacement from a finite population in which a share p are hits.
    Numerics: lowered by 1e-11 of its size, more than the error of the inverse beta function.
    Edge cases: no hits give 0.  One hit gives ``error``/``trials``, a little below Clopper and
    Pearson's value, which would not hold without replacement.

    Examples:
        >>> clopper_pearson_lower([0, 10], 10, 0.025).round(4).tolist()
        [0.0, 0.6915]
    """
    k, n = np.asarray(hits, dtype=np.float64), float(trials)
    several = k > 1
    a = np.where(several, k, 1.0)
    value = np.where(several, special.betaincinv(a, n - a + 1, error), error / n)
    return np.asarray(np.where(k > 0, value * (1 - _SLACK), 0.0))


def clopper_pearson_upper(hits: ArrayLike, trials: int, error: float) -> FloatArray:
    """Return an upper confidence bound on a probability: P(result < p) ≤ ``error``.

    All else is as for :func:`clopper_pearson_lower`.

        Edge cases: hits in every trial give 1; one miss gives 1 - ``error``/``trials``.

    Examples:
        >>> clopper_pearson_upper([0, 10], 10, 0.025).round(4).tolist()
        [0.3085, 1.0]
    """
    k, n = np.asarray(hits, dtype=np.float64), float(trials)
    several = n - k > 1
    b = np.where(several, n - k, 1.0)
    # The complemented inverse keeps relative accuracy for small probabilities.
    value = np.where(several, special.betainccinv(n - b + 1, b, error), 1 - error / n)
    return np.asarray(np.where(k < n, np.minimum(value * (1 + _SLACK), 1.0), 1.0))


def auc_lower(auc: float, members: int, non_members: int, error: float) -> float:
    """Return a lower confidence bound on AUC = P(X > Y) + ½P(X = Y), given its estimate.

    Guarantee: P(result > AUC) ≤ ``error`` for any distributions of X and Y.
    Theorem: proofs/audit-intervals.md claim 1: with n the smaller sample, the estimate deviates no
    more easily than the mean of n coin tosses: P(Û ≥ u) ≤ exp(-n·kl(u, AUC)) for u ≥ AUC.
    Assumes: members' scores i.i.d. or drawn without replacement, non-members' scores i.i.d., the
    two independent.
    Numerics: the last double excluded by the inequality, with the divergence rounded down.
    Edge cases: an estimate of 0 gives 0.

    Examples:
        >>> round(auc_lower(0.9, 1000, 5000, 0.025), 4)
        0.8723
    """
    pairs, level = min(members, non_members), -math.log(error) * (1 + _SLACK)

    def excess(mean: float) -> float:
        # Each logarithm errs by a few ulps, each product by its size: 8 ulps of 1 cover both.
        return level - pairs * (_divergence(auc, mean) * (1 - _SLACK) - 16 * UNIT)

    if auc == 0:
        return 0.0
    near = guessed_zero(excess, 0.0, auc)
    return last_true(lambda mean: excess(mean) <= 0, 0.0, auc, near)


def auc_upper(auc: float, members: int, non_members: int, error: float) -> float:
    """Return an upper confidence bound on the AUC: P(result < AUC) ≤ ``error``.

    Computed from :func:`auc_lower` at 1 - ``auc``, with the same guarantee and assumptions.

        Numerics: 1 - a lower bound for 1 - ``auc``, raised by one rounding.

    Examples:
        >>> round(auc_upper(0.9, 1000, 5000, 0.025), 4)
        0.9238
    """
    low = auc_lower(1 - auc, members, non_members, error)
    return min(1.0, 1 - low + 4 * UNIT)


def _divergence(p: float, q: float) -> float:
    """Return kl(p, q) between two Bernoulli distributions."""
    if q in (0.0, 1.0):
        return 0.0 if p == q else math.inf
    first = p * math.log(p / q) if p > 0 else 0.0
    second = (1 - p) * (math.log1p(-p) - math.log1p(-q)) if p < 1 else 0.0
    return max(0.0, first + second)


# The radius depends on the sample sizes only, so the attacks of an audit share it.
@lru_cache(maxsize=1024)
def two_sample_deviation(members: int, non_members: int, error: float) -> float:
    """Return s such that no threshold's TPR - FPR is over-estimated by more than s.

    Guarantee: with probability at least 1 - ``error``, this holds for all thresholds
    simultaneously, including one chosen on the same scores.  The same s bounds under-estimates (a
    separate event).
    Theorem: proofs/audit-intervals.md claim 2: Massart's inequality for each sample, doubled for
    the members, who may be drawn without replacement; instead of a union bound, the distribution of
    the sum of the two independent deviations is used.
    Assumes: as :func:`auc_lower`.
    Numerics: each cell of one deviation counts at its upper end; the search returns the safe end.
    Edge cases: can exceed 2, in which case the bound is vacuous.

    Examples:
        >>> round(two_sample_deviation(1000, 1000, 0.025), 4)  # a union bound gives 0.0972
        0.0766
    """
    # Divide the members' deviation into cells of equal width, from the least value covered by the
    # inequality to the point exceeded with a thousandth of the error.
    floor = math.sqrt(math.log(2) / (2 * members))
    top = math.sqrt(-math.log(error / 2000) / (2 * members)) + floor
    ends = np.linspace(floor, top, _CELLS)
    beyond = np.minimum(2.0 * np.exp(-2.0 * members * np.square(ends)), 1.0)
    masses = np.concatenate(([1.0], beyond[:-1])) - beyond

    def tail_bound(s: float) -> float:
        return float(masses @ _massart(s - ends, non_members) + beyond[-1]) * (1 + 1e-9)

    # The bound holds at this start: the 1 makes the first term less than a seventh of the error.
    both = top + math.sqrt(-math.log(error) / (2 * non_members)) + 1
    near = guessed_zero(lambda s: math.log(tail_bound(s) / error), both, 0.0)
    return last_true(lambda s: tail_bound(s) <= error, both, 0.0, near)


def _massart(s: FloatArray, n: int) -> FloatArray:
    """Return the bound on P(sup(F̂ - F) > s) for n draws: exp(-2ns²) where that is at most ½."""
    tail = np.exp(-2.0 * n * np.square(np.maximum(s, 0.0)))
    return np.asarray(np.where(tail <= 0.5, tail, 1.0))


def rank_within(non_members: int, fpr: float, error: float) -> int:
    """Return k such that "score above the k-th largest non-member" has an FPR ≤ ``fpr``.

    Guarantee: holds with probability at least 1 - ``error``.  The result is 0 if no rank can
        guarantee it.
    Theorem: proofs/audit-intervals.md claim 3: the rate is at most a Beta(k, n-k+1) variable, which
    exceeds α exactly if fewer than k of n coins with bias α land heads.
    Numerics: tails are raised by 1e-11 of their size.

    Examples:
        >>> rank_within(10_000, 0.01, 0.0125), rank_within(400, 0.01, 0.0125)
        (78, 0)
    """
    n = non_members
    # The last k with P(Bin(n, α) ≤ k-1) ≤ error; the condition switches once, by n + 1 at the
    # latest.
    first = least_whole(lambda k: special.bdtr(k - 1, n, fpr) * (1 + _SLACK) > error, most=n + 1)
    return n if first is None else first - 1


def rank_beyond(non_members: int, fpr: float, error: float) -> int:
    """Return k: "score at least the k-th largest non-member" has false-positive rate > ``fpr``.

    Guarantee: holds with probability at least 1 - ``error``.  The result is n + 1 if no rank can
        guarantee it.
    Theorem, Numerics: as :func:`rank_within`.

    Examples:
        >>> rank_beyond(10_000, 0.01, 0.0125), rank_beyond(5, 0.9, 0.0125)
        (124, 6)
    """
    n = non_members
    first = least_whole(lambda k: special.bdtrc(k - 1, n, fpr) * (1 + _SLACK) <= error, most=n)
    return n + 1 if first is None else first


@lru_cache(maxsize=1024)
def non_members_needed(fpr: float, error: float) -> int:
    """Return the minimum number of non-members for which :func:`rank_within` is positive.

    Examples:
        >>> [non_members_needed(a, 0.0125) for a in (0.1, 0.01, 0.001)]
        [42, 437, 4380]
    """
    return least_whole(lambda n: rank_within(n, fpr, error) > 0) or 0
