"""The smallest certified number of rows for a target (X7, X17).

The worst leak Δ_n and every record's leak fall with n (the empirical law is a reverse martingale
and both are means of convex functions of it), so bisection on whole numbers finds the smallest n,
and the returned n is evaluated and meets the target.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import fraction
from memberbound.iid.certificates import certify_counts, leak_beyond_the_table
from memberbound.iid.profiles import CountProfile
from memberbound.iid.record_leak import cell_probability_lower, record_leak_upper
from memberbound.iid.worst_case import checked_law, leak_of_law, leak_of_uniform
from memberbound.numerics.roots import least_whole
from memberbound.numerics.rounding import shared_confidence

#: Maximum number of rows of a plan; beyond it a target is reported as not reachable.
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
    cap e^{-λ}λ^{⌊λ⌋}/⌊λ⌋! replaces the exact binomial term.
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
    """Return an n certified from a table with unknown law, or ``None`` if there is none.

    Guarantee: with probability ≥ ``confidence`` over the table, training on n rows of its law
    meets the target(s) for every learner; two targets share the error probability.  The record
    leak covers every record *with a value that occurs in the table*, but not records with new
    values.
    Theorem: X5 for n ≤ N, X16 beyond, X7 with X15 for records.  The n is chosen from the data and
    is still valid: sizes are tested in a fixed order, from large to small, until the first failure,
    and Δ_n does not increase with n, so an error can occur at a single size that the law
    determines.
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
    """Test sizes from large to small; return the last one before the first failure."""
    rows = profile.rows
    # A size beyond N passes by X16 or because Δ_n ≤ Δ_N: two tests, with half of β each.
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
