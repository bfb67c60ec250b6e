"""Outward rounding.

Every public upper bound ends in :func:`up` and every lower bound in :func:`down`.  The slack is
relative and a few dozen units in the last place: it covers the rounding of the handful of
operations in front of it, and each caller says which operations those are.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["UNIT", "down", "sum_slack", "up", "up_array"]

#: Half the distance from 1 to the next double: the relative error of one correctly rounded step.
UNIT = 2.0**-53

FloatArray = NDArray[np.float64]


def up(value: float, operations: int = 4) -> float:
    """Return a double at least ``value·(1 + operations·UNIT)`` for ``value`` ≥ 0 (0 stays 0)."""
    if value == 0.0 or math.isinf(value):
        return value
    return math.nextafter(value + abs(value) * (2 * operations * UNIT), math.inf)


def down(value: float, operations: int = 4) -> float:
    """Mirror of :func:`up`: a double at most ``value·(1 - operations·UNIT)`` for ``value`` ≥ 0."""
    return -up(-value, operations)


def up_array(values: FloatArray, operations: int = 4) -> FloatArray:
    """Apply :func:`up` to every entry."""
    raised = np.nextafter(values + np.abs(values) * (2 * operations * UNIT), np.inf)
    return np.where((values == 0.0) | np.isinf(values), values, raised)


def sum_slack(terms: int) -> float:
    """Relative error of adding ``terms`` non-negative doubles, each off by a few roundings.

    Holds for any order of summation (Higham, *Accuracy and Stability*, §4.2), so it does not rest
    on how numpy or the BLAS happens to add.
    """
    return 1.01 * (terms + 16) * UNIT
