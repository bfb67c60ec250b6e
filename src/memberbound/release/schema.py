"""Check documents against JSON Schemas, for the few keywords that our schemas use."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any

_KINDS: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
    "null": (type(None),),
}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_kind(value: object, kinds: str | list[str]) -> bool:
    listed = [kinds] if isinstance(kinds, str) else kinds
    known = (isinstance(value, _KINDS[kind]) and _true_kind(value, kind) for kind in listed)
    return any(known)


def _true_kind(value: object, kind: str) -> bool:
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return kind == "boolean" or not isinstance(value, bool)


def _has_size(value: object) -> bool:
    return isinstance(value, (dict, list))


#: Test of a value by keyword; values of other types pass.
_RULES: dict[str, Callable[[Any, Any], bool]] = {
    "type": _is_kind,
    # True is not 1 in JSON.
    "const": lambda value, wanted: value == wanted and not isinstance(value, bool),
    "pattern": lambda value, wanted: bool(re.search(wanted, value)),
    "minimum": lambda value, limit: not _is_number(value) or value >= limit,
    "maximum": lambda value, limit: not _is_number(value) or value <= limit,
    "exclusiveMinimum": lambda value, limit: not _is_number(value) or value > limit,
    "exclusiveMaximum": lambda value, limit: not _is_number(value) or value < limit,
    "minItems": lambda value, limit: not _has_size(value) or len(value) >= limit,
    "maxItems": lambda value, limit: not _has_size(value) or len(value) <= limit,
    "minProperties": lambda value, limit: not _has_size(value) or len(value) >= limit,
}


#: A JSON Schema, or a part of one.
Schema = Mapping[str, Any]


@cache
def record_schema() -> Schema:
    """Return the JSON Schema of certificates for releases of all rows."""
    text = resources.files(__package__).joinpath("record.schema.json").read_text(encoding="utf-8")
    schema: Schema = json.loads(text)
    return schema


def violation(value: object, schema: Schema, root: Schema | None = None) -> str:
    """Describe the first violation of a schema by a value, or return an empty text.

    Examples:
        >>> violation({"a": -1}, {"type": "object", "properties": {"a": {"minimum": 0}}})
        'a must have minimum 0'
    """
    root = schema if root is None else root
    if "$ref" in schema:
        target: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return violation(value, target, root)
    for keyword, keeps in _RULES.items():
        if keyword in schema and not keeps(value, schema[keyword]):
            return f"must have {keyword} {schema[keyword]}"
    if isinstance(value, dict):
        return _violation_of_object(value, schema, root)
    if isinstance(value, list):
        for index, item in enumerate(value):
            if problem := violation(item, schema.get("items", {}), root):
                return _at(str(index + 1), problem)
    return ""


def _violation_of_object(value: dict[str, object], schema: Schema, root: Schema) -> str:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            return f"must have {name}"
    for name, item in value.items():
        if name in properties:
            problem = violation(item, properties[name], root)
        elif others is False:
            problem = "must not be there"
        else:
            problem = violation(name, schema.get("propertyNames", {}), root)
            problem = problem or violation(item, {} if others is True else others, root)
        if problem:
            return _at(name[:80], problem)
    return ""


def _at(name: str, problem: str) -> str:
    separator = " " if problem.startswith("must ") else "."
    return f"{name}{separator}{problem}"
