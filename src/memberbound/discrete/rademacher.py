"""Symmetrised counts: the Rademacher form of the certificate (X5).

With S_c a walk of c fair ±1 steps, N·Δ_N ≤ E Σ_k E|S_{c_k}| (``proofs/rademacher.md``).  It needs
no inequality for the Poisson law, and costs a factor of up to two.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from memberbound.discrete.concentration import bounded_differences_upper
from memberbound.discrete.count_functions import CountFunction, totals_upper
from memberbound.discrete.counts import CountProfile
from memberbound.numerics.rounding import FloatArray, up, up_array

__all__ = ["rademacher_leak_upper", "walk_function", "walk_length"]

_TABULATED = 1000


@cache
def _central() -> FloatArray:
    """C(2m, m)/4^m for m = 0 … 1000."""
    m = np.arange(1, _TABULATED + 1, dtype=np.float64)
    return np.concatenate([[1.0], np.cumprod((2 * m - 1) / (2 * m))])


def walk_length(count: NDArray[np.int64]) -> FloatArray:
    """Return E|S_c| from above: c·C(2m,m)/4^m with m = ⌊c/2⌋.

    Numerics: exact to rounding up to c = 2000, above by C(2m,m)/4^m ≤ 1/√(π(m + ¼)), which is
    within 2e-8 of it.

    Examples:
        >>> walk_length(np.array([0, 1, 2, 3, 4])).round(6).tolist()
        [0.0, 1.0, 1.0, 1.5, 1.5]
    """
    m = count // 2
    central = np.where(
        m <= _TABULATED,
        _central()[np.minimum(m, _TABULATED)],
        1 / np.sqrt(math.pi * (m + 0.25)),
    )
    return up_array(np.asarray(count * central, dtype=np.float64), 4 * _TABULATED)


def walk_function() -> CountFunction:
    """Return c ↦ E|S_c| as a count function; E|S_c| ≤ √(2(c+1)/π), which is concave."""
    return CountFunction("walk", 0.0, walk_length, lambda x: math.sqrt(2 * (x + 1) / math.pi))


def rademacher_leak_upper(profile: CountProfile, beta: float) -> float:
    """Return F/N + √(L/(2N)) with F = Σ_k E|S_{c_k}| and L = ln(1/β), at most 1.

    Guarantee: at or above Δ_N, for every law and every learner, with probability ≥ 1-β.
    Theorem: X5, ``proofs/rademacher.md``.
    Assumes: the N rows are i.i.d.
    Numerics: rounded up.

    Examples:
        >>> round(rademacher_leak_upper(CountProfile.from_counts([500] * 20), 0.05), 4)
        0.0479
    """
    total = totals_upper([walk_function()], profile)[0]
    rows = profile.rows
    return min(1.0, up(bounded_differences_upper(total, rows, rows, beta) / rows))
