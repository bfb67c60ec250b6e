"""Private preprocessing: values one by one, counts of neighbours, names, and stored models."""

import json
import math
import mmap
from collections import Counter
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.oracle.training import fit_model, mapped_file

from memberbound import summarize, synthesize
from memberbound.curve import GaussianCurve, PolygonCurve
from memberbound.curve.families import SlackCurve
from memberbound.errors import InputError
from memberbound.release.all_rows import boosting, encoder_fit, histograms
from memberbound.release.all_rows.bounds import Categories, Range, forms_of, read_bounds
from memberbound.release.all_rows.cells import public_column
from memberbound.release.all_rows.encoder import (
    ColumnCode,
    Encoder,
    Scaling,
    TargetCode,
    public_scaling,
)
from memberbound.release.all_rows.encoder_fit import fit_target
from memberbound.release.all_rows.histograms import (
    CELLS,
    FIXED_CELLS,
    MISSING,
    NUMBER_CELLS,
    octave_ends,
)
from memberbound.release.all_rows.private_columns import learn_columns, rows_needed
from memberbound.release.all_rows.training import fit_private
from memberbound.release.budget import CLASS_SLACK, HISTOGRAM_MOVES, Budget, BudgetShare, NoisySums
from memberbound.release.randomness import InsecureSource
from memberbound.tables.columns import label_of, read_column
from memberbound.tables.records import Records, read_records

DRAWS = np.random.default_rng(0)

# Values are read one by one

anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from(["1", "1.0", " 1", "True", "nan", "inf", "-0.0", "?", "None", ""]),
)


def column(values):
    return pd.Series(values, dtype=object)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(values=st.lists(anything, min_size=2, max_size=8), index=st.integers(0, 7), other=anything)
def test_replacing_a_record_changes_only_its_own_reading(values, index, other):
    index %= len(values)
    changed = [*values[:index], other, *values[index + 1 :]]
    alone = np.arange(len(values)) != index
    first, second = read_column(column(values)), read_column(column(changed))
    assert (FIXED_CELLS.cell_of(first)[alone] == FIXED_CELLS.cell_of(second)[alone]).all()
    assert np.array_equal(first.numbers[alone], second.numbers[alone], equal_nan=True)
    labels = ["1", "True", "?"]
    assert (first.positions(labels)[alone] == second.positions(labels)[alone]).all()
    # One count goes and one comes: √2 in every histogram.
    counts = [np.bincount(FIXED_CELLS.cell_of(read), minlength=CELLS) for read in (first, second)]
    assert np.square(counts[0] - counts[1]).sum() <= 2


@settings(derandomize=True, deadline=None)
@given(number=st.floats(allow_nan=False))
def test_numbers_lie_in_their_octave(number):
    cell = int(FIXED_CELLS.cell_of(read_column(np.array([number])))[0])
    assert 0 <= cell < NUMBER_CELLS
    low, high = octave_ends(cell)
    assert low * number >= 0
    if 2.0**-20 <= abs(number) < 2.0**44:
        assert min(abs(low), abs(high)) <= abs(number) <= max(abs(low), abs(high))
    assert octave_ends(NUMBER_CELLS - 1)[1] == 2.0**44


# Bounds


def test_bounds_from_files(tmp_path):
    plain = tmp_path / "bounds.yaml"
    plain.write_text(
        "age: [0, 120]\nsmokes: [yes, no]\nward: {categories: [1, 2]}\nx: {range: [1, 3]}\n"
    )
    found = read_bounds(plain)
    assert found["age"] == Range(0, 120)
    assert found["smokes"] == Categories(("yes", "no"))
    assert found["ward"] == Categories(("1", "2"))
    other = tmp_path / "bounds.json"
    other.write_text(json.dumps({"age": [0, 120], "x": {"range": [1, 3]}}))
    assert read_bounds(str(other))["x"] == found["x"]
    assert read_bounds(None) == {}
    assert label_of(1.0) == label_of("1") == label_of(1) == "1"


def test_words_for_a_gap_are_values_where_the_bounds_list_them(tmp_path):
    """``none`` is a level of education: listed values count, exactly as listed."""
    file = tmp_path / "bounds.yaml"
    file.write_text('school: [none, ged, "NULL", null]\nplain: [x, y]\n')
    found = read_bounds(file)
    assert found["school"].labels == ("none", "ged", "NULL", "")
    assert Categories(("none", "ged")).form == read_bounds({"a": ["none", "ged"]})["a"].form
    table = tmp_path / "people.csv"
    words = ["none", "ged", "NULL", "None", "nan", "", "null"]
    table.write_text("school,plain\n" + "".join(f"{word},{word}\n" for word in words))
    read = read_records(table, forms_of(found)).columns
    assert read["school"].positions(found["school"].labels).tolist() == [0, 1, 2, 3, 3, 3, 3]
    assert [read["plain"].label(row) for row in range(7)] == ["", "ged", "", "", "", "", ""]
    # A typed gap stays one, and numbers are read as before.
    objects = read_column(
        pd.Series([None, math.nan, "none", "1.50"], dtype=object), "words:none:any"
    )
    assert [objects.label(row) for row in range(4)] == ["", "", "none", "1.5"]


def test_words_for_a_gap_are_drawn_and_encoded():
    draws = np.random.default_rng(0)
    school = draws.choice(["none", "ged", "college"], 6000)
    table = pd.DataFrame({"school": school, "y": np.where(school == "none", "no", "yes")})
    bounds = {"school": ["none", "ged", "college"], "y": ["no", "yes"]}
    model = fit_model(table, "y", eta=0.1, bounds=bounds)
    assert np.mean(model.predict(table) == table["y"]) > 0.99
    again = Encoder.from_dict(json.loads(json.dumps(model.encoder.to_dict())))
    assert again.forms["school"] == "words:none:any"
    made = synthesize(table, eta=0.1, bounds=bounds, target="y", insecure_seed=1).table
    assert (made["school"] == "none").mean() == pytest.approx(1 / 3, abs=0.03)
    assert ((made["school"] == "none") == (made["y"] == "no")).mean() > 0.97


def test_public_edges_are_bins_and_cells():
    bounds = read_bounds(
        {"age": {"edges": [18, 30, 45, 65]}, "kg": {"range": [0, 300], "edges": [50, 80.5]}}
    )
    assert bounds["age"] == Range(18, 65, edges=(18, 30, 45, 65))
    assert bounds["kg"].edges == (0, 50, 80.5, 300)
    ages = read_column(np.array([17.0, 18, 29, 30, 44, 45, 65, 99]))
    cells = public_column("age", bounds["age"], "0")
    assert cells.cell_of(ages).tolist() == [0, 0, 0, 1, 1, 2, 2, 2]
    drawn = cells.draw(np.repeat([0, 1, 2], 400), np.repeat([0, 1, 2], 400), DRAWS)
    assert [(int(d.min()), int(d.max())) for d in np.split(drawn, 3)] == [
        (18, 29),
        (30, 44),
        (45, 65),
    ]
    code = ColumnCode("age", public_scaling(bounds["age"]), edges=bounds["age"].edges)
    bins = boosting.column_bins(Encoder((code,)))[0]
    assert bins.cells.cell_of(ages).tolist() == cells.cell_of(ages).tolist()
    assert bins.leaf_count(32) == bins.count == 4
    assert bins.leaves(32, DRAWS).tolist() == [0, 1, 2, 3]
    assert Encoder.from_dict(json.loads(json.dumps(Encoder((code,)).to_dict()))).columns == (code,)


def test_public_edges_are_kept_by_every_verb():
    draws = np.random.default_rng(0)
    age = draws.integers(18, 90, 20_000)
    table = pd.DataFrame({"age": age, "y": np.where((age < 30) | (age >= 65), "yes", "no")})
    bounds = {"age": {"edges": [18, 30, 65, 90]}, "y": ["no", "yes"]}
    model = fit_model(table, "y", eta=0.1, learner="boosting", bounds=bounds)
    assert np.mean(model.predict(table) == table["y"]) > 0.99
    made = synthesize(table, eta=0.1, bounds=bounds, target="y", insecure_seed=1).table
    assert (((made["age"] < 30) | (made["age"] >= 65)) == (made["y"] == "yes")).mean() > 0.97
    counts = summarize(
        table[["age"]], statistic="histogram", eta=0.1, bounds={"age": bounds["age"]}
    )
    assert counts.names[:3] == ("[18, 30)", "[30, 65)", "[65, 90]")


@pytest.mark.parametrize(
    "given",
    [
        {"a": {"edges": [3, 2, 1]}},
        {"a": {"edges": [1, 1, 2]}},
        {"a": {"edges": [1]}},
        {"a": {"edges": ["x", "y"]}},
        {"a": {"edges": []}},
        {"a": {"edges": 5}},
        {"a": {"edges": [1, math.inf]}},
        {"a": {"edges": [1, 5], "range": [2, 9]}},
    ],
)
def test_edges_that_do_not_increase_are_refused(given):
    with pytest.raises(InputError, match=r"bounds of 'a': .*(increasing order|finite)") as caught:
        read_bounds(given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        {"a": [2, 1]},
        {"a": []},
        {"a": "text"},
        {"a": [1, math.inf]},
        {"a": {"range": [1]}},
        {"a": {"minimum": 1}},
        {"a": ["x", "x"]},
        [1, 2],
        ("a.json", "{"),
        ("a.yaml", "a: [1, 2"),
        ("b.yaml", "- 1"),
        "none.yaml",
    ],
)
def test_bad_bounds_are_refused(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if isinstance(given, tuple):
        (tmp_path / given[0]).write_text(given[1])
        given = given[0]
    with pytest.raises(InputError):
        read_bounds(given)


# Encoders

#: Encoded numbers are rounded to multiples of this.
STEP = 2.0**-13


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    values=st.lists(anything, min_size=1, max_size=6),
    unit=st.sampled_from([0.0, 1.0, 2.0**40]),
)
def test_the_code_of_any_record_is_bounded(values, unit):
    codes = (
        ColumnCode("a", Scaling(-2.0, 5.0, 1.0, 0.5, unit), (), (3, 64, MISSING), False),
        ColumnCode("b", None, ("1", "x"), (), True),
        ColumnCode("c", None, (), (MISSING, 200), True),
        ColumnCode("d"),
    )
    encoder = Encoder(codes)
    table = pd.DataFrame({name: column(values) for name in "abc"})
    dense = encoder.rows(read_records(table).columns)[:].matrix().toarray()
    assert dense.shape == (len(values), encoder.width)
    assert np.isfinite(dense).all()
    assert (np.rint(dense * 2**13) == dense * 2**13).all()
    assert (np.abs(dense) * encoder.length <= 1.5 + STEP).all()
    indicators = dense[:, 4:7] * encoder.length
    assert np.allclose(indicators.sum(axis=1), 1.0, atol=STEP)
    again = Encoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert again == encoder


def test_codes_are_numbers_in_spreads_and_indicators():
    draws = np.random.default_rng(0)
    table = pd.DataFrame({"a": draws.normal(size=50), "b": draws.choice(list("uvwxyz"), 50)})
    number = ColumnCode("a", Scaling(-3.0, 3.0, 0.0, 1.0))
    encoder = Encoder((number, ColumnCode("b", None, tuple("uvwxy"), (), True)))
    encoded = encoder.rows(read_records(table).columns)[:].matrix().toarray()
    wanted = np.column_stack(
        [table["a"].clip(-3, 3) / 2, *(table["b"] == name for name in "uvwxy"), table["b"] == "z"]
    )
    assert np.allclose(encoded, wanted / encoder.length, atol=STEP)


def raw_table(rows=6000, seed=0):
    draws = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": np.where(draws.random(rows) < 0.1, np.nan, draws.integers(18, 90, rows)),
            "balance": np.exp(draws.normal(7, 3, rows)) * draws.choice([-1, 1], rows, p=[0.2, 0.8]),
            "year": draws.integers(2015, 2020, rows),
            "city": draws.choice(["Rome", "Oslo", "Bern", None], rows, p=[0.5, 0.3, 0.15, 0.05]),
            "name": [f"person {k}" for k in range(rows)],
            "same": "x",
            "code": draws.choice([7, 8, "unknown"], rows).astype(object),
            "ill": draws.choice(["no", "yes"], rows, p=[0.7, 0.3]),
        }
    )


def test_columns_of_every_kind_are_coded():
    model = fit_model(raw_table(), seed=4, eta=0.3)
    codes = {code.name: code for code in model.encoder.columns}
    ages = codes["age"].scaling
    assert 16 <= ages.low <= 18
    assert ages.high >= 90
    assert ages.centre == pytest.approx(53.5, abs=3)
    assert MISSING in codes["age"].cells
    assert codes["balance"].scaling.unit > 0  # heavy tails: through an arsinh
    assert codes["year"].scaling.spread < 100
    cities = codes["city"].indicator_cells.cell_of(
        read_column(column(["Rome", "Oslo", "Bern", "Lima", "Quito"]))
    )
    assert len(set(cities.tolist())) == 4
    assert cities[3] == cities[4] == codes["city"].indicators - 1
    assert codes["name"].scaling is None
    assert codes["same"].indicators >= 1
    unknown = int(FIXED_CELLS.cell_of(read_column(column(["unknown"])))[0])
    assert codes["code"].scaling is not None
    assert unknown in codes["code"].cells
    assert model.target.classes == ("no", "yes")
    stored = json.dumps(model.to_dict())
    assert not [word for word in ("Rome", "Oslo", "person", "unknown") if word in stored]


# Names of classes


def law_of_named_sets(counts, scale, threshold):
    """Probability of every set of names that can be released."""
    passes = {name: stats.norm.sf((threshold - count) / scale) for name, count in counts.items()}
    law = {}
    for chosen in product((0, 1), repeat=len(counts)):
        named = frozenset(n for n, on in zip(counts, chosen, strict=True) if on)
        terms = (passes[n] if on else 1 - passes[n] for n, on in zip(counts, chosen, strict=True))
        law[named] = math.prod(terms)
    return law


def pair_of(first, second, scale, threshold):
    laws = [law_of_named_sets(counts, scale, threshold) for counts in (first, second)]
    outcomes = sorted(set(laws[0]) | set(laws[1]), key=sorted)
    return PolygonCurve.from_masses(*[[law.get(o, 0.0) for o in outcomes] for law in laws])


NEIGHBOURS = [
    ({"a": 30, "b": 20, "c": 1}, {"a": 30, "b": 21}),
    ({"a": 30, "b": 20, "c": 1}, {"a": 30, "b": 20, "d": 1}),
    ({"a": 30, "b": 20}, {"a": 29, "b": 21}),
    ({"a": 1}, {"b": 1}),
]


@pytest.mark.parametrize(("first", "second"), NEIGHBOURS)
@pytest.mark.parametrize("mu", [0.05, 0.5, 3.0])
def test_named_classes_stay_within_the_curve(first, second, mu):
    scale = BudgetShare("names", mu).sums(sensitivity=HISTOGRAM_MOVES).scale
    curve = SlackCurve(GaussianCurve(mu), CLASS_SLACK)
    # The grid can move a count by an eighth of the scale in the attacker's favour.
    threshold = 1 + (histograms.CLASS_SCALES - 0.125) * scale
    truth = pair_of(first, second, scale, threshold)
    for fpr in (0.0, 1e-12, 1e-6, 0.01, 0.3):
        assert truth.tpr(fpr) <= curve.tpr(fpr) + 1e-12
    assert truth.delta(0.0) <= curve.delta(0.0)


def test_a_lower_threshold_names_single_people_too_often():
    scale = BudgetShare("names", 0.5).sums(sensitivity=HISTOGRAM_MOVES).scale
    truth = pair_of(*NEIGHBOURS[1], scale, 1 + 2 * scale)
    assert truth.tpr(0.0) > SlackCurve(GaussianCurve(0.5), CLASS_SLACK).tpr(0.0)


def test_a_class_of_one_person_is_left_out_and_has_no_weight():
    goal = read_column(column(["no"] * 500 + ["yes"] * 400 + ["maybe"]))
    table = Records({"y": goal}, len(goal))

    def target(scale, classifier=True, bounds=None):
        # The share for classes is a fifth of μ² in a table this small.
        mu = HISTOGRAM_MOVES / (scale * math.sqrt(0.2))
        budget = Budget(mu, 0.0, source=InsecureSource(0))
        return fit_target(table, "y", bounds or {}, classifier=classifier, budget=budget)

    code = target(10.0)
    assert code.classes == ("no", "yes")
    codes, known = code.read(goal)
    assert codes[-1] == -1
    assert known.tolist() == [True] * 900 + [False]
    with pytest.raises(InputError, match="at least two classes"):
        target(100.0)
    with pytest.raises(InputError, match="classes for a target of classes"):
        target(1.0, bounds={"y": Range(0, 1)})
    with pytest.raises(InputError, match="low, high"):
        target(1.0, False, {"y": Categories(("no", "yes"))})


def test_targets_of_numbers_are_scaled_and_cut_off():
    code = TargetCode("y", (), 10.0, 30.0)
    scaled, known = code.read(read_column(column([10, 20, 30, 99, None, "word"])))
    assert scaled.tolist() == [-1.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    assert known.tolist() == [True] * 4 + [False] * 2
    assert code.numbers(np.array([-1.0, 0.5, 7.0])).tolist() == [10.0, 25.0, 30.0]


# Too few rows


class Sealed:
    """A column with values that must not be read."""

    def __getattr__(self, name):
        raise AssertionError("the table was looked at")


SEALED = Records({name: Sealed() for name in (*(f"c{k}" for k in range(30)), "y")}, 569)


def test_a_table_that_cannot_pay_is_refused_without_being_looked_at():
    with pytest.raises(InputError, match=r"at least about \d+ rows at this eta, with 31") as caught:
        fit_private(SEALED, "y", eta=0.05)
    assert "Give bounds" in str(caught.value)
    mu = Budget.for_eta(0.05, slack=1e-6).mu
    assert f"about {rows_needed(31, mu)} rows" in str(caught.value)
    assert 500 < rows_needed(31, mu) < 1000
    # With all bounds given, ten times the noise of a mean.
    assert rows_needed(0, mu) == math.ceil(10 / mu) == 40
    few = pd.DataFrame({"x": np.arange(39) % 2, "y": np.arange(39) % 2})
    public = {"x": [0, 1], "y": {"categories": [0, 1]}}
    with pytest.raises(InputError, match="at least about 40 rows at this eta"):
        fit_private(few, "y", eta=0.05, bounds=public)


@pytest.mark.parametrize(
    ("rows", "kinds", "kept"), [(6000, None, 0), (90_000, None, 0), (6000, 5, 5)]
)
def test_identifiers_are_left_out_and_categories_are_not(rows, kinds, kept):
    """By noisy counts alone: unshared texts fill the buckets evenly."""
    numbers = np.arange(rows) if kinds is None else np.arange(rows) % kinds
    values = read_column(np.array([f"person {k}" for k in numbers], dtype=object))
    for seed in range(5):
        first = NoisySums(47.0, 1, InsecureSource(seed))
        share = BudgetShare("second", 1.0)
        found = learn_columns(Records({"who": values}, rows), ["who"], first, share, named=False)
        cells = found["who"].beside
        assert len(cells) == kept or (kept and kept <= len(cells) <= kept + 20)


def test_numbers_that_are_called_identifiers_are_left_out_if_their_values_hardly_repeat(
    monkeypatch,
):
    moved, sums = {}, BudgetShare.sums

    def remember(part, *, sensitivity, times=1):
        moved[part.name] = sensitivity / part.mu, times
        return sums(part, sensitivity=sensitivity, times=times)

    monkeypatch.setattr(BudgetShare, "sums", remember)
    rng, rows = np.random.default_rng(0), 6000
    table = pd.DataFrame(
        {
            "patient_id": np.arange(rows),
            "admission_type_id": rng.integers(1, 9, rows),
            "paid": rng.permutation(rows),
            "ill": rng.integers(0, 2, rows),
        }
    )
    found = fit_model(table)
    assert found.columns == ("admission_type_id", "paid")
    part = next(part for part in found.budget.shares if "identifiers" in part.name)
    assert part.mu**2 == pytest.approx(histograms.IDENTIFIER_SHARE * found.budget.mu**2)
    # A replaced record moves the number of values of each: √2 of two columns together.
    scale, times = moved[part.name]
    assert scale * part.mu >= math.sqrt(2)
    assert times == 1
    # Without a name like an identifier nothing is spent, and columns with bounds are kept.
    plain = fit_model(table.drop(columns=["patient_id", "admission_type_id"]))
    assert not any("identifiers" in part.name for part in plain.budget.shares)
    assert "patient_id" in fit_model(table, bounds={"patient_id": [0, rows]}).columns


def test_the_number_of_distinct_values_has_sensitivity_one():
    values = ["1", "1.0", "2", " 2", "nan", "None", "", "-0", "0", "x", "2020-01-01", "inf", "1e40"]
    rng = np.random.default_rng(0)
    moved, singles = set(), set()

    def once(table):  # a broken twin: values that occur once
        return sum(1 for count in Counter(map(label_of, table)).values() if count == 1)

    for _ in range(400):
        table = rng.choice(values, 8).astype(object)
        other = table.copy()
        other[0] = rng.choice(values)
        moved.add(read_column(table).distinct - read_column(other).distinct)
        singles.add(once(table) - once(other))
    assert moved == {-1, 0, 1}
    assert max(singles) > 1


# ── Public ranges ─────────────────────────────────────────────────────────────────────────────────


def test_a_range_gets_a_private_scale_only_if_the_budget_allows():
    bounds = read_bounds({"a": [0, 9], "b": ["x", "y"], "z": {"categories": [0, 1]}})
    features, mu = ["a", "b", "c"], 0.25
    needed = math.ceil(encoder_fit._RANGE_ROWS * rows_needed(2, mu))
    small = encoder_fit.choose_bounds(bounds, features, needed - 1, mu, classes=False)
    large = encoder_fit.choose_bounds(bounds, features, needed, mu, classes=False)
    assert set(small) == {"a", "b", "z"}
    assert set(large) == {"b", "z"}


def test_wide_bounds_get_a_private_scale_within_them():
    draws = np.random.default_rng(0)
    table = pd.DataFrame({"a": draws.normal(50, 5, 4000), "b": draws.lognormal(3, 1, 4000)})
    table["b"] = table["b"].where(draws.random(4000) > 0.2)
    table["y"] = table["a"] + 5 * np.log(table["b"].fillna(1)) > 60
    goal = {"y": [False, True]}
    wide = {"a": [-1e6, 1e6], "b": {"range": [0, 1e9], "decimal": "."}} | goal
    none, released = (fit_model(table, "y", eta=0.1, bounds=bounds) for bounds in (goal, wide))
    answers = [np.mean(m.predict(table) == table["y"].astype(str)) for m in (none, released)]
    assert abs(answers[0] - answers[1]) < 0.01
    assert answers[0] > 0.85
    assert [code.form for code in released.encoder.columns] == ["any", "number"]
    # The scale of the range itself leaves nothing of the column.
    public = public_scaling(Range(-1e6, 1e6))
    assert np.ptp(public.encode(table["a"].to_numpy())) < 1e-3
    # Nothing beyond a bound is told apart, and values outside change no cell inside.
    narrow = fit_model(table, "y", eta=0.1, bounds={"a": [48, 52]} | goal)
    scaling = narrow.encoder.columns[0].scaling
    assert 48 <= scaling.low < scaling.high <= 52


def test_a_range_without_values_keeps_its_public_scale():
    table = pd.DataFrame({"a": np.full(4000, 5.0), "y": np.arange(4000) % 2 == 0})
    bounds = {"a": [1000, 2000], "y": [False, True]}
    model = fit_model(table, "y", eta=0.1, bounds=bounds)
    scaling = model.encoder.columns[0].scaling
    assert (scaling.low, scaling.high) == (1000, 2000)


@pytest.mark.parametrize("memory", [None, 100])
def test_compact_rows_multiply_exactly_like_dense_rows(memory):
    """In memory and on disk, against the table of numbers in integers."""
    draws = np.random.default_rng(3)
    table = raw_table(900)
    codes = (
        ColumnCode("age", Scaling(18.0, 90.0, 50.0, 20.0), (), (MISSING,), False),
        ColumnCode("city", None, ("Rome", "Oslo"), (), True),
        ColumnCode("year", Scaling(2015.0, 2020.0, 2017.0, 2.0)),
        ColumnCode("code", None, ("7",), (), False),
        ColumnCode("name"),
    )
    encoder = Encoder(codes)
    read = read_records(table).columns
    rows = encoder.rows(read, memory)
    assert isinstance(mapped_file(rows.numbers), mmap.mmap) is (memory is not None)
    block = rows[100:300]
    theta = np.rint(draws.normal(size=(encoder.width, 2)) * 2**20) / 2**20
    moved = np.rint(draws.normal(size=(200, 2)) * 2**20) / 2**20
    whole = np.rint(block.matrix().toarray() * 2**13).astype(np.int64)
    assert ((block @ theta) * 2**33 == whole @ np.rint(theta * 2**20).astype(np.int64)).all()
    turned = whole.T @ np.rint(moved * 2**20).astype(np.int64)
    assert (block.transpose_dot(moved) * 2**33 == turned).all()
    assert (block.squares() * 2**26 == np.square(whole).sum(axis=1)).all()
