"""Tables as examples to fit learners on, and rows that a model has not seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.learners.learner import Labels, Task
from memberbound.numerics.rounding import FloatArray
from memberbound.tables.columns import NumberValues, Values
from memberbound.tables.public_rows import read_population
from memberbound.tables.recipe import MISSING, labels_of
from memberbound.tables.records import Records, read_records
from memberbound.tables.roles import Roles, Selection
from memberbound.tables.spelling import Form
from memberbound.tables.table import Columns, Table, opened_table

if TYPE_CHECKING:
    from pandas import DataFrame
    from sklearn.compose import ColumnTransformer

# ── Columns as features: scaled numbers and dates, indicators for all others ──────────────────────

#: Categories of one column that get an indicator of their own.
_CATEGORIES = 50


def column_encoder(table: DataFrame, forms: Mapping[str, str]) -> ColumnTransformer:
    """Return a transformer for the columns of a pandas table, as they are written.

    ``forms`` names the columns that are numbers or dates, and how their values are written (see
    :mod:`memberbound.tables.roles`).  They are parsed, filled with their mean and standardised; of
    the others the 50 most frequent values get an indicator each (missing is a value), the rest one
    together.
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
    """Return every value as a number, NaN where it is none."""
    columns = {name: Values.of(table[name], forms[name]).numbers for name in table.columns}
    return type(table)(columns, index=table.index)


def as_texts(table: DataFrame) -> DataFrame:
    """Return every value as text, missing ones included: encoders refuse mixed columns."""
    columns = {}
    for name in table.columns:
        codes, names = labels_of(table[name])
        columns[name] = np.array(names, dtype=object)[codes]
    return type(table)(columns, index=table.index)


# ── A population as examples: features, target, and what the target is ────────────────────────────
#
# The encoding is fitted on the whole table.  In the subset game the whole population is known to
# the attacker, so scales and categories taken from it say nothing about who was drawn.

#: A numeric target with more values than this is a regression target.
_CLASSES = 20


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows of numbers with a target; classes are coded 0, 1, … in the order of ``classes``.

    ``encoder`` makes the features of raw rows: it parses numbers and dates as they are written;
    ``selection`` says which columns of a table were used; ``class_values`` are the classes as the
    target's column has them.
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
        """Return some of the records, encoded as all of them are."""
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
    """Read a table and encode it for learners (:func:`examples_of`), an open one once."""
    with opened_table(source, database_table, encoding=encoding) as table:
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

    ``task`` is guessed when left out: a numeric target with more than 20 values is a regression
    target, every other one has classes.
    Edge cases: rows without a target, a target with one value and no row are refused.
    """
    frame, name, readings = table.frame, table.name, selection.readings
    if len(frame) == 0:
        raise InputError(f"{name} must hold at least one row, got none.")
    wanted = frame[target]
    if wanted.isna().any():
        place = int(np.flatnonzero(wanted.isna().to_numpy())[0])
        raise InputError(
            f"{target!r} must have a value in every row, got none in row {place + 1}. "
            "Drop such rows first."
        )
    number = readings[target].numeric
    kind = task or ("regression" if number and wanted.nunique() > _CLASSES else "classification")
    if kind == "classification":
        codes, labels = labels_of(wanted)
        classes = tuple(sorted(labels[code] for code in np.unique(codes)))
        places = {name: place for place, name in enumerate(classes)}
        values: Labels = np.array([places.get(label, -1) for label in labels])[codes]
        if len(classes) < 2:
            raise InputError(f"{target!r} must have at least two classes, got {classes[0]!r} only.")
    else:
        values, classes = table.numbers(target), ()
        if not np.isfinite(values).all() or np.ptp(values) == 0:
            raise InputError(f"{target!r} must hold finite numbers that are not all the same.")
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
    """Return the classes as the target has them: numbers as numbers, else their names."""
    first = np.unique(codes, return_index=True)[1]
    if number:
        numbers = table.numbers(target)[first]
        whole = np.all(numbers == np.round(numbers)) and np.abs(numbers).max() < 2**53
        return numbers.astype(np.int64) if whole else numbers
    values = table.frame[target].iloc[first].to_numpy().tolist()
    plain = len({type(v) for v in values}) == 1 and isinstance(values[0], (bool, int, float, str))
    return np.array(values if plain else [str(v) for v in values])


# ── Rows that a model has not seen: the columns of its table, encoded as the population's were ────
#
# What is asked for is what was there in training: columns by name in any order.  Whatever could
# make the answer silently wrong (a column that is missing, text where numbers were) is one
# sentence; what has an answer all the same (further columns, missing values, new categories) is a
# notice.

#: Names listed in a notice before "and … more".
_LISTED = 5


def named_rows(source: object) -> dict[str, list[object]] | None:
    """Return columns of rows that carry their names: a mapping, a series, a list of mappings."""
    if hasattr(source, "to_dict") and not hasattr(source, "columns"):  # a row of pandas
        source = source.to_dict()
    if isinstance(source, Mapping):
        several = [isinstance(value, list | tuple | np.ndarray) for value in source.values()]
        if any(several) and not all(several):
            raise InputError("a mapping must hold one value per column, or a list per column.")
        columns = {
            str(name): list(value) if any(several) else [value] for name, value in source.items()
        }
        if len({len(values) for values in columns.values()}) != 1:
            raise InputError("a mapping must hold columns of equal length, and at least one.")
        return columns
    if isinstance(source, list) and source and all(isinstance(row, Mapping) for row in source):
        names = dict.fromkeys(name for row in source for name in row)
        return {str(name): [row.get(name) for row in source] for name in names}
    return None


def raw_records(
    source: object,
    columns: tuple[str, ...],
    forms: Mapping[str, Form],
    *,
    ignore: str | None = None,
    database_table: str | None = None,
    encoding: str | None = None,
    strict: bool = False,
) -> tuple[Records, tuple[str, ...]]:
    """Return these columns of a table as the model of secret rows reads them, and notices.

    A column that the table does not have is one of missing values, unless it is ``strict``; it must
    have at least one.
    """
    named = named_rows(source)
    if isinstance(source, np.ndarray) and source.shape in ((len(columns),), (1, len(columns))):
        named = dict(zip(columns, source.reshape(-1, 1).tolist(), strict=True))
    elif isinstance(source, np.ndarray) and source.ndim == 2 and source.shape[1] == len(columns):
        # An array without names is taken in the columns' order.
        named = dict(zip(columns, source.T, strict=True))
    if named is None:
        records = read_records(source, forms, database_table=database_table, encoding=encoding)
    else:
        values: dict[str, Values] = {
            n: Values.of(named[n], forms.get(n, "any")) for n in columns if n in named
        }
        values |= dict.fromkeys(named.keys() - values.keys(), NumberValues(np.zeros(0)))
        records = Records(values, len(next(iter(named.values()))), "the table")
    names = list(records.columns)
    present = tuple(name for name in columns if name in names)
    needed = columns if strict or not present else present
    notices = _checked_rows(needed, names, records.rows, records.name, ignore)
    absent = [name for name in columns if name not in present]
    if absent:
        notices += (f"missing columns count as missing values: {_listed(absent)}",)
        gap = NumberValues(np.zeros(records.rows), np.ones(records.rows, dtype=bool))
        records = replace(records, columns={**records.columns, **dict.fromkeys(absent, gap)})
    return records.select(columns), notices


def _checked_rows(
    columns: tuple[str, ...], names: list[str], rows: int, name: str, ignore: str | None
) -> tuple[str, ...]:
    """Refuse a table without the columns that a model takes; return what is said of the others."""
    missing = [c for c in columns if c not in names]
    if missing:
        raise InputError(
            f"{name} must have every column that the model takes; {_listed(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing. It has {_listed(names)}."
        )
    twice = [c for c in columns if names.count(c) > 1]
    if twice:
        raise InputError(f"{name} must have each column once, got {twice[0]!r} twice.")
    if rows == 0:
        raise InputError(f"{name} must hold at least one row, got none.")
    extra = [c for c in names if c not in columns and c != ignore]
    if not extra:
        return ()
    return (f"columns that the model does not know are ignored: {_listed(extra)}",)


def encoded_rows(
    encoder: ColumnTransformer,
    columns: tuple[str, ...],
    source: object,
    *,
    ignore: str | None = None,
    database_table: str | None = None,
    encoding: str | None = None,
    strict: bool = False,
) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the features of further rows, encoded as the population's were, and notices.

    Rows come as every verb takes them, as a mapping of names to values, or as an array in the
    columns' order.  Missing numbers count as the population's mean, missing categories as a
    category; a category that the population never had counts as a rare one, or as none where there
    were no rare ones.

    Edge cases: a missing column, no row, and text or infinity in a column of numbers are refused,
    with ``strict`` new categories too.
    """
    import pandas as pd

    named = named_rows(source)
    if isinstance(source, np.ndarray) and source.ndim == 2 and source.shape[1] == len(columns):
        frame, name = pd.DataFrame(source, columns=list(columns)), "the array"
    elif named is not None or isinstance(source, pd.DataFrame):
        frame, name = (source if named is None else pd.DataFrame(named)), "the table"
    else:
        with opened_table(source, database_table, encoding=encoding) as table:
            frame, name = table.frame, table.name
    names = [str(c) for c in frame.columns]
    notes = list(_checked_rows(columns, names, len(frame), name, ignore))
    frame = frame.set_axis(names, axis=1)[list(columns)].reset_index(drop=True)
    numbers, others = (list(encoder.transformers_[place][2]) for place in (0, 1))
    forms = encoder.named_transformers_["numbers"][0].kw_args["forms"] if numbers else {}
    for column in numbers:
        values = Values.of(frame[column], forms[column]).numbers
        absent = Values.of(frame[column]).absent
        wrong = ~np.isfinite(values) & ~absent
        if wrong.any():
            place = int(np.flatnonzero(wrong)[0])
            value = frame[column].iloc[[place]].tolist()[0]
            raise InputError(
                f"{column!r} of {name} must hold numbers or dates, as in training, got {value!r} "
                f"in row {place + 1}. Leave a missing value empty."
            )
        if absent.any():
            notes.append(
                f"{column!r} is missing in {_rows(absent)}: the mean of the table that the model "
                "was trained on stands in"
            )
    seen = encoder.named_transformers_["others"][-1].categories_ if others else []
    for column, categories in zip(others, seen, strict=True):
        codes, labels = labels_of(frame[column])
        known = set(map(str, categories))
        new = np.array([label not in known for label in labels])[codes]
        if new.any():
            words = dict.fromkeys(np.array(labels, dtype=object)[codes][new].tolist())
            shown = _listed(["a missing value" if n == MISSING else repr(n) for n in words])
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


def _listed(names: list[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")
