"""A curve whose two worlds are each known only up to a small total variation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from memberbound.curve.base import TradeoffCurve
from memberbound.errors import fraction
from memberbound.numerics.rounding import SMALLEST, UNIT, FloatArray, sum_up

__all__ = ["SlackCurve"]


@dataclass(frozen=True)
class SlackCurve(TradeoffCurve):
    """The curve of laws that lie within ``slack`` (total variation) of a pair with curve ``base``.

    Guarantee: TPR(α) ≤ base(α + slack) + slack and H_ε ≤ base's + (1 + e^ε)·slack, because every
    event's probability is off by at most ``slack`` in either world (proofs/gradient-descent.md,
    claim 4).  The two worlds may be off by different amounts up to it.
    Numerics: rounded up.

    Examples:
        >>> from memberbound.curve import GaussianCurve
        >>> exact = GaussianCurve(0.25)
        >>> round(SlackCurve(exact, 1e-3).eta - exact.eta, 9)
        0.001
    """

    base: TradeoffCurve
    slack: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "slack", fraction("slack", self.slack))

    def _raised(self, epsilon: FloatArray, *, forward: bool) -> FloatArray:
        exact = self.base._profile(epsilon, forward=forward)
        with np.errstate(over="ignore"):
            added = (1.0 + np.exp(np.minimum(epsilon, 700.0))) * self.slack
        raised = np.nextafter((exact + added) * (1 + 8 * UNIT) + SMALLEST, np.inf)
        return np.asarray(np.minimum(raised, 1.0), dtype=np.float64)

    @cached_property
    def _lowest(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """(ε, δ) at which the raised profile is lowest, backward and forward, on a grid."""
        knots, found = self.base.knots(), []
        for forward in (False, True):
            grid = np.append(0.0, knots[knots > 0] if forward else -knots[knots < 0])
            values = self._raised(grid, forward=forward)
            best = int(np.argmin(values))
            found.append((float(grid[best]), float(values[best])))
        return found[0], found[1]

    def _profile(self, epsilon: FloatArray, *, forward: bool) -> FloatArray:
        if self.slack == 0.0:
            return self.base._profile(epsilon, forward=forward)
        # A profile never rises: beyond the ε where the bound is lowest, that value still holds.
        place, value = self._lowest[int(forward)]
        raised = self._raised(epsilon, forward=forward)
        return np.where(epsilon >= place, np.minimum(raised, value), raised)

    def _tpr(self, fpr: FloatArray) -> FloatArray:
        if self.slack == 0.0:
            return self.base._tpr(fpr)
        moved = np.nextafter(fpr + self.slack, np.inf)
        inner = self.base._tpr(np.minimum(moved, 1.0 - UNIT))
        raised = np.nextafter((inner + self.slack) * (1 + 2 * UNIT), np.inf)
        return np.where(moved >= 1.0, 1.0, np.minimum(raised, 1.0))

    def certain_mass(self) -> float:
        """Return what may betray membership for certain: at most the TPR at FPR ``slack``, more."""
        if self.slack == 0.0:
            return self.base.certain_mass()
        return min(1.0, sum_up(self.base.tpr(self.slack), self.slack))

    def reversed(self) -> TradeoffCurve:
        """Return the curve with the two worlds exchanged."""
        return SlackCurve(self.base.reversed(), self.slack)

    @property
    def is_symmetric(self) -> bool:
        """As the pair it is near to."""
        return self.base.is_symmetric

    def knots(self) -> FloatArray:
        """ε grid of the pair it is near to."""
        return self.base.knots()
