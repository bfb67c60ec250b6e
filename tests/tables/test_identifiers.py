"""Persons are told apart by the text of their identifier, through every storage and every verb."""

import datetime as dt
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.oracle.files import in_sqlite

from memberbound import certify, protect, summarize, synthesize
from memberbound.report.model import Question
from memberbound.tables import columns
from memberbound.tables.records import read_secret_columns
from memberbound.verbs.study.question import StudyData

#: Different texts: no two of them are one person.
TEXTS = ["120000", "12e4", "1.2e5", "+120000", "120000.0", "120.000", "120,000", "0120000", "12E4"]
TEXTS += ["2020-01-31", "31.01.2020", "2020/01/31", "true", "True", "TRUE", "nan", "NaN", "None"]
TEXTS += [
    "1e400",
    "1e500",
    "9" * 20,
    "9" * 19 + "8",
    "0.1",
    "0.10",
    ".1",
    "-0",
    "0",
    "é",
    "e\u0301",
]


def in_csv(ids, folder):
    path = folder / "t.csv"
    pd.DataFrame({"id": ids, "x": 1.0}).to_csv(path, index=False)
    return path


def in_parquet(ids, folder):
    pq.write_table(pa.table({"id": ids, "x": [1.0] * len(ids)}), folder / "t.parquet")
    return folder / "t.parquet"


def in_excel(ids, folder):
    pytest.importorskip("openpyxl")
    pd.DataFrame({"id": ids, "x": 1.0}).to_excel(folder / "t.xlsx", index=False)
    return folder / "t.xlsx"


def in_duckdb(ids, _):
    rows = pa.table({"id": ids, "x": [1.0] * len(ids)})
    connection = duckdb.connect()
    connection.register("given", rows)
    return connection.sql("SELECT * FROM given")


STORES = {
    "csv": in_csv,
    "parquet": in_parquet,
    "excel": in_excel,
    "relation": in_duckdb,
    "sqlite": lambda ids, folder: in_sqlite(
        [[i, 1.0] for i in ids], folder / "t.sqlite", {"id": "TEXT", "x": "REAL"}
    ),
    "objects": lambda ids, _: pd.DataFrame({"id": pd.Series(ids, dtype=object), "x": 1.0}),
    "strings": lambda ids, _: pd.DataFrame({"id": pd.Series(ids, dtype="string"), "x": 1.0}),
    "categories": lambda ids, _: pd.DataFrame({"id": pd.Categorical(ids), "x": 1.0}),
    "list": lambda ids, _: [[i, 1.0] for i in ids],
}


def persons(table, memory=None):
    unit = "x0" if isinstance(table, list) else "id"
    records = read_secret_columns(table, {}, unit=unit, memory=memory)
    return len(records), sorted(records.persons.sizes.tolist())


@pytest.mark.parametrize("memory", [None, "1KB"])
@pytest.mark.parametrize("store", STORES)
def test_two_texts_are_two_persons(tmp_path, store, memory):
    ids = [*TEXTS, *TEXTS, TEXTS[0]]
    table = STORES[store](ids, tmp_path)
    assert persons(table, memory) == (len(TEXTS), [2] * (len(TEXTS) - 1) + [3])


def test_identifiers_that_are_read_as_numbers_are_caught(monkeypatch, tmp_path):
    """Broken twin: an earlier fault."""
    honest = columns.read_value
    broken = lambda value, form="any": honest(value, "any" if form == "unit" else form)  # noqa: E731
    monkeypatch.setattr(columns, "read_value", broken)
    assert persons(in_csv(TEXTS, tmp_path))[0] < len(TEXTS) - 5


#: Columns with types: equal numbers are one person, others are not, however near they are.
TYPED = {
    "whole": (pa.array([7, 2**53, 2**53 + 1, -(2**63), 7]), 4),
    "unsigned": (pa.array([7, 2**64 - 1, 2**64 - 2], pa.uint64()), 3),
    "float": (pa.array([7.0, 7.5, 7.0, 1e300, -0.0, 0.0]), 4),
    "decimal": (
        pa.array([Decimal(2**53), Decimal(2**53 + 1), Decimal(7)], pa.decimal128(38, 0)),
        3,
    ),
    "scaled": (pa.array([Decimal("7.00"), Decimal("7.01"), Decimal("7")], pa.decimal128(9, 2)), 2),
    "nanoseconds": (pa.array([10**18, 10**18 + 1, 10**18], pa.timestamp("ns")), 2),
    "microseconds": (pa.array([10**17, 10**17 + 1, 10**17], pa.timestamp("us", "UTC")), 2),
    "day": (pa.array([dt.date(2020, 1, 31), dt.date(2020, 2, 1)]), 2),
    "bytes": (pa.array([b"a", b"b", b"a"]), 2),
    "truth": (pa.array([True, False, True]), 2),
}


@pytest.mark.parametrize("memory", [None, "1KB"])
@pytest.mark.parametrize("store", ["parquet", "relation", "pyarrow", "pandas", "arrow types"])
@pytest.mark.parametrize("kind", TYPED)
def test_numbers_of_a_typed_column_are_persons(tmp_path, kind, store, memory):
    ids, expected = TYPED[kind]
    table = pa.table({"id": ids, "x": [1.0] * len(ids)})
    forms = {
        "parquet": lambda: in_parquet(ids, tmp_path),
        "relation": lambda: in_duckdb(ids, None),
        "pyarrow": lambda: table,
        "pandas": table.to_pandas,
        "arrow types": lambda: table.to_pandas(types_mapper=pd.ArrowDtype),
    }
    assert persons(forms[store](), memory)[0] == expected


def test_without_a_type_every_value_is_its_own_text():
    ids = [7, 7.0, "7", "7.0", Decimal("7.00"), 7.5, None, float("nan"), pd.NaT, "  ", b"7", True]
    ids += [
        np.int64(7),
        np.float64(7.0),
        dt.datetime(2020, 1, 1),
        np.datetime64("2020-01-01", "ns"),
    ]
    ids += ["\0int\x000x7", "\0"]
    # Those of numpy are the same as those of Python; four rows have no value.
    assert persons([[i, 1] for i in ids])[0] == len(ids) - 2


VISITS = 60


def visits(person_11):
    """Persons with two rows each; one of them has this identifier."""
    ids = [str(120_000 + k // 2) for k in range(2 * VISITS)]
    ids[22:24] = [person_11] * 2
    draws = np.random.default_rng(0)
    return pd.DataFrame({"id": ids, "x": draws.normal(size=2 * VISITS).round(2)}).assign(
        ill=["no", "no", "yes", "yes"] * (VISITS // 2)
    )


@pytest.mark.parametrize("odd", ["12e4", "1.2e5", "+120000", "120000.0", "120,000", "120 000"])
@pytest.mark.parametrize("memory", [None, "1KB"])
def test_the_published_number_of_persons_hides_a_person(tmp_path, odd, memory):
    path = tmp_path / "t.csv"
    visits(odd).to_csv(path, index=False)
    bounds = {"x": [-3, 3], "ill": ["no", "yes"]}
    asked = {"unit": "id", "bounds": bounds, "eta": 0.4, "insecure_seed": 1, "memory": memory}
    assert protect(path, target="ill", trial=False, **asked).persons == VISITS
    mean = summarize(path, statistic="mean", columns="x", **asked | {"bounds": {"x": [-3, 3]}})
    assert mean.to_dict()["persons"] == VISITS
    if memory is None:
        assert synthesize(path, rows=20, **asked).persons == VISITS
        assert certify(path, columns=["ill"], unit="id").rows == VISITS
        data = StudyData.read(path, Question(target="ill", unit="id"))
        try:
            assert data.persons.count == data.records == VISITS
        finally:
            data.source.close()
