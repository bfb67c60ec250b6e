"""Formulas in CSV files: escaped on request, unchanged otherwise."""

import csv

import numpy as np
import pandas as pd
import pytest

from memberbound import InputError, certify, harden, predict, protect, synthesize
from memberbound.tables.frame_files import FORMULA_STARTS, excel_safe_table, excel_safe_text

#: A text of each kind that a spreadsheet runs, and texts and numbers that it does not.
FORMULAS = tuple(f"{start}cmd|' /C calc'!A0" for start in FORMULA_STARTS)
HARMLESS = ("-5", "+3.5", "-1,5e-3", "a=b", "", "'=x", "plain")


def cells(path):
    """Return every cell of a CSV file, the names included."""
    with path.open(encoding="utf-8", newline="") as file:
        return {cell for row in csv.reader(file) for cell in row}


def runs(text):
    """Return whether a spreadsheet would run a cell, by an independent rule."""
    try:
        float(text.replace(",", "."))
    except ValueError:
        return text[:1] in set("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
    return False


@pytest.mark.parametrize("text", FORMULAS, ids=ascii)
def test_a_formula_gets_an_apostrophe(text):
    assert runs(text)
    assert excel_safe_text(text) == f"'{text}"


@pytest.mark.parametrize("value", [*HARMLESS, -5, -5.5, None, True])
def test_numbers_and_other_texts_stay(value):
    assert excel_safe_text(value) is value


def test_all_kinds_of_columns_of_a_table():
    frame = pd.DataFrame(
        {
            "=name": ["=a", None],
            "words": pd.array(["@b", pd.NA], dtype="string"),
            "kinds": pd.Categorical(["+c", "d"]),
            "mixed": [-5, "-e"],
            "number": [-5, 5],
        }
    )
    before = frame.copy()
    safe = excel_safe_table(frame)
    pd.testing.assert_frame_equal(frame, before)
    assert list(safe) == ["'=name", "words", "kinds", "mixed", "number"]
    assert [safe.iloc[0, k] for k in range(5)] == ["'=a", "'@b", "'+c", -5, -5]
    assert safe["mixed"][1] == "'-e"
    assert safe["number"].dtype == frame["number"].dtype


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    kinds = np.array([FORMULAS[0], FORMULAS[3], "-5", "plain"])
    number = rng.integers(-9, 9, 1200)
    table = pd.DataFrame({"=kind": kinds[rng.integers(0, 4, 1200)], "number": number})
    return table.assign(target=np.where(number > 0, FORMULAS[1], "no"))


PUBLIC = {
    "=kind": [FORMULAS[0], FORMULAS[3], "-5", "plain"],
    "number": [-9, 9],
    "target": [FORMULAS[1], "no"],
}


def synthesize_table(people, out, **options):
    synthesize(people, bounds=PUBLIC, eta=0.2, insecure_seed=1, out=out, **options)


def harden_table(people, out, **options):
    harden(people, security=0.5, out=out, **options)


def write_predictions(people, out, **options):
    model = protect(people, target="target", bounds=PUBLIC, eta=0.3, insecure_seed=1, trial=False)
    predict(model.released, people.drop(columns="target"), out=out, **options)


def certify_table(people, out, **options):
    certify(people, records=out, **options)


WRITERS = (synthesize_table, harden_table, write_predictions, certify_table)


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_no_cell_of_an_excel_safe_output_runs(tmp_path, people, write):
    write(people, tmp_path / "usual.csv")
    write(people, tmp_path / "safe.csv", excel_safe=True)
    usual, safe = cells(tmp_path / "usual.csv"), cells(tmp_path / "safe.csv")
    assert any(map(runs, usual))  # negative control: without it texts are as they are
    assert not any(map(runs, safe))
    # Nothing else changes, and -5 is a number still.
    assert {cell if not runs(cell) else f"'{cell}" for cell in usual} == safe
    for name in ("none.parquet", None):
        with pytest.raises(InputError, match="excel_safe"):
            write(people, None if name is None else tmp_path / name, excel_safe=True)


def test_records_of_texts_and_categories_in_duckdb(tmp_path):
    """SQL and Python agree on every text."""
    texts = [*FORMULAS, *HARMLESS]
    table = pd.DataFrame({"text": texts, "kind": pd.Categorical(texts)})
    certify(table, records=tmp_path / "records.csv", excel_safe=True)
    written = pd.read_csv(tmp_path / "records.csv", dtype=str, keep_default_na=False)
    expected = [str(excel_safe_text(text)) for text in texts]
    with (tmp_path / "records.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    assert len(written) == len(texts)
    assert [row[0] for row in rows] == [row[1] for row in rows] == expected
