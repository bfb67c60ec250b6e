"""Rows that a model has not seen: the columns of its table, encoded as the population's were.

What is asked for is what was there in training: columns by name in any order.  Whatever could make
the answer silently wrong (a column that is missing, text where numbers were) is one sentence; what
has an answer all the same (further columns, missing values, new categories) is a notice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from memberbound.errors import InputError
from memberbound.learners.encoding import known_values, parsed_numbers
from memberbound.numerics.rounding import FloatArray
from memberbound.tables.population import read_frame
from memberbound.tables.recipe import MISSING, labels_of

__all__ = ["encoded_rows", "raw_rows"]

#: Names listed in a notice before "and … more".
_LISTED = 5


def raw_rows(
    source: Any,
    columns: tuple[str, ...] | int,
    *,
    ignore: str | None = None,
    database_table: str | None = None,
) -> tuple[Any, tuple[str, ...], str]:
    """Return these columns of a table as they are written, notices, and the table's name.

    ``columns`` is their number where they have no names.  ``ignore`` is the target's column, which
    may be there.

    Edge cases: an array without names is taken in the columns' order when it has as many.
    """
    import pandas as pd

    width = columns if isinstance(columns, int) else len(columns)
    if isinstance(source, np.ndarray) and source.ndim == 2 and source.shape[1] == width:
        names = [f"x{i}" for i in range(width)] if isinstance(columns, int) else list(columns)
        frame, name = pd.DataFrame(source, columns=names), "the array"
    elif isinstance(source, pd.DataFrame):
        frame, name = source, "the table"
    else:
        frame, name = read_frame(source, database_table)
    names = [str(c) for c in frame.columns]
    if isinstance(columns, int):
        if len(names) != columns:
            raise InputError(f"{name} must have {columns} columns, got {len(names)}.")
        columns = tuple(names)
    missing = [c for c in columns if c not in names]
    if missing:
        raise InputError(
            f"{name} must have every column that the model takes; {_listed(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing. It has {_listed(names)}."
        )
    twice = [c for c in columns if names.count(c) > 1]
    if twice:
        raise InputError(f"{name} must have each column once, got {twice[0]!r} twice.")
    if len(frame) == 0:
        raise InputError(f"{name} must hold at least one row, got none.")
    extra = [c for c in names if c not in columns and c != ignore]
    notices = (f"columns that the model does not know are ignored: {_listed(extra)}",)
    chosen = frame.set_axis(names, axis=1)[list(columns)].reset_index(drop=True)
    return chosen, notices if extra else (), name


def encoded_rows(
    encoder: Any,
    columns: tuple[str, ...],
    source: Any,
    *,
    ignore: str | None = None,
    database_table: str | None = None,
) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the features of further rows, encoded as the population's were, and notices.

    Missing numbers count as the population's mean, missing categories as a category; a category
    that the population never had counts as a rare one, or as none where there were no rare ones.

    Edge cases: a missing column, no row, and text or infinity in a column of numbers are refused.
    """
    frame, notices, name = raw_rows(source, columns, ignore=ignore, database_table=database_table)
    said = list(notices)
    for column, values in parsed_numbers(encoder, frame).items():
        absent = frame[column].isna().to_numpy(dtype=bool)
        wrong = ~np.isfinite(values) & ~absent
        if wrong.any():
            place = int(np.flatnonzero(wrong)[0])
            found = frame[column].iloc[[place]].tolist()[0]
            raise InputError(
                f"{column!r} of {name} must hold numbers or dates, as in training, got {found!r} "
                f"in row {place + 1}. Leave a missing value empty."
            )
        if absent.any():
            said.append(
                f"{column!r} is missing in {_rows(absent)}: the mean of the table that the model "
                "was trained on stands in"
            )
    for column, known in known_values(encoder).items():
        codes, labels = labels_of(frame[column])
        new = np.array([label not in known for label in labels])[codes]
        if new.any():
            names = dict.fromkeys(np.array(labels, dtype=object)[codes][new].tolist())
            shown = _listed(["a missing value" if n == MISSING else repr(n) for n in names])
            said.append(
                f"{column!r} holds in {_rows(new)} what the table that the model was trained on "
                f"never had ({shown}): it counts as a rare category"
            )
    rows = np.asarray(encoder.transform(frame), dtype=np.float64)
    return np.ascontiguousarray(rows), tuple(said)


def _rows(which: Any) -> str:
    count = int(which.sum())
    return f"{count} row{'' if count == 1 else 's'}"


def _listed(names: list[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")
