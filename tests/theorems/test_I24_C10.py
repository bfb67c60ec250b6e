"""I24-C10 corrected: radius Gamma(d), direction from the cone measure of the norm.

Truth: the Gamma distribution function; the cone measure by integrating (1/norm)^d over angles.
False-alarm level 1e-6 per test, fixed seeds; the published Laplace radius is the negative control.
"""

import math

import numpy as np
import pytest
from scipy import stats

from memberbound.release.noise import NormExponentialNoise
from memberbound.release.randomness import InsecureSource

ALARM = 1e-6
DRAWS = 30_000


def length(x, sigmas):
    return np.sqrt(((x / sigmas) ** 2).mean(axis=-1))


@pytest.mark.parametrize("d", [1, 2, 3, 20])
def test_radius_is_gamma(d):
    sigmas = np.linspace(0.5, 2.0, d)
    drawn = NormExponentialNoise(sigmas, 1.5).draw(InsecureSource(d), DRAWS)
    radii = length(drawn, sigmas)
    assert stats.kstest(radii, stats.gamma(d, scale=1.5).cdf).pvalue > ALARM
    # The printed radius |Laplace(c)| is exponential: right at d = 1 only.
    printed = stats.kstest(radii, stats.expon(scale=1.5).cdf).pvalue
    assert (printed > ALARM) == (d == 1)


def test_direction_in_the_plane():
    sigmas = np.array([0.5, 1.5])
    drawn = NormExponentialNoise(sigmas, 1.0).directions(InsecureSource(21), DRAWS)
    assert length(drawn, sigmas) == pytest.approx(1.0, rel=1e-12)
    edges = np.linspace(0, math.pi / 2, 10_001)
    middle = (edges[1:] + edges[:-1]) / 2
    rays = np.stack([np.cos(middle), np.sin(middle)], axis=-1)

    def cdf_of(weights):
        total = np.concatenate([[0.0], np.cumsum(weights)])
        return lambda phi: np.interp(phi, edges, total / total[-1])

    # The four quadrants are alike; folding them onto one sharpens the test.
    quadrants = np.unique(np.sign(drawn), axis=0, return_counts=True)[1]
    assert stats.chisquare(quadrants).pvalue > ALARM
    angles = np.arctan2(np.abs(drawn[:, 1]), np.abs(drawn[:, 0]))
    assert stats.kstest(angles, cdf_of(length(rays, sigmas) ** -2.0)).pvalue > ALARM
    # Controls: a uniform angle, and the cone measure of another norm.
    assert stats.kstest(angles, cdf_of(np.ones(len(rays)))).pvalue < ALARM
    other = np.abs(rays / sigmas).mean(axis=-1)
    assert stats.kstest(angles, cdf_of(other**-2.0)).pvalue < ALARM


SPACE = np.array([0.5, 1.0, 1.5])


def test_radius_and_direction_are_independent():
    drawn = NormExponentialNoise(SPACE, 1.0).draw(InsecureSource(23), DRAWS)
    radii = length(drawn, SPACE)
    first = np.abs(drawn[:, 0]) / radii
    assert stats.spearmanr(radii, first).pvalue > ALARM


def test_published_radius_leaves_a_pole_at_zero():
    """d = 3: the density of Laplace-radius noise near 0 is far above exp(-|x|/c)'s."""
    source = InsecureSource(24)
    ours = length(NormExponentialNoise(SPACE, 1.0).draw(source, DRAWS), SPACE)
    published = source.exponential(DRAWS)
    assert (ours < 0.05).mean() < 0.001
    assert (published < 0.05).mean() > 0.03


def test_coordinate_moments_give_norm_moment_at_most_one():
    """E|theta_i - E theta_i|² <= sigma_i² for every i makes the norm's second moment at most 1."""
    outputs = np.random.default_rng(25).standard_cauchy((20, 5))
    centred = outputs - outputs.mean(axis=0)
    law = NormExponentialNoise(centred.std(axis=0), 1.0)
    assert (law.length(centred) ** 2).mean() == pytest.approx(1.0, rel=1e-9)
    assert law.length(centred).mean() <= 1.0
