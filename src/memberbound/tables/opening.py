"""Open tables: files, databases, objects in memory and ibis expressions."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from memberbound.errors import InputError
from memberbound.files import codec_named
from memberbound.tables.engine import LazyEngine, reading
from memberbound.tables.exact import query_types
from memberbound.tables.ibis_table import IbisTable
from memberbound.tables.objects import array_of_rows, is_pandas, memory_names
from memberbound.tables.source import (
    check_file,
    file_view,
    object_view,
    open_array,
    refuse_cut,
    same_for_secret_rows,
)
from memberbound.tables.table import MemoryTable, Table, ViewTable

if TYPE_CHECKING:
    import ibis.expr.types as ir


def open_table(
    source: object,
    database_table: str | None = None,
    *,
    memory_limit: str | None = None,
    beside: Table | None = None,
    secret: bool = False,
    encoding: str | None = None,
) -> Table:
    """Open a table in a file, a database or memory, and read its column names only.

    ``database_table`` names the table of a database file; it may be left out if there is only one.
    ``encoding`` is that of a CSV file; None detects it.  ``beside`` opens the table on the engine
    of another one, so that both can be queried together.  With ``secret``, no row affects how
    another is read.

    Edge cases: a :class:`Table` is returned unchanged.  A missing file, a directory, an unknown
    extension, a broken file or a table without columns is an :class:`InputError`.

    Examples:
        >>> import pyarrow
        >>> with open_table(pyarrow.table({"sex": ["f", "m"], "age": [30, None]})) as people:
        ...     people.columns
        ('sex', 'age')
    """
    codec = codec_named(encoding)
    if isinstance(source, Table):
        return source
    engines = LazyEngine(memory_limit) if beside is None else beside.engines
    try:
        table = _open(source, database_table, codec, engines, secret=secret)
        table.owns_engine = beside is None
        if not table.columns:
            raise InputError(f"{table.name} has no columns.")
        odd = next((column for column in table.columns if "\0" in column), None)
        if odd is not None:
            raise InputError(f"{table.name} must name its columns without zero bytes, got {odd!r}.")
    except BaseException:
        if beside is None:
            engines.close()
        raise
    return table


def _open(
    source: object,
    database_table: str | None,
    codec: str | None,
    engines: LazyEngine,
    *,
    secret: bool,
) -> Table:
    """Open a source as the table of its storage."""
    if isinstance(source, (str, os.PathLike)):
        return _open_file(Path(source), database_table, codec, engines, secret=secret)
    if is_pandas(source):
        return MemoryTable(
            "the table", memory_names(source), source, engines=engines, secret=secret
        )
    if isinstance(source, (np.ndarray, list, tuple)):
        array = source if isinstance(source, np.ndarray) else array_of_rows(source)
        return MemoryTable("the array", memory_names(array), array, engines=engines, secret=secret)
    if hasattr(source, "get_backend"):
        expr = cast("ir.Table", source)
        refuse_cut(expr)
        return IbisTable(
            "the ibis table", tuple(expr.columns), expr, engines=engines, secret=secret
        )
    name = f"the {type(source).__name__}"
    with reading(name):
        view = object_view(engines.start(), source, secret=secret)
        return ViewTable(name, _view_columns(engines, view), view, engines=engines, secret=secret)


def _open_file(
    path: Path, database_table: str | None, codec: str | None, engines: LazyEngine, *, secret: bool
) -> Table:
    """Open a file: an array in memory, any other as a view of the embedded engine."""
    name = str(path)
    with reading(name):
        check_file(path, folders=True)
        if path.suffix.lower() == ".npy":
            array = open_array(path)
            return MemoryTable(
                name, memory_names(array), array, engines=engines, secret=secret, path=path
            )
        same = same_for_secret_rows(path)
        engine, secret = engines.start(), secret and not same
        view, csv = file_view(engine, path, database_table, codec=codec, secret=secret)
        return ViewTable(
            name,
            _view_columns(engines, view),
            view,
            engines=engines,
            path=path,
            csv=csv,
            secret=secret,
            reads_row_by_row=same,
            reopen=partial(_reopen, path, database_table, codec, engines),
        )


def _reopen(
    path: Path, database_table: str | None, codec: str | None, engines: LazyEngine
) -> Table:
    """Reopen a file on the same engine, so that no row affects how another is read."""
    table = _open(path, database_table, codec, engines, secret=True)
    table.owns_engine = False
    return table


def _view_columns(engines: LazyEngine, view: str) -> tuple[str, ...]:
    return tuple(query_types(engines.start().connection, f"SELECT * FROM {view}"))


def use_table(
    source: object,
    database_table: str | None = None,
    *,
    beside: Table | None = None,
    secret: bool = False,
    encoding: str | None = None,
) -> AbstractContextManager[Table]:
    """Return a context manager for a table, which closes it only if it was opened here."""
    table = open_table(source, database_table, beside=beside, secret=secret, encoding=encoding)
    return nullcontext(table) if table is source else table


def path_of(source: object) -> Path | None:
    """Return the file of a table, if it has one."""
    if isinstance(source, Table):
        return source.path
    return Path(source) if isinstance(source, (str, os.PathLike)) else None
