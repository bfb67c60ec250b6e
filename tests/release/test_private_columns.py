"""Private properties of columns: sensitivities by brute force, names, columns of many shapes."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from memberbound.errors import TooFewRowsError
from memberbound.release.all_rows import private_columns
from memberbound.release.all_rows.bounds import read_bounds
from memberbound.release.all_rows.histograms import CLASS_SCALES
from memberbound.release.all_rows.number_laws import NumberLaw
from memberbound.release.all_rows.private_columns import (
    FirstCells,
    ZoomCells,
    count_column,
    histogram_share,
    learn_classes,
    learn_columns,
    look_names,
    rows_needed,
    take_looks,
)
from memberbound.release.all_rows.synthetic import fit_synthetic
from memberbound.release.all_rows.training import fit_private
from memberbound.release.budget import CLASS_SLACK, HISTOGRAM_MOVES, Budget, NoisySums
from memberbound.release.randomness import InsecureSource
from memberbound.tables.columns import read_column
from memberbound.tables.records import Records, read_records

MU = Budget.for_eta(0.05, slack=1e-7).mu
ZOOM = ZoomCells(np.array([-1.5, -0.5, 0.5, 2.0, 9.0]), np.array([0, 1, 2, 2]))
#: Values of every kind: octaves, formats, texts, dates, gaps.
ODD = [1.0, 7.0, 2.5, 0.125, -1.0, 1e300, "N", "M", "own", "2020-01-31", None, math.nan]


# ── Sensitivity ───────────────────────────────────────────────────────────────────────────────────


def distance(first, second):
    """Return the distance of two looks, each with counts of cells and of texts."""
    cells = np.square(first[0] - second[0]).sum()
    texts = sum((first[1].get(t, 0) - second[1].get(t, 0)) ** 2 for t in {**first[1], **second[1]})
    return math.sqrt(cells + texts)


def counts_of_rows(values, cells, named):
    frame = pd.DataFrame({"a": pd.Series(values, dtype=object)})
    return count_column(read_records(frame), "a", cells, named)


def numbers_by_name_too(values, cells, named):
    """A broken twin: a number counts in its cell and under its name."""
    exact, texts = counts_of_rows(values, cells, named)
    return exact, texts | {f"number {v}": values.count(v) for v in values if v == 7.0}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("cells", ["first", "typed", "second"])
def test_the_sensitivity_of_a_look_is_at_most_the_root_of_two(cells, named):
    looked = {"first": FirstCells(None, named), "typed": FirstCells("0", named), "second": ZOOM}
    others = [1.0, 2.5, "N"]
    lengths, broken = [], []
    for old, new in itertools.permutations(ODD, 2):
        for count, found in ((counts_of_rows, lengths), (numbers_by_name_too, broken)):
            worlds = [count([*others, value], looked[cells], named) for value in (old, new)]
            found.append(distance(*worlds))
    assert max(lengths) == pytest.approx(math.sqrt(2))
    assert max(broken) > HISTOGRAM_MOVES + 0.1


def counts_of_persons(rows, cells, named):
    """Return the counts of a table of (person, value)."""
    table = pd.DataFrame({"who": [w for w, _ in rows], "a": [v for _, v in rows]}, dtype=object)
    return count_column(read_records(table).group_by_person("who"), "a", cells, named)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_a_person_changes_a_look_by_at_most_the_root_of_two(named, second, monkeypatch):
    cells = ZOOM if second else FirstCells(None, named)
    others = [("p", 1.0), ("q", "N"), ("q", "M"), ("q", 3.0)]
    draws = np.random.default_rng(5)
    persons = [[("x", ODD[k]) for k in draws.integers(0, len(ODD), size)] for size in (1, 2, 3, 7)]
    persons += [[("x", "own")], [("x", f"own {k}") for k in range(50)], [("x", 1.0)] * 9]

    def largest():
        worlds = [counts_of_persons([*others, *rows], cells, named) for rows in persons]
        return max(distance(a, b) for a, b in itertools.combinations(worlds, 2))

    assert largest() <= HISTOGRAM_MOVES
    # Broken: every row counts as one.
    weights = property(lambda self: np.ones(self.rows))
    monkeypatch.setattr("memberbound.tables.persons.Persons.weights", weights)
    assert largest() > HISTOGRAM_MOVES + 0.1


def test_all_texts_of_a_person_count_as_one():
    """Of a person's fifty unique texts one is counted, at most once, the same one in both looks."""
    rows = [
        *(("x", f"own {k}") for k in range(50)),
        ("x", 1.0),
        *((f"p{k}", "N") for k in range(9)),
    ]
    looks = [counts_of_persons(rows, cells, True)[1] for cells in (FirstCells(None, True), ZOOM)]
    assert looks[0] == looks[1]
    assert set(looks[0]) == {"own 0", "N"}
    assert looks[0]["own 0"] <= 50 / 51


# ── Names ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ratio", [0.2, 0.7, 1.0, 1.5, 5.0])
def test_a_text_of_one_person_is_hardly_ever_named(ratio):
    """The mean of both looks, with the grid's eighth of a scale in favour of the attacker."""
    first, second = 1.0, ratio
    joint = 1 / math.sqrt(first**-2 + second**-2)
    shift = joint**2 * (first / 8 / first**2 + second / 8 / second**2)
    later = stats.norm.sf((CLASS_SCALES * joint - shift) / joint)
    sooner = stats.norm.sf(CLASS_SCALES - 0.125)
    assert later <= CLASS_SLACK
    assert sooner + later <= look_names(1) * CLASS_SLACK == 2 * CLASS_SLACK
    # Broken: the smaller noise of the mean, but only one look counted.
    assert stats.norm.sf((CLASS_SCALES * joint - shift) / first) > CLASS_SLACK * (ratio < 5.0)


def test_names_come_from_both_looks():
    """A text that one look alone would not name is named by the mean of two."""
    rows = 4000
    texts = np.array(["common"] * (rows - 650) + ["rare"] * 650, dtype=object)
    found = set()
    for seed in range(8):
        source = InsecureSource(seed)
        first = NoisySums(100.0, 1, source)
        column = learn({"a": texts}, 100.0, 100.0, seed, first=first)["a"]
        found.add(column.labels)
        assert column.kind == "category"
    assert 1 + CLASS_SCALES * 100.0 + 100 > 650
    assert ("common", "rare") in found


# ── Columns of many shapes ────────────────────────────────────────────────────────────────────────


class Second:
    """A part of a budget with a given noise."""

    def __init__(self, scale, source):
        self.scale, self.source = scale, source

    def sums(self, *, sensitivity, times):
        assert sensitivity == HISTOGRAM_MOVES
        return NoisySums(self.scale, times, self.source)


def learn(columns, scale, second, seed=0, *, first=None, named=True, **options):
    """Learn columns with noise of given scales."""
    read = {name: read_column(pd.Series(list(v), dtype=object)) for name, v in columns.items()}
    records = Records(read, len(next(iter(read.values()))))
    source = InsecureSource(seed)
    first = first or NoisySums(scale, len(columns), source)
    return learn_columns(
        records, list(columns), first, Second(second, source), named=named, **options
    )


def shapes(rows, seed=0):
    draws = np.random.default_rng(seed)
    days = pd.Timestamp("2015-07-01") + pd.to_timedelta(draws.integers(0, 790, rows), "D")
    return {
        "year": draws.choice([2015, 2016, 2017], rows),
        "flag": (draws.random(rows) < 0.3).astype(int),
        "age": np.clip(np.rint(draws.normal(45, 15, rows)), 18, 90).astype(int),
        "money": np.round(np.exp(draws.normal(9, 1.2, rows)), 2),
        "code": np.where(draws.random(rows) < 0.3, -1, draws.integers(1, 365, rows)),
        "normal": draws.normal(size=rows),
        "day": [day.strftime("%Y-%m-%d") for day in days],
        "mixed": np.where(
            draws.random(rows) < 0.2, "unknown", draws.integers(0, 9, rows).astype(str)
        ),
        "sex": draws.choice(["f", "m"], rows),
    }


#: Noise of 20 private columns of 5600 rows at η = 0.05.
SHARE = histogram_share(20, 5600, MU)
SCALES = tuple(math.sqrt(2 * 20 / (SHARE * part)) / MU for part in (0.7, 0.3))


def test_no_column_vanishes_at_random():
    """Twelve draws: before, a sum over 129 noisy cells lost one of these columns in four."""
    table = shapes(5600)
    for seed in range(12):
        kinds = {n: c.kind for n, c in learn(table, *SCALES, seed).items()}
        assert kinds == dict.fromkeys(table, "number") | {"day": "date", "sex": "category"}


def test_years_are_found_inside_their_octave():
    for seed in range(6):
        column = learn({"year": shapes(5600)["year"]}, *SCALES, seed)["year"]
        low, high = column.law.range
        assert 2010 <= low <= 2015
        assert 2017 <= high <= 2022
        assert column.law.writing == "0"


def test_no_value_is_drawn_that_an_octave_excludes():
    """[1, 2) of whole numbers is 1: a column of 0 and 1 has two cells of numbers."""
    for seed in range(6):
        cells = learn({"flag": shapes(5600)["flag"]}, *SCALES, seed)["flag"].cells()
        assert cells.edges == (-0.5, 0.5, 1.5)
        drawn = cells.draw(np.array([0, 1]), np.array([0, 1]), np.random.default_rng(0))
        assert drawn.tolist() == [0, 1]


def test_the_gap_beside_a_code_is_rare():
    values = np.where(np.arange(9000) % 3 == 0, -1, 1000 + np.arange(9000) % 900)
    column = learn({"code": values}, 30.0, 40.0)["code"]
    cells = column.cells()
    gap = int(cells.cell_of(read_column(np.array([500.0])))[0])
    assert gap in cells.rare
    assert int(cells.cell_of(read_column(np.array([-1.0])))[0]) not in cells.rare


def test_mostly_missing_columns_stay():
    values = np.where(np.arange(4000) % 50 == 0, np.arange(4000) % 7, None)
    column = learn({"a": values}, 90.0, 120.0)["a"]
    assert column.kind == "missing"
    drawn = column.cells().draw(np.array([1]), np.array([1]), np.random.default_rng(0))
    assert drawn.isna().all()


def test_identifiers_and_free_text_have_no_cells():
    column = learn({"a": [f"person {k}" for k in range(3000)]}, 50.0, 60.0)["a"]
    assert column.kind == "text"
    assert column.cells() is None


@pytest.mark.parametrize("name", ["age", "money", "normal", "day", "code"])
def test_the_law_is_near_the_truth_where_the_noise_is_small(name):
    table = shapes(20_000)
    column = learn({name: table[name]}, 8.0, 8.0)[name]
    numbers = read_column(pd.Series(list(table[name]), dtype=object)).numbers
    law = column.law
    true = np.histogram(numbers, law.edges)[0]
    assert true.sum() > 0.995 * len(numbers)
    share = law.weights / law.weights.sum()
    reached = np.cumsum(share) - np.cumsum(true / true.sum())
    assert np.abs(reached).max() < 0.03
    edges, _ = law.cells(128)
    assert (np.diff(edges) > 0).all()
    assert len(edges) <= 260


def test_a_public_range_is_kept():
    values = np.random.default_rng(0).normal(50, 5, 6000)
    bound = private_columns.Range(48, 52)
    column = learn({"a": values}, 20.0, 20.0, named=False, bounds={"a": bound})["a"]
    low, high = column.law.range
    assert 47.9 <= low < high <= 52.1


@pytest.mark.parametrize(
    "values",
    [[0] * 900, [5] * 900, [0.1] * 900, [-3.25] * 900, [2.0**60] * 900, [1e-30] * 900],
)
def test_a_constant_has_a_range(values):
    column = learn({"a": values}, 10.0, 10.0, named=False)["a"]
    assert column.range.low < column.range.high
    edges, _ = column.law.cells(128)
    assert (np.diff(edges) > 0).all()


# ── What it costs ─────────────────────────────────────────────────────────────────────────────────


def test_the_cost_is_a_function_of_public_numbers():
    assert histogram_share(20, 50_000, MU) == 0.15
    assert histogram_share(20, 500, MU) == 0.40
    shares = [histogram_share(20, n, MU) for n in (500, 1000, 2000, 4000, 8000)]
    assert shares == sorted(shares, reverse=True)
    needed = [rows_needed(private, MU) for private in (0, 1, 10, 30, 90)]
    assert needed == sorted(needed)
    assert needed[0] == 40
    assert 450 < needed[3] < 700
    budget = Budget(MU, 0.0)
    first, second = take_looks(budget, 20, 5600)
    share = histogram_share(20, 5600, MU)
    assert 1.0 - budget.left == pytest.approx(share)
    assert first.scale == pytest.approx(math.sqrt(2 * 20 / (0.7 * share)) / MU)
    assert second.mu == pytest.approx(MU * math.sqrt(0.3 * share))


def test_rare_classes_of_a_target_are_named():
    """Two hundred and fifty of 5600 rows, where a column of 20 needs about 480."""
    goal = read_column(pd.Series(["no"] * 5350 + ["yes"] * 249 + ["odd"], dtype=object))
    for seed in range(6):
        budget = Budget(MU, 0.0, source=InsecureSource(seed))
        found, scale = learn_classes(Records({"y": goal}, 5600), "y", budget)
        assert found == ("no", "yes")
        assert scale == pytest.approx(HISTOGRAM_MOVES / (MU * math.sqrt(1 - budget.left)))
        assert 1 - budget.left <= 0.05 + 1e-12


def even_classes(rows):
    draws = np.random.default_rng(rows)
    ill = np.arange(rows) % 2 == 0
    frame = {f"a{k}": draws.integers(1, 3, rows) + ill for k in range(2)}
    return pd.DataFrame(frame | {"ill": np.where(ill, "yes", "no")})


@pytest.mark.parametrize("stated", [(), ("a0", "a1"), ("ill",), ("a0", "a1", "ill")])
def test_protect_and_synthesize_refuse_the_same_sizes(stated):
    """Both verbs refuse the same tables, at the same size."""
    every = {"a0": [0, 4], "a1": [0, 4], "ill": ["no", "yes"]}
    bounds = {name: every[name] for name in stated}

    def refusal(fit, rows, eta, **settings):
        try:
            fit(even_classes(rows), eta=eta, source=InsecureSource(1), **settings)
        except TooFewRowsError as error:
            return str(error)
        return None

    def synthetic(table, **settings):
        fit_synthetic(read_records(table), target="ill", bounds=read_bounds(bounds), **settings)

    def model(table, **settings):
        fit_private(table, "ill", bounds=bounds, **settings)

    for eta in (0.05, 0.2):
        mu = Budget.for_eta(eta, slack=1e-9).mu
        needed = rows_needed(3 - len(stated), mu, open_target="ill" not in stated)
        for rows in (needed // 2, needed - 1, needed, needed + 1, 2 * needed):
            said = [refusal(fit, rows, eta) for fit in (model, synthetic)]
            assert said[0] == said[1], "the same words"
            assert (said[0] is None) == (rows >= needed), (eta, rows)


def test_a_target_without_bounds_needs_rows_for_its_classes():
    sizes = [rows_needed(1, MU, open_target=flag) for flag in (False, True)]
    assert sizes[0] < sizes[1] < 2 * sizes[0] + 10
    goal = even_classes(sizes[1])[["ill"]]
    for seed in range(5):
        budget = Budget(MU, 1e-9, source=InsecureSource(seed))
        found, _ = learn_classes(read_records(goal), "ill", budget, alone=True)
        assert found == ("no", "yes")
    # The usual share names them rarely.
    usual = Budget(MU, 1e-9, source=InsecureSource(0))
    assert len(learn_classes(read_records(goal), "ill", usual)[0]) < 2


@pytest.mark.parametrize("scale", [0.0, 30.0, 1e4])
def test_moments_allow_for_numbers_that_noise_may_hide(scale):
    """A spike at 2.5 with 300 records; one noise scale of records anywhere in [0, 10]."""
    weights = np.where(np.arange(10) == 2, 300.0, 0.0)
    law = NumberLaw("whole", np.arange(11.0), weights, weights > 0, scale)
    hidden = min(1.0, scale / 300)
    # An exact grid of the mixture: the uniform law of 10 000 points, and the spike.
    points = np.append((np.arange(10_000) + 0.5) / 1000, 2.5)
    masses = np.append(np.full(10_000, hidden / 10_000), 1 - hidden)
    mean = points @ masses
    spread = np.sqrt((points - mean) ** 2 @ masses)
    assert law.moments(lambda t: t, 0.0, 10.0) == pytest.approx((mean, spread), abs=1e-4)
