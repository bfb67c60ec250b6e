"""The centre form: coverage, the izzo scale, and its edges."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binom

from memberbound.errors import InputError, SearchError
from memberbound.games import SubsetGame
from memberbound.numerics.means import betting_upper
from memberbound.release.half.least_noise import FreshSubsets
from memberbound.release.half.refitting import calibrate_izzo, calibrate_moment, spatial_median
from memberbound.release.noise import (
    GaussianNoise,
    NoNoise,
    NormExponentialNoise,
    izzo_constant,
    scaled,
)
from oracle.released_statistic import Column

HALVES = FreshSubsets(SubsetGame(60, 30), 1)


class Means:
    """Means of several columns of very different widths."""

    def __init__(self, widths, size=60):
        self.records = np.random.default_rng(5).normal(size=(size, len(widths))) * widths
        self.dimension = len(widths)

    def __call__(self, rows):
        return self.records[rows].mean(axis=0)


def test_sampled_noise_is_close_to_the_price_of_the_spread():
    statistic = Column(np.random.default_rng(0).normal(size=60), np.mean)
    result = calibrate_moment(statistic, HALVES, eta=0.05)
    outputs = np.array([statistic(rows)[0] for rows in FreshSubsets(HALVES.game, 99).subsets(4000)])
    spread = np.abs(outputs - np.median(outputs)).mean()
    least = spread / 0.05 / math.sqrt(2 * math.pi)
    # TOLERANCE: 800 certifying subsets cost less than a third.
    assert least * 0.95 < result.noise.scale < least * 1.33
    assert result.record == "every"
    assert result.fits == 1000
    assert result.details["pilot_subsets"] == 200
    assert result.certificate.theorems == ("X19", "X4")
    average = calibrate_moment(statistic, HALVES, eta=0.05, record="average")
    assert average.record == "average"
    assert average.noise == result.noise


def test_coverage_of_the_certifying_stream():
    """Ten records, all 252 subsets known; a run errs when a scale just too small passes.

    Allowed: one in five.  False alarm at most 1e-6.  Negative control: the sample's mean instead of
    its confidence bound.
    """
    runs, draws, target = 1000, 60, 0.2
    records = np.random.default_rng(8).standard_cauchy(10)
    game = SubsetGame(10, 5)
    family = GaussianNoise(1.0, 1)
    everything = np.array([records[list(s)].mean() for s in combinations(range(10), 5)])
    pilot = np.array([[records[rows].mean()] for rows in FreshSubsets(game, 3).subsets(20)])
    centre = spatial_median(pilot, family)[0]
    low, high = 1e-9, 1e9
    for _ in range(80):
        middle = math.sqrt(low * high)
        mean = scaled(family, middle).distance(np.abs(everything - centre)).mean()
        low, high = (low, middle) if mean <= target else (middle, high)
    drawn = FreshSubsets(game, 4).subsets(draws * runs)
    lengths = np.abs(np.array([records[rows].mean() for rows in drawn]) - centre)
    unsafe = scaled(family, low * (1 - 1e-6)).distance(lengths.reshape(draws, runs))
    limit = binom.isf(1e-6, runs, 0.2)
    assert (betting_upper(unsafe, math.log(5)) <= target).sum() <= limit
    assert (unsafe.mean(axis=0) <= target).sum() > limit


def test_spatial_median_is_robust_and_exact_where_most_outputs_agree():
    family = GaussianNoise(1.0, 2)
    rng = np.random.default_rng(1)
    outputs = np.vstack([rng.normal(size=(99, 2)), [[1e6, 1e6]]])
    assert np.linalg.norm(spatial_median(outputs, family)) < 1
    same = np.array([[0.1, 0.2]] * 6 + [[5.0, 5.0]] * 3)
    assert spatial_median(same, family).tolist() == [0.1, 0.2]


def test_izzo_uses_its_own_scale_and_the_certificate_is_the_centre_forms():
    statistic = Means(np.array([1.0, 1e-3, 50.0]))
    result = calibrate_izzo(statistic, HALVES, eta=0.1)
    assert isinstance(result.noise, NormExponentialNoise)
    assert result.details["scale"] == izzo_constant(0.1, 2)
    sizes = result.noise.coordinate_rms
    assert 300 < sizes[0] / sizes[1] < 3000
    assert 15 < sizes[2] / sizes[0] < 150
    # Nearly all of the certified eta is what 800 draws cannot exclude.
    assert 0.003 < result.certificate.value < 0.02
    ours = calibrate_moment(statistic, HALVES, eta=0.1)
    assert result.noise_scale > 100 * ours.noise_scale


@pytest.mark.parametrize("moment", [2.0, 4.0, 8.0])
def test_izzo_scale_falls_with_the_moment(moment):
    statistic = Means(np.array([1.0, 2.0]))
    result = calibrate_izzo(statistic, HALVES, eta=0.1, moment=moment)
    assert result.details["scale"] == izzo_constant(0.1, moment)
    assert result.noise.norm.exponent == moment


def test_izzo_raises_a_scale_that_its_pilot_got_wrong():
    """A statistic that hardly moves on the pilot and does on the rest: the floor does not pass."""

    class Late:
        dimension = 1
        calls = 0

        def __call__(self, rows):
            Late.calls += 1
            # Sixteen fits look for coins, then 200 are the pilot's.
            size = 1e-9 if Late.calls <= 216 else 1.0
            return np.array([size * rows.mean()])

    result = calibrate_izzo(Late(), HALVES, eta=0.1, workers=1)
    assert result.details["scale"] > izzo_constant(0.1, 2)
    assert result.certificate.value <= 0.1
    assert result.noise_scale > 10


@pytest.mark.parametrize("calibrate", [calibrate_moment, calibrate_izzo])
@pytest.mark.parametrize("size", [8, 60])
def test_constant_statistic(calibrate, size):
    statistic = Column(np.full(size, 0.1), np.mean)
    result = calibrate(statistic, FreshSubsets(SubsetGame(size, size // 2)), eta=0.1)
    assert result.noise == NoNoise(1)
    if size == 8:
        assert (result.certificate.value, result.certificate.confidence) == (0.0, 1.0)
    else:
        assert 0 < result.certificate.value < 0.01


def test_coordinates_that_stand_still_do_not_stop_izzo():
    result = calibrate_izzo(Means(np.array([1.0, 0.0])), HALVES, eta=0.1)
    assert result.noise.coordinate_rms[1] < 1e-5 * result.noise.coordinate_rms[0]


def test_refusals():
    statistic = Means(np.ones(2))
    with pytest.raises(InputError, match="moment must be at least 1"):
        calibrate_izzo(statistic, HALVES, eta=0.1, moment=0.5)
    with pytest.raises(InputError, match="subsets"):
        calibrate_moment(statistic, HALVES, eta=0.1, subsets=1)
    with pytest.raises(SearchError, match="certifying subsets are too few"):
        calibrate_moment(statistic, HALVES, eta=0.05, subsets=50)
    with pytest.raises(InputError, match="eta"):
        calibrate_moment(statistic, HALVES, eta=0.0)
