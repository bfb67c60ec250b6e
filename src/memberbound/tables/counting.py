"""Count how many cells hold one row, two rows, …: the only thing a certificate reads.

The count is a two-level GROUP BY on the engine (rows to cells, cells to counts of counts), so what
reaches Python is at most about √(2N) pairs, however long the table.  X5 of the theory explains why
nothing else is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memberbound.discrete.counts import CountProfile
from memberbound.errors import InputError
from memberbound.tables.exact import exact_rows, stored_types
from memberbound.tables.source import Columns, Table, open_table

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["PairProfile", "count_pair_profile", "count_profile"]


class PairProfile(NamedTuple):
    """``cells[i]`` cells hold ``train[i]`` rows of one table and ``reference[i]`` of the other."""

    train: NDArray[np.int64]
    reference: NDArray[np.int64]
    cells: NDArray[np.int64]


def count_profile(
    source: Any,
    columns: Columns = None,
    unit: str | None = None,
    *,
    table: str | None = None,
    memory_limit: str | None = None,
) -> CountProfile:
    """Return the counts of counts of a table over ``columns`` (all unless named).

    With ``unit`` a record is not a row but a person: the *bag* of all rows with one value of
    that column.  Two persons are the same record when their bags are equal, row for row and
    with multiplicity, so what a learner sees of a person is what is counted.  The unit's own
    values are names and are not part of the record.

    Guarantee: exact; cells are never merged by hashing.
    Numerics: counts are 64-bit integers.
    Edge cases: nulls are a category of their own (see :mod:`memberbound.tables.source`), so a
    column of nothing but nulls changes nothing.  An empty table, an unknown or repeated column, and
    a null ``unit`` are refused.

    Examples:
        >>> import pyarrow
        >>> visits = pyarrow.table({"who": [1, 1, 2, 2, 3], "what": ["a", "b", "b", "a", "a"]})
        >>> count_profile(visits, "what").expanded().tolist()
        [2, 3]
        >>> count_profile(visits, unit="who").expanded().tolist()
        [1, 2]
    """
    with opened_table(source, table, memory_limit) as given:
        keys = record_columns(given, columns, unit)
        opened = given if unit is None else _able(given, [*keys, unit])
        records = records_of(numbered(opened, keys, unit=unit))
        cells = records.group_by(records.columns).agg(n=records.count())
        found = opened.fetch(cells.group_by("n").agg(cells=cells.count()).order_by("n"))
        if found.num_rows == 0:
            raise InputError(f"{opened.name} must hold at least one row, got none.")
        if unit is not None:
            refuse_null_units(opened, unit)
        return CountProfile(_int64(found, "n"), _int64(found, "cells"))


def count_pair_profile(
    train: Any,
    reference: Any,
    columns: Columns = None,
    unit: str | None = None,
    *,
    memory_limit: str | None = None,
) -> PairProfile:
    """Return the joint counts of two tables over the same columns, for the two-sample certificate.

    Every cell of either table is counted once, with its rows here and there (0 included).  The
    column types must agree: text here and a number there would call equal what was never
    compared.  ``columns`` defaults to all columns of ``train``, which ``reference`` must have too.

    Examples:
        >>> import pyarrow
        >>> pair = count_pair_profile(
        ...     pyarrow.table({"x": ["a", "a", None]}), pyarrow.table({"x": ["a", "b"]})
        ... )
        >>> [list(map(int, column)) for column in pair]
        [[0, 1, 2], [1, 0, 1], [1, 1, 1]]
    """
    with (
        opened_table(train, None, memory_limit) as one,
        opened_table(reference, None, memory_limit, one) as two,
    ):
        keys = record_columns(one, columns, unit)
        record_columns(two, keys, unit)
        first, last = one, two
        if one.engine is None or two.engine is not one.engine:
            needed = keys if unit is None else [*keys, unit]
            first = one.embedded(columns=needed)
            last = two.embedded(first.engine, columns=needed)
        types = _common_types(first, last, keys if unit is None else [*keys, unit])
        sides = [
            numbered(table, keys, unit=unit, side=side, types=types)
            for side, table in enumerate((first, last))
        ]
        # What is one type to ibis may be two to the engine: times with and without a zone.
        for name, *kinds in zip(types, *(stored_types(s).values() for s in sides), strict=False):
            if kinds[0] != kinds[1]:
                raise _two_types(name, (first, last), (kinds[0], kinds[1]))
        records = records_of(sides[0].union(sides[1]))
        group = [name for name in records.columns if name != "side"]
        cells = records.group_by(group).agg(
            train=(records.side == 0).sum().cast("int64"),
            reference=(records.side == 1).sum().cast("int64"),
        )
        joint = cells.group_by(["train", "reference"]).agg(cells=cells.count())
        found = first.fetch(joint.order_by(["train", "reference"]))
        pair = PairProfile(*(_int64(found, name) for name in PairProfile._fields))
        for opened, counts in ((first, pair.train), (last, pair.reference)):
            if not counts.any():
                raise InputError(f"{opened.name} must hold at least one row, got none.")
            if unit is not None:
                refuse_null_units(opened, unit)
        return pair


def record_columns(table: Table, columns: Columns, unit: str | None) -> list[str]:
    """Return the columns that make up a record; the unit is a name, not part of it."""
    if unit is None:
        return table.choose(columns)
    table.choose([unit])
    names = [name for name in table.columns if name != unit] if columns is None else columns
    chosen = table.choose(names)
    if unit in chosen:
        raise InputError(
            f"unit must not be among the columns, got {unit!r}: with its name in it every record "
            "would be different."
        )
    return chosen


def numbered(
    table: Table,
    keys: Sequence[str],
    *,
    unit: str | None = None,
    side: int | None = None,
    types: dict[str, Any] | None = None,
    values: bool = False,
) -> ir.Table:
    """Return the exact keys of the columns as k0, k1, … so that no name of the user meets ours.

    With ``values`` the columns themselves are there as well: v_k0, v_k1, ….
    """
    import ibis

    def value(name: str) -> Any:
        return table.expr[name].cast(types[name]) if types else table.expr[name]

    chosen = {f"k{index}": value(name) for index, name in enumerate(keys)}
    if unit is not None:
        chosen["unit"] = value(unit)
    rows = exact_rows(table.expr.select(**chosen), table.name, values=values)
    return rows if side is None else rows.mutate(side=ibis.literal(side, type="int8"))


def records_of(rows: ir.Table) -> ir.Table:
    """Return one line per record: the row itself, or the bag of rows of a unit."""
    return bags_of(rows).drop("unit") if "unit" in rows.columns else rows


def bags_of(rows: ir.Table) -> ir.Table:
    """Return one line per unit with its bag of rows.

    A bag is written as the sorted list of its rows' numbers, where equal rows have equal numbers
    (their dense rank), so bags are equal exactly when the lists are.
    """
    import ibis

    keys = [name for name in rows.columns if name not in ("unit", "side")]
    who = [name for name in rows.columns if name in ("unit", "side")]
    ranked = rows.select(*who, rank=ibis.dense_rank().over(order_by=[rows[key] for key in keys]))
    return ranked.group_by(who).agg(bag=ranked["rank"].collect(order_by=ranked["rank"]))


def opened_table(
    source: Any, table: str | None, memory_limit: str | None, beside: Table | None = None
) -> AbstractContextManager[Table]:
    """Return a context manager that closes only what it has opened."""
    opened = open_table(source, table, memory_limit=memory_limit, beside=beside)
    # A table on its neighbour's engine must leave that engine running for its owner.
    shared = beside is not None and opened.engine is beside.engine
    return nullcontext(opened) if opened is source or shared else opened


def _able(table: Table, columns: list[str]) -> Table:
    """Return the table on an engine that has ranks and lists; not every one does."""
    import ibis.expr.operations as ops

    if table.engine is not None:
        return table
    backend = table.expr.get_backend()
    if all(backend.has_operation(op) for op in (ops.DenseRank, ops.ArrayCollect)):
        return table
    return table.embedded(columns=columns)


def refuse_null_units(table: Table, unit: str) -> None:
    value = table.expr[unit]
    missing = value.isnull()
    if value.type().is_floating():
        missing = missing | value.isnan()
    (found,) = table.fetch(table.expr.aggregate(n=missing.sum())).to_pylist()
    if found["n"]:
        raise InputError(
            f"unit must say whose row it is, got {found['n']} rows of {table.name} without a value "
            f"in {unit!r}."
        )


def _common_types(first: Table, last: Table, names: Sequence[str]) -> dict[str, Any]:
    """Return for each column a type that holds both tables' values without loss."""
    import ibis.expr.datatypes as dt

    types: dict[str, Any] = {}
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


def _two_types(name: str, tables: tuple[Table, Table], types: tuple[Any, Any]) -> InputError:
    (first, last), (one, two) = tables, types
    return InputError(
        f"column {name!r} must have one type in both tables, got {one} in {first.name} and {two} "
        f"in {last.name}."
    )


def _int64(found: Any, name: str) -> NDArray[np.int64]:
    return np.asarray(found.column(name).to_numpy(), dtype=np.int64)
