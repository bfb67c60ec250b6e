"""Pictures are asked about more than once: as they are, and moved by a pixel.

A model remembers its training pictures together with their close copies, so the average over copies
says more about membership than one answer (Carlini and others, *Membership Inference Attacks From
First Principles*, 2022, §VI-C).  Everything that attacks a model attacks it with such queries when
the model is wrapped: the copies are averaged where it answers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from memberbound.errors import InputError
from memberbound.learners.examples import Examples, Labels, Learner
from memberbound.learners.trained import Answers, TrainedModel
from memberbound.numerics.rounding import FloatArray

__all__ = ["AugmentedQueries", "asked_with_copies", "moved", "picture_shape", "pixels_of"]

#: Probabilities below this are not told from it.
_SMALLEST = 1e-15
#: Rows and columns by which a copy is moved; the picture itself comes first.
_MOVES = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))
Shape = tuple[int, int] | tuple[int, int, int]


def picture_shape(text: str | Shape) -> Shape:
    """Return height, width and, where given, colours of a picture.

    Examples:
        >>> picture_shape("28x28"), picture_shape("32x32x3")
        ((28, 28), (32, 32, 3))
    """
    try:
        sizes = tuple(int(part) for part in (text.split("x") if isinstance(text, str) else text))
    except (TypeError, ValueError):
        sizes = ()
    if len(sizes) not in (2, 3) or min(sizes) < 1:
        raise InputError(f"images must be HEIGHTxWIDTH or HEIGHTxWIDTHxCOLOURS, got {text!r}.")
    return (sizes[0], sizes[1]) if len(sizes) == 2 else (sizes[0], sizes[1], sizes[2])


def moved(rows: FloatArray, shape: Shape) -> list[FloatArray]:
    """Return the pictures and their copies, one pixel right, left, down and up.

    The rim is repeated, so no pixel appears that was not there.  Rows of pixels stay rows, and
    arrays of pictures stay arrays of pictures.

    Examples:
        >>> [copy.tolist() for copy in moved(np.array([[1.0, 2.0, 3.0, 4.0]]), (2, 2))]
        [[[1.0, 2.0, 3.0, 4.0]], [[1.0, 1.0, 3.0, 3.0]], [[2.0, 2.0, 4.0, 4.0]],
         [[1.0, 2.0, 1.0, 2.0]], [[3.0, 4.0, 3.0, 4.0]]]
    """
    values = np.asarray(rows)
    pixels = int(np.prod(shape))
    if values.ndim < 2 or int(np.prod(values.shape[1:])) != pixels:
        wide = int(np.prod(values.shape[1:])) if values.ndim > 1 else 1
        shown = "x".join(map(str, shape))
        raise InputError(f"images must have as many pixels as a row ({wide}), got {shown}.")
    pictures = values.reshape(len(values), *shape)
    height, width = shape[0], shape[1]
    copies = []
    for down, right in _MOVES:
        lines = np.clip(np.arange(height) - down, 0, height - 1)
        places = np.clip(np.arange(width) - right, 0, width - 1)
        copies.append(pictures[:, lines][:, :, places].reshape(values.shape))
    return copies


def _averaged(tables: list[FloatArray]) -> FloatArray:
    """Return the average of logits, as probabilities: the normalised geometric mean."""
    logits = np.mean([np.log(np.maximum(table, _SMALLEST)) for table in tables], axis=0)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


class AugmentedQueries(BaseEstimator):  # type: ignore[misc]
    """A learner whose models are asked about a picture and four moved copies of it.

    It is trained as it is; only the answers are averages over the copies.

    Args:
        estimator: a classifier with ``predict_proba``, on rows of pixels.
        shape: height, width and, where there are several, colours of a picture.
    """

    def __init__(self, estimator: Learner, shape: Shape) -> None:
        self.estimator = estimator
        self.shape = shape

    def fit(self, X: FloatArray, y: Labels) -> AugmentedQueries:
        """Train the learner."""
        from sklearn.base import clone

        self.model_ = clone(self.estimator).fit(X, y)
        if not hasattr(self.model_, "predict_proba"):
            raise InputError("images must come with a classifier that gives probabilities.")
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return the average over the copies."""
        return _averaged([np.asarray(self.model_.predict_proba(c)) for c in moved(X, self.shape)])

    def predict(self, X: FloatArray) -> Labels:
        """Return the likeliest class."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])


def pixels_of(examples: Examples) -> Examples:
    """Return examples whose features are pixels as they are, which one scale brings to at most 1.

    A scale for each pixel, as columns get elsewhere, would make a moved picture another picture.
    """
    assert examples.population is not None
    frame = examples.population.parsed()[list(examples.columns)]
    try:
        values = frame.to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        values = np.full((1, 1), np.nan)
    if not np.isfinite(values).all():
        raise InputError("images must be rows of numbers, the pixels, got other columns.")
    return replace(examples, features=values / (np.abs(values).max() or 1.0), encoder=None)


def asked_with_copies(model: TrainedModel, shape: Shape) -> TrainedModel:
    """Return a given model that is asked about a picture and four moved copies of it."""

    def respond(rows: Any) -> Answers:
        answers = [model.respond(copy) for copy in moved(np.asarray(rows, dtype=np.float64), shape)]
        first = answers[0]
        if first.logits is not None:
            logits = np.mean([s.logits for s in answers if s.logits is not None], axis=0)
            return Answers(logits=logits, classes=first.classes)
        if first.probabilities is not None:
            tables = [s.probabilities for s in answers if s.probabilities is not None]
            return Answers(probabilities=_averaged(tables), classes=first.classes)
        raise InputError("images must come with a model that gives probabilities or logits.")

    return replace(model, respond=respond)
