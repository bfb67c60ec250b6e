"""The curve of the Laplace mechanism: two Laplace laws one sensitivity apart, in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memberbound.curve.base import Side, TradeoffCurve
from memberbound.errors import nonnegative
from memberbound.numerics.rounding import UNIT, FloatArray

__all__ = ["LaplaceCurve"]


@dataclass(frozen=True)
class LaplaceCurve(TradeoffCurve):
    """Laplace noise of scale b on a statistic of sensitivity s, with ``reach`` = s/b.

    Its hockey-stick is 1 - e^{-(reach-ε)/2} for ε ≤ reach and 0 beyond: strictly below the
    (reach, 0)-DP curve everywhere inside.
    """

    reach: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "reach", nonnegative("reach", self.reach))

    def _profile(self, epsilon: FloatArray, *, forward: bool) -> FloatArray:
        del forward  # the pair is symmetric
        eps = np.asarray(epsilon, dtype=np.float64)
        gap = np.maximum(self.reach - eps, 0.0)
        return np.asarray(np.minimum(-np.expm1(-gap / 2) * (1 + 8 * UNIT), 1.0), dtype=np.float64)

    def _tpr(self, fpr: FloatArray) -> FloatArray:
        alpha = np.asarray(fpr, dtype=np.float64)
        fall = np.exp(-self.reach)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            steep = np.exp(self.reach + np.log(alpha))
            middle = 1 - fall / (4 * alpha)
            flat = 1 - fall * (1 - alpha)
        value = np.where(alpha < fall / 2, steep, np.where(alpha <= 0.5, middle, flat))
        value = value * (1 + 16 * UNIT * (1 + self.reach))
        return np.asarray(np.clip(np.maximum(value, alpha), 0.0, 1.0), dtype=np.float64)

    def epsilon(self, delta: float, side: Side = "both") -> float:
        """Return the ε of :meth:`TradeoffCurve.epsilon`; at δ = 0 it is ``reach``."""
        if delta == 0.0:
            return self.reach
        return super().epsilon(delta, side)

    def _search_top(self, target: float, side: object) -> float:
        del target, side
        return self.reach

    def reversed(self) -> LaplaceCurve:
        """Return itself: the pair is symmetric."""
        return self

    @property
    def is_symmetric(self) -> bool:
        """Always true."""
        return True

    def knots(self) -> FloatArray:
        """A uniform grid of log-slopes in [-reach, reach]."""
        if self.reach == 0.0:
            return np.zeros(1)
        return np.linspace(-self.reach, self.reach, 2001)
