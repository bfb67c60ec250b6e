"""The law of one release, as fractions; and pairs of laws, "in" against "out".

Doubles become fractions without loss, and a relative *slack* says how far the mechanism's true
probabilities may lie from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from numbers import Rational, Real

import numpy as np

from memberbound.curve import PolygonCurve
from memberbound.errors import InputError
from memberbound.numerics.rounding import UNIT

__all__ = ["Law", "Mechanism"]

#: Probabilities of the outcomes; in a sequence the outcomes are 0, 1, ….
Law = Mapping[Hashable, float | Fraction] | Sequence[float | Fraction]
#: A release, as a function of the set of records it is computed from.
Mechanism = Callable[[frozenset[int]], Law]

#: How far doubles may be from adding up to one before a law is refused.
NORMALISATION_TOLERANCE = 1e-9

Pairs = list[tuple[Fraction, Fraction]]


def checked_law(
    law: Law, chosen: frozenset[int]
) -> tuple[list[tuple[Hashable, Fraction | int]], Fraction]:
    """Positive masses of one law as exact numbers, and the relative error they may carry."""
    where = f"the law at {sorted(chosen)}"
    if isinstance(law, Mapping):
        items: list[tuple[Hashable, object]] = list(law.items())
    elif isinstance(law, Sequence | np.ndarray):
        items = list(enumerate(law))
    else:
        raise InputError(f"{where} must be a mapping or a list of probabilities, got {law!r}.")
    masses: list[tuple[Hashable, Fraction | int]] = []
    exact = True
    total = Fraction(0)
    for outcome, given in items:
        mass, rational = _mass(given, where)
        exact = exact and rational
        total += mass
        if mass:
            masses.append((outcome, mass))
    missed = abs(total - 1)
    if missed > (0 if exact else NORMALISATION_TOLERANCE):
        shown = str(total) if exact else repr(float(total))
        raise InputError(
            f"{where} must be probabilities that add up to 1, got a sum of {shown}. "
            "Divide by the sum, or add an outcome for what is left."
        )
    return masses, Fraction(0) if exact else 2 * missed + Fraction(4 * UNIT)


def _mass(given: object, where: str) -> tuple[Fraction | int, bool]:
    """One probability as an exact number, and whether it was given as one."""
    if isinstance(given, Rational):
        mass: Fraction | int = Fraction(int(given.numerator), int(given.denominator))
        mass = mass.numerator if mass.denominator == 1 else mass  # integers add up faster
        rational = True
    elif isinstance(given, Real) and math.isfinite(float(given)):
        mass, rational = Fraction(float(given)), False
    else:
        raise InputError(f"{where} must be made of finite probabilities, got {given!r}.")
    if mass < 0:
        raise InputError(f"{where} must be made of probabilities of at least 0, got {given!r}.")
    return mass, rational


def largest_ratio(pairs: Pairs) -> Fraction | None:
    """Largest in/out or out/in, the e^ε of pure indistinguishability; None if infinite."""
    if any(not a or not b for a, b in pairs):
        return None
    return max((max(a / b, b / a) for a, b in pairs), default=Fraction(1))


def largest_stick(pairs: Pairs, ratio: Fraction) -> Fraction:
    """Return the larger of the two hockey-sticks at e^ε = ``ratio``."""
    zero = Fraction(0)
    forward = sum((max(zero, a - ratio * b) for a, b in pairs), zero)
    return max(forward, sum((max(zero, b - ratio * a) for a, b in pairs), zero))


def from_above(value: Fraction) -> float:
    """Return the smallest double at or above a rational."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def blurred_curve(pairs: Pairs, slack: Fraction) -> PolygonCurve:
    """Return a curve at or above that of every pair within a relative ``slack`` of this one.

    A segment is safe when its heavier mass and its |log-slope| are (curve/polygon.py).  Where the
    sign of the log-slope is in doubt, |ℓ| ≤ t, half of the mass goes to each side at twice the
    slope: m/(1+e^-t)·(1 - g·e^-2t) ≥ m·(1 - g·e^-t) for every g ≥ 1, being equal at g = 1.
    """
    loss: list[float] = []
    heavy: list[float] = []
    for a, b in pairs:
        more, less = max(a, b), min(a, b)
        mass = from_above((1 + slack) * more)
        if not less:
            loss.append(math.inf if a else -math.inf)
            heavy.append(mass)
            continue
        excess = (1 + slack) * more / ((1 - slack) * less) - 1
        size = _log1p_above(excess)
        if more * (1 - slack) > less * (1 + slack):
            loss.append(size if a > b else -size)
            heavy.append(mass)
        else:
            loss += [2 * size, -2 * size]
            heavy += [from_above(Fraction(mass) * (Fraction(1, 2) + Fraction(size)))] * 2
    return PolygonCurve(np.array(loss), np.array(heavy))


def _log1p_above(excess: Fraction) -> float:
    """ln(1 + excess) from above, for excess > 0 of any size."""
    if excess <= 1:
        return math.nextafter(math.log1p(float(excess)) * (1 + 8 * UNIT), math.inf)
    ratio = 1 + excess
    power = ratio.numerator.bit_length() - ratio.denominator.bit_length()
    value = math.log(float(ratio / Fraction(2) ** power)) + power * math.log(2.0)
    return math.nextafter(value * (1 + 16 * UNIT), math.inf)
