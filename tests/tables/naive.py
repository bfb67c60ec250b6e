"""The counting done twice: plain Python dictionaries over plain rows, and the package."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Sequence

import pyarrow as pa

from memberbound.tables.counting import count_profile
from memberbound.tables.opening import open_table

#: One engine for the many small tables: opening an engine takes longer than counting them.
SHARED = open_table(pa.table({"x": [1]}))


def count_cells(source: object, columns=None, unit: str | None = None) -> dict[int, int]:
    """Count with the package: n → how many cells hold n rows."""
    profile = count_profile(open_table(source, beside=SHARED), columns, unit)
    return dict(zip(profile.count.tolist(), profile.cells.tolist(), strict=True))


def canonical(value: object) -> object:
    """Make Python's equality the documented one: the same type, the same bits."""
    if value is None:
        return ("null",)
    if isinstance(value, float):
        return ("float", struct.pack("<d", value))
    return (type(value).__name__, value)


def rows_of(table: pa.Table, columns: Sequence[str]) -> list[tuple[object, ...]]:
    lists = [[canonical(v) for v in table.column(c).to_pylist()] for c in columns]
    return list(zip(*lists, strict=True))


def bags_of(table: pa.Table, columns: Sequence[str], unit: str) -> list[object]:
    bags: dict[object, Counter[object]] = {}
    for who, row in zip(table.column(unit).to_pylist(), rows_of(table, columns), strict=True):
        bags.setdefault(who, Counter())[row] += 1
    return [frozenset(bag.items()) for bag in bags.values()]


def counts_of_counts(records: Iterable[object]) -> dict[int, int]:
    return dict(sorted(Counter(Counter(records).values()).items()))


def joint_counts(
    train: Iterable[object], reference: Iterable[object]
) -> dict[tuple[int, int], int]:
    a, b = Counter(train), Counter(reference)
    return dict(sorted(Counter((a[k], b[k]) for k in a.keys() | b.keys()).items()))
