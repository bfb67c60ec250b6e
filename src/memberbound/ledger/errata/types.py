"""What an erratum is: a printed claim, the claim that holds, and a computation between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["Counterexample", "Erratum"]


def _json_safe(value: float | int | str | None) -> float | int | str | None:
    """A number that JSON cannot carry (NaN, infinity) becomes ``None``."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


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
    demonstrate: Callable[[], Counterexample]
