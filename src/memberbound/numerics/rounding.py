"""Outward rounding.

Every public upper bound ends in :func:`up` and every lower bound in :func:`down`.  The slack is
relative and a few dozen units in the last place: it covers the rounding of the handful of
preceding operations, which each caller states.  Near the underflow
threshold relative slack is not enough; there the last step to the next double counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

#: Half the distance from 1 to the next double: the relative error of one correctly rounded step.
UNIT = 2.0**-53
#: The smallest positive double: what a positive number that underflows is rounded up to.
SMALLEST = 5e-324

#: Splits a double into two halves of 26 bits (Veltkamp).
_SPLIT = 2.0**27 + 1.0

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


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
    with np.errstate(over="ignore", under="ignore"):
        raised = np.nextafter(values + np.abs(values) * (2 * operations * UNIT), np.inf)
    return np.where((values == 0.0) | np.isinf(values), values, raised)


def double_above(value: Fraction) -> float:
    """Return the smallest double at or above a rational number."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def double_below(value: Fraction) -> float:
    """Return the largest double at or below a rational number."""
    return -double_above(-value)


def half_up(value: float) -> float:
    """Return ``value``/2 from above: exact unless halving the smallest doubles rounds down."""
    half = value / 2
    return half if 2 * half >= value else math.nextafter(half, math.inf)


def sum_up(first: float, second: float) -> float:
    """Return the sum of two doubles ≥ 0 from above: exact where the sum is a double."""
    total = first + second
    # Knuth's two-sum: the rounding error of an addition is itself a double.
    tail = total - first
    missing = (first - (total - tail)) + (second - tail)
    return math.nextafter(total, math.inf) if missing > 0 else total


def sums_up(values: Iterable[float]) -> float:
    """Return the sum of doubles ≥ 0 from above: the smallest double that is not below it."""
    return double_above(sum(map(Fraction, values), Fraction(0)))


def root_up(value: Fraction) -> float:
    """Return the square root of a rational from above."""
    root = math.sqrt(float(value))
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root


def sum_slack(terms: int) -> float:
    """Relative error of adding ``terms`` non-negative doubles, each off by a few roundings.

    Holds for any order of summation (Higham, *Accuracy and Stability*, §4.2), so it does not depend
    on how numpy or the BLAS happens to add.
    """
    return 1.01 * (terms + 16) * UNIT


def shared_confidence(confidence: float, parts: int) -> float:
    """Return a confidence such that ``parts`` times its error is at most that of the given one.

    1 - c is exact, but 1 - (1 - c)/parts is not: the result is rounded towards 1, and is 1 where no
    double below 1 is near enough.

    Examples:
        >>> shared_confidence(0.95, 2)
        0.975
    """
    wanted = (1 - Fraction(confidence)) / parts
    level = float(1 - wanted)
    return level if 1 - Fraction(level) <= wanted else math.nextafter(level, math.inf)


def two_product(a: FloatArray | np.float64, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a·b without error, as the sum of two doubles (Dekker, Veltkamp)."""
    product = a * b
    a_high = _SPLIT * a - (_SPLIT * a - a)
    b_high = _SPLIT * b - (_SPLIT * b - b)
    a_low, b_low = a - a_high, b - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return np.asarray(product), np.asarray(error)
