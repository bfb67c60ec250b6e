"""Databases from strangers: nothing but their stored tables is read, and nothing in them is run."""

import sqlite3
from contextlib import closing

import duckdb
import pytest

import memberbound
from memberbound import InputError, certify, open_table
from memberbound.tables.engine import Engine

SECRET = "4f1b-of-another-file"


def make_duckdb(path, statements):
    with closing(duckdb.connect(path)) as database:
        for statement in statements:
            database.execute(statement)


def make_sqlite(path, statements):
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret.csv"
    path.write_text(f"key,value\n1,{SECRET}\n")
    return path


STORED = ("CREATE TABLE people (age INTEGER)", "INSERT INTO people VALUES (1), (2)")


def duckdb_views(secret):
    return {
        "of a file": f"CREATE VIEW other AS SELECT * FROM read_csv('{secret}')",
        "of a text": f"CREATE VIEW other AS SELECT content FROM read_text('{secret}')",
        "of names": f"CREATE VIEW other AS SELECT file FROM glob('{secret.parent}/*')",
        "of settings": "CREATE VIEW other AS SELECT name, value FROM duckdb_settings()",
        "of its own": "CREATE VIEW other AS SELECT age FROM people",
    }


@pytest.mark.parametrize(
    "kind", ["of a file", "of a text", "of names", "of settings", "of its own"]
)
@pytest.mark.parametrize("named", [True, False])
def test_a_duckdb_view_is_refused(tmp_path, secret, kind, named):
    path = tmp_path / "people.duckdb"
    make_duckdb(path, [*STORED, duckdb_views(secret)[kind]])
    if named:
        with pytest.raises(InputError, match="stored table") as refused:
            certify(path, database_table="other", n=1)
        assert SECRET not in str(refused.value)
    assert open_table(path).columns == ("age",)  # the only one


def test_a_database_with_only_a_view_is_refused(tmp_path, secret):
    path = tmp_path / "people.duckdb"
    make_duckdb(path, [duckdb_views(secret)["of a file"]])
    with pytest.raises(InputError, match="no stored table"):
        certify(path, n=1)


def test_macros_and_generated_columns_reach_no_file(tmp_path, secret):
    """DuckDB refuses a column that is computed by a query; macros of the file are not called."""
    reading = f"(SELECT content FROM read_text('{secret}'))"
    path = tmp_path / "people.duckdb"
    with closing(duckdb.connect(path)) as database:
        database.execute(f"CREATE MACRO abs(x) AS {reading}")
        for expression in (reading, "abs(age)"):
            with pytest.raises(duckdb.Error, match="subquery"):
                database.execute(
                    f"CREATE TABLE t (age INTEGER, x VARCHAR GENERATED ALWAYS AS ({expression}))"
                )
        database.execute("CREATE TABLE people (age INTEGER, twice INTEGER AS (2 * age))")
        database.execute("INSERT INTO people VALUES (1), (2)")
    assert certify(path, n=1).atoms == 2


def test_the_engine_loads_no_extension_by_itself():
    engine = Engine()
    names = ("autoinstall_known_extensions", "autoload_known_extensions")
    found = [engine.sql(f"SELECT current_setting('{name}')").fetchall() for name in names]
    assert found == [[(False,)]] * 2
    engine.close()


#: Views and virtual tables of SQLite, with the data that each could reveal.
SQLITE = {
    "of the file's place": "CREATE VIEW other AS SELECT file FROM pragma_database_list",
    "of its own": "CREATE VIEW other AS SELECT age FROM people",
    "with a function": "CREATE VIEW other AS SELECT load_extension('evil') AS x",
    "virtual": "CREATE VIRTUAL TABLE other USING rtree(id, low, high)",
}


@pytest.mark.parametrize("kind", SQLITE)
def test_an_sqlite_view_is_refused(tmp_path, kind):
    path = tmp_path / "people.sqlite"
    make_sqlite(path, [*STORED, SQLITE[kind]])
    with pytest.raises(InputError, match="stored table"):
        certify(path, database_table="other", n=1)
    if kind != "virtual":  # with stored parts that are tables, too
        assert open_table(path).columns == ("age",)


def test_triggers_are_not_run_and_generated_columns_are_computed(tmp_path):
    path = tmp_path / "people.sqlite"
    make_sqlite(
        path,
        [
            "CREATE TABLE people (age INTEGER, twice INTEGER AS (2 * age))",
            "INSERT INTO people (age) VALUES (1), (2)",
            "CREATE TRIGGER gone AFTER INSERT ON people BEGIN DELETE FROM people; END",
        ],
    )
    before = path.read_bytes()
    assert certify(path, n=1).atoms == 2
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["people.sqlite"]


def test_definitions_in_an_sqlite_file_are_not_trusted(tmp_path, monkeypatch):
    """A column that an unsafe function computes is refused: such functions need trust."""
    path = tmp_path / "people.sqlite"
    connect = sqlite3.connect

    def with_function(*args, **kwargs):
        database = connect(*args, **kwargs)
        database.create_function("unsafe", 1, lambda _x: SECRET, deterministic=True)
        return database

    monkeypatch.setattr(sqlite3, "connect", with_function)
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE people (age INTEGER, x TEXT AS (unsafe(age)))")
        database.execute("INSERT INTO people (age) VALUES (1)")
        database.commit()
    with pytest.raises(InputError, match="could not be read"):
        certify(path, n=1)


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("bounds", {}),
        ("certify", {}),
        ("harden", {"security": 0.9}),
        ("plan", {"security": 0.9}),
        ("population", {"query": "mean", "epsilon": 1.0}),
        ("study", {"target": "age", "quick": True}),
    ],
)
def test_a_text_that_is_not_utf8_is_not_quoted(tmp_path, verb, options):
    path = tmp_path / "people.sqlite"
    text = SECRET.encode().hex() + "ff"
    make_sqlite(
        path,
        [
            "CREATE TABLE people (age INTEGER, name TEXT)",
            f"INSERT INTO people VALUES (1, CAST(x'{text}' AS TEXT)), (2, 'b')",
        ],
    )
    with pytest.raises(InputError, match="UTF-8") as refused:
        getattr(memberbound, verb)(path, **options)
    assert SECRET not in str(refused.value)
    assert refused.value.__suppress_context__  # not in a traceback either
