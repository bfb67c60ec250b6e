"""A25-P19: a two-layer ReLU classifier on the sphere whose security is gone, in numbers.

Gradient flow from a suitable start gives every training record the same margin 1 as soon as the
records are nearly orthogonal, while a fresh record has it with probability 0.  So MIS is at most
max(1, 1/γ)·P(some pair is not nearly orthogonal).
"""

from __future__ import annotations

import math

from scipy import special

from memberbound.errors import InputError, positive, whole_number
from memberbound.games import IidGame
from memberbound.numerics.rounding import SMALLEST, up
from memberbound.quantities import Certificate

__all__ = ["most_records_printed", "sphere_ceiling", "sphere_ceiling_printed"]

#: Relative error granted to scipy's regularised incomplete beta function (seen: below 1e-10).
_SLACK = 1e-8
ASSUMPTIONS = (
    "x is uniform on the sphere of radius √s, and its law given the label has a density.",
    "The classifier has width at least n and is trained by gradient flow to the end, from the "
    "start of the proof, and scaled to margin 1.",
)


def sphere_ceiling(dimension: int, n: int, nu: float = 0.5, lam: float = 1.0) -> Certificate:
    """Bound the security of A25-P19's classifier from above, with the exact law of one pair.

    Guarantee: MIS ≤ ``value``; here a small value is bad news.
    Theorem: A25-P19, first part, and a union bound over the n(n-1)/2 pairs: the squared cosine of
    two uniform directions has the law Beta(½, (s-1)/2).
    Assumes: see ``assumptions``.
    Numerics: the tail is raised by 1e-8 of its size and never 0 for two or more records.
    Edge cases: 1 is vacuous, as for n > (s+1)/3, where the event of the theorem is empty; n = 1
    has no pairs and gives 0.

    Examples:
        >>> sphere_ceiling(1000, 3).value < 0.05 < sphere_ceiling(1000, 5).value
        True
    """
    s, count = whole_number("dimension", dimension, at_least=2), whole_number("n", n)
    game = IidGame(nu, lam)
    return _certificate(max(1.0, 1 / game.gamma) * _some_pair(s, count), game)


def _some_pair(s: int, n: int) -> float:
    """Return a bound on P(max |x_iᵀx_j| > (s+1)/(3n) - 1) for i ≠ j."""
    if n == 1:
        return 0.0
    limit = ((s + 1) / (3 * n) - 1) * (1 - 1e-15)
    if limit <= 0:
        return 1.0
    cosine = limit / s
    if cosine >= 1:
        return 0.0
    tail = float(special.betaincc(0.5, (s - 1) / 2, cosine * cosine * (1 - 1e-15)))
    return min(1.0, up(math.comb(n, 2) * max(tail * (1 + _SLACK), SMALLEST), 8))


def sphere_ceiling_printed(
    dimension: int, n: int, nu: float = 0.5, lam: float = 1.0
) -> Certificate:
    """Return the closed form max(1, 1/γ)·s^{3 - ln(s)/4}, or 1 where that is more.

    Guarantee: MIS ≤ ``value``.
    Theorem: A25-P19, second part.
    Assumes: see ``assumptions``, and n ≤ (s+1)/(3(√s·ln s + 1)), refused otherwise.
    Numerics: rounded up.
    Edge cases: vacuous at γ = 1 up to s = 162 754.

    Examples:
        >>> sphere_ceiling_printed(162_754, 11).value, sphere_ceiling_printed(162_755, 11).value < 1
        (1.0, True)
    """
    s, count = whole_number("dimension", dimension, at_least=2), whole_number("n", n)
    most = most_records_printed(s)
    if count > most:
        raise InputError(
            f"n must be at most {most} in dimension {s}, got {n!r}. sphere_ceiling has no limit."
        )
    game = IidGame(nu, lam)
    log = math.log(s)
    # An exponent of size e is off by a few units of e.
    exponent = (3 - log / 4) * log
    power = math.exp(min(exponent + abs(exponent) * 1e-14 + 1e-300, 700.0))
    return _certificate(max(1.0, 1 / game.gamma) * power, game)


def most_records_printed(dimension: int) -> int:
    """Return the largest n with n ≤ (s+1)/(3(√s·ln s + 1)); 0 if there is none.

    Examples:
        >>> [most_records_printed(s) for s in (1000, 10**6, 10**8)]
        [1, 24, 180]
    """
    s = positive("dimension", dimension)
    return math.floor((s + 1) / (3 * (math.sqrt(s) * math.log(s) + 1)) * (1 - 1e-15))


def _certificate(value: float, game: IidGame) -> Certificate:
    return Certificate("security", min(1.0, up(value, 8)), "upper", game, ("A25-P19",), ASSUMPTIONS)
