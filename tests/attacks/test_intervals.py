"""Intervals: exact coverage on small finite laws, in rationals; simulation for the bands.

The simulations count misses among 20 000 draws.  A bound that fails with exactly its stated
probability 0.025 would show more than 640 misses with probability below 1e-9 (binomial).
"""

import math
from fractions import Fraction
from functools import cache
from itertools import combinations, compress

import numpy as np
import pytest
from scipy import integrate, stats

from memberbound.attacks.intervals import (
    auc_lower,
    auc_upper,
    clopper_pearson_lower,
    clopper_pearson_upper,
    rank_beyond,
    rank_within,
    two_sample_deviation,
)
from oracle.iid import binomial, multinomial

DRAWS, ERROR, MISSES = 20_000, 0.025, 640


def coins(n):
    """Probabilities, and the laws of the hits among n independent trials."""
    for p in [Fraction(i, 40) for i in range(41)] + [Fraction(1, 997)]:
        yield p, binomial(n, p)


def populations(n):
    """Shares, and the laws of the hits among n draws without replacement from up to 40."""
    for population in range(n, 41):
        for hits in range(population + 1):
            counts = (
                math.comb(hits, k) * math.comb(population - hits, n - k) for k in range(n + 1)
            )
            whole = math.comb(population, n)
            yield Fraction(hits, population), [Fraction(count, whole) for count in counts]


def largest_misses(lower, upper, n, error, laws):
    """Largest probability of a miss on either side, over all laws of the hits."""
    low, high = (
        [Fraction(float(x)) for x in end(range(n + 1), n, error)] for end in (lower, upper)
    )
    worst = [Fraction(0), Fraction(0)]
    for share, masses in laws(n):
        below = sum(m for m, x in zip(masses, low, strict=True) if x > share)
        above = sum(m for m, x in zip(masses, high, strict=True) if x < share)
        worst = [max(worst[0], below), max(worst[1], above)]
    return worst


ENDS = clopper_pearson_lower, clopper_pearson_upper


@pytest.mark.parametrize("laws", [coins, populations])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 15])
def test_clopper_pearson_covers_exactly(n, laws):
    # Errors just where a tail of a population is, and usual ones.
    for error in (0.00625, 0.025, 0.0506, 0.0975, 0.2, 0.25):
        assert max(largest_misses(*ENDS, n, error, laws)) <= Fraction(error)
        for k in range(2, n + 1):  # tight: at the bound itself the tail is the error
            tail = sum(binomial(n, Fraction(float(clopper_pearson_lower(k, n, error))))[k:])
            assert Fraction(error) * (1 - Fraction(1, 10**8)) <= tail <= Fraction(error)


def test_plain_clopper_pearson_without_replacement_would_be_caught():
    def lower(hits, trials, error):
        k = np.asarray(hits, dtype=float)
        return np.where(k > 0, stats.beta.ppf(error, k, trials - k + 1), 0.0)

    def upper(hits, trials, error):
        return 1 - lower(trials - np.asarray(hits), trials, error)

    # One hit among 20 members: two draws find it with probability 0.1, two coins with 0.0975.
    error = 1 - 0.95**2 + 1e-9
    missed = largest_misses(lower, upper, 2, error, populations)
    assert min(missed) == Fraction(1, 10) > Fraction(error)
    assert max(largest_misses(*ENDS, 2, error, populations)) <= Fraction(error)


@pytest.mark.parametrize(("n", "population"), [(2, 3), (3, 9), (6, 6), (5, 13), (7, 14)])
def test_the_members_band_covers_without_replacement(n, population):
    """P(sup(F̂ - F) > s) ≤ 2·exp(-2ns²), all subsets counted."""
    deviations = []
    for chosen in combinations(range(1, population + 1), n):
        gaps = [Fraction(i + 1, n) - Fraction(r, population) for i, r in enumerate(chosen)]
        deviations.append(max(Fraction(0), *gaps))
    for s in sorted(set(deviations)):
        at = float(s) - 1e-12  # the least value with a deviation of at least s
        share = sum(d >= s for d in deviations) / len(deviations)
        tail = math.exp(-2 * n * at**2)
        assert tail > 0.5 or share <= 2 * tail


#: Laws of members and of others on three values, in sixtieths.
LAWS = [
    tuple(tuple(Fraction(share, 60) for share in law) for law in pair)
    for pair in (
        ((30, 30, 0), (30, 30, 0)),
        ((20, 20, 20), (20, 20, 20)),
        ((6, 12, 42), (36, 18, 6)),
        ((0, 3, 57), (60, 0, 0)),
    )
]


def auc_of(x, y):
    """Mann-Whitney of two histograms, or of two laws."""
    wins = x[1] * y[0] + x[2] * (y[0] + y[1])
    ties = sum(a * b for a, b in zip(x, y, strict=True))
    return (wins + Fraction(ties) / 2) / (sum(x) * sum(y))


def auc_misses(law1, law0, lower, upper, sizes=(5, 7)):
    truth = auc_of(law1, law0)
    lower, upper = cache(lower), cache(upper)
    misses = [Fraction(0), Fraction(0)]
    for x, p in multinomial(law1, sizes[0]).items():
        for y, q in multinomial(law0, sizes[1]).items():
            if p * q:
                seen = float(auc_of(x, y))
                misses[0] += p * q * (lower(seen, *sizes) > truth)
                misses[1] += p * q * (upper(seen, *sizes) < truth)
    return misses


@pytest.mark.parametrize(("law1", "law0"), LAWS)
def test_auc_covers_exactly(law1, law0):
    for error in (0.025, 0.2):
        missed = auc_misses(
            law1,
            law0,
            lambda a, n1, n0, e=error: auc_lower(a, n1, n0, e),
            lambda a, n1, n0, e=error: auc_upper(a, n1, n0, e),
        )
        assert max(missed) <= Fraction(error)


def test_auc_with_all_pairs_as_independent_would_be_caught():
    def broken_lower(auc, n1, n0):
        return auc_lower(auc, n1 * n0, n1 * n0, 0.025)

    assert auc_misses(*LAWS[0], broken_lower, lambda *_: 1)[0] > Fraction(1, 20)


@pytest.mark.parametrize("sizes", [(4, 400), (400, 4)])
def test_auc_of_samples_of_different_sizes_rests_on_the_smaller(sizes):
    """A fair coin against a constant: the AUC is ½, the estimate the share of heads of few."""
    heads = binomial(4, Fraction(1, 2))
    for error in (0.025, 0.2):
        low = [auc_lower(k / 4, *sizes, error) > 0.5 for k in range(5)]
        high = [auc_upper(k / 4, *sizes, error) < 0.5 for k in range(5)]
        assert max(sum(compress(heads, missed)) for missed in (low, high)) <= error
    assert auc_lower(1.0, 400, 400, 0.025) > 0.5  # as many pairs as the larger has would miss


def test_auc_is_tighter_than_hoeffding_and_not_tighter_than_normal():
    for auc in (0.5, 0.8, 0.99):
        radius = auc - auc_lower(auc, 1000, 1000, 0.025)
        assert radius <= math.sqrt(math.log(40) / 2000) * (1 + 1e-9)
        assert radius >= 1.9 * math.sqrt(auc * (1 - auc) / 1000)
        assert auc_lower(auc, 1000, 1000, 0.025) < auc < auc_upper(auc, 1000, 1000, 0.025)
    assert auc_upper(1.0, 50, 50, 0.025) == 1.0
    assert auc_lower(0.0, 50, 50, 0.025) == 0.0


def deviations(n1, n0, seed):
    """sup over thresholds of the estimated TPR - FPR when both samples are uniform."""
    rng = np.random.default_rng(seed)
    pooled = np.argsort(rng.random((DRAWS, n1 + n0)), axis=1) < n1
    steps = np.where(pooled, 1 / n1, -1 / n0)
    return np.maximum(np.cumsum(steps, axis=1).max(axis=1), 0.0)


@pytest.mark.parametrize(("n1", "n0"), [(3, 3), (10, 40), (60, 60)])
def test_deviation_covers_and_half_of_it_would_be_caught(n1, n0):
    seen = deviations(n1, n0, seed=n1)
    s = two_sample_deviation(n1, n0, ERROR)
    assert (seen > s).sum() <= MISSES
    one_band = math.sqrt(-math.log(ERROR) / (2 * max(n1, n0)))  # forgets the other sample
    assert (seen > one_band - 1e-12).sum() > MISSES


def test_deviation_is_the_quantile_of_the_sum():
    n1, n0 = 200, 700
    s = two_sample_deviation(n1, n0, ERROR)

    def tail(x, n):
        value = math.exp(-2 * n * max(x, 0.0) ** 2)
        return value if value <= 0.5 else 1.0

    # The members' deviation has the tail 2·exp(-2n₁a²) beyond the point where that is 1.
    floor = math.sqrt(math.log(2) / (2 * n1))
    other = s - math.sqrt(math.log(2) / (2 * n0))
    total, _ = integrate.quad(
        lambda a: 8 * n1 * a * tail(a, n1) * tail(s - a, n0),
        floor,
        1.0,
        points=[other],
        limit=500,
    )
    assert total <= ERROR
    assert total == pytest.approx(ERROR, rel=0.02)


@pytest.mark.parametrize(("n", "alpha"), [(50, 0.1), (440, 0.01), (120, 0.3), (30, 0.9)])
def test_ranks_are_exact_and_the_empirical_rank_would_be_caught(n, alpha):
    error = Fraction(0.0125)
    masses = binomial(n, Fraction(alpha).limit_denominator(1000))
    k = rank_within(n, alpha, 0.0125)
    assert sum(masses[:k]) <= error < sum(masses[: k + 1])
    empirical = math.floor(alpha * n) + 1
    assert sum(masses[:empirical]) > error
    k = rank_beyond(n, alpha, 0.0125)
    assert sum(masses[k:]) <= error
    assert k == n + 1 or sum(masses[k - 1 :]) > error


def test_ranks_keep_their_promise_with_ties():
    rng = np.random.default_rng(5)
    n, alpha = 200, 0.1
    draws = rng.integers(0, 15, (DRAWS, n))
    ordered = np.sort(draws, axis=1)[:, ::-1]
    low = ordered[:, rank_within(n, alpha, ERROR) - 1]
    high = ordered[:, rank_beyond(n, alpha, ERROR) - 1]
    assert ((14 - low) / 15 > alpha).sum() <= MISSES
    assert ((15 - high) / 15 <= alpha).sum() <= MISSES
