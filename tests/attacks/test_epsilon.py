"""ε from hits and false alarms: exact coverage for extremal pairs, simulation for Laplace noise.

Simulations: 400 audits at confidence 0.95.  If a bound failed with exactly 5 %, more than 47 misses
would happen with probability below 1e-6 (binomial), the false-alarm rate per setting.
"""

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from memberbound.attacks.epsilon import (
    CredibleEpsilon,
    _epsilon,
    bayesian_epsilon,
    epsilon_from_scores,
    epsilon_lower,
)
from memberbound.errors import InputError
from memberbound.games import NeighbourGame
from memberbound.quantities import AuditBound, Estimate

AUDITS, MISSES = 400, 47


def miss_probability(bound, tpr, fpr, epsilon, n=25):
    """P(bound > ε), summed over all outcomes of n + n trials."""
    hits, alarms = (stats.binom.pmf(range(n + 1), n, p) for p in (tpr, fpr))
    possible = zip(*np.nonzero(np.outer(hits, alarms)), strict=True)
    return sum(hits[i] * alarms[j] for i, j in possible if bound(int(i), int(j), n) > epsilon)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_coverage_is_exact_for_the_extremal_pair(epsilon, delta):
    """Reveal with probability δ, else randomised response: ε is reached by both corners."""
    truth = (1 - delta) * math.exp(epsilon) / (1 + math.exp(epsilon))
    lie = (1 - delta) / (1 + math.exp(epsilon))

    @cache
    def bound(i, j, n):
        return epsilon_lower(i, j, n, n, delta=delta, confidence=0.9).lower

    for tpr, fpr in ((truth + delta, lie), (truth + delta, lie + 0.05)):
        assert miss_probability(bound, tpr, fpr, epsilon) <= 0.1


def test_plug_in_and_forgotten_delta_would_be_caught():
    truth, lie = 0.9 * 0.5 + 0.1, 0.9 * 0.5

    def plug_in(i, j, n):
        return epsilon_lower(i, j, n, n, delta=0.1).estimate

    def forgotten(i, j, n):
        return epsilon_lower(i, j, n, n, delta=0.0, confidence=0.9).lower

    assert miss_probability(plug_in, truth, lie, 0.0) > 0.3
    # Tell all with probability 0.2, otherwise nothing: (0, 0.2)-DP.
    assert miss_probability(forgotten, 0.2, 0.0, 0.0, n=60) > 0.2


def laplace_scores(rng, epsilon, n):
    member = rng.random(n) < 0.5
    return rng.laplace(0.0, 1 / epsilon, n) + member, member


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 3.0])
def test_scores_of_laplace_noise(epsilon):
    rng = np.random.default_rng(31)
    seen = np.array(
        [epsilon_from_scores(*laplace_scores(rng, epsilon, 300)).lower for _ in range(AUDITS)]
    )
    assert (seen > epsilon).sum() <= MISSES


def test_threshold_chosen_on_the_same_scores_would_be_caught():
    """Null scores (ε = 0) of 30 attacks: the best attack and threshold by the bound itself."""
    rng = np.random.default_rng(32)
    counts = np.arange(101)
    bound = _epsilon(*np.meshgrid(counts, counts, indexing="ij"), 100, 100, delta=0.0, error=0.025)
    cuts = np.linspace(-2, 2, 21)
    wrong = 0
    for _ in range(AUDITS):
        scores = np.sort(rng.normal(size=(2, 30, 100)))
        hits, alarms = ([100 - np.searchsorted(own, cuts) for own in attacks] for attacks in scores)
        wrong += bound[np.array(hits), np.array(alarms)].max() > 0
    assert wrong > 2 * MISSES


def test_many_runs_come_close():
    rng = np.random.default_rng(33)
    for seed in range(5):
        low = epsilon_from_scores(*laplace_scores(rng, 2.0, 200_000), seed=seed).lower
        assert 1.9 < low <= 2.0


def test_both_ways_of_the_hockey_stick_count():
    few_alarms = epsilon_lower(50, 0, 100, 100).lower
    few_misses = epsilon_lower(100, 50, 100, 100).lower
    assert few_alarms == pytest.approx(few_misses, rel=1e-9)
    assert few_alarms > 2


def test_kind_and_game():
    bound = epsilon_lower(80, 20, 100, 100, adjacency="replace-one")
    assert isinstance(bound, AuditBound)
    assert bound.game == NeighbourGame("replace-one")
    assert bound.estimate == pytest.approx(math.log(4))
    assert bound.to_dict()["upper"] is None
    assert epsilon_lower(0, 0, 30, 30).lower == 0.0
    assert epsilon_lower(10, 20, 30, 30).lower == 0.0


def test_credible_interval_is_the_posterior_and_an_estimate():
    tp, fp, n1, n0, delta = 70, 12, 90, 80, 0.01
    rng = np.random.default_rng(34)
    fnr = rng.beta(n1 - tp + 0.5, tp + 0.5, 100_000)
    fpr = rng.beta(fp + 0.5, n0 - fp + 0.5, 100_000)
    with np.errstate(invalid="ignore"):
        values = np.maximum(np.log((1 - delta - fpr) / fnr), np.log((1 - delta - fnr) / fpr))
    interval = bayesian_epsilon(tp, fp, n1, n0, delta=delta, credibility=0.9)
    assert isinstance(interval, CredibleEpsilon)
    for end, share in ((interval.lower, 0.05), (interval.median, 0.5), (interval.upper, 0.95)):
        assert isinstance(end, Estimate)
        assert not isinstance(end, AuditBound)
        assert "no frequentist guarantee" in end.method
        assert end.value == pytest.approx(float(np.quantile(values, share)), abs=0.02)
    assert interval.lower.value > epsilon_lower(tp, fp, n1, n0, delta=delta, confidence=0.95).lower


def test_credible_interval_of_nothing_is_zero_below():
    assert bayesian_epsilon(10, 20, 30, 30).lower.value == 0.0


def test_misses_are_what_the_header_says():
    assert stats.binom.sf(MISSES, AUDITS, 0.05) < 1e-6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: epsilon_lower(11, 0, 10, 10), "tp and fp must be at most"),
        (lambda: epsilon_lower(1, 0, 0, 10), "n1 must be"),
        (lambda: epsilon_lower(1, 0, 10, 10, delta=2), "delta must be"),
        (lambda: epsilon_lower(1, 0, 10, 10, confidence=0), "confidence must be"),
        (lambda: bayesian_epsilon(1, 0, 10, 10, credibility=1), "credibility must be"),
        (lambda: epsilon_from_scores(np.arange(30), [1] + [0] * 29), "at least 2 of members"),
        (lambda: epsilon_from_scores(np.arange(30), [1] * 30), "got no non-members"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(InputError, match=message):
        call()
