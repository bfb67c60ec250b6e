"""Secret rows, read value by value, in memory or shard by shard from disk.

No row affects how another row is read (:mod:`memberbound.tables.columns`).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError, MemberboundError
from memberbound.scratch import large_array
from memberbound.tables.columns import declared_type, read_column
from memberbound.tables.engine import identifier, literal, reading, size_in_bytes
from memberbound.tables.opening import open_table, use_table
from memberbound.tables.persons import Persons, check_unit
from memberbound.tables.shards import Shards
from memberbound.tables.spelling import Form
from memberbound.tables.table import Columns, EmbeddedTable, Table, ViewTable
from memberbound.tables.values import Values

if TYPE_CHECKING:
    import pyarrow as pa
    from pandas import Series


#: Approximate bytes per value when a table is read into memory.
_BYTES = 24


def _with_whole_persons(
    batches: Iterable[pa.RecordBatch], person: str | None
) -> Iterator[tuple[pa.Table, NDArray[np.int64] | None]]:
    """Yield batches that never split a person, with the rows at which persons start."""
    import pyarrow as pa

    rest: list[pa.Table] = []
    for batch in itertools.chain(batches, [None]):
        rest += [] if batch is None else [pa.Table.from_batches([batch])]
        if not rest:
            return
        rows = pa.concat_tables(rest)
        if person is None:
            rest = []
            yield rows, None
            continue
        labels = rows.column(person).combine_chunks().dictionary_encode().indices
        codes = labels.fill_null(-1).to_numpy()
        # A row without a value is a person of its own.
        new = (codes < 0) | (np.diff(codes, prepend=-1) != 0)
        starts = np.flatnonzero(new)
        end = rows.num_rows if batch is None else int(starts[-1])
        rest = [] if batch is None else [rows.slice(end)]
        if end:
            yield rows.slice(0, end), starts[starts < end]


def read_named_column(column: object, name: str, form: Form, table: str) -> Values:
    """Read the values of a column; an error names the column and its type."""
    try:
        return read_column(cast("Series", column), form)
    except InputError as problem:
        raise InputError(f"column {name!r} of {table}: {problem}") from None


@dataclass(frozen=True, eq=False)
class Records:
    """Secret records: columns that are read value by value.

    Guarantee: a record affects its own rows of every column only, and neither whether nor how other
    rows are read.  Without ``unit`` a record is a row; with it, all rows that share a value of that
    column (``persons``).
    """

    columns: Mapping[str, Values]
    rows: int
    name: str = "the table"
    unit: str | None = None
    persons: Persons | None = None
    #: Arrays computed from the rows are stored on disk above this many bytes; None: in memory.
    memory: int | None = None
    #: Declared types (pandas or Arrow) of the columns that have one.
    types: Mapping[str, object] = field(default_factory=dict)
    #: Columns that seem to identify persons with several rows each, for the owner of the rows only.
    repeated: tuple[str, ...] = ()
    #: Notes about the file, for the owner of the rows only.
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return the number of records: persons if there is a unit, else rows."""
        return self.rows if self.persons is None else self.persons.count

    @property
    def shards(self) -> Shards[Records]:
        """Shards of the records: one in memory, or several of a stored table.

        Results of :meth:`Shards.map` larger than ``memory`` are kept on disk.
        """
        return Shards([self])

    def take(self, records: NDArray[np.intp]) -> Records:
        """Return the records at these indices, with all of their rows, in memory."""
        rows, persons = records, None
        if self.persons is not None:
            rows, persons = self.persons.take(records)
        columns = {name: values.take(rows) for name, values in self.columns.items()}
        return replace(self, columns=columns, rows=len(rows), persons=persons)

    @staticmethod
    def concat(pieces: Sequence[Records]) -> Records:
        """Concatenate pieces of one table."""
        columns = {
            name: Values.concat([piece.columns[name] for piece in pieces])
            for name in pieces[0].columns
        }
        rows, persons = sum(piece.rows for piece in pieces), None
        if pieces[0].persons is not None:
            sizes = np.concatenate([p.persons.sizes for p in pieces if p.persons is not None])
            persons = Persons(np.cumsum(sizes) - sizes, rows)
        return replace(pieces[0], columns=columns, rows=rows, persons=persons, memory=None)

    def select(self, names: Iterable[str]) -> Records:
        """Select columns by name."""
        return replace(self, columns={name: self.columns[name] for name in names})

    def group_by_person(self, unit: str) -> Records:
        """Sort the rows by person, and drop the column that identifies the person.

        A row without a value in that column is a person of its own.
        """
        values, _ = self.columns[unit].factorize()
        person = np.where(values < 0, self.rows + np.arange(self.rows), values)
        order = np.argsort(person, kind="stable")
        starts = np.flatnonzero(np.diff(person[order], prepend=-1))
        kept = self.select(name for name in self.columns if name != unit).take(order)
        return replace(kept, unit=unit, persons=Persons(starts, self.rows))


def only_names(names: Iterable[str]) -> dict[str, Values]:
    """Return placeholders for columns with values that are not in this process."""
    return dict.fromkeys(names, cast("Values", None))


@dataclass(frozen=True, eq=False)
class StoredRecords(Records):
    """Records of an open table, read from disk shard by shard on every use.

    With a unit, the rows are sorted by person.
    """

    table: EmbeddedTable = field(kw_only=True)
    forms: Mapping[str, Form] = field(kw_only=True)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the non-empty batches of stored rows."""
        names = [*self.columns, *([] if self.unit is None else [self.unit])]
        batches = self.table.run(lambda: self.table.row_batches(names))
        with reading(self.name):
            yield from (batch for batch in batches if batch.num_rows)

    def _values(self, column: object, name: str) -> Values:
        return read_named_column(column, name, self.forms.get(name, "any"), self.name)

    @property
    def shards(self) -> StoredShards:
        """Shards of the stored table, read one at a time."""
        return StoredShards(self)

    def read_shards(self) -> Iterator[Records]:
        """Read some records at a time, never splitting a person."""
        for rows, starts in _with_whole_persons(self._batches(), self.unit):
            columns = {name: self._values(rows.column(name), name) for name in self.columns}
            persons = None if starts is None else Persons(starts, rows.num_rows)
            own = (self.unit, persons, self.memory, self.types)
            yield Records(columns, rows.num_rows, self.name, *own)

    def take(self, records: NDArray[np.intp]) -> Records:
        """Return the records at these indices, with all of their rows, in memory."""
        order = np.argsort(records, kind="stable")
        ordered, first, pieces = records[order], 0, []
        for shard in self.shards:
            inside = slice(*np.searchsorted(ordered, (first, first + len(shard))))
            if inside.start < inside.stop:
                pieces.append(shard.take(ordered[inside] - first))
            first += len(shard)
        return Records.concat(pieces).take(np.argsort(order, kind="stable"))

    def select(self, names: Iterable[str]) -> StoredRecords:
        """Select columns by name."""
        return replace(self, columns=only_names(names))

    def group_by_person(self, unit: str) -> StoredRecords:
        """Write a copy sorted by person to disk, with the person's label as unit."""
        import pyarrow as pa

        engine, index = self.table.engine, list(self.columns).index(unit)

        def label_batches() -> Iterator[pa.RecordBatch]:
            for batch in self._batches():
                codes, labels = self._values(batch.column(index), unit).codes_and_labels()
                texts = pa.array([label or None for label in labels], pa.string())
                yield batch.set_column(index, unit, texts.take(pa.array(codes)))

        batches = label_batches()
        first = next(batches)
        copy = engine.write_batches(first.schema, itertools.chain([first], batches), secret=True)
        column, number = identifier(unit), engine.fresh("row")
        path = engine.folder / f"{engine.fresh('sorted')}.parquet"
        self.table.run(
            lambda: engine.sql(
                f"COPY (SELECT * EXCLUDE ({number}) FROM (SELECT *, row_number() OVER () AS "
                f"{number} FROM {copy}) ORDER BY {column} NULLS LAST, {number}) "
                f"TO {literal(path)} (FORMAT parquet)"
            ),
        )
        table = ViewTable(
            self.name,
            tuple(self.columns),
            engine.parquet([path]),
            engines=self.table.engines,
            owns_engine=False,
            secret=True,
        )
        ((count,),) = engine.sql(
            f"SELECT count(DISTINCT {column}) + count(*) FILTER ({column} IS NULL) "
            f"FROM {table.view}"
        ).fetchall()
        others = only_names(name for name in self.columns if name != unit)
        records = replace(self, columns=others, unit=unit, table=table)
        starts = large_array((count,), np.dtype(np.int64), 0)
        persons = rows = 0
        for shard in records.select(()).shards:
            assert shard.persons is not None
            starts[persons : persons + len(shard)] = shard.persons.starts + rows
            persons, rows = persons + len(shard), rows + shard.rows
        return replace(records, persons=Persons(starts, rows))


class StoredShards(Shards[Records]):
    """Shards that are read from a stored table whenever they are used."""

    def __init__(self, records: StoredRecords) -> None:
        self._records = records

    def __iter__(self) -> Iterator[Records]:
        return self._records.read_shards()


def read_records(
    source: object,
    forms: Mapping[str, Form] | None = None,
    *,
    columns: Iterable[str] | None = None,
    database_table: str | None = None,
    encoding: str | None = None,
) -> Records:
    """Read a secret table: a file, a database table, or an object in memory.

    ``forms`` are the forms of columns' values, ``any`` by default.  ``columns`` limits the columns
    to read.

    Guarantee: as for :class:`Records`.  Types are those that the file or the object declares.
    Edge cases: a list of rows has no types, so every value is read on its own; a column with a type
    of lists or records is rejected.

    Examples:
        >>> records = read_records([["1,5", 3], ["x", None]])
        >>> {name: values.numbers.tolist() for name, values in records.columns.items()}
        {'x0': [1.5, nan], 'x1': [3.0, nan]}
    """
    if isinstance(source, Records):
        return source if columns is None else source.select(columns)
    with use_table(source, database_table, secret=True, encoding=encoding) as table:
        stored = table.stored_columns(None if columns is None else list(columns))
        values, types = {}, {}
        for name, column in stored.items():
            types[name] = declared_type(column)
            values[name] = read_named_column(
                column, name, (forms or {}).get(name, "any"), table.name
            )
    return Records(values, len(next(iter(values.values()))), table.name, types=types)


def _stream_records(
    table: Table, forms: Mapping[str, Form], names: list[str], memory: int
) -> Records | None:
    """Return records to read shard by shard, or None if all of them fit into memory."""
    stored = table.row_by_row.local
    if not stored.streams:
        return None
    rows = stored.run(stored.count_rows)
    if rows * len(names) * _BYTES <= memory // 2:
        return None
    schema = stored.run(lambda: stored.row_batches(names, "LIMIT 0").schema)
    types = {field.name: field.type for field in schema}
    return StoredRecords(
        only_names(names), rows, table.name, memory=0, types=types, table=stored, forms=forms
    )


def read_secret_columns(
    source: object,
    forms: Mapping[str, Form],
    *,
    target: str | None = None,
    columns: Columns = None,
    unit: str | None = None,
    with_unit: bool = False,
    database_table: str | None = None,
    encoding: str | None = None,
    memory: str | None = None,
    spread: Callable[[Table, Mapping[str, Form], list[str]], Records] | None = None,
) -> Records:
    """Read the columns of a secret table for a release: named ones or all, and the target.

    ``forms`` holds the forms of the columns with bounds.  With ``unit`` the rows are sorted by
    person (:meth:`Records.group_by_person`), unless ``with_unit`` keeps their order, with the unit
    among the columns.  A file that would take more than half of ``memory`` (a size such as ``2GB``;
    default: half of the machine's) is read shard by shard on every use.  ``spread`` distributes the
    rows instead.

    Edge cases: unknown names are rejected, and so is a unit with another use.
    """
    limit = size_in_bytes(memory)
    # A quarter is for the reading engine, the rest for arrays computed from the rows.
    engine = None if memory is None else f"{max(limit // 4, 2**28) // 1000}KB"
    table = open_table(source, database_table, secret=True, memory_limit=engine, encoding=encoding)
    kept = False
    try:
        chosen = [columns] if isinstance(columns, str) else list(columns or table.columns)
        target_column = [] if target is None else [target]
        unit_column = [] if unit is None else [unit]
        table.choose(list(dict.fromkeys((*target_column, *chosen, *forms, *unit_column))))
        named = (*target_column, *(() if columns is None else chosen), *forms)
        check_unit(unit, named)
        features = [c for c in dict.fromkeys(chosen) if c not in (target, unit)]
        names = [*features, *target_column, *unit_column]
        every = {**forms, **dict.fromkeys(unit_column, "unit")}
        if spread is not None:
            records: Records | None = spread(table, every, names)
        else:
            records = _stream_records(table, every, names, limit)
            kept = records is not None
        if records is None:
            records = read_records(table, every, columns=names)
            if memory is not None:
                records = replace(records, memory=limit // 8)
        if unit is None:
            others = (c for c in table.columns if c not in (target, *forms))
            with contextlib.suppress(MemberboundError):  # a note must not stop a release
                records = replace(records, repeated=table.repeated_persons(others))
        records = replace(records, notes=table.header_notes)
        if with_unit:
            return records.select([c for c in table.columns if c in records.columns])
        return records if unit is None else records.group_by_person(unit)
    except BaseException:
        kept = False
        raise
    finally:
        # Records read shard by shard keep the table open.
        if not kept and table is not source:
            table.close()


def column_names(
    source: object, database_table: str | None = None, encoding: str | None = None
) -> tuple[list[str], str]:
    """Return the names of a table's columns, and the table's name."""
    # The rows may be secret, so no value may make this fail.
    with use_table(source, database_table, secret=True, encoding=encoding) as table:
        return list(table.columns), table.name
