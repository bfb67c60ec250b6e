"""Answers of verbs: dictionary, schema, sides, table and ``repr`` derived from their fields.

An answer is a frozen dataclass.  Its keys are its fields and its :class:`computed` attributes; the
annotation of a number declares its side (:data:`Upper`, :data:`Lower`, :data:`EstimateOf`,
:data:`Given`).  Nested dataclasses, mappings and sequences are included.

>>> from dataclasses import dataclass, field
>>> from memberbound.games import IidGame
>>> @dataclass(frozen=True, repr=False)
... class Leak(Answer):
...     VERB = "leak"
...     leak_upper: Upper
...     by_column: dict[str, EstimateOf]
...     rows: int
...     game: IidGame = field(default_factory=IidGame)
...     theorems: tuple[str, ...] = ("X5",)
...     assumptions: tuple[str, ...] = ()
...
...     @computed
...     def sentence(self) -> str:
...         return f"At most {self.leak_upper} leaks."
>>> answer = Leak(0.25, {"age": float("nan")}, 9)
>>> answer
<Leak: At most 0.25 leaks.>
>>> {key: answer.to_dict()[key] for key in ("command", "game", "leak_upper", "by_column")}
{'command': 'leak', 'game': 'iid', 'leak_upper': 0.25, 'by_column': {'age': None}}
>>> Leak.SIDES
{'leak_upper': 'upper', 'by_column': 'estimate'}
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from functools import cache, cached_property
from inspect import get_annotations
from types import MappingProxyType, NoneType, SimpleNamespace, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    NotRequired,
    TypeGuard,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from memberbound.certificate import Certificate, common_fields
from memberbound.games import Game, IidGame
from memberbound.quantities import Side, Sides, number_text, numbers_in

if TYPE_CHECKING:
    from pandas import DataFrame

T = TypeVar("T")
#: An answer printed by ``--json``, or another document of this package, parsed from JSON.
Printed = Mapping[str, Any]


@dataclass(frozen=True)
class Sided:
    """A type marker: all numbers inside the type are on this side."""

    side: Side


Upper = Annotated[float, Sided("upper")]
Lower = Annotated[float, Sided("lower")]
EstimateOf = Annotated[float, Sided("estimate")]
Given = Annotated[float, Sided("given")]

_INLINE, _OMIT_EMPTY = "inline", "omit-empty"
#: Merge its keys into the dictionary instead of nesting them.
Inline = Annotated[T, _INLINE]
#: Omit the key if its value is ``None`` or empty.
OmitEmpty = Annotated[T, _OMIT_EMPTY]
#: Metadata of a field without a key: ``curve: Curve = field(metadata=INTERNAL)``.
INTERNAL: Mapping[str, bool] = MappingProxyType({"internal": True})
#: Attributes behind the common keys.
_COMMON = ("game", "theorems", "assumptions")


class computed(cached_property[T]):  # noqa: N801 (used as ``property`` is)
    """A key of an answer that is computed from its fields and cached."""


# ── The declarations of a class ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Key:
    name: str
    hint: object
    inline: bool
    omit_empty: bool


@cache
def _declared_keys(cls: type) -> tuple[_Key, ...]:
    """Return the keys of a dataclass: its fields, then its computed attributes."""
    names = [f.name for f in fields(cls) if "internal" not in f.metadata]
    hints: dict[str, object] = {}
    for base in reversed(cls.__mro__):
        declared = {n: h for n, h in get_annotations(base).items() if n in names}
        for name, member in vars(base).items():
            if isinstance(member, computed):
                declared[name] = member.func.__annotations__["return"]
        namespace = vars(sys.modules[base.__module__]) if declared else {}
        # Evaluate only the types of keys, because those of internal fields need not be importable.
        holder = SimpleNamespace(__annotations__=declared)
        hints |= get_type_hints(holder, namespace, include_extras=True)
    common = _COMMON if issubclass(cls, Answer) else ()
    keys = []
    for name, hint in hints.items():
        notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        if name not in common:
            keys.append(_Key(name, hint, _INLINE in notes, _OMIT_EMPTY in notes))
    return tuple(keys)


@cache
def sides_of_class(cls: type) -> Sides:
    """Return the sides of the numbers of a dataclass, by key."""
    sides: dict[str, Side | Sides] = {}
    for key in _declared_keys(cls):
        below = _sides(key.hint, f"{cls.__name__}.{key.name}")
        if below is not None and key.inline:
            sides |= {"*": below} if isinstance(below, str) else below
        elif below is not None:
            sides[key.name] = below
    return sides


def _sides(hint: object, where: str) -> Side | Sides | None:
    """Return the sides of the numbers in a type; ``where`` appears in the error message."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        for note in args[1:]:
            if isinstance(note, Sided):
                return note.side
        return _sides(args[0], where)
    if hint is float:
        raise TypeError(f"{where} is a number without a side: annotate it as Upper, Given, …")
    if origin is not None:
        mapping = isinstance(origin, type) and issubclass(origin, Mapping)
        members = args[1:] if mapping else [arg for arg in args if arg is not Ellipsis]
        below = [side for arg in members if (side := _sides(arg, where)) is not None]
        if not below or isinstance(below[0], str):
            return below[0] if below else None
        merged = {key: side for each in cast("list[Sides]", below) for key, side in each.items()}
        return {"*": merged} if mapping else merged
    if is_typeddict(hint):
        pairs = get_type_hints(hint, include_extras=True).items()
        sides = {key: _sides(below, f"{where}.{key}") for key, below in pairs}
        return {key: side for key, side in sides.items() if side is not None}
    if isinstance(declared := getattr(hint, "SIDES", None), Mapping):
        return declared
    return sides_of_class(hint) if is_dataclass(hint) and isinstance(hint, type) else None


# ── Its values as JSON ────────────────────────────────────────────────────────────────────────────


def plain(value: Any) -> Any:
    """Convert a value to plain JSON types: NaN and infinities become ``None``.

    >>> plain({"a": (1, float("inf")), 0.5: None})
    {'a': [1, None], '0.5': None}
    """
    if isinstance(value, (float, Fraction)):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int)):
        return value
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if is_dataclass(value):
        return _dictionary(value)
    if hasattr(value, "tolist"):  # numpy's scalars and arrays
        return plain(value.tolist())
    return [plain(item) for item in value] if isinstance(value, Iterable) else str(value)


def _dictionary(value: object) -> dict[str, object]:
    """Return the keys of a dataclass with their values."""
    result: dict[str, object] = {}
    for key in _declared_keys(cast("Any", type(value))):
        item = plain(getattr(value, key.name))
        if key.inline:
            result |= item or {}
        elif not (key.omit_empty and item in (None, [], {}, "")):
            result[key.name] = item
    return result


# ── Its JSON Schema ───────────────────────────────────────────────────────────────────────────────


def _json_type(hint: Any) -> Any:
    """Return the JSON type of a value, for pydantic."""
    from pydantic import Field
    from typing_extensions import TypedDict

    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        sides = [note.side for note in args[1:] if isinstance(note, Sided)]
        inner = _json_type(args[0])
        return Annotated[inner, Field(json_schema_extra={"side": sides[0]})] if sides else inner
    if hint is float:
        return float | None
    if origin in (Union, UnionType):
        return Union[tuple(_json_type(arg) for arg in args)]  # noqa: UP007
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict[str, _json_type(args[1])]  # type: ignore[misc]
    if isinstance(origin, type) and issubclass(origin, Sequence):
        members = [_json_type(arg) for arg in args if arg is not Ellipsis]
        return list[Union[tuple(members)]]  # type: ignore[misc]  # noqa: UP007
    if _has_declared_keys(hint):
        keys = {}
        for key in _json_keys(hint):
            kind = _json_type(key.hint)
            keys[key.name] = NotRequired[kind] if key.omit_empty else kind
        return TypedDict(hint.__name__, keys)  # type: ignore[operator]
    return hint if origin is not None or hint in (str, int, bool, NoneType) else Any


def _json_keys(cls: type) -> list[_Key]:
    keys: list[_Key] = []
    for key in _declared_keys(cls):
        inner = get_args(key.hint)[0] if key.inline else None
        keys += _json_keys(inner) if _has_declared_keys(inner) else [] if key.inline else [key]
    return keys


def _has_declared_keys(hint: object) -> TypeGuard[type]:
    """Return whether the keys of a type are its fields: False if it has its own ``to_dict``."""
    if not (isinstance(hint, type) and is_dataclass(hint)):
        return False
    return issubclass(hint, Answer) or not hasattr(hint, "to_dict")


# ── The base ──────────────────────────────────────────────────────────────────────────────────────


class _DeclaredSides:
    """``SIDES`` of a class: the sides of its numbers, read from its annotations."""

    def __get__(self, instance: object, owner: type) -> Sides:
        return sides_of_class(owner)


class Answer:
    """The answer of a verb.

    A subclass is a dataclass that declares its keys (see the module), ``VERB``, ``game``,
    ``theorems``, ``assumptions``, a ``sentence``, and, for a table below it on the terminal,
    :meth:`summary_rows`.
    """

    #: The command, with its hyphens.
    VERB: ClassVar[str]
    SIDES: ClassVar[Sides] = cast("Sides", _DeclaredSides())

    if TYPE_CHECKING:  # fields or cached properties of the subclass

        @property
        def game(self) -> Game: ...  # noqa: D102

        @property
        def theorems(self) -> tuple[str, ...]: ...  # noqa: D102

        @property
        def assumptions(self) -> tuple[str, ...]: ...  # noqa: D102

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract."""
        common = common_fields(self.VERB, self.game, self.theorems, self.assumptions)
        return common | _dictionary(self)

    @classmethod
    def json_schema(cls) -> dict[str, object]:
        """Return the JSON Schema of the dictionary, with the ``side`` of every number."""
        from pydantic import TypeAdapter

        schema = TypeAdapter(_json_type(cls)).json_schema()
        text: dict[str, object] = {"type": "string"}
        texts = {"type": "array", "items": text}
        common = {
            "command": {"const": cls.VERB},
            "version": text,
            "game": {"enum": ["iid", "subset", "neighbour", "model"]},
            "protects": {"enum": ["average record", "every record"]},
            "theorems": texts,
            "assumptions": texts,
        }
        schema["properties"] = common | schema["properties"]
        schema["required"] = [*common, *schema.get("required", ())]
        return schema

    def __repr__(self) -> str:
        first = self.summary().split("\n", 1)[0]
        return f"<{type(self).__name__}: {getattr(self, 'sentence', '') or first}>"

    def to_frame(self) -> DataFrame:
        """Return the numbers of the answer as a data frame: key, value, side and text.

        ``side`` is ``upper`` or ``lower`` for bounds, ``estimate`` and ``given``; the text is
        rounded accordingly, and a vacuous bound is not printed as one.
        """
        import pandas

        rows = [
            (path, value, side, number_text(path, value, side or "given"))
            for path, value, side in numbers_in(self.to_dict(), self.SIDES)
        ]
        return pandas.DataFrame(rows, columns=["key", "value", "side", "text"])

    def summary_rows(self) -> Sequence[tuple[str, object]]:
        """Return names and values of the table below the sentence."""
        return ()

    def summary_notes(self) -> Sequence[str]:
        """Return the lines below the table: by default the ``warnings``."""
        return [f"note: {warning}." for warning in getattr(self, "warnings", ())]

    def summary(self) -> str:
        """Return the printed text: a sentence, a table and notes."""
        rows = self.summary_rows()
        text = str(getattr(self, "sentence", ""))
        if rows:
            text += f"\n\n{align(rows)}"
        return "\n".join([text, *self.summary_notes()])


class CertifiedAnswer(Answer):
    """An answer with the game, theorems and assumptions of its ``certificate``."""

    if TYPE_CHECKING:

        @property
        def certificate(self) -> Certificate: ...  # noqa: D102

    @cached_property
    def game(self) -> Game:
        """The game of the certificate."""
        return self.certificate.game

    @cached_property
    def theorems(self) -> tuple[str, ...]:
        """The theorems of the certificate."""
        return self.certificate.theorems

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of the certificate."""
        return self.certificate.assumptions


class IidAnswer(Answer):
    """An answer about the i.i.d. game; its priors are keys."""

    game: IidGame

    @computed
    def nu(self) -> Given:
        """Probability that the tested record is not a member."""
        return self.game.nu

    @computed
    def lam(self) -> Given:
        """Weight of a missed member."""
        return self.game.lam


def align(rows: Sequence[tuple[str, object]]) -> str:
    """Format pairs as lines with aligned values.

    >>> print(align([("rows", 5), ("leak", "≤ 0.1")]))
    rows  5
    leak  ≤ 0.1
    """
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
