"""Count cells: counts of counts, joint counts of two tables, and rows with their counts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError, MemberboundError
from memberbound.files import check_output, write_atomically
from memberbound.iid.profiles import CountProfile
from memberbound.tables.engine import identifier, literal, writing
from memberbound.tables.exact import compile_rows, exact_keys, exact_rows, query_types
from memberbound.tables.frame_files import FORMULA_STARTS, SIGNED_NUMBER, excel_safe_text
from memberbound.tables.opening import use_table
from memberbound.tables.roles import Roles
from memberbound.tables.selection import Selection, select_by_role
from memberbound.tables.table import Columns, EmbeddedTable, Table

if TYPE_CHECKING:
    import ibis.expr.datatypes as dt
    import ibis.expr.types as ir
    import pyarrow as pa

# ── Counts of counts: how many cells hold one row, two rows, … ────────────────────────────────────
#
# The count is a two-level GROUP BY on the engine (rows to cells, cells to counts of counts), so
# at most about √(2N) pairs reach Python, for a table of any length.  X5 explains why a certificate
# needs nothing else.


class PairProfile(NamedTuple):
    """``cells[i]`` cells hold ``train[i]`` rows of one table and ``reference[i]`` of the other."""

    train: NDArray[np.int64]
    reference: NDArray[np.int64]
    cells: NDArray[np.int64]


def count_profile(source: object, columns: Columns = None, unit: str | None = None) -> CountProfile:
    """Return the counts of counts of a table over ``columns`` (all unless named).

    With ``unit`` a record is not a row but a person: the *bag* of all rows with one value of that
    column.  Two persons are the same record if their bags are equal as multisets of rows, which is
    all that a learner sees of them.  The unit's own values are names and are not part of the
    record.

    Guarantee: exact; cells are never merged by hashing.
    Numerics: counts are 64-bit integers.
    Edge cases: null is a category of its own (see :mod:`memberbound.tables.source`), so a column of
    nulls changes nothing.  An empty table, an unknown or repeated column, and a null ``unit`` are
    rejected.

    Examples:
        >>> import pyarrow
        >>> visits = pyarrow.table({"who": [1, 1, 2, 2, 3], "what": ["a", "b", "b", "a", "a"]})
        >>> count_profile(visits, "what").expanded().tolist()
        [2, 3]
        >>> count_profile(visits, unit="who").expanded().tolist()
        [1, 2]
    """
    with use_table(source) as opened:
        keys = record_columns(opened, columns, unit)
        counts = _counts_of_counts(opened, keys, unit)
        if counts.num_rows == 0:
            raise InputError(f"{opened.name} must hold at least one row, got none.")
        if unit is not None:
            refuse_null_units(opened, unit)
        return CountProfile(_int64(counts, "n"), _int64(counts, "cells"))


def _counts_of_counts(table: Table, keys: list[str], unit: str | None) -> pa.Table:
    """Return how many cells hold n rows, for each n."""
    if unit is not None or not isinstance(table, EmbeddedTable):
        records = records_of(number_keys(table, keys, unit=unit))
        cells = records.group_by(records.columns).agg(n=records.count())
        return table.fetch(cells.group_by("n").agg(cells=cells.count()).order_by("n"))
    # Without ibis, because with thousands of columns it takes longer than the count itself.

    def count() -> pa.Table:
        cells = ", ".join(exact_keys(table.types(keys), table.name).values())
        inner = f"SELECT count(*) AS n FROM {table.view} GROUP BY {cells}"
        query = f"SELECT n, count(*) AS cells FROM ({inner}) AS c GROUP BY n ORDER BY n"
        return table.engine.connection.sql(query).to_arrow_table()

    return table.run(count)


def count_pair_profile(train: object, reference: object, columns: Columns = None) -> PairProfile:
    """Return the joint counts of two tables over the same columns, for the two-sample certificate.

    Every cell of either table is counted once, with its numbers of rows in both (possibly 0).  The
    column types must agree, because a text and a number cannot be compared exactly.  ``columns``
    defaults to all columns of ``train``, which ``reference`` must have too.

    Examples:
        >>> import pyarrow
        >>> pair = count_pair_profile(
        ...     pyarrow.table({"x": ["a", "a", None]}), pyarrow.table({"x": ["a", "b"]})
        ... )
        >>> [list(map(int, column)) for column in pair]
        [[0, 1, 2], [1, 0, 1], [1, 1, 1]]
    """
    import ibis

    with use_table(train) as one, use_table(reference, beside=one) as two:
        keys = record_columns(one, columns, None)
        record_columns(two, keys, None)
        first: Table = one
        last: Table = two
        if one.expr.get_backend() is not two.expr.get_backend():
            first = one.embed(columns=keys)
            last = two.embed(first.engines, columns=keys)
        sides = _comparable_rows(first, last, keys)
        here, there = (
            rows.mutate(train=ibis.literal(1 - side), reference=ibis.literal(side))
            for side, rows in enumerate(sides)
        )
        rows = here.union(there)
        cells = rows.group_by(sides[0].columns).agg(
            train=rows.train.sum().cast("int64"), reference=rows.reference.sum().cast("int64")
        )
        joint = cells.group_by(["train", "reference"]).agg(cells=cells.count())
        counts = first.fetch(joint.order_by(["train", "reference"]))
        pair = PairProfile(*(_int64(counts, name) for name in PairProfile._fields))
        for opened, counts in ((first, pair.train), (last, pair.reference)):
            if not counts.any():
                raise InputError(f"{opened.name} must hold at least one row, got none.")
        return pair


def _comparable_rows(first: Table, last: Table, keys: Sequence[str]) -> list[ir.Table]:
    """Return the exact keys of two tables on one engine in common types; reject other types."""
    types = _common_types(first, last, keys)
    sides = [number_keys(table, keys, types=types) for table in (first, last)]
    # One ibis type may stand for two engine types, such as times with and without a zone.
    connection = first.connection
    stored = (
        []
        if connection is None
        else [query_types(connection, compile_rows(side)).values() for side in sides]
    )
    for name, *kinds in zip(types, *stored, strict=False):
        if kinds and kinds[0] != kinds[1]:
            raise _two_types(name, (first, last), (kinds[0], kinds[1]))
    return sides


def comparable_columns(first: Table, last: Table) -> list[str]:
    """Return the columns that both tables have in types that can be compared exactly.

    Edge cases: none if the tables are on different engines, because a whole table would have to be
    copied.
    """
    if first.expr.get_backend() is not last.expr.get_backend():
        return []

    def comparable(names: list[str]) -> bool:
        try:
            _comparable_rows(first, last, names)
        except InputError:
            return False
        return True

    names = [name for name in first.columns if name in last.columns]
    return names if comparable(names) else [name for name in names if comparable([name])]


def record_columns(table: Table, columns: Columns, unit: str | None) -> list[str]:
    """Return the columns that make up a record; the unit is a name, not part of it."""
    table.check_exact()
    if unit is None:
        return table.choose(columns)
    table.choose([unit])
    names = [name for name in table.columns if name != unit] if columns is None else columns
    chosen = table.choose(names)
    if unit in chosen:
        raise InputError(
            f"unit must not be among the columns, got {unit!r}: with its name every record "
            "would be different."
        )
    return chosen


def number_keys(
    table: Table,
    keys: Sequence[str],
    *,
    unit: str | None = None,
    types: dict[str, dt.DataType] | None = None,
) -> ir.Table:
    """Return the exact keys of the columns as k0, k1, …, to avoid clashes with column names."""

    def value(name: str) -> ir.Value:
        return table.expr[name].cast(types[name]) if types else table.expr[name]

    chosen = {f"k{index}": value(name) for index, name in enumerate(keys)}
    if unit is not None:
        chosen["unit"] = value(unit)
    return exact_rows(table.expr.select(**chosen), table.name)


def records_of(rows: ir.Table) -> ir.Table:
    """Return one row per record: the row itself, or the bag of rows of a unit."""
    return bags_of(rows).drop("unit") if "unit" in rows.columns else rows


#: Engines that sort and group lists of records.
_STRUCTS = ("pyspark", "databricks")


def bags_of(rows: ir.Table) -> ir.Table:
    """Return one row per unit with its bag of rows.

    A bag is represented by the sorted list of its rows' dense ranks.  Equal rows have equal ranks,
    so bags are equal exactly if their lists are.
    """
    import ibis

    keys = [name for name in rows.columns if name != "unit"]
    if rows.get_backend().name in _STRUCTS:
        # Ranking all rows would take place on one machine; rows can be compared in parallel.
        row = rows.mutate(row=ibis.struct({key: rows[key] for key in keys}))
        return row.group_by("unit").agg(bag=row["row"].collect().sort())
    ranked = rows.select("unit", rank=ibis.dense_rank().over(order_by=[rows[key] for key in keys]))
    return ranked.group_by("unit").agg(bag=ranked["rank"].collect(order_by=ranked["rank"]))


def refuse_null_units(table: Table, unit: str) -> None:
    """Reject rows without a value that identifies the person."""
    value = table.expr[unit]
    missing = value.isnull()
    if value.type().is_floating():
        missing = missing | value.isnan()
    rows = table.fetch(table.expr.aggregate(n=missing.sum())).column("n").to_pylist()[0]
    if rows:
        raise InputError(
            f"unit must name a person in every row, got {rows} rows of {table.name} without a "
            f"value in {unit!r}."
        )


def _common_types(first: Table, last: Table, names: Sequence[str]) -> dict[str, dt.DataType]:
    """Return for each column a type that holds both tables' values without loss."""
    import ibis.expr.datatypes as dt

    types: dict[str, dt.DataType] = {}
    for name in names:
        one = first.expr[name].type().copy(nullable=True)
        two = last.expr[name].type().copy(nullable=True)
        signed = {one, two}.isdisjoint({dt.uint64})
        if one == two or two.is_null():
            types[name] = one
        elif one.is_null():
            types[name] = two
        elif one.is_integer() and two.is_integer() and signed:
            types[name] = dt.int64
        elif one.is_floating() and two.is_floating():
            types[name] = dt.float64
        else:
            raise _two_types(name, (first, last), (one, two))
    return types


def _two_types(
    name: str, tables: tuple[Table, Table], types: tuple[dt.DataType, dt.DataType]
) -> InputError:
    (first, last), (one, two) = tables, types
    return InputError(
        f"column {name!r} must have one type in both tables, got {one} in {first.name} and {two} "
        f"in {last.name}."
    )


def _int64(rows: pa.Table, name: str) -> NDArray[np.int64]:
    return np.asarray(rows.column(name).to_numpy(), dtype=np.int64)


# ── The table's rows, each with the leak of its count
#
# Record leakage depends on a row only through the count of its cell (X7), so row-level output is a
# join of the table with its own cell counts and with a small list count → value, written by the
# engine without passing through Python.

_FORMATS = {
    ".csv": "FORMAT csv, HEADER",
    ".csv.gz": "FORMAT csv, HEADER, COMPRESSION gzip",
    ".parquet": "FORMAT parquet, COMPRESSION zstd",
}
#: Name of the added column.
LEAK_COLUMN = "record_leak_upper"


def write_records(
    source: object,
    columns: Columns,
    leak_by_count: Mapping[int, float],
    out: str | os.PathLike[str],
    *,
    unit: str | None = None,
    overwrite: bool = False,
    excel_safe: bool = False,
) -> int:
    """Write the table's rows in order with a column of leaks; return the number of rows.

    The leak of a row is ``leak_by_count[c]``, where c is the number of rows in its cell (with
    ``unit``: the number of units with the same bag of rows).  ``out`` ends in ``.parquet``,
    ``.csv`` or ``.csv.gz``.

    Guarantee: ``out`` appears complete or not at all: a draft in the same folder is renamed.
    Edge cases: an existing file is rejected unless ``overwrite`` is set, and so are a table that
    already has a column of that name, and the table's own file.
    """
    with use_table(source) as opened:
        keys = record_columns(opened, columns, unit)
        if LEAK_COLUMN in map(str.casefold, opened.columns):
            raise InputError(f"{opened.name} must not have a column {LEAK_COLUMN!r}.")
        formats = tuple(_FORMATS)
        target = check_output(Path(out), formats=formats, source=opened.path, force=overwrite)
        local = opened.local
        if unit is not None:
            refuse_null_units(local, unit)
        shown = _excel_safe_columns(local) if excel_safe else None
        return local.run(
            lambda: _write(local, keys, unit, leak_by_count, target, shown=shown, force=overwrite)
        )


def _excel_safe_columns(table: Table) -> str:
    """Return SQL for the columns of rows ``r`` with texts and names that no spreadsheet runs."""
    shown = []
    for name, kind in table.types(table.columns).items():
        value = f"r.{identifier(name)}"
        if kind.id in ("varchar", "enum"):
            text = f"CAST({value} AS VARCHAR)"
            formula = f"{text} <> '' AND contains({literal(FORMULA_STARTS)}, left({text}, 1))"
            number = f"regexp_full_match({text}, {literal(SIGNED_NUMBER)})"
            quoted = f"{literal(chr(39))} || {text}"
            value = f"CASE WHEN {formula} AND NOT {number} THEN {quoted} ELSE {text} END"
        shown.append(f"{value} AS {identifier(str(excel_safe_text(name)))}")
    return ", ".join(shown)


def _write(
    table: EmbeddedTable,
    keys: list[str],
    unit: str | None,
    leak_by_count: Mapping[int, float],
    target: Path,
    *,
    shown: str | None,
    force: bool,
) -> int:
    engine, key = table.engine, exact_keys(table.types(table.columns), table.name)
    position, number = engine.fresh("place"), engine.fresh("count")
    if unit is None:
        cell = {engine.fresh("key"): key[name] for name in keys}
        listed = ", ".join(f"{value} AS {alias}" for alias, value in cell.items())
        counts = f"SELECT {listed}, count(*) AS {number} FROM {table.view} GROUP BY ALL"
    else:
        cell = {engine.fresh("unit"): key[unit]}
        bags = bags_of(number_keys(table, keys, unit=unit))
        same = bags.count().over(group_by=bags.bag)
        counts = compile_rows(bags.select(**dict.fromkeys(cell, bags.unit), **{number: same}))
    # Null equals null here, as in GROUP BY.
    equal = " AND ".join(f"{value} IS NOT DISTINCT FROM {alias}" for alias, value in cell.items())
    values = ", ".join(f"({count}, {leak!r}::DOUBLE)" for count, leak in leak_by_count.items())
    select = (
        f"SELECT {shown or f'r.* EXCLUDE ({position})'}, w.leak AS {LEAK_COLUMN} "
        f"FROM (SELECT *, row_number() OVER () AS {position} FROM {table.view}) AS r "
        f"JOIN ({counts}) AS s ON {equal} "
        f"JOIN (VALUES {values}) AS w(n, leak) ON w.n = s.{number} ORDER BY r.{position}"
    )
    form = next(f for ending, f in _FORMATS.items() if target.name.lower().endswith(ending))
    copied = 0

    def write(draft: Path) -> None:
        nonlocal copied
        copy = f"COPY ({select}) TO {literal(draft)} ({form}, USE_TMP_FILE false)"
        with writing(str(target)):
            ((copied,),) = engine.sql(copy).fetchall()
        # Check that the joins neither lost nor repeated a row.
        if copied != table.count_rows():
            raise MemberboundError(f"{target} would not hold every row once; not written.")

    write_atomically(target, write, force, private=True)
    return int(copied)


def select_columns(
    table: Table, columns: Columns, roles: Roles, unit: str | None = None
) -> Selection:
    """Return the columns to count: the named ones, or all but identifiers and the unit."""
    readings = table.readings(columns, roles)
    apart = () if unit is None or columns is not None else (unit,)
    chosen = select_by_role(readings, columns, apart=apart, texts=True)
    return replace(chosen, notes=(*table.header_notes, *chosen.notes))
