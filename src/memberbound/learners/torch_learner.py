"""Torch modules as single-core learners."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

import numpy as np
from scipy import special
from sklearn.base import BaseEstimator

from memberbound.errors import InputError, import_optional, nonnegative, positive, whole_number
from memberbound.learners.learner import Labels, takes_sizes
from memberbound.learners.trained import available_if
from memberbound.numerics.rounding import FloatArray
from memberbound.threads import ONE_AT_A_TIME

#: Rows per batch in predictions.
_ASKED = 4096


class TorchLearner(BaseEstimator):  # type: ignore[misc]
    """A torch module with a plain training loop (Adam, mini-batches), as a scikit-learn estimator.

    Targets that are whole numbers, texts or truth values are classes (cross-entropy); other numbers
    are a regression target (squared error).  Two fits with the same seed on the same machine give
    the same model.  Each fit runs on one core, with its own random numbers, so an audit trains one
    module per core.

    Args:
        factory: ``factory(inputs, outputs)`` or ``factory()`` returns an untrained module for
            numeric rows; for images it starts with, for example, ``torch.nn.Unflatten(1, (1, 28,
            28))``.
        epochs: passes over the rows.
        batch_size: rows per step.
        learning_rate: learning rate of Adam.
        weight_decay: weight decay of Adam.
        random_state: seed of the initial weights, the batches and dropout.

    Attributes: ``module_``, and ``classes_`` unless it is a regression.

    Examples:
        >>> import pytest
        >>> torch = pytest.importorskip("torch")
        >>> rows = np.random.default_rng(0).normal(size=(80, 3))
        >>> learner = TorchLearner(torch.nn.Linear, epochs=60, learning_rate=0.1)
        >>> float(
        ...     (learner.fit(rows, rows[:, 0] > 0).predict(rows) == (rows[:, 0] > 0)).mean()
        ... ) > 0.9
        True
    """

    def __init__(
        self,
        factory: Callable[..., object],
        *,
        epochs: int = 30,
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        random_state: int = 0,
    ) -> None:
        self.factory = factory
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.random_state = random_state

    def fit(self, X: FloatArray, y: Labels) -> TorchLearner:
        """Train a fresh module."""
        torch = _torch()
        rows, target = np.asarray(X, dtype=np.float32), np.asarray(y)
        epochs = whole_number("epochs", self.epochs, at_least=0)
        size = whole_number("batch_size", self.batch_size)
        settings = {
            "lr": positive("learning_rate", self.learning_rate),
            "weight_decay": nonnegative("weight_decay", self.weight_decay),
        }
        inputs, outputs = rows.shape[1], 1
        self.__dict__.pop("classes_", None)
        if target.dtype.kind == "f":
            truth = torch.as_tensor(np.array(target, dtype=np.float32))[:, None]
            loss = torch.nn.functional.mse_loss
        else:
            self.classes_, codes = np.unique(target, return_inverse=True)
            outputs, loss = len(self.classes_), torch.nn.functional.cross_entropy
            truth = torch.as_tensor(codes)
        with _alone(torch, self.random_state):
            module = self.factory(*((inputs, outputs) if takes_sizes(self.factory) else ()))
            if not isinstance(module, torch.nn.Module):
                kind = type(module).__name__
                raise InputError(f"factory must make a torch module, got {kind}.")
            inputs_ = torch.as_tensor(np.array(rows))
            optimizer = torch.optim.Adam(module.parameters(), **settings)
            module.train()
            for _ in range(epochs):
                for batch in torch.randperm(len(inputs_)).split(size):
                    optimizer.zero_grad()
                    loss(module(inputs_[batch]), truth[batch]).backward()
                    optimizer.step()
            module.eval()
        self.module_ = module
        self.n_features_in_ = inputs
        return self

    def decision_function(self, X: FloatArray) -> FloatArray:
        """Return the module's output: a logit per class, or one number."""
        torch = _torch()
        rows = torch.as_tensor(np.array(X, dtype=np.float32))
        with torch.no_grad():
            parts = [self.module_(rows[i : i + _ASKED]) for i in range(0, len(rows), _ASKED)]
            return np.asarray(torch.cat(parts).double().numpy())

    def predict(self, X: FloatArray) -> Labels:
        """Return classes, or numbers."""
        outputs = self.decision_function(X)
        return outputs.reshape(-1) if self._regression else self.classes_[outputs.argmax(axis=1)]

    @property
    def _regression(self) -> bool:
        return hasattr(self, "module_") and not hasattr(self, "classes_")

    @available_if(lambda self: not self._regression)
    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return class probabilities, in double precision to keep small ones."""
        return np.asarray(special.softmax(self.decision_function(X), axis=1))


@contextmanager
def _alone(torch: ModuleType, seed: int) -> Iterator[None]:
    """Set the seed and a single thread for the block, then restore both; other threads wait."""
    with ONE_AT_A_TIME:
        threads, state = torch.get_num_threads(), torch.get_rng_state()
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        try:
            yield
        finally:
            torch.set_rng_state(state)
            torch.set_num_threads(threads)


def _torch() -> ModuleType:
    return import_optional("torch", "for networks", "torch")
