"""Noisy gradient descent: clips and sums in exact rationals, the path against its best attacker.

Statistical tests: fixed seeds; four standard errors on either side (false-alarm rate 3e-5 each).
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.oracle.training import (
    PLAIN,
    NumberRows,
    canary_advantage,
    descended,
    fit_model,
    lengths_of,
    loss_and_target,
)

from memberbound.curve import GaussianCurve
from memberbound.errors import InputError
from memberbound.release import budget as budgets
from memberbound.release.all_rows import gradient
from memberbound.release.all_rows.clipping import clip_residuals, path_sensitivity, row_lengths
from memberbound.release.all_rows.gradient import (
    Descent,
    TrainingRows,
    clip_and_sum,
    most_draws,
)
from memberbound.release.all_rows.losses import LOSSES
from memberbound.release.all_rows.training import score_units
from memberbound.release.budget import Budget, BudgetShare, noisy_release, release_slack
from memberbound.release.randomness import InsecureSource

CLASSES = ("logistic", "softmax", "hinge")


def problem(name, rows=60, width=4, classes=2, seed=0):
    draws = np.random.default_rng(seed)
    features = draws.normal(size=(rows, width)) * draws.choice([0.1, 1.0, 30.0], size=(rows, 1))
    if name in CLASSES:
        return features, *loss_and_target(name, draws.integers(0, classes, rows), classes)
    return features, *loss_and_target(name, draws.uniform(-1, 1, rows))


def exact_square(vector):
    return sum(Fraction(float(x)) ** 2 for x in np.ravel(vector))


# Losses


#: The losses themselves; the code has only their residuals.
VALUES = {
    "logistic": lambda scores, target: np.logaddexp(0.0, (1 - 2 * target) * scores).sum(axis=1),
    "softmax": lambda scores, target: (
        np.log(np.exp(scores).sum(axis=1)) - (scores * target).sum(axis=1)
    ),
    "ridge": lambda scores, target: np.square(scores - target).sum(axis=1) / 2,
    "hinge": lambda scores, target: np.where(
        target * scores > 0,
        np.square(np.maximum(1 - target * scores, 0)) / 2,
        0.5 - target * scores,
    ).sum(axis=1),
    "huber": lambda scores, target: np.where(
        np.abs(scores - target) < 0.2,
        np.square(scores - target) / 2,
        0.2 * (np.abs(scores - target) - 0.1),
    ).sum(axis=1),
}


@pytest.mark.parametrize("name", LOSSES)
def test_residuals_are_slopes_of_the_loss(name):
    classes = 4 if name in ("softmax", "hinge") else 2
    _, loss, target = problem(name, classes=classes)
    scores = np.random.default_rng(1).normal(size=target.shape)
    step, values = 1e-6, VALUES[name]
    for output in range(loss.outputs):
        moved = np.zeros(loss.outputs)
        moved[output] = step
        slope = values(scores + moved, target) - values(scores - moved, target)
        assert np.allclose(slope / (2 * step), loss.residuals(scores, target)[:, output], atol=2e-6)


# Clips and sums, exactly

entries = st.floats(-1e100, 1e100, allow_subnormal=True)


@given(
    row=st.lists(entries, min_size=1, max_size=6),
    residual=st.lists(entries, min_size=1, max_size=3),
    clip=st.floats(1e-100, 1e100),
    intercept=st.floats(0, 10),
)
def test_no_clipped_gradient_is_longer_than_the_clip(row, residual, clip, intercept):
    features, given_residual = np.array([row]), np.array([residual])
    with np.errstate(over="ignore"):
        moved = clip_residuals(given_residual, lengths_of(features, intercept), clip)
    assert np.isfinite(moved).all()
    longest = (exact_square(row) + Fraction(intercept) ** 2) * exact_square(moved)
    assert longest <= Fraction(clip) ** 2


def test_clips_are_tight_and_spare_short_gradients():
    draws = np.random.default_rng(2)
    features, residuals = draws.normal(size=(500, 7)), draws.normal(size=(500, 3))
    lengths = lengths_of(features, 0.5)
    moved = clip_residuals(residuals, lengths, 1.0)
    sizes = lengths * np.linalg.norm(moved, axis=1)
    own = lengths * np.linalg.norm(residuals, axis=1)
    assert np.allclose(sizes, np.minimum(own, 1.0), rtol=1e-12)
    assert (moved[own < 1 - 1e-9] == residuals[own < 1 - 1e-9]).all()


def sums_of(features, target, loss, theta, *, clip, intercept, block=10**9):
    starts = range(0, len(target), block)
    cuts = [slice(a, a + block) for a in starts]
    total = np.zeros_like(theta)
    for cut in cuts:
        part = features[cut]
        residuals = loss.residuals(part @ theta[:-1] + intercept * theta[-1], target[cut])
        total += clip_and_sum(NumberRows(part), residuals, lengths_of(part, intercept), clip=clip)
    total[-1] *= intercept
    return total


@pytest.mark.parametrize("name", LOSSES)
def test_the_computed_sum_has_at_most_the_stated_sensitivity(name):
    features, loss, target = problem(name, rows=40)
    draws = np.random.default_rng(3)
    theta = draws.normal(size=(5, loss.outputs))
    paid, most = path_sensitivity(0.7, 40, 16), 0.0
    for _ in range(60):
        other, label = features.copy(), target.copy()
        index = int(draws.integers(40))
        source = int(draws.integers(40))
        other[index] = draws.choice([-1.0, 1.0]) * 10.0 ** draws.uniform(-2, 3) * features[index]
        label[index] = target[source]
        first = sums_of(features, target, loss, theta, clip=0.7, intercept=0.2, block=16)
        second = sums_of(other, label, loss, theta, clip=0.7, intercept=0.2, block=16)
        moved = [
            Fraction(float(a)) - Fraction(float(b))
            for a, b in zip(first.flat, second.flat, strict=True)
        ]
        square = sum(x * x for x in moved)
        assert square <= Fraction(paid) ** 2
        most = max(most, math.sqrt(float(square)))
    assert most > 0.7  # more than a bound without the factor 2 would allow


def test_rounding_of_a_sum_stays_within_its_share_of_the_sensitivity():
    features, loss, target = problem("logistic", rows=3000)
    theta = np.random.default_rng(4).normal(size=(5, 1))
    computed = sums_of(features, target, loss, theta, clip=1.0, intercept=0.2, block=512)
    lengths = lengths_of(features, 0.2)
    scores = features @ theta[:-1] + 0.2 * theta[-1]
    moved = clip_residuals(loss.residuals(scores, target), lengths, 1.0)[:, 0]
    exact = [
        sum(Fraction(float(x)) * Fraction(float(v)) for x, v in zip(column, moved, strict=True))
        for column in (*features.T, np.full(3000, 0.2))
    ]
    off = sum((a - Fraction(float(b))) ** 2 for a, b in zip(exact, computed.flat, strict=True))
    allowed = Fraction(path_sensitivity(1.0, 3000, 512)) / 2 - 1
    # Scores of a block may round otherwise than those of the whole table: one more rounding.
    assert 0 < allowed < Fraction(1, 10**6)
    assert off <= allowed**2


def test_opposite_records_attain_the_stated_sensitivity():
    loss, target = loss_and_target("logistic", [1, 0])
    far = np.full((2, 1), 1e6)
    zero = np.zeros((2, 1))
    ends = [
        sums_of(far[:1], target[i : i + 1], loss, zero, clip=1.0, intercept=0.0)[0, 0]
        for i in (0, 1)
    ]
    assert abs(ends[0] - ends[1]) >= 2 - 1e-12
    assert abs(ends[0] - ends[1]) <= path_sensitivity(1.0, 1)


# One table in many storages


def test_records_of_weight_0_leave_no_trace():
    features, loss, target = problem("softmax", rows=50, classes=3)
    weights = (np.arange(50) != 7) * 1.0
    how = Descent(steps=5, rate=1.0)
    other = features.copy()
    other[7] = 1e50
    models = [
        descended(
            table,
            target,
            loss,
            how,
            BudgetShare("descent", 1.0, InsecureSource(3)),
            weights=weights,
        )
        for table in (features, other)
    ]
    assert (models[0].coefficients == models[1].coefficients).all()


# The whole path against its best attacker

MU = 1.5


@pytest.mark.parametrize("runs", [600, pytest.param(15_000, marks=pytest.mark.long)])
def test_the_worst_record_reaches_the_certificate_and_does_not_pass_it(runs):
    certified = GaussianCurve(MU).advantage + 2 * release_slack(2 * PLAIN.steps)
    reached, error = canary_advantage(MU, runs)
    assert 0.9 * certified <= reached <= certified + 4 * error


def test_noise_for_half_the_sensitivity_is_caught(monkeypatch):
    monkeypatch.setattr(gradient, "path_sensitivity", lambda clip, rows: clip)
    reached, error = canary_advantage(MU, 300)
    assert reached > GaussianCurve(MU).advantage + 4 * error


def test_noise_on_the_last_step_only_is_caught(monkeypatch):
    calls = []

    def last_only(values, scale, source):
        calls.append(1)
        noisy = noisy_release(values, scale, source)
        return noisy if len(calls) % PLAIN.steps == 0 else np.asarray(values)

    monkeypatch.setattr(budgets, "noisy_release", last_only)
    reached, error = canary_advantage(MU, 300)
    assert reached > GaussianCurve(MU).advantage + 4 * error


def test_a_clip_that_forgets_the_intercept_is_caught(monkeypatch):
    asked = {"how": replace(PLAIN, intercept=20.0), "features": (1e-3,)}
    honest, _ = canary_advantage(MU, 300, **asked)
    assert honest < GaussianCurve(MU).advantage + 0.1
    monkeypatch.setattr(
        gradient, "row_lengths", lambda squares, terms, _b: row_lengths(squares, terms, 0.0)
    )
    reached, error = canary_advantage(MU, 300, **asked)
    assert reached > GaussianCurve(MU).advantage + 4 * error


def test_noise_of_the_path_is_root_steps_times_that_of_one():
    def scale(sensitivity, times, mu):
        return BudgetShare("sums", mu).sums(sensitivity=sensitivity, times=times).scale

    assert scale(2.0, 1, 0.5) == pytest.approx(4.0)
    assert scale(2.0, 100, 0.5) == pytest.approx(40.0)
    exact = Fraction(100) * Fraction(2.0) ** 2 / Fraction(0.3) ** 2
    assert Fraction(scale(2.0, 100, 0.3)) ** 2 >= exact


def test_a_share_is_spent_once_and_for_no_more_vectors_than_stated():
    part = Budget(1.0, 0.0).take("counts", 0.25)
    sums = part.sums(sensitivity=1.0, times=2)
    assert sums.scale == pytest.approx(2 * math.sqrt(2))
    sums.measure([1.0]), sums.measure([1.0])
    with pytest.raises(RuntimeError, match="more vectors"):
        sums.measure([1.0])
    with pytest.raises(RuntimeError, match="already spent"):
        part.sums(sensitivity=1.0)


# The budget


@given(
    mu=st.floats(1e-6, 50.0),
    cuts=st.lists(st.floats(0.001, 0.9), min_size=0, max_size=6),
)
def test_squares_of_the_parts_never_exceed_the_budget(mu, cuts):
    budget = Budget(mu, 0.0)
    for number, cut in enumerate(cuts):
        budget.take(str(number), budget.left * cut)
    budget.take("rest")
    spent = sum(Fraction(part.mu) ** 2 for part in budget.shares)
    assert spent <= Fraction(mu) ** 2
    assert float(spent) >= mu**2 * (1 - 1e-11)
    with pytest.raises(InputError, match="left"):
        budget.take("more", 0.01)


@pytest.mark.parametrize("eta", [0.001, 0.01, 0.05, 0.3, 0.49])
def test_the_budget_keeps_eta_with_its_slack(eta):
    budget = Budget.for_eta(eta, slack=1e-6)
    certificate = budget.certificate()
    assert certificate.value <= eta
    assert certificate.confidence == 1.0
    assert certificate.theorems == ("X22",)
    assert 2 * stats.norm.cdf(budget.mu / 2) - 1 == pytest.approx(2 * (eta - 1e-6), rel=1e-9)
    with pytest.raises(InputError, match="eta"):
        Budget.for_eta(eta, slack=0.5)


# Noise on a coarse grid


def test_releases_lie_on_a_grid_that_depends_on_the_scale_only():
    for scale in (0.3, 1.0, 7.0, 1e-9, 1e12):
        out = [noisy_release(np.full(200, x), scale, InsecureSource(1)) for x in (0.0, 1 / 3, 1e5)]
        step = 2.0 ** (math.floor(math.log2(scale)) - 2)
        assert scale / 8 < step <= scale / 4
        for values in out:
            assert (np.round(values / step) * step == values).all()


def test_the_chance_of_crossing_a_border_is_within_the_slack():
    # To first order a crossing has probability Σ over borders of 2e·(|b| + v)·f(b).
    largest = 0.0
    for step in np.linspace(1 / 8, 1 / 4, 9):
        for shift in np.linspace(0, 1, 21):
            borders = (np.arange(-200, 200) + shift) * step
            largest = max(largest, (2 * (np.abs(borders) + 1) * stats.norm.pdf(borders)).sum())
    assert largest <= release_slack(1) / 2.0**-46
    assert largest > 25  # a slack without the second end of every cell would be caught
    assert release_slack(10**6) == pytest.approx(1e6 * 42 * 2.0**-46, rel=1e-6)
    assert release_slack(10**18) == 1.0


# Defaults


@settings(derandomize=True, deadline=None)
@given(width=st.integers(1, 10**6), outputs=st.integers(1, 40), data=st.data())
def test_no_default_path_draws_more_than_was_allowed_for_before(width, outputs, data):
    narrower = data.draw(st.integers(1, width))
    fewer = data.draw(st.integers(1, outputs))
    steps = Descent.default(rows=100, width=narrower, outputs=fewer, mu=1.0).steps
    assert steps * fewer * (narrower + 1) <= most_draws(width, outputs)


# Tuning


@pytest.mark.parametrize("learner", ["logistic", "ridge"])
def test_tuning_is_charged_to_the_budget(monkeypatch, learner):
    """Trials and their scores are parts of one budget, and a record moves a score by at most 1."""
    moved, sums = {}, BudgetShare.sums

    def remember(part, *, sensitivity, times=1):
        moved[part.name] = sensitivity
        return sums(part, sensitivity=sensitivity, times=times)

    monkeypatch.setattr(BudgetShare, "sums", remember)
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"x": rng.random(400), "y": rng.integers(0, 2, 400)})
    bounds = {"x": [0, 1], "y": [0, 1] if learner == "ridge" else {"categories": [0, 1]}}
    plain = fit_model(table, "y", bounds=bounds, learner=learner)
    found = fit_model(table, "y", bounds=bounds, learner=learner, tune=True)
    names = [part.name for part in found.budget.shares]
    assert names.count("a trial") == 3
    assert moved["the trials' scores"] >= math.sqrt(3)
    assert "the trials' scores" in names
    assert "a trial" not in plain.budget.fractions()
    assert math.hypot(*(part.mu for part in found.budget.shares)) <= found.budget.mu
    assert found.budget.slack > plain.budget.slack
    assert found.budget.curve().eta <= 0.05
    shared = {part.name: part.mu for part in found.budget.shares}
    assert shared["gradient descent"] < 0.82 * plain.budget.shares[-1].mu
    # The score of a trial, with one record replaced by any other.
    loss, wanted = loss_and_target("logistic" if learner == "logistic" else "ridge", table["y"])
    rows, weights = table[["x"]].to_numpy(), np.ones(400)
    read = table["y"].to_numpy().astype(float)
    descent = Descent.default(rows=400, width=1, outputs=1, mu=0.2)
    base = TrainingRows(NumberRows(rows), read, weights)
    model = descended(rows, wanted, loss, descent, BudgetShare("a trial", 0.2, InsecureSource(2)))

    def mark(rows):
        return score_units(rows, model, loss) / 2**30

    for new_x, new_y, weight in ((1.0, 1, 1.0), (-1.0, 0, 0.5), (0.0, 1, 0.0)):
        changed = [array.copy() for array in (rows, read, weights)]
        changed[0][7], changed[1][7], changed[2][7] = new_x, new_y, weight
        other = TrainingRows(NumberRows(changed[0]), changed[1], changed[2])
        assert abs(mark(other) - mark(base)) <= 1
    # The bound of 1 is needed: leaving one record out moves a score nearly as far.
    gone = [replace(base, weights=(np.arange(400) != index) * 1.0) for index in range(40)]
    assert max(mark(base) - mark(rows) for rows in gone) > 0.7
