"""Convex losses of linear scores: their slopes, curvatures, and how fast the curvature can change.

A record with features x and scores S = Θx has loss ℓ(S; y).  Its gradient in Θ is r ⊗ x with the
residual r = ∂ℓ/∂S, and its Hessian W ⊗ x·xᵀ with the curvature W = ∂²ℓ/∂S².
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from memberbound.errors import InputError, one_of, whole_number
from memberbound.numerics.rounding import FloatArray

__all__ = [
    "LOSSES",
    "Loss",
    "loss_named",
]


@dataclass(frozen=True)
class Loss(ABC):
    """A loss of ``outputs`` scores.

    ``residual_bound`` bounds ‖r‖ for every score where there is such a bound; ``slope`` is a
    Lipschitz constant of S ↦ r.  ``flatness`` says how the curvature W moves along a segment of
    scores whose coordinates spread by at most t: it stays within e^{±flatness·t} of itself (0: it
    never changes; None: nothing is promised).
    """

    outputs: int
    name: ClassVar[str]
    residual_bound: ClassVar[float | None] = None
    slope: ClassVar[float] = 1.0
    flatness: ClassVar[float | None] = None

    @abstractmethod
    def values(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Return ℓ per record."""

    @abstractmethod
    def residuals(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Return r per record, one column per output."""

    @abstractmethod
    def curvatures(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Return W per record: (records, outputs, outputs)."""

    def apply_curvature(
        self, scores: FloatArray, target: FloatArray, moved: FloatArray
    ) -> FloatArray:
        """Return W·v per record."""
        return np.asarray(np.einsum("nij,nj->ni", self.curvatures(scores, target), moved))

    def predicted(self, scores: FloatArray) -> NDArray[np.generic]:
        """Return class codes, or numbers for a regression."""
        if self.outputs == 1:
            return (scores[:, 0] > 0).astype(np.int64)
        return np.asarray(scores.argmax(axis=1), dtype=np.int64)

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Return class probabilities, for the losses that have them."""
        del scores
        raise InputError(
            f"loss must be 'logistic' or 'softmax' for probabilities, got {self.name!r}."
        )


class _Logistic(Loss):
    """ln(1 + e^{-±S}); the third derivative is at most the second: |1 - 2p| ≤ 1."""

    name = "logistic"
    residual_bound = 1.0
    slope = 0.25
    flatness = 1.0

    def values(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        return np.asarray(np.logaddexp(0.0, (1 - 2 * target) * scores)[:, 0])

    def residuals(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        sign = 1 - 2 * target
        return np.asarray(sign * special.expit(sign * scores))

    def curvatures(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        del target
        return np.asarray((special.expit(scores) * special.expit(-scores))[:, :, None])

    def probabilities(self, scores: FloatArray) -> FloatArray:
        return np.column_stack([special.expit(-scores[:, 0]), special.expit(scores[:, 0])])


class _Softmax(Loss):
    """ln Σe^{S_c} - S_y; its third derivative is a third cumulant, at most range × variance."""

    name = "softmax"
    residual_bound = float(np.nextafter(np.sqrt(2.0), 2.0))
    slope = 0.5
    flatness = 1.0

    def values(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        return np.asarray(special.logsumexp(scores, axis=1) - (scores * target).sum(axis=1))

    def residuals(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        return np.asarray(special.softmax(scores, axis=1) - target)

    def curvatures(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        del target
        p = special.softmax(scores, axis=1)
        table = -p[:, :, None] * p[:, None, :]
        table[:, np.arange(self.outputs), np.arange(self.outputs)] += p
        return np.asarray(table)

    def apply_curvature(
        self, scores: FloatArray, target: FloatArray, moved: FloatArray
    ) -> FloatArray:
        del target
        p = special.softmax(scores, axis=1)
        return np.asarray(p * (moved - (p * moved).sum(axis=1, keepdims=True)))

    def probabilities(self, scores: FloatArray) -> FloatArray:
        return np.asarray(special.softmax(scores, axis=1))


class _Ridge(Loss):
    """½‖S - y‖²."""

    name = "ridge"
    flatness = 0.0

    def values(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        return np.asarray(np.square(scores - target).sum(axis=1) / 2)

    def residuals(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        return scores - target

    def curvatures(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        del target
        return np.broadcast_to(np.eye(self.outputs), (len(scores), self.outputs, self.outputs))

    def predicted(self, scores: FloatArray) -> NDArray[np.generic]:
        return scores[:, 0] if self.outputs == 1 else scores


class _SquaredHinge(Loss):
    """½max(0, 1 - y·S)² per output; its curvature jumps, so nothing is promised about it."""

    name = "squared-hinge"

    def values(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        return np.asarray(np.square(np.maximum(0.0, 1 - target * scores)).sum(axis=1) / 2)

    def residuals(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        return np.asarray(-target * np.maximum(0.0, 1 - target * scores))

    def curvatures(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        active = (target * scores < 1).astype(np.float64)
        table = np.zeros((*active.shape, self.outputs))
        table[:, np.arange(self.outputs), np.arange(self.outputs)] = active
        return table


_KINDS: tuple[type[Loss], ...] = (_Logistic, _Softmax, _Ridge, _SquaredHinge)
#: Names of the losses.
LOSSES = tuple(kind.name for kind in _KINDS)


def loss_named(name: str, target: ArrayLike, classes: int | None = None) -> tuple[Loss, FloatArray]:
    """Return the loss and the target as it reads it, (records, outputs).

    ``logistic`` takes classes coded 0 and 1, ``softmax`` 0, 1, …; ``squared-hinge`` either, with
    one score per class against the rest beyond two; ``ridge`` takes numbers, one column per output.
    """
    kind = {k.name: k for k in _KINDS}[one_of("loss", name, LOSSES)]
    if kind is _Ridge:
        numbers = np.array(target, dtype=np.float64)
        numbers = numbers[:, None] if numbers.ndim == 1 else numbers
        if numbers.ndim != 2 or numbers.shape[1] == 0 or not np.isfinite(numbers).all():
            raise InputError("target must hold finite numbers, one row per record.")
        return kind(numbers.shape[1]), numbers
    codes = np.asarray(target)
    if codes.ndim != 1 or codes.size == 0 or not np.isin(codes, np.arange(codes.size + 2)).all():
        raise InputError("target must hold the class codes 0, 1, …, one per record.")
    codes = codes.astype(np.int64)
    count = int(codes.max()) + 1 if classes is None else whole_number("classes", classes)
    if classes is None and np.unique(codes).size < 2:
        raise InputError("target must have at least two classes, got one.")
    if count < max(2, int(codes.max()) + 1) or (kind is _Logistic and count != 2):
        raise InputError(
            f"classes must cover the target's codes (two for 'logistic'), got {count!r}. "
            "Use 'softmax' for more than two."
        )
    if kind is _Logistic:
        return kind(1), codes[:, None].astype(np.float64)
    if kind is _SquaredHinge and count == 2:
        return kind(1), (2.0 * codes - 1.0)[:, None]
    hot = np.zeros((codes.size, count))
    hot[np.arange(codes.size), codes] = 1.0
    return kind(count), hot if kind is _Softmax else 2 * hot - 1
