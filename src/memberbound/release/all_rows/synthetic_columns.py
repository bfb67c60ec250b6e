"""Define the cells of a synthetic table's columns, from public bounds or learnt with noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.bounds import Bounds, Categories, Range
from memberbound.release.all_rows.cells import (
    LINEAR,
    MOST_LINEAR,
    WRITINGS,
    CategoryCells,
    Cells,
    NumberCells,
    Writing,
    detect_format,
    format_cells,
    public_column,
    writing_from_type,
)
from memberbound.release.all_rows.histograms import MOST_CLASSES, count_cells, noisy_identifiers
from memberbound.release.all_rows.private_columns import (
    learn_classes,
    learn_columns,
    take_looks,
)
from memberbound.release.budget import HISTOGRAM_MOVES, Budget
from memberbound.tables.records import Records

_MOST_ROWS = 2**31


def declare_columns(
    records: Records, bounds: Bounds, target: str | None
) -> tuple[dict[str, Range | Categories], dict[str, Writing]]:
    """Return the public bounds of columns, and the formats that their types declare."""
    used = list(records.columns)
    public = {name: bound for name, bound in bounds.items() if name in used}
    writings: dict[str, Writing] = {}
    for name in used:
        form = public[name].form if name in public else "any"
        declared = writing_from_type(records.types.get(name), form)
        if isinstance(declared, str):
            writings[name] = declared
        elif declared is not None and name not in public:
            public[name] = Categories(declared)
    if len(used) < 2:
        raise InputError(
            f"the table must have at least two columns, got {len(used)}. The distribution "
            "of one column is released by summarize, as a histogram."
        )
    if len(records) < 2 or records.rows >= _MOST_ROWS:
        raise InputError("the table must have at least two rows (or persons), and fewer than 2^31.")
    labels = getattr(public.get(target or ""), "labels", None)
    if labels is not None and not 2 <= sum(map(bool, labels)) <= MOST_CLASSES:
        raise InputError(
            f"target {target!r} must have 2 to {MOST_CLASSES} classes, got {len(labels)}. "
            "A target of numbers has a range as bounds."
        )
    return public, writings


#: Share of μ² for the formats of numeric columns with public ranges but no declared type, at least
#: and at most; in between, the noise of a count is this share of the records.
_WRITING_SHARES, _WRITING_NOISE = (0.01, 0.06), 0.04
#: Linear cells of a wide range, per noise scale in the number of rows.
_CELL_SHARE = 1.0


def learn_cells(
    records: Records,
    public: Bounds,
    writings: Mapping[str, Writing],
    target: str | None,
    budget: Budget,
) -> tuple[dict[str, Cells], tuple[str, ...], tuple[str, ...]]:
    """Return the cells of columns, and the names of identifiers and of dropped columns."""
    unbounded = [name for name in records.columns if name not in public]
    named = [name for name in unbounded if name != target]
    identifiers = noisy_identifiers(records, named, budget)
    private = [name for name in unbounded if name not in identifiers]
    cells: dict[str, Cells | None] = {}
    if private:
        looks = take_looks(budget, len(private), len(records))
        learnt = learn_columns(records, private, *looks, named=True, writings=writings)
        cells |= {name: column.cells() for name, column in learnt.items()}
    if target in private and not isinstance(cells[target], NumberCells):
        classes, _ = learn_classes(records, target, budget)
        found = getattr(cells[target], "labels", ())
        cells[target] = CategoryCells(target, tuple(sorted({*found, *classes})[:MOST_CLASSES]))
    unwritten = [
        name for name, bound in public.items() if isinstance(bound, Range) and name not in writings
    ]
    if unwritten:
        share = budget.take(
            "how numbers are written", _writing_share(len(unwritten), len(records), budget.mu)
        )
        formats = share.sums(sensitivity=HISTOGRAM_MOVES, times=len(unwritten))
        counts = zip(unwritten, records.shards.sum(_format_counts, unwritten), strict=True)
        paid = {
            name: detect_format(formats.measure(exact), formats.scale) for name, exact in counts
        }
        writings = {**writings, **paid}
    signal = budget.mu * len(records) / math.sqrt(2.0 * len(records.columns))
    linear = int(min(max(_CELL_SHARE * signal, LINEAR), MOST_LINEAR))
    for name, bound in public.items():
        cells[name] = public_column(name, bound, writings.get(name, "more"), linear)
    ordered = {n: column for n in records.columns if (column := cells.get(n)) is not None}
    if len(ordered) < 2:
        raise InputError(
            "the table must have at least two columns with values that many people share, got "
            f"{len(ordered)}; identifiers and free text are not drawn. Give bounds for columns."
        )
    goal = None if target is None else ordered.get(target)
    few = isinstance(goal, CategoryCells) and len(goal.labels) < 2
    if target is not None and (goal is None or few):
        raise InputError(
            f"target {target!r} must have at least two classes that many people share. Give "
            "its classes in the bounds, or leave the target out."
        )
    return ordered, identifiers, tuple(name for name in private if cells[name] is None)


def _writing_share(columns: int, records: int, mu: float) -> float:
    """Return the share of μ² for the formats of this many columns, from public numbers alone."""
    wanted = 2.0 * columns / (_WRITING_NOISE * records * mu) ** 2
    return min(max(wanted, _WRITING_SHARES[0]), _WRITING_SHARES[1])


def _format_counts(shard: Records, names: Sequence[str]) -> FloatArray:
    """Count records by format of their numbers, column by column."""
    cells = (format_cells(shard.columns[name]) for name in names)
    return np.array([count_cells(indices, len(WRITINGS) + 1, shard.persons) for indices in cells])
