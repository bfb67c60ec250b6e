"""Signals: the per-record outputs of a fitted model that attacks use.

A signal is a number per record that an attacker can compute from the released model and the record:
the logit of the true class (regression: the residual), and whether the predicted label is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from memberbound.errors import InputError
from memberbound.learners.examples import Examples
from memberbound.learners.learner import Labels
from memberbound.learners.trained import Answers, TrainedModel
from memberbound.numerics.rounding import FloatArray

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

BoolArray = NDArray[np.bool_]
#: Source of the logits.
Kind = Literal["probabilities", "decision values", "labels", "residuals"]
#: Clip probabilities this far from 0 and 1 before taking the logit.
_SMALLEST = 1e-12
#: Logits at least this large represent a probability of exactly 0 or 1.
EXACT = 0.999 * float(-np.log(_SMALLEST))


@dataclass(frozen=True, eq=False)
class Signals:
    """Signals of S models on N records, each an (S, N) array.

    ``logit`` is ln(p/(1-p)) of the true class's probability p, or the residual (prediction minus
    target) if ``kind`` is ``"residuals"``.
    """

    logit: FloatArray
    correct: BoolArray
    kind: Kind

    @property
    def models(self) -> int:
        """Number of models S."""
        return int(self.logit.shape[0])

    @property
    def regression(self) -> bool:
        """Whether the task is a regression."""
        return self.kind == "residuals"

    @property
    def loss(self) -> FloatArray:
        """Cross-entropy of the true class, or squared error."""
        if self.regression:
            return np.asarray(np.square(self.logit))
        return np.asarray(np.logaddexp(0.0, -self.logit))

    def score(self, model: int, target: Labels, where: BoolArray) -> float | None:
        """Return a model's accuracy or R² on some records; None if R² is undefined."""
        if not self.regression:
            return float(self.correct[model][where].mean())
        truth = np.asarray(target, dtype=np.float64)[where]
        spread = np.square(truth - truth.mean()).sum()
        if spread == 0:
            return None
        return float(1 - np.square(self.logit[model][where]).sum() / spread)

    def __getitem__(self, models: slice | list[int] | BoolArray) -> Signals:
        """Return the signals of some of the models."""
        return Signals(self.logit[models], self.correct[models], self.kind)

    def of(self, records: NDArray[np.intp]) -> Signals:
        """Return the signals on some of the records."""
        return Signals(self.logit[:, records], self.correct[:, records], self.kind)

    def in_kind_of(self, target: Signals) -> Signals:
        """Convert the signals of reference models to the kind of a given model."""
        if self.kind == target.kind:
            return self
        if target.kind == "labels":
            return Signals(np.where(self.correct, 1.0, -1.0), self.correct, "labels")
        if {self.kind, target.kind} == {"probabilities", "decision values"}:
            # Both are log-odds of the true class; a network's logits come from probabilities.
            return Signals(self.logit, self.correct, target.kind)
        raise InputError(
            f"learner must give {target.kind} like the given model, got {self.kind}. "
            "Name a learner of the same kind."
        )

    @classmethod
    def stack(cls, parts: Sequence[Signals]) -> Signals:
        """Stack the signals of several models."""
        kinds = {p.kind for p in parts}
        if len(kinds) != 1:
            raise InputError(
                f"signals must be of one kind for all models, got {', '.join(sorted(kinds))}. "
                "Use a learner whose fits all offer the same methods."
            )
        return cls(
            np.vstack([p.logit for p in parts]),
            np.vstack([p.correct for p in parts]),
            parts[0].kind,
        )


def signals_of(model: BaseEstimator, examples: Examples) -> Signals:
    """Return the signals of one fitted model on every record, as (1, N) arrays.

    Edge cases: without ``predict_proba``, ``decision_function`` is used as log-odds, and without
    that the label alone; ``kind`` records the choice.  A class unseen in training has probability
    0.  Non-finite answers are refused.
    """
    features, target = examples.features, examples.target
    classes = getattr(model, "classes_", None)
    if examples.task == "regression":
        values = np.array(model.predict(features), dtype=np.float64).reshape(-1)
        signals = signals_from(Answers("values", values), target)
    else:
        names = np.unique(target) if classes is None else np.asarray(classes)
        if classes is None:
            answers = Answers("labels", np.asarray(model.predict(features)), names)
        else:
            answers = TrainedModel.of(model).respond(features)
        index = np.minimum(np.searchsorted(names, target), len(names) - 1)
        signals = signals_from(answers, np.where(names[index] == target, index, -1))
    if not np.isfinite(signals.logit).all():
        raise InputError("predictions must be finite numbers, got NaN or infinity.")
    return signals


def _true_class(
    scores: FloatArray, index: NDArray[np.intp], kind: Kind
) -> tuple[FloatArray, BoolArray]:
    """Return the logit of the class at ``index`` and whether it is the predicted one."""
    rows, seen = np.arange(len(scores)), index >= 0
    own = scores[rows, index]
    others = scores.copy()
    others[rows[seen], index[seen]] = 0.0 if kind == "probabilities" else -np.inf
    if kind == "probabilities":
        own = np.where(seen, own, 0.0)
        logit = np.log(np.clip(own, _SMALLEST, 1)) - np.log(np.clip(others.sum(1), _SMALLEST, 1))
        correct = seen & (own > others.max(axis=1))
    else:
        floor = np.log(_SMALLEST)
        margin = own - special.logsumexp(others, axis=1)
        logit = np.where(seen, np.clip(margin, floor, -floor), floor)
        correct = seen & (own > others.max(axis=1))
    return np.asarray(logit), np.asarray(correct)


def class_probabilities(answers: Answers) -> FloatArray | None:
    """Return the probabilities of all classes, (N, K); None if the model has none."""
    if answers.access == "logits":
        return np.asarray(special.softmax(answers.table, axis=1))
    return answers.table if answers.access == "probabilities" else None  # type: ignore[return-value]


def signals_from(answers: Answers, truth: Labels) -> Signals:
    """Return the signals of an existing model from its answers, as (1, N) arrays.

    ``truth`` holds the index of each row's class in ``answers.classes``, -1 for a class unseen in
    training, or the targets of a regression.
    """
    table = answers.table
    if answers.access == "values":
        residual = np.asarray(table, dtype=np.float64) - np.asarray(truth, dtype=np.float64)
        near = np.abs(residual) <= np.abs(residual).mean()
        return Signals(residual[None, :], near[None, :], "residuals")
    index = np.asarray(truth, dtype=np.intp)
    if answers.access == "labels":
        right = np.asarray((table == np.asarray(answers.classes)[index]) & (index >= 0))
        return Signals(np.where(right, 1.0, -1.0)[None, :], right[None, :], "labels")
    kind: Kind = "decision values" if answers.access == "logits" else "probabilities"
    logit, correct = _true_class(np.asarray(table, dtype=np.float64), index, kind)
    return Signals(logit[None, :], correct[None, :], kind)
