"""The answer of ``protect``: a release and the certificate that its noise is enough."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from memberbound.games import SubsetGame
from memberbound.numerics.rounding import sum_up
from memberbound.protection.calibration import Calibration
from memberbound.protection.releasing import Release
from memberbound.protection.table_model import TableModel
from memberbound.quantities import (
    CERTIFICATE,
    Sides,
    at_confidence,
    common_fields,
    decimals,
    marked,
    percent,
    significant,
)

__all__ = ["Protection"]


@dataclass(frozen=True, eq=False)
class Protection:
    """A protected release: the noisy model or statistic, and the certificate that it is enough."""

    SIDES: ClassVar[Sides] = {
        "certificate": CERTIFICATE,
        "configuration": "given",
        "eta": "given",
        "noise": "given",
        "noise_scale": "given",
        "score_clean": "estimate",
        "score_released": "estimate",
        "values": "given",
    }

    calibration: Calibration
    released: TableModel | Release
    what: str
    score: str | None
    score_clean: float | None
    score_released: float | None
    out: str | None = None
    warnings: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)

    @property
    def eta(self) -> float:
        """The η that was asked for."""
        return self.calibration.eta

    @property
    def noise_scale(self) -> float:
        """Root-mean-square length of the added noise vector."""
        return self.calibration.noise_scale

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract."""
        certificate = self.calibration.certificate
        result = common_fields(
            "protect", certificate.game, certificate.theorems, certificate.assumptions
        )
        return (
            result
            | {
                "what": self.what,
                "eta": self.eta,
                "record": self.calibration.record,
                "method": self.calibration.method,
                "noise_scale": self.noise_scale,
                "noise": _plain_law(self.calibration),
                "score": self.score,
                "score_clean": self.score_clean,
                "score_released": self.score_released,
                "certificate": certificate.to_dict(),
                "fits": self.calibration.fits,
                "out": self.out,
                "warnings": list(self.warnings),
                "roles": dict(self.roles),
            }
            | self.details
        )

    @property
    def sentence(self) -> str:
        """A sentence to pass on with the release: who is held to what, and knowing what."""
        bound = self.calibration.certificate
        whom = "any record's" if self.calibration.record == "every" else "the average record's"
        game, blind, odds = bound.game, 0.5, ""
        knows = "every record but one"
        if isinstance(game, SubsetGame):
            knows = f"all {game.population} records but not which {game.size} of them were drawn"
            blind = max(game.prior, 1 - game.prior)
            if 2 * game.size != game.population:
                outside = game.population - game.size
                odds = f" ({max(game.size, outside)} of {game.population})"
        return (
            f"Nobody who knows {knows}, and sees the released {self.what}, is right about {whom} "
            f"membership more than {percent(min(1.0, sum_up(blind, bound.value)), 'upper')} of the "
            f"time{at_confidence(bound.confidence)}: guessing blindly is right "
            f"{percent(blind, 'upper')} of the time{odds}, and the release adds at most "
            f"{percent(bound.value, 'upper').removesuffix(' %')} points."
        )

    def summary(self) -> str:
        """Return the short readable table of the command line."""
        rows: list[tuple[str, object]] = [
            ("released", self.what),
            ("protects", f"{self.calibration.record} record"),
            ("η certified", marked(self.calibration.certificate.value, "certificate", "eta", 6)),
            ("method", self.calibration.method),
            ("noise, rms length", significant(self.noise_scale, "upper")),
            ("fits for calibration", f"{self.calibration.fits}"),
        ]
        if self.score_clean is not None and self.score_released is not None:
            rows += [
                (f"{self.score} without noise", f"≈ {decimals(self.score_clean, 'estimate', 4)}"),
                (f"{self.score} released", f"≈ {decimals(self.score_released, 'estimate', 4)}"),
            ]
        if isinstance(self.released, Release):
            names = self.released.names or tuple(
                f"value {i}" for i in range(self.released.values.size)
            )
            shown = list(zip(names, self.released.values.tolist(), strict=True))
            rows += [(name, significant(value, "given")) for name, value in shown[:20]]
            if len(shown) > 20:
                rows.append(("…", f"{len(shown) - 20} more"))
        if self.out is not None:
            rows.append(("written", self.out))
        width = max(len(name) for name, _ in rows)
        table = "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
        notes = "".join(f"\nnote: {w}." for w in self.warnings)
        return f"{self.sentence}\n\n{table}{notes}"


def _plain_law(calibration: Calibration) -> dict[str, Any]:
    """The noise law without its matrices: they are in the saved certificate."""
    return {
        name: value
        for name, value in calibration.noise.describe().items()
        if not isinstance(value, (list, tuple, np.ndarray))
    }
