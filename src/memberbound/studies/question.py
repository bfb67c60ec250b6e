"""What a study is asked: options with defaults, from keywords or a YAML file."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from memberbound.errors import (
    InputError,
    finite_number,
    fraction,
    one_of,
    positive,
    whole_number,
)
from memberbound.protection.calibration import checked_eta

__all__ = ["StudyQuestion", "read_configuration"]

#: Keys of a configuration that are not options of the question.
_PLACES = ("source", "out")


@dataclass(frozen=True)
class StudyQuestion:
    """Everything that the answer depends on, beside the data.

    Args:
        target: column that the learner predicts.
        learner: a short name or ``package.module:factory``.
        eta: nobody may be right more than ½ + η of the time.
        record: whom the recommendation has to protect, ``every`` or ``average``.
        epsilon: the ε to be translated for this population.
        delta: its δ.
        confidence: of each certificate and interval.
        shadows: models trained for each audit.
        extra_rows: rows that could still be collected.
        columns: features; all columns but the target, identifiers and free text unless given.
        roles: column → role, where the inferred one is not the right one.
        database_table: the table inside a DuckDB or SQLite file.
        seed: makes the study repeatable.
    """

    target: str
    learner: str = "logistic"
    eta: float = 0.05
    record: str = "every"
    epsilon: float = 8.0
    delta: float = 1e-5
    confidence: float = 0.95
    shadows: int = 64
    extra_rows: int = 0
    columns: tuple[str, ...] | None = None
    roles: Mapping[str, str] | None = None
    database_table: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("target", "learner"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise InputError(f"{name} must be a name, got {value!r}.")
        checked_eta(self.eta)
        one_of("record", self.record, ("every", "average"))
        positive("epsilon", self.epsilon)
        fraction("delta", self.delta, open_right=True)
        fraction("confidence", self.confidence, open_left=True, open_right=True)
        whole_number("shadows", self.shadows, at_least=8)
        whole_number("extra_rows", self.extra_rows, at_least=0)
        whole_number("seed", self.seed, at_least=0)

    @property
    def security(self) -> float:
        """The MIS that says the same in the i.i.d. game, Δ ≤ 2η: the least double that does."""
        wish = 1 - 2 * Fraction(self.eta)
        nearest = float(wish)
        return nearest if nearest >= wish else math.nextafter(nearest, 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready fields."""
        said = asdict(self)
        said["columns"] = None if self.columns is None else list(self.columns)
        return said

    def with_options(self, options: Mapping[str, Any]) -> StudyQuestion:
        """Return the question with some options replaced; ``None`` leaves one as it is."""
        given = {name: value for name, value in options.items() if value is not None}
        for name in ("eta", "epsilon", "delta", "confidence"):
            if name in given:  # YAML reads 1e-5 as a text
                given[name] = finite_number(name, given[name])
        for name in ("shadows", "extra_rows", "seed"):
            if name in given:
                least = {"shadows": 8}.get(name, 0)
                given[name] = whole_number(name, given[name], at_least=least)
        if "columns" in given:
            names = given["columns"]
            if not isinstance(names, (str, list, tuple)):
                raise InputError(f"columns must be names, got {names!r}.")
            given["columns"] = tuple([names] if isinstance(names, str) else map(str, names))
        if "roles" in given:
            if not isinstance(given["roles"], Mapping):
                raise InputError(f"roles must map columns to roles, got {given['roles']!r}.")
            given["roles"] = {str(c): str(role) for c, role in given["roles"].items()}
        if "database_table" in given:
            given["database_table"] = str(given["database_table"])
        return replace(self, **given)


def read_configuration(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the options of a YAML file: names of the study's options, ``source`` and ``out``.

    Relative paths in it are relative to the file.
    """
    import yaml

    place = Path(path)
    if not place.is_file():
        raise InputError(f"config {place} does not exist.")
    try:
        said = yaml.safe_load(place.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        first = str(problem).splitlines()[0]
        raise InputError(f"config {place} must be YAML: {first}.") from None
    if said is None:
        said = {}
    known = {f.name for f in fields(StudyQuestion)} | set(_PLACES)
    if not isinstance(said, dict):
        raise InputError(f"config {place} must hold names and values, got {type(said).__name__}.")
    unknown = sorted(str(name) for name in said if name not in known)
    if unknown:
        raise InputError(
            f"config {place} must hold only {', '.join(sorted(known))}, got {unknown[0]!r}."
        )
    for name in _PLACES:
        if said.get(name) is not None:
            said[name] = str(place.parent / str(said[name]))
    return {str(name): value for name, value in said.items()}
