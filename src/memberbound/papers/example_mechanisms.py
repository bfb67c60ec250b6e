"""The example mechanisms of I24 and L24, small enough to be listed, and a pairing that I24 needs.

Each mechanism is a callable from a set of records, numbered 0, …, N-1, to a law in fractions, as
:mod:`memberbound.subset.finite` takes it.  Most are warnings: they separate one promise from
another and are not meant to be used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from memberbound.errors import InputError, fraction, whole_number
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import down, up
from memberbound.subset.laws import Law, Mechanism

__all__ = [
    "EvenParityBits",
    "Jointly",
    "OneRecord",
    "Parity",
    "PostProcessed",
    "RandomisedResponse",
    "ReciprocalSum",
    "SetIndicator",
    "SumModulo",
    "WholeSet",
    "matched_neighbour",
]

_ONE = Fraction(1)


def _items(law: Law) -> list[tuple[Hashable, float | Fraction]]:
    return list(law.items() if hasattr(law, "items") else enumerate(law))


@dataclass(frozen=True)
class SumModulo:
    """The sum of the records' numbers modulo ``modulus`` (L24-P5): PMP, never DP.

    At modulus 2n on N = 2n records, k = n, the exact e^ε is 2, 5/4, 7/6, 38/37 for n = 3, 4, 5, 6;
    for n = 1 and 2 it is infinite.
    """

    modulus: int

    def __post_init__(self) -> None:
        whole_number("modulus", self.modulus)

    def __call__(self, members: frozenset[int]) -> Law:
        """Return the law of the release."""
        return {sum(members) % self.modulus: _ONE}


@dataclass(frozen=True)
class RandomisedResponse:
    """Whether ``target`` is in, told truthfully with probability ``truth`` (I24-T4, I24-T8).

    With ``truth`` = 1 it is the indicator of one record, whose average advantage 2/N hides that
    the target is fully exposed (L24-App3).
    """

    truth: Fraction
    target: int = 0

    def __post_init__(self) -> None:
        fraction("truth", self.truth)

    def __call__(self, members: frozenset[int]) -> Law:
        """Return the law of the release."""
        answer = self.target in members
        return {answer: self.truth, not answer: 1 - self.truth}


@dataclass(frozen=True)
class OneRecord:
    """A uniform member with probability ``chance``, otherwise nothing (L24-App1).

    At k = N/2 it is η-MIP with η = chance/(2k), and ε-PMP for no finite ε: whoever is named was in.
    """

    chance: Fraction

    def __post_init__(self) -> None:
        fraction("chance", self.chance)

    def __call__(self, members: frozenset[int]) -> Law:
        """Return the law of the release."""
        law: dict[Hashable, float | Fraction] = dict.fromkeys(members, self.chance / len(members))
        return law | {None: 1 - self.chance}


@dataclass(frozen=True)
class SetIndicator:
    """Whether the training set is ``secret`` (I24-T5, I24-T7).

    η = 1/C(N, N/2), as small as one likes, while ``secret`` and its neighbours are told apart for
    certain: no DP of any kind.
    """

    secret: frozenset[int]

    def __call__(self, members: frozenset[int]) -> Law:
        """Return the law of the release."""
        return {members == self.secret: _ONE}


@dataclass(frozen=True)
class WholeSet:
    """The training set itself: η = ½ at k = N/2, PMP for no ε.  See :class:`EvenParityBits`."""

    def __call__(self, members: frozenset[int]) -> Law:
        """Return the law of the release."""
        return {members: _ONE}


@dataclass(frozen=True)
class Parity:
    """Whether an odd number of members carries bit 1."""

    bits: tuple[int, ...]

    def __call__(self, members: frozenset[int]) -> Law:
        """Return the law of the release."""
        return {sum(self.bits[x] for x in members) % 2: _ONE}


@dataclass(frozen=True)
class EvenParityBits:
    """Data sets of ``length`` uniform bits with an even sum, on which distributional DP is vacuous.

    Any ``length`` - 1 of the bits give the last one (L24-App2), so a simulator that does not see
    record i still knows it, and releasing everything counts as perfectly private.
    """

    length: int

    def __post_init__(self) -> None:
        whole_number("length", self.length, at_least=2)

    def data_sets(self) -> list[tuple[int, ...]]:
        """All data sets; each is equally likely."""
        return [bits for bits in product((0, 1), repeat=self.length) if sum(bits) % 2 == 0]

    def rebuilt(self, rest: tuple[int, ...], place: int) -> tuple[int, ...]:
        """Return the whole data set from all bits but the one at ``place``."""
        return (*rest[:place], sum(rest) % 2, *rest[place:])


@dataclass(frozen=True)
class ReciprocalSum:
    """1/Σ of the members, on a population where its sensitivity explodes (I24-P11).

    The population is 2^0, …, 2^(N-2) and, as the last record, √p - Σ_{i<N/2-1} 2^i with
    p = 1/C(N, N/2): one half D* of it sums to √p, so the statistic is 1/√p there, and at most 1
    elsewhere.  A sum is an integer plus √p or nothing, and is kept like that: nothing cancels.

    Examples:
        >>> statistic = ReciprocalSum(12)
        >>> round(statistic.sensitivity_lower, 3), statistic.variance_upper
        (30.396, 2.0)
    """

    population: int

    def __post_init__(self) -> None:
        if whole_number("population", self.population, at_least=2) % 2 or self.population > 1000:
            raise InputError(
                f"population must be even and at most 1000, got {self.population!r}. "
                "The statistic takes halves, and 2^1000 is near the largest double."
            )

    @property
    def worst_set(self) -> frozenset[int]:
        """D*: the smallest N/2-1 powers of two and the last record."""
        return frozenset(range(self.population // 2 - 1)) | {self.population - 1}

    @property
    def inverse_probability(self) -> int:
        """1/p = C(N, N/2)."""
        return math.comb(self.population, self.population // 2)

    def total(self, members: frozenset[int]) -> tuple[int, bool]:
        """Σ of the members as (integer part, whether √p is added), exactly."""
        last = self.population - 1
        whole = sum(1 << x for x in members if x != last)
        return (whole - (1 << last // 2) + 1, True) if last in members else (whole, False)

    def value(self, members: frozenset[int]) -> float:
        """1/Σ, to a few roundings; ∞ for a sum of 0, which no half of the population has."""
        whole, rooted = self.total(members)
        amount = whole + (math.sqrt(1 / self.inverse_probability) if rooted else 0.0)
        return 1 / amount if amount else math.inf

    @property
    def sensitivity_upper(self) -> float:
        """Largest change by one replacement, √C(N, N/2) - 1/(2^(N-2) + 2^(N/2-1) - 1), from above.

        Reached at D* when the largest power of two replaces its last record: no value exceeds
        that of D*, and no neighbour of D* has a larger sum.
        """
        return up(self._sensitivity(), 8)

    @property
    def sensitivity_lower(self) -> float:
        """The same from below."""
        return down(self._sensitivity(), 8)

    def _sensitivity(self) -> float:
        far = (1 << self.population - 2) + (1 << self.population // 2 - 1) - 1
        return math.sqrt(self.inverse_probability) - 1 / far

    @property
    def variance_upper(self) -> float:
        """2: E A² ≤ p·(1/p) + (1-p)·1."""
        return 2.0

    def __call__(self, members: frozenset[int]) -> Law:
        """Return the law of the release."""
        return {self.total(members): _ONE}


@dataclass(frozen=True)
class PostProcessed:
    """``mechanism`` followed by a channel that does not see the data (I24-T3, L24-L14).

    ``channel`` maps an outcome to a law of new outcomes; no read-off of the curve can grow.
    """

    mechanism: Mechanism
    channel: Callable[[Hashable], Law]

    def __call__(self, members: frozenset[int]) -> Law:
        """Return the law of the release."""
        image: dict[Hashable, float | Fraction] = {}
        for outcome, mass in _items(self.mechanism(members)):
            for new, share in _items(self.channel(outcome)):
                image[new] = image.get(new, 0) + mass * share
        return image


@dataclass(frozen=True)
class Jointly:
    """Both releases at once, with independent noise.  The ε of PMP do not add up (L24-Dis1)."""

    first: Mechanism
    second: Mechanism

    def __call__(self, members: frozenset[int]) -> Law:
        """Return the law of the release."""
        second = _items(self.second(members))
        return {
            (a, b): mass * share for a, mass in _items(self.first(members)) for b, share in second
        }


def matched_neighbour(members: frozenset[int], record: int, game: SubsetGame) -> frozenset[int]:
    """Return the set with ``record`` that is paired with a set without it.

    I24 proves by Hall's theorem that the pairing exists.  Here it is explicit: leave the record
    out, read a set as a row of brackets, and replace the member behind the last closing bracket
    that has no partner.  These are the steps of a symmetric chain decomposition of the subsets of
    N-1 records (Greene and Kleitman), so no two sets meet.

    Guarantee: the two differ by one replacement, and different sets get different partners; at
    k = N/2 every set with the record is somebody's partner.
    Theorem: I24-L12.  Assumes k ≥ N/2: below that there are fewer sets with the record than
    without.
    Edge cases: k < N/2, a set of another size, or one that holds the record, are refused.

    Examples:
        >>> sorted(matched_neighbour(frozenset({1, 2}), 0, SubsetGame(4, 2)))
        [0, 1]
    """
    if 2 * game.size < game.population:
        raise InputError(
            f"size must be at least half of the population of {game.population}, "
            f"got {game.size!r}. Fewer sets hold the record than do not."
        )
    everyone = range(game.population)
    if record not in everyone:
        raise InputError(f"record must be in 0, …, {game.population - 1}, got {record!r}.")
    if len(members) != game.size or record in members or not members <= set(everyone):
        raise InputError(
            f"members must be {game.size} records other than {record}, got {sorted(members)!r}."
        )
    open_brackets = 0
    replaced = None
    for other in everyone:
        if other == record:
            continue
        if other not in members:
            open_brackets += 1
        elif open_brackets:
            open_brackets -= 1
        else:
            replaced = other  # a closing bracket without a partner; the last one counts
    # More members than others (k > N-1-k): at least one bracket has no partner.
    assert replaced is not None
    return members - {replaced} | {record}
