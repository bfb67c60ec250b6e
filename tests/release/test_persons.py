"""Persons with many rows (X26): replay, exactness, a canary with fifty rows, broken twins.

Truth: the requested sums, with noise that does not depend on the table; naive means by
person; exact rationals.  Statistical tests: fixed seeds, four standard errors (3e-5 each).
"""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.replay import published_part, replayed, spent
from tests.oracle.synthetic_parts import measure_every_part
from tests.oracle.training import canary_advantage, lengths_of, loss_and_target

from memberbound import protect, summarize, synthesize
from memberbound.curve import GaussianCurve
from memberbound.errors import InputError
from memberbound.release import budget as budgets
from memberbound.release.all_rows import boosting, encoder_fit, gradient, histograms
from memberbound.release.all_rows.clipping import clip_residuals
from memberbound.release.all_rows.losses import LOSSES
from memberbound.release.all_rows.probabilities import log_odds
from memberbound.release.budget import NoisySums, release_slack
from memberbound.release.randomness import InsecureSource
from memberbound.tables.persons import Persons, row_cuts
from memberbound.tables.records import read_records

ETA = 0.45
BOUNDS = {
    "weight": [0, 100],
    "group": ["a", "b", "c"],
    "ill": ["no", "yes"],
    "cost": {"range": [0, 10]},
}
PATIENT = 40


def stays(seed=0):
    """Return 160 patients with one to six rows each, in any order."""
    draws = np.random.default_rng(seed)
    patient = draws.permutation(np.repeat(np.arange(160), draws.integers(1, 7, 160)))
    rows = len(patient)
    return pd.DataFrame(
        {
            "patient": patient,
            "weight": draws.uniform(40, 99, rows).round(1),
            "group": draws.choice(["a", "b", "c"], rows),
            "amount": draws.normal(50, 20, rows).round(2),
            "visit_id": draws.integers(0, 10**9, rows),
            "cost": draws.uniform(0, 10, rows).round(2),
            "ill": draws.choice(["no", "yes"], rows),
        }
    )


def with_rows(table, rows):
    """Return the table in which the patient has these rows instead, the first of all."""
    frame = pd.DataFrame(rows, columns=table.columns[1:]).assign(patient=PATIENT)
    rest = table[table["patient"] != PATIENT]
    return pd.concat([frame[table.columns], rest], ignore_index=True)


#: The patient's rows in the other world: one, fifty alike, fifty that all differ, missing values.
OTHERS = {
    "one row": [(0, "a", -1e9, 5, 0, "no")],
    "fifty alike": [(100, "c", 1e9, 7, 10, "yes")] * 50,
    "fifty that differ": [
        (k % 3 * 50, "abcd"[k % 4], 2.0**k * (-1) ** k, k, k % 11, ("no", "yes", f"own {k}")[k % 3])
        for k in range(50)
    ],
    "gaps": [(math.nan, None, math.nan, 0, math.nan, None)] * 3,
}


@pytest.fixture(autouse=True)
def every_part(monkeypatch):
    """Small tables get synthetic tables with pairs too."""
    measure_every_part(monkeypatch)


RELEASES = {
    "logistic": (protect, {"target": "ill"}),
    "logistic, tuned": (protect, {"target": "ill", "tune": True}),
    "softmax": (protect, {"target": "group"}),
    "svm": (protect, {"target": "ill", "learner": "svm"}),
    "ridge": (protect, {"target": "cost", "learner": "ridge"}),
    "huber": (protect, {"target": "cost", "learner": "huber"}),
    "boosting": (protect, {"target": "ill", "learner": "boosting"}),
    "mean": (summarize, {"statistic": "mean", "columns": ["weight", "amount"]}),
    "sum": (summarize, {"statistic": "sum", "columns": ["weight"]}),
    "covariance": (summarize, {"statistic": "covariance", "columns": ["weight", "cost"]}),
    "quantiles": (summarize, {"statistic": "quantiles", "columns": ["weight", "amount"]}),
    "histogram": (summarize, {"statistic": "histogram", "columns": ["group"]}),
    "contingency": (summarize, {"statistic": "contingency", "columns": ["group", "ill"]}),
    "synthetic table": (
        synthesize,
        {"target": "ill", "columns": ["weight", "group", "amount", "cost"], "rows": 20},
    ),
}


def observe(release, table):
    """Return all that a verb publishes about a table of patients."""
    verb, options = RELEASES[release]
    asked = {"unit": "patient", "bounds": BOUNDS, "eta": ETA, "insecure_seed": 3, **options}
    answer = verb(table, **asked, **({"trial": False} if verb is protect else {}))
    assert verb is not synthesize or {"calibration", "scores of further pairs"} <= set(answer.noise)
    return published_part(answer)


def replay(monkeypatch, release, table):
    """Return all that is observable when the noise forgets the table, and the sums."""
    return replayed(monkeypatch, lambda: observe(release, table))


def allowed_mu():
    return budgets.Budget.for_eta(ETA, slack=0.0).mu ** 2


@pytest.mark.parametrize("release", RELEASES)
def test_all_rows_of_a_person_have_at_most_the_stated_sensitivity(monkeypatch, release):
    table = stays()
    seen, first = replay(monkeypatch, release, table)
    worst = 0.0
    for case, rows in OTHERS.items():
        other, second = replay(monkeypatch, release, with_rows(table, rows))
        assert other == seen, case
        worst = max(worst, spent(first, second))
        assert worst <= allowed_mu(), case
    assert worst > 0.02  # the neighbours do differ


@pytest.mark.parametrize("release", ["logistic", "ridge", "boosting", "mean", "histogram"])
def test_weights_that_are_forgotten_are_caught(monkeypatch, release):
    monkeypatch.setattr(Persons, "weights", property(lambda self: np.ones(self.rows)))
    monkeypatch.setattr(
        Persons, "average", lambda self, units: np.add.reduceat(units, self.starts, axis=0)
    )
    honest = clip_residuals
    for module in (gradient, boosting):
        by_row = lambda r, x, c, starts=None: honest(r, x, c)  # noqa: E731
        monkeypatch.setattr(module, "clip_residuals", by_row)
    _, first = replay(monkeypatch, release, with_rows(stays(), OTHERS["one row"]))
    _, second = replay(monkeypatch, release, with_rows(stays(), OTHERS["fifty alike"]))
    assert spent(first, second) > 4 * allowed_mu()


@pytest.mark.parametrize("release", [r for r in RELEASES if r != "svm"])
def test_results_do_not_depend_on_row_order(release):
    """Bit by bit, with real noise: engines without an order may give rows in any."""
    table = stays()
    shuffled = table.sample(frac=1.0, random_state=1)
    assert observe(release, table) == observe(release, shuffled)


@pytest.mark.parametrize("learner", ["logistic", "boosting"])
def test_a_unit_with_one_row_each_changes_nothing(learner):
    table = stays().drop_duplicates("patient").drop(columns="visit_id")
    public = BOUNDS | {"amount": [0, 100]}
    options = {"target": "ill", "learner": learner, "eta": ETA, "bounds": public}
    by_person = protect(table, unit="patient", insecure_seed=1, **options)
    by_row = protect(table.drop(columns="patient"), insecure_seed=1, **options)
    assert by_person.released.model.to_dict() == by_row.released.model.to_dict()
    assert by_person.persons == by_row.rows_trained == 160
    assert by_row.persons is None
    assert any("one row: the release is the same" in note for note in by_person.warnings)


def test_a_person_counts_once_for_the_mean_of_their_rows(monkeypatch):
    table = stays()
    _, sums = replay(monkeypatch, "covariance", table)
    scaled = (table["weight"] / 50 - 1, table["cost"] / 5 - 1)
    means = pd.DataFrame(dict(enumerate(scaled))).groupby(table["patient"]).mean().sum()
    assert np.allclose(sums[0][0][:2], means, atol=1e-6)
    product = (scaled[0] * scaled[1]).groupby(table["patient"]).mean().sum()
    assert sums[1][0][1] == pytest.approx(math.sqrt(2) * product, abs=1e-6)
    _, sums = replay(monkeypatch, "histogram", table)
    shares = table.groupby("patient")["group"].value_counts(normalize=True).groupby("group").sum()
    assert np.allclose(sums[0][0][:3], shares, atol=1e-3)


def test_all_rows_are_used():
    """Patterns in later rows are learnt: no patient's first row has any."""
    draws = np.random.default_rng(0)
    patient = np.repeat(np.arange(3000), 4)
    x = draws.uniform(-1, 1, len(patient))
    noise = np.tile([True, False, False, False], 3000)
    table = pd.DataFrame({"patient": patient, "x": x})
    table["y"] = np.where(noise, draws.random(len(patient)) < 0.5, x > 0)
    public = {"x": [-1, 1], "y": [False, True]}
    made = protect(table, target="y", unit="patient", bounds=public, eta=0.1, insecure_seed=1)
    answers = made.released.predict(pd.DataFrame({"x": [-0.5, 0.5]}))
    assert answers.tolist() == ["False", "True"]
    assert made.persons == 3000
    assert made.theorems == ("X22", "X26")


# ── Exactness ─────────────────────────────────────────────────────────────────────────────────────


@given(
    persons=st.lists(
        st.lists(st.tuples(st.floats(-4, 4), st.floats(-1e9, 1e9)), min_size=1, max_size=5),
        min_size=1,
        max_size=4,
    ),
    clip=st.floats(1e-3, 1e3),
)
def test_the_rows_of_a_person_together_are_no_longer_than_the_clip(persons, clip):
    rows = [row for person in persons for row in person]
    starts = np.cumsum([0, *map(len, persons)])[:-1]
    features, residuals = (np.array([[row[k]] for row in rows]) for k in (0, 1))
    moved = clip_residuals(residuals, lengths_of(features, 0.0), clip, starts)
    for first, size in zip(starts, map(len, persons), strict=True):
        terms = range(first, first + size)
        length = sum(abs(Fraction(rows[i][0]) * Fraction(float(moved[i, 0]))) for i in terms)
        assert length <= Fraction(clip)


@pytest.mark.parametrize("name", LOSSES)
def test_residuals_do_not_depend_on_row_position(name):
    draws = np.random.default_rng(1)
    classes = 3 if name in ("softmax", "hinge") else 2
    target = draws.integers(0, classes, 500)
    loss, wanted = loss_and_target(
        name, target if name in ("logistic", "softmax", "hinge") else target / 2, classes
    )
    scores = draws.normal(scale=3, size=wanted.shape)
    whole = loss.residuals(scores, wanted)
    odds = log_odds(scores)
    for shift in range(1, 40):
        assert (loss.residuals(scores[shift:], wanted[shift:]) == whole[shift:]).all()
        assert (log_odds(scores[shift:]) == odds[shift:]).all()


def test_blocks_and_positions_change_no_bit(monkeypatch):
    records = read_records(stays()).group_by_person("patient")
    whole = observe("logistic", stays())
    monkeypatch.setattr(gradient, "BLOCK_ROWS", 17)
    monkeypatch.setattr(encoder_fit, "BLOCK_ROWS", 17)
    assert observe("logistic", stays()) == whole
    cuts = row_cuts(records.rows, records.persons, 17)
    assert {cut.start for cut in cuts} <= set(records.persons.starts.tolist())


def test_a_person_with_many_classes_of_their_own_has_one_chance_of_naming_one():
    """Only one of a thousand labels unique to a person is counted, or some would be named."""
    own = [f"own {k}" for k in range(1000)]
    table = pd.DataFrame(
        {"who": ["x"] * 1000 + [f"p{k}" for k in range(50)], "y": own + ["no"] * 50}
    )
    records = read_records(table).group_by_person("who")
    asked = []

    class Noise(NoisySums):
        def measure(self, sums, differing=None):
            asked.append(np.asarray(sums))
            return super().measure(sums, differing)

    names = histograms.noisy_names(records, "y", Noise(3.0, 1, InsecureSource(0)))
    assert names == ("no",)
    assert sorted(asked[0]) == [1, 50]


# ── A canary with fifty rows ──────────────────────────────────────────────────────────────────────


def test_a_person_of_fifty_rows_reaches_the_certificate_and_does_not_pass_it(monkeypatch):
    asked = {"features": np.ones(50), "persons": Persons(np.array([0, 50, 51]), 52)}
    certified = GaussianCurve(1.5).advantage + 2 * release_slack(8)
    reached, error = canary_advantage(1.5, 500, **asked)
    assert 0.9 * certified <= reached <= certified + 4 * error
    # Broken: every row is clipped by itself, and fifty of them are fifty times as far.
    honest = clip_residuals
    monkeypatch.setattr(gradient, "clip_residuals", lambda r, x, c, starts=None: honest(r, x, c))
    reached, error = canary_advantage(1.5, 60, **asked)
    assert reached > certified + 4 * error


# ── Bad input ─────────────────────────────────────────────────────────────────────────────────────


def test_a_table_of_a_single_person_is_refused():
    table = stays().assign(patient=1).drop(columns="visit_id")
    with pytest.raises(InputError, match="at least two"):
        protect(table, target="ill", unit="patient", bounds=BOUNDS | {"amount": [0, 100]})
    with pytest.raises(InputError, match="at least two"):
        summarize(table, statistic="mean", columns="weight", unit="patient", bounds=BOUNDS)


@pytest.mark.parametrize("name", ["Nan", "null", "None", "<NA>"])
@pytest.mark.parametrize("stored", ["csv", "objects"])
def test_a_person_named_like_a_missing_value_is_one_person(name, stored, tmp_path):
    table = stays().astype({"patient": object})
    table.loc[table["patient"].isin(range(10)), "patient"] = name
    source = table
    if stored == "csv":
        source = tmp_path / "t.csv"
        table.to_csv(source, index=False)
    made = summarize(source, statistic="mean", columns="weight", unit="patient", bounds=BOUNDS)
    assert made.persons == 151


def test_too_few_persons_are_not_called_rows():
    table = pd.DataFrame({"who": np.arange(600) // 6, "a": np.arange(600.0), "y": ["u", "v"] * 300})
    with pytest.raises(InputError, match=r"distinct values of 'who' at this eta.*got 100"):
        protect(table, target="y", unit="who", insecure_seed=0)
