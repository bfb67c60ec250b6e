"""Roles: inferred once, the same for every verb; one parser; identifiers left out by name."""

from __future__ import annotations

import datetime as dt
import json
import random
import re
import uuid
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memberbound.errors import InputError
from memberbound.learners.examples import encode_rows, read_examples
from memberbound.report.model import Question
from memberbound.tables import roles
from memberbound.tables.columns import read_column
from memberbound.tables.opening import open_table
from memberbound.tables.recipe import Recipe
from memberbound.verbs.audit_learner import audit_learner
from memberbound.verbs.certify import certify
from memberbound.verbs.harden import harden
from memberbound.verbs.plan import plan
from memberbound.verbs.population import population
from memberbound.verbs.protect_half import protect_half
from memberbound.verbs.study.question import StudyData
from tables.naive import SHARED


def numbers_from(series, form="number"):
    return read_column(series, form).numbers


#: A quarter of them, which harden looks at, must be enough to tell a key from a number.
ROWS = 800


def columns_and_roles(rows: int = ROWS) -> dict[str, tuple[str, list[str]]]:
    """Columns of text as files have them; every verb must read them to the same numbers."""
    rng = np.random.default_rng(7)
    start = dt.date(2019, 12, 30)
    days = [start + dt.timedelta(days=int(d)) for d in rng.integers(0, 900, rows)]

    def draw_rows(*values: str) -> list[str]:
        return [values[i] for i in rng.integers(0, len(values), rows)]

    return {
        "patient": (
            "identifier",
            [str(uuid.UUID(int=int(i) + 2**100)) for i in rng.permutation(rows)],
        ),
        "row": ("identifier", [str(i) for i in range(rows)]),
        "half": ("number", draw_rows(".5", "1.", "-2.25", "+3")),
        "huge": ("number", draw_rows("1e100", "2E+99", "0")),
        "card": ("category", draw_rows(*(str(10**19 + i) for i in range(9)))),
        "zip": ("category", draw_rows("007", "123")),
        "price": ("number", [f"{a},{b:02d}" for a, b in rng.integers(0, 99, (rows, 2))]),
        "born": ("date", [d.isoformat() for d in days]),
        "seen": ("date", [f"{d.day}/{d.month}/{d.year}" for d in days]),
        "stamp": ("date", [f"{d.isoformat()}T12:30:00.5+02:00" for d in days]),
        "flag": ("category", draw_rows("true", "False")),
        "blank": ("category", [""] * rows),
        "same": ("number", ["7"] * rows),
        "note": ("text", [f"the patient number {i} came in with pain" for i in range(rows)]),
        "ill": ("category", draw_rows("yes", "no")),
    }


NASTY = {name: values for name, (_, values) in columns_and_roles().items()}
WANTED = {name: role for name, (role, _) in columns_and_roles().items()}


def write(columns: dict[str, list[str]], path: Path) -> Path:
    lines = [";".join(columns), *(";".join(row) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(NASTY, tmp_path_factory.mktemp("roles") / "nasty.csv")


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few of the columns: a table that is refused needs no others."""
    columns = {name: NASTY[name] for name in ("patient", "half", "born", "note", "ill")}
    return write(columns, tmp_path_factory.mktemp("roles") / "narrow.csv")


def test_roles_of_the_nasty_table(table):
    with open_table(table) as opened:
        assert {c: r.role for c, r in opened.readings().items()} == WANTED


def test_every_verb_names_the_identifiers_and_leaves_them_out(table):
    quick = {"learner": "naive-bayes", "shadows": 8, "workers": 1}
    protected = {"record": "average", "eta": 0.2, "insecure_seed": 1, "pairs": 8}
    with open_table(table) as opened:  # its columns are looked at once
        answers = {
            "certify": certify(opened),
            "plan": plan(opened, security=0.5),
            "population": population(opened, epsilon=1.0),
            "harden": harden(opened, security=0.3, target="ill"),
            "audit_learner": audit_learner(opened, target="ill", **quick),
            "protect-half": protect_half(opened, target="ill", **protected),
        }
    for verb, answer in answers.items():
        said = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
        assert said["roles"] == WANTED, verb
        notes = " ".join(said["warnings"])
        for name in ("patient", "row"):
            assert f"{name!r} looks like an identifier and is left out" in notes, verb
            assert f"{name!r} looks like an identifier" in answer.summary(), verb
    for verb in ("certify", "plan"):
        assumed = " ".join(answers[verb].assumptions)
        assert "'patient', 'row'" in assumed, verb
    # certify covers any learner, so it counts free text, with a note on the consequences
    assert any("'note' is free text" in w for w in answers["certify"].warnings)
    assert answers["harden"].steps[0].startswith("drop patient, row")
    study = StudyData.read(table, Question("ill"))
    assert study.describe("ill").left_out == ("patient", "row", "note")
    assert "patient" not in study.table.frame.columns


def test_overrides():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"zip": rng.integers(10_000, 10_009, 300), "id": range(300), "y": rng.integers(0, 2, 300)}
    )
    examples = read_examples(frame, "y")
    assert examples.columns == ("zip",)
    assert examples.features.shape == (300, 1)
    assert read_examples(frame, "y", roles={"zip": "category"}).features.shape == (300, 9)
    assert read_examples(frame, "y", roles={"id": "number"}).columns == ("zip", "id")
    assert read_examples(frame, "y", columns=["id"]).columns == ("id",)
    assert read_examples(frame, "y", roles={"id": "number", "zip": "identifier"}).columns == ("id",)
    for wrong, words in (
        ({"zap": "number"}, "roles must name columns.*'zap'"),
        ({"zip": "nmber"}, "role of 'zip' must be one of"),
        ({"zip": "date"}, "'zip' must hold dates"),
        ("zip=number", "roles must map"),
    ):
        with pytest.raises(InputError, match=words):
            read_examples(frame, "y", roles=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least one column"):
        read_examples(frame, "y", roles={"id": "identifier", "zip": "identifier"})
    with pytest.raises(InputError, match="'town' must hold numbers to have"):
        certify(pd.DataFrame({"town": ["a", "b"]}), roles={"town": "number"})


@pytest.mark.parametrize("verb", ["audit_learner", "harden"])
@pytest.mark.parametrize(
    ("target", "words"),
    [("born", "holds dates"), ("patient", "looks like an identifier"), ("note", "free text")],
)
def test_a_target_that_cannot_be_learnt_is_refused(narrow, verb, target, words):
    ask = {
        "audit_learner": lambda: audit_learner(narrow, target=target),
        "harden": lambda: harden(narrow, security=0.5, target=target),
    }[verb]
    with pytest.raises(InputError, match=f"target must.*{words}"):
        ask()


def test_a_whole_number_target_needs_a_role():
    frame = pd.DataFrame({"x": np.linspace(0, 1, 200), "y": range(200)})
    with pytest.raises(InputError, match="role 'number'"):
        read_examples(frame, "y")
    assert read_examples(frame, "y", roles={"y": "number"}).task == "regression"


def role(values: object, name: str = "x") -> str:
    return open_table(pd.DataFrame({name: values}), beside=SHARED).readings()[name].role


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (range(1000), "identifier"),
        (range(99), "number"),  # too few rows to tell
        (np.arange(1000) / 7, "number"),  # a double is a measurement
        ([str(float(i)) for i in range(1000)], "number"),
        ([f"n{i}" for i in range(19)], "category"),
        ([f"n{i}" for i in range(20)], "identifier"),
        ([10**17 + i for i in range(50)], "identifier"),
        (["99999999999999999999", "1.5"] * 20, "number"),
        (["1,234", "5,678"] * 20, "category"),  # thousands or thousandths?
        (["1,234", "5,67"] * 20, "number"),
        (["1,234.5", "5.0"] * 20, "number"),
        (["1.234.567", "1,5"] * 20, "number"),
        (["2020-02-30", "2020-02-28"] * 20, "date"),
        (["13/12/2020", "12/13/2020"] * 20, "category"),  # neither order fits both
        (["3 Mar 2020", "March 4, 2020", "5-Mar-2020 10:00"] * 9, "date"),
        (["31.12.2020", "1.1.2021 23:59:59 Z"] * 20, "date"),
        (["NaN", "1"] * 20, "number"),  # programs write a missing value so
        (["n/a", "1.5"] * 20, "category"),
        (["0x10", "1_000", "１２"] * 20, "category"),
        ([None] * 30, "category"),
        ([True, False] * 20, "category"),
        ([pd.Timestamp("2020-01-01", tz="Europe/Berlin")] * 30, "date"),
        ([dt.date(2020, 1, 1)] * 30, "date"),
        ([dt.timedelta(hours=3)] * 30, "number"),
        ([1, "a", 2.5] * 20, "category"),
    ],
)
def test_roles_one_by_one(values, wanted):
    assert role(list(values)) == wanted


def test_names_help():
    rng = np.random.default_rng(1)
    scattered = rng.choice(10**9, 300, replace=False)
    assert role(scattered) == "number"
    assert role(scattered, "patient_nbr") == "identifier"
    assert role(scattered, "CustomerID") == "identifier"
    assert role(scattered, "paid") == "number"
    assert role(rng.integers(0, 5, 300), "region_id") == "number"
    assert role([str(uuid.UUID(int=int(i))) for i in range(100)] * 2) == "identifier"


@settings(max_examples=20, derandomize=True, deadline=None)
@given(st.integers(100, 400), st.integers(1, 400), st.integers(0, 2**32))
def test_independent_whole_numbers_are_not_identifiers(rows, span, seed):
    """Rows drawn independently from any range repeat too often to be taken for a key."""
    values = np.random.default_rng(seed).integers(0, span * 10, rows)
    assert role(values) == "number"


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
def test_numbers_go_through_text_unharmed(values):
    texts = pd.Series([repr(v) for v in values], dtype=object)
    assert numbers_from(texts).tolist() == values
    commas = pd.Series([repr(v).replace(".", ",") for v in values], dtype=object)
    assert numbers_from(commas, "comma").tolist() == values


@settings(max_examples=40, derandomize=True, deadline=None)
@given(
    st.lists(st.datetimes(timezones=st.timezones() | st.none()), min_size=1, max_size=20),
    st.sampled_from(["%Y-%m-%d %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S"]),
)
def test_dates_go_through_text_unharmed(moments, form):
    kept = [m.replace(microsecond=0, tzinfo=None) for m in moments if m.year >= 1000]
    epoch = dt.datetime(1970, 1, 1)
    wanted = [(m - epoch) / dt.timedelta(days=1) for m in kept]
    texts = pd.Series([m.strftime(form) for m in kept], dtype=object)
    assert numbers_from(texts, "date").tolist() == wanted
    if kept:
        first = pd.Series([f"{m.day}/{m.month}/{m.year} {m:%H:%M:%S}" for m in kept], dtype=object)
        assert numbers_from(first, "day-first").tolist() == wanted


def test_further_rows_are_read_as_the_population_was(table, tmp_path):
    """One new row has no column of its own to infer from: the encoder has its form."""
    columns = ["half", "price", "seen", "stamp", "zip"]
    examples = read_examples(table, "ill", columns=columns)
    row = {c: NASTY[c][5] for c in columns}
    (tmp_path / "new.csv").write_text(";".join(row) + "\n" + ";".join(row.values()) + "\n")
    for source in (tmp_path / "new.csv", pd.DataFrame([row])):
        made, _ = encode_rows(examples.encoder, examples.columns, source)
        assert np.array_equal(made[0], examples.features[5])


def test_dates_are_coarsened_as_dates(tmp_path):
    rng = np.random.default_rng(6)
    days = [dt.date(2018, 1, 1) + dt.timedelta(days=int(d)) for d in rng.integers(0, 1400, 4000)]
    late = np.array([d.year >= 2020 for d in days])
    frame = pd.DataFrame(
        {
            "when": [f"{d.day}/{d.month}/{d.year}" for d in days],
            "y": np.where(late ^ (rng.random(4000) < 0.1), "a", "b"),
        }
    )
    path, recipe = tmp_path / "t.csv", tmp_path / "recipe.json"
    frame.to_csv(path, index=False)
    found = harden(path, security=0.9, target="y", recipe=recipe)
    assert found.steps == ("put when into 2 bins with edges 2020-01-01",)
    assert set(found.table["when"]) == {"<=2020-01-01", ">2020-01-01"}
    assert Recipe.from_json(recipe.read_text("utf-8")) == found.rules


# ---- one scan, few patterns ----------------------------------------------------------------------


def spelled_plainly(value: str) -> str:
    """Naive: the first of the spellings that fits, one after the other."""
    fits = (n for n, pattern in roles.SPELLINGS.items() if re.fullmatch(pattern, value, re.ASCII))
    return next(fits, "other")


def spell_by_the_engine(values: list[str]) -> list[str]:
    names = {bit: name for name, bit in roles._BITS.items()}
    with open_table(pa.table({"v": values})) as opened:
        source = f"SELECT v AS t, {roles._SENTENCE} AS s FROM (SELECT v AS t, v FROM {opened.view})"
        found = opened.engine.sql(f"SELECT {roles._spelling_bit()} FROM ({source})").fetchall()
    return [names[bit] for (bit,) in found]


def some_spellings() -> list[str]:
    draw = random.Random(0)
    made = {"2020-01-02", "01.02.2020", "true", "3 Jan 2020", "a b c d", "0.123", "1.234", "1.23"}
    for _ in range(4000):
        made.add("".join(draw.choices("0123456789+-.,eE/:T Zafjt{}", k=draw.randint(1, 9))).strip())
        whole = str(draw.randint(0, 10 ** draw.randint(1, 17)))
        decimals = "".join(draw.choices("0123456789", k=draw.randint(0, 6)))
        sign, mark = draw.choice(["", "+", "-"]), draw.choice(["", ".", ","])
        made.add(sign + whole + mark + decimals + draw.choice(["", "", "e5"]))
    return sorted(made - {""})


def test_the_fast_pattern_order_agrees_with_the_plain_one(monkeypatch):
    values = some_spellings()
    plain = [spelled_plainly(value) for value in values]
    assert len(set(plain)) >= 8
    assert spell_by_the_engine(values) == plain
    # Negative control: thousands taken for decimals.
    monkeypatch.setattr(roles, "_DECIMAL", "[+-]?(0|[1-9][0-9]*)[.][0-9]+")
    assert spell_by_the_engine(values) != plain


def test_distinct_values_give_the_roles_of_all_values(monkeypatch):
    rows = 300
    draw = random.Random(1)
    shapes = {
        "codes": ["a", "b", " b ", "", "NaN", None],
        "numbers": ["1", "2.5", "-3", " 4 ", "null"],
        "commas": ["1,5", "2,75"],
        "thousands": ["1,500", "2,750"],
        "days": ["2020-01-02", "2021-12-31", ""],
        "flags": ["true", "FALSE"],
        "words": ["one two three four", "five"],
        "missing": [None],
        "long": ["x" * 2000, "y"],
    }
    columns = {name: [draw.choice(values) for _ in range(rows)] for name, values in shapes.items()}
    columns |= {"who": [f"p{i}" for i in range(rows)], "id": [str(i) for i in range(rows)]}

    def facts(few: int, frame: dict[str, list[str | None]]) -> dict[str, roles._Facts]:
        monkeypatch.setattr(roles, "_FEW_VALUES", few)
        kinds = dict.fromkeys(frame, "text")
        with open_table(pa.table(frame)) as opened:
            return roles._Scan(opened.engine, opened.view).facts(kinds)

    by_value, row_by_row = facts(2000, columns), facts(0, columns)
    assert by_value == row_by_row
    assert by_value["codes"].distinct == 2
    assert by_value["missing"] == roles._Facts(0, 0)
    # One value decides in both ways.
    columns["numbers"] = [*columns["numbers"][1:], "x"]
    assert facts(2000, columns)["numbers"] == facts(0, columns)["numbers"] != by_value["numbers"]
