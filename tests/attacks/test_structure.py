"""Structural facts: counted by hand."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from memberbound.attacks.checks import Fact, structural_facts
from memberbound.attacks.evidence import Evidence
from memberbound.learners.trained import TrainedModel

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 4))
Y = (X[:, 0] > 0).astype(int)
MEMBER = np.arange(120) < 80


def facts(model: object, target: np.ndarray = Y) -> dict[str, Fact]:
    model.fit(X[MEMBER], target[MEMBER])
    case = Evidence.of(TrainedModel.of(model), X, target, MEMBER)
    return {f.name: f for f in structural_facts(case)}


def test_stored_rows() -> None:
    assert facts(KNeighborsClassifier())["stored training rows"].value == 80
    assert facts(GaussianProcessRegressor(), X[:, 0])["stored training rows"].value == 80
    machine = make_pipeline(StandardScaler(), SVC())
    assert facts(machine)["stored training rows"].value == machine[-1].support_vectors_.shape[0]
    assert facts(DecisionTreeClassifier())["stored training rows"].passes


def test_numbers_against_rows() -> None:
    assert facts(LinearRegression(), X[:, 0] + Y)["residual degrees of freedom"].value == 80 - 5
    found = facts(MLPClassifier((20,), max_iter=20))["residual degrees of freedom"]
    assert found.value == 80 - (4 * 20 + 20 + 20 + 1)
    assert not found.passes


def test_leaves_and_cells() -> None:
    tree = DecisionTreeClassifier(min_samples_leaf=12, random_state=0)
    found = facts(tree)
    used = tree.apply(X[MEMBER])
    assert found["smallest leaf"].value == np.bincount(used)[np.unique(used)].min()
    assert found["smallest leaf"].passes
    assert found["smallest cell of answers"].value >= 12
    noise = rng.integers(2, size=120)
    assert facts(RandomForestClassifier(5, random_state=0), noise)["smallest leaf"].value == 1
    boosted = facts(HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=15))
    assert boosted["smallest leaf"].value >= 15


def test_small_classes() -> None:
    rare = np.zeros(120, dtype=int)
    rare[[0, 1, 2, 100, 101]] = 1
    found = facts(DecisionTreeClassifier(random_state=0), rare)["smallest class"]
    assert (found.value, found.passes) == (3, False)
    assert "3 members" in found.reason


def test_answers_alone_give_what_they_show() -> None:
    case = Evidence.of(TrainedModel.of(lambda r: r[:, :2], classes=[0, 1]), X, Y, MEMBER)
    names = [f.name for f in structural_facts(case)]
    assert names == ["stored training rows", "smallest class", "smallest cell of answers"]
    with pytest.raises(AttributeError):
        structural_facts(case)[0].value = 3  # type: ignore[misc]
