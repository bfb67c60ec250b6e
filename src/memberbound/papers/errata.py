"""What an erratum is: a printed claim, the claim that holds, and a computation between them.

The errata of each line of papers stand in a module of their own (``errata_aubinais``,
``errata_izzo``, ``errata_lowy``), text and counterexample together; ``ledger.ERRATA`` has them all.
Nothing is computed on import: the counterexample is computed when ``demonstrate`` is called, and
the numerical libraries are imported there.

The end of this module has what several of them need: the subset game on a finite output set, in
exact rationals.  It is written from the definitions, because identities of the papers are in
dispute here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

__all__ = [
    "Counterexample",
    "Errata",
    "Erratum",
    "Law",
    "exact_sum",
    "hockey_stick",
    "membership_laws",
    "optimal_accuracy",
]


@dataclass(frozen=True)
class Counterexample:
    """The outcome of one computed check of a printed claim.

    Attributes:
        setting: The instance, in words; it satisfies the printed hypotheses.
        printed_value: What the printed claim gives in this setting, if it is one number.
        true_value: What the computation gives for the same quantity (a valid lower
            confidence bound where the computation is a simulation).
        violated: Whether the computed numbers contradict the printed claim.
        numbers: Everything else the comparison rests on, by name.
    """

    setting: str
    printed_value: float | None
    true_value: float | None
    violated: bool
    numbers: Mapping[str, float | int | str]

    def to_dict(self) -> dict[str, object]:
        """The same content in types that JSON can carry; a non-finite number is ``None``."""
        return {
            "setting": self.setting,
            "printed_value": _json_safe(self.printed_value),
            "true_value": _json_safe(self.true_value),
            "violated": self.violated,
            "numbers": {name: _json_safe(value) for name, value in self.numbers.items()},
        }


def _json_safe(value: float | int | str | None) -> float | int | str | None:
    """A number that JSON cannot carry (NaN, infinity) becomes ``None``."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


Demonstration = Callable[[], Counterexample]


@dataclass(frozen=True)
class Erratum:
    """A claim of one of the papers that does not hold as printed.

    Attributes:
        id: Result id, such as ``"I24-T8"``.
        printed: The printed claim, paraphrased.
        holds: The claim that holds instead.
        demonstrate: Computes a counterexample to the printed claim, anew at every call and
            with the same result at every call.
    """

    id: str
    printed: str
    holds: str
    demonstrate: Demonstration


class Errata(dict[str, Erratum]):
    """The errata of a line of papers by result id."""

    def add(self, *ids: str, printed: str, holds: str) -> Callable[[Demonstration], Demonstration]:
        """Enter the decorated counterexample.

        Several ids are the same statement: restated in an appendix, or in another version.
        """

        def entered(demonstrate: Demonstration) -> Demonstration:
            for id in ids:
                self[id] = Erratum(id, printed, holds, demonstrate)
            return demonstrate

        return entered


# ---- the subset game on a finite output set, in exact rationals --------------------------------

#: Outputs and their probabilities.
Law = Mapping[Hashable, Fraction]
#: From a training set (a tuple of records, in the population's order) to the law of the release.
Mechanism = Callable[[tuple[int, ...]], Law]


def exact_sum(terms: Iterable[Fraction]) -> Fraction:
    """Return the sum as a fraction, 0 for no terms."""
    return sum(terms, Fraction(0))


def membership_laws(
    population: Sequence[int], k: int, mechanism: Mechanism, record: int
) -> tuple[Law, Law]:
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
    return exact_sum(max(zero, mass - e_epsilon * q.get(o, zero)) for o, mass in p.items())


def optimal_accuracy(inside: Law, outside: Law, prior: Fraction = Fraction(1, 2)) -> Fraction:
    """Accuracy of the best attacker (I24-P2) when the record is in with probability ``prior``."""
    zero = Fraction(0)
    return exact_sum(
        max(prior * inside.get(o, zero), (1 - prior) * outside.get(o, zero))
        for o in set(inside) | set(outside)
    )
