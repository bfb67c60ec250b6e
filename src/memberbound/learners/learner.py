"""The learner protocol, and learner factories in user modules."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray

if TYPE_CHECKING:
    from torch.nn import Module

Task = Literal["classification", "regression"]
#: A target: the codes of classes, or numbers.
Labels = NDArray[np.generic]


@runtime_checkable
class Learner(Protocol):
    """An estimator with ``fit`` and ``predict`` on numeric rows."""

    def fit(self, X: FloatArray, y: Labels) -> object:
        """Fit to rows and their targets."""

    def predict(self, X: FloatArray) -> Labels:
        """Return the prediction of each row."""


def takes_sizes(factory: Callable[..., object]) -> bool:
    """Return whether a factory takes two numbers: inputs and outputs of a network."""
    try:
        parameters = list(inspect.signature(factory).parameters.values())
    except (TypeError, ValueError):
        return False
    return len(parameters) >= 2 and parameters[0].default is parameters[0].empty


def network_factory(learner: object) -> Callable[..., Module] | None:
    """Return a learner's factory of PyTorch modules, or None if it is not one.

    ``learner`` is ``package.module:factory`` or the factory itself: ``factory(inputs, outputs)``,
    or ``factory()`` if it returns a module.

    Examples:
        >>> network_factory("logistic") is None
        True
    """
    factory = attribute_named(learner) if isinstance(learner, str) and ":" in learner else learner
    torch = sys.modules.get("torch")
    if torch is None or isinstance(factory, str) or not callable(factory):
        return None
    if hasattr(factory, "fit") or isinstance(factory, torch.nn.Module):
        return None
    sizes = (8, 2) if takes_sizes(factory) else ()
    try:
        return factory if isinstance(factory(*sizes), torch.nn.Module) else None
    except Exception as problem:
        # A network may reject these sizes; a TypeError means that the signature differs.
        return factory if sizes and not isinstance(problem, TypeError) else None


def attribute_named(name: str, what: str = "learner") -> object:
    """Import ``package.module:attribute``."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as problem:
        raise InputError(f"{what} {name!r} cannot be imported: {problem}.") from None
