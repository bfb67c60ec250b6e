"""The embedded SQL engine: DuckDB in this process, bounded in memory.

It may use a stated amount of memory and writes what exceeds it to a temporary folder that only this
user can read and that is deleted with the engine.  ibis, which takes longer to import than most
tables take to read, is loaded when an expression is needed.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import ENOSPC
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from memberbound.errors import FULL, InputError, MemberboundError, unwritable
from memberbound.scratch import PrivateFolder, remove_leftovers
from memberbound.tables.exact import exact_array, exact_batches, exact_schema

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as pads
    from duckdb import DuckDBPyConnection
    from ibis.backends.duckdb import Backend

#: Default share of the machine's memory for an engine.
_MEMORY_SHARE = 0.5
_NO_SPACE = os.strerror(ENOSPC)
#: Rows per batch of a stream.
BATCH_ROWS = 65_536


def size_in_bytes(memory: str | None) -> int:
    """Return a size such as ``2GB`` in bytes; half of the machine's memory for None."""
    text = _default_memory() if memory is None else str(memory)
    match = re.fullmatch(r"\s*([0-9]+(?:[.][0-9]+)?)\s*([kmgt])(i?)b\s*", text.lower())
    if match is None or float(match[1]) <= 0:
        raise InputError(f"memory must be a size such as '2GB', got {memory!r}.")
    base = 1024 if match[3] else 1000
    return int(float(match[1]) * base ** (1 + "kmgt".index(match[2])))


def literal(text: str | os.PathLike[str]) -> str:
    """Return ``text`` as an SQL string, whatever characters it holds."""
    return "'" + os.fspath(text).replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Return ``name`` as a quoted SQL identifier, whatever characters it holds."""
    return '"' + name.replace('"', '""') + '"'


#: Remedy for a file that is not UTF-8.
ENCODING_REMEDY = (
    "Name its encoding, such as latin-1, cp1252 or utf-16 (--encoding latin-1; in Python "
    "encoding='latin-1'; on the web beside the file)."
)


#: A value that an engine, Arrow or SQLite quotes where it breaks the rules of its format or type.
_QUOTED = re.compile(
    r"""\b((?:value|string|text|convert|format|range|timestamp|date|time):?)"""
    r"""[ ](?:".*"|'.*'|-?\d\S*)|(?<=\])()[ ]-?\d+""",
    re.DOTALL,
)
#: The engine's complaint about a record of a CSV file, without the quoted record.
_CSV_FAULT = re.compile(
    r"Expected Number of Columns: \d+ Found: \d+|Value with unterminated quote found|"
    r"Invalid unicode \(byte sequence mismatch\) detected(?:\. This file is not utf-8 encoded)?|"
    r"Maximum line size of \d+ bytes exceeded"
)


def one_sentence(error: BaseException) -> str:
    """Return the first sentence of an engine's message, without its class, its SQL and the data."""
    message = str(error)
    head, mark, tail = message.partition("CSV Error on Line: ")
    if mark and len(head) < 30:
        # The record itself follows, which is not shown; its number is.
        fault = _CSV_FAULT.search(tail)
        number = re.match(r"\d*", tail)[0]  # type: ignore[index]  # it fits everything
        return f"{mark}{number}" + (f", {fault[0]}" if fault else "")
    lines = [line.strip().rstrip(".") for line in _QUOTED.sub(r"\1\2", message).splitlines()]
    shown = [x for x in lines if x and not x.startswith(("LINE 1:", "Possible"))]
    if not shown:
        return type(error).__name__
    head, mark, tail = shown[0].partition("Error: ")
    return tail if mark and len(head) < 30 else shown[0]


def _ibis_errors() -> tuple[type[Exception], ...]:
    """Return what ibis raises, if it was imported."""
    exceptions = sys.modules.get("ibis.common.exceptions")
    return () if exceptions is None else (exceptions.IbisError,)


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn what an engine or a file format raises while reading ``name`` into one sentence."""
    import lzma
    import sqlite3
    import struct
    import zlib

    import duckdb
    import pyarrow as pa

    formats = (duckdb.Error, pa.ArrowException, sqlite3.Error)
    damaged = (zlib.error, lzma.LZMAError, struct.error, EOFError, UnicodeError, OverflowError)
    try:
        yield
    except MemberboundError:
        raise
    except duckdb.InterruptException as error:
        # DuckDB reports Ctrl-C like this, here and as a RuntimeError below.
        raise KeyboardInterrupt from error
    except (duckdb.OutOfMemoryException, MemoryError) as error:
        raise MemberboundError(
            f"{name} does not fit into the memory and disk allowed: {one_sentence(error)}."
        ) from error
    except OSError as error:
        if error.errno in FULL:
            raise unwritable("a temporary copy of the table", error) from error
        raise InputError(f"{name} could not be read: {one_sentence(error)}.") from error
    except (*formats, *damaged, *_ibis_errors(), RecursionError) as error:
        if isinstance(error, duckdb.IOException) and _NO_SPACE in str(error):
            raise unwritable("a temporary copy of the table", OSError(ENOSPC, _NO_SPACE)) from error
        remedy = f" {ENCODING_REMEDY}" if "not utf-8" in str(error) else ""
        raise InputError(f"{name} could not be read: {one_sentence(error)}.{remedy}") from error
    except RuntimeError as error:  # after the formats: some of their errors are such errors too
        if str(error) == "Query interrupted":
            raise KeyboardInterrupt from error
        raise


class Engine:
    """One DuckDB connection with its memory limit and its private folder.

    ``memory_limit`` is a size such as ``"2GB"``; half of the machine's memory unless given.
    """

    def __init__(self, memory_limit: str | None = None) -> None:
        import duckdb

        remove_leftovers(tempfile.gettempdir())
        private = PrivateFolder()
        self.folder = private.path
        self._serial = 0
        #: Views of what was copied by columns.
        self.copies: set[str] = set()
        config: dict[str, str | bool | int | float | list[str]] = {
            "threads": _cores(),
            "memory_limit": _default_memory() if memory_limit is None else memory_limit,
            "temp_directory": str(self.folder),
            # A database from a stranger may name extensions.
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        try:
            self.connection: DuckDBPyConnection = duckdb.connect(":memory:", config=config)
        except BaseException as error:
            private.remove()
            if not isinstance(error, (duckdb.Error, ValueError)):
                raise
            raise InputError(
                f"memory_limit must be a size such as '2GB', got {memory_limit!r}."
            ) from error
        self._finalizer = weakref.finalize(self, _release, self.connection, private)
        settings = {
            # It would be drawn on stdout.
            "enable_progress_bar": "false",
            # Every file is scanned once or twice; keeping it would only fill the memory.
            "enable_external_file_cache": "false",
            # Columns that are read one after the other have their rows in one order.
            "preserve_insertion_order": "true",
            # As ibis sets them for its connections.
            "TimeZone": "'UTC'",
            "python_enable_replacements": "false",
        }
        for name, value in settings.items():
            self.sql(f"SET {name} = {value}")

    @cached_property
    def backend(self) -> Backend:
        """This engine for expressions of ibis."""
        import ibis

        return ibis.duckdb.from_connection(self.connection)

    def close(self) -> None:
        """Drop everything and delete the private folder; calling twice does no harm."""
        self._finalizer()

    def sql(self, statement: str) -> DuckDBPyConnection:
        """Run one statement."""
        return self.connection.execute(statement)

    def fresh(self, stem: str) -> str:
        """Return a name that nothing in this engine has."""
        self._serial += 1
        return f"memberbound_{stem}_{self._serial}"

    def plain_path(self, path: Path) -> Path:
        """Return a path to a file that DuckDB cannot take for a pattern of names."""
        if not any(character in str(path) for character in "*?[{\\"):
            return path
        link = self.folder / f"{self.fresh('file')}{path.suffix}"
        link.symlink_to(path.absolute())
        return link

    def view(self, select: str) -> str:
        """Return the name of a view of a SELECT."""
        name = self.fresh("view")
        self.sql(f"CREATE TEMP VIEW {name} AS {select}")
        return name

    def arrow(self, data: pa.Table | pads.Dataset, *, secret: bool = False) -> str:
        """Return the name of an Arrow table or data set, which is not copied if exact.

        ``secret``: see :func:`~memberbound.tables.exact.exact_type`.
        """
        import pyarrow as pa

        exact = exact_schema(data.schema, secret=secret)
        if exact.types != data.schema.types:
            if not isinstance(data, pa.Table):
                return self.write_batches(data.schema, data.to_batches(), secret=secret)
            columns = zip(data.columns, exact.types, strict=True)
            data = pa.table([exact_array(c, kind) for c, kind in columns], data.column_names)
        name = self.fresh("arrow")
        self.connection.register(name, data)
        # A column without a type holds nothing but nulls; ibis has no name for it.
        untyped = [f.name for f in data.schema if pa.types.is_null(f.type)]
        if not untyped:
            return name
        typed = ", ".join(f"CAST({identifier(c)} AS VARCHAR) AS {identifier(c)}" for c in untyped)
        return self.view(f"SELECT * REPLACE ({typed}) FROM {name}")

    def write_batches(
        self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, secret: bool = False
    ) -> str:
        """Write batches to a Parquet file in the private folder and return a view of it."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.folder / f"{self.fresh('copy')}.parquet"
        exact = exact_schema(schema, secret=secret)
        # A dictionary of floats would call all NaNs one.
        text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary)
        listed = [f.name for f in exact if any(test(f.type) for test in text)]
        # A failure here is not the fault of the source.
        with writing():
            writer = pq.ParquetWriter(
                path, exact, compression="zstd", use_dictionary=listed or False
            )
        try:
            for batch in exact_batches(exact, batches):
                with writing():
                    writer.write_batch(batch)
        finally:
            with writing():
                writer.close()
        view = self.parquet([path])
        self.copies.add(view)
        return view

    def parquet(self, paths: Iterable[Path], *, partitioned: bool = False) -> str:
        """Return a view of Parquet files of one schema; their names must hold no patterns.

        With ``partitioned`` folders ``name=value`` give columns of text.
        """
        listed = ", ".join(map(literal, paths))
        options = f"hive_partitioning = {partitioned}, hive_types_autocast = false"
        return self.view(f"SELECT * FROM read_parquet([{listed}], {options})")


class LazyEngine:
    """The embedded engine that tables share, started when it is first needed."""

    def __init__(self, memory_limit: str | None = None) -> None:
        self.memory_limit = memory_limit
        self._engine: Engine | None = None

    def start(self) -> Engine:
        """Return the engine, started if need be."""
        if self._engine is None:
            self._engine = Engine(self.memory_limit)
        return self._engine

    def close(self) -> None:
        """Close the engine if it was started; a table that needs it later starts another."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()


@contextmanager
def writing(name: str = "a temporary copy of the table") -> Iterator[None]:
    """Turn an error of writing ``name`` into one sentence."""
    import duckdb

    try:
        yield
    except OSError as error:
        raise unwritable(name, error) from error
    except duckdb.IOException as error:
        raise MemberboundError(f"{name} could not be written: {one_sentence(error)}.") from error


def _release(connection: DuckDBPyConnection, private: PrivateFolder) -> None:
    try:
        connection.close()
    finally:
        private.remove()


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _default_memory() -> str:
    """Return half of the memory this process may use, limits of container and process included."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return "2GB"
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        limit = "max"
    if limit.isdigit():
        total = min(total, int(limit))
    total = min([total, *_process_limits()])
    return f"{max(int(total * _MEMORY_SHARE) // 2**20, 256)}MB"


def _process_limits() -> list[int]:
    """Return the limits of memory that were set for this process (``ulimit -d`` and ``-v``)."""
    try:
        import resource
    except ImportError:  # not on this system
        return []
    soft = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_DATA, resource.RLIMIT_AS)]
    return [limit for limit in soft if limit != resource.RLIM_INFINITY]
