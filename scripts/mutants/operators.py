"""Small faults in the syntax tree of a module: what a wrong certificate is made of.

A fault changes a comparison, a sign, a factor, a slack, a rounding direction, a square root, an
extreme, a constant, a guard or a returned number.  Texts are left alone: error messages and
functions that return ``str``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

Slot = tuple[ast.AST, str, int | None]

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
}
#: Calls whose opposite is the fault.  Opposites are looked up where they live, so that a name that
#: the module does not import is no easy kill.
_OPPOSITES = {
    "up": "memberbound.numerics.rounding.down",
    "down": "memberbound.numerics.rounding.up",
    "double_above": "memberbound.numerics.rounding.double_below",
    "double_below": "memberbound.numerics.rounding.double_above",
    "min": "max",
    "max": "min",
    "ceil": "floor",
    "floor": "ceil",
    "minimum": "maximum",
    "maximum": "minimum",
}
#: Calls that are replaced by their first argument.
_DROPPED = {"up", "down", "up_array", "nextafter", "sqrt", "sum_up"}
#: The relative size of a nudge to a returned number; constants below it are taken for slacks.
NUDGE = 1e-3


@dataclass(frozen=True)
class Mutant:
    """One fault: where it is and what replaces what."""

    room: str
    path: str
    scope: str  # the outermost function or method; "" outside of functions
    names: tuple[str, ...]  # the names that a statement outside of functions binds
    text: str
    index: int  # among the faults of the module

    @property
    def key(self) -> str:
        """What stays when lines move, or when a function moves within its room."""
        return f"{self.room}:{self.scope or ','.join(self.names)}: {self.text}"


def faults(tree: ast.Module) -> Iterator[tuple[str, tuple[str, ...], Slot, ast.AST, str]]:
    """Yield scope, names, slot, replacement and description of every fault, in a fixed order."""
    for node in tree.body:
        yield from _walk(node, "", _bound(node))


def _bound(node: ast.AST) -> tuple[str, ...]:
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return tuple(n.id for t in targets if t for n in ast.walk(t) if isinstance(n, ast.Name))


def _walk(
    node: ast.AST, scope: str, names: tuple[str, ...], inside: bool = False
) -> Iterator[tuple[str, tuple[str, ...], Slot, ast.AST, str]]:
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Assert):
        return
    if isinstance(node, ast.FunctionDef | ast.ClassDef) and not inside:
        scope = f"{scope}.{node.name}".lstrip(".")
    if isinstance(node, ast.FunctionDef):
        if isinstance(node.returns, ast.Name) and node.returns.id == "str":
            return
        numeric = isinstance(node.returns, ast.Name) and node.returns.id == "float"
        for k, statement in enumerate(node.body):
            yield from _visit((node, "body", k), statement, scope, (), True)
        if numeric:
            factor = 1 + NUDGE if _bounds_from_below(node) else 1 - NUDGE
            for inner in _own_nodes(node):
                if isinstance(inner, ast.Return) and not isinstance(inner.value, ast.Constant):
                    nudged = ast.BinOp(inner.value, ast.Mult(), ast.Constant(factor))
                    text = f"return {ast.unparse(inner.value)} → times {factor}"
                    yield scope, (), (inner, "value", None), nudged, text
        return
    yield from _children(node, scope, names, inside)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, but not those of functions within it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.Lambda):
            yield child
            yield from _own_nodes(child)


def _bounds_from_below(node: ast.FunctionDef) -> bool:
    """Whether a larger number is the unsafe one."""
    text = f"{node.name} {(ast.get_docstring(node) or '').split('.')[0]}".lower()
    return any(word in text for word in ("lower", "below", "down", "security", "least"))


def _children(
    node: ast.AST, scope: str, names: tuple[str, ...], inside: bool
) -> Iterator[tuple[str, tuple[str, ...], Slot, ast.AST, str]]:
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for k, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                bound = names if inside else (_bound(child) or names)
                yield from _visit((node, field, k), child, scope, bound, inside)


def _visit(
    slot: Slot, node: ast.AST, scope: str, names: tuple[str, ...], inside: bool
) -> Iterator[tuple[str, tuple[str, ...], Slot, ast.AST, str]]:
    for new in _replacements(node, slot, inside):
        old_text = ast.unparse(node)
        new_text = re.sub(r"__import__\('sys'\)\.modules\['[a-z.]+'\]\.", "", ast.unparse(new))
        if isinstance(node, ast.If):
            old_text, new_text = f"if {ast.unparse(node.test)}: raise", "no guard"
        yield "" if not inside else scope, names, slot, new, f"{old_text} → {new_text}"
    yield from _walk(node, scope, names, inside)


def _replacements(node: ast.AST, slot: Slot, inside: bool) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare):
        for k, op in enumerate(node.ops):
            for other in _COMPARISONS.get(type(op), ()):
                new = deepcopy(node)
                new.ops[k] = other()
                yield new
    elif isinstance(node, ast.BinOp):
        yield from _arithmetic(node)
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.If):
        if len(node.body) == 1 and isinstance(node.body[0], ast.Raise):
            yield ast.If(ast.Constant(False), node.body, node.orelse)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield from _constants(node, slot, inside)


def _arithmetic(node: ast.BinOp) -> Iterator[ast.AST]:
    left, right, op = node.left, node.right, node.op
    if any(
        isinstance(x, ast.JoinedStr | ast.List | ast.Tuple) or _is_text(x) for x in (left, right)
    ):
        return
    if isinstance(op, ast.Add | ast.Sub):
        yield ast.BinOp(left, ast.Sub() if isinstance(op, ast.Add) else ast.Add(), right)
        yield left
    elif isinstance(op, ast.Mult | ast.Div):
        if isinstance(right, ast.Constant):
            yield left
        elif isinstance(left, ast.Constant) and isinstance(op, ast.Mult):
            yield right
        else:
            yield ast.BinOp(left, ast.Div() if isinstance(op, ast.Mult) else ast.Mult(), right)
    elif isinstance(op, ast.Pow) and isinstance(right, ast.Constant):
        yield left


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if name in _DROPPED and node.args:
        yield node.args[0]
    if name in _OPPOSITES:
        other = _OPPOSITES[name]
        if "." in other:
            module, _, other = other.rpartition(".")
            func = ast.parse(f"__import__('sys').modules['{module}'].{other}", mode="eval").body
        elif isinstance(node.func, ast.Attribute):
            func = ast.Attribute(node.func.value, other, ast.Load())
        else:
            func = ast.Name(other, ast.Load())
        yield ast.Call(func, node.args, node.keywords)


def _constants(node: ast.Constant, slot: Slot, inside: bool) -> Iterator[ast.AST]:
    value, parent = node.value, slot[0]
    if isinstance(parent, ast.Call | ast.Subscript | ast.Slice) and isinstance(value, int):
        return  # axes, shapes and places
    if isinstance(value, float) and value not in (0.0, 1.0):
        yield ast.Constant(0.0 if abs(value) < NUDGE else value / 2)
        if not inside and abs(value) >= NUDGE:
            yield ast.Constant(2 * value)
    elif isinstance(value, int) and 1 < value < 5 and not inside:
        yield ast.Constant(value - 1)
