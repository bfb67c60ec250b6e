"""How many rows are enough: for a law, for its records, for a table and beyond (X16, X17)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import InputError, fraction, whole_number
from memberbound.iid.certificates import certify_counts
from memberbound.iid.profiles import CountProfile
from memberbound.iid.record_leak import cell_probability_lower, record_leak_upper
from memberbound.iid.worst_case import checked_law, leak_of_law, leak_of_uniform
from memberbound.numerics.roots import least_whole
from memberbound.numerics.rounding import shared_confidence, sum_slack, up

__all__ = [
    "MAX_PLAN",
    "leak_beyond_the_table",
    "smallest_certifiable_leak",
    "smallest_n_for_law",
    "smallest_n_for_records",
    "smallest_n_for_table",
    "smallest_n_for_uniform",
]

# ── How many rows are enough: the smallest n for a target, certified rather than asymptotic ───────
#
# The worst leak Δ_n and every record's leak fall with n (the empirical law is a reverse martingale
# and both are means of convex functions of it), so the smallest n is found by bisection on whole
# numbers, and the returned n was evaluated and meets the target.

#: Plans beyond this many rows are answered with "not reachable".
MAX_PLAN = 10**12
#: Ratio of the sizes tested below the table's own.
_LADDER = 0.97


def _allowed_leak(security: float) -> float:
    return 1.0 - fraction("security", security, open_left=True, open_right=True)


def smallest_n_for_law(
    security: float, probabilities: ArrayLike, nu: float = 0.5, lam: float = 1.0
) -> int | None:
    """Return the smallest n with MIS ≥ ``security`` for every learner on a known law (A25-T14).

    Examples:
        >>> smallest_n_for_law(0.95, [0.5, 0.5])
        64
    """
    allowed = _allowed_leak(security)
    law, weights, _ = checked_law(probabilities, None)
    values, index = np.unique(law, return_inverse=True)
    counted = np.bincount(index, weights=weights if weights is not None else None)
    return least_whole(lambda n: leak_of_law(values, n, nu, lam, counted) <= allowed, most=MAX_PLAN)


def smallest_n_for_uniform(
    security: float, atoms: int, nu: float = 0.5, lam: float = 1.0
) -> int | None:
    """Return the smallest n with MIS ≥ ``security`` on K equally likely atoms.

    Examples:
        >>> smallest_n_for_uniform(0.9, 316)
        5005
    """
    allowed = _allowed_leak(security)
    return least_whole(lambda n: leak_of_uniform(atoms, n, nu, lam) <= allowed, most=MAX_PLAN)


def smallest_n_for_records(leak: float, smallest_probability: float) -> int | None:
    """Return an n at which every record of a cell at least this likely leaks at most ``leak``.

    Theorem: X7.  Sufficient for every learner; not always the very smallest such n, because the
    cap e^{-λ}λ^{⌊λ⌋}/⌊λ⌋! stands for the exact binomial term.
    """
    allowed = fraction("record leak", leak, open_left=True, open_right=True)
    p = fraction("smallest_probability", smallest_probability)
    if p == 0.0:
        return None
    return least_whole(
        lambda n: float(record_leak_upper(n * p * (1 - 1e-12))) <= allowed, most=MAX_PLAN
    )


def smallest_n_for_table(
    profile: CountProfile,
    security: float | None = None,
    record_leak: float | None = None,
    confidence: float = 0.95,
) -> int | None:
    """Return an n certified from a table whose law is unknown; ``None`` if no n can be.

    Guarantee: with probability ≥ ``confidence`` over the table, training on n rows of its law
    meets the target(s) for every learner; two targets share the error probability.  The record
    leak is that of every record *whose value occurs in the table*: new rows may bring values that
    the table has never seen, and about those it proves nothing.
    Theorem: X5 for n ≤ N, X16 beyond, X7 with X15 for records.  The n is chosen from the data and
    still valid: sizes are tested in a fixed order, from large to small, up to the first that
    fails, and Δ_n does not rise with n, so an error means failing at one size fixed by the law.
    Numerics: within 3 % of the smallest n that the certificates allow.
    Edge cases: cells seen once rule out any record-leak target; no more than about K/N of leak can
    be certified away, whatever n.
    """
    both = security is not None and record_leak is not None
    level = fraction("confidence", confidence, open_left=True, open_right=True)
    level = shared_confidence(level, 1 + both)
    answers: list[int | None] = []
    if security is not None:
        answers.append(_certified_size(profile, _allowed_leak(security), level))
    if record_leak is not None:
        rarest = cell_probability_lower(profile.rows, int(profile.count[0]), level)
        answers.append(smallest_n_for_records(record_leak, rarest))
    if not answers or any(n is None for n in answers):
        return None
    return max(n for n in answers if n is not None)


def _certified_size(profile: CountProfile, allowed: float, confidence: float) -> int | None:
    """Test sizes from large to small; the last that passes before the first failure."""
    rows = profile.rows
    # A size beyond N passes by X16 or because Δ_n ≤ Δ_N: two looks, half of β each.
    half = shared_confidence(confidence, 2)
    if certify_counts(profile, rows, half).delta_upper > allowed:
        return least_whole(
            lambda n: n > rows and leak_beyond_the_table(profile, n, half) <= allowed, most=MAX_PLAN
        )
    size = rows
    while size > 1:
        smaller = min(size - 1, math.floor(size * _LADDER))
        if certify_counts(profile, smaller, confidence).delta_upper > allowed:
            break
        size = smaller
    return size


# ── More training rows than the table has: a certificate for Δ_n with n ≥ N (X16) ─────────────────
#
# With a = ½√(N/n) the function h(c) = (1-a)·1{c ≥ 1} + a·√c is concave with h(0) = 0 and h(1) = 1,
# and Σ_k h(c_k) has mean at least N·Δ_n for *every* law (``proofs/extrapolation.md``).  It is
# self-bounding, so the usual concentration applies.  As n grows it tends to the number of distinct
# cells K: no number of rows is certified to bring Δ_n below about K/N.


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
