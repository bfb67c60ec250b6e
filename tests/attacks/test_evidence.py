"""Given models from files of other libraries, on pictures, and beside answers from elsewhere."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import KNeighborsClassifier

import memberbound
from attacks.conftest import rows
from memberbound.attacks.evidence import Evidence, ask_model, load_given_model
from memberbound.errors import InputError


def test_a_model_that_numbers_its_classes(tree) -> None:
    """Libraries keep 0, 1, …; the table has names, which they sorted when they numbered them."""
    model, members, nonmembers = tree
    names = np.array(["no", "yes"])

    def number_labels(rows: object) -> np.ndarray:
        return np.asarray(model.predict_proba(rows))

    plain = memberbound.audit(model=model, members=members, nonmembers=nonmembers)
    sides = [(rows, names[np.asarray(codes, dtype=int)]) for rows, codes in (members, nonmembers)]
    found = memberbound.audit(model=number_labels, members=sides[0], nonmembers=sides[1])
    assert found.attacks["loss"]["auc"] == plain.attacks["loss"]["auc"]
    assert any("0 = no, 1 = yes" in note for note in found.warnings)


def test_a_released_model_is_audited_from_its_file(tmp_path: Path) -> None:
    """A released model is audited like any other, and leaks next to nothing."""
    pytest.importorskip("skops", reason="skops is not installed")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(400, 3)), columns=list("abc"))
    frame["y"] = np.where(frame["a"] + rng.normal(size=400) > 0, "yes", "no")
    members, others = frame[:200], frame[200:]
    path = tmp_path / "model.skops"
    bounds = {**{c: [-5, 5] for c in "abc"}, "y": ["no", "yes"]}
    memberbound.protect(
        members, target="y", learner="logistic", eta=0.1, bounds=bounds, out=path, insecure_seed=1
    )
    found = memberbound.audit(members, nonmembers=others, model=path, target="y")
    assert found.reached[1] == 0
    assert not found.exceeds(0.6, "floor")
    (tmp_path / "model.skops.certificate.json").unlink()
    with pytest.raises(InputError, match="certificate beside it"):
        memberbound.audit(members, nonmembers=others, model=path, target="y")


def test_a_released_model_sees_the_values_that_predict_reads(tmp_path: Path) -> None:
    """pandas would take the country NA for missing, 01 for 1 and 1,5 for a text."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "country": rng.choice(["NA", "DE", "FR"], 400),
            "code": rng.choice(["01", "1", "10"], 400),
            "dose": rng.choice(["1,5", "2", "", "10,25"], 400),
        }
    )
    frame["y"] = np.where((frame["country"] == "NA") ^ (frame["code"] == "01"), "01", "no")
    sides = [tmp_path / "members.csv", tmp_path / "others.csv"]
    for side, half in zip(sides, (frame[:200], frame[200:]), strict=True):
        half.to_csv(side, index=False, sep=";")
    bounds = {
        "country": ["NA", "DE", "FR"],
        "code": {"categories": ["01", "1", "10"]},
        "dose": {"range": [0, 20], "decimal": ","},
        "y": ["no", "01"],
    }
    path = tmp_path / "model.json"
    memberbound.protect(
        sides[0], target="y", eta=0.4, bounds=bounds, out=path, insecure_seed=1, learner="boosting"
    )
    memberbound.predict(path, sides[1], out=tmp_path / "answers.csv")
    answers = pd.read_csv(tmp_path / "answers.csv")
    evidence = ask_model(load_given_model(path), sides[0], sides[1], "y")
    asked = evidence.answers.table[~evidence.member]
    columns = [f"probability_{name}" for name in evidence.classes]
    assert (asked == answers[columns].to_numpy()).all()
    assert evidence.rows.dtypes["dose"] == np.float64


def test_logits_of_a_network_are_held_against_probabilities_of_references(monkeypatch) -> None:
    """A file of a network hands out logits, a learner probabilities: the same numbers."""
    members, others = rows(180, 1), rows(180, 2)
    # Coins come from the answers too; here both audits have the same.
    coins = lambda _, seed, purpose: np.random.default_rng([seed, *purpose.encode()])  # noqa: E731
    monkeypatch.setattr(Evidence, "generator", coins)
    model = KNeighborsClassifier(3, weights="distance").fit(*members)

    def logits(rows: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(model.predict_proba(rows), 1e-9))

    found = [
        memberbound.audit(
            model=given,
            members=members,
            nonmembers=others,
            learner="tree",
            shadows=4,
            attacks=["calibrated-loss"],
            workers=1,
        ).attacks["calibrated-loss"]["auc"]["estimate"]
        for given in (model, logits)
    ]
    assert found[0] > 0.6
    # Logits are not clipped as votes are.
    assert abs(found[0] - found[1]) < 0.08


@pytest.mark.parametrize("moved", [0.0, 1e-4])
@pytest.mark.parametrize("record", [0, 150])
def test_a_nondeterministic_model_is_detected(moved: float, record: int) -> None:
    """Compared with a model that answers alike, only the note differs: one more."""
    x, y = rows(100, 1)
    x0, y0 = rows(100, 2)
    everyone, truth = np.vstack([x, x0]), np.concatenate([y, y0])
    member = np.arange(200) < 100
    model = KNeighborsClassifier(9).fit(x, y)
    asked = []

    def answers(some: np.ndarray) -> np.ndarray:
        table = np.clip(model.predict_proba(some), 0.1, 0.9)
        asked.append(len(some))
        table[record] *= 1 - moved * (len(asked) > 1)
        return table / table.sum(axis=1, keepdims=True) if not moved else table

    plain = Evidence.of(load_given_model(model), everyone, truth, member)
    found = Evidence.of(load_given_model(answers), everyone, truth, member)
    assert len(asked) > 1
    assert len(found.notes) - len(plain.notes) == (moved > 0)
