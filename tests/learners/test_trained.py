"""A trained model: its inputs and its outputs."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.utils.metaestimators import available_if as sklearn_available_if

from memberbound.errors import InputError
from memberbound.learners.trained import Answers, TrainedModel, available_if, rows_as_trained


def test_a_pipeline_receives_raw_rows(people, pipeline):
    said = TrainedModel.of(pipeline).answers(people.iloc[:, ::-1])  # any order, further columns
    assert said.access == "probabilities"
    assert said.classes.tolist() == ["no", "yes"]
    assert np.array_equal(said.table, pipeline.predict_proba(people[["age", "town"]]))


def test_kinds_of_answers(people):
    x, y = people[["age"]].to_numpy(float), people["rich"].to_numpy()
    assert TrainedModel.of(RidgeClassifier().fit(x, y)).answers(x).access == "logits"
    assert TrainedModel.of(LinearRegression().fit(x, x[:, 0])).answers(x).access == "values"
    assert Answers.of([[0.2, 0.8], [0.5, 0.5]]).access == "probabilities"
    assert Answers.of([[2.0, -1.0], [0.5, 0.5]]).access == "logits"
    assert Answers.of([0.2, 0.8], np.array([0, 1])).table.tolist() == [
        [0.8, 0.2],
        [1 - 0.8, 0.8],
    ]
    assert Answers.of(["a", "b"]).access == "labels"
    assert Answers.of([0.5, 7.5]).access == "values"


def test_columns_that_do_not_match_are_named(people, pipeline):
    with pytest.raises(InputError, match="town is missing"):
        TrainedModel.of(pipeline).answers(people[["age"]])
    bare = LogisticRegression().fit(people[["age"]].to_numpy(), people["rich"])
    with pytest.raises(InputError, match="1 columns"):
        TrainedModel.of(bare).answers(people[["age", "town"]])
    with pytest.raises(InputError, match="must hold numbers"):
        TrainedModel.of(bare).answers(people[["town"]])
    with pytest.raises(InputError, match="must have predict_proba or predict"):
        TrainedModel.of(3)
    changed = people.assign(town="elsewhere")
    with pytest.raises(InputError, match="answer these rows as they are, got ValueError"):
        TrainedModel.of(pipeline).answers(changed)


def test_csv_files_are_read_as_training_scripts_read_them(tmp_path, people):
    path = tmp_path / "people.csv"
    people.to_csv(path, sep=";", index=False)
    frame, name = rows_as_trained(path)
    assert name == str(path)
    pd.testing.assert_frame_equal(frame, pd.read_csv(path, sep=";"))
    with pytest.raises(InputError, match="does not exist"):
        rows_as_trained(tmp_path / "no.csv")


# ── Methods that some models of a class have ──────────────────────────────────────────────────────


def model_with(decorator, check):
    class Model:
        @decorator(check)
        def classes(self):
            """Say which."""
            return [0, 1]

    return Model()


def out_of_memory(self):
    raise MemoryError


@pytest.mark.parametrize("decorator", [available_if, sklearn_available_if])
def test_a_method_is_available_as_in_scikit_learn(decorator):
    assert model_with(decorator, lambda self: True).classes() == [0, 1]
    assert not hasattr(model_with(decorator, lambda self: False), "classes")
    assert not hasattr(model_with(decorator, lambda self: self.missing), "classes")
    assert type(model_with(decorator, out_of_memory)).classes.__doc__ == "Say which."


def test_a_memory_error_is_not_mistaken_for_a_missing_method():
    with pytest.raises(MemoryError):
        hasattr(model_with(available_if, out_of_memory), "classes")
    assert not hasattr(model_with(sklearn_available_if, out_of_memory), "classes")
