"""Jobs: the verbs' own dictionaries, progress, cancel, limits, files, and their remains."""

import contextlib
import errno
import io
import json
import os
import stat
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import memberbound
from memberbound.faces.command_line import verb_named
from memberbound.faces.web import jobs, uploads
from memberbound.faces.web.child import JOBS
from memberbound.faces.web.limits import MIB
from memberbound.faces.web.schemas import options_model
from memberbound.faces.web.uploads import Uploads
from web.conftest import SMALL, open_client, run_verb, upload, wait_until_done


@pytest.fixture(scope="module")
def table(client, people):
    return upload(client, people)["file"]


@pytest.fixture
def path(tmp_path, people, monkeypatch):
    """The same table on disk, to call the function itself; outputs go beside it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_bytes(people)
    return "people.csv"


def as_json(result):
    return json.loads(json.dumps(result.to_dict(), allow_nan=False))


def start(client, verb, file=None, **options):
    return client.post("/api/jobs", json={"verb": verb, "file": file, "options": options})


def download(client, job, name):
    answer = client.get(f"/api/jobs/{job['job']}/files/{name}")
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
    assert answer.headers["content-type"] == "application/octet-stream"
    return answer.content


def working(folder):
    """Return the processes of jobs with a folder below ``folder``."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and (entry / "cwd").readlink().is_relative_to(folder):
                found.append(int(entry.name))
    return found


def test_typed_documents_are_stored_beside_the_outputs(client, table):
    """The bounds of ``summarize`` are text; a model is no table, and a table is no model."""
    bounds = "age: [0, 120]\n"
    asked = {"statistic": "mean", "columns": ["age"], "bounds": bounds, "eta": 0.1}
    job = run_verb(client, "summarize", table, **asked)
    assert job["state"] == "done", job["error"]
    (typed,) = client.app.state.server.folder.rglob(f"{job['job']}/out/bounds.yaml")
    assert stat.S_IMODE(typed.stat().st_mode) == 0o600
    assert download(client, job, "bounds.yaml").decode() == bounds
    assert "--bounds bounds.yaml" in job["command"]
    assert job["result"]["game"] == "neighbour"
    assert list(job["charts"]) == ["roc"]
    refused = run_verb(client, "summarize", table, **asked | {"bounds": "age: [9, 1]"})
    assert (refused["state"], refused["result"], refused["files"]) == ("failed", None, [])
    assert "bounds" in refused["error"]["message"]
    assert str(client.app.state.server.folder) not in json.dumps(refused)
    template = run_verb(client, "bounds", table)
    assert "age" in template["result"]["template"]
    assert download(client, template, "bounds.yaml").decode() == template["result"]["template"]
    model = upload(client, b"\x08\x01", "model.onnx")
    assert (model["rows"], model["columns"]) == (None, [])
    refused = run_verb(client, "certify", model["file"])
    assert refused["state"] == "failed"
    assert "model.onnx" in refused["error"]["message"]
    options = {"nonmembers": table, "target": "income", "model": table}
    assert "model must end in" in run_verb(client, "audit", table, **options)["error"]["message"]
    broken = run_verb(client, "audit", table, **options | {"model": model["file"]})
    assert broken["state"] == "failed"
    assert "model.onnx" in broken["error"]["message"]


def test_a_job_from_start_to_download(client, table, path):
    options = {"columns": ["sex", "age"], "confidence": 0.9}
    job = run_verb(client, "certify", table, **options, records=True)
    assert job["state"] == "done", job["error"]
    own = memberbound.certify(path, **options, records="records.csv")
    assert job["result"] == as_json(own)
    assert job["progress"]["label"]
    assert job["seconds"] > 0
    assert list(job["charts"]) == ["leaks"]
    listed = {j["job"]: j for j in client.get("/api/jobs").json()["jobs"]}
    assert listed[job["job"]] == {
        k: v for k, v in job.items() if k not in ("result", "charts", "summary")
    }
    assert [f["name"] for f in job["files"]] == ["records.csv"]
    assert len(pd.read_csv(io.BytesIO(download(client, job, "records.csv")))) == 2000
    # Nothing that was not listed is given out, and the inputs are gone.
    base = f"/api/jobs/{job['job']}/files"
    for name in ("..%2fin", "../tmp", "%2e%2e/out/records.csv", "x"):
        assert client.get(f"{base}/{name}").status_code == 404
    assert client.get("/api/jobs/unknown/files/records.csv").status_code == 404
    folder = client.app.state.server.jobs[job["job"]].folder
    assert not (folder / "in").exists()
    # An ended job is forgotten with its files.
    assert client.delete(f"/api/jobs/{job['job']}").status_code == 200
    assert client.get(f"/api/jobs/{job['job']}").status_code == 404
    assert not folder.exists()


#: A body, the status, and the part that the answer must name.
REFUSED = [
    ({"verb": "certify", "options": {"records": "../x.csv"}}, 422, "options.records"),
    ({"verb": "harden", "options": {"out": "x.csv"}}, 422, "options.out"),
    ({"verb": "certify", "options": {"probabilities": "/etc/passwd"}}, 422, "options.probab"),
    ({"verb": "certify", "options": {"reference": "../../x"}}, 422, "options.reference"),
    ({"verb": "certify", "options": {"reference": "x" * 22, "uniform": 3}}, 404, "an upload"),
    ({"verb": "audit", "options": {"learner": "os:system"}}, 422, "options.learner"),
    (
        {"verb": "protect", "options": {"target": "y", "learner": "package.module:factory"}},
        *(422, "options.learner"),
    ),
    ({"verb": "audit", "options": {"cache": "x"}}, 422, "options.cache"),
    ({"verb": "inspect", "options": {}}, 422, "'inspect'"),
    ({"verb": "explain"}, 422, "'explain'"),
    ({"verb": "certify", "file": "unknown-file-id"}, 404, "an upload"),
    ({"verb": "certify", "file": "../../etc"}, 422, "certify.file"),
    ({"verb": "certify", "extra": 1}, 422, "certify.extra"),
    ({"file": None}, 422, "'verb'"),
    ({"verb": "harden", "options": {"bins": {"a": ["x"]}}}, 422, "options.bins"),
]


@pytest.mark.parametrize(
    ("body", "status", "named"), REFUSED, ids=[str(body)[:70] for body, *_ in REFUSED]
)
def test_requests_that_start_nothing(client, body, status, named):
    before = len(client.get("/api/jobs").json()["jobs"])
    answer = client.post("/api/jobs", json=body)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    assert named in answer.json()["error"]
    assert len(client.get("/api/jobs").json()["jobs"]) == before


@pytest.mark.parametrize("verb", JOBS)
def test_noise_never_comes_from_a_seed(verb):
    assert "insecure_seed" not in options_model(verb_named(verb)).model_fields


@pytest.fixture
def taken(monkeypatch):
    """Take uploads without looking inside, which other tests do."""

    async def trusted(self, *about):
        return {"rows": 1, "columns": []}

    monkeypatch.setattr(Uploads, "_inspect", trusted)


def slow(client):
    """Start a job that takes minutes."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(300, 3)).round(5)
    content = "a,b,y\n" + "\n".join(f"{a},{b},{int(c > 0)}" for a, b, c in values)
    file = upload(client, content.encode(), "slow.csv")["file"]
    asked = start(client, "audit-learner", file, target="y", learner="random-forest", shadows=5000)
    assert asked.status_code == 202, asked.text
    return asked.json()["job"]


def running(client, job):
    """Wait until a job has reported progress."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        state = client.get(f"/api/jobs/{job}").json()
        if state["progress"] and state["progress"]["total"]:
            return state
        assert state["state"] in ("queued", "running"), state
        time.sleep(0.05)
    raise AssertionError(state)


def test_cancel_kills_the_process_and_frees_its_files(taken):
    with open_client(replace(SMALL, running=1)) as client:  # of its own, to see its end
        server = client.app.state.server
        first = slow(client)
        state = running(client, first)
        assert state["state"] == "running"
        assert state["progress"]["total"] == 5000
        assert working(server.folder)
        second = start(client, "certify", uniform=3, n=9).json()["job"]
        third = start(client, "certify", uniform=3, n=9).json()["job"]
        assert client.get(f"/api/jobs/{second}").json()["state"] == "queued"
        assert client.delete(f"/api/jobs/{third}").json()["state"] == "cancelled"
        folder = server.jobs[first].folder
        assert client.delete(f"/api/jobs/{first}").json()["state"] == "cancelled"
        assert not working(folder)
        assert not any((folder / name).exists() for name in ("in", "out", "tmp"))
        # The next one in the queue has its turn; the cancelled one never ran.
        assert wait_until_done(client, second)["state"] == "done"
        assert client.get(f"/api/jobs/{third}").json()["seconds"] == 0
        # At shutdown, running jobs are stopped and all files deleted.
        last = slow(client)
        assert client.get(f"/api/jobs/{last}").json()["state"] == "running"
        assert server.folder.exists()
    assert not server.folder.exists()
    assert not working(server.folder)


def test_time_and_memory_of_a_job_are_limited(client, taken, restricted):
    restricted(job_seconds=0.2)
    job = wait_until_done(client, slow(client))
    assert job["state"] == "failed"
    assert "stopped after 0.2 seconds" in job["error"]["message"]
    assert not working(client.app.state.server.jobs[job["job"]].folder)
    # Less than the loaded libraries take: work beyond the free memory is refused.
    restricted(upload_bytes=100 * MIB)
    lines = b"".join(b"0.%06d,%d\n" % (i, i % 2) for i in range(10**6))
    scores = upload(client, b"score,member\n" + lines, "scores.csv")["file"]
    restricted(job_memory_bytes=40 * MIB)
    job = run_verb(client, "audit", scores)
    assert job["state"] == "failed"
    assert "memory" in job["error"]["message"]
    restricted(upload_bytes=100 * MIB)
    assert run_verb(client, "audit", scores)["state"] == "done"


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_jobs_beyond_the_queue_are_refused_and_keep_their_table(taken, people, links, monkeypatch):
    def refuse(*paths):
        raise PermissionError

    if not links:
        monkeypatch.setattr("os.link", refuse)
    with open_client(replace(SMALL, running=0, queued=2)) as client:  # no job, no process
        file = upload(client, people)["file"]
        job = start(client, "certify", file, reference=file).json()["job"]
        assert client.delete(f"/api/files/{file}").status_code == 204
        inputs = client.app.state.server.jobs[job].folder / "in"
        found = {str(p.relative_to(inputs)): p.read_bytes() for p in inputs.glob("*/*")}
        assert found == {"table/people.csv": people, "reference/people.csv": people}
        assert start(client, "certify", uniform=3, n=9).status_code == 202
        answer = start(client, "certify", uniform=3, n=9)
        assert answer.status_code == 429
        assert "at most 2 jobs" in answer.json()["error"]


def full(*_given, **_named):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def keep(client):
    state = client.app.state.server
    return sorted(p for store in (state.uploads, state.jobs) for p in store._folder.rglob("*"))


@pytest.mark.parametrize("what", ["upload", "job"])
def test_a_full_disk_is_refused_with_its_reason_and_leaves_no_files(
    client, people, table, what, monkeypatch
):
    before = keep(client)
    with monkeypatch.context() as broken:
        broken.setattr(uploads, "make_folders", full)
        broken.setattr(jobs, "make_folders", full)
        if what == "upload":
            answer = client.post("/api/files", params={"name": "a.csv"}, content=people)
        else:
            answer = start(client, "certify", table)
    assert answer.status_code == 413
    assert "No space left on device" in answer.json()["error"]
    assert keep(client) == before


def test_the_oldest_jobs_are_forgotten_beyond_the_limit(client, restricted):
    restricted(kept_jobs=1)
    done = [run_verb(client, "certify", None, uniform=3, n=n)["job"] for n in (7, 8)]
    assert client.get(f"/api/jobs/{done[0]}").status_code == 404
    assert client.get(f"/api/jobs/{done[1]}").json()["result"]["n"] == 8
    assert [p.name for p in (client.app.state.server.folder / "jobs").iterdir()] == [done[1]]
