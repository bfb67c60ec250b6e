"""More training rows than the table has: a certificate for Δ_n with n ≥ N (X16).

With a = ½√(N/n) the function h(c) = (1-a)·1{c ≥ 1} + a·√c is concave with h(0) = 0 and h(1) = 1,
and Σ_k h(c_k) has mean at least N·Δ_n for *every* law (``proofs/extrapolation.md``).  It is
self-bounding, so the usual concentration applies.  As n grows it tends to the number of distinct
cells K: no number of rows is certified to bring Δ_n below about K/N.
"""

from __future__ import annotations

import math

import numpy as np

from memberbound.discrete.counts import CountProfile
from memberbound.errors import InputError, fraction, whole_number
from memberbound.numerics.rounding import sum_slack, up

__all__ = ["leak_beyond_the_table", "smallest_certifiable_leak"]


def leak_beyond_the_table(profile: CountProfile, n: int, confidence: float = 0.95) -> float:
    """Return an upper bound on Δ_n for training on n ≥ N rows of the table's law.

    Guarantee: holds with probability ≥ ``confidence`` over the N i.i.d. rows, for every law.
    Theorem: X16; self-bounding concentration as in X5(c).
    Numerics: rounded up.

    Examples:
        >>> profile = CountProfile.from_counts([500] * 20)
        >>> round(leak_beyond_the_table(profile, 10_000), 3)
        0.027
        >>> round(leak_beyond_the_table(profile, 10_000_000), 3)
        0.004
    """
    size = whole_number("n", n)
    if size < profile.rows:
        raise InputError(f"n must be at least the table's {profile.rows} rows, got {n!r}.")
    share = 0.5 * math.sqrt(profile.rows / size)
    terms = (1 - share) + share * np.sqrt(profile.count.astype(np.float64))
    total = float(terms @ profile.cells.astype(np.float64))
    return _concentrated(total * (1 + sum_slack(terms.size)), profile.rows, confidence)


def smallest_certifiable_leak(profile: CountProfile, confidence: float = 0.95) -> float:
    """Return what :func:`leak_beyond_the_table` tends to as n grows without end."""
    return _concentrated(float(profile.atoms), profile.rows, confidence)


def _concentrated(total: float, rows: int, confidence: float) -> float:
    """(√(F + L/2) + √(L/2))²/N with L = ln(1/β), at most 1."""
    level = fraction("confidence", confidence, open_left=True, open_right=True)
    half = -math.log(1 - level) / 2
    return min(1.0, up((math.sqrt(total + half) + math.sqrt(half)) ** 2 / rows, 64))
