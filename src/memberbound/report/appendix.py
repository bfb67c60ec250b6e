"""All numbers of a step as tables, whatever the step's dictionary holds.

Six significant digits; a name that ends in ``upper`` is rounded up, in ``lower`` down.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memberbound.quantities import Side, significant

__all__ = ["Block", "block_of", "text_of"]

#: Deeper nesting than this is printed as text.
_DEEPEST = 6
#: Common to all results, and shown elsewhere.
_ELSEWHERE = {"theorems", "assumptions", "sentence"}
_INTERVAL = {"estimate", "lower", "upper"}


#: Blocks of upper bounds whose name in the contract does not say so.
_BOUNDS = {"record_leak": "record_leak_upper"}


@dataclass(frozen=True)
class Block:
    """A title, pairs of names and values, an optional table, and blocks below."""

    title: str
    pairs: tuple[tuple[str, str], ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    blocks: tuple[Block, ...] = ()


def text_of(value: Any, name: str = "") -> str:
    """Return one value as text; the name says which way a bound is rounded.

    >>> text_of(0.12345678, "accuracy_upper"), text_of(None), text_of(True), text_of(569)
    ('0.123457', '–', 'yes', '569')
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return significant(value, _direction(name))
    if _interval(value):
        low, high = significant(value["lower"], "lower"), significant(value["upper"], "upper")
        return f"≈ {significant(value['estimate'], 'estimate')}, between {low} and {high}"
    if isinstance(value, (Mapping, list, tuple)):
        if isinstance(value, (list, tuple)) and all(_simple(item) for item in value):
            return ", ".join(text_of(item, name) for item in value) or "–"
        return json.dumps(value, ensure_ascii=False) if value else "–"
    return str(value)


def _direction(name: str) -> Side:
    if name.endswith("upper"):
        return "upper"
    return "lower" if name.endswith("lower") else "estimate"


def _simple(value: Any) -> bool:
    return not isinstance(value, (Mapping, list, tuple)) or _interval(value)


def _interval(value: Any) -> bool:
    """Tell whether a value is an estimate between two bounds, which reads as one."""
    return (
        isinstance(value, Mapping)
        and set(value) == _INTERVAL
        and all(isinstance(part, (int, float)) for part in value.values())
    )


def _table(value: Any) -> bool:
    """Tell whether a value is a list of alike dictionaries, best read as a table."""
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and len(value) > 0
        and all(isinstance(item, Mapping) and item.keys() == value[0].keys() for item in value)
        and all(_simple(part) for item in value for part in item.values())
    )


def block_of(title: str, value: Mapping[str, Any], depth: int = 0) -> Block:
    """Return a dictionary as a block: simple values as pairs, the others as blocks below."""
    pairs: list[tuple[str, str]] = []
    below: list[Block] = []
    for name, item in value.items():
        if depth == 0 and name in _ELSEWHERE:
            continue
        direct = "" if isinstance(item, Mapping) else name
        if _simple(item) or depth >= _DEEPEST or not item:
            # The parts of e.g. tpr_upper = {"0.1": …} are rounded by the name around them.
            own = name if _direction(name) != "estimate" else _BOUNDS.get(title, title)
            pairs.append((name, text_of(item, own)))
        elif _table(item):
            columns = tuple(str(column) for column in item[0])
            rows = tuple(tuple(text_of(part, key) for key, part in row.items()) for row in item)
            below.append(Block(name, columns=columns, rows=rows))
        elif isinstance(item, Mapping):
            below.append(block_of(name, item, depth + 1))
        elif all(_simple(part) for part in item):
            pairs.append((name, text_of(item, direct)))
        else:
            parts = tuple((str(place), text_of(part)) for place, part in enumerate(item))
            below.append(Block(name, pairs=parts))
    return Block(title, tuple(pairs), blocks=tuple(below))
