"""The verb ``protect-half`` as a user meets it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memberbound.errors import InputError
from memberbound.release.saving import check_certificate
from memberbound.verbs.protect_half import protect_half

pytestmark = pytest.mark.usefixtures("few_fits")


@pytest.fixture
def people() -> pd.DataFrame:
    draws = np.random.default_rng(7)
    age = draws.integers(20, 80, 120)
    town = draws.choice(["a", "b", "c"], 120)
    ill = np.where(age + draws.normal(0, 8, 120) + 5 * (town == "a") > 50, "yes", "no")
    return pd.DataFrame({"age": age, "town": town, "ill": ill})


def quick(**more):
    subset = {"record": "average", "pairs": 20, "workers": 1}
    return subset | {"insecure_seed": 3, "eta": 0.2} | more


def test_a_model_from_a_table_and_its_predictions(people: pd.DataFrame, tmp_path: Path) -> None:
    result = protect_half(people, target="ill", out=tmp_path / "model.skops", **quick())
    answer = result.to_dict()
    for key in ("eta", "noise_scale", "score_clean", "score_released", "certificate", "out"):
        assert key in answer
    json.dumps(answer, allow_nan=False)
    assert answer["game"] == "subset"
    assert answer["protects"] == "average record"
    assert answer["certificate"]["upper"] <= 0.2
    assert answer["noise_scale"] > 0
    assert any("seed" in w for w in answer["warnings"])
    assert check_certificate(tmp_path / "model.skops")["certificate"]["upper"] <= 0.2


@pytest.mark.parametrize(
    ("statistic", "record"),
    [("mean", "average"), ("mean", "every"), ("sum", "every"), ("covariance", "average")],
)
def test_sums_are_certified_without_sampling(
    people: pd.DataFrame, statistic: str, record: str
) -> None:
    options = {"columns": ["age"], "eta": 0.05, "insecure_seed": 1}
    result = protect_half(people.iloc[:12], statistic=statistic, record=record, **options)
    assert result.calibration.certificate.confidence == 1.0
    assert result.calibration.certificate.value <= 0.05
    assert result.to_dict()["protects"] == f"{record} record"
    assert len(result.to_dict()["values"]) == 1


def test_a_histogram_of_words_and_of_numbers(people: pd.DataFrame) -> None:
    people = people.iloc[:30]  # the crowd of fewer than 39 records is not looked at
    words = protect_half(people, statistic="histogram", columns=["town"], insecure_seed=1)
    assert sorted(words.to_dict()["names"]) == ["a", "b", "c"]
    varied = people.assign(age=np.linspace(20, 80, len(people)))
    many = pd.concat([varied, varied.assign(age=varied["age"] + 0.5)])
    ages = protect_half(many, statistic="histogram", columns=["age"], insecure_seed=1)
    assert len(ages.to_dict()["values"]) == 20


def test_quantiles_and_functions_by_refitting(people: pd.DataFrame) -> None:
    options = {"columns": ["age"], "eta": 0.3, "pairs": 60, "insecure_seed": 1, "workers": 1}
    middle = protect_half(people, statistic="quantiles", **options)
    assert middle.calibration.certificate.confidence == 0.95
    largest = protect_half(people, statistic=lambda rows: rows.max(axis=0), **options)
    assert largest.what == "statistic"


def test_clip_and_size_apply_to_models_and_to_numbers(people: pd.DataFrame) -> None:
    model = protect_half(people, target="ill", size=50, clip=1.0, **quick()).released.model
    assert model.certificate_.game.size == 50
    assert model.clip == 1.0
    options = {"columns": ["age"], "size": 50, "insecure_seed": 1, "pairs": 60, "eta": 0.3}
    for statistic in ("sum", "quantiles"):
        result = protect_half(people, statistic=statistic, clip=1e-9, **options)
        assert max(map(abs, result.values)) < 1e-6
        assert result.calibration.certificate.game.size == 50


def test_predictions_of_a_tree_on_public_rows(people: pd.DataFrame) -> None:
    result = protect_half(
        people, target="ill", learner="tree", query=people.iloc[:3], **quick(eta=0.3, pairs=60)
    )
    assert len(result.released.predict(people.iloc[:3])) == 3
    with pytest.raises(InputError):
        result.released.predict(people.iloc[3:5])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs either a target"),
        ({"target": "ill", "statistic": "mean"}, "needs either a target"),
        ({"target": "ill", "eta": 0.5}, "in \\(0, 0.5\\)"),
        ({"target": "none"}, "no column 'none'"),
        ({"target": "ill", "learner": "magic"}, "learner must be one of"),
        ({"target": "ill", "record": "some"}, "one of"),
        ({"target": "ill", "method": "some"}, "one of"),
        ({"target": "ill", "learner": "random-forest"}, "query rows"),
        ({"statistic": "median"}, "one of"),
        ({"target": "ill", "method": "crowd"}, "not a sum over records"),
        (
            {"statistic": "quantiles", "columns": ["age"], "method": "crowd"},
            "not a sum over records",
        ),
        ({"statistic": "histogram"}, "one column"),
        ({"statistic": "mean", "learner": "ridge"}, "apply to a model"),
        ({"target": "ill", "size": 0}, "size must be"),
        ({"statistic": "histogram", "columns": ["age"], "clip": 1.0}, "clip applies to rows"),
        ({"target": "ill", "out": "model.pickle"}, "must end in"),
        ({"statistic": "mean", "out": "values.skops"}, "must end in"),
        ({"target": "same"}, "two classes"),
    ],
)
def test_bad_questions(people: pd.DataFrame, options: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        protect_half(people.assign(same="no"), **options)


def test_three_records_are_refused(people: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="at least 4 records"):
        protect_half(people[["age"]].iloc[:3], statistic="mean")
