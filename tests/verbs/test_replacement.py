"""An audit that shows a leak ends with a protected model of the same rows, and its command."""

import shlex

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import memberbound


def people(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2)).round(3)
    y = x[:, 0] + 0.7 * rng.normal(size=rows) > 0
    return pd.DataFrame(x, columns=["a", "b"]).assign(y=np.where(y, "yes", "no"))


def audit(rows: int, learner) -> memberbound.Audit:
    members, others = people(rows), people(rows, 1)
    model = learner.fit(members[["a", "b"]], members["y"])
    return memberbound.audit(members, nonmembers=others, model=model, target="y", quick=True)


def test_protect_delivers_the_recommended_replacement() -> None:
    found = audit(2500, DecisionTreeClassifier(random_state=0))
    advice = found.replacement
    command = shlex.split(advice.command)
    options = dict(zip(command[3::2], command[4::2], strict=True))
    assert command[:2] == ["memberbound", "protect"]
    delivered = memberbound.protect(
        people(2500),
        target=options["--target"],
        learner=options["--learner"],
        eta=float(options["--eta"]),
        insecure_seed=0,
    )
    assert delivered.score_released == advice.score_released_estimate
    assert delivered.success_upper == advice.success_upper <= 0.55
    assert advice.score_yours_estimate < advice.score_released_estimate, "the tree overfits"
    assert found.summary().splitlines()[-2:] == [advice.sentence, f"  {advice.command}"]
    assert found.to_dict()["replacement"]["learner"] == options["--learner"]


@pytest.mark.parametrize(
    ("rows", "learner"),
    [(2500, LogisticRegression()), (150, DecisionTreeClassifier(random_state=0))],
    ids=["no leak shown", "too few rows"],
)
def test_without_a_leak_or_enough_rows_nothing_is_replaced(rows, learner) -> None:
    found = audit(rows, learner)
    assert found.replacement is None
    assert "replacement" not in found.to_dict()
    assert "Replace it" not in found.summary()
