"""``private_search``, and estimators with given classes."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_score

import memberbound
from memberbound.errors import InputError, TooFewRowsError
from memberbound.release.all_rows.estimator import MembershipPrivate
from memberbound.release.all_rows.training import TUNE_SHARE

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4000, 3))
RING = (X[:, 0] ** 2 + X[:, 1] ** 2 > 2).astype(int)
BOUNDS = {f"x{column}": [-4, 4] for column in range(3)}
ASKED = {"bounds": BOUNDS, "insecure_seed": 1}


def search(estimator, grid, y=RING, **options):
    return memberbound.private_search(estimator, grid, X, y, **(ASKED | options))


def test_the_better_setting_is_chosen_and_paid_for():
    grid = {"learning_rate": [1e-6, 0.1]}
    model = search(HistGradientBoostingClassifier(), grid, eta=0.2, classes=[0, 1])
    assert model.best_params_ == {"learning_rate": 0.1}
    assert model.estimator.learning_rate == 0.1
    assert model.certificate_.value <= 0.2
    assert model.score(X, RING) > 0.8
    shares = model.released_.budget.shares
    tried = sum(share.mu**2 for share in shares if "trial" in share.name)
    kept = sum(share.mu**2 for share in shares if share.name == "boosting")
    assert math.isclose(tried / (tried + kept), TUNE_SHARE, rel_tol=1e-6)
    assert f"{100 * TUNE_SHARE:.0f} %" in model.search_cost_
    # The certificate states that it covers the choice, and no longer the contrary.
    assert "the choice among the settings that were tried" in model.certificate_.assumptions[-1]


def test_a_search_of_a_regression():
    y = X @ [1.0, -1.0, 0.5]
    bounds = BOUNDS | {"y": [-8, 8]}
    model = search(Ridge(), {"alpha": [1e-3, 1e7]}, y, bounds=bounds, eta=0.2)
    assert model.best_params_ == {"alpha": 1e-3}
    assert model.score(X, y) > 0.5


@pytest.mark.parametrize(
    ("estimator", "grid", "words"),
    [
        (LogisticRegression(), {"C": [1]}, "2 to 20 candidates, got 1"),
        (LogisticRegression(), {"C": [1, -1]}, "C must be"),
        (LogisticRegression(), {"c": [1, 2]}, "settings of LogisticRegression, got 'c'"),
        (LogisticRegression(), {"l1_ratio": [0.1, 0.2]}, "l1_ratio must be left"),
        (LogisticRegression(), {"class_weight": [None, "balanced"]}, "must not vary class_weight"),
        ("logistic", {"C": [1, 2]}, "a scikit-learn learner with settings"),
    ],
)
def test_refusals_of_a_search(estimator, grid, words):
    with pytest.raises(InputError, match=words):
        search(estimator, grid)


def test_told_classes_need_no_histogram():
    rare = np.zeros(1000, dtype=int)
    rare[::50] = 1
    rows = X[:1000]
    with pytest.raises(TooFewRowsError, match=r"classes=\[…\] of MembershipPrivate"):
        MembershipPrivate(LogisticRegression(), **ASKED).fit(rows, rare)
    model = MembershipPrivate(LogisticRegression(), classes=[0, 1], **ASKED)
    scores = cross_val_score(model, rows, rare, cv=3, error_score="raise")
    assert (scores > 0.9).all()
    assert model.fit(rows, rare).classes_.tolist() == [0, 1]
    assert model.classes_.dtype == rare.dtype


@pytest.mark.parametrize("classes", [["no", "yes"], [False, True], [1.5, 2.5]])
def test_told_classes_keep_their_type(classes):
    y = np.array(classes)[RING]
    model = MembershipPrivate(LogisticRegression(), classes=classes, **ASKED).fit(X, y)
    assert model.classes_.tolist() == classes
    assert set(model.predict(X).tolist()) <= set(classes)


def test_classes_are_told_once():
    model = MembershipPrivate(
        LogisticRegression(), classes=[0, 1], bounds=BOUNDS | {"y": {"categories": [0, 1]}}
    )
    with pytest.raises(InputError, match="classes must be left out"):
        model.fit(X, RING)


def test_encoded_rows_are_refused_with_advice():
    model = MembershipPrivate(LogisticRegression(), **ASKED)
    with pytest.raises(InputError, match="transformers before this step"):
        model.fit(csr_array(X), RING)
    named = pd.DataFrame(X, columns=["scale__x0", "scale__x1", "scale__x2"])
    with pytest.raises(InputError, match="transformers before this step"):
        model.fit(named, RING)
