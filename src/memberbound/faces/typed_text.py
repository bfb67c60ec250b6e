"""Convert typed text to Python values, and back."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from memberbound.declarations import Parameter
from memberbound.errors import InputError, finite_number


def names(name: str, text: str) -> list[str]:
    """Split ``a,b,c``; a name with a comma can be quoted as in CSV."""
    try:
        items = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:  # a line break outside quotes
        items = []
    if not items or not all(items):
        raise InputError(f"{name} must be names separated by commas, got {text!r}.")
    return items


def join_names(values: Iterable[object]) -> str:
    """Join names by commas, as the inverse of :func:`names`.

    >>> join_names(["age", "height, cm"]), names("columns", join_names(["age", "height, cm"]))
    ('age,"height, cm"', ['age', 'height, cm'])
    """
    return ",".join(_quote(str(value)) for value in values)


def _quote(text: str) -> str:
    plain = text == text.strip() and not any(mark in text for mark in ',"\r\n')
    return text if plain else '"' + text.replace('"', '""') + '"'


def number(name: str, text: str) -> float:
    """Parse a number; the verb decides whether infinity is allowed."""
    try:
        return float(text)
    except ValueError:
        return finite_number(name, text)  # raises the error


def numbers(name: str, text: str) -> list[float]:
    """Parse numbers separated by commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{name} must be numbers separated by commas, got {text!r}.") from None


def by_column(name: str, pairs: Iterable[str]) -> dict[str, str]:
    """Parse COL=VALUE options."""
    values: dict[str, str] = {}
    for text in pairs:
        column, sign, value = text.rpartition("=") if name == "roles" else text.partition("=")
        if not (column and sign and value):
            what = "ROLE" if name == "roles" else "VALUE"
            raise InputError(f"{name} must be given as COLUMN={what}, got {text!r}.")
        if column in values:
            raise InputError(f"{name} must name a column once, got {column!r} twice.")
        values[column] = value
    return values


def whole(name: str, text: str) -> float:
    """Parse a whole number, also written as 1e6; the verb rejects other numbers."""
    value = finite_number(name, text)
    return int(value) if value == int(value) else value


def _parse_path(name: str, text: str) -> str | Path:
    """Parse the name of a file, or its address."""
    del name
    return text if "://" in text else Path(text)


#: Parsers of text by kind of argument; other kinds are passed on unchanged.
_READERS: dict[str, Callable[[str, Any], object]] = {
    **dict.fromkeys(("table", "file", "document"), _parse_path),
    "files": lambda name, texts: [_parse_path(name, text) for text in texts],
    "whole": whole,
    "number": number,
    "rates": lambda name, texts: [number(name, text) for text in texts],
    "names": names,
    "numbers": numbers,
    "numbers by column": lambda name, texts: {
        column: numbers(f"{name} of {column!r}", text)
        for column, text in by_column(name, texts).items()
    },
    "text by column": by_column,
    "roles": lambda name, text: by_column(name, names(name, text)),
}


def python_value(parameter: Parameter, typed: object) -> object:
    """Convert a typed value to the verb's argument."""
    if typed is None or typed == []:
        return parameter.default
    read = _READERS.get(parameter.kind)
    return typed if read is None else read(parameter.name, typed)
