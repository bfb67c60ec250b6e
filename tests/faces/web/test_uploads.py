"""Uploads: what is taken, what is refused, and that nothing refused is left on disk."""

import asyncio
import gzip
import io
import json
import stat
import struct
import tempfile
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from memberbound.errors import InputError
from memberbound.faces.web.processes import Processes, RefusedError
from memberbound.faces.web.uploads import Upload, Uploads, ending_of, inspected, shown_name
from web.conftest import SMALL, in_a_loop, opened, performed, uploaded

TABLE = pa.table(
    {"sex": ["f", "m", "f", None], "age": [30, 40, 30, 50], "code": ["007", "1", "2", "3"]}
)


def parquet(table=TABLE, **options):
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def arrow(table=TABLE, stream=False):
    out = io.BytesIO()
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def packed_feather():
    out = io.BytesIO()
    feather.write_feather(TABLE, out, compression="zstd")
    return out.getvalue()


def skops(part=b"{}"):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("schema.json", part)
    return out.getvalue()


def workbook():
    openpyxl = pytest.importorskip("openpyxl")
    book, out = openpyxl.Workbook(), io.BytesIO()
    for row in [TABLE.column_names, *(list(row.values()) for row in TABLE.to_pylist())]:
        book.active.append(row)
    book.save(out)
    return out.getvalue()


def statistics(ending):
    pyreadstat = pytest.importorskip("pyreadstat")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"t.{ending}"
        getattr(pyreadstat, "write_xport" if ending == "xpt" else f"write_{ending}")(
            TABLE.to_pandas().fillna(""), path
        )
        return path.read_bytes()


CSV = b"sex,age,code\nf,30,007\nm,40,1\nf,30,2\n,50,3\n"
GOOD = {
    "people.csv": CSV,
    "PEOPLE.CSV": CSV,
    "bom and semicolons.csv": b"\xef\xbb\xbf" + CSV.replace(b",", b";"),
    "people.csv.gz": gzip.compress(CSV),
    "two parts.csv.gz": gzip.compress(CSV[:20]) + gzip.compress(CSV[20:]),
    "people.parquet": parquet(),
    "people.arrow": arrow(),
    "stream.arrow": arrow(stream=True),
    "people.feather": packed_feather(),
    "people.tsv": CSV.replace(b",", b"\t"),
    "people.xlsx": workbook,
    "people.jsonl": "\n".join(map(json.dumps, TABLE.to_pylist())).encode(),
    **{f"people.{ending}": partial(statistics, ending) for ending in ("dta", "sav", "xpt")},
}


@pytest.fixture(scope="module")
def inspect(tmp_path_factory):
    """Look at a file as the child process does, with the small limits."""
    folder = tmp_path_factory.mktemp("inspected")

    def look(name, content, **limits):
        path = folder / name
        path.write_bytes(content)
        most = {"rows": 1000, "columns": 20, "unpacked": 1_000_000} | limits
        return inspected(path, **most)

    return look


@pytest.mark.parametrize("name", GOOD)
def test_tables_of_every_form_are_read_alike(inspect, name):
    content = GOOD[name]
    table = inspect(name, content() if callable(content) else content)
    assert table["rows"] == 4
    assert [c["name"] for c in table["columns"]] == ["sex", "age", "code"]
    assert [c["numeric"] for c in table["columns"]] == [False, True, False]
    # Stata, SPSS and SAS have no missing texts.
    texts = 3 if name.endswith(("dta", "sav", "xpt")) else 2
    assert [c["distinct"] for c in table["columns"]] == [texts, 3, 4]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_an_encoding_is_declared(inspect, encoding):
    content = "größe,straße\n1,Öl\n".encode(encoding)
    columns = inspect("declared.csv", content, encoding=encoding)["columns"]
    assert [c["name"] for c in columns] == ["größe", "straße"]
    with pytest.raises(InputError, match=r"at most 20 columns, got 21"):
        inspect("wide.csv", ("," * 20 + "\n").encode(encoding), encoding=encoding)


def test_unusual_columns_are_described(inspect):
    table = pa.table(
        [[1, 2], [[1], [2]], pa.nulls(2), pa.array([1, 2], pa.time64("ns")), [True, False]],
        names=['x"; DROP TABLE y; --', "list", "nothing", "time", "yes"],
    )
    found = inspect("unusual.parquet", parquet(table))["columns"]
    assert [c["name"] for c in found] == table.column_names
    # Times of day in nanoseconds are read as whole numbers of them (tables/exact.py).
    assert [c["type"] for c in found] == ["int64", "array<int64>", "other", "int64", "boolean"]
    assert [c["numeric"] for c in found] == [True, False, False, True, True]
    assert [c["distinct"] for c in found] == [2, 2, 0, 2, 2]


BAD = {
    "empty.csv": (b"", "empty"),
    "empty.csv.gz": (gzip.compress(b""), "empty"),
    "parquet.csv": (parquet(), "CSV"),
    "gzip.csv": (gzip.compress(CSV), "CSV"),
    "zip.csv": (b"PK\x03\x04rest", "CSV"),
    "nul.csv": (b"a,b\n1,\x00\n", "CSV"),
    "utf16.csv": ("a,b\n1,2\n".encode("utf-16"), "CSV"),
    "latin1.csv": ("straße\n1\n".encode("latin-1"), "UTF-8"),
    "twins.csv": (b"a,A\n1,2\n", "different names"),
    "ragged.csv": (b"a,b\n1,2\n1,2,3\n", "could not be read"),
    "text.csv.gz": (CSV, "gzip"),
    "parquet inside.csv.gz": (gzip.compress(parquet()), "CSV"),
    "cut.csv.gz": (gzip.compress(CSV * 100)[:-30], "ends early"),
    "cut late.csv.gz": (gzip.compress(CSV) + gzip.compress(CSV)[:30], "ends early"),
    "tail.csv.gz": (gzip.compress(CSV) + b"x" * 50, "gzip"),
    "text.parquet": (CSV, "Parquet"),
    "head.parquet": (b"PAR1" + CSV, "Parquet"),
    "cut.parquet": (parquet()[:-20], "Parquet"),
    "lying.parquet": (parquet()[:-8] + struct.pack("<I", 2**31 - 1) + b"PAR1", "Parquet"),
    "text.arrow": (CSV, "Arrow"),
    "head.feather": (b"ARROW1" + CSV, "Arrow"),
    "cut.arrow": (arrow()[:-50], "Arrow"),
    "old.feather": (b"FEA1" + CSV, "Arrow"),
    "text.skops": (CSV, "skops"),
    "cut.skops": (skops()[:-10], "skops"),
    "bomb.skops": (skops(b"0" * 3_000_000), "unpack to at most"),
    "bomb.xlsx": (skops(b"0" * 3_000_000), "unpack to at most"),
    "text.xlsx": (CSV, "xlsx"),
    "other.xlsx": (skops(), "damaged"),
    "text.jsonl": (CSV, "JSON object per line"),
    "text.dta": (CSV, "could not be read"),
    "long.sav": (b"0" * 3_000_000, "unpack to at most"),
    "long.onnx": (b"0" * 3_000_000, "unpack to at most"),
}


def test_models_have_no_rows(inspect):
    assert inspect("model.skops", skops()) == {"rows": None, "columns": []}
    assert inspect("model.onnx", b"\x08\x01") == {"rows": None, "columns": []}


@pytest.mark.parametrize("name", BAD)
def test_contents_that_do_not_match_are_refused(inspect, name):
    content, words = BAD[name]
    with pytest.raises(InputError, match=words):
        inspect(name, content)


def test_a_gzip_bomb_is_stopped_while_it_unpacks(inspect):
    bomb = gzip.compress(b"a,b\n" + b"1,2\n" * 500_000)
    assert len(bomb) < 30_000
    with pytest.raises(InputError, match="at most 977 KiB"):
        inspect("bomb.csv.gz", bomb)
    assert inspect("bomb.csv.gz", bomb, unpacked=10**7, rows=10**7)["rows"] == 500_000


def test_a_gzip_bomb_in_many_parts_is_stopped(inspect):
    with pytest.raises(InputError, match="unpack"):
        inspect("parts.csv.gz", gzip.compress(b"a\n" + b"1\n" * 50_000) * 20)


def test_a_parquet_bomb_is_known_by_its_metadata(inspect):
    # A constant column takes a few bytes a row group and as much memory as one likes.
    wide = pa.table({"x": ["y" * 10_000] * 900})
    bomb = parquet(wide, compression="zstd", use_dictionary=False)
    assert len(bomb) < 100_000
    with pytest.raises(InputError, match="unpack"):
        inspect("bomb.parquet", bomb)
    many = parquet(pa.table({"x": np.zeros(100_000, dtype=np.int8)}))
    with pytest.raises(InputError, match="at most 1000 rows, got 100000"):
        inspect("rows.parquet", many)


def test_an_arrow_bomb_is_counted_by_batches(inspect):
    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    batch = pa.record_batch({"x": np.zeros(100, dtype=np.int64)})
    with pa.ipc.new_file(out, batch.schema, options=options) as writer:
        for _ in range(50):
            writer.write_batch(batch)
    with pytest.raises(InputError, match="rows"):
        inspect("rows.arrow", out.getvalue())
    with pytest.raises(InputError, match="unpack"):
        inspect("bytes.arrow", out.getvalue(), rows=10**6, unpacked=10_000)
    assert inspect("fine.arrow", out.getvalue(), rows=10**6)["rows"] == 5000


def test_rows_and_columns_are_limited_with_a_sentence(inspect):
    with pytest.raises(InputError, match="at most 1000 rows, got 1001"):
        inspect("rows.csv", b"a\n" + b"1\n" * 1001)
    header = ",".join(f"c{i}" for i in range(21)).encode()
    for name, content in (
        ("columns.csv", header + b"\n"),
        ("columns.csv.gz", gzip.compress(header.replace(b",", b";") + b"\n1;2\n")),
        ("columns.parquet", parquet(pa.table({f"c{i}": [1] for i in range(21)}))),
        ("columns.arrow", arrow(pa.table({f"c{i}": [1] for i in range(21)}))),
    ):
        with pytest.raises(InputError, match="at most 20 columns, got 21"):
            inspect(name, content)
    quoted = '"' + "," * 30 + '",b\n1,2\n'
    assert len(inspect("quoted.csv", quoted.encode())["columns"]) == 2


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_columns_are_counted_before_the_engine_sees_them(inspect, monkeypatch, pack):
    """It takes minutes over a million of them."""

    def engine(*given):
        raise AssertionError("the engine was asked")

    monkeypatch.setattr("memberbound.tables.table.open_table", engine)
    name = "many.csv" if pack is bytes else "many.csv.gz"
    for mark in b",;\t|":
        with pytest.raises(InputError, match="at most 20 columns, got 900001"):
            inspect(name, pack(bytes([mark]) * 900_000 + b"\n"))
    hidden = b'"' + b"a" * 2**20 + b'"' + b"," * 2**20
    with pytest.raises(InputError, match="first line must be shorter than 1 MiB"):
        inspect(name, pack(hidden), unpacked=10**7)


def test_a_table_in_many_gzip_parts_is_looked_at_as_a_whole(inspect):
    for rest, complaint in (
        (b"," * 20 + b"\n", "at most 20 columns, got 21"),
        (b"\n\0", "CSV text"),
    ):
        with pytest.raises(InputError, match=complaint):
            inspect("parts.csv.gz", gzip.compress(b"a") + gzip.compress(rest))


# ---- over HTTP ----------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    "name",
    ["people.exe", "people", "people.csv.exe", "a.npy", "a.sqlite", "a.pkl", "a.xls", "/"],
)
def test_other_endings_are_refused_before_anything_is_read(client, name):
    before = left_behind(client)
    answer = client.post("/api/files", params={"name": name}, content=CSV)
    assert answer.status_code == 422
    assert ".parquet" in answer.json()["error"]
    assert ("Save it as .xlsx" in answer.json()["error"]) == (name == "a.xls")
    assert left_behind(client) == before


def test_a_job_reads_its_files_in_their_encoding(client):
    content = ("größe\n" + "Öl\nFels\n" * 40).encode("latin-1")
    refused = client.post("/api/files", params={"name": "a.csv"}, content=content)
    assert (refused.status_code, "encoding" in refused.json()["error"]) == (422, True)
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


def test_refused_uploads_leave_nothing(client):
    before = left_behind(client)
    wrong = client.post("/api/files", params={"name": "a.parquet"}, content=CSV)
    assert wrong.status_code == 422
    assert "Parquet" in wrong.json()["error"]
    ragged = client.post(
        "/api/files", params={"name": "mine.csv"}, content=b"a,b\n1,2,3\nsecret,1\n"
    )
    assert ragged.status_code == 422
    assert "mine.csv" in ragged.json()["error"]
    assert "secret" not in ragged.text
    assert str(client.app.state.server.folder) not in ragged.text
    empty = client.post("/api/files", params={"name": "a.csv"}, content=b"")
    assert empty.status_code == 422

    def endless():
        for _ in range(1000):
            yield b"a\n" * 500

    large = client.post("/api/files", params={"name": "a.csv"}, content=endless())
    assert large.status_code == 413
    assert "at most 293 KiB" in large.json()["error"]
    assert client.post("/api/files", content=CSV).status_code == 422
    assert left_behind(client) == before


def test_the_oldest_uploads_are_forgotten_beyond_the_limit(monkeypatch):
    async def trusted(self, *about):
        return {"rows": 4, "columns": []}

    monkeypatch.setattr(Uploads, "_inspected", trusted)
    with opened(replace(SMALL, kept_files=2)) as client:
        ids = [uploaded(client, CSV, f"{i}.csv")["file"] for i in range(3)]
        assert [client.get(f"/api/files/{i}").status_code for i in ids] == [404, 200, 200]
        assert left_behind(client) == sorted(ids[1:])


def test_an_upload_that_stops_is_given_up():
    async def stalled():
        yield b"a,b\n"
        await asyncio.sleep(60)

    async def upload(folder):
        uploads = Uploads(folder / "files", replace(SMALL, silence_seconds=0.05), Processes())
        with pytest.raises(RefusedError, match="stopped") as refusal:
            await uploads.add("a.csv", stalled())
        return refusal.value.status, list((folder / "files").iterdir())

    with tempfile.TemporaryDirectory() as folder:
        assert in_a_loop(upload(Path(folder))) == (408, [])


def test_shown_names_are_plain():
    assert shown_name("a/b\\c\x00\x1b[31m.csv") == "c[31m.csv"
    assert shown_name("../../etc/passwd") == "passwd"
    assert len(shown_name("x" * 500 + ".csv")) == 200


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("people.csv", "people.csv"),
        ("my people (2).CSV.GZ", "my-people-2.csv.gz"),
        ("../../x.csv", "x.csv"),
        ("*?[a].csv", "a.csv"),
        ("ä.csv", "table.csv"),
        (".csv", "table.csv"),
        ("-rf.csv", "rf.csv"),
        ("a" * 300 + ".csv", "a" * 60 + ".csv"),
    ],
)
def test_names_of_links_are_plain(tmp_path, name, plain):
    shown = shown_name(name)
    path = tmp_path / f"table{ending_of(shown)}"
    assert Upload("id", shown, path, 1, 1, []).plain_name == plain
