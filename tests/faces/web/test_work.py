"""Jobs run in this process: the verbs' own dictionaries, charts and files."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import memberbound
from commands import python
from memberbound.faces.command_line import verb_named
from memberbound.faces.web.child import Events, sentence_of
from memberbound.faces.web.child import run_verb as perform
from memberbound.verbs.export import WEB_FORMATS


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


def as_json(result):
    return json.loads(json.dumps(result.to_dict(), allow_nan=False))


def timeless(answer):
    return {k: v for k, v in answer.items() if not k.endswith("_seconds")}


AUDITED = {"target": "income", "learner": "tree", "shadows": 12, "columns": ["age"]}
#: Request → verb, table, options, and the job's files and charts.
JOBS = {
    "certify": ("certify", "people.csv", {"columns": ["sex"], "records": True}, ["records.csv"]),
    "reference": ("certify", "people.csv", {"columns": ["sex"], "reference": "../others.csv"}, []),
    "law": ("certify", None, {"uniform": 316, "n": 32561}, []),
    "plan": ("plan", None, {"probabilities": [0.5, 0.5], "security": 0.9}, []),
    "harden": (
        *("harden", "people.csv", {"security": 0.8, "keep": ["sex"]}),
        ["harden.csv", "harden.csv.certificate.json", "recipe.json"],
    ),
    "audit": ("audit", "scores.csv", {"seed": 3}, []),
    "audit-learner": (
        *("audit-learner", "people.csv", AUDITED | {"attacks": ["loss", "lira"]}),
        [],
    ),
    "population": (
        *("population", "xy.csv", {"epsilon": 4.0, "clip": 3.0, "records": True}),
        ["records.csv"],
    ),
    "candidates": (
        *("population", "xy.csv"),
        {
            **{"mechanism": "exponential", "epsilon": 2.0, "sensitivity": 1.0, "subsets": 10},
            "candidates": [[0.0, 0.0], [1.0, 1.0], [-1.0, 0.5]],
        },
        [],
    ),
}
CHARTS = {
    "certify": ["leaks"],
    "reference": ["leaks"],
    "harden": ["frontier"],
    "audit": ["attacks"],
    "audit-learner": ["attacks"],
    "population": ["success"],
    "candidates": ["success"],
}


@pytest.mark.parametrize("asked", JOBS)
def test_an_answer_is_the_functions_dictionary(asked, run, path, tmp_path, monkeypatch):
    monkeypatch.setattr("memberbound.report.answer_charts._POINTS", 3)
    rng = np.random.default_rng(2)
    member = np.repeat([0, 1], 200)
    scores = pd.DataFrame({"score": rng.normal(member).round(4), "member": member})
    scores.to_csv("scores.csv", index=False)
    pd.DataFrame(rng.normal(size=(24, 2)).round(3), columns=["x", "y"]).to_csv(
        "xy.csv", index=False
    )
    others = pd.DataFrame({"id": np.arange(9000, 9100), "sex": ["f", "m"] * 50, "age": 40})
    others.assign(income=1).to_csv("others.csv", index=False)
    verb, table, options, files = JOBS[asked]
    if verb == "audit-learner":
        pd.read_csv(path).head(150).to_csv(path, index=False)
    job = run(verb, table, **options)
    assert job["files"] == files
    assert list(job["charts"]) == CHARTS.get(asked, [])
    own = {"reference": "others.csv", "records": "records.csv"}
    options = {name: own.get(name, value) for name, value in options.items()}
    options |= {name.split(".")[0]: name for name in files if name == "recipe.json"}
    options |= {"out": "harden.csv"} if verb == "harden" else {}
    options |= {"workers": 1} if verb == "audit-learner" else {}
    function = getattr(memberbound, verb.replace("-", "_"))
    answer = function(*([table] if table else []), **options)
    assert timeless(job["result"]) == timeless(as_json(answer))
    for name in files:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / name).read_bytes()
    # The summary in parts: every cell of it is a piece of the text of the command line.
    cells = [cell for block in job["summary"] for row in block["rows"] for cell in row]
    assert asked == "audit-learner" or all(cell["text"] in answer.summary() for cell in cells)


def test_several_models_at_once_are_threads(run, path, monkeypatch):
    pd.read_csv(path).head(150).to_csv(path, index=False)
    monkeypatch.setattr(subprocess, "Popen", None)
    assert run("audit-learner", path, **AUDITED)["result"]["attacks"]


@pytest.mark.parametrize(
    ("verb", "options", "written"),
    [
        (
            *("protect-half", {"statistic": "mean", "columns": ["age"], "record": "every"}),
            ({"release.json"}, []),
        ),
        ("summarize", {"statistic": "mean", "columns": ["age"], "eta": 0.4}, (set(), ["roc"])),
        (
            *("synthesize", {"eta": 0.4, "columns": ["sex", "income"]}),
            ({"synthesize.csv", "synthesize.csv.certificate.json"}, ["roc", "marginals"]),
        ),
    ],
)
def test_a_release_has_its_files_and_charts(run, path, verb, options, written):
    pytest.importorskip("safetensors")
    job = run(verb, path, **options)
    files, charts = written
    assert job["result"]["command"] == verb
    assert files <= set(job["files"])
    assert list(job["charts"]) == charts


def test_a_certificate_is_verified_with_the_file_and_apart_from_it(run, path):
    """An upload has a folder of its own, so the certificate is not beside the release."""
    options = {"statistic": "mean", "columns": ["age"], "insecure_seed": 1}
    memberbound.summarize(path, eta=0.4, bounds={"age": [0, 100]}, out="mean.json", **options)
    for role, name in (("a", "mean.json"), ("b", "mean.json.certificate.json")):
        Path(role).mkdir()
        Path(name).rename(Path(role) / name)
    asked = {"release": "../a/mean.json", "certificate": "../b/mean.json.certificate.json"}
    job = run("verify", None, **asked)
    assert job["result"]["holds"] is True
    assert job["result"]["eta"] <= 0.4
    shown = [cell["text"] for block in job["summary"] for row in block["rows"] for cell in row]
    assert any(text.startswith("holds: the SHA-256") for text in shown)
    Path("a/mean.json").write_text("{}")
    assert run("verify", None, **asked)["result"]["holds"] is False


def test_a_study_job_returns_files_and_progress(run, path, monkeypatch):
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
    # Steps take different times, so only the study can report its progress.
    assert "Attack the model (step 2 of 8)" in job["labels"]


def test_the_engine_stays_below_the_memory_of_its_job():
    code = (
        "from memberbound.faces.web.child import limit_resources as limit; limit(2**30, 2**40);"
        "from memberbound.tables.engine import Engine;"
        "engine = Engine();"
        "print(engine.sql(\"SELECT current_setting('memory_limit')\").fetchall()[0][0])"
    )
    # Half of it: 512 million bytes.
    assert python("-c", code).stdout.strip() == "488.2 MiB"


JOB = {"names": {"../in/table/t.csv": "people.csv"}, "folder": "/somewhere/jobs/x"}


@pytest.mark.parametrize(
    ("request_", "problem", "words"),
    [
        (JOB, memberbound.InputError("../in/table/t.csv\nhas no rows."), "people.csv has no rows."),
        (JOB, MemoryError(), "more memory"),
        (JOB, OSError(28, "No space left on device"), "No space left"),
        (JOB, memberbound.MemberboundError("full: /somewhere/jobs/x/tmp."), "the job's folder/tmp"),
        (JOB, KeyError("Jane Doe, 1970"), "unexpected error (KeyError)"),
        ({}, memberbound.InputError("a must be b."), "a must be b."),
    ],
    ids=str,
)
def test_errors_are_one_sentence_without_paths_and_records(request_, problem, words):
    sentence = sentence_of(problem, request_)
    assert words in sentence
    assert "Jane" not in sentence
    assert "\n" not in sentence


def test_progress_is_reported_regularly():
    sent = []
    events = Events(sent.append)
    for done in range(1000):
        events.progress(done, 1000, "a")
    events.progress(1000, 1000, "a")
    events.progress(0, None, "b")
    written = [json.loads(event)["progress"] for event in sent]
    assert len(written) < 100
    assert written[0] == {"done": 0, "total": 1000, "label": "a"}
    assert written[-2:] == [
        {"done": 1000, "total": 1000, "label": "a"},
        {"done": 0, "total": None, "label": "b"},
    ]


def test_a_ledger_and_two_reports_are_read_as_in_python(run, tmp_path):
    memberbound.ledger(tmp_path / "book.json", limit_eta=0.1)
    shown = run("ledger", None, file=str(tmp_path / "book.json"))["result"]
    assert shown == as_json(memberbound.ledger(tmp_path / "book.json"))
    report = Path(__file__).parents[2] / "report" / "sample.json"
    asked = {"before": str(report), "after": str(report)}
    assert run("compare", None, **asked)["result"] == as_json(memberbound.compare(**asked))


def test_a_document_is_written_for_each_format_of_the_page(run, path, tmp_path):
    told = memberbound.summarize(path, statistic="mean", columns=["age"], out=tmp_path / "r.json")
    given = {"report": str(tmp_path / "upload-1"), "release": str(tmp_path / "upload-2")}
    Path(f"{told.out}.certificate.json").rename(given["report"])
    Path(told.out).rename(given["release"])
    with pytest.raises(memberbound.InputError, match="release must be given"):
        run("export", None, report=given["report"], format="decision")
    for format, ending in WEB_FORMATS.items():
        answer = run("export", None, **given, format=format)
        shown = answer["result"]
        assert (shown["format"], shown["out"]) == (format, f"{format}{ending}")
    assert len(answer["files"]) == len(WEB_FORMATS) == 8
