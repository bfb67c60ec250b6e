"""What a calibrator gets and what it returns.

A calibrator sees the population and *fresh* subsets of it, never the subset whose release is to be
protected (theory §6, trap 6): it takes a :class:`FreshSubsets`, which draws its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from memberbound.games import SubsetGame
from memberbound.numerics.rounding import FloatArray
from memberbound.protection.exponential_noise import checked_eta
from memberbound.protection.noise import NoiseLaw
from memberbound.quantities import Certificate

__all__ = ["Calibration", "FreshSubsets", "Progress", "Record", "Rows", "Statistic", "checked_eta"]

Rows = NDArray[np.int64]
Record = Literal["average", "every"]
Progress = Callable[[int, int], None] | None


class Statistic(Protocol):
    """What is released about a training set: rows of the population in, a vector out."""

    @property
    def dimension(self) -> int:
        """Number of released coordinates."""
        ...

    def __call__(self, rows: Rows) -> FloatArray:
        """Return the statistic of the records with these row numbers."""
        ...


@dataclass(frozen=True)
class FreshSubsets:
    """Uniform subsets for calibration; a generator of their own keeps them apart from the secret.

    The same seed gives the same subsets, and ``spawned`` an independent stream, so that a scale
    chosen on one stream can be certified on another.
    """

    game: SubsetGame
    seed: int | tuple[int, ...] = 0

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)

    def spawned(self, number: int) -> FreshSubsets:
        """Return an independent stream of subsets."""
        base = self.seed if isinstance(self.seed, tuple) else (self.seed,)
        return FreshSubsets(self.game, (*base, number))

    def subsets(self, count: int) -> list[Rows]:
        """Return independent uniform subsets of the game's size, sorted."""
        draws = self._generator()
        return [
            np.sort(draws.permutation(self.game.population)[: self.game.size]) for _ in range(count)
        ]

    def neighbours(self, count: int) -> list[tuple[Rows, Rows, int, int]]:
        """Return independent (D, D', x, x'): x uniform in D, x' uniform outside takes its place."""
        draws = self._generator()
        found = []
        for _ in range(count):
            order = draws.permutation(self.game.population)
            inside, x, other = order[: self.game.size], order[0], order[self.game.size]
            swapped = np.append(inside[1:], other)
            found.append((np.sort(inside), np.sort(swapped), int(x), int(other)))
        return found


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
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def record(self) -> Record:
        """Whom the certificate protects."""
        game = self.certificate.game
        return game.record if isinstance(game, SubsetGame) else "every"

    @property
    def noise_scale(self) -> float:
        """Root-mean-square length of the noise vector."""
        return self.noise.rms

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready fields."""
        return {
            "method": self.method,
            "record": self.record,
            "eta": self.eta,
            "noise": self.noise.describe(),
            "noise_scale": self.noise_scale,
            "fits": self.fits,
            "certificate": self.certificate.to_dict(),
        } | self.details
