"""Secret rows: read value by value, in memory, from disk in parts, or grouped by person.

No row decides how another row is read (:mod:`memberbound.tables.columns`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.files import large_array
from memberbound.tables.columns import Form, Values
from memberbound.tables.engine import identifier, literal, reading, size_in_bytes
from memberbound.tables.persons import Persons, check_unit
from memberbound.tables.shards import Parts, PartsHere, added
from memberbound.tables.table import Columns, Table, open_table, opened_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pandas import Series


#: Bytes that a value takes at most while a table is read whole, about.
_BYTES = 24


def _with_whole_persons(
    batches: Iterable[pa.RecordBatch], person: str | None
) -> Iterator[tuple[pa.Table, NDArray[np.int64] | None]]:
    """Yield rows such that nobody's are cut apart, and where those of a person start."""
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


def read_column(column: object, name: str, form: Form, table: str) -> Values:
    """Return the values of a column, or refuse it by its name and type."""
    try:
        return Values.of(cast("Series", column), form)
    except InputError as problem:
        raise InputError(f"column {name!r} of {table}: {problem}") from None


@dataclass(frozen=True, eq=False)
class Records:
    """Secret records in rows: columns that were read value by value.

    Guarantee: a record decides about its own rows of every column and about nothing else: neither
    how other rows are read, nor whether they are.  Without ``unit`` a record is a row; with it all
    rows that share a value of that column, which ``persons`` says.
    """

    columns: Mapping[str, Values]
    rows: int
    name: str = "the table"
    unit: str | None = None
    persons: Persons | None = None
    #: What is made of the rows and is larger than so many bytes is kept on disk; None: in memory.
    memory: int | None = None
    #: Declared types (of pandas or Arrow), where a column has one.
    types: Mapping[str, object] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of records: of persons, where there is a unit."""
        return self.rows if self.persons is None else self.persons.count

    def parts(self) -> Iterator[Records]:
        """Yield records that are in memory: all of them, or some of a stored table at a time.

        What is made of such a part is kept on disk.
        """
        yield self

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the sum over parts of ``function(part, *arguments)``."""
        return added(function(part, *arguments) for part in self.parts())

    def mapped(self, function: Callable[..., Any], *arguments: Any) -> Parts:
        """Return what the function makes of every part, kept where the part is."""
        return PartsHere([function(part, *arguments) for part in self.parts()])

    def taken(self, places: NDArray[np.intp]) -> Records:
        """Return some of the records, with all of their rows, in memory."""
        persons = None
        if self.persons is not None:
            places, persons = self.persons.taken(places)
        parts = {name: values.taken(places) for name, values in self.columns.items()}
        return replace(self, columns=parts, rows=len(places), persons=persons)

    @staticmethod
    def joined(parts: Sequence[Records]) -> Records:
        """Return the records of several parts of one table, in their order."""
        columns = {
            name: Values.joined([part.columns[name] for part in parts]) for name in parts[0].columns
        }
        rows, persons = sum(part.rows for part in parts), None
        if parts[0].persons is not None:
            sizes = np.concatenate([p.persons.sizes for p in parts if p.persons is not None])
            persons = Persons(np.cumsum(sizes) - sizes, rows)
        return replace(parts[0], columns=columns, rows=rows, persons=persons, memory=None)

    def chosen(self, names: Iterable[str]) -> Records:
        """Return the records with these columns."""
        return replace(self, columns={name: self.columns[name] for name in names})

    def by_person(self, unit: str) -> Records:
        """Return all rows, those of one value of a column together, without that column.

        A row without a value in that column is a person of its own.
        """
        values, _ = self.columns[unit].named()
        person = np.where(values < 0, self.rows + np.arange(self.rows), values)
        order = np.argsort(person, kind="stable")
        starts = np.flatnonzero(np.diff(person[order], prepend=-1))
        kept = self.chosen(name for name in self.columns if name != unit).taken(order)
        return replace(kept, unit=unit, persons=Persons(starts, self.rows))


def only_names(names: Iterable[str]) -> dict[str, Values]:
    """Return columns of which only the names are here."""
    return dict.fromkeys(names, cast("Values", None))


@dataclass(frozen=True, eq=False)
class StoredRecords(Records):
    """Records of an open table whose rows are read in parts, whenever they are used.

    With a unit, rows stand by person.
    """

    table: Table = field(kw_only=True)
    forms: Mapping[str, Form] = field(kw_only=True)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """Yield some rows at a time, as they are stored."""
        names = [*self.columns, *([] if self.unit is None else [self.unit])]
        batches = self.table.run(lambda: self.table.row_batches(names))
        with reading(self.name):
            yield from (batch for batch in batches if batch.num_rows)

    def _values(self, column: object, name: str) -> Values:
        return read_column(column, name, self.forms.get(name, "any"), self.name)

    def parts(self) -> Iterator[Records]:
        """Yield some records at a time, nobody's rows cut apart."""
        for rows, starts in _with_whole_persons(self._batches(), self.unit):
            columns = {name: self._values(rows.column(name), name) for name in self.columns}
            persons = None if starts is None else Persons(starts, rows.num_rows)
            own = (self.unit, persons, self.memory, self.types)
            yield Records(columns, rows.num_rows, self.name, *own)

    def taken(self, places: NDArray[np.intp]) -> Records:
        """Return some of the records, with all of their rows, in memory."""
        order = np.argsort(places, kind="stable")
        ordered, first, parts = places[order], 0, []
        for part in self.parts():
            inside = slice(*np.searchsorted(ordered, (first, first + len(part))))
            if inside.start < inside.stop:
                parts.append(part.taken(ordered[inside] - first))
            first += len(part)
        return Records.joined(parts).taken(np.argsort(order, kind="stable"))

    def chosen(self, names: Iterable[str]) -> StoredRecords:
        """Return the records with these columns."""
        return replace(self, columns=only_names(names))

    def by_person(self, unit: str) -> StoredRecords:
        """Return a copy on disk in which the rows of a person stand together.

        In the copy the label of the person stands for the value.
        """
        import pyarrow as pa

        engine, place = self.table.engine, list(self.columns).index(unit)

        def labelled() -> Iterator[pa.RecordBatch]:
            for batch in self._batches():
                codes, labels = self._values(batch.column(place), unit).coded()
                texts = pa.array([label or None for label in labels], pa.string())
                yield batch.set_column(place, unit, texts.take(pa.array(codes)))

        batches = labelled()
        first = next(batches)
        copy = engine.copied(first.schema, itertools.chain([first], batches), secret=True)
        column, number = identifier(unit), engine.fresh("row")
        path = engine.folder / f"{engine.fresh('sorted')}.parquet"
        self.table.run(
            lambda: engine.sql(
                f"COPY (SELECT * EXCLUDE ({number}) FROM (SELECT *, row_number() OVER () AS "
                f"{number} FROM {copy}) ORDER BY {column} NULLS LAST, {number}) "
                f"TO {literal(path)} (FORMAT parquet)"
            ),
        )
        table = Table(self.name, tuple(self.columns), beside=self.table, secret=True)
        table.view = engine.parquet([path])
        ((count,),) = engine.sql(
            f"SELECT count(DISTINCT {column}) + count(*) FILTER ({column} IS NULL) "
            f"FROM {table.view}"
        ).fetchall()
        others = only_names(name for name in self.columns if name != unit)
        records = replace(self, columns=others, unit=unit, table=table)
        starts = large_array((count,), np.dtype(np.int64), 0)
        persons = rows = 0
        for part in records.chosen(()).parts():
            assert part.persons is not None
            starts[persons : persons + len(part)] = part.persons.starts + rows
            persons, rows = persons + len(part), rows + part.rows
        return replace(records, persons=Persons(starts, rows))


def read_records(
    source: object,
    forms: Mapping[str, Form] | None = None,
    *,
    columns: Iterable[str] | None = None,
    database_table: str | None = None,
) -> Records:
    """Read a secret table: a file, a database table, or an object in memory.

    ``forms`` says how the values of columns are written; every other column is read by the rule of
    the form ``any``.  ``columns`` are read, by default all.

    Guarantee: as :class:`Records`.  Types are those that the file or the object declares.
    Edge cases: a list of rows has no types, so each of its values is read by itself; a column of
    lists or records is refused, by its type.

    Examples:
        >>> records = read_records([["1,5", 3], ["x", None]])
        >>> {name: values.numbers.tolist() for name, values in records.columns.items()}
        {'x0': [1.5, nan], 'x1': [3.0, nan]}
    """
    if isinstance(source, Records):
        return source if columns is None else source.chosen(columns)
    with opened_table(source, database_table, secret=True) as table:
        stored = table.stored_columns(None if columns is None else list(columns))
        values, types = {}, {}
        for name, column in stored.items():
            types[name] = getattr(column, "dtype", getattr(column, "type", None))
            values[name] = read_column(column, name, (forms or {}).get(name, "any"), table.name)
    return Records(values, len(next(iter(values.values()))), table.name, types=types)


def _streamed_records(
    table: Table, forms: Mapping[str, Form], names: list[str], memory: int
) -> Records | None:
    """Return records that are read in parts, None where all of them fit into memory."""
    if table.memory is None:
        table = table.row_by_row.local
    if not table.streams:
        return None
    rows = table.run(table.count_rows)
    if rows * len(names) * _BYTES <= memory // 2:
        return None
    schema = table.run(lambda: table.row_batches(names, "LIMIT 0").schema)
    types = {field.name: field.type for field in schema}
    return StoredRecords(
        only_names(names), rows, table.name, memory=0, types=types, table=table, forms=forms
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
    memory: str | None = None,
    spread: Callable[[Table, Mapping[str, Form], list[str]], Records] | None = None,
) -> Records:
    """Read the columns of a secret table that a release uses: named ones or all, and the target.

    ``forms`` are those of the columns with bounds.  With ``unit`` the rows stand by person
    (:meth:`Records.by_person`); with ``with_unit`` as they are, the unit among them, in the table's
    order of columns.  Rows of a file that would take more than half of ``memory`` (a size such
    as ``2GB``, half of the machine's unless given) are read in parts, whenever they are used;
    ``spread`` says where they are read instead.

    Edge cases: names that the table does not have are refused, as is a unit that is also used.
    """
    limit = size_in_bytes(memory)
    # A quarter for the engine that reads; the rest for what is made of the rows.
    engine = None if memory is None else f"{max(limit // 4, 2**28) // 1000}KB"
    table = open_table(source, database_table, secret=True, memory_limit=engine)
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
            records = _streamed_records(table, every, names, limit)
            kept = records is not None
        if records is None:
            records = read_records(table, every, columns=names)
            if memory is not None:
                records = replace(records, memory=limit // 8)
        if with_unit:
            return records.chosen([c for c in table.columns if c in records.columns])
        return records if unit is None else records.by_person(unit)
    except BaseException:
        kept = False
        raise
    finally:
        # Rows that are read in parts keep the table open as long as they are needed.
        if not kept and table is not source:
            table.close()


def column_names(source: object, database_table: str | None = None) -> tuple[list[str], str]:
    """Return the names of a table's columns, and the table's own."""
    # The rows may be secret: no value of theirs may stop this.
    with opened_table(source, database_table, secret=True) as table:
        return list(table.columns), table.name
