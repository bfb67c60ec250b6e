import warnings

import numpy as np
import pandas as pd
import pytest

from memberbound.errors import InputError
from memberbound.learners.examples import read_examples
from memberbound.learners.names import LEARNERS, learner_from_name
from memberbound.tables.recipe import exact_codes


@pytest.fixture
def people() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [30, 40, None, 60] * 10,
            "town": ["a", "b", None, "a"] * 10,
            "ill": ["yes", "no", "no", "yes"] * 10,
        }
    )


def test_numbers_are_scaled_and_categories_become_indicators(people):
    examples = read_examples(people, "ill")
    assert examples.task == "classification"
    assert examples.classes == ("no", "yes")
    assert examples.target.tolist() == [1, 0, 0, 1] * 10
    # age, and one indicator each for a, b and missing
    assert examples.features.shape == (40, 4)
    assert np.allclose(examples.features[:, 0].mean(), 0)
    assert np.allclose(examples.features[:, 0].std(), 1)
    assert set(np.unique(examples.features[:, 1:])) == {0.0, 1.0}


def test_a_number_with_many_values_is_a_regression_target():
    table = pd.DataFrame({"x": np.arange(50.0), "y": np.arange(50.0) / 7})
    assert read_examples(table, "y").task == "regression"
    assert read_examples(table, "y", task="classification").classes != ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.assign(ill="no"), "at least two classes"),
        (lambda t: t.assign(ill=None), "in every row|no value"),
        (lambda t: t.iloc[:0], "at least one row"),
        (lambda t: t.drop(columns="ill"), "no column 'ill'"),
        (lambda t: t[["ill"]], "besides the target"),
    ],
)
def test_unusable_tables_are_refused(people, change, words):
    with pytest.raises(InputError, match=words):
        read_examples(change(people), "ill")


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_every_name_gives_a_learner_for_some_task(task):
    made = 0
    for name in LEARNERS:
        try:
            learner = learner_from_name(name, task)
        except InputError as problem:
            assert "must be one of" in str(problem)  # noqa: PT017
        else:
            target = np.arange(30) % 2 if task == "classification" else np.arange(30.0)
            rows = np.column_stack([target, np.ones(30)])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert len(learner.fit(rows, target).predict(rows)) == 30
            made += 1
    assert made >= 6


def test_a_factory_by_its_import_path():
    learner = learner_from_name("sklearn.dummy:DummyClassifier")
    assert type(learner).__name__ == "DummyClassifier"
    for name in ("no.such.module:thing", "sklearn.dummy:nothing", "json:dumps", "logistc"):
        with pytest.raises(InputError):
            learner_from_name(name)


def test_texts_are_counted_by_all_of_their_bytes():
    values = ["a", "a\0b", "a\0c", None, "a", "", "é", "e\u0301", None]
    typed = exact_codes(pd.Series(values, dtype="string"))
    np.testing.assert_array_equal(typed, exact_codes(pd.Series(values, dtype=object)))
    assert typed.tolist() == [0, 1, 2, 3, 0, 4, 5, 6, 3]
    half = ["a", "\ud800", "a"]  # no bytes: counted one by one
    assert exact_codes(pd.Series(half, dtype=object)).tolist() == [0, 1, 0]
