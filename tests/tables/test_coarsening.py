"""The Coarsener against a naive loop, and as scikit-learn expects a transformer to be."""

import json
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from memberbound.errors import InputError
from memberbound.tables.coarsening import (
    Coarsener,
    frequent_groups,
    quantile_edges,
    read_hierarchy,
    tidy_hierarchy,
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


def planned(**changes: object) -> Coarsener:
    settings_ = {
        "columns": {
            "age": {"bins": 4},
            "gain": {"bins": 16},
            "city": {"top": 2},
            "status": {"level": 1},
            "id": "drop",
        },
        "hierarchies": {"status": read_hierarchy(TREE)},
        "pool_below": 12,
        "pool_except": ("y",),
    }
    return Coarsener(**{**settings_, **changes})


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


def test_recipe_is_what_a_naive_loop_makes_of_new_rows():
    made = planned().fit(people())
    fresh = people(300, seed=1)
    fresh.loc[:3, "city"] = "never seen"
    fresh.loc[:3, "age"] = [-5.0, 400.0, np.inf, -np.inf]
    assert made.recipe_.pool is not None
    assert made.recipe_.pool.cells
    found = made.transform(fresh)
    assert found.to_dict("records") == naive(made.recipe_, fresh)
    assert (found["city"] == OTHER).any()


def test_the_naive_loop_notices_an_interval_closed_on_the_wrong_side():
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0]})
    recipe = Recipe((("x", Bins((2.0,))),))
    wrong = np.where(frame["x"] < 2.0, "<=2", ">2").tolist()
    right = [row["x"] for row in naive(recipe, frame)]
    assert recipe.apply(frame)["x"].tolist() == right != wrong


def test_json_round_trip_is_exact():
    made = planned(columns={"age": {"edges": [0.1, 1 / 3, 1e300]}, "city": {"top": 2}})
    made.fit(people())
    again = Coarsener.from_json(made.to_json())
    assert again.recipe_ == made.recipe_
    assert again.to_json() == made.to_json()
    fresh = people(200, seed=2)
    pd.testing.assert_frame_equal(again.transform(fresh), made.transform(fresh))
    refitted = clone(again).fit(people())
    assert refitted.recipe_ == made.recipe_


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, unique=True))
def test_edges_survive_json(edges):
    # 0.0 and -0.0 are one number, so `unique` already forbids having both.
    recipe = Recipe((("x", Bins(tuple(sorted(edges)))),))
    assert Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe


def test_other_versions_and_broken_files_are_refused():
    written = json.loads(planned().fit(people()).to_json())
    for change in (
        {"schema": 2},
        {"format": "pickle"},
        {"settings": {}},
        {"recipe": None},
        {"recipe": {**written["recipe"], "columns": [{"name": "x", "rule": "exec"}]}},
        {"recipe": {**written["recipe"], "columns": [{"name": "x", "rule": "bins"}]}},
    ):
        with pytest.raises(InputError):
            Coarsener.from_json(json.dumps({**written, **change}))
    with pytest.raises(InputError):
        Coarsener.from_json("not JSON")


def test_clone_pipeline_and_names():
    frame = people()
    maker = planned(columns={"id": "drop", "y": "drop", "age": {"bins": 4}, "gain": {"bins": 4}})
    maker.set_params(pool_except=())
    copy = clone(maker)
    assert copy.get_params(deep=False) == maker.get_params(deep=False)
    assert not hasattr(copy, "recipe_")
    line = make_pipeline(copy, OneHotEncoder(handle_unknown="ignore"), DecisionTreeClassifier())
    line.fit(frame, frame["y"])
    assert line.predict(people(50, seed=3)).shape == (50,)
    assert copy.get_feature_names_out().tolist() == ["age", "gain", "city", "status"]


def test_missing_values_are_a_cell_of_their_own_and_a_float_keeps_its_name():
    frame = pd.DataFrame({"code": [1, 2, 2, 2, 2, 2], "x": [1.0, np.nan, 3, 4, 5, 6]})
    made = Coarsener({"code": {"top": 5}, "x": {"bins": 2}}).fit(frame)
    fresh = pd.DataFrame({"code": [2.0, np.nan], "x": [None, "text"]})
    assert made.transform(fresh).values.tolist() == [["2", MISSING], [OTHER, OTHER]]


def test_constant_all_missing_and_empty_columns():
    frame = pd.DataFrame({"c": [7] * 9, "n": [np.nan] * 9, "t": [None] * 9})
    made = Coarsener({"c": {"bins": 4}, "n": {"bins": 4}, "t": {"top": 3}}).fit(frame)
    assert made.transform(frame).drop_duplicates().values.tolist() == [["<=7", OTHER, MISSING]]
    assert len(made.transform(frame.iloc[:0])) == 0


@given(
    st.lists(st.integers(-50, 50) | st.floats(-1e6, 1e6), min_size=2, max_size=200),
    st.sampled_from([2, 4, 8, 16]),
)
@settings(deadline=None)
def test_quantile_bins_are_nested_and_not_larger_than_asked(values, k):
    array = np.array(values, dtype=float)
    few, many = Bins(quantile_edges(array, k)), Bins(quantile_edges(array, 2 * k))
    assert len(few.edges) < k or len(few.edges) == 1
    series = pd.Series(array)
    pairs = {(a, b) for a, b in zip(few.codes(series), many.codes(series), strict=True)}
    assert len(pairs) == len({b for _, b in pairs})  # the finer bin says the coarser one


def test_edges_are_rounded_but_separate_a_frequent_smallest_value():
    rng = np.random.default_rng(0)
    values = np.where(rng.random(4000) < 0.9, 0.0, rng.lognormal(8, 1, 4000))
    edges = quantile_edges(values, 16)
    assert edges[0] == 0.0
    assert not set(edges[1:]) & set(values)  # nobody's own value


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
    yaml, csv = tmp_path / "h.yaml", tmp_path / "h.csv"
    yaml.write_text("All:\n  Married: [civ, af]\n  Single:\n    - never\n    - 7\n", "utf-8")
    csv.write_text(
        "value,parent,grandparent\nciv,Married,All\naf,Married,All\n"
        "never,Single,All\n7,Single,All\n",
        "utf-8",
    )
    assert read_hierarchy(yaml) == read_hierarchy(csv)
    assert read_hierarchy(yaml)["7"] == ("Single", "All")
    assert read_hierarchy(read_hierarchy(yaml)) == read_hierarchy(yaml)


@pytest.mark.parametrize(
    "broken",
    [
        {"a": "no list"},
        {},
        {"a": ["x"], "b": ["x"]},
        {"a": [["x"]]},
    ],
)
def test_broken_hierarchies_are_refused(broken):
    with pytest.raises(InputError):
        read_hierarchy(broken)


def test_a_node_with_two_parents_is_refused(tmp_path):
    with pytest.raises(InputError, match="one parent"):
        tidy_hierarchy({"x": ("A", "1"), "y": ("A", "2")})
    with pytest.raises(InputError, match="existing"):
        read_hierarchy(tmp_path / "absent.csv")
    (tmp_path / "bad.yaml").write_text("a: [", "utf-8")
    with pytest.raises(InputError, match="YAML"):
        read_hierarchy(tmp_path / "bad.yaml")
    (tmp_path / "h.txt").write_text("a", "utf-8")
    with pytest.raises(InputError, match="csv file"):
        read_hierarchy(tmp_path / "h.txt")


@pytest.mark.parametrize(
    "plan",
    [
        "shrink",
        {"bins": 1},
        {"top": 0},
        {"edges": []},
        {"edges": [2, 1]},
        {"level": 3},
        {"x": 1},
        {},
    ],
)
def test_broken_plans_are_refused(plan):
    with pytest.raises(InputError):
        Coarsener({"status": plan}, hierarchies={"status": read_hierarchy(TREE)}).fit(people())


def test_broken_tables_are_refused():
    with pytest.raises(InputError, match="DataFrame"):
        Coarsener().fit(np.zeros((3, 2)))
    with pytest.raises(InputError, match="different names"):
        Coarsener().fit(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(InputError, match="in the table"):
        Coarsener({"absent": "drop"}).fit(people())
    with pytest.raises(InputError, match="missing"):
        planned().fit(people()).transform(people().drop(columns="age"))


def test_the_target_may_be_absent_from_new_rows_and_changes_nothing():
    made, fresh = planned().fit(people()), people(300, seed=1)
    pd.testing.assert_frame_equal(
        made.transform(fresh.drop(columns="y")), made.transform(fresh).drop(columns="y")
    )


SPELLINGS = [True, 1, 1.0, "1", False, 0, -0.0, "True", Decimal(1), np.bool_(True), np.int8(1), 2,
             2.5, "2.5", None, math.nan, "", 2**70]  # fmt: skip
RULES = [Merge(("1", "True")), Merge(("0", "2.5", MISSING)), Bins((0.5, 1.5)),
         Generalise((("1", "one"), ("True", "yes"), ("2.5", "more")))]  # fmt: skip


@given(st.permutations(SPELLINGS))
@settings(max_examples=12)
def test_a_recipe_is_a_function_of_one_row(order):
    """Whichever of True, 1, 1.0 and "1" comes first, and whatever else is in the table."""
    frame = pd.DataFrame({"a": pd.Series(order, dtype=object)})
    pooled = Pool(("a",), (("1",), ("True",), (MISSING,)))
    for recipe in [Recipe((("a", rule),)) for rule in RULES] + [Recipe((("a", Keep()),), pooled)]:
        together = recipe.apply(frame)["a"].tolist()
        alone = [recipe.apply(frame.iloc[[i]])["a"].iloc[0] for i in range(len(frame))]
        assert together == alone


@given(st.permutations([True, 1, 1.0, "1"] * 3))
@settings(max_examples=30)
def test_a_fitted_recipe_does_not_depend_on_the_order_of_rows(order):
    frame = pd.DataFrame({"a": pd.Series(order, dtype=object)})
    fitted = Coarsener(columns={"a": {"top": 1}}, min_count=1).fit(frame).recipe_
    assert fitted == Recipe((("a", Merge(("1",))),))  # nine rows "1", three "True"
    released = fitted.apply(frame)["a"]
    assert [value == "1" for value in released] == [value is not True for value in order]


def test_naming_all_equal_values_by_the_first_is_caught():
    """What pandas does: True and 1 are one value, named by whichever came first."""
    first, second = (pd.factorize(pd.Series(o, dtype=object))[1][0] for o in ([True, 1], [1, True]))
    assert canonical(first) != canonical(second)


def test_a_hierarchy_tells_true_from_one():
    tree = {"yes": [True], "number": [1, 2]}
    assert read_hierarchy(tree) == {"True": ("yes",), "1": ("number",), "2": ("number",)}
    with pytest.raises(InputError, match="once"):
        read_hierarchy({"a": [1], "b": ["1"]})
