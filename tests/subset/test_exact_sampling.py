"""Every step from sampled means to bounds, at given doubles: never below the formula's exact value.

The oracle works in 40 digits on exactly the doubles that the step is given, so that what a step
adds for rounding is seen, be it one unit in the last place.
"""

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest

from memberbound.games import SubsetGame
from memberbound.subset import sampling
from memberbound.subset.enumeration import worst_case_bounds
from memberbound.subset.exponential import CentredScores, ExponentialMechanism
from memberbound.subset.sampling import (
    SwapMeans,
    _Direction,
    _sampled_success,
    sampled_bounds,
    swap_means,
)

F = Fraction
UNIT = 2.0**-53


def exactly(numbers):
    return [mp.mpf(number) for number in np.ravel(numbers).tolist()]


def direction(rng, records, outcomes, prior, *, excess=1e-2, chosen=1.0, caps=30.0):
    """Random bounds on d and p of every record, and tails of p; bounds on p may be far below it."""
    d = rng.uniform(0.1, 1, (records, outcomes)) * excess
    p = rng.uniform(0.1, 1, outcomes)
    tail = np.append(np.cumsum(p[::-1])[::-1] / p.sum() * rng.uniform(0.5, 1), 0.0)
    return _Direction(prior, d, chosen * p / p.sum(), tail, np.full((records, outcomes), caps))


def true_ratio(of, prior, x):
    """max_w ln(1 + d/(p - πd)), at most the cap."""
    best = mp.ninf
    for d, p, cap in zip(*map(exactly, (of.excess[x], of.chosen, of.caps[x])), strict=True):
        rest = p - prior * d
        best = max(best, min(cap, mp.log1p(d / rest) if rest > 0 else mp.inf))
    return best


def true_stick(of, prior, x, growth):
    """min_j of claim 3 for the outcomes before the j-th and claim 4 for the others together."""
    caps = exactly(of.caps[x])
    sums, totals = mp.mpf(0), []
    spread = mp.exp(-max(caps))
    share = max(0, 1 - growth * spread) / (prior + (1 - prior) * spread)
    steps = zip(*map(exactly, (of.excess[x], of.chosen)), caps, exactly(of.tail[:-1]), strict=True)
    for d, p, cap, tail in steps:
        totals.append(sums + share * tail)
        if growth < mp.exp(cap):
            sums += max(0, d * (1 - prior + prior * growth) - (growth - 1) * p)
    return min([1, *totals, sums + share * mp.mpf(of.tail[-1])])


def test_ratios_are_never_below_the_formula():
    rng = np.random.default_rng(4)
    with mp.workdps(40):
        for size in (1, 3, 6):
            for scale in (1e-12, 1e-3, 0.3, 5.0):
                of = direction(rng, 60, 2, size / 7, excess=scale)
                found = of.log_ratio()
                for x in range(60):
                    truth = true_ratio(of, mp.mpf(size) / 7, x)
                    assert truth <= found[x] <= truth * (1 + mp.mpf(1e-12)) + mp.mpf(1e-13)


def test_a_ratio_without_a_lower_bound_is_the_cap():
    of = _Direction(0.5, np.array([[0.2], [0.0]]), np.array([0.1]), np.array([1.0, 0.0]),
                    np.array([[3.0], [2.0]]))  # fmt: skip
    assert of.log_ratio().tolist() == [3.0, 0.0]
    # p - πd is then found to be 0 exactly, and in/out may be anything.
    of = _Direction(0.5, np.array([[1 - 16 * UNIT]]), np.array([0.5 + 16 * UNIT]),
                    np.array([1.0, 0.0]), np.array([[3.0]]))  # fmt: skip
    assert of.log_ratio().tolist() == [3.0]


@pytest.mark.parametrize("outcomes", [1, 2, 5])
def test_sticks_are_never_below_the_formula(outcomes):
    rng = np.random.default_rng(outcomes)
    with mp.workdps(40):
        for size in (1, 3, 6):
            for epsilon, cap in ((0.0, 30.0), (0.5, 1.0), (2.0, 2.5), (5.0, 6.0), (0.9, 1.0)):
                # Some bounds are best from single outcomes, others from all of them together.
                excess = np.where(np.arange(40) % 2, 1e-2, 5.0)[:, None]
                of = direction(rng, 40, outcomes, size / 7, excess=excess, caps=cap)
                found = of.hockey_stick(np.full(40, epsilon))
                for x in range(40):
                    truth = true_stick(of, mp.mpf(size) / 7, x, mp.exp(mp.mpf(epsilon)))
                    assert truth <= found[x] <= truth * (1 + mp.mpf(1e-12)) + mp.mpf(1e-14)


def test_sticks_hold_where_gain_and_loss_nearly_cancel():
    rng = np.random.default_rng(6)
    for epsilon, size in ((0.3, 1), (2.0, 3), (9.0, 6)):
        of = direction(rng, 200, 1, size / 7)
        weight = 1 - size / 7 + size / 7 * math.exp(epsilon)
        gain = math.expm1(epsilon) * of.chosen / weight
        of = _Direction(of.prior, gain * (1 + rng.integers(-4, 9, (200, 1)) * 4 * UNIT),
                        of.chosen, np.array([1.0, 0.0]), of.caps)  # fmt: skip
        found = of.hockey_stick(np.full(200, epsilon))
        with mp.workdps(40):
            prior, growth = mp.mpf(size) / 7, mp.exp(mp.mpf(epsilon))
            for x in range(200):
                assert found[x] >= true_stick(of, prior, x, growth)


@pytest.mark.parametrize(("records", "size"), [(201, 100), (201, 101), (200, 100), (99, 1), (7, 6)])
def test_success_is_never_below_the_formula(records, size):
    rng, game = np.random.default_rng(records + size), SubsetGame(records, size)
    rare, common = sorted((size, records - size))
    how = {"excess": 0.1, "chosen": 1e-6}
    joining = direction(rng, records, 2, size / records, **how)
    leaving = direction(rng, records, 2, (records - size) / records, **how)
    found = sampling._sampled_success(game, joining, leaving, np.full(records, 40.0))
    with mp.workdps(40):
        prior, growth = mp.mpf(rare) / records, mp.mpf(common) / rare
        chosen = [joining] if size < common or size == 1 else [leaving]
        for x in range(records):
            sides = [joining, leaving] if rare == common else chosen
            gain = min(true_stick(side, prior, x, growth) for side in sides)
            truth = (common + rare * gain) / records
            assert truth <= found[x] <= truth + mp.mpf(1e-14)


def test_success_of_an_indistinguishable_pair_is_never_below_the_formula():
    rng, records = np.random.default_rng(8), 400
    pure = 10 ** rng.uniform(-8, 1.5, records)
    one = np.ones((records, 1))
    all_of_it = _Direction(0.5, 2 * one, np.zeros(1), np.array([1.0, 0.0]), 40 * one)
    found = sampling._sampled_success(SubsetGame(records, 200), all_of_it, all_of_it, pure)
    with mp.workdps(40):
        for value, epsilon in zip(found.tolist(), exactly(pure), strict=True):
            truth = 1 / (1 + mp.exp(-epsilon))
            assert truth <= value <= truth + mp.mpf(1e-14)


# ---- from means to bounds ------------------------------------------------------------------------


def means_of(mechanism, *, draws, difference, rounding, square):
    """Means of a run as given, the same for every record and outcome."""
    shape = mechanism.losses.shape
    one, many = np.ones(shape[1]), np.ones(shape)
    return SwapMeans(
        draws, np.arange(shape[1]), 0.5 * one, 0.25 * one, np.linspace(1, 0, shape[1] + 1),
        np.linspace(1, 0, shape[1] + 1), difference * many, square * many, rounding * many,
    )  # fmt: skip


@pytest.fixture(scope="module")
def mechanism():
    losses = np.random.default_rng(3).uniform(0, 1, (20, 4))
    return ExponentialMechanism(losses, 10, 8.0, 0.1)


@pytest.mark.parametrize("sign", [1, -1])
def test_what_a_mean_may_be_off_by_is_added_in_both_directions(mechanism, sign):
    means = means_of(mechanism, draws=10**14, difference=sign * 0.02, rounding=0.01, square=1e-3)
    for of, way in zip(sampling._directions(mechanism, means, 0.95), (1, -1), strict=True):
        least = np.minimum(max(way * sign * 0.02 + 0.01, 0.0), np.tanh(of.caps / 4))
        assert (of.excess >= least).all()
        assert (of.excess <= least + 1e-5).all()
        assert (of.tail <= np.linspace(1, 0, 5) + 1e-5).all()


def test_one_draw_proves_no_more_than_the_cap(mechanism):
    """|P - P'| ≤ tanh(cap/4), the cap as the double that it is."""
    means = means_of(mechanism, draws=1, difference=0.0, rounding=0.0, square=1.0)
    for of in sampling._directions(mechanism, means, 0.95):
        with mp.workdps(40):
            for excess, cap in zip(of.excess.ravel().tolist(), exactly(of.caps), strict=True):
                truth = mp.tanh(cap / 4)
                assert truth <= excess <= truth * (1 + mp.mpf(1e-14))


@pytest.mark.parametrize("seed", range(6))
def test_caps_are_never_below_those_of_the_exact_losses(seed):
    """Also where one candidate has scores of 0 alone, hence none that rounding could move."""
    rng = np.random.default_rng(seed)
    losses = rng.uniform(0, 1, (6, 3))
    if seed % 2:
        losses = np.outer(rng.uniform(0, 1, 6), [-1.0, 0.0, 1.0])
    size, epsilon = 1 + seed % 3, 3.7
    mechanism = ExponentialMechanism(losses, size, epsilon, 2.2)
    rate = F(epsilon) / (2 * F(2.2) * size)
    score = [[-rate * F(v) for v in row] for row in losses.tolist()]
    caps_in, caps_out = sampling._caps(mechanism.scores, np.arange(3))
    for x in range(6):
        gaps = [[b - a for a, b in zip(score[x], other, strict=True)] for other in score]
        for w in range(3):
            assert F(caps_in[x, w]) >= max(max(g) - g[w] for g in gaps)
            assert F(caps_out[x, w]) >= max(g[w] - min(g) for g in gaps)
            assert caps_in[x, w] <= max(float(max(g) - g[w]) for g in gaps) + 1e-13


def test_epsilon_at_a_small_delta_is_no_larger_than_at_zero(mechanism):
    means = swap_means(mechanism, 300)
    pure = sampling.bounds_from_swaps(mechanism, means, delta=0.0, confidence=0.9).pmp_epsilon
    small = sampling.bounds_from_swaps(mechanism, means, delta=1e-12, confidence=0.9).pmp_epsilon
    assert (small <= pure).all()


def test_scores_beyond_the_sampler_give_the_worst_case():
    losses = np.random.default_rng(1).uniform(0, 1, (6, 3))
    losses[0] = 0.0
    mechanism = ExponentialMechanism(losses, 3, 400.0, 1 / 3)
    assert np.abs(mechanism.scores.values).min() < 30 < np.abs(mechanism.scores.values).max()
    found, worst = sampled_bounds(mechanism, subsets=10), worst_case_bounds(mechanism, delta=0.0)
    assert found.confidence == worst.confidence == 1.0
    assert found.pmp_epsilon.tolist() == worst.pmp_epsilon.tolist()


# ---- what means may be off by --------------------------------------------------------------------


def scores_of(values, base, *, error=0.0):
    return CentredScores(values, base, 1.0, np.full(values.shape[1], error), np.zeros(len(base)))


def test_each_source_of_error_of_a_probability_is_counted():
    """P ∝ e^score: both of its parts, two scores that are off, k + 2 additions, m terms."""
    still = scores_of(np.zeros((5, 1000)), np.zeros(1000))
    assert sampling._score_error(still, 2) >= 1000 * UNIT
    known = scores_of(np.full((5, 3), 1e6), np.zeros(3))
    assert sampling._score_error(known, 2) >= math.expm1(2 * (2 + 2) * UNIT * 5e6)
    off = scores_of(np.zeros((5, 3)), np.zeros(3), error=1e-3)
    assert sampling._score_error(off, 2) >= math.expm1(2 * 3e-3)


def test_adding_many_draws_is_counted(mechanism):
    """Adding n probabilities loses n units of their sum; that of A and A' is twice that of p."""
    means = swap_means(replace(mechanism, epsilon=1e-6), 20_000)
    assert (means.rounding.min(axis=0) >= 1.9 * 20_000 * UNIT * means.chosen).all()


@mp.workdps(40)
def test_mean_squares_are_from_above(mechanism):
    """The same subsets with probabilities of 40 digits: squares count their errors twice."""
    game, scores, draws = mechanism.game, mechanism.scores, 8
    found = swap_means(mechanism, draws, seed=3)
    every = np.tile(np.arange(game.population), (draws, 1))
    subsets = np.random.default_rng(3).permuted(every, axis=1)[:, : game.size]
    squares = np.zeros((2, len(found.order)), dtype=object)
    for subset in subsets:
        # Rows of the scores are outcomes in the order of the sampler.
        weights = [
            mp.exp(mp.fsum(exactly(scores.values[subset, w])) + mp.mpf(scores.base[w]))
            for w in found.order.tolist()
        ]
        chances = np.array([weight / mp.fsum(weights) for weight in weights])
        squares += [chances**2, np.cumsum(chances[::-1])[::-1] ** 2]
    for exact, bound in zip(squares, (found.chosen_square, found.tail_square[:-1]), strict=True):
        for truth, value in zip(exact.tolist(), bound.tolist(), strict=True):
            assert truth / draws <= value or value == 1.0
            assert value <= truth / draws * (1 + mp.mpf("1e-11"))


def test_accuracies_at_the_prior_are_from_above():
    """max(π, 1 - π) + min(π, 1 - π)·gain in rationals, for gains that are doubles."""
    rng = np.random.default_rng(6)
    for population, size in [(3, 1), (7, 2), (10, 3), (49, 24), (11, 9), (6, 3)]:
        gain = rng.uniform(0, 1, population)
        side = SimpleNamespace(hockey_stick=lambda _, g=gain: g)
        game = SubsetGame(population=population, size=size)
        found = _sampled_success(game, side, side, np.full(population, np.inf))
        prior = Fraction(size, population)
        for value, reached in zip(gain.tolist(), found.tolist(), strict=True):
            exact = max(prior, 1 - prior) + min(prior, 1 - prior) * Fraction(value)
            assert exact <= Fraction(reached) <= exact * (1 + Fraction(1, 2**46))
