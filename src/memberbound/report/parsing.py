"""Parse JSON into dataclasses, and report the first problem with its path."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from memberbound.errors import InputError

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

_LONGEST = 80
T = TypeVar("T")


@cache
def adapter(kind: type[T]) -> TypeAdapter[T]:
    """Return pydantic's adapter of a class, built once."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def parse_as(kind: type[T], value: object, name: str) -> T:
    """Convert JSON-ready fields to an object of a dataclass.

    Raises:
        InputError: states the first problem and its path below ``name``.
    """
    from pydantic import ValidationError

    try:
        # Convert through JSON text, because JSON has no tuples.
        text = json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8")
        # Classes are hashable, which mypy does not know.
        typed: T = adapter(kind).validate_json(text, strict=True)  # type: ignore[arg-type]
    except UnicodeEncodeError:
        raise InputError(f"{name} must be text in UTF-8, got half of a surrogate pair.") from None
    except RecursionError:
        raise InputError(f"{name} must not be nested too deeply.") from None
    except ValidationError as problem:
        raise InputError(_sentence(problem, name)) from None
    except (TypeError, ValueError) as problem:
        raise InputError(f"{name} must be plain JSON: {problem}.") from None
    return typed


def _sentence(problem: ValidationError, name: str) -> str:
    """Return pydantic's first error as a sentence: path, condition and value."""
    first = problem.errors(include_url=False)[0]
    kind, context, path = first["type"], first.get("ctx", {}), list(first["loc"])
    if kind == "value_error":  # raised by the object itself; prefix the field
        return f"{_path_text(name, path)}.{context['error']}"
    if kind == "json_invalid":
        return f"{name} must not be nested too deeply."
    got = shorten(first["input"])
    if kind == "missing":
        rule = f"be an object with {path.pop()!r}"
    elif kind == "unexpected_keyword_argument":
        rule, got = f"be an object without {path[-1]!r}", f"{path.pop()!r}: {got}"
    else:
        # "Input should be …", "String should have …", "Tuple should have …"
        rule = first["msg"].partition(" should ")[2] or "be different"
    return f"{_path_text(name, path)} must {rule}, got {got}."


def _path_text(name: str, path: Iterable[int | str]) -> str:
    """Return a path within the report, such as report.roc[2].kind."""
    text = name + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path)
    return text.removeprefix(".")


def shorten(value: object) -> str:
    """Return a value shortened for a sentence."""
    if isinstance(value, Mapping):
        return f"an object with {len(value)} keys"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
