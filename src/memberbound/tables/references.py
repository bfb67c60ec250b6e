"""Reject a reference that is the table itself, and count shared rows."""

from __future__ import annotations

import filecmp
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from memberbound.errors import InputError
from memberbound.iid.overlap import Overlap
from memberbound.iid.profiles import JointProfile
from memberbound.quantities import significant
from memberbound.tables.counting import comparable_columns, count_pair_profile
from memberbound.tables.table import Table

if TYPE_CHECKING:
    from pandas import DataFrame

_REMEDY = "Give independent rows that were not used for training."


def reference_notes(
    table: Table, reference: Table, columns: Sequence[str], joint: JointProfile
) -> tuple[str, ...]:
    """Return a note about rows shared by a table and its reference; reject identical rows.

    Rows are compared in ``columns``, with counts ``joint``, and in all columns of both tables.  The
    first comparison detects a renumbered reference, the second one works if the counted columns are
    coarse.

    Guarantee: independent samples are rejected with probability at most about 1e-3, for any
    distribution (:mod:`memberbound.iid.overlap`).
    Edge cases: the same file, or a copy of it, is always rejected.
    """
    if _same_file(table, reference):
        raise InputError(
            f"reference must hold other rows than {table.name}, got the same file. {_REMEDY}"
        )
    wide = comparable_columns(table, reference)
    compared = [joint]
    if not set(wide) <= set(columns):
        compared.insert(0, JointProfile(*count_pair_profile(table, reference, wide)))
    overlaps = [Overlap.of(each) for each in compared]
    for overlap in overlaps:
        if overlap.refused:
            raise InputError(_refusal(overlap, table, reference))
    return tuple(_note(overlap) for overlap in overlaps if overlap.noted)[:1]


def rows_in_common(rows: DataFrame, reference: DataFrame) -> JointProfile:
    """Return the joint counts of two tables in memory, by a hash of each row.

    Numbers of all types are compared as numbers, and everything else as text, so that a row is
    found in another file format.  Hash collisions are too rare to matter here.
    """
    import pandas as pd
    from pandas.api import types

    plain: list[dict[str, object]] = [{}, {}]
    for name in rows.columns:
        for side, frame in zip(plain, (rows, reference), strict=True):
            number = types.is_numeric_dtype(frame[name]) and not types.is_bool_dtype(frame[name])
            side[name] = frame[name].astype("float64" if number else str).to_numpy()
    codes = [np.asarray(pd.util.hash_pandas_object(pd.DataFrame(s), index=False)) for s in plain]
    _, index = np.unique(np.concatenate(codes), return_inverse=True)
    here, there = index[: len(rows)], index[len(rows) :]
    size = int(index.max()) + 1
    return JointProfile.from_counts(
        np.bincount(here, minlength=size), np.bincount(there, minlength=size)
    )


def _same_file(table: Table, reference: Table) -> bool:
    one, two = table.path, reference.path
    if one is None or two is None:
        return table is reference
    if not (one.is_file() and two.is_file()):
        return one.resolve() == two.resolve()
    return one.samefile(two) or (
        one.stat().st_size == two.stat().st_size and filecmp.cmp(one, two, shallow=False)
    )


def _refusal(overlap: Overlap, table: Table, reference: Table) -> str:
    if overlap.identical is not None:
        return (
            f"reference must hold other rows than {table.name}, got the same {overlap.rows} rows "
            f"in {reference.name}. {_REMEDY}"
        )
    return (
        f"reference must hold other rows than {table.name}, got {overlap.shared} of "
        f"{overlap.reference_rows} rows that equal one of its {overlap.rows} "
        f"(≈ {significant(overlap.expected, 'estimate', 3)} expected of independent rows). "
        f"{_REMEDY}"
    )


def _note(overlap: Overlap) -> str:
    expected = significant(overlap.expected, "estimate", 3)
    return (
        f"{overlap.shared} of {overlap.reference_rows} reference rows equal a row of the table "
        f"(≈ {expected} expected of independent rows with as many repetitions); the certificate "
        "holds only if no record is in both: give independent rows that were not used for training"
    )
