"""What one fitted model says about every record of the population.

A signal is a number per record that an attacker can compute from the released model and the record:
the logit of the true class (regression: the residual), whether the predicted label is right, and
the length of the loss gradient where there is a closed form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from memberbound.errors import InputError
from memberbound.learners import Examples
from memberbound.learners.examples import Labels
from memberbound.learners.trained import Answers, TrainedModel
from memberbound.numerics.rounding import FloatArray

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

BoolArray = NDArray[np.bool_]
#: Where the logits come from.
Kind = Literal["probabilities", "decision values", "labels", "residuals"]
#: Probabilities are kept away from 0 and 1 by this much before the logit is taken.
_SMALLEST = 1e-12
#: Logits this large stand for a probability of exactly 0 or 1.
EXACT = 0.999 * float(-np.log(_SMALLEST))


@dataclass(frozen=True, eq=False)
class Signals:
    """Signals of S models on N records, each an (S, N) array; ``None`` where not available.

    ``logit`` is ln(p/(1-p)) of the true class's probability p, or the residual (prediction less
    target) if ``kind`` is ``"residuals"``.
    """

    logit: FloatArray
    correct: BoolArray
    kind: Kind
    gradient: FloatArray | None = None

    @property
    def models(self) -> int:
        """Number of models S."""
        return int(self.logit.shape[0])

    @property
    def regression(self) -> bool:
        """Whether the target is a number."""
        return self.kind == "residuals"

    @property
    def loss(self) -> FloatArray:
        """Cross-entropy of the true class, or squared error."""
        if self.regression:
            return np.asarray(np.square(self.logit))
        return np.asarray(np.logaddexp(0.0, -self.logit))

    @property
    def confidence(self) -> FloatArray:
        """Probability of the true class; for regression exp(-r²/2s²), s² the model's mean r²."""
        if not self.regression:
            return np.asarray(1.0 / (1.0 + np.exp(-self.logit)))
        loss = self.loss
        # The scale comes from the model and the known population alone, not from membership.
        scale = np.maximum(loss.mean(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        return np.asarray(np.exp(-loss / (2 * scale)))

    def score(self, model: int, target: Labels, where: BoolArray) -> float | None:
        """Return a model's accuracy or R² on some records; no R² where their targets are equal."""
        if not self.regression:
            return float(self.correct[model][where].mean())
        truth = np.asarray(target, dtype=np.float64)[where]
        spread = np.square(truth - truth.mean()).sum()
        if spread == 0:
            return None
        return float(1 - np.square(self.logit[model][where]).sum() / spread)

    def __getitem__(self, models: slice | list[int] | BoolArray) -> Signals:
        """Return the signals of some of the models."""
        return Signals(
            self.logit[models],
            self.correct[models],
            self.kind,
            None if self.gradient is None else self.gradient[models],
        )

    @classmethod
    def stacked(cls, parts: Sequence[Signals]) -> Signals:
        """Return one table of the signals of several models."""
        kinds = {p.kind for p in parts}
        if len(kinds) != 1:
            raise InputError(
                f"signals must be of one kind for all models, got {', '.join(sorted(kinds))}. "
                "Use a learner whose fits all offer the same methods."
            )
        gradients = [p.gradient for p in parts if p.gradient is not None]
        return cls(
            np.vstack([p.logit for p in parts]),
            np.vstack([p.correct for p in parts]),
            parts[0].kind,
            np.vstack(gradients) if len(gradients) == len(parts) else None,
        )


def signals_of(model: BaseEstimator, examples: Examples) -> Signals:
    """Return the signals of one fitted model on every record, as (1, N) arrays.

    Edge cases: a learner without ``predict_proba`` falls back to ``decision_function`` (a logistic
    squashing of its values), and without that to the label alone; ``kind`` says which.  A class the
    model has never seen has probability 0.  Non-finite answers are refused.
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
        place = np.minimum(np.searchsorted(names, target), len(names) - 1)
        signals = signals_from(answers, np.where(names[place] == target, place, -1))
    if not np.isfinite(signals.logit).all():
        raise InputError("predictions must be finite numbers, got NaN or infinity.")
    gradient = gradient_norms(model, examples)
    return signals if gradient is None else replace(signals, gradient=gradient[None, :])


def _true_class(
    scores: FloatArray, place: NDArray[np.intp], kind: Kind
) -> tuple[FloatArray, BoolArray]:
    """Return the logit of the class at ``place`` and whether it is the predicted one."""
    rows, seen = np.arange(len(scores)), place >= 0
    own = scores[rows, place]
    others = scores.copy()
    others[rows[seen], place[seen]] = 0.0 if kind == "probabilities" else -np.inf
    if kind == "probabilities":
        own = np.where(seen, own, 0.0)
        logit = np.log(np.clip(own, _SMALLEST, 1)) - np.log(np.clip(others.sum(1), _SMALLEST, 1))
        correct = seen & (own > others.max(axis=1))
    else:
        top = others.max(axis=1)
        rest = top + np.log(np.exp(others - top[:, None]).sum(axis=1))
        floor = np.log(_SMALLEST)
        logit = np.where(seen, np.clip(own - rest, floor, -floor), floor)
        correct = seen & (own > top)
    return np.asarray(logit), np.asarray(correct)


def class_probabilities(answers: Answers) -> FloatArray | None:
    """Return the probabilities of all classes, (N, K); None where the model does not give them."""
    if answers.access == "logits":
        return np.asarray(special.softmax(answers.table, axis=1))
    return answers.table if answers.access == "probabilities" else None  # type: ignore[return-value]


def signals_from(answers: Answers, truth: Labels) -> Signals:
    """Return the signals of a model that exists, from its answers: (1, N) arrays.

    ``truth`` holds the number of each row's class in ``answers.classes``, -1 for one that the model
    has never seen, or the targets of a regression.
    """
    table = answers.table
    if answers.access == "values":
        residual = np.asarray(table, dtype=np.float64) - np.asarray(truth, dtype=np.float64)
        near = np.abs(residual) <= np.abs(residual).mean()
        return Signals(residual[None, :], near[None, :], "residuals")
    place = np.asarray(truth, dtype=np.intp)
    if answers.access == "labels":
        right = np.asarray((table == np.asarray(answers.classes)[place]) & (place >= 0))
        return Signals(np.where(right, 1.0, -1.0)[None, :], right[None, :], "labels")
    kind: Kind = "decision values" if answers.access == "logits" else "probabilities"
    logit, correct = _true_class(np.asarray(table, dtype=np.float64), place, kind)
    return Signals(logit[None, :], correct[None, :], kind)


def gradient_norms(model: BaseEstimator, examples: Examples) -> FloatArray | None:
    """Return ‖∇ℓ(θ; x)‖ per record for scikit-learn's linear models and perceptrons, else ``None``.

    The gradient of one record with respect to a layer is (error) ⊗ (input, 1), so its squared
    length is ‖error‖²(‖input‖² + 1) and no gradient is ever stored.
    """
    layers = getattr(model, "coefs_", None)
    if layers is not None and hasattr(model, "intercepts_"):
        return _perceptron_gradient(model, examples)
    coefficients = getattr(model, "coef_", None)
    if coefficients is None or not isinstance(coefficients, np.ndarray):
        return None
    if coefficients.shape[-1] != examples.features.shape[1]:
        return None
    reach = 1.0 + np.square(examples.features).sum(axis=1)
    error = _output_error(model, examples)
    return None if error is None else np.sqrt(np.square(error).sum(axis=1) * reach)


def _output_error(model: BaseEstimator, examples: Examples) -> FloatArray | None:
    """Return predicted probabilities less the indicator of the truth, or twice the residual."""
    if examples.task == "regression":
        residual = np.asarray(model.predict(examples.features)).reshape(-1) - examples.target
        return np.asarray(2 * residual[:, None], dtype=np.float64)
    if not callable(getattr(model, "predict_proba", None)):
        return None
    error = np.array(model.predict_proba(examples.features), dtype=np.float64)
    hit = examples.target[:, None] == np.asarray(model.classes_)[None, :]
    error -= hit
    # Two classes share one output; its error is that of the second class.
    return error[:, 1:] if error.shape[1] == 2 else error


def _perceptron_gradient(model: BaseEstimator, examples: Examples) -> FloatArray | None:
    activation = _ACTIVATIONS.get(getattr(model, "activation", ""))
    error = _output_error(model, examples)
    if activation is None or error is None:
        return None
    activate, derive = activation
    inputs = [examples.features]
    for weights, shift in zip(model.coefs_[:-1], model.intercepts_[:-1], strict=True):
        inputs.append(activate(inputs[-1] @ weights + shift))
    total = np.zeros(examples.rows)
    for layer in range(len(model.coefs_) - 1, -1, -1):
        reach = 1.0 + np.square(inputs[layer]).sum(axis=1)
        total += np.square(error).sum(axis=1) * reach
        if layer:
            error = (error @ model.coefs_[layer].T) * derive(inputs[layer])
    return np.asarray(np.sqrt(total))


Activation = Callable[[FloatArray], FloatArray]
#: Activation, and its derivative as a function of the activation's value.
_ACTIVATIONS: dict[str, tuple[Activation, Activation]] = {
    "identity": (lambda a: a, np.ones_like),
    "logistic": (lambda a: 1.0 / (1.0 + np.exp(-a)), lambda v: v * (1.0 - v)),
    "relu": (lambda a: np.maximum(a, 0.0), lambda v: (v > 0).astype(np.float64)),
    "tanh": (np.tanh, lambda v: 1.0 - v * v),
}
