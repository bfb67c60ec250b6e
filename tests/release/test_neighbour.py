"""Private linear models end to end: useful beside their plain rivals, and storable."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from tests.oracle.training import PUBLIC, NumberRows, fitted, loss_and_target, people

from memberbound.release.all_rows.gradient import Descent, TrainingRows, descend
from memberbound.release.all_rows.learner_forms import LEARNERS
from memberbound.release.all_rows.models import _mark
from memberbound.release.budget import Part
from memberbound.release.randomness import InsecureSource
from memberbound.tables.in_memory import PartsHere


def split(table, target, share, seed):
    frame = pd.DataFrame(table, columns=[f"f{k}" for k in range(table.shape[1])])
    frame["y"] = target
    order = np.random.default_rng(seed).permutation(len(frame))
    cut = int(len(frame) * share)
    return frame.iloc[order[:cut]], frame.iloc[order[cut:]]


def accuracy(model, test):
    return float(np.mean(model.predict(test) == test["y"].astype(str)))


def test_digits_of_half_the_table():
    images, digits = load_digits(return_X_y=True)
    bounds = {f"f{k}": [0, 16] for k in range(64)} | {"y": {"categories": list(range(10))}}
    found = []
    for seed in range(3):
        train, test = split(images, digits, 0.5, seed)
        model = fitted(train, "y", seed=seed, bounds=bounds)
        found.append(accuracy(model, test))
        assert model.budget.certificate().value <= 0.05
    assert np.mean(found) > 0.78  # the constant classifier has 0.1


@pytest.mark.parametrize("learner", ["logistic", "ridge"])
def test_tuning_is_paid_for(monkeypatch, learner):
    """Trials and their scores are parts of one budget, and a record moves a score by at most 1."""
    moved, sums = {}, Part.sums

    def remembered(part, *, sensitivity, times=1):
        moved[part.name] = sensitivity
        return sums(part, sensitivity=sensitivity, times=times)

    monkeypatch.setattr(Part, "sums", remembered)
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"x": rng.random(400), "y": rng.integers(0, 2, 400)})
    bounds = {"x": [0, 1], "y": [0, 1] if learner == "ridge" else {"categories": [0, 1]}}
    plain = fitted(table, "y", bounds=bounds, learner=learner)
    found = fitted(table, "y", bounds=bounds, learner=learner, tune=True)
    names = [part.name for part in found.budget.parts]
    assert names.count("a trial") == 3
    assert moved["the trials' scores"] >= math.sqrt(3)
    assert "the trials' scores" in names
    assert "a trial" not in plain.budget.shares()
    assert math.hypot(*(part.mu for part in found.budget.parts)) <= found.budget.mu
    assert found.budget.slack > plain.budget.slack
    assert found.budget.curve().eta <= 0.05
    shared = {part.name: part.mu for part in found.budget.parts}
    assert shared["gradient descent"] < 0.82 * plain.budget.parts[-1].mu
    # The score of a trial, with one record replaced by any other.
    loss, wanted = loss_and_target("logistic" if learner == "logistic" else "ridge", table["y"])
    rows, weights = table[["x"]].to_numpy(), np.ones(400)
    read = table["y"].to_numpy().astype(float)
    how = {"records": 400, "width": 1}
    descent = Descent.default(rows=400, width=1, outputs=1, mu=0.2)
    base = TrainingRows(NumberRows(rows), read, wanted, weights)
    part = Part("a trial", 0.2, InsecureSource(2))
    model = descend(PartsHere([base]), loss, descent, part, **how)

    def mark(rows):
        return _mark(rows, model, loss) / 2**30

    for new_x, new_y, weight in ((1.0, 1, 1.0), (-1.0, 0, 0.5), (0.0, 1, 0.0)):
        changed = [array.copy() for array in (rows, read, weights)]
        changed[0][7], changed[1][7], changed[2][7] = new_x, new_y, weight
        other = TrainingRows(NumberRows(changed[0]), changed[1], wanted, changed[2])
        assert abs(mark(other) - mark(base)) <= 1
    # The bound of 1 is needed: leaving one record out moves a score nearly as far.
    gone = [replace(base, weights=(np.arange(400) != place) * 1.0) for place in range(40)]
    assert max(mark(base) - mark(rows) for rows in gone) > 0.7


def test_a_raw_table_needs_no_bounds():
    fresh = people(8000, seed=1)
    model = fitted(people(8000), seed=2)
    reached = float(np.mean(model.predict(fresh) == fresh["ill"]))
    constant = float(fresh["ill"].value_counts(normalize=True).max())
    assert reached > constant + 0.15
    chances = model.predict_proba(fresh)
    assert np.allclose(chances.sum(axis=1), 1.0)
    assert ((chances[:, 1] > 0.5) == (model.predict(fresh) == "yes")).all()
    # Rows that look like nothing before are predicted all the same.
    odd = pd.DataFrame({"age": [None, "old", 1e300], "city": [None, 7, "Ulm"]})
    assert set(model.predict(odd)) <= {"yes", "no"}


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_takes_public_bounds_alone(learner):
    table = people(400)
    table["ill"] = np.arange(400) % 2
    target = [0, 1] if learner in ("ridge", "huber") else {"categories": [0, 1]}
    model = fitted(table, bounds=PUBLIC | {"ill": target}, learner=learner)
    assert len(model.predict(table)) == 400
    assert hasattr(model, "predict_proba") == (learner in ("logistic", "boosting"))
