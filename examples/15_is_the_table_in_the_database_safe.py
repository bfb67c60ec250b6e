"""Is the table in the database safe to train on?

The rows stay in the database. A DuckDB file is opened read-only and counted inside DuckDB; a query
on your own connection is streamed and counted by row group. Neither becomes a pandas table, so
tables larger than memory work.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

import memberbound as mb

with TemporaryDirectory() as folder:
    clinic = Path(folder) / "clinic.duckdb"
    with duckdb.connect(clinic) as connection:
        connection.execute(
            """CREATE TABLE visits AS
            SELECT i AS id, DATE '2024-01-01' + (hash(i) % 365)::INT AS day,
                   (18 + hash(i * 7) % 70)::INT AS age, if(hash(i * 3) % 2 = 0, 'F', 'M') AS sex
            FROM range(200_000) AS people(i)"""
        )

    print("── The table as it is")
    print(mb.certify(clinic, database_table="visits").sentence)

    print("\n── A coarser view of it, as a query")
    with duckdb.connect(clinic, read_only=True) as connection:
        view = connection.sql(
            "SELECT age // 10 * 10 AS decade, sex, quarter(day) AS quarter FROM visits"
        )
        print(mb.certify(view).summary())
