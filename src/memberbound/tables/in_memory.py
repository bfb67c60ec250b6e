"""A table in memory: the reader of every verb that looks at rows one by one.

A :class:`Population` is public: which of its columns are used, and as what, follows from their
roles (:mod:`memberbound.tables.roles`).  :class:`Records` are secret: nothing about their rows
decides how they are read (:mod:`memberbound.tables.columns`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray
from memberbound.tables.columns import Form, Values, label_of
from memberbound.tables.exact import movable
from memberbound.tables.recipe import exact_codes
from memberbound.tables.roles import (
    Reading,
    Roles,
    Selection,
    array_roles,
    numbers_from,
    read_roles,
    selected,
)
from memberbound.tables.source import Columns, Table, header_notes, open_table, stored_array

if TYPE_CHECKING:
    import pyarrow as pa
    from pandas import DataFrame

__all__ = [
    "Population",
    "Records",
    "check_target_role",
    "column_names",
    "first_rows",
    "is_array",
    "read_frame",
    "read_population",
    "read_records",
    "read_secret_columns",
    "readings_of",
]


@dataclass(frozen=True, eq=False)
class Population:
    """Records in rows: the columns that are used, the target, and what every column is.

    ``frame`` holds the values as the table has them; ``values`` and ``parsed`` read them.
    """

    frame: DataFrame
    selection: Selection
    target: str | None = None
    name: str = "the table"

    @property
    def rows(self) -> int:
        """Number of records."""
        return len(self.frame)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are used, without the target."""
        return self.selection.columns

    @property
    def readings(self) -> dict[str, Reading]:
        """What every column of the table is, and how its values are written."""
        return self.selection.readings

    @property
    def forms(self) -> dict[str, str]:
        """Of the columns that are used as numbers, how their values are written."""
        used = self.selection.columns
        return {c: self.readings[c].form for c in used if self.readings[c].numeric}

    def numbers(self, column: str) -> FloatArray:
        """Return one column as numbers: days for dates, NaN where a value is missing."""
        return numbers_from(self.frame[column], self.readings[column].form)

    @cached_property
    def values(self) -> FloatArray:
        """The columns as one array of finite numbers; anything else is refused with its place."""
        if self.rows == 0:
            raise InputError(f"{self.name} must hold at least one record, got none.")
        names = list(self.columns)
        if names == list(self.frame.columns) and (self.frame.dtypes == np.float64).all():
            # Numbers already: of an array this is the array itself.
            values = np.ascontiguousarray(self.frame.to_numpy())
        else:
            values = np.empty((self.rows, len(names)))
            for place, name in enumerate(names):
                values[:, place] = self.numbers(name)
        bad = ~np.isfinite(values)
        if bad.any():
            row, column = map(int, np.argwhere(bad)[0])
            raise InputError(
                f"{self.name} must hold finite numbers, got {_spoken(values[row, column])} in "
                f"row {row + 1}, column {self.columns[column]!r} ({int(bad.sum())} such values). "
                "Fill or drop them first."
            )
        return values

    def parsed(self) -> DataFrame:
        """Return the columns and the target with numbers as numbers and dates as time stamps."""
        import pandas as pd

        found = {}
        for name in (*self.columns, *([] if self.target is None else [self.target])):
            reading, series = self.readings[name], self.frame[name]
            if reading.role == "date":
                micros = np.round(self.numbers(name) * 86_400e6)
                # Nothing is a date far from any year that a calendar has.
                stamps = np.where(np.isfinite(micros), micros, -(2.0**63))
                found[name] = pd.Series(stamps.astype("int64").astype("datetime64[us]"))
            elif reading.numeric and not pd.api.types.is_numeric_dtype(series):
                found[name] = pd.Series(self.numbers(name))
            else:
                found[name] = series.reset_index(drop=True)
        return pd.DataFrame(found)


@dataclass(frozen=True, eq=False)
class Records:
    """Secret records in rows: columns that were read value by value.

    Guarantee: a record decides about its own row of every column and about nothing else: neither
    how other rows are read, nor whether they are, nor how many rows there are.  With ``unit`` each
    is the first one of a value of that column, and a record is all that this value has.
    """

    columns: Mapping[str, Values]
    rows: int
    name: str = "the table"
    unit: str | None = None

    def __len__(self) -> int:
        return self.rows

    def taken(self, rows: NDArray[np.intp]) -> Records:
        """Return some of the records."""
        parts = {name: values.taken(rows) for name, values in self.columns.items()}
        return replace(self, columns=parts, rows=len(rows))

    def chosen(self, names: Iterable[str]) -> Records:
        """Return the records with these columns."""
        return replace(self, columns={name: self.columns[name] for name in names})

    def first_of(self, unit: str) -> Records:
        """Return the first record of every value of a column, without that column.

        A person's row then depends on that person's rows alone, so whatever is promised about one
        row of what is kept is promised about one person.  A row without a value in that column is a
        person of its own.
        """
        persons, _ = self.columns[unit].named()
        person = np.where(persons < 0, self.rows + np.arange(self.rows), persons)
        _, places = np.unique(person, return_index=True)
        kept = [name for name in self.columns if name != unit]
        return replace(self.chosen(kept).taken(np.sort(places)), unit=unit)


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
        >>> found = read_records([["1,5", 3], ["x", None]])
        >>> {name: values.numbers.tolist() for name, values in found.columns.items()}
        {'x0': [1.5, nan], 'x1': [3.0, nan]}
    """
    import pandas as pd

    if isinstance(source, Records):
        return source if columns is None else source.chosen(columns)
    raw: Mapping[str, object]
    name = "the table"
    if isinstance(source, (list, tuple)):
        raw, rows = _listed_columns(source)
    elif isinstance(source, pd.DataFrame):
        frame = _tidied(source)
        raw, rows = {str(c): frame[c] for c in frame.columns}, len(frame)
    elif isinstance(source, np.ndarray):
        if source.ndim != 2 or isinstance(source, np.ma.MaskedArray):
            raise InputError(
                f"the array must hold rows of values and no mask, got {type(source).__name__} of "
                f"shape {source.shape}."
            )
        raw, rows = {f"x{i}": source[:, i] for i in range(source.shape[1])}, len(source)
    else:
        with open_table(source, database_table, secret=True) as opened:
            arrow, name = _arrow_of(opened, columns), opened.name
        raw, rows = dict(zip(arrow.column_names, arrow.columns, strict=True)), arrow.num_rows
    chosen = list(raw if columns is None else columns)
    absent = next((c for c in chosen if c not in raw), None)
    if absent is not None:
        raise InputError(f"{name} has no column {absent!r}; it has {', '.join(map(repr, raw))}.")
    asked = forms or {}
    values = {}
    for column in chosen:
        try:
            values[column] = Values.of(raw[column], asked.get(column, "any"))
        except InputError as problem:
            raise InputError(f"column {column!r} of {name}: {problem}") from None
    return Records(values, rows, name)


def read_secret_columns(
    source: object,
    forms: Mapping[str, Form],
    *,
    target: str | None = None,
    columns: Columns = None,
    unit: str | None = None,
    database_table: str | None = None,
) -> Records:
    """Read the columns of a secret table that a release uses: named ones or all, and the target.

    ``forms`` are those of the columns with bounds.  With ``unit`` only the first record of each of
    its values is kept (:meth:`Records.first_of`).

    Edge cases: names that the table does not have are refused, as is a unit that is also used.
    """
    from pandas import DataFrame

    if not isinstance(source, (DataFrame, list, tuple, np.ndarray, Records, Table)):
        source = open_table(source, database_table, secret=True)  # once: a stream is read once
    names, name = column_names(source)
    asked = [columns] if isinstance(columns, str) else list(columns or names)
    aim = [] if target is None else [target]
    whose = [] if unit is None else [unit]
    for column in (*aim, *asked, *forms, *whose):
        if column not in names:
            known = ", ".join(map(repr, names))
            raise InputError(f"{name} has no column {column!r}; it has {known}.")
    if unit is not None and unit in (*aim, *(asked if columns is not None else ()), *forms):
        raise InputError(
            f"unit must be neither the target nor among the columns, got {unit!r}: it says whose "
            "row it is."
        )
    kept = [c for c in dict.fromkeys(asked) if c not in (target, unit)]
    records = read_records(source, forms, columns=[*kept, *aim, *whose])
    return records if unit is None else records.first_of(unit)


def _listed_columns(source: Sequence[object]) -> tuple[dict[str, list[object]], int]:
    """Return the columns of a list of rows; its values keep their own types."""
    rows = [row if isinstance(row, (list, tuple, np.ndarray)) else [row] for row in source]
    widths = {len(row) for row in rows}
    if len(widths) != 1 or 0 in widths:
        raise InputError("a list of rows must hold rows of equal length, and at least one.")
    return {f"x{i}": [row[i] for row in rows] for i in range(widths.pop())}, len(rows)


def _arrow_of(opened: Table, columns: Iterable[str] | None) -> pa.Table:
    """Return the rows of an open table, typed by its schema alone."""
    if not opened.moves:
        from memberbound.tables.counting import repeated_rows

        with repeated_rows(opened, columns) as local:
            return _arrow_of(local, None)
    expr = opened.expr if columns is None else opened.expr.select(*opened.choose(list(columns)))
    return opened.fetch(movable(expr, opened.name), "reading rows")


def read_population(
    source: object,
    columns: Columns = None,
    *,
    roles: Roles = None,
    target: str | None = None,
    numeric: bool = False,
    database_table: str | None = None,
    unit: str | None = None,
) -> Population:
    """Read a file or an object in memory.

    Identifiers and free text are left out unless ``columns`` names them or ``roles`` gives them
    another role.  With ``numeric`` only numbers and truth values are used (named columns may also
    be dates).  With ``unit`` the first row of each of its values is kept (:func:`first_rows`).

    Edge cases: an array has numbers in every column.  Rows without a target are left out.  A target
    that is a date, an identifier or free text is refused, and so is a named column without numbers
    where numbers are needed.

    Examples:
        >>> read_population(np.array([[1.0, 2.0], [3.0, 4.0]]), numeric=True).values.shape
        (2, 2)
    """
    array = is_array(source)
    if isinstance(source, Population):
        return source
    given = _framed(source) if array else source
    frame, name, readings = _read(given, roles, database_table, array=array)
    if target is not None:
        _check_target(target, readings, name)
    if columns is not None:
        _check_columns(columns, readings, target, name)
    apart = () if target is None else (target,)
    chosen = selected(readings, columns, apart=apart if unit is None else (*apart, unit))
    chosen = replace(chosen, notes=(*header_notes(source), *chosen.notes))
    if unit is not None:
        frame, note = first_rows(frame, unit, name, used=(*chosen.columns, *apart))
        chosen = replace(chosen, notes=(*chosen.notes, note))
    if target is not None:
        frame, notes = _with_target(frame, target)
        chosen = replace(chosen, notes=(*chosen.notes, *notes))
    if numeric:
        chosen = _numeric(chosen, columns, name)
    if not chosen.columns:
        raise InputError(f"{name} must have a column besides the target {target!r}, got none.")
    used = [*chosen.columns, *apart]
    if array:
        name = str(source) if isinstance(source, (str, os.PathLike)) else "the array"
    kept = frame if used == list(frame.columns) else frame[used]
    return Population(kept, chosen, target, name)


def _with_target(frame: DataFrame, target: str) -> tuple[DataFrame, tuple[str, ...]]:
    """Return the rows that have a target, and a note on the others: nothing is learnt from them."""
    missing = Values.of(frame[target]).positions([""]) == 0
    count = int(missing.sum())
    if not 0 < count < len(frame):
        return frame, ()
    rows = f"{count} row{'' if count == 1 else 's'}"
    note = f"{rows} without a value in {target!r} {'is' if count == 1 else 'are'} left out"
    return frame[~missing].reset_index(drop=True), (note,)


def is_array(source: object) -> bool:
    """Tell whether a table is an array, whose columns are numbers by whoever made it."""
    if isinstance(source, (str, os.PathLike)):
        return Path(source).suffix.lower() == ".npy"
    return isinstance(source, (np.ndarray, list, tuple))


def read_frame(
    source: object, database_table: str | None = None, columns: Iterable[str] | None = None
) -> tuple[DataFrame, str]:
    """Return a table as pandas has it, its values as they are written, and its name."""
    import pandas as pd

    if isinstance(source, pd.DataFrame):
        return _tidied(source), "the table"
    with open_table(source, database_table) as opened:
        return _fetched(opened, columns), opened.name


def first_rows(
    frame: DataFrame, unit: str, name: str = "the table", used: Iterable[str] = ()
) -> tuple[DataFrame, str]:
    """Return the first row of every value of a column, without that column, and a note.

    A person's row then depends on that person's rows alone, so whatever is promised about one row
    of what is kept is promised about one person.  Values are compared as
    :func:`memberbound.tables.recipe.exact_codes` does: ids that an engine would merge stay apart.

    Examples:
        >>> import pandas as pd
        >>> visits = pd.DataFrame({"who": ["a", "b", "a"], "age": [30, 40, 31]})
        >>> first_rows(visits, "who")[0]["age"].tolist()
        [30, 40]
    """
    if unit not in frame.columns:
        raise InputError(f"{name} has no column {unit!r}; it has {', '.join(frame.columns)}.")
    if unit in used:
        raise InputError(
            f"unit must be neither the target nor among the columns, got {unit!r}: it says whose "
            "row it is."
        )
    whose = frame[unit]
    if whose.isna().any():
        raise InputError(
            f"unit must say whose row it is, got {int(whose.isna().sum())} rows of {name} without "
            f"a value in {unit!r}."
        )
    _, places = np.unique(exact_codes(whose), return_index=True)
    kept = frame.drop(columns=unit).iloc[np.sort(places)].reset_index(drop=True)
    note = (
        f"one record is one value of {unit!r}, by its first row: {len(kept)} of {len(frame)} rows "
        "are used"
    )
    return kept, note


def column_names(source: object, database_table: str | None = None) -> tuple[list[str], str]:
    """Return the names of a table's columns, and the table's own."""
    import pandas as pd

    if isinstance(source, Table):
        return list(source.columns), source.name
    if isinstance(source, pd.DataFrame):
        return [str(name) for name in source.columns], "the table"
    if isinstance(source, (list, tuple)):
        return list(_listed_columns(source)[0]), "the table"
    if isinstance(source, Records):
        return list(source.columns), source.name
    # The rows may be secret: no value of theirs may stop this.
    with open_table(source, database_table, secret=True) as opened:
        return list(opened.columns), opened.name


def readings_of(frame: DataFrame, roles: Roles = None, source: object = None) -> dict[str, Reading]:
    """Return the readings of the columns of a pandas table.

    ``source`` is the file that it comes from, whose separator tells what a comma is.
    """
    path = Path(source) if isinstance(source, (str, os.PathLike)) else None
    with open_table(_arrowed(frame)) as opened:
        table = replace(opened, name="the table", path=path)
        return read_roles(table, None, roles, array=is_array(source))


def _read(
    source: object, roles: Roles, database_table: str | None, *, array: bool
) -> tuple[DataFrame, str, dict[str, Reading]]:
    import pandas as pd

    if isinstance(source, pd.DataFrame):
        frame = _tidied(source)
        if array:
            return frame, "the table", array_roles(list(frame.columns), roles)
        with open_table(_arrowed(frame)) as opened:
            found = read_roles(replace(opened, name="the table"), None, roles)
        return frame, "the table", found
    from memberbound.tables.counting import repeated_rows

    with open_table(source, database_table) as opened:
        local = opened.embedded() if opened.moves else repeated_rows(opened)
        try:
            found = read_roles(local, None, roles)
            return _fetched(local, None), opened.name, found
        finally:
            if local is not opened:
                local.close()


def _fetched(opened: Table, columns: Iterable[str] | None) -> DataFrame:
    """Return the rows in memory; whole numbers keep all their digits beside missing ones."""
    import pandas as pd
    import pyarrow as pa

    arrow = _arrow_of(opened, columns)
    frame = arrow.to_pandas()
    for name, column in zip(arrow.column_names, arrow.columns, strict=True):
        if pa.types.is_integer(column.type) and column.null_count:
            kind = "UInt64" if pa.types.is_unsigned_integer(column.type) else "Int64"
            frame[name] = pd.Series(pd.array(column.to_pylist(), dtype=kind), index=frame.index)
    return frame


def _tidied(frame: DataFrame) -> DataFrame:
    """Return a pandas table whose columns have names that are text."""
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"the table's columns must have different names, got {twice!r} twice.")
    return frame if names == list(frame.columns) else frame.set_axis(names, axis=1)


def _arrowed(frame: DataFrame) -> pa.Table:
    """Return an Arrow table to look at; a column of mixed values goes by their names."""
    import pyarrow as pa

    columns = {}
    for name in frame.columns:
        try:
            columns[name] = pa.array(frame[name], from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            missing = frame[name].isna()
            texts = [
                None if gap else label_of(value, "text")
                for value, gap in zip(frame[name], missing, strict=True)
            ]
            columns[name] = pa.array(texts, pa.string())
    if not columns:
        raise InputError("the table must have at least one column, got none.")
    return pa.table(columns)


def _framed(source: object) -> DataFrame:
    import pandas as pd

    name = "the array"
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        name = str(path)
        if not path.is_file():
            raise InputError(f"{path} does not exist.")
        source = stored_array(path)
    try:
        values = np.asarray(source, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must hold numbers in rows of equal length.") from None
    if np.iscomplexobj(np.asarray(source)) or values.ndim not in (1, 2):
        raise InputError(f"{name} must be a real array of rows, got shape {values.shape}.")
    values = values[:, None] if values.ndim == 1 else values
    if 0 in values.shape:
        raise InputError(f"{name} must hold at least one record, got none.")
    names = [f"x{index}" for index in range(values.shape[1])]
    return pd.DataFrame(values, columns=names, copy=False)


def _check_target(target: str, readings: Mapping[str, Reading], name: str) -> None:
    if target not in readings:
        raise InputError(f"{name} has no column {target!r}; it has {', '.join(readings)}.")
    check_target_role(target, readings[target])


def check_target_role(target: str, reading: Reading) -> None:
    """Refuse a target that nothing can be learnt about as it is."""
    if reading.role == "date":
        raise InputError(
            f"target must be a number or a category, got {target!r}, which holds dates. "
            "Make a number or classes of them first (days until, weekday, year)."
        )
    if reading.role in ("identifier", "text"):
        what = "looks like an identifier" if reading.role == "identifier" else "is free text"
        remedy = " If it is a number to predict, give it the role 'number'." * reading.whole
        raise InputError(
            f"target must have values that repeat, or be a measurement, got {target!r}, which "
            f"{what}: hardly any two rows share a value.{remedy}"
        )


def _check_columns(
    columns: Columns, readings: Mapping[str, Reading], target: str | None, name: str
) -> None:
    names = [columns] if isinstance(columns, str) else list(columns or ())
    free = [c for c in readings if c != target]
    if target in names or not names:
        raise InputError(f"columns of {name} must be among {', '.join(free)}, got {names!r}.")
    unknown = [c for c in names if c not in free]
    if unknown:
        known = ", ".join(map(repr, free))
        raise InputError(
            f"columns must be columns of {name} ({known}); it has no column {unknown[0]!r}."
        )
    twice = [c for place, c in enumerate(names) if c in names[:place]]
    if twice:
        raise InputError(f"columns must differ from one another, got {twice[0]!r} twice.")


def _numeric(chosen: Selection, columns: Columns, name: str) -> Selection:
    """Keep the columns that are numbers; named ones must be."""

    def usable(reading: Reading) -> bool:
        return reading.form == "truth" or (
            reading.numeric and (reading.role != "date" or columns is not None)
        )

    without = [c for c in chosen.columns if not usable(chosen.readings[c])]
    if columns is not None and without:
        raise InputError(f"column {without[0]!r} of {name} must hold numbers; encode it first.")
    used = tuple(c for c in chosen.columns if c not in without)
    if not used:
        raise InputError(f"{name} must have at least one column of numbers, got none.")
    if not without:
        return chosen
    dates = [c for c in without if chosen.readings[c].role == "date"]
    note = "columns without numbers are left out: " + ", ".join(without)
    if dates:
        note += "; name dates in columns to use them as days since 1970"
    left = (*chosen.left_out, *without)
    return replace(chosen, columns=used, left_out=left, notes=(*chosen.notes, note))


def _spoken(value: float) -> str:
    return "nothing (or NaN)" if np.isnan(value) else f"{float(value)!r}"
