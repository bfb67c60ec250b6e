"""Clip records to bounded contributions: the ℓ₂-ball."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import positive
from memberbound.numerics.rounding import FloatArray, sum_slack
from memberbound.subset.distances import checked_table


class ClippedRecords(NamedTuple):
    """Records in a ball; ``moved`` of them were outside and have been projected onto it."""

    vectors: FloatArray
    moved: int


def clipped(vectors: ArrayLike, radius: float) -> ClippedRecords:
    """Project every row onto the ℓ₂-ball of radius C.

    Guarantee: the exact norm of every returned row is at most C.  Rows inside are unchanged.
    Numerics: scaled rows are rounded towards the origin, by about 2(d + 20) units in the last
    place.  Rows within rounding of the surface are compared in integers.
    Edge cases: one-dimensional input is one number per record, and so is the output.

    Examples:
        >>> clipped([[3.0, 4.0], [0.0, 2.0]], 2.5).vectors.round(12).tolist()
        [[1.5, 2.0], [0.0, 2.0]]
    """
    reach = positive("radius", radius)
    shape, rows = np.shape(vectors), checked_table("vectors", vectors).copy()
    # Scaling by powers of two prevents overflow of squares and changes no digit.
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
        # Scale C to between ½ and 1 as well, because C/norm itself may overflow.
        mantissa, power = np.frexp(reach)
        factor = mantissa / norm[outside] * (1 - 2 * slack)
        with np.errstate(under="ignore"):
            rows[outside] = np.nextafter(np.ldexp(unit[outside] * factor[:, None], power), 0.0)
    return ClippedRecords(rows.reshape(shape), int(outside.sum()))


def _in_ball(row: FloatArray, radius: float) -> bool:
    """Return whether the norm is at most the radius, exactly, in integer multiples of 2^-e."""
    pairs = [float(value).as_integer_ratio() for value in (*row, radius)]
    common = max(bottom for _, bottom in pairs)
    *entries, reach = (top * (common // bottom) for top, bottom in pairs)
    return sum(entry * entry for entry in entries) <= reach * reach
