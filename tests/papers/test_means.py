"""Functions of empirical means: X8 as the oracle of T13's forms, and X21 with rows."""

import math

import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.papers import aubinais2025
from oracle.claims import assert_bound


def test_gaussian_means_at_many_sizes():
    n = [2, 10, 100]
    leak = aubinais2025.leak_of_gaussian_mean(n, 2)
    bound = aubinais2025.leak_of_gaussian_mean_bound(n, 2)
    assert (leak < bound).all()
    assert not (leak < bound / 2).all()
    # T13 with the constant of normal records, E‖V‖/2 = √(π/8) at d = 2.
    security = aubinais2025.security_of_mean(n, math.sqrt(math.pi / 8), 2)
    assert security == pytest.approx(1 - bound, rel=1e-9)
    assert aubinais2025.security_of_mean(100, 0.4, 1, nu=0.75) < aubinais2025.security_of_mean(
        100, 0.4, 1
    )


def test_distance_of_two_normal_laws():
    """Truth: the total variation of N(0, 1) and N(b/√n, 1-1/n) integrated on a fine grid."""
    x = np.linspace(-12, 12, 400_001)
    truth = []
    for n in (2, 5, 40):
        for b in (0.0, 0.5, 3.0):
            sd = math.sqrt(1 - 1 / n)
            p = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
            q = np.exp(-(((x - b / math.sqrt(n)) / sd) ** 2) / 2) / (sd * math.sqrt(2 * math.pi))
            truth.append(((n, b, 1), float(np.abs(p - q).sum() * (x[1] - x[0]) / 2) - 1e-9))
    assert_bound(
        aubinais2025.gaussian_distance,
        truth,
        broken={"without the variance": lambda n, b, d: b / (2 * math.sqrt(n)) * 0.99},
    )
    assert aubinais2025.gaussian_distance(1, 0.0, 1) == 1.0


def test_sample_size_is_the_root():
    size = aubinais2025.required_sample_size([0.1, 1.0], 4, 0.05)
    assert [c / math.sqrt(n) + 1 / n for c, n in zip([0.1, 1.0], size, strict=True)] == (
        pytest.approx([0.05, 0.05])
    )


def test_certified_leak_of_means_is_above_the_truth_and_useful():
    """Normal rows and normal noise: the release is a mean of n normal rows of larger variance.

    Truth: X8 for the noisy mean, through a Monte Carlo of the exact likelihood ratio.
    """
    rng, n, sigma = np.random.default_rng(13), 25, 0.3
    rows = rng.normal(size=(1000, 1))
    bound = aubinais2025.leak_of_means(rows, n, sigma)
    # Δ = E_z TV(N(0, 1/n + σ²), N(z/n, (1/n)(1-1/n) + σ²)).
    z = rng.standard_normal(200)
    x = np.linspace(-4, 4, 4001)

    def normal(mean, variance):
        gap = x[:, None] - mean
        return np.exp(-(gap**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)

    out, inside = normal(0.0, 1 / n + sigma**2), normal(z / n, (1 - 1 / n) / n + sigma**2)
    truth = float(np.abs(out - inside).sum(axis=0).mean() * (x[1] - x[0]) / 2)
    assert truth < bound.value < 0.4
    # The twin reports the mean over tables without an interval: it is below its own upper bound.
    assert bound.value > aubinais2025.leak_of_means(rows, n, sigma, confidence=0.5).value > truth
    assert bound.game.name == "iid"
    with pytest.raises(InputError, match="2n"):
        aubinais2025.leak_of_means(rows[:49], n, sigma)
