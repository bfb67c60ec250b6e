"""The question put to ``harden``: its limits and columns checked, its tables read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memberbound.errors import InputError, fraction, whole_number
from memberbound.hardening.choosing import Wish
from memberbound.tables.coarsening import checked_frame
from memberbound.tables.hierarchy import read_hierarchy

__all__ = [
    "LEAST_ROWS",
    "check_columns",
    "is_written",
    "numeric_columns",
    "read",
    "wished",
    "with_numbers",
]

#: Fewer rows certify nothing worth having.
LEAST_ROWS = 20
_NUMBER = r"[+-]?(0|[1-9][0-9]{0,17})(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?"


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


def read(table: Any) -> Any:
    """Return a table in memory, as typed; a CSV file has no types and comes as text."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        return checked_frame(table)
    from memberbound.tables.source import open_table

    with open_table(table) as opened:
        frame = opened.fetch(opened.expr, "reading the table").to_pandas()
    return checked_frame(frame)


def is_written(table: Any) -> bool:
    """Tell whether a table is a text file, whose columns have no types."""
    endings = [e.lower() for e in Path(table).suffixes] if isinstance(table, (str, Path)) else []
    return ".csv" in endings or ".tsv" in endings


def numeric_columns(frame: Any) -> list[str]:
    """Return the columns of text in which every value given is written as a number.

    Codes such as ``007`` are not numbers, and a column without any value is not either.
    """
    found = []
    for name in frame.columns:
        texts = frame[name].dropna().astype(str)
        if len(texts) and bool(texts.str.fullmatch(_NUMBER).all()):
            found.append(name)
    return found


def with_numbers(frame: Any, columns: Sequence[str]) -> Any:
    """Return the table with these columns as numbers; what is no number becomes missing."""
    import pandas as pd

    return frame.assign(**{c: pd.to_numeric(frame[c], errors="coerce") for c in columns})


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
