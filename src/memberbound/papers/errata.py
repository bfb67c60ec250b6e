"""What an erratum is: a printed claim, the claim that holds, and a computation between them.

The texts stand in the TOML file of each paper; the computations, named there, in
``errata_aubinais``, ``errata_izzo`` and ``errata_lowy``.  A computation runs when it is asked for.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module

from memberbound.quantities import json_number

__all__ = ["Counterexample", "Erratum", "ExactLaw"]

Number = float | int | Fraction
#: Outputs of a release and their probabilities.
ExactLaw = dict[Hashable, Fraction]


@dataclass(frozen=True)
class Counterexample:
    """The outcome of one computed check of a printed claim.

    Attributes:
        setting: The instance, in words; it satisfies the printed hypotheses.
        printed_value: What the printed claim gives in this setting.
        true_value: What the computation gives for the same quantity (a valid lower
            confidence bound where the computation is a simulation).
        violated: Whether the computed numbers contradict the printed claim.
        numbers: What else the comparison rests on, by name.
    """

    setting: str
    printed_value: Number
    true_value: Number
    violated: bool
    numbers: Mapping[str, Number]

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields; a number that is not finite is ``None``."""
        return {
            "setting": self.setting,
            "printed_value": _json(self.printed_value),
            "true_value": _json(self.true_value),
            "violated": self.violated,
            "numbers": {name: _json(value) for name, value in self.numbers.items()},
        }


def _json(value: Number) -> float | int | None:
    return value if isinstance(value, int) else json_number(float(value))


@dataclass(frozen=True)
class Erratum:
    """A claim of one of the papers that does not hold as printed.

    Attributes:
        printed: The printed claim, paraphrased.
        holds: The claim that holds instead.
        counterexample: Module of this package and name of the function that computes it.
    """

    printed: str
    holds: str
    counterexample: str

    def demonstrate(self) -> Counterexample:
        """Compute a counterexample to the printed claim; every call gives the same result."""
        module, name = self.counterexample.split(".")
        result = getattr(import_module(f"{__package__}.{module}"), name)()
        assert isinstance(result, Counterexample)
        return result
