"""HalfPrivate as a user meets it: promises, leaks, scikit-learn's own checks.

``pairs`` is small and eta large here, so that refitting stays cheap; the calibrators have their own
tests.
"""

import json
import pickle
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone, is_classifier, is_regressor
from sklearn.datasets import make_classification, make_regression
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

import memberbound.release.half.half_estimator as estimator_module
from memberbound.errors import InputError
from memberbound.release.half.half_estimator import HalfPrivate

pytestmark = pytest.mark.usefixtures("few_fits")

X, Y = make_classification(160, n_features=4, n_informative=3, n_redundant=0, random_state=0)
XR, YR = make_regression(160, n_features=3, noise=5.0, random_state=1)
QUICK = {"record": "average", "eta": 0.2, "pairs": 20, "insecure_seed": 3, "n_jobs": 1}
#: For tests that do not depend on the release's accuracy: barely enough to certify anything.
FEWEST = QUICK | {"pairs": 12}
FIRST_HALF = np.arange(160) < 80


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize(
    "base",
    [LogisticRegression(), RidgeClassifier(), LinearSVC()],
    ids=lambda b: type(b).__name__,
)
def test_classifiers(base):
    model = HalfPrivate(base, **QUICK).fit(X, Y)
    assert 0 < model.certificate_.value <= 0.2
    assert model.certificate_.game.record == "average"
    assert model.certificate_.confidence == 0.95
    assert model.score(X, Y) > 0.6
    assert model.classes_.tolist() == [0, 1]
    assert model.n_features_in_ == 4
    assert is_classifier(model)
    assert hasattr(model, "predict_proba") == hasattr(base, "predict_proba")
    assert model.scores_[0].name == "accuracy"
    assert model.scores_[0].clean_estimate >= model.scores_[0].released_estimate - 0.05


@pytest.mark.parametrize("base", [Ridge(), LinearRegression()], ids=lambda b: type(b).__name__)
def test_regressions(base):
    model = HalfPrivate(base, **QUICK).fit(XR, YR)
    assert is_regressor(model)
    assert model.score(XR, YR) > 0.7
    assert model.predict(XR).shape == YR.shape


@pytest.mark.parametrize("method", ["auto", "izzo"])
def test_every_record(method):
    settings = QUICK | {"record": "every", "pairs": 60, "method": method}
    model = HalfPrivate(LogisticRegression(C=0.01), **settings).fit(X[:60], Y[:60])
    assert model.calibration_.method == ("moment" if method == "auto" else "izzo")
    assert model.certificate_.game.protects == "every record"
    assert model.certificate_.value <= 0.2


def test_the_release_is_the_fit_on_train_plus_the_stated_noise():
    rows = np.random.default_rng(4).permutation(160) < 80
    base = LogisticRegression()
    model = HalfPrivate(base, **QUICK).fit(X, Y, train=rows)
    clean = clone(base).fit(X[rows], Y[rows])
    moved = np.append(model.released_.coef_ - clean.coef_, model.released_.intercept_)
    moved[-1] -= clean.intercept_[0]
    # Five normal draws: 1e-6 of their lengths are outside these multiples of the rms.
    assert 0.02 < np.linalg.norm(moved) / model.calibration_.noise_scale < 3.5
    assert any("train=" in bounds for bounds in model.certificate_.assumptions)


class Spy(RegressorMixin, BaseEstimator):
    """Predict the mean; record and print the given rows."""

    log: list = []  # noqa: RUF012 - shared on purpose: clones must write into one list

    def fit(self, X, y):
        # The first column is the row number in the population.
        Spy.log.append(X[:, 0])
        print(y.sum(), file=sys.stderr)
        print(y.sum())
        self.mean_ = y.mean()
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


NUMBERED = np.column_stack([np.arange(160.0), XR])


def test_the_secret_is_drawn_after_calibration_and_fitted_once(monkeypatch):
    events = []

    def note(name):
        function = getattr(estimator_module, name)

        def call(*args, **kwargs):
            events.append(name)
            return function(*args, **kwargs)

        monkeypatch.setattr(estimator_module, name, call)

    note("secret_subset")
    note("calibrate")
    Spy.log.clear()
    model = HalfPrivate(Spy(), query=NUMBERED[:1], **QUICK).fit(NUMBERED, YR)
    assert events == ["calibrate", "secret_subset"]
    # 2·20 fits of pairs, 2·8 to look for coins, the secret last.
    assert len(Spy.log) == 2 * 20 + 2 * 8 + 1
    secret = set(Spy.log[-1])
    assert all(set(rows) != secret for rows in Spy.log[:-1])
    assert model.certificate_.value <= 0.2


def test_the_calibration_does_not_depend_on_the_secret():
    """The same seed and different secrets: everything but the release is the same."""
    one, two = (
        HalfPrivate(Ridge(), **FEWEST).fit(XR, YR, train=half) for half in (FIRST_HALF, ~FIRST_HALF)
    )
    assert json.dumps(one.calibration_.to_dict()) == json.dumps(two.calibration_.to_dict())
    assert one.scores_ == two.scores_
    assert (one.predict(XR) != two.predict(XR)).any()


def test_the_object_keeps_neither_the_secret_nor_the_clean_model():
    rows = np.random.default_rng(6).permutation(160) < 80
    base = LogisticRegression()
    model = HalfPrivate(base, **FEWEST).fit(X, Y, train=rows)
    clean = clone(base).fit(X[rows], Y[rows])
    text = pickle.dumps(model)
    assert rows.tobytes() not in text
    assert np.flatnonzero(rows).tobytes() not in text
    for number in (*clean.coef_.ravel(), *X[:3].ravel(), *X[rows][:3].ravel()):
        assert np.float64(number).tobytes() not in text
    # Negative control: the search finds the released numbers.
    assert np.float64(model.released_.coef_[0, 0]).tobytes() in text


def test_nothing_is_printed_about_the_secret(capfd):
    HalfPrivate(LinearSVC(verbose=1), **FEWEST).fit(X, Y)
    assert capfd.readouterr() == ("", "")
    HalfPrivate(Spy(), query=NUMBERED[:1], **FEWEST).fit(NUMBERED, YR, train=FIRST_HALF)
    printed = capfd.readouterr()
    # Fresh subsets may appear in the output, the secret one may not.
    assert printed.out
    assert str(YR[FIRST_HALF].sum()) not in printed.out + printed.err


def test_same_seed_same_release_and_no_seed_another():
    one, two = (HalfPrivate(Ridge(), **FEWEST).fit(XR, YR) for _ in range(2))
    assert (one.predict(XR) == two.predict(XR)).all()
    open_settings = FEWEST | {"insecure_seed": None}
    three, four = (HalfPrivate(Ridge(), **open_settings).fit(XR, YR) for _ in range(2))
    assert (three.predict(XR) != four.predict(XR)).any()
    assert three.secure_
    assert not one.secure_
    assert any("seed" in bounds for bounds in one.certificate_.assumptions)


def test_clone_pipeline_and_grid_search():
    model = HalfPrivate(Ridge(), **QUICK)
    assert clone(model).set_params(estimator__alpha=0.5).estimator.alpha == 0.5
    chain = make_pipeline(StandardScaler(), model).fit(XR, YR)
    assert chain.score(XR, YR) > 0.6
    search = GridSearchCV(
        clone(model).set_params(pairs=12), {"eta": [0.2, 0.3]}, cv=2, refit=False
    ).fit(XR, YR)
    assert search.best_params_["eta"] in (0.2, 0.3)


def test_clipped_rows_are_clipped_in_prediction_too():
    model = HalfPrivate(Ridge(), clip=1.0, **FEWEST).fit(XR, YR)
    assert model.predict(XR[:1] * 1000) == pytest.approx(model.predict(XR[:1] * 2000))


@pytest.mark.parametrize(
    ("model", "data", "said"),
    [
        (HalfPrivate(Ridge(), clip=0.0), (XR, YR), "clip"),
        (HalfPrivate(Ridge(), confidence=1.0), (XR, YR), "confidence"),
        (HalfPrivate(Ridge()), (XR[:3], YR[:3]), "4 records"),
        (HalfPrivate(LogisticRegression()), (X, np.zeros(160)), "one class"),
    ],
)
def test_bad_input(model, data, said):
    with pytest.raises(InputError, match=said):
        model.fit(*data)


@pytest.mark.parametrize("train", [np.ones(160, bool), np.ones(3, bool), np.arange(80), [0.5]])
def test_bad_train(train):
    with pytest.raises(InputError, match="train"):
        HalfPrivate(Ridge(), **QUICK).fit(XR, YR, train=train)


@pytest.mark.long
@pytest.mark.parametrize("base", [LogisticRegression(), Ridge()], ids=lambda b: type(b).__name__)
def test_scikit_learns_own_checks(base):
    """All of them, at an eta so large that the noise leaves predictions intact.

    At a small eta the checks that expect a good score (check_classifiers_train,
    check_classifiers_classes, check_regressors_train) fail: that is the price of noise on 30 rows.
    """
    settings = {"record": "average", "eta": 0.45, "pairs": 20, "n_jobs": 1}
    check_estimator(HalfPrivate(base, insecure_seed=1, **settings))
