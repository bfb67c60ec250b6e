"""Bounds for the exponential mechanism from random subsets (X10, X1).

One random subset serves every record: a member is swapped with a common random non-member, and a
non-member with a common random member (``proofs/sampled-pmp.md`` claim 1).  A swap only tilts the
probabilities of the release, so a few matrix products score all records on a block of subsets. The
bounds hold simultaneously for all records, all outcomes and both directions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from memberbound.curve.base import price_exponent
from memberbound.declarations import Progress
from memberbound.errors import fraction, whole_number
from memberbound.games import SubsetGame
from memberbound.numerics.means import log_error_shared, moment_lower, moment_upper
from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack, up_array
from memberbound.subset.enumeration import worst_case_bounds
from memberbound.subset.exponential import CentredScores, ExponentialMechanism
from memberbound.subset.record_bounds import RecordBounds

#: Number of entries of the largest temporary array (records × subsets of a block).
_BLOCK_ENTRIES = 1 << 21
#: Scores up to this size are exponentiated once per record; e^{4·30} and its square cannot
#: overflow. Scores are at most ε/2; for larger ones nothing is sampled, and the worst case in the
#: population is stated.
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
        tail: (m+1,) mean probability of the j-th and all later outcomes, from above.
        tail_square: (m+1,) mean of its square, from above.
        difference: (N, m) mean of A - A', to ``rounding``.
        square: (N, m) mean of (A - A')², from above.
        rounding: (N, m) bound on the error of ``difference``.
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
    """Draw subsets and average the effect of every record's swap.

    Numerics: the probability given a data set has a relative error of a few roundings per record's
    score; this and the rounding of the sums are added on the safe side of every mean.
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
        # In random order, the first k form a uniform subset, and the first of each part is uniform.
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
    # Blocks are added in any order; every term is in at most a few sums of m terms.
    error = _score_error(scores, game.size) + sum_slack(draws + 2 * outcomes)
    once, twice = 1 + 1.01 * error, 1 + 2.1 * error
    difference, mass, squares, cross = swapped
    # (A - A')² is computed from three sums, which may cancel while their errors do not.  Three of
    # the four shares cover them, and the last is far above the loss of these steps.
    spread = squares - 2 * cross + 4 * (twice - 1) * squares
    return SwapMeans(
        draws,
        order,
        np.maximum(chosen[0] / draws * (2 - once) - _HIDDEN, 0.0),
        chosen[1] / draws * twice + _HIDDEN,
        np.minimum(tail[0] / draws * once + _HIDDEN, 1.0),
        np.minimum(tail[1] / draws * twice + _HIDDEN, 1.0),
        difference / draws,
        np.maximum(spread, 0.0) / draws + _HIDDEN,
        mass / draws * (4 * (once - 1)) + _HIDDEN,
    )


def _score_error(scores: CentredScores, size: int) -> float:
    """Return the relative error of a computed P(w given D), from two sums of k scores."""
    largest = float((np.abs(scores.values).sum(axis=0) + np.abs(scores.base)).max())
    off = float((scores.error + scores.base_error).max())
    # The sum over D, and two more entries for D'.
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


# ── Bounds for all records from the means (``proofs/sampled-pmp.md``) ─────────────────────────────

#: Shares of the error probability for swaps of all records, lower bounds of outcomes, and rare
#: outcomes.
_SWAPS, _CHOSEN, _TAILS = Fraction(8, 10), Fraction(1, 10), Fraction(1, 10)
#: e^ε is computed only up to here; above it the cap without sampling is used.
_LARGEST_EXPONENT = 600.0
_HALVINGS = 60


def default_subsets(mechanism: ExponentialMechanism) -> int:
    """Return the default number of subsets, for well under a minute on two cores."""
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
    """Return bounds on ε̃ and on attack success for every record, from random subsets.

    Guarantee: with probability at least ``confidence`` over the subsets drawn, for *all* records
    simultaneously, both hockey-sticks at e^{pmp_epsilon} are at most ``delta``, and no attack on
    the record is right more often than ``success``.
    Theorem: X10, with the coupling of X1 (proofs/sampled-pmp.md); L24-D2, both ways.
    Assumes: numpy's generator gives uniform subsets; the seed and the number of subsets were chosen
    before seeing results.
    Numerics: all sums are in log space or over numbers of one scale, rounded to the safe side.
    Edge cases: never above ``mechanism.epsilon_population``.  At δ = 0 an outcome too rare to be
    measured keeps the bound that holds without sampling; with δ > 0 such outcomes are charged to δ
    as far as possible.  Equal losses give ε̃ = 0.  Any k is allowed.  ε above about 60 gives the
    worst case inside the population, without sampling.

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

    ``prior`` is the probability of the upper law.  ``excess`` bounds (upper - lower) per record and
    outcome, ``chosen`` bounds p from below, ``tail`` bounds the sums of p over the j-th and all
    later outcomes, and ``caps`` bounds ln(upper/lower) without sampling.
    """

    prior: float
    excess: FloatArray
    chosen: FloatArray
    tail: FloatArray
    caps: FloatArray

    def log_ratio(self) -> FloatArray:
        """Return, per record, an upper bound on ln(upper/lower) over the outcomes."""
        # upper/lower = 1 + d/(p - πd) increases in d and decreases in p (claim 3).  Four units of p
        # + d cover π and these steps.  Twelve more raise ln(1 + r), r the quotient, by 12r units,
        # which covers the division (one unit) and the logarithm (eight, or four in the last place).
        rest = self.chosen - self.prior * self.excess
        rest = rest - 16 * UNIT * (self.chosen + self.excess)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            ratio = np.where(rest > 0, self.excess / np.where(rest > 0, rest, 1.0), np.inf)
        return np.asarray(np.minimum(np.log1p(ratio), self.caps).max(axis=1))

    def hockey_stick(self, epsilon: FloatArray) -> FloatArray:
        """Return, per record, an upper bound on Σ_w(upper - e^ε·lower)₊, for ε from 0 to 600."""
        at = epsilon[:, None]
        gain = self.excess * ((1 - self.prior) + self.prior * np.exp(at))
        loss = np.expm1(at) * self.chosen
        # upper - e^ε·lower = d(1-π+πe^ε) - (e^ε-1)p (claim 3), and 0 beyond the cap.  The error of
        # the gain is twelve units, that of the loss nine, and that of the difference two of both.
        terms = np.maximum(gain - loss + 16 * UNIT * (gain + loss), 0.0)
        terms = np.where(at >= self.caps, 0.0, terms)
        partial_sums = np.zeros((len(terms), terms.shape[1] + 1))
        np.cumsum(terms, axis=1, out=partial_sums[:, 1:])
        # For the j-th and all later outcomes together, upper ≤ e^c·lower (claim 4).
        cap = self.caps.max(axis=1)[:, None]
        rare = -np.expm1(np.minimum(at - cap, 0.0))
        rare = rare / (self.prior + (1 - self.prior) * np.exp(-cap)) * self.tail
        # Covers the sums, and at most 24 units of the rare outcomes' bound.
        total = (partial_sums + rare).min(axis=1) * (1 + sum_slack(terms.shape[1] + 16))
        return np.asarray(np.minimum(1.0, total))


def _directions(
    mechanism: ExponentialMechanism, means: SwapMeans, confidence: float
) -> tuple[_Direction, _Direction]:
    """Return the bounds of in over out and of out over in, jointly at the confidence."""
    records, outcomes = mechanism.losses.shape
    game, draws = mechanism.game, means.draws
    caps_in, caps_out = _caps(mechanism.scores, means.order)
    chosen = moment_lower(
        means.chosen, means.chosen_square, draws, log_error_shared(confidence, outcomes, _CHOSEN)
    )
    rare = log_error_shared(confidence, outcomes, _TAILS)
    tail = moment_upper(means.tail, means.tail_square, draws, 1.0, rare)
    tail[-1] = 0.0  # there is no outcome after the last
    level = log_error_shared(confidence, 2 * records * outcomes, _SWAPS)

    def excess(sign: float, caps: FloatArray) -> FloatArray:
        # A swap changes the log-odds of w by at most the cap, so its probability by tanh(cap/4)
        # (claim 2).
        reach = np.minimum(1.0, up_array(np.tanh(caps / 4), 16))
        mean = sign * means.difference + means.rounding
        return np.maximum(moment_upper(mean, means.square, draws, reach, level), 0.0)

    prior, other = game.size / game.population, (game.population - game.size) / game.population
    return (
        _Direction(prior, excess(1.0, caps_in), chosen, tail, caps_in),
        _Direction(other, excess(-1.0, caps_out), chosen, tail, caps_out),
    )


def _caps(scores: CentredScores, order: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
    """Return bounds on ln(in/out) and ln(out/in) per record and outcome, for any subset (claim 2).

    With g = s_x' - s_x, ln P(w given D) - ln P(w given D') is at most max_v g(v) - g(w), and its
    negative at most g(w) - min_v g(v).  The maximum over x' is taken inside that over v.
    """
    values = scores.values[:, order]
    caps_in, caps_out = np.empty_like(values), np.empty_like(values)
    for index in range(len(order)):
        gap = values - values[:, index : index + 1]
        caps_in[:, index] = (gap.max(axis=0) - gap).max(axis=1)
        caps_out[:, index] = (gap - gap.min(axis=0)).max(axis=1)
    # Each of the four scores has at most the error of a sum over D.  That error includes at least
    # eight units of the largest score, of which four are for the scores, so the four have sixteen
    # units left; three differences and the sum below need twelve.
    room = 4 * float(scores.error.max())
    return caps_in + room, caps_out + room


def _least_epsilon(
    joining: _Direction, leaving: _Direction, delta: float, pure: FloatArray
) -> FloatArray:
    """Return an ε per record at which both hockey-sticks were verified to be at most ``delta``."""

    def holds(epsilon: FloatArray) -> NDArray[np.bool_]:
        most = np.maximum(joining.hockey_stick(epsilon), leaving.hockey_stick(epsilon))
        return np.asarray(most <= delta)

    # ``pure`` is valid at δ = 0, hence at δ; every other returned value was evaluated.
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
    """Return, per record, an upper bound on accuracy at the prior k/N (I24-P2, L24-L6)."""
    pi, out = game.prior, game.population - game.size
    one = joining if game.size < out else leaving
    sides = [one] if game.size != out else [joining, leaving]
    # With the rarer world as the upper law: max{π·up, (1-π)·low} = (1-π)·low + π(up - γ·low)₊.
    at = np.full(game.population, price_exponent(pi, 1.0)[0])
    gain = np.minimum.reduce([side.hockey_stick(at) for side in sides])
    # Three roundings, and that of k/N, which changes the accuracy by at most itself.
    summed = up_array(max(pi, 1 - pi) + min(pi, 1 - pi) * gain)
    # The success on an ε-indistinguishable pair is at most 1/(1+e^{-ε}), or that of the blind
    # guess.
    tilted = np.where(pure > 0, up_array(1 / (1 + np.exp(-pure))), 0.5)
    return np.minimum(summed, tilted)
