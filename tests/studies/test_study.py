"""Whole studies: the report states exactly the results of the verbs, and loses none."""

import builtins
import io
import json
import shlex
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from markupsafe import escape
from scipy import stats

import memberbound
from commands import command
from memberbound.attacks import shadows
from memberbound.curve.families import GaussianCurve
from memberbound.errors import InputError
from memberbound.report.mlflow_run import published_entry
from memberbound.report.model import Question, parse_report
from memberbound.report.publication import Publication
from memberbound.tables import opening
from memberbound.tables import table as tables
from memberbound.tables.engine import Engine
from memberbound.verbs.export import EXPORT_FORMATS
from memberbound.verbs.study import findings as findings_module
from memberbound.verbs.study import running
from memberbound.verbs.study import steps as steps_module
from memberbound.verbs.study.question import StudyData, check_question, read_configuration
from memberbound.verbs.study.studying import study

FEW = {"target": "y", "shadows": 12, "eta": 0.1, "workers": 1}
BOUNDS = {"a": [-4, 4], "b": [-4, 4], "y": ["no", "yes"]}


def people(rows: int = 80, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2)).round(3)
    y = x[:, 0] + 0.5 * rng.normal(size=rows) > 0
    return pd.DataFrame(x, columns=["a", "b"]).assign(y=np.where(y, "yes", "no"))


def without_times(report: dict) -> dict:
    """A report without times and dates."""
    plain = json.loads(json.dumps(report))
    plain.pop("run")
    for step in plain["steps"]:
        step.pop("seconds")
        for name in ("training_seconds", "attack_seconds"):
            if step["result"]:
                step["result"].pop(name, None)
    return plain


@pytest.fixture(scope="module")
def told() -> list[tuple[str, int, int]]:
    """Progress messages of the next fixture's study."""
    return []


@pytest.fixture(scope="module")
def done(tmp_path_factory, told) -> memberbound.Study:
    out = tmp_path_factory.mktemp("study") / "out"
    options = FEW | {"bounds": BOUNDS, "out": out}
    return study(people(400), **options, progress=lambda *said: told.append(said))


def test_every_step_is_done_and_both_files_are_there(done) -> None:
    assert done.complete
    states = {s.id: s.state for s in done.report.steps}
    assert list(states) == [s.id for s in steps_module.STEPS]
    # This few rows cannot be coarsened enough, or synthesized, which is reported.
    assert states.pop("coarser") in ("done", "impossible")
    assert states.pop("synthetic") in ("done", "impossible")
    assert set(states.values()) == {"done"}
    html, plain = map(Path, done.files)
    assert json.loads(plain.read_text(encoding="utf-8")) == done.report.to_dict()
    # The page keeps a number and its percent sign on one line.
    page = html.read_text(encoding="utf-8").replace("\u00a0", " ")
    assert str(escape(done.report.verdict.sentence)) in page
    parse_report(done.report.to_dict())


def test_roles_may_be_set_in_the_configuration(tmp_path) -> None:
    (tmp_path / "study.yaml").write_text("target: y\nroles: {a: category, b: identifier}\n")
    question = check_question(read_configuration(tmp_path / "study.yaml"))
    data = StudyData.read(people(), question)
    assert data.examples.columns == ("a",)
    assert data.describe("y").roles == {"a": "category", "b": "identifier", "y": "category"}
    with pytest.raises(InputError, match="roles must be an object"):
        check_question({"target": "y", "roles": "a=category"})


def test_ceilings_are_the_certificates_and_no_floor_is_below_blind(done) -> None:
    answers = {s["id"]: s["result"] for s in done.report.to_dict()["steps"]}
    rows = {(r["subject"], r["record"]): r for r in done.report.to_dict()["sandwich"]}
    eta = answers["protect-every"]["certificate"]["upper"]
    for record in ("average", "worst"):
        row = rows["noise-every", record]
        assert (row["game"], row["blind"]) == ("neighbour", 0.5)
        assert 0.5 + eta <= row["accuracy_upper"] <= (0.5 + eta) * (1 + 1e-12)
    assert rows["model", "average"]["accuracy_upper"] is None
    assert rows["table", "average"]["accuracy_upper"] == answers["certify"]["accuracy_upper"]
    for row in rows.values():
        if row["accuracy_lower"] is not None:
            assert row["accuracy_lower"] >= row["blind"]


def test_only_enough_remedies_are_recommended(done) -> None:
    chosen = [r for r in done.report.remedies if r.recommended]
    assert chosen == [done.report.recommended]
    assert chosen[0].enough
    assert chosen[0].protects == "every record"
    priced = [r.loss_estimate for r in done.report.remedies if r.enough and r.above_chance]
    assert chosen[0].loss_estimate == min(priced)


def test_the_certified_roc_is_the_curve_of_the_budget(done) -> None:
    answer = next(s for s in done.report.steps if s.id == "protect-every").result
    (curve,) = (c for c in done.report.roc if c.kind == "certificate")
    normal = GaussianCurve(answer["mu"])
    for fpr, tpr in zip(curve.fpr, curve.tpr, strict=True):
        assert normal.tpr(fpr) <= tpr <= min(1.0, fpr + 2 * answer["eta"] * (1 + 1e-9))
    assert any(normal.tpr(fpr) > 1.01 * fpr for fpr in curve.fpr), "not the diagonal"


def test_summary_ends_with_the_report_and_the_verdict(done) -> None:
    lines = done.summary().splitlines()
    verdict, command = done.report.verdict, done.report.recommended.command
    asked = "With your table in a file:"
    assert lines[-4:] == [verdict.sentence, verdict.advice, asked, f"  {command}"]
    assert verdict.advice.startswith("Replace it: ")
    assert f"wrote {done.files[0]}" in lines


def test_the_printed_command_has_the_paths_as_typed(done) -> None:
    typed = replace(done, paths={"source": "in/a b.csv", "--bounds": "in/b.yaml"})
    words = shlex.split(typed.summary().splitlines()[-1])
    stored = shlex.split(done.report.recommended.command)
    assert [w for w in words if w not in stored] == ["in/a b.csv", "in/b.yaml"]
    assert len(words) == len(stored)


def test_an_interrupted_study_leaves_a_report_and_goes_on(tmp_path, monkeypatch) -> None:
    quick = ("certify", "audit", "explain", "rows")
    plain = tuple(s for s in steps_module.STEPS if s.id in quick)
    out = tmp_path / "study"
    ran: list[str] = []

    def count_calls(step, stop: bool):
        def run(bench, progress):
            ran.append(step.id)
            if stop and step.id == "explain":
                raise KeyboardInterrupt
            return step.run(bench, progress)

        return replace(step, run=run)

    monkeypatch.setattr(running, "STEPS", tuple(count_calls(s, True) for s in plain))
    with pytest.raises(KeyboardInterrupt):
        study(people(), **FEW, out=out)
    partial = json.loads((out / "report.json").read_text(encoding="utf-8"))
    parse_report(partial)
    assert partial["status"] == "partial"
    assert [s["state"] for s in partial["steps"]].count("stopped") == 2
    assert "incomplete" in partial["verdict"]["sentence"]
    assert "stopped by the user" in (out / "report.html").read_text(encoding="utf-8")

    ran.clear()
    monkeypatch.setattr(running, "STEPS", tuple(count_calls(s, False) for s in plain))
    whole = study(people(), **FEW, out=out, resume=True)
    assert ran == ["explain", "rows"]
    # The same seed gives the same numbers, in one go or in two.
    once = study(people(), **FEW, out=tmp_path / "once")
    assert without_times(whole.report.to_dict()) == without_times(once.report.to_dict())


def test_a_step_that_is_interrupted_goes_on_with_its_fits(
    tmp_path, done, monkeypatch, only_steps
) -> None:
    only_steps("certify", "audit")
    out, trained = tmp_path / "study", []
    plain = shadows._Training.__call__

    def count_calls(work, model):
        if len(trained) == 7:
            raise KeyboardInterrupt
        trained.append(model)
        return plain(work, model)

    monkeypatch.setattr(shadows._Training, "__call__", count_calls)
    with pytest.raises(KeyboardInterrupt):
        study(people(400), **FEW, bounds=BOUNDS, out=out)
    kept = out / ".steps" / "fits"
    assert len(list(kept.rglob("*.npz"))) == 7
    again: list[int] = []
    monkeypatch.setattr(
        shadows._Training, "__call__", lambda work, m: [again.append(m), plain(work, m)][1]
    )
    whole = study(people(400), **FEW, bounds=BOUNDS, out=out, resume=True)
    assert again[:5] == [7, 8, 9, 10, 11]
    assert not kept.exists(), "answers stay, what they were made from does not"
    found, wanted = (
        {s["id"]: s for s in without_times(r.report.to_dict())["steps"]} for r in (whole, done)
    )
    assert {id: wanted[id] for id in found} == found
    assert list(found) == ["certify", "audit"]


@pytest.fixture(scope="module")
def hurried():
    """A quick study of a table above the sample size of quick studies."""
    with pytest.MonkeyPatch.context() as changed:
        for name, size in (("_PLAYED", 60), ("_ATTACKED_QUICKLY", 40), ("_EXPLAINED", 60)):
            changed.setattr(steps_module, name, size)
        looked = ("certify", "audit", "population", "rows")
        plain = steps_module.STEPS
        changed.setattr(running, "STEPS", tuple(s for s in plain if s.id in looked))
        return study(people(), **(FEW | {"eta": 0.3}), bounds=BOUNDS, quick=True)


def test_a_quick_study_names_the_sample_that_it_is_about(hurried) -> None:
    assert hurried.complete
    found = {s.id: s for s in hurried.report.steps}
    about = "a uniform sample of 60 of the 80 rows"
    for id in ("audit", "population"):
        assert about in found[id].sentence
        assert any(about in said for said in found[id].result["assumptions"])
    assert any(about in said for said in hurried.report.assumptions)
    assert found["population"].result["records"] == 60
    assert any("40 of the 60" in said for said in found["audit"].result["assumptions"])
    # The table's own certificates are about all rows.
    assert found["certify"].result["rows"] == 80
    assert about not in found["certify"].sentence
    assert found["rows"].result["rows"] == 80
    assert hurried.report.question.quick


def test_a_large_table_takes_fewer_models_by_default(only_steps) -> None:
    only_steps()
    wide = pd.concat([people(9000, seed) for seed in range(3)])
    plain = {name: value for name, value in FEW.items() if name != "shadows"}
    assert study(wide, **plain).report.question.shadows == 64 * 10_000 // 27_000
    assert study(wide, **FEW).report.question.shadows == 12
    assert study(people(), **plain).report.question.shadows == 64
    assert study(people(), **plain, quick=True).report.question.shadows == 16
    with pytest.raises(InputError, match="quick must be a valid boolean"):
        check_question({"target": "y", "quick": "very"})


def test_columns_left_out_of_the_trial_are_left_out_of_the_release(only_steps) -> None:
    only_steps("audit", "protect-every")
    named = people(700).assign(who=[f"p{i}" for i in range(700)])
    (remedy,) = study(named, **FEW, quick=True).report.remedies
    assert "--columns a,b " in remedy.command
    # Scored on held-out rows, and useful although four fifths of the rows are too few.
    assert remedy.score_after_estimate > 0.75


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        ({"a": [-4, 4]}, "Give bounds"),  # too few rows for ranges that are not public
        (BOUNDS | {"y": [0, 1]}, "bounds of 'y'"),
    ],
)
def test_a_refusal_of_all_rows_is_reported_with_a_remedy(only_steps, bounds, reason) -> None:
    only_steps("protect-every")
    found = study(people(60), **FEW, bounds=bounds).report
    assert found.steps[0].state == "impossible"
    assert reason in found.steps[0].error
    assert "more rows" in found.verdict.advice


def test_progress_reports_the_step_and_never_decreases(done, told) -> None:
    steps = [label.rsplit(" (", 1)[1] for label, _, _ in told]
    assert list(dict.fromkeys(steps)) == [f"step {i} of 9)" for i in range(1, 10)]
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert {total for _, _, total in told} == {1000 * sum(s.weight for s in steps_module.STEPS)}


def test_resuming_with_another_question_or_table_starts_afresh(tmp_path, monkeypatch) -> None:
    ran: list[str] = []

    def quick(step):
        def run(bench, progress):
            ran.append(step.id)
            raise InputError("left out")

        return replace(step, optional=True, run=run)

    monkeypatch.setattr(running, "STEPS", tuple(quick(s) for s in steps_module.STEPS))
    many = len(steps_module.STEPS)
    for options, table, expected in (
        ({}, people(), many),
        ({}, people(), 0),
        ({"confidence": 0.9}, people(), many),
        ({"confidence": 0.9}, people(seed=1), many),
    ):
        ran.clear()
        study(table, **FEW | options, out=tmp_path / "study", resume=True)
        assert len(ran) == expected


def test_a_learner_that_fails_leaves_a_partial_report(tmp_path, only_steps) -> None:
    only_steps("certify", "audit", "protect-every", "explain", "rows")
    table = tmp_path / "people.csv"
    people().to_csv(table, index=False)
    ran = command(
        "study", "people.csv", "--target", "y", "--shadows", 8, "--workers", 1,
        "--learner", "studies.learners:stubborn", "--out", "study", cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 1, ran.stderr
    (sentence,) = [line for line in ran.stderr.splitlines() if line.startswith("memberbound:")]
    assert "I will not learn this" in sentence
    assert "--resume" in sentence
    report = json.loads((tmp_path / "study" / "report.json").read_text(encoding="utf-8"))
    parse_report(report)
    states = {s["id"]: s for s in report["steps"]}
    assert states["audit"]["state"] == "failed"
    assert "I will not learn this" in states["audit"]["error"]
    assert states["certify"]["state"] == states["explain"]["state"] == "done"
    assert report["status"] == "partial"
    assert "incomplete" in ran.stdout
    html = (tmp_path / "study" / "report.html").read_text(encoding="utf-8")
    assert "I will not learn this" in html


def test_a_learner_without_a_private_form_is_replaced_by_one_that_has_one(only_steps) -> None:
    only_steps("audit", "protect-every", "protect-other")
    found = study(people(1500), **FEW | {"learner": "random-forest"}, quick=True).report
    assert found.complete, "that there is no noise for a forest is a finding, not a failure"
    assert [s.state for s in found.steps] == ["done", "impossible", "done"]
    best = found.recommended
    assert (best.id, best.game, best.protects) == ("noise-other", "neighbour", "every record")
    assert best.learner in ("logistic", "boosting")
    assert f"--learner {best.learner} " in best.command
    advice = found.verdict.advice
    assert advice.startswith(f"Replace it: a {best.learner} model of all rows")
    assert "60 % of the time" in advice


def test_studies_of_neighbouring_tables_publish_the_same(only_steps, tmp_path) -> None:
    """One record changes scores, roles, classes and the learner, and nothing that is published."""
    only_steps("certify", "audit")
    first = people().astype(str)
    other = first.copy()
    other.loc[3] = ["a word", "another", "a third class"]
    studies = []
    for name, table in (("one", first), ("two", other)):
        (tmp_path / name).mkdir()
        table.to_csv(tmp_path / name / "people.csv", index=False)
        found = study(tmp_path / name / "people.csv", **FEW, learner="tree")
        studies.append(found)
        memberbound.export(found, format="model-card", out=tmp_path / name / "card.md")
    one, two = (found.report for found in studies)
    assert one.data.roles != two.data.roles
    assert one.data.classes != two.data.classes
    assert one.sandwich != two.sandwich
    cards = [(tmp_path / name / "card.md").read_bytes() for name in ("one", "two")]
    assert cards[0] == cards[1]
    entries = [published_entry(Publication.of_study(report)) for report in (one, two)]
    for part in ("metrics", "parameters", "tags", "run_name", "note"):
        assert getattr(entries[0], part) == getattr(entries[1], part)


#: Values of one record; the last column is the target.
ODD_RECORDS = {
    "no target": ["0.1", "0.2", ""],
    "nothing": ["", "", ""],
    "words": ["a word", "another", "a third class"],
    "the header": ["a", "b", "y"],
    "far": ["1e308", "-1e308", "no"],
    "a line end": ["a\rb", "0.1", "no"],
}


def everything_public(report):
    """Everything that a study publishes, in every public format but MLflow runs."""
    entry = published_entry(Publication.of_study(report))
    shown = [repr(replace(entry, files={}))]
    for name, form in EXPORT_FORMATS.items():
        if form.audience == "public" and name != "mlflow":
            try:
                shown.append(memberbound.export(report, format=name).text)
            except InputError as refusal:
                shown.append(f"{name} is refused: {refusal}")
    assert any(str(Publication.of_study(report).rows) in text for text in shown)
    return shown


@pytest.mark.parametrize("unit", [None, "who"])
@pytest.mark.parametrize("case", ODD_RECORDS)
def test_no_record_changes_the_public_part_of_a_study(only_steps, tmp_path, case, unit) -> None:
    """The number of rows, or of persons, is that of the table, as ``protect`` publishes it."""
    only_steps("certify")
    first = people().astype(str)
    if unit is not None:
        first["who"] = [f"p{k // 2}" for k in range(len(first))]
    other = first.copy()
    # All rows of a person are replaced.
    for row in (2, 3) if unit is not None else (3,):
        other.loc[row, ["a", "b", "y"]] = ODD_RECORDS[case]
    seen = []
    for name, table in (("one", first), ("two", other)):
        (tmp_path / name).mkdir()
        table.to_csv(tmp_path / name / "people.csv", index=False)
        asked = FEW | {"learner": "tree", "unit": unit}
        seen.append(study(tmp_path / name / "people.csv", **asked).report)
    assert everything_public(seen[0]) == everything_public(seen[1])
    publication = Publication.of_study(seen[1])
    expected = (80, "rows") if unit is None else (40, "persons")
    assert (publication.rows, publication.counted) == expected
    if case == "no target":  # the number that was published once
        assert seen[1].data.rows == expected[0] - 1


def test_more_rows_give_no_guarantee_for_records_with_new_values(only_steps) -> None:
    """Bounds of ``plan`` on single records cover values that occur; new rows bring others."""
    draws = np.random.default_rng(5)
    rare = 2e-6
    law = np.array([*np.full(10, 0.1 - 10 * rare), *np.full(100, rare)])

    def table(rows: int) -> pd.DataFrame:
        cells = draws.choice(110, rows, p=law)
        return pd.DataFrame({"a": cells // 2, "y": cells % 2})

    present = table(1500)
    assert present["a"].max() < 5  # none of the rare values has been seen yet
    only_steps("certify", "rows")
    asked = {"target": "y", "shadows": 8, "eta": 0.05}
    found = study(present, **asked).report
    (rows,) = [r for r in found.remedies if r.id == "rows"]
    assert rows.extra_rows is not None
    # A table of the promised size holds a record that is given away: the total variation between
    # 1 + Bin(n - 1, p) and Bin(n, p) copies of it is what its leak is, where the table is released.
    size = len(present) + rows.extra_rows
    assert table(size)["a"].max() >= 5
    counts = np.arange(50)
    shifted = stats.binom.pmf(counts - 1, size - 1, rare) - stats.binom.pmf(counts, size, rare)
    assert np.abs(shifted).sum() / 2 > 0.9
    assert (rows.enough, rows.recommended, rows.protects) == (False, False, "average record")
    assert "values already occur in the table" in rows.sentence


@pytest.mark.parametrize(("learner", "named"), [(None, False), ("logistic", True)])
def test_choices_made_on_the_data_are_not_called_covered(only_steps, learner, named) -> None:
    draws = np.random.default_rng(0)
    table = pd.DataFrame({"sex": draws.choice(["f", "m"], 9000), "y": draws.integers(2, size=9000)})
    only_steps("certify")
    found = study(table, target="y", shadows=8, learner=learner).report
    said = [text for text in found.assumptions if "chosen by looking at the target" in text]
    assert bool(said) is not named
    # A coarse large table needs nothing.
    assert (found.verdict.level, found.recommended.id) == ("safe", "nothing")
    assert any("remedy was chosen by" in text for text in found.assumptions)
    nothing = study(table[:20], target="y", shadows=8, learner=learner).report
    assert nothing.recommended is None
    assert not any("remedy was chosen by" in text for text in nothing.assumptions)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "z"}, "no column 'z'"),
        ({"target": None}, "target must be given"),
        ({"eta": -0.1}, "eta"),
        ({"eta": 0.5}, "eta"),
        ({"shadows": 2}, "shadows"),
        ({"shadows": 9.5}, "shadows"),
        ({"epsilon": 0}, "epsilon"),
        ({"confidence": 1}, "confidence"),
        ({"learner": "oracle"}, "learner"),
        ({"columns": ["nothing"]}, "no column 'nothing'"),
        # Of the embedded table.
        (
            {"table": None, "target": "diagnosis", "database_table": "p"},
            "database_table must be left out",
        ),
        ({"table": None, "target": "income"}, "target must be 'diagnosis'"),
        (
            {"table": None, "model": "m", "nonmembers": "x", "target": "diagnosis"},
            "table must hold the rows that the model was trained on",
        ),
        # Of a model that exists.
        ({"model": "x"}, "nonmembers must be given with a model"),
        ({"nonmembers": "x"}, "nonmembers must come with a model"),
        ({"trust": True}, "trust must come with a model"),
        ({"model": "no.skops", "nonmembers": "x"}, "model must be a file that exists"),
        ({"model": "m", "nonmembers": "x", "unit": "a"}, "unit must be left out with a model"),
    ],
)
def test_bad_options_are_refused_before_any_work(options, said, only_steps, tmp_path) -> None:
    only_steps()
    asked = {"table": people(), "out": tmp_path / "out"} | FEW | options
    with pytest.raises(InputError, match=said):
        study(**asked)
    assert not (tmp_path / "out").exists()


def test_an_earlier_report_is_not_overwritten_without_force(tmp_path, only_steps) -> None:
    only_steps()
    (tmp_path / "report.json").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="--force"):
        study(people(), **FEW, out=tmp_path)
    assert (tmp_path / "report.json").read_text(encoding="utf-8") == "mine"
    study(people(), **FEW, out=tmp_path, force=True)
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["command"] == "study"
    with pytest.raises(InputError, match="folder"):
        study(people(), **FEW, out=tmp_path / "report.json" / "deeper")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("eta: [", "YAML"),
        ("- eta", "names and values"),
        ("etta: 0.1", "etta"),
        ("eta: large", "eta"),
        ("eta: 0.1\neta: 0.2", "'eta' is given twice"),
        ("roles: {a: number, a: text}", "'a' is given twice"),
        ("target: &y income\nunit: *y", "aliases are not allowed"),
        ("target: !!python/object/apply:os.getcwd []", "constructor for the tag"),
        ("target: !!binary aGk=", "constructor for the tag"),
        ("columns: !!set {a, b}", "constructor for the tag"),
        ("target: " + "[" * 3000 + "]" * 3000, "nested too deeply"),
        ("seed: " + "9" * 5000, "YAML"),
        ("trust: true", "trust"),
    ],
)
def test_a_bad_configuration_is_refused(text, said, tmp_path) -> None:
    config = tmp_path / "study.yaml"
    config.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=said):
        study(config=config)


def test_a_configuration_is_read_and_keywords_go_before_it(tmp_path, only_steps) -> None:
    only_steps()
    people().to_csv(tmp_path / "people.csv", index=False)
    config = tmp_path / "study.yaml"
    config.write_text(
        "source: people.csv\ntarget: y\neta: 0.2\nseed: 3\ncolumns: [b]\nout: result\n",
        encoding="utf-8",
    )
    found = study(config=config, eta=0.1)
    asked = found.report.question
    assert (asked.eta, asked.seed, asked.columns) == (0.1, 3, ("b",))
    assert found.report.data.name == "people.csv"
    assert Path(found.out) == tmp_path / "result"
    assert (tmp_path / "result" / "report.json").is_file()


def test_a_study_opens_its_table_once(tmp_path, monkeypatch, only_steps) -> None:
    counts = Counter()

    def count(owner, name) -> None:
        function = getattr(owner, name)

        def count_calls(*args, **options):
            counts[name] += 1
            return function(*args, **options)

        monkeypatch.setattr(owner, name, count_calls)

    for owner, name in ((Engine, "__init__"), (opening, "_open"), (tables, "infer_roles")):
        count(owner, name)
    only_steps("certify", "protect-every", "explain", "rows", "coarser", "synthetic")
    file = tmp_path / "people.csv"
    people(400).to_csv(file, index=False)
    open_file = io.open

    def count_opens(name, *args, **options):
        counts["open"] += name == file
        return open_file(name, *args, **options)

    for module in (io, builtins):
        monkeypatch.setattr(module, "open", count_opens)
    study(file, **FEW, bounds=BOUNDS, quick=True)
    # The synthetic rows are a second table; harden infers roles from its fitting rows (X18).
    assert counts == {"__init__": 1, "_open": 2, "infer_roles": 2, "open": 1}


def visits(persons: int, seed: int = 0) -> pd.DataFrame:
    """Persons with one to five rows in any order; some rows have no target, some are equal."""
    rng = np.random.default_rng(seed)
    who = rng.permutation(np.repeat(np.arange(persons), rng.integers(1, 6, persons)))
    a = rng.normal(size=len(who)).round(1)
    y = np.where(a + 0.5 * rng.normal(size=len(who)) > 0, "yes", "no").astype(object)
    y[rng.random(len(who)) < 0.02] = None
    return pd.DataFrame({"who": [f"p{k:04}" for k in who], "a": a, "y": y})


PUBLIC = {"a": [-4, 4], "y": ["no", "yes"]}


def test_persons_are_rehearsed_with_all_their_rows_as_they_are_released(only_steps) -> None:
    only_steps("certify", "protect-every", "synthetic")
    table = visits(1500)
    whole = study(table, **FEW, unit="who", bounds=PUBLIC, quick=True).report
    first = table.drop_duplicates("who").dropna()
    assert whole.data.rows == len(first) < 1500, "a record is a person, by the first row"
    answers = {step.id: step.result for step in whole.steps}
    used = table[table["who"].isin(first["who"])]
    released = memberbound.protect(
        used, target="y", unit="who", eta=0.1, bounds=PUBLIC, insecure_seed=0
    )
    for key in ("persons", "rows_trained", "mu", "noise_scale"):
        assert answers["protect-every"][key] == released.to_dict()[key]
    assert answers["synthetic"]["persons"] == len(first)
    scores = {remedy.id: remedy.above_chance for remedy in whole.remedies}
    assert scores["noise-every"]
    assert scores["synthetic"]
    commands = [remedy.command for remedy in whole.remedies if remedy.game == "neighbour"]
    assert all("--unit who" in command for command in commands)
    assert any("each person's first row" in text for text in whole.assumptions)


def test_training_uses_all_rows_of_persons_and_audits_first_rows_of_others(
    monkeypatch,
) -> None:
    table = visits(150)
    question = Question("y", unit="who", eta=0.1, learner="logistic")
    data = StudyData.read(table, question, PUBLIC)
    first = table.drop_duplicates("who").dropna()
    assert data.table.frame["a"].tolist() == first["a"].tolist()
    assert data.persons.count == data.examples.rows == len(first) < 150
    seen = []

    class Released:
        class_names = ("no", "yes", "of later rows only")

        def encode(self, records):
            seen.append(records)
            return records, ()

        def predict_encoded(self, rows):
            return ["yes", "of later rows only"]

        def ranking(self, rows):
            return np.array([[0.1, 0.9, 0.0], [0.2, 0.3, 0.5]])

        def probabilities(self, rows):
            return None

    def fit_private(records, *_args, **_options):
        seen.append(records)
        return Released()

    monkeypatch.setattr(findings_module, "fit_private", fit_private)
    train = findings_module._private_training(steps_module.Context(question, data), "logistic")
    predicted = train(np.array([7, 3]), 0)(np.array([5, 2]))
    assert predicted.values.tolist() == [1, -1]
    assert predicted.ranking.tolist() == [[0.1, 0.9], [0.2, 0.3]]  # of the examples' classes
    trained, asked = seen
    rows = [table[table["who"] == first["who"].iloc[index]] for index in (7, 3)]
    assert trained.columns["a"].numbers.tolist() == [a for part in rows for a in part["a"]]
    assert trained.persons.sizes.tolist() == [len(part) for part in rows]
    assert data.rows_of(np.array([7, 3]))["a"].tolist() == trained.columns["a"].numbers.tolist()
    assert asked.columns["a"].numbers.tolist() == first["a"].iloc[[5, 2]].tolist()
    assert asked.persons is None


def test_persons_of_one_row_are_rows(only_steps) -> None:
    only_steps("protect-every")
    table = visits(900).drop_duplicates("who").dropna()
    alone = study(table.drop(columns="who"), **FEW, bounds=PUBLIC, quick=True).report
    named = study(table, **FEW, unit="who", bounds=PUBLIC, quick=True).report
    for key in ("mu", "noise_scale", "rows_trained"):
        assert named.steps[0].result[key] == alone.steps[0].result[key]
    assert alone.remedies[0].above_chance
    assert named.remedies[0].above_chance
