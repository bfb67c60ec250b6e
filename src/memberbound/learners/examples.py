"""Tables encoded as examples for learners, and encoding of new rows for a fitted model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.learners.learner import Labels, Task
from memberbound.learners.raw_rows import as_columns, check_columns, list_names
from memberbound.numerics.rounding import FloatArray
from memberbound.tables.cells import MISSING
from memberbound.tables.columns import read_column
from memberbound.tables.opening import use_table
from memberbound.tables.public_rows import read_population
from memberbound.tables.recipe import labels_of
from memberbound.tables.roles import Roles
from memberbound.tables.selection import Selection
from memberbound.tables.table import Columns, Table

if TYPE_CHECKING:
    from pandas import DataFrame
    from sklearn.compose import ColumnTransformer

# ── Columns as features: scaled numbers and dates, indicators for all others ──────────────────────

#: Maximum number of categories per column with their own indicator.
_CATEGORIES = 50


def column_encoder(table: DataFrame, forms: Mapping[str, str]) -> ColumnTransformer:
    """Return a column transformer for a pandas table of raw values.

    ``forms`` maps the columns of numbers or dates to their notation (see
    :mod:`memberbound.tables.roles`).  These are parsed, imputed with their mean and standardised.
    In all other columns, each of the 50 most frequent values (missing counts as a value) gets an
    indicator, and the rest share one.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

    numbers = [c for c in table.columns if c in forms]
    others = [c for c in table.columns if c not in forms]
    indicators = OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=_CATEGORIES, sparse_output=False
    )
    parse = FunctionTransformer(as_numbers, kw_args={"forms": {c: forms[c] for c in numbers}})
    return ColumnTransformer(
        [
            (
                "numbers",
                make_pipeline(parse, SimpleImputer(keep_empty_features=True), StandardScaler()),
                numbers,
            ),
            ("others", make_pipeline(FunctionTransformer(as_texts), indicators), others),
        ],
        sparse_threshold=0.0,
    )


def as_numbers(table: DataFrame, forms: Mapping[str, str]) -> DataFrame:
    """Parse every value as a number; NaN if it is not one."""
    columns = {name: read_column(table[name], forms[name]).numbers for name in table.columns}
    return type(table)(columns, index=table.index)


def as_texts(table: DataFrame) -> DataFrame:
    """Convert every value, even a missing one, to text, because encoders reject mixed columns."""
    columns = {}
    for name in table.columns:
        codes, names = labels_of(table[name])
        columns[name] = np.array(names, dtype=object)[codes]
    return type(table)(columns, index=table.index)


# ── A population as examples: features, target and task ───────────────────────────────────────────
#
# The encoding is fitted on the whole table.  In the subset game the attacker knows the whole
# population, so scales and categories fitted on it reveal nothing about the sampled subset.

#: A numeric target with more distinct values than this is a regression target.
_CLASSES = 20


@dataclass(frozen=True, eq=False)
class Examples:
    """Numeric rows with a target; classes are coded 0, 1, … in the order of ``classes``.

    ``encoder`` maps raw rows to features, parsing numbers and dates; ``selection`` lists the
    columns of the table in use; ``class_values`` are the classes as stored in the target column.
    """

    features: FloatArray
    target: Labels
    task: Task
    columns: tuple[str, ...]
    classes: tuple[str, ...] = ()
    encoder: ColumnTransformer | None = None
    selection: Selection = field(default_factory=Selection)
    class_values: Labels | None = None

    @property
    def rows(self) -> int:
        """Number of records."""
        return int(self.features.shape[0])

    def take(self, rows: NDArray[np.intp]) -> Examples:
        """Return some of the records, with the same encoding."""
        return replace(self, features=self.features[rows], target=self.target[rows])


def read_examples(
    source: object,
    target: str,
    *,
    columns: Columns = None,
    roles: Roles = None,
    task: Task | None = None,
    database_table: str | None = None,
    encoding: str | None = None,
    unit: str | None = None,
) -> Examples:
    """Read a table and encode it for learners (:func:`examples_of`); an open table is cached."""
    with use_table(source, database_table, encoding=encoding) as table:
        names = columns if columns is None or isinstance(columns, str) else tuple(columns)
        key = ("examples", target, names, repr(roles), task, unit)
        if key not in table.made:
            rows, chosen = read_population(table, columns, roles=roles, target=target, unit=unit)
            table.made[key] = examples_of(rows, chosen, target, task)
        return cast("Examples", table.made[key])


def examples_of(
    table: Table, selection: Selection, target: str, task: Task | None = None
) -> Examples:
    """Encode the rows of a public table (:func:`memberbound.tables.public_rows.read_population`).

    By default, infer ``task``: a numeric target with more than 20 values is a regression target,
    any other target has classes.
    Edge cases: rows without a target, a constant target and an empty table are rejected.
    """
    frame, name, readings = table.frame, table.name, selection.readings
    if len(frame) == 0:
        raise InputError(f"{name} must hold at least one row, got none.")
    wanted = frame[target]
    if wanted.isna().any():
        index = int(np.flatnonzero(wanted.isna().to_numpy())[0])
        raise InputError(
            f"{target!r} must have a value in every row, got none in row {index + 1}. "
            "Drop such rows first."
        )
    number = readings[target].numeric
    kind = task or ("regression" if number and wanted.nunique() > _CLASSES else "classification")
    if kind == "classification":
        codes, labels = labels_of(wanted)
        classes = tuple(sorted(labels[code] for code in np.unique(codes)))
        indices = {name: index for index, name in enumerate(classes)}
        values: Labels = np.array([indices.get(label, -1) for label in labels])[codes]
        if len(classes) < 2:
            raise InputError(f"{target!r} must have at least two classes, got {classes[0]!r} only.")
    else:
        values, classes = table.numbers(target), ()
        if not np.isfinite(values).all() or np.ptp(values) == 0:
            raise InputError(f"{target!r} must hold finite numbers that are not all equal.")
    raw = frame[list(selection.columns)]
    forms = {c: readings[c].form for c in selection.columns if readings[c].numeric}
    encoder = column_encoder(raw, forms)
    features = np.asarray(encoder.fit_transform(raw), dtype=np.float64)
    if not np.isfinite(features).all():
        raise InputError(f"{name} must hold finite numbers in its features.")
    return Examples(
        np.ascontiguousarray(features),
        values,
        kind,
        selection.columns,
        classes,
        encoder,
        selection,
        _class_values(table, target, values, number=number) if classes else None,
    )


def _class_values(table: Table, target: str, codes: Labels, *, number: bool) -> Labels:
    """Return the classes as stored in the target: numbers if numeric, else names."""
    first = np.unique(codes, return_index=True)[1]
    if number:
        numbers = table.numbers(target)[first]
        whole = np.all(numbers == np.round(numbers)) and np.abs(numbers).max() < 2**53
        return numbers.astype(np.int64) if whole else numbers
    values = table.frame[target].iloc[first].to_numpy().tolist()
    plain = len({type(v) for v in values}) == 1 and isinstance(values[0], (bool, int, float, str))
    return np.array(values if plain else [str(v) for v in values])


# ── New rows for a model, encoded like the population ─────────────────────────────────────────────


def encode_rows(
    encoder: ColumnTransformer,
    columns: tuple[str, ...],
    source: object,
    *,
    ignore: str | None = None,
    database_table: str | None = None,
    encoding: str | None = None,
    strict: bool = False,
) -> tuple[FloatArray, tuple[str, ...]]:
    """Encode new rows like the population; return features and notices.

    Rows may be any source that verbs accept, a mapping of names to values, or an array in column
    order.  Missing numbers are imputed with the population's mean, and missing categories form a
    category of their own; an unseen category counts as the rare one, or sets no indicator if there
    was no rare one.

    Edge cases: missing columns, empty input, and text or infinity in a numeric column are rejected;
    with ``strict``, new categories too.
    """
    import pandas as pd

    named = as_columns(source)
    if isinstance(source, np.ndarray) and source.ndim == 2 and source.shape[1] == len(columns):
        frame, name = pd.DataFrame(source, columns=list(columns)), "the array"
    elif named is not None or isinstance(source, pd.DataFrame):
        frame, name = (source if named is None else pd.DataFrame(named)), "the table"
    else:
        with use_table(source, database_table, encoding=encoding) as table:
            frame, name = table.frame, table.name
    names = [str(c) for c in frame.columns]
    notes = list(check_columns(columns, names, len(frame), name, ignore))
    frame = frame.set_axis(names, axis=1)[list(columns)].reset_index(drop=True)
    numbers, others = (list(encoder.transformers_[index][2]) for index in (0, 1))
    forms = encoder.named_transformers_["numbers"][0].kw_args["forms"] if numbers else {}
    for column in numbers:
        values = read_column(frame[column], forms[column]).numbers
        absent = read_column(frame[column]).absent
        wrong = ~np.isfinite(values) & ~absent
        if wrong.any():
            index = int(np.flatnonzero(wrong)[0])
            value = frame[column].iloc[[index]].tolist()[0]
            raise InputError(
                f"{column!r} of {name} must hold numbers or dates, as in training, got {value!r} "
                f"in row {index + 1}. Leave a missing value empty."
            )
        if absent.any():
            notes.append(
                f"{column!r} is missing in {_rows(absent)}: replaced by the mean of the table that "
                "the model was trained on"
            )
    seen = encoder.named_transformers_["others"][-1].categories_ if others else []
    for column, categories in zip(others, seen, strict=True):
        codes, labels = labels_of(frame[column])
        known = set(map(str, categories))
        new = np.array([label not in known for label in labels])[codes]
        if new.any():
            words = dict.fromkeys(np.array(labels, dtype=object)[codes][new].tolist())
            shown = list_names(["a missing value" if n == MISSING else repr(n) for n in words])
            note = (
                f"{column!r} holds in {_rows(new)} what the table that the model was trained on "
                f"never had ({shown})"
            )
            if strict:
                raise InputError(f"{note}. Without strict it counts as a rare category.")
            notes.append(f"{note}: it counts as a rare category")
    rows = np.asarray(encoder.transform(frame), dtype=np.float64)
    return np.ascontiguousarray(rows), tuple(notes)


def _rows(which: NDArray[np.bool_]) -> str:
    count = int(which.sum())
    return f"{count} row{'' if count == 1 else 's'}"
