"""From records to bounded contributions: clipping, and how far a sum or mean can then move."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import (
    InputError,
    finite_number,
    nonnegative,
    one_of,
    positive,
    whole_number,
)
from memberbound.numerics.rounding import SMALLEST, FloatArray, down, sum_slack, up

__all__ = [
    "ClippedRecords",
    "Query",
    "clipped",
    "noise_on_query",
    "noise_on_sum",
    "worst_case_sensitivity",
]

#: What is released: the sum of the chosen records, or their mean.
Query = Literal["mean", "sum"]
_QUERIES: tuple[Query, ...] = ("mean", "sum")


def worst_case_sensitivity(query: Query, radius: float, size: int) -> float:
    """Return how far the query moves when one of ``size`` records is replaced, from above.

    Records lie in the ball of this radius C: 2C for the sum, 2C/k for the mean of k records.

    Examples:
        >>> worst_case_sensitivity("sum", 5.0, 100)
        10.0
    """
    one_of("query", query, _QUERIES)
    records = whole_number("size", size)
    reach = finite_number("twice the radius", 2 * positive("radius", radius))
    # A quotient that underflows is still positive.
    return reach if query == "sum" or records == 1 else up(max(reach / records, SMALLEST), 1)


def noise_on_sum(query: Query, sigma: float, size: int) -> float:
    """Return the σ on the sum that is worth ``sigma`` on the query: kσ for a mean, from below."""
    one_of("query", query, _QUERIES)
    records, scale = whole_number("size", size), positive("sigma", sigma)
    return scale if query == "sum" or records == 1 else down(records * scale, 1)


def noise_on_query(query: Query, sigma: float, size: int) -> float:
    """Return a σ on the query worth at least ``sigma`` on the sum: :func:`noise_on_sum` undone."""
    one_of("query", query, _QUERIES)
    records, scale = whole_number("size", size), nonnegative("sigma", sigma)
    if query == "sum" or records == 1 or scale == 0.0:
        return scale
    return up(max(scale / records, SMALLEST), 8)


class ClippedRecords(NamedTuple):
    """Records in a ball: ``moved`` of them lay outside and were pulled onto its surface."""

    vectors: FloatArray
    moved: int


def clipped(vectors: ArrayLike, radius: float) -> ClippedRecords:
    """Scale every row whose ℓ₂-norm exceeds the radius C onto the ball of that radius.

    Guarantee: the exact norm of every returned row is at most C.  Rows inside are not touched.
    Numerics: float64; what is scaled is rounded towards the origin, by some 2(d + 20) units in the
    last place.  Rows within rounding of the surface are compared in integers.
    Edge cases: one-dimensional input is one number per record, and comes back like that.

    Examples:
        >>> clipped([[3.0, 4.0], [0.0, 2.0]], 2.5).vectors.round(12).tolist()
        [[1.5, 2.0], [0.0, 2.0]]
    """
    reach = positive("radius", radius)
    try:
        given = np.array(vectors, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("vectors must be numbers, one row per record.") from None
    if given.ndim not in (1, 2) or given.size == 0:
        raise InputError(
            f"vectors must be a table with one row per record, got shape {given.shape}."
        )
    if not np.isfinite(given).all():
        raise InputError("vectors must be finite, got NaN or infinity. Drop or fill those rows.")
    rows = given.reshape(len(given), -1)
    # Powers of two keep squares from overflowing and change no digit.
    exponent = np.frexp(np.abs(rows).max(axis=1))[1]
    with np.errstate(under="ignore"):
        unit = np.ldexp(rows, -exponent[:, None])
    slack = sum_slack(rows.shape[1] + 4)
    norm = np.sqrt(np.square(unit).sum(axis=1))
    with np.errstate(over="ignore", under="ignore"):
        share = np.ldexp(reach, -exponent)  # C in the row's own unit
    outside = norm * (1 - slack) > share
    for row in np.flatnonzero(~outside & (norm * (1 + slack) >= share)):
        outside[row] = not _in_ball(rows[row], reach)
    if outside.any():
        # C between ½ and 1 as well: C/norm itself may lie beyond all doubles.
        mantissa, power = np.frexp(reach)
        factor = mantissa / norm[outside] * (1 - 2 * slack)
        with np.errstate(under="ignore"):
            rows[outside] = np.nextafter(np.ldexp(unit[outside] * factor[:, None], power), 0.0)
    return ClippedRecords(rows.reshape(given.shape), int(outside.sum()))


def _in_ball(row: FloatArray, radius: float) -> bool:
    """Whether the norm is at most the radius, in integers: doubles are whole multiples of 2^-e."""
    pairs = [float(value).as_integer_ratio() for value in (*row, radius)]
    common = max(bottom for _, bottom in pairs)
    *entries, reach = (top * (common // bottom) for top, bottom in pairs)
    return sum(entry * entry for entry in entries) <= reach * reach
