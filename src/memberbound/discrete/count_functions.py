"""Concave count functions: from the counts of a table to the worst leak, for every law (X5).

A count function h gives each cell with c rows the value h(c); the sum F over the cells estimates
n·Δ_n from above.  With g(λ) = ½E|Poi(λ) - λ|, the functions here satisfy for *every* λ > 0

    E h(Poi(λ)) ≥ g(λ)             (exponent s = 0), or
    E e^{-s·h(Poi(λ))} ≤ e^{-s·g(λ)}   (exponent s > 0),

and are concave, so that the same holds for Bin(n, λ/n) and hence g(np) ≥ ½E|Bin(n,p) - np|.  The
proofs are in ``proofs/count-functions.md``; the table is made and verified, for all λ, by
``scripts/make_count_function.py``.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from memberbound.discrete.counts import CountProfile
from memberbound.errors import InputError, whole_number
from memberbound.numerics.rounding import FloatArray, sum_slack, up_array
from memberbound.quantities import significant

__all__ = [
    "CountFunction",
    "closed_count_function",
    "poisson_deviation_lower",
    "tabulated_count_functions",
    "totals_upper",
]

KAPPA = 1 / math.sqrt(2 * math.pi)
#: The tail κ√(c + a) + b of the tabulated functions, b = _OFFSET·s (proof, claim 6).
_SHIFT, _OFFSET = 0.5, 0.0203
#: Above this mean a thinned value is bounded by Jensen's inequality, which costs 1/40 000 of it.
_WIDE = 5000.0
#: Relative rounding of one thinned value: at most a few thousand additions of logarithms.
_THINNING_SLACK = 1e-10


@dataclass(frozen=True)
class CountFunction:
    """A function of a cell's count, with h(0) = 0.

    ``at`` gives h at whole numbers from above; ``above`` is a concave function of a real number,
    used for Jensen's inequality at means beyond 5000, that is not below h except at counts which
    have no weight there (``proofs/thinning.md``); ``exponent`` is s.
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
    text = resources.files("memberbound.discrete").joinpath("poisson_table.csv").read_text("utf-8")
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

    A_k is how many of the cell's rows a uniform choice of n rows picks (``proofs/thinning.md``);
    n = N (or ``None``) leaves the counts as they are.

    Theorem: X5.
    Numerics: rounded up; where A_k has a mean above 5000, E h(A_k) ≤ h̃(E A_k) for the concave h̃.
    Edge cases: n > N is refused, since the table does not contain n rows.

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
    slack = 1 + sum_slack(profile.count.size) + _THINNING_SLACK
    if size == rows:
        return [float(f.at(profile.count) @ cells) * slack for f in functions]
    values = np.empty((len(functions), profile.count.size))
    for column, count in enumerate(profile.count.tolist()):
        mean = count * size / rows
        if mean > _WIDE:
            values[:, column] = [f.above(mean * (1 + 1e-15)) for f in functions]
            continue
        support, mass = _hypergeometric(rows, count, size)
        values[:, column] = [float(f.at(support) @ mass) for f in functions]
    return [float(row @ cells) * slack for row in values]


def _hypergeometric(rows: int, count: int, n: int) -> tuple[NDArray[np.int64], FloatArray]:
    """Return the masses of Hypergeometric(N, c, n) on a window that misses less than e^-60.

    The window's ends come from Bernstein's inequality, which holds for a hypergeometric law as it
    does for the binomial one (Hoeffding 1963, §6).
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
