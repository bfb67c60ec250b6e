"""The curve of N(μ, 1) against N(0, 1): Gaussian differential privacy, in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from memberbound.curve.base import TradeoffCurve, analytic_knots
from memberbound.errors import nonnegative
from memberbound.numerics.normal import gaussian_hockey_stick_upper, gaussian_tpr_upper
from memberbound.numerics.rounding import FloatArray

__all__ = ["GaussianCurve"]

#: Support lines beyond this ε would only describe attackers who are always right.
_FARTHEST = 1e9


@dataclass(frozen=True)
class GaussianCurve(TradeoffCurve):
    """TPR(α) = Φ(Φ⁻¹(α) + μ), exact up to rounding.

    Examples:
        >>> round(GaussianCurve(1.0).tpr(0.05), 6)
        0.259511
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", nonnegative("mu", self.mu))

    def _profile(self, epsilon: FloatArray, *, forward: bool) -> FloatArray:
        del forward  # the pair is symmetric
        return gaussian_hockey_stick_upper(self.mu, epsilon)

    def _tpr(self, fpr: FloatArray) -> FloatArray:
        return gaussian_tpr_upper(self.mu, fpr)

    def _search_top(self, target: float, side: object) -> float:
        del side
        if target == 0.0:
            return math.inf
        # δ(ε) ≤ Φ(μ/2 - ε/μ), and Φ(-39) is below every positive double.
        top = self.mu * (self.mu / 2 + 40.0)
        return top if math.isfinite(top) and self.delta(top) <= target else math.inf

    def reversed(self) -> GaussianCurve:
        """Return itself: the pair is symmetric."""
        return self

    @property
    def is_symmetric(self) -> bool:
        """Always true."""
        return True

    def knots(self) -> FloatArray:
        """ε grid of support lines, as far as the profile stays above 1e-300 or so."""
        if self.mu == 0.0:
            return np.zeros(1)
        ahead = analytic_knots(min(self.mu * (self.mu / 2 + 37.0), _FARTHEST))
        return np.concatenate([-ahead[:0:-1], ahead])
