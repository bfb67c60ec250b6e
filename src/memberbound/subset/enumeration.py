"""Enumerate all subsets: both laws of the exponential mechanism for each record (L24-P9).

The population is cut into two halves.  A data set consists of a subset A of the first half and a
subset B of the second, and its weights are products, u_A(w)·v_B(w).  For all A of one size and all
B of the complementary size, the normalising sums are one matrix product Z = (u·g)vᵀ.  With R = 1/Z,
the sums over all B, Σ_B P(w given A∪B) ∝ u_A(w)·(Rv)_A(w), are another one; likewise over A.  It
remains to sum, for each record, over the subsets that contain it.  All sums have non-negative
terms, so relative errors stay relative.  The base of the scores, g, is kept separate, so that
ratios are equally precise for candidates of any probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from memberbound.curve import PolygonCurve
from memberbound.declarations import Progress
from memberbound.dp import guarantee_from_epsilon_delta
from memberbound.errors import InputError, fraction
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import SMALLEST, UNIT, FloatArray, sum_slack
from memberbound.subset.exponential import CentredScores, ExponentialMechanism
from memberbound.subset.record_bounds import RecordBounds
from memberbound.threads import one_thread

#: Maximum number of subsets, and of records, for enumeration; C(28, 14) is 40 116 600.
_MOST_SUBSETS, _MOST_RECORDS = 45_000_000, 64
#: Largest exponent T of the matrix products: R·v ≤ e^{2T}, and e^600 is far enough from overflow.
#: Beyond it (ε of a hundred or more) the worst case in the population is stated.
_REACH = 300.0
#: Number of entries of the largest array.
_ENTRIES = 1 << 21


def is_enumerable(game: SubsetGame) -> bool:
    """Return whether all subsets can be enumerated."""
    few = game.population <= _MOST_RECORDS
    return few and math.comb(game.population, game.size) <= _MOST_SUBSETS


def _membership(records: int, size: int) -> FloatArray:
    """Return all subsets of this size as rows of zeros and ones."""
    count = math.comb(records, size)
    chosen = np.array(list(combinations(range(records), size)), dtype=np.intp).reshape(count, size)
    table = np.zeros((count, records))
    np.put_along_axis(table, chosen, 1.0, axis=1)
    return table


def _sums(
    game: SubsetGame, scores: CentredScores, progress: Progress | None
) -> tuple[FloatArray, FloatArray, int]:
    """Return the sums of P(w given D)/g_w over the data sets with, and without, every record.

    Also return the maximum number of terms of a sum.
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
            # Sum over the sets without a record directly, because subtracting from the total would
            # cancel.
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
    ln(in/out) is within ``ratio_error`` (N, m), is computed without them, and is at most ``limit``
    in absolute value (L24-L8 inside the population).  Both errors also cover one addition.
    """

    game: SubsetGame
    log_in: FloatArray
    log_out: FloatArray
    error: FloatArray
    ratio: FloatArray
    ratio_error: FloatArray
    limit: float

    def pmp_epsilon(self) -> FloatArray:
        """Upper bound per record on max |ln(in/out)| over the outcomes (L24-P9, both sides)."""
        reach = (np.abs(self.ratio) + self.ratio_error).max(axis=1)
        return np.asarray(np.minimum(reach, self.limit))

    def curve(self, record: int) -> PolygonCurve:
        """Return an upper bound on the ROC of the best attacker on one record."""
        ratio, error = self.ratio[record], self.ratio_error[record]
        heavier = np.maximum(self.log_in[record], self.log_out[record]) + self.error
        # Raising both the heavier mass and |ln ratio| raises both hockey-sticks.
        heavy = np.clip(np.exp(heavier), SMALLEST, 1.0)
        size = np.minimum(np.abs(ratio) + error, self.limit)
        # If rounding leaves the sign undetermined, count the outcome in both directions.
        doubt = np.abs(ratio) <= error
        return PolygonCurve(
            np.concatenate([np.copysign(size, ratio), -np.copysign(size, ratio)[doubt]]),
            np.concatenate([heavy, heavy[doubt]]),
        )


def subset_laws(
    mechanism: ExponentialMechanism, *, progress: Progress | None = None
) -> SubsetLaws | None:
    """Enumerate all subsets; return both laws of every record with error bounds.

    Guarantee: the true logarithms lie within the stated errors.
    Theorem: L24-P9, X10.
    Numerics: error bounds are rigorous.  They cover the exponents (``CentredScores.error``), the
        normalising sums, and sums of non-negative terms in any order, and are typically 1e-14 to
        1e-12.
    Edge cases: more than 45 million subsets are rejected; None if exponents are too large.
    """
    game, scores = mechanism.game, mechanism.scores
    if not is_enumerable(game):
        raise InputError(
            f"the number of subsets must be at most {_MOST_SUBSETS:,}, of at most {_MOST_RECORDS} "
            f"records, for exact enumeration, got C({game.population}, {game.size}). Use sampling."
        )
    if scores.reach > _REACH:
        return None
    with one_thread:  # threads slow down products of small matrices
        inside, outside, terms = _sums(game, scores, progress)
    inside, outside = np.log(inside), np.log(outside)
    # A candidate with a base 2T + 100 below the best has a share of at most e^-100 in Z, for any
    # choice of the set, so the error of its base does not matter.
    visible = np.minimum(scores.base_error, 6 * UNIT * (2 * scores.reach + 100))
    # Errors of at most three exponentials (two units in the last place each), products and a
    # quotient.
    steps = 16 * UNIT
    of_z = float((scores.error + visible).max()) + steps + sum_slack(len(scores.base))
    error = 1.01 * (scores.error + of_z + steps + sum_slack(terms))
    total, size = game.population, game.size
    odds = math.log((total - size) / size)
    length = np.abs(inside) + np.abs(outside) + abs(odds)
    counts = [math.log(math.comb(total - 1, size - 1)), math.log(math.comb(total - 1, size))]
    log_in, log_out = inside + scores.base - counts[0], outside + scores.base - counts[1]
    # Two logarithms of two units each and two additions: four units of each part.  The rest covers
    # adding the error, and the exponential (two units) in SubsetLaws.curve.
    added = 8 * UNIT * (np.abs(scores.base) + length.max(axis=0) + sum(counts) + 1)
    return SubsetLaws(
        game,
        log_in,
        log_out,
        error + scores.base_error + added,
        inside - outside + odds,
        # Three logarithms and two additions: four units of the length, and one of 1; the rest
        # covers adding the error.
        2 * error + 6 * UNIT * length,
        mechanism.epsilon_population,
    )


def exact_bounds(
    mechanism: ExponentialMechanism,
    *,
    delta: float = 0.0,
    progress: Progress | None = None,
) -> RecordBounds:
    """Return ε̃ and attack success for every record, from all subsets of the population.

    Guarantee: that of :class:`RecordBounds`.
    Theorem: L24-P9 with both signs of the logarithm (erratum), L24-D2, I24-P2; X10.
    Assumes: D is a uniform subset of k records; the losses are the doubles given.
    Numerics: never below the truth; above it by the bound on rounding (about 1e-12); ε̃ is at most
        ``mechanism.epsilon_population`` (L24-L8).
    Edge cases: at ε = 0, or if all records have the same losses, ε̃ is 0 exactly.  More than
        45 million subsets are rejected.  Exponents beyond the range of doubles (ε of a hundred or
        more) give the worst case inside the population, ``mechanism.epsilon_population``.

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
    # The curve's accuracy is rounded up by four more units than necessary, and one of them covers
    # the rounding of k/N; without a raised term it is the blind guess (RecordBounds).
    success = np.array([curve.accuracy(game.prior) for curve in curves])
    return _certified(game, allowed, np.asarray(at_delta), success, "exact enumeration")


def worst_case_bounds(mechanism: ExponentialMechanism, *, delta: float) -> RecordBounds:
    """Return the bounds of ``epsilon_population``, which hold for every record (L24-L8)."""
    game, limit = mechanism.game, mechanism.epsilon_population
    curve = guarantee_from_epsilon_delta([(limit, 0.0)]).curve
    epsilon = np.full(game.population, curve.epsilon(delta) if delta else limit)
    success = np.full(game.population, curve.accuracy(game.prior))
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
