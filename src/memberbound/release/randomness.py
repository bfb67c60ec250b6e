"""Sources of random bits, and noise drawn from them.

A source supplies 64-bit words; the rest is shared.  Draws invert a distribution function at a
*dense* uniform, taken from the nearer tail, which has all 53 significant bits of a double however
small it is.  So every draw equals its ideal counterpart (the same words followed by infinitely many
more, in exact arithmetic) up to a small *relative* error, as ``proofs/snapping.md`` requires.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import special

from memberbound.errors import whole_number
from memberbound.numerics.rounding import FloatArray

Words = NDArray[np.uint64]
#: Below this, an integer has fewer than 53 significant bits, so more bits are drawn.
_DENSE = np.uint64(2**53)


class RandomSource(ABC):
    """Draws from the distributions that noise is built from, given uniform 64-bit words."""

    #: Whether the words are unpredictable; required for every real release.
    secure: bool

    @abstractmethod
    def words(self, count: int) -> Words:
        """Return ``count`` independent uniform 64-bit words."""

    def _dense(self, leading: Words) -> FloatArray:
        """Return (leading + U)·2^-63 with U uniform in (0, 1), rounded to a double."""
        value = leading.astype(np.float64) + 0.5
        short = leading < _DENSE
        missing = int(short.sum())
        if missing:
            tail = (self.words(missing).astype(np.float64) + 0.5) * 2.0**-64
            value[short] = leading[short].astype(np.float64) + tail
        return value * 2.0**-63

    def _tails(self, count: int) -> tuple[FloatArray, NDArray[np.bool_], FloatArray]:
        """Return independent u in (0, ½], whether u is an upper-tail probability, and signs."""
        words = self.words(count)
        sign = 1.0 - 2.0 * (words & np.uint64(1)).astype(np.float64)
        above = (words & np.uint64(2)) != 0
        return self._dense(words >> np.uint64(2)), above, sign

    def normal(self, count: int) -> FloatArray:
        """Return standard normal draws."""
        u, above, sign = self._tails(count)
        size = np.empty(count)
        # P(|Z| ≤ z) = erf(z/√2) from below, P(|Z| > z) = 2Φ(-z) from above.
        size[~above] = math.sqrt(2.0) * special.erfinv(u[~above])
        size[above] = -special.ndtri(u[above] / 2)
        return sign * size

    def exponential(self, count: int) -> FloatArray:
        """Return draws with density e^{-x}."""
        u, above, _ = self._tails(count)
        return np.where(above, -np.log(u), -np.log1p(-u))

    def gamma(self, shape: int, count: int) -> FloatArray:
        """Return Gamma(``shape``, 1) draws: exact sums of ``shape`` exponentials."""
        parts = self.exponential(shape * count).reshape(count, shape)
        return np.array([math.fsum(row) for row in parts])


@dataclass(frozen=True)
class SecureSource(RandomSource):
    """Words from the operating system's cryptographic generator, without state or seed."""

    secure = True

    def words(self, count: int) -> Words:
        """Return ``count`` words of ``os.urandom``."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


#: The default source of noise.
SECURE = SecureSource()


@dataclass(frozen=True, eq=False)
class InsecureSource(RandomSource):
    """Words from a seeded generator: for tests and simulations, never for a release.

    Anyone who knows or guesses the seed can subtract the noise.
    """

    seed: int
    _generator: np.random.PCG64 = field(init=False, repr=False)

    secure = False

    def __post_init__(self) -> None:
        # Reject None, because numpy would then draw a seed itself; the choice must be explicit.
        seed = whole_number("seed", self.seed, at_least=0, remedy="For a release: SecureSource().")
        object.__setattr__(self, "seed", seed)
        object.__setattr__(self, "_generator", np.random.PCG64(self.seed))

    def words(self, count: int) -> Words:
        """Return the next ``count`` words of PCG64."""
        return np.asarray(self._generator.random_raw(count), dtype=np.uint64)


def source_from_seed(insecure_seed: int | None) -> RandomSource:
    """Return the operating system's source, or an insecure seeded one."""
    return SECURE if insecure_seed is None else InsecureSource(insecure_seed)
