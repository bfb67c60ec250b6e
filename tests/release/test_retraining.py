"""Calibration by refitting: the number of fits, and the size of the noise."""

import math
import sys
import warnings

import numpy as np
import pytest

from memberbound.errors import InputError, SearchError
from memberbound.games import SubsetGame
from memberbound.release.half.fitting import FreshSubsets, fit_groups
from memberbound.release.half.refitting import (
    METHODS,
    calibrate,
    resolve_method,
)
from memberbound.release.half.statistics import callable_statistic
from memberbound.release.noise import GaussianNoise
from oracle.released_statistic import Column

HALVES = FreshSubsets(SubsetGame(100, 50, "average"), 1)
PAIRS = {"method": "neighbour", "partners": 1}


def normal_column(size=100, seed=0):
    return Column(np.random.default_rng(seed).normal(size=size), np.mean)


def test_methods_chosen_by_auto():
    average, every = SubsetGame(500, 250, "average"), SubsetGame(500, 250)
    assert resolve_method("auto", average, eta=0.05) == "neighbour"
    assert resolve_method("auto", every, eta=0.05) == "moment"
    # Few enough fits for a neighbour of every record, unless their number is limited.
    small = SubsetGame(20, 10)
    assert resolve_method("auto", small, eta=0.1) == "neighbour"
    assert resolve_method("auto", small, eta=0.1, pairs=100) == "moment"
    assert resolve_method("auto", every, eta=0.05, additive=True) == "crowd"
    for method in METHODS[1:]:
        assert resolve_method(method, every, eta=0.05, additive=True) == method


def test_sampled_average_is_close_to_the_exact_price_of_a_mean():
    """For a mean the displacement of a pair is (x - x')/k: all pairs are known."""
    statistic = normal_column()
    result = calibrate(statistic, HALVES, eta=0.05, **PAIRS)
    values = statistic.records
    gaps = np.abs(values[:, None] - values[None, :])[~np.eye(100, dtype=bool)] / 50
    truth = np.mean([math.erf(gap / result.noise.scale / math.sqrt(8)) for gap in gaps]) / 2
    assert truth <= result.certificate.value <= 0.05
    # TOLERANCE: 500 pairs cost less than a quarter.
    assert truth > 0.05 / 1.25
    assert result.details["eta_plug_in_estimate"] > 0.05 / 1.25
    assert result.fits == 2 * result.details["pairs"] == 1000
    assert result.certificate.theorems == ("X1", "X4")
    assert result.certificate.confidence == 0.95
    assert result.record == "average"


def test_every_record_by_refitting_covers_the_outlier():
    statistic = Column(np.eye(12)[3], np.mean)
    every = calibrate(statistic, FreshSubsets(SubsetGame(12, 6), 2), eta=0.1, method="neighbour")
    average = calibrate(statistic, FreshSubsets(SubsetGame(12, 6, "average"), 2), eta=0.15, **PAIRS)
    # Record 3 moves the mean by 1/6, whichever record replaces it.
    distance = math.erf(1 / 6 / every.noise.scale / math.sqrt(8)) / 2
    assert 0.06 < distance <= every.certificate.value <= 0.1
    # One pair in six moves at all: on average that is within the promise, for record 3 it is not.
    assert average.noise == GaussianNoise(0.0, 1)
    assert "exposed" in average.details["note"]
    assert every.fits == every.details["pairs"] * 7


@pytest.mark.parametrize("method", ["neighbour", "moment", "izzo"])
def test_a_constant_statistic_needs_no_noise_at_the_stated_confidence(method):
    result = calibrate(Column(np.full(100, 0.1), np.mean), HALVES, eta=0.05, method=method)
    assert result.noise_scale == 0
    assert "No noise is needed" in result.details["note"]
    assert 0 < result.certificate.value < 0.01
    assert result.certificate.confidence == 0.95


def test_the_noise_scale_does_not_depend_on_the_number_of_workers():
    asked = {"eta": 0.1, "pairs": 100} | PAIRS
    one, again, two = (
        calibrate(normal_column(), HALVES, workers=workers, **asked) for workers in (1, 1, 2)
    )
    assert one.noise == again.noise == two.noise
    assert calibrate(normal_column(), FreshSubsets(HALVES.game, 9), **asked).noise != one.noise


def test_warnings_of_fits_are_passed_on_once():
    def warn(rows):
        warnings.warn("something else", FutureWarning, stacklevel=1)
        return rows.mean()

    statistic = Column(np.arange(100.0), warn)
    with pytest.warns(FutureWarning, match="something else") as seen:
        calibrate(statistic, HALVES, eta=0.1, pairs=100, workers=1, **PAIRS)
    assert len(seen) == 1


def test_dask_is_not_imported_without_a_cluster(monkeypatch):
    """Importing it takes longer than a small calibration."""
    monkeypatch.delitem(sys.modules, "distributed", raising=False)
    fit_groups(normal_column(), [[np.arange(50)]])
    assert "distributed" not in sys.modules


def test_fits_come_back_in_order():
    groups = [[np.array([n]), np.array([n + 1])] for n in range(57)]
    statistic = Column(np.arange(100.0), np.sum)
    for workers in (1, 2):
        fits = fit_groups(statistic, groups, lambda out: out[1] - 2 * out[0], workers=workers)
        assert fits.rows[:, 0].tolist() == [1.0 - n for n in range(57)]
        assert fits.count == 114


def test_refusals():
    statistic = normal_column()
    median = callable_statistic(np.arange(100.0), np.median)
    for asked, error, said in (
        ({"pairs": 20} | PAIRS, SearchError, "20 pairs or subsets are too few"),
        ({"pairs": 50, "method": "moment"}, SearchError, "40 pairs or subsets are too few"),
        ({"pairs": 1, "method": "moment"}, InputError, "pairs"),
    ):
        with pytest.raises(error, match=said):
            calibrate(median, HALVES, **({"eta": 0.05} | asked))
    large = FreshSubsets(SubsetGame(2000, 1000))
    with pytest.raises(InputError, match="moment form"):
        calibrate(statistic, large, eta=0.05, method="neighbour")
