"""A table that is opened once, and used for counting, learners and releases.

Every verb takes a file, an object in memory or a :class:`Table`.  To run several verbs on one
table, open it once and pass the ``Table``: the engine, the roles of the columns, the rows in memory
and the encoded examples are computed on first use and cached.

There is one class per storage: :class:`MemoryTable` (a pandas table or an array),
:class:`ViewTable` (a view of the embedded engine), and
:class:`~memberbound.tables.ibis_table.IbisTable` (a table on the user's own engine).
:mod:`memberbound.tables.source` lists the formats and how values are compared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar, cast

import numpy as np

from memberbound.errors import InputError, listed_names
from memberbound.numerics.rounding import FloatArray
from memberbound.tables.columns import read_column
from memberbound.tables.csv_files import CsvFormat
from memberbound.tables.engine import BATCH_ROWS, Engine, LazyEngine, identifier, reading
from memberbound.tables.exact import fetch_expressions, lossless_expressions, query_types
from memberbound.tables.objects import (
    array_frame,
    arrow_frame,
    is_pandas,
    label_mixed_columns,
    memory_columns,
    memory_names,
)
from memberbound.tables.roles import (
    OF_AN_ARRAY,
    Reading,
    Roles,
    check_roles,
    fewest_persons,
    infer_roles,
    overridden,
)
from memberbound.tables.source import object_view

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa
    from duckdb import DuckDBPyConnection
    from duckdb.sqltypes import DuckDBPyType
    from pandas import DataFrame

T = TypeVar("T")
Columns = str | Sequence[str] | None
#: Number of rows per batch of a stream.
_BATCH_ROWS = 2**17


@dataclass(eq=False)
class Table(ABC):
    """An open table; a context manager.

    ``engines`` starts the embedded engine on first use; the table that owns it closes it.
    ``secret`` means that no row affects how another is read.
    """

    name: str
    columns: tuple[str, ...]
    _: KW_ONLY
    engines: LazyEngine = field(default_factory=LazyEngine)
    owns_engine: bool = True
    path: Path | None = None
    #: The format of the CSV file.
    csv: CsvFormat | None = None
    secret: bool = False
    #: Inferred roles by column.
    inferred: dict[str, Reading] = field(default_factory=dict)
    #: Cache of objects computed from this table, such as examples for learners, by their inputs.
    made: dict[Hashable, object] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the engine, unless another table owns it, and free the rows in memory."""
        self.forget_rows()
        self.__dict__.pop("expr", None)
        if self.owns_engine:
            self.engines.close()

    def forget_rows(self) -> None:
        """Free the rows in memory; they are read again on the next use."""
        self.__dict__.pop("frame", None)

    # ── Storage ───────────────────────────────────────────────────────────────────────────────────

    @property
    def engine(self) -> Engine:
        """The embedded engine, started on first use."""
        return self.engines.start()

    @property
    @abstractmethod
    def connection(self) -> DuckDBPyConnection | None:
        """The DuckDB connection with the rows; None on any other engine."""

    @property
    @abstractmethod
    def query(self) -> str:
        """SQL for the rows, if they are on DuckDB."""

    @cached_property
    def expr(self) -> ir.Table:
        """The rows as an ibis expression."""
        return self._read_expr()

    @abstractmethod
    def _read_expr(self) -> ir.Table: ...

    @cached_property
    def frame(self) -> DataFrame:
        """The rows as a pandas table with unparsed values; an array gives numbers."""
        return self._read_frame()

    @abstractmethod
    def _read_frame(self) -> DataFrame: ...

    @abstractmethod
    def _infer(self, names: list[str]) -> dict[str, Reading]:
        """Infer the roles of columns."""

    @property
    @abstractmethod
    def row_by_row(self) -> Table:
        """This table, read so that no row affects how another is read; a public one is reopened."""

    @property
    @abstractmethod
    def local(self) -> EmbeddedTable:
        """This table on the embedded engine."""

    @abstractmethod
    def embed(self, engines: LazyEngine | None = None, columns: Columns = None) -> EmbeddedTable:
        """Return this table on an embedded engine (default: any), copied if necessary."""

    def check_exact(self) -> None:  # noqa: B027 (most tables are exact)
        """Raise if reading the table may have merged different values."""

    # ── Queries ───────────────────────────────────────────────────────────────────────────────────

    def types(self, columns: Iterable[str]) -> dict[str, DuckDBPyType]:
        """Return the types of columns, if they are on DuckDB."""
        assert self.connection is not None
        types = query_types(self.connection, self.query)
        return {name: types[name] for name in columns}

    def choose(self, columns: Columns) -> list[str]:
        """Return the named columns, or all; reject unknown, repeated and missing names."""
        if columns is None:
            return list(self.columns)
        names = [columns] if isinstance(columns, str) else list(columns)
        if not names:
            raise InputError(f"columns of {self.name} must be at least one column, got none.")
        check_names(names, self.columns, self.name)
        for index, column in enumerate(names):
            if column in names[:index]:
                raise InputError(f"columns must be distinct, got {column!r} twice.")
        return names

    def run(self, call: Callable[[], T]) -> T:
        """Run ``call`` and report an error in one sentence."""
        with reading(self.name):
            return call()

    def fetch(self, expr: ir.Table) -> pa.Table:
        """Return the rows of a small result."""
        return self.run(expr.to_pyarrow)

    def _copy(
        self, columns: Columns, engines: LazyEngine | None, connection: DuckDBPyConnection
    ) -> ViewTable:
        """Copy columns to the private folder of an engine."""
        names = self.choose(columns)
        copy = LazyEngine(self.engines.memory_limit) if engines is None else engines

        def copy_rows() -> str:
            moved = lossless_expressions(self.types(names), self.name)
            rows = connection.sql(f"SELECT {moved} FROM ({self.query}) AS stored_rows")
            stream = rows.to_arrow_reader(BATCH_ROWS)
            return copy.start().write_batches(stream.schema, stream, secret=self.secret)

        return ViewTable(
            self.name,
            tuple(names),
            self.run(copy_rows),
            engines=copy,
            owns_engine=engines is None,
            path=self.path,
            csv=self.csv,
            secret=self.secret,
        )

    # ── Columns ───────────────────────────────────────────────────────────────────────────────────

    @property
    def is_array(self) -> bool:
        """Whether the table is an array or a list of rows, with numbers in every column."""
        return False

    @property
    def separator(self) -> str | None:
        """The separator of fields in the CSV file, None for any other table."""
        return None if self.csv is None else self.csv.separator

    @property
    def header_notes(self) -> tuple[str, ...]:
        """A note if lines of the CSV file repeat its header, for the owner of the rows only.

        Such rows are read as missing values.
        """
        return () if self.csv is None else self.csv.notes

    def readings(self, columns: Columns = None, roles: Roles = None) -> dict[str, Reading]:
        """Return the roles and forms of columns (default: all), inferred in one scan and cached.

        ``roles`` replace inferred ones.

        Edge cases: an unknown column or role is rejected, and so is the role of a number or a date
        for other values.  On the user's own engine, roles are inferred from the first 100 000 rows.

        Examples:
            >>> import pandas
            >>> from memberbound import open_table
            >>> people = pandas.DataFrame(
            ...     {"who": [f"p{i}" for i in range(30)], "paid": ["1,5"] * 30}
            ... )
            >>> with open_table(people) as opened:
            ...     {name: reading.role for name, reading in opened.readings().items()}
            {'who': 'identifier', 'paid': 'number'}
        """
        names = self.choose(columns)
        given = check_roles(roles, self.columns, self.name)
        unknown = [name for name in names if name not in self.inferred]
        if unknown:
            self.inferred |= self._infer(unknown)
        return {name: overridden(name, self.inferred[name], given.get(name)) for name in names}

    def repeated_persons(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return the columns that seem to identify persons with several rows.

        The result is for the owner of the rows only, because one record can decide it.
        """
        least = {name: few for name in columns if (few := fewest_persons(name)) is not None}
        if not least:
            return ()
        counts = self.row_by_row.local.count_values(list(least))
        pairs = zip(least.items(), counts, strict=True)
        return tuple(n for (n, few), (rows, values) in pairs if few <= values < rows)

    # ── Rows in memory ────────────────────────────────────────────────────────────────────────────

    def numbers(self, column: str) -> FloatArray:
        """Return one column as numbers: days for dates, NaN for missing values."""
        return read_column(self.frame[column], self.readings(column)[column].form).numbers

    @cached_property
    def values(self) -> FloatArray:
        """The rows as one array of finite numbers; an error names the first other value."""
        if len(self.frame) == 0:
            raise InputError(f"{self.name} must hold at least one record, got none.")
        if (self.frame.dtypes == np.float64).all():
            # Already numbers; for an array, this is the array itself.
            values = np.ascontiguousarray(self.frame.to_numpy())
        else:
            values = np.empty(self.frame.shape)
            for index, name in enumerate(self.columns):
                values[:, index] = self.numbers(name)
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

    def parse(self) -> MemoryTable:
        """Return these rows with numbers as numbers and dates as time stamps, and their roles."""
        import pandas as pd

        parsed, readings = {}, self.readings()
        for name, own in readings.items():
            series = self.frame[name]
            if own.role == "date":
                micros = np.round(self.numbers(name) * 86_400e6)
                # A date outside the calendar remains a number.
                stamps = np.where(np.isfinite(micros), micros, -(2.0**63))
                parsed[name] = pd.Series(stamps.astype("int64").astype("datetime64[us]"))
            elif own.numeric and not pd.api.types.is_numeric_dtype(series):
                parsed[name] = pd.Series(self.numbers(name))
            else:
                parsed[name] = series.reset_index(drop=True)
        return self.with_frame(pd.DataFrame(parsed), readings)

    def with_frame(
        self, frame: DataFrame, readings: Mapping[str, Reading] | None = None
    ) -> MemoryTable:
        """Return a table of other rows in memory, on the same engine.

        ``readings`` are the known readings of its columns; with them nothing is inferred.
        """
        columns = memory_names(frame)
        if readings is None and self.is_array:
            readings = dict.fromkeys(columns, OF_AN_ARRAY)
        return MemoryTable(
            self.name,
            columns,
            frame,
            engines=self.engines,
            owns_engine=False,
            path=self.path,
            csv=self.csv,
            inferred={} if readings is None else {name: readings[name] for name in columns},
        )

    def stored_columns(self, columns: Columns = None) -> dict[str, object]:
        """Return columns as stored: pandas, numpy or Arrow columns, or lists.

        Guarantee: a value depends on its own row and on declared types alone.  A table that was
        opened as public is reopened for this.
        """
        table = self.row_by_row
        arrow = table.local.rows(table.choose(columns))
        return dict(zip(arrow.column_names, arrow.columns, strict=True))


class EmbeddedTable(Table):
    """A table with its rows on the embedded engine."""

    @property
    @abstractmethod
    def view(self) -> str:
        """The view of the embedded engine that holds exactly these rows."""

    @property
    def connection(self) -> DuckDBPyConnection:
        """The connection of the embedded engine."""
        return self.engine.connection

    @property
    def query(self) -> str:
        """SQL for the rows."""
        return f"SELECT * FROM {self.view}"

    def _read_expr(self) -> ir.Table:
        return self.engine.backend.table(self.view)

    def _infer(self, names: list[str]) -> dict[str, Reading]:
        return infer_roles(self.engine, self.view, names, self.separator, self.name)

    @property
    def local(self) -> EmbeddedTable:
        """This table."""
        return self

    def embed(self, engines: LazyEngine | None = None, columns: Columns = None) -> EmbeddedTable:
        """Return this table, or a copy of columns on another engine."""
        if engines is None or engines is self.engines:
            return self
        return self._copy(columns, engines, self.connection)

    @property
    def streams(self) -> bool:
        """Whether rows can be read repeatedly in batches."""
        return False

    def rows(self, columns: Columns = None) -> pa.Table:
        """Return rows with the types of their schema."""
        return self.run(lambda: self.row_batches(columns).read_all())

    def count_rows(self) -> int:
        """Return the number of rows."""
        counting = self.engine.sql(f"SELECT count(*) FROM ({self.query}) AS stored_rows")
        # Fetch the whole result, because the connection runs one query at a time.
        ((count,),) = counting.fetchall()
        return int(count)

    def count_values(self, names: Sequence[str]) -> list[tuple[int, int]]:
        """Return the number of values and of distinct values of every column."""
        listed = [f"count({identifier(c)}), count(DISTINCT {identifier(c)})" for c in names]
        select = f"SELECT {', '.join(listed)} FROM ({self.query}) AS stored_rows"
        (row,) = self.run(lambda: self.engine.sql(select).fetchall())
        return list(zip(row[::2], row[1::2], strict=True))

    def row_batches(self, columns: Columns, limit: str = "") -> pa.RecordBatchReader:
        """Stream rows in order, with the types of their schema.

        ``limit`` is a clause of SQL (``LIMIT 10 OFFSET 5``).
        """
        chosen = fetch_expressions(self.types(self.choose(columns)))
        select = f"SELECT {chosen} FROM ({self.query}) AS stored_rows {limit}"
        return self.engine.connection.sql(select).to_arrow_reader(_BATCH_ROWS)


@dataclass(eq=False)
class MemoryTable(EmbeddedTable):
    """A pandas table or an array, with a view on the engine on demand."""

    #: A pandas table or an array.
    memory: object
    _registered: tuple[Engine, str] | None = field(default=None, init=False)

    @property
    def view(self) -> str:
        """The view of the object in memory."""
        engine = self.engine
        if self._registered is None or self._registered[0] is not engine:
            with reading(self.name):
                self._registered = engine, object_view(engine, self.memory)
        return self._registered[1]

    def close(self) -> None:
        """Free the rows on the engine."""
        registered, self._registered = self._registered, None
        if registered is not None and not self.owns_engine:
            registered[0].connection.unregister(registered[1])
        super().close()

    @property
    def is_array(self) -> bool:
        """Whether the table is an array or a list of rows, with numbers in every column."""
        return isinstance(self.memory, np.ndarray)

    @property
    def row_by_row(self) -> MemoryTable:
        """This table, because values in memory are always read one by one."""
        return self

    def _infer(self, names: list[str]) -> dict[str, Reading]:
        if self.is_array:
            return dict.fromkeys(names, OF_AN_ARRAY)
        try:
            view = self.view
        except InputError:  # a column of mixed types, which cannot be counted
            if not is_pandas(self.memory):
                raise
            view = object_view(self.engine, label_mixed_columns(self.frame))
        return infer_roles(self.engine, view, names, self.separator, self.name)

    def _read_frame(self) -> DataFrame:
        if self.is_array:
            return array_frame(self.memory, self.columns, self.name)
        frame = cast("DataFrame", self.memory)
        same = self.columns == tuple(frame.columns)
        return frame if same else frame.set_axis(self.columns, axis=1)

    def stored_columns(self, columns: Columns = None) -> dict[str, object]:
        """Return columns as they are in memory."""
        stored = memory_columns(self.memory, self.columns)
        return {name: stored[name] for name in self.choose(columns)}

    def count_values(self, names: Sequence[str]) -> list[tuple[int, int]]:
        """Return the number of values and of distinct values of every column."""
        stored = memory_columns(self.memory, self.columns)
        values = [read_column(stored[name], "unit") for name in names]
        return [(int((~v.absent).sum()), v.distinct) for v in values]


@dataclass(eq=False)
class ViewTable(EmbeddedTable):
    """A view of the embedded engine: a file, a database table, or a copy."""

    stored_view: str
    #: Whether no row affects how another is read.
    reads_row_by_row: bool = field(default=False, kw_only=True)
    #: Reopens the same rows so that no row affects how another is read.
    reopen: Callable[[], Table] | None = field(default=None, kw_only=True)
    #: The engine's copy of the rows of a small CSV file.
    stored_copy: str | None = field(default=None, init=False)

    @property
    def view(self) -> str:
        """The view; of a small public CSV file, which is scanned several times, a copy."""
        if self.csv is None or not self.csv.small or self.secret:
            return self.stored_view
        if self.stored_copy is None:
            with reading(self.name):
                self.stored_copy = self.engine.copy(self.stored_view)
        return self.stored_copy

    def close(self) -> None:
        """Close the engine, unless another table owns it, and free the rows in memory."""
        if (copy := self.__dict__.pop("_secret_copy", None)) is not None:
            copy.close()
        super().close()

    @property
    def streams(self) -> bool:
        """Whether rows can be read repeatedly in batches."""
        return self.view in self.engine.copies or self.separator is None

    @property
    def row_by_row(self) -> Table:
        """This table, or, if it was opened as public, the same rows reopened."""
        return self if self.secret or self.reads_row_by_row else self._secret_copy

    @cached_property
    def _secret_copy(self) -> Table:
        if self.reopen is None:
            raise InputError(
                f"{self.name} was opened as a public table, in which rows may affect how others "
                "are read. Open it with secret=True, or give the object itself."
            )
        return self.reopen()

    def check_exact(self) -> None:
        """Raise if reading the table may have merged different values."""
        if self.secret:
            raise InputError(
                f"{self.name} was opened with secret=True, where times and durations are read to "
                "limited precision, so its cells cannot be counted. Open it without."
            )

    def _read_frame(self) -> DataFrame:
        self.check_exact()
        return arrow_frame(self.rows())


def check_names(names: Iterable[str], columns: Sequence[str], table: str) -> None:
    """Reject a name that is not among a table's columns."""
    absent = next((name for name in names if name not in columns), None)
    if absent is not None:
        raise InputError(f"{table} has no column {absent!r}; {listed_names(absent, columns)}.")
