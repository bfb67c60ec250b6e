"""Counting on the engine equals a dictionary over the rows, on every engine and for every unit."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memberbound.errors import InputError
from memberbound.tables.counting import count_pair_profile, count_profile
from memberbound.tables.opening import open_table
from tables import naive
from tables.naive import SHARED, count_cells

NAN = float("nan")
FLOATS = [None, NAN, 0.0, -0.0, 1.5, float("inf"), 1e300, 5e-324]
TEXTS = [None, "", "a", "A", "a ", "é", "e\u0301", "日本", "null", "0"]
INTS = [None, 0, 1, -1, 2**63 - 1, 2**53, 2**53 + 1]
FEW = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))


def pair_dict(pair) -> dict[tuple[int, int], int]:
    keys = zip(pair.train.tolist(), pair.reference.tolist(), strict=True)
    return dict(zip(keys, pair.cells.tolist(), strict=True))


@st.composite
def tables(draw, least: int = 1) -> pa.Table:
    n = draw(st.integers(least, 25))

    def column(values, kind):
        chosen = draw(st.lists(st.sampled_from(values), min_size=n, max_size=n))
        return pa.array(chosen, kind)

    return pa.table(
        {
            "f": column(FLOATS, pa.float64()),
            "t": column(TEXTS, pa.string()),
            "i": column(INTS, pa.int64()),
            "b": column([None, True, False], pa.bool_()),
            "nothing": pa.nulls(n, pa.int32()),
            "who": column([0, 1, 2, 3, 4, 5], pa.int64()),
        }
    )


SUBSETS = st.lists(st.sampled_from(["f", "t", "i", "b", "nothing"]), min_size=1, unique=True)


@FEW
@given(tables(), SUBSETS)
def test_profile_is_that_of_a_dictionary(table, columns):
    assert count_cells(table, columns) == naive.counts_of_counts(naive.rows_of(table, columns))
    profile = count_profile(open_table(table, beside=SHARED), columns)
    assert profile.count.dtype == profile.cells.dtype == np.int64


@FEW
@given(tables(), SUBSETS)
def test_unit_counts_bags_of_rows(table, columns):
    expected = naive.counts_of_counts(naive.bags_of(table, columns, "who"))
    assert count_cells(table, columns, unit="who") == expected


@FEW
@given(tables(), tables(), SUBSETS)
def test_pair_is_that_of_two_dictionaries(train, reference, columns):
    expected = naive.joint_counts(naive.rows_of(train, columns), naive.rows_of(reference, columns))
    one, two = open_table(train, beside=SHARED), open_table(reference, beside=SHARED)
    assert pair_dict(count_pair_profile(one, two, columns)) == expected


def test_the_check_catches_nulls_that_are_dropped_or_merged_and_bags_that_are_sets():
    table = pa.table({"x": [None, None, "", "a"], "who": [1, 1, 2, 3]})
    right = count_cells(table, "x")
    assert right == {1: 2, 2: 1}
    frame = table.to_pandas()
    dropped = frame.groupby("x", dropna=True).size().value_counts().to_dict()
    merged = frame.fillna("").groupby("x").size().value_counts().to_dict()
    assert dropped != right != merged
    # One person with a row twice is not a person with that row once.
    visits = pa.table({"x": ["a", "a", "a"], "who": [1, 1, 2]})
    assert count_cells(visits, unit="who") == {1: 2}


def test_bags_do_not_run_into_one_another():
    # Written without care, the numbers of {1, 12} and {11, 2} would be the same text.
    rows = [(0, v) for v in range(30)] + [(1, 1), (1, 12), (2, 11), (2, 2), (3, 1), (3, 1), (4, 11)]
    table = pa.table({"who": [r[0] for r in rows], "x": [r[1] for r in rows]})
    assert count_cells(table, unit="who") == {1: 5}


def random_table(seed: int, rows: int) -> pa.Table:
    rng = np.random.default_rng(seed)

    def column(values, kind):
        return pa.array([values[i] for i in rng.integers(len(values), size=rows)], kind)

    return pa.table(
        {
            "f": column(FLOATS, pa.float64()),
            "t": column(TEXTS, pa.string()),
            "i": column(INTS, pa.int64()),
            "who": pa.array(rng.integers(rows // 2, size=rows)),
        }
    )


def test_pair_refuses_columns_of_different_kinds():
    text, number = pa.table({"x": ["1"]}), pa.table({"x": [1]})
    with pytest.raises(InputError, match="'x' must have one type in both tables"):
        count_pair_profile(text, number)


def test_pair_takes_widths_dictionaries_and_all_null_columns_as_they_mean():
    one = pa.table(
        {
            "i": pa.array([1, 2], pa.int8()),
            "f": pa.array([0.5, 1.0], pa.float32()),
            "d": pa.array(["a", "b"]).dictionary_encode(),
            "z": pa.nulls(2),
        }
    )
    two = pa.table(
        {
            "i": pa.array([2, 1], pa.int64()),
            "f": pa.array([1.0, 0.5], pa.float64()),
            "d": pa.array(["b", "c"]).dictionary_encode(),
            "z": pa.array([None, None], pa.string()),
        }
    )
    assert pair_dict(count_pair_profile(one, two)) == {(1, 1): 1, (1, 0): 1, (0, 1): 1}
