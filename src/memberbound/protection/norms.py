"""The norm of I24-C10 and what its cone measure says about displacements.

‖x‖^M = (1/d)·Σ_i |x_i/σ_i|^M.  The cone measure is the law of Y/‖Y‖ for Y_i independent generalised
normals of exponent M and scale σ_i: the direction law of any density that depends on ‖x‖ only
(proofs/gamma-radius.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from memberbound.errors import InputError, finite_number, whole_number
from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack, up
from memberbound.protection.displacement import as_displacements
from memberbound.protection.randomness import RandomSource

__all__ = ["ScaledNorm"]

#: A displacement that is not 0 never gets a smaller length than this, however it underflows.
_FLOOR = 1e-300


def _log_moment(exponent: float, dimension: int, order: float) -> tuple[float, float]:
    """Return ln E|u|^order for a coordinate u of the cone measure at σ = 1, and its error.

    |u|^M/d is Beta(1/M, (d-1)/M): a Gamma(1/M) variable over the sum of d of them.
    """
    power = order / exponent
    terms = (
        power * math.log(dimension),
        float(special.gammaln(1 / exponent + power)),
        float(special.gammaln(dimension / exponent)),
        -float(special.gammaln(1 / exponent)),
        -float(special.gammaln(dimension / exponent + power)),
    )
    # ln Γ is accurate to a few roundings of itself, and its argument to one: x·ψ(x) ~ ln Γ + x.
    slack = 16 * UNIT * (math.fsum(map(abs, terms)) + 4 * dimension + 4)
    return math.fsum(terms), slack


@dataclass(frozen=True, eq=False)
class ScaledNorm:
    """‖x‖^M = (1/d)·Σ|x_i/σ_i|^M for scales σ_i > 0 and exponent M ≥ 1 (I24-C10).

    Examples:
        >>> norm = ScaledNorm([1.0, 2.0], exponent=2)
        >>> round(float(norm.length([[1.0, 2.0]])[0]), 12)
        1.0
    """

    scales: FloatArray
    exponent: float = 2.0

    def __post_init__(self) -> None:
        scales = np.array(self.scales, dtype=np.float64)
        if scales.ndim != 1 or scales.size == 0:
            raise InputError(f"scales must be a list of numbers, got shape {scales.shape!r}.")
        if not (np.isfinite(scales).all() and (scales > 0).all()):
            raise InputError(
                "scales must be finite and greater than 0. "
                "Leave out coordinates that never change: they need no noise."
            )
        scales.setflags(write=False)
        object.__setattr__(self, "scales", scales)
        exponent = finite_number("exponent", self.exponent)
        if exponent < 1:
            raise InputError(f"exponent must be at least 1, got {self.exponent!r}.")
        object.__setattr__(self, "exponent", exponent)

    @classmethod
    def plain(cls, dimension: int, exponent: float = 2.0) -> ScaledNorm:
        """Return the ℓ_M norm of R^d (up to rounding of d^{1/M}): Euclidean by default."""
        d = whole_number("dimension", dimension)
        return cls(np.full(d, float(d) ** (-1.0 / exponent)), exponent)

    @property
    def dimension(self) -> int:
        """Length of the vectors it measures."""
        return int(self.scales.size)

    def length(self, displacements: ArrayLike) -> FloatArray:
        """Return ‖x‖ of every vector (last axis), from above.

        Numerics: a sum of d powers, each good to a few roundings; the exponent's rounding is
        harmless because the largest ratio is 1.
        """
        values = np.abs(as_displacements(displacements, self.dimension))
        with np.errstate(over="ignore", under="ignore"):
            ratios = np.where(values > 0, np.maximum(values / self.scales, _FLOOR), 0.0)
            top = ratios.max(axis=-1, keepdims=True)
            safe = np.where((top > 0) & np.isfinite(top), top, 1.0)
            powers = np.where(np.isfinite(ratios), ratios / safe, 1.0) ** self.exponent
            mean = powers.sum(axis=-1) / self.dimension
            raised = top[..., 0] * mean ** (1.0 / self.exponent)
            # ln(mean) is at most ln d in size, and 1/M is off by one rounding.
            slack = 2 * sum_slack(self.dimension) + UNIT * (64 + 4 * math.log(self.dimension))
            return np.where(top[..., 0] > 0, raised * (1 + slack), 0.0)

    def plain_length(self, displacements: ArrayLike) -> FloatArray:
        """Return √(Σ(x_i/σ_i)²) of every vector, from above, whatever the exponent."""
        values = np.abs(as_displacements(displacements, self.dimension))
        with np.errstate(over="ignore", under="ignore"):
            ratios = np.where(values > 0, np.maximum(values / self.scales, _FLOOR), 0.0)
            top = ratios.max(axis=-1, keepdims=True)
            safe = np.where((top > 0) & np.isfinite(top), top, 1.0)
            squares = np.where(np.isfinite(ratios), ratios / safe, 1.0) ** 2
            raised = top[..., 0] * np.sqrt(squares.sum(axis=-1))
            return np.where(
                top[..., 0] > 0, raised * (1 + 2 * sum_slack(self.dimension) + 32 * UNIT), 0.0
            )

    def directions(self, source: RandomSource, count: int) -> FloatArray:
        """Return ``count`` draws from the cone measure, one per row: ‖row‖ = 1."""
        y = source.generalised_normal(self.exponent, count * self.dimension)
        y = y.reshape(count, self.dimension)
        top = np.abs(y).max(axis=1, keepdims=True)
        powers = (np.abs(y) / top) ** self.exponent
        mean = np.array([math.fsum(row) for row in powers]) / self.dimension
        return np.asarray(self.scales * (y / top) / (mean ** (1.0 / self.exponent))[:, None])

    @property
    def mean_square(self) -> float:
        """E(u_i/σ_i)² for a coordinate of the cone measure, the same for every i."""
        return math.exp(_log_moment(self.exponent, self.dimension, 2.0)[0])

    @property
    def gradient_upper(self) -> float:
        """√E|u_i/σ_i|^{2M-2}/d from above.

        ‖a/σ‖₂ times this is at least E|∂_a‖X‖| for X with the cone measure's direction
        (proofs/norm-exponential.md, claim 2).
        """
        value, slack = _log_moment(self.exponent, self.dimension, 2 * self.exponent - 2)
        return up(math.exp((value + slack) / 2) / self.dimension, 32)

    @property
    def slope_upper(self) -> float:
        """Return κ with TV(X, X+a) ≤ κ·‖a‖/scale for noise exp(-‖x‖/scale), from above.

        κ = ½ holds for every norm.  Where a displacement must spread over the coordinates to be
        long (M > 1) κ falls with the dimension, like d^{-1/2} for M ≥ 2; at M = 2 it is the exact
        slope Γ(d/2)/(2√π·Γ((d+1)/2)) at 0.
        """
        d = self.dimension
        if self.exponent == 2.0:
            low, high = float(special.gammaln(d / 2)), float(special.gammaln((d + 1) / 2))
            slack = 16 * UNIT * (abs(low) + abs(high) + d)
            value = up(math.exp(low - high + slack) / (2 * math.sqrt(math.pi)), 16)
        else:
            # ‖a/σ‖₂ ≤ d^{max(1/M, 1/2)}·‖a‖: power means for M ≥ 2, ℓ2 ≤ ℓM for M ≤ 2.
            spread = up(float(d) ** max(1 / self.exponent, 0.5), 16)
            value = up(self.gradient_upper * spread / 2)
        return min(value, 0.5)
