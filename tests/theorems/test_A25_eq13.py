"""A25-eq13 and R12: low training loss alone does not end security; with a loss that pins y it does.

The erratum's learner is built and run; what holds instead is checked on quadrature of the loss.
"""

import math

import numpy as np
import pytest
from scipy.stats import norm

from memberbound.papers.aubinais2025 import ceiling_from_stopping, overfitting_ceiling
from memberbound.papers.iid_errata import capped_loss
from memberbound.papers.results import errata
from oracle.claims import assert_bound

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


@pytest.mark.parametrize("gamma", [0.5, 1.0, 3.0])
def test_with_squared_loss_security_ends(gamma):
    """The valid form: the chance of a small loss is small for every prediction, hence a ceiling.

    Truth: the ceiling at the α that the bound chooses, with the worst prediction's exact chance.
    """
    density, predictions, truth = norm.pdf(0), np.linspace(-8, 8, 2001), []
    for eta in (1e-6, 1e-9, 1e-12):
        alpha = (gamma * density * math.sqrt(eta)) ** (2 / 3)
        reach = math.sqrt(eta / alpha)
        worst = float((norm.cdf(predictions + reach) - norm.cdf(predictions - reach)).max())
        truth.append(
            ((eta, density, gamma), overfitting_ceiling(alpha, worst, gamma) * (1 - 1e-12))
        )
        # No other α of the paper's form is lower.
        for other in (alpha / 3, alpha / 1.1, 1.1 * alpha, 3 * alpha):
            form = max(1, 1 / gamma) * (other + 2 * gamma * density * math.sqrt(eta / other))
            assert ceiling_from_stopping(eta, density, gamma) <= form
    assert_bound(
        ceiling_from_stopping,
        truth,
        broken={
            "a third": lambda *at: ceiling_from_stopping(*at) / 3,
            "half of the density": lambda e, b, g: ceiling_from_stopping(e, b / 2, g),
        },
        excess=1e-3,
    )
    assert ceiling_from_stopping(1e-12, density, gamma) < 1e-3
