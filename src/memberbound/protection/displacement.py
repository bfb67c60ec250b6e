"""How far apart two displaced copies of a unit noise law are, on the safe side."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from memberbound.errors import InputError
from memberbound.numerics.rounding import UNIT, FloatArray

__all__ = [
    "SIMPLE_ERROR",
    "as_displacements",
    "as_rows",
    "capped",
    "checked_lengths",
    "exponential_distance",
    "gaussian_distance",
    "over_scale",
]

#: A single inverted draw differs from its ideal by at most this, relative (proofs/snapping.md).
SIMPLE_ERROR = 2.0**-46


def as_displacements(displacements: ArrayLike, dimension: int) -> FloatArray:
    """Return finite vectors of the given dimension along the last axis, or refuse."""
    values = np.asarray(displacements, dtype=np.float64)
    if values.ndim == 0 or values.shape[-1] != dimension:
        raise InputError(
            f"displacements must be vectors of length {dimension}, got shape {values.shape!r}."
        )
    if not np.isfinite(values).all():
        raise InputError("displacements must be finite, got a value that is not.")
    return values


def checked_lengths(lengths: ArrayLike) -> FloatArray:
    """Return lengths as an array, or refuse what is negative or no number; ∞ is allowed."""
    values = np.asarray(lengths, dtype=np.float64)
    if np.isnan(values).any() or (values < 0).any():
        raise InputError("lengths must be at least 0, got a value that is not.")
    return values


def capped(values: FloatArray, present: FloatArray) -> FloatArray:
    """Return values in (0, 1], one double up, and exactly 0 where nothing moved."""
    return np.where(present > 0, np.minimum(np.nextafter(values, np.inf), 1.0), 0.0)


def gaussian_distance(lengths: FloatArray) -> FloatArray:
    """TV of two unit normals ``lengths`` apart: 2Φ(δ/2) - 1 = erf(δ/√8), from above."""
    with np.errstate(under="ignore"):
        value = special.erf(lengths / math.sqrt(8.0)) * (1 + 8 * UNIT)
    return capped(value, lengths)


def exponential_distance(lengths: FloatArray, slope: float) -> FloatArray:
    """X14: min(1 - e^{-t/2}, slope·t) from above; concave as a minimum of concave functions."""
    with np.errstate(under="ignore", over="ignore"):
        value = np.minimum(-np.expm1(-lengths / 2), lengths * slope) * (1 + 8 * UNIT)
    return capped(value, lengths)


def as_rows(flat: FloatArray, dimension: int, count: int | None) -> FloatArray:
    """Return a flat run of draws as one vector, or as ``count`` rows."""
    return flat if count is None else flat.reshape(count, dimension)


def over_scale(lengths: FloatArray, scale: float) -> FloatArray:
    """lengths/scale from above, never 0 where a length is not."""
    with np.errstate(under="ignore", over="ignore"):
        ratio = np.maximum(lengths / scale * (1 + 2 * UNIT), 1e-300)
    return np.where(lengths > 0, ratio, 0.0)
