"""``harden`` as a user meets it: files, refusals, the dictionary of the contract."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memberbound.errors import InputError
from memberbound.files import check_output, write_table, write_text
from memberbound.tables.coarsening import Coarsener
from memberbound.verbs.harden import harden

ADULT = Path(__file__).resolve().parents[3] / "shared" / "data" / "adult_train.csv.gz"


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


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet", ".arrow", ".feather"])
def test_file_to_file(source, tmp_path, ending) -> None:
    out, recipe = tmp_path / f"hard{ending}", tmp_path / "recipe.json"
    result = harden(source, security=0.9, target="y", out=out, recipe=recipe, learners=False)
    if ending.startswith(".csv"):
        read = pd.read_csv(out)
    else:
        read = pd.read_parquet(out) if ending == ".parquet" else pd.read_feather(out)
    assert read.astype(str).values.tolist() == result.table.astype(str).values.tolist()
    again = Coarsener.from_json(recipe.read_text("utf-8"))
    assert again.recipe_ == result.coarsener.recipe_
    assert result.out == str(out)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        ["table.csv", out.name, "recipe.json"]
    )


def test_a_target_of_written_numbers_stays_as_it_is_written(frame) -> None:
    written = frame.assign(y=frame["y"].map({"yes": "1", "no": "2"}))
    result = harden(written, security=0.9, target="y", learners=False)
    assert set(result.table["y"]) == set(result.coarsener.transform(written)["y"]) == {"1", "2"}


def test_certify_of_the_written_file_agrees(source, tmp_path) -> None:
    from memberbound.iid.certificates import certify_counts
    from memberbound.tables.counting import count_profile

    out = tmp_path / "hard.parquet"
    result = harden(source, security=0.9, target="y", out=out, learners=False)
    certificate = certify_counts(count_profile(out), confidence=0.95)
    assert certificate.delta_upper == result.after.delta_upper
    assert certificate.atoms == result.after.atoms


def test_blank_constant_and_distinct_columns_do_no_harm(frame) -> None:
    result = harden(frame, security=0.9, target="y", learners=False)
    assert set(result.table.columns) == {"x", "y"}
    missing = frame.assign(x=frame["x"].where(frame["x"] % 3 > 0))
    found = harden(missing, security=0.9, target="y", learners=False).table
    assert "(missing)" in set(found["x"])


def test_only_distinct_columns_leave_the_target_alone() -> None:
    lonely = pd.DataFrame({"id": [f"n{i}" for i in range(900)], "y": ["a", "b", "b"] * 300})
    result = harden(lonely, security=0.8, target="y")
    assert list(result.table.columns) == ["y"]
    assert result.accuracy_estimate == {"before": result.accuracy_estimate["before"], "after": None}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "security or record_leak"),
        ({"security": 0}, r"security must be in \(0, 1\)"),
        ({"security": 1.0}, r"security must be in \(0, 1\)"),
        ({"security": float("nan")}, "security must be a finite"),
        ({"record_leak": 2}, "record_leak must be in"),
        ({"security": 0.9, "confidence": 1}, "confidence"),
        ({"security": 0.9, "target": "absent"}, "target must be a column.*'absent'"),
        ({"security": 0.9, "keep": ["x", "absent"]}, "keep must be a column.*'absent'"),
        ({"security": 0.9, "bins": {"absent": [1]}}, "bins must be a column"),
        ({"security": 0.9, "bins": {"x": [2, 1]}}, "ascending"),
        ({"security": 0.9, "bins": {"x": [1]}, "hierarchies": {"x": {"g": ["1"]}}}, "both"),
        ({"security": 0.9, "hierarchies": {"x": "absent.yaml"}}, "existing file"),
        ({"security": 0.9, "seed": -1}, "seed"),
        ({"security": 0.9, "out": "absent/hard.csv"}, "existing folder"),
        ({"security": 0.9, "out": "hard.xlsx"}, "must end in"),
        ({"security": 0.9, "recipe": "recipe.pkl"}, "must end in .json"),
    ],
)
def test_bad_input_is_one_sentence(frame, wrong, said, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=said):
        harden(frame, **wrong)
    assert list(tmp_path.iterdir()) == []


def test_short_tables_are_refused(frame) -> None:
    for table in (frame.iloc[:0], frame.iloc[:19]):
        with pytest.raises(InputError, match="at least 20 rows"):
            harden(table, security=0.9)
    with pytest.raises(InputError, match="does not exist"):
        harden("absent.csv", security=0.9)


def test_nothing_is_overwritten_unless_forced(source, tmp_path) -> None:
    out = tmp_path / "hard.csv"
    out.write_text("precious", "utf-8")
    with pytest.raises(InputError, match="must not exist yet"):
        harden(source, security=0.9, target="y", out=out, learners=False)
    assert out.read_text("utf-8") == "precious"
    with pytest.raises(InputError, match="must differ"):
        harden(source, security=0.9, target="y", out=source, force=True, learners=False)
    harden(source, security=0.9, target="y", out=out, force=True, learners=False)
    assert out.read_text("utf-8").startswith("x,y\n")


def test_failed_search_and_failed_writing_leave_no_file(frame, tmp_path) -> None:
    with pytest.raises(InputError):
        harden(frame, security=0.9999, target="y", out=tmp_path / "hard.csv")
    mixed = pd.DataFrame({"a": [1, "x", object()]})
    with pytest.raises(InputError, match="cannot hold"):
        write_table(mixed, tmp_path / "mixed.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_appears_meanwhile_is_not_lost(tmp_path) -> None:
    path = check_output(tmp_path / "recipe.json", formats=(".json",))
    path.write_text("precious", "utf-8")
    with pytest.raises(InputError):
        write_text("new", path)
    assert path.read_text("utf-8") == "precious"


def test_frontier_plot(frame, tmp_path) -> None:
    from memberbound.report.answer_charts import frontier_chart

    chart = frontier_chart(harden(frame, security=0.9, target="y", learners=False))
    for ending, magic in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        path = chart.save(tmp_path / f"f{ending}")
        assert path.read_bytes().startswith(magic)
    with pytest.raises(InputError):
        chart.save(tmp_path / "f.bmp")
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.skipif(not ADULT.is_file(), reason="the Adult table is not here")
def test_adult() -> None:
    result = harden(ADULT, security=0.9, target="income", learners=False)
    assert result.before.delta_upper > 0.99
    assert result.after.delta_upper <= 0.1
    assert "income" in result.table.columns
    assert result.information_estimate > 0.2  # the target has 0.55 nats of entropy
    assert len(result.table) == 24_421


def test_what_is_a_number_is_decided_on_the_fitting_rows(frame, tmp_path) -> None:
    """One released row with a word in it must not change the recipe (X18)."""
    plain, odd = tmp_path / "plain.csv", tmp_path / "odd.csv"
    frame.to_csv(plain, index=False)
    one = harden(plain, security=0.9, target="y", learners=False)
    chosen = np.random.default_rng(0).permutation(len(frame))
    released = chosen[750]
    frame.astype({"x": object}).where(
        (frame.index != released)[:, None] | (frame.columns != "x"), "word"
    ).to_csv(odd, index=False)
    two = harden(odd, security=0.9, target="y", learners=False)
    assert one.coarsener.recipe_ == two.coarsener.recipe_
    changed = (one.table != two.table).any(axis=1)
    assert changed.sum() == 1
    assert two.table.loc[changed, "x"].tolist() == ["(missing)"]


@pytest.mark.parametrize("cell", [[1], {"a": 1}, np.array([1.0])])
def test_nested_cells_are_refused(cell):
    table = pd.DataFrame({"a": [cell] * 40, "y": [0, 1] * 20})
    with pytest.raises(InputError, match="column 'a' must hold single values"):
        harden(table, security=0.5, target="y")
