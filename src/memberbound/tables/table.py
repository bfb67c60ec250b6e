"""A table that is opened once: rows for an engine that counts, for learners and for releases.

Every verb takes a file, an object in memory or a :class:`Table`.  Whoever asks several verbs about
one table opens it once and passes the ``Table``: the engine, the roles of the columns, the rows in
memory and the encoded examples are made when they are first needed, and kept.
:mod:`memberbound.tables.source` says what can be opened and how values are compared.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError, MemberboundError
from memberbound.files import codec_named
from memberbound.numerics.rounding import FloatArray
from memberbound.tables.columns import Values, label_of
from memberbound.tables.csv_files import CsvFormat
from memberbound.tables.engine import BATCH_ROWS, Engine, identifier, one_sentence, reading
from memberbound.tables.exact import (
    compiled_rows,
    fetched_columns,
    moved_columns,
    stored_types,
)
from memberbound.tables.roles import (
    OF_AN_ARRAY,
    Reading,
    Roles,
    Selection,
    checked_roles,
    fewest_persons,
    inferred_roles,
    overridden,
    selected,
)
from memberbound.tables.source import (
    check_file,
    file_view,
    object_view,
    refuse_cut,
    same_for_secret_rows,
    stored_array,
)

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa
    from duckdb import DuckDBPyConnection
    from duckdb.sqltypes import DuckDBPyType
    from pandas import DataFrame

T = TypeVar("T")
Columns = str | Sequence[str] | None
#: Rows that are read at once where they need not fit into memory.
_PART_ROWS = 2**17
#: Rows looked at to infer roles where the table lies on an engine of its own.
_SAMPLE_ROWS = 100_000


@dataclass(eq=False)
class Table:
    """An open table; a context manager.

    Its rows are ``memory`` (a pandas table or an array), an expression of ibis on
    an engine of the user's (``elsewhere``), or a view of the embedded engine, which is made of
    ``memory`` when it is asked for.  ``beside`` is a table whose engine this one shares.
    ``secret`` says that no row decides how another is read.
    """

    name: str
    columns: tuple[str, ...]
    path: Path | None = None
    database_table: str | None = None
    memory: object = None
    elsewhere: ir.Table | None = None
    beside: Table | None = None
    secret: bool = False
    memory_limit: str | None = None
    #: The codec of CSV files, as Python names it.
    codec: str = "utf-8"
    #: The format of the CSV file.
    csv: CsvFormat | None = None
    #: What was inferred about columns.
    inferred: dict[str, Reading] = field(default_factory=dict)
    #: What others made of this table, such as examples for learners, by all that it depends on.
    made: dict[Hashable, object] = field(default_factory=dict)

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the engine, unless another table owns it, and let the rows in memory go."""
        for copy in ("local", "_opened_as_secret"):
            if self.__dict__.get(copy, self) is not self:
                self.__dict__.pop(copy).close()
        self.forget_rows()
        self.__dict__.pop("expr", None)
        # Tables in memory that share the engine start another one if they need it.
        engine = self.__dict__.pop("engine", None)
        if self.beside is None and engine is not None:
            engine.close()
        elif engine is not None and self.memory is not None and "view" in self.__dict__:
            engine.connection.unregister(self.__dict__.pop("view"))

    def forget_rows(self) -> None:
        """Let the rows in memory go; they are read again if asked for."""
        self.__dict__.pop("frame", None)

    # ── Rows on an engine ─────────────────────────────────────────────────────────────────────────

    @cached_property
    def engine(self) -> Engine:
        """The embedded engine, started when it is needed."""
        return Engine(self.memory_limit) if self.beside is None else self.beside.engine

    @cached_property
    def view(self) -> str:
        """The view of the embedded engine that holds exactly these rows."""
        with reading(self.name):
            return object_view(self.engine, self.memory)

    @property
    def connection(self) -> DuckDBPyConnection | None:
        """The connection of the DuckDB that has the rows; None on any other engine."""
        if self.elsewhere is None:
            return self.engine.connection
        backend = self.elsewhere.get_backend()
        return backend.con if backend.name == "duckdb" else None

    @property
    def query(self) -> str:
        """SQL for the rows, where they are on DuckDB."""
        if self.elsewhere is None:
            return f"SELECT * FROM {self.view}"
        return compiled_rows(self.elsewhere)

    @cached_property
    def expr(self) -> ir.Table:
        """The rows as an expression of ibis."""
        return self.engine.backend.table(self.view) if self.elsewhere is None else self.elsewhere

    def types(self, columns: Iterable[str]) -> dict[str, DuckDBPyType]:
        """Return the types of columns, where they are on DuckDB."""
        assert self.connection is not None
        types = stored_types(self.connection, self.query)
        return {name: types[name] for name in columns}

    def choose(self, columns: Columns) -> list[str]:
        """Return the named columns, or all; refuse unknown, repeated and missing names."""
        if columns is None:
            return list(self.columns)
        names = [columns] if isinstance(columns, str) else list(columns)
        if not names:
            raise InputError(f"columns of {self.name} must be at least one column, got none.")
        check_names(names, self.columns, self.name)
        for index, column in enumerate(names):
            if column in names[:index]:
                raise InputError(f"columns must differ from one another, got {column!r} twice.")
        return names

    def run(self, call: Callable[[], T]) -> T:
        """Run ``call`` with errors as one sentence."""
        with reading(self.name):
            try:
                return call()
            except Exception as error:
                if self.connection is not None or isinstance(error, MemberboundError):
                    raise
                # Every engine has errors of its own, and its connection may be cut.
                raise MemberboundError(
                    f"{self.name} could not be asked: {one_sentence(error)}."
                ) from error

    def fetch(self, expr: ir.Table) -> pa.Table:
        """Return the rows of a small result."""
        return self.run(expr.to_pyarrow)

    def embedded(self, beside: Table | None = None, columns: list[str] | None = None) -> Table:
        """Return this table on the embedded engine, copied to its private folder if need be.

        A copy of a secret table takes every value of every type.
        """
        if self.elsewhere is None and (beside is None or beside.engine is self.engine):
            return self
        connection, names = self.connection, self.choose(columns)
        if connection is None:
            raise InputError(
                f"{self.name} must be copied for this, which {self.expr.get_backend().name} does "
                "not do without loss. Save it as Parquet and give the file."
            )
        if self.secret and self.elsewhere is not None:
            refuse_cut(self.elsewhere, secret=True)
        copy = Table(
            self.name,
            tuple(names),
            self.path,
            beside=beside,
            secret=self.secret,
            memory_limit=self.memory_limit,
            csv=self.csv,
        )

        def copied() -> str:
            moved = moved_columns(self.types(names), self.name)
            rows = connection.sql(f"SELECT {moved} FROM ({self.query}) AS stored_rows")
            stream = rows.to_arrow_reader(BATCH_ROWS)
            return copy.engine.copied(stream.schema, stream, secret=self.secret)

        copy.view = self.run(copied)
        return copy

    @cached_property
    def local(self) -> Table:
        """This table where its rows can be looked at one by one: on the embedded engine."""
        return self.embedded()

    # ── What the columns are ──────────────────────────────────────────────────────────────────────

    @property
    def is_array(self) -> bool:
        """Whether it is an array or a list of rows, whose columns are taken for numbers."""
        return isinstance(self.memory, np.ndarray)

    def readings(self, columns: Columns = None, roles: Roles = None) -> dict[str, Reading]:
        """Return what the columns are (all unless named), inferred in one scan the first time.

        ``roles`` replace inferred ones.

        Edge cases: an unknown column or role is refused; so is the role of a number or a date for
        values that are none.  On an engine of its own the first 100 000 rows are looked at.

        Examples:
            >>> import pyarrow
            >>> people = pyarrow.table({"who": [f"p{i}" for i in range(30)], "paid": ["1,5"] * 30})
            >>> with open_table(people) as opened:
            ...     {name: reading.role for name, reading in opened.readings().items()}
            {'who': 'identifier', 'paid': 'number'}
        """
        names = self.choose(columns)
        given = checked_roles(roles, self.columns, self.name)
        unknown = [name for name in names if name not in self.inferred]
        if unknown and self.is_array:
            self.inferred |= dict.fromkeys(unknown, OF_AN_ARRAY)
        elif unknown:
            self.inferred |= self._looked_at(unknown)
        return {name: overridden(name, self.inferred[name], given.get(name)) for name in names}

    def _looked_at(self, names: list[str]) -> dict[str, Reading]:
        separator = self.separator
        if self.elsewhere is None:
            try:
                view = self.view
            except InputError:  # a column of mixed values, which cannot be counted
                if not _is_pandas(self.memory):
                    raise
                view = object_view(self.engine, _labelled(self.frame))
            return inferred_roles(self, view, names, separator)
        sample = self.elsewhere.limit(_SAMPLE_ROWS)
        texts = sample.select(**{name: sample[name].cast("string") for name in names})
        with open_table(self.fetch(texts)) as copy:
            return inferred_roles(copy, copy.view, names, separator)

    # ── Rows in memory ────────────────────────────────────────────────────────────────────────────

    @cached_property
    def frame(self) -> DataFrame:
        """The rows as pandas has them, values as they are written; of an array as numbers."""
        if self.memory is None:
            self.check_exact()
            return _framed(self.local.rows())
        if self.is_array:
            return _numbers(self.memory, self.columns, self.name)
        frame = cast("DataFrame", self.memory)
        return (
            frame if self.columns == tuple(frame.columns) else frame.set_axis(self.columns, axis=1)
        )

    def numbers(self, column: str) -> FloatArray:
        """Return one column as numbers: days for dates, NaN where a value is missing."""
        return Values.of(self.frame[column], self.readings(column)[column].form).numbers

    @cached_property
    def values(self) -> FloatArray:
        """The rows as one array of finite numbers; anything else is refused with its place."""
        if len(self.frame) == 0:
            raise InputError(f"{self.name} must hold at least one record, got none.")
        if (self.frame.dtypes == np.float64).all():
            # Numbers already: of an array this is the array itself.
            values = np.ascontiguousarray(self.frame.to_numpy())
        else:
            values = np.empty(self.frame.shape)
            for place, name in enumerate(self.columns):
                values[:, place] = self.numbers(name)
        bad = ~np.isfinite(values)
        if bad.any():
            row, column = map(int, np.argwhere(bad)[0])
            value = float(values[row, column])
            shown = "nothing (or NaN)" if np.isnan(value) else repr(value)
            raise InputError(
                f"{self.name} must hold finite numbers, got {shown} in row {row + 1}, column "
                f"{self.columns[column]!r} ({int(bad.sum())} such values). Fill or drop them first."
            )
        return values

    def parsed(self) -> Table:
        """Return these rows with numbers as numbers and dates as time stamps, their roles known."""
        import pandas as pd

        parsed, readings = {}, self.readings()
        for name, own in readings.items():
            series = self.frame[name]
            if own.role == "date":
                micros = np.round(self.numbers(name) * 86_400e6)
                # Nothing is a date far from any year that a calendar has.
                stamps = np.where(np.isfinite(micros), micros, -(2.0**63))
                parsed[name] = pd.Series(stamps.astype("int64").astype("datetime64[us]"))
            elif own.numeric and not pd.api.types.is_numeric_dtype(series):
                parsed[name] = pd.Series(self.numbers(name))
            else:
                parsed[name] = series.reset_index(drop=True)
        return self.with_frame(pd.DataFrame(parsed), readings)

    def rows(self, columns: Columns = None) -> pa.Table:
        """Return rows of the embedded engine, typed by their schema alone."""
        return self.run(lambda: self.row_batches(columns).read_all())

    @property
    def streams(self) -> bool:
        """Whether rows can be read again and again in parts."""
        if self.memory is not None or self.elsewhere is not None:
            return False
        return self.view in self.engine.copies or self.separator is None

    def count_rows(self) -> int:
        """Return the number of rows on the embedded engine."""
        counting = self.engine.sql(f"SELECT count(*) FROM ({self.query}) AS stored_rows")
        # All of the result is fetched: the connection takes no other query before.
        ((count,),) = counting.fetchall()
        return int(count)

    def row_batches(self, columns: Columns, limit: str = "") -> pa.RecordBatchReader:
        """Return rows as a stream, in their order, typed by their schema alone.

        ``limit`` is a clause of SQL (``LIMIT 10 OFFSET 5``).
        """
        chosen = fetched_columns(self.types(self.choose(columns)))
        select = f"SELECT {chosen} FROM ({self.query}) AS stored_rows {limit}"
        return self.engine.connection.sql(select).to_arrow_reader(_PART_ROWS)

    def stored_columns(self, columns: Columns = None) -> dict[str, object]:
        """Return columns as they are stored: of pandas, numpy or Arrow, or lists.

        Guarantee: a value depends on its own row and on declared types alone, also of a table that
        was opened as a public one, which is then read again.
        """
        table = self.row_by_row
        names = table.choose(columns)
        if table.memory is None:
            arrow = table.local.rows(names)
            return dict(zip(arrow.column_names, arrow.columns, strict=True))
        stored = _columns_in_memory(table.memory, table.columns)
        return {name: stored[name] for name in names}

    def repeated_persons(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return the columns that seem to identify persons, some of whom have several rows.

        For the owner of the rows only: one record can decide it.
        """
        least = {name: few for name in columns if (few := fewest_persons(name)) is not None}
        if not least:
            return ()
        if self.memory is not None:
            stored = _columns_in_memory(self.memory, self.columns)
            values = {name: Values.of(stored[name], "unit") for name in least}
            counts = [(int((~v.absent).sum()), v.distinct) for v in values.values()]
        else:
            table = self.row_by_row.local
            listed = [f"count({identifier(c)}), count(DISTINCT {identifier(c)})" for c in least]
            select = f"SELECT {', '.join(listed)} FROM ({table.query}) AS stored_rows"
            (row,) = table.run(lambda: table.engine.sql(select).fetchall())
            counts = list(zip(row[::2], row[1::2], strict=True))
        pairs = zip(least.items(), counts, strict=True)
        return tuple(n for (n, few), (rows, values) in pairs if few <= values < rows)

    @property
    def reads_row_by_row(self) -> bool:
        """Whether no row decides how another is read."""
        if self.secret or self.memory is not None:
            return True
        return self.path is not None and same_for_secret_rows(self.path)

    @property
    def row_by_row(self) -> Table:
        """This table such that no row decides how another is read; a public one is read again."""
        return self if self.reads_row_by_row else self._opened_as_secret

    def check_exact(self) -> None:
        """Refuse rows in which values that differ may have become one, to take every value."""
        if self.secret and self.memory is None and self.elsewhere is None:
            raise InputError(
                f"{self.name} was opened with secret=True, where times and durations are read to "
                "limited precision, so its cells cannot be counted. Open it without."
            )

    @property
    def separator(self) -> str | None:
        """The separator of fields in the CSV file, None for any other table."""
        return None if self.csv is None else self.csv.separator

    @property
    def header_notes(self) -> tuple[str, ...]:
        """A note if lines of the CSV file repeat its header; for the owner of the rows only.

        Such rows are read as missing values.
        """
        return () if self.csv is None else self.csv.notes

    @cached_property
    def _opened_as_secret(self) -> Table:
        if self.elsewhere is not None:
            limit = self.memory_limit
            return open_table(self.elsewhere, secret=True, memory_limit=limit)
        if self.path is None:
            raise InputError(
                f"{self.name} was opened as a public table, in which rows may decide how others "
                "are read. Open it with secret=True, or give the object itself."
            )
        return open_table(
            self.path, self.database_table, beside=self, secret=True, encoding=self.codec
        )

    def with_frame(self, frame: DataFrame, readings: Mapping[str, Reading] | None = None) -> Table:
        """Return a table of other rows in memory, on the same engine; these rows it does not keep.

        ``readings`` are those of its columns, where they are known: then nothing is inferred.
        """
        columns = _names_in_memory(frame)
        if readings is None and self.is_array:
            readings = dict.fromkeys(columns, OF_AN_ARRAY)
        inferred = {} if readings is None else {name: readings[name] for name in columns}
        owner = self.beside or self
        return Table(
            self.name,
            columns,
            self.path,
            memory=frame,
            beside=owner,
            csv=self.csv,
            inferred=inferred,
        )


def check_names(names: Iterable[str], columns: Sequence[str], table: str) -> None:
    """Refuse a name that is none of a table's columns."""
    absent = next((name for name in names if name not in columns), None)
    if absent is not None:
        listed = ", ".join(map(repr, columns))
        raise InputError(f"{table} has no column {absent!r}; it has {listed}.")


def open_table(
    source: object,
    database_table: str | None = None,
    *,
    memory_limit: str | None = None,
    beside: Table | None = None,
    secret: bool = False,
    encoding: str | None = None,
) -> Table:
    """Return the table in a file, in a database or in memory; nothing is read but its columns.

    ``database_table`` names the table of a database file; it may be left out when there is only
    one.  ``encoding`` is that of a CSV file which is not UTF-8.  ``beside`` opens on the engine of
    another table, so that both can be queried together.  ``secret``: no row decides how another
    is read.

    Edge cases: a :class:`Table` is returned as it is.  A missing file, a directory, an unknown
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
    table = Table("", (), beside=beside, secret=secret, memory_limit=memory_limit, codec=codec)
    try:
        _fill(table, source, database_table)
        if not table.columns:
            raise InputError(f"{table.name} has no columns.")
        odd = next((column for column in table.columns if "\0" in column), None)
        if odd is not None:
            raise InputError(f"{table.name} must name its columns without zero bytes, got {odd!r}.")
    except BaseException:
        table.close()
        raise
    return table


def _fill(table: Table, source: object, database_table: str | None) -> None:
    """Find out a table's name, where its rows are, and its columns."""
    if isinstance(source, (str, os.PathLike)):
        table.path = path = Path(source)
        table.name, table.database_table = str(path), database_table
        with reading(table.name):
            check_file(path, folders=True)
            if path.suffix.lower() == ".npy":
                table.memory = stored_array(path)
            else:
                table.secret = table.secret and not same_for_secret_rows(path)
                table.view, table.csv = file_view(
                    table.engine, path, database_table, codec=table.codec, secret=table.secret
                )
    elif _is_pandas(source):
        table.name, table.memory = "the table", source
    elif isinstance(source, (np.ndarray, list, tuple)):
        table.name = "the array"
        table.memory = source if isinstance(source, np.ndarray) else _listed_rows(source)
    elif hasattr(source, "get_backend"):
        refuse_cut(source)
        table.name, table.elsewhere = "the ibis table", source
    else:
        table.name = f"the {type(source).__name__}"
        with reading(table.name):
            table.view = object_view(table.engine, source, secret=table.secret)
    if table.elsewhere is not None:
        table.columns = tuple(table.elsewhere.columns)
    elif table.memory is not None:
        table.columns = _names_in_memory(table.memory)
    else:
        with reading(table.name):
            table.columns = tuple(stored_types(table.engine.connection, table.query))


def opened_table(
    source: object,
    database_table: str | None = None,
    *,
    beside: Table | None = None,
    secret: bool = False,
    encoding: str | None = None,
) -> AbstractContextManager[Table]:
    """Return a context manager for a table that closes only what it has opened."""
    table = open_table(source, database_table, beside=beside, secret=secret, encoding=encoding)
    return nullcontext(table) if table is source else table


def path_of(source: object) -> Path | None:
    """Return the file of a table, where it has one."""
    if isinstance(source, Table):
        return source.path
    return Path(source) if isinstance(source, (str, os.PathLike)) else None


def chosen_columns(
    table: Table, columns: Columns, roles: Roles, unit: str | None = None
) -> Selection:
    """Return the columns that are counted: the named ones, or all but identifiers and the unit."""
    readings = table.readings(columns, roles)
    apart = () if unit is None or columns is not None else (unit,)
    chosen = selected(readings, columns, apart=apart, texts=True)
    return replace(chosen, notes=(*table.header_notes, *chosen.notes))


# ── Objects in memory ─────────────────────────────────────────────────────────────────────────────


def _is_pandas(source: object) -> bool:
    """Tell a pandas table, without importing pandas."""
    return hasattr(source, "iloc") and hasattr(source, "columns")


def _names_in_memory(source: object) -> tuple[str, ...]:
    """Return the names of columns as text; an array's are x0, x1, …."""
    if isinstance(source, np.ndarray):
        width = 1 if source.ndim < 2 else source.shape[1]
        return tuple(f"x{place}" for place in range(width))
    names = tuple(str(name) for name in cast("DataFrame", source).columns)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"the table's columns must have different names, got {twice!r} twice.")
    return names


def _listed_rows(source: Sequence[object]) -> NDArray[np.object_]:
    """Return a list of rows as an array in which every value keeps its own type."""
    rows = [row if isinstance(row, (list, tuple, np.ndarray)) else [row] for row in source]
    widths = {len(row) for row in rows}
    if len(widths) != 1 or 0 in widths:
        raise InputError("a list of rows must hold rows of equal length, and at least one.")
    array = np.empty((len(rows), widths.pop()), dtype=object)
    for place, row in enumerate(rows):
        for column, value in enumerate(row):
            array[place, column] = value
    return array


def _columns_in_memory(source: object, names: Sequence[str]) -> dict[str, object]:
    """Return the columns of an object in memory."""
    if not isinstance(source, np.ndarray):
        frame = cast("DataFrame", source)
        return {name: frame.iloc[:, place] for place, name in enumerate(names)}
    if source.ndim != 2 or isinstance(source, np.ma.MaskedArray):
        raise InputError(
            f"the array must hold rows of values and no mask, got {type(source).__name__} of "
            f"shape {source.shape}."
        )
    return {name: source[:, place] for place, name in enumerate(names)}


def _numbers(source: object, names: Sequence[str], name: str) -> DataFrame:
    """Return an array as numbers."""
    import pandas as pd

    try:
        values = np.asarray(source, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must hold numbers in rows of equal length.") from None
    if np.iscomplexobj(np.asarray(source)) or values.ndim not in (1, 2):
        raise InputError(f"{name} must be a real array of rows, got shape {values.shape}.")
    if 0 in values.shape:
        raise InputError(f"{name} must hold at least one record, got none.")
    return pd.DataFrame(values.reshape(len(values), -1), columns=list(names), copy=False)


def _framed(arrow: pa.Table) -> DataFrame:
    """Return rows as pandas has them; whole numbers keep all their digits beside missing ones."""
    import pandas as pd
    import pyarrow as pa

    frame = arrow.to_pandas()
    for name, column in zip(arrow.column_names, arrow.columns, strict=True):
        if pa.types.is_integer(column.type) and column.null_count:
            kind = "UInt64" if pa.types.is_unsigned_integer(column.type) else "Int64"
            frame[name] = pd.Series(pd.array(column.to_pylist(), dtype=kind), index=frame.index)
    return frame


def _labelled(frame: DataFrame) -> pa.Table:
    """Return an Arrow table to look at, in which a column of mixed values goes by their labels."""
    import pyarrow as pa

    columns = {}
    for name in frame.columns:
        try:
            columns[name] = pa.array(frame[name], from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pairs = zip(frame[name], frame[name].isna(), strict=True)
            texts = [None if gap else label_of(value, "text") for value, gap in pairs]
            columns[name] = pa.array(texts, pa.string())
    return pa.table(columns)
