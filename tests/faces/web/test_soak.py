"""A server under load and without room: nothing piles up, and refusals say why."""

import errno
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import httpx
import pytest

from memberbound.faces.web import jobs, uploads
from web.conftest import finished, serving, uploaded

CSV = b"sex,age\n" + b"".join(b"%c,%d\n" % (b"fm"[i % 2], i % 7) for i in range(300))
PROC = Path("/proc/self/fd").is_dir()


# ---- no room ------------------------------------------------------------------------------


def full(*_given, **_named):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FullFile:
    """A file on a disk that is full: it opens, and nothing can be written."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __enter__(self) -> "FullFile":
        return self

    def __exit__(self, *_problem: object) -> None:
        os.close(self.handle)

    write = full


@pytest.fixture
def client(client):
    """The shared application, without what other tests left there."""
    state = client.app.state.server
    for id in list(state.uploads._uploads):
        state.uploads.delete(id)
    for job in list(state.jobs):
        client.delete(f"/api/jobs/{job.id}")
    return client


def kept(client) -> list[str]:
    """Whatever lies in the server's folder, without the folders that are always there."""
    state = client.app.state.server
    return [str(p) for place in (state.uploads, state.jobs) for p in place._folder.rglob("*")]


@pytest.mark.parametrize("where", ["folders", "bytes"])
def test_an_upload_onto_a_full_disk_is_refused_with_its_reason(client, where, monkeypatch) -> None:
    with monkeypatch.context() as broken:
        if where == "folders":
            broken.setattr(uploads, "make_folders", full)
        else:
            broken.setattr(uploads.os, "fdopen", lambda handle, _mode: FullFile(handle))
        answer = client.post("/api/files", params={"name": "a.csv"}, content=CSV)
    assert answer.status_code == 413
    assert answer.json() == {
        "error": "the server has no room to keep this: No space left on device."
    }
    assert kept(client) == []
    assert uploaded(client, CSV, "a.csv")["rows"] == 300, "with room again it is taken"


@pytest.mark.parametrize("where", ["folders", "copy"])
def test_a_job_on_a_full_disk_is_refused_with_its_reason(client, where, monkeypatch) -> None:
    file = uploaded(client, CSV, "a.csv")["file"]
    before = kept(client)
    with monkeypatch.context() as broken:
        if where == "folders":
            broken.setattr(jobs, "make_folders", full)
        else:
            broken.setattr(jobs.os, "link", full)
            broken.setattr(jobs.shutil, "copyfile", full)
        answer = client.post("/api/jobs", json={"verb": "certify", "file": file, "options": {}})
    assert answer.status_code == 413
    assert "No space left on device" in answer.json()["error"]
    assert kept(client) == before
    assert client.get("/api/jobs").json() == {"jobs": []}


def test_another_failure_of_a_disk_is_not_called_a_lack_of_room(client, monkeypatch) -> None:
    def broken(*_given):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(uploads, "make_folders", broken)
    answer = client.post("/api/files", params={"name": "a.csv"}, content=CSV)
    assert answer.status_code == 500
    assert answer.json() == {"error": "the server failed at this request."}


# ---- files of the pages -------------------------------------------------------------------


def test_files_of_the_pages_are_packed_and_not_sent_twice(client) -> None:
    address = "/static/app.css"
    plain = client.get(address, headers={"accept-encoding": "identity"})
    packed = client.get(address, headers={"accept-encoding": "br, gzip;q=0.8"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content, "the client unpacks it"
    assert plain.headers["cache-control"] == "private, no-cache", "asked again, not loaded again"
    again = client.get(address, headers={"if-none-match": f'W/"x", {plain.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    other = client.get(address, headers={"if-none-match": '"something else"'})
    assert other.status_code == 200
    assert client.get("/api/health").headers["cache-control"] == "no-store", "answers are not kept"


# ---- load ---------------------------------------------------------------------------------


def grows(values: list[float], slack: float) -> bool:
    """Whether the last third lies above the first by more than the slack."""
    part = max(1, len(values) // 3)
    return median(values[-part:]) - median(values[:part]) > slack


def test_what_piles_up_is_noticed() -> None:
    assert grows([10.0 + i for i in range(12)], slack=2)
    assert not grows([10.0, 13.0, 9.0, 11.0] * 3, slack=2)


def questions(address: str) -> None:
    """What one person asks: numbers, a table certified to the end, something wrong, the page."""
    with httpx.Client(base_url=address, timeout=120) as client:
        for epsilon in (0.5, 2.0):
            asked = {"epsilon": epsilon, "delta": 1e-5}
            assert client.post("/api/explain", json=asked).status_code == 200
        assert client.post("/api/explain", json={"epsilon": -1}).status_code == 422
        file = uploaded(client, CSV, "people.csv")["file"]
        answer = client.post("/api/jobs", json={"verb": "certify", "file": file, "options": {}})
        if answer.status_code == 202:  # else too many are waiting, which is an answer as well
            job = answer.json()["job"]
            assert finished(client, job)["state"] == "done"
            assert client.delete(f"/api/jobs/{job}").status_code == 200
        else:
            assert answer.status_code == 429
        assert client.delete(f"/api/files/{file}").status_code == 204
        assert client.get("/").status_code == 200


def measured(pid: int, folder: Path) -> tuple[float, float, float]:
    """Memory in MiB, open descriptors and files of a server."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    files = [p for p in folder.rglob("*") if p.is_file()]
    return int(resident.split()[1]) / 1024, len(list(Path(f"/proc/{pid}/fd").iterdir())), len(files)


def soaked(folder: Path, *, rounds: int, seconds: float = 0.0, people: int = 2) -> None:
    """Serve so many rounds of questions, and more until the time is over, and stay as before."""
    with serving(folder=folder) as (process, address), ThreadPoolExecutor(people) as crowd:
        end, seen = time.monotonic() + seconds, []
        while len(seen) < rounds or time.monotonic() < end:
            list(crowd.map(questions, [address] * people))
            time.sleep(seconds / 60)  # a bounded load
            seen.append(measured(process.pid, folder))
        print(f"{len(seen)} rounds; MiB, descriptors, files: {seen[1]} … {seen[-1]}")
        for name, values, slack in zip(
            ("memory", "descriptors", "files"),
            zip(*seen[1:], strict=True),  # the first round loads what all need
            (24.0, 4.0, 2.0),
            strict=True,
        ):
            assert not grows(list(values), slack), f"{name}: {values[:5]} … {values[-5:]}"


@pytest.mark.server
@pytest.mark.skipif(not PROC, reason="needs /proc to look at a process")
def test_nothing_piles_up_in_a_few_rounds(tmp_path) -> None:
    soaked(tmp_path, rounds=3, people=1)


@pytest.mark.long
@pytest.mark.skipif(not PROC, reason="needs /proc to look at a process")
def test_nothing_piles_up_in_a_quarter_of_an_hour(tmp_path) -> None:
    soaked(tmp_path, rounds=20, seconds=900.0, people=3)
