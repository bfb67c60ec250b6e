"""A certificate and an audit of the same quantity in the same game, side by side.

The certificate is a ceiling for every attack and the audit a floor reached by one.  If the floor is
above the ceiling, one of the two is wrong, and that is said loudly.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from memberbound.errors import InputError, MemberboundError
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import up
from memberbound.quantities import (
    AuditBound,
    Certificate,
    Sides,
    at_confidence,
    json_number,
    significant,
)

__all__ = ["Ceiling", "ContradictionError", "Sandwich", "read_ceiling", "sandwiched"]


class ContradictionError(MemberboundError):
    """An audit above a certificate: one of them is a bug, or an assumption does not hold."""


@dataclass(frozen=True)
class Ceiling:
    """A certified advantage in the subset game at k = N/2, average or every record."""

    advantage: float
    confidence: float
    record: str
    population: int | None = None


@dataclass(frozen=True)
class Sandwich:
    """Certified advantage above, audited advantage below; ``gap`` is their ratio."""

    SIDES: ClassVar[Sides] = {
        "audited_advantage_lower": "lower",
        "certificate_confidence": "lower",
        "certified_advantage_upper": "upper",
        "sandwich_gap": "estimate",
    }

    ceiling: Ceiling
    floor: float

    @property
    def gap(self) -> float | None:
        """Certified over audited, where the audit shows anything at all."""
        return self.ceiling.advantage / self.floor if self.floor > 0 else None

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {
            "certified_advantage_upper": self.ceiling.advantage,
            "certificate_confidence": self.ceiling.confidence,
            "certificate_protects": f"{self.ceiling.record} record",
            "audited_advantage_lower": self.floor,
            "sandwich_gap": json_number(self.gap),
        }


def read_ceiling(given: Certificate | str | os.PathLike[str] | dict[str, Any]) -> Ceiling:
    """Return the ceiling that a certificate of η in the subset game puts on the advantage.

    Takes a :class:`Certificate`, the file that ``protect`` writes beside a release, or its content.
    At k = N/2 the advantage is 2η (I24-D1); a certificate for every record also covers the average.
    For odd N see :func:`_ceiling`.
    """
    if isinstance(given, Certificate):
        game = given.game
        upper = given.quantity == "eta" and given.direction == "upper"
        if not isinstance(game, SubsetGame) or not upper:
            raise InputError(
                "certificate must bound eta in the subset game from above, which is what this "
                f"audit plays, got {given.quantity} in the {game.name} game, {given.direction}."
            )
        return _ceiling(given.value, given.confidence, game.record, game.population, game.size)
    if isinstance(given, (str, os.PathLike)):
        path = Path(given)
        if not path.is_file():
            raise InputError(f"certificate {path} does not exist.")
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, UnicodeDecodeError):
            raise InputError(f"certificate {path} must be JSON.") from None
    else:
        said = given
    inner = said.get("certificate", said) if isinstance(said, dict) else {}
    try:
        if inner["game"] != "subset" or inner["quantity"] != "eta":
            raise InputError("certificate must bound eta in the subset game.")
        # Without the sizes 2η could be the ceiling of another game than this audit's halves.
        if said.get("population") is None or said.get("size") is None:
            raise InputError(
                "certificate must say population and size, got none. Use the certificate file that "
                "protect writes beside a release."
            )
        return _ceiling(
            float(inner["upper"]),
            float(inner["confidence"]),
            "every" if inner["protects"] == "every record" else "average",
            int(said["population"]),
            int(said["size"]),
        )
    except (KeyError, TypeError, ValueError) as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError("certificate must be one that protect has written.") from None


def _ceiling(eta: float, confidence: float, record: str, population: int, size: int) -> Ceiling:
    if population - 2 * size not in (0, 1):
        raise InputError(
            f"certificate must be about halves, as this audit is, got {size} of {population}."
        )
    most = up(2 * eta)
    if population % 2:
        # η is measured from the likelier answer "out", so with π = k/N < ½ it bounds
        # π·TPR - (1-π)·FPR.  With FPR ≤ 1 - advantage: advantage ≤ (η + 1 - 2π)/(1 - π), which is
        # (2Nη + 2)/(N + 1) at k = (N-1)/2 and more than 2η.  Linear in η: so also on average.
        most = up(2 * (population * eta + 1) / (population + 1), 8)
    return Ceiling(min(1.0, most), confidence, record, population)


def sandwiched(ceiling: Ceiling, floor: AuditBound) -> Sandwich:
    """Put an audited advantage below a certified one; raise when they contradict each other."""
    game = floor.game
    if not isinstance(game, SubsetGame) or floor.quantity != "advantage":
        raise InputError(
            "floor must be an advantage in the subset game, which is what the certificate bounds, "
            f"got {floor.quantity} in the {game.name} game."
        )
    if ceiling.population not in (None, game.population):
        raise InputError(
            f"certificate must be about the audited population of {game.population} records, got "
            f"{ceiling.population}."
        )
    if floor.lower > ceiling.advantage:
        raise ContradictionError(
            "the audit reached an advantage of at least "
            f"{significant(floor.lower, 'lower', 4)}{at_confidence(floor.confidence)}, above the "
            f"certified {significant(ceiling.advantage, 'upper', 4)}"
            f"{at_confidence(ceiling.confidence)}. One of the two is wrong, or the audited learner "
            "is not the certified one: please report it."
        )
    return Sandwich(ceiling, max(0.0, floor.lower))
