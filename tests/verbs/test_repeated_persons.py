"""Persons with several rows: only the owner gets a note, and sentences speak of persons."""

import re

import numpy as np
import pandas as pd
import pytest
from tests.oracle.replay import published_part, replayed

from memberbound import (
    audit_learner,
    explain,
    harden,
    ledger,
    population,
    protect,
    protect_half,
    summarize,
    synthesize,
)

BOUNDS = {"age": [0, 90], "ill": ["no", "yes"]}
ASKED = {"eta": 0.4, "insecure_seed": 1}
VERBS = {
    "protect": lambda table, **more: protect(
        table, target="ill", trial=False, bounds=BOUNDS, **ASKED, **more
    ),
    "summarize": lambda table, **more: summarize(
        table, statistic="mean", bounds={"age": [0, 90]}, **ASKED, **{"columns": "age"} | more
    ),
    "synthesize": lambda table, **more: synthesize(table, rows=20, bounds=BOUNDS, **ASKED, **more),
}
ROWS = 240


def people(ids, name="Patient-Nr"):
    draws = np.random.default_rng(0)
    ages = draws.integers(0, 90, ROWS)
    return pd.DataFrame({name: ids, "age": ages, "ill": np.where(ages > 45, "yes", "no")})


ONE_EACH = [f"p{k}" for k in range(ROWS)]
SEVERAL = [f"p{k // 3}" for k in range(ROWS)]


#: The columns of a verb without the identifier.
USED = {"protect": ["age"], "summarize": ["age"], "synthesize": ["age", "ill"]}


def repeat_notes(answer):
    return [note for note in answer.warnings if "repeat" in note and "--unit" in note]


@pytest.mark.parametrize("memory", [None, "1KB"])
@pytest.mark.parametrize("ending", ["frame", "csv", "parquet"])
@pytest.mark.parametrize("verb", VERBS)
def test_the_owner_gets_a_note_on_repeated_identifiers(tmp_path, verb, ending, memory):
    def store(frame):
        path = tmp_path / f"t.{ending}"
        if ending != "frame":
            getattr(frame, f"to_{ending}")(path, index=False)
        return frame if ending == "frame" else path

    found = VERBS[verb](store(people(SEVERAL)), memory=memory)
    (note,) = repeat_notes(found)
    assert "'Patient-Nr' repeat: if one person has several rows, use --unit Patient-Nr" in note
    assert "warnings" in found.owner_only
    # Also if the column is not used; not if no person occurs twice or a unit is given.
    assert repeat_notes(VERBS[verb](store(people(SEVERAL)), columns=USED[verb], memory=memory))
    assert not repeat_notes(VERBS[verb](store(people(ONE_EACH)), memory=memory))
    if memory is None or ending != "frame":
        assert not repeat_notes(
            VERBS[verb](store(people(SEVERAL)), unit="Patient-Nr", memory=memory)
        )


@pytest.mark.parametrize(
    ("name", "ids", "expected"),
    [
        ("customer", SEVERAL, True),
        ("customer id", ["a", "b"] * (ROWS // 2), True),
        ("ward_id", ["a", "b"] * (ROWS // 2), False),  # too few values for persons
        ("account_no", SEVERAL, True),
        ("town", SEVERAL, False),
    ],
)
def test_names_of_records(name, ids, expected):
    notes = repeat_notes(VERBS["protect"](people(ids, name)))
    assert bool(notes) == expected
    assert all("--unit 'customer id'" in note for note in notes if " " in name)


@pytest.mark.parametrize("verb", VERBS)
def test_the_note_is_published_nowhere(monkeypatch, tmp_path, verb):
    """One record decides it: everything else, the files included, is the same without it."""
    seen, notes = [], []
    ending = {"protect": "json", "summarize": "json", "synthesize": "csv"}[verb]
    for k, ids in enumerate((ONE_EACH, ["p1", *ONE_EACH[1:]])):
        folder = tmp_path / str(k)
        folder.mkdir()

        def made(ids=ids, folder=folder):
            found = VERBS[verb](people(ids), columns=USED[verb], out=folder / f"r.{ending}")
            notes.append(repeat_notes(found))
            return published_part(found).replace(str(folder), "")

        shown = replayed(monkeypatch, made)[0]
        files = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
        assert not any("repeat" in text and "--unit" in text for text in files.values())
        # The time of the release is no part of it.
        seen.append((shown, {n: re.sub(r'"created":[^,}]*', "", t) for n, t in files.items()}))
    assert [bool(note) for note in notes] == [False, True]
    assert seen[0] == seen[1]


@pytest.mark.parametrize("verb", VERBS)
def test_with_a_unit_every_sentence_is_about_persons(verb):
    found = VERBS[verb](people(SEVERAL), unit="Patient-Nr")
    table = found.summary()
    assert "any person's membership" in found.sentence
    assert "every other person" in found.sentence
    assert f"{ROWS // 3} persons" in found.sentence
    spoken = [found.sentence, *found.warnings, *re.findall(r"\(\w+ replaced", table)]
    assert not [text for text in spoken if re.search(r"\brecords?\b", text)]
    # Negative control: without one it is a record.
    plain = VERBS[verb](people(SEVERAL))
    assert "any record's membership" in plain.sentence
    assert "(record replaced" in plain.summary()


def with_ledger(show):
    """Show a ledger with one release of numbers."""

    def ask(table, unit, folder):
        book = folder / f"{unit}.json"
        ledger(book, limit_eta=0.45)
        summarize(table, statistic="mean", columns="age", unit=unit, ledger=book, eta=0.2)
        return show(book)

    return ask


#: Verbs of the other games use the first row of each person; ledgers record their unit.
OTHERS = {
    "protect-half": lambda table, unit, _: protect_half(
        table, statistic="mean", columns="age", unit=unit, insecure_seed=1
    ),
    "population": lambda table, unit, _: population(table, columns="age", unit=unit, epsilon=1.0),
    "population, vacuous": lambda table, unit, _: population(
        table, columns="age", unit=unit, epsilon=900.0
    ),
    "audit-learner": lambda table, unit, _: audit_learner(
        table,
        target="ill",
        columns="age",
        unit=unit,
        learner="tree",
        attacks=["loss"],
        shadows=8,
        workers=1,
    ),
    "harden": lambda table, unit, _: harden(table, columns="ill", unit=unit, security=0.1),
    "ledger": with_ledger(ledger),
    "explain": with_ledger(lambda book: explain(ledger=book)),
}


@pytest.mark.parametrize("verb", OTHERS)
def test_with_a_unit_the_other_verbs_speak_of_persons(verb, tmp_path):
    found = OTHERS[verb](people(SEVERAL), "Patient-Nr", tmp_path)
    spoken = [found.sentence, *getattr(found, "warnings", ()), found.summary()]
    spoken += [success.what for success in getattr(found, "successes", lambda _: ())("ceiling")]
    assert re.search(r"\bpersons?\b", found.sentence)
    assert not [text for text in spoken if re.search(r"\brecords?\b", text)]
    # Negative control: without one it is a record.
    plain = OTHERS[verb](people(SEVERAL), None, tmp_path)
    assert re.search(r"\brecord('s)?\b", plain.sentence)
    assert not re.search(r"\bpersons?\b", plain.sentence)
