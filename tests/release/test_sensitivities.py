"""Sensitivities of every release of all rows, exactly: the effect of a record, by hand.

The noise of a share is paid for by the number that a release states.  Here that number is compared
with what a replaced record can move, in rationals, and all vectors paid for must be measured.
"""

import importlib
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from memberbound import protect, summarize, synthesize
from memberbound.dp import DpSgd
from memberbound.release import budget as budgets
from memberbound.release.all_rows import (
    clipping,
    encoder,
    encoder_fit,
    gradient,
    histograms,
    intervals,
    networks,
    noisy_marginals,
    probabilities,
    summaries,
    text_classes,
    text_training,
    training,
)
from memberbound.release.all_rows import network_training as networks_training
from memberbound.release.all_rows.bounds import Categories, Range
from memberbound.release.all_rows.clipping import (
    clip_residuals,
    on_grid,
    path_sensitivity,
    row_lengths,
    summand_step,
)
from memberbound.release.all_rows.learner_forms import Settings
from memberbound.release.all_rows.text_budget import TextBudget
from memberbound.release.all_rows.training import fit_private
from memberbound.release.budget import CLASS_SLACK, Budget, release_slack
from memberbound.release.randomness import InsecureSource
from memberbound.tables.records import read_records

synthesizing = importlib.import_module("memberbound.verbs.synthesize")
F = Fraction
ROWS = 240
BOUNDS = {"weight": [0, 100], "ill": ["no", "yes"]}
NEAR = F(1, 10**5)


def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "patient_id": np.arange(ROWS) + 10**6,
            "case number": np.arange(ROWS) + 10**7,
            "amount": rng.normal(50, 20, ROWS).round(2),
            "weight": rng.uniform(40, 100, ROWS).round(1),
            "note": rng.choice(["red", "green", "blue"], ROWS),
            "ill": rng.choice(["no", "yes"], ROWS),
        }
    )


@pytest.fixture
def paid(monkeypatch):
    """Return the use of every share: name → (sensitivity, times, vectors measured)."""
    asked, plain = {}, budgets.BudgetShare.sums

    def sums(share, *, sensitivity, times=1):
        noise = plain(share, sensitivity=sensitivity, times=times)
        assert noise.times == times
        # √times·sensitivity/μ from above, in rationals.
        assert F(noise.scale) ** 2 * F(share.mu) ** 2 >= times * F(sensitivity) ** 2
        asked[share.name] = (sensitivity, times, noise)
        return noise

    monkeypatch.setattr(budgets.BudgetShare, "sums", sums)
    return asked


def assert_moves(asked, name, square):
    """The squared sensitivity is hardly above the effect of a record; all vectors are measured."""
    sensitivity, _, noise = asked[name]
    assert square <= F(sensitivity) ** 2 <= square * (1 + NEAR), name
    assert noise.times == 0, name


def assert_looks(asked, private, identifiers):
    """Two histograms per column: one count falls and one rises, 1² + 1²."""
    assert_moves(asked, "histograms of values", F(2))
    assert asked["histograms of values"][1] == private
    assert_moves(asked, "histograms within ranges", F(2))
    # Numbers of different values of columns called identifiers: each moves by one.
    if identifiers:
        assert_moves(asked, "values of columns called identifiers", F(identifiers))


def descent(clip):
    """Twice the clip, and the rounding of two sums of all rows in two stages."""
    off = ROWS * F(101, 100) * F(1, 2**53) * ((8192 + 16) + (1 + 16))
    return (2 * F(clip) * (1 + off)) ** 2


@pytest.mark.parametrize("learner", ["logistic", "boosting", "svm"])
def test_models(paid, learner):
    made = protect(table(), target="ill", learner=learner, bounds=BOUNDS, eta=0.45, insecure_seed=7,
                   trial=False).released  # fmt: skip
    assert_looks(paid, 4 - 1, 2)
    if learner == "boosting":
        # Whole numbers of 2^30 at most for the leaf of either record, in every round and column.
        assert_moves(paid, "boosting", F(2 * 2**30) ** 2)
    else:
        assert_moves(paid, "gradient descent", descent(made.model.descent.clip))
    if learner != "svm":
        # Two cells of one output, each holding 2^30 units of a record: √2.
        assert_moves(paid, "calibrated probabilities", 2 * F(2**30) ** 2)


def test_a_model_with_private_classes_and_weights(paid):
    settings = Settings(class_weight="balanced")
    fit_private(table(), "ill", weight="amount", settings=settings, bounds={"weight": [0, 100]},
                eta=0.45, source=InsecureSource(7), tune=True)  # fmt: skip
    assert_moves(paid, "class frequencies", F(2))
    # One score per rate, each within [0, 1].
    assert_moves(paid, "the trials' scores", F(len(training._RATE_FACTORS)))


@pytest.mark.parametrize("rows", [10**5, 10**6 + 1])
def test_the_slack_covers_coordinates_and_names(rows):
    assert F(CLASS_SLACK) == F(1e-9)
    slack = release_slack(rows)
    draws = {"draws": lambda *_: rows}
    public = {"a": Range(0.0, 1.0)}
    known = Categories(("no", "yes"))
    assert training._slack([], public, known, classifier=True, **draws).total == slack
    for features in ([], ["a"]):
        # Classes that are released by name: one of a single person with probability 1e-9.
        exact = F(training._slack(features, public, known, classifier=True, **draws).total)
        more = F(training._slack(features, public, None, classifier=True, **draws).total)
        looks = F(release_slack(rows + training.look_coordinates(1) + len(features)))
        assert exact == F(release_slack(rows + len(features)))
        assert looks + F(CLASS_SLACK) <= more <= (looks + F(CLASS_SLACK)) * (1 + F(1, 10**14))


STATISTICS = {
    # Per column the values of two records are in [-1, 1], or one of them is missing.
    "mean": ("sums and missing values", 2, F(4 * 2)),
    "sum": ("sums and missing values", 2, F(4 * 2)),
    "histogram": ("counts", 1, F(2)),
    "contingency": ("counts", 2, F(2)),
    "quantiles": ("counts of halves", 2, F(2)),
}


@pytest.fixture
def granted(monkeypatch):
    """Collect the scales of the noise that intervals allow for."""
    scales, plain = [], intervals.Noise

    def note(scale, *rest, **more):
        scales.append(scale)
        return plain(scale, *rest, **more)

    for module in (summaries, noisy_marginals):
        monkeypatch.setattr(module, "Noise", note)
    return scales


def assert_published(made, paid, granted):
    """Intervals and calibration are about the noise that was drawn."""
    drawn = [noise.scale for _, _, noise in paid.values()]
    assert set(granted) == set(drawn)
    assert made.released.calibration.noise.scale == drawn[-1]


@pytest.mark.parametrize("statistic", STATISTICS)
def test_statistics(paid, granted, statistic):
    name, _, square = STATISTICS[statistic]
    columns = {"histogram": ["ill"], "contingency": ["ill", "note"]}.get(
        statistic, ["weight", "amount"]
    )
    bounds = BOUNDS | {"amount": [-100, 200], "note": ["red", "green", "blue"]}
    made = summarize(table(), statistic=statistic, columns=columns, bounds=bounds, eta=0.45,
                     insecure_seed=7)  # fmt: skip
    assert_published(made, paid, granted)
    assert_moves(paid, name, square)
    sensitivity = F(paid[name][0])
    if statistic in ("mean", "sum"):
        assert sensitivity**2 >= square * (1 + F(1, 2**20)) ** 2 * (1 - F(1, 2**50))


def test_covariances(paid, granted):
    """Rows of length √w at most, or a gap of the same length; products x·xᵀ of length w."""
    bounds = BOUNDS | {"amount": [-100, 200]}
    made = summarize(table(), statistic="covariance", columns=["weight", "amount"],
                     bounds=bounds, eta=0.45, insecure_seed=7)  # fmt: skip
    assert_published(made, paid, granted)
    room = (1 + F(1, 2**20)) ** 2
    assert_moves(paid, "means", F(4 * 2))
    assert_moves(paid, "products", F(2 * 2**2))
    for name in ("means", "products"):
        assert F(paid[name][0]) ** 2 >= 8 * room * (1 - F(1, 2**50))


@pytest.fixture
def slacks(monkeypatch):
    """Return the slacks of the budgets that are made."""
    made, plain = [], Budget.for_eta.__func__

    def for_eta(cls, eta, *, slack, **more):
        made.append(slack.total)
        return plain(cls, eta, slack=slack, **more)

    monkeypatch.setattr(Budget, "for_eta", classmethod(for_eta))
    return made


def is_sum(slack, *terms):
    """Return whether a slack is at least the sum of its terms, and hardly more."""
    exact = sum(map(F, terms), F(0))
    return exact <= F(slack) <= exact * (1 + F(1, 10**14))


def test_statistics_of_private_columns_pay_for_their_names(paid, slacks):
    """A text of one person is released by name with probability 1e-9 per column."""
    for columns in (["note"], ["note", "ill"]):
        statistic = "histogram" if len(columns) == 1 else "contingency"
        summarize(table(), statistic=statistic, columns=columns, eta=0.45, insecure_seed=7)
        assert_moves(paid, "histograms of values", F(2))
        form = summaries._STATISTICS[statistic]
        drawn = summaries.look_coordinates(len(columns)) + form.coordinates(len(columns))
        assert is_sum(slacks.pop(), release_slack(drawn), *[1e-9] * len(columns))


@pytest.mark.parametrize("bounded", [True, False])
def test_the_slack_of_synthetic_tables_covers_every_draw(bounded, monkeypatch):
    """Count the normal draws of a release: its slack is that of at least as many."""
    drawn, plain = [], budgets.noisy_release

    def count(values, scale, source):
        drawn.append(np.size(values))
        return plain(values, scale, source)

    monkeypatch.setattr(budgets, "noisy_release", count)
    monkeypatch.setattr(
        synthesizing, "measure_fidelity", lambda *_: SimpleNamespace(shortcoming=None)
    )
    age = np.arange(6000) * 7 % 73 + 18
    # Columns that decide each other are measured at the resolution of cells.
    people = pd.DataFrame({"age": age, "born": 2026 - age, "old": np.where(age > 60, "y", "n")})
    people["group"] = pd.cut(people["age"], 12, labels=False).astype(str)
    bounds = {"age": [18, 90], "born": [1936, 2008], "old": ["n", "y"]} if bounded else None
    made = synthesize(people, target="old", bounds=bounds, eta=0.45, insecure_seed=3)
    assert sum(drawn) > 200
    assert made.model.budget.slack >= release_slack(sum(drawn))


def test_networks_compose_with_the_other_releases(monkeypatch):
    """μ of earlier shares as one step of noise 2/μ, from below; η less the slack, from below."""
    rng = np.random.default_rng(0)
    for count in (1, 2, 3, 5, 9) * 8:
        parts = [budgets.BudgetShare("a", mu) for mu in rng.uniform(0.01, 2, count).tolist()]
        (step,) = networks._as_step(parts)
        exact, shift = sum(F(part.mu) ** 2 for part in parts), 2 / F(step.noise_multiplier)
        assert exact <= shift**2 <= exact * (1 + F(1, 10**13))
    assert networks._as_step([]) == ()
    seen = {}

    def least(goal, *_, **__):
        seen["goal"] = goal
        return 1.2345678

    monkeypatch.setattr(networks, "calibrated_noise_multiplier", least)
    monkeypatch.setattr(networks.NetworkBudget, "curve", lambda _: SimpleNamespace(eta=0.0))
    for eta, slack in zip(rng.uniform(0.01, 0.4, 50).tolist(), rng.uniform(0, 1e-3, 50).tolist(),
                          strict=True):  # fmt: skip
        made = networks.NetworkBudget.calibrate(eta, Budget(0.5, slack), 0.1, 10)
        assert F(seen["goal"].eta) <= F(eta) - F(slack)
        assert seen["goal"].eta == pytest.approx(eta - slack, rel=1e-12)
        assert 1.2345678 <= made.training.noise_multiplier <= 1.2345679


def test_one_record_reaches_a_sum_of_a_sample_once():
    """The clip, and the rounding of the sums: half of what replacing a record moves, and that."""
    rng = np.random.default_rng(2)
    for clip, rows in zip(rng.uniform(0.1, 3, 100).tolist(), rng.integers(1, 10**6, 100).tolist(),
                          strict=True):  # fmt: skip
        block, more = networks_training.BLOCK_ROWS, rows + text_training._HALVINGS + 1
        for found, terms, longest in (
            (networks_training.step_reach(clip, rows), rows, block),
            (text_training.record_reach(clip, rows), more, 1),
        ):
            off = terms * F(101, 100) * F(1, 2**53) * ((longest + 16) + (-(-terms // longest) + 16))
            exact = F(clip) * (1 + 2 * off)
            assert exact <= F(found) <= exact * (1 + F(1, 10**13))


def test_the_noise_of_a_step_is_the_multiplier_times_the_reach_from_above():
    rng = np.random.default_rng(3)
    for multiplier, clip in rng.uniform(0.3, 9, (100, 2)).tolist():
        budget = TextBudget(1.0, 0.0, training=DpSgd(multiplier, 1.0, 1))
        for reach, scale in (
            (clip, budget.scale_for(clip)),
            (
                text_training.record_reach(clip, 50),
                budget.noise_scale(text_training.TextTraining(1, 1.0, 1.0, 1, 2, clip), 50),
            ),
        ):
            exact = F(multiplier) * F(reach)
            assert exact <= F(scale) <= exact * (1 + F(1, 2**50))


def test_steps_on_all_texts_and_naming_their_classes_add_up_from_above():
    rng = np.random.default_rng(4)
    for multiplier, mu in rng.uniform(0.3, 9, (100, 2)).tolist():
        budget = TextBudget(mu, 0.0, training=DpSgd(multiplier, 1.0, 7))
        share = budget.take("classes", 0.3)
        steps = F(budget.training.curve("replace-one").mu)
        assert F(28) / F(multiplier) ** 2 <= steps**2
        exact = steps**2 + F(share.mu) ** 2
        assert exact <= F(budget.normal_mu) ** 2 <= exact * (1 + F(1, 10**13))


def test_naming_the_classes_of_texts_pays_for_a_label_that_moves():
    """One count falls by 1 and another rises by 1."""
    share = Budget(0.7, 0.0).take("classes")
    text_classes.learn_classes_once(None, "kind", share, ("a", "b"))
    assert F(2) <= (F(share.noise.scale) * F(share.mu)) ** 2 <= F(2) * (1 + F(1, 10**13))
    assert (share.vectors, share.noise.coordinates) == (1, 2)


def test_synthetic_tables(paid, monkeypatch):
    monkeypatch.setattr(
        synthesizing, "measure_fidelity", lambda *_: SimpleNamespace(shortcoming=None)
    )
    bounds = BOUNDS | {"note": ["red", "green", "blue"], "amount": [-100, 200]}
    made = synthesize(table(), target="ill", rows=50, bounds=bounds, eta=0.45, insecure_seed=7)
    assert made.model.calibration_.noise.scale == paid["columns"][2].scale
    columns = 3  # amount, weight and note
    pairs = math.comb(columns, 2)
    for name in {"target", "cells", "columns", "pairs", "further pairs", "calibration"} & {*paid}:
        assert_moves(paid, name, F(2))
    assert {"target", "columns"} <= {*paid}
    assert paid["columns"][1] == columns
    # Σ|count - expected| of a pair moves by 2.
    if "scores of pairs" in paid:
        assert_moves(paid, "scores of pairs", F(4 * pairs))


# ── Clipping ──────────────────────────────────────────────────────────────────────────────────────


def test_the_sensitivity_of_clipped_gradients_is_an_upper_bound():
    rng = np.random.default_rng(1)
    clips, sizes = rng.uniform(0.01, 9, 210).tolist(), rng.integers(1, 10**7, 210).tolist()
    for clip, rows, block in zip(clips, sizes, [8192, 64, 1] * 70, strict=True):
        blocks = -(-rows // block)
        off = rows * F(101, 100) * F(1, 2**53) * ((block + 16) + (blocks + 16))
        exact = 2 * F(clip) * (1 + off)
        assert exact <= F(path_sensitivity(clip, rows, block)) <= exact * (1 + F(1, 10**13))


def test_steps_of_summands_leave_room_for_exact_sums():
    """Lengths add up to records·clip; in units of feature times step that is below 2^52."""
    for clip in (0.1, 1.0, 0.3, 4.0):
        for records in (1, 7, 1000, 10**6):
            step = F(summand_step(clip, records))
            assert step.numerator == 1 or step.denominator == 1
            assert math.frexp(float(step))[0] == 0.5
            assert F(2**51) < 2 * F(clip) * records / (step / 2**13) <= F(2**53)
            assert F(clip) * records / (step / 2**13) <= F(2**52)


def test_features_are_cut_off():
    assert on_grid(np.array([-9.0, 9.0, 1.00001, np.inf])).tolist() == [-4.0, 4.0, 1.0, 4.0]


@pytest.mark.parametrize("outputs", [1, 2, 5])
def test_clipped_rows_are_never_longer_than_the_clip(outputs):
    """In rationals, including the lengths with the largest rounding errors of squares."""
    rng = np.random.default_rng(outputs)
    features = rng.normal(size=(400, 6))
    features[::7] *= 1e-160
    lengths = row_lengths(np.square(features).sum(axis=1), 6, 1.0)
    residuals = rng.normal(size=(400, outputs)) * 10.0 ** rng.uniform(-3, 6, size=(400, 1))
    for clip in (0.1, 1.0, 3.3):
        cut = clip_residuals(residuals, lengths, clip)
        for x, r, v in zip(features.tolist(), residuals.tolist(), cut.tolist(), strict=True):
            long = (sum(F(e) ** 2 for e in x) + 1) * sum(F(e) ** 2 for e in v)
            assert long <= F(clip) ** 2
            whole = (sum(F(e) ** 2 for e in x) + 1) * sum(F(e) ** 2 for e in r)
            assert long >= min(F(clip) ** 2, whole) * (1 - F(1, 10**12))


def test_persons_are_clipped_as_a_whole():
    rng = np.random.default_rng(3)
    lengths, residuals = rng.uniform(0.5, 2, 60), rng.normal(size=(60, 2))
    starts = np.array([0, 1, 4, 20, 59])
    cut = clip_residuals(residuals, lengths, 0.7, starts)
    sizes = [
        F(n) ** 2 * sum(F(e) ** 2 for e in v)
        for n, v in zip(lengths.tolist(), cut.tolist(), strict=True)
    ]
    for first, last in zip(starts, [*starts[1:], 60], strict=True):
        with_roots = sum(F(math.sqrt(size)) * (1 - F(1, 2**50)) for size in sizes[first:last])
        assert with_roots <= F(0.7)
        assert with_roots >= F(0.7) * F(99, 100) or last - first == 1


def test_row_lengths_are_from_above():
    rng = np.random.default_rng(4)
    for terms in (1, 3, 50):
        rows = rng.normal(size=(300, terms))
        got = row_lengths(np.square(rows).sum(axis=1), terms, 0.5)
        for row, length in zip(rows.tolist(), got.tolist(), strict=True):
            exact = sum(F(e) ** 2 for e in row) + F(1, 4)
            assert exact <= F(length) ** 2 <= exact * (1 + F(1, 10**12))
    assert row_lengths(np.zeros(2), 3, 0.0).tolist() == [clipping._SHORTEST] * 2


def test_shares_are_taken_from_the_budget():
    budget = Budget(1.5, 1e-9)
    assert F(budget.take("all").mu) ** 2 <= F(9, 4)


def test_each_allowance_for_rounding_of_a_clip_is_needed(monkeypatch):
    """Exact lengths leave only clip·(1 - 16u); squares lost in a sum leave only the other slack."""
    rng = np.random.default_rng(5)
    clip, lengths = 0.7, rng.uniform(0.5, 2, 500)

    def is_clipped(residuals, lengths):
        cut = clip_residuals(residuals, lengths, clip)
        for length, row in zip(lengths.tolist(), cut.tolist(), strict=True):
            assert F(length) ** 2 * sum(F(v) ** 2 for v in row) <= F(clip) ** 2

    # The square of 2^-27 is lost beside 1, and there are 400 of them.
    is_clipped(np.array([[1.0] + [2.0**-27] * 400]) * 9, np.ones(1))
    monkeypatch.setattr(clipping, "sum_slack", lambda _: 0.0)
    is_clipped(rng.normal(size=(500, 1)) * 99, lengths)


def test_numbers_beyond_a_range_count_as_its_end():
    scaling = encoder.public_scaling(Range(0.0, 10.0))
    # ½·(t - centre)/spread with a spread of half the half range: ±1 at the ends.
    assert scaling.encode(np.array([-5.0, 0.0, 5.0, 10.0, 99.0])).tolist() == [-1, -1, 0, 1, 1]
    # From a noisy mean at one end, the other is two away, and at most the limit.
    off_centre = encoder.public_scaling(Range(0.0, 10.0), 1.0)
    assert off_centre.encode(np.array([-7.0, 0.0, 10.0])).tolist() == [-2, -2, 0]
    narrow = encoder.Scaling(0.0, 10.0, 5.0, 0.5, limit=3.0)
    assert narrow.encode(np.array([0.0, 6.0, 10.0])).tolist() == [-3, 1, 3]
    # No overflow on the way, which would be a warning about one record.
    far = encoder.public_scaling(Range(1e308, 1.5e308))
    assert far.encode(np.array([-1.7e308])).tolist() == [-1.0]
    target = encoder.TargetCode("y", low=0.0, high=10.0)
    assert target.numbers(np.array([-3.0, -1.0, 0.0, 1.0, 3.0])).tolist() == [0, 0, 5, 10, 10]


def test_numbers_far_beyond_a_range_are_summed_as_its_end():
    """Also where the difference to the middle of the range is no double."""
    column = SimpleNamespace(numbers=np.array([-1.7e308, 1e308, 1.5e308, np.nan]))
    shard = SimpleNamespace(columns={"a": column})
    ((scaled),) = summaries._scale_columns(shard, [Range(1e308, 1.5e308)])
    assert scaled[:3].tolist() == [-1.0, -1.0, 1.0]
    assert np.isnan(scaled[3])
    # Never beyond 1 by a rounding.
    rng = np.random.default_rng(0)
    for low, high in np.sort(rng.normal(size=(3000, 2)) * 10.0 ** rng.uniform(-3, 3, (3000, 1))):
        column.numbers = np.array([low, high])
        (ends,) = summaries._scale_columns(shard, [Range(float(low), float(high))])
        assert (np.abs(ends) <= 1).all()


def test_the_score_of_a_record_is_at_most_one():
    loss = SimpleNamespace(classes=())
    predicted, codes = np.array([[5.0], [0.5], [-9.0]]), np.array([1.0, 0.0, 1.0])
    model = SimpleNamespace(scores=lambda _: predicted)
    rows = SimpleNamespace(
        cuts=lambda: [slice(0, 3)],
        features=np.zeros((3, 1)),
        codes=codes,
        weight=lambda _: None,
        persons=None,
    )
    # Predictions count as the end of the target's range; errors of more than 1 count as 1.
    assert training.score_units(rows, model, loss) == (1 + 0.75 + 0) * training._SCORE_UNITS


def test_a_record_has_at_most_its_whole_weight(monkeypatch):
    """Weights beyond [0, 1] would be as many records."""
    seen = []
    plain = training._Training.encode
    monkeypatch.setattr(training._Training, "encode", lambda *a: seen.append(plain(*a)) or seen[-1])
    people = table().assign(weight=np.where(np.arange(ROWS) % 2, 40.0, -3.0))
    people.loc[:9, "weight"] = 0.25
    fit_private(people, "ill", weight="weight", bounds=BOUNDS | {"amount": [-100, 200]}, eta=0.45,
                source=InsecureSource(7))  # fmt: skip
    for rows in seen:
        assert sorted(set(rows.weights.tolist())) == [0.0, 0.25, 1.0]
    assert seen


@pytest.mark.parametrize("numbers", [1, 2, 3])
def test_means_of_public_ranges_move_by_twice_the_radius(paid, numbers):
    names = ["weight", "amount", "patient_id"][:numbers]
    bounds = {"weight": [0, 100], "amount": [-100, 200], "patient_id": [0, 10**7]}
    encoder_fit._noisy_mean(
        read_records(table()),
        {name: Range(*map(float, bounds[name])) for name in names},
        Budget(1.0, 1e-9, source=InsecureSource(1)),
    )
    radius = encoder_fit._MEAN_RADIUS * math.sqrt(numbers)
    assert_moves(paid, "means of columns with public ranges", descent(radius))


def test_the_centre_of_rows_moves_by_twice_the_radius(paid):
    share = Budget(1.0, 1e-9, source=InsecureSource(1)).take("means of features", 0.5)
    shards = SimpleNamespace(sum=lambda *_: np.zeros(4))
    gradient.measure_centre(shards, share, records=ROWS)
    assert_moves(paid, "means of features", descent(gradient._MEAN_RADIUS))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 7, 10, 11])
def test_numbers_of_different_values_move_by_one_each(paid, count):
    names = [f"id {k}" for k in range(count)]
    people = pd.DataFrame({name: np.arange(ROWS) for name in names})
    histograms.noisy_identifiers(
        read_records(people), names, Budget(1.0, 1e-9, source=InsecureSource(1))
    )
    assert_moves(paid, "values of columns called identifiers", F(count))


@pytest.mark.parametrize("outputs", range(1, 20))
def test_counted_scores_move_by_two_cells_per_output(paid, outputs):
    share = Budget(1.0, 1e-9, source=InsecureSource(1)).take("calibrated probabilities", 0.5)
    shards = SimpleNamespace(sum=lambda *_: np.full((outputs, probabilities._KNOTS.size, 2), 9.0))
    probabilities.probability_line(
        None, shards, share, slope=1.0, records=ROWS, outputs=max(2, outputs)
    )
    assert_moves(paid, "calibrated probabilities", 2 * outputs * F(2**30) ** 2)


def test_formats_of_numbers_move_by_two_counts(paid, monkeypatch):
    """A column with public bounds, with its values written in one of a few ways."""
    monkeypatch.setattr(
        synthesizing, "measure_fidelity", lambda *_: SimpleNamespace(shortcoming=None)
    )
    synthesize(table()[["weight", "ill"]], rows=20, bounds=BOUNDS, eta=0.45, insecure_seed=7)
    assert_moves(paid, "how numbers are written", F(2))


def test_a_clipped_gradient_of_a_network_is_at_most_the_clip():
    """Exactly, in both precisions: the slack of lengths covers every rounding."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    kept = torch.ones(1, dtype=torch.bool)
    for slope, clip in zip((rng.normal(size=200) * 9).tolist(), rng.uniform(0.3, 1, 200).tolist(),
                           strict=True):  # fmt: skip
        for kind in (torch.float32, torch.float64):
            part = torch.full((1, 1), slope, dtype=kind)
            (added,) = networks_training.sum_clipped([part], kept, clip)
            expected = min(abs(F(float(part))), F(clip))
            assert expected * (1 - F(1, 50_000)) <= abs(F(float(added))) <= expected


def test_lengths_of_gradients_in_single_precision_are_from_above():
    """Squares that are lost beside a large one would let a row add more than the clip."""
    torch = pytest.importorskip("torch")
    kept = torch.ones(1, dtype=torch.bool)
    rng = np.random.default_rng(0)
    for _ in range(100):
        rows = rng.normal(size=(1, 40)) * 5
        part = torch.from_numpy(rows.astype(np.float32))
        (added,) = networks_training.sum_clipped([part], kept, 0.9)
        assert sum(F(v) ** 2 for v in added.tolist()) <= F(0.9) ** 2
    tiny = torch.full((1, 1 << 20), 2e-23, dtype=torch.float32)  # all squares are lost
    factor = networks_training.clip_factors([tiny], kept, 1e-20)
    assert factor > 0
    assert F(float(factor)) * F(float(tiny[0, 0])) * 2**10 <= F(1e-20)
