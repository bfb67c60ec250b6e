"""Tables that are read in parts: the same numbers, bit by bit, and sections of CSV files.

Truth: the same release with all columns in memory; every way to cut a file in two.
"""

import errno
import io
import os

import duckdb
import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset, feather
from tests.oracle.files import stored
from tests.oracle.training import mapped_file

from memberbound import protect, summarize, synthesize
from memberbound.errors import InputError, MemberboundError
from memberbound.scratch import large_array
from memberbound.tables import csv_files, csv_records, records
from memberbound.tables import table as tables
from memberbound.tables.columns import read_column
from memberbound.tables.engine import size_in_bytes
from memberbound.tables.values import Values

#: More rows than one part, the smallest batch of the engine.
ROWS, PART = 5000, 2048
BOUNDS = {"age": [0, 90], "ill": ["no", "yes"], "ward": ["a", "b", "c"]}


def people():
    draws = np.random.default_rng(0)
    age = draws.integers(0, 90, ROWS)
    return pd.DataFrame(
        {
            "who": np.where(draws.random(ROWS) < 0.01, None, draws.integers(0, 900, ROWS)),
            "age": np.where(draws.random(ROWS) < 0.1, None, age),
            "weight": draws.normal(70, 9, ROWS).round(1),
            "ward": draws.choice(["a", "b", "c", "d"], ROWS),
            "ill": np.where(draws.random(ROWS) < age / 90, "yes", "no"),
        }
    )


def in_folder(table, folder):
    """Three files, the last two in folders that give a column."""
    parts = folder / "parts"
    for number, name in enumerate(["1.parquet", "2/part.parquet", "3/part.parquet"]):
        path = parts / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.slice(number * 1500, 1500 if number < 2 else None), path)
    return parts


def in_database(table, folder):
    return stored(table, folder / "t.duckdb")


def in_arrow(table, folder):
    feather.write_feather(table, folder / "t.feather", chunksize=700)
    return folder / "t.feather"


def in_parquet(table, folder):
    pq.write_table(table, folder / "t.parquet", row_group_size=700)
    return folder / "t.parquet"


def in_csv(table, folder):
    return stored(table, folder / "t.csv")


STORED = {
    "parquet": in_parquet,
    "csv": in_csv,
    "folder": in_folder,
    "arrow": in_arrow,
    "duckdb": in_database,
    "data set": lambda table, folder: dataset.dataset(in_folder(table, folder)),
    "relation": lambda table, _: duckdb.from_arrow(table),
    "ibis": lambda table, folder: ibis.duckdb.connect(in_database(table, folder)).table("t"),
}


@pytest.fixture
def small_parts(monkeypatch):
    """Files that are read in several parts where the limit is small."""
    monkeypatch.setattr(tables, "_BATCH_ROWS", PART)
    monkeypatch.setattr(csv_files, "_LARGEST_BLOCK", 2**12)
    monkeypatch.setattr(csv_records, "SECTION", 2**11)


VERBS = {
    "logistic": lambda path, **how: protect(
        path, target="ill", eta=0.4, bounds=BOUNDS, insecure_seed=1, **how
    ).released.model.to_dict(),
    "boosting": lambda path, **how: protect(
        path, target="ill", learner="boosting", eta=0.4, bounds=BOUNDS, insecure_seed=1, **how
    ).released.model.to_dict(),
    "covariance": lambda path, **how: (
        summarize(
            path,
            statistic="covariance",
            columns=["age", "weight"],
            bounds={"age": [0, 90], "weight": [0, 150]},
            eta=0.4,
            insecure_seed=1,
            **how,
        ).values
    ),
    "contingency": lambda path, **how: (
        summarize(
            path,
            statistic="contingency",
            columns=["ward", "ill"],
            bounds=BOUNDS,
            eta=0.4,
            insecure_seed=1,
            **how,
        ).values
    ),
    "synthetic table": lambda path, **how: (
        synthesize(path, target="ill", eta=0.4, bounds=BOUNDS, insecure_seed=1, **how)
        .table.astype(str)
        .to_dict()
    ),
}


def long(*case):
    return pytest.param(*case, marks=pytest.mark.long)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(
    ("form", "verb", "unit"),
    [
        ("parquet", "logistic", None),
        ("csv", "logistic", "who"),
        *((form, "contingency", None) for form in STORED if form != "csv"),
        ("folder", "covariance", "who"),
        *(long("parquet", verb, unit) for verb in VERBS for unit in (None, "who")),
        *(long(form, "logistic", "who") for form in STORED),
    ],
)
def test_a_table_that_is_read_in_parts_gives_the_same_numbers(
    monkeypatch, tmp_path, form, verb, unit
):
    parts = []
    honest = records.StoredRecords.read_shards

    def count_calls(self):
        for part in honest(self):
            parts.append(part)
            yield part

    monkeypatch.setattr(records.StoredRecords, "read_shards", count_calls)
    how = {} if unit is None else {"unit": unit}
    stored = STORED[form](pa.Table.from_pandas(people()), tmp_path)
    whole = VERBS[verb](stored, **how)
    assert not parts
    assert VERBS[verb](stored, memory="2KB", **how) == whole
    assert len(parts) > 2


@pytest.mark.usefixtures("small_parts")
def test_a_person_cut_in_two_is_caught(monkeypatch, tmp_path):
    """Broken twin: parts may split a person, who then counts in both."""
    path = in_parquet(pa.Table.from_pandas(people()), tmp_path)
    whole = VERBS["covariance"](path, unit="who")

    def cut(batches, person):
        for batch in batches:
            yield from honest([batch], person)

    honest = records._with_whole_persons
    monkeypatch.setattr(records, "_with_whole_persons", cut)
    with pytest.raises((AssertionError, ValueError)):
        assert VERBS["covariance"](path, unit="who", memory="2KB") == whole


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("unit", [None, "who"])
def test_some_records_of_a_stored_table(tmp_path, unit):
    path = in_parquet(pa.Table.from_pandas(people()), tmp_path)
    whole, stored = (
        records.read_secret_columns(path, {}, unit=unit, memory=memory) for memory in (None, "2KB")
    )
    assert len(whole) == len(stored)
    indices = np.random.default_rng(0).permutation(len(whole))[:300]
    assert "age" in stored.columns
    some, same = whole.take(indices), stored.take(indices)
    if unit is not None:
        assert some.persons.starts.tolist() == same.persons.starts.tolist()
    for name in some.columns:
        a, b = some.columns[name], same.columns[name]
        np.testing.assert_array_equal(a.numbers, b.numbers)
        assert [a.label(k) for k in range(len(a))] == [b.label(k) for k in range(len(b))]


def test_more_new_rows_than_fit_are_refused_before_anything_is_counted(tmp_path):
    table = in_parquet(pa.Table.from_pandas(people()), tmp_path)
    with pytest.raises(InputError, match="rows must be at most 1118481, or memory larger"):
        synthesize(table, rows=10**7, memory="250MB", ledger=tmp_path / "ledger.json")
    assert not (tmp_path / "ledger.json").exists()


def test_arrays_beyond_the_limit_are_files_without_a_name(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    arrays = [large_array((3, 101), np.dtype(kind), 100) for kind in (np.int16, np.float64, bool)]
    assert list(tmp_path.iterdir()) == []
    for number, array in enumerate(arrays):
        array[:] = number
    assert [float(array.mean()) for array in arrays] == [0, 1, 1]
    shared = {id(mapped_file(array)) for array in arrays}
    assert len(shared) == 1
    assert mapped_file(large_array((3, 100), np.dtype(np.int16), 600)) is None
    # A part larger than the rest of the file goes into another one.
    other = large_array((2**26,), np.dtype(np.int8), 100)
    assert id(mapped_file(other)) not in shared


def test_a_full_disk_is_reported_before_writing(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(MemberboundError, match="could not be written: No space"):
        large_array((3, 100), np.dtype(np.int16), 100)


@pytest.mark.parametrize("memory", ["", "2", "-1GB", "0MB", "much", "2 GB of RAM"])
def test_an_invalid_size_is_refused(memory):
    with pytest.raises(InputError, match="such as '2GB'"):
        size_in_bytes(memory)


def test_sizes():
    assert [size_in_bytes(s) for s in ("2GB", "1.5 kib", "3mb")] == [2 * 10**9, 1536, 3 * 10**6]


# ── Sections of CSV files ─────────────────────────────────────────────────────────────────────────

RECORDS = [
    b"1,plain\n",
    b'2,"two\nlines"\n',
    b'3,"a ""quoted"" word"\n',
    b'"4","\r\n\n"\r\n',
    b'5,"""\n""",\n',
    b'6,""\n',
    b'7,"x,y\n",z\n',
]


@pytest.mark.parametrize("size", range(1, 40))
def test_sections_end_where_records_end_wherever_the_file_is_cut(monkeypatch, size):
    monkeypatch.setattr(csv_records, "SECTION", size)
    whole = b"".join(RECORDS * 2)
    sections = [*csv_records.sections(io.BytesIO(whole), b",")]
    assert b"".join(sections) == whole
    ends = np.cumsum([0, *map(len, RECORDS * 2)]).tolist()
    assert set(np.cumsum([len(s) for s in sections]).tolist()) <= set(ends)
    if size < 8:
        assert len(sections) > 5


def test_a_cut_at_every_line_is_caught(monkeypatch):
    """Broken twin: quotes are ignored, so that every line ends a record."""
    monkeypatch.setattr(csv_records, "SECTION", 1)
    whole = b"".join(record.replace(b'"', b"'") for record in RECORDS)
    sections = [*csv_records.sections(io.BytesIO(whole), b",")]
    ends = np.cumsum([0, *map(len, RECORDS)]).tolist()
    assert not set(np.cumsum([len(s) for s in sections]).tolist()) <= set(ends)


@pytest.mark.parametrize("field", [b"x", b'"x\n"'])
def test_lines_that_end_with_a_carriage_return_alone(monkeypatch, tmp_path, field):
    monkeypatch.setattr(csv_files, "_LARGEST_BLOCK", 4)
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\r1," + field + b"\r2,y\r")
    assert records.read_records(path).columns["a"].numbers.tolist() == [1, 2]


def test_from_a_stray_quote_on_the_rest_is_one_section(monkeypatch):
    monkeypatch.setattr(csv_records, "SECTION", 16)
    rows = b"1,a\n" * 8 + b'2,5" pipe\n' + b"3,b\n" * 20
    sections = [*csv_records.sections(io.BytesIO(rows), b",")]
    assert b"".join(sections) == rows
    assert sections[-1].endswith(b"3,b\n" * 20)
    assert b'5" pipe' in sections[-1]


FIELDS = [b"1", b"z" * 9000, b'"' + b"\n1,x" * 3000 + b'"', b'""""', b'"1,2"', b'"\r\n\n\r"', b"\0"]


@pytest.mark.parametrize("field", FIELDS, ids=range(len(FIELDS)))
@pytest.mark.parametrize("before", [3, 120, 240])
def test_one_field_decides_about_its_own_row_wherever_blocks_meet(
    tmp_path, monkeypatch, field, before
):
    monkeypatch.setattr(csv_files, "_LARGEST_BLOCK", 2**10)
    monkeypatch.setattr(csv_records, "SECTION", 2**11)
    row = b"12345,abcdefghij\n"
    read = []
    for value in (b"1", field):
        path = tmp_path / "t.csv"
        path.write_bytes(b"a,b\n" + row * before + value + b",x\n" + row * 200)
        read.append(records.read_records(path))
    first, second = read
    assert first.rows == second.rows == before + 201
    rest = np.delete(np.arange(first.rows), before)
    for name in "ab":
        one, other = (records.columns[name].take(rest) for records in read)
        assert one.factorize()[1] == other.factorize()[1]
        np.testing.assert_array_equal(one.numbers, other.numbers)


# ── Parts of a column ─────────────────────────────────────────────────────────────────────────────

COLUMNS = {
    "numbers": pa.array([1.5, 2.0, None, 4.0] * 5),
    "texts": pa.array(["1", "2", "x", None, "1.0", "true", "2020-01-01"] * 3),
    "numbers, then texts": pa.array(["1", "2", "3", "4", "5", "1", "1.0", "x", "5", "7"]),
    "dates": pa.array([1, 2, None, 10**5], pa.int32()).cast(pa.date32()),
    "truths": pa.array([True, None, False, True]),
    "wholes": pa.array([2**60, 2**60 + 1, None, 5]),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_parts_of_a_column_are_the_column(name, size):
    column = COLUMNS[name]
    whole = read_column(column)
    parts = [read_column(column[a : a + size]) for a in range(0, len(column), size)]
    joined = Values.concat(parts)
    np.testing.assert_array_equal(joined.numbers, whole.numbers)
    assert joined.factorize()[1] == whole.factorize()[1]
    np.testing.assert_array_equal(joined.factorize()[0], whole.factorize()[0])
    assert [joined.label(k) for k in range(len(whole))] == [
        whole.label(k) for k in range(len(whole))
    ]
