"""Previews of a table before long work are for its owner, and never part of an answer."""

from pathlib import Path

import pytest

from commands import run_command
from memberbound.faces import commands
from memberbound.faces.terminal import preview_lines


@pytest.fixture
def messy(tmp_path) -> Path:
    rows = [
        f"{k};{k % 70};{k % 9},5;{'' if k < 11 else 'Rome'};0{k % 8 + 1}.02.1990;"
        for k in range(300)
    ]
    header = "#;age;paid;town;born;nothing"
    path = tmp_path / "messy.csv"
    path.write_text("\n".join([header, *rows[:200], header, *rows[200:]]) + "\n")
    return path


def test_columns_blanks_and_odd_lines_are_named(messy):
    assert preview_lines(messy) == [
        "messy.csv: 301 rows, 6 columns",
        "  numbers: age (1 blank), paid (decimal comma, 1 blank)",
        "  categories: town (12 blanks), nothing (empty)",
        "  dates: born (1 blank)",
        "  identifiers, left out unless named: # (1 blank)",
        "  line 202 of messy.csv repeats the header: read as missing values",
    ]


def test_it_goes_to_a_terminal_only(messy, monkeypatch):
    asked = ["certify", messy, "--columns", "age,town", "--json"]
    code, plain, error = run_command(*asked)
    assert (code, "blank" in error) == (0, False)
    monkeypatch.setattr(commands, "at_terminal", lambda: True)
    code, out, error = run_command(*asked)
    assert (code, out) == (0, plain)
    assert "town (12 blanks)" in error


def test_a_bad_file_is_refused_once(tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "at_terminal", lambda: True)
    (tmp_path / "bad.csv").write_text("a,b\n1\n")
    for name in ("bad.csv", "none.csv"):
        code, out, error = run_command("certify", tmp_path / name)
        assert (code, out, len(error.splitlines())) == (2, "", 1)


def test_many_columns_are_not_all_named(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{k}" for k in range(30)) + "\n" + ",".join(["x"] * 29) + ",\n")
    (_, line) = preview_lines(path)
    assert line.startswith("  categories: c29 (empty), c0, ")
    assert line.endswith("and 10 more")
