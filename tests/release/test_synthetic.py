"""Synthetic tables: the sensitivity of every part by brute force, noise, cells, drawn rows."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.oracle.replay import replayed, spent
from tests.oracle.synthetic_parts import measure_every_part
from tests.oracle.training import PUBLIC, people

from memberbound.errors import InputError
from memberbound.release.all_rows import (
    conditionals,
    label_model,
    marginals,
    measurements,
    step_functions,
    synthetic_shares,
    tree,
)
from memberbound.release.all_rows.balanced_labels import draw_balanced
from memberbound.release.all_rows.bounds import Categories, Range
from memberbound.release.all_rows.cells import (
    WRITINGS,
    cast_to_declared,
    detect_format,
    format_cells,
    public_column,
    writing_from_type,
)
from memberbound.release.all_rows.marginals import LabelledRows
from memberbound.release.all_rows.synthetic import fit_synthetic
from memberbound.release.randomness import InsecureSource
from memberbound.tables.columns import read_column
from memberbound.tables.persons import Persons
from memberbound.tables.records import read_records

# ── The whole mechanism: differences between neighbours are paid for


BOUNDS = PUBLIC | {"code": {"categories": [1, 2, 3]}}
CODES = {"Rome": 1, "Oslo": 2, "Bern": 3}


def code_people(rows=600):
    """People with the code of their city."""
    table = people(rows)
    return table.assign(code=table["city"].map(CODES))


def fit(table, seed=1, eta=0.2, **options):
    """Return what is counted of a table with noise from a seed."""
    return fit_synthetic(read_records(table), eta=eta, source=InsecureSource(seed), **options)


def record_sums(monkeypatch, table, unit, eta):
    """Return the requested sums, with noise that does not depend on the table."""
    measure_every_part(monkeypatch)
    asked = {"eta": eta, "bounds": BOUNDS, "target": "ill", "unit": unit}
    made, sums = replayed(monkeypatch, lambda: fit(table, 0, **asked))
    assert set(made.noise) == PARTS
    return made, sums


PARTS = {
    "target",
    "cells",
    "columns",
    "scores of pairs",
    "pairs",
    "scores of further pairs",
    "further pairs",
    "calibration",
}


def squares(counts, expected):
    """Broken: a sum of squares moves by more than a sum of absolute values."""
    return float(np.square(counts - expected).sum())


def counted_twice(exact):
    """Broken: a row counts for its pair, and again."""

    def counts(rows, cliques, maps, groups=0):
        tables = exact(rows, cliques, maps, groups)
        return tuple(
            (1 + (len(clique) == 2)) * t for clique, t in zip(cliques, tables, strict=True)
        )

    return counts


def rank(rows, model, maps, cuts):
    """Broken: the bin of a row depends on how many other rows have lower scores."""
    bins = [mapped[code] for mapped, code in zip(maps, rows.codes, strict=True)]
    score, guess = label_model.score_and_guess(model.additive(bins), model.intercepts)
    index = np.argsort(np.argsort(score, kind="stable")) % (len(cuts) + 1)
    return np.bincount(2 * index + (guess == rows.groups), minlength=2 * len(cuts) + 2).reshape(
        -1, 2
    )


TWINS = {
    "none": lambda patch: None,
    "scores": lambda patch: patch(measurements, "pair_score", squares),
    "pairs": lambda patch: patch(LabelledRows, "counts", counted_twice(LabelledRows.counts)),
    "hits": lambda patch: patch(measurements, "hit_counts", rank),
    "histograms": lambda patch: patch(measurements, "HISTOGRAM_MOVES", 1.0),
    "weights": lambda patch: patch(Persons, "weights", property(lambda self: np.ones(self.rows))),
}


@pytest.mark.parametrize(
    ("twin", "unit"),
    [
        *((twin, None) for twin in TWINS if twin != "weights"),
        ("none", "person"),
        ("weights", "person"),
    ],
)
def test_neighbours_stay_within_the_budget(monkeypatch, unit, twin):
    """The worst of many neighbours uses much of μ², none exceeds it; with each fault one does."""
    table = code_people()
    table = table if unit is None else table.assign(person=np.arange(len(table)) // 2)
    TWINS[twin](monkeypatch.setattr)
    made, first = record_sums(monkeypatch, table, unit, 0.4)
    worst = 0.0
    cities = ("Rome", "Bern")
    for age, city, ill, more in itertools.product((18, 44, 89), cities, ("no", "yes"), (0, 3)):
        other = table.copy()
        who = [10] if unit is None else [10, 11]
        for row in who:
            other.loc[row, ["age", "city", "code", "ill"]] = [age, city, CODES[city], ill]
        if unit is not None:  # the number of a person's rows is not public
            other = pd.concat([other, *[other.iloc[[10]]] * more], ignore_index=True)
        _, second = record_sums(monkeypatch, other, unit, 0.4)
        worst = max(worst, spent(first, second))
        if twin != "none" and worst > made.budget.mu**2:
            return  # the fault is caught
    if twin == "none":
        assert 0.3 * made.budget.mu**2 < worst <= made.budget.mu**2
    else:
        assert worst > made.budget.mu**2


def test_scales_are_those_of_the_shares():
    made = fit(code_people(4000), bounds=BOUNDS, target="ill")
    shares = {}
    for share in made.budget.shares:
        shares.setdefault(share.name, []).append(share.mu)
    assert sum(mu**2 for mus in shares.values() for mu in mus) <= made.budget.mu**2
    assert made.budget.curve().eta <= 0.2
    assert len(shares["pairs"]) == len(made.model.forest) - 1
    expected = {
        "target": math.sqrt(2) / shares["target"][0],
        "cells": math.sqrt(2) / shares["cells"][0],
        "columns": math.sqrt(2 * 3) / shares["columns"][0],
        "scores of pairs": 2 * math.sqrt(3) / shares["scores of pairs"][0],
        "pairs": math.sqrt(2) / min(shares["pairs"]),
        "scores of further pairs": 2 / shares["scores of further pairs"][0],
        "calibration": math.sqrt(2) / shares["calibration"][0],
    }
    for name, scale in made.noise.items():
        if name in expected:
            assert expected[name] <= scale <= expected[name] * (1 + 1e-5)


@pytest.mark.parametrize("target", [False, True])
@pytest.mark.parametrize("columns", [1, 2, 3, 20, 60])
def test_shares_of_the_budget_add_up(columns, target):
    for records, mu in itertools.product((50, 5000, 10**6), (0.05, 0.25, 2.0)):
        shares = synthetic_shares.budget_shares(records, mu, columns, columns // 2, target=target)
        assert sum(shares.values()) == pytest.approx(1.0)
        assert min(shares.values()) > 0
        assert ("calibration" in shares) is target


# ── Cells ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2.0, "3", "1e3"], "0"),
        (["1,5", 2.5], "1"),
        ([12.95, "1.25"], "2"),
        ([0.125], "3"),
        ([math.pi, 1e-7], "more"),
        (["2020-01-01", "31.12.2021"], "day"),
        (["2020-01-01 12:00"], "time"),
    ],
)
def test_how_a_value_is_written(values, expected):
    assert {WRITINGS[cell] for cell in format_cells(read_column(values))} == {expected}


def test_few_odd_values_do_not_decide_how_a_column_is_written():
    counts = np.array([900.0, 0, 0, 0, 5.0, 0, 0, 0])
    assert detect_format(counts, 3.0) == "0"
    assert detect_format(np.array([500.0, 400, 0, 0, 5, 0, 0, 0]), 3.0) == "1"
    assert detect_format(np.array([9.0, 0, 0, 0, 0, 500, 0, 0]), 3.0) == "day"


@pytest.mark.parametrize(
    "bound",
    [Range(0, 90), Range(-5, 1e6), Range(0.5, 0.75), Range(18000, 18100)],
)
@pytest.mark.parametrize("writing", WRITINGS)
def test_draws_are_in_their_cell(bound, writing):
    cells = public_column("x", bound, writing)
    assert (np.diff(cells.edges) > 0).all()
    indices = np.arange(cells.ordered)
    drawn = cells.draw(indices, indices, np.random.default_rng(0))
    again = cells.cell_of(read_column(drawn))
    # A time is drawn to the second.
    assert (np.abs(again - indices) <= (writing == "time")).all()
    gap = np.array([cells.ordered])
    assert cells.draw(gap, gap, np.random.default_rng(0)).isna().all()
    assert (cells.cell_of(read_column([None, "word"])) == cells.ordered).all()


@pytest.mark.parametrize("writing", WRITINGS)
def test_a_range_may_be_as_wide_as_numbers_go(writing):
    cells = public_column("x", Range(-1e308, 0.5e308), writing)
    assert cells.cell_of(read_column([1e308, -1e308, 0.0])).max() < cells.ordered


def test_categories_have_cells_for_other_and_missing_values():
    cells = public_column("x", Categories(("a", "b", "")))
    assert cells.cell_of(read_column(["b", "z", None, "a"])).tolist() == [1, 2, 3, 0]


# ── Drawn rows ────────────────────────────────────────────────────────────────────────────────────


def test_rows_are_like_the_rows():
    table = code_people(20_000)
    drawn = fit(table, bounds=BOUNDS, target="ill").sample(100_000, InsecureSource(3))
    assert drawn.columns.tolist() == table.columns.tolist()
    for old in (False, True):
        real = (table["ill"] == "yes")[(table["age"] > 45) == old].mean()
        new = (drawn["ill"] == "yes")[(drawn["age"] > 45) == old].mean()
        assert new == pytest.approx(real, abs=0.05)
    assert (drawn["city"].map(CODES).astype(str) == drawn["code"].astype(str)).all()
    assert drawn["city"].value_counts(normalize=True).to_numpy() == pytest.approx(1 / 3, abs=0.03)
    # Without missing or unlisted values in the table, noise makes none.
    assert set(drawn["ill"]) == {"no", "yes"}
    assert not drawn.isna().any().any()


@pytest.mark.parametrize("wrong", [0.0, 0.2])
def test_a_column_that_decides_another_still_does(wrong):
    """A code beside its label agrees in every row, also where few rows have it; noise stays."""
    draws = np.random.default_rng(20)
    size = np.array([0.3, 0.25, 0.15, 0.1, 0.07, 0.05, 0.04, 0.04])
    code = draws.choice(8, 20_000, p=size)
    other = np.where(draws.random(len(code)) < wrong, draws.choice(8, len(code), p=size), code)
    table = pd.DataFrame({"code": code, "label": [f"L{k}" for k in other], "age": code % 3})
    bounds = {
        "code": {"categories": list(range(8))},
        "label": [f"L{k}" for k in range(8)],
        "age": [0, 2],
    }
    made = fit(table, eta=0.1, bounds=bounds).sample(20_000, InsecureSource(22))
    agrees = (made["label"].astype(str) == "L" + made["code"].astype(str)).mean()
    assert agrees == pytest.approx((code == other).mean(), abs=0.03 if wrong else 1e-9)


def test_a_group_that_is_cut_from_a_number_agrees_with_it():
    """Steps are found at the resolution of cells, not of blocks; the wards are independent."""
    draws = np.random.default_rng(21)
    age = draws.integers(18, 90, 6000)
    group = np.array(["young", "middle", "old"])[np.searchsorted([30, 65], age, side="right")]
    table = pd.DataFrame({"age": age, "group": group, "ward": draws.choice(list("abcd"), 6000)})
    bounds = {"age": [18, 89], "group": ["young", "middle", "old"], "ward": list("abcd")}
    made = fit(table, eta=0.05, bounds=bounds)
    drawn = made.sample(6000, InsecureSource(23))
    age = drawn["age"].to_numpy()
    again = np.array(["young", "middle", "old"])[np.searchsorted([30, 65], age, side="right")]
    assert (again == drawn["group"]).mean() > 0.98
    assert drawn["age"].between(18, 89).all()


def test_texts_among_numbers_are_drawn_as_they_are_written():
    draws = np.random.default_rng(30)
    code = np.where(draws.random(20_000) < 0.3, "N", draws.integers(0, 9, 20_000).astype(str))
    code[0] = "whose"
    table = pd.DataFrame({"code": code, "ill": np.where(code == "N", "yes", "no")})
    drawn = fit(table, target="ill").sample(20_000, InsecureSource(32))
    assert set(drawn["code"]) == {"N", *map(str, range(9))}
    assert (drawn["code"] == "N").mean() == pytest.approx(0.3, abs=0.02)
    assert ((drawn["code"] == "N") == (drawn["ill"] == "yes")).mean() > 0.98


def test_pairs_that_noise_would_drown_are_not_measured():
    wide = code_people(2000).assign(**{f"c{k}": "x" for k in range(40)})
    bounds = BOUNDS | {f"c{k}": ["x", "y"] for k in range(40)}
    made = fit(wide, eta=0.05, bounds=bounds, target="ill")
    assert made.pairs == ()
    assert set(made.noise) == {"target", "cells", "columns", "calibration"}
    assert sum(made.budget.fractions().values()) == pytest.approx(1.0)
    drawn = made.sample(4000, InsecureSource(14))
    old, young = ((drawn["ill"] == "yes")[(drawn["age"] > 45) == side].mean() for side in (1, 0))
    assert old > young + 0.1


def test_without_bounds_or_target():
    draws = np.random.default_rng(4)
    rows = 30_000
    size = draws.choice(["small", "large"], rows)
    table = pd.DataFrame(
        {
            "customer_id": np.arange(rows) + 10**6,
            "size": size,
            "price": np.round(np.where(size == "small", 5.0, 500.0) * draws.uniform(1, 2, rows), 2),
            "gap": np.where(draws.random(rows) < 0.3, None, "x"),
            "born": pd.Timestamp("1980-01-01")
            + pd.to_timedelta(draws.integers(0, 9999, rows), "D"),
            "always": "same",
            "remark": [f"text number {k}" for k in range(rows)],
        }
    )
    made = fit(table)
    drawn = made.sample(10_000, InsecureSource(6))
    assert made.left_out == ("remark",)
    assert drawn.columns.tolist() == [c for c in table.columns if c != "remark"]
    assert drawn["customer_id"].tolist() == list(range(1, 10_001))
    assert (drawn["price"] == drawn["price"].round(2)).all()
    assert drawn["price"].between(2, 2000).all()
    assert (drawn["price"][drawn["size"] == "small"] < 100).mean() > 0.95
    assert drawn["gap"].isna().mean() == pytest.approx(0.3, abs=0.02)
    assert set(drawn["gap"].dropna()) == {"x"}
    assert set(drawn["always"]) == {"same"}
    assert pd.to_datetime(drawn["born"]).between("1960-01-01", "2030-01-01").all()
    assert made.labels is None


def test_a_target_of_numbers_keeps_its_relation():
    draws = np.random.default_rng(7)
    x = draws.uniform(0, 10, 20_000)
    table = pd.DataFrame({"x": x, "y": 3 * x + draws.normal(0, 2, x.size)})
    public = {"x": [0, 10], "y": [-10, 40]}
    drawn = fit(table, bounds=public, target="y").sample(5000, InsecureSource(9))
    assert np.corrcoef(drawn["x"], drawn["y"])[0, 1] > 0.9


@pytest.mark.parametrize(
    ("table", "options", "problem"),
    [
        (people(600)[["age"]], {}, "two columns"),
        (people(150), {"eta": 0.01}, "at least about"),
        (people(120)[["age", "city"]], {"bounds": None, "eta": 0.05}, "without bounds"),
        (people(600), {"target": "city", "bounds": BOUNDS | {"city": ["a"]}}, "2 to 32 classes"),
        (
            people(600),
            {"target": "city", "bounds": BOUNDS | {"city": [f"w{k}" for k in range(1000)]}},
            "2 to 32 classes",
        ),
        (people(600)[["age", "city"]], {"eta": 0.5}, "eta"),
        (pd.DataFrame(dict.fromkeys(["id", "patient_id"], range(9000))), {}, "many people share"),
    ],
)
def test_impossible_requests_are_refused(table, options, problem):
    options = {"eta": 0.3, "bounds": BOUNDS} | options
    if options["bounds"] is not None:
        options["bounds"] = {k: v for k, v in options["bounds"].items() if k in table}
    with pytest.raises(InputError, match=problem):
        fit(table, **options)


def test_a_type_that_cannot_be_made_stops_no_release():
    """Arrow has no cast from numbers to times of day; the noise was drawn by then."""
    drawn = pd.Series([0.25, 0.5])
    assert cast_to_declared(drawn, pa.time64("us")).tolist() == [0.25, 0.5]


@pytest.mark.parametrize(
    ("kind", "writing"),
    [
        (pd.BooleanDtype(), ("False", "True")),
        (pd.ArrowDtype(pa.int8()), "0"),
        (pd.UInt8Dtype(), "0"),
        (np.dtype("M8[ns]"), "time"),
        (pa.date32(), "day"),
        (np.dtype(np.longdouble), None),
        (np.dtype(object), None),
        (np.dtype(complex), None),
        (pd.CategoricalDtype(["a"]), None),
        (None, None),
    ],
    ids=str,
)
def test_declared_types_are_respected(kind, writing):
    assert writing_from_type(kind, "any") == writing


def test_a_column_and_its_square_stay_together():
    """Two columns of many values get many codes, not five, if one determines the other."""
    age = np.random.default_rng(7).integers(20, 80, 8000)
    table = pd.DataFrame({"age": age, "square": age**2, "sex": np.where(age % 2, "f", "m")})
    bounds = {"age": [20, 80], "square": [400, 6400], "sex": ["f", "m"]}
    drawn = fit(table, bounds=bounds, eta=0.1).sample(8000, InsecureSource(3))
    error = np.sqrt(drawn["square"].to_numpy(dtype=float)) - drawn["age"].to_numpy(dtype=float)
    assert np.abs(error).mean() < 3.5


def test_empty_cells_do_not_cost_runs():
    """Sixteen codes, one of them empty, keep fifteen runs, though no two have equal mass."""
    counts = np.array([0.0, 67, 219, 315, 243, 387, 611, 155, 5155, 3499, 747, 547, 2667, 859, 347])
    runs = marginals.merge(np.append(counts, [171.0, 0.0]), 16, 15)
    assert len(set(runs[:16].tolist())) == 15


def test_weak_edges_do_not_cost_the_strong_ones():
    """Only edges that promise more than their noise costs all others are measured."""
    scores = np.zeros((4, 4))
    scores[0, 1], scores[1, 2], scores[2, 3] = 5000.0, 4000.0, 1.0
    kept = tree.keep_edges(scores, np.array([10, 10, 10, 10]), 60.0)
    assert {(int(a), int(b)) for a, b in np.argwhere(kept)} == {(0, 1), (1, 2)}
    assert np.count_nonzero(tree.keep_edges(scores, np.array([10, 10, 10, 10]), 1e-6)) == 3
    for sizes in ([4, 9, 100], [1], [1024] * 90):
        parts = tree.share_noise(sizes)
        assert 0.99 < parts.sum() <= 1
        assert sum(map(Fraction, parts.tolist())) <= 1
    assert tree.share_noise([100, 100], [3.0, 1.0])[0] > 0.6


def test_empty_cells_give_way_to_the_sums():
    """Estimates reach the one-way counts, unless noise explains why they do not."""
    rows, columns = np.array([50.0, 30, 20]), np.array([20.0, 30, 50])
    reached = marginals.rake(np.eye(3) + np.eye(3, k=1) / 4, rows, columns)
    assert np.abs(reached.sum(axis=1) - rows).sum() < 5
    assert reached.sum(axis=0) == pytest.approx(columns)
    kept = marginals.rake(np.eye(3), rows, columns, 0.4)
    assert np.count_nonzero(kept) == 3


def test_one_way_counts_help_to_find_the_steps_of_a_group():
    """The pair's noise puts a cut one year off; the group's own counts put it right."""
    weights, columns = np.full(10, 100.0), np.array([500.0, 500.0])
    noisy = np.repeat([[100.0, 0.0], [0.0, 100.0]], 5, axis=0)
    noisy[4] = [45.0, 55.0]
    right = step_functions.estimate_steps(noisy, 30.0, weights, columns, spread=20.0)
    assert np.argwhere(right > 1)[:, 1].tolist() == [0] * 5 + [1] * 5
    without = step_functions.estimate_steps(noisy, 30.0, weights, columns, spread=1e9)
    assert np.argwhere(without > 1)[:, 1].tolist() == [0] * 4 + [1] * 6


def test_a_second_run_of_a_group_needs_evidence():
    """Two rows of ages of another group are noise; two thousand are a group with two runs."""
    weights, columns = np.array([40.0, 30] + [100.0] * 8), np.array([570.0, 300.0])
    noisy = np.array([[0.0, 42], [5, 45], *[[100.0, 0.0]] * 5, *[[0.0, 100.0]] * 3])
    table = step_functions.estimate_steps(noisy, 20.0, weights, columns, spread=20.0)
    assert np.argwhere(table > 1)[:, 1].tolist() == [0] * 7 + [1] * 3
    many = 20 * weights, 20 * np.array([500.0, 370.0])
    table = step_functions.estimate_steps(20 * noisy, 20.0, *many, spread=20.0)
    assert np.argwhere(table > 1)[:, 1].tolist() == [1] * 2 + [0] * 5 + [1] * 3


def _model_of_three(further):
    """Return a chain of three codes, and the law of its ends, which it does not explain."""
    cells = [public_column(name, Categories(tuple("abcd"))) for name in "xyz"]
    alone, weights = np.arange(4), np.array([1000.0, 2000, 3000, 4000])
    columns = [
        marginals.ReleasedColumn(
            column, np.append(weights, [0, 0]), np.array([*alone, 3, 3]), alone, alone, 1.0
        )
        for column in cells
    ]
    maps = (columns[0].bin_of_cell,) * 2
    mixed = np.outer(weights, weights) / weights.sum()
    chain = [conditionals.Pair(k, k + 1, (np.diag(weights) + mixed) / 2, maps) for k in (0, 1)]
    ends = conditionals.Pair(0, 2, 0.9 * np.diag(weights) + 0.1 * mixed, maps)
    forest = ((0, None), (1, chain[0]), (2, chain[1]))
    return tree.PairModel(tuple(columns), forest, (ends,) if further else ()), ends


@pytest.mark.parametrize("further", [True, False])
def test_further_pairs_fit_and_leave_the_one_way_counts_alone(further):
    model, ends = _model_of_three(further)
    drawn = model.cells(10_000, np.random.default_rng(1))
    for pair in model.measured:
        found = np.bincount(pair.flat_cells(dict(enumerate(drawn))), minlength=16)
        assert np.abs(found - pair.counts.ravel()).sum() / 20_000 < 0.02
    for cells in drawn:
        assert np.abs(np.bincount(cells, minlength=4) - np.arange(1000, 4001, 1000)).max() < 100
    apart = np.bincount(ends.flat_cells(dict(enumerate(drawn))), minlength=16) - ends.counts.ravel()
    assert (np.abs(apart).sum() / 20_000 < 0.02) == further


def test_cells_without_records_stay_empty_when_pairs_change_a_column():
    """Missing values were never seen: a pair with fewer records must not give them any."""
    model, _ = _model_of_three(further=False)
    columns = [
        replace(c, weights=np.append(np.arange(1000.0, 4001, 1000), [0, 0])) for c in model.columns
    ]
    maps = (np.array([0, 1, 2, 3, 4, 5]),) * 2
    table = np.zeros((6, 6))
    table[:4, :4] = np.diag([900.0, 1800, 2500, 3600])
    measuring = measurements.Measurements.__new__(measurements.Measurements)
    measuring.records = 10_000
    measuring._reconcile(columns, (0, 1), table, maps)
    for column in columns:
        assert column.weights[4:].tolist() == [0, 0]
        assert column.weights.sum() == pytest.approx(10_000)


def test_a_rare_subgroup_of_several_columns_stays_whole():
    """One in 50 rows has the first code in every column, and no pair mixes it with another code."""
    model, _ = _model_of_three(further=True)
    weights = np.array([200.0, 2800, 3000, 4000])
    table = np.outer(weights, weights) / weights[1:].sum()
    table[0], table[:, 0] = 0.0, 0.0
    table[0, 0] = 200.0
    columns = tuple(replace(c, weights=np.append(weights, [0, 0])) for c in model.columns)
    pairs = [
        conditionals.Pair(a, b, table, model.further[0].maps) for a, b in ((0, 1), (1, 2), (0, 2))
    ]
    forest = ((0, None), (1, pairs[0]), (2, pairs[1]))
    drawn = tree.PairModel(columns, forest, (pairs[2],)).cells(10_000, np.random.default_rng(1))
    first = np.array(drawn) == 0
    assert (first.all(axis=0) == first.any(axis=0)).all()
    assert first.all(axis=0).sum() == pytest.approx(200, abs=40)


def test_zeros_that_contradict_each_other_leave_the_forest_in_charge():
    model, _ = _model_of_three(further=True)
    weights = np.arange(1000.0, 4001, 1000)
    swapped = np.diag(weights)[[1, 0, 3, 2]]
    same = conditionals.Pair(1, 2, np.diag(weights), model.further[0].maps)
    forest = (model.forest[0], (1, replace(same, first=0, second=1)), (2, same))
    against = conditionals.Pair(0, 2, swapped, same.maps)
    drawn = tree.PairModel(model.columns, forest, (against,)).cells(2000, np.random.default_rng(0))
    assert (drawn[0] == drawn[1]).all()
    assert (drawn[1] == drawn[2]).all()


def test_columns_that_depend_on_the_target_depend_on_each_other():
    model, _ = _model_of_three(further=False)
    law = np.array([[800.0, 0, 0, 4200], [200, 2000, 3000, 0]])
    maps = (np.arange(2), model.columns[0].bin_of_cell)
    grouped = tuple(conditionals.Pair(tree.GROUP, k, law, maps) for k in range(3))
    alone = tuple((k, None) for k in range(3))
    drawn = tree.PairModel(model.columns, alone, grouped=grouped).cells(
        8000, np.random.default_rng(0)
    )
    both = np.bincount(4 * drawn[0] + drawn[1], minlength=16).reshape(4, 4) / 8000
    assert both[3, 1:3].sum() < 0.5 * (both[3].sum() * both[:, 1:3].sum())


def test_a_column_of_one_value_promises_nothing():
    """No noise makes a pair more distant from a prediction than its sums allow."""
    assert measurements._most_distant(np.array([[30.0, 70.0]])) == 0.0
    assert measurements._most_distant(np.diag([30.0, 70.0])) == 120.0
    draws = np.random.default_rng(5)
    table = pd.DataFrame({name: draws.choice(list("ab"), 4000) for name in "pqr"})
    table["one"] = "x"
    bounds = {name: list("ab") for name in "pqr"} | {"one": ["x"]}
    for seed in range(6):
        assert "one" not in np.ravel(fit(table, seed, bounds=bounds).pairs)


def test_public_edges_do_not_join_the_values_of_a_code():
    """A whole number with few values has a cell per value; one with many has the edges."""
    code = public_column("code", Range(1, 16, edges=(1, 5, 9, 16)), "0")
    assert code.count - 1 == code.ordered == 16
    wide = public_column("age", Range(1, 90, edges=(1, 5, 9, 90)), "0")
    assert wide.ordered == 3
    assert public_column("kg", Range(1, 16, edges=(1, 5, 9, 16)), "2").ordered == 3


@pytest.mark.parametrize("rows", [3000, 60_000])
@pytest.mark.parametrize("groups", [2, 3])
def test_labels_are_balanced(groups, rows):
    """Totals and rates are the requested ones; few rows have less noise in the bins of columns."""
    draws = np.random.default_rng(8)
    bins = [draws.integers(0, 3, rows) for _ in range(12)]
    likely = draws.dirichlet(np.ones(groups), rows)
    drawn = draw_balanced(likely, bins, draws)
    assert np.bincount(drawn) == pytest.approx(likely.sum(axis=0), abs=12)
    likeliest = likely.max(axis=1)
    assert (drawn == likely.argmax(axis=1)).mean() == pytest.approx(likeliest.mean(), abs=0.03)
    if rows > 50_000:
        return
    alone = (draws.random((rows, 1)) > np.cumsum(likely, axis=1)).sum(axis=1)
    errors = [
        sum(np.square(np.bincount(index, (labels == 0) - likely[:, 0])).sum() for index in bins)
        for labels in (drawn, alone)
    ]
    assert errors[0] < 0.6 * errors[1]


def test_few_directions_are_told_from_noise():
    """Tables of one direction: closer than the noisy table and than no distance at all."""
    draws = np.random.default_rng(9)
    for rows, columns, size in ((2, 5, 30.0), (3, 3, 30.0), (8, 12, 20.0)):
        centred = [x - x.mean() for x in (draws.normal(size=rows), draws.normal(size=columns))]
        truth = size * rows * np.outer(*(x / np.linalg.norm(x) for x in centred))
        errors = np.zeros(3)
        for _ in range(20):
            noisy = truth + draws.normal(0, 10.0, truth.shape)
            near = marginals.shrink(noisy, 10.0)
            assert np.abs(near.sum(axis=0)).max() < 1e-6
            errors += [np.linalg.norm(table - truth) for table in (near, noisy, 0 * truth)]
        assert errors[0] < 0.9 * errors[1:].min()
    assert marginals.shrink(np.ones((1, 4)), 1.0).tolist() == [[0.0] * 4]


def test_a_number_that_many_share_is_not_spread():
    """Incomes: many are exactly 0, and the largest is a cap; the others have any decimals."""
    draws = np.random.default_rng(2)
    income = np.where(draws.random(4000) < 0.3, 0.0, np.minimum(draws.lognormal(3, 1, 4000), 90.0))
    table = pd.DataFrame({"income": income, "sex": draws.choice(["f", "m"], 4000)})
    drawn = fit(table, bounds={"income": [0, 90], "sex": ["f", "m"]}).sample(
        4000, InsecureSource(1)
    )
    for value in (0.0, 90.0):
        shares = [(rows["income"] == value).mean() for rows in (table, drawn)]
        assert shares[1] == pytest.approx(shares[0], abs=0.04)
    positive = drawn["income"][drawn["income"] > 0]
    assert positive.min() > 1e-6
    even = pd.DataFrame({"x": draws.random(4000), "y": draws.choice(["f", "m"], 4000)})
    drawn = fit(even, bounds={"x": [0, 1], "y": ["f", "m"]}).sample(4000, InsecureSource(1))
    assert not drawn["x"].isin([0.0, 1.0]).any()


def test_decimals_of_several_lengths_are_seen_together():
    """Each length is below the threshold alone; together they exclude whole numbers."""
    assert detect_format(np.array([900.0, 90, 90, 90, 0, 0, 0, 0]), 30.0) != "0"
    assert detect_format(np.array([900.0, 90, -90, 90, -90, 0, 0, 0]), 30.0) == "0"
