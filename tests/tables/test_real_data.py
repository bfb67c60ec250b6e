"""Real tables, counted by the engine and by a dictionary."""

from __future__ import annotations

import csv
import gzip
import lzma
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from memberbound.tables.counting import count_pair_profile, count_profile
from memberbound.tables.table import open_table
from tables import naive, real_data


def cells(path: Path, columns: Sequence[str] | None) -> list[tuple[str, ...]]:
    """The rows as Python reads them, of these columns only."""
    opened = gzip.open if path.suffix == ".gz" else lzma.open
    with opened(path, "rt", encoding="utf-8", newline="") as stream:
        rows = csv.reader(stream)
        names = next(rows)
        places = [names.index(name) for name in columns or names]
        return [tuple([row[place] for place in places]) for row in rows]


def as_dict(profile) -> dict[int, int]:
    return dict(zip(profile.count.tolist(), profile.cells.tolist(), strict=True))


@pytest.mark.parametrize(
    ("file", "columns"),
    [
        (real_data.ADULT, real_data.ADULT_FOUR),
        (real_data.ACS_2019, None),
    ],
)
def test_profiles(file, columns):
    path = real_data.real_file(file)
    expected = naive.counts_of_counts(cells(path, columns))
    assert as_dict(count_profile(path, columns)) == expected


def test_acs_2018_is_a_reference_for_2019():
    train = real_data.real_file(real_data.ACS_2019)
    reference = real_data.real_file(real_data.ACS_2018)
    pair = count_pair_profile(train, reference, real_data.ACS_COLUMNS)
    sides = [cells(path, real_data.ACS_COLUMNS) for path in (train, reference)]
    keys = zip(pair.train.tolist(), pair.reference.tolist(), strict=True)
    assert dict(zip(keys, pair.cells.tolist(), strict=True)) == naive.joint_counts(*sides)


def test_diabetes_by_stay_and_by_patient():
    path = real_data.real_file(real_data.DIABETES)
    columns, unit = real_data.DIABETES_COLUMNS, real_data.DIABETES_UNIT
    rows = cells(path, [*columns, unit])
    bags: dict[str, Counter[tuple[str, ...]]] = {}
    for *row, who in rows:
        bags.setdefault(who, Counter())[tuple(row)] += 1
    with open_table(path) as table:
        stays = count_profile(table, columns)
        patients = count_profile(table, columns, unit=unit)
    assert as_dict(stays) == naive.counts_of_counts(row[:-1] for row in rows)
    assert as_dict(patients) == naive.counts_of_counts(frozenset(b.items()) for b in bags.values())
    assert (stays.rows, patients.rows) == (101766, 71518)
