"""How columns become bounded numbers once ranges, cells and names are known.

Everything here is a map of single records, made of public or released numbers: this is what is
stored beside a released model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray
from memberbound.protection.bounds import CELLS, Range, Values

__all__ = ["ColumnCode", "Encoder", "Scaling", "TargetCode", "public_scaling"]

#: Standard deviations at which a standardised number is cut off.
_FARTHEST = 3.0
#: Mean square of an encoded number; an indicator has 1.
_NUMBER_SQUARE = 0.25


@dataclass(frozen=True)
class Scaling:
    """t = x or arsinh(x/unit), cut off at [low, high]; encoded as ½·(t - centre)/spread.

    ``limit`` cuts off once more, in encoded units.
    """

    low: float
    high: float
    centre: float
    spread: float
    unit: float = 0.0
    limit: float = _FARTHEST / 2

    def transformed(self, numbers: FloatArray) -> FloatArray:
        """Return t; not a number stays so."""
        moved = np.arcsinh(numbers / self.unit) if self.unit > 0 else numbers
        return np.clip(moved, self.low, self.high)

    def encoded(self, numbers: FloatArray) -> FloatArray:
        """Return bounded numbers; what is missing sits at the centre."""
        shifted = (self.transformed(numbers) - self.centre) / (2 * self.spread)
        return np.where(np.isnan(shifted), 0.0, np.clip(shifted, -self.limit, self.limit))

    def decoded(self, encoded: FloatArray) -> FloatArray:
        """Return numbers from encoded ones."""
        moved = np.clip(encoded * 2 * self.spread + self.centre, self.low, self.high)
        return np.asarray(np.sinh(moved) * self.unit if self.unit > 0 else moved)


def public_scaling(bound: Range, mean: float = 0.0) -> Scaling:
    """Return the map of [low, high] to [-1, 1], about a mean in these units."""
    half = (bound.high - bound.low) / 2
    middle = bound.low + half
    return Scaling(bound.low, bound.high, middle + mean * half, half / 2, 0.0, 2.0)


@dataclass(frozen=True)
class ColumnCode:
    """How one column is encoded: a number, indicators of public labels or of cells, and *other*.

    Edge cases: a column in which nothing rises above the noise (identifiers, free text) has no
    code: its width is 0.
    """

    name: str
    scaling: Scaling | None = None
    labels: tuple[str, ...] = ()
    cells: tuple[int, ...] = ()
    other: bool = False

    @property
    def indicators(self) -> int:
        """Number of indicator columns."""
        return len(self.labels) + len(self.cells) + int(self.other)

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return self.indicators + int(self.scaling is not None)

    @property
    def mean_square(self) -> float:
        """What the column adds to a row's squared length, nominally."""
        return _NUMBER_SQUARE * (self.scaling is not None) + float(self.indicators > 0)

    def places(self, values: Values) -> NDArray[np.int64]:
        """Return which indicator every value switches on, -1 for none."""
        if self.labels:
            found = values.positions(self.labels)
        else:
            table = np.full(CELLS, -1, dtype=np.int64)
            table[list(self.cells)] = np.arange(len(self.cells))
            found = table[values.cells]
        return np.where(found < 0, self.indicators - 1, found) if self.other else found


@dataclass(frozen=True)
class Encoder:
    """Columns to a table of bounded numbers: a map of single records, made of released numbers.

    Guarantee: nothing in it was computed from the secret table without noise that was paid for.
    """

    columns: tuple[ColumnCode, ...]

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return sum(code.width for code in self.columns)

    @property
    def length(self) -> float:
        """The nominal length of a row, by which rows are divided."""
        return math.sqrt(max(1.0, sum(code.mean_square for code in self.columns)))

    def transform(self, table: Mapping[str, Any] | Any) -> Any:
        """Return the encoded rows: dense, or sparse where most entries would be 0."""
        read = {code.name: Values.of(table[code.name]) for code in self.columns if code.width}
        return self.encoded(read)

    def encoded(self, read: Mapping[str, Values]) -> Any:
        """Return the encoded rows of columns that were read before."""
        used = [code for code in self.columns if code.width]
        if not used:
            raise InputError(
                "the table must have a column that rises above the noise, got none. "
                "Give bounds for its columns."
            )
        rows = len(read[used[0].name])
        filled = sum((code.scaling is not None) + (code.indicators > 0) for code in used)
        dense = self.width <= 2 * filled
        data = np.zeros((rows, self.width if dense else filled))
        index = np.zeros((0 if dense else rows, filled), dtype=np.int32)
        place, start = 0, 0
        for code in used:
            values = read[code.name]
            if code.scaling is not None:
                encoded = code.scaling.encoded(values.numbers) / self.length
                data[:, start if dense else place] = encoded
                if not dense:
                    index[:, place] = start
                place, start = place + 1, start + 1
            if code.indicators:
                on = code.places(values)
                if dense:
                    seen = np.flatnonzero(on >= 0)
                    data[seen, start + on[seen]] = 1 / self.length
                else:
                    data[:, place] = (on >= 0) / self.length
                    index[:, place] = start + np.maximum(on, 0)
                place, start = place + 1, start + code.indicators
        if dense:
            return data
        # Ends of the indices' own type, so that scipy keeps both as they are.
        ends = np.arange(0, rows * filled + 1, filled)
        if rows * filled < 2**31:
            ends = ends.astype(np.int32)
        return sparse.csr_array((data.ravel(), index.ravel(), ends), shape=(rows, self.width))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready fields."""
        return {"columns": [asdict(code) for code in self.columns]}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Encoder:
        """Return the encoder that :meth:`to_dict` described."""
        return cls(tuple(_code_from(fields) for fields in given["columns"]))


def _code_from(fields: Mapping[str, Any]) -> ColumnCode:
    scaling = fields["scaling"]
    return ColumnCode(
        str(fields["name"]),
        None if scaling is None else Scaling(**scaling),
        tuple(map(str, fields["labels"])),
        tuple(map(int, fields["cells"])),
        bool(fields["other"]),
    )


@dataclass(frozen=True)
class TargetCode:
    """The target: classes by name, or a range of numbers that is mapped to [-1, 1]."""

    name: str
    classes: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0

    def read(self, values: Values) -> tuple[NDArray[Any], FloatArray]:
        """Return codes or scaled numbers, and weights: 0 for a class that is not listed."""
        if self.classes:
            codes = values.positions(self.classes)
            return codes, (codes >= 0).astype(np.float64)
        half = (self.high - self.low) / 2
        scaled = (np.clip(values.numbers, self.low, self.high) - (self.low + half)) / half
        missing = np.isnan(scaled)
        return np.where(missing, 0.0, scaled), 1.0 - missing

    def numbers(self, scaled: FloatArray) -> FloatArray:
        """Return predictions in the target's own units."""
        half = (self.high - self.low) / 2
        return np.asarray(self.low + half + half * np.clip(scaled, -1.0, 1.0))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready fields."""
        return asdict(self)
