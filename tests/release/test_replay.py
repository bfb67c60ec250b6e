"""Replay: neighbouring tables under the same noise, through every format and every release.

The noisy sums are replaced by noise that does not depend on the table.  Then *everything* made from
a table must be the same for its neighbour (columns, classes, stored values, success or failure).
The noise has to hide the distance between the requested sums, which must be paid for.
"""

import datetime as dt
import importlib
import json
import sqlite3
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression
from tests.oracle.files import PACKED, in_sqlite, stored
from tests.oracle.replay import published_part, replayed, spent
from tests.oracle.synthetic_parts import measure_every_part

from memberbound import MembershipPrivate, open_table, protect, summarize, synthesize
from memberbound.errors import InputError
from memberbound.release.all_rows import private_columns
from memberbound.release.all_rows.learner_forms import PRIVATE_LEARNERS, Settings
from memberbound.release.all_rows.summaries import TABLE_STATISTICS
from memberbound.release.all_rows.training import fit_private
from memberbound.release.randomness import InsecureSource
from memberbound.tables import columns, records

synthesizing = importlib.import_module("memberbound.verbs.synthesize")
#: The owner's figures, which these tests ignore.
UNSAID = SimpleNamespace(shortcoming=None)
ROWS = 240
#: Small tables have something to learn only at a large η; the sums do not depend on it.
ETA = 0.45
#: η = Φ(μ/2) - ½ is what a budget of μ² allows.
ALLOWED = (2 * stats.norm.ppf(0.5 + ETA)) ** 2


# ── Tables, and what one record of them may hold ──────────────────────────────────────────────────


@dataclass(frozen=True)
class World:
    """Rows, what the record in place 11 may hold instead, and what is public."""

    rows: list
    #: By column: values that the record has there.
    odd: dict
    bounds: dict
    #: Further public facts for a synthetic table, which names its texts.
    listed: dict

    @property
    def names(self):
        return tuple(self.odd)

    def neighbour(self, **values):
        record = dict(zip(self.names, self.rows[11], strict=True)) | values
        return [*self.rows[:11], tuple(record.values()), *self.rows[12:]]

    def neighbours(self, step=1, first=0):
        """Records that are odd in one column, for every ``step``-th oddity; records odd in all."""
        odd = [{name: value} for name, values in self.odd.items() for value in values]
        odd = odd[first::step] + [{n: v[k] for n, v in self.odd.items()} for k in (0, 1, -1)]
        return [self.neighbour(**values) for values in odd]


def untyped_rows():
    draws = np.random.default_rng(0)
    days = [dt.date(2010, 1, 1) + dt.timedelta(days=int(k)) for k in draws.integers(0, 4000, ROWS)]
    return [
        (
            2**60 + k,
            round(float(draws.normal(50, 20)), 2),
            f"{draws.uniform(40, 100):.1f}".replace(".", ","),
            day.strftime("%d.%m.%Y"),
            float(draws.choice([0.5, 1.5])),
            str(draws.choice(["red", "green", "blue"])),
            str(draws.choice(["no", "yes"])),
        )
        for k, day in enumerate(days)
    ]


#: Values of a record in a table without types.
ODD = {
    "patient_id": [None, "x", 7, 2**53 + 1, 10**30, 0.5, "  "],
    "amount": [None, "word", "1,234", "1.234,5", 1e308, "inf", "nan", "03/02/2021", True, "0012"],
    "weight": [None, "80.5", "1.000,5", "kg", -1e9, 10**19],
    "born": [None, "31.12.9999", "2020-01-01", "31.02.2020", "99.99.9999", 5],
    "group": [None, "0,5", 0.5, "1.50", "word", "None", 3],
    "note": [None, "", "1", "2020-01-01", "a text of five words", "\t", "note"],
    "ill": [None, "yes", "perhaps", 1, " no "],
}
UNTYPED = World(
    untyped_rows(),
    {name: [*values, name] for name, values in ODD.items()},  # at last the header once more
    {
        "weight": {"range": [0, 100], "decimal": ","},
        "born": {"range": ["2000-01-01", "2024-12-31"], "format": "%d.%m.%Y"},
        "group": {"categories": [0.5, 1.5, None]},
        "ill": {"categories": ["no", "yes"]},
    },
    {"note": ["red", "green", "blue"]},
)
#: The same rows in files that declare types and labels.
LABELLED = World(
    UNTYPED.rows,
    UNTYPED.odd,
    {"weight": [0, 100], "group": ["low", "high"], "ill": ["no", "yes"]},
    {"note": ["red", "green", "blue"]},
)
SCHEMA = pa.schema(
    {
        "patient_id": pa.int64(),
        "big": pa.uint64(),
        "half": pa.float32(),
        "amount": pa.float64(),
        "price": pa.decimal128(20, 2),
        "day": pa.date32(),
        "seen": pa.timestamp("us"),
        "logged": pa.timestamp("ns", "UTC"),
        "flag": pa.bool_(),
        "word": pa.string(),
        "ill": pa.string(),
    }
)


def typed_rows():
    draws = np.random.default_rng(1)
    start = dt.datetime(2015, 1, 1)
    return [
        (
            2**60 + k,
            int(draws.integers(0, 9)),
            float(np.float32(draws.choice([0.5, 0.1]))),
            float(draws.normal()),
            int(draws.integers(0, 99)),
            (start + dt.timedelta(days=int(draws.integers(0, 999)))).date(),
            start + dt.timedelta(hours=int(draws.integers(0, 9999))),
            (start + dt.timedelta(hours=int(draws.integers(0, 9999)))).replace(tzinfo=dt.UTC),
            bool(draws.integers(0, 2)),
            str(draws.choice(["a", "b"])),
            str(draws.choice(["no", "yes"])),
        )
        for k in range(ROWS)
    ]


#: Values of each type.
TYPED = World(
    typed_rows(),
    {
        "patient_id": [None, -(2**63), 2**63 - 1],
        "big": [None, 2**64 - 1, 2**63],
        "half": [None, float("nan"), 0.1, float("inf")],
        "amount": [None, float("nan"), float("-inf"), 1e308, -0.0],
        "price": [None, 10**17],
        "day": [None, dt.date(9999, 12, 31), dt.date(1, 1, 1)],
        "seen": [None, dt.datetime(9999, 12, 31, 23, 59), dt.datetime(1, 1, 1)],
        "logged": [None, dt.datetime(1700, 1, 1, tzinfo=dt.UTC)],
        "flag": [None, True],
        "word": [None, "1,5", " ", "x" * 1000],
        "ill": [None, "perhaps"],
    },
    {
        "half": {"categories": [0.5, 0.1]},
        "seen": ["2000-01-01", "2030-01-01"],
        "ill": ["no", "yes"],
    },
    {"word": ["a", "b"]},
)


# ── Formats ───────────────────────────────────────────────────────────────────────────────────────


def as_csv(table, folder):
    path = folder / "t.csv"
    as_objects(table, folder).to_csv(path, index=False, sep=";")
    return path


def as_sqlite(table, folder):
    kinds = ("INTEGER", "REAL", "TEXT", "DATE", "", "TEXT", "TEXT")
    rows = [[str(v) if isinstance(v, int) and abs(v) >= 2**63 else v for v in r] for r in table]
    return in_sqlite(rows, folder / "t.sqlite", dict(zip(UNTYPED.names, kinds, strict=True)))


def as_objects(table, _):
    return pd.DataFrame(table, columns=UNTYPED.names, dtype=object)


def as_excel(table, folder):
    book = pytest.importorskip("openpyxl").Workbook(write_only=True)
    sheet = book.create_sheet()
    # No cell has control characters or more than 15 digits.
    fits = [[str(v) if isinstance(v, int) and abs(v) > 2**53 else v for v in row] for row in table]
    for row in [UNTYPED.names, *fits]:
        sheet.append(row)
    path = folder / "t.xlsx"
    book.save(path)
    return path


def as_labelled(ending, table, folder):
    pyreadstat = pytest.importorskip("pyreadstat")
    frame = as_objects(table, folder)
    frame["weight"] = frame["weight"].map(lambda v: str(v).replace(",", "."))
    frame["group"] = pd.to_numeric(frame["group"], errors="coerce") * 2
    numbers = ("amount", "weight", "group")
    kept = {n: pd.to_numeric(frame[n], errors="coerce").astype(float) for n in numbers}
    if ending == "dta":  # Stata's largest number
        kept = {n: c.where(c.abs() < 8.9e307, np.sign(c) * 8.9e307) for n, c in kept.items()}
    kept |= {n: frame[n].map(lambda v: "" if v is None else str(v)) for n in ("note", "ill")}
    kept["born"] = pd.to_datetime(frame["born"].astype(str), format="%d.%m.%Y", errors="coerce")
    path = folder / f"t.{ending}"
    write = getattr(pyreadstat, f"write_{ending}")
    write(pd.DataFrame(kept), path, variable_value_labels={"group": {1: "low", 3: "high"}})
    return path


def arrow_of(table, _=None):
    arrays = [
        pa.array(list(c), f.type) for c, f in zip(zip(*table, strict=True), SCHEMA, strict=True)
    ]
    return pa.table(arrays, schema=SCHEMA)


def as_file(ending):
    def write(table, folder):
        typed = table if isinstance(table, pa.Table) else arrow_of(table)
        return stored(typed, folder / f"t.{ending}")

    return write


def as_old_parquet(table, folder):
    pq.write_table(arrow_of(table), folder / "t.parquet", use_deprecated_int96_timestamps=True)
    return folder / "t.parquet"


def as_parts(table, folder):
    parts = folder / "parts"
    parts.mkdir(exist_ok=True)
    for name, some in (("a", table[:100]), ("b", table[100:])):
        pq.write_table(arrow_of(some), parts / f"{name}.parquet")
    return parts


def in_arrow_types(table, _):
    return table.to_pandas(types_mapper=pd.ArrowDtype)


def on_duckdb(table):
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("given", table)
    connection.execute("CREATE TABLE t AS SELECT * FROM given")
    return connection


def on_ibis(table, _):
    return pytest.importorskip("ibis").duckdb.from_connection(on_duckdb(table)).table("t")


FORMATS = {
    "csv": (UNTYPED, as_csv),
    "sqlite": (UNTYPED, as_sqlite),
    "pandas objects": (UNTYPED, as_objects),
    "list": (UNTYPED, lambda table, _: [list(row) for row in table]),
    "excel": (UNTYPED, as_excel),
    "dta": (LABELLED, partial(as_labelled, "dta")),
    "sav": (LABELLED, partial(as_labelled, "sav")),
    "parquet": (TYPED, as_file("parquet")),
    "folder in parts": (TYPED, as_parts),
    "96-bit timestamps": (TYPED, as_old_parquet),
    "arrow": (TYPED, as_file("arrow")),
    "duckdb": (TYPED, as_file("duckdb")),
    "pyarrow": (TYPED, arrow_of),
    "polars": (TYPED, lambda table, _: pl.from_arrow(arrow_of(table))),
    "pandas with arrow types": (TYPED, lambda table, _: in_arrow_types(arrow_of(table), None)),
    "ibis on DuckDB": (TYPED, lambda table, _: on_ibis(arrow_of(table), None)),
    "relation of DuckDB": (TYPED, lambda table, _: on_duckdb(arrow_of(table)).table("t")),
}


# ── Releases ──────────────────────────────────────────────────────────────────────────────────────


def weighted(table, *, target, bounds, eta, insecure_seed, weight, **_):
    """No verb takes weights: the estimator does."""
    balanced = Settings(class_weight="balanced")
    asked = {"bounds": bounds, "eta": eta, "source": InsecureSource(insecure_seed)}
    return fit_private(table, target, weight=weight, settings=balanced, **asked)


STATISTICS = {
    "mean": ["weight", "born", "amount"],
    "sum": ["weight", "born"],
    "covariance": ["weight", "born"],
    "quantiles": ["weight", "amount"],
    "histogram": ["group"],
    "contingency": ["group", "ill"],
}
assert set(STATISTICS) == set(TABLE_STATISTICS)
#: The requests of each verb; columns are named as in :class:`World`.
RELEASES = {
    **{name: (protect, {"target": "ill", "learner": name}) for name in PRIVATE_LEARNERS},
    **{s: (summarize, {"statistic": s, "columns": names}) for s, names in STATISTICS.items()},
    "weighted": (weighted, {"target": "ill", "weight": "amount"}),
    "synthetic table": (synthesize, {"target": "ill", "rows": 50}),
}


def observe(release, world, table):
    """Return all that a verb publishes about a table, or why it refuses."""
    verb, options = RELEASES[release]
    bounds = world.bounds | (world.listed if verb is synthesize else {})
    if release in ("ridge", "huber"):
        bounds = bounds | {"ill": {"range": [0, 1]}}
    asked = dict(options)
    if isinstance(table, list):  # which has no names
        names = {name: f"x{k}" for k, name in enumerate(world.names)}
        bounds = {names[name]: bound for name, bound in bounds.items()}
        asked |= {key: names[asked[key]] for key in ("target", "weight") if key in asked}
        asked |= {key: [names[n] for n in asked[key]] for key in ("columns",) if key in asked}
    if isinstance(table, Path) and table.is_dir():  # rows are read again whenever they are used
        asked["memory"] = "1KB"
    if verb is protect:
        asked["trial"] = False
    try:
        answer = verb(table, bounds=bounds, eta=ETA, insecure_seed=7, **asked)
    except InputError as problem:
        return f"refused: {problem}"
    assert verb is not synthesize or answer.pairs
    return published_part(answer)


def without_names(*given, honest=private_columns.count_column):
    """Texts are named by a threshold with its own slack: test_private_columns.py."""
    return honest(*given)[0], {}


def replay(monkeypatch, release, world, table):
    """Return everything observable under noise independent of the table, and the sums."""
    monkeypatch.setattr(private_columns, "count_column", without_names)
    measure_every_part(monkeypatch)
    monkeypatch.setattr(
        synthesizing, "measure_fidelity", lambda *_: UNSAID
    )  # for the owner of the rows
    return replayed(monkeypatch, lambda: observe(release, world, table))


def compare(monkeypatch, folder, release, form, neighbours):
    world, write = form
    first = replay(monkeypatch, release, world, write(world.rows, folder))
    assert not first[0].startswith("refused"), first[0]
    worst = 0.0
    for neighbour in neighbours:
        second = replay(monkeypatch, release, world, write(neighbour, folder))
        assert second[0] == first[0], neighbour[11]
        worst = max(worst, spent(first[1], second[1]))
        assert worst <= ALLOWED, neighbour[11]
    return worst


#: Step between the tried oddities; make test-long tries them all.
SOME = {
    **{("logistic", form): 7 for form in FORMATS},
    ("logistic", "pandas objects"): 2,
    ("logistic", "pyarrow"): 2,
    **{
        (release, form): 7
        for release in ("boosting", "mean", "contingency", "synthetic table")
        for form in ("csv", "sqlite", "pandas objects", "list")
    },
    **{(release, "pandas objects"): 1 for release in ("mean", "contingency")},
    **{(release, "pandas objects"): 4 for release in ("boosting", "synthetic table")},
    ("weighted", "pandas objects"): 5,
    **{
        (release, "pandas objects"): 9
        for release in ("ridge", "svm", "huber", "covariance", "quantiles", "sum", "histogram")
    },
    **{("synthetic table", form): 4 for form in ("parquet", "pandas with arrow types", "duckdb")},
}
ALL = [
    (release, form)
    for form, (world, _) in FORMATS.items()
    for release in RELEASES
    if world is UNTYPED
    or release == "logistic"
    or (release == "synthetic table" and world is TYPED)
]


@pytest.mark.parametrize(
    ("release", "form", "step"),
    [
        *((*case, step) for case, step in SOME.items()),
        *(pytest.param(*case, 1, marks=pytest.mark.long) for case in ALL),
    ],
)
def test_a_record_decides_about_its_own_row_only(monkeypatch, tmp_path, release, form, step):
    neighbours = FORMATS[form][0].neighbours(step, len(form) % step)
    worst = compare(monkeypatch, tmp_path, release, FORMATS[form], neighbours)
    assert worst > 0.05  # the neighbours do differ


@pytest.mark.parametrize("form", ["csv", "sqlite", "excel"])
def test_one_file_has_one_meaning(monkeypatch, tmp_path, form):
    """The same rows give the same sums in every storage."""
    table = [*UNTYPED.rows[:11], *UNTYPED.rows[12:]]
    expected, sums = (
        replay(monkeypatch, "logistic", UNTYPED, FORMATS[name][1](table, tmp_path))[1]
        for name in ("pandas objects", form)
    )
    assert len(sums) == len(expected)
    for (one, *_), (other, *_) in zip(sums, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_infinite_dates_of_duckdb_are_dates(monkeypatch, tmp_path):
    seen = set()
    for word in ("2020-01-01", "infinity", "-infinity"):
        path = as_file("duckdb")(TYPED.rows, tmp_path)
        with duckdb.connect(str(path)) as connection:
            connection.execute(f"UPDATE t SET day = '{word}', seen = '{word}' WHERE big = 3")
        seen.add(replay(monkeypatch, "logistic", TYPED, path)[0])
    assert len(seen) == 1


@pytest.mark.parametrize("memory", [None, "1KB"])
@pytest.mark.parametrize("form", ["csv", "sqlite", "excel", "parquet", "ibis on DuckDB"])
def test_a_table_that_was_opened_publicly_is_read_as_a_secret_one(tmp_path, form, memory):
    world, write = FORMATS[form]
    odd = {"weight": 7.0, "group": "word"} if world is UNTYPED else {"half": None, "word": "1"}
    read = []
    for table in (world.rows, world.neighbour(**odd)):
        with open_table(write(table, tmp_path)) as opened:
            every = records.read_secret_columns(opened, {}, memory=memory)
            read.append(every.take(np.arange(every.rows)))
    assert_one_row_differs(*read, 11)


# ── Broken readers are caught ─────────────────────────────────────────────────────────────────────


def as_a_public_file(table, folder):
    """One number in a column of texts has the others quoted."""
    with open_table(as_excel(table, folder)) as opened:
        return opened.rows().to_pandas()


def in_types_that_numpy_chooses(table, _):
    return pd.DataFrame(
        {n: np.array([row[k] for row in table]) for k, n in enumerate(UNTYPED.names)}
    )


def with_integers_merged_by_a_gap(table, folder):
    frame = as_objects(table, folder)
    return frame.assign(patient_id=pd.to_numeric(frame["patient_id"]))


def spell_by_the_column(column, form="any", honest=columns.read_column):
    """Numbers are spelled otherwise as soon as one row of the column holds a word."""
    values = honest(column, form)
    if np.isnan(values.numbers).any():
        return values
    texts = [f"np.float64({n})" for n in values.numbers]
    codes = np.arange(len(values)).astype(np.int32)
    return columns.CodedValues(codes, values.numbers, texts)


BROKEN = {
    "a cell types its column": ("logistic", as_a_public_file, {"weight": 7.0}),
    "numpy chooses types": ("logistic", in_types_that_numpy_chooses, {"patient_id": 0.5}),
    "a gap merges integers": ("logistic", with_integers_merged_by_a_gap, {"patient_id": None}),
    "a word spells the numbers": ("histogram", as_objects, {"group": "w"}),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_reader_that_looks_at_other_rows_is_caught(monkeypatch, tmp_path, case):
    release, write, odd = BROKEN[case]
    if case == "a word spells the numbers":
        monkeypatch.setattr(records, "read_column", spell_by_the_column)
    with pytest.raises(AssertionError):
        compare(monkeypatch, tmp_path, release, (UNTYPED, write), [UNTYPED.neighbour(**odd)])


# ── Sound files and objects: one value among others that are read as before ───────────────────────


def assert_one_row_differs(first, second, row):
    assert second.rows == first.rows
    assert list(second.columns) == list(first.columns)
    rest = np.delete(np.arange(first.rows), row)
    for name, values in first.columns.items():
        one, other = values.take(rest), second.columns[name].take(rest)
        np.testing.assert_array_equal(one.numbers, other.numbers)
        assert [one.label(k) for k in range(len(one))[:99]] == [
            other.label(k) for k in range(len(other))[:99]
        ]


def csv_with(value, folder, *, rows_before=3, name="t.csv"):
    row = b"12345,abcdefghij\n"
    content = b"a,b\n" + row * rows_before + value + b",x\n" + row * 3
    path = folder / name
    path.write_bytes(PACKED.get(path.suffix, bytes)(content))
    return path


def duckdb_with(kind, near, value, folder):
    path = folder / "t.duckdb"
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE t (a {kind}, b INTEGER)")
        connection.execute(f"INSERT INTO t VALUES ({near}, 1), ({near}, 2), ({value}, 3)")
    return path


def sqlite_with(value, folder):
    path = folder / "t.sqlite"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a TEXT, b TEXT)")
        connection.execute(f"INSERT INTO t VALUES ('1', 'x'), ('2', 'x'), ({value}, 'x')")
    connection.close()
    return path


def array_with(value, folder, kind=None):
    array = np.array([["a"], ["b"], [value]]) if kind is None else np.array([[1], [2], [value]])
    np.save(folder / "t.npy", array if kind is None else array.astype(kind))
    return folder / "t.npy"


@dataclass(frozen=True)
class OneValue:
    """Storage formats of a table with one varying value, and that value: first a plain one."""

    write: Callable
    values: tuple
    row: int = 2
    #: The name of the second value.
    label: str | None = None


def in_duckdb(kind, near, far, label=None):
    return OneValue(partial(duckdb_with, kind, near), (near, far, "NULL"), label=label)


def in_csv(value, name="t.csv", rows_before=3):
    write = partial(csv_with, name=name, rows_before=rows_before)
    return OneValue(write, (b"1", value), rows_before)


FAR = 2**62
LARGEST = {"HUGEINT": str(2**127 - 1), "UHUGEINT": str(2**128 - 1)}
LINES_IN_QUOTES = b'"' + b"\n1,x" * 200_000 + b'"'
#: The engine looks for the ends of lines where its blocks meet: at eight million bytes.
in_csv_across_blocks = partial(in_csv, LINES_IN_QUOTES, rows_before=7_600_000 // 17)
ONE_VALUE = {
    "a long value": in_csv(b"z" * 3_000_000),
    "a value longer than a block": in_csv(b"z" * 33_000_000),
    "lines in quotes": in_csv_across_blocks(),
    "lines in quotes, gz": in_csv_across_blocks("t.csv.gz"),
    "lines in quotes, zst": in_csv_across_blocks("t.csv.zst"),
    "quotes": in_csv(b'""""'),
    "a separator": in_csv(b'"1,2"'),
    "ends of lines in quotes": in_csv(b'"\r\n\n\r"'),
    "a zero byte": in_csv(b"\0"),
    "nothing": in_csv(b'""'),
    "BIT": in_duckdb("BIT", "'0110000101100001'", "'11111111'"),
    "BIGNUM": in_duckdb("BIGNUM", "1", "'1' || repeat('0', 500)"),
    **{kind: in_duckdb(kind, "1", number, number) for kind, number in LARGEST.items()},
    "TIME": in_duckdb("TIME", "'10:00'", "'24:00:00'"),
    "TIMESTAMP_S": in_duckdb("TIMESTAMP_S", "'2020-01-01'", "'infinity'"),
    **{
        f"text that is no UTF-8: {code}": OneValue(
            sqlite_with, ("'y'", f"CAST(x'{code}' AS TEXT)"), label=f"x'{code}'"
        )
        for code in ("ff41", "eda080")
    },
    "half of a surrogate pair": OneValue(array_with, ("b", "\ud800")),
    "time in an array": OneValue(partial(array_with, kind="M8[s]"), (2, FAR)),
    "duration in an array": OneValue(partial(array_with, kind="m8[s]"), (2, FAR)),
}


@pytest.mark.parametrize("case", ONE_VALUE)
def test_any_single_value_can_be_read(tmp_path, case):
    table = ONE_VALUE[case]
    plain, *others = (records.read_records(table.write(value, tmp_path)) for value in table.values)
    for other in others:
        assert_one_row_differs(plain, other, table.row)
    if table.label is not None:
        assert others[0].columns["a"].label(table.row) == table.label


class Moment(pa.ExtensionType):
    """A type of a user's own over times or durations."""

    def __init__(self, storage):
        super().__init__(storage, "memberbound.test.moment")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, _):
        return cls(storage)


@pytest.fixture
def known_moments():
    """Files keep a user-defined type that Arrow supports."""
    pa.register_extension_type(Moment(pa.timestamp("s")))
    yield
    pa.unregister_extension_type("memberbound.test.moment")


UNITS = {"s": 86_400, "ms": 86_400e3, "us": 86_400e6, "ns": 86_400e9}
TIMES = {
    **{f"duration in {u}": pa.duration(u) for u in UNITS},
    **{f"time in {u}": pa.timestamp(u) for u in UNITS},
    **{f"time in {u} with a zone": pa.timestamp(u, "UTC") for u in UNITS},
    "date in milliseconds": pa.date64(),
}
#: Pairs of one value and a near one: far values, the engine's infinities, and none.
EXTREMES = (FAR, -FAR, 2**63 - 1, 1 - 2**63, 253_402_300_800, None)


def dictionary_coded(table, _):
    coded = zip(table.column_names, table.columns, strict=True)
    return pd.DataFrame(
        {name: pd.arrays.ArrowExtensionArray(c.dictionary_encode()) for name, c in coded}
    )


def as_data_set(table, folder):
    return pa.dataset.dataset(as_file("arrow")(table, folder), format="ipc")


def opened_publicly(table, folder):
    """A caller may have opened the table for another verb before."""
    return open_table(on_ibis(table, folder))


ARROW_FORMS = {
    "parquet": as_file("parquet"),
    "arrow file": as_file("arrow"),
    "arrow stream": as_file("arrows"),
    "pyarrow": lambda table, _: table,
    "stream": lambda table, _: table.to_reader(),
    "data set": as_data_set,
    "pandas with arrow types": in_arrow_types,
}
ENGINE_FORMS = {
    "ibis": on_ibis,
    "ibis, opened publicly": opened_publicly,
    "relation": lambda table, _: on_duckdb(table).table("t"),
    "duckdb": as_file("duckdb"),
}
PLAIN_FORMS = {
    "pandas with codes": dictionary_coded,
    "polars": lambda table, _: pl.from_arrow(table),
}


def not_storable(form, case):
    """Tell whether a format's writer refuses a type, because it cannot store every value."""
    kind = TIMES[case]
    if form == "parquet":
        return pa.types.is_timestamp(kind) and kind.unit == "s"
    zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    return form in ENGINE_FORMS and (zoned or "duration" in case) and kind.unit in ("s", "ms")


def times_with(value, cases, *, extended, rows=3):
    """A table with a column of every type, in which row 2 has this value."""
    made = {}
    for case in cases:
        kind = TIMES[case]
        day = 86_400_000 if pa.types.is_date64(kind) else 1
        numbers = [0 if day > 1 else 5] * rows
        numbers[2] = None if value is None else int(value / day) * day if day > 1 else value
        times = pa.array(numbers, pa.int64()).view(kind)
        made[case] = pa.ExtensionArray.from_storage(Moment(kind), times) if extended else times
    return pa.table({**made, "b": [k % 9 for k in range(rows)]})


@pytest.mark.parametrize(
    ("form", "extended"),
    [
        *((form, False) for form in (*ARROW_FORMS, *ENGINE_FORMS, *PLAIN_FORMS)),
        *((form, True) for form in ARROW_FORMS),
    ],
)
def test_times_are_read_however_far_they_are(tmp_path, known_moments, form, extended):
    write = (ARROW_FORMS | ENGINE_FORMS | PLAIN_FORMS)[form]
    cases = [case for case in TIMES if not not_storable(form, case)]
    read = {
        value: records.read_records(write(times_with(value, cases, extended=extended), tmp_path))
        for value in (5, *EXTREMES)
    }
    for value in EXTREMES:
        assert_one_row_differs(read[5], read[value], 2)
    for case in cases if form in ARROW_FORMS else ():
        near = 0 if pa.types.is_date64(TIMES[case]) else 5
        days = near / UNITS[getattr(TIMES[case], "unit", "ms")]
        assert read[5].columns[case].numbers[0] == pytest.approx(days, rel=1e-15)
        assert abs(read[FAR].columns[case].numbers[2]) > 10_000
        assert read[None].columns[case].label(2) == ""


@pytest.mark.parametrize("form", ["ibis", "pyarrow", "pandas with arrow types"])
def test_no_time_decides_whether_there_is_a_release(monkeypatch, tmp_path, form):
    cases, extended = ["time in s", "time in ms"], form != "ibis"
    goal = pa.array(["no", "yes"] * (ROWS // 2))
    bounds = {"ill": ["no", "yes"], "b": [0, 9]}
    seen = set()
    for value in (5, FAR, 2**63 - 1):
        rows = times_with(value, cases, extended=extended, rows=ROWS).append_column("ill", goal)
        table = (ARROW_FORMS | ENGINE_FORMS)[form](rows, tmp_path)
        asked = {"target": "ill", "bounds": bounds, "eta": ETA, "insecure_seed": 7}
        seen.add(replayed(monkeypatch, lambda t=table, a=asked: published_part(protect(t, **a)))[0])
    assert len(seen) == 1


@pytest.mark.parametrize("value", [[1, 2], [10**5000], {"k": 1}, object()])
def test_any_cell_of_a_list_can_be_read(value):
    """The estimator takes lists as the reader does: a list within a list is one value."""
    table = [[k % 7, k % 3] for k in range(ROWS)]
    goal = ["no", "yes"] * (ROWS // 2)
    bounds = {"x0": [0, 7], "x1": {"categories": [0, 1, 2]}, "y": ["no", "yes"]}
    for cells, goals in (
        ([[value, 1], *table[1:]], goal),
        (table, [value, *goal[1:]]),
    ):
        model = MembershipPrivate(LogisticRegression(), eta=ETA, bounds=bounds, insecure_seed=1)
        assert model.fit(cells, goals).classes_.tolist() == ["no", "yes"]


def texts_of(values):
    """A column of texts that need not be UTF-8."""
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize(
    "column",
    [
        texts_of([b"a", b'sec"\n8642\xff"ret']),
        pa.array([0, 86_420_000_000], pa.int64()).view(pa.time64("us")),
    ],
    ids=["text", "time"],
)
def test_malformed_input_is_not_quoted(tmp_path, column, ending):
    path = stored(pa.table({"x": column, "y": [1, 2]}), tmp_path / f"t.{ending}")
    with pytest.raises(InputError, match="could not be read") as refusal:
        records.read_secret_columns(path, {})
    assert "sec" not in str(refusal.value)
    assert "8642" not in str(refusal.value)


@pytest.mark.parametrize("value", [1e307, -1e308, float("inf"), float("nan"), "word"])
@pytest.mark.parametrize("learner", ["ridge", "huber"])
def test_a_trial_cannot_stop_a_release(tmp_path, learner, value):
    """The published part is JSON and depends on noisy values only, for any single target."""
    draws = np.random.default_rng(2)
    frame = pd.DataFrame({"a": draws.normal(size=ROWS)})
    frame["z"] = frame["a"].astype(object)
    frame.loc[7, "z"] = value
    frame.to_csv(tmp_path / "t.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = protect(
            tmp_path / "t.csv",
            target="z",
            learner=learner,
            eta=ETA,
            bounds={"a": [-3, 3], "z": [-3, 3]},
            insecure_seed=1,
        )
    json.dumps(found.to_dict(), allow_nan=False)


#: A large number, and a NaN that signals, in double and in single precision.
LOUD = {
    "large": np.array([1e308]),
    "signalling": np.array([0x7FF0000000000001], np.uint64).view(np.float64),
    "signalling, single": np.array([0x7F800001], np.uint32).view(np.float32),
}


@pytest.mark.parametrize("case", LOUD)
def test_no_record_makes_numpy_warn(case):
    """A warning is visible, and with warnings as errors there is no release at all."""
    value = LOUD[case]
    # Heavy tails about a small median, by which numbers are divided.
    small = np.tile(np.ldexp(1.0, -np.arange(15)), 2_000).astype(value.dtype)
    table = pd.DataFrame(
        {"a": np.concatenate([small, value]), "b": ["no", *["no", "yes"] * 15_000]}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = protect(table, target="b", eta=ETA, insecure_seed=1)
        summarize(table, columns="a", statistic="mean", eta=ETA, bounds={"a": [0, 1]})
    (code,) = found.released.encoder.columns
    assert 0 < code.scaling.unit < 0.1


WIDE = {
    "bytes": lambda word: np.array([[b"no", b"a"], [b"yes", b"b"]] * 119 + [[b"no", word]] * 2),
    "texts": lambda word: np.array([["no", "a"], ["yes", "b"]] * 119 + [["no", word.decode()]] * 2),
    "pandas with codes": lambda word: pd.DataFrame(
        {
            "x0": ["no", "yes"] * 120,
            "x1": pd.arrays.ArrowExtensionArray(
                pa.array(["a", "b"] * 119 + [word.decode()] * 2).dictionary_encode()
                if len(word) < 9
                else pa.array(["a", "b"] * 119 + [word.decode()] * 2)
                .dictionary_encode()
                .cast(pa.dictionary(pa.int16(), pa.string()))
            ),
        }
    ),
}


@pytest.mark.parametrize("form", WIDE)
def test_the_width_of_a_type_is_not_declared(monkeypatch, form):
    """numpy chooses it by the longest value, and Arrow that of codes by the number of words."""
    monkeypatch.setattr(synthesizing, "measure_fidelity", lambda *_: UNSAID)
    seen = set()
    for word in (b"a", b"a long word"):
        table = WIDE[form](word)
        texts = ["a", "b"] if form != "bytes" else ["x'61'", "x'62'"]
        goals = ["no", "yes"] if form != "bytes" else ["x'6e6f'", "x'796573'"]
        asked = {"bounds": {"x0": goals, "x1": texts}, "eta": ETA, "insecure_seed": 7, "rows": 30}

        def made(table=table, asked=asked):
            answer = synthesize(table, **asked)
            return published_part(answer), repr(answer.table.dtypes.to_dict())

        seen.add(replayed(monkeypatch, made)[0])
    assert len(seen) == 1


@pytest.mark.parametrize("words", [20, 40])
def test_codes_of_arrow_are_as_long_as_all_words_need(words):
    """One record decides whether the words of all parts fit into the codes' declared type."""
    parts = [
        pa.array([f"{part}{k}" for k in range(size)]).dictionary_encode()
        for part, size in (("a", 100), ("b", words))
    ]
    short = pa.dictionary(pa.int8(), pa.string())
    column = pa.chunked_array([part.cast(short) for part in parts])
    frame = pd.DataFrame({"a": pd.arrays.ArrowExtensionArray(column)})
    assert records.read_records(frame).columns["a"].distinct == 100 + words


@pytest.mark.parametrize("learner", ["ridge", "huber", "boosting"])
def test_a_range_that_cannot_be_divided_is_refused_for_all_rows(learner):
    """Its half is 0: rows of nothing but missing targets would pass, and one number would not."""
    goals = (["none"] * ROWS, ["none"] * (ROWS - 1) + ["7"])
    for goal in goals:
        table = pd.DataFrame({"a": np.arange(ROWS) % 7, "z": goal})
        bounds = {"a": [0, 7], "z": [0, 5e-324]}
        with pytest.raises(InputError, match="range"):
            fit_private(table, "z", eta=ETA, learner=learner, bounds=bounds)


def test_a_long_number_is_read_however_many_digits_python_reads():
    short, long = "+" + "7" * 20, "7" * 3000
    read = [columns.read_value(text) for text in (short, long)]
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert [columns.read_value(text) for text in (short, long)] == read
    finally:
        sys.set_int_max_str_digits(before)
    assert [label for _, label in read] == [short[1:], long]
