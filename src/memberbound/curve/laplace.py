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
        gap = np.maximum(self.reach - np.asarray(epsilon, dtype=np.float64), 0.0)
        with np.errstate(under="ignore"):
            value = np.nextafter(-np.expm1(-gap / 2) * (1 + 8 * UNIT), np.inf)
        return np.where(gap > 0, np.minimum(value, 1.0), 0.0)

    def _tpr(self, fpr: FloatArray) -> FloatArray:
        alpha = np.asarray(fpr, dtype=np.float64)
        if self.reach == 0.0:
            return alpha
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            # In two halves where e^reach overflows: α may be as small as it is large.
            half = np.exp(self.reach / 2)
            steep = alpha * np.exp(self.reach) if self.reach < 700 else alpha * half * half
            middle = 1 - 1 / (4 * steep)
            flat = 1 - np.exp(-self.reach) * (1 - alpha)
            value = np.where(steep < 0.5, steep, np.where(alpha <= 0.5, middle, flat))
            # steep has an error of about 10 roundings, which middle feels half.
            value = np.nextafter(value * (1 + 32 * UNIT), np.inf)
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
        ahead = np.linspace(0.0, self.reach, 1001)
        return np.concatenate([-ahead[:0:-1], ahead])
