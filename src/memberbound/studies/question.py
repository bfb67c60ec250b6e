"""What a study is asked, the model that it may be about, and its table."""

from __future__ import annotations

import hashlib
import math
import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import joblib
import numpy as np
from numpy.typing import NDArray

from memberbound.attacks.evidence import given_model
from memberbound.attacks.shadows import attacked_records
from memberbound.errors import (
    InputError,
    finite_number,
    fraction,
    positive,
    whole_number,
)
from memberbound.files import read_document
from memberbound.learners import LEARNERS, Examples, examples_of, learner_from_name
from memberbound.learners.examples import Task
from memberbound.learners.trained import TrainedModel
from memberbound.release.all_rows.bounds import Bounds, forms_of, read_bounds
from memberbound.release.noise import checked_eta
from memberbound.report.model import Data, Question, Role
from memberbound.tables.columns import Values
from memberbound.tables.in_memory import (
    Persons,
    Population,
    Records,
    read_population,
    read_records,
)
from memberbound.tables.recipe import exact_codes
from memberbound.tables.source import check_file
from memberbound.tables.table import Table, open_table

if TYPE_CHECKING:
    from pandas import DataFrame

#: Keys of a configuration that name files and folders.
_PLACES = ("source", "out", "bounds", "model", "nonmembers")


def checked_question(options: Mapping[str, Any]) -> Question:
    """Return the question that options ask, checked; those that are left out have defaults."""
    values = dict(options)
    for name in ("target", "learner"):
        value = values.get(name, "left out")
        if not isinstance(value, str) or not value:
            raise InputError(f"{name} must be a name, got {value!r}.")
    for name in {"eta", "epsilon", "confidence"} & values.keys():
        values[name] = finite_number(name, values[name])  # YAML reads 1e-5 as a text
    for name, least in (("shadows", 8), ("seed", 0)):
        if name in values:
            values[name] = whole_number(name, values[name], at_least=least)
    columns, roles = values.get("columns", ()), values.get("roles", {})
    if not isinstance(columns, (str, list, tuple)):
        raise InputError(f"columns must be names, got {columns!r}.")
    if not isinstance(roles, Mapping):
        raise InputError(f"roles must map columns to roles, got {roles!r}.")
    names = (columns,) if isinstance(columns, str) else tuple(map(str, columns))
    values["columns"] = names if "columns" in values else None
    values["roles"] = {str(name): str(role) for name, role in roles.items()} or None
    for name in {"database_table", "unit"} & values.keys():
        values[name] = str(values[name])
    question = Question(**values)
    checked_eta(question.eta)
    positive("epsilon", question.epsilon)
    fraction("confidence", question.confidence, open_left=True, open_right=True)
    if not isinstance(question.quick, bool):
        raise InputError(f"quick must be true or false, got {question.quick!r}.")
    return question


def equivalent_security(eta: float) -> float:
    """Return the MIS that says the same as η in the i.i.d. game, Δ ≤ 2η: the least double."""
    exact = 1 - 2 * Fraction(eta)
    nearest = float(exact)
    return nearest if nearest >= exact else math.nextafter(nearest, 1.0)


def default_shadows(rows: int, *, quick: bool = False) -> int:
    """Return how many models an audit of a study trains unless it is told.

    64 up to 10 000 rows; beyond, so many that rows times models stay the same, but 16 at least,
    which is also what a quick study takes.  Fewer models give wider intervals, never wrong ones.

    >>> default_shadows(569), default_shadows(30_000), default_shadows(10**6)
    (64, 21, 16)
    >>> default_shadows(569, quick=True)
    16
    """
    return 16 if quick else max(16, 64 * 10_000 // max(rows, 10_000))


def read_configuration(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the options of a YAML file: names of the study's options, ``source`` and ``out``.

    Relative paths in it are relative to the file.
    """
    place = Path(path)
    options = read_document(place, "config")
    if options is None:
        options = {}
    if not isinstance(options, dict):
        kind = type(options).__name__
        raise InputError(f"config {place} must hold names and values, got {kind}.")
    names = {f.name for f in fields(Question)} | set(_PLACES)
    unknown = sorted(str(name) for name in options if name not in names)
    if unknown:
        raise InputError(
            f"config {place} must hold only {', '.join(sorted(names))}, got {unknown[0]!r}."
        )
    return {
        str(name): str(place.parent / str(value)) if name in _PLACES else value
        for name, value in options.items()
        if value is not None
    }


# ── The model of a study, where it is about one that exists ───────────────────────────────────────


@dataclass(frozen=True, eq=False)
class StudyModel:
    """A model that exists, and rows that it was not trained on, as they were given."""

    trained: TrainedModel
    name: str
    nonmembers: object
    sha256: str

    @classmethod
    def read(cls, model: object, members: object, nonmembers: object, *, trust: bool) -> StudyModel:
        """Load the model; refuse what cannot be audited before any work is done."""
        if members is None:
            raise InputError("table must hold the rows that the model was trained on, got none.")
        if nonmembers is None:
            raise InputError(
                "nonmembers must be given with a model: rows that it was not trained on."
            )
        trained = given_model(model, trust=trust)
        digest = hashlib.sha256()
        for part in (model, nonmembers):
            digest.update(_digest(part))
        name = Path(model).name if isinstance(model, (str, os.PathLike)) else trained.name
        return cls(trained, name, nonmembers, digest.hexdigest())

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
    """Return a digest of a file or an object; one that cannot be hashed counts as new."""
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


def _table_digest(frame: DataFrame) -> bytes:
    """Return a digest of every value of a table and its type."""
    import pandas as pd

    digest = hashlib.sha256()
    for name in frame.columns:
        column, parts = frame[name], []
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biufmM":
            parts.append(((), column.to_numpy()))
        else:
            # Equal values of other types (1 and True) are different values of a table.
            plain = isinstance(column.dtype, pd.StringDtype)
            kinds = () if plain else (column.map(lambda value: type(value).__name__),)
            for part in (column, *kinds):
                codes, values = pd.factorize(part, use_na_sentinel=False)
                parts.append((tuple(values), codes))
        for values, codes in parts:
            digest.update(repr((name, str(column.dtype), values, codes.dtype.str)).encode())
            digest.update(np.ascontiguousarray(codes).tobytes())
    return digest.digest()


def _rows_by_person(population: Population, unit: str) -> DataFrame:
    """Return all rows of those whose first row has a target, with the person's number as unit."""
    frame, target = population.source.frame, population.target
    assert target is not None
    _, first, person = np.unique(exact_codes(frame[unit]), return_index=True, return_inverse=True)
    # The examples are first rows with a target, in the order of the table.
    used = Values.of(frame[target].iloc[first]).positions([""]) != 0
    number = np.full(len(first), -1)
    number[used] = np.argsort(np.argsort(first[used]))
    person = number[person]
    order = np.argsort(person, kind="stable")[int((person < 0).sum()) :]
    rows = replace(population, frame=frame.iloc[order]).parsed()
    return rows.assign(**{unit: person[order]})


@dataclass(frozen=True, eq=False)
class StudyData:
    """The table of a study, opened once, and its encoded examples.

    In ``table`` numbers are numbers and dates time stamps, so that every step reads the same.
    ``sha256`` is a fingerprint of what was read.
    """

    table: Table
    examples: Examples
    name: str
    embedded: bool
    sha256: str
    bounds: Bounds = field(default_factory=dict)
    #: The column that says whose row it is, and all rows with their record's number in it, in that
    #: order; without it a record is a row.
    unit: str | None = None
    everyone: DataFrame | None = None

    @classmethod
    def read(
        cls,
        source: object,
        question: Question,
        bounds: Mapping[str, object] | str | os.PathLike[str] | None = None,
    ) -> StudyData:
        """Read the table; ``None`` is the embedded one, which has public bounds of its own."""
        embedded = source is None
        if embedded and bounds is None:
            with as_file(files("memberbound.studies") / "embedded-bounds.yaml") as path:
                public = read_bounds(path)
        else:
            public = read_bounds(Path(bounds) if isinstance(bounds, os.PathLike) else bounds)
        opened = open_table(embedded_table() if embedded else source, question.database_table)
        try:
            return cls._of_table(opened, question, public, embedded=embedded)
        except BaseException:
            if opened is not source:
                opened.close()
            raise

    @classmethod
    def _of_table(
        cls, opened: Table, question: Question, public: Bounds, *, embedded: bool
    ) -> StudyData:
        population = read_population(
            opened,
            question.columns,
            roles=question.roles,
            target=question.target,
            unit=question.unit,
        )
        # The report may be passed on: the file's name says enough, its folder too much.
        name = opened.name if opened.path is None else opened.path.name
        examples = examples_of(population)
        everyone = None if question.unit is None else _rows_by_person(population, question.unit)
        table = population.parsed_table()
        digest = hashlib.sha256(_table_digest(table.frame if everyone is None else everyone))
        # What is derived from the values: the features, their roles, the classes.
        derived = (examples.columns, sorted(examples.roles.items()), examples.classes)
        digest.update(repr((derived, sorted(public.items()))).encode())
        unknown = [column for column in public if column not in population.frame.columns]
        if unknown:
            raise InputError(f"bounds must be of columns of the table, got {unknown[0]!r}.")
        public = {column: bound for column, bound in public.items() if column in table.columns}
        # Every step reads what was parsed; the file's own texts are freed.
        examples = replace(examples, population=replace(population, frame=table.frame))
        vars(opened).pop("frame", None)
        shown = "breast cancer (embedded)" if embedded else name
        sha256 = digest.hexdigest()
        return cls(table, examples, shown, embedded, sha256, public, question.unit, everyone)

    def sampled(self, most: int, seed: int) -> StudyData:
        """Return a uniform sample of the rows, or all of them where there are no more."""
        rows = attacked_records(self.examples.rows, most, seed)
        if rows is None:
            return self
        frame = self.frame.iloc[rows].reset_index(drop=True)
        table = self.table.with_frame(frame, self.table.readings())
        everyone = None if self.everyone is None else self.rows_of(rows)
        return replace(self, table=table, examples=self.examples.taken(rows), everyone=everyone)

    def rows_of(self, records: NDArray[np.intp]) -> DataFrame:
        """Return all rows of some records."""
        if self.everyone is None:
            return self.frame.iloc[records]
        assert self.unit is not None
        places = np.full(self.examples.rows, -1)
        places[np.sort(records)] = np.arange(len(records))
        person = places[self.everyone[self.unit]]
        return self.everyone.assign(**{self.unit: person})[person >= 0]

    @property
    def released(self) -> Table:
        """What a release is made of: all rows, of persons with the column ``unit``."""
        return self.table if self.everyone is None else self.table.with_frame(self.everyone)

    def records(self, target: str) -> Records:
        """Return the records of ``released`` in the order of the examples, as they are trained."""
        rows = read_records(self.released, forms_of(self.bounds))
        records = rows.chosen([*self.examples.columns, target])
        if self.everyone is None:
            return records
        starts = np.flatnonzero(np.diff(self.everyone[self.unit], prepend=-1))
        return replace(records, unit=self.unit, persons=Persons(starts, records.rows))

    @property
    def frame(self) -> DataFrame:
        """The parsed rows."""
        return self.table.frame

    @property
    def opened(self) -> Table:
        """The table as it was opened; whoever opened it closes it."""
        return self.population.source

    @property
    def population(self) -> Population:
        """What was read."""
        assert self.examples.population is not None
        return self.examples.population

    @property
    def features(self) -> dict[str, Any]:
        """What a verb with a target is told about ``table``: the features, and all roles."""
        roles = {c: role for c, role in self.examples.roles.items() if c in self.table.columns}
        return {"columns": list(self.examples.columns), "roles": roles}

    @property
    def counted(self) -> dict[str, Any]:
        """What a verb that counts rows is told: the target is a column like the others."""
        return self.features | {"columns": list(self.table.columns)}

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
