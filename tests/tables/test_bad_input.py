"""Invalid input is refused in one sentence; unusual but valid input is counted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from memberbound.errors import InputError
from memberbound.tables.counting import count_pair_profile, count_profile
from memberbound.tables.opening import open_table
from oracle.files import stored


def refusal(source, *args, database_table=None, **kwargs) -> str:
    with pytest.raises(InputError) as caught:
        count_profile(open_table(source, database_table), *args, **kwargs)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


def write(path, content: bytes | str):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_files_that_are_not_there(tmp_path):
    assert "does not exist" in refusal(tmp_path / "none.csv")
    assert "is a directory" in refusal(tmp_path)
    assert "does not exist" in refusal("http://example.org/a.csv")
    assert not list(tmp_path.iterdir())


def test_unknown_kinds(tmp_path):
    assert "must end in one of" in refusal(write(tmp_path / "a.ods", "x"))
    assert "must end in one of" in refusal(write(tmp_path / "plain", "x"))
    assert "must end in one of" in refusal(write(tmp_path / "a.parquet.gz", "x"))
    assert "got int" in refusal(5)
    assert "got dict" in refusal({"x": [1]})


def test_broken_files(tmp_path):
    """Other damage is covered in tests/faults."""
    assert "not a Parquet file" in refusal(write(tmp_path / "a.parquet", "no parquet"))
    assert "first Feather format" in refusal(write(tmp_path / "a.feather", b"FEA1...."))
    assert "could not be unpacked" in refusal(write(tmp_path / "a.csv.xz", "x\n1\n"))
    assert "could not be unpacked" in refusal(write(tmp_path / "a.csv.zst", "x\n1\n"))


def test_broken_csv(tmp_path):
    def said(content):
        return refusal(write(tmp_path / "a.csv", content))

    assert "name its columns" in said("")
    assert "name its columns" in said("\n1\n")
    assert "Line: 3" in said("a,b\n1,2\n1,2,3\n")
    assert "Line: 2" in said(b"a,b\n\xff,2,3\n")
    assert "could not be read" in said('a,b\n"1,2\n')
    assert "distinct names" in said("a,A\n1,2\n")
    assert "distinct names" in said("a,a\n1,2\n")


def test_empty_tables(tmp_path):
    empty = "must hold at least one row, got none"
    full, none = pa.table({"x": [1]}), pa.table({"x": pa.array([], pa.int64())})
    assert empty in refusal(write(tmp_path / "a.csv", "a,b\n"))
    assert empty in refusal(stored(none, tmp_path / "a.parquet"))
    assert empty in refusal(np.zeros((0, 3)))
    assert empty in refusal(pa.table({"x": [], "who": []}), unit="who")
    assert "no columns" in refusal(pd.DataFrame(index=[1, 2]))
    assert "no columns" in refusal(np.zeros((3, 0)))
    for pair in ((full, none), (none, full)):
        with pytest.raises(InputError, match=empty):
            count_pair_profile(*pair)


def test_columns():
    table = pa.table({"age": [1, 2], "sex": ["f", "m"]})
    assert "no column 'agee'; did you mean 'age'? It has 'age', 'sex'." in refusal(table, ["agee"])
    assert "no column 'income'; it has 'age', 'sex'." in refusal(table, ["income"])
    assert "no column 'Age'; did you mean 'age'?" in refusal(table, "Age")
    assert "'sex' twice" in refusal(table, ["sex", "age", "sex"])
    assert "at least one column" in refusal(table, [])
    assert "no column 'who'" in refusal(table, unit="who")
    assert "unit must not be among the columns" in refusal(table, ["age", "sex"], unit="sex")
    assert "at least one column" in refusal(pa.table({"who": [1]}), unit="who")
    with pytest.raises(InputError, match="no column 'sex'"):
        count_pair_profile(table, pa.table({"age": [1]}))


def test_units_must_be_known():
    said = refusal(pa.table({"who": [1, None, None], "x": [1, 1, 1]}), unit="who")
    assert "2 rows" in said
    said = refusal(pa.table({"who": [1.0, float("nan")], "x": [1, 1]}), unit="who")
    assert "1 rows" in said or "1 row " in said


def test_databases_need_a_table(tmp_path):
    table = pa.table({"x": [1]})
    path = stored(table, tmp_path / "a.sqlite", "one")
    assert count_profile(path).rows == 1  # the only one
    stored(table, path, "two")
    assert "has 'one', 'two'" in refusal(path)
    assert "no table 'three'; it has 'one', 'two'" in refusal(path, database_table="three")
    plain = stored(table, tmp_path / "a.parquet")
    assert "only a database" in refusal(plain, database_table="one")
    before = path.read_bytes()
    count_profile(open_table(path, "one"))
    assert path.read_bytes() == before


def test_arrays_must_be_flat_tables():
    assert "2-D" in refusal(np.zeros((2, 2, 2)))
    assert "2-D" in refusal(np.zeros((2, 2), dtype=complex))
    assert "2-D" in refusal(np.zeros((2, 2), dtype=object))
    assert "of one type, got bytes and int" in refusal(pd.DataFrame({"x": [1, "a", b"c"]}))
    assert "got object" in refusal(pd.DataFrame({"x": [object()]}))
