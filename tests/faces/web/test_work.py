"""What a job does, asked in this process: the verbs' own dictionaries, charts and files."""

import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import memberbound
from memberbound.faces.command_line import verb_named
from memberbound.faces.web import child
from memberbound.faces.web.child import QUESTIONS, Events, renamed, respond, sentence_of
from memberbound.faces.web.child import performed as perform
from memberbound.quantities import marked
from memberbound.report.answer_charts import histogram, sweep, swept_epsilons


@pytest.fixture
def path(tmp_path, people, monkeypatch):
    """A table in the folder where outputs go, as a job has it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_bytes(people)
    return "people.csv"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Perform a verb in a folder of its own; the answer must be JSON, and progress sensible."""

    def run_(verb, table, **options):
        folder = tmp_path / "out"
        folder.mkdir(exist_ok=True)
        seen = []
        source = None if table is None else str(tmp_path / table)
        with monkeypatch.context() as patch:
            patch.chdir(folder)
            given = json.loads(json.dumps(options))
            answer = perform(verb, source, given, lambda *event: seen.append(event))
        assert seen
        assert all(total is None or 0 <= done <= total for done, total, _ in seen)
        files = sorted(path.name for path in folder.iterdir())
        labels = {label for _, _, label in seen}
        return json.loads(json.dumps(answer, allow_nan=False)) | {"files": files, "labels": labels}

    return run_


#: The attackers of a chart of ``population``.
WHO = ("worst_case", "population", "practical")


def numbers_of(chart):
    """The numbers of a chart, without what separates thousands."""
    return [[cell.replace(",", "") for cell in row] for row in chart["rows"]]


def as_json(result):
    return json.loads(json.dumps(result.to_dict(), allow_nan=False))


def test_certify(run, path, tmp_path):
    options = {"columns": ["sex", "age"], "confidence": 0.9}
    job = run("certify", path, **options, records=True)
    assert job["result"] == as_json(memberbound.certify(path, **options, records="records.parquet"))
    assert job["files"] == ["records.parquet"]
    # The histogram, against the leak of every row as the file has it.
    records = pq.read_table(tmp_path / "out" / "records.parquet")
    leaks = records.column(records.column_names[-1]).to_numpy()
    assert leaks.size == 2000
    assert leaks.max() == job["result"]["record_leak"]["max"]
    own = memberbound.certify(path, **options)
    edges, rows = histogram(own.leaks)
    assert sum(rows) == 2000
    for low, high, count in zip(edges[:-1], edges[1:], rows, strict=True):
        assert count == int(((leaks > low) & (leaks <= high)).sum())
    assert job["charts"]["leaks"]["svg"].startswith("<")
    # The summary in parts: every cell of it is a piece of the text of the command line.
    cells = [cell for block in job["summary"] for row in block["rows"] for cell in row]
    bound = str(marked(own.delta_upper, "certificate", "delta", 6))
    assert bound.startswith("≤")
    assert {"text": bound, "kind": "certificate"} in cells
    assert all(cell["text"] in own.summary() for cell in cells)


SAME = {
    "reference": ("certify", "people.csv", {"columns": ["sex"], "reference": "../people.csv"}),
    "law": ("certify", None, {"uniform": 316, "n": 32561}),
    "plan of a law": ("plan", None, {"probabilities": [0.5, 0.5], "security": 0.9}),
    "plan of a table": ("plan", "people.csv", {"columns": ["sex"], "security": 0.9}),
}


@pytest.mark.parametrize(("verb", "table", "options"), SAME.values(), ids=SAME)
def test_an_answer_is_the_functions_dictionary(run, path, verb, table, options):
    answer = run(verb, table, **options)["result"]
    local = options | ({"reference": path} if "reference" in options else {})
    own = as_json(getattr(memberbound, verb)(*([table] if table else []), **local))
    assert answer == own


def test_harden_and_its_files(run, path, people, tmp_path):
    # A column that a spreadsheet would compute, coarse enough to stay.
    lines = people.decode().splitlines()
    text = [lines[0] + ",=f()"] + [
        f"{line},{'=1+1' if i % 2 else '-x'}" for i, line in enumerate(lines[1:])
    ]
    (tmp_path / "people.csv").write_text("\n".join(text) + "\n")
    options = {"security": 0.8, "keep": ["sex", "=f()"], "learners": False}
    job = run("harden", path, **options)
    own = memberbound.harden(path, **options, out="hardened.parquet", recipe="recipe.json")
    assert job["result"] == as_json(own)
    assert job["result"]["after"]["security_lower"] >= 0.8
    assert job["files"] == ["hardened.csv", "hardened.parquet", "recipe.json"]
    exact = pd.read_parquet(tmp_path / "out" / "hardened.parquet")
    pd.testing.assert_frame_equal(exact, pd.read_parquet("hardened.parquet"))
    assert set(exact["=f()"]) == {"=1+1", "-x"}
    shown = pd.read_csv(tmp_path / "out" / "hardened.csv")
    assert set(shown["'=f()"]) == {"'=1+1", "'-x"}
    assert shown["sex"].tolist() == exact["sex"].tolist()
    assert (tmp_path / "out" / "recipe.json").read_text() == (tmp_path / "recipe.json").read_text()
    was, now = (
        sum(int(row[place]) for row in numbers_of(job["charts"]["leaks"])) for place in (1, 2)
    )
    assert (was, now) == (2000, job["result"]["rows_released"])
    known = [p for p in job["result"]["frontier_estimate"] if p["security"] is not None]
    assert len(numbers_of(job["charts"]["frontier"])) == len(known) > 1
    # The id is left out, as it is in the certificate of the table as it was.
    assert job["result"]["roles"]["id"] == "identifier"
    assert job["result"]["before"]["record_leak"]["exposed_rows"] < 2000


def test_population_with_files_and_candidates(run, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "memberbound.report.answer_charts.swept_epsilons", lambda answer: [0.5, 2.0, 9.0]
    )
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(24, 2)).round(3)
    (tmp_path / "xy.csv").write_text("x,y\n" + "\n".join(f"{a},{b}" for a, b in rows) + "\n")
    job = run("population", "xy.csv", epsilon=4.0, clip=3.0, records=True)
    frame = pd.DataFrame(rows, columns=["x", "y"])
    own = memberbound.population(frame, epsilon=4.0, clip=3.0)
    assert job["result"] == as_json(own) | {"records_out": "records.csv"}
    (point,) = own.sweep([2.0])
    assert numbers_of(job["charts"]["success"])[1] == [
        "2",
        *(str(marked(getattr(point, name), "certificate")) for name in WHO),
    ]
    assert {"computing", "other values of ε"} <= job["labels"]
    records = pd.read_csv(tmp_path / "out" / "records.csv")
    assert records["success_upper"].max() == own.bounds.success.max()
    options = {"mechanism": "exponential", "epsilon": 2.0, "sensitivity": 1.0, "subsets": 10}
    points = [[0.0, 0.0], [1.0, 1.0], [-1.0, 0.5]]
    listed = run("population", "xy.csv", candidates=points, **options)
    own = memberbound.population(frame, candidates=np.array(points), **options)
    assert listed["result"] == as_json(own)
    (tmp_path / "c.csv").write_text("x,y\n0,0\n1,1\n-1,0.5\n")
    from_file = run("population", "xy.csv", candidates=str(tmp_path / "c.csv"), **options)
    assert from_file["result"] == listed["result"]


def test_a_sweep_that_fails_does_not_take_the_answer_along(run, tmp_path, monkeypatch):
    (tmp_path / "xy.csv").write_text("x\n" + "\n".join(map(str, range(10))) + "\n")

    def fail(self, epsilons):
        raise memberbound.SearchError("no noise meets it.")

    monkeypatch.setattr("memberbound.verbs.population.PopulationAnswer.sweep", fail)
    job = run("population", "xy.csv", epsilon=1.0, clip=10.0)
    assert job["charts"] == {}
    assert 0.5 <= job["result"]["success_upper"] <= 1


def test_a_slow_sweep_gives_fewer_points_or_none(monkeypatch):
    answer = memberbound.population(pd.DataFrame({"x": range(10)}), epsilon=1.0, clip=10.0)
    epsilons = swept_epsilons(answer)
    whole = sweep(answer, epsilons, 30.0)
    assert list(whole) == epsilons
    now = [0.0]
    original = memberbound.verbs.population.PopulationAnswer.sweep

    def slow(self, epsilons):
        now[0] += pace
        return original(self, epsilons)

    monkeypatch.setattr("memberbound.verbs.population.PopulationAnswer.sweep", slow)
    monkeypatch.setattr("memberbound.report.answer_charts.time.monotonic", lambda: now[0])
    pace = 3.0
    some = sweep(answer, epsilons, 30.0)
    assert len(some) == 11
    assert list(some) == sorted(some)
    assert (min(some), max(some)) == (epsilons[0], epsilons[-1])
    assert all(point == whole[epsilon] for epsilon, point in some.items())
    pace = 15.0
    assert sweep(answer, epsilons, 30.0) == {}


def test_audit_of_scores_and_of_a_learner(run, path, tmp_path, monkeypatch):
    rng = np.random.default_rng(2)
    member = np.repeat([0, 1], 200)
    frame = pd.DataFrame({"score": rng.normal(member).round(4), "member": member})
    frame.to_csv(tmp_path / "s.csv", index=False)

    def timeless(answer):
        return {k: v for k, v in answer.items() if not k.endswith("_seconds")}

    own = as_json(memberbound.audit(frame, seed=3))
    assert timeless(run("audit", "s.csv", seed=3)["result"]) == timeless(own)
    head = pd.read_csv(path).head(150)
    head.to_csv(tmp_path / "head.csv", index=False)
    options = {"target": "income", "learner": "tree", "shadows": 12, "columns": ["age"]}
    options["attacks"] = ["loss", "rmia", "learned"]  # the last has no accuracy to draw
    job = run("audit-learner", "head.csv", **options, records=True)
    own = memberbound.audit_learner("head.csv", **options, workers=1)
    expected = as_json(own) | {"records_out": "records.csv"}
    assert timeless(job["result"]) == timeless(expected)
    assert job["files"] == ["records.csv"]
    assert "computing" in job["labels"]
    # Several models at once are the same models, and no process is started for them.
    with monkeypatch.context() as alone:
        alone.setattr(subprocess, "Popen", None)
        several = perform("audit-learner", "head.csv", dict(options), lambda *_: None, 3)["result"]
    assert timeless(several) == timeless(as_json(own))


def test_protect_writes_its_release(run, path, tmp_path):
    pytest.importorskip("safetensors")
    job = run("protect-half", path, statistic="mean", columns=["age"], record="every")
    assert job["result"]["command"] == "protect-half"
    assert job["result"]["out"] == "release.safetensors"
    assert job["result"]["certificate"]["upper"] <= 0.05
    assert "release.safetensors" in job["files"]
    assert any(name.endswith(".json") for name in job["files"])


def test_a_release_of_all_rows_has_its_ceiling(run, path):
    job = run("summarize", path, statistic="mean", columns=["age"], eta=0.4)
    assert list(job["charts"]) == ["roc"]


def test_synthesize_writes_its_table_twice(run, path):
    job = run("synthesize", path, eta=0.4, columns=["sex", "income"])
    assert job["result"]["out"] == "synthesize.parquet"
    assert {"synthesize.csv", "synthesize.parquet"} <= set(job["files"])
    assert "synthesize.parquet.certificate.json" in job["files"]
    assert list(job["charts"]) == ["roc", "marginals"]


def test_study_is_asked_for_files_and_progress(run, path, monkeypatch):
    seen = {}

    class Done:
        def to_dict(self):
            return {"command": "study"}

        def summary(self):
            return "Done."

    def study(*, table, out, workers, progress, **options):
        seen.update(options, name=Path(table).name, out=out, workers=workers)
        progress("Attack the model (step 2 of 8)", 1300, 102_000)
        (Path(out) / "report.json").write_text("{}")
        return Done()

    declaration = replace(verb_named("study"), function=study)
    monkeypatch.setattr("memberbound.faces.web.child.verb_named", lambda name: declaration)
    job = run("study", path, target="income", eta=0.1)
    expected = {"target": "income", "eta": 0.1, "name": "people.csv", "out": ".", "workers": 1}
    assert seen == expected
    assert job["result"] == {"command": "study"}
    assert job["files"] == ["report.json"]
    # The steps weigh differently: only the study knows which one it is at.
    assert "Attack the model (step 2 of 8)" in job["labels"]


@pytest.mark.long
def test_a_study_is_a_report_that_can_be_viewed(run, path, tmp_path):
    frame = pd.read_csv(path).drop(columns="id").head(200)
    frame.to_csv(tmp_path / "small.csv", index=False)
    job = run("study", "small.csv", target="income", shadows=12)
    assert job["result"]["status"] == "complete"
    assert job["result"]["data"]["name"] == "small.csv"
    assert {"report.html", "report.json"} <= set(job["files"])
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    shown = QUESTIONS["report"](report)
    assert shown["scripts"].startswith("'nonce-")
    assert "small.csv" in shown["page"]


def test_the_engine_stays_below_the_memory_of_its_job():
    code = (
        "from memberbound.faces.web.child import limit_resources as limit; limit(2**30, 2**40);"
        "from memberbound.tables.engine import Engine;"
        "engine = Engine();"
        "print(engine.sql(\"SELECT current_setting('memory_limit')\").fetchall()[0][0])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    # Half of it: 512 million bytes.
    assert ran.stdout.strip() == "488.2 MiB"


def test_names_of_inputs_are_the_ones_that_were_given():
    names = {"../in/table.csv": "people.csv"}
    found = renamed({"a": ["../in/table.csv is", 3, None], "b": {"c": ("x",)}}, names)
    assert found == {"a": ["people.csv is", 3, None], "b": {"c": ["x"]}}


JOB = {"names": {"../in/table/t.csv": "people.csv"}, "folder": "/somewhere/jobs/x"}


@pytest.mark.parametrize(
    ("request_", "problem", "words"),
    [
        (JOB, memberbound.InputError("../in/table/t.csv\nhas no rows."), "people.csv has no rows."),
        (JOB, MemoryError(), "more memory"),
        (JOB, OSError(28, "No space left on device"), "No space left"),
        (JOB, memberbound.MemberboundError("full: /somewhere/jobs/x/tmp."), "the job's folder/tmp"),
        (JOB, KeyError("Jane Doe, 1970"), "unexpected error (KeyError)"),
        ({}, MemoryError(), "less memory"),
        ({}, OverflowError("x"), "less extreme"),
        ({}, memberbound.InputError("a must be b."), "a must be b."),
        ({}, KeyError("Jane Doe, 1970"), "unexpected error (KeyError)"),
    ],
    ids=str,
)
def test_what_goes_wrong_is_a_sentence_without_paths_and_records(request_, problem, words):
    sentence = sentence_of(problem, request_)
    assert words in sentence
    assert "Jane" not in sentence
    assert "\n" not in sentence


def test_a_question_that_fails_is_answered(monkeypatch):
    def fail(options):
        raise MemoryError

    monkeypatch.setitem(child.QUESTIONS, "explain", fail)
    out = io.StringIO()
    respond({"verb": "explain", "options": {}}, Events(out))
    assert "less memory" in json.loads(out.getvalue())["error"]


def test_progress_is_told_now_and_then():
    out = io.StringIO()
    events = Events(out)
    for done in range(1000):
        events.progress(done, 1000, "a")
    events.progress(1000, 1000, "a")
    events.progress(0, None, "b")
    written = [json.loads(line)["progress"] for line in out.getvalue().splitlines()]
    assert len(written) < 100
    assert written[0] == {"done": 0, "total": 1000, "label": "a"}
    assert written[-2:] == [
        {"done": 1000, "total": 1000, "label": "a"},
        {"done": 0, "total": None, "label": "b"},
    ]
