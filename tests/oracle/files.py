"""Tables as files of every format, by the ending of a name."""

from __future__ import annotations

import bz2
import gzip
import lzma
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

PACKED = {
    ".gz": lambda text: gzip.compress(text, mtime=0),
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": lambda text: pa.compress(text, "zstd", asbytes=True),
}


def stored(table: pa.Table, path: Path, name: str = "t") -> Path:
    """Write a table; ``name`` is that of the table in a database.  Return the path."""
    if path.suffix in PACKED:
        plain = stored(table, path.with_suffix(""))
        path.write_bytes(PACKED[path.suffix](plain.read_bytes()))
        plain.unlink()
    elif path.suffix == ".csv":
        from pyarrow import csv

        csv.write_csv(table, path)
    elif path.suffix == ".parquet":
        import pyarrow.parquet as pq

        # pyarrow's dictionary of floats would merge NaNs: the writer, not the reader.
        pq.write_table(table, path, use_dictionary=False)
    elif path.suffix == ".feather":
        from pyarrow import feather

        feather.write_feather(table, path, compression="zstd")
    elif path.suffix in (".arrow", ".arrows"):
        made = pa.ipc.new_file if path.suffix == ".arrow" else pa.ipc.new_stream
        with pa.OSFile(str(path), "wb") as file, made(file, table.schema) as writer:
            writer.write_table(table)
    elif path.suffix == ".duckdb":
        in_duckdb({name: table}, path)
    else:
        columns = [table.column(column).to_pylist() for column in table.column_names]
        kinds = {field.name: _declare(field.type) for field in table.schema}
        in_sqlite(zip(*columns, strict=True), path, kinds, name)
    return path


def _declare(kind: pa.DataType) -> str:
    number = "REAL" if pa.types.is_floating(kind) else "INTEGER"
    return "TEXT" if pa.types.is_string(kind) else number


def in_duckdb(tables: Mapping[str, pa.Table], path: Path) -> Path:
    """Write tables to a new file of DuckDB: opening one for each takes longer than the rest."""
    import duckdb

    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as connection:
        for name, table in tables.items():
            connection.register("given", table)
            quoted = name.replace('"', '""')
            connection.execute(f'CREATE TABLE "{quoted}" AS SELECT * FROM given')
            connection.unregister("given")
    return path


def in_sqlite(
    rows: Iterable[Iterable[object]], path: Path, kinds: Mapping[str, str], name: str = "t"
) -> Path:
    """Write rows to a new table of SQLite with columns of these declared types."""
    quoted = [part.replace('"', '""') for part in (name, *kinds)]
    declared = ", ".join(f'"{n}" {k}' for n, k in zip(quoted[1:], kinds.values(), strict=True))
    with sqlite3.connect(path) as connection:
        connection.execute(f'DROP TABLE IF EXISTS "{quoted[0]}"')
        connection.execute(f'CREATE TABLE "{quoted[0]}" ({declared})')
        marks = ", ".join("?" * len(kinds))
        connection.executemany(f'INSERT INTO "{quoted[0]}" VALUES ({marks})', map(tuple, rows))
    connection.close()
    return path
