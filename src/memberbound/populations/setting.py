"""What an answer asks of a mechanism on a population.

A setting holds what does not depend on the amount of noise (the neighbour profile, the losses) and
answers for any of it: the worst case over all data sets, the worst case over neighbours inside the
population, and the attacker who does not know who was drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from memberbound.games import SubsetGame

__all__ = ["Comparison", "Progress", "Quantity", "Setting"]

Progress = Callable[[int, int], None] | None
#: What an inverse question limits: ε̃, or the success of any attack.
Quantity = Literal["pmp", "success"]


@dataclass(frozen=True)
class Comparison:
    """Success bounds of three attackers at one ε: they know ever less."""

    epsilon: float
    worst_case: float
    population: float
    practical: float


class Setting(Protocol):
    """A mechanism on a population, at any ε."""

    @property
    def game(self) -> SubsetGame:
        """Who is drawn."""
        ...

    def comparison(self, epsilon: float) -> Comparison:
        """Return the three success bounds at the worst-case DP parameter ``epsilon``."""
        ...
