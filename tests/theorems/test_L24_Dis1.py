"""L24-Dis1: PMP does not compose.  No rule that looks at the two parameters alone can hold.

Four witnesses, each with the rule "add epsilon (and delta)" that it breaks:

* two sums modulo 6 on {0, ..., 5}, each ln 2-PMP, jointly PMP for no finite epsilon (exact);
* the same, each answered truthfully with probability 1/2: all finite, 4.8 against 1.9 (exact);
* the same Gaussian query twice, on 2000 records: each time (0, 0.06)-PMP, jointly not (0, 0.12);
* as a control, DP mechanisms, for which adding is right.
"""

from fractions import Fraction
from functools import cache
from itertools import permutations
from math import comb
from random import Random

import numpy as np
import pytest
from scipy.special import ndtr

from oracle import finite, mechanisms, subset

F = Fraction
N, K = 6, 3


def relabelled(labels):
    """The sum of the records' labels modulo 6."""
    return lambda d: {sum(labels[x] for x in d) % 6: F(1)}


def with_lies(release, truth):
    """Truthful with probability ``truth``, otherwise a uniform answer."""

    def answer(d):
        law = dict.fromkeys(range(6), (1 - truth) / 6)
        for a, mass in release(d).items():
            law[a] += truth * mass
        return law

    return answer


def jointly(first, second):
    """Both releases about one subset, with independent randomness."""

    def both(d):
        return {(a, b): p * q for a, p in first(d).items() for b, q in second(d).items()}

    return both


PLAIN = relabelled(range(6))
SWAPPED = relabelled((0, 1, 2, 3, 5, 4))


def ratio(mechanism):
    return subset.pmp_ratio(mechanism, N, K)


def breaks(rule, pairs):
    """Pairs whose joint ratio exceeds what the rule makes of the two single ones."""
    result = []
    for index, (first, second) in enumerate(pairs):
        both = ratio(jointly(first, second))
        if both is None or both > rule(ratio(first), ratio(second)):
            result.append(index)
    return result


def added(a, b):
    return a * b  # epsilons add where ratios multiply


def a_thousand_times_that(a, b):
    return 1000 * a * b


def test_two_harmless_sums_betray_a_record_together():
    assert ratio(PLAIN) == ratio(SWAPPED) == 2
    assert ratio(jointly(PLAIN, SWAPPED)) is None
    p_in, p_out = subset.world_laws(jointly(PLAIN, SWAPPED), N, K, 0)
    sure = [a for a in finite.outcomes(p_in, p_out) if not (p_in.get(a) and p_out.get(a))]
    assert sure
    assert breaks(added, [(PLAIN, SWAPPED)]) == [0]
    assert breaks(a_thousand_times_that, [(PLAIN, SWAPPED)]) == [0]


def test_almost_every_relabelling_does_that():
    finite_ones = [p for p in permutations(range(6)) if ratio(jointly(PLAIN, relabelled(p)))]
    assert len(finite_ones) == 12  # a -> c + a and a -> c - a: the same sum again
    assert all((p[1] - p[0]) % 6 in (1, 5) for p in finite_ones)


@pytest.mark.parametrize(
    ("truth", "single", "both"),
    [(F(1, 4), F(7, 6), F(13, 7)), (F(1, 2), F(11, 8), F(53, 11))],
)
def test_sum_rule_fails_with_every_parameter_finite(truth, single, both):
    pair = with_lies(PLAIN, truth), with_lies(SWAPPED, truth)
    assert ratio(pair[0]) == ratio(pair[1]) == single
    assert ratio(jointly(*pair)) == both
    assert both > single**2
    assert breaks(added, [pair]) == [0]


def test_sum_rule_holds_for_dp():
    """Negative control: the same joint release and the same rule, with DP parameters."""
    rng = Random(31)
    pairs = []
    for _ in range(6):
        g, h = rng.choice([F(6, 5), F(2)]), rng.choice([F(3, 2), F(3)])
        pairs.append(
            (mechanisms.random_dp_kernel(rng, 4, 2, g), mechanisms.random_dp_kernel(rng, 4, 2, h))
        )
    for first, second in pairs:
        both = jointly(first.__getitem__, second.__getitem__)
        limit = subset.dp_ratio(first, 4, 2) * subset.dp_ratio(second, 4, 2)
        assert subset.dp_ratio(both, 4, 2) <= limit
        assert subset.pmp_ratio(both, 4, 2) <= limit  # DP composes, and DP gives PMP


# ---- a Gaussian query, twice ------------------------------------------------------------------


@cache
def law_of_sum(ones, zeros, twos, size):
    """Masses of the sum of ``size`` of these records, for sums 0 ... 2 size."""
    masses = np.zeros(2 * size + 1)
    total = comb(ones + zeros + twos, size)
    for one in range(ones + 1):
        for two in range(max(0, size - one - zeros), min(twos, size - one) + 1):
            ways = comb(ones, one) * comb(twos, two) * comb(zeros, size - one - two)
            masses[one + 2 * two] += ways / total
    return masses


def advantage(p_in, p_out, sigma, steps=400):
    """(low, high) of the total variation between two lattice laws plus N(0, sigma^2).

    Low: the best test on intervals of length 1/steps.  High: at most the intervals on which the
    density difference changes sign are missing, each with at most its whole mass.
    """
    reach = int(np.ceil(9 * sigma)) + 1
    edges = np.arange(-reach * steps, reach * steps + 1) / steps
    cells = np.diff(ndtr(edges / sigma))  # mass of every cell around a lattice point
    difference = np.zeros((len(p_in) + 2 * reach) * steps)
    total = np.zeros_like(difference)
    for low, high in ((p_in, 1.0), (p_out, -1.0)):
        spread = np.zeros_like(difference)
        for j in np.flatnonzero(low > 1e-16):
            spread[j * steps : j * steps + len(cells)] += low[j] * cells
        difference += high * spread
        total += spread
    change = np.flatnonzero(np.diff(np.sign(difference)) != 0)
    doubtful = total[np.unique(np.concatenate([change, change + 1]))].sum() / 2
    below = np.abs(difference).sum() / 2
    return below - 1e-12, below + doubtful + 1e-12


def worst_advantage(sigma):
    """Largest total variation over the records: one of value 1, 999 zeros, 1000 twos; k = 1000."""
    size = 1000
    low, high = [], []
    for value, others in ((1, (0, 999, 1000)), (0, (1, 998, 1000)), (2, (1, 999, 999))):
        p_out = law_of_sum(*others, size)
        rest = law_of_sum(*others, size - 1)
        p_in = np.zeros_like(p_out)
        p_in[value : value + len(rest)] = rest[: len(p_out) - value]
        ends = advantage(p_in, p_out, sigma)
        low.append(ends[0])
        high.append(ends[1])
    return max(low), max(high)


def test_the_same_gaussian_sum_twice():
    """Whether the odd record is in shows in the parity of the sum, which noise 0.8 still blurs.

    Two releases are one with noise 0.8/sqrt(2), and blurring falls off like exp(-(pi sigma)^2/2).
    """
    sigma = 0.8
    assert worst_advantage(sigma)[1] <= 0.06  # (0, 0.06)-PMP, whichever record
    assert worst_advantage(sigma / np.sqrt(2))[0] > 0.26  # jointly not even (0, 0.26)-PMP
