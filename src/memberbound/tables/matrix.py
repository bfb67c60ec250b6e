"""The numeric columns of a table as one array of records, in the order of the rows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray
from memberbound.tables.source import Columns, open_table

__all__ = ["NumericTable", "numeric_table"]


@dataclass(frozen=True, eq=False)
class NumericTable:
    """Records in rows; ``left_out`` are the columns that hold no numbers."""

    values: FloatArray
    columns: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    name: str = "the array"


def numeric_table(
    source: Any, columns: Columns = None, database_table: str | None = None
) -> NumericTable:
    """Return the numeric columns of a file or an object in memory.

    Arrays (and ``.npy`` files) are taken as they are; of tables, all columns of numbers unless
    ``columns`` names some.
    Edge cases: a missing or non-finite value, no row, no numeric column and a named column
    without numbers are refused with the place where they are.

    Examples:
        >>> numeric_table(np.array([[1.0, 2.0], [3.0, 4.0]])).values.shape
        (2, 2)
    """
    if isinstance(source, NumericTable):
        return source
    if isinstance(source, (str, os.PathLike)) and Path(source).suffix.lower() == ".npy":
        path = Path(source)
        if not path.is_file():
            raise InputError(f"{path} does not exist.")
        try:
            loaded = np.load(path, allow_pickle=False)
        except (ValueError, OSError, EOFError) as problem:
            raise InputError(f"{path} is not a readable .npy file: {problem}.") from None
        return _array(loaded, columns, str(path))
    if isinstance(source, (np.ndarray, list, tuple)):
        return _array(source, columns, "the array")
    return _table(source, columns, database_table)


def _array(source: Any, columns: Columns, name: str) -> NumericTable:
    try:
        values = np.asarray(source, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must hold numbers in rows of equal length.") from None
    if np.iscomplexobj(source) or values.ndim not in (1, 2):
        raise InputError(f"{name} must be a real array of rows, got shape {np.shape(source)}.")
    values = values[:, None] if values.ndim == 1 else values
    names = tuple(f"x{index}" for index in range(values.shape[1]))
    if columns is not None:
        chosen = [columns] if isinstance(columns, str) else list(columns)
        unknown = [c for c in chosen if c not in names]
        if unknown:
            raise InputError(f"{name} has no column {unknown[0]!r}; it has x0, x1, ….")
        values, names = values[:, [names.index(c) for c in chosen]], tuple(chosen)
    return _checked(NumericTable(np.ascontiguousarray(values), names, (), name))


def _table(source: Any, columns: Columns, database_table: str | None) -> NumericTable:
    with open_table(source, database_table) as opened:
        numbers = opened.with_numbers()
        schema = numbers.expr.schema()
        asked = numbers.choose(columns)
        usable = [c for c in asked if schema[c].is_numeric() or schema[c].is_boolean()]
        left_out = tuple(c for c in asked if c not in usable)
        if columns is not None and left_out:
            raise InputError(
                f"column {left_out[0]!r} of {opened.name} must hold numbers; encode it first."
            )
        if not usable:
            raise InputError(f"{opened.name} must have at least one column of numbers, got none.")
        expr = numbers.expr.select(**{c: numbers.expr[c].cast("float64") for c in usable})
        arrow = numbers.fetch(expr, "reading records")
        parts = [column.to_numpy(zero_copy_only=False) for column in arrow.columns]
    values = np.ascontiguousarray(np.column_stack(parts), dtype=np.float64)
    return _checked(NumericTable(values, tuple(usable), left_out, opened.name))


def _checked(table: NumericTable) -> NumericTable:
    if table.values.shape[0] == 0 or table.values.shape[1] == 0:
        raise InputError(f"{table.name} must hold at least one record, got none.")
    bad = ~np.isfinite(table.values)
    if bad.any():
        row, column = map(int, np.argwhere(bad)[0])
        raise InputError(
            f"{table.name} must hold finite numbers, got {_spoken(table.values[row, column])} in "
            f"row {row + 1}, column {table.columns[column]!r} ({int(bad.sum())} such values). "
            "Fill or drop them first."
        )
    return table


def _spoken(value: float) -> str:
    return "nothing (or NaN)" if np.isnan(value) else f"{float(value)!r}"
