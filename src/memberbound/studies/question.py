"""What a study is asked: options from keywords or a YAML file, and the table it is about."""

from __future__ import annotations

import csv
import hashlib
import io
import math
import os
import pickle
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import joblib
import numpy as np

from memberbound.attacks.evidence import given_model
from memberbound.attacks.shadows import attacked_records
from memberbound.errors import (
    InputError,
    finite_number,
    fraction,
    one_of,
    positive,
    whole_number,
)
from memberbound.files import read_document
from memberbound.learners import LEARNERS, Examples, examples_of, learner_from_name
from memberbound.learners.examples import Task
from memberbound.learners.trained import TrainedModel
from memberbound.release.all_rows.encoding import Bounds, read_bounds
from memberbound.release.noise import checked_eta
from memberbound.report.model import Data, Question, Role
from memberbound.tables.in_memory import Population, read_population
from memberbound.tables.source import check_file
from memberbound.verbs.explain import chances

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "EMBEDDED_TARGET",
    "StudyData",
    "StudyModel",
    "StudyQuestion",
    "command_of",
    "embedded_table",
    "names_of",
    "read_configuration",
    "shadows_for",
]

# ── Words of a study: commands to repeat a step ───────────────────────────────────────────────────


def command_of(verb: str, source: str, options: Mapping[str, object]) -> str:
    """Return a command line; options without a value are left out.

    >>> command_of("protect", "my table.csv", {"--eta": 0.05, "--record": None})
    "memberbound protect 'my table.csv' --eta 0.05"
    """
    parts = ["memberbound", verb, source]
    for name, value in options.items():
        if value is not None:
            parts += [name, str(value)]
    return shlex.join(parts)


def names_of(columns: Iterable[str] | None) -> str | None:
    """Return names as an option takes them: with commas between, and quoted where they have one.

    >>> names_of(["age", "height, cm"])
    'age,"height, cm"'
    """
    if columns is None:
        return None
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(columns)
    return text.getvalue()


# ── What a study is asked: options with defaults, from keywords or a YAML file ────────────────────

#: Keys of a configuration that are not options of the question.
_PLACES = ("source", "out", "bounds", "model", "nonmembers")


#: Models of an audit up to so many rows, and the fewest of a larger table.
_MOST, _FULL, _FEWEST = 64, 10_000, 16


@dataclass(frozen=True)
class StudyQuestion(Question):
    """A question with the study's defaults, checked; :func:`study` says what each option means."""

    target: str
    learner: str = "logistic"
    eta: float = 0.05
    record: Literal["every", "average"] = "every"
    epsilon: float = 8.0
    delta: float = 1e-5
    confidence: float = 0.95
    shadows: int = 64
    extra_rows: int = 0
    columns: tuple[str, ...] | None = None
    roles: Mapping[str, Role] | None = None
    database_table: str | None = None
    unit: str | None = None
    baseline: tuple[float, ...] = ()
    #: The name of the file with public bounds; what it says is part of the data.
    bounds: str | None = None
    #: The names of the given model's file and of that of its non-members.
    model: str | None = None
    nonmembers: str | None = None
    quick: bool = False
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
        if not isinstance(self.quick, bool):
            raise InputError(f"quick must be true or false, got {self.quick!r}.")

    @property
    def security(self) -> float:
        """The MIS that says the same in the i.i.d. game, Δ ≤ 2η: the least double that does."""
        wish = 1 - 2 * Fraction(self.eta)
        nearest = float(wish)
        return nearest if nearest >= wish else math.nextafter(nearest, 1.0)

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
        read: dict[str, Callable[[Any], object]] = {"database_table": str, "unit": str}
        read["baseline"] = partial(chances, "baseline")
        given |= {name: read[name](given[name]) for name in read.keys() & given.keys()}
        return replace(self, **given)


def shadows_for(rows: int, *, quick: bool = False) -> int:
    """Return how many models an audit of a study trains unless it is told.

    64 up to 10 000 rows; beyond, so many that rows times models stay the same, but 16 at least,
    which is also what a quick study takes.  Fewer models give wider intervals, never wrong ones.

    >>> shadows_for(569), shadows_for(30_000), shadows_for(10**6), shadows_for(569, quick=True)
    (64, 21, 16, 16)
    """
    return _FEWEST if quick else max(_FEWEST, _MOST * _FULL // max(rows, _FULL))


def read_configuration(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the options of a YAML file: names of the study's options, ``source`` and ``out``.

    Relative paths in it are relative to the file.
    """
    place = Path(path)
    said = read_document(place, "config")
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


# ── The model of a study, where it is about one that exists ───────────────────────────────────────


@dataclass(frozen=True, eq=False)
class StudyModel:
    """A model that exists, its training rows and others, as they were given."""

    trained: TrainedModel
    name: str
    members: object
    nonmembers: object
    sha256: str

    @classmethod
    def read(
        cls, model: object, members: object, nonmembers: object, *, trust: bool, factory: object
    ) -> StudyModel:
        """Load the model; refuse what cannot be audited before any work is done."""
        if members is None:
            raise InputError("table must hold the rows that the model was trained on, got none.")
        if nonmembers is None:
            raise InputError(
                "nonmembers must be given with a model: rows that it was not trained on."
            )
        trained = given_model(model, trust=trust, factory=factory)
        digest = hashlib.sha256()
        for part in (model, nonmembers):
            digest.update(_digest(part))
        name = Path(model).name if isinstance(model, (str, os.PathLike)) else trained.name
        return cls(trained, name, members, nonmembers, digest.hexdigest())

    def learner(self, task: Task) -> str | None:
        """Return the short name of the model's own kind, with which it would be retrained."""
        fitted = self.trained.model
        steps = getattr(fitted, "steps", None)
        last = steps[-1][1] if isinstance(steps, list) and steps else fitted
        for name in LEARNERS:
            try:
                kind = type(learner_from_name(name, task))
            except InputError:
                continue
            if type(last) is kind:
                return name
        return None


def _digest(part: object) -> bytes:
    """Return what tells a file or an object from others; what cannot be told is always new."""
    if isinstance(part, (str, os.PathLike)):
        check_file(part)
        return hashlib.sha256(Path(part).read_bytes()).digest()
    try:
        return str(joblib.hash(part)).encode()
    except (pickle.PicklingError, TypeError, AttributeError):
        return os.urandom(32)


# ── The table of a study: the user's own, or the one that comes along ─────────────────────────────

EMBEDDED_TARGET = "diagnosis"


def embedded_table() -> DataFrame:
    """Return the data set that comes along: 569 patients, 30 measurements and a diagnosis.

    Breast Cancer Wisconsin (Diagnostic), Wolberg, Mangasarian, Street and Street 1995, as
    scikit-learn carries it.
    """
    from sklearn.datasets import load_breast_cancer

    loaded = load_breast_cancer(as_frame=True)
    names = np.asarray(loaded.target_names)
    return loaded.data.assign(**{EMBEDDED_TARGET: names[loaded.target.to_numpy()]})


def _written(frame: DataFrame) -> bytes:
    """Return every value of a table in an unambiguous way."""
    import pandas as pd

    digest = hashlib.sha256()
    for name in frame.columns:
        column, parts = frame[name], []
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biufmM":
            parts.append(((), column.to_numpy()))
        else:
            # Values that are equal may differ in type, and then in what they say; texts do not.
            plain = isinstance(column.dtype, pd.StringDtype)
            kinds = () if plain else (column.map(lambda value: type(value).__name__),)
            for part in (column, *kinds):
                codes, found = pd.factorize(part, use_na_sentinel=False)
                parts.append((tuple(found), codes))
        for found, codes in parts:
            digest.update(repr((name, str(column.dtype), found, codes.dtype.str)).encode())
            digest.update(np.ascontiguousarray(codes).tobytes())
    return digest.digest()


@dataclass(frozen=True, eq=False)
class StudyData:
    """The table as learners read it and as encoded examples, with a fingerprint of what was read.

    In ``frame`` numbers are numbers and dates time stamps, so that every step reads the same.
    """

    frame: DataFrame
    examples: Examples
    name: str
    embedded: bool
    sha256: str
    bounds: Bounds = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        source: object,
        question: StudyQuestion,
        bounds: Mapping[str, object] | str | os.PathLike[str] | None = None,
    ) -> StudyData:
        """Read the table; ``None`` is the embedded one, which has public bounds of its own."""
        embedded = source is None
        if embedded and bounds is None:
            with as_file(files("memberbound.studies") / "embedded-bounds.yaml") as path:
                public = read_bounds(path)
        else:
            public = read_bounds(Path(bounds) if isinstance(bounds, os.PathLike) else bounds)
        population = read_population(
            embedded_table() if embedded else source,
            question.columns,
            roles=question.roles,
            target=question.target,
            database_table=question.database_table,
            unit=question.unit,
        )
        name = "breast cancer (embedded)" if embedded else population.name
        if isinstance(source, (str, os.PathLike)):
            # The report may be passed on: the file's name says enough, its folder too much.
            name = Path(source).name
        examples = examples_of(population)
        digest = hashlib.sha256()
        for array in (examples.features, np.asarray(examples.target, dtype=np.float64)):
            digest.update(str(array.shape).encode())
            digest.update(np.ravel(array).data)  # in C order, where they lie so without a copy
        digest.update("\0".join((*examples.columns, *examples.classes)).encode())
        kept = population.parsed()
        # The encoding merges rare categories and scales numbers, the table's certificate does not.
        digest.update(_written(kept))
        digest.update(repr(sorted(public.items())).encode() if public else b"")
        unknown = [column for column in public if column not in population.frame.columns]
        if unknown:
            raise InputError(f"bounds must be of columns of the table, got {unknown[0]!r}.")
        public = {column: bound for column, bound in public.items() if column in kept.columns}
        # From here on every step reads what was parsed: the file's own texts are let go.
        examples = replace(examples, population=replace(population, frame=kept))
        return cls(kept, examples, name, embedded, digest.hexdigest(), public)

    def sampled(self, most: int, seed: int) -> StudyData:
        """Return a uniform sample of the rows, or all of them where there are no more."""
        rows = attacked_records(self.examples.rows, most, seed)
        if rows is None:
            return self
        frame = self.frame.iloc[rows].reset_index(drop=True)
        return replace(self, frame=frame, examples=self.examples.taken(rows))

    @property
    def population(self) -> Population:
        """What was read."""
        assert self.examples.population is not None
        return self.examples.population

    @property
    def features(self) -> dict[str, Any]:
        """What a verb with a target is told about ``frame``: the features, and all roles."""
        roles = {c: role for c, role in self.examples.roles.items() if c in self.frame.columns}
        return {"columns": list(self.examples.columns), "roles": roles}

    @property
    def counted(self) -> dict[str, Any]:
        """What a verb that counts rows is told: the target is a column like the others."""
        return self.features | {"columns": list(self.frame.columns)}

    def described(self, target: str) -> Data:
        """Return what the report says about the table; no value of any row."""
        return Data(
            name=self.name,
            embedded=self.embedded,
            rows=self.examples.rows,
            columns=tuple(self.examples.columns),
            roles=cast("Mapping[str, Role]", self.examples.roles),
            left_out=tuple(self.population.selection.left_out),
            encoded_features=int(self.examples.features.shape[1]),
            target=target,
            task=self.examples.task,
            classes=tuple(self.examples.classes),
            sha256=self.sha256,
        )
