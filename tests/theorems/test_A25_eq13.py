"""A25-eq13 and R12: low training loss alone does not end security; with a loss that pins y it does.

The erratum's learner is built and run; what holds instead is checked on quadrature of the loss.
"""

import math

import numpy as np
import pytest
from scipy.stats import norm

from memberbound.papers.errata import capped_loss, squared_loss_ceiling
from memberbound.papers.iid_figures import ceiling_from_overfitting
from memberbound.papers.results import errata

LEVELS = [1e-2, 1e-4, 1e-6]


def train(labels, eta):
    """Gradient-free training by a schedule: stops as soon as the mean loss is at most η."""
    prediction = math.sqrt(1 / eta - 1)
    while np.mean([capped_loss(y, prediction) for y in labels]) > eta * (1 + 1e-12):
        prediction *= 2
    return prediction


@pytest.mark.parametrize("eta", LEVELS)
def test_the_counterexample_stops_at_once_on_any_data(eta):
    rng = np.random.default_rng(13)
    releases = {train(rng.standard_normal(5) * scale, eta) for scale in (0.1, 1, 50) for _ in "abc"}
    assert len(releases) == 1  # constant, so the two worlds have the same law and MIS = 1


@pytest.mark.parametrize("alpha", [0.01, 0.5, 0.99])
def test_R12_needs_the_same_condition(alpha):
    """The constant learner is (ε, 1-α)-overfitting for every ε: all its training losses are ≤ ε."""
    rng = np.random.default_rng(12)
    for epsilon in LEVELS:
        labels = rng.standard_normal(200)
        prediction = train(labels, epsilon)
        small = np.mean([capped_loss(y, prediction) <= epsilon * (1 + 1e-12) for y in labels])
        assert small >= 1 - alpha
    shown = errata()["A25-R12"].demonstrate()
    assert shown.violated
    assert shown.true_value == 1.0 > shown.printed_value


@pytest.mark.parametrize("eta", [1e-3, 1e-6, 1e-9, 1e-12])
def test_with_squared_loss_security_ends(eta):
    """What holds: the chance of a small loss is small for every prediction, hence a ceiling."""
    alpha = eta**0.25
    level = eta / alpha
    predictions = np.linspace(-8, 8, 2001)
    worst = (norm.cdf(predictions + level**0.5) - norm.cdf(predictions - level**0.5)).max()
    exact = ceiling_from_overfitting(alpha, float(worst))
    assert exact <= squared_loss_ceiling(eta, alpha) * (1 + 1e-9)
    assert squared_loss_ceiling(eta, alpha) <= 2 * eta**0.25
