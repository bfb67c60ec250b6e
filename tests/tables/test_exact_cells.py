"""Two values are one cell only if no learner could tell them apart, whatever source holds them.

The oracle counts in Python over values tagged by hand: every distinct tag is a distinct value.  A
source may hold less than was put into it (SQLite has no -0.0, pandas means missing by NaN); then
its own tags are stated, so that a merge by the engine is never mistaken for one by the source.
"""

from __future__ import annotations

import datetime as dt
import sqlite3
import struct
import uuid
from collections import Counter
from decimal import Decimal

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import memberbound
from memberbound.errors import InputError
from memberbound.tables import exact
from memberbound.tables.coarsening import cell_profile
from memberbound.tables.counting import (
    count_pair_profile,
    count_profile,
    write_records,
)
from memberbound.tables.opening import open_table
from memberbound.tables.table import Table
from oracle.files import in_duckdb, in_sqlite, stored
from tables.naive import SHARED, count_cells

WORDS = ["a", "A", "a ", "a\t", "á", "a\u0301", "ß", "ss", "", "0", "0.0", "null", "nul\0l", "nul"]


def doubles(*bits: int) -> np.ndarray:
    return np.array(bits, dtype=np.uint64).view(np.float64)


#: Zeros of both signs, neighbours, and NaNs of both signs and with payloads.
FLOATS = doubles(
    *(0, 1 << 63, 0x3FF0000000000000, 0x3FF0000000000001, 1, 0x7FF0000000000000),
    *(0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000, 0x7FF4000000000001),
)
SINGLES = np.array(
    [0, 1 << 31, 0x3F800000, 0x3F800001, 0x7FC00000, 0x7FC00001, 0xFFC00000], np.uint32
).view(np.float32)
HALVES = np.array([0, 1 << 15, 0x3C00, 0x3C01, 0x7E00, 0x7E01, 0x7C01], np.uint16).view(np.float16)
NANOSECONDS = np.array([0, 1, 2, 999, 1000, 1001, 10**9, 10**9 + 1])


def arrow_columns() -> dict[str, pa.Array]:
    """Columns in which every two values differ."""
    return {
        "text": pa.array(WORDS),
        "large text": pa.array(WORDS, pa.large_string()),
        "view of text": pa.array(WORDS, pa.string_view()),
        "dictionary": pa.array(WORDS).dictionary_encode(),
        "bytes": pa.array([b"a", b"a\0", b"a\0\0", b"A", b"", b"\0"]),
        "fixed bytes": pa.array([b"a\0", b"a\1", b"aa"], pa.binary(2)),
        "double": pa.array(FLOATS),
        "single": pa.array(SINGLES),
        "half": pa.array(HALVES),
        "int64": pa.array([2**53, 2**53 + 1, -(2**63), 2**63 - 1, 0]),
        "uint64": pa.array([2**64 - 1, 2**64 - 2, 2**63, 0], pa.uint64()),
        "bool": pa.array([True, False]),
        "decimal": pa.array(
            [Decimal("1.00"), Decimal("1.01"), Decimal("0.00")], pa.decimal128(38, 2)
        ),
        "small decimal": pa.array([Decimal("1.0"), Decimal("1.1")], pa.decimal256(20, 1)),
        "long decimal": pa.array([Decimal(10**60 + i) for i in range(3)], pa.decimal256(70, 0)),
        "time": pa.array([1, 2, 1000], pa.time64("ns")),
        "timestamp": pa.array(NANOSECONDS, pa.timestamp("ns")),
        "timestamp in a zone": pa.array(NANOSECONDS, pa.timestamp("ns", "Europe/Berlin")),
        "seconds": pa.array([-1, 0, 1], pa.timestamp("s", "UTC")),
        "duration": pa.array(NANOSECONDS, pa.duration("ns")),
        "milliseconds": pa.array([0, 1, 1000], pa.duration("ms")),
        "date": pa.array([0, 1, -1], pa.date32()),
        "part of a day": pa.array([0, 1, 86_400_000], pa.int64()).view(pa.date64()),
        "uuid": pa.array([uuid.UUID(int=i).bytes for i in range(3)], pa.uuid()),
        "bool8": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1, 2], pa.int8())),
        "dictionary of floats": pa.DictionaryArray.from_arrays(
            pa.array(range(len(FLOATS))), pa.array(FLOATS)
        ),
        "runs": pa.RunEndEncodedArray.from_arrays([1, 2, 3], pa.array([0.0, -0.0, 1.0])),
    }


def repeat_values(column: pa.Array, name: str) -> tuple[pa.Table, Counter]:
    """Return the i-th value i + 1 times, mixed, with as many nulls as no value has."""
    rows = [i for i in range(len(column)) for _ in range(i + 1)]
    rows = [rows[i] for i in np.random.default_rng(7).permutation(len(rows))]
    kind = column.type
    if pa.types.is_run_end_encoded(kind):
        column = pa.RunEndEncodedArray.from_arrays(
            list(range(1, len(rows) + 1)), column.values.take(pa.array(rows))
        )
    elif kind == pa.string_view():
        # Some releases of pyarrow cannot write what their own concat makes of views.
        words = column.cast(pa.string()).take(pa.array(rows)).to_pylist()
        return pa.table({name: pa.array(words + [None] * len(rows), kind)}), Counter(
            [*rows, *["null"] * len(rows)]
        )
    else:
        column = column.take(pa.array(rows))
    counts = Counter(rows)
    if not column.null_count and not pa.types.is_run_end_encoded(kind):
        column = pa.concat_arrays([column, pa.nulls(len(rows), kind)])
        counts["null"] = len(rows)
    return pa.table({name: column}), counts


def profile_of(counts: Counter) -> dict[int, int]:
    return dict(sorted(Counter(counts.values()).items()))


SOURCES = {
    "memory": lambda table, _: table,
    "reader": lambda table, _: table.to_reader(max_chunksize=7),
    "a.arrow": stored,
    "a.parquet": stored,
    "polars": lambda table, _: pl.from_arrow(table),
}
#: Values that a source does not accept, or that its own writer truncates (each was tried).
CUT_BY_THE_SOURCE = {
    "a.parquet": {"runs", "part of a day"},
    "polars": {"long decimal", "runs", "small decimal"},
}
CUT_BY_DUCKDB = {"half", "long decimal", "duration", "part of a day", "bool8", "small decimal"}
NAMES = list(arrow_columns())


@pytest.mark.parametrize("source", SOURCES)
def test_every_type_in_every_source(tmp_path, source):
    columns = arrow_columns()
    found = {}
    for name in NAMES:
        if name in CUT_BY_THE_SOURCE.get(source, ()):
            continue
        table, counts = repeat_values(columns[name], name)
        folder = tmp_path / str(NAMES.index(name))
        folder.mkdir()
        if (seen := count_cells(SOURCES[source](table, folder / source))) != profile_of(counts):
            found[name] = (seen, profile_of(counts))
    assert found == {}


@pytest.mark.parametrize("source", ["a.duckdb", "ibis.duckdb"])
def test_every_type_in_a_database(tmp_path, source):
    columns = arrow_columns()
    made = {name: repeat_values(columns[name], name) for name in NAMES if name not in CUT_BY_DUCKDB}
    path = tmp_path / source
    in_duckdb({name: table for name, (table, _) in made.items()}, path)
    if source == "ibis.duckdb":
        opened = ibis.duckdb.connect(str(path), read_only=True).table
    else:

        def opened(name: str) -> Table:
            return open_table(path, database_table=name, beside=SHARED)

    found = {name: count_cells(opened(name)) for name in made}
    assert found == {name: profile_of(counts) for name, (_, counts) in made.items()}


# ---- text files and arrays ---------------------------------------------------------------------


@pytest.mark.parametrize("values", [FLOATS, SINGLES, HALVES, NANOSECONDS.astype("m8[ns]")])
def test_arrays_are_compared_by_their_bits(tmp_path, values):
    rows = np.repeat(values, np.arange(1, len(values) + 1))
    expected = dict.fromkeys(range(1, len(values) + 1), 1)
    np.save(tmp_path / "a.npy", rows)
    assert count_cells(rows) == expected == count_cells(tmp_path / "a.npy")
    with pytest.raises(InputError, match="must not be masked"):
        count_profile(np.ma.masked_array([1.0, 1.0], [True, False]))


# ---- pandas ------------------------------------------------------------------------------------


def objects(*values) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Series(values, dtype=object)})


@pytest.mark.parametrize(
    ("frame", "atoms"),
    [
        (pd.DataFrame({"x": pd.to_timedelta(NANOSECONDS, unit="ns")}), 8),
        (pd.DataFrame({"x": pd.to_datetime(NANOSECONDS, unit="ns")}), 8),
        (pd.DataFrame({"x": pd.to_datetime(NANOSECONDS, unit="ns", utc=True)}), 8),
        (pd.DataFrame({"x": [0.0, -0.0, np.nan, None]}), 3),
        (pd.DataFrame({"x": np.array([0.0, -0.0, 1.0], np.float16)}), 3),
        (pd.DataFrame({"x": pd.Categorical(["a", "A", "a "])}), 3),
        (pd.DataFrame({"x": pd.array([1, 2**53, 2**53 + 1, None], "Int64")}), 4),
        (objects(2**70, 2**70 + 1, -(2**200), None), 4),
        (objects(Decimal("1.0"), Decimal("1.00"), Decimal(1), Decimal("-0"), Decimal(0)), 5),
        (objects(True, False, None), 3),
        (objects(b"a", b"a\0"), 2),
        (objects(dt.date(2020, 1, 1), dt.date(2020, 1, 2)), 2),
    ],
)
def test_pandas_columns_keep_distinct_values_distinct(frame, atoms):
    twice = pd.concat([frame, frame], ignore_index=True)
    profile = count_profile(twice)
    assert profile.atoms == atoms
    assert profile.rows == 2 * len(frame)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((True, 1), "bool and int"),
        ((1, 1.0), "float and int"),
        (("a", b"a"), "bytes and str"),
        ((np.int64(1), 1), "int and int64"),
        ((dt.date(2020, 1, 1), dt.datetime(2020, 1, 1)), "date and datetime"),
        ((dt.datetime(2020, 1, 1),), "got datetime"),
        (([0.0], [-0.0]), "got list"),
        ((1j,), "got complex"),
        (("\ud800",), "could not be read"),
    ],
)
def test_pandas_columns_of_objects_that_would_merge_are_refused(values, said):
    with pytest.raises(InputError) as refused:
        count_profile(objects(*values))
    assert said in str(refused.value)
    assert str(refused.value).endswith(".")


def test_categories_are_looked_at_as_well():
    with pytest.raises(InputError, match="float and int"):
        count_profile(
            pd.DataFrame({"x": pd.Categorical(objects(1, 2.5).x, pd.Index([1, 2.5], dtype=object))})
        )


# ---- databases ---------------------------------------------------------------------------------

CASES = [f"{i:010b}".replace("0", "a").replace("1", "A") for i in range(1024)]


def collate(path, values=CASES, collation="NOCASE") -> str:
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE t (x VARCHAR COLLATE {collation}, n INTEGER)")
        connection.register("given", pa.table({"x": values, "n": [1] * len(values)}))
        connection.execute("INSERT INTO t SELECT * FROM given")
    return str(path)


def stored_in_lite(path) -> Counter:
    """Count what SQLite holds, by type and bytes, without any of its own comparisons."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT typeof(x), +x FROM t").fetchall()
    connection.close()
    packed = {float: lambda v: struct.pack("<d", v), str: str.encode}
    return Counter((kind, packed.get(type(v), lambda v: v)(v)) for kind, v in rows)


LITE_VALUES = [
    *("a", "A", "a ", "a\0", "", "1", "1.0", " 1", "01", "1e0", "x'31'", "2020-01-01", "null", "é"),
    *(1, 0, 2**53, 2**53 + 1, -(2**63), 1.0, 0.5, 0.0, -0.0, 9007199254740992.0, float("inf")),
    *(b"1", b"a", b"", b"a\0", None, 1e300, 5e-324, 0.1, 0.1 + 2**-55),
]
LITE_KINDS = [
    *("", "TEXT", "TEXT COLLATE NOCASE", "TEXT COLLATE RTRIM", "NUMERIC", "INTEGER", "REAL"),
    *("BLOB", "DATE", "JSON", "BOOLEAN", "TIMESTAMP", "DECIMAL(5,2)", "UUID", "VARCHAR(2)"),
]


@pytest.mark.parametrize("kind", LITE_KINDS)
def test_sqlite_is_read_as_stored(tmp_path, kind):
    alike = {
        "mixed": LITE_VALUES,
        "text": [v for v in LITE_VALUES if isinstance(v, str | None)],
        "numbers": [v for v in LITE_VALUES if isinstance(v, int | float)],
        "bytes": [v for v in LITE_VALUES if isinstance(v, bytes)],
    }
    for name, values in alike.items():
        rows = [v for i, v in enumerate(values) for _ in range(i + 1)]
        path = in_sqlite([(v,) for v in rows], tmp_path / f"{name}.sqlite", {"x": kind})
        expected = profile_of(stored_in_lite(path))
        assert count_cells(path) == expected, name
        with pytest.raises(InputError, match="given as its file"):  # ibis believes declared types
            count_profile(ibis.sqlite.connect(path).table("t"))


@pytest.mark.parametrize("collation", ["NOCASE", "NOCASE.NOACCENT"])
def test_collations_of_duckdb(tmp_path, collation):
    path = collate(tmp_path / "a.duckdb", [*WORDS, *CASES], collation)
    expected = profile_of(Counter([*WORDS, *CASES]))
    assert count_cells(path, columns="x") == expected
    backend = ibis.duckdb.connect(path, read_only=True)
    assert count_cells(backend.table("t"), columns="x") == expected
    assert count_cells(backend.table("t").filter(lambda t: t.n == 1), columns="x") == expected
    backend.raw_sql("SET default_collation = 'nocase'")
    assert count_cells(backend.table("t").mutate(y=lambda t: t.x + "")) == expected
    backend.disconnect()


def test_types_that_only_duckdb_has(tmp_path):
    cells = {
        "zone": ["TIMETZ '12:00:00+00'", "TIMETZ '13:00:00+01'", "TIMETZ '12:00:00+01'"],
        "interval": ["INTERVAL 1 MONTH", "INTERVAL 30 DAY", "INTERVAL 720 HOUR", "INTERVAL 31 DAY"],
        "huge": [
            "(2::HUGEINT ** 100)::HUGEINT",
            "170141183460469231731687303715884105727::HUGEINT",
        ],
        "unsigned": ["340282366920938463463374607431768211455::UHUGEINT", "1::UHUGEINT"],
        "bits": ["'1'::BIT", "'01'::BIT", "'001'::BIT", "'00000001'::BIT"],
        "json": ["'1'::JSON", "'1.0'::JSON", "'{\"a\": 1}'::JSON", "'{\"a\":1}'::JSON"],
        "word": ["'a'::ENUM('a', 'A')", "'A'::ENUM('a', 'A')"],
        "nan": ["'nan'::DOUBLE", "-'nan'::DOUBLE", "0::DOUBLE", "-(0::DOUBLE)", "NULL"],
        "instant": ["TIMESTAMP_NS '2020-01-01 00:00:00.000000001'", "TIMESTAMP_NS '2020-01-01'"],
    }
    path = tmp_path / "a.duckdb"
    with duckdb.connect(str(path)) as connection:
        for name, values in cells.items():
            # Counts 1, 2, 3, …: a merge would change them.
            listed = [v for i, v in enumerate(values) for _ in range(i + 1)]
            connection.execute(
                f"CREATE TABLE {name} AS " + " UNION ALL ".join(f"SELECT {v} AS x" for v in listed)
            )
    backend = ibis.duckdb.connect(str(path), read_only=True)
    for name, values in cells.items():
        expected = dict.fromkeys(range(1, len(values) + 1), 1)
        table = open_table(path, database_table=name, beside=SHARED)
        assert count_cells(table) == expected, name
        assert sum(count_pair_profile(table, table).cells) == len(values), name
        assert count_cells(backend.table(name)) == expected, name
        # A relation of the user's own connection, streamed through Arrow.
        assert count_cells(backend.con.table(name)) == expected, name
        # Written from another engine, the rows are copied first; each gets its own count.
        out = tmp_path / f"{name}.parquet"
        write_records(backend.table(name), None, {n: float(n) for n in range(1, 99)}, out)
        given = Counter(pq.read_table(out)["record_leak_upper"].to_pylist())
        assert given == {float(n): n for n in expected}, name
    backend.disconnect()


def test_types_without_an_exact_key_are_refused(tmp_path):
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT union_value(a := 1) AS x, ['a'] AS y, 1 AS z")
    assert count_profile(tmp_path / "a.duckdb", "z").rows == 1
    for column, kind in {"x": "UNION", "y": r"VARCHAR\[\]"}.items():
        with pytest.raises(InputError, match=rf"that DuckDB can compare exactly, got {kind}"):
            count_profile(tmp_path / "a.duckdb", column)
    months = pa.array([pa.MonthDayNano((0, 0, 1))], pa.month_day_nano_interval())
    with pytest.raises(InputError, match="intervals"):
        count_profile(pa.table({"x": months}))


def test_polars_categories_and_objects():
    words = pl.Series("x", ["a", "A", "a ", None, "A"])
    for kind in (pl.Categorical, pl.Enum(["a", "A", "a "])):
        frame = pl.DataFrame({"x": words.cast(kind)})
        assert count_cells(frame) == {1: 3, 2: 1}
        assert count_cells(pa.table(frame).to_reader()) == {1: 3, 2: 1}
    with pytest.raises(InputError, match="must not hold Python objects"):
        count_profile(pl.DataFrame({"x": pl.Series([object()], dtype=pl.Object)}))


def test_tables_in_memory_that_ibis_would_cut_are_refused():
    frame = pd.DataFrame({"x": pd.to_timedelta([1, 2], unit="ns")})
    with pytest.raises(InputError, match="Give the table itself"):
        count_profile(ibis.memtable(frame))
    assert count_cells(ibis.memtable({"x": ["a", "A", "a"]})) == {1: 1, 2: 1}


def test_old_parquet_timestamps(tmp_path):
    def write(values, unit) -> str:
        table = pa.table({"x": pa.array(values, pa.timestamp(unit)), "n": [1] * len(values)})
        pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
        return str(tmp_path / "a.parquet")

    for finer in (NANOSECONDS, [0, 2**62 + 1]):
        with pytest.raises(InputError, match="with nanoseconds"):
            count_cells(write(finer, "ns"))
    far = 253_402_300_799_000_000  # the last second of 9999, beyond 64 bits of nanoseconds
    assert count_cells(write([far, far - 1, 0, None], "us")) == {1: 4}


# ---- Spark and others, by their queries --------------------------------------------------


class Elsewhere:
    """An engine that is used by its name only."""

    def __init__(self, name: str) -> None:
        self.name = name


def sql_of(monkeypatch, engine: str, **schema: str) -> str:
    rows = ibis.table(schema, name="t")
    monkeypatch.setattr(type(rows), "get_backend", lambda _: Elsewhere(engine))
    return ibis.to_sql(exact.exact_rows(rows, "the ibis table"), dialect="pyspark")


def test_spark_compares_text_as_bytes_and_refuses_floats(monkeypatch):
    query = sql_of(monkeypatch, "pyspark", word="string", n="int64", day="date")
    assert "CAST(`t0`.`word` AS BINARY)" in query
    assert "`t0`.`n`" in query
    for kind in ("float64", "array<string>", "interval('s')"):
        with pytest.raises(InputError, match="that pyspark is known to compare exactly"):
            sql_of(monkeypatch, "pyspark", x=kind)
    assert "CONVERT_TO(" in sql_of(monkeypatch, "postgres", x="string").upper()
    with pytest.raises(InputError, match=r"postgres is known to compare exactly, got interval"):
        sql_of(monkeypatch, "postgres", x="interval('s')")


# ---- the verbs ---------------------------------------------------------------------------------


def test_without_exact_keys_cells_are_merged(tmp_path, monkeypatch):
    # The broken twin: columns compared as the engine likes.
    path = collate(tmp_path / "a.duckdb")
    assert count_cells(path, columns="x") == {1: 1024}
    monkeypatch.setattr(exact, "_key", lambda value, kind: value)
    assert count_cells(path, columns="x") == {1024: 1}
    assert memberbound.certify(path).to_dict()["delta_upper"] < 0.02
    assert count_cells(pa.table({"x": FLOATS})) != profile_of(Counter(range(len(FLOATS))))
    monkeypatch.undo()
    durations = pa.table({"x": pa.array(range(1000), pa.duration("ns"))})
    assert count_cells(durations) == {1: 1000}
    from memberbound.tables import engine

    monkeypatch.setattr(engine, "exact_schema", lambda schema, secret: schema)
    assert count_cells(durations) == {1000: 1}


def test_hardening_counts_the_same_cells():
    frame = pd.DataFrame({"x": [0.0, -0.0, np.nan, 1.0, None]})
    assert cell_profile(frame).atoms == count_profile(frame).atoms == 4
    # A text that looks like the name of a number is still a text.
    assert cell_profile(objects(1, "int\x001", "1", True)).atoms == 4
