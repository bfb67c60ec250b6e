"""Discrete laws with too many atoms or records for rationals, in doubles (about 12 digits)."""

from __future__ import annotations

import numpy as np
from scipy import stats


def worst_leak(p: np.ndarray, n: int) -> float:
    """Leak of the worst learner at gamma = 1: Σ p(1-p)·P(Bin(n-1, p) = ⌊np⌋) (A25-L31)."""
    return float((p * (1 - p) * stats.binom.pmf(np.floor(n * p), n - 1, p)).sum())
