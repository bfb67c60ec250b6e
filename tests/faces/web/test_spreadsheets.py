"""Cells that a spreadsheet would compute are text in what we export."""

import io

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memberbound.faces.web.child import harmless, without_formulas

DANGEROUS = ("=", "+", "-", "@", "\t", "\r")


@pytest.mark.parametrize("first", [*DANGEROUS, "＝", "＋", "－", "＠"])
def test_a_cell_that_starts_like_a_formula_is_marked(first):
    assert harmless(f"{first}cmd|' /C calc'!A0") == f"'{first}cmd|' /C calc'!A0"


@pytest.mark.parametrize(
    "cell", ["", "a", "1-2", "a=b", "-1", "+1.5e-3", "0", " x", "'quoted", 3, None]
)
def test_harmless_cells_stay(cell):
    assert harmless(cell) == cell


@given(st.text(alphabet="=+-@\t\r'a1. ", max_size=6))
def test_no_text_that_is_not_a_number_starts_a_formula(text):
    found = harmless(text)
    if found.startswith(DANGEROUS):
        float(found)  # numbers alone may start with a sign


@given(st.text(alphabet="=+-@\t'a1", max_size=5), st.text(alphabet="=+-@\t'a1", max_size=5))
def test_different_cells_stay_different(one, other):
    assert (harmless(one) == harmless(other)) == (one == other)


def test_a_table_with_its_header():
    frame = pd.DataFrame(
        {
            "=evil()": ["=1+1", "ok", None],
            "n": [-1.5, 2.0, 3.0],
            "c": pd.Categorical(["@x", "y", "@x"]),
        }
    )
    before = frame.copy(deep=True)
    text = without_formulas(frame).to_csv(index=False)
    assert text.splitlines() == ["'=evil(),n,c", "'=1+1,-1.5,'@x", "ok,2.0,y", ",3.0,'@x"]
    pd.testing.assert_frame_equal(frame, before)
    read = pd.read_csv(io.StringIO(text))
    assert read["n"].tolist() == [-1.5, 2.0, 3.0]
