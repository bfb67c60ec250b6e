"""Inspection: the content of a table, and refusals of small files that unpack to too much."""

import gzip
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from memberbound.errors import InputError
from memberbound.faces.web.inspection import inspect

CSV = b"sex,age,code\nf,30,007\nm,40,1\nf,30,2\n,50,3\n"
MOST = 2**20


def inspect_file(path, *, encoding=None, most_columns=40):
    return inspect(path, encoding=encoding, most_bytes=MOST, most_columns=most_columns)


def test_inspection_reports_rows_and_roles(tmp_path):
    """Accepted and rejected files are tested with the reader (tests/tables)."""
    (tmp_path / "people.csv").write_bytes(CSV)
    names = {c["name"]: c["role"] for c in inspect_file(tmp_path / "people.csv")["columns"]}
    assert names == {"sex": "category", "age": "number", "code": "category"}
    odd = pa.table([[[1], [2]], pa.nulls(2)], names=['x"; DROP TABLE y; --', "nothing"])
    parquet.write_table(odd, tmp_path / "odd.parquet")
    found = inspect_file(tmp_path / "odd.parquet")
    assert (found["rows"], [c["name"] for c in found["columns"]]) == (2, odd.column_names)
    (tmp_path / "latin.csv").write_bytes("größe\n1\n".encode("latin-1"))
    assert inspect_file(tmp_path / "latin.csv", encoding="latin-1")["columns"][0]["name"] == "größe"
    assert inspect_file(tmp_path / "latin.csv")["columns"][0]["name"] == "größe"
    with pytest.raises(InputError, match="encoding"):
        inspect_file(tmp_path / "latin.csv", encoding="utf-8")


def gzip_file(path, size):
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * (size // 4 - 1)))


def sheet(path, size):
    """Write a workbook with ``size`` blanks beside the cells of its sheet."""
    from openpyxl import Workbook

    book = Workbook()
    book.active.append(["a", "b"])
    book.active.append([1, 2])
    book.save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    end = b"</sheetData>"
    name = "xl/worksheets/sheet1.xml"
    members[name] = members[name].replace(end, end + b" " * size)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(member, content)


def write_repeated(path, size):
    """Write a Parquet file with one column of about ``size`` bytes."""
    values = pa.array(["x" * 1020] * (size // 1024))
    parquet.write_table(pa.table({"a": values}), path, compression="zstd", use_dictionary=False)


@pytest.mark.parametrize(
    ("name", "write"),
    [("a.csv.gz", gzip_file), ("a.parquet", write_repeated), ("a.xlsx", sheet)],
    ids=["gzip", "parquet", "xlsx"],
)
def test_a_small_file_that_unpacks_to_more_than_the_limit_is_refused(tmp_path, name, write):
    path = tmp_path / name
    write(path, MOST // 2)
    assert inspect_file(path)["rows"] > 0
    write(path, 3 * MOST)
    assert path.stat().st_size < MOST // 20
    with pytest.raises(InputError, match="at most 1 MiB unpacked"):
        inspect_file(path)


def test_the_unpacked_size_is_counted_to_the_byte(tmp_path):
    """In as many members as there are, and whatever the trailer declares."""
    path = tmp_path / "a.csv.gz"
    gzip_file(path, MOST)
    assert inspect_file(path)["rows"] == MOST // 4 - 1
    path.write_bytes(path.read_bytes() + gzip.compress(b"1"))
    with pytest.raises(InputError, match="unpacked"):
        inspect_file(path)


def wide(path, count):
    names = [f"c{i}" for i in range(count)]
    text = ",".join(names) + "\n" + ",".join("1" * count) + "\n"
    if path.suffix == ".parquet":
        parquet.write_table(pa.table({n: [1] for n in names}), path)
    elif path.suffix == ".arrow":
        feather.write_feather(pa.table({n: [1] for n in names}), str(path))
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    elif "quoted" in path.name:  # its first name holds the end of a line
        path.write_text(text.replace("c0", '"c\n0"', 1))
    else:
        path.write_text(text, encoding="utf-16" if "utf16" in path.name else "utf-8")


FILES = ["a.csv", "quoted.csv", "utf16.csv", "a.csv.gz", "a.parquet", "a.arrow"]


@pytest.mark.parametrize("name", FILES)
def test_a_table_of_more_columns_than_the_limit_is_refused(tmp_path, name, monkeypatch):
    path = tmp_path / name
    encoding = "utf-16" if "utf16" in name else None
    wide(path, 5)
    assert len(inspect_file(path, encoding=encoding, most_columns=5)["columns"]) == 5
    if name != "a.arrow":  # refused before the engine plans anything
        monkeypatch.setattr("memberbound.faces.web.inspection.open_table", None)
    wide(path, 6)
    with pytest.raises(InputError, match="at most 5 columns, got 6"):
        inspect_file(path, encoding=encoding, most_columns=5)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.parquet", "a.xlsx"])
def test_a_damaged_file_is_refused_by_the_reader(tmp_path, name):
    path = tmp_path / name
    {"a.csv.gz": gzip_file, "a.parquet": write_repeated, "a.xlsx": sheet}[name](path, 2**16)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=name):
        inspect_file(path)
    path.write_bytes(b"PAR1" + b"\xff" * 64 + b"PAR1")
    with pytest.raises(InputError, match=name):
        inspect_file(path)


def test_a_parquet_file_with_a_damaged_footer_is_read_or_refused(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"a": ["x", "y"] * 50, "n": range(100)}), path)
    sound = path.read_bytes()
    length = int.from_bytes(sound[-8:-4], "little")
    rng = np.random.default_rng(0)
    refusals = []
    for _ in range(40):
        damaged = bytearray(sound)
        for index in rng.integers(1, length, 2):
            damaged[-8 - index] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            inspect_file(path)
        except InputError as refusal:
            refusals.append(str(refusal))
    assert len(refusals) > 20
    assert all("a.parquet" in refusal for refusal in refusals)
