"""The leak of any learner about a record of a cell, and its certificate from a table (X7).

In the i.i.d. game, given that the tested record lies in a cell of probability p, the in-world tilts
the law of the whole training set by B/(np), where B ~ Bin(n, p) counts the members of the cell.
So *no* learner leaks more about it than

    TV = ½E|B/(np) - 1| = (1-p)·P(Bin(n-1, p) = ⌊np⌋).

With λ = np this is at most e^{-λ}λ^{⌊λ⌋}/⌊λ⌋!, which falls in λ and is below 0.4/√k once λ ≥ k for
a whole number k, so the rule "every cell expects k members" has a proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import fraction, nonnegative, whole_number
from memberbound.iid.profiles import CountProfile
from memberbound.numerics.roots import last_true
from memberbound.numerics.rounding import FloatArray, up_array

#: Ratio of consecutive counts with a computed lower bound; counts in between use the lower one.
_LADDER = 1.05
#: Counts beyond which the factorial is bounded instead of evaluated.
_ROBBINS = 128.0
#: Relative slack for the incomplete beta function; its error is far smaller.
_TAIL_SLACK = 1e-9


def record_leak_upper(expected: FloatArray | float) -> FloatArray:
    """Return the cap e^{-λ}λ^{⌊λ⌋}/⌊λ⌋! on a record's leak, if its cell expects λ members.

    Guarantee: at or above the leak of every learner, for every n and p with np ≥ λ.
    Theorem: X7 (``proofs/record-leak.md``).
    Numerics: rounded up.
    Edge cases: λ < 1 gives e^{-λ}, λ = 0 gives 1.

    Examples:
        >>> record_leak_upper([1.0, 5.0, 100.0]).round(3).tolist()
        [0.368, 0.175, 0.04]
    """
    from scipy import special

    lam = np.asarray(expected, dtype=np.float64)
    floor = np.floor(lam)
    with np.errstate(divide="ignore", invalid="ignore"):
        # ln of λ^m e^{-λ}/m! as -(λ - m - m·ln(λ/m)) - ln(m! e^m/m^m): no large terms cancel.
        gap, divisor = lam - floor, np.maximum(floor, 1.0)
        deviance = gap - floor * np.log1p(gap / divisor)
        stirling = special.gammaln(floor + 1) - floor * np.log(divisor) + floor
        # Large terms would cancel here; Robbins' lower bound ½ln(2πm) + 1/(12m+1) is safe and
        # accurate.
        large = 0.5 * np.log(2 * np.pi * divisor) + 1 / (12 * floor + 1)
        stirling = np.where(floor > _ROBBINS, large, stirling)
    value = np.exp(-np.maximum(deviance, 0.0) - stirling)
    return np.minimum(up_array(np.asarray(value, dtype=np.float64), 1 << 14), 1.0)


def cell_probability_lower(rows: int, count: int, confidence: float = 0.95) -> float:
    """Return a lower bound on the probability of a cell with ``count`` of ``rows``, for all cells.

    Guarantee: with probability ≥ ``confidence`` over N i.i.d. rows, every cell k of the (unknown,
    possibly infinite) law satisfies p_k ≥ the bound for its own count.
    Theorem: X15 (``proofs/record-leak.md``): for p ≤ p₀ ≤ (c-1)/N the tail P(Bin(N,p) ≥ c) is at
    most (p/p₀)·P(Bin(N,p₀) ≥ c), and the cells' probabilities add up to at most one.
    Edge cases: a count of 1 proves nothing and gives 0.
    """
    total = whole_number("rows", rows)
    seen = min(whole_number("count", count, at_least=0), total)
    level = fraction("confidence", confidence, open_left=True, open_right=True)
    steps = _ladder(total)
    index = int(np.searchsorted(steps, seen, side="right")) - 1
    if index < 0:
        return 0.0
    return _solved(total, int(steps[index]), (1 - level) / steps.size)


def _ladder(rows: int) -> NDArray[np.int64]:
    """Return the counts, which depend on N only, that share the error probability equally."""
    steps = [2]
    while steps[-1] < rows:
        steps.append(min(rows, max(steps[-1] + 1, math.floor(steps[-1] * _LADDER))))
    return np.array([s for s in steps if s <= rows] or [2], dtype=np.int64)


def _solved(rows: int, count: int, beta: float) -> float:
    """Return the largest p ≤ (c-1)/N with P(Bin(N, p) ≥ c)/p ≤ β."""
    from scipy import special

    def holds(p: float) -> bool:
        if p == 0.0:
            return True
        tail = float(special.betainc(count, rows - count + 1, p)) if count <= rows else 0.0
        return tail * (1 + _TAIL_SLACK) <= beta * p

    top = (count - 1) / rows
    if holds(top):
        return top
    return last_true(holds, 0.0, top)


@dataclass(frozen=True, eq=False)
class RecordLeaks:
    """Certified leaks of the records of a table, one value per count of the profile.

    ``leak[i]`` bounds, for every learner trained on ``n`` such rows, the advantage of guessing
    membership of a record that lies in a cell with ``profile.count[i]`` of the table's rows; all
    values hold together with probability ``confidence``.
    """

    profile: CountProfile
    n: int
    confidence: float
    probability_lower: FloatArray
    leak: FloatArray

    @cached_property
    def _rows_by_leak(self) -> tuple[FloatArray, NDArray[np.int64]]:
        order = np.argsort(self.leak, kind="stable")
        return self.leak[order], (self.profile.count * self.profile.cells)[order]

    def quantile(self, share: float) -> float:
        """Return the smallest leak that at least ``share`` of the rows do not exceed."""
        values, rows = self._rows_by_leak
        reached = np.searchsorted(np.cumsum(rows), share * self.profile.rows, side="left")
        return float(values[min(int(reached), values.size - 1)])

    @property
    def median(self) -> float:
        """The leak that half of the rows do not exceed."""
        return self.quantile(0.5)

    @property
    def p99(self) -> float:
        """The leak that 99 % of the rows do not exceed."""
        return self.quantile(0.99)

    @property
    def max(self) -> float:
        """The largest leak of any row of the table."""
        return float(self.leak.max())

    def exposed_rows(self, above: float = 0.5) -> int:
        """Return the number of rows that are not certified to leak at most ``above``."""
        limit = nonnegative("above", above)
        return int((self.profile.count * self.profile.cells)[self.leak > limit].sum())


def record_leaks(
    profile: CountProfile, n: int | None = None, confidence: float = 0.95
) -> RecordLeaks:
    """Certify the leak of every record of a table, for any learner trained on ``n`` such rows.

    Guarantee: see :class:`RecordLeaks`; valid for rows drawn i.i.d. from an unknown law.
    Theorem: X7 with X15.
    Assumes: i.i.d. rows; the training rows come from the same law (they may be the table itself).
    Edge cases: a row that occurs once has leak 1, because nothing can be proved about it.

    Examples:
        >>> leaks = record_leaks(CountProfile.from_counts([5000, 400, 1]))
        >>> leaks.leak.round(2).tolist(), leaks.exposed_rows()
        ([1.0, 0.02, 0.01], 1)
    """
    size = profile.rows if n is None else whole_number("n", n)
    lower = np.array(
        [cell_probability_lower(profile.rows, int(c), confidence) for c in profile.count]
    )
    # Rounding of n·p downward keeps the cap above.
    leak = record_leak_upper(size * lower * (1 - 1e-12))
    return RecordLeaks(profile, size, confidence, lower, leak)
