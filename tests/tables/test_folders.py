"""Folders of Parquet files and data sets of Arrow: the rows of all files, by their names.

Truth: one Parquet file with the same rows; the value of a row's own folder.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset

from memberbound import certify
from memberbound.errors import InputError
from memberbound.tables.opening import open_table
from memberbound.tables.records import read_records

ROWS = pa.table({"age": np.arange(40) % 7, "sex": ["f", "m"] * 20})


def write(folder, **files):
    for name, table in files.items():
        path = folder / name.replace("__", "/").replace("_is_", "=")
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path.with_suffix(".parquet"))
    return folder


def values(source, secret=True):
    with open_table(source, secret=secret) as table:
        return table.rows().to_pydict()


def test_a_folder_is_one_table(tmp_path):
    folder = write(tmp_path / "t", b=ROWS.slice(20), a=ROWS.slice(0, 20))
    (folder / "_metadata.parquet").write_bytes(b"none of the rows")
    assert values(folder) == values(folder, secret=False) == ROWS.to_pydict()
    pq.write_table(ROWS, tmp_path / "whole.parquet")
    assert certify(folder).to_dict() == certify(tmp_path / "whole.parquet").to_dict()


@pytest.mark.parametrize("secret", [False, True])
def test_a_folder_name_is_text_regardless_of_the_others(tmp_path, secret):
    pq.write_to_dataset(ROWS, tmp_path / "t", partition_cols=["age"])
    read = values(tmp_path / "t", secret)
    assert read["age"] == sorted(str(age) for age in ROWS["age"].to_pylist())
    odd = pa.table({"age": [None, "[a]", "x y/z"], "sex": ["f"] * 3})
    pq.write_to_dataset(odd, tmp_path / "t", partition_cols=["age"])
    more = values(tmp_path / "t", secret)
    own = [age for age in more["age"] if age not in (None, "[a]", "x y/z")]
    assert own == read["age"]
    assert len(more["age"]) == 43


def test_a_folder_with_inconsistent_files_is_refused(tmp_path):
    others = [
        ROWS.rename_columns(["age", "gender"]),
        ROWS.set_column(0, "age", ROWS["age"].cast("int32")),
        ROWS.select(["sex", "age"]),
    ]
    for number, other in enumerate(others):
        folder = write(tmp_path / str(number), a=ROWS, b=other)
        with pytest.raises(InputError, match=r"same columns with the same types.*in b\.parquet"):
            values(folder)
    with pytest.raises(InputError, match="same columns"):
        values(write(tmp_path / "deep", a=ROWS, year_is_1__b=ROWS))
    with pytest.raises(InputError, match="same columns"):
        values(write(tmp_path / "twice", age_is_1__b=ROWS))
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="directory without Parquet files"):
        values(tmp_path / "none")


def test_a_data_set_is_read_in_the_order_of_its_files(tmp_path):
    folder = write(tmp_path, b=ROWS.slice(20), a=ROWS.slice(0, 20))
    assert values(dataset.dataset(folder)) == ROWS.to_pydict()
    older = dataset.dataset(folder).filter(dataset.field("age") > 3)
    records = read_records(older)
    assert records.columns["age"].numbers.tolist() == [k % 7 for k in range(40) if k % 7 > 3]
