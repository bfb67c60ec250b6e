"""What a release says about its noise: the law, the certificate, and the numbers released."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from memberbound.answers import plain
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import FloatArray
from memberbound.quantities import Certificate
from memberbound.release.budget import Budget
from memberbound.release.noise import NoiseLaw

Record = Literal["average", "every"]


@dataclass(frozen=True, eq=False)
class Calibration:
    """A noise law and the certificate that it is enough.

    ``certificate`` bounds η (quantity ``"eta"``) for the record that the game names; ``fits`` says
    how many times the statistic was computed.
    """

    noise: NoiseLaw
    certificate: Certificate
    eta: float
    method: str
    fits: int
    details: dict[str, object] = field(default_factory=dict)

    @property
    def record(self) -> Record:
        """Whom the certificate protects."""
        game = self.certificate.game
        return game.record if isinstance(game, SubsetGame) else "every"

    @property
    def noise_scale(self) -> float:
        """Root-mean-square length of the noise vector."""
        return self.noise.rms

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        fields: dict[str, object] = plain(
            {
                "method": self.method,
                "record": self.record,
                "eta": self.eta,
                "noise": self.noise.describe(),
                "noise_scale": self.noise_scale,
                "fits": self.fits,
                "certificate": self.certificate,
            }
            | self.details
        )
        return fields


@dataclass(frozen=True, eq=False)
class Release:
    """A released vector with its calibration: nothing else about the secret.

    ``budget`` and ``rows`` are those of a release of all rows, in the neighbour game.
    """

    values: FloatArray
    calibration: Calibration
    names: tuple[str, ...] = ()
    secure: bool = True
    budget: Budget | None = None
    rows: int | None = None
