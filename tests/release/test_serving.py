"""A model of all rows in use: rows of every shape, unseen values, other runtimes."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.oracle.training import fit_model

from commands import run_command
from memberbound import InputError, MemberboundError, load, predict, protect, save
from memberbound.release import onnx_file

ROWS = 1200
TOWNS = ["Paris", "Rome", "Köln"]
PUBLIC = {"age": [0, 100], "town": TOWNS, "paid": [0, 5000], "ill": ["no", "yes"]}


def people(rows=ROWS, seed=0):
    draws = np.random.default_rng(seed)
    age, town = draws.integers(0, 100, rows), draws.choice(TOWNS, rows)
    ill = np.where(age + 40 * (town == "Rome") + draws.normal(0, 15, rows) > 65, "yes", "no")
    paid = (age * 40 + draws.normal(0, 100, rows)).round(2)
    return pd.DataFrame({"age": age, "town": town, "paid": paid, "ill": ill})


@pytest.fixture(scope="module")
def model():
    return fit_model(people(), eta=0.3, bounds=PUBLIC)


# ── Rows of every shape ───────────────────────────────────────────────────────────────────────────


def test_a_row_is_a_dictionary_a_series_or_an_array(model):
    table = people(3, seed=5)[["age", "town", "paid"]]
    expected = model.predict_proba(table)
    rows = table.to_dict("records")
    shapes = [rows, table.to_dict("list"), table.to_numpy(dtype=object)]
    for shape in shapes:
        assert model.predict_proba(shape) == pytest.approx(expected, rel=1e-12)
    for one in (rows[0], table.iloc[0], table.iloc[0].to_numpy(dtype=object)):
        assert model.predict_proba(one) == pytest.approx(expected[:1], rel=1e-12)
    turned = {name: rows[0][name] for name in ("paid", "town", "age")}
    assert model.predict_proba(turned) == pytest.approx(expected[:1], rel=1e-12)
    assert predict(model, rows[0]).rows == 1
    for bad in ({"age": [1, 2], "town": "Rome"}, {"age": [1, 2], "town": ["Rome"]}, {}):
        with pytest.raises(InputError, match="mapping must hold"):
            model.predict(bad)


# ── Unseen values ─────────────────────────────────────────────────────────────────────────────────


ODD = pd.DataFrame(
    {"age": ["30", "old", None, "41"], "town": ["Oslo", "Rome", None, "Bonn"], "paid": [1, 2, 3, 4]}
)


def test_unknown_values_are_counted(model):
    said = predict(model, ODD).warnings
    assert said == (
        "'age' holds text instead of a number in 1 row ('old')",
        "'town' holds in 2 rows a category that the model does not know ('Oslo', 'Bonn')",
    )
    assert predict(model, people(20, seed=1)).warnings == ()
    said = predict(model, ODD[["paid"]]).warnings
    assert said == ("missing columns count as missing values: age, town",)
    with pytest.raises(InputError, match="must have every column"):
        predict(model, pd.DataFrame({"other": [1]}))


@pytest.mark.parametrize("column", ["age", "town"])
def test_strict_refuses_it(model, column):
    plain = people(4, seed=2)
    assert predict(model, plain, strict=True).rows == 4
    # Missing values are not new ones.
    assert predict(model, plain.assign(age=np.nan, town=None), strict=True).rows == 4
    with pytest.raises(InputError, match=column):
        predict(model, plain.assign(**{column: ODD[column]}), strict=True)
    with pytest.raises(InputError, match=column):
        predict(model, plain.drop(columns=column), strict=True)


# ── ONNX ──────────────────────────────────────────────────────────────────────────────────────────


def in_onnxruntime(path, table):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(path))
    feeds = {}
    for column in session.get_inputs():
        values = table[column.name]
        if column.type == "tensor(string)":
            values = values.fillna("").astype(object)
        else:
            values = pd.to_numeric(values, errors="coerce").astype(float)
        feeds[column.name] = values.to_numpy().reshape(-1, 1)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds), strict=True))


def odd_people():
    """Rows inside and outside the ranges, of every size, with gaps and unknown towns."""
    table = people(400, seed=9).astype({"age": float})
    table.loc[:30, "age"] = np.nan
    table.loc[20:60, "paid"] = [1e9, -1e9, 0.0, -0.5, np.inf, -np.inf, *np.geomspace(1e-8, 1e8, 35)]
    table.loc[50:80, "town"] = "Oslo"
    table.loc[70:90, "town"] = None
    return table


THREE = {**PUBLIC, "ill": ["no", "yes", "perhaps"]}
#: Numbers with heavy tails and zeros, learnt with noise.
OPEN = {"town": TOWNS, "ill": ["no", "yes"]}


@pytest.mark.parametrize(
    ("learner", "bounds"),
    [
        ("logistic", THREE),
        ("logistic", OPEN),
        ("svm", THREE),
        ("boosting", THREE),
        ("boosting", OPEN),
        ("ridge", PUBLIC),
    ],
)
def test_onnxruntime_answers_as_the_model(learner, bounds, tmp_path):
    pytest.importorskip("onnx")
    table = people(6000)
    draws = np.random.default_rng(1)
    if bounds is THREE:
        table.loc[::5, "ill"] = "perhaps"
    if bounds is OPEN:
        table["paid"] = np.where(draws.random(6000) < 0.4, 0, draws.lognormal(3, 4, 6000)).round(6)
    target = "paid" if learner == "ridge" else "ill"
    model = fit_model(table, target, eta=0.3, learner=learner, bounds=bounds)
    save(model, tmp_path / "model.onnx")
    asked = odd_people()
    answers = in_onnxruntime(tmp_path / "model.onnx", asked)
    truth = model.predict(asked)
    if learner == "ridge":
        assert answers["prediction"][:, 0] == pytest.approx(truth, rel=1e-9)
    else:
        assert answers["prediction"].tolist() == truth.tolist()
        beside = model.predict_proba(asked) if learner != "svm" else model.decision_function(asked)
        given = answers["scores" if learner == "svm" else "probabilities"]
        assert given.reshape(beside.shape) == pytest.approx(beside, rel=1e-9, abs=1e-9)
    again = load(tmp_path / "model.onnx")
    assert (again.predict(asked) == truth).all()


def test_an_onnx_file_that_differs_is_not_written(model, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(onnx_file, "GRID", onnx_file.GRID / 2)
    with pytest.raises(MemberboundError, match="does not answer as the model"):
        save(model, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_texts_without_bounds_are_refused(tmp_path):
    pytest.importorskip("onnx")
    bounds = {name: bound for name, bound in PUBLIC.items() if name != "town"}
    with pytest.raises(InputError, match="got none for 'town'"):
        protect(people(), target="ill", bounds=bounds, eta=0.3, out=tmp_path / "model.onnx")
    model = fit_model(people(6000), eta=0.3, bounds=bounds)
    with pytest.raises(InputError, match="got none for 'town'"):
        save(model, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_protect_writes_onnx_that_predict_reads(tmp_path):
    pytest.importorskip("onnx")
    people(3000).to_csv(tmp_path / "people.csv", index=False)
    out = tmp_path / "model.onnx"
    protect(tmp_path / "people.csv", target="ill", bounds=PUBLIC, eta=0.3, out=out)
    code, text, error = run_command("predict", out, tmp_path / "people.csv", "--json")
    assert code == 0, error
    by_name = [row["prediction"] for row in json.loads(text)["predictions"]]
    assert by_name == in_onnxruntime(out, people(3000))["prediction"].tolist()
    out.write_bytes(out.read_bytes()[:-40])
    with pytest.raises(InputError, match="SHA-256"):
        load(out)
