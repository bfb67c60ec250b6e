"""Columns as features: scaled numbers and dates, indicators for all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from memberbound.numerics.rounding import FloatArray
from memberbound.tables.recipe import labels_of
from memberbound.tables.roles import numbers_from

__all__ = [
    "as_numbers",
    "as_texts",
    "column_encoder",
    "is_number",
    "known_values",
    "parsed_numbers",
]

#: Categories of one column that get an indicator of their own.
_CATEGORIES = 50


def is_number(series: Any) -> bool:
    """Tell whether a column is typed as numbers, truth values excepted."""
    from pandas.api import types

    return bool(types.is_numeric_dtype(series)) and not bool(types.is_bool_dtype(series))


def column_encoder(table: Any, forms: Mapping[str, str], *, dense: bool = False) -> Any:
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
        handle_unknown="infrequent_if_exist",
        max_categories=_CATEGORIES,
        sparse_output=not dense,
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
        sparse_threshold=0.0 if dense else 0.3,
    )


def parsed_numbers(encoder: Any, table: Any) -> dict[str, FloatArray]:
    """Return the columns that a fitted encoder takes for numbers, NaN where a value is none."""
    names = list(encoder.transformers_[0][2])
    if not names:
        return {}
    found = encoder.named_transformers_["numbers"][0].transform(table[names])
    return {name: found[name].to_numpy(dtype=np.float64) for name in names}


def known_values(encoder: Any) -> dict[str, frozenset[str]]:
    """Return the values that a fitted encoder saw in every other column, as texts."""
    names = list(encoder.transformers_[1][2])
    if not names:
        return {}
    seen = encoder.named_transformers_["others"][-1].categories_
    return {name: frozenset(map(str, values)) for name, values in zip(names, seen, strict=True)}


def as_numbers(table: Any, forms: Mapping[str, str]) -> Any:
    """Return every value as a number, NaN where it is none."""
    columns = {name: numbers_from(table[name], forms[name]) for name in table.columns}
    return type(table)(columns, index=table.index)


def as_texts(table: Any) -> Any:
    """Return every value as text, missing ones included: encoders refuse mixed columns."""
    columns = {}
    for name in table.columns:
        codes, names = labels_of(table[name])
        columns[name] = np.array(names, dtype=object)[codes]
    return type(table)(columns, index=table.index)
