"""Tables on engines of their own: the same certificates as on the embedded one."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memberbound import certify, harden
from memberbound.errors import InputError, MemberboundError
from memberbound.tables.counting import count_profile

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "howto" / "more-than-one-machine.md"
#: Location of the server's programs on Debian.
PLACES = [*sorted(Path("/usr/lib/postgresql").glob("*/bin")), Path("/usr/local/bin")]


def people(rows: int = 600, seed: int = 18) -> pd.DataFrame:
    """Rows in which an engine could merge what differs: case, blanks, accents, zeros."""
    rng = np.random.default_rng(seed)
    words = np.array(["f", "m", "F", "f ", "größe", "gro\u0308ße", "\\134", "\\\\", None], object)
    return pd.DataFrame(
        {
            "who": np.arange(rows) // 2,
            "sex": words[rng.integers(0, len(words), rows)],
            "age": rng.integers(20, 24, rows),
            "size": rng.choice([0.0, -0.0, 1.5, 2.25], rows),
        }
    )


def fresh() -> pd.DataFrame:
    """Rows of the same law that are independent of these people."""
    return people(160, seed=19)


@pytest.fixture(scope="module")
def postgres():
    """A Postgres server for the module, with two tables; skipped with a reason elsewhere."""
    psycopg = pytest.importorskip("psycopg", reason="the driver of Postgres is not installed")
    home = next((p for p in PLACES if (p / "initdb").exists() or (p / "pg_ctl").exists()), None)
    initdb = home and next((p / "initdb" for p in PLACES if (p / "initdb").exists()), None)
    if initdb is None:
        pytest.skip("no Postgres server here; on Debian: apt-get install postgresql")
    # Not below pytest's folders, which another user cannot enter.
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    user: list[str] = []
    if os.geteuid() == 0:  # the server refuses to run as root
        if shutil.which("runuser") is None:
            pytest.skip("Postgres does not run as root, and runuser is missing")
        shutil.chown(folder, "postgres")
        user = ["runuser", "-u", "postgres", "--"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/"}
    made = [str(initdb), "-D", f"{folder}/data", "-A", "trust", "-E", "UTF8", "-U", "reader"]
    subprocess.run([*user, *made, "--locale=C.UTF-8"], check=True, **quiet)
    options = f"-k {folder} -p {port} -c listen_addresses=127.0.0.1 -c fsync=off"
    control = [*user, str(initdb.with_name("pg_ctl")), "-D", f"{folder}/data", "-w"]
    subprocess.run([*control, "-o", options, "start"], check=True, **quiet)
    try:
        address = f"postgres://reader@127.0.0.1:{port}/postgres"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(
                "CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level1', "
                "deterministic = false)"
            )
            for name, rows in (("people", people()), ("fresh", fresh())):
                connection.execute(
                    f"CREATE TABLE {name} (who int, sex text COLLATE blind, age int, size float8)"
                )
                texts = rows.astype(object).where(rows.notna(), None)
                with connection.cursor() as cursor:
                    cursor.executemany(
                        f"INSERT INTO {name} VALUES (%s, %s, %s, %s)",
                        [tuple(row) for row in texts.itertuples(index=False)],
                    )
        yield address, control
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=False, **quiet)
        shutil.rmtree(folder, ignore_errors=True)


def same(one, two) -> None:
    """Two certificates agree in every field except the description of the source."""
    pair = [answer.to_dict() for answer in (one, two)]
    for fields in pair:
        for name in ("warnings", "assumptions", "roles"):
            fields.pop(name)
    assert pair[0] == pair[1]


QUESTIONS = [
    {"columns": ["sex", "age"]},
    {"columns": ["sex", "age", "size"]},
    {"columns": ["sex", "age"], "unit": "who"},
]


@pytest.fixture(scope="module")
def server(postgres):
    """The server by way of ibis."""
    import ibis

    return ibis.connect(postgres[0])


@pytest.mark.parametrize("asked", QUESTIONS, ids=["text", "floats", "unit"])
def test_postgres_counts_as_the_embedded_engine_does(server, asked):
    """Also under a collation for which f, F and ö in two spellings are equal."""
    same(certify(server.table("people"), **asked), certify(people(), **asked))


def test_a_key_that_trusts_the_engine_is_noticed(server, monkeypatch):
    """Negative control: grouping by the column itself merges cells, which is too optimistic."""
    from memberbound.tables import exact

    right = count_profile(server.table("people"), ["sex"]).expanded().size
    assert right == 9
    monkeypatch.setattr(exact, "_key_elsewhere", lambda rows, column, name: rows[column])
    assert count_profile(server.table("people"), ["sex"]).expanded().size < right


def test_a_reference_is_counted_and_rows_are_not_sent(server):
    columns = ["sex", "age"]
    same(
        certify(server.table("people"), columns=columns, reference=server.table("fresh")),
        certify(people(), columns=columns, reference=fresh()),
    )
    with pytest.raises(InputError, match="Save it as Parquet"):
        harden(server.table("people"), columns=columns, security=0.6)


def test_the_how_to_runs(postgres):
    """The code of the page about Postgres, with the address of this server."""
    page = HOW_TO.read_text(encoding="utf-8").split("## Train models")[0]
    page = page.replace("postgres://reader@127.0.0.1:5432/postgres", postgres[0])
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(code, "more-than-one-machine.md", "exec"), {})


def test_a_connection_that_is_cut(postgres):
    """Within a call that is one sentence."""
    import ibis
    import psycopg

    table = ibis.connect(f"{postgres[0]}?application_name=cut").table("people")
    with psycopg.connect(postgres[0], autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'cut'"
        )
    time.sleep(0.2)
    with pytest.raises(MemberboundError, match="could not be queried"):
        count_profile(table, ["age"])


@pytest.fixture(scope="module")
def spark():
    """A Spark session of two threads; skipped with a reason where there is none."""
    sql = pytest.importorskip("pyspark.sql", reason="memberbound[spark] is not installed")
    import ibis

    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, and there is none here")
    session = (
        sql.SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        # Three small questions end before optimised machine code is worth making.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    rows = pd.concat([people(), fresh()]).drop(columns="size")
    texts = rows.astype(object).where(rows.notna(), None)
    for name, part in (("people", texts[:600]), ("fresh", texts[600:])):
        data = [(int(r.who), r.sex, int(r.age)) for r in part.itertuples(index=False)]
        made = session.createDataFrame(data, "who long, sex string, age long")
        made.createOrReplaceTempView(name)
    yield ibis.pyspark.connect(session)
    stopper = threading.Thread(target=session.stop, daemon=True)
    stopper.start()
    stopper.join(30)


@pytest.mark.cluster
def test_spark_counts_rows_persons_and_references(spark):
    columns, table = ["sex", "age"], spark.table("people")
    same(certify(table, columns=columns), certify(people(), columns=columns))
    same(
        certify(table, columns=columns, unit="who"),
        certify(people(), columns=columns, unit="who"),
    )
    same(
        certify(table, columns=columns, reference=spark.table("fresh")),
        certify(people(), columns=columns, reference=fresh()),
    )
