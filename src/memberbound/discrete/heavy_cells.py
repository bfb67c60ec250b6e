"""What the Poisson comparison gives away on heavy cells, won back (X5).

The count functions bound Σ_k g(np_k), g(λ) = ½E|Poi(λ) - λ|, while n·Δ_n = Σ_k t(p_k) with
t(p) = ½E|Bin(n,p) - np|.  The difference D(p) = g(np) - t(p) is non-negative and grows with p, so a
lower confidence bound on the few large p_k is a lower bound on what may be subtracted.  Proof:
``proofs/heavy-cells.md``.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from memberbound.discrete.count_functions import poisson_deviation_lower
from memberbound.discrete.counts import CountProfile
from memberbound.numerics.binomial import half_deviation_upper
from memberbound.numerics.roots import last_true

__all__ = ["heavy_discount_lower", "heavy_probability_lower"]

#: Atoms below this probability are left alone: they lose at most 1/128 by the comparison.
THRESHOLD = 1 / 64
#: Relative slack for the incomplete beta function, whose error is far smaller.
_TAIL_SLACK = 1e-9


def _tail(rows: int, count: int, p: float) -> float:
    """P(Bin(N, p) ≥ c) from above."""
    return float(special.betainc(count, rows - count + 1, p)) * (1 + _TAIL_SLACK)


def _cut(rows: int, alpha: float) -> int:
    """Smallest c ≥ 1 + (N-1)θ with P(Bin(N, θ) ≥ c) ≤ α, or N + 1 if there is none."""
    low, high = math.ceil(1 + (rows - 1) * THRESHOLD), rows + 1
    while low < high:
        middle = (low + high) // 2
        if _tail(rows, middle, THRESHOLD) <= alpha:
            high = middle
        else:
            low = middle + 1
    return low


def heavy_probability_lower(rows: int, counts: list[int], beta: float) -> list[float]:
    """Return a lower bound on the probability of each cell with one of these counts.

    Guarantee: with probability ≥ 1-β over N i.i.d. rows, every cell of the law (known or not, of
    any number) has at least the probability given for its count.
    Theorem: one-sided Clopper-Pearson bounds at α = βθ, θ = 1/64 (``proofs/heavy-cells.md``).
    Edge cases: a count not clearly above θN gives 0.

    Examples:
        >>> [round(p, 3) for p in heavy_probability_lower(1000, [500, 20], 0.05)]
        [0.45, 0.0]
    """
    alpha = beta * THRESHOLD
    cut = _cut(rows, alpha)
    found = []
    for count in counts:
        if count < cut:
            found.append(0.0)
            continue

        def safe(p: float, count: int = count) -> bool:
            return _tail(rows, count, p) <= alpha

        found.append(last_true(safe, 0.0, count / rows))
    return found


def heavy_discount_lower(profile: CountProfile, n: int, beta: float) -> float:
    """Return a lower bound on Σ_k [g(np_k) - t(p_k)], at least 0.

    Guarantee: holds with probability ≥ 1-β over the N i.i.d. rows.
    Theorem: X5, ``proofs/heavy-cells.md``.
    Numerics: rounded down.

    Examples:
        >>> round(heavy_discount_lower(CountProfile.from_counts([5000, 5000]), 10_000, 0.01), 1)
        15.5
    """
    heavy = profile.count > profile.rows * THRESHOLD
    p = np.array(heavy_probability_lower(profile.rows, profile.count[heavy].tolist(), beta))
    cells = profile.cells[heavy][p > 0]
    p = p[p > 0]
    if p.size == 0:
        return 0.0
    binomial = n * half_deviation_upper(n, p) * (1 + 1e-15)
    # n·p is rounded: g grows with it, so go down by more than the rounding.
    poisson = np.array([poisson_deviation_lower(n * q * (1 - 1e-15)) for q in p.tolist()])
    return float(np.maximum(poisson - binomial, 0.0) @ cells) * (1 - 1e-12)
