"""Parameters out and in again give the same predictions, whatever the subset holds."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_classification, make_regression
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.svm import LinearSVC

from memberbound.release.half.linear_fits import FittedParameters, Population

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
]


@pytest.mark.parametrize("data", [TWO, THREE])
@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=str)
def test_round_trip_of_classifiers(estimator, data):
    statistic = FittedParameters.of(estimator, people(data))
    vector = statistic(HALF)
    assert vector.shape == (statistic.dimension,)
    model, direct = statistic.model(vector), clone(estimator).fit(data[0][HALF], data[1][HALF])
    assert (model.predict(data[0]) == direct.predict(data[0])).mean() > 0.98
    if hasattr(direct, "predict_proba"):
        assert model.predict_proba(data[0]) == pytest.approx(
            direct.predict_proba(data[0]), abs=0.03
        )


@pytest.mark.parametrize("estimator", [Ridge(), LinearRegression(), Ridge(fit_intercept=False)])
def test_round_trip_of_regressions(estimator):
    X, y = NUMBERS
    statistic = FittedParameters.of(estimator, Population(X, y))
    vector = statistic(HALF)
    assert vector.shape == (statistic.dimension,)
    direct = clone(estimator).fit(X[HALF], y[HALF]).predict(X)
    assert statistic.model(vector).predict(X) == pytest.approx(direct)


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
    if estimator.fit_intercept:
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
        if estimator.fit_intercept:
            assert (statistic.model(vector).predict(X[rows]) == wanted).all()


def test_the_shell_does_not_depend_on_the_data():
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
