"""Losses of linear scores and of boosted ones: their residuals, and what they predict.

A record with features x and scores S = Θx has loss ℓ(S; y).  Its gradient in Θ is r ⊗ x with the
residual r = ∂ℓ/∂S.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from memberbound.errors import InputError, one_of, whole_number
from memberbound.numerics.rounding import FloatArray

#: Target range [-1, 1]: where Huber's loss turns from square to straight.
_BEND = 0.2


@dataclass(frozen=True)
class Loss(ABC):
    """A loss of ``outputs`` scores."""

    outputs: int
    name: ClassVar[str]

    @abstractmethod
    def residuals(self, scores: FloatArray, target: NDArray[Any]) -> FloatArray:
        """Return r per record, one column per output."""

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
    """ln(1 + e^{-±S})."""

    name = "logistic"

    def residuals(self, scores: FloatArray, target: NDArray[Any]) -> FloatArray:
        sign = 1 - 2 * target
        return np.asarray(sign * special.expit(sign * scores))

    def probabilities(self, scores: FloatArray) -> FloatArray:
        return np.column_stack([special.expit(-scores[:, 0]), special.expit(scores[:, 0])])


class _Softmax(Loss):
    """ln Σe^{S_c} - S_y."""

    name = "softmax"

    def residuals(self, scores: FloatArray, target: NDArray[Any]) -> FloatArray:
        return np.asarray(special.softmax(scores, axis=1) - target)

    def probabilities(self, scores: FloatArray) -> FloatArray:
        return np.asarray(special.softmax(scores, axis=1))


class _Ridge(Loss):
    """½‖S - y‖²."""

    name = "ridge"

    def residuals(self, scores: FloatArray, target: NDArray[Any]) -> FloatArray:
        return np.asarray(scores - target)

    def predicted(self, scores: FloatArray) -> NDArray[np.generic]:
        return scores[:, 0] if self.outputs == 1 else scores


class _Huber(_Ridge):
    """½e² of the error e = S - y up to a bend, straight beyond."""

    name = "huber"

    def residuals(self, scores: FloatArray, target: NDArray[Any]) -> FloatArray:
        return np.asarray(np.clip(scores - target, -_BEND, _BEND))


class _SmoothHinge(Loss):
    """max(0, 1 - m) of the margin m = y·S per output, rounded off on 0 ≤ m ≤ 1."""

    name = "hinge"

    def residuals(self, scores: FloatArray, target: NDArray[Any]) -> FloatArray:
        return np.asarray(-target * np.clip(1 - target * scores, 0.0, 1.0))


_KINDS: tuple[type[Loss], ...] = (_Logistic, _Softmax, _Ridge, _SmoothHinge, _Huber)
#: Names of the losses.
LOSSES = tuple(kind.name for kind in _KINDS)


def named_loss(name: str, classes: int) -> Loss:
    """Return the loss of so many classes, of one number for none."""
    sample = np.arange(max(2, classes))
    return loss_named(name, sample, len(sample) if classes else None)[0]


def loss_named(
    name: str, target: ArrayLike, classes: int | None = None
) -> tuple[Loss, NDArray[Any]]:
    """Return the loss and the target as it reads it, (records, outputs).

    ``logistic`` takes classes coded 0 and 1, ``softmax`` 0, 1, …; ``hinge`` either, with one score
    per class against the rest beyond two; ``ridge`` and ``huber`` take numbers scaled to [-1, 1].
    A code of -1 stands for a class that is not among the public ones: give such a record the
    weight 0.
    """
    kind = {k.name: k for k in _KINDS}[one_of("loss", name, LOSSES)]
    if issubclass(kind, _Ridge):
        numbers = np.array(target, dtype=np.float64)
        numbers = numbers[:, None] if numbers.ndim == 1 else numbers
        if numbers.ndim != 2 or numbers.shape[1] == 0 or not np.isfinite(numbers).all():
            raise InputError("target must hold finite numbers, one row per record.")
        return kind(numbers.shape[1]), numbers
    codes = np.maximum(np.asarray(target), 0)
    whole = codes.dtype.kind in "iu" or bool((np.floor(codes) == codes).all())
    absurd = classes is None and codes.max(initial=0) > codes.size + 1
    if codes.ndim != 1 or codes.size == 0 or not whole or absurd:
        raise InputError("target must hold the class codes 0, 1, …, one per record.")
    count = int(codes.max()) + 1 if classes is None else whole_number("classes", classes)
    if classes is None and np.unique(codes).size < 2:
        raise InputError("target must have at least two classes, got one.")
    if count < max(2, int(codes.max()) + 1) or (kind is _Logistic and count != 2):
        raise InputError(
            f"classes must cover the target's codes (two for 'logistic'), got {count!r}. "
            "Use 'softmax' for more than two."
        )
    if kind is _Logistic:
        return kind(1), codes[:, None].astype(np.int8)
    if kind is _SmoothHinge and count == 2:
        return kind(1), 2 * codes[:, None].astype(np.int8) - 1
    hot = np.zeros((codes.size, count), dtype=np.int8)
    hot[np.arange(codes.size), codes.astype(np.int64)] = 1
    return kind(count), hot if kind is _Softmax else 2 * hot - 1
