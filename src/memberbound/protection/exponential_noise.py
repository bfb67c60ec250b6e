"""Norm-exponential noise: I24-T9, C10 and C14 with the right radius, and the better X14."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import InputError, finite_number, positive
from memberbound.numerics.rounding import FloatArray, down, up
from memberbound.protection.displacement import (
    SIMPLE_ERROR,
    as_displacements,
    as_rows,
    capped,
    checked_lengths,
    exponential_distance,
    over_scale,
)
from memberbound.protection.norms import ScaledNorm
from memberbound.protection.randomness import RandomSource

__all__ = [
    "LaplaceNoise",
    "NormExponentialNoise",
    "checked_eta",
    "izzo_constant",
    "norm_exponential_constant",
]

#: A coordinate passes through a generalised normal draw, a norm and a radius.
_NORM_ERROR = 2.0**-43


@dataclass(frozen=True, eq=False)
class NormExponentialNoise:
    """Density proportional to exp(-‖x‖/scale) in R^d, for the norm of I24-C10 (X14).

    Radius Gamma(shape d, scale) and direction from the cone measure (proofs/gamma-radius.md).  The
    radius I24 prints, Laplace, has this density in one dimension only.

    Examples:
        >>> law = NormExponentialNoise(ScaledNorm([1.0]), scale=1.0)  # Laplace in one dimension
        >>> round(float(law.total_variation([[1.0]])[0]), 6)
        0.393469
    """

    norm: ScaledNorm
    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("scale", self.scale))

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.norm.dimension

    @property
    def rms(self) -> float:
        """√(E r²·Σσ_i²·E(u_i/σ_i)²), E r² = d(d+1)·scale²."""
        return float(np.linalg.norm(self.coordinate_rms))

    @property
    def coordinate_rms(self) -> FloatArray:
        """Radius and direction are independent: √(E r²·E u_i²)."""
        d = self.dimension
        radius = self.scale * math.sqrt(d) * math.sqrt(d + 1)
        return np.asarray(self.norm.scales * (radius * math.sqrt(self.norm.mean_square)))

    @property
    def draw_error(self) -> float:
        """See :class:`NoiseLaw`."""
        return _NORM_ERROR

    def draw(self, source: RandomSource, count: int | None = None) -> FloatArray:
        """Return one draw, or ``count`` of them as rows."""
        rows = 1 if count is None else count
        radius = self.scale * source.gamma(self.dimension, rows)
        drawn = radius[:, None] * self.norm.directions(source, rows)
        return np.asarray(drawn[0] if count is None else drawn)

    def length(self, displacements: ArrayLike) -> FloatArray:
        """Return ‖a‖ in the law's own norm, from above."""
        return self.norm.length(displacements)

    def total_variation(self, displacements: ArrayLike) -> FloatArray:
        """Return a bound on TV(X, X + a): the better of X14's two; exact in one dimension."""
        values = as_displacements(displacements, self.dimension)
        by_length = self.total_variation_of_length(self.length(values))
        spread = over_scale(self.norm.plain_length(values), self.scale)
        # X14, claim 2: TV ≤ ½·E|∂_a ln f| ≤ ½·gradient·‖a/σ‖₂/scale.
        by_gradient = capped(spread * up(self.norm.gradient_upper / 2), spread)
        return np.minimum(by_length, by_gradient)

    def total_variation_of_length(self, lengths: ArrayLike) -> FloatArray:
        """Return min(1 - e^{-t/2}, κ·t) at t = length/scale, from above; concave."""
        return exponential_distance(
            over_scale(checked_lengths(lengths), self.scale), self.norm.slope_upper
        )

    def describe(self) -> dict[str, Any]:
        """Return the law, the norm's exponent and scales' range, and the scale."""
        return {
            "law": "norm-exponential",
            "dimension": self.dimension,
            "exponent": self.norm.exponent,
            "scale": self.scale,
            "norm_scale_smallest": float(self.norm.scales.min()),
            "norm_scale_largest": float(self.norm.scales.max()),
            "rms": self.rms,
        }


@dataclass(frozen=True, eq=False)
class LaplaceNoise:
    """Independent Laplace noise of scale b_i on every coordinate; lengths are Σ|a_i|/b_i.

    It is norm-exponential noise at M = 1, drawn coordinate by coordinate; X14 applies, and its
    bound is exact for a displacement of a single coordinate.
    """

    scales: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", ScaledNorm(self.scales, 1.0).scales)

    @property
    def _law(self) -> NormExponentialNoise:
        return NormExponentialNoise(ScaledNorm(self.scales, 1.0), 1.0 / self.dimension)

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self.scales.size)

    @property
    def rms(self) -> float:
        """√(2·Σb_i²)."""
        return float(np.linalg.norm(self.coordinate_rms))

    @property
    def coordinate_rms(self) -> FloatArray:
        """√2·b_i."""
        return np.asarray(math.sqrt(2.0) * self.scales)

    @property
    def draw_error(self) -> float:
        """See :class:`memberbound.protection.noise.NoiseLaw`."""
        return SIMPLE_ERROR

    def draw(self, source: RandomSource, count: int | None = None) -> FloatArray:
        """Return one draw, or ``count`` of them as rows."""
        drawn = source.laplace(self.dimension * (1 if count is None else count))
        return np.asarray(as_rows(drawn, self.dimension, count) * self.scales)

    def length(self, displacements: ArrayLike) -> FloatArray:
        """Return Σ|a_i|/b_i from above."""
        return over_scale(self._law.length(displacements), down(1.0 / self.dimension))

    def total_variation(self, displacements: ArrayLike) -> FloatArray:
        """Return min(1 - exp(-½Σ|a_i|/b_i), ½√(Σ(a_i/b_i)²)) from above."""
        values = as_displacements(displacements, self.dimension)
        spread = ScaledNorm(self.scales, 1.0).plain_length(values)
        by_length = self.total_variation_of_length(self.length(values))
        return np.minimum(by_length, capped(spread / 2, spread))

    def total_variation_of_length(self, lengths: ArrayLike) -> FloatArray:
        """Return 1 - e^{-t/2} from above; concave."""
        return exponential_distance(checked_lengths(lengths), 0.5)

    def describe(self) -> dict[str, Any]:
        """Return the law and the range of its scales."""
        return {
            "law": "laplace",
            "dimension": self.dimension,
            "scale_smallest": float(self.scales.min()),
            "scale_largest": float(self.scales.max()),
            "rms": self.rms,
        }


def checked_eta(eta: float) -> float:
    """Return η in (0, ½), or refuse it."""
    value = finite_number("eta", eta)
    if not 0 < value < 0.5:
        raise InputError(
            f"eta must be in (0, 0.5), got {eta!r}: 0.05 means “right at most 55 % of the time”, "
            "and at 0.5 no noise is needed."
        )
    return value


def izzo_constant(eta: float, moment: float = 2.0) -> float:
    """Return I24's c: noise exp(-‖x‖/(c·σ)) is η-MIP if E‖θ-Eθ‖^M ≤ σ^M, rounded up.

    Theorem: I24-C14, c = (6.16/η)^(1+2/M) for M ≥ 2; I24-T9, c = (7.5/η)^(1+2/M) for 1 ≤ M < 2.
    Assumes: k = N/2; the moment is over uniform halves of the population and the learner.
    Both hold because X14 needs far less (proofs/norm-exponential.md, claim 4).

    Examples:
        >>> round(izzo_constant(0.1, moment=2))
        3795
    """
    eta, order = checked_eta(eta), finite_number("moment", moment)
    if order < 1:
        raise InputError(f"moment must be at least 1, got {moment!r}.")
    base = (6.16 if order >= 2 else 7.5) / eta
    try:
        power = base ** (1 + 2 / order)
    except OverflowError:
        return math.inf
    # The exponent is off by two roundings, which the power feels ln(base) times.
    return up(power, 16 + 8 * math.ceil(math.log(base)))


def norm_exponential_constant(eta: float, norm: ScaledNorm | None = None) -> float:
    """Return X14's c: noise exp(-‖x‖/(c·σ)) is η-MIP if E‖θ-Eθ‖ ≤ σ, rounded up.

    Theorem: X14.  For any norm and dimension c = 1/ln(1/(1-2η)); given the norm, κ/η with its slope
    κ (at most ½, like 0.4/√d for the Euclidean one) where that is smaller.
    Assumes: k = N/2; the mean is over uniform halves of the population and the learner.
    Numerics: rounded up, so that the law's own distance at length 2σ is at most 2η when evaluated.

    Examples:
        >>> round(norm_exponential_constant(0.1), 3)
        4.481
        >>> round(norm_exponential_constant(0.1, ScaledNorm.plain(100)), 3)
        0.4
    """
    eta = checked_eta(eta)
    # The slack leaves room for what the law's own distance is rounded up by.
    constant = up(1.0 / -math.log1p(-down(2 * eta, 64)), 64)
    if norm is not None:
        constant = min(constant, up(norm.slope_upper / eta, 64))
    return constant
