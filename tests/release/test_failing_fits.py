"""The promise covers failing fits: they release zeros, and the certificate counts them."""

import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.release.half.fitting import FreshSubsets, evaluate
from memberbound.release.half.half_estimator import HalfPrivate
from memberbound.release.half.refitting import calibrate
from memberbound.release.half.secret_draw import release_once
from memberbound.release.noise import release
from memberbound.release.randomness import InsecureSource

METHODS = ("neighbour", "moment", "izzo")
WAYS = [
    ValueError("only one class"),
    SystemExit(3),
    MemoryError(),
    np.array([np.nan]),
    np.zeros(2),
    None,
    "no number",
]


class Fails:
    """Constant; fails in different ways if the first records are present."""

    dimension = 1

    def __init__(self, how, records=7):
        self.how = how
        self.records = records

    def __call__(self, rows):
        if set(range(self.records)) <= set(rows.tolist()):
            if isinstance(self.how, BaseException):
                raise self.how
            return self.how
        return np.array([1.0])


@pytest.mark.filterwarnings("ignore:.*A fit that fails releases zeros")
@pytest.mark.parametrize("method", METHODS)
def test_the_certificate_counts_failures_as_changes(method):
    """Failures on one half in 200 count; oracle: their leak about a record in all of them."""
    fresh = FreshSubsets(SubsetGame(40, 20), 1)
    result = calibrate(
        Fails(WAYS[0]), fresh, eta=0.05, method=method, pairs=1000 if method != "neighbour" else 300
    )
    assert result.details["fits_failed"] > 0
    share = np.prod([(20 - i) / (40 - i) for i in range(7)])  # of halves with the first seven
    if result.noise_scale == 0:
        assert result.certificate.value >= share  # a record of these: ½·2·share
    # Without the failures, the certificate would be that of a constant.
    kept = calibrate(Fails(np.array([1.0])), fresh, eta=0.05, method=method, pairs=300)
    assert kept.details["fits_failed"] == kept.noise_scale == 0
    assert kept.details["eta_plug_in_estimate"] < result.details["eta_plug_in_estimate"]


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_the_release_of_a_failed_fit_is_noise_around_zeros(how):
    class Moves(Fails):
        def __call__(self, rows):
            return super().__call__(rows) if rows[0] == 0 else np.array([rows.mean()])

    value, reason = evaluate(Moves(how), np.arange(20))
    assert value.tolist() == [0.0]
    assert reason is not None
    fresh = FreshSubsets(SubsetGame(40, 20, "average"))
    result = calibrate(Moves(np.array([1.0])), fresh, eta=0.1, pairs=100, workers=1)
    assert result.noise_scale > 0
    values = release_once(Moves(how), result, np.arange(20), InsecureSource(2)).values
    assert values == release(np.zeros(1), result.noise, InsecureSource(2))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("how", "workers"), [(WAYS[0], 1), (WAYS[0], 2), (WAYS[3], 1)])
def test_a_learner_that_fails_often_is_refused_with_the_reason(method, how, workers):
    fresh = FreshSubsets(SubsetGame(40, 20))
    with pytest.raises(InputError, match=r"failed fits of \d+.*left out.*robust"):
        calibrate(Fails(how, 1), fresh, eta=0.05, method=method, workers=workers)


class Delicate(RegressorMixin, BaseEstimator):
    """Fails, with a message, on the records 0 to 19."""

    def fit(self, X, y):
        if X[:, 0].max() < 20 and len(X) == 20:
            sys.stderr.write("this is the secret\n")
            raise ValueError("this is the secret")
        self.slope_ = float(np.mean(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.slope_)


@pytest.mark.parametrize("method", METHODS)
def test_a_failed_fit_on_the_secret_is_not_visible(method, capfd, recwarn):
    X, y = np.arange(40.0)[:, None], np.sin(np.arange(40.0))
    settings = {"eta": 0.2, "pairs": 60, "insecure_seed": 3, "n_jobs": 1}
    model = HalfPrivate(Delicate(), method=method, query=X[:1], **settings)
    first = np.arange(40) < 20
    calibrations, answers = zip(
        *(
            (model.fit(X, y, train=train).calibration_.to_dict(), model.predict(X[:1]))
            for train in (first, ~first)
        ),
        strict=True,
    )
    assert calibrations[0] == calibrations[1]
    assert np.isfinite(answers).all()
    assert capfd.readouterr() == ("", "")
    assert not [w for w in recwarn if "secret" in str(w.message)]
