"""The subset game on a finite output set, in exact rationals.

A mechanism is a function from a training set (a tuple of records, in the population's order)
to a dictionary from outputs to probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations

__all__ = ["Law", "Mechanism", "hockey_stick", "membership_laws", "optimal_accuracy"]

Law = Mapping[Hashable, Fraction]
Mechanism = Callable[[tuple[int, ...]], Law]


def membership_laws(
    population: Sequence[int], k: int, mechanism: Mechanism, record: int
) -> tuple[dict[Hashable, Fraction], dict[Hashable, Fraction]]:
    """Laws of the release given that the record is in, and that it is out.

    The training set is a uniform k-subset. Both laws are conditional probabilities, computed
    as joint probability over probability of the condition, so that no identity in dispute
    (L24-L3) is used.
    """
    subsets = list(combinations(population, k))
    weight = Fraction(1, len(subsets))
    joint: dict[bool, dict[Hashable, Fraction]] = {True: {}, False: {}}
    for subset in subsets:
        side = joint[record in subset]
        for output, probability in mechanism(subset).items():
            side[output] = side.get(output, Fraction(0)) + weight * probability
    inside, outside = (
        {output: mass / sum(side.values()) for output, mass in side.items()}
        for side in (joint[True], joint[False])
    )
    return inside, outside


def hockey_stick(p: Law, q: Law, e_epsilon: Fraction) -> Fraction:
    """H(P‖Q) at e^ε: the largest P(S) − e^ε Q(S), which is the least δ for this direction."""
    zero = Fraction(0)
    return sum((max(zero, mass - e_epsilon * q.get(o, zero)) for o, mass in p.items()), zero)


def optimal_accuracy(inside: Law, outside: Law) -> Fraction:
    """Accuracy of the best attacker at prior one half (I24-P2)."""
    zero = Fraction(0)
    outputs = set(inside) | set(outside)
    return sum((max(inside.get(o, zero), outside.get(o, zero)) for o in outputs), zero) / 2
