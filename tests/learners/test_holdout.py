"""Held-out scores: against naive formulas, beside a constant, in one thread."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_info

from memberbound.learners import holdout
from memberbound.learners.examples import read_examples
from memberbound.learners.holdout import (
    Predictions,
    holdout_score,
    predict_rows,
    read_target,
    score_beside_constant,
    score_constant,
    standard_error,
)
from memberbound.release.model_quality import ReleaseScore, usefulness_notes
from memberbound.tables.columns import read_column

CLASSES = ("a", "b", "c")


def naive_area(members, margins):
    """The share of pairs that are ordered rightly; ties count half."""
    inside, outside = margins[members], margins[~members]
    return np.mean([(i > o) + 0.5 * (i == o) for i in inside for o in outside])


def draw(rows=60, seed=0):
    draws = np.random.default_rng(seed)
    target = draws.choice(CLASSES, rows, p=(0.5, 0.3, 0.2))
    return target, draws.normal(size=(rows, 3)) + 2 * (target[:, None] == np.array(CLASSES))


def test_scores_are_those_of_naive_formulas():
    target, ranking = draw()
    values = np.array(CLASSES)[ranking.argmax(axis=1)]
    constant, scores = score_beside_constant(target, target, CLASSES, Predictions(values, ranking))
    right = values == target
    recalls = [right[target == name].mean() for name in CLASSES]
    margins = [ranking[:, k] - np.delete(ranking, k, 1).max(axis=1) for k in range(3)]
    areas = [naive_area(target == name, m) for name, m in zip(CLASSES, margins, strict=True)]
    assert scores["accuracy"] == pytest.approx(right.mean())
    assert scores["balanced accuracy"] == pytest.approx(np.mean(recalls))
    assert scores["AUC"] == pytest.approx(np.mean(areas))
    assert constant["accuracy"] == pytest.approx((target == "a").mean())
    assert constant["balanced accuracy"] == pytest.approx(1 / 3)
    assert constant["AUC"] == 0.5


@pytest.mark.parametrize("numbers", [False, True])
def test_the_standard_error_is_the_spread_over_fresh_rows(numbers):
    """Against the spread of the score itself over 1 000 fresh samples of 200 rows."""
    from sklearn.metrics import accuracy_score, r2_score

    draws = np.random.default_rng(1)
    truth = draws.normal(size=(1000, 200))
    values = truth + 0.8 * draws.standard_t(6, size=truth.shape)
    if not numbers:
        truth, values = np.where(truth > 0.5, "a", "b"), np.where(values > 0.5, "a", "b")
    rule = r2_score if numbers else accuracy_score
    spread = np.std([rule(t, v) for t, v in zip(truth, values, strict=True)])
    stated = [
        standard_error(t, v, numbers=numbers) for t, v in zip(truth[:200], values, strict=False)
    ]
    assert np.mean(stated) == pytest.approx(spread, rel=0.1)
    assert standard_error(np.ones(5), np.zeros(5), numbers=True) is None


def test_the_constant_is_that_of_the_rows_trained_on():
    target = np.array(["a", "b", "b", "b"])
    blind = Predictions(target, np.zeros((4, 3)))
    constant, scores, none = score_beside_constant(
        target, np.array(["a", "a", "b"]), CLASSES, blind, None
    )
    assert (constant["accuracy"], scores["accuracy"], none) == (0.25, 1.0, {})
    numbers = np.array([0.0, 1.0, 5.0])
    assert score_constant(numbers, ()) == {"R²": 0.0}
    assert score_beside_constant(numbers, numbers + 1, ())[0]["R²"] < 0


def test_columns_of_a_model_follow_the_names_of_classes():
    target, rows = draw(300)
    some = target != "b"
    model = HistGradientBoostingClassifier(max_iter=3).fit(rows[some], target[some])
    predictions = predict_rows(model, rows, CLASSES, probabilities=True)
    assert (predictions.ranking[:, 1] == -np.inf).all()
    assert (predictions.probabilities[:, 1] == 0).all()
    assert predictions.probabilities.sum(axis=1) == pytest.approx(1)


def test_targets_without_a_value_are_reported():
    texts, there = read_target(read_column(["x", None, "1"]), numbers=False)
    assert (texts[there].tolist(), there.tolist()) == (["x", "1"], [True, False, True])
    _, there = read_target(read_column([1.5, None, np.inf]), numbers=True)
    assert there.tolist() == [True, False, False]


def test_models_are_trained_in_one_thread(monkeypatch):
    target, rows = draw(40)
    examples = read_examples(pd.DataFrame(rows).assign(goal=target), target="goal")
    seen = []

    def train(rows, seed):
        seen.append({pool["num_threads"] for pool in threadpool_info()})
        return lambda others: Predictions(examples.target[others], np.zeros((len(others), 0)))

    monkeypatch.setattr(holdout, "SPLITS", {0: (2, 1)})
    score = holdout_score(examples, train, 0)
    assert (score.name, score.estimate) == ("accuracy", 1.0)
    assert seen == [{1}, {1}]


def test_a_release_worse_than_a_constant_is_called_so():
    good = [
        ReleaseScore("accuracy", 0.95, 0.95, 0.95),
        ReleaseScore("AUC", 0.9, 0.8, 0.5),
        ReleaseScore("log loss", 0.1, 0.15, 0.2),
        ReleaseScore("calibration error", 0.01, 0.02, None),
    ]
    assert usefulness_notes(good) == []
    assert usefulness_notes([]) == []
    for name, score, said in (
        ("AUC", 0.5, "rank people worse than a constant (AUC 0.500)"),
        ("log loss", 0.21, "predict worse than a constant (log loss 0.210 against 0.200)"),
    ):
        changed = [replace(s, released_estimate=score) if s.name == name else s for s in good]
        (note,) = usefulness_notes(changed)
        assert said in note
    (note,) = usefulness_notes([ReleaseScore("R²", 0.3, -0.01, 0.0)])
    assert "R² -0.010" in note
