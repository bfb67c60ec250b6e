"""Public rows in memory, with columns selected by their roles."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from memberbound.errors import InputError
from memberbound.iid.worst_case import checked_law
from memberbound.numerics.rounding import FloatArray
from memberbound.tables.columns import read_column
from memberbound.tables.opening import use_table
from memberbound.tables.persons import check_unit, number_persons
from memberbound.tables.roles import Reading, Roles
from memberbound.tables.selection import Selection, select_by_role
from memberbound.tables.table import Columns, Table, check_names

if TYPE_CHECKING:
    from pandas import DataFrame


def read_population(
    source: object,
    columns: Columns = None,
    *,
    roles: Roles = None,
    target: str | None = None,
    numeric: bool = False,
    database_table: str | None = None,
    encoding: str | None = None,
    unit: str | None = None,
) -> tuple[Table, Selection]:
    """Return the rows of a public table with the columns to use, and the selection of columns.

    The rows are a table in memory: the selected columns, then the target.

    Identifiers and free text are left out unless ``columns`` names them or ``roles`` gives them
    another role.  With ``numeric``, only numbers and truth values are used (named columns may also
    be dates).  With ``unit``, the first row for each of its values is kept (:func:`first_rows`).

    Edge cases: an array has numbers in every column.  Rows without a target are left out.  A target
    that is a date, an identifier or free text is rejected, and so is a named column without numbers
    if ``numeric`` is set.

    Examples:
        >>> table, selection = read_population(np.array([[1.0, 2.0], [3.0, 4.0]]), numeric=True)
        >>> table.values.shape, selection.columns
        ((2, 2), ('x0', 'x1'))
    """
    with use_table(source, database_table, encoding=encoding) as table:
        frame, readings = table.frame, table.local.readings(roles=roles)
    if target is not None:
        table.choose(target)
        check_target_role(target, readings[target])
    if columns is not None and target in table.choose(columns):
        raise InputError(f"columns must not hold the target {target!r}.")
    apart = () if target is None else (target,)
    chosen = select_by_role(readings, columns, apart=apart if unit is None else (*apart, unit))
    notes = [*table.header_notes, *chosen.notes]
    if unit is not None:
        frame, note = first_rows(frame, unit, table.name, used=(*chosen.columns, *apart))
        notes.append(note)
    if target is not None:
        frame, missing = _with_target(frame, target)
        notes += missing
    chosen = replace(chosen, notes=tuple(notes))
    if numeric:
        chosen = _numeric(chosen, columns, table.name)
    if not chosen.columns:
        raise InputError(
            f"{table.name} must have a column besides the target {target!r}, got none."
        )
    used = [*chosen.columns, *apart]
    kept = frame if used == list(frame.columns) else frame[used]
    return table.with_frame(kept, chosen.readings), chosen


def _with_target(frame: DataFrame, target: str) -> tuple[DataFrame, tuple[str, ...]]:
    """Return the rows that have a target, and a note on the others, which are not used."""
    missing = read_column(frame[target]).absent
    count = int(missing.sum())
    if not 0 < count < len(frame):
        return frame, ()
    rows = f"{count} row{'' if count == 1 else 's'}"
    note = f"{rows} without a value in {target!r} {'is' if count == 1 else 'are'} left out"
    return frame[~missing].reset_index(drop=True), (note,)


def first_rows(
    frame: DataFrame, unit: str, name: str = "the table", used: Collection[str] = ()
) -> tuple[DataFrame, str]:
    """Return the first row for every value of a column, without that column, and a note.

    A person's row depends on that person's rows alone, so a guarantee for one of the returned rows
    is a guarantee for a person.  Values are compared like those of secret rows
    (:func:`memberbound.tables.persons.number_persons`).

    Examples:
        >>> import pandas as pd
        >>> visits = pd.DataFrame({"who": ["a", "b", "a"], "age": [30, 40, 31]})
        >>> first_rows(visits, "who")[0]["age"].tolist()
        [30, 40]
    """
    check_names([unit], list(frame.columns), name)
    check_unit(unit, used)
    persons = number_persons(frame[unit])
    if (persons < 0).any():
        raise InputError(
            f"unit must name a person in every row, got {int((persons < 0).sum())} rows of {name} "
            f"without a value in {unit!r}."
        )
    _, first = np.unique(persons, return_index=True)
    kept = frame.drop(columns=unit).iloc[np.sort(first)].reset_index(drop=True)
    note = (
        f"one person is one value of {unit!r}, by the first row: {len(kept)} of {len(frame)} rows "
        "are used"
    )
    return kept, note


def check_target_role(target: str, reading: Reading) -> None:
    """Reject a target that cannot be predicted: dates, identifiers and free text."""
    if reading.role == "date":
        raise InputError(
            f"target must be a number or a category, got {target!r}, which holds dates. "
            "Convert them to a number or classes first (days until, weekday, year)."
        )
    if reading.role in ("identifier", "text"):
        what = "looks like an identifier" if reading.role == "identifier" else "is free text"
        remedy = " If it is a number to predict, give it the role 'number'." * reading.whole
        raise InputError(
            f"target must have values that repeat, or be a measurement, got {target!r}, which "
            f"{what}: hardly any two rows share a value.{remedy}"
        )


def _numeric(chosen: Selection, columns: Columns, name: str) -> Selection:
    """Keep the numeric columns; raise if a named column is not numeric."""

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


# ── Probabilities of a distribution
# ────────────────────────────────────────────────────────────────────

#: Names of the column of probabilities in a table with several columns.
_PROBABILITY = ("probability", "probabilities", "p")


def read_probabilities(source: object, encoding: str | None = None) -> FloatArray:
    """Return the positive probabilities of a distribution, from an array or a file.

    A file has a single column, or one named ``probability`` or ``p``.
    """
    if isinstance(source, (str, os.PathLike)):
        with use_table(source, encoding=encoding) as table:
            columns = table.columns
            named = list(columns)
            if len(columns) > 1:
                named = [column for column in columns if column.lower() in _PROBABILITY]
            if len(named) != 1:
                raise InputError(
                    f"{source} must hold one column of probabilities, or one named 'probability', "
                    f"got the columns {', '.join(map(repr, columns))}."
                )
            source = read_population(table, named, numeric=True)[0].values
    law, _, _ = checked_law(np.asarray(source, dtype=np.float64).ravel())
    return law[law > 0]
