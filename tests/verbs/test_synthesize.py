"""The verb synthesize, as a user meets it: files, types, certificate, refusals."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.commands import run_command
from tests.oracle.training import PUBLIC, people

import memberbound
from memberbound.errors import InputError
from memberbound.release.saving import certificate_path, check_certificate
from memberbound.report.answer_charts import marginals_chart
from memberbound.verbs.synthesize import synthesize

ROWS = 6000
BOUNDS = PUBLIC | {"kg": [0, 200]}


def patients():
    """Two rows each."""
    kg = np.random.default_rng(1).uniform(40, 120, ROWS).round(1)
    return people(ROWS).assign(kg=kg, patient=np.arange(ROWS) // 2)


@pytest.fixture(scope="module")
def answer():
    table = patients().drop(columns="patient")
    return synthesize(table, target="ill", bounds=BOUNDS, eta=0.1, baseline=0.1, insecure_seed=1)


def test_guarantees_of_the_answer(answer):
    content = answer.to_dict()
    assert content["protects"] == "every record"
    assert content["theorems"] == ["X22", "X25", "X23"]
    assert content["certificate"]["upper"] <= 0.1
    assert content["owner_only"] == ["fidelity", "warnings"]
    assert 0.1 < content["guess_upper"]["0.1"] < 0.25
    assert sum(content["budget"].values()) <= 1
    json.dumps(content, allow_nan=False)


def test_fidelity_reports_scores_of_models(answer):
    fidelity = answer.fidelity
    assert 0 < fidelity.two_way_tvd_estimate <= fidelity.worst_two_way_tvd_estimate < 0.3
    area = fidelity.scores["AUC"]
    assert area.constant_estimate == 0.5
    assert area.synthetic_estimate > 0.75
    assert area.real_estimate > 0.8


def test_fidelity_has_class_shares_and_the_worst_pairs(answer):
    fidelity = answer.fidelity
    distances = [pair.tvd_estimate for pair in fidelity.worst_pairs]
    assert distances == sorted(distances, reverse=True)
    assert distances[0] == fidelity.worst_two_way_tvd_estimate
    assert len({pair.columns for pair in fidelity.worst_pairs}) == len(distances) == 3
    loss = fidelity.scores["log loss"]
    assert loss.constant_estimate == pytest.approx(np.log(2), abs=0.02)
    assert fidelity.shortcoming is None
    rows = dict(answer.summary_rows())
    shares = fidelity.marginals["ill"]
    # Shown to half a unit of the third decimal, whichever way halves round.
    shown = rows["shares of ill (real)"].split()[2:4]
    assert float(shown[0]) == pytest.approx(shares.synthetic_estimate[0], abs=5.1e-4)
    assert float(shown[1].strip("(),")) == pytest.approx(shares.real_estimate[0], abs=5.1e-4)


def test_a_target_of_two_numbers_is_a_class():
    draws = np.random.default_rng(0)
    table = pd.DataFrame({"x": draws.normal(size=2000).round(2)})
    table["y"] = (table["x"] + draws.normal(size=2000) > 1).astype(int)
    made = memberbound.synthesize(
        table, target="y", eta=0.2, bounds={"x": [-4, 4]}, insecure_seed=0
    )
    assert made.fidelity.scores["AUC"].synthetic_estimate > 0.7
    assert "R²" not in made.fidelity.scores


def test_a_table_that_ranks_worse_than_a_constant_has_a_note():
    # No column predicts the illness, so about half of the models rank worse than a constant.
    ill = np.random.default_rng(5).choice(["no", "yes"], len(patients()))
    table = patients().assign(ill=ill)
    found = [
        synthesize(table, target="ill", bounds=BOUNDS, eta=0.05, insecure_seed=seed)
        for seed in range(4)
    ]
    told = [answer for answer in found if answer.fidelity.shortcoming is not None]
    assert told
    for answer in found:
        area = answer.fidelity.scores["AUC"].synthetic_estimate
        assert area > 0.5 or answer in told
    for answer in told:
        assert "models trained on this table" in answer.fidelity.shortcoming
        assert answer.fidelity.shortcoming in answer.warnings
        assert "warnings" in answer.owner_only


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "arrow"])
def test_the_table_reads_back(tmp_path, ending):
    patients().to_csv(tmp_path / "people.csv", index=False)
    out = tmp_path / f"safe.{ending}"
    answer = synthesize(
        tmp_path / "people.csv", bounds=BOUNDS, eta=0.3, rows=500, out=out, insecure_seed=2
    )
    assert answer.columns == ("age", "city", "ill", "kg", "patient")
    said = check_certificate(out)
    assert said["kind"] == "synthetic table"
    assert said["certificate"]["upper"] <= 0.3
    assert "fidelity" not in certificate_path(out).read_text()
    assert memberbound.certify(out, columns=["city", "ill"]).rows == 500
    again = synthesize(
        out, columns=["city", "ill"], eta=0.45, bounds={n: BOUNDS[n] for n in ("city", "ill")}
    )
    assert again.columns == ("city", "ill")


def test_types_are_those_of_the_table(tmp_path):
    draws = np.random.default_rng(3)
    schema = pa.schema(
        {
            "small": pa.int8(),
            "half": pa.float32(),
            "day": pa.date32(),
            "seen": pa.timestamp("ms"),
            "flag": pa.bool_(),
            "word": pa.dictionary(pa.int32(), pa.string()),
        }
    )
    days = draws.integers(15_000, 16_000, ROWS)
    table = pa.table(
        [
            pa.array(draws.integers(0, 9, ROWS), pa.int8()),
            pa.array(draws.uniform(0, 1, ROWS).astype(np.float32)),
            pa.array(days, pa.int32()).cast(pa.date32()),
            pa.array(days * 86_400_000, pa.timestamp("ms")),
            pa.array(draws.random(ROWS) < 0.5),
            pa.array(draws.choice(["x", "y"], ROWS)).dictionary_encode(),
        ],
        schema=schema,
    )
    pq.write_table(table, tmp_path / "t.parquet")
    synthesize(tmp_path / "t.parquet", eta=0.4, out=tmp_path / "new.parquet", insecure_seed=4)
    new = pq.read_table(tmp_path / "new.parquet")
    assert new.column_names == schema.names
    for name in ("small", "half", "day", "flag"):
        assert new.schema.field(name).type == schema.field(name).type
    assert pa.types.is_timestamp(new.schema.field("seen").type)
    assert set(new["word"].to_pylist()) <= {"x", "y", "other", None}
    assert {type(value) for value in new["flag"].drop_null().to_pylist()} == {bool}


def test_a_category_that_one_person_has_is_not_named():
    """The categories of a pandas column are usually those of its rows."""
    table = patients().drop(columns="patient")
    table.loc[7, "city"] = "the only one"
    table["city"] = table["city"].astype("category")
    answer = synthesize(table, bounds={"age": [18, 90], "kg": [0, 200]}, eta=0.4, insecure_seed=5)
    assert set(answer.table["city"].cat.categories) <= {"Rome", "Oslo", "Bern", "other"}


def test_persons():
    answer = synthesize(patients(), unit="patient", bounds=BOUNDS, eta=0.3, insecure_seed=6)
    assert answer.persons == answer.rows == ROWS // 2
    assert "X26" in answer.theorems
    assert "all of its rows" in answer.assumptions[0]
    assert answer.table["patient"].tolist() == list(range(1, ROWS // 2 + 1))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"eta": 0.7}, "eta"),
        ({"rows": 0}, "rows"),
        ({"columns": "age"}, "two columns"),
        ({"bounds": {"nosuch": [0, 1]}}, "no column 'nosuch'"),
        ({"unit": "age"}, "unit must be neither"),
        ({"eta": 1e-4}, "at least about"),
        ({"out": "exists.csv"}, "must not exist"),
        ({"out": "safe.ods"}, "must end in"),
    ],
)
def test_bad_input_writes_nothing(tmp_path, monkeypatch, options, problem):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exists.csv").write_text("x\n")
    options = {"bounds": BOUNDS, "out": "new.csv", "eta": 0.3} | options
    with pytest.raises(InputError, match=problem):
        synthesize(patients(), **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exists.csv"]
    assert (tmp_path / "exists.csv").read_text() == "x\n"


def test_marginals_are_shares_of_every_column_and_a_picture(answer, tmp_path):
    marginals = answer.fidelity.marginals
    assert set(marginals) == set(answer.table.columns) - set(answer.identifiers)
    for column in marginals.values():
        assert len(column.blocks) == len(column.real_estimate) == len(column.synthetic_estimate)
        assert sum(column.real_estimate) == pytest.approx(1)
        assert sum(column.synthetic_estimate) == pytest.approx(1)
    ill = marginals["ill"]
    real = (patients()["ill"] == "yes").mean()
    assert ill.real_estimate[ill.blocks.index("yes")] == pytest.approx(real)
    chart = marginals_chart(answer)
    assert chart.save(tmp_path / "columns.svg").stat().st_size > 1000
    assert {row[0] for row in chart.rows} == set(marginals)
    assert "owner" in chart.alt


def test_without_fidelity_nothing_is_compared(monkeypatch, tmp_path):
    monkeypatch.setattr(memberbound.verbs.synthesize, "measure_fidelity", None)
    stages, out = [], tmp_path / "new.csv"
    answer = synthesize(
        patients().drop(columns="patient"),
        target="ill",
        bounds=BOUNDS,
        no_fidelity=True,
        out=out,
        progress=lambda *stage: stages.append(stage),
    )
    assert answer.fidelity is None
    assert answer.to_dict()["fidelity"] is None
    assert "owner only" not in answer.summary()
    assert stages[-1] == (f"released: {out}", 3, 3)


def test_a_stopped_comparison_reports_the_release(monkeypatch, tmp_path):
    def stop(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(memberbound.verbs.synthesize, "measure_fidelity", stop)
    patients().to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "public.json").write_text(json.dumps(BOUNDS))
    code, _, said = run_command(
        *("synthesize", "people.csv", "--unit", "patient", "--bounds", "public.json"),
        *("--out", "new.csv"),
        cwd=tmp_path,
    )
    assert code == 130
    assert "── released: new.csv; comparing with the real rows\n" in said
    assert "stopped. Before that the table was released: new.csv. Its budget is spent." in said
    assert (tmp_path / "new.csv").exists()


def test_a_column_may_have_the_name_of_an_argument():
    """Regression: data frames take no column named self as a keyword."""
    table = people(1000).rename(columns={"age": "self"})
    bounds = {"self": [18, 90], "city": ["Rome", "Oslo", "Bern"], "ill": ["no", "yes"]}
    made = synthesize(table, target="ill", bounds=bounds, eta=0.3, insecure_seed=1)
    assert made.table.columns.tolist() == ["self", "city", "ill"]
