"""The table written with a value per row."""

from __future__ import annotations

from collections import Counter

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from memberbound.errors import InputError, MemberboundError
from memberbound.tables.counting import count_profile, write_records
from tables import naive
from tables.test_counting import random_table

KEYS = ["f", "t"]
NAME = "record_leak_upper"


def values_for(table: pa.Table, columns=KEYS, **unit) -> dict[int, float]:
    return {int(c): 1 / int(c) for c in count_profile(table, columns, **unit).count}


def expected_values(table: pa.Table, columns=KEYS) -> list[float]:
    rows = naive.rows_of(table, columns)
    count = Counter(rows)
    return [1 / count[row] for row in rows]


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".csv.gz"])
def test_rows_are_written_in_order_with_their_value(tmp_path, ending):
    table = random_table(13, 5000)
    out = tmp_path / f"o'ut{ending}"
    assert write_records(table, KEYS, values_for(table), out) == 5000
    if ending == ".parquet":
        back = pq.read_table(out)
        kept = back.select(table.column_names)
        names = table.column_names
        assert naive.rows_of(kept, names) == naive.rows_of(table, names)
        assert back.schema.field("i").type == pa.int64()
    else:
        back = duckdb.read_csv(str(out), dtype={NAME: "DOUBLE"}).to_arrow_table()
    assert back.column_names == [*table.column_names, NAME]
    assert back.column(NAME).to_pylist() == expected_values(table)
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_all_rows_of_a_person_have_that_persons_value(tmp_path):
    table, out = random_table(13, 500), tmp_path / "out.parquet"
    write_records(table, KEYS, values_for(table, unit="who"), out, unit="who")
    whose = table.column("who").to_pylist()
    bags = dict(zip(dict.fromkeys(whose), naive.bags_of(table, KEYS, "who"), strict=True))
    alike = Counter(bags.values())
    assert len(set(alike.values())) > 1
    assert pq.read_table(out).column(NAME).to_pylist() == [1 / alike[bags[who]] for who in whose]


def test_an_existing_file_is_kept_without_force(tmp_path):
    table, out = pa.table({"x": [1, 1]}), tmp_path / "a.csv"
    out.write_text("precious")
    with pytest.raises(InputError, match="must not exist yet"):
        write_records(table, None, {2: 0.5}, out)
    assert out.read_text() == "precious"
    write_records(table, None, {2: 0.5}, out, overwrite=True)
    assert out.read_text() == f"x,{NAME}\n1,0.5\n1,0.5\n"


def test_a_failed_write_leaves_no_files(tmp_path):
    table, out = pa.table({"x": [1, 1, 2]}), tmp_path / "a.parquet"
    with pytest.raises(MemberboundError, match="every row once"):
        write_records(table, None, {2: 0.5}, out)  # no leak for the other count
    # A value the engine only meets while it is writing.
    (tmp_path / "in.csv").write_text("x,y\n" + "1,2\n" * 50_000 + "1,2,3\n")
    with pytest.raises(InputError, match="could not be read"):
        write_records(tmp_path / "in.csv", ["x"], {50_000: 0.5}, out)
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


@pytest.mark.parametrize(
    ("out", "options", "message"),
    [
        ("a.txt", {}, "must end in"),
        ("missing/a.csv", {}, "existing folder"),
        ("self.parquet", {"overwrite": True}, "must differ from the table"),
    ],
)
def test_unusable_targets(tmp_path, out, options, message):
    source = tmp_path / "self.parquet"
    pq.write_table(pa.table({"x": [1]}), source)
    before = source.read_bytes()
    with pytest.raises(InputError, match=message):
        write_records(source, None, {1: 1.0}, tmp_path / out, **options)
    assert source.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1
