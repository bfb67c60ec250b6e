"""Exact marginal counts of discretised rows, with the target's group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memberbound.files import large_array
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.cells import Cells
from memberbound.release.all_rows.histograms import counted
from memberbound.tables.persons import Persons
from memberbound.tables.records import Records

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Cells or blocks of some rows, a line per column, the target's group, and whose they are."""

    codes: NDArray[np.integer[Any]]
    groups: NDArray[np.integer[Any]]
    persons: Persons | None
    #: Arrays of more bytes are kept on disk; None: in memory.
    memory: int | None

    def counts(
        self, columns: Sequence[tuple[int, ...]], shapes: Sequence[tuple[int, ...]]
    ) -> tuple[FloatArray, ...]:
        """Return for some columns together, with the target's group, the weight in every cell.

        Guarantee: exact; replacing a record moves each table by at most √2 in length, and 2 in the
        sum of absolute values.
        """
        tables = []
        for chosen, shape in zip(columns, shapes, strict=True):
            places = np.zeros(len(self.groups), dtype=np.int64)
            for column, size in zip(chosen, shape, strict=False):
                places = places * size + self.codes[column]
            places = places * shape[-1] + self.groups
            tables.append(counted(places, math.prod(shape), self.persons).reshape(shape))
        return tuple(tables)

    def with_groups(self, group_of_cell: IntArray) -> LabelledRows:
        """Return the rows with groups instead of the target's cells."""
        kind = np.dtype(np.min_scalar_type(int(group_of_cell.max())))
        groups = large_array(self.groups.shape, kind, self.memory)
        groups[:] = group_of_cell[self.groups]
        return replace(self, groups=groups)

    def with_blocks(self, block_of_cell: Sequence[IntArray]) -> LabelledRows:
        """Return the rows with blocks instead of cells."""
        blocks = large_array(self.codes.shape, np.dtype(np.uint8), self.memory)
        for line, cells, block in zip(blocks, self.codes, block_of_cell, strict=True):
            line[:] = block[cells]
        return replace(self, codes=blocks)


def labelled_rows(shard: Records, features: Sequence[Cells], target: Cells | None) -> LabelledRows:
    """Return the cells of some rows."""
    kind = np.dtype(np.min_scalar_type(max(column.count for column in features)))
    codes = large_array((len(features), shard.rows), kind, shard.memory)
    for line, column in zip(codes, features, strict=True):
        line[:] = column.of(shard.columns[column.name])
    groups = large_array((shard.rows,), np.dtype(np.uint16), shard.memory)
    groups[:] = 0 if target is None else target.of(shard.columns[target.name])
    return LabelledRows(codes, groups, shard.persons, shard.memory)
