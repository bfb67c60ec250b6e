"""A curve whose two worlds are each known only up to a small total variation."""

from __future__ import annotations

from dataclasses import dataclass

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

    def _profile(self, epsilon: FloatArray, *, forward: bool) -> FloatArray:
        exact = self.base._profile(epsilon, forward=forward)
        if self.slack == 0.0:
            return exact
        with np.errstate(over="ignore"):
            added = (1.0 + np.exp(np.minimum(epsilon, 700.0))) * self.slack
        raised = np.nextafter((exact + added) * (1 + 8 * UNIT) + SMALLEST, np.inf)
        return np.asarray(np.minimum(raised, 1.0), dtype=np.float64)

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
