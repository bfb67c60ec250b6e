"""The table of a study: the user's own, or the one that comes along."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memberbound.learners import Examples, examples_of
from memberbound.studies.question import StudyQuestion
from memberbound.tables.population import Population, read_population

__all__ = ["EMBEDDED_TARGET", "StudyData", "embedded_table"]

EMBEDDED_TARGET = "diagnosis"


def embedded_table() -> Any:
    """Return the data set that comes along: 569 patients, 30 measurements and a diagnosis.

    Breast Cancer Wisconsin (Diagnostic), Wolberg, Mangasarian, Street and Street 1995, as
    scikit-learn carries it.
    """
    from sklearn.datasets import load_breast_cancer

    loaded = load_breast_cancer(as_frame=True)
    names = np.asarray(loaded.target_names)
    return loaded.data.assign(**{EMBEDDED_TARGET: names[loaded.target.to_numpy()]})


def _written(frame: Any) -> bytes:
    """Return every value of a table in an unambiguous way."""
    digest = hashlib.sha256()
    for name in frame.columns:
        digest.update(repr((name, str(frame[name].dtype), frame[name].tolist())).encode())
    return digest.digest()


@dataclass(frozen=True, eq=False)
class StudyData:
    """The table as learners read it and as encoded examples, with a fingerprint of what was read.

    In ``frame`` numbers are numbers and dates time stamps, so that every step reads the same.
    """

    frame: Any
    examples: Examples
    name: str
    embedded: bool
    sha256: str

    @classmethod
    def read(cls, source: Any, question: StudyQuestion) -> StudyData:
        """Read the table; ``None`` is the embedded one."""
        embedded = source is None
        population = read_population(
            embedded_table() if embedded else source,
            question.columns,
            roles=question.roles,
            target=question.target,
            database_table=question.database_table,
        )
        name = "breast cancer (embedded)" if embedded else population.name
        if isinstance(source, (str, os.PathLike)):
            # The report may be passed on: the file's name says enough, its folder too much.
            name = Path(source).name
        examples = examples_of(population)
        digest = hashlib.sha256()
        for array in (examples.features, np.asarray(examples.target, dtype=np.float64)):
            digest.update(str(array.shape).encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        digest.update("\0".join((*examples.columns, *examples.classes)).encode())
        kept = population.parsed()
        # The encoding merges rare categories and scales numbers, the table's certificate does not.
        digest.update(_written(kept))
        return cls(kept, examples, name, embedded, digest.hexdigest())

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

    def to_dict(self, target: str) -> dict[str, Any]:
        """Return what the report says about the table; no value of any row."""
        return {
            "name": self.name,
            "embedded": self.embedded,
            "rows": self.examples.rows,
            "columns": list(self.examples.columns),
            "roles": self.examples.roles,
            "left_out": list(self.population.selection.left_out),
            "encoded_features": int(self.examples.features.shape[1]),
            "target": target,
            "task": self.examples.task,
            "classes": list(self.examples.classes),
            "sha256": self.sha256,
        }
