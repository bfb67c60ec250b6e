"""Gaussian noise on sums and means: mechanisms for a target, and comparisons, in 30 digits."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from memberbound.errors import InputError, SearchError
from memberbound.games import SubsetGame
from memberbound.subset.crowd import Crowd
from memberbound.subset.gaussian import (
    GaussianSetting,
    NoisySum,
    dp_from_noise,
    noise_from_dp,
    noise_on_sum,
)
from memberbound.subset.mixtures import mixture_bounds
from memberbound.subset.profile import NeighbourProfile
from oracle.normal_mixtures import accuracy, subset_laws

F = Fraction
ROWS = np.random.default_rng(4).normal(size=(12, 1))


def setting(rows=ROWS, size=6, *, crowd=False, delta=1e-3, divisor=1):
    game = SubsetGame(len(rows), size)
    radius = float(np.linalg.norm(rows, axis=1).max())
    return GaussianSetting(NoisySum.of(rows, game, crowd=crowd), delta, divisor, 2 * radius)


def true_accuracy(mu, rare, common):
    """Of a pair N(0, 1), N(μ, 1), the rarer with this many of all records."""
    with mp.workdps(30):
        eps, mu = mp.log(mp.mpf(common) / rare), mp.mpf(mu)
        if mu == 0:
            return mp.mpf(common) / (rare + common)
        gap = mp.ncdf(mu / 2 - eps / mu) - mp.exp(eps) * mp.ncdf(-mu / 2 - eps / mu)
        return (common + rare * gap) / (rare + common)


@pytest.mark.parametrize(("size", "epsilon"), [(6, 0.3), (4, 2.0), (9, 9.0), (6, 9.0)])
def test_three_attackers_are_compared_soundly(size, epsilon):
    asked = setting(size=size, divisor=size)
    compared = asked.comparison(epsilon)
    noise = noise_on_sum(asked.sigma_from_epsilon(epsilon), size)
    rare, common = sorted((size, 12 - size))
    for value, shift in (
        (compared.worst_case, asked.sensitivity),
        (compared.population, asked.noisy.profile.diameter),
    ):
        with mp.workdps(30):
            truth = true_accuracy(mp.mpf(shift) / mp.mpf(noise), rare, common)
            assert truth <= value <= truth + mp.mpf(1e-10)
    worst = asked.bounds(noise / size)[0].worst_record
    best = accuracy(*subset_laws(ROWS[:, 0], size, worst), noise, size / 12)
    assert best <= compared.practical <= best + mp.mpf(1e-6)
    assert compared.practical <= compared.coupled <= compared.population


def test_equal_records_are_the_blind_guess_to_a_neighbour():
    equal = GaussianSetting(
        NoisySum.of(np.ones((6, 2)), SubsetGame(6, 2), crowd=False), 0.1, 1, 3.0
    )
    compared = equal.comparison(1.0)
    assert F(2, 3) <= F(compared.population) <= F(2, 3) + F(1, 10**14)
    assert compared.worst_case > compared.population


@pytest.mark.parametrize(("quantity", "target"), [("target_pmp", 0.8), ("target_success", 0.6)])
@pytest.mark.parametrize("divisor", [1, 6])
def test_a_mechanism_for_a_target_meets_it_with_little_noise(quantity, target, divisor):
    rows = np.random.default_rng(6).normal(size=(12, 2))
    asked = setting(rows, divisor=divisor)
    sigma, epsilon = asked.mechanism_for(quantity, target)
    assert asked.epsilon_from_sigma(sigma) <= epsilon <= asked.epsilon_from_sigma(sigma * 0.999)
    assert asked.bounds(sigma)[0].reached(quantity) <= target
    assert asked.bounds(sigma * 0.999)[0].reached(quantity) > target
    assert float(f"{sigma:.6g}") == sigma


def test_the_best_of_all_bounds_is_read_off():
    """With a line the exact mixtures, with a crowd its bound: the smaller for each record."""
    rows = np.random.default_rng(5).normal(size=(60, 1))
    game = SubsetGame(60, 30)
    noisy, sigma, delta = NoisySum.of(rows, game), 4.0, 1e-2
    exact = mixture_bounds(rows[:, 0], game, sigma=sigma, delta=delta)
    assert noisy.worst_pmp_epsilon(sigma, delta) == exact.pmp_epsilon_upper
    assert noisy.worst_success(sigma) == exact.success_upper < noisy.coupling.worst_success(sigma)
    line, crowd = NoisySum(noisy.profile, game), Crowd(noisy.crowd, sigma)
    alone = NoisySum(noisy.profile, game, crowd=noisy.crowd)
    least = np.minimum(noisy.profile.accuracy(0.5, sigma), crowd.success)
    assert alone.worst_success(sigma) == least.max() < line.worst_success(sigma)
    least = np.minimum(noisy.profile.pmp_epsilon(delta, sigma), crowd.pmp_epsilon(delta))
    assert alone.worst_pmp_epsilon(sigma, delta) == least.max()
    assert least.max() < line.worst_pmp_epsilon(sigma, delta)


def test_noise_beyond_all_doubles_is_no_noise_at_all():
    """The least σ overflows, or underflows: neither is returned."""
    hopeless = ((0.0, 1e-320, 1e300), (0.0, 5e-324, 1.0), (700.0, 0.5, 5e-324))
    for epsilon, delta, sensitivity in hopeless:
        with pytest.raises(SearchError):
            noise_from_dp(epsilon, delta, sensitivity)
    assert dp_from_noise(1e-200, 1e-5, 1e200) == math.inf


def test_a_target_below_the_blind_guess_of_another_size_is_refused():
    profile = NeighbourProfile.from_vectors(ROWS)
    for size in (3, 9):
        with pytest.raises(InputError, match=r"0\.75"):
            NoisySum(profile, SubsetGame(12, size)).noise_for_success(0.6)
