"""New rows as a sheet of Excel."""

import datetime as dt
import sys

import numpy as np
import pandas as pd
import pytest

import memberbound
from memberbound.errors import InputError
from memberbound.tables import frame_files

pytest.importorskip("openpyxl")
FRAME = pd.DataFrame(
    {
        "=name": ["=1+1", "-x", None, "plain\x01"],
        "number": [1.5, np.nan, 3.0, 1e300],
        "whole": np.array([1, 2, 3, 2**40]),
        "flag": [True, False, True, True],
        "day": pd.to_datetime(["2020-01-01", None, "2021-05-06", "1999-12-31"]),
    }
)


def test_a_sheet_holds_the_values_and_no_formula(tmp_path):
    from openpyxl import load_workbook

    path = tmp_path / "rows.xlsx"
    frame_files.table_writer(FRAME, path)(path)
    [names, *rows] = load_workbook(path)["rows"].iter_rows()
    assert [cell.value for cell in names] == list(FRAME.columns)
    assert {cell.data_type for row in (names, *rows) for cell in row} <= {"s", "n", "b", "d"}
    assert [row[0].value for row in rows] == ["=1+1", "-x", None, "plain"]
    assert [row[1].value for row in rows] == [1.5, None, 3, 1e300]
    assert [row[2].value for row in rows] == [1, 2, 3, 2**40]
    assert rows[2][4].value == dt.datetime(2021, 5, 6)


def test_a_sheet_that_cannot_be_written_is_refused_before_anything_is_spent(tmp_path, monkeypatch):
    book = tmp_path / "book.json"
    memberbound.ledger(book, limit_eta=0.1)
    people = pd.DataFrame({"age": np.arange(4000) % 80})
    asked = {"out": tmp_path / "rows.xlsx", "ledger": book, "no_fidelity": True}
    with monkeypatch.context() as patch:
        patch.setattr(frame_files, "_SHEET_ROWS", 4000)
        with pytest.raises(InputError, match="a sheet holds at most 3999"):
            memberbound.synthesize(people, **asked)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(InputError, match="needs openpyxl"):
        memberbound.synthesize(people, **asked)
    assert memberbound.ledger(book).releases == ()


def test_synthesize_writes_a_sheet_that_can_be_read_and_verified(tmp_path):
    ages = np.arange(4000) % 80
    people = pd.DataFrame({"age": ages, "ill": np.where(ages > 40, "yes", "no")})
    out = tmp_path / "new.xlsx"
    answer = memberbound.synthesize(people, out=out, no_fidelity=True, insecure_seed=1)
    back = pd.read_excel(out)
    pd.testing.assert_frame_equal(back, answer.table, check_dtype=False)
    assert memberbound.verify(out).holds
