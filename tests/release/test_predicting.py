"""A saved model takes raw rows: ``predict`` applies the release of ``protect-half``."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score

from commands import run_command
from memberbound import InputError, load, predict, protect_half

pytest.importorskip("skops")
pytestmark = pytest.mark.usefixtures("few_fits")
QUICK = {"record": "average", "pairs": 20, "insecure_seed": 3, "workers": 1, "eta": 0.2}


def made(rows: int, seed: int) -> pd.DataFrame:
    """Numbers of very different sizes, words, truth values, codes that look like numbers."""
    draws = np.random.default_rng(seed)
    income = draws.lognormal(10, 0.5, rows).round()
    town = draws.choice(["north", "south, west", "ünnern"], rows)
    score = np.log(income / 22000) + 1.5 * (town == "north") - 0.5
    ill = np.where(score + draws.normal(0, 0.3, rows) > 0, "yes", "no")
    return pd.DataFrame(
        {
            "income": income,
            "town": town,
            "insured": draws.random(rows) < 0.5,
            "code": draws.choice(["007", "1.50", "x"], rows),
            "ill": ill,
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("models")
    made(200, 0).to_csv(root / "people.csv", index=False)
    return root


@pytest.fixture(scope="module")
def kept_model(folder: Path, few_fits):
    """As released, before it goes through a file."""
    out = folder / "model.skops"
    return protect_half(folder / "people.csv", target="ill", out=out, **QUICK).released


@pytest.fixture(scope="module")
def model(kept_model, folder: Path):
    return load(folder / "model.skops")


def test_from_a_file_to_predictions(kept_model, folder: Path, tmp_path: Path) -> None:
    new, target, kept, file = made(200, 1), "ill", kept_model, folder / "model.skops"
    # Other columns, another order: they are found by their names.
    new.assign(more=1).iloc[:, ::-1].to_csv(tmp_path / "new.csv", index=False)
    asked = ("predict", file, "new.csv", "--out", "answers.csv", "--json")
    code, out, err = run_command(*asked, cwd=tmp_path)
    assert code == 0, err
    answer = json.loads(out)
    assert answer["command"] == "predict"
    assert (answer["rows"], answer["out"]) == (len(new), "answers.csv")
    assert (answer["game"], answer["protects"]) == ("subset", "average record")
    assert {"version", "theorems", "assumptions"} <= set(answer)
    assert ["more" in note for note in answer["warnings"]] == [True]
    answers = pd.read_csv(tmp_path / "answers.csv")
    names = [str(c) for c in kept.classes_]
    assert list(answers.columns) == ["prediction", *(f"probability_{c}" for c in names)]
    assert (answers["prediction"].astype(str) == kept.predict(new).astype(str)).all()
    assert np.allclose(answers.iloc[:, 1:], kept.predict_proba(new), rtol=1e-12, atol=1e-15)
    # Far from guessing: raw rows are encoded as those of the training were.
    truth = new[target].astype(str) == names[1]
    assert roc_auc_score(truth, answers.iloc[:, 2]) > 0.9


def test_classes_come_back_as_the_table_has_them() -> None:
    table = made(120, 2).assign(ill=lambda t: (t["ill"] == "yes").astype(int))
    released = protect_half(table, target="ill", **QUICK).released
    assert released.predict(table).dtype.kind == "i"
    truths = table.assign(ill=table["ill"] == 1)
    assert protect_half(truths, target="ill", **QUICK).released.predict(table).dtype == bool


def test_bad_input_gives_one_sentence(model, folder: Path) -> None:
    new = made(10, 4)
    new.drop(columns=["town", "code"]).to_csv(folder / "short.csv", index=False)
    code, out, err = run_command(
        "predict", "model.skops", "short.csv", "--out", "no.csv", cwd=folder
    )
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "town, code are missing" in err
    assert not (folder / "no.csv").exists()
    (folder / "there.csv").write_text("kept")
    for taken, rows, out, words in (
        (model, new.assign(income="much"), None, "'income' .*must hold numbers or dates.*'much'"),
        (model, new.assign(income=np.inf), None, "as in training, got inf in row 1"),
        (model, new.iloc[:0], None, "at least one row"),
        (model, pd.concat([new, new[["town"]]], axis=1), None, "once, got 'town' twice"),
        (Ridge(), new, None, "must be a model"),
        (folder / "other.skops", new, None, "which is not a file"),
        (model, new, folder / "answers.txt", "must end in"),
        (model, new, folder / "there.csv", "must not exist yet"),
    ):
        with pytest.raises(InputError, match=words):
            predict(taken, rows, out=out)
    assert (folder / "there.csv").read_text() == "kept"


def test_a_statistic_cannot_predict(tmp_path: Path) -> None:
    path = tmp_path / "mean.safetensors"
    protect_half(made(50, 0), statistic="mean", columns=["income"], insecure_seed=1, out=path)
    with pytest.raises(InputError, match="a saved statistic or network"):
        predict(path, made(5, 0))


def test_missing_values_and_new_categories_are_reported(model) -> None:
    new = made(10, 4)
    usual = predict(model, new)
    gaps = new.assign(income=new["income"].where(new.index > 1))
    result = predict(model, gaps)
    assert ["'income' is missing in 2 rows" in w for w in result.warnings] == [True]
    # As in training, the mean is imputed.
    mean = made(200, 0)["income"].mean()
    filled = predict(model, gaps.fillna({"income": mean}))
    assert np.allclose(result.probabilities, filled.probabilities)
    assert (result.probabilities[2:] == usual.probabilities[2:]).all()
    strange = predict(model, new.assign(town=np.where(new.index == 0, "east", new["town"])))
    assert ["'town' holds in 1 row" in w and "'east'" in w for w in strange.warnings] == [True]
    absent = predict(model, new.assign(town=None))
    assert "a missing value" in absent.warnings[0]


def test_strict_and_single_rows(kept_model):
    row = made(1, 5).drop(columns="ill").iloc[0].to_dict()
    assert predict(kept_model, row, strict=True).rows == 1
    unknown = row | {"town": "Atlantis"}
    assert "Atlantis" in " ".join(predict(kept_model, unknown).warnings)
    with pytest.raises(InputError, match="Atlantis"):
        predict(kept_model, unknown, strict=True)
