"""Read new rows for a model as raw columns, by name and in any order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from memberbound.errors import InputError
from memberbound.tables.columns import read_column
from memberbound.tables.records import Records, read_records
from memberbound.tables.spelling import Form
from memberbound.tables.values import NumberValues, Values

if TYPE_CHECKING:
    pass

# New rows must have the training columns by name, in any order.  A problem that could silently make
# predictions wrong (a missing column, text among numbers) is an error; a harmless one (extra
# columns, missing values, new categories) is a notice.

#: Maximum number of names in a notice before "and … more".
_LISTED = 5


def as_columns(source: object) -> dict[str, list[object]] | None:
    """Return the columns of named rows (a mapping, a series, a list of mappings), or None."""
    if hasattr(source, "to_dict") and not hasattr(source, "columns"):  # a pandas row
        source = source.to_dict()
    if isinstance(source, Mapping):
        several = [isinstance(value, list | tuple | np.ndarray) for value in source.values()]
        if any(several) and not all(several):
            raise InputError("a mapping must hold one value per column, or a list per column.")
        columns = {
            str(name): list(value) if any(several) else [value] for name, value in source.items()
        }
        if len({len(values) for values in columns.values()}) != 1:
            raise InputError("a mapping must hold columns of equal length, and at least one.")
        return columns
    if isinstance(source, list) and source and all(isinstance(row, Mapping) for row in source):
        names = dict.fromkeys(name for row in source for name in row)
        return {str(name): [row.get(name) for row in source] for name in names}
    return None


def raw_records(
    source: object,
    columns: tuple[str, ...],
    forms: Mapping[str, Form],
    *,
    ignore: str | None = None,
    database_table: str | None = None,
    encoding: str | None = None,
    strict: bool = False,
) -> tuple[Records, tuple[str, ...]]:
    """Return raw columns of a table for a model of secret rows, and notices.

    An absent column is filled with missing values, unless ``strict``; at least one column must be
    present.
    """
    named = as_columns(source)
    if isinstance(source, np.ndarray) and source.shape in ((len(columns),), (1, len(columns))):
        named = dict(zip(columns, source.reshape(-1, 1).tolist(), strict=True))
    elif isinstance(source, np.ndarray) and source.ndim == 2 and source.shape[1] == len(columns):
        # An array without names has its columns in order.
        named = dict(zip(columns, source.T, strict=True))
    if named is None:
        records = read_records(source, forms, database_table=database_table, encoding=encoding)
    else:
        values: dict[str, Values] = {
            n: read_column(named[n], forms.get(n, "any")) for n in columns if n in named
        }
        values |= dict.fromkeys(named.keys() - values.keys(), NumberValues(np.zeros(0)))
        records = Records(values, len(next(iter(named.values()))), "the table")
    names = list(records.columns)
    present = tuple(name for name in columns if name in names)
    needed = columns if strict or not present else present
    notices = check_columns(needed, names, records.rows, records.name, ignore)
    absent = [name for name in columns if name not in present]
    if absent:
        notices += (f"missing columns count as missing values: {list_names(absent)}",)
        gap = NumberValues(np.zeros(records.rows), np.ones(records.rows, dtype=bool))
        records = replace(records, columns={**records.columns, **dict.fromkeys(absent, gap)})
    return records.select(columns), notices


def check_columns(
    columns: tuple[str, ...], names: list[str], rows: int, name: str, ignore: str | None
) -> tuple[str, ...]:
    """Reject a table without the model's columns; return notices about extra ones."""
    missing = [c for c in columns if c not in names]
    if missing:
        raise InputError(
            f"{name} must have every column that the model takes; {list_names(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing. It has {list_names(names)}."
        )
    twice = [c for c in columns if names.count(c) > 1]
    if twice:
        raise InputError(f"{name} must have each column once, got {twice[0]!r} twice.")
    if rows == 0:
        raise InputError(f"{name} must hold at least one row, got none.")
    extra = [c for c in names if c not in columns and c != ignore]
    if not extra:
        return ()
    return (f"columns that the model does not know are ignored: {list_names(extra)}",)


def list_names(names: list[str]) -> str:
    """Join names to a text, shortened if there are many."""
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")
