"""Methods that some models have and others of the same class have not."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, TypeVar, cast

__all__ = ["available_if"]

Method = TypeVar("Method", bound=Callable[..., object])


class _Available:
    def __init__(self, check: Callable[[Any], object], method: Callable[..., object]) -> None:
        self.check, self.method = check, method

    def __get__(self, model: object, kind: type) -> Callable[..., object]:
        if model is None:
            return self.method
        absent = f"This {kind.__name__!r} has no attribute {self.method.__name__!r}"
        try:
            there = self.check(model)
        except MemoryError:
            raise
        except Exception as error:
            raise AttributeError(absent) from error
        if not there:
            raise AttributeError(absent)
        return MethodType(self.method, model)


def available_if(check: Callable[[Any], object]) -> Callable[[Method], Method]:
    """Return a decorator for methods that a model has if ``check`` says so.

    As scikit-learn's, for which a model also lacks what it had no memory to check: an answer would
    go without its probabilities, and nobody would be told.

    Examples:
        >>> class Model:
        ...     @available_if(lambda self: self.kind == "classifier")
        ...     def classes(self): ...
        >>> model = Model()
        >>> hasattr(model, "classes")
        False
        >>> model.kind = "classifier"
        >>> hasattr(model, "classes")
        True
    """

    def decorated(method: Method) -> Method:
        return cast("Method", _Available(check, method))

    return decorated
