"""X8: the leak of the mean of normal records is the gain of the best ball (simulated).

Its value in 25 digits is checked in tests/iid/test_gaussian_mean.py.
"""

import math

import numpy as np
import pytest

from memberbound.iid.gaussian_mean import leak_of_gaussian_mean
from oracle.gaussian_mean import ball

CASES = [(2, 1, 0.5), (10, 3, 0.5), (50, 1, 0.5), (50, 20, 0.5), (20, 3, 0.4), (20, 3, 0.6)]


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


@pytest.mark.parametrize(("n", "d", "nu"), CASES)
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
