"""A25-E1 and E2 (A24-E4.3): a class that is close to Ψ*, or d > n alone, does not interpolate.

Oracles: simulation of the fits (false-alarm rate below 1e-6, fixed seeds) and quadrature.
"""

import math

import numpy as np
import pytest

from memberbound.papers.iid_errata import chance_to_reach
from memberbound.papers.results import errata


def least_losses(x, count, seed):
    """Mean squared training loss of least squares on standard normal labels."""
    rng = np.random.default_rng(seed)
    losses, fits = [], []
    for _ in range(count):
        y = rng.standard_normal(len(x))
        beta = np.linalg.lstsq(x, y, rcond=None)[0]
        losses.append(np.mean((x @ beta - y) ** 2))
        fits.append((beta, y))
    return np.array(losses), fits


CONSTANT = np.array([[1.0, 0.0, 0.0]] * 2)  # n = 2 records, d = 3 features
INDEPENDENT = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])


def test_constant_inputs_release_the_mean_of_the_labels():
    losses, fits = least_losses(CONSTANT, 200, seed=1)
    for beta, y in fits:
        assert beta == pytest.approx([y.mean(), 0, 0], abs=1e-12)
    assert losses.min() > 1e-12


@pytest.mark.parametrize("eta", [1e-3, 0.1, 1.0])
def test_chance_to_reach_a_loss(eta):
    count = 4000
    losses, _ = least_losses(CONSTANT, count, seed=2)
    chance = chance_to_reach(eta)
    slack = 5.2 * math.sqrt(chance * (1 - chance) / count)
    assert abs(np.mean(losses <= eta) - chance) <= slack


def test_independent_inputs_interpolate():
    """The condition that the examples leave out; A25-E2 then holds (test_A25_T11)."""
    losses, _ = least_losses(INDEPENDENT, 200, seed=3)
    assert losses.max() < 1e-25


def test_E1_is_not_reached_though_the_class_holds_the_truth():
    shown = errata()["A25-E1"].demonstrate()
    assert shown.true_value == pytest.approx(math.sqrt(4e-6 / math.pi), rel=1e-5)  # erf near 0
    assert shown.numbers["security_of_the_least_squares_fit_lower"] > 0.69
