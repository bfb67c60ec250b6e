"""Certified, measured and estimated numbers, as three types that must never be confused.

* :class:`Certificate`: proved, with its theorems and assumptions, at a stated confidence;
* :class:`AuditBound`: measured by attacks, with a confidence interval;
* :class:`Estimate`: neither.

No function converts one into another, and the three classes share no base (theory §6, trap 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from memberbound._version import __version__
from memberbound.errors import InputError, fraction
from memberbound.games import ATTACKERS, Game
from memberbound.quantities import SIGNS, Sides, confident, emptiness, significant

Direction = Literal["upper", "lower"]
#: Sides of a certificate's dictionary.
CERTIFICATE: Sides = {"lower": "lower", "upper": "upper", "confidence": "lower"}


def json_number(value: float | None) -> float | None:
    """Return a JSON number: NaN and infinities become ``None``."""
    if value is None or not math.isfinite(value):
        return None
    return value


def common_fields(
    command: str, game: Game, theorems: tuple[str, ...], assumptions: tuple[str, ...]
) -> dict[str, object]:
    """Return the keys that every result of the contract carries."""
    return {
        "command": command,
        "version": __version__,
        "game": game.name,
        "protects": game.protects,
        "theorems": list(theorems),
        "assumptions": list(assumptions),
    }


@dataclass(frozen=True)
class Certificate:
    """A proved bound: ``quantity`` is at most (or at least) ``value``, for every attack.

    ``confidence`` is 1 for a theorem without sampling, else the probability over the data with
    which the bound holds.
    """

    SIDES: ClassVar[Sides] = CERTIFICATE

    quantity: str
    value: float
    direction: Direction
    game: Game
    theorems: tuple[str, ...]
    assumptions: tuple[str, ...] = ()
    confidence: float = 1.0

    def __post_init__(self) -> None:
        fraction("confidence", self.confidence, open_left=True)
        if math.isnan(self.value):
            raise InputError(f"a certificate for {self.quantity} must be a number, got nan.")
        if not self.theorems:
            raise InputError(f"a certificate for {self.quantity} must name its theorem.")

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields; the key gives the direction of the bound."""
        return {
            "kind": "certificate",
            "quantity": self.quantity,
            self.direction: json_number(self.value),
            "confidence": self.confidence,
            "game": self.game.name,
            "protects": self.game.protects,
            "theorems": list(self.theorems),
            "assumptions": list(self.assumptions),
        }

    def summary(self) -> str:
        """Return one readable line."""
        largest = getattr(self.game, "largest_gain", 0.5)
        if (empty := emptiness(self.value, self.quantity, largest)) is not None:
            claim = f"{empty} for {self.quantity}"
        else:
            shown = significant(self.value, self.direction)
            claim = f"certified: {self.quantity} {SIGNS[self.direction]}{shown}"
        at = "" if self.confidence == 1.0 else f" with confidence {confident(self.confidence)}"
        against = ATTACKERS[self.game.name]
        return f"{claim}{at} ({self.game.protects}, against {against}; {', '.join(self.theorems)})"


@dataclass(frozen=True)
class AuditBound:
    """The measured performance of an attack: an estimate with a confidence interval, in a game."""

    quantity: str
    estimate: float
    lower: float
    upper: float
    confidence: float
    game: Game
    attack: str

    def __post_init__(self) -> None:
        fraction("confidence", self.confidence, open_left=True, open_right=True)
        if not self.lower <= self.estimate <= self.upper:
            raise InputError(
                f"an audit of {self.quantity} must have lower ≤ estimate ≤ upper, got "
                f"{self.lower!r}, {self.estimate!r}, {self.upper!r}."
            )

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {
            "kind": "audit",
            "quantity": self.quantity,
            "estimate": json_number(self.estimate),
            "lower": json_number(self.lower),
            "upper": json_number(self.upper),
            "confidence": self.confidence,
            "game": self.game.name,
            "protects": self.game.protects,
            "attack": self.attack,
        }

    def summary(self) -> str:
        """Return one readable line."""
        return (
            f"measured: {self.attack} reached {self.quantity} "
            f"{significant(self.estimate, 'estimate', 4)} "
            f"[{significant(self.lower, 'lower', 4)}, {significant(self.upper, 'upper', 4)}] at "
            f"confidence {confident(self.confidence)} "
            f"({self.game.name} game)"
        )


@dataclass(frozen=True)
class Estimate:
    """A number that is neither proved nor bounded, with its method."""

    quantity: str
    value: float
    method: str
    warnings: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {
            "kind": "estimate",
            "quantity": self.quantity,
            "estimate": json_number(self.value),
            "method": self.method,
            "warnings": list(self.warnings),
        }

    def summary(self) -> str:
        """Return one readable line."""
        notes = "".join(f" ({w})" for w in self.warnings)
        shown = significant(self.value, "estimate", 4)
        return f"estimated: {self.quantity} ≈ {shown} by {self.method}{notes}"
