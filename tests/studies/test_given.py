"""A study about an existing model: its own numbers first, then remedies in comparison."""

import json
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import memberbound
from memberbound.errors import InputError
from memberbound.report.model import parse_report
from memberbound.report.page import render
from memberbound.verbs.study.question import StudyModel
from memberbound.verbs.study.studying import study
from report import sample as reports


def people(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3)).round(3)
    y = x[:, 0] + rng.normal(size=rows) > 0
    return pd.DataFrame(x, columns=list("abc")).assign(y=np.where(y, "yes", "no"))


@pytest.fixture(scope="module")
def sides() -> tuple[pd.DataFrame, pd.DataFrame]:
    table = people()
    return table[:200], table[200:].reset_index(drop=True)


def fit(table: pd.DataFrame, depth: int | None = None) -> DecisionTreeClassifier:
    model = DecisionTreeClassifier(max_depth=depth, random_state=0)
    return model.fit(table[list("abc")], table["y"])


@pytest.fixture
def quick(only_steps) -> None:
    """The certificate of the table and one translation; remedies are other tests'."""
    only_steps("certify", "explain")


def test_the_report_is_about_the_given_model(quick, sides, tmp_path: Path) -> None:
    inside, others = sides
    inside.to_csv(tmp_path / "train.csv", index=False)
    others.to_csv(tmp_path / "test.csv", index=False)
    model = fit(inside)
    joblib.dump(model, tmp_path / "model.joblib")
    inputs = {"model": tmp_path / "model.joblib", "nonmembers": tmp_path / "test.csv"}
    with pytest.raises(InputError, match="--trust"):
        study(tmp_path / "train.csv", target="y", **inputs)
    found = study(tmp_path / "train.csv", target="y", **inputs, trust=True, out=tmp_path / "out")
    report = found.report
    given = report.given
    assert (given.members, given.non_members) == (200, 200)
    # By hand: a tree grown to purity is right about every member.
    assert given.score_members_estimate == 1
    right = (model.predict(others[list("abc")]) == others["y"]).mean()
    assert given.score_nonmembers_estimate == pytest.approx(right)
    answer = memberbound.audit(
        inside, nonmembers=others, model=model, target="y", confidence=0.95, seed=0
    )
    row = report.sandwich[0]
    assert (row.subject, row.game, row.record) == ("given", "model", "average")
    assert row.accuracy_upper is None
    assert row.accuracy_lower == pytest.approx((1 + answer.reached[1]) / 2)
    assert row.accuracy_lower <= (1 + answer.reached[1]) / 2
    assert report.verdict.level == "exposed"
    assert "the given model leaks its training records" in report.verdict.sentence
    assert report.question.learner == "tree"  # it would be retrained with its own learner
    assert report.question.model == "model.joblib"
    assert str(tmp_path) not in json.dumps(report.to_dict())
    told = json.loads(json.dumps(report.to_dict()))
    assert parse_report(told).to_dict() == report.to_dict()
    page = Path(found.files[0]).read_text(encoding="utf-8")
    assert "The given model" in page
    assert "Facts for output checking" in page
    # The limit applies to it, too.
    held = found.held_to(0.55)
    assert [check.what for check in held.checks] == ["the given model, average record"]
    assert held.exceeded


def test_prices_are_held_against_the_given_model(quick, sides) -> None:
    inside, others = sides
    found = study(inside, target="y", model=fit(inside), nonmembers=others, quick=True).report
    nothing = next(r for r in found.remedies if r.id == "nothing")
    score = found.given.score_nonmembers_estimate
    assert nothing.score_before_estimate == score


def test_a_model_without_a_shown_leak_is_not_called_exposed(quick, sides) -> None:
    inside, others = sides
    found = study(inside, target="y", model=fit(inside, 1), nonmembers=others, quick=True)
    assert found.report.verdict.level == "unproved"
    assert not found.exceeds(0.55)


def test_a_shift_between_the_two_sides_is_not_called_a_leak(quick, sides) -> None:
    inside, others = sides
    moved = others.assign(b=others["b"] + 4)
    found = study(inside, target="y", model=fit(inside), nonmembers=moved, quick=True)
    report = found.report
    given = report.given
    assert not given.comparable
    assert report.verdict.level == "unproved"
    assert given.one_law.sentence in report.verdict.sentence
    # Nothing is measured of the model: no floor, no row, no curve, in no face.
    assert {floor.lower for floor in given.access_floors()} == {None}
    assert not [row for row in report.sandwich if row.subject == "given"]
    assert not [curve for curve in report.roc if curve.subject == "given"]
    assert parse_report(json.loads(report.to_json())).to_dict() == report.to_dict()
    section = render(report).split('id="given"')[1].split("</section>")[0]
    assert "≥" not in section
    # The gate is red in both verbs, for one reason.
    answer = memberbound.audit(inside, nonmembers=moved, model=fit(inside), target="y")
    for held in (found.held_to(0.99), found.held_to(0.99, "estimate"), answer.held_to(0.99)):
        assert held.exceeded
        assert "differ already in their columns" in held.sentence


def test_another_model_is_another_study(quick, sides, tmp_path: Path) -> None:
    inside, others = sides
    asked = {"target": "y", "nonmembers": others, "out": tmp_path, "force": True}
    first = study(inside, model=fit(inside), **asked).report
    again = study(inside, model=fit(inside), resume=True, **asked).report
    assert again.given == first.given
    other = study(inside, model=fit(inside, 2), resume=True, **asked).report
    assert other.given != first.given


def test_pipelines_are_retrained_as_their_last_step(sides) -> None:
    inside, others = sides
    x, y = inside[list("abc")], inside["y"]
    forest = make_pipeline(StandardScaler(), RandomForestClassifier(3)).fit(x, y)

    def own(model: object) -> str | None:
        read = StudyModel.read(model, inside, others, trust=False)
        return read.learner("classification")

    assert own(forest) == "random-forest"
    assert own(lambda rows: np.full((len(rows), 2), 0.5)) is None


def test_names_of_a_hostile_model_stay_text() -> None:
    report = reports.given(reports.EVIL)
    page = render(parse_report(report))
    assert "<img src=x" not in page
