"""Members and non-members of one law, or not; rows on both sides; facts counted by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import memberbound
from memberbound.attacks.checks import (
    Fact,
    _numeric,
    blind_scores,
    duplicate_notes,
    one_law_test,
    structural_facts,
)
from memberbound.attacks.evidence import Evidence
from memberbound.attacks.scores import permutation_p_value
from memberbound.learners.trained import TrainedModel


def evidence(n: int, spread: float, seed: int) -> Evidence:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2 * n, 3))
    member = np.arange(2 * n) < n
    x[member] *= 1 + spread
    frame = pd.DataFrame(x, columns=list("abc")).assign(town=rng.choice(["u", "v"], 2 * n))
    ask = TrainedModel.of(lambda r: r[["a", "b"]].to_numpy(), classes=[0, 1])
    return Evidence.of(ask, frame, rng.integers(2, size=2 * n), member)


def test_the_level_is_kept_and_the_broken_twin_is_caught() -> None:
    """20 null tests at level 0.1: more than 8 have probability 1e-4.

    Tested on the rows it was trained on, the classifier accuses nearly always.
    """
    found = own = 0
    for seed in range(20):
        case = evidence(60, 0.0, seed)
        found += one_law_test(case, seed=seed).p_value <= 0.1
        if seed < 6:
            table, rng = _numeric(case), np.random.default_rng(seed)
            score = blind_scores(table, case.member, table, rng)
            own += permutation_p_value(score, case.member, rng) <= 0.1
    assert found <= 8
    assert own >= 5


def test_another_spread_is_found() -> None:
    law = one_law_test(evidence(400, 1.0, 1))
    assert law.differs
    assert law.auc["lower"] > 0.5


def test_the_audit_refuses_to_call_a_shift_a_leak() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(800, 3)), rng.integers(2, size=800)
    x[:400] += 2
    y[:400] = 1  # so a model that never saw these rows is surer of the "members"
    model = LogisticRegression().fit(rng.normal(size=(100, 3)), np.arange(100) % 2)
    model.coef_, model.intercept_ = np.array([[1.0, 1.0, 1.0]]), np.zeros(1)
    found = memberbound.audit(
        model=model, members=(x[:400], y[:400]), nonmembers=(x[400:], y[400:])
    )
    told = found.to_dict()
    assert told["best_advantage"]["estimate"] > 0.2
    assert told["one_law"]["differs"] is True
    assert told["comparable"] is told["leak_shown"] is False
    # No floor anywhere: neither of an attack, nor of an access level.
    assert told["best_advantage"]["lower"] is None
    assert all(level["advantage"]["lower"] is None for level in told["by_access"].values())
    for attack in told["attacks"].values():
        assert {attack[q]["lower"] for q in ("auc", "advantage", "accuracy")} == {None}
        assert {b["lower"] for b in attack["tpr_at_fpr"].values() if b is not None} <= {None}
    assert "≥" not in found.summary()
    # The limit fails with that reason, for every part and at any height.
    for part in ("estimate", "floor"):
        held = found.held_to(1.0, part)
        assert held.exceeded
        assert "differ already in their columns" in held.sentence
    assert "which is no floor" in found.sentence
    assert "differ already in their columns" in found.sentence


def test_rows_on_both_sides() -> None:
    case = evidence(50, 0.0, 0)
    frame, truth = case.rows.copy(), case.truth.copy()
    for index, (original, another) in {60: (3, 0), 61: (4, 1), 1: (0, 0)}.items():
        # With another target it is another record.
        frame.iloc[index], truth[index] = frame.iloc[original], truth[original] ^ another
    shared, alike = duplicate_notes(replace(case, rows=frame, truth=truth))
    assert "1 non-members" in shared
    assert "counted from 1: 11)" in shared
    assert "2 member rows" in alike  # two people may be alike


# ── Facts for output checkers ─────────────────────────────────────────────────────────────────────

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 4))
Y = (X[:, 0] > 0).astype(int)
MEMBER = np.arange(120) < 80


def facts(model: object, target: np.ndarray = Y) -> dict[str, Fact]:
    model.fit(X[MEMBER], target[MEMBER])
    case = Evidence.of(TrainedModel.of(model), X, target, MEMBER)
    return {f.name: f for f in structural_facts(case)}


SMALL, RARE = DecisionTreeClassifier(min_samples_leaf=12, random_state=0), np.zeros(120, dtype=int)
RARE[[0, 1, 2, 100, 101]] = 1


@pytest.mark.parametrize(
    ("model", "target", "name", "value"),
    [
        (KNeighborsClassifier(), Y, "stored training rows", 80),
        (GaussianProcessRegressor(), X[:, 0], "stored training rows", 80),
        (DecisionTreeClassifier(), Y, "stored training rows", 0),
        (LinearRegression(), X[:, 0] + Y, "residual degrees of freedom", 80 - 5),
        (MLPClassifier((9,), max_iter=20), Y, "residual degrees of freedom", 80 - (4 * 9 + 19)),
        (RandomForestClassifier(5, random_state=0), Y[::-1], "smallest leaf", 1),
        (DecisionTreeClassifier(random_state=0), RARE, "smallest class", 3),
    ],
)
def test_facts(model: object, target: np.ndarray, name: str, value: int) -> None:
    fact = facts(model, target)[name]
    assert fact.value == value
    assert fact.passes is (value == 0 if name == "stored training rows" else value >= 10)
    assert name != "smallest class" or "3 members" in fact.reason


def test_facts_that_depend_on_the_fit() -> None:
    machine = make_pipeline(StandardScaler(), SVC())
    assert facts(machine)["stored training rows"].value == machine[-1].support_vectors_.shape[0]
    counted = facts(SMALL)
    used = SMALL.apply(X[MEMBER])
    assert counted["smallest leaf"].value == np.bincount(used)[np.unique(used)].min()
    assert counted["smallest cell of answers"].value >= 12
    boosted = facts(HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=15))
    assert boosted["smallest leaf"].value >= 15


def test_facts_from_predictions_alone() -> None:
    case = Evidence.of(TrainedModel.of(lambda r: r[:, :2], classes=[0, 1]), X, Y, MEMBER)
    names = [f.name for f in structural_facts(case)]
    assert names == ["stored training rows", "smallest class", "smallest cell of answers"]
