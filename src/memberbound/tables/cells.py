"""Cells of a column: one protocol for all discretisations of values.

Histograms, indicators, bins of boosting and coarsened values all use it.  The cell of a value is a
function of this value and of public or released numbers, never of other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np

from memberbound.numerics.rounding import FloatArray, IntArray
from memberbound.tables.spelling import number_label
from memberbound.tables.values import Values

MISSING = "(missing)"
OTHER = "(other)"


class Cells(Protocol):
    """Disjoint cells of a column's values, numbered from 0."""

    @property
    def count(self) -> int:
        """Number of cells."""

    def cell_of(self, values: Values) -> IntArray:
        """Return the cell of every value, -1 for a value in none."""

    def label(self, cell: int) -> str:
        """Return a readable description of a cell."""


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals of numbers between edges; missing values and texts have no cell.

    Args:
        edges: ascending; each interval contains its lower edge, or its upper one if ``closed`` is
            ``right``.
        ends: ``open`` excludes numbers outside the outer edges, ``closed`` also includes the last
            edge in the last interval, ``unbounded`` clips numbers outside to the ends.
        transform: a monotone function that is applied to numbers before they are compared.
        text: formats an edge for labels.

    Examples:
        >>> Intervals([0.0, 1.0, 2.0]).index_of(np.array([-1, 0, 1, 2, np.nan])).tolist()
        [-1, 0, 1, -1, -1]
        >>> Intervals([0.0, 1.0, 2.0], "closed").index_of(np.array([2.0, 3.0])).tolist()
        [1, -1]
    """

    edges: Sequence[float] | FloatArray
    ends: Literal["open", "closed", "unbounded"] = "open"
    closed: Literal["left", "right"] = "left"
    transform: Callable[[FloatArray], FloatArray] | None = None
    text: Callable[[float], str] = number_label

    @classmethod
    def between_cuts(
        cls,
        cuts: Sequence[float] | FloatArray,
        closed: Literal["left", "right"] = "left",
        transform: Callable[[FloatArray], FloatArray] | None = None,
        text: Callable[[float], str] = number_label,
    ) -> Intervals:
        """Return the intervals between cuts, with unbounded first and last intervals.

        Examples:
            >>> cells = Intervals.between_cuts([0.0, 5.0])
            >>> cells.index_of(np.array([-np.inf, 0.0, np.inf])).tolist(), cells.label(2)
            ([0, 1, 2], '>=5')
        """
        edges = np.concatenate([[-np.inf], cuts, [np.inf]])
        return cls(edges, "unbounded", closed, transform, text)

    @property
    def count(self) -> int:
        """Number of intervals."""
        return len(self.edges) - 1

    def index_of(self, numbers: FloatArray) -> IntArray:
        """Return the interval of every number, -1 if there is none."""
        points = numbers if self.transform is None else self.transform(numbers)
        side: Literal["left", "right"] = "right" if self.closed == "left" else "left"
        index = np.searchsorted(np.asarray(self.edges), points, side=side) - 1
        if self.ends == "unbounded":
            index = np.clip(index, 0, self.count - 1)
        elif self.ends == "closed":
            index = np.where(points == self.edges[-1], self.count - 1, index)
        # NaN sorts behind the last edge.
        return np.where(np.isnan(points) | (index >= self.count), -1, index)

    def cell_of(self, values: Values) -> IntArray:
        """Return the interval of every value, -1 if there is none."""
        cells = values.map(lambda numbers, _: self.index_of(numbers))
        return np.asarray(cells, dtype=np.int64)

    def label(self, cell: int) -> str:
        """Return the interval in mathematical notation, or a half-line as an inequality."""
        low, high = (float(edge) for edge in self.edges[cell : cell + 2])
        left = self.closed == "left"
        if np.isinf(low) or np.isinf(high):
            if np.isinf(low):
                return f"{'<' if left else '<='}{self.text(high)}"
            return f"{'>=' if left else '>'}{self.text(low)}"
        full = self.ends == "closed" and cell == self.count - 1
        start, end = ("[", "]" if full else ")") if left else ("(", "]")
        return f"{start}{self.text(low)}, {self.text(high)}{end}"


@dataclass(frozen=True)
class LabelCells:
    """A cell per label; the empty label stands for missing values."""

    labels: tuple[str, ...]

    @property
    def count(self) -> int:
        """Number of labels."""
        return len(self.labels)

    def cell_of(self, values: Values) -> IntArray:
        """Return the index of every value's label, -1 for unlisted ones."""
        if not self.labels:
            return np.full(len(values), -1)
        return values.positions(self.labels)

    def label(self, cell: int) -> str:
        """Return the label."""
        return self.labels[cell] or MISSING


@dataclass(frozen=True)
class Absent:
    """A single cell for missing values."""

    name: str = MISSING

    @property
    def count(self) -> int:
        """One."""
        return 1

    def cell_of(self, values: Values) -> IntArray:
        """Return 0 for missing values, -1 for others."""
        return np.where(values.absent, 0, -1)

    def label(self, cell: int) -> str:
        """Return the cell's name."""
        del cell
        return self.name


@dataclass(frozen=True)
class Rest:
    """A single cell for all values; within :class:`Beside`, for values in no other cell."""

    name: str = OTHER

    @property
    def count(self) -> int:
        """One."""
        return 1

    def cell_of(self, values: Values) -> IntArray:
        """Return 0 for every value."""
        return np.zeros(len(values), dtype=np.int64)

    def label(self, cell: int) -> str:
        """Return the cell's name."""
        del cell
        return self.name


@dataclass(frozen=True)
class Selected:
    """Some cells of a column, in this order; values in other cells have no cell."""

    cells: Cells
    selected: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of selected cells."""
        return len(self.selected)

    def cell_of(self, values: Values) -> IntArray:
        """Return the index of every value's cell among the selected ones, -1 for others."""
        if not self.selected:
            return np.full(len(values), -1)
        index = np.full(self.cells.count + 1, -1)  # the last entry is for values without a cell
        index[list(self.selected)] = np.arange(self.count)
        return index[self.cells.cell_of(values)]

    def label(self, cell: int) -> str:
        """Return the label of a selected cell."""
        return self.cells.label(self.selected[cell])


@dataclass(frozen=True)
class Beside:
    """Cells of several kinds combined: a value belongs to the first kind that contains it.

    :class:`Rest` contains all remaining values, at any position in the list.

    Examples:
        >>> from memberbound.tables.columns import read_column
        >>> cells = Beside((Intervals([0.0, 1.0]), Rest(), LabelCells(("a",))))
        >>> cells.cell_of(read_column([0.5, "a", "b", 2])).tolist(), cells.label(2)
        ([0, 2, 1, 1], 'a')
    """

    parts: tuple[Cells, ...]

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *np.cumsum([part.count for part in self.parts]).tolist()]

    @property
    def count(self) -> int:
        """Number of cells."""
        return self._starts[-1]

    def cell_of(self, values: Values) -> IntArray:
        """Return the cell of every value, -1 for a value in none."""
        cells = np.full(len(values), -1)
        listed = list(zip(self.parts, self._starts, strict=False))
        for part, start in sorted(listed, key=lambda pair: isinstance(pair[0], Rest)):
            left = cells < 0
            if not left.any():
                break
            inside = part.cell_of(values)
            cells = np.where(left & (inside >= 0), start + inside, cells)
        return cells

    def label(self, cell: int) -> str:
        """Return a readable description of a cell."""
        part = int(np.searchsorted(self._starts, cell, side="right")) - 1
        return self.parts[part].label(cell - self._starts[part])
