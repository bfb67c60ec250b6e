"""L24-P12: hockey-sticks of a noisy sum are at most the mean over the other records.

Truth: P_in,x and P_out,x are mixtures of normal laws, one per subset.  For any union of intervals
S the number P(S) - e^eps Q(S) is at most the hockey-stick, so evaluating it to 30 digits on the
intervals where the densities differ in sign gives a lower end of the truth without a tolerance.
"""

import math
from fractions import Fraction
from functools import cache
from random import Random

import mpmath as mp
import numpy as np
import pytest

from memberbound.subset.profile import NeighbourProfile
from oracle import subset
from oracle.claims import assert_bound

F = Fraction
CASES = [(4, 2), (5, 1), (5, 2), (6, 3), (6, 5)]
SIGMAS = (0.3, 1.0, 4.0)
EPSILONS = (0.0, 0.2, 1.0, 3.0)


def values(size):
    rng = Random(size)
    points = [rng.gauss(0, 1) for _ in range(size)]
    points[-1] = 4.0  # one record sticks out
    return points


def centres(points, k, x, inside):
    return np.array(
        [
            math.fsum(points[i] for i in d)
            for d in subset.subsets(len(points), k)
            if (x in d) == inside
        ]
    )


def chance(means, sigma, cuts):
    """Mass of a union of intervals under the mixture, to 30 digits."""
    total = mp.mpf(0)
    for low, high in cuts:
        for m in means:
            mean = mp.mpf(float(m))
            total += mp.ncdf((high - mean) / sigma) - mp.ncdf((low - mean) / sigma)
    return total / len(means)


@cache
def truth(size, k, x, sigma, epsilon, flip):  # noqa: PLR0917
    """A number at most the hockey-stick between the worlds, and very near it."""
    points = values(size)
    p, q = centres(points, k, x, not flip), centres(points, k, x, flip)
    span = np.concatenate([p, q])
    grid = np.linspace(span.min() - 9 * sigma, span.max() + 9 * sigma, 6001)

    def density(means):
        return np.exp(-0.5 * np.square((grid[:, None] - means) / sigma)).mean(axis=1)

    ahead = density(p) > math.exp(epsilon) * density(q)
    turns = np.flatnonzero(np.diff(np.concatenate([[False], ahead, [False]]).astype(int)))
    cuts = [
        (mp.mpf(float(grid[a])), mp.mpf(float(grid[min(b, grid.size - 1)])))
        for a, b in zip(turns[::2], turns[1::2], strict=True)
    ]
    with mp.workdps(30):
        return chance(p, sigma, cuts) - mp.exp(epsilon) * chance(q, sigma, cuts)


def queries():
    for size, k in CASES:
        for x in (0, size - 1):
            for sigma in SIGMAS:
                for epsilon in EPSILONS:
                    for flip in (False, True):
                        yield size, k, x, sigma, epsilon, flip


@cache
def said(size, sigma, epsilon):
    return NeighbourProfile.from_vectors(np.array(values(size))[:, None]).delta(epsilon, sigma)


def coupled(size, x, sigma, epsilon):
    return float(said(size, sigma, epsilon)[x])


@cache
def nearest_only(size, x, sigma, epsilon):
    """Broken: the nearest neighbour instead of the mean over all."""
    points = values(size)
    near = min(abs(points[x] - y) for i, y in enumerate(points) if i != x)
    pair = NeighbourProfile.from_vectors([[0.0], [near]])
    return float(pair.delta(epsilon, sigma)[0])


def test_both_hockey_sticks_are_below_the_mean_over_the_others():
    assert_bound(
        coupled,
        (((size, x, *at), truth(size, k, x, *at, flip)) for size, k, x, *at, flip in queries()),
        broken={"nearest only": nearest_only, "a quarter": lambda *a: coupled(*a) / 4},
    )


def test_two_records_are_exact():
    """N = 2, k = 1: one swap and no mixing, so the bound is the hockey-stick itself."""
    profile = NeighbourProfile.from_vectors([[0.0], [1.5]])
    from oracle.real import bracket, gaussian_hockey_stick

    for sigma in SIGMAS:
        for epsilon in EPSILONS:
            low, high = bracket(gaussian_hockey_stick(1.5 / sigma, epsilon))
            for bounds in profile.delta(epsilon, sigma).tolist():
                assert low * (1 - F(1, 10**14)) <= F(bounds) <= high * (1 + F(1, 10**9))


@pytest.mark.parametrize(("size", "k"), CASES)
@pytest.mark.parametrize("sigma", [0.3, 2.0])
def test_accuracy_at_the_prior_is_bounded(size, k, sigma):
    """I24-P2 for any k: the accuracy of the best attack, from either direction."""
    profile = NeighbourProfile.from_vectors(np.array(values(size))[:, None])
    bounds = profile.accuracy(k / size, sigma)
    low, high = sorted([F(k, size), 1 - F(k, size)])
    for x in range(size):
        stick = truth(size, k, x, sigma, math.log(high / low), 2 * k > size)
        best = mp.mpf(high.numerator) / high.denominator
        best += mp.mpf(low.numerator) / low.denominator * stick
        assert mp.mpf(float(bounds[x])) >= best
        assert bounds[x] < 1.0
