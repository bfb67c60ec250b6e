"""Intervals of a synthetic table's counts: from the measurements, before any projection (X32).

Truth: the replayed exact counts of the table, and coverage in a simulation of whole releases.
Broken: intervals of the rows themselves, which the projections bias.
"""

import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from memberbound import InputError, synthesize
from memberbound.release.all_rows.bounds import read_bounds
from memberbound.release.all_rows.cells import NumberCells
from memberbound.release.all_rows.noisy_marginals import (
    _cell_values,
    estimate_statistic,
    read_marginal,
)
from memberbound.release.all_rows.synthetic import fit_synthetic
from memberbound.release.randomness import InsecureSource
from memberbound.tables.records import read_records

BOUNDS = {"age": [0, 99], "ward": list("abcd"), "ill": ["no", "yes"]}
SHARES = [0.6, 0.3, 0.09, 0.01]


def people(rows: int, seed: int) -> pd.DataFrame:
    draws = np.random.default_rng(seed)
    age = np.minimum(draws.gamma(9, 5, rows), 99).astype(int)
    ward = draws.choice(list("abcd"), rows, p=SHARES)
    ill = np.where(draws.random(rows) < 0.1 + 0.4 * (age > 50), "yes", "no")
    return pd.DataFrame({"age": age, "ward": ward, "ill": ill})


@pytest.fixture(scope="module")
def made():
    """The noisy counts of ``synthesize``, without its comparison with the real rows."""
    model = fit_synthetic(
        read_records(people(6000, 0)),
        eta=0.2,
        bounds=read_bounds(BOUNDS),
        target="ill",
        source=InsecureSource(1),
    )
    return SimpleNamespace(
        marginals=model.marginals,
        marginal=lambda columns: read_marginal(model.marginals, columns, 6000),
        interval=lambda statistic: estimate_statistic(model.marginals, statistic, 6000),
    )


def test_the_answer_of_synthesize_has_both():
    table = people(900, 0)[["ward", "ill"]]
    made = synthesize(table, bounds={"ward": [*"abcd"], "ill": ["no", "yes"]}, insecure_seed=1)
    counts = made.marginal("ward")
    share = made.interval(lambda ward: ward == "a")
    first = counts.iloc[0]
    # The number of records is known, so the weights are centred.
    centred = first["count"] - counts["count"].mean()
    assert share.value == pytest.approx(1 / 6 + centred / 900)
    assert first["table_lower"] < first["count"] < first["table_upper"]


def test_a_marginal_has_the_noisy_counts_of_the_table(made):
    table = people(6000, 0)
    found = made.marginal("ward").set_index("ward")
    assert list(found.index) == ["a", "b", "c", "d", "other", "missing"]
    exact = table["ward"].value_counts()
    for name in "abcd":
        error = (found["count"][name] - exact[name]) / found["standard_error"][name]
        assert abs(error) < 5
        assert found["standard_error"][name] > 1
    joint = made.marginal(["ill", "ward"])
    assert list(joint.columns[:3]) == ["ill", "ward", "count"]
    alone = joint.groupby("ward")["count"].sum()
    assert alone.to_dict() == pytest.approx(found["count"].to_dict())
    # Cells of single ages, not the bins that are counted with the target.
    assert len(made.marginal("age")) > 100


def test_errors_are_those_of_sums_of_noisy_counts(made):
    """A cell adds up counts of one variance; a share's coefficients are centred."""
    for marginal in made.marginals:
        first, rows = marginal.columns[:1], 6000
        found = marginal.frame(first, rows)
        added = marginal.counts.size / len(found)
        # Rounding to the grid adds less than a hundredth.
        error = marginal.scale * math.sqrt(added)
        assert found["standard_error"].tolist() == pytest.approx([error] * len(found), rel=1e-2)
        share = marginal.estimate(np.eye(len(found))[0], first, rows).intervals
        centred = error * math.sqrt(1 - 1 / len(found)) / rows
        assert share.standard_error == pytest.approx(centred, rel=1e-2)
        assert 1 <= (share.table_upper - share.table_lower) / (2 * 1.959 * centred) < 1.2


def test_a_statistic_uses_the_counts_that_determine_it(made):
    table = people(6000, 0)
    old = made.interval(lambda age: age >= 50)
    assert old.columns == ("age",)
    assert abs(old.value - (table["age"] >= 50).mean()) < 5 * old.intervals.standard_error
    assert old.intervals.table_lower < old.value < old.intervals.table_upper
    both = made.interval(lambda ill, ward: ill == "yes" and ward == "b")
    share = ((table["ill"] == "yes") & (table["ward"] == "b")).mean()
    assert abs(both.value - share) < 5 * both.intervals.standard_error
    # Other and missing values of the target are counted with a class, and reported.
    assert both.recoded in ((), ("ill",))
    mean = made.interval(lambda age: 0 if math.isnan(age) else age)
    assert abs(mean.value - table["age"].mean()) < 5 * mean.intervals.standard_error


@pytest.mark.parametrize("step", [0.0, 0.5, 1.0])
def test_values_of_a_cell_lie_within_it(step):
    """A cell is [edge, next edge), with edges between values: a statistic may change at an edge."""
    edges = tuple(edge - step / 2 for edge in (-3.0, 0.0, 1.0, 80.0))
    cells = NumberCells("x", edges, step, "1")
    for cell, (low, high) in enumerate(pairwise(edges)):
        values = _cell_values(cells, cell)
        assert all(low <= value < high for value in values)
        assert values[0] == low + step / 2
        assert values[-1] == (high - step / 2 if step else math.nextafter(high, low))


@pytest.mark.parametrize(
    ("statistic", "words"),
    [
        (lambda nobody: 1, "measured together, got nobody"),
        (lambda age, ward, ill: 1, "measured together, got age, ward, ill"),
        (lambda age, ill: age % 2 == 0 and ill == "yes", "one value in every cell"),
        (lambda ward: "text", "must return a number for ward = 'a', got 'text'"),
        (lambda ward: 1 / 0, "must return a number for ward = 'a', got ZeroDivisionError"),
        (lambda age: age, "must return a number for age = nan"),
        (lambda ward: 3, "must differ between the cells of ward, got 3.0"),
        # An unlisted value has no cell of its own: no interval claims that it does not occur.
        (lambda ward: ward == "z", "counts as 'other'"),
        (lambda: 1, "arguments are columns"),
        (3, "arguments are columns"),
    ],
)
def test_what_was_not_measured_is_refused(made, statistic, words):
    with pytest.raises(InputError, match=words):
        made.interval(statistic)


def test_unmeasured_columns_have_no_marginal(made):
    for columns in (["age", "nobody"], [], ["age", "age"], "nobody"):
        with pytest.raises(InputError):
            made.marginal(columns)


STATISTICS = {
    "rare": (lambda ward: ward == "d", 0.01),
    "common": (lambda ward: ward == "a", 0.6),
    "old": (lambda age: age >= 50, None),
    "pair": (lambda ward, ill: ward == "c" and ill == "yes", None),
    "mean": (lambda age: 0 if math.isnan(age) else age, None),
}


def exact_value(table: pd.DataFrame, name: str) -> float:
    columns = {"old": ["age"], "mean": ["age"], "pair": ["ward", "ill"]}.get(name, ["ward"])
    function = STATISTICS[name][0]
    return float(np.mean([function(*row) for row in table[columns].itertuples(index=False)]))


@pytest.mark.long
@pytest.mark.parametrize("rows", [4000, 40_000])
def test_intervals_of_whole_releases_cover(rows):
    """And the usual interval from the synthetic rows does not."""
    law = {name: exact_value(people(400_000, 99), name) for name in STATISTICS}
    runs = 150
    hits = {name: np.zeros(3) for name in STATISTICS}
    for run in range(runs):
        table = people(rows, 1000 + run)
        source = InsecureSource(run)
        model = fit_synthetic(
            read_records(table), eta=0.05, bounds=read_bounds(BOUNDS), target="ill", source=source
        )
        drawn = model.sample(rows, source)
        for name, (function, _) in STATISTICS.items():
            bar = estimate_statistic(model.marginals, function, rows).intervals
            hits[name][0] += bar.table_lower <= exact_value(table, name) <= bar.table_upper
            hits[name][1] += bar.population_lower <= law[name] <= bar.population_upper
            columns = {"old": ["age"], "mean": ["age"], "pair": ["ward", "ill"]}.get(name, ["ward"])
            values = [float(function(*row)) for row in drawn[columns].itertuples(index=False)]
            reach = 1.96 * np.std(values) / math.sqrt(rows)
            hits[name][2] += abs(np.mean(values) - law[name]) <= reach
    low = binom.ppf(1e-4, runs, 0.95)
    for name, found in hits.items():
        assert found[:2].min() >= low, (name, found)
    assert min(found[2] for found in hits.values()) < low
    assert read_marginal(model.marginals, "ward", rows)["count"].sum() > 0
