"""``harden`` as a user meets it: files, refusals, the dictionary of the contract."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memberbound.errors import InputError
from memberbound.tables.recipe import Recipe
from memberbound.verbs.harden import harden
from tables.real_data import real_file


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = 3000
    x = rng.integers(0, 30, rows)
    table = pd.DataFrame({"x": x, "blank": np.nan, "one": 1, "id": np.arange(rows) / 7})
    table["y"] = np.where((x > 14) ^ (rng.random(rows) < 0.1), "yes", "no")
    return table


@pytest.fixture
def source(frame, tmp_path) -> Path:
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".feather"])
def test_file_to_file(source, tmp_path, ending) -> None:
    out, recipe = tmp_path / f"hard{ending}", tmp_path / "recipe.json"
    result = harden(source, security=0.9, target="y", out=out, recipe=recipe)
    if ending.startswith(".csv"):
        read = pd.read_csv(out)
    else:
        read = pd.read_parquet(out) if ending == ".parquet" else pd.read_feather(out)
    assert read.astype(str).values.tolist() == result.table.astype(str).values.tolist()
    assert Recipe.from_json(recipe.read_text("utf-8")) == result.rules
    assert result.out == str(out)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        ["table.csv", out.name, f"{out.name}.certificate.json", "recipe.json"]
    )


def test_a_target_of_numbers_as_text_stays_unchanged(frame) -> None:
    written = frame.assign(y=frame["y"].map({"yes": "1", "no": "2"}))
    result = harden(written, security=0.9, target="y")
    assert set(result.table["y"]) == set(result.rules.apply(written)["y"]) == {"1", "2"}


def test_blank_constant_and_distinct_columns_do_no_harm(frame) -> None:
    result = harden(frame, security=0.9, target="y")
    assert set(result.table.columns) == {"x", "y"}
    missing = frame.assign(x=frame["x"].where(frame["x"] % 3 > 0))
    found = harden(missing, security=0.9, target="y").table
    assert "(missing)" in set(found["x"])


def test_only_distinct_columns_leave_the_target_alone() -> None:
    lonely = pd.DataFrame({"id": [f"n{i}" for i in range(900)], "y": ["a", "b", "b"] * 300})
    result = harden(lonely, security=0.8, target="y")
    assert list(result.table.columns) == ["y"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "security or record_leak"),
        ({"security": 1.0}, r"security must be in \(0, 1\)"),
        ({"record_leak": 2}, "record_leak must be in"),
        ({"security": 0.9, "confidence": 1}, "confidence"),
        ({"security": 0.9, "target": "absent"}, "the table has no column 'absent'"),
        ({"security": 0.9, "keep": ["x", "absent"]}, "no column 'absent'"),
        ({"security": 0.9, "bins": {"absent": [1]}}, "no column 'absent'"),
        ({"security": 0.9, "bins": {"x": [2, 1]}}, "ascending"),
        ({"security": 0.9, "bins": {"x": [1]}, "hierarchies": {"x": {"g": ["1"]}}}, "both"),
        ({"security": 0.9, "hierarchies": {"x": "absent.yaml"}}, "existing file"),
        ({"security": 0.9, "recipe": "recipe.pkl"}, "must end in .json"),
        ({"security": 0.9, "table": pd.DataFrame({"x": []})}, "at least 20 rows"),
        ({"security": 0.9, "table": pd.DataFrame({"x": range(19)})}, "at least 20 rows"),
        ({"security": 0.9, "table": "absent.csv"}, "does not exist"),
    ],
)
def test_bad_input_is_one_sentence(frame, wrong, said, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=said):
        harden(**{"table": frame, **wrong})
    assert list(tmp_path.iterdir()) == []


def test_adult() -> None:
    result = harden(real_file("adult_train.csv.gz"), security=0.9, target="income")
    assert result.before.delta_upper > 0.99
    assert result.after.delta_upper <= 0.1
    assert "income" in result.table.columns
    assert result.information_estimate > 0.2  # the target has 0.55 nats of entropy
    assert len(result.table) == 24_421


def test_numeric_columns_are_inferred_from_the_fitting_rows(frame, tmp_path) -> None:
    """One released row with a word in it must not change the recipe (X18)."""
    plain, odd = tmp_path / "plain.csv", tmp_path / "odd.csv"
    frame.to_csv(plain, index=False)
    one = harden(plain, security=0.9, target="y")
    chosen = np.random.default_rng(0).permutation(len(frame))
    released = chosen[750]
    frame.astype({"x": object}).where(
        (frame.index != released)[:, None] | (frame.columns != "x"), "word"
    ).to_csv(odd, index=False)
    two = harden(odd, security=0.9, target="y")
    assert one.rules == two.rules
    changed = (one.table != two.table).any(axis=1)
    assert changed.sum() == 1
    assert two.table.loc[changed, "x"].tolist() == ["(missing)"]


@pytest.mark.parametrize("cell", [[1], {"a": 1}, np.array([1.0])])
def test_nested_cells_are_refused(cell):
    table = pd.DataFrame({"a": [cell] * 40, "y": [0, 1] * 20})
    with pytest.raises(InputError, match="column 'a' must hold single values"):
        harden(table, security=0.5, target="y")
