"""A study claims no more than is proved, and its numbers compare what can be compared."""

import math
import shlex
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from memberbound.attacks.shadows import FailedFit, train_shadows
from memberbound.errors import InputError
from memberbound.learners.examples import read_examples
from memberbound.learners.holdout import HoldoutScore, Predictions, holdout_score
from memberbound.learners.names import learner_from_name
from memberbound.report.model import Question, Remedy, SandwichRow
from memberbound.verbs.study import running, steps
from memberbound.verbs.study.findings import Finding, table_promise
from memberbound.verbs.study.question import StudyData
from memberbound.verbs.study.studying import study
from memberbound.verbs.study.verdict import remedies, verdict


def context_of(frame: pd.DataFrame, **options) -> steps.Context:
    question = Question("y", **{"shadows": 8} | options)
    return steps.Context(question, StudyData.read(frame, question))


def silent(done: int, total: int) -> None:
    del done, total


def noisy(rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(rows, 2)), columns=["a", "b"]).assign(
        y=rng.choice(["no", "yes"], rows)
    )


def audited(estimate: float, *, chance: float = 0.5, blind: float = 0.5, worst: float = 0.5):
    """An audit that proves nothing about the average record, and ``worst`` about another."""

    lowers = {"average": blind, "worst": worst}
    rows = tuple(
        SandwichRow("model", "Model", record, "subset", blind, None, lower, lower, 0.95)
        for record, lower in lowers.items()
    )
    return Finding({}, "attacked", rows=rows, score=HoldoutScore("accuracy", estimate, chance))


@pytest.fixture(scope="module")
def run():
    """Trees on random labels: nearly every record is given away."""
    examples = read_examples(noisy(), "y")
    return train_shadows(examples, learner_from_name("tree"), models=64, n_jobs=1)


def test_halves_on_which_the_learner_succeeds_prove_no_floor(run, monkeypatch) -> None:
    context = context_of(noisy(), learner="tree")
    monkeypatch.setattr(steps, "train_shadows", lambda *_, **__: run)
    whole = steps.audit_model(context, silent)
    assert all(row.accuracy_lower > 0.6 for row in whole.rows)
    assert whole.result["records"]["exposed_records"] > 0
    said = "1 of 65 fits failed and were left out."
    some = replace(run, failures=(FailedFit(64, 0, "one class"),), warnings=(said,))
    monkeypatch.setattr(steps, "train_shadows", lambda *_, **__: some)
    partly = steps.audit_model(context, silent)
    assert all(row.accuracy_lower == row.blind for row in partly.rows)
    assert partly.result["records"]["exposed_records"] == 0
    assert not any(r["proved"] for r in partly.result["records"]["most_exposed"])
    assert said in partly.sentence


def test_a_coarser_target_is_not_scored_against_the_fine_one() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 4, 1500)
    classes = np.array([f"c{i:02d}" for i in rng.integers(0, 40, 1500)])
    classes[a == 0] = "c00"
    for target, learner in ((classes, "tree"), (a + 0.2 * rng.normal(size=1500), "ridge")):
        frame = pd.DataFrame({"a": a, "b": rng.normal(size=1500), "y": target})
        context = context_of(frame, eta=0.2, learner=learner)
        coarser = steps.coarsen_columns(context, silent)
        assert any(" of y " in s or " y into " in s for s in coarser.result["steps"])
        assert coarser.score is None
        findings = {"audit": audited(estimate=0.25, chance=0.2), "coarser": coarser}
        (remedy,) = remedies(findings)
        assert remedy.loss_estimate is None
        best = replace(remedy, enough=True, recommended=True)
        assert "accuracy" not in verdict(findings, [best], context.question, []).advice


def test_a_safe_table_stays_safe_under_a_useless_model() -> None:
    rng = np.random.default_rng(0)
    coarse = {"sex": rng.choice(["f", "m"], 9000), "y": rng.integers(2, size=9000)}
    context = context_of(pd.DataFrame(coarse))
    certified = steps.certify_table(context, silent)
    findings = {"certify": certified, "audit": audited(estimate=0.5, chance=0.51)}
    listed = remedies(findings)
    assert [r.id for r in listed if r.recommended] == ["nothing"]
    safe = verdict(findings, listed, context.question, [])
    assert safe.level == "safe"
    # The bound is one of the i.i.d. game, at a confidence, and about rows of the table.
    assert "who knows the source of the records but not the table" in safe.sentence
    assert "(confidence 95 %)" in safe.sentence
    assert "any of its records'" in safe.sentence


def noise(upper: float, estimate: float = 0.9, id: str = "noise-every") -> Finding:
    """Noise on all rows that keeps ``upper``, with a score."""
    remedy = Remedy(
        id=id,
        label="Noise",
        protects="every record",
        game="neighbour",
        enough=upper <= 0.05,
        accuracy_upper=0.5 + upper,
        confidence=1.0,
        learner="logistic",
    )
    return Finding({}, ".", score=HoldoutScore("accuracy", estimate, 0.5), remedy=remedy)


SCORES = {"accuracy": 0.9, "AUC": 0.8, "log loss": 0.3}
FIXED = {"accuracy": 0.9, "AUC": 0.5, "log loss": 0.4}


@pytest.mark.parametrize(
    ("id", "changed", "said"),
    [
        ("synthetic", {}, None),  # a rare class: as accurate as a constant, and useful
        ("synthetic", {"AUC": 0.49}, "models trained on this table rank people worse than a const"),
        (
            "synthetic",
            {"log loss": 0.41},
            "models trained on this table predict worse than a const",
        ),
        ("noise-every", {"log loss": 0.41}, "such models predict worse than a constant"),
    ],
)
def test_nothing_worse_than_a_constant_is_recommended(id, changed, said) -> None:
    score = HoldoutScore("accuracy", 0.9, 0.9, SCORES | changed, FIXED)
    finding = replace(noise(0.01, id=id), score=score)
    audited = Finding({}, ".", score=HoldoutScore("accuracy", 0.9, 0.9, SCORES, FIXED))
    step = "synthetic" if id == "synthetic" else "protect-every"
    (remedy,) = remedies({step: finding, "audit": audited})
    assert remedy.recommended is remedy.above_chance is (said is None)
    assert remedy.log_loss_constant_estimate == 0.4
    if said is not None:
        assert remedy.shortcoming.startswith(said)


def test_log_loss_does_not_count_where_the_learner_has_none_to_compare() -> None:
    score = HoldoutScore("accuracy", 0.9, 0.9, SCORES | {"log loss": 3.0}, FIXED)
    finding = replace(noise(0.01, id="synthetic"), score=score)
    trees = HoldoutScore("accuracy", 0.9, 0.9, SCORES | {"log loss": 2.0}, FIXED)
    for audited in ({}, {"audit": Finding({}, ".", score=trees)}):
        (remedy,) = remedies({"synthetic": finding} | audited)
        assert remedy.recommended


def test_the_command_reproduces_the_studied_release() -> None:
    asked = {"columns": ("a", "height, cm"), "database_table": "people", "bounds": "b.yaml"}
    frame = noisy().rename(columns={"b": "height, cm"})
    context = context_of(frame, **asked | {"database_table": None})
    question = Question("y", **asked)
    context = replace(context, question=question, source="my table.db")
    words = shlex.split(context.release_command("protect", learner="logistic"))
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert words[:3] == ["memberbound", "protect", "my table.db"]
    assert options == {
        "--target": "y",
        "--table": "people",
        "--eta": "0.05",
        "--bounds": "b.yaml",
        "--columns": 'a,"height, cm"',
        "--learner": "logistic",
    }


def test_a_useless_model_is_not_recommended_although_the_first_audit_failed() -> None:
    for estimate, recommended in ((0.9, True), (0.5, False)):
        (remedy,) = remedies({"protect-every": noise(0.05, estimate)})
        assert remedy.enough
        assert remedy.recommended is recommended


def test_the_verdict_counts_from_blind_guessing() -> None:
    asked, blind = Question("y", eta=0.05), 13 / 25
    for lower, level in ((0.56, "unproved"), (0.58, "exposed")):
        findings = {"audit": audited(0.9, blind=blind, worst=lower), "protect-every": noise(0.05)}
        said = verdict(findings, remedies(findings), asked, [])
        assert said.level == level
        assert "not even somebody who knows all other records" in said.advice
        if level == "unproved":
            assert "beat blind guessing about any record by more than 5 points" in said.sentence
    findings = {"audit": audited(0.9, blind=285 / 569)}
    said = verdict(findings, [], asked, [])
    assert "There is no guarantee for the model as it is" in said.sentence
    assert "by more than 5 points" in said.sentence
    assert "public bounds for the columns (memberbound bounds) or more rows" in said.advice


def test_another_table_with_the_same_encoding_is_another_table() -> None:
    one, question = noisy(), Question("y")
    two = one.assign(a=2 * one["a"])
    read = [StudyData.read(frame, question) for frame in (one, two, one.copy())]
    assert np.array_equal(read[0].examples.features, read[1].examples.features)
    assert read[0].sha256 != read[1].sha256
    assert read[0].sha256 == read[2].sha256


def test_scores_are_of_rows_outside_and_on_the_same_splits() -> None:
    examples = read_examples(noisy(), "y")
    seen: list[tuple[int, ...]] = []

    def remember(rows, seed):
        """Right about the rows that it was trained on, wrong about all others."""
        seen.append(tuple(rows))

        def answer(others):
            right = examples.target[others]
            answers = np.where(np.isin(others, rows), right, 1 - right)
            return Predictions(answers, np.zeros((len(others), 0)))

        return answer

    score = holdout_score(examples, remember, 3)
    assert score.estimate == 0.0
    first, seen[:] = list(seen), []

    def fail_once(rows, seed):
        seen.append(tuple(rows))
        if seed == 3:
            raise ValueError("not this split")
        return lambda others: Predictions(examples.target[others], np.zeros((len(others), 0)))

    score = holdout_score(examples, fail_once, 3)
    assert score.estimate == 1.0
    assert seen == first
    assert all(len(rows) == 48 for rows in seen)

    def fail(rows, seed):
        raise ValueError("never")

    assert holdout_score(examples, fail, 3) is None


@pytest.mark.parametrize(("other", "best"), [(0.812, "noise-every"), (0.83, "coarser")])
def test_of_remedies_that_score_alike_the_one_that_promises_most_is_recommended(
    other, best
) -> None:
    """The certificate of a coarser table promises less: it has to score clearly better."""
    coarser = noise(0.05, other, "coarser")
    findings = {
        "audit": audited(estimate=0.85),
        "protect-every": noise(0.05, 0.805),
        "coarser": replace(coarser, remedy=replace(coarser.remedy, game="iid")),
    }
    assert [remedy.id for remedy in remedies(findings) if remedy.recommended] == [best]


def test_a_promise_to_every_record_is_the_worst_records_bound() -> None:
    worst = SimpleNamespace(max=0.09)
    bounds = SimpleNamespace(accuracy_upper=0.52, delta_upper=0.04, record_leak=worst)
    enough, most = table_promise(bounds, 0.05)
    assert enough
    assert 0.545 <= most <= 0.5450001, "not the average record's 0.52"
    assert not table_promise(bounds, 0.04)[0]


def test_a_number_that_no_report_can_hold_is_a_failed_step(tmp_path, monkeypatch) -> None:
    odd = steps.Step("certify", "Certify", False, lambda *_: Finding({"delta": math.nan}, "."))
    monkeypatch.setattr(running, "STEPS", (odd,))
    found = study(noisy(), target="y", out=tmp_path / "out")
    assert found.report.steps[0].state == "failed"
    assert (tmp_path / "out" / "report.html").is_file()


def test_a_number_as_target_gets_a_learner_for_numbers(only_steps) -> None:
    only_steps()
    frame = noisy().assign(y=np.arange(60.0))
    assert study(frame, target="y").report.question.learner == "ridge"
    assert study(noisy(), target="y").report.question.learner == "logistic"
    with pytest.raises(InputError, match="learner"):
        study(frame, target="y", learner="logistic")


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(tmp_path, only_steps) -> None:
    only_steps()
    (tmp_path / ".steps").write_text("in the way", encoding="utf-8")
    with pytest.raises(InputError, match="can be written"):
        study(noisy(), target="y", out=tmp_path)


def test_new_rows_are_a_remedy_for_every_record():
    """Any learner takes them, also one without a private form; the price is that learner's."""
    rng = np.random.default_rng(3)
    age = rng.integers(20, 90, 3000)
    ill = np.where(rng.random(3000) < 1 / (1 + np.exp((55 - age) / 8)), "yes", "no")
    people = pd.DataFrame({"age": age, "sex": rng.choice(["f", "m"], 3000), "ill": ill})
    public = {"age": [0, 120], "sex": ["f", "m"], "ill": ["yes", "no"]}
    question = Question("ill", learner="tree", eta=0.05)
    context = steps.Context(question, StudyData.read(people, question, public), "people.csv")
    finding = steps.draw_new_rows(context, silent)
    chance = max((ill == "yes").mean(), (ill == "no").mean())
    assert chance + 0.1 < finding.score.estimate < 1
    assert finding.score.chance == pytest.approx(chance)
    (remedy,) = remedies({"synthetic": finding})
    assert (remedy.id, remedy.game, remedy.protects) == ("synthetic", "neighbour", "every record")
    assert remedy.enough
    assert remedy.recommended
    assert remedy.accuracy_upper <= 0.55 + 1e-12
    assert "memberbound synthesize people.csv --target ill --eta 0.05" in remedy.command


def test_new_rows_of_a_study_follow_the_rules_of_its_bounds(monkeypatch):
    """The trial is the release that the command would make: with the rules of the bounds file."""
    frame = noisy().assign(wide=lambda table: np.where(table.iloc[:, 0] > 0, "yes", "no"))
    source = frame.columns[0]
    derived = {"wide": {"from": source, "edges": [0], "labels": ["no", "yes"]}}
    public = {source: [-9, 9], "rules": {"derived": derived}}
    made, plain = [], steps.synthesize

    def keep(*args, **options):
        made.append(plain(*args, **options))
        return made[-1]

    monkeypatch.setattr(steps, "synthesize", keep)
    question = Question("y", learner="tree", eta=0.45)
    data = StudyData.read(frame, question, public)
    assert data.sha256 != StudyData.read(frame, question, {source: [-9, 9]}).sha256
    steps.draw_new_rows(steps.Context(question, data, "people.csv"), silent)
    assert len(made) > 1
    for answer in made:
        table = answer.table
        assert ((table[source] >= 0) == (table["wide"] == "yes")).all()
