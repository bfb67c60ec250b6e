"""Bounds on the leak from counts of cells: count functions, walks, heavy cells (X5)."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray
from scipy import special

from memberbound.errors import InputError, whole_number
from memberbound.iid.profiles import CountProfile
from memberbound.numerics.binomial import half_deviation_upper
from memberbound.numerics.roots import last_true, least_whole
from memberbound.numerics.rounding import FloatArray, sum_slack, up_array
from memberbound.quantities import significant

# ── Concave count functions, which bound the worst leak for every law (X5) ────────────────────────
#
# A count function h gives each cell with c rows the value h(c); the sum F over the cells estimates
# n·Δ_n from above.  With g(λ) = ½E|Poi(λ) - λ|, the functions here satisfy for *every* λ > 0
#
#     E h(Poi(λ)) ≥ g(λ)             (exponent s = 0), or
#     E e^{-s·h(Poi(λ))} ≤ e^{-s·g(λ)}   (exponent s > 0),
#
# and are concave, so that the same holds for Bin(n, λ/n) and hence g(np) ≥ ½E|Bin(n,p) - np|.  The
# proofs are in ``proofs/count-functions.md``; ``scripts/make_count_function.py`` computes the table
# and verifies it for all λ.

KAPPA = 1 / math.sqrt(2 * math.pi)
#: The tail κ√(c + a) + b of the tabulated functions, b = _OFFSET·s (proof, claim 6).
_SHIFT, _OFFSET = 0.5, 0.0203
#: Above this mean a thinned value is bounded by Jensen's inequality, which costs 1/40 000 of it.
_WIDE = 5000.0
#: Roundings of one thinned value: at most a few thousand additions of logarithms.
_THINNING = 1_000_000


@dataclass(frozen=True)
class CountFunction:
    """A function of a cell's count, with h(0) = 0.

    ``at`` returns upper bounds on h at whole numbers.  ``above`` is a concave function of a real
    number, used for Jensen's inequality at means beyond 5000; it is at least h except at counts
    without weight there (``proofs/thinning.md``).  ``exponent`` is s.
    """

    name: str
    exponent: float
    at: Callable[[NDArray[np.int64]], FloatArray]
    above: Callable[[float], float]


def closed_count_function() -> CountFunction:
    """Return h(c) = (1-κ)·1{c ≥ 1} + κ√c with κ = 1/√(2π).

    Examples:
        >>> closed_count_function().at(np.array([0, 1, 4])).round(4).tolist()
        [0.0, 1.0, 1.3989]
    """

    def at(count: NDArray[np.int64]) -> FloatArray:
        values = (1 - KAPPA) + KAPPA * np.sqrt(count.astype(np.float64))
        return np.where(count > 0, up_array(values), 0.0)

    return CountFunction("closed", 0.0, at, lambda x: (1 - KAPPA) + KAPPA * math.sqrt(x))


def _tabulated(exponent: float, table: FloatArray) -> CountFunction:
    offset = _OFFSET * exponent

    def at(count: NDArray[np.int64]) -> FloatArray:
        inside = table[np.minimum(count, table.size - 1)]
        beyond = KAPPA * np.sqrt(count + _SHIFT) + offset
        return up_array(np.where(count < table.size, inside, beyond))

    return CountFunction(
        f"tabulated, s={significant(exponent, 'given')}",
        exponent,
        at,
        lambda x: KAPPA * math.sqrt(x + _SHIFT) + offset,
    )


@cache
def tabulated_count_functions() -> tuple[CountFunction, ...]:
    """Return the functions of the linear program: s = 0 first, then falling exponents.

    Numerics: the file holds whole multiples of 1e-9, for which the inequalities were verified.

    Examples:
        >>> [f.exponent for f in tabulated_count_functions()]
        [0.0, 0.8, 0.5, 0.25, 0.12, 0.06, 0.03]
    """
    text = resources.files("memberbound.iid").joinpath("poisson_table.csv").read_text("utf-8")
    rows = list(csv.reader(line for line in text.splitlines() if not line.startswith("#")))
    exponents = [float(name.removeprefix("s=")) for name in rows[0][1:]]
    columns = np.array([[0.0] * len(exponents)] + [[float(x) for x in row[1:]] for row in rows[1:]])
    columns.setflags(write=False)
    return tuple(_tabulated(s, columns[:, j]) for j, s in enumerate(exponents))


def poisson_deviation_lower(mean: float) -> float:
    """Return g(λ) = ½E|Poi(λ) - λ| = e^{-λ}λ^{⌊λ⌋+1}/⌊λ⌋! from below.

    Numerics: relative loss below 1e-9; above 1000 by Stirling's upper bound for ⌊λ⌋!.

    Examples:
        >>> round(poisson_deviation_lower(1.0), 6)  # e^-1
        0.367879
    """
    if mean == 0.0:
        return 0.0
    floor = math.floor(mean)
    if mean < 1000:
        return math.exp((floor + 1) * math.log(mean) - mean - math.lgamma(floor + 1)) * (1 - 1e-10)
    gap = mean - floor
    deviance = gap - floor * math.log1p(gap / floor)
    scale = mean / math.sqrt(2 * math.pi * floor)
    return scale * math.exp(-max(deviance, 0.0) - 1 / (12 * floor)) * (1 - 1e-10)


def totals_upper(
    functions: Sequence[CountFunction], profile: CountProfile, n: int | None = None
) -> list[float]:
    """Return Σ_k E h(A_k) from above for each function, A_k ~ Hypergeometric(N, c_k, n).

    A_k is the number of the cell's rows in a uniform sample of n rows (``proofs/thinning.md``); n =
    N (or ``None``) leaves the counts unchanged.

    Theorem: X5.
    Numerics: rounded up; if A_k has a mean above 5000, E h(A_k) ≤ h̃(E A_k) for the concave h̃ is
        used.
    Edge cases: n > N is rejected, because the table does not contain n rows.

    Examples:
        >>> profile = CountProfile.from_counts([4, 4])
        >>> [round(x, 4) for x in totals_upper([closed_count_function()], profile)]
        [2.7979]
    """
    rows = profile.rows
    size = rows if n is None else whole_number("n", n)
    if size > rows:
        raise InputError(f"n must be at most the table's {rows} rows, got {n!r}.")
    cells = profile.cells.astype(np.float64)
    slack = 1 + sum_slack(profile.count.size + _THINNING)
    if size == rows:
        return [float(f.at(profile.count) @ cells) * slack for f in functions]
    values = np.empty((len(functions), profile.count.size))
    for column, count in enumerate(profile.count.tolist()):
        mean = count * size / rows
        if mean > _WIDE:
            values[:, column] = [f.above(mean) for f in functions]
            continue
        support, mass = _hypergeometric(rows, count, size)
        values[:, column] = [float(f.at(support) @ mass) for f in functions]
    return [float(row @ cells) * slack for row in values]


def _hypergeometric(rows: int, count: int, n: int) -> tuple[NDArray[np.int64], FloatArray]:
    """Return the masses of Hypergeometric(N, c, n) on a window that misses less than e^-60.

    The window comes from Bernstein's inequality, which holds for hypergeometric laws as for
    binomial ones (Hoeffding 1963, §6).
    """
    mean = count * n / rows
    reach = 12 * math.sqrt(mean) + 40
    low = max(0, count + n - rows, math.floor(mean - reach))
    high = min(count, n, math.ceil(mean + reach))
    support = np.arange(low, high + 1, dtype=np.int64)
    a = support[:-1].astype(np.float64)
    ratio = ((count - a) / (a + 1)) * ((n - a) / (rows - count - n + a + 1))
    logs = np.concatenate([[0.0], np.cumsum(np.log(ratio))])
    mass = np.exp(logs - logs.max())
    return support, mass / mass.sum()


# ── Symmetrised counts: the Rademacher form of the certificate (X5) ───────────────────────────────
#
# With S_c a walk of c fair ±1 steps, N·Δ_N ≤ E Σ_k E|S_{c_k}| (``proofs/rademacher.md``).  It needs
# no inequality for the Poisson law, and costs a factor of up to two.

_TABULATED = 1000


@cache
def _central() -> FloatArray:
    """Return C(2m, m)/4^m for m = 0 … 1000."""
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


# ── Discount for the loss of the Poisson comparison on heavy cells (X5) ───────────────────────────
#
# The count functions bound Σ_k g(np_k), g(λ) = ½E|Poi(λ) - λ|, while n·Δ_n = Σ_k t(p_k) with t(p) =
# ½E|Bin(n,p) - np|.  The difference D(p) = g(np) - t(p) is non-negative and grows with p, so a
# lower confidence bound on the few large p_k is a lower bound on what may be subtracted.  Proof:
# ``proofs/heavy-cells.md``.

#: Ignore atoms below this probability, which lose at most 1/128 in the comparison.
THRESHOLD = 1 / 64
#: Relative slack for the incomplete beta function; its error is far smaller.
_TAIL_SLACK = 1e-9


def _tail(rows: int, count: int, p: float) -> float:
    """Return an upper bound on P(Bin(N, p) ≥ c)."""
    return float(special.betainc(count, rows - count + 1, p)) * (1 + _TAIL_SLACK)


def _cut(rows: int, alpha: float) -> int:
    """Return the smallest c ≥ 1 + (N-1)θ with P(Bin(N, θ) ≥ c) ≤ α, or N + 1 if none."""
    below = math.ceil((rows - 1) * THRESHOLD)
    cut = least_whole(lambda c: _tail(rows, c, THRESHOLD) <= alpha, below=below, most=rows)
    return rows + 1 if cut is None else cut


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
    return [0.0 if count < cut else _probability_lower(rows, count, alpha) for count in counts]


@lru_cache(maxsize=1 << 12)
def _probability_lower(rows: int, count: int, alpha: float) -> float:
    """Return the largest p found with P(Bin(N, p) ≥ c) ≤ α; cached for plans."""
    guess = float(special.betaincinv(count, rows - count + 1, alpha / (1 + _TAIL_SLACK)))
    return last_true(lambda p: _tail(rows, count, p) <= alpha, 0.0, count / rows, guess)


def heavy_discount_lower(profile: CountProfile, n: int, beta: float) -> float:
    """Return a lower bound on Σ_k [g(np_k) - t(p_k)], at least 0.

    Guarantee: holds with probability ≥ 1-β over the N i.i.d. rows.
    Theorem: X5, ``proofs/heavy-cells.md``.
    Numerics: rounded down.

    Examples:
        >>> round(heavy_discount_lower(CountProfile.from_counts([5000, 5000]), 10_000, 0.01), 1)
        15.5
    """
    p = np.array(heavy_probability_lower(profile.rows, profile.count.tolist(), beta))
    cells = profile.cells[p > 0]
    p = p[p > 0]
    if p.size == 0:
        return 0.0
    # `poisson_deviation_lower` is at least 9e-11 of g below it.  That covers the rounding of n·p (g
    # grows at most in proportion), of the terms, and of the sum over at most 64 cells.
    binomial = n * half_deviation_upper(n, p)
    poisson = np.array([poisson_deviation_lower(n * q) for q in p.tolist()])
    return float(np.maximum(poisson - binomial, 0.0) @ cells)
