"""Adapters: parameters out and in again give the same predictions, whatever the subset holds."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs, make_classification, make_regression
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPRegressor
from sklearn.svm import LinearSVC

from memberbound.errors import InputError
from memberbound.release.half.parameters import (
    FittedParameters,
    Population,
    adapter_for,
    clipped_rows,
)

TWO = make_classification(60, n_features=4, random_state=0)
THREE = make_blobs(90, n_features=3, centers=3, cluster_std=2.0, random_state=1)
NUMBERS = make_regression(50, n_features=3, noise=1.0, random_state=2)
HALF = np.arange(0, 50, 2)


def people(data):
    X, y = data
    classes = np.unique(y) if len(np.unique(y)) < 10 else None
    return Population(X, y, classes)


CLASSIFIERS = [
    LogisticRegression(),
    LogisticRegression(fit_intercept=False),
    RidgeClassifier(),
    LinearSVC(),
    GaussianNB(),
    GaussianNB(priors=None, var_smoothing=1e-6),
]


@pytest.mark.parametrize("data", [TWO, THREE])
@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=str)
def test_round_trip_of_classifiers(estimator, data):
    statistic = FittedParameters.of(estimator, people(data))
    vector = statistic(HALF)
    assert vector.shape == (statistic.dimension,)
    model, direct = statistic.model(vector), statistic.fitted(HALF)
    assert (model.predict(data[0]) == direct.predict(data[0])).mean() > 0.98
    if hasattr(direct, "predict_proba"):
        # Naive Bayes differs by its smoothed class shares.
        assert model.predict_proba(data[0]) == pytest.approx(
            direct.predict_proba(data[0]), abs=0.03
        )
    # A released naive Bayes has no counts, so its last coordinates are not read again.
    kept = slice(0, -len(np.unique(data[1])) if isinstance(estimator, GaussianNB) else None)
    again = statistic.adapter.parameters(model, statistic.population)
    assert again[kept] == pytest.approx(vector[kept], abs=1e-12)


@pytest.mark.parametrize("estimator", [Ridge(), LinearRegression(), Ridge(fit_intercept=False)])
@pytest.mark.parametrize("columns", [0, 1, 2])
def test_round_trip_of_regressions(estimator, columns):
    X, y = NUMBERS
    target = y if columns == 0 else np.column_stack([y, -y])[:, :columns]
    statistic = FittedParameters.of(estimator, Population(X, target))
    vector = statistic(HALF)
    assert vector.shape == (statistic.dimension,)
    direct = statistic.fitted(HALF).predict(X)
    assert statistic.model(vector).predict(X) == pytest.approx(direct)


def test_round_trip_of_k_means_and_its_order():
    X, _ = THREE
    statistic = FittedParameters.of(KMeans(3, n_init=1, random_state=0), Population(X))
    vector = statistic(HALF)
    model = statistic.model(vector)
    assert (model.predict(X) == statistic.fitted(HALF).predict(X)).all()
    # Neighbouring subsets move the centres a little; a relabelling would move them by the
    # distance of two clusters.
    near = statistic(np.append(HALF[1:], 1))
    centres = vector.reshape(3, -1)
    apart = min(np.linalg.norm(centres[i] - centres[j]) for i, j in ((0, 1), (0, 2), (1, 2)))
    assert np.linalg.norm(vector - near) < apart / 3


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=str)
@pytest.mark.parametrize("missing", [1, 2])
def test_absent_classes_leave_the_length_and_are_not_predicted(estimator, missing):
    X, y = THREE
    statistic = FittedParameters.of(estimator, people(THREE))
    rows = np.flatnonzero(y >= missing)
    vector = statistic(rows)
    assert vector.shape == (statistic.dimension,)
    assert np.isfinite(vector).all()
    assert (statistic(rows) == vector).all()
    if not isinstance(estimator, GaussianNB) and estimator.fit_intercept:
        bounds = statistic.model(vector).predict(X[rows])
        assert np.isin(bounds, np.unique(y[rows])).mean() > 0.95


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=str)
def test_one_class_of_two(estimator):
    X, y = TWO
    statistic = FittedParameters.of(estimator, people(TWO))
    for wanted in (0, 1):
        rows = np.flatnonzero(y == wanted)
        vector = statistic(rows)
        assert vector.shape == (statistic.dimension,)
        if getattr(estimator, "fit_intercept", False):
            assert (statistic.model(vector).predict(X[rows]) == wanted).all()


def test_the_shell_knows_nothing_of_the_data():
    first = FittedParameters.of(LogisticRegression(), people(TWO))
    other = FittedParameters.of(
        LogisticRegression(), Population(TWO[0] * 7 + 1, TWO[1], np.array([0, 1]))
    )
    vector = np.arange(5.0)
    one, two = vars(first.model(vector)), vars(other.model(vector))
    assert one.keys() == two.keys()
    for name, value in one.items():
        assert np.array_equal(np.asarray(value), np.asarray(two[name]), equal_nan=False) or (
            value is two[name]
        ), name


def test_naive_bayes_survives_any_noise():
    statistic = FittedParameters.of(GaussianNB(), people(THREE))
    wild = statistic(HALF) + np.random.default_rng(0).normal(0, 1e4, statistic.dimension)
    model = statistic.model(wild)
    assert (model.var_ > 0).all()
    assert model.class_prior_.sum() == pytest.approx(1.0)
    assert np.isfinite(model.var_).all()


def network_numbers(model):
    return np.concatenate([w.ravel() for w in (*model.coefs_, *model.intercepts_)])


def set_network_numbers(model, vector):
    place = 0
    for group in (model.coefs_, model.intercepts_):
        for i, w in enumerate(group):
            group[i] = vector[place : place + w.size].reshape(w.shape)
            place += w.size


def test_a_users_own_adapter():
    X, y = NUMBERS
    base = MLPRegressor(hidden_layer_sizes=(3,), max_iter=20)
    adapter = adapter_for(base, (network_numbers, set_network_numbers))
    statistic = FittedParameters.of(base, Population(X, y), adapter)
    with pytest.warns(Warning, match="Maximum iterations"):
        vector, direct = statistic(HALF), statistic.fitted(HALF)
    assert statistic.model(vector).predict(X) == pytest.approx(direct.predict(X))


def test_clipping():
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    assert np.linalg.norm(clipped_rows(rows, 1.0), axis=1) == pytest.approx([1.0, 0.5, 0.0])
    assert clipped_rows(rows, None) is rows


def test_bad_input():
    with pytest.raises(InputError, match="adapter"):
        adapter_for(MLPRegressor())
    with pytest.raises(InputError, match="set_parameters"):
        adapter_for(MLPRegressor(), object())
    statistic = FittedParameters.of(Ridge(), people(NUMBERS))
    with pytest.raises(InputError, match="finite"):
        statistic.model(np.full(4, np.nan))
