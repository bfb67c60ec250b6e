"""A population as examples: features, target, and what the target is.

The encoding is fitted on the whole table.  In the subset game the whole population is known to the
attacker, so scales and categories taken from it say nothing about who was drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.learners.encoding import column_encoder
from memberbound.learners.naming import Task
from memberbound.numerics.rounding import FloatArray
from memberbound.tables.population import Population, read_population
from memberbound.tables.recipe import labels_of
from memberbound.tables.roles import Roles
from memberbound.tables.source import Columns

__all__ = ["Examples", "examples_of", "read_examples"]

#: A numeric target with more values than this is a regression target.
_CLASSES = 20


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows of numbers with a target; classes are coded 0, 1, … in the order of ``classes``.

    ``encoder`` makes the features of raw rows: it parses numbers and dates as they are written;
    ``class_values`` are the classes as the target's column has them.
    """

    features: FloatArray
    target: NDArray[Any]
    task: Task
    columns: tuple[str, ...]
    classes: tuple[str, ...] = ()
    name: str = "the table"
    encoder: Any = None
    population: Population | None = None
    class_values: NDArray[Any] | None = None

    @property
    def rows(self) -> int:
        """Number of records."""
        return int(self.features.shape[0])

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be said about the columns."""
        return () if self.population is None else self.population.selection.notes

    @property
    def roles(self) -> dict[str, str]:
        """Column → role."""
        return {} if self.population is None else self.population.selection.roles


def read_examples(
    source: Any,
    target: str,
    *,
    columns: Columns = None,
    roles: Roles = None,
    task: Task | None = None,
    database_table: str | None = None,
) -> Examples:
    """Read a table and encode it for learners; see :func:`examples_of`."""
    found = read_population(
        source, columns, roles=roles, target=target, database_table=database_table
    )
    return examples_of(found, task)


def examples_of(population: Population, task: Task | None = None) -> Examples:
    """Encode a population with a target.

    ``task`` is guessed when left out: a numeric target with more than 20 values is a regression
    target, every other one has classes.
    Edge cases: rows without a target, a target with one value and no row are refused.
    """
    frame, name, target = population.frame, population.name, population.target
    assert target is not None
    if len(frame) == 0:
        raise InputError(f"{name} must hold at least one row, got none.")
    wanted = frame[target]
    if wanted.isna().any():
        place = int(np.flatnonzero(wanted.isna().to_numpy())[0])
        raise InputError(
            f"{target!r} must be given in every row, got nothing in row {place + 1}. "
            "Drop such rows first."
        )
    number = population.readings[target].numeric
    kind = task or ("regression" if number and wanted.nunique() > _CLASSES else "classification")
    if kind == "classification":
        codes, labels = labels_of(wanted)
        order = np.argsort(labels)
        codes = np.argsort(order)[codes]
        values: NDArray[Any] = codes.astype(np.int64)
        seen = [labels[i] for i in order]
        kept = np.unique(values)
        values, classes = np.searchsorted(kept, values), tuple(seen[i] for i in kept)
        if len(classes) < 2:
            raise InputError(f"{target!r} must have at least two classes, got {classes[0]!r} only.")
    else:
        values, classes = population.numbers(target), ()
        if not np.isfinite(values).all() or np.ptp(values) == 0:
            raise InputError(f"{target!r} must hold finite numbers that are not all the same.")
    raw = frame[list(population.columns)]
    encoder = column_encoder(raw, population.forms, dense=True)
    features = np.asarray(encoder.fit_transform(raw), dtype=np.float64)
    if not np.isfinite(features).all():
        raise InputError(f"{name} must hold finite numbers in its features.")
    return Examples(
        np.ascontiguousarray(features),
        values,
        kind,
        population.columns,
        classes,
        name,
        encoder,
        population,
        _class_values(population, target, values) if classes else None,
    )


def _class_values(population: Population, target: str, codes: NDArray[Any]) -> NDArray[Any]:
    """Return the classes as the target has them: numbers as numbers, else their names."""
    first = np.unique(codes, return_index=True)[1]
    if population.readings[target].numeric:
        numbers = population.numbers(target)[first]
        whole = np.all(numbers == np.round(numbers)) and np.abs(numbers).max() < 2**53
        return numbers.astype(np.int64) if whole else numbers
    found = population.frame[target].iloc[first].to_numpy().tolist()
    plain = len({type(v) for v in found}) == 1 and isinstance(found[0], (bool, int, float, str))
    return np.array(found if plain else [str(v) for v in found])
