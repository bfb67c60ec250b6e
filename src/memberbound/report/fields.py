"""Types and limits of a report's fields, which pydantic reads and dataclasses ignore."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Protocol

CoreSchema = dict[str, object]


class _Handler(Protocol):
    """The interface of pydantic's schema generator that constraints use."""

    def __call__(self, source: object) -> CoreSchema: ...

    def generate_schema(self, source: object) -> CoreSchema: ...


class Constraint:
    """A limit on a field, as keywords of pydantic's core schemas (``ge``, ``min_length``, …)."""

    def __init__(self, **words: float | str) -> None:
        self.words = words

    def __get_pydantic_core_schema__(self, source: object, handler: _Handler) -> CoreSchema:
        return handler(source) | self.words


class Keys:
    """A dictionary with at least these keys, typed by their hints."""

    def __init__(self, **hints: object) -> None:
        self.hints = hints

    def __get_pydantic_core_schema__(self, source: object, handler: _Handler) -> CoreSchema:
        fields = {
            key: {"type": "typed-dict-field", "schema": handler.generate_schema(hint)}
            for key, hint in self.hints.items()
        }
        return {"type": "typed-dict", "fields": fields, "extra_behavior": "allow"}


Name = Annotated[str, Constraint(min_length=1)]
#: A probability or a share.
Share = Annotated[float, Constraint(ge=0, le=1)]
#: A share as the key of a mapping.
ShareName = Annotated[str, Constraint(pattern="^[0-9.e-]+$")]
#: Accuracy at or above that of blind guessing.
Right = Annotated[float, Constraint(ge=0.5, le=1)]
Confidence = Annotated[float, Constraint(gt=0, le=1)]
#: Gain over blind guessing.
Eta = Annotated[float, Constraint(gt=0, lt=0.5)]
Positive = Annotated[float, Constraint(gt=0, le=1e9)]
Seconds = Annotated[float, Constraint(ge=0, le=1e9)]
Count = Annotated[int, Constraint(ge=0, le=2**53 - 1)]
#: Accuracy or R², which may be far below 0.
Score = Annotated[float, Constraint(ge=-1e300, le=1)]
LogLoss = Annotated[float, Constraint(ge=0, le=100)]
Theorem = Annotated[str, Constraint(pattern=r"^[A-Z][A-Za-z0-9]*(-[A-Za-z0-9.]+)?$", max_length=40)]
Shares = Annotated[tuple[Share, ...], Constraint(min_length=2)]
#: A verb's dictionary, as printed by ``--json``.
Result = Annotated[
    Mapping[str, object],
    Keys(
        command=Name,
        version=Name,
        game=Literal["iid", "subset", "neighbour", "model"],
        protects=Name,
        theorems=list[Theorem],
        assumptions=list[str],
    ),
]
Role = Literal["number", "category", "date", "identifier", "text"]
Subject = Literal["given", "model", "noise-every", "noise-other", "table", "coarser-table"]
Protected = Literal["average record", "every record"]
StepId = Literal[
    "given", "certify", "audit", "protect-every", "protect-other", "explain", "population",
    "rows", "coarser", "synthetic",
]  # fmt: skip
Level = Literal["safe", "exposed", "unproved", "partial"]
StepState = Literal["done", "impossible", "failed", "stopped"]
RemedyId = Literal["nothing", "rows", "coarser", "synthetic", "noise-every", "noise-other"]
