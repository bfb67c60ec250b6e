"""From the mean of a statistic to the statistic: three ways to pay for the randomness (X5).

All of them bound n times a leak, given a total F with n·Δ_n ≤ E F (or its exponential form), with
probability at least 1-β over the rows, L = ln(1/β).  Proofs: ``proofs/count-functions.md`` and
``proofs/thinning.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from memberbound.errors import InputError, fraction, nonnegative
from memberbound.numerics.roots import last_true
from memberbound.numerics.rounding import up

__all__ = [
    "bounded_differences_upper",
    "log_confidence",
    "mixture_upper",
    "self_bounding_upper",
]


def log_confidence(beta: float) -> float:
    """Return L = ln(1/β) from above."""
    return up(-math.log(fraction("beta", beta, open_left=True, open_right=True)), 8)


def self_bounding_upper(total: float, beta: float, share: float = 1.0) -> float:
    """Return (√(F + L'/2) + √(L'/2))² with L' = L·share: solve F ≥ EF - √(2·L'·EF) for EF.

    Theorem: X5; F/share is self-bounding, so P(F ≤ EF - t) ≤ exp(-t²/(2·share·EF)) (Boucheron,
    Lugosi and Massart).  ``share`` is n/N when F is a thinned total, else 1.
    Numerics: rounded up.
    Edge cases: F = 0 gives 2L', what an empty table cannot rule out.

    Examples:
        >>> round(self_bounding_upper(100.0, 0.05), 3)
        127.656
    """
    half = log_confidence(beta) * fraction("share", share, open_left=True) / 2
    root = math.sqrt(nonnegative("total", total) + half) + math.sqrt(half)
    return up(root * root, 16)


def bounded_differences_upper(total: float, n: int, rows: int, beta: float) -> float:
    """Return F + n·√(L/(2N)): replacing one of N rows moves F by at most n/N (McDiarmid).

    Theorem: X5.
    Numerics: rounded up.

    Examples:
        >>> round(bounded_differences_upper(100.0, 800, 800, 0.05), 3)
        134.616
    """
    width = n * math.sqrt(log_confidence(beta) / (2 * rows))
    return up(nonnegative("total", total) + width, 16)


def mixture_upper(
    totals: Sequence[float],
    exponents: Sequence[float],
    weights: Sequence[float],
    beta: float,
) -> float:
    """Return the largest x with Σ_j w_j exp(s_j(x - F_j)) ≤ 1/β.

    Theorem: X5, exponential form.  If E exp(-s_j F_j) ≤ exp(-s_j x*) for every j, the sum at x* has
    mean at most Σ w_j = 1, so by Markov's inequality it exceeds 1/β with probability at most β.
    No j is chosen by looking at the data; the bound is nevertheless within ln(1/w_j)/s_j of the
    one that the best j would give.
    Numerics: the returned x was seen to violate the inequality, so it is not below the largest.

    Examples:
        >>> round(mixture_upper([10.0], [0.5], [1.0], 0.05), 4)  # 10 + ln(20)/0.5
        15.9915
    """
    if not len(totals) == len(exponents) == len(weights) or not totals:
        raise InputError("a mixture must have one total and one weight per exponent.")
    if min(exponents) <= 0 or min(weights) <= 0 or not math.fsum(weights) <= 1 + 1e-12:
        raise InputError("a mixture must have positive exponents, and weights that add up to 1.")
    target = log_confidence(beta) + 1e-12
    parts = [(s, float(f), math.log(w)) for f, s, w in zip(totals, exponents, weights, strict=True)]

    def reached(x: float) -> bool:
        terms = [w + s * (x - f) for s, f, w in parts]
        top = max(terms)
        value = top + math.log(math.fsum(math.exp(t - top) for t in terms))
        # s(x - F) is rounded in proportion to sF: ask for a little more than the target.
        return value >= target + 1e-13 + 4e-16 * max(s * (abs(x) + f) for s, f, _ in parts)

    start = min(f + (target - w) / s for s, f, w in parts)
    start += 1e-9 * (1 + abs(start))
    return up(last_true(reached, start, 0.0))
