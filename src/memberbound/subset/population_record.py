"""Records of certificates of the subset game: the mechanism, and digests of the table.

The bounds of single records follow from all distances between records, so only a holder of the
table can recompute them.  Anyone can recompute the bounds that follow from the mechanism and the
largest distance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from memberbound.answers import Given
from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray

POPULATION_FORMAT = "memberbound-population/1"
#: Maximum number of values of the candidates in a record.
_MOST_NUMBERS = 10_000


def digest_of_rows(values: FloatArray) -> str:
    """Return the SHA-256 of a table of doubles: its shape, then its values by row.

    Examples:
        >>> import numpy as np
        >>> digest_of_rows(np.zeros((2, 1)))[:8]
        '960dfff2'
    """
    table = np.ascontiguousarray(values, dtype="<f8")
    shape = ",".join(map(str, table.shape))
    return hashlib.sha256(f"{shape};".encode() + table.tobytes()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class PopulationRecord:
    """The options of ``population`` beyond the keys of its answer, and facts about the records.

    ``sensitivity`` is the given one; ``reach`` is the sensitivity of the sum over all data sets,
    ``diameter`` that over these records, and ``rows_sha256`` their digest.
    """

    format: str = POPULATION_FORMAT
    rows_sha256: str
    columns: tuple[str, ...]
    asked: str
    amount: Given
    clip: Given | None
    sensitivity: Given | None
    unit: str | None
    diameter: Given = 0.0
    reach: Given | None = None
    divisor: int | None = None
    subsets: int | None = None
    seed: int = 0
    #: The candidates of the exponential mechanism, unless there are too many.
    candidates: tuple[tuple[Given, ...], ...] | None = None

    @classmethod
    def of_dict(cls, stored: object) -> PopulationRecord:
        """Read a record from a certificate; reject other content."""
        names = {f.name for f in fields(cls)}
        if not isinstance(stored, Mapping) or stored.get("format") != POPULATION_FORMAT:
            raise InputError(f"the record must have the format {POPULATION_FORMAT!r}.")
        if set(stored) != names:
            raise InputError("the record must hold the options of population and nothing else.")
        read: dict[str, Any] = dict(stored)
        for name in ("amount", "clip", "sensitivity", "diameter", "reach"):
            value = read[name]
            if value is not None and (type(value) not in (int, float) or value < 0):
                raise InputError(f"the record's {name} must be a number, got {value!r}.")
        for name in ("divisor", "subsets", "seed"):
            value = read[name]
            if value is not None and (type(value) is not int or value < 0):
                raise InputError(f"the record's {name} must be a whole number, got {value!r}.")
        return cls(**read)


def short_points(points: FloatArray) -> tuple[tuple[float, ...], ...] | None:
    """Return candidates as numbers, or None if there are too many for a record."""
    return tuple(map(tuple, points.tolist())) if points.size <= _MOST_NUMBERS else None
