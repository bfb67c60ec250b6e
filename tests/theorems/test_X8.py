"""X8: the leak of the mean of normal records, against the ball, Monte Carlo and an attack."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from memberbound.iid.gaussian_mean import leak_of_gaussian_mean, leak_of_gaussian_mean_bound
from oracle.gaussian_mean import ball, record_leak

CASES = [(2, 1, 0.5), (10, 3, 0.5), (50, 1, 0.5), (50, 20, 0.5), (20, 3, 0.4), (20, 3, 0.6)]
CASES += [(200, 10, 0.55), (1000, 2, 0.5)]


def by_the_ball(n, d, nu):
    """Average of differences of non-central χ² probabilities over ‖v‖ ~ χ_d."""
    gamma = nu / (1 - nu)
    # Where ‖v‖ is too small for any ball the integrand is 0: split there.
    kink = math.sqrt(max(d * math.log1p(-1 / n) + 2 * math.log(gamma), 0.0))
    ends = [*stats.chi.ppf([1e-15], d), kink, *stats.chi.ppf([0.5, 1 - 1e-15], d)]
    ends = sorted(e for e in ends if e >= ends[0])
    pieces = [
        integrate.quad(
            lambda r: stats.chi.pdf(r, d) * record_leak(r, n, d, gamma),
            a, b, epsabs=1e-13, limit=200,
        )[0]
        for a, b in pairwise(ends)
    ]  # fmt: skip
    return math.fsum(pieces)


@pytest.mark.parametrize(("n", "d", "nu"), CASES)
def test_equals_the_average_over_balls(n, d, nu):
    assert leak_of_gaussian_mean(n, d, nu) == pytest.approx(by_the_ball(n, d, nu), abs=2e-11)


def attack_advantage(n, d, nu, *, seed, trials=200_000, inflate=1.0):
    """TPR - γ·FPR (or its mirror) of "is √n·mean in the ball?" on simulated training sets."""
    rng = np.random.default_rng(seed)
    gamma = nu / (1 - nu)
    v = rng.standard_normal((trials, d))
    others = rng.standard_normal((trials, d)) * math.sqrt(n - 1)  # sum of the n - 1 other records
    inside = (others + v) / math.sqrt(n)
    outside = (others + rng.standard_normal((trials, d))) / math.sqrt(n)
    norms = np.linalg.norm(v, axis=1)
    square = ball(norms, n, d, gamma) * inflate
    hit_in = ((inside - math.sqrt(n) * v) ** 2).sum(axis=1) <= square
    hit_out = ((outside - math.sqrt(n) * v) ** 2).sum(axis=1) <= square
    if gamma >= 1:
        return hit_in.mean() - gamma * hit_out.mean(), (1 + gamma) / math.sqrt(trials)
    return (~hit_out).mean() - (~hit_in).mean() / gamma, (1 + 1 / gamma) / math.sqrt(trials)


@pytest.mark.parametrize(("n", "d", "nu"), CASES[:6])
def test_the_ball_attack_reaches_it_and_no_more(n, d, nu):
    # Hoeffding: deviations of 4 "sigmas" have probability below 2·exp(-8) per case.
    value, sigma = attack_advantage(n, d, nu, seed=8)
    exact = leak_of_gaussian_mean(n, d, nu)
    assert abs(value - exact) < 2 * sigma


def test_a_wrong_ball_does_not_reach_it():
    n, d = 10, 3
    exact = leak_of_gaussian_mean(n, d)
    for inflate in (0.5, 1.5):
        value, sigma = attack_advantage(n, d, 0.5, seed=9, inflate=inflate)
        assert value < exact - 4 * sigma


def test_the_closed_bound_is_larger_by_a_quarter_to_four_fifths():
    for n in (2, 5, 50, 1000, 10**6):
        for d in (1, 4, 30):
            exact, bound = leak_of_gaussian_mean(n, d), leak_of_gaussian_mean_bound(n, d)
            assert bound >= exact
            if bound < 1:
                assert 1.25 < bound / exact < 1.85
