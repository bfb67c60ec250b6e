"""Shards: rows split into pieces, in this process or elsewhere, with exact sums over all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from typing import Any, Generic, TypeVar, TypeVarTuple

T = TypeVar("T")
U = TypeVar("U")
Total = TypeVar("Total")
Arguments = TypeVarTuple("Arguments")


class Shards(Generic[T]):
    """Shards of rows in this process; subclasses keep theirs on disk or on other machines.

    Pass top-level functions to :meth:`map` and :meth:`sum`, because they may be sent to other
    processes. Results must be exact (whole numbers, or multiples of a power of two), so that a sum
    does not depend on the split.

    Examples:
        >>> shards = Shards([[1, 2], [3]])
        >>> shards.sum(len), shards.map(max).sum(pow, 2)
        (3, 13)
    """

    def __init__(self, shards: Iterable[T]) -> None:
        self._shards = list(shards)

    def __iter__(self) -> Iterator[T]:
        """Iterate over the shards; those on disk are read one at a time."""
        return iter(self._shards)

    def map(self, function: Callable[[T, *Arguments], U], *arguments: *Arguments) -> Shards[U]:
        """Apply a function to every shard and keep the results where the shards are."""
        return Shards(function(shard, *arguments) for shard in self)

    def sum(self, function: Callable[[T, *Arguments], Total], *arguments: *Arguments) -> Total:
        """Return the sum of ``function(shard, *arguments)`` over all shards."""
        return sum_results(function(shard, *arguments) for shard in self)


def sum_results(results: Iterable[Total]) -> Total:
    """Add up numbers or arrays, tuples element by element, mappings key by key.

    Examples:
        >>> sum_results([({"a": 1}, 2.0), ({"a": 2, "b": 1}, 0.5)])
        ({'a': 3, 'b': 1}, 2.5)
    """
    return reduce(_add, results)


def _add(total: Any, result: Any) -> Any:
    if isinstance(total, tuple):
        return tuple(map(_add, total, result))
    if isinstance(total, Mapping):
        both = {key: total[key] + result[key] for key in total.keys() & result.keys()}
        return {**total, **result, **both}
    return total + result
