"""Any mechanism with finitely many outcomes, on a population small enough to list its subsets.

A mechanism is a callable from a set of records (numbered 0, …, N-1) to a law: a mapping from
outcomes to probabilities, or a sequence of probabilities of the outcomes 0, 1, ….  All k-subsets
are listed, so P_in,x and P_out,x are exact; nothing is coupled (X1) or sampled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from numbers import Rational, Real

import numpy as np

from memberbound.curve import PolygonCurve
from memberbound.errors import InputError, fraction
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import UNIT, down, up
from memberbound.subset.record_bounds import RecordBounds

#: Most subsets that are listed: N = 20 at k = N/2 has 184 756.
SUBSET_LIMIT = 200_000

_THEOREMS = ("L24-D2", "L24-L11", "I24-P2")
_ROUNDED = (
    "Probabilities given as doubles are those of the mechanism up to rounding: each is off by at "
    "most a relative error of four units in the last place plus twice what its law misses from 1."
)


# ── The law of one release, as fractions; and pairs of laws, "in" against "out" ───────────────────
#
# Doubles become fractions without loss, and a relative *slack* says how far the mechanism's true
# probabilities may lie from them.

#: Probabilities of the outcomes; in a sequence the outcomes are 0, 1, ….
Law = Mapping[Hashable, float | Fraction] | Sequence[float | Fraction]
#: A release, as a function of the set of records it is computed from.
Mechanism = Callable[[frozenset[int]], Law]

#: How far doubles may be from adding up to one before a law is refused.
_NORMALISATION_TOLERANCE = 1e-9

Pairs = list[tuple[Fraction, Fraction]]


def _checked_law(
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
    for outcome, probability in items:
        mass, rational = _mass(probability, where)
        exact = exact and rational
        total += mass
        if mass:
            masses.append((outcome, mass))
    missed = abs(total - 1)
    if missed > (0 if exact else _NORMALISATION_TOLERANCE):
        shown = str(total) if exact else repr(float(total))
        raise InputError(
            f"{where} must be probabilities that add up to 1, got a sum of {shown}. "
            "Divide by the sum, or add an outcome for what is left."
        )
    return masses, Fraction(0) if exact else 2 * missed + Fraction(4 * UNIT)


def _mass(probability: object, where: str) -> tuple[Fraction | int, bool]:
    """One probability as an exact number, and whether it was given as one."""
    if isinstance(probability, Rational):
        mass: Fraction | int = Fraction(int(probability.numerator), int(probability.denominator))
        mass = mass.numerator if mass.denominator == 1 else mass  # integers add up faster
        rational = True
    elif isinstance(probability, Real) and math.isfinite(float(probability)):
        mass, rational = Fraction(float(probability)), False
    else:
        raise InputError(f"{where} must be made of finite probabilities, got {probability!r}.")
    if mass < 0:
        raise InputError(
            f"{where} must be made of probabilities of at least 0, got {probability!r}."
        )
    return mass, rational


def _largest_ratio(pairs: Pairs) -> Fraction | None:
    """Largest in/out or out/in, the e^ε of pure indistinguishability; None if infinite."""
    if any(not a or not b for a, b in pairs):
        return None
    return max((max(a / b, b / a) for a, b in pairs), default=Fraction(1))


def largest_stick(pairs: Pairs, ratio: Fraction) -> Fraction:
    """Return the larger of the two hockey-sticks at e^ε = ``ratio``."""
    zero = Fraction(0)
    forward = sum((max(zero, a - ratio * b) for a, b in pairs), zero)
    return max(forward, sum((max(zero, b - ratio * a) for a, b in pairs), zero))


def _from_above(value: Fraction) -> float:
    """Return the smallest double at or above a rational."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


@dataclass(frozen=True, eq=False)
class Worlds:
    """P_in,x and P_out,x of every record: ``inside[x]`` and ``outside[x]`` list ``outcomes``.

    ``slack`` is 0 when every probability was an integer or a fraction; then all masses are exact.
    Otherwise each true mass is within a relative ``slack`` of the listed one.
    """

    game: SubsetGame
    outcomes: tuple[Hashable, ...]
    inside: tuple[tuple[Fraction, ...], ...]
    outside: tuple[tuple[Fraction, ...], ...]
    slack: Fraction

    def pair(self, record: int) -> list[tuple[Fraction, Fraction]]:
        """In- and out-mass of every outcome that can occur in the record's game."""
        both = zip(self.inside[record], self.outside[record], strict=True)
        return [(a, b) for a, b in both if a or b]

    def ratio(self, record: int) -> Fraction | None:
        """Largest P_in/P_out or P_out/P_in over the outcomes (L24-D2, δ = 0); None if infinite."""
        return _largest_ratio(self._exact().pair(record))

    def delta(self, record: int, ratio: Fraction) -> Fraction:
        """The larger of both hockey-sticks at e^ε = ``ratio`` (L24-L11)."""
        return largest_stick(self._exact().pair(record), ratio)

    def success(self, record: int) -> Fraction:
        """Accuracy of the best attack on the record at the prior k/N (I24-P2)."""
        return self._exact()._success(record)

    def eta(self, record: int) -> Fraction:
        """Gain of the best attack over the better blind guess (I24-D1)."""
        k, total = self.game.size, self.game.population
        return self.success(record) - Fraction(max(k, total - k), total)

    def curve(self, record: int) -> PolygonCurve:
        """Trade-off curve of the listed masses, up to outward rounding."""
        pairs = self.pair(record)
        return PolygonCurve.from_masses([a for a, _ in pairs], [b for _, b in pairs])

    def bounds(self, delta: float = 0.0) -> RecordBounds:
        """Everything above as doubles from above; see :func:`finite_bounds`."""
        records = range(self.game.population)
        # Masses within (1 ± s) of a, b: Σ(a' - ce^ε·b')₊ ≤ (1 + s)·Σ(a - e^ε·b)₊, c = (1+s)/(1-s).
        less = delta if not self.slack else down(delta / float(1 + self.slack), 2)
        more = _from_above(2 * self.slack / (1 - self.slack))  # at least ln c
        epsilon = [self.curve(x).epsilon(less) for x in records]
        epsilon = [up(value + more) if more else value for value in epsilon]
        success = [_from_above((1 + self.slack) * self._success(x)) for x in records]
        return RecordBounds(
            self.game,
            delta,
            np.array(epsilon),
            np.minimum(np.array(success), 1.0),
            "every subset listed",
            _THEOREMS,
            (_ROUNDED,) if self.slack else (),
        )

    def _success(self, record: int) -> Fraction:
        prior = Fraction(self.game.size, self.game.population)
        return sum((max(prior * a, (1 - prior) * b) for a, b in self.pair(record)), Fraction(0))

    def _exact(self) -> Worlds:
        if self.slack:
            raise InputError(
                "the mechanism must give its probabilities as fractions or integers for an exact "
                "answer, got doubles. Use fractions.Fraction, or finite_bounds for an upper bound."
            )
        return self


def finite_worlds(mechanism: Mechanism, game: SubsetGame) -> Worlds:
    """List all k-subsets and return the laws of the release with and without every record.

    Guarantee: exact for fractions and integers; for doubles within the relative ``slack``.
    Theorem: L24-D2; P_in,x is the plain mean over the sets with x (L24-L3, corrected).
    Edge cases: more than :data:`SUBSET_LIMIT` subsets, negative masses and laws that do not add
    up to 1 (doubles: within 1e-9) are refused.

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
    slack = Fraction(0)
    for chosen in map(frozenset, combinations(range(game.population), game.size)):
        law, blur = _checked_law(mechanism(chosen), chosen)
        slack = max(slack, blur)
        for outcome, mass in law:
            if outcome not in total:
                total[outcome] = 0
                with_record[outcome] = [0] * game.population
            total[outcome] += mass
            row = with_record[outcome]
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
        slack,
    )


def finite_bounds(mechanism: Mechanism, game: SubsetGame, *, delta: float = 0.0) -> RecordBounds:
    """Return ε of (ε, δ)-PMP and the best attack's success for every record, from above.

    Guarantee: no attack on record x is right more often than ``success[x]``, and both
    hockey-sticks at e^``pmp_epsilon[x]`` are at most ``delta``.
    Theorem: L24-D2, L24-L11, I24-P2.
    Assumes: the laws are the mechanism's; doubles up to a relative error of four units in the last
    place, and a law whose doubles miss 1 up to twice what it misses.
    Numerics: masses are added as fractions; the last step rounds up by a few units.
    Edge cases: an outcome that is impossible in one world makes ε infinite at δ = 0.

    Examples:
        >>> bounds = finite_bounds(lambda d: {sum(d) % 6: 1}, SubsetGame(6, 3))
        >>> round(bounds.pmp_epsilon_upper, 6), round(bounds.success_upper, 6)
        (0.693147, 0.6)
    """
    fraction("delta", delta)
    return finite_worlds(mechanism, game).bounds(delta)
