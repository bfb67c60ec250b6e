"""X30: counts by score and class move by at most √(2K), and a line through them is calibrated.

Truth: every pair of records from a grid of scores, classes and weights.  Broken twin: K histograms
charged as one.  Statistical tests: fixed seeds, margins of more than five standard errors.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import special
from tests.oracle.training import line_of

from memberbound.release.all_rows.probabilities import (
    TYPICAL_SLOPES,
    log_odds,
    probability_sums,
    score_counts,
)
from memberbound.release.budget import HISTOGRAM_MOVES, BudgetShare, NoisySums
from memberbound.release.randomness import InsecureSource

UNITS = 20


def record_counts(record, units=UNITS):
    scores, code, weight = record
    return score_counts(log_odds(np.array([scores])), np.array([code]), [weight], units)


def records(outputs):
    values = (-50.0, 0.0, 0.4999, 50.0) if outputs > 1 else (-50.0, -1.3, 0.0, 0.4999, 2.0, 50.0)
    scores = itertools.product(values, repeat=outputs)
    codes = range(-1, max(2, outputs))
    return itertools.product(scores, codes, (0.0, 1 / 3, 1.0))


@pytest.mark.parametrize(("scores", "outputs"), [(1, 1), (2, 1), (3, 3)])
def test_no_record_moves_the_counts_further(scores, outputs):
    vectors = np.array([record_counts(r).ravel() for r in records(scores)]) / 2.0**UNITS
    assert (vectors >= 0).all()
    assert vectors.shape[1] == probability_sums(outputs) <= probability_sums(scores)
    assert (vectors.sum(axis=1) <= outputs).all()
    squares = np.square(vectors).sum(axis=1)
    moved = np.sqrt((squares[:, None] + squares - 2 * vectors @ vectors.T).max())
    assert moved <= math.sqrt(2 * outputs) * (1 + 1e-12)
    # Tight, and more than one histogram may move.
    assert moved == pytest.approx(math.sqrt(2 * outputs))
    assert outputs == 1 or moved > 1.2 * HISTOGRAM_MOVES


def test_scores_that_are_no_numbers_are_counted():
    """One record's NaN would refuse the release, or be in no cell."""
    odds = np.array([[np.nan], [np.inf], [-np.inf], [0.0]])
    counts = score_counts(odds, np.array([0, 1, 0, 1]), np.ones(4), 10)
    assert counts.sum() == 4 * 2**10
    assert counts[0, 4].tolist() == [2**10, 2**10]
    assert counts[0, 8, 1] == counts[0, 0, 0] == 2**10


@pytest.mark.parametrize("outputs", [1, 4])
def test_the_noise_is_that_of_the_sensitivity(monkeypatch, outputs):
    scales = []
    honest = NoisySums.measure
    monkeypatch.setattr(
        NoisySums, "measure", lambda self, sums: (scales.append(self.scale), honest(self, sums))[1]
    )
    rows = np.zeros((500, outputs))
    part = BudgetShare("counts", 0.1, InsecureSource(0))
    line_of(rows, np.zeros(500, dtype=int), np.ones(500), part, slope=TYPICAL_SLOPES["softmax"])
    assert scales[0] / 2.0**30 >= math.sqrt(2 * outputs) / 0.1
    assert scales[0] / 2.0**30 == pytest.approx(math.sqrt(2 * outputs) / 0.1, rel=1e-9)


def problem(rows, outputs, slope, seed=0):
    """Draw true log-odds and classes; the model's scores are too large by 1/slope, and shifted."""
    draws = np.random.default_rng(seed)
    true = 1.5 * draws.normal(size=(rows, outputs))
    if outputs == 1:
        codes = (draws.random(rows) < special.expit(true[:, 0])).astype(int)
        return (true - 0.6) / slope, codes, true
    likely = special.softmax(true, axis=1)
    codes = (draws.random((rows, 1)) > np.cumsum(likely, axis=1)).sum(axis=1)
    return true / slope, codes, true


def log_loss(scores, codes):
    both = np.column_stack([np.zeros(len(scores)), scores]) if scores.shape[1] == 1 else scores
    chosen = special.log_softmax(both, axis=1)[np.arange(len(codes)), codes]
    return -float(chosen.mean())


@pytest.mark.parametrize(("outputs", "kind"), [(1, "logistic"), (1, "boosting"), (4, "softmax")])
@pytest.mark.parametrize("slope", [0.25, 1.0])
def test_scores_of_the_wrong_size_become_log_odds(outputs, kind, slope):
    scores, codes, true = problem(30_000, outputs, slope)
    part = BudgetShare("counts", 0.05, InsecureSource(1))
    line = line_of(scores, codes, np.ones(len(codes)), part, slope=TYPICAL_SLOPES[kind])
    best, reached = log_loss(true, codes), log_loss(line[0] * scores + line[1], codes)
    assert reached < best + 0.03
    # Without it they are not, where their size is not the right one by chance.
    assert slope == 1.0 or log_loss(scores, codes) > reached + 0.1


@pytest.mark.parametrize("outputs", [1, 3])
def test_uninformative_scores_are_no_worse_than_a_constant(outputs):
    draws = np.random.default_rng(2)
    scores = 3 * draws.normal(size=(20_000, outputs))
    shares = [0.8, 0.2] if outputs == 1 else [0.7, 0.2, 0.1]
    codes = draws.choice(len(shares), p=shares, size=20_000)
    part = BudgetShare("counts", 0.05, InsecureSource(1))
    line = line_of(scores, codes, np.ones(len(codes)), part, slope=TYPICAL_SLOPES["logistic"])
    constant = -float(np.mean(np.log(np.array(shares)[codes])))
    assert log_loss(line[0] * scores + line[1], codes) < constant + 0.01
    assert log_loss(scores, codes) > constant + 0.3  # before
