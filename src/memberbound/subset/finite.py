"""Mechanisms with finitely many outcomes, on populations small enough to list all subsets.

A mechanism is a callable from a set of records (numbered 0, …, N-1) to a law: a mapping from
outcomes to probabilities, which are fractions or integers.  All k-subsets are listed, so P_in,x and
P_out,x are exact; nothing is coupled (X1) or sampled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from numbers import Rational

import numpy as np

from memberbound.curve import PolygonCurve
from memberbound.errors import InputError, fraction
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import double_above
from memberbound.subset.record_bounds import RecordBounds

#: Maximum number of subsets to list; N = 20 at k = N/2 has 184 756.
SUBSET_LIMIT = 200_000

#: Probabilities of the outcomes of a release, and a release as a function of its set of records.
Law = Mapping[Hashable, Fraction | int]
Mechanism = Callable[[frozenset[int]], Law]
Pairs = list[tuple[Fraction, Fraction]]


def _checked_law(law: Law, chosen: frozenset[int]) -> Law:
    if not all(isinstance(mass, Rational) and mass >= 0 for mass in law.values()):
        raise InputError(
            f"the law at {sorted(chosen)} must be made of fractions or integers of at least 0, got "
            f"{law!r}. Use fractions.Fraction."
        )
    if sum(law.values()) != 1:
        raise InputError(
            f"the law at {sorted(chosen)} must be probabilities that add up to 1, got {law!r}."
        )
    return law


def largest_stick(pairs: Pairs, ratio: Fraction) -> Fraction:
    """Return the larger of the two hockey-sticks at e^ε = ``ratio``."""
    zero = Fraction(0)
    forward = sum((max(zero, a - ratio * b) for a, b in pairs), zero)
    return max(forward, sum((max(zero, b - ratio * a) for a, b in pairs), zero))


@dataclass(frozen=True, eq=False)
class Worlds:
    """P_in,x and P_out,x of every record: ``inside[x]`` and ``outside[x]`` list ``outcomes``."""

    game: SubsetGame
    outcomes: tuple[Hashable, ...]
    inside: tuple[tuple[Fraction, ...], ...]
    outside: tuple[tuple[Fraction, ...], ...]

    def pair(self, record: int) -> Pairs:
        """Return the in- and out-mass of every possible outcome in the record's game."""
        both = zip(self.inside[record], self.outside[record], strict=True)
        return [(a, b) for a, b in both if a or b]

    def ratio(self, record: int) -> Fraction | None:
        """Return the largest P_in/P_out or P_out/P_in (L24-D2, δ = 0); None if infinite."""
        pairs = self.pair(record)
        if any(not a or not b for a, b in pairs):
            return None
        return max(max(a / b, b / a) for a, b in pairs)

    def delta(self, record: int, ratio: Fraction) -> Fraction:
        """Return the larger of both hockey-sticks at e^ε = ``ratio`` (L24-L11)."""
        return largest_stick(self.pair(record), ratio)

    def success(self, record: int) -> Fraction:
        """Return the accuracy of the best attack on the record at the prior k/N (I24-P2)."""
        prior = Fraction(self.game.size, self.game.population)
        return sum((max(prior * a, (1 - prior) * b) for a, b in self.pair(record)), Fraction(0))

    def eta(self, record: int) -> Fraction:
        """Return the gain of the best attack over the better blind guess (I24-D1)."""
        k, total = self.game.size, self.game.population
        return self.success(record) - Fraction(max(k, total - k), total)

    def curve(self, record: int) -> PolygonCurve:
        """Return the trade-off curve of the masses, rounded outward."""
        pairs = self.pair(record)
        return PolygonCurve.from_masses([a for a, _ in pairs], [b for _, b in pairs])


def finite_worlds(mechanism: Mechanism, game: SubsetGame) -> Worlds:
    """List all k-subsets and return the laws of the release with and without every record.

    Guarantee: exact.
    Theorem: L24-D2; P_in,x is the unweighted mean over the sets with x (L24-L3, corrected).
    Edge cases: more than :data:`SUBSET_LIMIT` subsets, doubles, negative masses and laws that do
    not add up to 1 are rejected.

    Examples:
        >>> worlds = finite_worlds(lambda d: {sum(d) % 6: 1}, SubsetGame(6, 3))
        >>> worlds.ratio(0), worlds.success(0)
        (Fraction(2, 1), Fraction(3, 5))
    """
    count = math.comb(game.population, game.size)
    if count > SUBSET_LIMIT:
        raise InputError(
            f"the number of subsets must be at most {SUBSET_LIMIT}, got {count}. Take a smaller "
            "population (at most 20 records for halves), or a mechanism with a certificate of its "
            "own: Gaussian noise or the exponential mechanism."
        )
    total: dict[Hashable, Fraction | int] = {}
    with_record: dict[Hashable, list[Fraction | int]] = {}
    for chosen in map(frozenset, combinations(range(game.population), game.size)):
        for outcome, mass in _checked_law(mechanism(chosen), chosen).items():
            if not mass:
                continue
            total[outcome] = total.get(outcome, 0) + mass
            row = with_record.setdefault(outcome, [0] * game.population)
            for record in chosen:
                row[record] += mass
    holding = math.comb(game.population - 1, game.size - 1)
    records = range(game.population)
    return Worlds(
        game,
        tuple(total),
        tuple(tuple(Fraction(with_record[a][x]) / holding for a in total) for x in records),
        tuple(
            tuple(Fraction(total[a] - with_record[a][x]) / (count - holding) for a in total)
            for x in records
        ),
    )


def finite_bounds(mechanism: Mechanism, game: SubsetGame, *, delta: float = 0.0) -> RecordBounds:
    """Return upper bounds on ε of (ε, δ)-PMP and on attack success for every record.

    Guarantee: no attack on record x is right more often than ``success[x]``, and both
    hockey-sticks at e^``pmp_epsilon[x]`` are at most ``delta``.
    Theorem: L24-D2, L24-L11, I24-P2.
    Assumes: the laws are the mechanism's.
    Numerics: masses are added as fractions; the last step rounds up by a few units.
    Edge cases: an outcome that is impossible in one world makes ε infinite at δ = 0.

    Examples:
        >>> bounds = finite_bounds(lambda d: {sum(d) % 6: 1}, SubsetGame(6, 3))
        >>> round(bounds.pmp_epsilon_upper, 6), round(bounds.success_upper, 6)
        (0.693147, 0.6)
    """
    fraction("delta", delta)
    worlds, records = finite_worlds(mechanism, game), range(game.population)
    return RecordBounds(
        game,
        delta,
        np.array([worlds.curve(x).epsilon(delta) for x in records]),
        np.array([double_above(worlds.success(x)) for x in records]),
        "every subset listed",
        ("L24-D2", "L24-L11", "I24-P2"),
    )
