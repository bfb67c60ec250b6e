"""The example learners of A25 and its preprints, and the example mechanisms of I24 and L24."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations, product
from typing import TypeVar

import numpy as np
from scipy import special

from memberbound.errors import InputError, fraction, positive, whole_number
from memberbound.games import IidGame, SubsetGame, gamma_from_priors
from memberbound.iid.worst_case import checked_law
from memberbound.numerics.rounding import SMALLEST, UNIT, FloatArray, up
from memberbound.quantities import Certificate
from memberbound.subset.laws import Law, Mechanism

__all__ = [
    "EvenParityBits",
    "Jointly",
    "LearnerCheck",
    "OneRecord",
    "Parity",
    "PostProcessed",
    "RandomisedResponse",
    "SetIndicator",
    "SumModulo",
    "WholeSet",
    "is_function_of_frequencies",
    "is_redundancy_invariant",
    "is_symmetric",
    "leak_of_learner",
    "matched_neighbour",
    "most_records_printed",
    "sphere_ceiling",
    "sphere_ceiling_printed",
]

# ── Learners that A25 and its preprints look at, and how much these leak ──────────────────────────
#
# - :func:`leak_of_learner` computes Δ of a deterministic function of the histogram by enumerating
#   the histograms (A24-L5.5).
# - The checks below it ask whether a learner is such a function at all: it is if and only if it is
#   symmetric and redundancy invariant (A25-P18).
# - :func:`sphere_ceiling` bounds the security of a two-layer ReLU classifier on the sphere from
#   above (A25-P19): it is nearly gone.

# ---- functions of the histogram ----------------------------------------------------------------

Histogram = tuple[int, ...]
R = TypeVar("R")
Learner = Callable[[Sequence[R]], object]
Equal = Callable[[object, object], bool]

#: Histograms enumerated at most: about a minute.
MAX_HISTOGRAMS = 2_000_000
#: Data sets of at most this many records are tried in every order.
_ALL_ORDERS = 6


def leak_of_learner(
    learner: Callable[[Histogram], Hashable],
    probabilities: Sequence[float | Fraction],
    n: int,
    nu: float | Fraction = 0.5,
    lam: float | Fraction = 1.0,
) -> float | Fraction:
    """Return Δ of a learner that sends the histogram of n records to a label.

    Guarantee: the largest advantage of any attack on this learner in the i.i.d. game.
    Theorem: A24-L5.5 for any γ: Δ = Σ_j Σ_l (E[N_j/n; D_l] - γp_j·P(D_l))₊ for γ ≥ 1 and
    Σ_j Σ_l (p_j·P(D_l) - E[N_j/n; D_l]/γ)₊ for γ ≤ 1, D_l the histograms N with label l; never
    above :func:`~memberbound.iid.worst_case.leak_of_law`.
    Assumes: the learner is deterministic and sees nothing but the histogram.
    Numerics: exact, as a Fraction, when every probability is a Fraction (ν and λ are then read as
    the rationals they are); else a double from above, absolute excess about n ln(n)·1e-14.
    Probabilities that miss 1 by r add (n+1)(1 + max(γ, 1/γ))·r.
    Edge cases: a constant learner leaks 0; too many histograms are refused.

    Examples:
        >>> leak_of_learner(lambda h: h[1] > 0, [Fraction(2, 3), Fraction(1, 3)], n=2)
        Fraction(8, 27)
    """
    size = whole_number("n", n)
    gamma_from_priors(float(nu), float(lam))
    fresh = Fraction(nu)
    gamma = fresh / (Fraction(lam) * (1 - fresh))
    count = math.comb(size + len(probabilities) - 1, size)
    if count > MAX_HISTOGRAMS:
        raise InputError(
            f"the number of histograms must be at most {MAX_HISTOGRAMS}, got {count}. "
            "Use leak_of_law, which bounds every learner."
        )
    _, _, miss = checked_law([float(p) for p in probabilities])
    if all(isinstance(p, Fraction) for p in probabilities):
        law = [Fraction(p) for p in probabilities]
        if sum(law) != 1:
            raise InputError(f"probabilities must sum to 1, got {sum(law)!r}.")
        return _exact_leak(learner, law, size, gamma)
    g = float(gamma)
    excess = _float_leak(learner, np.array([float(p) for p in probabilities]), size, g)
    # Replacing the law moves each joint law by at most (n+1)·r in total variation.
    return min(up(excess + (size + 1) * (1 + max(g, 1 / g)) * miss), 1.0)


def _histograms(n: int, atoms: int) -> Iterator[Histogram]:
    if atoms == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in _histograms(n - first, atoms - 1):
            yield (first, *rest)


def _exact_leak(
    learner: Callable[[Histogram], Hashable], law: list[Fraction], n: int, gamma: Fraction
) -> Fraction:
    # Whole numbers over one denominator: a fraction would be reduced at every step.
    common = math.lcm(*(p.denominator for p in law))
    powers = [[(p.numerator * common // p.denominator) ** k for k in range(n + 1)] for p in law]
    mass: dict[Hashable, int] = {}
    inside: dict[Hashable, list[int]] = {}
    factorial = [math.factorial(k) for k in range(n + 1)]
    for h in _histograms(n, len(law)):
        weight, orders = factorial[n], 1
        for k, power in zip(h, powers, strict=True):
            weight *= power[k]
            orders *= factorial[k]
        weight //= orders
        label = learner(h)
        mass[label] = mass.get(label, 0) + weight
        seen = inside.setdefault(label, [0] * len(law))
        for j, k in enumerate(h):
            seen[j] += weight * k
    whole = common**n
    total = Fraction(0)
    for label, chance in mass.items():
        for p, seen_j in zip(law, inside[label], strict=True):
            gap = Fraction(seen_j, n * whole) - gamma * p * Fraction(chance, whole)
            if (gap > 0) == (gamma >= 1):
                total += gap if gamma >= 1 else -gap / gamma
    return total


def _float_leak(
    learner: Callable[[Histogram], Hashable], law: FloatArray, n: int, gamma: float
) -> float:
    rows: dict[Hashable, list[Histogram]] = {}
    for h in _histograms(n, len(law)):
        rows.setdefault(learner(h), []).append(h)
    log_factorial = np.array([math.lgamma(k + 1) for k in range(n + 1)])
    with np.errstate(divide="ignore"):
        log_law = np.log(law)
    total = 0.0
    for histograms in rows.values():
        counts = np.array(histograms, dtype=np.int64)
        exponent = log_factorial[n] - log_factorial[counts].sum(axis=1)
        exponent += counts @ np.maximum(log_law, -1e6)
        weight = np.exp(exponent)
        chance = math.fsum(weight.tolist())
        for j, p in enumerate(law):
            gap = math.fsum((weight * counts[:, j]).tolist()) / n - gamma * p * chance
            total += max(gap, 0.0) if gamma >= 1 else max(-gap, 0.0) / gamma
    # Each weight has relative error below 4(ln n! + Σ k|ln p|)·UNIT, the sum of |in| + γ|out| over
    # cells is 1 + γ (divided by γ below 1), and a weight with exponent -e carries e·exp(-e) ≤ 1.
    size = math.lgamma(n + 1) + n + len(law) + 8
    relative = 16 * UNIT * size * (2 + math.log(len(law) + 1))
    return total + relative * (1 + max(gamma, 1 / gamma))


# ---- is it a function of the histogram? --------------------------------------------------------


@dataclass(frozen=True)
class LearnerCheck:
    """Outcome of a check; two data sets that should have agreed and did not, if any.

    ``exhaustive`` says whether every case in scope was tried; otherwise ``holds`` means only that
    ``cases`` random ones agreed.
    """

    holds: bool
    cases: int
    exhaustive: bool
    first: tuple[object, ...] | None = None
    second: tuple[object, ...] | None = None

    def __bool__(self) -> bool:
        return self.holds


def _same(a: object, b: object) -> bool:
    return bool(np.array_equal(np.asarray(a, dtype=object), np.asarray(b, dtype=object)))


def is_symmetric(
    learner: Learner[R],
    samples: Iterable[Sequence[R]],
    *,
    orders: int = 50,
    seed: int = 0,
    equal: Equal = _same,
) -> LearnerCheck:
    """Check that reordering the records leaves the release unchanged (A25-D16).

    Every order of data sets with at most 6 records, ``orders`` random ones of larger sets.
    ``equal`` compares releases: pass a tolerance for learners whose floating-point sums depend on
    the order.

    Examples:
        >>> bool(is_symmetric(sum, [[1, 2, 3]])), is_symmetric(lambda d: d[0], [[1, 2]]).second
        (True, (2, 1))
    """
    rng = random.Random(seed)
    cases, exhaustive = 0, True
    for sample in samples:
        data = tuple(sample)
        value = learner(data)
        others: Iterable[tuple[R, ...]]
        if len(data) <= _ALL_ORDERS:
            others = permutations(data)
        else:
            exhaustive = False
            others = (tuple(rng.sample(data, len(data))) for _ in range(orders))
        for other in others:
            cases += 1
            if not equal(learner(other), value):
                return LearnerCheck(False, cases, exhaustive, data, other)
    return LearnerCheck(True, cases, exhaustive)


def is_redundancy_invariant(
    learner: Learner[R],
    samples: Iterable[Sequence[R]],
    *,
    repeats: Sequence[int] = (2, 3, 5),
    equal: Equal = _same,
) -> LearnerCheck:
    """Check that repeating the whole data set leaves the release unchanged (A25-D17).

    Examples:
        >>> is_redundancy_invariant(sum, [[1, 2]]).second
        (1, 2, 1, 2)
        >>> bool(is_redundancy_invariant(max, [[1, 2]]))
        True
    """
    times = [whole_number("repeats", r) for r in repeats]
    cases = 0
    for sample in samples:
        data = tuple(sample)
        value = learner(data)
        for r in times:
            cases += 1
            if not equal(learner(data * r), value):
                return LearnerCheck(False, cases, False, data, data * r)
    # Every number of repetitions is in scope, so a finite check is never exhaustive.
    return LearnerCheck(True, cases, False)


def is_function_of_frequencies(
    learner: Learner[Hashable], alphabet: Sequence[Hashable], max_size: int, *, equal: Equal = _same
) -> LearnerCheck:
    """Check that only the empirical distribution matters.

    All data sets of up to ``max_size`` records over ``alphabet`` are tried.

    Theorem: A25-P18.  By the same reduction as its proof (every data set is a reordering of a
    repetition of the shortest one with its frequencies) this agrees, on these data sets, with
    symmetry and redundancy invariance together.

    Examples:
        >>> is_function_of_frequencies(len, "ab", 2).second
        ('a', 'a')
    """
    size = whole_number("max_size", max_size)
    if sum(len(alphabet) ** k for k in range(1, size + 1)) > MAX_HISTOGRAMS:
        raise InputError(
            f"max_size must leave at most {MAX_HISTOGRAMS} data sets, got {max_size!r}."
        )
    seen: dict[tuple[Fraction, ...], tuple[tuple[object, ...], object]] = {}
    cases = 0
    for k in range(1, size + 1):
        for data in product(alphabet, repeat=k):
            cases += 1
            frequencies = tuple(Fraction(data.count(a), k) for a in alphabet)
            value = learner(data)
            if frequencies not in seen:
                seen[frequencies] = (data, value)
            elif not equal(value, seen[frequencies][1]):
                return LearnerCheck(False, cases, True, seen[frequencies][0], data)
    return LearnerCheck(True, cases, True)


# ---- the classifier on the sphere --------------------------------------------------------------

# Gradient flow from a suitable start gives every training record the same margin 1 as soon as the
# records are nearly orthogonal, while a fresh record has it with probability 0.  So MIS is at most
# max(1, 1/γ)·P(some pair is not nearly orthogonal).

#: Relative error granted to scipy's regularised incomplete beta function (seen: below 1e-10).
_SLACK = 1e-8
SPHERE_ASSUMPTIONS = (
    "x is uniform on the sphere of radius √s, and its law given the label has a density.",
    "The classifier has width at least n and is trained by gradient flow to the end, from the "
    "start of the proof, and scaled to margin 1.",
)


def sphere_ceiling(dimension: int, n: int, nu: float = 0.5, lam: float = 1.0) -> Certificate:
    """Bound the security of A25-P19's classifier from above, with the exact law of one pair.

    Guarantee: MIS ≤ ``value``; here a small value is bad news.
    Theorem: A25-P19, first part, and a union bound over the n(n-1)/2 pairs: the squared cosine of
    two uniform directions has the law Beta(½, (s-1)/2).
    Assumes: see ``SPHERE_ASSUMPTIONS``.
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
    Assumes: see ``SPHERE_ASSUMPTIONS``, and n ≤ (s+1)/(3(√s·ln s + 1)), refused otherwise.
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
    return Certificate(
        "security", min(1.0, up(value, 8)), "upper", game, ("A25-P19",), SPHERE_ASSUMPTIONS
    )


# ── The example mechanisms of I24 and L24, and a pairing that I24 needs ───────────────────────────
#
# They are small enough to be listed.
#
# Each mechanism is a callable from a set of records, numbered 0, …, N-1, to a law in fractions, as
# :mod:`memberbound.subset.finite` takes it.  Most are warnings: they separate one promise from
# another and are not meant to be used.

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

    Every ``length`` - 1 of the bits give the last one (L24-App2), so a simulator that does not see
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
