"""Normal noise, round or shaped: the distance between displaced copies is exact."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from memberbound.errors import InputError, positive, whole_number
from memberbound.numerics.rounding import FloatArray, sum_slack, up
from memberbound.protection.displacement import (
    SIMPLE_ERROR,
    as_displacements,
    as_rows,
    checked_lengths,
    gaussian_distance,
    over_scale,
)
from memberbound.protection.norms import ScaledNorm
from memberbound.protection.randomness import RandomSource

__all__ = ["GaussianNoise", "ShapedGaussianNoise"]

#: No normal draw of a RandomSource is longer: -Φ⁻¹(2^-129) = 13.1.
_LONGEST_NORMAL = 14.0
#: Beyond this condition number the triangular solve says too little about the true displacement.
_WORST_CONDITION = 1e10


@dataclass(frozen=True)
class GaussianNoise:
    """N(0, scale²·I): lengths are Euclidean; TV = 2Φ(‖a‖/(2·scale)) - 1 exactly (X1).

    Examples:
        >>> law = GaussianNoise(scale=2.0, dimension=4)
        >>> law.rms
        4.0
        >>> round(float(law.total_variation([[0.0, 2.0, 0.0, 0.0]])[0]), 6)
        0.382925
    """

    scale: float
    dimension: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("scale", self.scale))
        object.__setattr__(self, "dimension", whole_number("dimension", self.dimension))

    @property
    def rms(self) -> float:
        """scale·√d."""
        return self.scale * math.sqrt(self.dimension)

    @property
    def coordinate_rms(self) -> FloatArray:
        """The scale, d times."""
        return np.full(self.dimension, self.scale)

    @property
    def draw_error(self) -> float:
        """See :class:`NoiseLaw`."""
        return SIMPLE_ERROR

    def draw(self, source: RandomSource, count: int | None = None) -> FloatArray:
        """Return one draw, or ``count`` of them as rows."""
        drawn = self.scale * source.normal(self.dimension * (1 if count is None else count))
        return as_rows(drawn, self.dimension, count)

    def length(self, displacements: ArrayLike) -> FloatArray:
        """Return Euclidean lengths, from above."""
        return ScaledNorm(np.ones(self.dimension)).plain_length(displacements)

    def total_variation(self, displacements: ArrayLike) -> FloatArray:
        """Return TV(X, X + a), from above; exact up to rounding."""
        return self.total_variation_of_length(self.length(displacements))

    def total_variation_of_length(self, lengths: ArrayLike) -> FloatArray:
        """Return TV at Euclidean lengths, from above; concave."""
        return gaussian_distance(over_scale(checked_lengths(lengths), self.scale))

    def describe(self) -> dict[str, Any]:
        """Return the law and its scale."""
        return {
            "law": "gaussian",
            "dimension": self.dimension,
            "scale": self.scale,
            "rms": self.rms,
        }


@dataclass(frozen=True, eq=False)
class ShapedGaussianNoise:
    """N(0, L·Lᵀ) for a lower triangular factor L: lengths are Mahalanobis, ‖L⁻¹a‖₂ (X1).

    The law is defined by the factor as stored; :meth:`from_covariance` computes it.

    Numerics: with (L+E)x = a, |E| ≤ γ_d|L| (Higham, *Accuracy and Stability*, theorem 8.5) the true
    length is at most ‖x‖·(1 + γ_d·‖|L⁻¹||L|‖); a factor whose condition exceeds 1e10 is refused.
    """

    factor: FloatArray
    _condition: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        factor = np.array(self.factor, dtype=np.float64)
        if factor.ndim != 2 or factor.shape[0] != factor.shape[1] or factor.size == 0:
            raise InputError(f"factor must be a square matrix, got shape {factor.shape!r}.")
        if not np.isfinite(factor).all() or np.triu(factor, 1).any():
            raise InputError("factor must be finite and lower triangular. Use from_covariance.")
        if not (np.diag(factor) > 0).all():
            raise InputError("factor must have a positive diagonal. Add a multiple of I.")
        inverse = linalg.solve_triangular(factor, np.eye(len(factor)), lower=True)
        # Twice: the inverse is itself computed, to a relative error far below 1 at this condition.
        condition = 2.0 * float(linalg.norm(np.abs(inverse) @ np.abs(factor)))
        if not condition <= _WORST_CONDITION:
            raise InputError(
                f"factor must have a condition number of at most {_WORST_CONDITION!r}, "
                f"got {condition!r}. Add a multiple of the identity to the covariance."
            )
        factor.setflags(write=False)
        object.__setattr__(self, "factor", factor)
        object.__setattr__(self, "_condition", condition)

    @classmethod
    def from_covariance(cls, covariance: ArrayLike) -> ShapedGaussianNoise:
        """Return the law whose covariance is the given one up to the rounding of its factor."""
        matrix = np.asarray(covariance, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
            raise InputError(
                f"covariance must be a finite square matrix, got shape {matrix.shape!r}."
            )
        if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=0.0):
            raise InputError("covariance must be symmetric, got a matrix that is not.")
        try:
            factor = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            raise InputError(
                "covariance must be positive definite, got a matrix that is not. "
                "Add a multiple of the identity."
            ) from None
        return cls(np.tril(factor))

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return len(self.factor)

    @property
    def rms(self) -> float:
        """√trace of the covariance: the Frobenius norm of the factor."""
        return float(np.linalg.norm(self.factor))

    @property
    def coordinate_rms(self) -> FloatArray:
        """Lengths of the factor's rows."""
        return np.asarray(np.linalg.norm(self.factor, axis=1))

    @property
    def draw_error(self) -> float:
        """As for d independent normals, added up with weights Σ_j|L_ij| ≤ √d·‖L_i‖."""
        terms = SIMPLE_ERROR + 2 * sum_slack(self.dimension)
        return up(math.sqrt(self.dimension) * _LONGEST_NORMAL * terms)

    def draw(self, source: RandomSource, count: int | None = None) -> FloatArray:
        """Return one draw, or ``count`` of them as rows."""
        rows = source.normal(self.dimension * (1 if count is None else count))
        return np.asarray(as_rows(rows, self.dimension, count) @ self.factor.T)

    def length(self, displacements: ArrayLike) -> FloatArray:
        """Return ‖L⁻¹a‖₂ from above."""
        values = as_displacements(displacements, self.dimension)
        flat = values.reshape(-1, self.dimension)
        solved = linalg.solve_triangular(self.factor, flat.T, lower=True).T
        if not np.isfinite(solved).all():
            raise InputError("displacements must not overflow when divided by the noise factor.")
        measured = ScaledNorm(np.ones(self.dimension)).plain_length(solved)
        raised = measured * (1 + 2 * sum_slack(self.dimension) * self._condition)
        moved = np.abs(flat).max(axis=1) > 0
        raised = np.where(moved, np.maximum(raised, 1e-300), 0.0)
        return np.asarray(raised.reshape(values.shape[:-1]))

    def total_variation(self, displacements: ArrayLike) -> FloatArray:
        """Return TV(X, X + a) = 2Φ(‖L⁻¹a‖/2) - 1, from above."""
        return self.total_variation_of_length(self.length(displacements))

    def total_variation_of_length(self, lengths: ArrayLike) -> FloatArray:
        """Return TV at Mahalanobis lengths, from above; concave."""
        return gaussian_distance(checked_lengths(lengths))

    def describe(self) -> dict[str, Any]:
        """Return the law, its rms and the range of its coordinates' scales."""
        sizes = self.coordinate_rms
        return {
            "law": "shaped gaussian",
            "dimension": self.dimension,
            "coordinate_rms_smallest": float(sizes.min()),
            "coordinate_rms_largest": float(sizes.max()),
            "rms": self.rms,
        }
