"""Secret documents, each read on its own, from JSON Lines, plain text or a table."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.files import check_input
from memberbound.tables.columns import read_column
from memberbound.tables.opening import open_table

LINES = (".jsonl", ".ndjson")
_PLAIN = ".txt"


@dataclass(frozen=True, eq=False)
class Documents:
    """Secret texts sorted by person; ``starts`` has the index of each person's first document.

    Guarantee: a document is a function of its own row.  A value that is not a text becomes an empty
    document, which counts as a record.
    """

    texts: Sequence[str]
    name: str
    unit: str | None = None
    starts: NDArray[np.int64] | None = None
    #: Labels of the documents (None if missing), if a column of labels was requested.
    labels: Sequence[str | None] | None = None

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.texts)

    @property
    def records(self) -> int:
        """The number of records: documents, or persons."""
        return len(self.texts) if self.starts is None else len(self.starts)


def read_secret_documents(
    source: object, text: str, *, unit: str | None = None, label: str | None = None
) -> Documents:
    """Read documents without rejecting any, because a rejection would reveal something about one.

    Edge cases: a missing column and a file without documents are rejected, and so is a line of JSON
    Lines that is not an object, which violates the format.

    Examples:
        >>> rows = [{"text": "a letter", "who": "7"}, {"text": None}, {"text": "more", "who": "7"}]
        >>> import pandas
        >>> found = read_secret_documents(pandas.DataFrame(rows), "text", unit="who")
        >>> found.texts, found.starts.tolist()
        (['a letter', 'more', ''], [0, 2])
    """
    wanted = [name for name in (text, unit, label) if name is not None]
    if len(set(wanted)) < len(wanted):
        raise InputError(f"text, unit and label must be different columns, got {wanted!r}.")
    is_path = isinstance(source, (str, os.PathLike))
    ending = Path(source).suffix.lower() if is_path else ""  # type: ignore[arg-type]
    if ending == _PLAIN:
        if len(wanted) > 1:
            raise InputError(
                f"texts must be a table or JSON Lines with {wanted[1]!r}, got {ending}."
            )
        columns: Mapping[str, Sequence[object]] = {text: _lines(Path(source), "texts")}  # type: ignore[arg-type]
    elif ending in LINES:
        rows = list(json_lines(Path(source), "texts"))  # type: ignore[arg-type]
        columns = {name: [row.get(name) for row in rows] for name in wanted}
        if unit is not None:
            columns[unit] = [_identifier(value) for value in columns[unit]]
        for name in wanted:
            if rows and not any(name in row for row in rows):
                raise InputError(f"texts must have the key {name!r}, got no line with it.")
    else:
        columns = _table_columns(source, wanted)
    name = Path(source).name if is_path else "the texts"  # type: ignore[arg-type]
    return arrange_documents(columns, text, unit=unit, label=label, name=name)


def arrange_documents(
    columns: Mapping[str, Sequence[object]],
    text: str,
    *,
    unit: str | None = None,
    label: str | None = None,
    name: str = "the texts",
) -> Documents:
    """Return documents from columns, sorted by person."""
    texts = [value if isinstance(value, str) else "" for value in columns[text]]
    if not texts:
        raise InputError("texts must have documents, got none.")
    labels = None
    if label is not None:
        labels = [_label(value) for value in columns[label]]
    if unit is None:
        return Documents(texts, name, labels=labels)
    order, starts = sort_by_person(columns[unit])
    texts = [texts[index] for index in order]
    labels = None if labels is None else [labels[index] for index in order]
    return Documents(texts, name, unit, starts, labels)


def sort_by_person(column: Iterable[object]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return the order that brings documents of a person together, and where each person starts.

    A document without a value is a person of its own.

    Examples:
        >>> order, starts = sort_by_person(["b", None, "a", "b"])
        >>> order.tolist(), starts.tolist()
        ([2, 0, 3, 1], [0, 1, 3])
    """
    person, _ = read_column(column, "unit").factorize()
    person = np.where(person < 0, len(person) + np.arange(len(person)), person)
    order = np.argsort(person, kind="stable")
    return order, np.flatnonzero(np.diff(person[order], prepend=-1))


def _label(value: object) -> str | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    # JSON may hold half of a surrogate pair, which UTF-8 cannot encode.
    return str(value).encode("utf-8", "replace").decode("utf-8")


def _identifier(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _table_columns(source: object, wanted: list[str]) -> dict[str, list[object]]:
    """Return columns of a table as lists; no row affects how another is read."""
    table = open_table(source, secret=True)
    try:
        missing = next((name for name in wanted if name not in table.columns), None)
        if missing is not None:
            names = ", ".join(map(str, table.columns))
            raise InputError(f"texts must have the column {missing!r}, got {names}.")
        stored = table.stored_columns(wanted)
        return {
            name: column.to_pylist() if hasattr(column, "to_pylist") else list(column)  # type: ignore[call-overload]
            for name, column in stored.items()
        }
    finally:
        if table is not source:
            table.close()


def _lines(path: Path, name: str) -> list[str]:
    check_input(path, name)
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise InputError(f"{name} must be UTF-8, got {path.name!r}.") from None
    return [line.rstrip("\r") for line in lines if line.strip()]


def json_lines(path: Path, name: str) -> Iterator[dict[str, object]]:
    """Yield the objects of a JSON Lines file; blank lines are left out."""
    check_input(path, name)
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise InputError(f"{name} must be UTF-8, got {path.name!r}.") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise InputError(f"{name} must have a JSON object per line, got none in line {number}.")
        yield row
