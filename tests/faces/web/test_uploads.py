"""Uploads: what is taken, what is refused, and that nothing refused is left on disk."""

import stat
from dataclasses import replace

import pyarrow as pa
import pytest
from pyarrow import parquet

from memberbound.errors import InputError
from memberbound.faces.web.child import inspected
from memberbound.faces.web.uploads import Upload, Uploads, ending_of, shown_name
from web.conftest import SMALL, opened, performed, uploaded

CSV = b"sex,age,code\nf,30,007\nm,40,1\nf,30,2\n,50,3\n"


def test_a_table_is_its_rows_and_what_its_columns_hold(tmp_path):
    """Which files are read, and which are refused, is tested with the reader (tests/tables)."""
    (tmp_path / "people.csv").write_bytes(CSV)
    names = {c["name"]: c["role"] for c in inspected(tmp_path / "people.csv")["columns"]}
    assert names == {"sex": "category", "age": "number", "code": "category"}
    odd = pa.table([[[1], [2]], pa.nulls(2)], names=['x"; DROP TABLE y; --', "nothing"])
    parquet.write_table(odd, tmp_path / "odd.parquet")
    found = inspected(tmp_path / "odd.parquet")
    assert (found["rows"], [c["name"] for c in found["columns"]]) == (2, odd.column_names)
    (tmp_path / "latin.csv").write_bytes("größe\n1\n".encode("latin-1"))
    assert inspected(tmp_path / "latin.csv", "latin-1")["columns"][0]["name"] == "größe"
    with pytest.raises(InputError, match="encoding"):
        inspected(tmp_path / "latin.csv")


def left_behind(client):
    state = client.app.state.server
    return sorted(path.name for path in (state.folder / "files").iterdir())


def test_an_upload_is_private_and_forgotten_on_request(client, people):
    before = left_behind(client)
    found = uploaded(client, people, "C:\\data\\../people.csv")
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
    job = performed(client, "certify", file["file"])
    assert job["result"]["atoms"] == 2
    assert "--encoding latin-1" in job["command"]
    other = uploaded(client, CSV, "b.csv")["file"]
    request = {"verb": "certify", "file": file["file"], "options": {"reference": other}}
    mixed = client.post("/api/jobs", json=request)
    assert (mixed.status_code, "one encoding" in mixed.json()["error"]) == (422, True)


def test_the_oldest_uploads_are_forgotten_beyond_the_limit(monkeypatch):
    async def trusted(self, *about):
        return {"rows": 4, "columns": []}

    monkeypatch.setattr(Uploads, "_inspected", trusted)
    with opened(replace(SMALL, kept_files=2)) as client:
        ids = [uploaded(client, CSV, f"{i}.csv")["file"] for i in range(3)]
        assert [client.get(f"/api/files/{i}").status_code for i in ids] == [404, 200, 200]
        assert left_behind(client) == sorted(ids[1:])


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
    assert shown_name(name) == shown
    path = tmp_path / f"table{ending_of(shown)}"
    assert Upload("id", shown, path, 1, 1, []).plain_name == plain
