"""The question put to ``harden``: its limits and columns checked, its tables read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memberbound.errors import InputError, fraction, whole_number
from memberbound.hardening.choosing import Wish
from memberbound.tables.coarsening import checked_frame
from memberbound.tables.hierarchy import read_hierarchy
from memberbound.tables.population import read_frame
from memberbound.tables.roles import Reading, numbers_from
from memberbound.tables.source import Columns

__all__ = ["LEAST_ROWS", "as_read", "check_columns", "read", "wished"]

#: Fewer rows certify nothing worth having.
LEAST_ROWS = 20


def wished(
    *,
    security: float | None,
    record_leak: float | None,
    target: str | None,
    keep: Sequence[str],
    bins: Mapping[str, Sequence[float]] | None,
    hierarchies: Mapping[str, str | Path | Mapping[Any, Any]] | None,
    confidence: float,
    seed: int,
) -> Wish:
    """Return the wish, or refuse what cannot be wished for."""
    if security is None and record_leak is None:
        raise InputError("security or record_leak must be given, got neither.")
    limits = {"security": security, "record_leak": record_leak}
    for name, value in limits.items():
        if value is not None:
            limits[name] = fraction(name, value, open_left=True, open_right=True)
    both = sorted(set(bins or {}) & set(hierarchies or {}))
    if both:
        raise InputError(f"a column must have bins or a hierarchy, got both for {both!r}.")
    return Wish(
        limits["security"],
        limits["record_leak"],
        target,
        (keep,) if isinstance(keep, str) else tuple(keep),
        {c: [float(e) for e in edges] for c, edges in (bins or {}).items()},
        {c: read_hierarchy(given) for c, given in (hierarchies or {}).items()},
        fraction("confidence", confidence, open_left=True, open_right=True),
        whole_number("seed", seed, at_least=0),
    )


def read(table: Any, columns: Columns = None, target: str | None = None) -> Any:
    """Return a table in memory, its values as they are written; of named columns only those."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        frame = checked_frame(table)
    else:
        frame = checked_frame(read_frame(table)[0])
    if columns is None:
        return frame
    names = [columns] if isinstance(columns, str) else list(columns)
    for name in names:
        if name not in frame.columns:
            known = ", ".join(frame.columns)
            raise InputError(f"columns must be columns of the table ({known}), got {name!r}.")
    return frame[[c for c in frame.columns if c in names or c == target]]


def as_read(frame: Any, readings: Mapping[str, Reading]) -> Any:
    """Return the table with written numbers as numbers; what is no number becomes missing.

    Dates stay as they are written: their rule reads them.
    """
    written = [
        c
        for c in frame.columns
        if readings[c].role == "number"
        and readings[c].form in ("number", "comma")
        and not is_numeric(frame[c])
    ]
    return frame.assign(**{c: numbers_from(frame[c], readings[c].form) for c in written})


def is_numeric(series: Any) -> bool:
    """Tell whether a column is typed as numbers."""
    from pandas.api import types

    return bool(types.is_numeric_dtype(series) or types.is_timedelta64_dtype(series))


def check_columns(frame: Any, wish: Wish, reference: Any) -> None:
    """Refuse columns that the tables do not have, and tables too short to say anything."""
    for name, columns in (
        ("target", () if wish.target is None else (wish.target,)),
        ("keep", wish.keep),
        ("bins", tuple(wish.edges)),
        ("hierarchies", tuple(wish.hierarchies)),
    ):
        for column in columns:
            if column not in frame.columns:
                known = ", ".join(map(str, frame.columns))
                raise InputError(f"{name} must be a column of the table ({known}), got {column!r}.")
    if len(frame) < LEAST_ROWS:
        raise InputError(f"the table must have at least {LEAST_ROWS} rows, got {len(frame)}.")
    if reference is not None:
        absent = [c for c in frame.columns if c not in reference.columns]
        if absent or len(reference) < LEAST_ROWS:
            raise InputError(
                f"reference must have the table's columns and at least {LEAST_ROWS} rows, "
                f"missing {absent!r} at {len(reference)} rows."
            )
