"""Private predictions on a fixed query set, for learners without a parameter vector."""

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_regression
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from memberbound.errors import InputError
from memberbound.release.half.half_estimator import HalfPrivate
from memberbound.release.half.linear_fits import Population
from memberbound.release.half.prediction_table import FittedPredictions, PredictionTable

X, Y = make_classification(120, n_features=4, random_state=0)
QUERY = X[:6] + 0.01
QUICK = {"eta": 0.2, "pairs": 30, "insecure_seed": 3, "n_jobs": 1}
AVERAGE = QUICK | {"record": "average"}


def test_k_nearest_neighbours_answer_the_query_only():
    model = HalfPrivate(KNeighborsClassifier(7), query=QUERY, **AVERAGE).fit(X, Y)
    assert model.certificate_.value <= 0.2
    assert model.predict(QUERY).shape == (6,)
    assert model.predict_proba(QUERY[::-1]).sum(axis=1) == pytest.approx(np.ones(6))
    assert (model.predict(QUERY[[2, 2]]) == model.predict(QUERY)[2]).all()
    with pytest.raises(InputError, match="released query rows"):
        model.predict(X[:1])
    assert set(vars(model.released_)) == {"query", "table", "classes"}  # not the population
    assert model.released_.table.shape == (6, 1)


def test_regressions():
    rows, target = make_regression(80, n_features=2, random_state=1)
    model = HalfPrivate(KNeighborsRegressor(), query=rows[:5], **AVERAGE).fit(rows, target)
    assert model.predict(rows[:5]).shape == (5,)
    assert not hasattr(model, "predict_proba")


def test_the_statistic_is_the_models_own_answer():
    three = np.arange(120) % 3
    people = Population(X, three, np.arange(3))
    half = np.arange(60)
    for base in (DecisionTreeClassifier(max_depth=3, random_state=0), LinearSVC()):
        statistic = FittedPredictions.of(base, people, QUERY)
        assert statistic.dimension == 18
        answers = statistic(half).reshape(6, 3)
        assert answers.sum(axis=1) == pytest.approx(np.ones(6))
        direct = base.fit(X[half], three[half])
        assert (answers.argmax(axis=1) == direct.predict(QUERY)).all()


def test_absent_classes_have_probability_zero():
    people = Population(X, np.arange(120) % 3, np.arange(3))
    statistic = FittedPredictions.of(DecisionTreeClassifier(), people, QUERY)
    two = statistic(np.flatnonzero(people.target > 0)).reshape(6, 3)
    assert (two[:, 0] == 0).all()
    one = statistic(np.flatnonzero(people.target == 1)).reshape(6, 3)
    assert (one == [0, 1, 0]).all()


def test_negative_zero_is_zero():
    answers = PredictionTable(np.zeros((1, 2)), np.array([[2.0]]))
    assert answers.predict([[-0.0, 0.0]]).tolist() == [2.0]


def test_bad_input():
    with pytest.raises(InputError, match="query"):
        HalfPrivate(KNeighborsClassifier(), query=QUERY[:, :2], **QUICK).fit(X, Y)
    with pytest.raises(InputError, match="columns"):
        PredictionTable(np.eye(2), np.ones((2, 1))).predict([[1.0]])
