"""Open a table: a file, a database table or an object in memory becomes one ibis expression.

===================================  ============================================================
what                                 how its values are compared
===================================  ============================================================
``.csv`` ``.tsv`` (``.gz`` ``.zst``  as text, exactly as written (see
``.xz`` ``.bz2``)                    :mod:`memberbound.tables.delimited`)
``.parquet``                         as typed in the file
``.arrow`` ``.feather``              as typed in the file (file or stream format)
``.npy``                             2-D array: columns ``x0``, ``x1``, …; 1-D: one column
``.duckdb`` and SQLite files         the table named by ``table=``, opened read-only
pandas, polars, pyarrow, numpy       as typed; a pandas NaN is null, as pandas means it
an ibis table                        on its own engine
===================================  ============================================================

Two rows are the same cell when every column agrees, where

- null is a value of its own: null equals null and nothing else, the empty string included;
- NaN equals NaN and differs from null;
- numbers of one column are compared as numbers, so 0.0 equals -0.0;
- text is compared by code points: case, accents' encoding and blanks count.

Merging different values would lower the certificate, so a learner that can tell such equal values
apart (the sign of a zero) is outside of what is certified.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from memberbound.errors import InputError
from memberbound.tables.delimited import COMPRESSIONS, delimited_table
from memberbound.tables.engine import BATCH_ROWS, Engine, identifier, literal, reading

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import numpy as np
    import pyarrow as pa

__all__ = ["Columns", "Table", "open_table"]

T = TypeVar("T")
Columns = str | Sequence[str] | None

_DELIMITED = {".csv": None, ".tsv": "\t"}
_PARQUET = (".parquet", ".pq")
_ARROW = (".arrow", ".feather", ".ipc", ".arrows")
_DATABASE = (".duckdb", ".ddb", ".db", ".sqlite", ".sqlite3")
_KNOWN = (
    ".csv, .tsv (also .gz, .zst, .xz, .bz2), .parquet, .arrow, .feather, .npy, .duckdb, .sqlite"
)
#: Values per batch when an array is copied.
_VALUES = 2**21


@dataclass(frozen=True)
class Table:
    """A table as an ibis expression, with the engine it runs on; a context manager.

    ``engine`` is the embedded engine, or None when the expression runs elsewhere.
    """

    expr: ir.Table
    name: str
    engine: Engine | None = None
    path: Path | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self.expr.columns)

    def __enter__(self) -> Table:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the engine and delete its private folder."""
        if self.engine is not None:
            self.engine.close()

    def choose(self, columns: Columns) -> list[str]:
        """Return the named columns, or all; refuse unknown, repeated and missing names."""
        if columns is None:
            names = list(self.columns)
        else:
            names = [columns] if isinstance(columns, str) else list(columns)
        if not names:
            raise InputError(f"{self.name} must be counted over at least one column, got none.")
        for index, column in enumerate(names):
            if column not in self.columns:
                known = ", ".join(map(repr, self.columns))
                raise InputError(f"{self.name} has no column {column!r}; it has {known}.")
            if column in names[:index]:
                raise InputError(f"columns must differ from one another, got {column!r} twice.")
        return names

    def run(self, label: str, call: Callable[[], T]) -> T:
        """Run ``call`` with progress on standard error and errors as one sentence."""
        with reading(self.name):
            return call() if self.engine is None else self.engine.watched(label, call)

    def fetch(self, expr: ir.Table, label: str = "counting cells") -> pa.Table:
        """Return the rows of a small result."""
        return self.run(label, expr.to_pyarrow)

    def batches(self, expr: ir.Table, rows: int = BATCH_ROWS) -> pa.RecordBatchReader:
        """Return the rows of an expression over this table as a stream."""
        if self.engine is not None:
            return self.engine.batches(expr, rows)
        backend = expr.get_backend()
        if backend.name == "sqlite":
            return _sqlite_batches(backend, expr, rows)
        return expr.to_pyarrow_batches(chunk_size=rows)

    def embedded(self, engine: Engine | None = None, columns: list[str] | None = None) -> Table:
        """Return this table on the embedded engine, copied to its private folder if need be."""
        if self.engine is not None and engine in (None, self.engine):
            return self
        target = engine or Engine()
        expr = self.expr if columns is None else self.expr.select(*columns)

        def copy() -> ir.Table:
            stream = self.batches(expr)
            return target.copied(stream.schema, stream)

        return Table(self.run("copying the table", copy), self.name, target, self.path)


def open_table(
    source: Any,
    table: str | None = None,
    *,
    delimiter: str | None = None,
    memory_limit: str | None = None,
    beside: Table | None = None,
) -> Table:
    """Return the table in a file, in a database or in memory; nothing is read but its columns.

    ``table`` names the table of a database file; it may be left out when there is only one.
    ``beside`` opens on the engine of another table, so that both can be queried together.

    Edge cases: a :class:`Table` is returned as it is.  A missing file, a directory, an unknown
    extension, a broken file or a table without columns is an :class:`InputError`.

    Examples:
        >>> import pyarrow
        >>> with open_table(pyarrow.table({"sex": ["f", "m"], "age": [30, None]})) as people:
        ...     people.columns
        ('sex', 'age')
    """
    if isinstance(source, Table):
        return source
    owner = None if beside is None else beside.engine
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        _check_file(path)
        name = str(path)
        if path.suffix.lower() in _DATABASE and _magic(path).startswith(b"SQLite format 3"):
            with reading(name):
                return _checked(Table(*_sqlite(path, table), name=name, path=path))
    else:
        path, name = None, f"the {type(source).__name__}"
        if type(source).__module__.startswith("ibis.") and hasattr(source, "get_backend"):
            shared = owner is not None and source.get_backend() is owner.backend
            return _checked(Table(source, "the ibis table", owner if shared else None))
    engine = owner or Engine(memory_limit)
    try:
        with reading(name):
            if path is None:
                expr = _in_memory(engine, source)
            else:
                expr = _file(engine, path, table, delimiter)
            return _checked(Table(expr, name, engine, path))
    except BaseException:
        if owner is None:
            engine.close()
        raise


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{path} is a directory; name one file ({_KNOWN}).")
    if not path.exists():
        raise InputError(f"{path} does not exist.")


def _checked(table: Table) -> Table:
    if not table.columns:
        raise InputError(f"{table.name} has no columns.")
    return table


def _magic(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(16)


def _plain(engine: Engine, path: Path) -> Path:
    """Return a path to the same file that the engine cannot take for a pattern of names."""
    if not any(character in str(path) for character in "*?[{\\"):
        return path
    link = engine.folder / engine.fresh("file")
    link.symlink_to(path.absolute())
    return link


def _file(engine: Engine, path: Path, table: str | None, delimiter: str | None) -> ir.Table:
    suffix = path.suffix.lower()
    if suffix in _DATABASE:
        return _duckdb(engine, path, table)
    if table is not None:
        raise InputError(f"table must be left out for {path}: only a database holds several.")
    compression = suffix if suffix and suffix in COMPRESSIONS else ""
    inner = Path(path.stem).suffix.lower() if compression else suffix
    if inner in _DELIMITED:
        chosen = delimiter or _DELIMITED[inner]
        return delimited_table(engine, _plain(engine, path), str(path), compression, chosen)
    if suffix in _PARQUET:
        if _magic(path)[:4] != b"PAR1":
            raise InputError(f"{path} is not a Parquet file.")
        file = literal(_plain(engine, path))
        return engine.view(f"SELECT * FROM read_parquet({file}, hive_partitioning = false)")
    if suffix in _ARROW:
        return _arrow_file(engine, path)
    if suffix == ".npy":
        return _npy(engine, path)
    raise InputError(f"{path} must end in one of {_KNOWN}.")


def _arrow_file(engine: Engine, path: Path) -> ir.Table:
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyarrow.fs import LocalFileSystem

    if _magic(path).startswith(b"ARROW1"):
        local = LocalFileSystem()
        return engine.arrow(ds.dataset(str(path.absolute()), filesystem=local, format="ipc"))
    if _magic(path).startswith(b"FEA1"):
        raise InputError(f"{path} is in the first Feather format; save it again as version 2.")
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
        return engine.copied(stream.schema, stream)


def _npy(engine: Engine, path: Path) -> ir.Table:
    import numpy as np

    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise InputError(f"{path} could not be read: {error}.") from error
    return _array(engine, array, str(path))


def _array(engine: Engine, array: np.ndarray[Any, Any], name: str) -> ir.Table:
    """Copy an array in blocks; DuckDB cannot scan it as it lies on disk."""
    import numpy as np
    import pyarrow as pa

    if array.ndim == 1:
        array = array[:, None]
    if 0 in array.shape[1:]:
        raise InputError(f"{name} has no columns.")
    if array.ndim != 2 or array.dtype.names or array.dtype.kind in "OcV":
        raise InputError(
            f"{name} must hold a 2-D array of plain values, got {array.ndim} dimensions of "
            f"{array.dtype}."
        )
    if array.dtype == np.float16:
        array = array.astype(np.float32)  # exact, and the engine has no half floats
    names = [f"x{i}" for i in range(array.shape[1])]
    step = max(1, _VALUES // max(1, array.shape[1]))

    def blocks() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(array), step):
            block = np.asarray(array[start : start + step])
            yield pa.record_batch([np.ascontiguousarray(c) for c in block.T], names=names)

    kind = pa.array(np.asarray(array[:1]).ravel()).type
    return engine.copied(pa.schema([(column, kind) for column in names]), blocks())


def _in_memory(engine: Engine, source: Any) -> ir.Table:
    import numpy as np
    import pyarrow as pa

    if isinstance(source, np.ndarray):
        return _array(engine, source, "the array")
    if isinstance(source, pa.RecordBatchReader):
        return engine.copied(source.schema, source)
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    elif hasattr(source, "iloc") and hasattr(source, "columns"):  # pandas, not imported for this
        source = pa.Table.from_pandas(source, preserve_index=False)
    elif not isinstance(source, pa.Table) and hasattr(source, "__arrow_c_stream__"):
        source = pa.table(source)
    if not isinstance(source, pa.Table):
        raise InputError(
            "a table must be a file name, a pandas, polars or pyarrow table, a numpy array or an "
            f"ibis table, got {type(source).__name__}."
        )
    if not source.column_names:
        raise InputError("the table in memory has no columns.")
    return engine.arrow(source)


def _duckdb(engine: Engine, path: Path, table: str | None) -> ir.Table:
    catalog = engine.fresh("database")
    engine.sql(f"ATTACH {literal(path)} AS {identifier(catalog)} (READ_ONLY, TYPE duckdb)")
    found = engine.sql(
        "SELECT table_schema, table_name FROM information_schema.tables "
        f"WHERE table_catalog = {literal(catalog)} ORDER BY ALL"
    ).fetchall()
    schema, name = _pick(path, table, {n if s == "main" else f"{s}.{n}": (s, n) for s, n in found})
    return engine.backend.table(name, database=(catalog, schema))


def _sqlite(path: Path, table: str | None) -> tuple[ir.Table]:
    import ibis

    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    backend = ibis.sqlite.from_connection(connection)
    found = connection.execute(
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND "
        "name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
    ).fetchall()
    expr = backend.table(_pick(path, table, {name: name for (name,) in found}))
    # A column may carry a collation that calls 'a' and 'A' equal; appended text has none.
    text = {name: expr[name] + "" for name, kind in expr.schema().items() if kind.is_string()}
    return (expr.mutate(**text) if text else expr,)


def _sqlite_batches(backend: Any, expr: ir.Table, rows: int) -> pa.RecordBatchReader:
    """Stream from SQLite as typed: ibis goes through pandas, where nulls make integers floats."""
    import pyarrow as pa

    schema = expr.schema().to_pyarrow()
    cursor = backend.con.execute(backend.compile(expr))

    def produced() -> Iterator[pa.RecordBatch]:
        while block := cursor.fetchmany(rows):
            arrays = zip(zip(*block, strict=True), schema.types, strict=True)
            yield pa.record_batch([pa.array(v, kind) for v, kind in arrays], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, produced())


def _pick(path: Path, table: str | None, found: dict[str, T]) -> T:
    names = ", ".join(map(repr, found)) or "no table at all"
    if table is not None:
        if table not in found:
            raise InputError(f"{path} has no table {table!r}; it has {names}.")
        return found[table]
    if len(found) != 1:
        raise InputError(f"table must name one table of {path}, which has {names}.")
    return next(iter(found.values()))
