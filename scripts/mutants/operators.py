"""Faults in the syntax tree of a module that can make a certificate too small, by kind.

========== =========================================================================================
rounding   outward rounding dropped or reversed
noise      a sensitivity or a scale halved, ``times=`` dropped, a clip dropped
slack      a slack dropped, or subtracted instead of added
error      the same for other bounds of errors that are added, and factors that undo a shortfall
share      an error share doubled, or its divisor dropped
comparison ``<`` for ``≤`` and the reverse, in functions that return bounds or refuse
extreme    ``min`` for ``max`` and the reverse, in functions that return bounds
bound      a returned bound moved by a tenth to the unsafe side
========== =========================================================================================

Grids, limits of searches, tolerances of convergence, thresholds of performance, messages and
formats are left alone, and so is what can only make a bound looser.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

Slot = tuple[ast.AST, str, int | None]
Fault = tuple[str, str, tuple[str, ...], Slot, ast.AST, str]  # kind, scope, names, …, description

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
}
_HOME = "__import__('sys').modules['memberbound.numerics.rounding']."
#: Outward rounding → without rounding, and inward rounding.
_ROUNDED = {
    "up": ("{0}", f"{_HOME}down({{all}})"),
    "down": ("{0}", f"{_HOME}up({{all}})"),
    "up_array": ("{0}", f"-{_HOME}up_array(-({{0}}))"),
    "sum_up": ("{0} + {1}",),
    "half_up": ("({0}) / 2",),
    "double_above": ("float({0})", f"{_HOME}double_below({{0}})"),
    "double_below": ("float({0})", f"{_HOME}double_above({{0}})"),
    "nextafter": ("{0}",),
}
#: What draws noise → which argument is its scale.
_SCALES = {"NoisySums": 0, "noisy_release": 1, "GaussianNoise": 0, "Noise": 0}
_EXTREMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
_SLACK = re.compile(
    r"slack|\broom\b|doubt|rounding|regret|\bUNIT\b|SMALLEST|ROOM|_MARGIN|[A-Z]_ERROR|SLACK"
)
#: Names of other bounds of errors, where they are added.
_ERROR = re.compile(r"_TINY|_UNDERFLOW|_QUADRATURE|slack|^(lost|off|error|noise)$")
_SHARED = re.compile(r"(self\.)?(error|beta|side|risk)|1 - (self\.)?confidence")
_BOUND = re.compile(
    r"Guarantee|from above|from below|\b[Bb]ound|never (below|above)|at (or )?(above|most|least)"
)
_BOUND_NAME = re.compile(r"(^|_)(upper|lower|slack|sensitivity|deviation)(_|$)")
#: Limits of size and of searches: which side of them a number lies on decides on speed.
_LIMIT = re.compile(r"_?[A-Z]\w*")
#: Constants that small are slacks.
_TINY = 1e-6


@dataclass(frozen=True)
class Mutant:
    """One fault: where it is and what replaces what."""

    room: str
    path: str
    kind: str
    scope: str  # the outermost function or method; "" outside of functions
    names: tuple[str, ...]  # the names that a statement outside of functions binds
    text: str
    index: int  # among the faults of the module

    @property
    def key(self) -> str:
        """A key that is stable when lines move, or when a function moves within its room."""
        return f"{self.room}:{self.scope or ','.join(self.names)}: {self.text}"


def faults(tree: ast.Module) -> Iterator[Fault]:
    """Yield the faults of a module, in a fixed order."""
    yield from _walk(tree, "", (), inside=False, bounding=False)


def _walk(
    node: ast.AST, scope: str, names: tuple[str, ...], *, inside: bool, bounding: bool
) -> Iterator[Fault]:
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Assert):
        return
    if isinstance(node, ast.FunctionDef):
        returned = ast.unparse(node.returns) if node.returns else ""
        if returned == "str":
            return
        text = ast.get_docstring(node) or ""
        named = bool(_BOUND.search(text) or _BOUND_NAME.search(node.name))
        bounding = returned != "None" and (bounding or named)
        if bounding and returned in ("float", "FloatArray"):
            yield from _returned(node, scope if inside else f"{scope}.{node.name}".lstrip("."))
    if isinstance(node, ast.FunctionDef | ast.ClassDef) and not inside:
        scope = f"{scope}.{node.name}".lstrip(".")
    inside |= isinstance(node, ast.FunctionDef)
    for field, k, child in _children(node):
        bound = names if inside else (_bound(child) or names)
        guard = bounding or (
            isinstance(node, ast.If) and field == "test" and isinstance(node.body[0], ast.Raise)
        )
        for kind, new in _replacements(child, node, field, guard, inside):
            old_text, new_text = ast.unparse(child), ast.unparse(new).replace(_HOME, "")
            where, slot = scope if inside else "", (node, field, k)
            yield kind, where, bound, slot, new, f"{old_text} → {new_text}"
        yield from _walk(child, scope, bound, inside=inside, bounding=guard)


def _children(node: ast.AST) -> Iterator[tuple[str, int | None, ast.AST]]:
    """Yield the children of a node, with the field and the place they are in."""
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns", "decorator_list"):
            for k, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(child, ast.AST):
                    yield field, k, child


def _bound(node: ast.AST) -> tuple[str, ...]:
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return tuple(n.id for t in targets if t for n in ast.walk(t) if isinstance(n, ast.Name))


def _returned(node: ast.FunctionDef, scope: str) -> Iterator[Fault]:
    """Move returned bounds by a tenth to the unsafe side."""
    text = f"{node.name} {(ast.get_docstring(node) or '').split('.')[0]}".lower()
    below = re.search(r"lower|from below|\bdown\b|security|never above", text)
    factor = 1.1 if below else 0.9
    for inner in _own_nodes(node):
        if isinstance(inner, ast.Return) and not isinstance(inner.value, ast.Constant | None):
            new = ast.BinOp(inner.value, ast.Mult(), ast.Constant(factor))
            what = f"return {ast.unparse(inner.value)} → times {factor}"
            yield "bound", scope, (), (inner, "value", None), new, what


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, but not those of functions within it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.Lambda):
            yield child
            yield from _own_nodes(child)


def _replacements(
    node: ast.AST, parent: ast.AST, field: str, bounding: bool, inside: bool
) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Call):
        yield from _calls(node, bounding)
    elif isinstance(node, ast.keyword):
        if node.arg == "sensitivity":
            yield "noise", ast.keyword(node.arg, _times(node.value, 0.5))
        elif node.arg == "times":
            yield "noise", ast.keyword(node.arg, ast.Constant(1))
    elif isinstance(node, ast.BinOp):
        yield from _arithmetic(node)
    elif isinstance(node, ast.Compare) and bounding and not isinstance(parent, ast.While):
        yield from _comparisons(node)
    if isinstance(parent, ast.Assign | ast.AnnAssign) and field == "value":
        name = " ".join(_bound(parent))
        if (
            not inside
            and _SLACK.search(name)
            and not isinstance(node, ast.Name | ast.Call | ast.Tuple)
        ):
            yield "slack", ast.Constant(float(name.endswith(("ROOM", "MARGIN"))))
        elif name in ("sensitivity", "HISTOGRAM_MOVES") or "sensitivity)" in ast.unparse(node):
            yield "noise", _times(node, 0.5)


def _comparisons(node: ast.Compare) -> Iterator[tuple[str, ast.AST]]:
    if any(_is_limit(side) for side in (node.left, *node.comparators)):
        return
    for k, op in enumerate(node.ops):
        for other in _COMPARISONS.get(type(op), ()):
            new = deepcopy(node)
            new.ops[k] = other()
            yield "comparison", new


def _is_limit(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and node.value not in (0, 0.5, 1, 2)
    return isinstance(node, ast.Name) and bool(_LIMIT.fullmatch(node.id))


def _times(node: ast.AST, factor: float) -> ast.AST:
    return ast.BinOp(ast.Constant(factor), ast.Mult(), node)


def _is_share(node: ast.AST) -> bool:
    return bool(_SHARED.fullmatch(ast.unparse(node)))


def _arithmetic(node: ast.BinOp) -> Iterator[tuple[str, ast.AST]]:
    left, right, op = node.left, node.right, node.op
    kind = "slack" if _is_slack(right) else "error"
    if isinstance(op, ast.Add | ast.Sub) and (kind == "slack" or _is_slack(right, _ERROR)):
        yield kind, left
        yield kind, ast.BinOp(left, ast.Sub() if isinstance(op, ast.Add) else ast.Add(), right)
    elif isinstance(op, ast.Mult) and ast.unparse(right).startswith("_growth("):
        yield "error", left
    elif isinstance(op, ast.Div) and _is_share(left):
        yield "share", left


def _is_slack(node: ast.AST, names: re.Pattern[str] = _SLACK) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, float) and 0 < abs(node.value) < _TINY
    if isinstance(node, ast.BinOp):
        # The slack is a factor, or the first term.
        first = _is_slack(node.left, names)
        return first or (isinstance(node.op, ast.Mult) and _is_slack(node.right, names))
    if isinstance(node, ast.Call) and names is _ERROR and ast.unparse(node.func) == "np.copysign":
        return _is_slack(node.args[0], names)
    if isinstance(node, ast.Call | ast.Subscript):
        inner = getattr(node, "func", None) or node.value  # type: ignore[attr-defined]
        return _is_slack(inner, names)
    named = getattr(node, "attr", getattr(node, "id", ""))
    return bool(names.search(named))


def _calls(node: ast.Call, bounding: bool) -> Iterator[tuple[str, ast.AST]]:
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    texts = [ast.unparse(a) for a in node.args]
    for k, argument in enumerate(node.args):
        if _is_share(argument):
            new = deepcopy(node)
            new.args[k] = _times(argument, 2)
            yield "share", new
    if name in _SCALES and texts:
        new = deepcopy(node)
        new.args[_SCALES[name]] = _times(node.args[_SCALES[name]], 0.5)
        yield "noise", new
    if name in _ROUNDED and texts:
        for form in _ROUNDED[name]:
            text = form.format(*texts, all=", ".join(texts))
            yield "rounding", ast.parse(text, mode="eval").body
    elif name in _EXTREMES and bounding:
        if isinstance(node.func, ast.Attribute):
            func: ast.expr = ast.Attribute(node.func.value, _EXTREMES[name], ast.Load())
        else:
            func = ast.Name(_EXTREMES[name], ast.Load())
        yield "extreme", ast.Call(func, node.args, node.keywords)
    elif name == "clip" and texts:
        yield "noise", node.args[0]
    elif name == "shared_confidence":
        yield "share", node.args[0]
    elif name == "sum_slack":
        yield "slack", ast.Constant(0.0)
