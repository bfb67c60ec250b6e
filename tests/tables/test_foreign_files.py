"""Excel, Stata, SPSS and SAS, and CSV files in other encodings."""

import datetime as dt
import json
import warnings
import zipfile

import pandas as pd
import pytest

from commands import run_command
from memberbound import InputError, certify, open_table


def rows_of(path, database_table=None, secret=False):
    with open_table(path, database_table, secret=secret) as table:
        return table.rows().to_pylist()


@pytest.fixture
def book(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    first = workbook.active
    first.title = "people"
    for row in [
        ["age", "town", "mixed", "born"],
        [30, "Paris", 1, dt.datetime(1990, 1, 2)],
        [None, "Rome", "1", None],
        [41.5, "=1/0", "x", dt.datetime(1980, 5, 6, 7, 8)],
    ]:
        first.append(row)
    first["B4"].data_type = "e"
    first["B4"].value = "#DIV/0!"
    other = workbook.create_sheet("visits")
    other.append(["who", None])
    other.append(["a", "beyond the header"])
    path = tmp_path / "book.xlsx"
    workbook.save(path)
    return path


def test_cells_keep_their_types(book):
    rows = rows_of(book, "people")
    assert [row["age"] for row in rows] == [30.0, None, 41.5]
    # A number and a text that looks like it are different cells.
    assert [row["mixed"] for row in rows] == ["1", '"1"', "x"]
    assert [row["town"] for row in rows] == ["Paris", "Rome", None]
    assert rows[0]["born"] == dt.datetime(1990, 1, 2)
    assert certify(book, columns=["mixed"], database_table="people").to_dict()["atoms"] == 3


def test_secret_cells_are_texts(book):
    rows = rows_of(book, "people", secret=True)
    assert rows[0] == {"age": "30", "town": "Paris", "mixed": "1", "born": "1990-01-02"}
    assert rows[2]["born"] == "1980-05-06 07:08:00"


def test_one_of_several_sheets_is_named(book, tmp_path):
    with pytest.raises(InputError, match=r"must name one sheet of .*'people', 'visits'.*--table"):
        rows_of(book)
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.load_workbook(book)
    workbook.remove(workbook["visits"])
    workbook.create_sheet("empty", 0)
    workbook.save(tmp_path / "one.xlsx")
    assert [row["age"] for row in rows_of(tmp_path / "one.xlsx")] == [30.0, None, 41.5]


def test_sheets_go_by_name(book):
    assert rows_of(book, "visits") == [{"who": "a"}]
    with pytest.raises(InputError, match="got 'x'; it has 'people', 'visits'"):
        open_table(book, "x")


def edit(path, old, new):
    """Write a workbook with this sheet, after replacing words in its XML."""
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    with zipfile.ZipFile(path, "w") as book:
        for name, part in parts.items():
            sheet = name.endswith("sheet1.xml")
            assert not sheet or old in part
            book.writestr(name, part.replace(old, new) if sheet else part)
    return path


def test_large_whole_numbers_stay_distinct(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    for cell in ("n", 2**53, 777, 0.5):
        workbook.active.append([cell])
    workbook.save(tmp_path / "book.xlsx")
    book = edit(tmp_path / "book.xlsx", b"<v>777</v>", b"<v>%d</v>" % (2**53 + 1))
    assert certify(book).to_dict()["atoms"] == 3


def test_an_odd_cell_neither_warns_nor_raises(book):
    """Dates begin in 1900 and end in 9999; a warning would reveal which record is beyond."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = rows_of(edit(book, b"<v>32875</v>", b"<v>1e9</v>"), "people", secret=True)
    assert [row["born"] for row in rows] == [None, None, "1980-05-06 07:08:00"]
    with pytest.raises(InputError, match="must hold numbers"):
        rows_of(edit(book, b"<v>1e9</v>", b"<v>word</v>"), "people")


@pytest.mark.parametrize("ending", ["dta", "sav"])
def test_labels_and_dates_are_declared(ending, tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat")
    stored = pd.DataFrame(
        {
            "age": [30.0, None, 7.0],
            "sex": [1.0, 2.0, 3.0],
            "grade": [1.0, 2.0, 1.0],
            "born": pd.to_datetime(["1990-01-02", None, "1950-05-06"]),
            "name": ["Ada", "Köln", ""],
        }
    )
    # Two codes with one label would be merged, so their column keeps its codes.
    labels = {"sex": {1: "Female", 2: "Male"}, "grade": {1: "good", 2: "good"}}
    path = tmp_path / f"t.{ending}"
    getattr(pyreadstat, f"write_{ending}")(stored, path, variable_value_labels=labels)
    rows = rows_of(path)
    assert rows == rows_of(path, secret=True)
    assert [row["sex"] for row in rows] == ["Female", "Male", "3.0"]
    assert [row["grade"] for row in rows] == [1.0, 2.0, 1.0]
    assert [row["age"] for row in rows] == [30.0, None, 7.0]
    assert [row["name"] for row in rows] == ["Ada", "Köln", ""]
    born = [dt.datetime(1990, 1, 2), None, dt.datetime(1950, 5, 6)]
    assert [row["born"] for row in rows] == born


@pytest.mark.parametrize("ending", [".xlsx", ".dta", ".sav", ".xpt", ".sas7bdat"])
def test_damaged_files_are_refused(ending, book, tmp_path):
    path = tmp_path / f"t{ending}"
    for content in (b"", b"no such file", book.read_bytes()[:-200]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=path.name):
            rows_of(path)


@pytest.mark.parametrize("ending", [".xls", ".jsonl", ".rds"])
def test_other_formats_name_a_conversion(ending, tmp_path):
    path = tmp_path / f"t{ending}"
    path.write_text("x")
    with pytest.raises(InputError, match=r"Save it as|to_parquet|write_parquet"):
        open_table(path)


@pytest.mark.parametrize("encoding", ["mac-roman", "utf-16-le"])
def test_an_encoding_is_declared(encoding, tmp_path):
    people = pd.DataFrame({"größe": [1, 2] * 10, "town": ["Köln", "Orléans"] * 10})
    plain, other = tmp_path / "plain.csv", tmp_path / "other.csv"
    people.to_csv(plain, index=False)
    people.to_csv(other, index=False, encoding=encoding)
    code, expected, _ = run_command("certify", plain, "--json")
    assert (code, json.loads(expected)["atoms"]) == (0, 2)
    if encoding == "utf-16-le":  # without a byte-order mark nothing tells
        assert run_command("certify", other)[0] == 2
    else:
        with open_table(other) as table:
            assert table.columns != ("größe", "town")
    assert run_command("certify", other, "--encoding", encoding, "--json")[1] == expected
    for wrong, word in (("nonsense", "Python knows"), ("hex", "Python knows"), ("ascii", "ascii")):
        code, _, error = run_command("certify", other, "--encoding", wrong)
        assert (code, word in error) == (2, True)
    assert certify(other, encoding=encoding).to_dict() == json.loads(expected)
    with open_table(other, encoding=encoding) as table:  # read again, as of secret rows
        assert table.stored_columns()["town"].to_pylist() == people["town"].tolist()
