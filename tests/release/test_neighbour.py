"""Private linear models end to end: useful beside their plain rivals, and storable."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression
from tests.oracle.training import NumberRows

from memberbound import InputError, MembershipPrivate
from memberbound.curve.families import GaussianCurve, SlackCurve
from memberbound.games import NeighbourGame
from memberbound.release.all_rows.gradient import Descent, TrainingRows, descend
from memberbound.release.all_rows.losses import loss_named
from memberbound.release.all_rows.models import LEARNERS, PrivateModel, _mark, fit_private
from memberbound.release.budget import Budget, Part
from memberbound.release.randomness import InsecureSource, SecureSource
from memberbound.tables.parts import PartsHere


def split(table, target, share, seed):
    frame = pd.DataFrame(table, columns=[f"f{k}" for k in range(table.shape[1])])
    frame["y"] = target
    order = np.random.default_rng(seed).permutation(len(frame))
    cut = int(len(frame) * share)
    return frame.iloc[order[:cut]], frame.iloc[order[cut:]]


def ranges(table):
    """The ranges a person would know: here the smallest and largest values, rounded outwards."""
    low, high = np.floor(table.min(axis=0)), np.ceil(table.max(axis=0))
    return {f"f{k}": [a, b] for k, (a, b) in enumerate(zip(low, high, strict=True))}


def accuracy(model, test):
    return float(np.mean(model.predict(test) == test["y"].astype(str)))


def test_digits_of_half_the_table():
    images, digits = load_digits(return_X_y=True)
    bounds = {f"f{k}": [0, 16] for k in range(64)} | {"y": {"categories": list(range(10))}}
    found = []
    for seed in range(3):
        train, test = split(images, digits, 0.5, seed)
        model = fit_private(train, "y", eta=0.05, bounds=bounds, source=InsecureSource(seed))
        found.append(accuracy(model, test))
        assert model.budget.certificate().value <= 0.05
    assert np.mean(found) > 0.78  # the constant classifier has 0.1


@pytest.mark.parametrize("learner", ["logistic", "ridge"])
def test_tuning_is_paid_for(learner):
    """Trials and their scores are parts of one budget, and a record moves a score by at most 1."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"x": rng.random(400), "y": rng.integers(0, 2, 400)})
    bounds = {"x": [0, 1], "y": [0, 1] if learner == "ridge" else {"categories": [0, 1]}}
    options = {"eta": 0.05, "bounds": bounds, "learner": learner}
    plain = fit_private(table, "y", source=InsecureSource(1), **options)
    found = fit_private(table, "y", tune=True, source=InsecureSource(1), **options)
    names = [part.name for part in found.budget.parts]
    assert names.count("a trial") == 3
    assert "the trials' scores" in names
    assert (found.tuned, plain.tuned) == (True, False)
    assert math.hypot(*(part.mu for part in found.budget.parts)) <= found.budget.mu
    assert found.budget.slack > plain.budget.slack
    assert found.budget.curve().eta <= 0.05
    shared = {part.name: part.mu for part in found.budget.parts}
    assert shared["gradient descent"] < 0.82 * plain.budget.parts[-1].mu
    # The score of a trial, with one record replaced by any other.
    loss, wanted = loss_named("logistic" if learner == "logistic" else "ridge", table["y"])
    rows, weights = table[["x"]].to_numpy(), np.ones(400)
    read = table["y"].to_numpy().astype(float)
    how = {"records": 400, "width": 1}
    descent = Descent.default(rows=400, width=1, outputs=1, mu=0.2)
    base = TrainingRows(NumberRows(rows), read, wanted, weights)
    part = Part("a trial", 0.2, InsecureSource(2))
    model = descend(PartsHere([base]), loss, descent, part, **how)

    def mark(rows):
        return _mark(rows, model, loss, learner == "logistic") / 2**30

    for new_x, new_y, weight in ((1.0, 1, 1.0), (-1.0, 0, 1.0), (0.0, 1, 0.0)):
        changed = [array.copy() for array in (rows, read, weights)]
        changed[0][7], changed[1][7], changed[2][7] = new_x, new_y, weight
        other = TrainingRows(NumberRows(changed[0]), changed[1], wanted, changed[2])
        assert abs(mark(other) - mark(base)) <= 1
    # The bound of 1 is needed: leaving one record out moves a score nearly as far.
    gone = [replace(base, weights=1.0 - (np.arange(400) == place)) for place in range(40)]
    assert max(mark(base) - mark(rows) for rows in gone) > 0.7


@pytest.mark.parametrize("learner", ["logistic", "svm"])
def test_breast_cancer_of_nine_tenths(learner):
    table, ill = load_breast_cancer(return_X_y=True)
    scaled = 10 * table / table.max(axis=0)
    bounds = ranges(scaled) | {"y": {"categories": [0, 1]}}
    found = []
    for seed in range(3):
        train, test = split(scaled, ill, 0.9, seed)
        model = fit_private(
            train, "y", eta=0.05, bounds=bounds, learner=learner, source=InsecureSource(seed)
        )
        found.append(accuracy(model, test))
    assert np.mean(found) > 0.88  # the constant classifier has 0.63


@pytest.mark.parametrize("learner", ["ridge", "huber"])
def test_numbers_are_predicted_better_than_by_a_constant(learner):
    table, progress = load_diabetes(return_X_y=True)
    bounds = {f"f{k}": [-0.2, 0.2] for k in range(10)} | {"y": [0, 350]}
    errors = []
    for seed in range(3):
        train, test = split(table, progress, 0.8, seed)
        model = fit_private(
            train, "y", eta=0.1, bounds=bounds, learner=learner, source=InsecureSource(seed)
        )
        guess = model.predict(test)
        assert ((guess >= 0) & (guess <= 350)).all()
        spread = np.mean((test["y"] - train["y"].mean()) ** 2)
        errors.append(float(np.mean((test["y"] - guess) ** 2) / spread))
    assert np.mean(errors) < 0.85


def people(rows=8000, seed=0):
    draws = np.random.default_rng(seed)
    age = draws.integers(18, 90, rows)
    city = draws.choice(["Rome", "Oslo", "Bern"], rows)
    score = (age - 50) / 12 + 1.5 * (city == "Oslo")
    ill = np.where(score + draws.logistic(size=rows) > 0.5, "yes", "no")
    return pd.DataFrame({"age": age, "city": city, "ill": ill})


def test_a_raw_table_needs_no_bounds():
    table, fresh = people(), people(seed=1)
    model = fit_private(table, "ill", eta=0.05, source=InsecureSource(2))
    reached = float(np.mean(model.predict(fresh) == fresh["ill"]))
    constant = float(fresh["ill"].value_counts(normalize=True).max())
    assert reached > constant + 0.15
    chances = model.predict_proba(fresh)
    assert np.allclose(chances.sum(axis=1), 1.0)
    assert ((chances[:, 1] > 0.5) == (model.predict(fresh) == "yes")).all()
    # Rows that look like nothing before are predicted all the same.
    odd = pd.DataFrame({"age": [None, "old", 1e300], "city": [None, 7, "Ulm"]})
    assert set(model.predict(odd)) <= {"yes", "no"}


def test_what_is_stored_says_what_was_spent():
    model = fit_private(people(), "ill", eta=0.05, source=InsecureSource(2))
    stored = json.loads(json.dumps(model.to_dict()))
    spent = {part["name"]: part["mu"] ** 2 / stored["mu"] ** 2 for part in stored["parts"]}
    assert spent["gradient descent"] == pytest.approx(0.81)
    assert spent["calibrated probabilities"] == pytest.approx(0.04)
    assert sum(spent.values()) == pytest.approx(1.0)
    assert not stored["secure_source"]
    certificate = model.budget.certificate()
    assert certificate.game == NeighbourGame("replace-one")
    assert certificate.value <= 0.05


def test_the_operating_systems_noise_is_the_default():
    table = people()
    bounds = {"age": [18, 90], "city": ["Rome", "Oslo"], "ill": ["no", "yes"]}
    first, second = (fit_private(table, "ill", eta=0.05, bounds=bounds) for _ in range(2))
    assert first.secure
    assert SecureSource().secure
    assert not np.array_equal(first.model.coefficients, second.model.coefficients)


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_takes_public_bounds_alone(learner):
    table = people(400)
    table["ill"] = np.arange(400) % 2
    target = [0, 1] if learner in ("ridge", "huber") else {"categories": [0, 1]}
    bounds = {"age": [18, 90], "city": ["Rome", "Oslo"], "ill": target}
    model = fit_private(table, "ill", eta=0.05, bounds=bounds, learner=learner)
    assert len(model.predict(table)) == 400
    assert hasattr(model, "predict_proba") == (learner in ("logistic", "boosting"))


@pytest.mark.parametrize("releases", [2, 5])
def test_several_models_keep_the_promise_together(releases: int) -> None:
    slack = 1e-6
    one = Budget.for_eta(0.05, slack=slack, releases=releases)
    whole = one.repeated(releases)
    # Squares of μ and slacks add up, in rationals.
    assert Fraction(whole.mu) ** 2 >= releases * Fraction(one.mu) ** 2
    assert Fraction(whole.slack) >= releases * Fraction(slack)
    assert whole.curve().eta <= 0.05
    assert Budget(one.mu * 1.001, slack).repeated(releases).curve().eta > 0.05
    # The broken twin: as many models with the budget of one do not keep it.
    alone = Budget.for_eta(0.05, slack=slack).mu
    assert SlackCurve(GaussianCurve(alone * releases**0.5), releases * slack).eta > 0.05 * 1.3


def test_an_estimator_of_several_promises_for_all_of_them() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    y = (X[:, 0] > 0).astype(int)
    public = {"x0": [-4, 4], "x1": [-4, 4], "y": {"categories": [0, 1]}}
    asked = {"bounds": public, "insecure_seed": 1}
    one, three = (
        MembershipPrivate(LogisticRegression(), releases=n, **asked).fit(X, y) for n in (1, 3)
    )
    assert 0.0499 < three.certificate_.value <= 0.05
    assert "No more than 3 models" in three.certificate_.assumptions[-1]
    assert "No more" not in one.certificate_.assumptions[-1]
    assert three.released_.budget.certificate().value < 0.03  # of one alone
    # What is stored says the same: the file must not promise what holds without the choice only.
    stored = PrivateModel.from_dict(json.loads(json.dumps(three.released_.to_dict())))
    assert stored.certificate_ == three.certificate_
    assert three.calibration_.noise_scale > 1.5 * one.calibration_.noise_scale
    read = three.calibration_.to_dict()["curve"]
    assert read["eta_upper"] == three.certificate_.value
    assert read["replace_one"]["advantage_upper"] == pytest.approx(2 * read["eta_upper"])
    with pytest.raises(InputError, match="releases must be a whole number"):
        MembershipPrivate(LogisticRegression(), releases=0).fit(X, y)
