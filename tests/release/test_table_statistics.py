"""Statistics of all rows: near the truth, and no record exceeds the stated sensitivity."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle.replay import replayed, spent

from memberbound.errors import InputError
from memberbound.release.all_rows import summaries
from memberbound.release.all_rows.summaries import TABLE_STATISTICS, release_table_statistic
from memberbound.release.budget import BudgetShare
from memberbound.release.randomness import InsecureSource
from memberbound.verbs.summarize import summarize

RNG = np.random.default_rng(5)
ROWS = 20_000
PEOPLE = pd.DataFrame(
    {
        "age": np.where(RNG.random(ROWS) < 0.1, np.nan, RNG.integers(18, 90, ROWS)),
        "weight": RNG.normal(75, 12, ROWS),
        "sex": RNG.choice(["F", "M"], ROWS),
        "ward": RNG.choice(["a", "b", "c"], ROWS, p=[0.6, 0.3, 0.1]),
    }
)
PUBLIC = {"age": [0, 120], "weight": [20, 200], "sex": ["F", "M"], "ward": ["a", "b", "c"]}
COLUMNS = {
    "mean": ["age", "weight"],
    "sum": ["age", "weight"],
    "covariance": ["age", "weight"],
    "quantiles": ["age", "weight"],
    "histogram": ["ward"],
    "contingency": ["sex", "ward"],
}


def release(table, statistic, seed=0, bounds=PUBLIC, **options):
    return release_table_statistic(
        table[COLUMNS[statistic]],
        statistic,
        eta=0.05,
        bounds=bounds,
        source=InsecureSource(seed),
        **options,
    )


def truth(statistic):
    numbers = PEOPLE[["age", "weight"]]
    whole = numbers.dropna()
    return {
        "mean": numbers.mean().to_numpy(),
        "sum": numbers.sum().to_numpy(),
        "covariance": np.cov(whole.T.to_numpy(), bias=True)[np.triu_indices(2)],
        "quantiles": numbers.quantile([0.25, 0.5, 0.75]).to_numpy().ravel(),
        "histogram": PEOPLE["ward"].value_counts().sort_index().to_numpy(),
        "contingency": PEOPLE.groupby(["sex", "ward"]).size().to_numpy(),
    }[statistic]


@pytest.mark.parametrize("bounds", [PUBLIC, None], ids=["public", "paid for"])
@pytest.mark.parametrize("statistic", TABLE_STATISTICS)
def test_releases_are_near_the_truth(statistic, bounds):
    found = release(PEOPLE, statistic, bounds=bounds)
    values = dict(zip(found.names, found.values, strict=True))
    assert found.calibration.certificate.value <= 0.05
    shown = np.array([value for name, value in values.items() if "(other)" not in name])
    room = {"mean": 0.5, "sum": 12_000, "covariance": 12, "quantiles": 1.5}.get(statistic, 100)
    assert np.abs(shown - truth(statistic)).max() < room
    # All of the budget is spent, and no more than that.
    spent = math.hypot(*(part.mu for part in found.budget.shares))
    assert 0.999 * found.budget.mu < spent <= found.budget.mu


def distance_moved(monkeypatch, statistic, first, second):
    """Return μ of all releases together between two tables, and what was promised."""
    (made, one), (_, other) = (
        replayed(monkeypatch, lambda table=table: release(table, statistic))
        for table in (first, second)
    )
    return math.sqrt(spent(one, other)), made.budget.mu


RECORDS = st.fixed_dictionaries(
    {
        "age": st.sampled_from([0.0, 120.0, -1e300, 1e300, 55.5, math.nan]),
        "weight": st.sampled_from([20.0, 200.0, 110.0, math.inf, math.nan]),
        "sex": st.sampled_from(["F", "M", "x", None]),
        "ward": st.sampled_from(["a", "b", "c", "unheard of", None]),
    }
)


@pytest.mark.parametrize("statistic", TABLE_STATISTICS)
@settings(max_examples=4)
@given(old=RECORDS, new=RECORDS)
def test_no_record_exceeds_the_stated_sensitivity(statistic, old, new):
    rest = PEOPLE.head(30)
    tables = [pd.concat([rest, pd.DataFrame([record])], ignore_index=True) for record in (old, new)]
    with pytest.MonkeyPatch.context() as patch:
        shift, promised = distance_moved(patch, statistic, *tables)
    assert shift <= promised


FARTHEST = {
    "mean": ({"age": 0, "weight": 20}, {"age": 120, "weight": 200}),
    "covariance": ({"age": 120, "weight": 200}, {"age": 120, "weight": 20}),
    "quantiles": ({"age": 0, "weight": 20}, {"age": 120, "weight": 200}),
    "histogram": ({"ward": "a"}, {"ward": "b"}),
    "contingency": ({"sex": "F", "ward": "a"}, {"sex": "M", "ward": "b"}),
}


@pytest.mark.parametrize(
    ("statistic", "least"), [(s, 0.8 if s == "covariance" else 0.999) for s in FARTHEST]
)
def test_the_farthest_records_use_it_up(statistic, least, monkeypatch):
    rest = PEOPLE.head(30).astype(object)
    tables = [
        pd.concat([rest, pd.DataFrame([rest.iloc[0].to_dict() | r])], ignore_index=True)
        for r in FARTHEST[statistic]
    ]
    shift, promised = distance_moved(monkeypatch, statistic, *tables)
    assert least * promised <= shift <= promised
    # A twin that forgets that one record goes and another one comes is caught.
    honest = BudgetShare.sums

    def too_quiet(self, *, sensitivity, times=1):
        return honest(self, sensitivity=sensitivity / 2, times=times)

    monkeypatch.setattr(BudgetShare, "sums", too_quiet)
    shift, promised = distance_moved(monkeypatch, statistic, *tables)
    assert shift > promised


def test_sums_of_squares_move_no_record_farther(monkeypatch):
    """An end and the middle of the ranges are √3 apart per column; squares times 2 would be √5."""
    rest = PEOPLE.head(30).astype(object)
    ends = ({"age": 120, "weight": 200}, {"age": 60, "weight": 110})
    tables = [
        pd.concat([rest, pd.DataFrame([rest.iloc[0].to_dict() | r])], ignore_index=True)
        for r in ends
    ]
    shift, promised = distance_moved(monkeypatch, "mean", *tables)
    assert shift == pytest.approx(promised * (3 / 4) ** 0.5, rel=1e-5)
    monkeypatch.setattr(summaries, "_SQUARES", 2.0)
    shift, promised = distance_moved(monkeypatch, "mean", *tables)
    assert shift > promised


def test_values_of_a_single_person_are_not_named():
    odd = PEOPLE.assign(ward=["only me", *PEOPLE["ward"][1:]])
    names = release(odd, "histogram", bounds=None).names
    assert set(names) == {"a", "b", "c", "(other)"}


def test_bins_and_levels():
    ages = PEOPLE[["age"]]
    found = release_table_statistic(
        ages, "histogram", eta=0.1, bins=[0, 40, 60, 120], source=InsecureSource(1)
    )
    assert found.names == ("[0, 40)", "[40, 60)", "[60, 120]", "(other)")
    assert abs(found.values[-1] - ages["age"].isna().sum()) < 60
    median = release_table_statistic(
        ages, "quantiles", eta=0.1, levels=0.5, bounds=PUBLIC, source=InsecureSource(1)
    )
    assert median.names == ("age at 0.5",)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"statistic": "mode"}, "statistic must be one of"),
        ({"bounds": None, "rows": 50}, "at least about"),
        ({"statistic": "histogram", "columns": ["sex", "ward"]}, "one column"),
        ({"columns": ["sex"]}, "columns of numbers"),
        ({"levels": [2.0], "statistic": "quantiles"}, r"levels must be in \[0, 1\]"),
        ({"bins": [1, 1], "statistic": "histogram", "columns": ["age"]}, "increasing"),
        ({"bins": [1, 2]}, "bins apply only to a histogram"),
        ({"rows": 1}, "two rows"),
        ({"consistent": True}, "consistent applies only to histogram"),
        ({"levels": [0.5]}, "levels apply only to quantiles"),
        ({"eta": 0.7}, "eta"),
    ],
)
def test_bad_input(change, sentence):
    options = {"statistic": "mean", "columns": ["age"], "bounds": PUBLIC, "eta": 0.05} | change
    table = PEOPLE.head(options.pop("rows", 500))
    with pytest.raises(InputError, match=sentence):
        summarize(table, **options)
