"""Uploads: accepted and refused files; refused ones leave nothing on disk."""

import asyncio
import stat
from dataclasses import replace

import pytest
from starlette.requests import Request

from memberbound.faces.web import application, uploads
from memberbound.faces.web.processes import RefusedError
from memberbound.faces.web.uploads import Upload, Uploads, display_name, ending_of
from web.conftest import SMALL, in_a_loop, open_client, run_verb, upload

CSV = b"sex,age,code\nf,30,007\nm,40,1\nf,30,2\n,50,3\n"


def left_behind(client):
    state = client.app.state.server
    return sorted(path.name for path in (state.folder / "files").iterdir())


def test_an_upload_is_private_and_forgotten_on_request(client, people):
    before = left_behind(client)
    found = upload(client, people, "C:\\data\\../people.csv")
    assert found["name"] == "people.csv"
    assert (found["rows"], found["bytes"]) == (2000, len(people))
    assert client.get(f"/api/files/{found['file']}").json() == found
    state = client.app.state.server
    for path in (state.folder, *state.folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    # The stored name is ours.
    assert not list(state.folder.rglob("people*"))
    assert client.delete(f"/api/files/{found['file']}").status_code == 204
    assert client.get(f"/api/files/{found['file']}").status_code == 404
    assert client.delete(f"/api/files/{found['file']}").status_code == 404
    assert left_behind(client) == before


def endless():
    for _ in range(1000):
        yield b"a\n" * 500


REFUSED = {
    "wrong content": ("a.parquet", CSV, 422, "Parquet"),
    "ragged": ("mine.csv", b"a,b\n1,2,3\nsecret,1\n", 422, "mine.csv"),
    "empty": ("a.csv", b"", 422, "empty"),
    "large": ("a.csv", endless(), 413, "at most 293 KiB"),
    "no table": ("people.exe", CSV, 422, ".parquet"),
    "a pickle": ("a.pkl", CSV, 422, ".parquet"),
    "old Excel": ("a.xls", CSV, 422, "Save it as .xlsx"),
    "no name": ("/", CSV, 422, ".parquet"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_refused_uploads_leave_nothing(client, why):
    name, content, status, words = REFUSED[why]
    before = left_behind(client)
    answer = client.post("/api/files", params={"name": name}, content=content)
    assert answer.status_code == status
    assert words in answer.json()["error"]
    assert "secret" not in answer.text
    assert str(client.app.state.server.folder) not in answer.text
    assert left_behind(client) == before


def test_a_job_reads_its_files_in_their_encoding(client):
    content = ("größe\n" + "Öl\nFels\n" * 40).encode("latin-1")
    params = {"name": "a.csv", "encoding": "no such"}
    assert client.post("/api/files", params=params, content=content).status_code == 422
    params["encoding"] = "latin-1"
    file = client.post("/api/files", params=params, content=content).json()
    assert (file["columns"][0]["name"], file["encoding"]) == ("größe", "latin-1")
    job = run_verb(client, "certify", file["file"])
    assert job["result"]["atoms"] == 2
    assert "--encoding latin-1" in job["command"]
    other = upload(client, CSV, "b.csv")["file"]
    request = {"verb": "certify", "file": file["file"], "options": {"reference": other}}
    mixed = client.post("/api/jobs", json=request)
    assert (mixed.status_code, "one encoding" in mixed.json()["error"]) == (422, True)


def test_the_oldest_uploads_are_forgotten_beyond_the_limit(monkeypatch):
    async def trusted(self, *about):
        return {"rows": 4, "columns": []}

    monkeypatch.setattr(Uploads, "_inspect", trusted)
    with open_client(replace(SMALL, kept_files=2)) as client:
        ids = [upload(client, CSV, f"{i}.csv")["file"] for i in range(3)]
        assert [client.get(f"/api/files/{i}").status_code for i in ids] == [404, 200, 200]
        assert left_behind(client) == sorted(ids[1:])


async def send():
    yield CSV


@pytest.mark.parametrize("waiting", [False, True], ids=["running", "waiting"])
def test_an_inspection_ends_when_its_client_disconnects(tmp_path, monkeypatch, waiting):
    """It frees its slot and its files; the next waiting client is served."""
    started, ended = [], []

    async def slow(request, limits, seconds):
        started.append(seconds)
        if len(started) > 1:
            return {"rows": 4, "columns": []}
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(request["verb"])

    async def live():
        kept = Uploads(tmp_path / "files", replace(SMALL, inspections=1, inspection_seconds=7))
        gone, present = asyncio.Event(), asyncio.Event()
        first = asyncio.create_task(kept.add("a.csv", send(), gone.wait))
        while not started:
            await asyncio.sleep(0.01)
        second = asyncio.create_task(kept.add("b.csv", send(), present.wait))
        while len(list((tmp_path / "files").iterdir())) < 2:
            await asyncio.sleep(0.01)
        (present if waiting else gone).set()
        left, stays = (second, first) if waiting else (first, second)
        with pytest.raises(RefusedError, match="abandoned"):
            await left
        assert ended == ([] if waiting else ["inspect"])
        if not waiting:
            assert (await stays).rows == 4
        assert len(list((tmp_path / "files").iterdir())) == 1
        stays.cancel()
        await asyncio.gather(stays, return_exceptions=True)
        assert started == [7] * (1 if waiting else 2)

    monkeypatch.setattr(uploads, "perform", slow)
    in_a_loop(asyncio.wait_for(live(), 60))


def test_questions_are_answered_however_many_inspections_are_stuck(monkeypatch):
    async def stuck(*about):
        await asyncio.Event().wait()

    async def answered(*about):
        return {"answer": 1}

    async def live():
        state = application.Server(SMALL)
        adding = [
            asyncio.create_task(state.uploads.add("a.csv", send(), asyncio.Event().wait))
            for _ in range(SMALL.inspections + SMALL.questions)
        ]
        try:
            while not state.uploads._turn.locked():
                await asyncio.sleep(0.01)
            request = Request({"type": "http"}, receive=stuck)
            return await asyncio.wait_for(state.ask(request, "explain", {}), 60)
        finally:
            for task in adding:
                task.cancel()
            await asyncio.gather(*adding, return_exceptions=True)
            await state.close()

    monkeypatch.setattr(uploads, "perform", stuck)
    monkeypatch.setattr(application, "perform", answered)
    assert in_a_loop(live()) == {"answer": 1}


def test_a_question_ends_when_its_client_disconnects(monkeypatch):
    ended = []

    async def stuck(*about):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(about)

    async def disconnect():
        return {"type": "http.disconnect"}

    async def live():
        state = application.Server(SMALL)
        try:
            request = Request({"type": "http"}, receive=disconnect)
            with pytest.raises(RefusedError, match="abandoned"):
                await state.ask(request, "explain", {})
            assert not state._turn.locked()
        finally:
            await state.close()

    monkeypatch.setattr(application, "perform", stuck)
    in_a_loop(asyncio.wait_for(live(), 60))
    assert len(ended) <= 1


@pytest.mark.parametrize(
    ("name", "shown", "plain"),
    [
        ("my people (2).CSV.GZ", "my people (2).CSV.GZ", "my-people-2.csv.gz"),
        ("../../x.csv", "x.csv", "x.csv"),
        ("a/b\\c\x00\x1b[31m.csv", "c[31m.csv", "c-31m.csv"),
        ("ä.csv", "ä.csv", "table.csv"),
        ("-rf.csv", "-rf.csv", "rf.csv"),
        ("a" * 300 + ".csv", "a" * 196 + ".csv", "a" * 60 + ".csv"),
    ],
)
def test_names_are_plain(tmp_path, name, shown, plain):
    assert display_name(name) == shown
    path = tmp_path / f"table{ending_of(shown)}"
    assert Upload("id", shown, path, 1, 1, []).plain_name == plain
