"""What is public about a table's columns, and how a single value is read.

A value is read on its own: as a number, as a text, or as missing.  It never depends on the other
rows how, so that replacing one record changes one row of whatever is computed and nothing else: a
column of numbers in which one person wrote a word stays a column of numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError, finite_number
from memberbound.learners.examples import is_number
from memberbound.numerics.rounding import FloatArray

__all__ = [
    "BUCKETS",
    "CELLS",
    "MISSING",
    "NUMBER_CELLS",
    "Bounds",
    "Categories",
    "Range",
    "Values",
    "label_of",
    "octave_ends",
    "read_bounds",
]

#: Exponents of the signed logarithmic grid: from 2^-20 (a millionth) to 2^44.
_LOWEST, _HIGHEST = -20, 43
_OCTAVES = _HIGHEST - _LOWEST + 1
#: Cells of a column's histogram: numbers by sign and octave (zero in the middle), missing, texts.
NUMBER_CELLS = 2 * _OCTAVES + 1
MISSING = NUMBER_CELLS
BUCKETS = 1024
CELLS = NUMBER_CELLS + 1 + BUCKETS
#: What YAML would read as something else than the text it is.
_WORDS = ("bool", "timestamp")


@dataclass(frozen=True)
class Range:
    """A column of numbers between two public ends."""

    low: float
    high: float

    def __post_init__(self) -> None:
        low, high = finite_number("low", self.low), finite_number("high", self.high)
        if not low < high or math.isinf(high - low):
            raise InputError(f"bounds must be [low, high] with low < high, got {[low, high]!r}.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)


@dataclass(frozen=True)
class Categories:
    """A column of values from a public list; whatever is not in it counts as *other*."""

    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.labels or len(set(self.labels)) != len(self.labels):
            raise InputError(f"categories must be different values, got {list(self.labels)!r}.")


Bounds = Mapping[str, Range | Categories]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _bound(name: str, given: object) -> Range | Categories:
    if isinstance(given, Range | Categories):
        return given
    if isinstance(given, Mapping):
        if set(given) == {"range"}:
            ends = given["range"]
            if isinstance(ends, Sequence) and len(ends) == 2:
                return Range(*ends)
        elif set(given) == {"categories"} and isinstance(given["categories"], Sequence):
            return Categories(tuple(map(label_of, given["categories"])))
    elif isinstance(given, Sequence) and not isinstance(given, str) and given:
        if len(given) == 2 and all(map(_is_number, given)):
            return Range(*given)
        return Categories(tuple(map(label_of, given)))
    raise InputError(
        f"bounds of {name!r} must be [low, high] or a list of categories, got {given!r}. "
        'Two numbers that are categories are written {"categories": [0, 1]}.'
    )


def read_bounds(given: Mapping[str, object] | str | Path | None) -> dict[str, Range | Categories]:
    """Return public bounds from a mapping, or from a YAML or JSON file that holds one.

    Examples:
        >>> found = read_bounds(
        ...     {"age": [17, 90], "sex": ["F", "M"], "ward": {"categories": [1, 2]}}
        ... )
        >>> found["age"], found["ward"]
        (Range(low=17.0, high=90.0), Categories(labels=('1', '2')))
    """
    if given is None:
        return {}
    table: object = given
    if isinstance(given, str | Path):
        path = Path(given)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"bounds must be a readable file, got {str(path)!r}: {error}."
            ) from None
        if path.suffix.lower() == ".json":
            try:
                table = json.loads(text)
            except json.JSONDecodeError as error:
                raise InputError(
                    f"bounds must be valid JSON, got {path.name!r}: {error}."
                ) from None
        else:
            import yaml

            try:
                table = yaml.load(text, Loader=_plain_loader())
            except yaml.YAMLError as error:
                raise InputError(
                    f"bounds must be valid YAML, got {path.name!r}: {error}."
                ) from None
    if not isinstance(table, Mapping):
        raise InputError(f"bounds must map columns to ranges or categories, got {table!r}.")
    # An empty entry of a template is no bound.
    return {
        str(name): _bound(str(name), value) for name, value in table.items() if value is not None
    }


def _plain_loader() -> Any:
    """Return YAML's safe loader, but ``no`` is a word and ``2020-01-01`` a text."""
    import yaml

    class Plain(yaml.SafeLoader):  # type: ignore[misc]
        yaml_implicit_resolvers = {  # noqa: RUF012
            first: [rule for rule in rules if rule[0].rsplit(":", 1)[-1] not in _WORDS]
            for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    return Plain


def _number_label(number: float) -> str:
    return str(int(number)) if abs(number) < 2**63 and number.is_integer() else repr(number)


def _parsed(value: object) -> tuple[float, str]:
    """Return a value as a number (NaN if it is none) and as a label ('' if it is missing)."""
    text = str(value).strip()
    try:
        number = float(text)
    except ValueError:
        return math.nan, "" if text in ("NaT", "None", "<NA>") else text
    return (math.nan, "") if math.isnan(number) else (number, _number_label(number))


def label_of(value: object) -> str:
    """Return the text by which a value is compared with a category: 1, 1.0 and "1" are one."""
    return _parsed(value)[1]


def _bucket(label: str) -> int:
    """Return the bucket of a text, the same on every machine and in every table."""
    digest = hashlib.blake2b(label.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % BUCKETS


@dataclass(frozen=True, eq=False)
class Values:
    """A column, read value by value; long arrays are made when asked for, and not kept."""

    raw: NDArray[Any]
    parsed: FloatArray | None
    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, column: Any) -> Values:
        """Read a column of a pandas table, or an array."""
        import pandas as pd
        from pandas.api import types

        series = pd.Series(column)
        if types.is_datetime64_any_dtype(series):
            # Days since 1970; a missing date stays missing.
            days = (series.astype("datetime64[ns]") - pd.Timestamp(0)) / pd.Timedelta(days=1)
            return cls(days.to_numpy(dtype=np.float64), None)
        if is_number(series):
            if series.isna().any():
                return cls(series.to_numpy(dtype=np.float64, na_value=np.nan), None)
            return cls(series.to_numpy(), None)
        # As texts: among objects True, 1 and 1.0 would be one value, whichever came first.
        codes, uniques = pd.factorize(np.array([str(value) for value in series], dtype=object))
        parsed = [_parsed(value) for value in uniques]
        numbers = np.array([number for number, _ in parsed], dtype=np.float64)
        return cls(codes.astype(np.int32), numbers, tuple(label for _, label in parsed))

    def __len__(self) -> int:
        return len(self.raw)

    @property
    def numbers(self) -> FloatArray:
        """Every value as a number, NaN where it is none."""
        return np.asarray(self.raw if self.parsed is None else self.parsed[self.raw], np.float64)

    @property
    def cells(self) -> NDArray[np.int16]:
        """Histogram cell of every value: octave, missing, or the bucket of its text."""
        if self.parsed is None:
            return _number_cells(self.numbers)
        texts = [NUMBER_CELLS + 1 + _bucket(text) if text else MISSING for text in self.labels]
        numbers = _number_cells(self.parsed)
        table = np.where(np.isnan(self.parsed), np.array(texts, dtype=np.int16), numbers)
        return np.asarray(table[self.raw], dtype=np.int16)

    def positions(self, labels: Sequence[str]) -> NDArray[np.int64]:
        """Return the place of every value in a list of labels, -1 for those not in it."""
        places = {label: place for place, label in enumerate(labels)}
        if self.parsed is not None:
            table = np.array([places.get(label, -1) for label in self.labels], dtype=np.int64)
            return np.asarray(table[self.raw])
        distinct, inverse = np.unique(self.numbers, return_inverse=True)
        known = [-1 if math.isnan(x) else places.get(_number_label(x), -1) for x in distinct]
        return np.array(known, dtype=np.int64)[inverse]

    def named(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Return every value's place among the labels that occur, sorted; missing is -1."""
        if self.parsed is not None:
            names = sorted({label for label in self.labels if label})
        else:
            names = sorted({_number_label(x) for x in np.unique(self.numbers) if not math.isnan(x)})
        return self.positions(names), tuple(names)


def _number_cells(numbers: FloatArray) -> NDArray[np.int16]:
    """Return sign and octave of numbers as a cell, the one for missing values for NaN."""
    size = np.minimum(np.abs(numbers), 2.0**60)
    octave = np.clip(np.frexp(size)[1] - 1, _LOWEST, _HIGHEST) - (_LOWEST - 1)
    octave = np.where(size < 2.0**_LOWEST, 0, octave)
    signed = _OCTAVES + np.where(numbers < 0, -octave, octave)
    return np.where(np.isnan(numbers), MISSING, signed).astype(np.int16)


def octave_ends(cell: int) -> tuple[float, float]:
    """Return the numbers between which a number cell lies."""
    place = cell - _OCTAVES
    if place == 0:
        return 0.0, 0.0
    exponent = abs(place) - 1 + _LOWEST
    low, high = math.ldexp(1.0, exponent), math.ldexp(1.0, exponent + 1)
    return (low, high) if place > 0 else (-high, -low)
