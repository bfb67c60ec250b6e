"""The cells themselves: their values with counts, and the table's rows with a value per count.

Record leakage depends on a row only through the count of its cell (X7), so row-level output is a
join of the table with its own cell counts and with a small list count → value, written by the
engine without passing through Python.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memberbound.errors import InputError, MemberboundError, finite_number, whole_number
from memberbound.tables.counting import (
    bags_of,
    numbered,
    opened_table,
    record_columns,
    refuse_null_units,
)
from memberbound.tables.engine import BATCH_ROWS, Engine, identifier, literal
from memberbound.tables.source import Columns, Table

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

__all__ = ["cell_counts", "write_records"]

_FORMATS = {
    ".csv": "FORMAT csv, HEADER",
    ".csv.gz": "FORMAT csv, HEADER, COMPRESSION gzip",
    ".parquet": "FORMAT parquet, COMPRESSION zstd",
}


@dataclass(frozen=True)
class _Output:
    """What is to be written: the table on its engine, what a record is, and the new column."""

    table: Table
    keys: list[str]
    unit: str | None
    values: dict[int, float]
    name: str

    @property
    def engine(self) -> Engine:
        if self.table.engine is None:
            raise TypeError("rows are written by the embedded engine")
        return self.table.engine


def cell_counts(
    source: Any,
    columns: Columns = None,
    *,
    at_most: int | None = None,
    count_name: str = "cell_rows",
    batch_rows: int = BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Yield every cell once, its values and its number of rows, in batches of bounded size.

    ``at_most`` keeps the small cells only: the rows that are exposed.  The order is the engine's.

    Examples:
        >>> import pyarrow
        >>> batches = cell_counts(pyarrow.table({"x": ["a", "b", "a"]}), at_most=1)
        >>> [batch.to_pylist() for batch in batches]
        [[{'x': 'b', 'cell_rows': 1}]]
    """
    limit = None if at_most is None else whole_number("at_most", at_most)
    size = whole_number("batch_rows", batch_rows)
    with opened_table(source, None, None) as opened:
        keys = record_columns(opened, columns, None)
        _refuse_taken("count_name", count_name, keys)
        rows = numbered(opened, keys, values=True)
        shown = {f"v{index}": rows[f"v_k{index}"].arbitrary() for index in range(len(keys))}
        cells = rows.group_by([f"k{index}" for index in range(len(keys))]).agg(
            n=rows.count(), **shown
        )
        if limit is not None:
            cells = cells.filter(cells.n <= limit)
        named = cells.select(
            **{name: cells[f"v{index}"] for index, name in enumerate(keys)}, **{count_name: cells.n}
        )
        yield from opened.run("counting cells", lambda: opened.batches(named, size))


def write_records(
    source: Any,
    columns: Columns,
    values_by_count: Mapping[int, float],
    out: str | os.PathLike[str],
    *,
    unit: str | None = None,
    name: str = "record_leak_upper",
    overwrite: bool = False,
) -> int:
    """Write the table's rows in their order with one more column, and return how many.

    The column ``name`` holds ``values_by_count[c]``, where c is the number of rows in the row's
    cell (with ``unit``: the number of units whose bag of rows is the same).  ``out`` ends in
    ``.parquet``, ``.csv`` or ``.csv.gz``.

    Guarantee: ``out`` appears complete or not at all: it is written beside its place under another
    name and renamed.
    Edge cases: an existing file is refused unless ``overwrite``; so are a count without a value, a
    column that has the new one's name, and the table's own file.
    """
    target = Path(out)
    _check_target(target)
    values = {
        whole_number("a count in values_by_count", count): finite_number(f"the value of {count}", v)
        for count, v in values_by_count.items()
    }
    with opened_table(source, None, None) as opened:
        keys = record_columns(opened, columns, unit)
        _refuse_taken("name", name, opened.columns)
        if opened.path is not None and target.exists() and target.samefile(opened.path):
            raise InputError(f"out must be another file than the table itself, got {target}.")
        if target.exists() and not overwrite:
            raise InputError(f"{target} exists already; remove it or allow overwriting.")
        local = opened.embedded()
        try:
            if unit is not None:
                refuse_null_units(local, unit)
            return local.run(
                "writing rows",
                lambda: _write(_Output(local, keys, unit, values, name), target),
            )
        finally:
            if local is not opened:
                local.close()


def _refuse_taken(argument: str, name: str, taken: Any) -> None:
    if name.casefold() in {column.casefold() for column in taken}:
        raise InputError(f"{argument} must not be one of the table's columns, got {name!r}.")


def _check_target(target: Path) -> None:
    if not target.name.lower().endswith(tuple(_FORMATS)):
        raise InputError(f"out must end in one of {', '.join(_FORMATS)}, got {str(target)!r}.")
    if target.is_dir() or not target.parent.is_dir():
        raise InputError(f"out must be a file in an existing directory, got {str(target)!r}.")


def _counts_of_rows(table: Table, keys: list[str], unit: str | None) -> ir.Table:
    """Return one line per cell or per unit (its key), with the record's count n."""
    if unit is None:
        rows = numbered(table, keys)
        return rows.group_by(rows.columns).agg(n=rows.count())
    bags = bags_of(numbered(table, keys, unit=unit))
    return bags.select("unit", n=bags.count().over(group_by=bags.bag))


def _write(output: _Output, target: Path) -> int:
    table, engine = output.table, output.engine
    with engine.stored(_counts_of_rows(table, output.keys, output.unit)) as stored:
        seen = table.fetch(stored.select("n").distinct()).column("n").to_pylist()
        if not seen:
            raise InputError(f"{table.name} must hold at least one row, got none.")
        missing = sorted(set(seen) - set(output.values))
        if missing:
            raise InputError(f"values_by_count must have a value for the count {missing[0]}.")
        select = _valued(output, stored)
        form = next(f for ending, f in _FORMATS.items() if target.name.lower().endswith(ending))
        part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
        try:
            copied = engine.sql(f"COPY ({select}) TO {literal(part)} ({form})").fetchone()[0]
            rows = engine.sql(f"SELECT count(*) FROM ({engine.backend.compile(table.expr)})")
            # The joins lose or repeat no row; a file where they did must not appear.
            if copied != rows.fetchone()[0]:
                raise MemberboundError(f"{target} would not hold every row once; not written.")
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    return int(copied)


def _valued(output: _Output, stored: ir.Table) -> str:
    """Return the query of the rows in their order with the value of their count."""
    import pyarrow as pa

    table, values, spelled = output.table, output.values, output.engine.backend.compile
    wanted = pa.table(
        {
            "n": pa.array(list(values), pa.int64()),
            "value": pa.array(list(values.values()), pa.float64()),
        }
    )
    place = {column: index for index, column in enumerate(table.columns)}
    shown = ", ".join(f"r.v_k{i} AS {identifier(column)}" for column, i in place.items())
    joined = {f"k{index}": column for index, column in enumerate(output.keys)}
    if output.unit is not None:
        joined = {"unit": output.unit}
    # Null equals null here, as it does in a GROUP BY.
    same = " AND ".join(f"r.k{place[c]} IS NOT DISTINCT FROM s.{key}" for key, c in joined.items())
    rows = spelled(numbered(table, table.columns, values=True))
    return (
        f"SELECT {shown}, w.value AS {identifier(output.name)} "
        f"FROM (SELECT *, row_number() OVER () AS place FROM ({rows})) AS r "
        f"JOIN ({spelled(stored)}) AS s ON {same} "
        f"JOIN ({spelled(output.engine.arrow(wanted))}) AS w ON w.n = s.n ORDER BY r.place"
    )
