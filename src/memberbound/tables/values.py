"""The values of a column: numbers and labels, typed numbers or codes of distinct values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memberbound.numerics.rounding import FloatArray
from memberbound.tables.spelling import iso_date, number_label


class Values(ABC):
    """A column, read value by value: typed numbers, or codes of distinct values.

    Guarantee: number and label of a row are a function of this row's value, the column's type and
    its form.
    """

    @staticmethod
    def concat(pieces: Sequence[Values]) -> Values:
        """Concatenate pieces of one column.

        Examples:
            >>> from memberbound.tables.columns import read_column
            >>> pieces = [read_column(["a", "1"]), read_column(["2", "a"])]
            >>> Values.concat(pieces).factorize()
            (array([2, 0, 1, 2]), ('1', '2', 'a'))
        """
        if len(pieces) == 1:
            return pieces[0]
        numbers = [piece for piece in pieces if isinstance(piece, NumberValues)]
        if len(numbers) == len(pieces):
            return _concat_numbers(numbers)
        return _concat_codes([piece.to_codes() for piece in pieces])

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def take(self, rows: NDArray[np.intp] | slice) -> Values:
        """Return some of the rows."""

    @abstractmethod
    def to_codes(self) -> CodedValues:
        """Return the same values as codes, without unused ones."""

    @abstractmethod
    def numbers_at(self, rows: slice) -> FloatArray:
        """Return some values as numbers, NaN for the others; nothing is cached."""

    @abstractmethod
    def map(self, function: ValueFunction) -> NDArray[np.generic]:
        """Apply a function to every value, or once to every distinct value if these are coded.

        The function takes numbers, and the texts of those that are NaN, or None if all of these are
        missing values.
        """

    @property
    @abstractmethod
    def absent(self) -> NDArray[np.bool_]:
        """Whether each value is missing, so that its label is empty."""

    @property
    @abstractmethod
    def dates(self) -> NDArray[np.bool_]:
        """Whether each value is a date, so that its number is a day."""

    @abstractmethod
    def label(self, row: int) -> str:
        """Return the label of one row."""

    @abstractmethod
    def codes_and_labels(self) -> tuple[NDArray[np.int64], list[str]]:
        """Return a code per row and a label per code; several codes may share a label."""

    @property
    def numbers(self) -> FloatArray:
        """Every value as a number, NaN for a non-number."""
        return self.numbers_at(slice(None))

    @property
    def distinct(self) -> int:
        """Number of distinct non-missing values; one record changes it by at most 1."""
        codes, labels = self.codes_and_labels()
        return len({labels[code] for code in np.unique(codes)} - {""})

    def positions(self, labels: Sequence[str]) -> NDArray[np.int64]:
        """Return the index of every value in a list of labels, -1 for others."""
        indices = {label: index for index, label in enumerate(labels)}
        codes, names = self.codes_and_labels()
        return np.array([indices.get(name, -1) for name in names], dtype=np.int64)[codes]

    def factorize(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Return the index of every value among the sorted labels (-1 if missing), and these."""
        codes, labels = self.codes_and_labels()
        names = sorted({labels[code] for code in np.unique(codes)} - {""})
        return self.positions(names), tuple(names)


#: A function of numbers and of the texts of NaN; see :meth:`Values.map`.
ValueFunction = Callable[[FloatArray, Sequence[str] | None], NDArray[np.generic]]
#: Number of rows per call of a function of numbers.
_ROWS_AT_ONCE = 2**17


@dataclass(frozen=True, eq=False)
class NumberValues(Values):
    """Typed numbers, or days if ``dated``; ``missing`` marks rows without a value."""

    raw: NDArray[np.generic]
    missing: NDArray[np.bool_] | None = None
    dated: bool = False

    def __len__(self) -> int:
        return len(self.raw)

    def take(self, rows: NDArray[np.intp] | slice) -> NumberValues:
        """Return some of the rows."""
        missing = None if self.missing is None else self.missing[rows]
        return NumberValues(self.raw[rows], missing, self.dated)

    def to_codes(self) -> CodedValues:
        """Return the same values as codes, without unused ones."""
        # Only texts that are all numbers mix with coded pieces: 64-bit floats without missing
        # values.
        used, codes = np.unique(self.numbers, return_inverse=True)
        return CodedValues(codes, used, [None] * len(used))

    def numbers_at(self, rows: slice) -> FloatArray:
        """Return some values as numbers, NaN for missing ones; nothing is cached."""
        with np.errstate(invalid="ignore"):  # a signalling NaN
            numbers = np.asarray(self.raw[rows], np.float64)
        return numbers if self.missing is None else np.where(self.missing[rows], np.nan, numbers)

    def map(self, function: ValueFunction) -> NDArray[np.generic]:
        """Apply a function to every value, some rows at a time."""
        starts = range(0, max(len(self), 1), _ROWS_AT_ONCE)
        blocks = (self.numbers_at(slice(start, start + _ROWS_AT_ONCE)) for start in starts)
        return np.concatenate([function(numbers, None) for numbers in blocks])

    @property
    def absent(self) -> NDArray[np.bool_]:
        """Whether each value is missing."""
        gaps = np.zeros(len(self), bool) if self.missing is None else self.missing
        return gaps | np.isnan(self.raw) if self.raw.dtype.kind == "f" else gaps

    @property
    def dates(self) -> NDArray[np.bool_]:
        """Whether each value is a date: all or none."""
        return np.full(len(self), self.dated)

    def label(self, row: int) -> str:
        """Return the label of one row."""
        missing = self.missing is not None and bool(self.missing[row])
        return "" if missing else self._labels(self.raw[row : row + 1])[0]

    def _labels(self, raw: NDArray[np.generic]) -> list[str]:
        """Return the labels of some numbers."""
        if self.dated:
            return [iso_date(days) for days in raw.tolist()]
        if raw.dtype.kind in "iu":
            return [str(number) for number in raw.tolist()]
        if raw.dtype != np.float64:
            return [number_label(float(str(number))) for number in raw]
        return [number_label(number) for number in raw.tolist()]

    def codes_and_labels(self) -> tuple[NDArray[np.int64], list[str]]:
        """Return a code per row and a label per code, the last one for missing values."""
        absent = self.absent
        distinct, inverse = np.unique(self.raw[~absent], return_inverse=True)
        codes = np.full(len(self), len(distinct), dtype=np.int64)
        codes[~absent] = inverse
        return codes, [*self._labels(distinct), ""]


@dataclass(frozen=True, eq=False)
class CodedValues(Values):
    """Codes of distinct values: their numbers, and their texts (None: the number's own label)."""

    codes: NDArray[np.integer[Any]]
    parsed: FloatArray
    texts: Sequence[str | None]

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: NDArray[np.intp] | slice) -> CodedValues:
        """Return some of the rows."""
        return CodedValues(self.codes[rows], self.parsed, self.texts)

    def to_codes(self) -> CodedValues:
        """Return the same values as codes, without unused ones."""
        used, codes = np.unique(self.codes, return_inverse=True)
        return CodedValues(codes, self.parsed[used], [self.texts[code] for code in used])

    def numbers_at(self, rows: slice) -> FloatArray:
        """Return some values as numbers, NaN for texts; nothing is cached."""
        return np.asarray(self.parsed[self.codes[rows]], np.float64)

    def map(self, function: ValueFunction) -> NDArray[np.generic]:
        """Apply a function once to every distinct value."""
        return np.asarray(function(self.parsed, self.labels)[self.codes])

    @property
    def absent(self) -> NDArray[np.bool_]:
        """Whether each value is missing."""
        return np.asarray(np.array([text == "" for text in self.texts], dtype=bool)[self.codes])

    @property
    def dates(self) -> NDArray[np.bool_]:
        """Whether each value is a date, that is, has the text of a day."""
        dates = [
            text is not None and text != number_label(number) and text == iso_date(number)
            for number, text in zip(self.parsed.tolist(), self.texts, strict=True)
        ]
        return np.asarray(np.array(dates, dtype=bool)[self.codes])

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The label of every code."""
        return tuple(
            number_label(number) if text is None else text
            for number, text in zip(self.parsed.tolist(), self.texts, strict=True)
        )

    def label(self, row: int) -> str:
        """Return the label of one row."""
        return self.labels[int(self.codes[row])]

    def codes_and_labels(self) -> tuple[NDArray[np.int64], list[str]]:
        """Return a code per row and a label per code; several codes may share a label."""
        return self.codes.astype(np.int64, copy=False), list(self.labels)


def _concat_numbers(pieces: Sequence[NumberValues]) -> NumberValues:
    missing = None
    if any(piece.missing is not None for piece in pieces):
        missing = np.concatenate(
            [np.zeros(len(p), bool) if p.missing is None else p.missing for p in pieces]
        )
    return NumberValues(np.concatenate([p.raw for p in pieces]), missing, pieces[0].dated)


def _concat_codes(pieces: Sequence[CodedValues]) -> CodedValues:
    starts = np.cumsum([0, *(len(piece.texts) for piece in pieces)])
    codes = [piece.codes + start for piece, start in zip(pieces, starts, strict=False)]
    return CodedValues(
        np.concatenate(codes).astype(np.int32),
        np.concatenate([piece.parsed for piece in pieces]),
        [text for piece in pieces for text in piece.texts],
    )
