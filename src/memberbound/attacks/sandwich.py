"""A certificate and an audit of the same quantity in the same game, side by side.

The certificate is a ceiling for every attack and the audit a floor reached by one.  If the floor is
above the ceiling, one of the two is wrong, and an error says so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from memberbound.answers import EstimateOf, Lower, Upper, computed
from memberbound.attacks.records import Exposure
from memberbound.errors import InputError, MemberboundError
from memberbound.files import read_document
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import sum_up, up
from memberbound.quantities import AuditBound, Certificate, at_confidence, percent, significant

__all__ = [
    "Ceiling",
    "ContradictionError",
    "Sandwich",
    "compare_exposure",
    "read_ceiling",
    "sandwiched",
]


class ContradictionError(MemberboundError):
    """An audit above a certificate: one of them is a bug, or an assumption does not hold."""


@dataclass(frozen=True)
class Ceiling:
    """A certified advantage in the subset game at k = N/2, average or every record."""

    advantage: float
    confidence: float
    record: str
    population: int | None = None
    #: What was certified: how far above blind guessing anybody is right.
    eta: float | None = None


@dataclass(frozen=True)
class Sandwich:
    """Certified advantage above, audited advantage below; the gap is their ratio."""

    certified_advantage_upper: Upper
    certificate_confidence: Lower
    certificate_protects: str
    audited_advantage_lower: Lower

    @computed
    def sandwich_gap(self) -> EstimateOf | None:
        """Certified over audited, where the audit shows anything at all."""
        floor = self.audited_advantage_lower
        return self.certified_advantage_upper / floor if floor > 0 else None


def read_ceiling(
    certificate: Certificate | str | os.PathLike[str] | Mapping[str, object],
) -> Ceiling:
    """Return the ceiling that a certificate of η in the subset game puts on the advantage.

    Takes a :class:`Certificate`, the file that ``protect-half`` writes, or its content.
    At k = N/2 the advantage is 2η (I24-D1); a certificate for every record also covers the average.
    For odd N see :func:`_ceiling`.
    """
    if isinstance(certificate, Certificate):
        game = certificate.game
        upper = certificate.quantity == "eta" and certificate.direction == "upper"
        if not isinstance(game, SubsetGame) or not upper:
            raise InputError(
                "certificate must bound eta from above in the game “subset”, which this audit "
                f"measures, got {certificate.quantity} in the game “{game.name}”, "
                f"{certificate.direction}."
            )
        return _ceiling(
            certificate.value, certificate.confidence, game.record, game.population, game.size
        )
    written: Any = certificate
    if isinstance(certificate, (str, os.PathLike)):
        written = read_document(certificate, "certificate", "JSON")
    release = written if isinstance(written, Mapping) else {}
    inner = release.get("certificate", release)
    try:
        if inner["game"] != "subset" or inner["quantity"] != "eta":
            raise InputError("certificate must bound eta in the game “subset”.")
        # Without the sizes 2η could be the ceiling of another game than this audit's halves.
        if release.get("population") is None or release.get("size") is None:
            raise InputError(
                "certificate must say population and size, got none. Use the certificate file that "
                "protect-half writes beside a release."
            )
        return _ceiling(
            float(inner["upper"]),
            float(inner["confidence"]),
            "every" if inner["protects"] == "every record" else "average",
            int(release["population"]),
            int(release["size"]),
        )
    except (KeyError, TypeError, ValueError) as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError("certificate must be one that protect-half has written.") from None


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
    return Ceiling(min(1.0, most), confidence, record, population, eta)


def sandwiched(ceiling: Ceiling, floor: AuditBound) -> Sandwich:
    """Put an audited advantage below a certified one; raise when they contradict each other."""
    game = floor.game
    if not isinstance(game, SubsetGame) or floor.quantity != "advantage":
        raise InputError(
            "floor must be an advantage in the game “subset”, which the certificate bounds, "
            f"got {floor.quantity} in the game “{game.name}”."
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
    return Sandwich(
        ceiling.advantage,
        ceiling.confidence,
        f"{ceiling.record} record",
        max(0.0, floor.lower),
    )


def compare_exposure(ceiling: Ceiling, exposure: Exposure) -> None:
    """Raise where the floor about one record is above a ceiling certified for every record."""
    if ceiling.record != "every" or ceiling.eta is None:
        return
    floor, most = float(exposure.lower.max()), sum_up(exposure.blind, ceiling.eta)
    if floor > most:
        raise ContradictionError(
            f"the audit is right about record {int(np.argmax(exposure.lower))} at least "
            f"{percent(floor, 'lower')} of the time{at_confidence(exposure.confidence)}, above the "
            f"certified {percent(most, 'upper')}{at_confidence(ceiling.confidence)}. One of "
            "the two is wrong, or the audited learner is not the certified one: please report it."
        )
