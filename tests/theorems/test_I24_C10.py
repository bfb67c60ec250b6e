"""I24-C10 corrected: radius Gamma(d), direction from the cone measure of the norm.

Truth: the Gamma distribution function; the cone measure by integrating (1/norm)^d over angles.
False-alarm level 1e-6 per test, fixed seeds; the published Laplace radius is the negative control.
"""

import math

import numpy as np
import pytest
from scipy import stats

from memberbound.release.noise import NormExponentialNoise, ScaledNorm
from memberbound.release.randomness import InsecureSource

ALARM = 1e-6
DRAWS = 30_000


def length(x, norm):
    return (np.abs(x / norm.scales) ** norm.exponent).mean(axis=-1) ** (1 / norm.exponent)


@pytest.mark.parametrize("exponent", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("d", [1, 2, 3, 20])
def test_radius_is_gamma(exponent, d):
    norm = ScaledNorm(np.linspace(0.5, 2.0, d), exponent)
    drawn = NormExponentialNoise(norm, 1.5).draw(InsecureSource(d), DRAWS)
    radii = length(drawn, norm)
    assert stats.kstest(radii, stats.gamma(d, scale=1.5).cdf).pvalue > ALARM
    # The printed radius |Laplace(c)| is exponential: right at d = 1 only.
    printed = stats.kstest(radii, stats.expon(scale=1.5).cdf).pvalue
    assert (printed > ALARM) == (d == 1)


@pytest.mark.parametrize("exponent", [1.0, 2.0, 4.0])
def test_direction_in_the_plane(exponent):
    norm = ScaledNorm([0.5, 1.5], exponent)
    drawn = norm.directions(InsecureSource(21), DRAWS)
    assert length(drawn, norm) == pytest.approx(1.0, rel=1e-12)
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
    assert stats.kstest(angles, cdf_of(length(rays, norm) ** -2.0)).pvalue > ALARM
    # Controls: a uniform angle, and the cone measure of another exponent.
    assert stats.kstest(angles, cdf_of(np.ones(len(rays)))).pvalue < ALARM
    other = ScaledNorm(norm.scales, 2.0 if exponent != 2.0 else 1.0)
    assert stats.kstest(angles, cdf_of(length(rays, other) ** -2.0)).pvalue < ALARM


@pytest.mark.parametrize("exponent", [1.0, 2.0, 4.0])
def test_direction_in_space(exponent):
    norm = ScaledNorm([0.5, 1.0, 1.5], exponent)
    drawn = norm.directions(InsecureSource(22), DRAWS)
    height = drawn[:, 2] / np.linalg.norm(drawn, axis=1)
    angle = np.arctan2(drawn[:, 1], drawn[:, 0])
    bins, fine = 6, 60
    counts = np.histogram2d(height, angle, bins, [[-1, 1], [-math.pi, math.pi]])[0]
    # Area on the sphere is uniform in (height, angle).
    z = (np.arange(bins * fine) + 0.5) / (bins * fine) * 2 - 1
    phi = ((np.arange(bins * fine) + 0.5) / (bins * fine) * 2 - 1) * math.pi
    z, phi = np.meshgrid(z, phi, indexing="ij")
    flat = np.sqrt(1 - z**2)
    rays = np.stack([flat * np.cos(phi), flat * np.sin(phi), z], axis=-1)

    def pvalue(weights):
        cells = weights.reshape(bins, fine, bins, fine).sum(axis=(1, 3))
        return stats.chisquare(counts.ravel(), (cells / cells.sum() * DRAWS).ravel()).pvalue

    assert pvalue(length(rays, norm) ** -3.0) > ALARM
    assert pvalue(np.ones_like(z)) < ALARM
    assert pvalue(length(rays, norm) ** -2.0) < ALARM


def test_radius_and_direction_are_independent():
    norm = ScaledNorm([0.5, 1.0, 1.5], 4.0)
    drawn = NormExponentialNoise(norm, 1.0).draw(InsecureSource(23), DRAWS)
    radii = length(drawn, norm)
    first = np.abs(drawn[:, 0]) / radii
    assert stats.spearmanr(radii, first).pvalue > ALARM


def test_published_radius_leaves_a_pole_at_zero():
    """d = 3: the density of Laplace-radius noise near 0 is far above exp(-|x|/c)'s."""
    norm = ScaledNorm.plain(3)
    source = InsecureSource(24)
    ours = length(NormExponentialNoise(norm, 1.0).draw(source, DRAWS), norm)
    published = source.exponential(DRAWS)
    assert (ours < 0.05).mean() < 0.001
    assert (published < 0.05).mean() > 0.03


def test_coordinate_moments_give_norm_moment_at_most_one():
    """E|theta_i - E theta_i|^M <= sigma_i^M for every i makes the norm's moment at most 1."""
    outputs = np.random.default_rng(25).standard_cauchy((20, 5))
    centred = outputs - outputs.mean(axis=0)
    for exponent in (2.0, 4.0):
        sigmas = (np.abs(centred) ** exponent).mean(axis=0) ** (1 / exponent)
        norm = ScaledNorm(sigmas, exponent)
        assert (norm.length(centred) ** exponent).mean() == pytest.approx(1.0, rel=1e-9)
        assert (norm.length(centred)).mean() <= 1.0
