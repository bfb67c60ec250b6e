"""The exponential mechanism over a finite set of candidates and a decomposable loss (L24-D7).

The loss of a data set is the mean of its records' losses, so candidate w is released with
probability proportional to a product over the records: P(w given D) ∝ exp(Σ_{x∈D} score(x, w)) with
score = -ε·loss/(2Δk).  Bounds for the records of a population are computed from every
subset (L24-P9, two-sided; X10), or from random ones if there are too many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memberbound.curve import PolygonCurve, TradeoffCurve
from memberbound.declarations import Progress
from memberbound.dp import guarantee_from_epsilon_delta
from memberbound.errors import InputError, fraction, nonnegative, positive, whole_number
from memberbound.games import SubsetGame
from memberbound.numerics.means import log_error_shared, moment_lower, moment_upper
from memberbound.numerics.roots import fixed_order, least_scale
from memberbound.numerics.rounding import (
    SMALLEST,
    UNIT,
    FloatArray,
    double_above,
    down,
    shared_confidence,
    sum_slack,
    up,
    up_array,
)
from memberbound.quantities import significant
from memberbound.subset.profile import checked_table
from memberbound.subset.record_bounds import (
    Comparison,
    RecordBounds,
    Solution,
    Target,
    short_decimal,
)
from memberbound.threads import one_thread

#: Fewest records of a population: with fewer, some record's set holds it alone or all others.
_FEWEST = 4
#: A given Δ may fall short of the population's by this factor: 1/3 is not a double.
_ROUNDING_ALLOWANCE = 1e-12
#: Rates and ε(X) beyond this many orders of magnitude are refused: doubles end near 1e±308.
_LEAST_NUMBER = 1e-280


def l2_losses(records: ArrayLike, candidates: ArrayLike) -> FloatArray:
    """Return the (N, m) distances from every record to every candidate.

    Their mean over a data set is the loss of the geometric median (L24 §5).
    Numerics: to about d/2 + 2 roundings, without the cancellation of the ‖x‖² - 2x·w + ‖w‖² form.
    """
    rows, targets = checked_table("records", records), checked_table("candidates", candidates)
    if rows.shape[1] != targets.shape[1]:
        raise InputError(
            f"candidates must be of the records' dimension {rows.shape[1]}, "
            f"got {targets.shape[1]}. Give one column per column of the records."
        )
    distances = np.empty((len(rows), len(targets)))
    for index, target in enumerate(targets):
        distances[:, index] = np.linalg.norm(rows - target, axis=1)
    return distances


def clip_sensitivity(candidates: ArrayLike, radius: float, size: int) -> float:
    """Return Δ of the mean distance when every record has norm at most ``radius``, from above.

    Theorem: L24-D7.  The distance from a record in the ball of radius C to w lies between
    max(0, ‖w‖ - C) and ‖w‖ + C and reaches both, so replacing one of k records moves the mean by at
    most max_w [(‖w‖ + C) - max(0, ‖w‖ - C)]/k = (C + min(C, max_w ‖w‖))/k.
    Numerics: rounded up by more than the rounding of the norms and distances.

    Examples:
        >>> round(clip_sensitivity([[0.0], [3.0]], radius=10.0, size=2), 12)
        6.5
    """
    reach = positive("radius", radius)
    targets = checked_table("candidates", candidates)
    count = whole_number("size", size)
    farthest = float(np.linalg.norm(targets, axis=1).max())
    return up((reach + min(reach, farthest)) / count, targets.shape[1] + 16)


@dataclass(frozen=True, eq=False)
class ExponentialMechanism:
    """The exponential mechanism on subsets of ``size`` of the N records of a population.

    Guarantee: ``epsilon``-DP, replace-one (L24-L8), if the mean loss of no candidate moves by more
    than ``sensitivity`` when one record of *any* data set is replaced; between data sets inside the
    population it is ``epsilon_population``-DP.

    Attributes:
        losses: (N, m), the loss of every record at every candidate.  The mechanism is the one with
            exactly these doubles.
        size: k, the number of records in a data set.
        epsilon: ε of L24-D7; 0 releases a uniform candidate.
        sensitivity: Δ of L24-D7, over all data sets and not only those inside the population.

    Edge cases: records with equal losses are distinguished by their row.  Losses that move the mean
    by more than ``sensitivity`` inside the population are refused, because ε-DP would be false; so
    are losses and ε of such a size that ε/(2Δk) or ε(X) leaves the range of doubles.

    Examples:
        >>> losses = [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
        >>> mechanism = ExponentialMechanism(losses, size=2, epsilon=2.0, sensitivity=1.0)
        >>> mechanism.population_sensitivity, round(mechanism.epsilon_population, 12)
        (0.5, 1.0)
    """

    losses: FloatArray
    size: int
    epsilon: float
    sensitivity: float

    def __post_init__(self) -> None:
        losses = checked_table("losses", self.losses).copy()
        if np.ndim(self.losses) != 2:
            raise InputError("losses must be a table of records × candidates, got one column.")
        if len(losses) < _FEWEST:
            raise InputError(
                f"losses must be of at least {_FEWEST} records, got {len(losses)}. "
                "A record hides among the others of its population."
            )
        with np.errstate(over="ignore"):
            if not np.isfinite(np.ptp(losses)):
                raise InputError("losses must differ by finite numbers, got larger ones.")
        losses.setflags(write=False)
        object.__setattr__(self, "losses", losses)
        size = whole_number("size", self.size)
        object.__setattr__(self, "size", size)
        SubsetGame(len(losses), size)
        object.__setattr__(self, "epsilon", nonnegative("epsilon", self.epsilon))
        object.__setattr__(self, "sensitivity", positive("sensitivity", self.sensitivity))
        if self.population_sensitivity > self.sensitivity * (1 + _ROUNDING_ALLOWANCE):
            raise InputError(
                f"sensitivity must be at least {self.population_sensitivity!r}, how far the mean "
                f"loss moves inside this population, got {self.sensitivity!r}. With less, the "
                "mechanism is not ε-DP; raise it, or clip the records."
            )
        if self.epsilon > 0 and self.population_sensitivity > 0:
            # Below, scores would lose digits or vanish, and every bound would rest on them.
            tame = _LEAST_NUMBER < self.rate < 1 / _LEAST_NUMBER
            if not (tame and self.epsilon_population > _LEAST_NUMBER):
                raise InputError(
                    f"epsilon/(2·sensitivity·size) and epsilon inside the population must be above "
                    f"{_LEAST_NUMBER!r} (or epsilon 0), got {self.rate!r} and "
                    f"{self.epsilon_population!r}. Change the unit of the losses."
                )

    @classmethod
    def calibrated_to_population(
        cls, losses: ArrayLike, *, size: int, epsilon_population: float, sensitivity: float
    ) -> ExponentialMechanism:
        """Return the mechanism with the given ε(X): ε = ε(X)·Δ/Δ(X).

        This is how L24 sets its figures.
        Numerics: ε is rounded down, so that ``epsilon_population`` read back does not exceed it.
        """
        target = nonnegative("epsilon_population", epsilon_population)
        blank = cls(np.asarray(losses, dtype=np.float64), size, 0.0, sensitivity)
        if blank.population_sensitivity == 0.0:
            raise InputError(
                "losses must differ between records to calibrate to them; all rows are equal, so "
                "the release reveals nothing about any record at any ε."
            )
        scale = blank.sensitivity / blank.population_sensitivity
        return replace(blank, epsilon=max(0.0, down(target * scale, 16)))

    @property
    def game(self) -> SubsetGame:
        """Uniform subsets of ``size`` of the N records."""
        return SubsetGame(len(self.losses), self.size)

    @property
    def rate(self) -> float:
        """ε/(2Δk), the weight of one unit of one record's loss; to three roundings."""
        return self.epsilon / (2 * self.sensitivity * self.size)

    @cached_property
    def scores(self) -> CentredScores:
        """-ε·loss/(2Δk) with the common parts taken out."""
        return CentredScores.of(self)

    @cached_property
    def population_sensitivity(self) -> float:
        """Δ(X): how far the mean loss moves when a record of X replaces another, from above."""
        high, low = self.losses.max(axis=0).tolist(), self.losses.min(axis=0).tolist()
        spread = max(Fraction(h) - Fraction(g) for h, g in zip(high, low, strict=True))
        # Exact where it is a double, so that Δ = Δ(X) can be given.
        return double_above(spread / self.size)

    @property
    def epsilon_population(self) -> float:
        """ε(X) = ε·Δ(X)/Δ, from above: the DP parameter between data sets inside X (L24-L8)."""
        return up(self.epsilon * (self.population_sensitivity / self.sensitivity), 4)


@dataclass(frozen=True, eq=False)
class CentredScores:
    """Scores with the common parts taken out, and what rounding did to them.

    Σ_{x∈D} score(x, w) = Σ_{x∈D} ``values``[x, w] + ``base``[w] + (the same for every w): a
    constant per record cancels in P, and one per candidate is the same for all data sets.
    ``error``[w] bounds how far the sum over any D is off, ``base_error``[w] the base; ``reach`` is
    the largest size of such a sum.
    """

    values: FloatArray
    base: FloatArray
    reach: float
    error: FloatArray
    base_error: FloatArray

    @classmethod
    def of(cls, mechanism: ExponentialMechanism) -> CentredScores:
        """Take the constants out exactly: then large common parts cost no digits."""
        size, losses, rate = mechanism.size, mechanism.losses, mechanism.rate
        middle = losses.max(axis=1) / 2 + losses.min(axis=1) / 2
        rows, rows_tail = _difference(losses, middle[:, None])
        typical = np.median(rows, axis=0)
        both, both_tail = _difference(rows, typical[None, :])
        again = both.max(axis=1) / 2 + both.min(axis=1) / 2
        left, left_tail = _difference(both, again[:, None])
        values = -rate * (left + (rows_tail + both_tail + left_tail))
        base = -rate * size * (typical - typical.min())
        # Six roundings of the result: two of the rate, the last sum, the product, and two to spare.
        # The tails are a rounding of the parts, so adding them costs a rounding of a rounding.
        tails = np.abs(rows) + np.abs(both) + np.abs(left)
        off = 6 * UNIT * np.abs(values) + 8 * UNIT**2 * rate * tails
        reach = _largest_sum(values, size)
        # Adding up k of the values in any order, each half on its own.
        error = _largest_sum(off, size) + (size + 2) * UNIT * reach
        return cls(values, base, float(reach.max()), error, 6 * UNIT * np.abs(base))


def _largest_sum(values: FloatArray, size: int) -> FloatArray:
    """Per column, the sum of the ``size`` largest sizes, from above: no data set has more."""
    largest = np.partition(np.abs(values), len(values) - size, axis=0)[len(values) - size :]
    return np.asarray(largest.sum(axis=0) * (1 + sum_slack(size)))


def _difference(first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a difference as the rounded one and what rounding took, exactly (Knuth's two-sum)."""
    total = first - second
    part = total - first
    return total, (first - (total - part)) - (second + part)


# ── Every subset of a population ──────────────────────────────────────────────────────────────────
#
# The population is cut into two halves.  A data set is a part A of the first and a part B of the
# second, and its weights are products, u_A(w)·v_B(w).  So for all A of one size and all B of the
# rest the normalising sums are one matrix product Z = (u·g)vᵀ, and with R = 1/Z the sums over all
# B, Σ_B P(w given A∪B) ∝ u_A(w)·(Rv)_A(w), another; likewise over A.  What is left per record are
# sums over the parts that hold it.  Every sum has non-negative terms, so relative errors stay
# relative.  The base of the scores, g, is kept apart: so a candidate that is hardly ever chosen has
# as precise a ratio as any other.

#: Most subsets, and records, that are enumerated; C(28, 14) is 40 116 600.
_MOST_SUBSETS, _MOST_RECORDS = 45_000_000, 64
#: Largest exponent T of the matrix products: R·v ≤ e^{2T}, and e^600 leaves room for every sum.
#: Beyond (ε of a hundred or more) the worst case in the population is stated.
_REACH = 300.0
#: Entries of the largest array.
_ENTRIES = 1 << 21


def is_enumerable(game: SubsetGame) -> bool:
    """Whether all subsets can be enumerated."""
    few = game.population <= _MOST_RECORDS
    return few and math.comb(game.population, game.size) <= _MOST_SUBSETS


def _membership(records: int, size: int) -> FloatArray:
    """Return the memberships of all subsets of this size as zeros and ones, a row per subset."""
    count = math.comb(records, size)
    chosen = np.array(list(combinations(range(records), size)), dtype=np.intp).reshape(count, size)
    table = np.zeros((count, records))
    np.put_along_axis(table, chosen, 1.0, axis=1)
    return table


def _sums(
    game: SubsetGame, scores: CentredScores, progress: Progress | None
) -> tuple[FloatArray, FloatArray, int]:
    """Σ of P(w given D)/g_w over the data sets with, and without, every record.

    With them how many numbers were added in a row, at most.
    """
    half, total = game.population // 2, math.comb(game.population, game.size)
    rest = game.population - half
    inside, outside = np.zeros_like(scores.values), np.zeros_like(scores.values)
    done, blocks, longest = 0, 0, 0
    for size in range(max(0, game.size - rest), min(half, game.size) + 1):
        first, in_b = _membership(half, size), _membership(rest, game.size - size)
        v = np.exp(in_b @ scores.values[half:])
        step = max(1, _ENTRIES // len(in_b))
        for start in range(0, len(first), step):
            in_a = first[start : start + step]
            u = np.exp(in_a @ scores.values[:half])
            inverse = (u * np.exp(scores.base)) @ v.T
            np.reciprocal(inverse, out=inverse)
            by_a, by_b = u * (inverse @ v), v * (inverse.T @ u)
            inside += np.concatenate([in_a.T @ by_a, in_b.T @ by_b])
            # Sums without a record are taken as such: subtracting from the total would cancel.
            outside += np.concatenate([(1 - in_a).T @ by_a, (1 - in_b).T @ by_b])
            blocks += 1
            done += inverse.size
            longest = max(longest, len(in_a) + len(in_b))
            if progress is not None:
                progress(done, total)
    return inside, outside, longest + blocks


@dataclass(frozen=True, eq=False)
class SubsetLaws:
    """Laws of the release given that a record is in, and given that it is not, in logarithms.

    ``log_in`` and ``log_out`` are (N, m), each within ``error``[w] of the truth; ``ratio`` =
    ln(in/out) is within ``ratio_error`` (N, m) and does not pass through them, and no larger than
    ``limit`` in size (L24-L8 inside the population).
    """

    game: SubsetGame
    log_in: FloatArray
    log_out: FloatArray
    error: FloatArray
    ratio: FloatArray
    ratio_error: FloatArray
    limit: float

    def pmp_epsilon(self) -> FloatArray:
        """Per record, max over outcomes of |ln(in/out)|, from above (L24-P9, both sides)."""
        reach = (np.abs(self.ratio) + self.ratio_error).max(axis=1)
        return np.asarray(np.minimum(reach * (1 + 4 * UNIT), self.limit))

    def curve(self, record: int) -> PolygonCurve:
        """Return the ROC of the best attacker on one record, from above."""
        ratio, error = self.ratio[record], self.ratio_error[record]
        heavier = np.maximum(self.log_in[record], self.log_out[record]) + self.error
        # Raising both the heavier mass and |ln ratio| raises both hockey-sticks.
        heavy = np.clip(np.exp(heavier) * (1 + 8 * UNIT), SMALLEST, 1.0)
        size = np.minimum((np.abs(ratio) + error) * (1 + 4 * UNIT), self.limit)
        # If rounding leaves the sign in doubt, the outcome counts in both directions.
        doubt = np.abs(ratio) <= error
        return PolygonCurve(
            np.concatenate([np.copysign(size, ratio), -np.copysign(size, ratio)[doubt]]),
            np.concatenate([heavy, heavy[doubt]]),
        )


def subset_laws(
    mechanism: ExponentialMechanism, *, progress: Progress | None = None
) -> SubsetLaws | None:
    """Enumerate every subset and return both laws of every record with their error bounds.

    Guarantee: the true logarithms lie within the stated errors.
    Theorem: L24-P9, X10.
    Numerics: errors are counted, not estimated: the exponents' (``CentredScores.error``), those of
        the normalising sums, and those of sums of non-negative terms in any order.  Typically 1e-14
        to 1e-12.
    Edge cases: more than 45 million subsets are refused; None where exponents are too large.
    """
    game, scores = mechanism.game, mechanism.scores
    if not is_enumerable(game):
        raise InputError(
            f"the number of subsets must be at most {_MOST_SUBSETS:,}, of at most {_MOST_RECORDS} "
            f"records, for exact enumeration, got C({game.population}, {game.size}). Use sampling."
        )
    if scores.reach > _REACH:
        return None
    with one_thread:  # products of small matrices, which threads only slow down
        inside, outside, terms = _sums(game, scores, progress)
    inside, outside = np.log(inside), np.log(outside)
    # A candidate with a base 2T + 100 below the best has a share of at most e^-100 in Z, for any
    # choice of the set, so the error of its base does not matter.
    visible = np.minimum(scores.base_error, 6 * UNIT * (2 * scores.reach + 100))
    # At most three exponentials within two units in the last place, products and the quotient.
    steps = 16 * UNIT
    of_z = float((scores.error + visible).max()) + steps + sum_slack(len(scores.base))
    error = 1.01 * (scores.error + of_z + steps + sum_slack(terms))
    total, size = game.population, game.size
    odds = math.log((total - size) / size)
    length = np.abs(inside) + np.abs(outside) + abs(odds)
    counts = [math.log(math.comb(total - 1, size - 1)), math.log(math.comb(total - 1, size))]
    log_in, log_out = inside + scores.base - counts[0], outside + scores.base - counts[1]
    added = 8 * UNIT * (np.abs(scores.base) + length.max(axis=0) + sum(counts) + 1)
    return SubsetLaws(
        game,
        log_in,
        log_out,
        error + scores.base_error + added,
        inside - outside + odds,
        2 * error + 6 * UNIT * length,
        mechanism.epsilon_population,
    )


def exact_bounds(
    mechanism: ExponentialMechanism,
    *,
    delta: float = 0.0,
    progress: Progress | None = None,
) -> RecordBounds:
    """Return ε̃ and the attack success for every record, from all subsets of the population.

    Guarantee: that of :class:`RecordBounds`.
    Theorem: L24-P9 with both signs of the logarithm (erratum), L24-D2, I24-P2; X10.
    Assumes: D is a uniform subset of k records; the losses are the doubles given.
    Numerics: never below the truth, above it by the counted rounding (about 1e-12); ε̃ is at most
        ``mechanism.epsilon_population`` (L24-L8).
    Edge cases: at ε = 0, or if all records have the same losses, ε̃ is 0 exactly.  More than
        45 million subsets are refused.  Exponents beyond the range of doubles (ε of a hundred
        or more) give the worst case inside the population, ``mechanism.epsilon_population``.

    Examples:
        >>> losses = [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
        >>> mechanism = ExponentialMechanism(losses, 2, 4 * math.log(2), 1.0)
        >>> bounds = exact_bounds(mechanism)
        >>> round(math.exp(bounds.pmp_epsilon_upper), 12), bounds.worst_record
        (1.5, 0)
    """
    allowed, game = fraction("delta", delta), mechanism.game
    laws = subset_laws(mechanism, progress=progress)
    if laws is None:
        return worst_case_bounds(mechanism, delta=allowed)
    curves = [laws.curve(record) for record in range(game.population)]
    at_delta = [curve.epsilon(allowed) for curve in curves] if allowed else laws.pmp_epsilon()
    success = np.array([_success(curve, game) for curve in curves])
    return _certified(game, allowed, np.asarray(at_delta), success, "exact enumeration")


def worst_case_bounds(mechanism: ExponentialMechanism, *, delta: float) -> RecordBounds:
    """Return the bounds of ``epsilon_population``, which hold for every record (L24-L8)."""
    game, limit = mechanism.game, mechanism.epsilon_population
    curve = guarantee_from_epsilon_delta([(limit, 0.0)]).curve
    epsilon = np.full(game.population, curve.epsilon(delta) if delta else limit)
    success = np.full(game.population, _success(curve, game))
    return _certified(game, delta, epsilon, success, "worst case inside the population")


def _certified(
    game: SubsetGame, delta: float, epsilon: FloatArray, success: FloatArray, method: str
) -> RecordBounds:
    """Return the bounds with their theorems and assumptions, without sampling."""
    assumptions = (
        f"The data set is a uniform subset of {game.size} of the {game.population} records.",
        "The release is one draw of the exponential mechanism with exactly these losses.",
    )
    theorems = ("L24-D7", "L24-L8", "L24-P9", "I24-P2", "X10")
    return RecordBounds(game, delta, epsilon, success, method, theorems, assumptions)


def _success(curve: TradeoffCurve, game: SubsetGame) -> float:
    """Return the attack success; the rounding error of k/N changes it by at most as much."""
    success = curve.accuracy(game.prior)
    return success if 2 * game.size == game.population else up(success)


# ── Random subsets, and how the mechanism answers when one record is swapped (X10, X1) ────────────
#
# One random subset serves every record: a member is swapped for a common random outsider, an
# outsider for a common random member (``proofs/sampled-pmp.md`` claim 1).  A swap only tilts the
# probabilities of the release, so all records of a block of subsets are scored by a few products.

#: Entries of the largest temporary array (records × subsets of a block).
_BLOCK_ENTRIES = 1 << 21
#: Scores up to this size are exponentiated once per record; e^{4·30} and its square are harmless.
#: They are at most ε/2; beyond, nothing is sampled and the worst case in the population is stated.
_TAME = 30.0
#: Bound on the error from underflow in a mean; every bound is at least 1/draws of the range.
_HIDDEN = 1e-80


@dataclass(frozen=True, eq=False)
class SwapMeans:
    """Means over ``draws`` random subsets, with outcomes in ``order``, likeliest first.

    With A = P(w given D), A' = P(w given D') and p = P(w given a random subset):

    Attributes:
        order: (m,) outcomes by the score of the whole population, so not random.
        chosen: (m,) mean of p, from below.
        chosen_square: (m,) mean of p², from above.
        tail: (m+1,) mean probability of all outcomes from the j-th on, from above.
        tail_square: (m+1,) mean of its square, from above.
        difference: (N, m) mean of A - A', to ``rounding``.
        square: (N, m) mean of (A - A')², from above.
        rounding: (N, m) what ``difference`` may be off by.
    """

    draws: int
    order: NDArray[np.intp]
    chosen: FloatArray
    chosen_square: FloatArray
    tail: FloatArray
    tail_square: FloatArray
    difference: FloatArray
    square: FloatArray
    rounding: FloatArray


def swap_means(
    mechanism: ExponentialMechanism,
    draws: int,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> SwapMeans:
    """Draw subsets and average what every record's swap changes.

    Numerics: the probability of a data set is known to a relative error of a few roundings per
    record's score; that and the rounding of the sums go into the stated side of every mean.
    """
    game, scores = mechanism.game, mechanism.scores
    records, outcomes = scores.values.shape
    order = np.argsort(-(scores.values.mean(axis=0) * game.size + scores.base), kind="stable")
    values = np.ascontiguousarray(scores.values[:, order])
    chosen, tail = np.zeros((2, outcomes)), np.zeros((2, outcomes + 1))
    swapped = np.zeros((4, records, outcomes))
    rng = np.random.default_rng(seed)
    most = max(8, min(1024, _BLOCK_ENTRIES // records))
    for start in range(0, draws, most):
        count = min(most, draws - start)
        # In random order the first k are a uniform subset, the first of either part a uniform one.
        shuffled = rng.permuted(np.tile(np.arange(records), (count, 1)), axis=1)
        insider, outsider = shuffled[:, 0], shuffled[:, game.size]
        inside = np.zeros((records, count))
        np.put_along_axis(inside, shuffled[:, : game.size].T, 1.0, axis=0)
        logs = inside.T @ values + scores.base[order]
        logs -= logs.max(axis=1, keepdims=True)
        chances = np.exp(logs - np.log(np.exp(logs).sum(axis=1, keepdims=True)))
        tails = np.cumsum(chances[:, ::-1], axis=1)[:, ::-1]
        chosen += [chances.sum(axis=0), np.square(chances).sum(axis=0)]
        tail[:, :-1] += [tails.sum(axis=0), np.square(tails).sum(axis=0)]
        swapped += _swapped(values, inside, chances, insider, outsider)
        if progress is not None:
            progress(start + count, draws)
    # Blocks add in any order; every term went through at most a few sums of m terms.
    error = _score_error(scores, game.size) + sum_slack(draws + 2 * outcomes)
    once, twice = 1 + 1.01 * error, 1 + 2.1 * error
    difference, mass, squares, cross = swapped
    # (A - A')² from its three sums: their errors do not cancel, whatever the sums do.
    spread = squares - 2 * cross + 4 * (twice - 1) * squares
    return SwapMeans(
        draws,
        order,
        np.maximum(chosen[0] / draws * (2 - once) - _HIDDEN, 0.0),
        chosen[1] / draws * twice + _HIDDEN,
        np.minimum(tail[0] / draws * once + _HIDDEN, 1.0),
        np.minimum(tail[1] / draws * twice + _HIDDEN, 1.0),
        difference / draws,
        np.maximum(spread, 0.0) / draws * (1 + 8 * UNIT) + _HIDDEN,
        mass / draws * (4 * (once - 1)) + _HIDDEN,
    )


def _score_error(scores: CentredScores, size: int) -> float:
    """Relative error of a computed P(w given D): two scores of D, each a sum of k entries."""
    largest = float((np.abs(scores.values).sum(axis=0) + np.abs(scores.base)).max())
    off = float((scores.error + scores.base_error).max())
    # The sum over D, and two entries more for D'.
    exponent = 1.01 * (3 * off + (size + 64) * UNIT * largest)
    return math.expm1(2 * exponent) + (len(scores.base) + 64) * UNIT


def _swapped(
    scores: FloatArray,
    inside: FloatArray,
    own: FloatArray,
    insider: NDArray[np.intp],
    outsider: NDArray[np.intp],
) -> FloatArray:
    """Score every record's swap by matrix products: Σ(A - A'), Σ(A + A'), Σ(A² + A'²), ΣAA'.

    Swapping x for y tilts P(w) to P(w)e^{s_y(w)}·e^{-s_x(w)}/Z, which factors into a part of the
    subset, a part of the record and one normaliser per pair.
    """
    outcomes = scores.shape[1]
    difference = 2 * (inside @ own) - own.sum(axis=0)
    mass = np.tile(own.sum(axis=0), (len(scores), 1))
    squares = np.tile(np.square(own).sum(axis=0), (len(scores), 1))
    cross = np.zeros_like(scores)
    leave, join = own * np.exp(scores[outsider]), own * np.exp(-scores[insider])
    sides = ((1.0, leave, np.exp(-scores), inside), (-1.0, join, np.exp(scores), 1.0 - inside))
    for side, tilt, weight, concerned in sides:
        share = weight @ tilt.T
        np.divide(concerned, share, out=share)
        both = share @ np.hstack([tilt, tilt * own])
        other = weight * both[:, :outcomes]
        difference -= side * other
        mass += other
        cross += weight * both[:, outcomes:]
        np.square(share, out=share)
        squares += np.square(weight) * (share @ np.square(tilt))
    return np.stack([difference, mass, squares, cross])


# ── Leakage of the exponential mechanism about every record, from random subsets (X10) ────────────
#
# Bounds for all records, all outcomes and both directions at once (``proofs/sampled-pmp.md``).

#: Shares of the error probability: swaps of all records, lower bounds of outcomes, rare outcomes.
_SWAPS, _CHOSEN, _TAILS = Fraction(8, 10), Fraction(1, 10), Fraction(1, 10)
#: e^ε is only formed up to here; above it the cap without sampling is used.
_LARGEST_EXPONENT = 600.0
_HALVINGS = 60


def default_subsets(mechanism: ExponentialMechanism) -> int:
    """Return how many subsets a default run takes: well under a minute on two cores."""
    return int(min(max(4e9 / mechanism.losses.size, 2_000), 200_000))


def sampled_bounds(
    mechanism: ExponentialMechanism,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    subsets: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> RecordBounds:
    """Bound ε̃ and the success of every attack on every record, from random subsets.

    Guarantee: with probability at least ``confidence`` over the subsets drawn, for *all* records at
    once, both hockey-sticks at e^{pmp_epsilon} are at most ``delta``, and no attack on the record
    is right more often than ``success``.
    Theorem: X10, with the coupling of X1 (proofs/sampled-pmp.md); L24-D2, both ways.
    Assumes: the subsets are uniform, as numpy's generator gives them; the seed and the number of
    subsets were chosen before looking at results.
    Numerics: all sums in log space or of numbers of one scale, rounded to the safe side.
    Edge cases: never above ``mechanism.epsilon_population``.  At δ = 0 an outcome too rare to be
    measured keeps the bound that holds without sampling; with δ > 0 such outcomes go into δ as far
    as they fit.  Equal losses give ε̃ = 0.  Any k.  ε above about 60 gives the worst case inside the
    population, without sampling.

    Examples:
        >>> losses = np.abs(np.linspace(-1, 1, 40)[:, None] - np.array([[-0.5, 0.0, 0.5]]))
        >>> mechanism = ExponentialMechanism(losses, size=20, epsilon=1.0, sensitivity=0.1)
        >>> bounds = sampled_bounds(mechanism, subsets=20_000)
        >>> bounds.pmp_epsilon_upper < mechanism.epsilon_population, round(bounds.success_upper, 1)
        (True, 0.5)
    """
    level = fraction("confidence", confidence, open_left=True, open_right=True)
    slack = fraction("delta", delta, open_right=True)
    draws = default_subsets(mechanism) if subsets is None else whole_number("subsets", subsets)
    start = whole_number("seed", seed, at_least=0)
    if float(np.abs(mechanism.scores.values).max()) > _TAME:
        return worst_case_bounds(mechanism, delta=slack)
    means = swap_means(mechanism, draws, seed=start, progress=progress)
    return bounds_from_swaps(mechanism, means, delta=slack, confidence=level)


def bounds_from_swaps(
    mechanism: ExponentialMechanism, means: SwapMeans, *, delta: float, confidence: float
) -> RecordBounds:
    """Turn the means of a sampling run into bounds; see :func:`sampled_bounds`."""
    game = mechanism.game
    joining, leaving = _directions(mechanism, means, confidence)
    pure = np.minimum(
        np.maximum(joining.log_ratio(), leaving.log_ratio()), mechanism.epsilon_population
    )
    epsilon = pure if delta == 0.0 else _least_epsilon(joining, leaving, delta, pure)
    return RecordBounds(
        game,
        delta,
        epsilon,
        _sampled_success(game, joining, leaving, pure),
        method=f"{means.draws} random subsets",
        theorems=("X10", "X1", "L24-D2", "L24-L6"),
        assumptions=(
            "The subsets were drawn uniformly, and their number and seed were chosen beforehand.",
        ),
        confidence=confidence,
    )


@dataclass(frozen=True, eq=False)
class _Direction:
    """Bounds for one law over the other: "in" over "out", or with the roles exchanged.

    ``prior`` is the probability of the upper law, ``excess`` bounds (upper - lower) per record and
    outcome, ``chosen`` bounds p from below, ``tail`` the sums of p from the j-th outcome on from
    above, and ``caps`` ln(upper/lower) without sampling.
    """

    prior: float
    excess: FloatArray
    chosen: FloatArray
    tail: FloatArray
    caps: FloatArray

    def log_ratio(self) -> FloatArray:
        """Return the largest ln(upper/lower) over the outcomes, per record, from above."""
        # upper/lower = 1 + d/(p - πd): rises in d and falls in p (claim 3).
        rest = self.chosen - up(self.prior) * self.excess
        rest = rest - 4 * UNIT * (self.chosen + self.excess)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            ratio = np.where(rest > 0, self.excess / np.where(rest > 0, rest, 1.0), np.inf)
        return np.asarray(np.minimum(up_array(np.log1p(ratio), 8), self.caps).max(axis=1))

    def hockey_stick(self, epsilon: FloatArray) -> FloatArray:
        """Return Σ_w(upper - e^ε·lower)₊ per record, from above; ε from 0 to 600."""
        at = epsilon[:, None]
        growth = np.exp(at)
        weight = up_array((1 - self.prior) + self.prior * growth, 8)
        gain, loss = self.excess * weight, np.expm1(at) * self.chosen
        # upper - e^ε·lower = d(1-π+πe^ε) - (e^ε-1)p (claim 3), and 0 beyond the cap.
        terms = np.maximum(gain - loss + 8 * UNIT * (gain + loss), 0.0)
        terms = np.where(at >= self.caps, 0.0, terms)
        partial_sums = np.zeros((len(terms), terms.shape[1] + 1))
        np.cumsum(terms, axis=1, out=partial_sums[:, 1:])
        # The outcomes from the j-th on together: upper ≤ e^c·lower on them (claim 4).
        cap = self.caps.max(axis=1)[:, None]
        rare = -np.expm1(np.minimum(at - cap, 0.0))
        rare = rare / (self.prior + (1 - self.prior) * np.exp(-cap)) * self.tail
        total = partial_sums + rare
        slack = sum_slack(terms.shape[1])
        return np.asarray(np.minimum(1.0, up_array(total.min(axis=1) * (1 + slack), 32)))


def _directions(
    mechanism: ExponentialMechanism, means: SwapMeans, confidence: float
) -> tuple[_Direction, _Direction]:
    """Return the bounds of in over out and of out over in, at the confidence together."""
    records, outcomes = mechanism.losses.shape
    game, draws = mechanism.game, means.draws
    caps_in, caps_out = _caps(mechanism.scores, means.order)
    chosen = moment_lower(
        means.chosen, means.chosen_square, draws, log_error_shared(confidence, outcomes, _CHOSEN)
    )
    rare = log_error_shared(confidence, outcomes, _TAILS)
    tail = np.minimum(1.0, moment_upper(means.tail, means.tail_square, draws, 1.0, rare))
    tail[-1] = 0.0  # no outcome is left
    level = log_error_shared(confidence, 2 * records * outcomes, _SWAPS)

    def excess(sign: float, caps: FloatArray) -> FloatArray:
        # A swap moves the log-odds of w by at most the cap, so the chance by tanh(cap/4) (claim 2).
        reach = np.minimum(1.0, up_array(np.tanh(caps / 4), 16))
        mean = sign * means.difference + means.rounding
        return np.maximum(moment_upper(mean, means.square, draws, reach, level), 0.0)

    prior, other = game.size / game.population, (game.population - game.size) / game.population
    return (
        _Direction(prior, excess(1.0, caps_in), chosen, tail, caps_in),
        _Direction(other, excess(-1.0, caps_out), chosen, tail, caps_out),
    )


def _caps(scores: CentredScores, order: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
    """Bound ln(in/out) and ln(out/in) per record and outcome, whatever the subset (claim 2).

    With g = s_x' - s_x, ln P(w given D) - ln P(w given D') is at most max_v g(v) - g(w), and its
    negative at most g(w) - min_v g(v).  The maximum over x' is taken inside that over v.
    """
    values = scores.values[:, order]
    caps_in, caps_out = np.empty_like(values), np.empty_like(values)
    for index in range(len(order)):
        gap = values - values[:, index : index + 1]
        caps_in[:, index] = (gap.max(axis=0) - gap).max(axis=1)
        caps_out[:, index] = (gap - gap.min(axis=0)).max(axis=1)
    # Four scores, each off by no more than a sum over D, and three differences.
    room = 4 * float(scores.error.max()) + 64 * UNIT * float(np.abs(values).max())
    return up_array(caps_in + room), up_array(caps_out + room)


def _least_epsilon(
    joining: _Direction, leaving: _Direction, delta: float, pure: FloatArray
) -> FloatArray:
    """Return an ε per record at which both hockey-sticks were seen to be at most ``delta``."""

    def holds(epsilon: FloatArray) -> NDArray[np.bool_]:
        most = np.maximum(joining.hockey_stick(epsilon), leaving.hockey_stick(epsilon))
        return np.asarray(most <= delta)

    # ``pure`` is valid at δ = 0, hence at δ; every other value returned was evaluated.
    start = np.minimum(pure, _LARGEST_EXPONENT)
    reached = holds(start) | (pure <= _LARGEST_EXPONENT)
    good, bad = start, np.zeros_like(start)
    good = np.where(holds(bad), bad, good)
    for _ in range(_HALVINGS):
        middle = good / 2 + bad / 2
        fits = holds(middle)
        good, bad = np.where(fits, middle, good), np.where(fits, bad, middle)
    return np.where(reached, good, pure)


def _sampled_success(
    game: SubsetGame, joining: _Direction, leaving: _Direction, pure: FloatArray
) -> FloatArray:
    """Return the best accuracy at the prior k/N, per record, from above (I24-P2, L24-L6)."""
    rare, common = sorted((game.size, game.population - game.size))
    blind = double_above(Fraction(common, game.population))
    # With the rarer world as the upper law: max{π·up, (1-π)·low} = (1-π)·low + π(up - γ·low)₊.
    price = math.log1p((common - rare) / rare) * (1 - 16 * UNIT)
    one = joining if game.size == rare else leaving
    sides = [one] if 2 * rare != game.population else [joining, leaving]
    at = np.full(game.population, min(price, _LARGEST_EXPONENT))
    gain = np.minimum.reduce([side.hockey_stick(at) for side in sides])
    summed = up_array(blind + up(rare / game.population) * gain)
    # An ε-indistinguishable pair is guessed right 1/(1+e^{-ε}) of the time at most, or blindly.
    tilted = np.where(pure > 0, up_array(1 / (1 + np.exp(-pure)), 8), 0.5)
    return np.minimum(summed, tilted)


# ── The mechanism at any ε, and the ε for a target ────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class ExponentialSetting:
    """The exponential mechanism on the mean loss of a uniform subset (L24-D7).

    Where there are too many subsets to enumerate, ``subsets`` of them are drawn from ``seed``, and
    the bounds hold with ``confidence``.
    """

    mechanism: ExponentialMechanism
    delta: float
    confidence: float = 0.95
    subsets: int | None = None
    seed: int = 0
    progress: Progress | None = None

    def at(self, epsilon: float) -> ExponentialSetting:
        """Return the same setting at another ε."""
        return replace(self, mechanism=replace(self.mechanism, epsilon=epsilon))

    def best(self) -> RecordBounds:
        """Exact bounds where all subsets can be enumerated, else sampled ones."""
        if is_enumerable(self.mechanism.game):
            return exact_bounds(self.mechanism, delta=self.delta, progress=self.progress)
        return sampled_bounds(
            self.mechanism,
            delta=self.delta,
            confidence=self.confidence,
            subsets=self.subsets,
            seed=self.seed,
            progress=self.progress,
        )

    def epsilon_for(self, quantity: Target, target: float) -> float:
        """Largest ε found that meets the target, a short decimal.

        The first candidate is the ε at which the population's own worst case meets the target.
        Exact bounds are bisected; sampled ones are tested in a fixed order of growing ε until the
        first failure, which needs no correction for the number of tests.
        """
        # The population's worst case is linear in ε; a unit of it is what ε = 1 gives.
        unit = replace(self.mechanism, epsilon=1.0).epsilon_population

        def reached(epsilon: float) -> float:
            return self.at(epsilon).best().reached(quantity)

        if unit == 0.0:
            raise InputError(
                "the losses must differ between records; here the choice never depends on who was "
                "drawn, and every ε meets the target."
            )
        allowed = target
        if quantity == "target_success":
            blind = self.mechanism.game.blind
            if not target > blind:
                raise InputError(
                    f"target_success must be above the blind guess of {blind!r}, got {target!r}."
                )
            # An ε-indistinguishable pair is guessed right 1/(1 + e^-ε) of the time, or blindly.
            allowed = down(math.log1p((2 * target - 1) / (1 - target)), 8)
        start = float(significant(down(allowed / unit, 8), "lower"))
        if start <= 0:
            return 0.0
        if not is_enumerable(self.mechanism.game):
            trials = (float(significant(start * 1.25**step, "lower")) for step in range(1, 25))
            return fixed_order(lambda e: reached(e) <= target, trials) or start
        # ε falls as its inverse, the noise, grows; beyond 2⁴⁰ times the first one none is sought.
        scale = least_scale(lambda s: reached(1 / s) - target, 1 / start, floor=2.0**-40 / start)
        return short_decimal(1 / scale, "lower", lambda e: reached(e) <= target)

    def for_target(
        self, quantity: Target, target: float
    ) -> tuple[ExponentialSetting, RecordBounds]:
        """Return the setting at the ε found, and bounds there that hold although ε was chosen.

        Sampled subsets that chose ε prove only "the target is met"; half of the error
        probability goes to that claim and half to bounds from fresh subsets, so both hold together.
        """
        if is_enumerable(self.mechanism.game):
            exact = self.at(self.epsilon_for(quantity, target))
            return exact, exact.best()
        half = replace(self, confidence=shared_confidence(self.confidence, 2))
        setting = replace(half.at(half.epsilon_for(quantity, target)), seed=self.seed + 1)
        fresh = setting.best()
        name = "pmp_epsilon" if quantity == "target_pmp" else "success"
        met = {name: np.minimum(getattr(fresh, name), target)}
        return setting, replace(fresh, confidence=self.confidence, **met)

    def solve(
        self, asked: Literal["epsilon"] | Target, amount: float
    ) -> tuple[ExponentialSetting, Solution]:
        """Return the setting at this ε, or at one that meets the target, with its bounds."""
        if asked == "epsilon":
            setting = self.at(amount)
            bounds = setting.best()
        else:
            setting, bounds = self.for_target(asked, amount)

        def success(worst: float) -> float:
            return guarantee_from_epsilon_delta([(worst, 0.0)]).curve.accuracy(bounds.game.prior)

        epsilon = setting.mechanism.epsilon
        inside = min(epsilon, setting.mechanism.epsilon_population)
        practical = min(success(inside), bounds.success_upper)
        compared = Comparison(epsilon, success(epsilon), success(inside), practical)
        return setting, Solution(epsilon, inside, bounds, compared)

    def comparison(self, epsilon: float) -> Comparison:
        """Return the success at ε for the three attackers."""
        return self.solve("epsilon", epsilon)[1].compared
