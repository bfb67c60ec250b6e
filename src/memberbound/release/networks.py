"""PyTorch modules through the same calibrators (extra ``torch``).

Give a function that trains a module on some rows of the population; its parameters, or its outputs
on a public query set, become a statistic.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray
from memberbound.release.calibration import Rows

__all__ = [
    "TrainedModule",
    "TrainedOutputs",
    "module_parameters",
    "set_module_parameters",
]


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise InputError(
            "torch must be installed for networks: pip install memberbound[torch]."
        ) from None


def _tensors(module: Any) -> list[Any]:
    """Return trained tensors in a fixed order: parameters, then floating buffers.

    Buffers count: the running means of a batch normalisation are as much a function of the training
    set as weights are.
    """
    found = [tensor for _, tensor in module.named_parameters()]
    found += [tensor for _, tensor in module.named_buffers() if tensor.is_floating_point()]
    if not found:
        raise InputError("module must have parameters, got one without.")
    return found


def module_parameters(module: Any) -> FloatArray:
    """Return all parameters and floating-point buffers of a module as one vector."""
    parts = [tensor.detach().cpu().double().numpy().ravel() for tensor in _tensors(module)]
    return np.concatenate(parts)


def set_module_parameters(module: Any, vector: ArrayLike) -> Any:
    """Write a vector into a module and return it.

    The module must be a new one, never the one that was trained: buffers of whole numbers (how many
    batches were seen) and anything a module keeps outside its tensors are not overwritten.

    Numerics: values are rounded to the module's own type, which is post-processing.
    """
    torch = _torch()
    flat = np.asarray(vector, dtype=np.float64)
    tensors = _tensors(module)
    if flat.shape != (sum(t.numel() for t in tensors),) or not np.isfinite(flat).all():
        raise InputError(
            f"vector must be finite and of length {sum(t.numel() for t in tensors)}, "
            f"got shape {flat.shape!r}."
        )
    place = 0
    with torch.no_grad():
        for tensor in tensors:
            part = flat[place : place + tensor.numel()].reshape(tuple(tensor.shape))
            tensor.copy_(torch.from_numpy(part.copy()).to(tensor.dtype))
            place += tensor.numel()
    return module


@dataclass(frozen=True, eq=False)
class TrainedModule:
    """Parameters of ``train(rows)``: a Statistic, and a Learnable with ``blank()``.

    Args:
        train: row numbers ↦ a trained module; it should seed its own coins from nothing but
            public numbers, so that the same rows give the same module.
        blank: makes a module of the same architecture, untrained.
    """

    train: Callable[[Rows], Any]
    blank: Callable[[], Any]

    @property
    def dimension(self) -> int:
        """Number of parameters."""
        return int(module_parameters(self.blank()).size)

    def __call__(self, rows: Rows) -> FloatArray:
        """Train on these records and return the parameters."""
        return module_parameters(self.train(rows))

    def model(self, vector: FloatArray) -> Any:
        """Return an untrained module with this vector in it, in evaluation mode."""
        return set_module_parameters(self.blank(), vector).eval()


@dataclass(frozen=True, eq=False)
class TrainedOutputs:
    """Outputs of ``train(rows)`` on a public query tensor, flattened: a Statistic.

    ``width`` is the number of outputs per query row.
    """

    train: Callable[[Rows], Any]
    query: Any
    width: int = 1

    @property
    def dimension(self) -> int:
        """Query rows times outputs."""
        return len(self.query) * self.width

    def __call__(self, rows: Rows) -> FloatArray:
        """Train on these records and answer the query, in evaluation mode."""
        torch = _torch()
        module = self.train(rows).eval()
        with torch.no_grad():
            answers = module(self.query)
        return np.asarray(answers.detach().cpu().double().numpy().ravel())
