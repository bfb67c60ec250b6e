"""All numbers of a step as tables, whatever the step's dictionary holds.

Each answer declares on which side its numbers are (``SIDES``); a bound has six significant digits,
rounded to its side, and a number without a side is shown with all of its digits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from memberbound.quantities import INTERVAL, Side, Sides, side_below, significant

__all__ = ["Block", "block_of", "sides_of", "text_of"]

#: Deeper nesting than this is printed as text.
_DEEPEST = 6
#: Common to all results, and shown elsewhere.
_ELSEWHERE = {"theorems", "assumptions", "sentence"}


@dataclass(frozen=True)
class Block:
    """A title, pairs of names and values, an optional table, and blocks below."""

    title: str
    pairs: tuple[tuple[str, str], ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    blocks: tuple[Block, ...] = ()


@lru_cache(maxsize=1)
def _declared() -> dict[str, Sides]:
    from memberbound.auditing.answer import Audit
    from memberbound.certification import Certification
    from memberbound.explanation import Explanation
    from memberbound.hardening import Hardening
    from memberbound.planning import Plan
    from memberbound.populations.answer import PopulationAnswer
    from memberbound.protection.answer import Protection

    return {
        "audit": Audit.SIDES,
        "certify": Certification.SIDES,
        "explain": Explanation.SIDES,
        "harden": Hardening.SIDES,
        "plan": Plan.SIDES,
        "population": PopulationAnswer.SIDES,
        "protect": Protection.SIDES,
    }


def sides_of(command: object) -> Sides:
    """Return what the answer of a command declares about its numbers.

    >>> sides_of("population")["epsilon_population"], sides_of("certify")["security_lower"]
    ('upper', 'lower')
    """
    return _declared().get(str(command), {})


def text_of(value: Any, sides: Side | Sides | None = None) -> str:
    """Return one value as text; a number is rounded to its side.

    >>> text_of(0.12345678, "upper"), text_of(0.12345678), text_of(None), text_of(True), text_of(9)
    ('0.123457', '0.12345678', '–', 'yes', '9')
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return significant(value, sides if isinstance(sides, str) else "given")
    if _interval(value):
        low, high = significant(value["lower"], "lower"), significant(value["upper"], "upper")
        return f"≈ {significant(value['estimate'], 'estimate')}, between {low} and {high}"
    if isinstance(value, (Mapping, list, tuple)):
        if isinstance(value, (list, tuple)) and all(_simple(item) for item in value):
            return ", ".join(text_of(item, sides) for item in value) or "–"
        return json.dumps(value, ensure_ascii=False) if value else "–"
    return str(value)


def _simple(value: Any) -> bool:
    return not isinstance(value, (Mapping, list, tuple)) or _interval(value)


def _interval(value: Any) -> bool:
    """Tell whether a value is an estimate between two bounds, which reads as one."""
    return (
        isinstance(value, Mapping)
        and set(value) == set(INTERVAL)
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


def block_of(
    title: str, value: Mapping[str, Any], sides: Side | Sides | None = None, depth: int = 0
) -> Block:
    """Return a dictionary as a block: simple values as pairs, the others as blocks below."""
    pairs: list[tuple[str, str]] = []
    below: list[Block] = []
    for name, item in value.items():
        if depth == 0 and name in _ELSEWHERE:
            continue
        own = side_below(sides, name)
        if _simple(item) or depth >= _DEEPEST or not item:
            pairs.append((name, text_of(item, own)))
        elif _table(item):
            columns = tuple(str(column) for column in item[0])
            rows = tuple(
                tuple(text_of(part, side_below(own, key)) for key, part in row.items())
                for row in item
            )
            below.append(Block(name, columns=columns, rows=rows))
        elif isinstance(item, Mapping):
            below.append(block_of(name, item, own, depth + 1))
        elif all(_simple(part) for part in item):
            pairs.append((name, text_of(item, own)))
        else:
            parts = tuple((str(place), text_of(part)) for place, part in enumerate(item))
            below.append(Block(name, pairs=parts))
    return Block(title, tuple(pairs), blocks=tuple(below))
