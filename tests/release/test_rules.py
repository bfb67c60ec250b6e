"""Public rules: new rows follow them, nothing more is measured, and bad rules are refused.

Truth: a naive check, row by row in plain Python, that shares no code with the rules.
"""

import json
import math
from dataclasses import replace
from datetime import date

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.commands import command
from tests.oracle.training import PUBLIC, people

import memberbound
from memberbound.errors import InputError
from memberbound.release.all_rows import rules as rules_module
from memberbound.release.all_rows import rules_section, synthetic
from memberbound.release.all_rows.bounds import read_bounds
from memberbound.release.all_rows.rules_section import read_rules
from memberbound.tables.columns import label_of, read_column

EDGES, GROUPS = [30, 45, 65], ["young", "middle", "older", "old"]
AGE_GROUP = {"from": "age", "edges": EDGES, "labels": GROUPS}


def read(section, **bounds):
    document = {**bounds, "rules": section}
    return read_rules(document, read_bounds(document))


# ── The naive check ───────────────────────────────────────────────────────────────────────────────


def plain(value):
    """A value of a frame as Python has it: None where it is missing."""
    return None if pd.isna(value) else value


def meets(value, wanted):
    if isinstance(wanted, dict):
        low, high = wanted.get("at_least", -math.inf), wanted.get("at_most", math.inf)
        return value is not None and low <= value <= high
    return value in wanted if isinstance(wanted, list) else value == wanted


def derived(value, how):
    if "map" in how:
        return how["map"].get(value)
    return None if value is None else how["labels"][sum(edge <= value for edge in how["edges"])]


def broken_rules(frame, section):
    """The rules that some row breaks."""
    found = []
    rows = [{n: plain(value) for n, value in row.items()} for row in frame.to_dict("records")]
    for column, how in section.get("derived", {}).items():
        found += [column for row in rows if row[column] != derived(row[how["from"]], how)]
    for rule in section.get("implies", []):
        for row in rows:
            if all(meets(row[column], wanted) for column, wanted in rule["if"].items()):
                found += [rule for column, value in rule["then"].items() if row[column] != value]
    for first, second in section.get("at_most", []):
        known = [row for row in rows if row[first] is not None and row[second] is not None]
        found += [(first, second) for row in known if row[first] > row[second]]
    for name in section.get("unique", []):
        found += [name] * (len({row[name] for row in rows}) < len(rows))
    return found


WORDS, WHOLE = ["p", "q", "r"], [0, 1, 2, 3]
DOMAINS = {"a": WORDS, "b": WORDS, "x": WHOLE, "y": WHOLE}
DERIVED = {
    "group": {"from": "x", "edges": [1, 3], "labels": ["low", "mid", "low"]},
    "code": {"from": "a", "map": {"p": 1, "q": 2, "r": 2}},
    "far": {"from": "group", "map": {"low": "L", "mid": "M"}},
}
OUTCOMES = {**DOMAINS, "group": ["low", "mid"], "code": [1, 2], "far": ["L", "M"]}
NUMBERS = ("x", "y", "code")


@st.composite
def sections(draw):
    names = draw(st.lists(st.sampled_from(list(DERIVED)), unique=True))
    names = [n for n in names if DERIVED[n]["from"] in (*DOMAINS, *names)]
    columns = [*DOMAINS, *names]

    def condition(name):
        values = st.sampled_from([*OUTCOMES[name], None])
        ways = [values, st.lists(values, min_size=1, max_size=2)]
        if name in NUMBERS:
            ends = st.sampled_from([0, 1, 2])
            ways += [st.fixed_dictionaries({"at_most": ends})]
            ways += [st.fixed_dictionaries({"at_least": ends})]
        return draw(st.one_of(ways))

    ordered = draw(st.booleans())
    implies = []
    for _ in range(draw(st.integers(0, 4))):
        asked = draw(st.lists(st.sampled_from(columns), min_size=1, max_size=2, unique=True))
        then = draw(st.sampled_from(list(DOMAINS)))
        value = draw(st.sampled_from([*DOMAINS[then], None]))
        if ordered and then in ("x", "y"):
            value = None
        implies.append({"if": {name: condition(name) for name in asked}, "then": {then: value}})
    return {
        "derived": {name: DERIVED[name] for name in names},
        "implies": implies,
        "at_most": [["x", "y"]] if ordered else [],
        "unique": ["id"],
    }


def drawn_rows(seed, rows=40):
    draws = np.random.default_rng(seed)

    def pick(values):
        return draws.choice(np.array([*values, None], dtype=object), rows)

    words = {name: pd.Series(pick(WORDS), dtype=object) for name in ("a", "b")}
    numbers = {name: pd.Series(pick(WHOLE), dtype="Int64") for name in ("x", "y")}
    return pd.DataFrame({**words, **numbers})


ORDER = ["id", "a", "group", "b", "x", "code", "y", "far"]


@settings(max_examples=50, deadline=None)
@given(sections(), st.integers(0, 5))
def test_random_rules_hold_in_every_row_and_are_idempotent(section, seed):
    try:
        rules = read(section)
    except InputError:  # how often is counted below
        return
    frame = drawn_rows(seed)
    before = frame.copy()
    after = rules.apply(frame, ORDER)
    assert broken_rules(after, section) == []
    pd.testing.assert_frame_equal(frame, before)
    pd.testing.assert_frame_equal(rules.apply(after, ORDER), after)
    # The owner's notes agree with the naive check.
    real = {name: read_column(after[name]) for name in after.columns}
    assert rules.broken_shares(real) == {}
    assert [n for n in ORDER if n in after.columns] == list(after.columns)
    assert {str(after[n].dtype) for n in ("x", "y")} == {"Int64"}


def test_most_random_rules_are_accepted():
    """A check that refuses everything would pass the test above."""
    seen = []

    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @given(sections())
    def count(section):
        try:
            seen.append(bool(read(section).implied))
        except InputError:
            seen.append(None)

    count()
    assert sum(found is True for found in seen) > 20


def test_rows_beyond_repair_are_exactly_contradictions():
    """Two implications on two small columns: whether a fixed point is always reached, by search."""
    wanted = [(c, v) for c in "ab" for v in WORDS]
    rules = [(i, t) for i in wanted for t in wanted if i != t]
    rows = [(p, q) for p in [*WORDS, "z"] for q in [*WORDS, "z"]]
    for k, first in enumerate(rules):
        for second in rules[k:]:
            section = {
                "implies": [{"if": dict([i]), "then": dict([t])} for i, t in (first, second)]
            }

            def ends(row, pair=(first, second)):
                row = dict(zip("ab", row, strict=True))
                for _ in range(5):
                    for (column, value), (changed, outcome) in pair:
                        if row[column] == value:
                            row[changed] = outcome
                return all(row[c] != v or row[d] == w for (c, v), (d, w) in pair)

            try:
                read(section)
            except InputError:
                assert not all(map(ends, rows)), section
            else:
                assert all(map(ends, rows)), section


# ── Types, dates, missing values, columns that are not drawn ──────────────────────────────────────


def test_values_keep_their_type():
    frame = pd.DataFrame(
        {
            "whole": pd.Series([5, 1, None], dtype="Int64"),
            "half": [4.5, 0.25, 9.5],
            "day": pd.Series(["2020-01-05", "2020-01-01", None], dtype=object),
            "time": pd.Series(["2020-01-03T12:00", "2020-01-02", "2020-01-01"], dtype="M8[us]"),
            "said": pd.Series(["02/01/2020", "03/01/2020", None], dtype=object),
            "word": pd.Series(["a", "b", None], dtype=object),
        }
    )
    bounds = {"said": {"range": ["2020-01-01", "2021-01-01"], "format": "%d/%m/%Y"}}
    rules = read({"at_most": [["half", "whole"], ["time", "day"], ["day", "said"]]}, **bounds)
    after = rules.apply(frame, frame.columns)
    assert after["whole"].tolist() == [5, 1, pd.NA]
    assert after["day"].tolist() == ["2020-01-05", "2020-01-02", None]
    assert after["said"].tolist() == ["05/01/2020", "03/01/2020", None]
    assert after.dtypes.tolist() == frame.dtypes.tolist()
    lower = frame.assign(half=[5.5, 0.25, 9.5])
    assert rules.apply(lower, frame.columns)["whole"].tolist() == [6, 1, pd.NA]

    then = {"whole": 7, "half": 2, "day": "2020-02-01", "time": "2020-02-01", "said": "04/02/2020"}
    rules = read({"implies": [{"if": {"word": "a"}, "then": then}]}, **bounds)
    after = rules.apply(frame, frame.columns)
    first = [7, 2.0, "2020-02-01", pd.Timestamp("2020-02-01"), "04/02/2020", "a"]
    assert after.iloc[0].tolist() == first
    assert after.dtypes.tolist() == frame.dtypes.tolist()

    none = read({"implies": [{"if": {"word": "a"}, "then": dict.fromkeys(then)}]}, **bounds)
    after = none.apply(frame, frame.columns)
    assert after.iloc[0, :5].isna().all()
    assert after.dtypes.tolist() == frame.dtypes.tolist()


@pytest.mark.parametrize("value", [1e300, math.inf, 2**70, "word", "9999-12-31"])
def test_no_value_stops_a_release_after_spending(value):
    frame = pd.DataFrame(
        {
            "word": pd.Series(["a", "b"], dtype=object),
            "whole": pd.Series([5, None], dtype="Int64"),
            "plain": [1, 2],
            "half": [4.5, math.nan],
            "time": pd.Series(["2020-01-03T12:00", None], dtype="M8[us]"),
        }
    )
    then = dict.fromkeys(["whole", "plain", "half", "time"], value)
    after = read(implies(({"word": "a"}, then))).apply(frame, frame.columns)
    labels = [read_column(after[name]).label(0) for name in then]
    days = (date(9999, 12, 31) - date(1970, 1, 1)).days
    expected = label_of(value)
    assert all(label in (expected, str(days)) for label in labels[:3])
    assert after["time"].dtype == (frame["time"].dtype if expected == "9999-12-31" else object)
    assert after.iloc[1].isna().tolist() == frame.iloc[1].isna().tolist()


def test_a_chain_of_pairs_holds_in_any_order():
    frame = pd.DataFrame({"a": [4, 1], "b": [3, 2], "c": [2, 3], "d": [1, math.nan]})
    section = {"at_most": [["c", "d"], ["a", "c"], ["b", "c"], ["a", "b"]]}
    after = read(section).apply(frame, frame.columns)
    assert after.iloc[0].tolist() == [4, 4, 4, 4]
    assert broken_rules(after, section) == []


def test_rules_are_named_by_their_statement():
    section = implies(
        ({"a": ["p", None], "x": {"at_least": 2}}, {"b": None}), ({"x": {"at_most": 1.5}}, {"b": 3})
    )
    assert [str(rule) for rule in read(section).implied] == [
        "a = p or missing and 2 ≤ x implies b = missing",
        "x ≤ 1.5 implies b = 3",
    ]


def test_an_edge_belongs_to_the_group_above_it():
    labels = {"from": "age", "edges": [18, 65], "labels": ["none", "adult", "old"]}
    coded = {"from": "age", "edges": [18, 65], "labels": [0, 1.5, None]}
    day = {"from": "seen", "edges": ["2020-01-01"], "labels": ["before", "after"]}
    rules = read({"derived": {"group": labels, "code": coded, "then": day}})
    frame = pd.DataFrame(
        {
            "age": pd.Series([17, 18, 64, 65, None], dtype="Int64"),
            "seen": ["2019-12-31", "2020-01-01", "2021-01-01", None, "2020-01-01"],
        }
    )
    after = rules.apply(frame, ["group", "age", "code", "seen", "then"])
    assert list(after.columns) == ["group", "age", "code", "seen", "then"]
    assert after["group"].tolist() == ["none", "adult", "adult", "old", None]
    np.testing.assert_array_equal(after["code"], [0, 1.5, 1.5, math.nan, math.nan])
    assert after["then"].tolist() == ["before", "after", "after", None, "after"]


def test_rules_about_dropped_columns_are_dropped_with_derived_columns():
    section = {
        "derived": {
            "group": {"from": "text", "map": {"a": 1}},
            "far": {"from": "group", "map": {1: 2}},
        },
        "implies": [
            {"if": {"group": 1}, "then": {"b": 1}},
            {"if": {"a": 1}, "then": {"text": None}},
        ],
        "at_most": [["text", "a"]],
    }
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    after = read(section).apply(frame, ["a", "text", "group", "far", "b"])
    pd.testing.assert_frame_equal(after, frame)


def test_unique_numbers_begin_where_their_range_does():
    rules = read({"unique": ["id"]}, id=[999.5, 1010])
    assert rules.apply(pd.DataFrame({"a": [1, 2]}), ["id", "a"])["id"].tolist() == [1000, 1001]
    rules.check(["id", "a"], None, None, 11)
    with pytest.raises(InputError, match="must hold 12 whole numbers"):
        rules.check(["id", "a"], None, None, 12)
    with pytest.raises(InputError, match="must hold 2 whole numbers"):
        read({"unique": ["id"]}, id=[1e20, 1e30]).check(["id"], None, None, 2)


CHAIN = {
    "derived": {"group": {"from": "x", "edges": [2], "labels": ["low", "high"]}},
    "implies": [
        {"if": {"a": "p"}, "then": {"x": 3}},
        {"if": {"group": "low"}, "then": {"b": "q"}},
        {"if": {"b": "q"}, "then": {"a": "r"}},
    ],
}


def test_conditions_see_current_derived_values(monkeypatch):
    """A condition on a derived column uses its current value; twins that derive first fail."""
    frame = pd.DataFrame({"a": ["p", "q"], "b": ["r", "r"], "x": [1, 1]})
    names, rules = ["a", "b", "x", "group"], read(CHAIN)
    right = [["p", "r", 3, "high"], ["r", "q", 1, "low"]]
    assert rules.apply(frame, names).to_numpy().tolist() == right

    derived_first = replace(rules, implied=()).apply(frame, names)
    assert (
        broken_rules(read({"implies": CHAIN["implies"][:1]}).apply(derived_first, names), CHAIN)
        != []
    )

    class Stale(rules_module._Rows):
        def put(self, name, *values):
            kept = {n: self.read(n) for n in self.derived}
            super().put(name, *values)
            self._values |= kept

    monkeypatch.setattr(rules_module, "_Rows", Stale)
    assert rules.apply(frame, names).to_numpy().tolist() != right


def test_a_twin_without_the_check_for_contradictions_breaks_rules(monkeypatch):
    section = {"implies": [{"if": {"a": "p"}, "then": {"b": v}} for v in ("q", "r")]}
    with pytest.raises(InputError, match="contradict"):
        read(section)
    monkeypatch.setattr(rules_section, "_check_end", lambda rules: None)
    assert broken_rules(read(section).apply(drawn_rows(0), ["a", "b"]), section) != []


# ── Bad input ─────────────────────────────────────────────────────────────────────────────────────

BOUNDS = {**PUBLIC, "age": [18, 90]}


def implies(*rules):
    return {"implies": [{"if": asked, "then": then} for asked, then in rules]}


BAD = {
    "two values under one condition": (
        implies(({"city": "Oslo"}, {"kg": 1}), ({"city": "Oslo"}, {"kg": 2})),
        "must not contradict each other",
    ),
    "two values where both apply": (
        implies(({"city": "Oslo"}, {"kg": 1}), ({"age": {"at_least": 60}}, {"kg": 2})),
        "must not contradict each other",
    ),
    "back and forth": (
        implies(({"kg": 1}, {"kg": 2}), ({"kg": {"at_least": 2}}, {"kg": 1})),
        "must not contradict each other",
    ),
    "through a derived column": (
        {"derived": {"group": AGE_GROUP}}
        | implies(({"group": "old"}, {"age": 20}), ({"group": "young"}, {"age": 80})),
        "must not contradict each other",
    ),
    "two values in the lowest group": (
        {"derived": {"group": AGE_GROUP}}
        | implies(({"group": "young"}, {"kg": 1}), ({"group": "young"}, {"kg": 2})),
        "must not contradict each other",
    ),
    "derived and implied": (
        {"derived": {"group": AGE_GROUP}} | implies(({"city": "Oslo"}, {"group": "old"})),
        "derived column 'group' must not be implied",
    ),
    "edges that fall": (
        {"derived": {"group": AGE_GROUP | {"edges": [30, 65, 45]}}},
        "edges .* must be increasing numbers",
    ),
    "edges that are words": (
        {"derived": {"group": AGE_GROUP | {"edges": [30, "x", 45]}}},
        "edges .* must be increasing numbers",
    ),
    "no edges": ({"derived": {"group": AGE_GROUP | {"edges": []}}}, "must be increasing numbers"),
    "edges of categories": (
        {"derived": {"group": AGE_GROUP | {"from": "city"}}},
        "must be about numbers or dates, got the categories 'city'",
    ),
    "too few labels": (
        {"derived": {"group": AGE_GROUP | {"labels": GROUPS[1:]}}},
        "labels .* must be one more than its 3 edges, got 3",
    ),
    "a circle": (
        {"derived": {c: {"from": d, "map": {1: 2}} for c, d in ("ab", "bc", "ca")}},
        "must not depend on each other in a circle",
    ),
    "derived from itself": ({"derived": {"group": AGE_GROUP | {"from": "group"}}}, "in a circle"),
    "a category without an entry": (
        {"derived": {"land": {"from": "city", "map": {"Rome": "I", "Oslo": "N"}}}},
        "must have every category, lacks 'Bern'",
    ),
    "a missing source": ({"derived": {"group": AGE_GROUP | {"from": "Age"}}}, "got 'Age'"),
    "a missing derived column": ({"derived": {"gruppe": AGE_GROUP}}, "got 'gruppe'"),
    "a missing condition": (implies(({"town": "Oslo"}, {"kg": 1})), "got 'town'"),
    "a missing outcome": (implies(({"city": "Oslo"}, {"lb": 1})), "got 'lb'"),
    "a missing pair": ({"at_most": [["age", "lb"]]}, "got 'lb'"),
    "a missing identifier": ({"unique": ["number"]}, "got 'number'"),
    "an implied target": (implies(({"city": "Oslo"}, {"ill": "yes"})), "would fix the label"),
    "a derived target": (
        {"derived": {"ill": {"from": "kg", "edges": [1], "labels": ["no", "yes"]}}},
        "would fix the label",
    ),
    "a unique target": ({"unique": ["kg"]}, "would fix the label"),
    "a raised target": ({"at_most": [["age", "kg"]]}, "would fix the label"),
    "an unknown category": (
        implies(({"city": "Paris"}, {"kg": 1})),
        "must be one of its categories, got 'Paris'",
    ),
    "an unknown category implied": (
        implies(({"kg": 1}, {"city": "Paris"})),
        "must be one of its categories, got 'Paris'",
    ),
    "outside of the range": (implies(({"city": "Oslo"}, {"age": 17})), "in its range, 18 to 90"),
    "a comparison of categories": (
        implies(({"city": {"at_least": 1}}, {"kg": 1})),
        "must be about numbers or dates",
    ),
    "nothing between": (
        implies(({"age": {"at_least": 50, "at_most": 40}}, {"kg": 1})),
        "must be numbers that can hold",
    ),
    "at_most of categories": ({"at_most": [["age", "city"]]}, "got the categories 'city'"),
    "at_most in a circle": ({"at_most": [["age", "kg"], ["kg", "age"]]}, "in a circle"),
    "at_most of three": ({"at_most": [["age", "kg", "age"]]}, "must be pairs of columns"),
    "at_most of derived": (
        {"derived": {"group": AGE_GROUP}, "at_most": [["age", "group"]]},
        "got the derived 'group'",
    ),
    "at_most and implied": (
        {"at_most": [["age", "kg"]]} | implies(({"city": "Oslo"}, {"kg": 1})),
        "nothing but a missing value",
    ),
    "unique and implied": ({"unique": ["kg"]} | implies(({"city": "Oslo"}, {"kg": 1})), "no other"),
    "unique categories": ({"unique": ["city"]}, "must not have categories"),
    "an unknown kind": ({"implied": []}, "must be derived, implies, at_most, unique or column"),
    "no list": ({"implies": {"if": {}, "then": {}}}, "implies must be a list"),
    "no then": ({"implies": [{"if": {"city": "Oslo"}}]}, "must have the keys if, then"),
    "no condition": (implies(({}, {"kg": 1})), "if and then must name columns"),
    "a value that is a mapping": (implies(({"kg": 1}, {"city": {"at_most": 1}})), "must be a text"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_rules_are_refused_in_one_sentence_without_spending(name, tmp_path, monkeypatch):
    section, said = BAD[name]
    table = people(200).assign(kg=1.0, group="old", land="I")
    target = "kg" if name in ("a unique target", "a raised target") else "ill"
    out, ledger = tmp_path / "new.csv", tmp_path / "ledger.json"
    memberbound.ledger(ledger, limit_eta=0.2)
    before = ledger.read_bytes()
    monkeypatch.setattr(synthetic.Budget, "for_eta", None)  # nothing is calibrated, or spent
    with pytest.raises(InputError, match=said) as refusal:
        memberbound.synthesize(
            table, target=target, bounds={**BOUNDS, "rules": section}, ledger=ledger, out=out
        )
    assert str(refusal.value).endswith(".")
    assert "\n" not in str(refusal.value)
    assert not out.exists()
    assert ledger.read_bytes() == before


def test_ranges_that_no_order_can_keep_are_refused():
    with pytest.raises(InputError, match="range of 'a' must end at 5 or before"):
        read({"at_most": [["a", "b"]]}, a=[0, 9], b=[0, 5])


def test_a_rule_about_the_unit_is_refused():
    table = people(400).assign(who=np.arange(400) // 2)
    bounds = {**PUBLIC, "rules": {"unique": ["who"]}}
    with pytest.raises(InputError, match="must not be about the unit"):
        memberbound.synthesize(table, unit="who", bounds=bounds)


# ── A column that is called rules; verbs that have no use for rules ───────────────────────────────


def test_a_column_may_be_called_rules():
    listed = {"rules": {"categories": ["a", "b"]}}
    assert read_bounds(listed)["rules"].labels == ("a", "b")
    assert read_rules(listed, read_bounds(listed)).empty
    assert read_bounds({"rules": [0, 3]})["rules"].high == 3
    both = {"rules": {"column": ["a", "b"], "implies": [{"if": {"rules": "a"}, "then": {"x": 1}}]}}
    public = read_bounds(both)
    assert public["rules"].labels == ("a", "b")
    assert str(read_rules(both, public).implied[0]) == "rules = a implies x = 1"
    assert read_bounds({"rules": None}) == read_bounds({"rules": {}}) == {}
    assert read({}).empty


def test_protect_and_summarize_take_the_same_file(tmp_path):
    table = people(1500).assign(
        group=lambda t: np.array(GROUPS)[np.searchsorted(EDGES, t.age, "right")]
    )
    section = {"derived": {"group": AGE_GROUP}}
    path = tmp_path / "bounds.json"
    path.write_text(json.dumps({**PUBLIC, "group": GROUPS, "rules": section}))
    same = {**PUBLIC, "group": GROUPS}
    models = [
        memberbound.protect(table, target="ill", bounds=b, insecure_seed=1) for b in (path, same)
    ]
    assert models[0].score_released == models[1].score_released
    assert "group" in models[0].columns
    asked = {"statistic": "mean", "columns": ["age"], "insecure_seed": 1}
    values = [memberbound.summarize(table, bounds=b, **asked).values for b in (path, same)]
    assert values[0] == values[1]


# ── Through the verb ──────────────────────────────────────────────────────────────────────────────

ROWS = 2000
SECTION = {
    "derived": {
        "age_group": AGE_GROUP,
        "zip": {"from": "city", "map": {"Rome": 100, "Oslo": 200, "Bern": 300}},
    },
    "implies": [{"if": {"age": {"at_most": 40}, "city": "Oslo"}, "then": {"kg": None}}],
    "at_most": [["kg", "top"]],
    "unique": ["number"],
}
WEIGHTS = {"kg": [40, 120], "top": [40, 150]}


def table_with_rules():
    """A tenth of the rows breaks the rule about groups, most break the others."""
    draws = np.random.default_rng(1)
    table = people(ROWS)
    group = np.array(GROUPS)[np.searchsorted(EDGES, table["age"], side="right")]
    group[::10] = "wrong"
    return pd.DataFrame(
        {
            "number": np.arange(ROWS) // 2,
            "age_group": group,
            **table[["age", "city"]],
            "zip": table["city"].map(SECTION["derived"]["zip"]["map"]),
            "kg": draws.integers(40, 120, ROWS),
            "top": draws.integers(40, 150, ROWS),
            "ill": table["ill"],
        }
    )


def test_the_verb_measures_neither_derived_nor_unique_columns():
    """The measured columns are those of a table without them, under the same noise."""
    table, bounds = table_with_rules(), {**PUBLIC, **WEIGHTS}
    free = {"derived": SECTION["derived"], "unique": ["number"]}
    asked = {"target": "ill", "eta": 0.2, "insecure_seed": 3}
    answer = memberbound.synthesize(table, bounds={**bounds, "rules": free}, **asked)
    without = table.drop(columns=["number", "age_group", "zip"])
    alone = memberbound.synthesize(without, bounds=bounds, **asked)
    pd.testing.assert_frame_equal(answer.table[list(without)], alone.table)
    assert answer.budget == alone.budget
    assert answer.noise == alone.noise
    # One person more or less in a derived column changes nothing at all.
    other = table.assign(age_group="else", zip=1, number=0)
    again = memberbound.synthesize(other, bounds={**bounds, "rules": free}, **asked)
    pd.testing.assert_frame_equal(answer.table, again.table)
    # Other rules change the new rows only.
    every = memberbound.synthesize(table, bounds={**bounds, "rules": SECTION}, **asked)
    assert every.budget == answer.budget
    pd.testing.assert_frame_equal(
        read_rules({"rules": SECTION}, read_bounds(bounds)).apply(answer.table, table.columns),
        every.table,
        check_dtype=False,
    )


@pytest.mark.parametrize("how", ["memory", "unit"])
def test_the_command_reads_rules_from_a_file(tmp_path, how):
    table = table_with_rules()
    if how == "unit":
        table.insert(3, "who", np.arange(ROWS) // 2)
    table.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "public.yaml").write_text(
        """
age: [18, 90]
city: [Rome, Oslo, Bern]
ill: [no, yes]
kg: [40, 120]
top: [40, 150]
rules:
  derived:
    age_group: {from: age, edges: [30, 45, 65], labels: [young, middle, older, old]}
    zip: {from: city, map: {Rome: 100, Oslo: 200, Bern: 300}}
  implies:
    - if: {age: {at_most: 40}, city: Oslo}
      then: {kg: null}
  at_most: [[kg, top]]
  unique: [number]
"""
    )
    asked = {"memory": ["--memory", "2KB"], "unit": ["--unit", "who"]}[how]
    ended = command(
        *["synthesize", "people.csv", "--target", "ill", "--bounds", "public.yaml", "--eta", "0.2"],
        *["--out", "new.csv", "--insecure-seed", "1", "--json", *asked],
        cwd=tmp_path,
    )
    assert ended.returncode == 0, ended.stderr
    answer = json.loads(ended.stdout)
    new = pd.read_csv(tmp_path / "new.csv")
    assert list(new.columns) == list(table.columns)
    assert broken_rules(new, SECTION) == []
    assert new["kg"].isna().any()
    assert "number" in answer["identifiers"]
    # Owner only: the shares of real rows that break rules.
    notes = [note for note in answer["warnings"] if "break the rule" in note]
    assert len(notes) == 4
    assert any(note.startswith("10 %") and "age_group derived from age" in note for note in notes)
    assert "warnings" in answer["owner_only"]
    assert "break the rule" not in (tmp_path / "new.csv.certificate.json").read_text()


def test_bad_rules_end_the_command_with_code_2(tmp_path):
    people(300).to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "public.yaml").write_text("rules: {at_most: [[age, city]]}\ncity: [Rome, Oslo]\n")
    ended = command(
        *["synthesize", "people.csv", "--bounds", "public.yaml", "--out", "new.csv"], cwd=tmp_path
    )
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "new.csv").exists()


def test_dates_of_a_typed_table_stay_dates():
    draws = np.random.default_rng(0)
    days = draws.integers(18_000, 19_000, (2, ROWS)).astype("datetime64[D]")
    table = pd.DataFrame({"start": days[0].astype("M8[s]"), "end": days[1].astype("M8[s]")})
    bounds = {name: [date(2019, 1, 1), date(2022, 12, 31)] for name in table}
    bounds["rules"] = {"at_most": [["start", "end"]]}
    answer = memberbound.synthesize(table, bounds=bounds, eta=0.2, insecure_seed=1)
    assert answer.table.dtypes.tolist() == table.dtypes.tolist()
    assert (answer.table["start"] <= answer.table["end"]).all()
    assert any("start at most end" in note for note in answer.warnings)
