"""Settings of scikit-learn's estimators: honoured in the private form, or refused.

Statistical tests: fixed seeds, effects many times larger than the noise.
"""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import HuberRegressor, LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from memberbound import MembershipPrivate, load, protect
from memberbound.errors import InputError
from memberbound.release.all_rows.learner_forms import Settings, settings_of
from memberbound.release.saving import save

ROWS = 3000
DRAWS = np.random.default_rng(0)
X = DRAWS.normal(size=(ROWS, 3))
Y = (X @ [2.0, 1.0, -1.0] + DRAWS.logistic(size=ROWS) > 2).astype(int)
BOUNDS = {f"x{k}": [-5, 5] for k in range(3)} | {"y": {"categories": [0, 1]}}


def fitted(estimator):
    return MembershipPrivate(estimator, eta=0.1, bounds=BOUNDS, insecure_seed=1).fit(X, Y)


@pytest.mark.parametrize(
    ("estimator", "settings"),
    [
        ("logistic", Settings()),
        (LogisticRegression(C=0.5, max_iter=7, solver="saga", n_jobs=2), Settings(penalty=2.0)),
        (LogisticRegression(C=np.inf, fit_intercept=False), Settings(intercept=False)),
        (make_pipeline(StandardScaler(), LogisticRegression(C=4)), Settings(penalty=0.25)),
        (Ridge(alpha=3), Settings(3.0)),
        (LinearRegression(), Settings()),
        (HuberRegressor(alpha=0.5), Settings(0.5)),
        (HistGradientBoostingClassifier(early_stopping=False), Settings()),
        (HistGradientBoostingClassifier(max_iter=9, max_depth=3), Settings(rounds=9, leaves=8)),
        (HistGradientBoostingClassifier(max_leaf_nodes=5), Settings(leaves=5)),
        (GradientBoostingClassifier(n_estimators=7, max_depth=1), Settings(rounds=7, leaves=2)),
        (GradientBoostingClassifier(max_depth=5, learning_rate=0.2), Settings(leaves=32, pace=2)),
    ],
)
def test_what_is_read(estimator, settings):
    assert settings_of(estimator) == settings


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (LogisticRegression(l1_ratio=0.5), "l1_ratio must be left at its default 0.0"),
        (LogisticRegression(penalty="l1"), "penalty must be left"),
        (LogisticRegression(C=-1), "C must be"),
        (LogisticRegression(class_weight="balanced"), "class_weight must be left"),
        (HistGradientBoostingClassifier(early_stopping=True), "early_stopping must be left"),
        (HistGradientBoostingClassifier(max_iter=10**6), "rounds must be at most 1000"),
        (HistGradientBoostingClassifier(max_leaf_nodes=33), "max_leaf_nodes must be at most 32"),
        (GradientBoostingClassifier(max_depth=6), "max_depth must be at most 5"),
    ],
)
def test_what_is_refused_in_one_sentence(estimator, words):
    with pytest.raises(InputError, match=words) as refusal:
        fitted(estimator)
    assert str(refusal.value).count(". ") == 0


def test_settings_change_the_model():
    usual, strong = fitted(LogisticRegression()), fitted(LogisticRegression(C=1e-5))
    lengths = [np.linalg.norm(m.released_.model.coefficients) for m in (usual, strong)]
    assert lengths[1] < 0.2 * lengths[0]
    straight = fitted(LogisticRegression(fit_intercept=False))
    assert straight.released_.model.intercepts.tolist() == [0.0]
    assert fitted(LogisticRegression(max_iter=9)).released_.to_dict() == usual.released_.to_dict()
    slow = fitted(HistGradientBoostingClassifier(learning_rate=1e-4, max_iter=5, max_depth=1))
    assert (slow.released_.model.boosting.rounds, slow.released_.model.boosting.leaves) == (5, 2)
    assert np.mean(slow.predict(X)[Y == 1] == 1) < 0.1


def test_settings_are_stored_and_rehearsed(tmp_path):
    table = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(y=Y)
    learner = LogisticRegression(C=1e-6)
    made = protect(table, target="y", learner=learner, eta=0.1, bounds=BOUNDS, insecure_seed=1)
    assert made.released.settings == settings_of(learner)
    save(made.released, tmp_path / "m.json")
    assert load(tmp_path / "m.json").settings == made.released.settings
    # The trial has the same settings: a penalty that leaves nothing is seen in its log loss.
    loss = made.scores["log loss"]
    assert loss.released_estimate > 0.9 * loss.constant_estimate
