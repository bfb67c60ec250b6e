"""What ``auto`` stands for, and why tuning leaves no trace in a certificate."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVC

from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.release.half import methods
from memberbound.release.half.half_estimator import HalfPrivate
from memberbound.release.half.least_noise import FreshSubsets
from memberbound.release.half.methods import METHODS, calibrate, chosen_method, released_statistic
from memberbound.release.half.statistics import computed, mean
from memberbound.verbs.protect_half import protect_half

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = X[:, 0] + RNG.normal(size=60)
SEEDS = {"insecure_seed": 1, "calibration_seed": 3, "n_jobs": 1}


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_what_auto_stands_for():
    average, every = SubsetGame(500, 250, "average"), SubsetGame(500, 250)
    assert chosen_method("auto", average, eta=0.05) == "neighbour"
    assert chosen_method("auto", every, eta=0.05) == "moment"
    # Few enough fits for a neighbour of every record, unless their number is limited.
    small = SubsetGame(20, 10)
    assert chosen_method("auto", small, eta=0.1) == "neighbour"
    assert chosen_method("auto", small, eta=0.1, pairs=100) == "moment"
    assert chosen_method("auto", every, eta=0.05, additive=True) == "crowd"
    for method in METHODS[1:]:
        assert chosen_method(method, every, eta=0.05, additive=True) == method


@pytest.mark.parametrize("base", [Ridge(alpha=1e-3), LinearSVC(C=100.0)], ids=["ridge", "svm"])
def test_auto_is_the_method_it_stands_for(base):
    target = Y if isinstance(base, Ridge) else (Y > 0).astype(int)
    settings = {"eta": 0.2, "record": "every", "tune": False} | SEEDS
    settings["pairs"] = 100
    auto, moment = (
        HalfPrivate(base, method=method, **settings).fit(X, target) for method in ("auto", "moment")
    )
    assert auto.trials_ == ()
    assert auto.calibration_.to_dict() == moment.calibration_.to_dict()


def test_tuning_leaves_no_trace_in_the_certificate(monkeypatch):
    """Trials are on another stream: the certificate is that of the chosen setting alone."""
    settings = {"eta": 0.3, "record": "average", "pairs": 30} | SEEDS
    monkeypatch.setattr(methods, "_STRENGTHS", (1.0, 0.1))
    tuned = HalfPrivate(Ridge(), **settings).fit(X, Y)
    option = tuned.configuration_
    alone = HalfPrivate(option.applied(Ridge()), clip=option.clip, tune=False, **settings).fit(X, Y)
    assert len(tuned.trials_) == 6
    assert tuned.calibration_.to_dict() == alone.calibration_.to_dict()


def test_one_search_whoever_asks():
    """`protect_half`, the table and the calibrator name the same scale for the same question."""
    values = np.arange(8.0) ** 2
    whole = protect_half(
        values[:, None], statistic="mean", eta=0.1, record="every", insecure_seed=1
    )
    game = SubsetGame(8, 4)
    out = released_statistic(mean(values), game, eta=0.1, insecure_seed=1)
    fresh = FreshSubsets(game)
    tabled = calibrate(mean(values), fresh, eta=0.1, method="neighbour")
    scales = {c.noise.scale for c in (whole.calibration, out.calibration, tabled)}
    assert len(scales) == 1
    assert out.values.tolist() == whole.released.values.tolist()


def test_what_is_no_sum_has_no_crowd():
    fresh = FreshSubsets(SubsetGame(20, 10))
    with pytest.raises(InputError, match="no sum over records"):
        calibrate(computed(np.arange(20.0), np.median), fresh, eta=0.1, method="crowd")
    for method in ("magic", "convex", "output"):
        with pytest.raises(InputError, match="method must be one of 'auto', 'crowd'"):
            calibrate(mean(np.arange(20.0)), fresh, eta=0.1, method=method)
