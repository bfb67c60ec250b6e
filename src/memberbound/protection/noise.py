"""Noise laws: how to draw them, and how well two displaced copies can be told apart.

Every law answers the one question the calibrators ask: for a displacement a, how large can
TV(X, X + a) be?  By the coupling of X1 the answer, averaged over neighbouring training sets, bounds
the attacker's advantage.  All answers err upwards and are concave in the displacement's length, so
they may be evaluated at a mean length (Jensen).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import whole_number
from memberbound.numerics.rounding import FloatArray
from memberbound.protection.displacement import as_displacements, checked_lengths
from memberbound.protection.exponential_noise import (
    LaplaceNoise,
    NormExponentialNoise,
    izzo_constant,
    norm_exponential_constant,
)
from memberbound.protection.gaussian_noise import GaussianNoise, ShapedGaussianNoise
from memberbound.protection.randomness import RandomSource

__all__ = [
    "GaussianNoise",
    "LaplaceNoise",
    "NoNoise",
    "NoiseLaw",
    "NormExponentialNoise",
    "ShapedGaussianNoise",
    "izzo_constant",
    "norm_exponential_constant",
]


@runtime_checkable
class NoiseLaw(Protocol):
    """What calibrators and releases need to know about a noise law."""

    @property
    def dimension(self) -> int:
        """Number of coordinates."""

    @property
    def rms(self) -> float:
        """√E‖X‖₂²: the ``noise_scale`` of the contract."""

    @property
    def coordinate_rms(self) -> FloatArray:
        """√E X_i² for every coordinate."""

    @property
    def draw_error(self) -> float:
        """Bound on |drawn - ideal| of a coordinate, over its size plus its rms."""

    def draw(self, source: RandomSource, count: int | None = None) -> FloatArray:
        """Return one draw, or ``count`` of them as rows."""

    def length(self, displacements: ArrayLike) -> FloatArray:
        """Return how long every displacement is to this law, from above (last axis: vectors)."""

    def total_variation(self, displacements: ArrayLike) -> FloatArray:
        """Return TV(X, X + a) from above for every displacement a (last axis: vectors)."""

    def total_variation_of_length(self, lengths: ArrayLike) -> FloatArray:
        """Return the largest TV(X, X + a) over displacements of a length, from above; concave."""

    def describe(self) -> dict[str, Any]:
        """Return the law and its parameters, ready for JSON."""


@dataclass(frozen=True)
class NoNoise:
    """The law of a constant statistic: nothing moves, so nothing needs to be hidden.

    Any displacement at all is told apart for certain.
    """

    dimension: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", whole_number("dimension", self.dimension))

    @property
    def rms(self) -> float:
        """Zero."""
        return 0.0

    @property
    def coordinate_rms(self) -> FloatArray:
        """Zeros."""
        return np.zeros(self.dimension)

    @property
    def draw_error(self) -> float:
        """Zero."""
        return 0.0

    def draw(self, source: RandomSource, count: int | None = None) -> FloatArray:
        """Return zeros."""
        del source
        return np.zeros(self.dimension if count is None else (count, self.dimension))

    def length(self, displacements: ArrayLike) -> FloatArray:
        """Return the largest coordinate of every displacement."""
        return np.asarray(np.abs(as_displacements(displacements, self.dimension)).max(axis=-1))

    def total_variation(self, displacements: ArrayLike) -> FloatArray:
        """Return 1 for every displacement that is not 0."""
        return self.total_variation_of_length(self.length(displacements))

    def total_variation_of_length(self, lengths: ArrayLike) -> FloatArray:
        """Return 1 for every length that is not 0."""
        return np.where(checked_lengths(lengths) > 0, 1.0, 0.0)

    def describe(self) -> dict[str, Any]:
        """Name the law."""
        return {"law": "none", "dimension": self.dimension, "rms": 0.0}
