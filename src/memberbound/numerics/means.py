"""Confidence bounds for means of bounded values: empirical Bernstein and betting bounds.

Both hold for every sample size and every law on [0, 1]; betting is tighter, Bernstein cheaper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from memberbound.errors import (
    InputError,
    finite_number,
    fraction,
    nonnegative,
    positive,
    whole_number,
)
from memberbound.numerics.roots import guessed_zero, last_true
from memberbound.numerics.rounding import UNIT, FloatArray, double_above, sum_slack, up, up_array

# ── Confidence bounds for means, from sums alone ──────────────────────────────────────────────────
#
# Every function takes means of n i.i.d. draws and ``log_error`` = ln(1/β), and works on arrays, one
# variable per entry.  Each bound fails with probability at most β *per entry*; callers that use
# many entries at once share the error with :func:`log_error_shared`.  Proofs:
# ``proofs/bounded-means.md``.

#: The last bet of the grid in moment_upper, which is best if all values are 0.
_LARGEST_BET = 0.9375


def log_error_shared(
    confidence: float, statements: int, share: Fraction | float = Fraction(1)
) -> float:
    """Return ln(1/β), rounded up, with ``statements``·β = ``share``·(1 - confidence).

    Numerics: 1 - confidence is exact, so a confidence close to 1 loses no digits.

    Examples:
        >>> round(log_error_shared(0.95, 1000), 4)
        9.9035
    """
    level = fraction("confidence", confidence, open_left=True, open_right=True)
    count = whole_number("statements", statements)
    allowed = (1 - Fraction(level)) * Fraction(share)
    if allowed <= 0:
        raise InputError(f"share must be greater than 0, got {share!r}.")
    return up(math.log(double_above(count / allowed)))


def moment_upper(
    mean: ArrayLike, square: ArrayLike, count: int, largest: ArrayLike, log_error: float
) -> FloatArray:
    """Return an upper confidence bound on E X for X ≤ ``largest``, from means of X and X².

    Guarantee: with probability at least 1 - β over the draws, per entry.
    Theorem: proofs/bounded-means.md claim 2: for Y = -X/largest ≥ -1 and a bet 0 < λ < 1,
    e^{λY - ψ(λ)Y²} ≤ 1 + λY with ψ(λ) = -ln(1-λ) - λ (Fan, Grama and Liu 2015), so Markov's
    inequality bounds E Y from below.  A fixed grid of bets shares β.
    Assumes: ``mean`` and ``square`` are at least the means of n draws; larger values only raise the
    result.  X needs no lower bound.
    Numerics: rounded up.
    Edge cases: never above ``largest``; 0 there gives at most 0.

    Examples:
        >>> moment_upper([0.0], [0.0], 1000, [1.0], 3.0).round(6).tolist()
        [0.004905]
    """
    draws = whole_number("count", count)
    level = positive("log_error", log_error)
    bets = _bets(draws, level)
    spent = (level + math.log(len(bets))) / draws
    centre, second, top = np.broadcast_arrays(
        np.asarray(mean, dtype=np.float64),
        np.asarray(square, dtype=np.float64),
        np.asarray(largest, dtype=np.float64),
    )
    if (top < 0).any():
        raise InputError("largest must be at least 0.")
    scale = np.where(top > 0, top, 1.0)  # a bound of 0 is replaced by 1
    with np.errstate(over="ignore"):
        first, second = centre / scale, second / scale / scale
    best = np.full(top.shape, np.inf)
    for bet in bets:
        price = _price(bet)
        worst = bet * first + price * second + spent
        # The sum's terms, each with an error of at most seven units, may differ in sign.  The last
        # steps have an error of four units of the result, which is below 1 only for sums w up to
        # 2.8, where 25 units of w are 25·w/(e^w - 1) > 4.5 of it.
        room = 32 * UNIT * (np.abs(bet * first) + price * second + spent)
        best = np.minimum(best, -np.expm1(-(worst + room)) / bet)
    return np.asarray(np.minimum(np.nextafter(best * scale, np.inf), top))  # it may underflow


def _price(bet: float) -> float:
    """Return ψ(λ) = -ln(1-λ) - λ, rounded up.

    ψ is about λ²/2, so the relative rounding error of the logarithm, of size λ, grows by 2/λ.
    """
    return up(-math.log1p(-bet) - bet, 16 + math.ceil(4 / bet))


def _bets(draws: int, level: float) -> list[float]:
    """Return bets for all second moments between 0 and 1, each twice the previous one.

    The best bet is near √(2·ln(1/β)/(n·E Y²)); a factor of √2 from it costs 6 % of the width.
    """
    bets = []
    bet = min(math.sqrt(2 * level / draws), 0.5)
    while bet < 0.8:
        bets.append(bet)
        bet *= 2
    return [*bets, _LARGEST_BET]


def moment_lower(mean: ArrayLike, square: ArrayLike, count: int, log_error: float) -> FloatArray:
    """Return a lower confidence bound on E X for X ≥ 0, from means of n draws of X and X².

    Guarantee: with probability at least 1 - β over the draws, per entry.
    Theorem: proofs/bounded-means.md claim 3: e^{θX - θ²X²/2} ≤ 1 + θX for X ≥ 0, θ > 0.  A fixed
    grid of θ, for X of the order of 1 down to ln(1/β)/n, shares β.
    Assumes: ``mean`` is at most, and ``square`` at least, the mean of the draws.
    Numerics: rounded down.
    Edge cases: never below 0.  X may be unbounded above.

    Examples:
        >>> moment_lower([0.25], [0.0625], 10_000, 3.0).round(3).tolist()
        [0.248]
    """
    draws = whole_number("count", count)
    level = positive("log_error", log_error)
    first, second = np.broadcast_arrays(
        np.asarray(mean, dtype=np.float64), np.asarray(square, dtype=np.float64)
    )
    slope = math.sqrt(2 * level / draws)
    steps = max(1, math.ceil(math.log2(draws / level)) + 2)
    spent = (level + math.log(steps)) / draws
    best = np.zeros(first.shape)
    for _ in range(steps):
        gain, price = slope * first, slope * slope / 2 * second
        # Each term has an error of at most seven units, and the last steps of three of the result.
        room = 16 * UNIT * (gain + price + spent)
        best = np.maximum(best, np.expm1(gain - price - spent - room) / slope)
        slope *= 2
    return best


def unit_samples(samples: ArrayLike) -> FloatArray:
    """Return samples as an (n, M) array of numbers in [0, 1], or raise."""
    table = np.asarray(samples, dtype=np.float64)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or len(table) == 0:
        raise InputError(f"samples must be a table of draws × variables, got {table.shape}.")
    if not ((table >= 0) & (table <= 1)).all():
        raise InputError("samples must be in [0, 1]. Rescale them by their known range.")
    return table


# ── Betting bounds for means of variables in [0, 1] ───────────────────────────────────────────────
#
# A gambler who starts with 1 and stakes a fixed part of the capital on "the next draw is above m"
# has, if the mean is m or less, an expected final capital of at most 1; so a capital of 1/β refutes
# m with error β (Waudby-Smith and Ramdas, *Estimating means of bounded random variables by
# betting*, 2024).  The capital is shared among a fixed grid of stakes.  It adapts to the whole law,
# not only to its variance, and is the tightest bound of this package for a few variables.  Proofs:
# ``proofs/bounded-means.md``.

#: Candidate means are whole multiples of this part of the sample mean.
_STEP = 2.0**-40
#: Largest stake, below 1, so that one losing draw never takes all and 1 + c·gain keeps its digits.
_LARGEST_STAKE = 1 - 2.0**-16
#: Number of values per block of draws, to limit memory.
_BLOCK = 2**15


def betting_lower(samples: ArrayLike, log_error: float) -> FloatArray:
    """Return lower confidence bounds on the column means of samples in [0, 1].

    Guarantee: each column's bound fails with probability at most β = e^{-log_error}.
    Theorem: proofs/bounded-means.md claim 4.  With stakes c_j in (0, 1) and weights 1/J the capital
    K(m) = (1/J)Σ_j Π_i(1 + c_j(X_i/m - 1)) has E K(m) ≤ 1 if the mean is at most m, and decreases
    in m.
    Numerics: a returned m satisfies K(m) ≥ 1/β with K rounded down.
    Edge cases: a column of zeros gives 0, a constant column nearly its constant times (β/J)^{1/n}.

    Examples:
        >>> betting_lower([[0.25]] * 1000, 3.0).round(3).tolist()
        [0.249]
    """
    table = unit_samples(samples)
    level = positive("log_error", log_error)
    stakes = _stakes(len(table), level)
    counts = np.ones(len(table))
    if table.shape[1] == 1:  # group equal draws
        values, repeats = np.unique(table, return_counts=True)
        table, counts = values[:, None], repeats.astype(np.float64)
    top = (counts @ table) / counts.sum()

    def excess(index: FloatArray, column: NDArray[np.intp]) -> FloatArray:
        """Return √ln K - √ln(1/β), nearly linear, at these multiples of the columns' means."""
        means = top[column] * (index * _STEP)
        part = table if column.size == table.shape[1] else np.take(table, column, axis=1)
        capital = _log_capital(part, counts, means, stakes)
        # This form has the sign of ln K - ln(1/β) despite rounding.
        return (capital - level) / (np.sqrt(np.maximum(capital, 0.0)) + math.sqrt(level))

    lower: FloatArray = top * (_last_refuted(excess, top > 0) * _STEP)
    return lower


def _last_refuted(
    excess: Callable[[FloatArray, NDArray[np.intp]], FloatArray], live: NDArray[np.bool_]
) -> FloatArray:
    """Return the last index 0, 1, …, 1/_STEP - 1 at which ``excess`` ≥ 0 was verified, or 0.

    ``excess`` decreases in the index.  Regula falsi with a halved end (Illinois) needs about ten
    evaluations, bisection forty; bisection takes over when the interval is not halved.
    """
    low, high = np.zeros(len(live)), np.where(live, 1 / _STEP, 0.0)
    below, above = np.full(len(live), np.inf), np.full(len(live), -np.inf)
    first = np.flatnonzero(live)
    above[first] = excess(high[first], first)
    slow, side = np.zeros(len(live), dtype=int), np.zeros(len(live), dtype=int)
    while (column := np.flatnonzero(high - low > 1)).size:
        start, width = low[column], high[column] - low[column]
        rise, fall = below[column], -above[column]
        with np.errstate(invalid="ignore"):
            share = rise / (rise + fall)
        straight = np.isfinite(share) & (slow[column] < 2)
        index = np.floor(start + width * np.where(straight, share, 0.5))
        index = np.clip(index, start + 1, start + width - 1)
        value = excess(index, column)
        refuted = value >= 0
        # Halve the value at an end that does not move, so that it moves as well (Illinois).
        stays = side[column] == np.where(refuted, 1, -1)
        above[column] = np.where(refuted, np.where(stays, -fall / 2, -fall), value)
        below[column] = np.where(refuted, value, np.where(stays, rise / 2, rise))
        side[column] = np.where(refuted, 1, -1)
        low[column] = np.where(refuted, index, start)
        high[column] = np.where(refuted, start + width, index)
        halved = high[column] - low[column] <= width / 2
        slow[column] = np.where(halved, 0, slow[column] + 1)
    return low


def betting_upper(samples: ArrayLike, log_error: float) -> FloatArray:
    """Return upper confidence bounds on column means: 1 - :func:`betting_lower` of 1 - samples.

    Examples:
        >>> betting_upper([[0.0]] * 1000, 3.0).round(4).tolist()
        [0.0045]
    """
    table = unit_samples(samples)
    # Round down, so that the capital is never overstated; exact at 0 and 1.
    mirror = np.where(table == 0.0, 1.0, np.maximum(np.nextafter(1.0 - table, 0.0), 0.0))
    return np.minimum(1.0, up_array(1.0 - betting_lower(mirror, log_error)))


def zeros_certify(draws: int, target: float, log_error: float) -> bool:
    """Return whether :func:`betting_upper` of ``draws`` zeros is at most ``target`` (to rounding).

    Examples:
        >>> zeros_certify(41, 0.1, log_error_shared(0.95, 1)), zeros_certify(42, 0.1, 3.0)
        (False, True)
    """
    if not target < 1:
        return True
    stakes = _stakes(draws, log_error)
    # Every draw is 1 against a mean of 1 - target, so all of them gain the same.
    logs = draws * np.log1p(stakes * (target / (1 - target)))
    return float(special.logsumexp(logs) - math.log(len(stakes))) >= log_error


def _stakes(draws: int, level: float) -> FloatArray:
    """Return stakes for all relative spreads, doubling from √(ln(1/β)/n)/4 to nearly 1."""
    least = min(0.5, math.sqrt(level / draws) / 4)
    doublings = math.ceil(-math.log2(least))
    return np.asarray(np.minimum(_LARGEST_STAKE, least * 2.0 ** np.arange(doublings + 1)))


def _log_capital(
    table: FloatArray, counts: FloatArray, mean: FloatArray, stakes: FloatArray
) -> FloatArray:
    """Return lower bounds on ln K(m) per column; each row was drawn ``counts`` times."""
    logs = np.zeros((len(stakes), len(mean)))
    sizes = np.zeros_like(logs)
    draws = int(counts.sum())
    rows = max(16, _BLOCK // max(logs.size, 1))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for start in range(0, len(table), rows):
            gain = table[start : start + rows] / mean - 1.0
            log = np.log1p(stakes[:, None, None] * gain)
            log *= counts[start : start + rows, None]
            logs += log.sum(axis=1)
            sizes += np.abs(log, out=log).sum(axis=1)
        # c·gain is off by 3 units of at most its size; next to 1 + c·gain ≥ 1 - c that is at most
        # 3·(1 + 1/(1-c)) units, an absolute error of the logarithm.  The mean below is off by 3
        # units of its logarithm and one per stake, of which there are about 30: sum_slack has 13
        # units of the sizes to spare, and 16 times 17.
        lost = 8 * UNIT * draws * (1 + 1 / (1 - stakes))
        room = sum_slack(draws) * (sizes + 16) + lost[:, None]
        safe = np.where(np.isfinite(logs), logs - room, -np.inf)
        top = safe.max(axis=0)
        shift = np.where(np.isfinite(top), top, 0.0)
        mixed = shift + np.log(np.exp(safe - shift).mean(axis=0))
    return np.where(np.isfinite(top), mixed, -np.inf)


def mean_upper(
    samples: ArrayLike,
    *,
    confidence: float = 0.95,
    low: float = 0.0,
    high: float = 1.0,
) -> FloatArray:
    """Return simultaneous upper confidence bounds on the means of all columns.

    Guarantee: with probability at least ``confidence`` over n i.i.d. rows, no column's mean exceeds
    its bound (columns may depend on each other).
    Theorem: proofs/bounded-means.md (:func:`betting_upper`); union over the columns.
    Assumes: rows are independent draws of variables in [``low``, ``high``].
    Numerics: rounded up.
    Edge cases: never above ``high``.

    Examples:
        >>> mean_upper([0.0] * 990 + [1.0] * 10).round(3).tolist()
        [0.024]
    """
    values, bottom, top = _ranged(samples, low, high)
    width = top - bottom
    table = unit_samples((values - bottom) / width)
    bound = betting_upper(table, log_error_shared(confidence, table.shape[1]))
    if (bottom, top) == (0.0, 1.0):
        return bound
    # A sample x is at most bottom + width·s·(1 + 3 units), with s its scaled value.
    raised = bound * width
    total = bottom + raised + 8 * UNIT * (abs(bottom) + raised)
    return np.minimum(top, np.nextafter(total, np.inf))  # for subnormal numbers a unit is 0


def mean_lower(
    samples: ArrayLike,
    *,
    confidence: float = 0.95,
    low: float = 0.0,
    high: float = 1.0,
) -> FloatArray:
    """Return simultaneous lower confidence bounds; the mirror of :func:`mean_upper`.

    Examples:
        >>> mean_lower([0.0] * 990 + [1.0] * 10).round(4).tolist()
        [0.0025]
    """
    values, bottom, top = _ranged(samples, low, high)
    return -mean_upper(-values, confidence=confidence, low=-top, high=-bottom)


def _ranged(samples: ArrayLike, low: float, high: float) -> tuple[FloatArray, float, float]:
    """Return the samples and the ends of their range, or raise."""
    bottom, top = finite_number("low", low), finite_number("high", high)
    if not bottom < top:
        raise InputError(f"high must be greater than low = {bottom!r}, got {high!r}.")
    finite_number("high - low", top - bottom)
    values = np.asarray(samples, dtype=np.float64)
    if not ((values >= bottom) & (values <= top)).all():
        raise InputError(f"samples must be in [{bottom!r}, {top!r}].")
    return values, bottom, top


# ── Three concentration bounds for a statistic, given its mean (X5) ───────────────────────────────
#
# All of them bound n times a leak, given a total F with n·Δ_n ≤ E F (or its exponential form), with
# probability at least 1-β over the rows, L = ln(1/β).  Proofs: ``proofs/count-functions.md`` and
# ``proofs/thinning.md``.


def log_confidence(beta: float) -> float:
    """Return L = ln(1/β), rounded up."""
    return up(-math.log(fraction("beta", beta, open_left=True, open_right=True)), 8)


def self_bounding_upper(total: float, beta: float, share: float = 1.0) -> float:
    """Return (√(F + L'/2) + √(L'/2))² with L' = L·share: solve F ≥ EF - √(2·L'·EF) for EF.

    Theorem: X5; F/share is self-bounding, so P(F ≤ EF - t) ≤ exp(-t²/(2·share·EF)) (Boucheron,
    Lugosi and Massart).  ``share`` is n/N when F is a thinned total, else 1.
    Numerics: rounded up.
    Edge cases: F = 0 gives 2L', which an empty table cannot exclude.

    Examples:
        >>> round(self_bounding_upper(100.0, 0.05), 3)
        127.656
    """
    half = log_confidence(beta) * fraction("share", share, open_left=True) / 2
    root = math.sqrt(nonnegative("total", total) + half) + math.sqrt(half)
    return up(root * root, 16)


def bounded_differences_upper(total: float, n: int, rows: int, beta: float) -> float:
    """Return F + n·√(L/(2N)): replacing one of N rows changes F by at most n/N (McDiarmid).

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
    Numerics: the returned x was verified to violate the inequality, with a margin for rounding.

    Examples:
        >>> round(mixture_upper([10.0], [0.5], [1.0], 0.05), 4)  # 10 + ln(20)/0.5
        15.9915
    """
    if not len(totals) == len(exponents) == len(weights) or not totals:
        raise InputError("a mixture must have one total and one weight per exponent.")
    if min(exponents) <= 0 or min(weights) <= 0 or not math.fsum(weights) <= 1 + 1e-12:
        raise InputError("a mixture must have positive exponents, and weights that add up to 1.")
    # 1e-12 for weights with a sum above 1, and the same for rounding: near x a relevant term has an
    # error of at most three units of its size and of its weight's logarithm, at most 745.
    target = log_confidence(beta) + 2e-12
    parts = [(s, float(f), math.log(w)) for f, s, w in zip(totals, exponents, weights, strict=True)]

    def excess(x: float) -> float:
        terms = [w + s * (x - f) for s, f, w in parts]
        top = max(terms)
        return top + math.log(math.fsum([math.exp(t - top) for t in terms])) - target

    start = min(f + (target - w) / s for s, f, w in parts)
    start += 1e-9 * (1 + abs(start))
    near = guessed_zero(excess, start, 0.0)
    return last_true(lambda x: excess(x) >= 0, start, 0.0, near)
