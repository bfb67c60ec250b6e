"""A person with several rows is one record in every verb that reads rows one by one."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import memberbound
from memberbound.errors import InputError
from memberbound.release.saving import certificate_path, load
from memberbound.tables.public_rows import first_rows, read_population

RNG = np.random.default_rng(3)
PEOPLE = 300
#: Person p has one to three visits; "first" is 1 on the first of them only.
VISITS = pd.DataFrame(
    [
        {"who": f"p{p}", "age": p % 60 + 20, "first": int(visit == 0), "ill": "ny"[p % 2]}
        for p in range(PEOPLE)
        for visit in range(1 + p % 3)
    ]
)


def test_distinct_spellings_are_two_persons():
    """Merging two people would make one row depend on both: 1, 1.0, "1" and True are four."""
    mixed = pd.DataFrame({"who": np.array([1, 1.0, "1", True, 1], dtype=object), "x": range(5)})
    assert first_rows(mixed, "who")[0]["x"].tolist() == [0, 1, 2, 3]


def test_replacing_a_person_changes_one_row():
    """The basis of the guarantee; the broken twin keeps all rows."""
    other = VISITS.copy()
    other.loc[other["who"] == "p5", ["age", "first"]] = 99
    one, two = (first_rows(t, "who")[0] for t in (VISITS, other))
    assert (one != two).any(axis=1).sum() == 1
    assert (other != VISITS).any(axis=1).sum() == 3


@pytest.mark.parametrize(
    ("unit", "message"),
    [("nobody", "has no column 'nobody'"), ("ill", "neither the target nor among the columns")],
)
def test_refusals(unit, message):
    with pytest.raises(InputError, match=message):
        read_population(VISITS, target="ill", unit=unit)


def test_rows_without_a_person_are_refused():
    with pytest.raises(InputError, match="got 1 rows"):
        first_rows(VISITS.assign(who=VISITS["who"].where(VISITS.index > 0)), "who")


def test_every_verb_counts_people(tmp_path):
    """Each verb sees as many records as there are persons, and states the unit."""
    path = tmp_path / "visits.csv"
    VISITS.to_csv(path, index=False)
    bounds = {"age": [20, 80], "first": [0, 1], "ill": ["n", "y"]}
    protected = memberbound.protect(path, target="ill", unit="who", bounds=bounds, eta=0.2)
    population = memberbound.population(path, columns=["age"], unit="who", epsilon=5)
    hardened = memberbound.harden(path, unit="who", security=0.5, target="ill")
    audited = memberbound.audit_learner(
        path, target="ill", unit="who", learner="logistic", shadows=8, cache=False, workers=1
    )
    assert protected.to_dict()["rows_trained"] == PEOPLE
    assert population.to_dict()["records"] == PEOPLE
    assert hardened.to_dict()["rows_read"] == PEOPLE
    assert any(f"{PEOPLE} of {len(VISITS)} rows" in note for note in audited.warnings)
    for answer in (protected, population, hardened, audited):
        assert "one value of 'who'" in json.dumps(answer.to_dict())


def test_published_text_states_the_unit(tmp_path):
    """One row that gets another owner changes the number of records, which is published.

    So a guarantee that does not define a record would be violated by that number.
    """
    bounds = {"age": [20, 80], "first": [0, 1], "ill": ["n", "y"]}
    other = VISITS.assign(who=VISITS["who"].where(VISITS.index != len(VISITS) - 1, "new"))
    path = tmp_path / "model.json"
    one, two = (
        memberbound.protect(table, target="ill", unit="who", bounds=bounds, eta=0.2, out=out)
        for table, out in ((VISITS, path), (other, None))
    )
    assert two.rows_trained == one.rows_trained + 1 == PEOPLE + 1
    plain = memberbound.protect(VISITS, target="ill", columns="age", eta=0.2, bounds=bounds)
    numbers = {"columns": "age", "bounds": {"age": [20, 80]}, "statistic": "mean", "eta": 0.2}
    mean = memberbound.summarize(VISITS, unit="who", **numbers)
    written = json.loads(certificate_path(path).read_text(encoding="utf-8"))
    models = [
        one.to_dict()["certificate"],
        written["certificate"],
        load(path).certificate_.to_dict(),
    ]
    of_rows = plain.to_dict()["certificate"]
    mean_of_rows = memberbound.summarize(VISITS, **numbers).to_dict()["certificate"]
    pairs = [(model, of_rows) for model in models]
    for certificate, unsaid in (*pairs, (mean.to_dict()["certificate"], mean_of_rows)):
        assert "'who'" in certificate["assumptions"][0]
        assert certificate["assumptions"][1:] == unsaid["assumptions"][1:]
        assert "'who'" not in unsaid["assumptions"][0]
    assert "'who'" in one.sentence
    assert "'who'" in mean.sentence
    assert "'who'" not in plain.sentence
