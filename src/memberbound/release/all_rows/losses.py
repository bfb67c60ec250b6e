"""Losses of scores S: residuals r = ∂ℓ/∂S, predictions and class probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from memberbound.numerics.rounding import FloatArray

#: Numbers in [-1, 1], or indicators of classes.
Target = FloatArray | NDArray[np.int8]
#: Error at which Huber's loss turns from quadratic to linear, for targets in [-1, 1].
_BEND = 0.2


def _logistic(scores: FloatArray, target: Target) -> FloatArray:
    """ℓ = ln(1 + e^{-±S})."""
    sign = 1 - 2 * target
    return np.asarray(sign * special.expit(sign * scores))


def _softmax(scores: FloatArray, target: Target) -> FloatArray:
    """ℓ = ln Σe^{S_c} - S_y."""
    return np.asarray(special.softmax(scores, axis=1) - target)


def _ridge(scores: FloatArray, target: Target) -> FloatArray:
    """ℓ = ½‖S - y‖²."""
    return np.asarray(scores - target)


def _huber(scores: FloatArray, target: Target) -> FloatArray:
    """ℓ = ½e² of the error e = S - y, linear beyond a bend."""
    return np.asarray(np.clip(scores - target, -_BEND, _BEND))


def _hinge(scores: FloatArray, target: Target) -> FloatArray:
    """ℓ = max(0, 1 - m) of the margin m = y·S for each output, smoothed on 0 ≤ m ≤ 1."""
    return np.asarray(-target * np.clip(1 - target * scores, 0.0, 1.0))


_RESIDUALS = {
    "logistic": _logistic,
    "softmax": _softmax,
    "ridge": _ridge,
    "hinge": _hinge,
    "huber": _huber,
}
LOSSES = tuple(_RESIDUALS)


@dataclass(frozen=True)
class Loss:
    """A named loss for this many classes; 0 for a numeric target."""

    name: str
    classes: int = 0

    @property
    def outputs(self) -> int:
        """Number of scores: one for a numeric target or two classes, except with softmax."""
        return self.classes if self.classes > 2 or self.name == "softmax" else 1

    def target(self, codes: NDArray[np.generic]) -> Target:
        """Return the target in the shape of the residuals, (records, outputs).

        ``codes`` are class codes, or numbers scaled to [-1, 1].  A code of -1 marks a class that is
        not public; such a record gets weight 0.
        """
        if not self.classes:
            return np.asarray(codes, dtype=np.float64)[:, None]
        classes = np.maximum(codes, 0).astype(np.int64)
        if self.outputs == 1:
            hot = classes[:, None].astype(np.int8)
        else:
            hot = np.eye(self.classes, dtype=np.int8)[classes]
        return np.asarray(2 * hot - 1 if self.name == "hinge" else hot)

    def residuals(self, scores: FloatArray, target: Target) -> FloatArray:
        """Return the residuals r per record, one column per output."""
        return _RESIDUALS[self.name](scores, target)

    def predict_classes(self, scores: FloatArray) -> NDArray[np.int64]:
        """Return the predicted class codes."""
        if self.outputs == 1:
            return (scores[:, 0] > 0).astype(np.int64)
        return np.asarray(scores.argmax(axis=1), dtype=np.int64)

    @property
    def probable(self) -> bool:
        """Whether the loss is a likelihood, so that scores determine class probabilities."""
        return self.name in ("logistic", "softmax")

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Convert scores to class probabilities, for a likelihood."""
        if self.outputs == 1:
            return np.column_stack([special.expit(-scores[:, 0]), special.expit(scores[:, 0])])
        return np.asarray(special.softmax(scores, axis=1))
