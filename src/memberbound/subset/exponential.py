"""The exponential mechanism over a finite set of candidates and a decomposable loss (L24-D7).

The loss of a data set is the mean of its records' losses, so candidate w is released with
probability proportional to a product over the records: P(w given D) ∝ exp(Σ_{x∈D} score(x, w)) with
score = -ε·loss/(2Δk).  What this says about the records of a population is computed here from every
subset (L24-P9, two-sided; X10), and in :mod:`.sampled` where there are too many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memberbound.curve import PolygonCurve, TradeoffCurve
from memberbound.dp import guarantee_from_epsilon_delta
from memberbound.errors import InputError, fraction, nonnegative, positive, whole_number
from memberbound.games import SubsetGame
from memberbound.numerics import one_thread
from memberbound.numerics.rounding import SMALLEST, UNIT, FloatArray, down, sum_slack, up
from memberbound.subset.profile import Progress, checked_table
from memberbound.subset.record_bounds import RecordBounds

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

    Examples:
        >>> l2_losses([[0.0, 0.0], [3.0, 4.0]], [[0.0, 0.0]]).tolist()
        [[0.0], [5.0]]
    """
    rows, targets = checked_table("records", records), checked_table("candidates", candidates)
    if rows.shape[1] != targets.shape[1]:
        raise InputError(
            f"candidates must be of the records' dimension {rows.shape[1]}, "
            f"got {targets.shape[1]}. Give one column per column of the records."
        )
    distances = np.empty((len(rows), len(targets)))
    for place, target in enumerate(targets):
        distances[:, place] = np.linalg.norm(rows - target, axis=1)
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
            these doubles as they stand.
        size: k, the number of records in a data set.
        epsilon: ε of L24-D7; 0 releases a uniform candidate.
        sensitivity: Δ of L24-D7, over all data sets and not only those inside the population.

    Edge cases: records with equal losses are told apart by their row.  Losses that move the mean by
    more than ``sensitivity`` inside the population are refused, because ε-DP would be false; so are
    losses and ε of such a size that ε/(2Δk) or ε(X) leaves the range of doubles.

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
        object.__setattr__(
            self,
            "sensitivity",
            positive(
                "sensitivity", self.sensitivity, "A loss that never moves needs no mechanism."
            ),
        )
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

    # ---- construction ---------------------------------------------------------------------

    @classmethod
    def calibrated_to_population(
        cls, losses: ArrayLike, *, size: int, epsilon_population: float, sensitivity: float
    ) -> ExponentialMechanism:
        """Return the mechanism whose ε(X) is the given one: ε = ε(X)·Δ/Δ(X).

        This is how L24 sets its figures.
        Numerics: ε is rounded down, so that ``epsilon_population`` read back does not exceed it.
        """
        target = nonnegative("epsilon_population", epsilon_population)
        blank = cls(np.asarray(losses, dtype=np.float64), size, 0.0, sensitivity)
        if blank.population_sensitivity == 0.0:
            raise InputError(
                "losses must differ between records to calibrate to them; all rows are equal, so "
                "the release says nothing about anybody at any ε."
            )
        scale = blank.sensitivity / blank.population_sensitivity
        return replace(blank, epsilon=max(0.0, down(target * scale, 16)))

    # ---- what it is -----------------------------------------------------------------------

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
        moved = float(spread / self.size)
        # Exact where it is a double, so that Δ = Δ(X) can be given.
        return moved if Fraction(moved) * self.size >= spread else math.nextafter(moved, math.inf)

    @property
    def epsilon_population(self) -> float:
        """ε(X) = ε·Δ(X)/Δ, from above: the DP parameter between data sets inside X (L24-L8)."""
        return up(self.epsilon * (self.population_sensitivity / self.sensitivity), 4)

    def log_probabilities(self, members: NDArray[np.intp]) -> FloatArray:
        """Return ln P(w given D), (B, m), for B data sets of row numbers, (B, k); to rounding."""
        total = self.scores.values[members].sum(axis=1) + self.scores.base
        total -= total.max(axis=1, keepdims=True)
        return np.asarray(total - np.log(np.exp(total).sum(axis=1, keepdims=True)))


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
    """Who is in which subset of this size, as zeros and ones, a row per subset."""
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


# ---- the laws -----------------------------------------------------------------------------------


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
        # Where rounding leaves the sign in doubt the outcome counts in both directions.
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
    Assumes: D is a uniform subset of k of the N records; the losses are the doubles given.
    Numerics: errors are counted, not estimated: the exponents' (``CentredScores.error``), those of
        the normalising sums, and those of sums of non-negative terms in any order.  Typically 1e-14
        to 1e-12.
    Edge cases: more than 45 million subsets are refused; None where exponents are too large.

    Examples:
        >>> losses = [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
        >>> mechanism = ExponentialMechanism(losses, 2, 4 * math.log(2), 1.0)
        >>> round(math.exp(subset_laws(mechanism).ratio[0, 0]), 12)  # 1/3 against 1/2
        0.666666666667
    """
    game, scores = mechanism.game, mechanism.scores
    if not is_enumerable(game):
        raise InputError(
            f"the number of subsets must be at most {_MOST_SUBSETS:,}, of at most {_MOST_RECORDS} "
            f"records, for exact enumeration, got C({game.population}, {game.size}). Use sampling."
        )
    if scores.reach > _REACH:
        return None
    with one_thread("blas"):  # products of small matrices, which threads only slow down
        inside, outside, terms = _sums(game, scores, progress)
    inside, outside = np.log(inside), np.log(outside)
    # A candidate whose base is 2T + 100 below the best has a share of at most e^-100 in Z, however
    # the set is chosen; what its base is off does not show.
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

    Guarantee: for every record x, both hockey-sticks between P_in,x and P_out,x at e^ε̃ are at most
    ``delta``, and no attack on x is right more often than ``success`` at the prior k/N.
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
    return RecordBounds(
        game,
        allowed,
        np.asarray(at_delta),
        np.array([_success(curve, game) for curve in curves]),
        "exact enumeration",
        _THEOREMS,
        _assumptions(game),
    )


def worst_case_bounds(mechanism: ExponentialMechanism, *, delta: float) -> RecordBounds:
    """Return the bounds of ``epsilon_population``, which hold for every record (L24-L8)."""
    game, limit = mechanism.game, mechanism.epsilon_population
    curve = guarantee_from_epsilon_delta([(limit, 0.0)]).curve
    return RecordBounds(
        game,
        delta,
        np.full(game.population, curve.epsilon(delta) if delta else limit),
        np.full(game.population, _success(curve, game)),
        "worst case inside the population",
        _THEOREMS,
        _assumptions(game),
    )


_THEOREMS = ("L24-D7", "L24-L8", "L24-P9", "I24-P2", "X10")


def _assumptions(game: SubsetGame) -> tuple[str, ...]:
    return (
        f"The data set is a uniform subset of {game.size} of the {game.population} records.",
        "The release is one draw of the exponential mechanism with exactly these losses.",
    )


def _success(curve: TradeoffCurve, game: SubsetGame) -> float:
    """How often an attack is right; k/N may be off by a rounding, and moves it no faster."""
    success = curve.accuracy(game.prior)
    return success if 2 * game.size == game.population else up(success)
