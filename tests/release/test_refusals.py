"""What ``protect`` and its estimator refuse or note: the cause, and what would be right."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from memberbound import InputError, MembershipPrivate, protect
from memberbound.release.all_rows.encoding import most_classes
from memberbound.release.all_rows.public_bounds import read_bounds

ROWS = 600
PUBLIC = {"age": [0, 100], "paid": [0, 1000], "ill": ["no", "yes"]}
DRAWS = np.random.default_rng(0)
AGE = DRAWS.integers(0, 100, ROWS)
PEOPLE = pd.DataFrame(
    {
        "age": AGE,
        "paid": DRAWS.uniform(100, 900, ROWS).round(3),
        "ill": np.where(AGE > 50, "yes", "no"),
    }
)


def notes(table, **options):
    answer = protect(
        table, target="ill", eta=0.2, insecure_seed=1, **({"bounds": PUBLIC} | options)
    )
    return " | ".join(answer.warnings)


def test_a_learner_by_name_is_an_estimator():
    model = MembershipPrivate("boosting", eta=0.2, bounds=PUBLIC, insecure_seed=1)
    assert is_classifier(model)
    assert is_regressor(MembershipPrivate("ridge"))
    fitted = clone(model).fit(PEOPLE[["age", "paid"]], PEOPLE["ill"])
    assert fitted.score(PEOPLE[["age", "paid"]], PEOPLE["ill"]) > 0.8
    for learner in ("tree", RandomForestClassifier()):
        with pytest.raises(InputError, match="boosting is the private form of trees"):
            MembershipPrivate(learner).fit(PEOPLE[["age"]], PEOPLE["ill"])


def test_the_targets_bounds_go_by_its_name_or_y():
    X, y = PEOPLE[["age", "paid"]], PEOPLE["ill"]
    by_name = MembershipPrivate(LogisticRegression(), eta=0.2, bounds=PUBLIC, insecure_seed=1)
    as_y = {"y" if name == "ill" else name: bound for name, bound in PUBLIC.items()}
    by_y = MembershipPrivate(LogisticRegression(), eta=0.2, bounds=as_y, insecure_seed=1)
    answers = [model.fit(X, y).predict_proba(X) for model in (by_name, by_y)]
    assert (answers[0] == answers[1]).all()
    with pytest.raises(InputError, match="target as 'y', got 'ill'"):
        by_name.fit(X, y.to_numpy())
    # A column of X of that name keeps its bounds.
    both = X.assign(ill=y)
    assert "ill" in by_name.fit(both, y).released_.columns


@pytest.mark.parametrize("name", ["people.csv", "people.parquet", "columns.json", "rows.json"])
def test_a_table_as_bounds_is_refused_unquoted(name, tmp_path):
    path = tmp_path / name
    secret = pd.DataFrame({"who": ["Ada Lovelace"] * 3, "ill": ["yes", "no", "yes"]})
    if name == "columns.json":
        path.write_text(json.dumps(secret.to_dict("list")))
    elif name == "rows.json":
        secret.to_json(path)
    else:
        secret.to_csv(path, index=False)
    with pytest.raises(InputError) as refusal:
        read_bounds(path)
    assert "Ada" not in str(refusal.value)
    assert "yes" not in str(refusal.value)


def test_eta_as_a_percentage():
    with pytest.raises(InputError, match=r"got '5%'. Write it as 0.05"):
        protect(PEOPLE, target="ill", eta="5%")


def test_one_class_is_named_as_the_cause():
    said = notes(PEOPLE.assign(ill="yes"))
    assert "every row has the class 'yes'" in said
    assert "larger eta" not in said


def test_numbers_that_are_written_otherwise_are_named():
    # Three digits after the comma could be thousands as well, so they are not read as numbers.
    written = [f"{paid:.3f}".replace(".", ",") for paid in PEOPLE["paid"]]
    assert "values of 'paid' are within its bounds" in notes(PEOPLE.assign(paid=written))
    exact = PUBLIC | {"paid": {"range": [0, 1000], "decimal": ","}}
    assert "within its bounds" not in notes(PEOPLE.assign(paid=written), bounds=exact)


def test_more_classes_than_the_budget_carries():
    codes = [f"c{place % 200}" for place in range(ROWS)]
    public = PUBLIC | {"ill": sorted(set(codes))}
    most = most_classes(ROWS, 0.25)
    with pytest.raises(InputError, match=f"at most {most} classes for {ROWS} rows"):
        protect(PEOPLE.assign(ill=codes), target="ill", bounds=public)
