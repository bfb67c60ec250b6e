"""Signatures of the API page without what only the command line and the web read."""

import ast
from typing import Any

import griffe


class PlainTypes(griffe.Extension):
    """Show ``Annotated[float, Option(…)]`` as ``float``, in signatures and in their tables."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Replace the annotations of a function's parameters."""
        for parameter in func.parameters:
            text = str(parameter.annotation or "")
            if "Annotated[" in text:
                parameter.annotation = ast.unparse(_Bare().visit(ast.parse(text, mode="eval")))


class _Bare(ast.NodeTransformer):
    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if ast.unparse(node.value) == "Annotated" and isinstance(node.slice, ast.Tuple):
            return self.visit(node.slice.elts[0])
        return self.generic_visit(node)
