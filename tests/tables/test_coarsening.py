"""Recipes against a naive loop; hierarchies; bins that are nested."""

import json
import math
from decimal import Decimal
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memberbound.errors import InputError
from memberbound.tables.ladders import (
    column_ladder,
    frequent_groups,
    quantile_edges,
    read_hierarchy,
)
from memberbound.tables.recipe import (
    MISSING,
    OTHER,
    Bins,
    Drop,
    Generalise,
    Keep,
    Merge,
    Pool,
    Recipe,
)

TREE = {"Married": ["civ", "af"], "Single": ["never", "divorced"]}
RECIPE = Recipe(
    (
        ("age", Bins((30.0, 45.5, 60.0))),
        ("gain", Bins((0.0, 5000.0))),
        ("city", Merge(("a", "b"))),
        ("status", Generalise((("civ", "Married"), ("af", "Married"), ("never", "Single")))),
        ("id", Drop()),
        ("y", Keep()),
    ),
    Pool(
        ("age", "gain", "city", "status"),
        (
            ("<=30", "<=0", "a", "Married"),
            (">60", "<=0", "a", "Single"),
            (MISSING, "<=0", "b", OTHER),
        ),
    ),
    ("y",),
)


def people(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(17, 91, rows).astype(float)
    age[rng.random(rows) < 0.05] = np.nan
    return pd.DataFrame(
        {
            "age": age,
            "gain": np.where(rng.random(rows) < 0.9, 0, rng.integers(1, 10_000, rows)),
            "city": rng.choice(["a", "b", "c", "d", None], rows, p=[0.5, 0.3, 0.1, 0.05, 0.05]),
            "status": rng.choice(["civ", "af", "never", "divorced"], rows),
            "id": np.arange(rows),
            "y": rng.choice(["no", "yes"], rows),
        }
    )


def canonical(value: object) -> str:
    """The name of a category, straight from the definition: 39 and 39.0 are one."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return repr(float(value)) if isinstance(value, float | np.floating) else str(value)


def naive_value(rule: object, value: object) -> object:
    """One value at a time, straight from the definition."""
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    if isinstance(rule, Keep):
        return value
    if isinstance(rule, Bins):
        if missing:
            return MISSING
        if not isinstance(value, (int, float, np.integer, np.floating)):
            return OTHER
        names = [canonical(e) for e in rule.edges]
        for i, edge in enumerate(rule.edges):
            if value <= edge:
                return f"<={names[0]}" if i == 0 else f"({names[i - 1]}, {names[i]}]"
        return f">{names[-1]}"
    name = MISSING if missing else canonical(value)
    if isinstance(rule, Merge):
        return name if name in rule.kept else OTHER
    assert isinstance(rule, Generalise)
    return MISSING if missing else dict(rule.groups).get(name, OTHER)


def naive(recipe: Recipe, frame: pd.DataFrame) -> list[dict[str, object]]:
    rows = []
    for _, row in frame.iterrows():
        out = {n: naive_value(r, row[n]) for n, r in recipe.rules if not isinstance(r, Drop)}
        if recipe.pool is not None:
            cell = tuple(str(out[c]) for c in recipe.pool.columns)
            if cell not in recipe.pool.cells:
                out.update(dict.fromkeys(recipe.pool.columns, OTHER))
        rows.append(out)
    return rows


@pytest.mark.parametrize("pooled", [True, False])
def test_the_recipe_agrees_with_a_naive_loop_on_new_rows(pooled):
    recipe = RECIPE if pooled else Recipe(RECIPE.rules)
    fresh = people()
    fresh.loc[:3, "city"] = "never seen"
    fresh.loc[:3, "age"] = [-5.0, 400.0, np.inf, -np.inf]
    coarse = recipe.apply(fresh)
    assert coarse.to_dict("records") == naive(recipe, fresh)
    assert (coarse["city"] == OTHER).any()
    assert coarse["city"].nunique() > 1


def test_the_naive_loop_notices_an_interval_closed_on_the_wrong_side():
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0]})
    recipe = Recipe((("x", Bins((2.0,))),))
    wrong = np.where(frame["x"] < 2.0, "<=2", ">2").tolist()
    right = [row["x"] for row in naive(recipe, frame)]
    assert recipe.apply(frame)["x"].tolist() == right != wrong


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, unique=True))
def test_edges_survive_json(edges):
    # 0.0 and -0.0 are one number, so `unique` already forbids having both.
    recipe = Recipe((("x", Bins(tuple(sorted(edges)))),))
    assert Recipe.from_json(recipe.to_json()) == recipe


def test_json_round_trip_and_broken_files():
    assert Recipe.from_json(RECIPE.to_json()) == RECIPE
    written = json.loads(RECIPE.to_json())
    for change in (
        {"schema": 2},
        {"format": "pickle"},
        {"optional": None},
        {"pool": {}},
        {"columns": [{"name": "x", "rule": "exec"}]},
        {"columns": [{"name": "x", "rule": "bins"}]},
        {"columns": [{"name": "x", "rule": "bins", "edges": [2, 1]}]},
    ):
        with pytest.raises(InputError):
            Recipe.from_json(json.dumps({**written, **change}))
    with pytest.raises(InputError):
        Recipe.from_json("not JSON")


def test_missing_values_are_a_cell_of_their_own_and_a_float_keeps_its_name():
    recipe = Recipe((("code", Merge(("2",))), ("x", Bins((4,)))))
    fresh = pd.DataFrame({"code": [2.0, np.nan], "x": [None, "text"]})
    assert recipe.apply(fresh).values.tolist() == [["2", MISSING], [OTHER, OTHER]]
    assert len(recipe.apply(fresh.iloc[:0])) == 0


@pytest.mark.parametrize(("value", "form"), [(7, "number"), (np.nan, "number"), (None, "text")])
def test_a_column_with_one_value_is_dropped(value, form):
    assert column_ladder(pd.Series([value] * 9, name="c"), form).rules == (Drop(),)


@given(
    st.lists(st.integers(-50, 50) | st.floats(-1e6, 1e6), min_size=2, max_size=200),
    st.sampled_from([2, 4, 8, 16]),
)
@settings(deadline=None)
def test_quantile_bins_are_nested_and_within_the_size_limit(values, k):
    array = np.array(values, dtype=float)
    few, many = Bins(quantile_edges(array, k)), Bins(quantile_edges(array, 2 * k))
    assert len(few.edges) < k or len(few.edges) == 1
    series = pd.Series(array)
    pairs = set(zip(few.apply(series), many.apply(series), strict=True))
    assert len(pairs) == len({b for _, b in pairs})  # the finer bin determines the coarser one


def test_edges_are_rounded_but_separate_a_frequent_smallest_value():
    rng = np.random.default_rng(0)
    values = np.where(rng.random(4000) < 0.9, 0.0, rng.lognormal(8, 1, 4000))
    edges = quantile_edges(values, 16)
    assert edges[0] == 0.0
    assert not set(edges[1:]) & set(values)  # no record's own value


def test_frequent_groups_make_the_pool_frequent_as_well():
    group = np.repeat([0, 1, 2, 3], [50, 40, 30, 2])
    label = np.tile([0, 1], 61)
    assert frequent_groups(group, label, 10, every=False).tolist() == [True, True, True, False]
    # 2 rows alone would make a rare pool: the rarest frequent group joins them.
    assert frequent_groups(group, label, 10, every=True).tolist() == [True, True, False, False]
    # A group that lacks one label entirely would give that label rare cells later.
    lacking = np.where(group == 0, 0, label)
    assert not frequent_groups(group, lacking, 10, every=True)[0]


def test_pool_without_any_cell_pools_everything():
    frame = pd.DataFrame({"a": ["x"], "y": [1]})
    assert Pool(("a",), ()).apply(frame).values.tolist() == [[OTHER, 1]]


def test_hierarchy_files(tmp_path):
    yaml = tmp_path / "h.yaml"
    yaml.write_text("All:\n  Married: [civ, af]\n  Single:\n    - never\n    - 7\nAlone: [x]\n")
    assert read_hierarchy(yaml) == {
        "civ": ("Married", "All"),
        "af": ("Married", "All"),
        "never": ("Single", "All"),
        "7": ("Single", "All"),
        "x": ("Alone", "Alone"),
    }
    for text, words in (("a: [", "YAML"), ("- a", "mapping")):
        yaml.write_text(text)
        with pytest.raises(InputError, match=words):
            read_hierarchy(yaml)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"a": "no list"}, "list of values"),
        ({"a": [["x"]]}, "list of values"),
        ({}, "parent"),
        ({"a": [1], "b": ["1"]}, "once"),
        ({"a": {"g": ["x"]}, "b": {"g": ["y"]}}, "one parent"),
    ],
)
def test_broken_hierarchies_are_refused(broken, words):
    with pytest.raises(InputError, match=words):
        read_hierarchy(broken)
    assert read_hierarchy({"yes": [True], "number": [1]}) == {"True": ("yes",), "1": ("number",)}


def test_broken_tables_are_refused():
    with pytest.raises(InputError, match="DataFrame"):
        RECIPE.apply(np.zeros((3, 2)))
    with pytest.raises(InputError, match="distinct names"):
        RECIPE.apply(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(InputError, match="missing"):
        RECIPE.apply(people().drop(columns="age"))


def test_the_target_may_be_absent_from_new_rows():
    pd.testing.assert_frame_equal(
        RECIPE.apply(people().drop(columns="y")), RECIPE.apply(people()).drop(columns="y")
    )


SPELLINGS = [True, 1, 1.0, "1", False, 0, -0.0, "True", Decimal(1), np.bool_(True), np.int8(1), 2,
             2.5, "2.5", None, math.nan, "", 2**70]  # fmt: skip
RULES = [Merge(("1", "True")), Merge(("0", "2.5", MISSING)), Bins((0.5, 1.5)),
         Generalise((("1", "one"), ("True", "yes"), ("2.5", "more")))]  # fmt: skip


RECIPES = [
    *(Recipe((("a", rule),)) for rule in RULES),
    Recipe((("a", Keep()),), Pool(("a",), (("1",), ("True",), (MISSING,)))),
]


def release(recipe: Recipe, values: list[object]) -> list[object]:
    return recipe.apply(pd.DataFrame({"a": pd.Series(values, dtype=object)}))["a"].tolist()


@cache
def alone(recipe: Recipe) -> list[object]:
    return [release(recipe, [value])[0] for value in SPELLINGS]


@given(st.permutations(range(len(SPELLINGS))))
@settings(max_examples=12)
def test_a_recipe_is_a_function_of_one_row(order):
    """True, 1, 1.0 and "1" in any order, with any other values in the table."""
    for recipe in RECIPES:
        together = release(recipe, [SPELLINGS[index] for index in order])
        assert together == [alone(recipe)[index] for index in order]


@given(st.permutations([True, 1, 1.0, "1"] * 3))
@settings(max_examples=30)
def test_a_fitted_recipe_does_not_depend_on_the_order_of_rows(order):
    column = pd.Series(order, dtype=object, name="a")
    fitted = Recipe((("a", column_ladder(column, "text").rules[1]),))
    assert fitted == Recipe((("a", Merge(("1",))),))  # nine rows "1", three "True"
    kept = [value == "1" for value in release(fitted, order)]
    assert kept == [value is not True for value in order]
