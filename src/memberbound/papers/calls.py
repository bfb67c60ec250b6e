"""A result as a call: the function's signature, and its example with the imports that it needs."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from doctest import DocTestParser, Example
from functools import cached_property
from importlib import import_module
from types import ModuleType


@dataclass(frozen=True)
class Call:
    """A public function of this package by its dotted path, such as ``memberbound.synthesize``.

    Examples:
        >>> call = Call("memberbound.papers.beyond.eta_from_pmp")
        >>> call.signature
        'eta_from_pmp(epsilon)'
        >>> call.example.splitlines()[0].removeprefix(">>> ")
        'from memberbound.papers.beyond import eta_from_pmp'
    """

    path: str

    @property
    def module(self) -> ModuleType:
        """The module that the path names."""
        return import_module(self.path.rpartition(".")[0])

    @property
    def name(self) -> str:
        """The name of the function in its module."""
        return self.path.rpartition(".")[2]

    @cached_property
    def function(self) -> Callable[..., object]:
        """The function itself."""
        function: Callable[..., object] = getattr(self.module, self.name)
        return function

    @property
    def signature(self) -> str:
        """The name with its parameters and their defaults."""
        empty = inspect.Parameter.empty
        taken = inspect.signature(self.function).parameters.values()
        plain = [parameter.replace(annotation=empty) for parameter in taken]
        return f"{self.name}{inspect.Signature(plain)}"

    @cached_property
    def _examples(self) -> list[Example]:
        return DocTestParser().get_examples(inspect.getdoc(self.function) or "")

    @cached_property
    def example(self) -> str:
        """The example of the docstring as a session that runs by itself, with what it prints."""
        lines = [f">>> {line}" for line in self._imports()]
        for shown in self._examples:
            first, *more = shown.source.splitlines()
            lines += [f">>> {first}", *(f"... {line}" for line in more)]
            lines += shown.want.splitlines()
        return "\n".join(lines)

    def _imports(self) -> list[str]:
        """Return the imports of the names that the example takes from the function's module."""
        tree = ast.parse("".join(shown.source for shown in self._examples))
        names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
        bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                bound |= {alias.asname or alias.name for alias in node.names}
        used = {node.id for node in names} - bound - set(dir(builtins))
        around = vars(inspect.getmodule(self.function))
        grouped: dict[str, list[str]] = {}
        lines = []
        for name in sorted(used):
            value = getattr(self.module, name, None) or around[name]
            if isinstance(value, ModuleType):
                lines.append(f"import {value.__name__} as {name}")
            else:
                home = self.module.__name__
                public = name in getattr(self.module, "__all__", ())
                grouped.setdefault(home if public else value.__module__, []).append(name)
        lines += [f"from {home} import {', '.join(names)}" for home, names in grouped.items()]
        return lines
