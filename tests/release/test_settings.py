"""Settings of scikit-learn's estimators: honoured in the private form, or refused.

Statistical tests: fixed seeds, effects many times larger than the noise.
"""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import HuberRegressor, LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from tests.oracle.replay import replayed, spent
from tests.oracle.training import NumberRows, lengths_of

from memberbound import MembershipPrivate, load, protect
from memberbound.errors import InputError
from memberbound.release.all_rows import training
from memberbound.release.all_rows.boosting import leaf_sums
from memberbound.release.all_rows.gradient import clip_and_sum
from memberbound.release.all_rows.learner_forms import Settings, require_form
from memberbound.release.randomness import InsecureSource
from memberbound.release.saving import save
from memberbound.tables.records import read_records

ROWS = 3000
DRAWS = np.random.default_rng(0)
X = DRAWS.normal(size=(ROWS, 3))
Y = (X @ [2.0, 1.0, -1.0] + DRAWS.logistic(size=ROWS) > 2).astype(int)
BOUNDS = {f"x{k}": [-5, 5] for k in range(3)} | {"y": {"categories": [0, 1]}}


def fit(estimator, **how):
    model = MembershipPrivate(estimator, eta=0.1, bounds=BOUNDS, insecure_seed=1)
    return model.fit(X, Y, **how)


def recall(model):
    return float(np.mean(model.predict(X)[Y == 1] == 1))


@pytest.mark.parametrize(
    ("estimator", "settings"),
    [
        ("logistic", Settings()),
        (LogisticRegression(C=0.5, max_iter=7, solver="saga", n_jobs=2), Settings(penalty=2.0)),
        (LogisticRegression(C=np.inf, fit_intercept=False), Settings(intercept=False)),
        (make_pipeline(StandardScaler(), LogisticRegression(C=4)), Settings(penalty=0.25)),
        (LinearSVC(C=2, class_weight="balanced"), Settings(0.5, class_weight="balanced")),
        (
            HistGradientBoostingClassifier(class_weight={0: 1, 1: 3.0}),
            Settings(class_weight={"0": 1.0, "1": 3.0}),
        ),
        (Ridge(alpha=3), Settings(3.0)),
        (LinearRegression(), Settings()),
        (HuberRegressor(alpha=0.5), Settings(0.5)),
        (HistGradientBoostingClassifier(early_stopping=False), Settings()),
        (HistGradientBoostingClassifier(max_iter=9, max_depth=3), Settings(rounds=9, leaves=8)),
        (HistGradientBoostingClassifier(max_leaf_nodes=5), Settings(leaves=5)),
        (GradientBoostingClassifier(n_estimators=7, max_depth=1), Settings(rounds=7, leaves=2)),
        (
            GradientBoostingClassifier(max_depth=5, learning_rate=0.2),
            Settings(leaves=32, rate_factor=2),
        ),
    ],
)
def test_supported_settings(estimator, settings):
    assert require_form(estimator).settings == settings


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (LogisticRegression(l1_ratio=0.5), "l1_ratio must be left at its default 0.0"),
        (LogisticRegression(penalty="l1"), "penalty must be left"),
        (LogisticRegression(C=-1), "C must be"),
        (LogisticRegression(class_weight={0: 0, 1: 0}), "class_weight must have a weight above 0"),
        (LogisticRegression(class_weight={0: -1}), "class_weight must be"),
        (LogisticRegression(class_weight="even"), "class_weight must be 'balanced' or map"),
        (LogisticRegression(class_weight={7: 2}), "class_weight must name the target's classes"),
        (HistGradientBoostingClassifier(early_stopping=True), "early_stopping must be left"),
        (HistGradientBoostingClassifier(max_iter=10**6), "rounds must be at most 1000"),
        (HistGradientBoostingClassifier(max_leaf_nodes=33), "max_leaf_nodes must be at most 32"),
        (GradientBoostingClassifier(max_depth=6), "max_depth must be at most 5"),
    ],
)
def test_unsupported_settings_are_refused_in_one_sentence(estimator, words):
    with pytest.raises(InputError, match=words) as refusal:
        fit(estimator)
    assert str(refusal.value).count(". ") == 0


def test_settings_change_the_model():
    usual, strong = fit(LogisticRegression()), fit(LogisticRegression(C=1e-5))
    lengths = [np.linalg.norm(m.released_.model.coefficients) for m in (usual, strong)]
    assert lengths[1] < 0.2 * lengths[0]
    straight = fit(LogisticRegression(fit_intercept=False))
    assert straight.released_.model.intercepts.tolist() == [0.0]
    assert fit(LogisticRegression(max_iter=9)).released_.to_dict() == usual.released_.to_dict()
    slow = fit(HistGradientBoostingClassifier(learning_rate=1e-4, max_iter=5, max_depth=1))
    assert (slow.released_.model.boosting.rounds, slow.released_.model.boosting.leaves) == (5, 2)
    assert recall(slow) < 0.1


def test_settings_are_stored_and_rehearsed(tmp_path):
    table = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(y=Y)
    learner = LogisticRegression(C=1e-6, class_weight={0: 1.0, 1: 1.5})
    made = protect(table, target="y", learner=learner, eta=0.1, bounds=BOUNDS, insecure_seed=1)
    assert made.released.settings == require_form(learner).settings
    save(made.released, tmp_path / "m.json")
    assert load(tmp_path / "m.json").settings == made.released.settings
    # The trial has the same settings: a penalty that leaves nothing is seen in its log loss.
    loss = made.scores["log loss"]
    assert loss.released_estimate > 0.9 * loss.constant_estimate


# ── Weights of classes and of records ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "base", [LogisticRegression(), LinearSVC(), HistGradientBoostingClassifier()], ids=str
)
def test_class_weights_change_the_recall_of_a_rare_class(base):
    plain, share = fit(base), "class frequencies"
    balanced = fit(clone(base).set_params(class_weight="balanced"))
    assert recall(balanced) > recall(plain) + 0.1
    # Two classes with probabilities start at their share, whatever their weights are.
    starts = not isinstance(base, LinearSVC)
    assert (share in plain.released_.budget.fractions()) == starts
    assert balanced.released_.budget.fractions()[share] == pytest.approx(0.01)
    assert sum(balanced.released_.budget.fractions().values()) == pytest.approx(1.0)
    assert (balanced.released_.budget.slack > plain.released_.budget.slack) == (not starts)
    light = fit(clone(base).set_params(class_weight={1: 0.2}))
    assert recall(light) < recall(plain) - 0.1


def test_sample_weights_belong_to_the_rows_and_are_cut_off():
    def fit_stored(weights):
        return fit(LogisticRegression(), sample_weight=weights).released_.to_dict()

    assert fit_stored(np.ones(ROWS)) == fit(LogisticRegression()).released_.to_dict()
    assert fit_stored(np.where(Y, 1.0, 0.2)) == fit_stored(np.where(Y, 1e300, 0.2))
    weighted = fit(LogisticRegression(), sample_weight=np.where(Y, 1.0, 0.2))
    assert recall(weighted) > recall(fit(LogisticRegression())) + 0.1
    # Missing numbers have weight 0, and no value of a row can stop the release.
    without = fit_stored(Y * 1.0)
    assert fit_stored(Y == 1) == without
    for nothing in (np.nan, -3.0, "word", None):
        assert fit_stored([nothing if one == 0 else 1 for one in Y]) == without
    with pytest.raises(InputError, match="one number per row"):
        fit(LogisticRegression(), sample_weight=[1.0])


@pytest.mark.parametrize("release", ["descent", "boosting"])
def test_a_weighted_record_moves_the_sums_no_further(release):
    """Truth: every record left out in turn.  Broken twin: a weight above 1 after the clip."""
    draws = np.random.default_rng(1)
    rows, weights = 40 * draws.normal(size=(30, 4)), draws.random(30)
    residuals = np.full((30, 1), 5.0)

    def sums(weight):
        if release == "boosting":
            leaves, whole = np.arange(30) % 3, {"clip": 0.1, "units": 20}
            return leaf_sums(residuals, leaves, 3, weights=weight, **whole) * 0.1 / 2**20
        lengths = lengths_of(rows, 0.2)
        total = clip_and_sum(NumberRows(rows), residuals, lengths, clip=0.1, weights=weight)
        total[-1] *= 0.2
        return total

    assert not sums(np.zeros(30)).any()
    for index in range(30):
        without = np.where(np.arange(30) == index, 0.0, weights)
        moved = float(np.linalg.norm(sums(weights) - sums(without)))
        assert moved <= 0.1
        assert moved == pytest.approx(0.1 * weights[index], abs=1e-6)
    large = np.where(np.arange(30) == 0, 7.0, weights)
    assert np.linalg.norm(sums(large) - sums(np.where(large > 1, 0.0, large))) > 0.1


@pytest.mark.parametrize("class_weight", ["balanced", {"0": 2.0, "1": 7.0}, {"0": 7.0}])
def test_no_record_weighs_more_than_1(monkeypatch, class_weight):
    weights, plain = [], training.TrainingRows
    monkeypatch.setattr(training, "TrainingRows", lambda *a: weights.append(a[2]) or plain(*a))
    fit(LogisticRegression(class_weight=class_weight))
    assert (weights[0].min() >= 0, weights[0].max()) == (True, 1.0)


@pytest.mark.parametrize("unit", [None, "who"])
def test_every_share_covers_the_sensitivity_of_a_weighted_record(monkeypatch, unit):
    """Truth: the sums of two tables that differ in one record, under the same noise."""
    rows = 400
    draws = np.random.default_rng(0)
    table = pd.DataFrame(draws.normal(size=(rows, 2)), columns=["a", "b"])
    table["y"], table["w"] = draws.integers(0, 3, rows).astype(str), draws.random(rows)
    if unit:
        table["who"] = np.append(np.zeros(20, dtype=int), draws.integers(1, 90, rows - 20))
    own = np.arange(rows) < (20 if unit else 1)

    def made(**values):
        changed = table.assign(**{k: np.where(own, v, table[k]) for k, v in values.items()})
        records = read_records(changed, {})
        return training.fit_private(
            records.group_by_person(unit) if unit else records,
            "y",
            eta=0.45,
            bounds={"a": [-4, 4], "b": [-4, 4], "y": ["0", "1", "2"]},
            tune=True,
            settings=Settings(class_weight="balanced"),
            weight="w",
            source=InsecureSource(0),
        )

    first = replayed(monkeypatch, lambda: made(y="0", w=1.0))
    shares = []
    for label, weight in (("1", np.inf), ("2", 0.0), ("other", np.nan)):
        second = replayed(monkeypatch, lambda y=label, w=weight: made(y=y, w=w))
        assert second[0].to_dict() == first[0].to_dict()
        assert spent(first[1], second[1]) < np.inf
        shares += [
            np.linalg.norm(a - b) / sensitivity
            for (a, _, sensitivity), (b, _, _) in zip(first[1], second[1], strict=True)
        ]
    assert 0.99 < max(shares) <= 1
