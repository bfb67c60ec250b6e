"""Shards of rows: functions run on every shard, and their exact results are added up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

# ── Rows in parts: what is asked of all rows is asked of every part, and the answers are added ────
#
# A function of a part is a top-level function, so that it can be sent to where the part is.  Its
# answers are exact (whole numbers, or multiples of a power of two), so that the total does not
# depend on how rows are cut into parts.


class Parts(Protocol):
    """What was made of every part of the rows, and stays where the part is."""

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the sum over parts of ``function(part, *arguments)``."""

    def mapped(self, function: Callable[..., Any], *arguments: Any) -> Parts:
        """Return what the function makes of every part."""


@dataclass(frozen=True, eq=False)
class PartsHere:
    """Parts in this process."""

    parts: list[Any]

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the sum over parts of ``function(part, *arguments)``."""
        return added(function(part, *arguments) for part in self.parts)

    def mapped(self, function: Callable[..., Any], *arguments: Any) -> PartsHere:
        """Return what the function makes of every part."""
        return PartsHere([function(part, *arguments) for part in self.parts])


def added(answers: Iterable[Any]) -> Any:
    """Return the sum of numbers or arrays, of tuples place by place, of mappings key by key.

    Examples:
        >>> added([({"a": 1}, 2.0), ({"a": 2, "b": 1}, 0.5)])
        ({'a': 3, 'b': 1}, 2.5)
    """
    return reduce(_sum, answers)


def _sum(total: Any, answer: Any) -> Any:
    if isinstance(total, tuple):
        return tuple(map(_sum, total, answer))
    if isinstance(total, Mapping):
        both = {key: total[key] + answer[key] for key in total.keys() & answer.keys()}
        return {**total, **answer, **both}
    return total + answer
