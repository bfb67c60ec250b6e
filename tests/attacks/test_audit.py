"""The verbs ``audit`` and ``audit-learner`` as a user meets them."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memberbound.errors import InputError
from memberbound.verbs.audit import audit
from memberbound.verbs.audit_learner import audit_learner


@pytest.fixture
def table() -> pd.DataFrame:
    draws = np.random.default_rng(1)
    x = draws.normal(size=(80, 4))
    return pd.DataFrame(x, columns=list("abcd")).assign(y=draws.integers(0, 2, 80))


def scores(shift: float, count: int = 600, seed: int = 0) -> pd.DataFrame:
    draws = np.random.default_rng(seed)
    member = np.arange(count) % 2
    return pd.DataFrame({"score": draws.normal(size=count) + shift * member, "member": member})


def test_scores_from_a_file(tmp_path: Path) -> None:
    scores(1.0).to_csv(tmp_path / "scores.csv", index=False)
    answer = audit(tmp_path / "scores.csv").to_dict()
    found = answer["attacks"]["scores"]
    assert found["auc"]["lower"] < 0.76 < found["auc"]["upper"]  # Φ(1/√2) = 0.7602
    assert found["tpr_at_fpr"]["0.001"] is None
    assert answer["best"] == "scores"
    assert (answer["game"], answer["protects"]) == ("model", "average record")
    assert (answer["members"], answer["non_members"]) == (300, 300)
    json.dumps(answer, allow_nan=False)


def test_scores_have_groups_and_records_as_a_model_has(tmp_path: Path) -> None:
    table = scores(4.0).assign(sex=np.repeat(["f", "m"], 300))
    answer = audit(table, by="sex", records=tmp_path / "r.csv")
    fields = answer.to_dict()
    assert [group["value"] for group in fields["groups"]["groups"]] == ["f", "m"]
    assert all(group["advantage"]["lower"] > 0.5 for group in fields["groups"]["groups"])
    listed = pd.read_csv(tmp_path / "r.csv")
    assert list(listed.record) == list(range(1, 600, 2))  # the members' rows
    assert listed.recognised.sum() == fields["records"]["recognised"] > 200
    # Negative control: scores without information name next to nobody.
    assert audit(scores(0.0)).to_dict()["records"]["recognised"] == 0
    with pytest.raises(InputError, match="no column 'age'"):
        audit(table, by="age")
    with pytest.raises(InputError, match="attacks must be 'scores'"):
        audit(table, attacks=["loss"])


def options(**more):
    return {"shadows": 24, "workers": 1, "target": "y"} | more


def test_a_learner_that_memorises_and_its_records(table: pd.DataFrame, tmp_path: Path) -> None:
    answer = audit_learner(
        table, learner="tree", records=tmp_path / "r.csv", cache=tmp_path / "c", **options()
    )
    fields = answer.to_dict()
    # Labels are coin flips, so a full tree is right on members and half right on others.
    best = fields["attacks"][answer.best]
    assert best["advantage"]["estimate"] > 0.3
    assert best["advantage"]["lower"] > 0.1
    assert fields["game"] == "subset"
    assert fields["protects"] == "average record"
    assert fields["records"]["exposed_records"] >= 0
    listed = pd.read_csv(tmp_path / "r.csv")
    assert len(listed) == 80
    assert listed.exposed.sum() == fields["records"]["exposed_records"]
    json.dumps(fields, allow_nan=False)
    again = audit_learner(table, learner="tree", cache=tmp_path / "c", **options())
    assert again.detail.run.reused == 24
    assert again.attacks == answer.attacks


def test_the_sentence_pays_for_choosing_the_best_attack(table: pd.DataFrame) -> None:
    answer = audit_learner(table, learner="tree", attacks=["loss", "lira", "rmia"], **options())
    paid = answer.floor
    alone = answer.attacks[answer.best]["advantage"]["lower"]
    assert f"{paid:.3f}" != f"{alone:.3f}"
    said = float(re.search(r"at least (\S+) % with", answer.sentence)[1])
    assert 50 * (1 + paid) - 0.01 < said <= 50 * (1 + paid), "rounded down"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"target": "none"}, "no column"),
        ({"learner": "magic"}, "learner must be"),
        ({"attacks": ["magic"]}, "attacks must be among"),
        ({"shadows": 4}, "at least 8"),
        ({"confidence": 1.0}, "confidence"),
    ],
)
def test_bad_questions(table: pd.DataFrame, more: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        audit_learner(table, **options(**more))
    with pytest.raises(InputError, match="at least 20"):
        audit_learner(table.iloc[:12], **options())
