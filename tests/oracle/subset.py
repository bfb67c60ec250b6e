"""The subset game: D is a uniform k-subset of a known population {0, ..., N-1}.

A mechanism is a callable (or a mapping) from a frozenset of records to a law of outcomes.  All
quantities come from enumerating the subsets; the target record is one of the N records.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import combinations

from oracle import finite
from oracle.finite import ONE, ZERO, Law

Subset = frozenset[int]
Kernel = Mapping[Subset, Law]
Mechanism = Kernel | Callable[[Subset], Law]


def subsets(size: int, k: int) -> Iterator[Subset]:
    for chosen in combinations(range(size), k):
        yield frozenset(chosen)


def tabulate(mechanism: Mechanism, size: int, k: int) -> dict[Subset, Law]:
    """The mechanism as a table over all k-subsets."""
    look = mechanism.__getitem__ if isinstance(mechanism, Mapping) else mechanism
    return {d: look(d) for d in subsets(size, k)}


def world_laws(
    mechanism: Mechanism, size: int, k: int, x: int
) -> tuple[dict[Hashable, Fraction], dict[Hashable, Fraction]]:
    """(P_in,x, P_out,x): law of the outcome given that x is in D, and given that it is not."""
    worlds: dict[bool, dict[Hashable, Fraction]] = {True: {}, False: {}}
    counts = {True: 0, False: 0}
    for d, law in tabulate(mechanism, size, k).items():
        side = x in d
        counts[side] += 1
        for a, chance in law.items():
            worlds[side][a] = worlds[side].get(a, ZERO) + chance
    return (
        {a: m / counts[True] for a, m in worlds[True].items()},
        {a: m / counts[False] for a, m in worlds[False].items()},
    )


def prior(size: int, k: int) -> Fraction:
    return Fraction(k, size)


def best_accuracy(mechanism: Mechanism, size: int, k: int, x: int) -> Fraction:
    """Best attack on record x."""
    return finite.best_accuracy(*world_laws(mechanism, size, k, x), prior(size, k))


def best_accuracy_by_rules(mechanism: Mechanism, size: int, k: int, x: int) -> Fraction:
    """The same from Def. I24-D1: play every decision rule against every subset."""
    table = tabulate(mechanism, size, k)
    points = sorted({a for law in table.values() for a in law}, key=repr)
    best = ZERO
    for says_in in finite.events(points):
        right = ZERO
        for d, law in table.items():
            hit = finite.mass(law, says_in)
            right += hit if x in d else 1 - hit
        best = max(best, right / len(table))
    return best


def eta_of_record(mechanism: Mechanism, size: int, k: int, x: int) -> Fraction:
    """Gain of the best attack on x over always guessing the likelier answer."""
    base = max(prior(size, k), 1 - prior(size, k))
    return best_accuracy(mechanism, size, k, x) - base


def eta(mechanism: Mechanism, size: int, k: int) -> Fraction:
    """The MIP parameter: the worst record's gain (I24-D1)."""
    return max(eta_of_record(mechanism, size, k, x) for x in range(size))


def pmp_delta(mechanism: Mechanism, size: int, k: int, gamma: Fraction) -> Fraction:
    """Least delta for which the mechanism is (ln gamma, delta)-PMP (L24-D2, both sides)."""
    return max(finite.delta(*world_laws(mechanism, size, k, x), gamma) for x in range(size))


def pmp_ratio(mechanism: Mechanism, size: int, k: int) -> Fraction | None:
    """e^epsilon of the least pure PMP epsilon; None when infinite."""
    return _largest(finite.max_ratio(*world_laws(mechanism, size, k, x)) for x in range(size))


def _largest(ratios: Iterable[Fraction | None]) -> Fraction | None:
    every = list(ratios)
    return None if None in every else max(every, default=ONE)


def swaps(size: int, k: int, x: int) -> Iterator[tuple[Subset, Subset, int]]:
    """All (D, D', y): D holds x, and y takes its place in D'."""
    for d in subsets(size, k):
        if x in d:
            for y in range(size):
                if y not in d:
                    yield d, (d - {x}) | {y}, y


def neighbours(size: int, k: int) -> Iterator[tuple[Subset, Subset]]:
    """Ordered pairs of k-subsets that differ by replacing one record."""
    for x in range(size):
        for d, e, _ in swaps(size, k, x):
            yield d, e


def dp_delta(mechanism: Mechanism, size: int, k: int, gamma: Fraction) -> Fraction:
    """Least delta of replace-one (ln gamma, delta)-DP among the subsets of this population."""
    table = tabulate(mechanism, size, k)
    return max(finite.hockey_stick(table[d], table[e], gamma) for d, e in neighbours(size, k))


def dp_ratio(mechanism: Mechanism, size: int, k: int) -> Fraction | None:
    """e^epsilon of the least pure DP epsilon among the subsets; None when infinite."""
    table = tabulate(mechanism, size, k)
    return _largest(finite.max_ratio(table[d], table[e]) for d, e in neighbours(size, k))


def post_process(
    mechanism: Mechanism, size: int, k: int, kernel: Mapping[Hashable, Law]
) -> dict[Subset, Law]:
    """The mechanism followed by a channel that does not see the data."""
    table = tabulate(mechanism, size, k)
    return {d: finite.push(law, kernel) for d, law in table.items()}
