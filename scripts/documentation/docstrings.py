"""Docstrings of the API page: signatures as a person writes them, formulas as on other pages.

An extension of griffe, which reads the docstrings for mkdocstrings; ``mkdocs.yml`` names it.
"""

import ast
import re
from typing import Any

import griffe

from documentation.formulas import set_formulas

#: Fenced code, doctests up to their blank line, indentation, and names before a colon (``Args:``).
_VERBATIM = re.compile(
    r"(```.*?```|^ *>>>.*?(?=\n\s*\n|\Z)|^ +(?:\*{0,2}\w+(?: \([^)]*\))?:)?)",
    re.DOTALL | re.MULTILINE,
)


class PlainTypes(griffe.Extension):
    """Show ``Annotated[float, Option(…)]`` as ``float``, in signatures and in their tables."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Replace the annotations of a function's parameters."""
        for parameter in func.parameters:
            text = str(parameter.annotation or "")
            if "Annotated[" in text:
                parameter.annotation = ast.unparse(_Bare().visit(ast.parse(text, mode="eval")))


class OwnMembers(griffe.Extension):
    """Show a function of the papers where it is defined, not in modules that import it."""

    def on_module(self, *, mod: griffe.Module, **_: Any) -> None:
        """Take imported names from the exports that are shown."""
        if mod.path.startswith("memberbound.papers.") and mod.exports:
            own = {name for name, member in mod.members.items() if not member.is_alias}
            mod.exports = [name for name in mod.exports if str(name) in own]


class Formulas(griffe.Extension):
    """Set the formulas of docstrings."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Replace the text of a docstring."""
        if obj.docstring is not None:
            obj.docstring.value = with_formulas(obj.docstring.value)


def with_formulas(docstring: str) -> str:
    """Return a docstring with its formulas set, but for doctests and names of arguments."""
    pieces = _VERBATIM.split(docstring)
    pieces[::2] = map(set_formulas, pieces[::2])
    return "".join(pieces)


class _Bare(ast.NodeTransformer):
    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if ast.unparse(node.value) == "Annotated" and isinstance(node.slice, ast.Tuple):
            return self.visit(node.slice.elts[0])
        return self.generic_visit(node)
