"""A table as examples: features, target, and what the target is.

The encoding is fitted on the whole table.  In the subset game the whole population is known to the
attacker, so scales and categories taken from it say nothing about who was drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.learners.encoding import column_encoder, is_number
from memberbound.learners.naming import Task
from memberbound.numerics.rounding import FloatArray
from memberbound.tables.recipe import labels_of
from memberbound.tables.source import open_table

__all__ = ["Examples", "read_examples", "read_frame"]

#: A numeric target with more values than this is a regression target.
_CLASSES = 20


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows of numbers with a target; classes are coded 0, 1, … in the order of ``classes``.

    ``class_values`` are the classes as the target's column has them.
    """

    features: FloatArray
    target: NDArray[Any]
    task: Task
    columns: tuple[str, ...]
    classes: tuple[str, ...] = ()
    name: str = "the table"
    encoder: Any = None
    class_values: NDArray[Any] | None = None

    @property
    def rows(self) -> int:
        """Number of records."""
        return int(self.features.shape[0])


def read_examples(
    source: Any,
    target: str,
    *,
    columns: list[str] | None = None,
    task: Task | None = None,
    database_table: str | None = None,
) -> Examples:
    """Read a table and encode it for learners.

    ``task`` is guessed when left out: a numeric target with more than 20 values is a regression
    target, every other one has classes.
    Edge cases: rows without a target, a target with one value, no feature and no row are refused.
    """
    import pandas as pd

    frame, name = read_frame(source, database_table)
    names = [str(c) for c in frame.columns]
    if target not in names:
        raise InputError(f"{name} has no column {target!r}; it has {', '.join(names)}.")
    chosen = [c for c in names if c != target] if columns is None else list(columns)
    unknown = [c for c in chosen if c not in names or c == target]
    if unknown or not chosen:
        raise InputError(
            f"columns of {name} must be among {', '.join(c for c in names if c != target)}, got "
            f"{unknown or chosen!r}."
        )
    if len(frame) == 0:
        raise InputError(f"{name} must hold at least one row, got none.")
    wanted = frame[target]
    if wanted.isna().any():
        place = int(np.flatnonzero(wanted.isna().to_numpy())[0])
        raise InputError(
            f"{target!r} must be given in every row, got nothing in row {place + 1}. "
            "Drop such rows first."
        )
    kind = task or _guessed(wanted)
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
        values, classes = pd.to_numeric(wanted).to_numpy(dtype=np.float64), ()
        if not np.isfinite(values).all() or np.ptp(values) == 0:
            raise InputError(f"{target!r} must hold finite numbers that are not all the same.")
    encoder = column_encoder(frame[chosen], dense=True)
    features = np.asarray(encoder.fit_transform(frame[chosen]), dtype=np.float64)
    if not np.isfinite(features).all():
        raise InputError(f"{name} must hold finite numbers in its features.")
    return Examples(
        np.ascontiguousarray(features),
        values,
        kind,
        tuple(chosen),
        classes,
        name,
        encoder,
        _class_values(wanted, values, classes) if classes else None,
    )


def read_frame(source: Any, database_table: str | None = None) -> tuple[Any, str]:
    """Return a table as pandas reads it, numbers as numbers, and its name."""
    import pandas as pd

    if isinstance(source, pd.DataFrame):
        return source, "the table"
    with open_table(source, database_table) as opened:
        numbers = opened.with_numbers()
        return numbers.fetch(numbers.expr, "reading rows").to_pandas(), opened.name


def _class_values(target: Any, codes: NDArray[Any], names: tuple[str, ...]) -> NDArray[Any]:
    """Return the classes as the target has them where they are plain, else their names."""
    first = np.unique(codes, return_index=True)[1]
    found = target.iloc[first].to_numpy().tolist()
    plain = len({type(v) for v in found}) == 1 and isinstance(found[0], (bool, int, float, str))
    return np.array(found if plain else names)


def _guessed(target: Any) -> Task:
    if not is_number(target):
        return "classification"
    return "regression" if target.nunique() > _CLASSES else "classification"
