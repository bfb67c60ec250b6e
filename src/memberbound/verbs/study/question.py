"""The question of a study: its options, its table, and the model it may be about."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, cast

import joblib
import numpy as np
from numpy.typing import NDArray

from memberbound.attacks.evidence import load_given_model
from memberbound.declarations import Keywords
from memberbound.errors import InputError
from memberbound.files import read_document
from memberbound.learners.examples import Examples, examples_of
from memberbound.learners.learner import Task
from memberbound.learners.names import LEARNERS, learner_from_name
from memberbound.learners.trained import TrainedModel
from memberbound.release.all_rows.bounds import (
    RULES,
    Bounds,
    is_rules,
    read_bounds,
    read_statements,
)
from memberbound.report.fields import Role
from memberbound.report.model import Data, Question
from memberbound.report.parsing import parse_as
from memberbound.tables.columns import read_column
from memberbound.tables.opening import open_table
from memberbound.tables.persons import Persons, number_persons
from memberbound.tables.public_rows import read_population
from memberbound.tables.source import check_file
from memberbound.tables.table import Table

if TYPE_CHECKING:
    from pandas import DataFrame

#: Keys of a configuration that name files and folders.
_PLACES = ("source", "out", "bounds", "model", "nonmembers")


def check_question(options: Mapping[str, object]) -> Question:
    """Return validated options, with defaults for missing ones."""
    values = dict(options)
    columns = values.get("columns")
    if columns is not None:
        values["columns"] = [columns] if isinstance(columns, str) else columns
    return parse_as(Question, values, "")


def read_configuration(path: str | os.PathLike[str]) -> Keywords:
    """Return the options of a YAML file: names of the study's options, ``source`` and ``out``.

    Relative paths in it are relative to the file.
    """
    file = Path(path)
    options = read_document(file, "config") or {}
    if not isinstance(options, dict):
        kind = type(options).__name__
        raise InputError(f"config {file} must hold names and values, got {kind}.")
    names = {f.name for f in fields(Question)} | set(_PLACES)
    unknown = sorted(str(name) for name in options if name not in names)
    if unknown:
        raise InputError(
            f"config {file} must hold only {', '.join(sorted(names))}, got {unknown[0]!r}."
        )
    return {
        str(name): str(file.parent / str(value)) if name in _PLACES else value
        for name, value in options.items()
        if value is not None
    }


# ── The existing model that a study is about, if any ──────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class StudyModel:
    """An existing model, and rows that it was not trained on, as given."""

    trained: TrainedModel
    nonmembers: object
    sha256: str

    @classmethod
    def read(cls, model: object, members: object, nonmembers: object, *, trust: bool) -> StudyModel:
        """Load the model; raise before any work is done if it cannot be audited."""
        if members is None:
            raise InputError("table must hold the rows that the model was trained on, got none.")
        if nonmembers is None:
            raise InputError(
                "nonmembers must be given with a model: rows that it was not trained on."
            )
        trained = load_given_model(model, trust=trust)
        digest = hashlib.sha256(_digest(model) + _digest(nonmembers))
        return cls(trained, nonmembers, digest.hexdigest())

    def learner(self, task: Task) -> str | None:
        """Return the short name of the learner with which the model would be retrained."""
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
    """Return a digest of a file or an object; a random one if it cannot be hashed."""
    if isinstance(part, (str, os.PathLike)):
        check_file(part)
        return hashlib.sha256(Path(part).read_bytes()).digest()
    try:
        return str(joblib.hash(part)).encode()
    except (pickle.PicklingError, TypeError, AttributeError):
        return os.urandom(32)


# ── The table of a study: the user's own, or the embedded one ─────────────────────────────────────

EMBEDDED_TARGET = "diagnosis"


def _embedded_table() -> DataFrame:
    """Return the embedded data set: 569 patients, 30 measurements and a diagnosis.

    Breast Cancer Wisconsin (Diagnostic), Wolberg, Mangasarian, Street and Street 1995, as
    distributed with scikit-learn.
    """
    from sklearn.datasets import load_breast_cancer

    loaded = load_breast_cancer(as_frame=True)
    names = np.asarray(loaded.target_names)
    return loaded.data.assign(**{EMBEDDED_TARGET: names[loaded.target.to_numpy()]})


def _rows_by_person(source: Table, firsts: Table, target: str, unit: str) -> tuple[Table, Persons]:
    """Return all rows of the persons in ``firsts``, parsed and in the same order."""
    frame = source.frame
    _, first, whose = np.unique(number_persons(frame[unit]), return_index=True, return_inverse=True)
    # Leave out persons without a target in their first row.
    left_out = read_column(frame[target].iloc[first]).absent
    # Order persons by their first row, left-out persons last.
    number = np.argsort(np.lexsort((first, left_out)))[whose]
    order = np.argsort(number, kind="stable")[: int((~left_out[whose]).sum())]
    rows = firsts.with_frame(frame[list(firsts.columns)].iloc[order], firsts.readings()).parse()
    starts = np.flatnonzero(np.diff(number[order], prepend=-1))
    numbered = rows.frame.copy(deep=False)
    numbered[unit] = number[order]  # assign() takes no column named self
    everyone = rows.with_frame(numbered)
    return everyone, Persons(starts, len(order))


@dataclass(frozen=True, eq=False)
class StudyData:
    """The table of a study, opened once, and its encoded examples: a row per record.

    The caller closes ``source``.  ``table`` is parsed into numbers and time stamps, so that every
    step uses the same values. ``released`` is the input of releases: ``table``, or, if a record is
    a person, the rows of all ``persons`` in the order of the examples, with the person's index as
    unit. ``sha256`` is a fingerprint of the values read.
    """

    source: Table
    table: Table
    released: Table
    persons: Persons | None
    examples: Examples
    name: str
    embedded: bool
    sha256: str
    bounds: Bounds = field(default_factory=dict)
    #: The unparsed rules between columns in the bounds document, if any.
    rules: Mapping[str, object] = field(default_factory=dict)
    #: Number of records (rows or persons) of the table, with or without a target.
    records: int | None = None

    @classmethod
    def read(
        cls,
        source: object,
        question: Question,
        bounds: Mapping[str, object] | str | os.PathLike[str] | None = None,
        encoding: str | None = None,
    ) -> StudyData:
        """Read the table; ``None`` selects the embedded one, which has its own public bounds."""
        embedded = source is None
        if embedded and bounds is None:
            with as_file(files("memberbound.verbs.study") / "embedded-bounds.yaml") as path:
                stated = read_statements(path)
        else:
            stated = read_statements(Path(bounds) if isinstance(bounds, os.PathLike) else bounds)
        public, section = read_bounds(stated), stated.get(RULES)
        rules = {RULES: section} if is_rules(section) else {}
        rows = _embedded_table() if embedded else source
        opened = open_table(rows, question.database_table, encoding=encoding)
        try:
            return cls._of_table(opened, question, public, rules, embedded=embedded)
        except BaseException:
            if opened is not source:
                opened.close()
            raise

    @classmethod
    def _of_table(
        cls,
        opened: Table,
        question: Question,
        public: Bounds,
        rules: Mapping[str, object],
        *,
        embedded: bool,
    ) -> StudyData:
        rows, selection = read_population(
            opened,
            question.columns,
            roles=question.roles,
            target=question.target,
            unit=question.unit,
        )
        unknown = [column for column in public if column not in rows.columns]
        if unknown:
            raise InputError(f"bounds must name columns of the table, got {unknown[0]!r}.")
        # Reports are shared, so name the file without its folder.
        name = opened.name if opened.path is None else opened.path.name
        examples = examples_of(rows, selection, question.target)
        everyone, persons, records = None, None, len(opened.frame)
        if question.unit is not None:
            everyone, persons = _rows_by_person(opened, rows, question.target, question.unit)
            records = len(np.unique(number_persons(opened.frame[question.unit])))
        # Every step uses the parsed values, so free the texts of the file.
        opened.forget_rows()
        table = rows.parse()
        released = everyone or table
        # Values, roles and public facts.
        derived = (examples.columns, sorted(selection.roles.items()), examples.classes)
        digest = hashlib.sha256(repr((derived, sorted(public.items()), *rules.items())).encode())
        digest.update(_table_digest(released.frame))
        return cls(
            opened,
            table,
            released,
            persons,
            examples,
            "breast cancer (embedded)" if embedded else name,
            embedded,
            digest.hexdigest(),
            {column: bound for column, bound in public.items() if column in table.columns},
            rules,
            records,
        )

    def rows_of(self, records: NDArray[np.intp]) -> DataFrame:
        """Return all rows of some records, in the form in which they are released."""
        rows = records if self.persons is None else self.persons.take(records)[0]
        return self.released.frame.iloc[rows]

    @property
    def roles(self) -> dict[str, str]:
        """Role of each column of ``table``."""
        roles = self.examples.selection.roles
        return {column: roles[column] for column in roles if column in self.table.columns}

    def describe(self, target: str) -> Data:
        """Describe the table for the report, without any value of a row."""
        return Data(
            name=self.name,
            embedded=self.embedded,
            rows=self.examples.rows,
            columns=tuple(self.examples.columns),
            roles=cast("Mapping[str, Role]", self.examples.selection.roles),
            left_out=tuple(self.examples.selection.left_out),
            encoded_features=int(self.examples.features.shape[1]),
            target=target,
            task=self.examples.task,
            classes=tuple(self.examples.classes),
            sha256=self.sha256,
            records=self.records,
        )


def _table_digest(frame: DataFrame) -> bytes:
    """Return a digest of the values of a table in their order, and of their types."""
    import pandas as pd

    rows = pd.util.hash_pandas_object(frame, index=False).to_numpy()
    types = repr([(name, str(kind)) for name, kind in frame.dtypes.items()])
    return hashlib.sha256(types.encode() + rows.tobytes()).digest()
