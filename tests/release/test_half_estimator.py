"""HalfPrivate as a user meets it: promises, leaks, scikit-learn's own checks.

``pairs`` is small and eta large here, so that refitting stays cheap; the calibrators have their own
tests.
"""

import itertools
import json
import math
import pickle
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone, is_classifier, is_regressor
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs, make_classification, make_regression
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

import memberbound.release.half.half_estimator as estimator_module
from memberbound.errors import InputError
from memberbound.release.half import methods, refitting
from memberbound.release.half.half_estimator import HalfPrivate

X, Y = make_classification(160, n_features=4, n_informative=3, n_redundant=0, random_state=0)
XR, YR = make_regression(160, n_features=3, noise=5.0, random_state=1)
QUICK = {
    "record": "average",
    "eta": 0.2,
    "pairs": 20,
    "tune": False,
    "insecure_seed": 3,
    "n_jobs": 1,
}
#: For tests that do not ask how good the release is: hardly more than can certify anything.
FEWEST = QUICK | {"pairs": 12}


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize(
    "base",
    [LogisticRegression(), RidgeClassifier(), LinearSVC(), GaussianNB()],
    ids=lambda b: type(b).__name__,
)
def test_classifiers(base, monkeypatch):
    if not isinstance(base, LogisticRegression):  # one with the partners that are chosen
        monkeypatch.setattr(refitting, "_PARTNERS", (1,))
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
def test_regressions(base, monkeypatch):
    monkeypatch.setattr(refitting, "_PARTNERS", (1,))
    model = HalfPrivate(base, **QUICK).fit(XR, YR)
    assert is_regressor(model)
    assert model.score(XR, YR) > 0.7
    assert model.predict(XR).shape == YR.shape


@pytest.mark.usefixtures("few_fits")
def test_k_means():
    points, _ = make_blobs(120, centers=3, cluster_std=1.0, random_state=2)
    model = HalfPrivate(KMeans(3, n_init=1, random_state=0), **QUICK).fit(points)
    assert model.predict(points).shape == (120,)
    assert np.isfinite(model.score(points))


@pytest.mark.parametrize("base", [LogisticRegression(C=0.01), GaussianNB(), Ridge(alpha=50)])
def test_every_record(base):
    data = (XR[:60], YR[:60]) if isinstance(base, Ridge) else (X[:60], Y[:60])
    settings = QUICK | {"record": "every", "pairs": 60}
    model = HalfPrivate(base, **settings).fit(*data)
    assert model.calibration_.method == "moment"
    assert model.certificate_.game.protects == "every record"
    assert model.certificate_.value <= 0.2
    assert np.isfinite(model.predict(data[0]).astype(float)).all()


@pytest.mark.usefixtures("few_fits")
def test_izzo_is_there_to_compare_with():
    few = slice(0, 10)
    model = HalfPrivate(Ridge(), method="izzo", **QUICK | {"pairs": 30}).fit(XR[few], YR[few])
    assert model.calibration_.method == "izzo"


@pytest.mark.usefixtures("few_fits")
def test_the_release_is_the_fit_on_train_plus_the_stated_noise():
    rows = np.random.default_rng(4).permutation(len(X))[:80]
    base = LogisticRegression()
    model = HalfPrivate(base, **QUICK).fit(X, Y, train=rows)
    clean = clone(base).fit(X[np.sort(rows)], Y[np.sort(rows)])
    moved = np.append(model.released_.coef_ - clean.coef_, model.released_.intercept_)
    moved[-1] -= clean.intercept_[0]
    # Five normal draws: 1e-6 of their lengths are outside these multiples of the rms.
    assert 0.02 < np.linalg.norm(moved) / model.calibration_.noise_scale < 3.5
    assert any("train=" in bounds for bounds in model.certificate_.assumptions)


@pytest.mark.usefixtures("few_fits")
def test_a_mask_is_as_good_as_row_numbers():
    mask = np.arange(len(X)) % 2 == 0
    one = HalfPrivate(Ridge(), **FEWEST).fit(X, Y, train=mask)
    two = HalfPrivate(Ridge(), **FEWEST).fit(X, Y, train=np.flatnonzero(mask)[::-1])
    assert (one.predict(X) == two.predict(X)).all()


def best_attack(outputs, subsets, records, scale):
    """Gain of the best attacker on every record, by a fine sum over the release's density."""
    grid = np.linspace(outputs.min() - 9 * scale, outputs.max() + 9 * scale, 20001)
    densities = np.exp(-0.5 * ((grid[None, :] - outputs[:, None]) / scale) ** 2)
    densities *= (grid[1] - grid[0]) / (math.sqrt(2 * math.pi) * scale * len(subsets))
    inside = np.array([[x in s for s in subsets] for x in range(records)], dtype=float)
    return np.maximum(inside @ densities, (1 - inside) @ densities).sum(axis=1) - 0.5


@pytest.mark.parametrize(
    ("record", "method"),
    [("average", "neighbour"), ("every", "neighbour"), ("every", "moment")],
)
def test_no_attacker_gains_more_than_certified_and_less_noise_breaks_it(record, method):
    rows = np.array([[-2.0], [-1.0], [-0.5], [0.1], [0.4], [1.0], [1.5], [3.0]])
    target = np.array([1.0, -1.0, 0.3, 2.0, -1.5, 1.0, 0.2, -2.0])
    base = Ridge(alpha=2.0, fit_intercept=False)
    settings = QUICK | {"eta": 0.1, "pairs": 600, "record": record, "method": method}
    model = HalfPrivate(base, **settings).fit(rows, target)
    assert model.certificate_.confidence == 1.0  # all 70 subsets were fitted
    subsets = [np.array(s) for s in itertools.combinations(range(8), 4)]
    outputs = np.array([clone(base).fit(rows[s], target[s]).coef_[0] for s in subsets])
    pick = np.mean if record == "average" else np.max
    scale = model.calibration_.noise_scale
    assert pick(best_attack(outputs, subsets, 8, scale)) <= model.certificate_.value <= 0.1
    assert pick(best_attack(outputs, subsets, 8, scale / 20)) > 0.1


class Spy(RegressorMixin, BaseEstimator):
    """Ridge on the rows it is given; writes down which they were."""

    log: list = []  # noqa: RUF012 - shared on purpose: clones must write into one list

    def fit(self, X, y):
        # The first column is the row number in the population, but for made-up rows.
        Spy.log.append(np.asarray(X)[:, 0])
        self.coef_ = np.asarray(X)[:, 1:].mean(axis=0)
        return self

    def predict(self, X):
        return np.asarray(X)[:, 1:] @ self.coef_


def spy_parameters(model):
    return model.coef_


def set_spy_parameters(model, vector):
    model.coef_ = vector


def test_the_secret_is_drawn_after_calibration_and_fitted_once(monkeypatch):
    events = []
    kept = estimator_module.secret_subset
    calibrate, tune = estimator_module.calibrate, estimator_module.tuned

    def drawn(game, source):
        events.append("secret")
        return kept(game, source)

    def certify(*args, **kwargs):
        events.append("calibrate")
        return calibrate(*args, **kwargs)

    def choose(*args, **kwargs):
        events.append("tune")
        return tune(*args, **kwargs)

    monkeypatch.setattr(estimator_module, "tuned", choose)
    monkeypatch.setattr(estimator_module, "secret_subset", drawn)
    monkeypatch.setattr(estimator_module, "calibrate", certify)
    numbered = np.column_stack([np.arange(160.0), XR])
    Spy.log.clear()
    # Whole row numbers must survive, so rows are not clipped; Spy has no other setting to tune.
    settings = QUICK | {"tune": True, "clip": 1e9}
    pair = (spy_parameters, set_spy_parameters)
    model = HalfPrivate(Spy(), adapter=pair, **settings).fit(numbered, YR)
    assert events == ["tune", "calibrate", "secret"]
    halves = [rows for rows in Spy.log if len(rows) == 80]
    # 2·20 fits of pairs, 2·8 to look for coins, 8 for scores, the secret last but for the shell.
    assert len(halves) == 2 * 20 + 2 * 8 + 8 + 1
    secret = set(halves[-1])
    assert all(set(rows) != secret for rows in halves[:-1])
    assert model.certificate_.value <= 0.2


@pytest.mark.usefixtures("few_fits")
def test_neither_tuning_nor_calibration_depends_on_the_secret():
    """The same calibration seed and different secrets: everything but the release is the same."""
    settings = FEWEST | {"calibration_seed": 9, "tune": True}
    result = []
    for half in (np.arange(80), np.arange(80, 160)):
        model = HalfPrivate(Ridge(), **settings).fit(XR, YR, train=half)
        result.append((model.calibration_.to_dict(), model.scores_, model.configuration_))
    assert json.dumps(result[0][0]) == json.dumps(result[1][0])
    assert result[0][1:] == result[1][1:]


def reachable(thing, seen):
    """Every object that can be reached from an object's attributes."""
    if id(thing) in seen or isinstance(thing, (str, bytes, type(None))):
        return
    seen[id(thing)] = thing
    inner = []
    if isinstance(thing, dict):
        inner = list(thing.values())
    elif isinstance(thing, (list, tuple, set)):
        inner = list(thing)
    elif hasattr(thing, "__dict__"):
        inner = list(vars(thing).values())
    for part in inner:
        reachable(part, seen)


@pytest.mark.usefixtures("few_fits")
def test_the_object_keeps_neither_the_secret_nor_the_clean_model():
    rows = np.sort(np.random.default_rng(6).permutation(len(X))[:80])
    base = LogisticRegression()
    model = HalfPrivate(base, **FEWEST).fit(X, Y, train=rows)
    clean = clone(base).fit(X[rows], Y[rows])
    seen = {}
    reachable(model, seen)
    arrays = [a for a in seen.values() if isinstance(a, np.ndarray)]
    assert arrays
    for array in arrays:
        assert array.shape[:1] != (80,)
        assert array.shape[:1] != (160,)
        if array.shape == clean.coef_.shape:
            assert not np.isclose(array, clean.coef_, rtol=1e-9).any()
    text = pickle.dumps(model)
    for number in clean.coef_.ravel():
        assert np.float64(number).tobytes() not in text
    # The search finds what it should: the released numbers are there.
    assert np.float64(model.released_.coef_[0, 0]).tobytes() in text


class Talkative(RegressorMixin, BaseEstimator):
    """Prints what it was fitted on."""

    def fit(self, rows, target):
        print(target.sum(), file=sys.stderr)
        print(target.sum())
        self.coef_ = np.zeros(rows.shape[1])
        return self

    def predict(self, rows):
        return np.zeros(len(rows))


@pytest.mark.usefixtures("few_fits")
def test_nothing_is_printed_about_the_secret(capfd):
    HalfPrivate(LinearSVC(verbose=1), **FEWEST).fit(X, Y)
    assert capfd.readouterr() == ("", "")
    rows = np.arange(80)
    pair = (lambda model: model.coef_, lambda model, vector: setattr(model, "coef_", vector))
    HalfPrivate(Talkative(), **FEWEST, adapter=pair).fit(XR, YR, train=rows)
    bounds = capfd.readouterr()
    # Fresh subsets may be talked about, the secret not.
    assert bounds.out
    assert str(YR[rows].sum()) not in bounds.out + bounds.err


def test_the_calibration_seed_is_a_whole_number():
    with pytest.raises(InputError, match="calibration_seed must be a whole number"):
        HalfPrivate(Ridge(), **QUICK, calibration_seed=-1).fit(XR, YR)


def test_tuning_picks_the_configuration_with_the_best_released_score(monkeypatch):
    monkeypatch.setattr(refitting, "_PARTNERS", (1,))
    settings = QUICK | {"tune": True, "eta": 0.1, "pairs": 60}
    model = HalfPrivate(Ridge(alpha=0.01), **settings).fit(XR, YR)
    assert len(model.trials_) == 12
    best = max(t.score_estimate for t in model.trials_ if t.score_estimate is not None)
    chosen = next(t for t in model.trials_ if t.configuration == model.configuration_)
    assert chosen.score_estimate == best
    assert model.certificate_.value <= 0.1
    # What the user gave is not overwritten.
    assert model.estimator.alpha == 0.01


@pytest.mark.usefixtures("few_fits")
def test_a_configuration_that_fails_is_not_chosen(monkeypatch):
    noise = methods._pilot_noise

    def fragile(statistic, *args, **kwargs):
        if statistic.estimator.alpha == 1.0:
            raise InputError("fails on some subset.")
        return noise(statistic, *args, **kwargs)

    monkeypatch.setattr(methods, "_pilot_noise", fragile)
    model = HalfPrivate(Ridge(), **FEWEST | {"tune": True}).fit(XR, YR)
    assert model.configuration_.value != 1.0
    assert [t.score_estimate for t in model.trials_ if t.configuration.value == 1.0] == [None] * 3


@pytest.mark.usefixtures("few_fits")
def test_same_seed_same_release_and_no_seed_another():
    settings = FEWEST | {"calibration_seed": 1}
    one, two = (HalfPrivate(Ridge(), **settings).fit(XR, YR) for _ in range(2))
    assert (one.predict(XR) == two.predict(XR)).all()
    open_settings = settings | {"insecure_seed": None}
    three, four = (HalfPrivate(Ridge(), **open_settings).fit(XR, YR) for _ in range(2))
    assert (three.predict(XR) != four.predict(XR)).any()
    assert three.secure_
    assert not one.secure_
    assert any("seed" in bounds for bounds in one.certificate_.assumptions)


@pytest.mark.usefixtures("few_fits")
def test_clone_pipeline_and_grid_search():
    model = HalfPrivate(Ridge(), **QUICK)
    assert clone(model).get_params()["estimator__alpha"] == 1.0
    assert clone(model).set_params(estimator__alpha=0.5).estimator.alpha == 0.5
    chain = make_pipeline(StandardScaler(), model).fit(XR, YR)
    assert chain.score(XR, YR) > 0.6
    search = GridSearchCV(
        clone(model).set_params(pairs=12), {"eta": [0.2, 0.3]}, cv=2, refit=False
    ).fit(XR, YR)
    assert search.best_params_["eta"] in (0.2, 0.3)


@pytest.mark.usefixtures("few_fits")
def test_clipped_rows_are_clipped_in_prediction_too():
    model = HalfPrivate(Ridge(), clip=1.0, **FEWEST).fit(XR, YR)
    assert model.predict(XR[:1] * 1000) == pytest.approx(model.predict(XR[:1] * 2000))


class Fragile(BaseEstimator, RegressorMixin):
    """Refuses subsets that hold the first record."""

    def fit(self, X, y):
        if (np.asarray(X)[:, 0] == XR[0, 0]).any():
            raise RuntimeError("no")
        self.coef_ = np.zeros(2)
        return self

    def predict(self, X):
        return np.zeros(len(X))


@pytest.mark.parametrize(
    ("model", "data", "said"),
    [
        (HalfPrivate(Ridge(), eta=0.5), (XR, YR), "eta"),
        (HalfPrivate(Ridge(), eta=-0.1), (XR, YR), "eta"),
        (HalfPrivate(Ridge(), record="some"), (XR, YR), "record"),
        (HalfPrivate(Ridge(), method="magic"), (XR, YR), "method"),
        (HalfPrivate(Ridge(), clip=0.0), (XR, YR), "clip"),
        (HalfPrivate(Ridge(), confidence=1.0), (XR, YR), "confidence"),
        (HalfPrivate(Ridge()), (XR[:3], YR[:3]), "4 records"),
        (HalfPrivate(LogisticRegression()), (X, np.zeros(160)), "one class"),
        (HalfPrivate(KNeighborsClassifier()), (X, Y), "adapter"),
        (HalfPrivate(GaussianNB(), method="convex"), (X, Y), "method must be one of"),
        (HalfPrivate(GaussianNB(), method="crowd"), (X, Y), "method must be one of"),
        (
            HalfPrivate(Fragile(), adapter=(spy_parameters, set_spy_parameters), **QUICK),
            (XR, YR),
            "every subset",
        ),
    ],
)
def test_bad_input(model, data, said):
    with pytest.raises(InputError, match=said):
        model.fit(*data)


@pytest.mark.parametrize("train", [[0, 0, 1], np.ones(160, bool), [500], np.ones(3, bool), [0.5]])
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
    settings = {"record": "average", "eta": 0.45, "pairs": 20, "tune": False, "n_jobs": 1}
    model = HalfPrivate(base, insecure_seed=1, calibration_seed=1, **settings)
    check_estimator(model)
