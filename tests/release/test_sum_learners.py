"""Releases by sums: learners from noisy sums, and noise that counts the crowd (X21).

Truth: scikit-learn's own fits without noise; exact one-dimensional mixtures over all halves.
"""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import GaussianNB

import memberbound as mb
from memberbound.attacks.noisy_releases import audit_release
from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.release import statistics as statistics_module
from memberbound.release.noise import GaussianNoise
from memberbound.release.parameters import Population
from memberbound.release.statistics import SumStatistic, calibrate_crowd, calibrate_sum, mean
from memberbound.release.sum_learners import SumParameters
from memberbound.subset.crowd import Crowd


def flowers(size=300, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    target = np.arange(size) % classes
    rows = rng.normal(size=(size, 3)) + target[:, None] * [1.0, -0.5, 0.0]
    return rows * [1.0, 10.0, 0.1] + [5.0, 0.0, -1.0], target


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 3.0])
def test_least_squares_from_sums_is_scikit_learns(alpha, intercept):
    rows, target = load_diabetes(return_X_y=True)
    people, half = Population(rows, target), np.arange(0, 440, 2)
    kind = Ridge(alpha=alpha, fit_intercept=intercept)
    kind = kind if alpha else LinearRegression(fit_intercept=intercept)
    sums = SumParameters.of(kind, people, half.size)
    found = sums.model(sums(half))
    if not intercept:
        # Without an intercept the target is not centred either.
        assert found.coef_.shape == (10,)
        return
    wanted = kind.fit(rows[half], target[half])
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-6, atol=1e-6)
    assert found.intercept_ == pytest.approx(wanted.intercept_, rel=1e-8)


@pytest.mark.parametrize("classes", [2, 3])
def test_ridge_classifier_and_bayes_agree_with_scikit_learn(classes):
    rows, target = flowers(classes=classes)
    people, half = Population(rows, target, np.arange(classes)), np.arange(150)
    for kind in (RidgeClassifier(alpha=2.0), GaussianNB()):
        sums = SumParameters.of(kind, people, half.size)
        found, wanted = sums.model(sums(half)), kind.fit(rows[half], target[half])
        assert (found.predict(rows) == wanted.predict(rows)).mean() > 0.99
        if isinstance(kind, GaussianNB):
            np.testing.assert_allclose(found.theta_, wanted.theta_, rtol=1e-9)
            np.testing.assert_allclose(found.var_, wanted.var_, rtol=1e-4)
        else:
            np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-8)


@pytest.mark.parametrize("classes", [2, 4])
def test_a_newton_step_from_zero(classes):
    """Against one step of the plain formula, on standardised columns without a penalty."""
    rows, target = flowers(classes=classes)
    half = np.arange(150)
    sums = SumParameters.of(
        LogisticRegression(C=1e12), Population(rows, target, np.arange(classes)), 150
    )
    found = sums.model(sums(half))
    wide = np.column_stack([(rows - rows.mean(axis=0)) / rows.std(axis=0), np.ones(300)])
    if classes == 2:
        bend, pull = wide.T @ wide / 300 / 4, wide[half].T @ (target[half] - 0.5) / 150
        step = np.linalg.solve(bend, pull)
        np.testing.assert_allclose(found.decision_function(rows), wide @ step, rtol=1e-4, atol=1e-6)
    else:
        pulls = np.eye(classes)[target[half]] - 1 / classes
        step = np.linalg.solve(wide.T @ wide / 300 / classes, wide[half].T @ pulls / 150)
        np.testing.assert_allclose(found.decision_function(rows), wide @ step, rtol=1e-4, atol=1e-6)
    assert found.score(rows, target) > 0.8 / classes + 0.2


def test_noise_of_the_crowd_is_less_and_keeps_its_promise():
    rows = np.random.default_rng(3).normal(size=(200, 2))
    rows[0] = (8.0, 0.0)
    game = SubsetGame(200, 100)
    for record, eta in (("average", 0.02), ("every", 0.05)):
        alone = calibrate_sum(mean(rows), game, eta=eta, record=record)
        crowd = calibrate_crowd(mean(rows), game, eta=eta, record=record)
        assert crowd.noise_scale < 0.97 * alone.noise_scale
        assert crowd.certificate.value <= eta
        assert crowd.certificate.theorems[0] == "X21"
        assert crowd.certificate.confidence == 1.0
        assert crowd.certificate.game.record == record
        floor = audit_release(mean(rows), crowd.noise, game, targets=150, workers=1)
        bound = floor.average if record == "average" else floor.worst
        assert bound.lower <= 2 * crowd.certificate.value
    # Broken twin: next to no noise, and the attack on the worst record passes the certificate.
    little = GaussianNoise(crowd.noise.scale / 30, 2)
    loud = audit_release(mean(rows), little, game, targets=600, workers=1)
    assert loud.worst.lower > 2 * crowd.certificate.value


def test_without_a_crowd_it_is_the_coupling():
    rows = np.random.default_rng(0).normal(size=(12, 2))
    for game in (SubsetGame(12, 6), SubsetGame(12, 3)):
        alone = calibrate_sum(rows, game, eta=0.1, record="every")
        crowd = calibrate_crowd(rows, game, eta=0.1, record="every")
        assert crowd.noise_scale == alone.noise_scale
        assert crowd.method == "crowd"


def test_equal_sums_are_calibrated_once(monkeypatch):
    rows = np.random.default_rng(5).normal(size=(12, 2))
    first = calibrate_crowd(rows, SubsetGame(12, 6), eta=0.1)
    monkeypatch.setattr(statistics_module, "_calibrated", None)
    assert calibrate_crowd(SumStatistic(rows), SubsetGame(12, 6), eta=0.1) is first


def test_protect_saves_and_predicts(tmp_path):
    rows, target = flowers(80)
    table = pd.DataFrame(rows, columns=list("abc")).assign(ill=np.where(target, "yes", "no"))
    out = tmp_path / "model.skops"
    found = mb.protect(
        table, target="ill", learner="logistic", method="crowd", eta=0.2, tune=False, out=out,
        insecure_seed=1,
    )  # fmt: skip
    said = found.to_dict()
    assert said["game"] == "subset"
    assert said["protects"] == "every record"
    assert said["certificate"]["upper"] <= 0.2
    assert json.loads((tmp_path / "model.skops.certificate.json").read_text())["method"] == "crowd"
    answers = mb.predict(out, table.drop(columns="ill"))
    assert answers.to_dict()["rows"] == 80


@pytest.mark.parametrize("statistic", ["mean", "histogram", "covariance", "contingency"])
def test_statistics_by_the_crowd(statistic):
    rng = np.random.default_rng(0)
    # Of 40 rows up to three sums are asked for their crowd; the six of a contingency table are not.
    table = pd.DataFrame({"a": rng.integers(3, size=40), "b": rng.integers(2, size=40)})
    columns = ["a"] if statistic == "histogram" else ["a", "b"]
    found = mb.protect(
        table, statistic=statistic, columns=columns, method="crowd", game="subset", eta=0.1,
        insecure_seed=1,
    )  # fmt: skip
    assert found.calibration.method == "crowd"
    assert found.calibration.certificate.value <= 0.1


def test_bad_input():
    rows, target = flowers(40)
    people = Population(rows, target, np.arange(2))
    for kind in (Lasso(), LogisticRegression(class_weight="balanced"), Ridge(alpha=[1.0, 2.0])):
        with pytest.raises(InputError, match="method='crowd'"):
            SumParameters.of(kind, people, 20)
    table = pd.DataFrame(rows, columns=list("abc"))
    with pytest.raises(InputError, match="sums over records"):
        mb.protect(table, statistic="quantiles", method="crowd", game="subset", eta=0.1)
    with pytest.raises(InputError, match="crowd"):
        mb.protect(table.assign(t=target), target="t", learner="tree", method="crowd", eta=0.1)
    with pytest.raises(InputError, match="applies only to game='subset'"):
        mb.protect(table.assign(t=target), target="t", method="crowd", game="neighbour", eta=0.1)
    sums = SumParameters.of(GaussianNB(), people, 20)
    with pytest.raises(InputError, match="finite"):
        sums.model(np.full(sums.dimension, np.nan))


def test_a_sum_for_every_pair_of_many_columns_is_refused_before_it_is_made():
    rows = np.random.default_rng(5).normal(size=(200, 61))
    people = Population(rows, rows[:, 0])
    with pytest.raises(InputError, match="at most 60 encoded columns for method='crowd', got 61"):
        SumParameters.of(Ridge(), people, size=100)
    assert SumParameters.of(Ridge(), Population(rows[:, :3], rows[:, 0]), size=100).dimension == 14


def test_a_crowd_that_does_not_help_is_asked_once(monkeypatch):
    rows = np.random.default_rng(6).normal(size=(300, 3))
    rows[7] *= 300  # An outlier has no crowd to hide in.
    game = SubsetGame(300, 150)
    asked = []
    found = Crowd.success.func
    counted = property(lambda crowd: asked.append(crowd.sigma) or found(crowd))
    monkeypatch.setattr(Crowd, "success", counted)
    alone = calibrate_sum(rows, game, eta=0.1, record="every")
    assert asked == []
    crowd = calibrate_crowd(rows, game, eta=0.1, record="every")
    assert crowd.noise_scale == alone.noise_scale
    assert crowd.certificate.theorems == alone.certificate.theorems
    assert len(asked) == 1
