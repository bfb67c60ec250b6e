"""The embedded SQL engine: DuckDB in this process, with limited memory.

It writes data beyond a stated amount of memory to a temporary folder, which only this user can read
and which is deleted with the engine.  ibis, which takes longer to import than most tables take to
read, is imported on demand.
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
#: Number of rows per batch of a stream.
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
    """Quote ``text`` as an SQL string; any character is allowed."""
    return "'" + os.fspath(text).replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Quote ``name`` as an SQL identifier; any character is allowed."""
    return '"' + name.replace('"', '""') + '"'


#: Remedy for a file that is not UTF-8.
ENCODING_REMEDY = (
    "Name its encoding, such as latin-1, cp1252 or utf-16 (--encoding latin-1; in Python "
    "encoding='latin-1'; on the web beside the file)."
)


#: A value that an engine, Arrow or SQLite quotes in an error message.
_QUOTED = re.compile(
    r"""\b((?:value|string|text|convert|format|range|timestamp|date|time):?)"""
    r"""[ ](?:".*"|'.*'|-?\d\S*)|(?<=\])()[ ]-?\d+""",
    re.DOTALL,
)
#: The engine's message about an invalid CSV record, without the quoted record.
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
        # Show the number of the record, but not the record itself, which follows.
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
    """Return the exception types of ibis, if it is imported."""
    exceptions = sys.modules.get("ibis.common.exceptions")
    return () if exceptions is None else (exceptions.IbisError,)


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn errors of an engine or a file format while reading ``name`` into one sentence."""
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
    except RuntimeError as error:  # after the formats, because some of their errors are subclasses
        if str(error) == "Query interrupted":
            raise KeyboardInterrupt from error
        raise


class Engine:
    """A DuckDB connection with a memory limit and a private folder.

    ``memory_limit`` is a size such as ``"2GB"``; half of the machine's memory unless given.
    """

    def __init__(self, memory_limit: str | None = None) -> None:
        import duckdb

        remove_leftovers(tempfile.gettempdir())
        private = PrivateFolder()
        self.folder = private.path
        self._serial = 0
        #: Views of copied columns.
        self.copies: set[str] = set()
        config: dict[str, str | bool | int | float | list[str]] = {
            "threads": _cores(),
            "memory_limit": _default_memory() if memory_limit is None else memory_limit,
            "temp_directory": str(self.folder),
            # An untrusted database may name extensions.
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
            # The progress bar would be printed to stdout.
            "enable_progress_bar": "false",
            # Every file is scanned once or twice, so caching it would only fill the memory.
            "enable_external_file_cache": "false",
            # Keep the order of rows the same between queries.
            "preserve_insertion_order": "true",
            # The same settings as ibis uses for its connections.
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
        """Close the connection and delete the private folder; may be called twice."""
        self._finalizer()

    def sql(self, statement: str) -> DuckDBPyConnection:
        """Run one statement."""
        return self.connection.execute(statement)

    def fresh(self, stem: str) -> str:
        """Return an unused name in this engine."""
        self._serial += 1
        return f"memberbound_{stem}_{self._serial}"

    def plain_path(self, path: Path) -> Path:
        """Return a path to a file that DuckDB cannot mistake for a glob pattern."""
        if not any(character in str(path) for character in "*?[{\\"):
            return path
        link = self.folder / f"{self.fresh('file')}{path.suffix}"
        link.symlink_to(path.absolute())
        return link

    def view(self, select: str) -> str:
        """Create a view of a SELECT and return its name."""
        name = self.fresh("view")
        self.sql(f"CREATE TEMP VIEW {name} AS {select}")
        return name

    def copy(self, view: str) -> str:
        """Copy the rows of a view into a table of the engine and return its name."""
        name = self.fresh("rows")
        self.sql(f"CREATE TEMP TABLE {name} AS SELECT * FROM {view}")
        return name

    def arrow(self, data: pa.Table | pads.Dataset, *, secret: bool = False) -> str:
        """Register an Arrow table or data set and return its name; exact types are not copied.

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
        # A column of type null, which ibis cannot represent.
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
        # A dictionary of floats would merge all NaNs.
        text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary)
        listed = [f.name for f in exact if any(test(f.type) for test in text)]
        # A failure here is not an error of the source.
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
        """Return a view of Parquet files with one schema; their names must not be glob patterns.

        With ``partitioned``, folders named ``name=value`` give columns of text.
        """
        listed = ", ".join(map(literal, paths))
        options = f"hive_partitioning = {partitioned}, hive_types_autocast = false"
        return self.view(f"SELECT * FROM read_parquet([{listed}], {options})")


class LazyEngine:
    """The embedded engine that tables share, started on first use."""

    def __init__(self, memory_limit: str | None = None) -> None:
        self.memory_limit = memory_limit
        self._engine: Engine | None = None

    def start(self) -> Engine:
        """Return the engine; start it if necessary."""
        if self._engine is None:
            self._engine = Engine(self.memory_limit)
        return self._engine

    def close(self) -> None:
        """Close the engine if it was started; later use starts another one."""
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
    """Return half of the memory available to this process, within container and process limits."""
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
    """Return the memory limits of this process (``ulimit -d`` and ``-v``)."""
    try:
        import resource
    except ImportError:  # not on this system
        return []
    soft = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_DATA, resource.RLIMIT_AS)]
    return [limit for limit in soft if limit != resource.RLIM_INFINITY]
