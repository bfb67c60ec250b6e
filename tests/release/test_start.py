"""The start of a descent: centred rows, the noisy mean, the share of a rare class."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import special
from sklearn.metrics import log_loss, roc_auc_score
from tests.oracle.training import NumberRows, fit_model, loss_and_target

from memberbound.release.all_rows import gradient
from memberbound.release.all_rows.clipping import on_grid, path_sensitivity
from memberbound.release.all_rows.gradient import (
    Descent,
    Start,
    TrainingRows,
    descend,
    measure_centre,
    starting_score,
)
from memberbound.release.budget import BudgetShare, NoisySums
from memberbound.release.randomness import InsecureSource
from memberbound.tables.shards import Shards

CENTRE = on_grid(np.array([0.7, -0.4, 0.1, 0.0]))


def rows_of(features, codes, block=NumberRows):
    return TrainingRows(block(np.asarray(features)), np.asarray(codes))


def table(count=60, seed=0):
    draws = np.random.default_rng(seed)
    features = on_grid(CENTRE + 0.4 * draws.normal(size=(count, 4)))
    return features, (draws.random(count) < 0.3).astype(int)


def descended(features, codes, start, how, mu=5.0):
    loss, _ = loss_and_target("logistic", codes)
    share = BudgetShare("descent", mu, InsecureSource(1))
    shards = Shards([rows_of(features[:20], codes[:20]), rows_of(features[20:], codes[20:])])
    return descend(shards, loss, how, share, records=len(codes), width=4, start=start)


def test_a_centre_is_the_same_as_rows_that_were_shifted():
    features, codes = table()
    how = Descent(steps=6, rate=2.0)
    centred = descended(features, codes, Start(-1.5, CENTRE), how)
    shifted = descended(features - CENTRE, codes, Start(-1.5, np.zeros(4)), how)
    assert centred.coefficients == pytest.approx(shifted.coefficients, rel=1e-6, abs=1e-9)
    moved = shifted.intercepts - CENTRE @ shifted.coefficients
    assert centred.intercepts == pytest.approx(moved, rel=1e-6, abs=1e-9)
    plain = descended(features, codes, None, how)
    assert not np.allclose(plain.coefficients, centred.coefficients, rtol=0.01)


class Uncentred(NumberRows):
    """Rows with lengths that ignore the centre, although it is subtracted later."""

    def __getitem__(self, rows):
        return Uncentred(self.numbers[rows])

    def squares(self):
        return super().squares() + 2 * self.numbers @ CENTRE - CENTRE @ CENTRE


def gradient_sum(monkeypatch, features, codes, block=NumberRows):
    """Return the exact sum of the first step, and the sensitivity of its noise."""
    asked, paid = [], []
    monkeypatch.setattr(
        NoisySums, "measure", lambda _, sums: (asked.append(sums), np.zeros_like(sums))[1]
    )
    honest = BudgetShare.sums

    def spy(self, *, sensitivity, times=1):
        paid.append(sensitivity)
        return honest(self, sensitivity=sensitivity, times=times)

    monkeypatch.setattr(BudgetShare, "sums", spy)
    loss, _ = loss_and_target("logistic", codes)
    share = BudgetShare("descent", 1.0, InsecureSource(1))
    rows, how = Shards([rows_of(features, codes, block)]), Descent(steps=1, rate=1.0)
    start = Start(0.0, CENTRE)
    descend(rows, loss, how, share, records=len(codes), width=4, start=start)
    return asked[0].ravel(), paid[0]


@pytest.mark.parametrize("block", [NumberRows, Uncentred])
def test_a_centred_sum_has_at_most_the_stated_sensitivity(monkeypatch, block):
    features, codes = table(8)
    most = 0.0
    for far in (np.zeros(4), CENTRE, CENTRE + 2.0, -CENTRE, np.full(4, 4.0)):
        sums = []
        for code in (0, 1):
            features[3], codes[3] = on_grid(far), code
            total, paid = gradient_sum(monkeypatch, features, codes, block)
            sums.append([Fraction(float(x)) for x in total])
        square = sum((a - b) ** 2 for a, b in zip(*sums, strict=True))
        most = max(most, math.sqrt(square) / paid)
    if block is Uncentred:
        assert most > 1.2
    else:
        assert 0.9 < most <= 1.0


def test_centred_sums_are_exact(monkeypatch):
    features, codes = table(500)
    total, _ = gradient_sum(monkeypatch, features, codes)
    order = np.random.default_rng(3).permutation(500)
    other, _ = gradient_sum(monkeypatch, features[order], codes[order])
    assert (total == other).all()


def test_the_mean_of_rows_costs_twice_the_radius(monkeypatch):
    features, codes = table(50)
    asked = []
    honest = NoisySums.measure
    monkeypatch.setattr(
        NoisySums, "measure", lambda self, x: (asked.append((x, self.scale)), honest(self, x))[1]
    )
    for far in (4.0, -4.0):
        features[7] = far
        share = BudgetShare("means", 0.5, InsecureSource(2))
        measure_centre(Shards([rows_of(features, codes)]), share, records=50)
    (first, scale), (second, _) = asked
    distance = float(np.linalg.norm(first - second))
    assert 1.99 * gradient._MEAN_RADIUS < distance <= 2 * gradient._MEAN_RADIUS
    assert scale * 0.5 >= path_sensitivity(gradient._MEAN_RADIUS, 50) >= distance


def test_a_loud_mean_is_shrunk_and_a_clear_one_is_kept():
    features, codes = np.tile(CENTRE, (4000, 1)), np.zeros(4000, dtype=int)
    rows = Shards([rows_of(features, codes)])
    clear = measure_centre(rows, BudgetShare("m", 1.0, InsecureSource(1)), records=4000)
    assert clear == pytest.approx(CENTRE, abs=0.005)
    assert (clear * 2**13 == np.rint(clear * 2**13)).all()
    loud = [
        measure_centre(rows, BudgetShare("m", 2e-4, InsecureSource(k)), records=4000)
        for k in range(20)
    ]
    scale = 2 * gradient._MEAN_RADIUS / 2e-4 / 4000
    assert np.sqrt(np.mean(np.square(loud))) < 0.95 * scale


@pytest.mark.parametrize("clip", [0.1, 1.0])
def test_a_start_balances_clipped_residuals_of_a_rare_class(clip):
    for share in (0.001, 0.01, 0.05):
        score = starting_score(share, clip)
        assert score == pytest.approx(-starting_score(1 - share, clip), rel=1e-9)
        p = special.expit(score)
        others, few = (1 - share) * min(p, clip), share * min(1 - p, clip)
        assert others == pytest.approx(few, rel=0.3)
    assert starting_score(0.5, clip) == 0.0
    assert abs(starting_score(0.49, clip)) < 0.15  # no jump where classes are alike


def rare_people(rows, seed):
    """One in twenty is ill; ten more columns hold the same word nearly everywhere."""
    draws = np.random.default_rng(seed)
    old = draws.normal(size=rows)
    ill = old + draws.logistic(size=rows) > np.quantile(old + draws.logistic(size=rows), 0.95)
    found = {"age": np.clip(50 + 12 * old, 0, 100)}
    found |= {f"drug{k}": np.where(draws.random(rows) < 0.03, "yes", "no") for k in range(10)}
    return pd.DataFrame(found | {"ill": np.where(ill, "yes", "no")})


def test_a_rare_class_is_ranked_and_its_probabilities_are_right():
    bounds = {"age": [0, 100], "ill": ["no", "yes"]}
    bounds |= {f"drug{k}": ["no", "yes"] for k in range(10)}
    scores, losses, test = [], [], rare_people(20_000, 9)
    truth = (test["ill"] == "yes").to_numpy()
    for seed in range(4):
        model = fit_model(rare_people(4000, seed), seed=seed, bounds=bounds)
        chances = model.predict_proba(test.drop(columns="ill"))[:, 1]
        scores.append(roc_auc_score(truth, chances))
        losses.append(log_loss(truth, chances))
    constant = log_loss(truth, np.full(len(truth), truth.mean()))
    best = roc_auc_score(truth, test["age"])
    assert np.mean(scores) > best - 0.03
    assert np.mean(losses) < constant
