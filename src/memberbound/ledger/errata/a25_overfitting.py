"""Errata of A25 on overfitting: one computed counterexample each."""

from __future__ import annotations

import math
from dataclasses import replace

from .a23 import gaussian_mean_delta
from .types import Counterexample

__all__ = [
    "capped_loss",
    "chance_to_reach",
    "equation_13",
    "example_1",
    "example_2",
    "remark_12",
    "squared_loss_ceiling",
]


def capped_loss(y: float, prediction: float) -> float:
    """min(|y|, 1)/(1 + prediction²): continuous, and zero only at y = 0."""
    return min(abs(y), 1.0) / (1 + prediction**2)


def squared_loss_ceiling(eta: float, alpha: float) -> float:
    """Ceiling on MIS at γ = 1 for squared loss, y ~ N(0, 1), training stopped at mean loss η.

    By A25-P10 the learner is (η/α, 1 − α)-overfitting, and a fresh record has squared loss at most
    r with probability at most 2√r/√(2π), whatever the prediction (A25-T11, first part).
    """
    return min(1.0, alpha + 2 * math.sqrt(eta / alpha) / math.sqrt(2 * math.pi))


def equation_13() -> Counterexample:
    """A25-eq13 asks of the loss only that it is continuous; a prediction can then shrink it.

    With ω(y, u) = min(|y|, 1)/(1 + u²) the constant prediction u = √(1/η − 1) has loss at most η on
    every record there is. A learner that starts there has met its stopping rule before it saw the
    data, so its release says nothing: the laws of the two worlds are the same.
    """
    levels = (1e-2, 1e-4, 1e-6)
    grid = [k / 64 for k in range(-640, 641)]  # |y| beyond 1 changes nothing
    largest = {
        eta: max(capped_loss(y, math.sqrt(1 / eta - 1)) for y in grid) / eta for eta in levels
    }
    return Counterexample(
        setting="y ~ N(0, 1), loss min(|y|, 1)/(1 + u²) with prediction u; the learner that must "
        "stop at mean loss η predicts √(1/η − 1) on any data; η = 1e−2, 1e−4, 1e−6",
        printed_value=0.0,
        true_value=1.0,
        # Its stopping rule is met for certain (up to rounding), with a release that is constant.
        violated=all(ratio <= 1 + 1e-9 for ratio in largest.values()),
        numbers={
            **{f"largest_loss_over_eta_at_{eta:g}": ratio for eta, ratio in largest.items()},
            "ceiling_with_squared_loss_at_1e-06": squared_loss_ceiling(1e-6, 0.01),
            "ceiling_with_squared_loss_at_1e-12": squared_loss_ceiling(1e-12, 1e-4),
        },
    )


def remark_12() -> Counterexample:
    """A25-R12 lacks the same condition: these learners overfit at every ε, with any α."""
    alpha = 0.01
    return replace(equation_13(), printed_value=alpha)


def chance_to_reach(eta: float) -> float:
    """Chance that the best constant fits two standard normal labels with mean squared loss ≤ η.

    The least loss is (y₁ − y₂)²/4, half the square of a standard normal variable.
    """
    return math.erf(math.sqrt(eta))


def example_1() -> Counterexample:
    """A25-E1 takes a class that approximates Ψ* for one that can fit the noise."""
    eta = 1e-6
    return Counterexample(
        setting="Ψ* = 0, noise N(0, 1), n = 2, the class of constant functions (it contains Ψ*): "
        "the chance that any member reaches training loss 1e−6",
        printed_value=1.0,
        true_value=chance_to_reach(eta),
        violated=chance_to_reach(eta) < 1,
        numbers={
            "eta": eta,
            "mean_of_the_least_training_loss": 0.5,
            "security_of_the_least_squares_fit_lower": 1 - gaussian_mean_delta(2)[1],
        },
    )


def example_2() -> Counterexample:
    """A25-E2 (A24-E4.3) lets x have any law; with x constant d > n does not interpolate."""
    lower, upper = gaussian_mean_delta(2)
    return Counterexample(
        setting="x = (1, 0, 0) for every record, y ~ N(0, 1), n = 2 < d = 3, least squares: the "
        "fit releases the mean of the two labels",
        printed_value=0.0,
        true_value=1 - upper,
        violated=upper < 1,
        numbers={
            "delta_lower": lower,
            "delta_upper": upper,
            "chance_of_training_loss_below_1e-6": chance_to_reach(1e-6),
        },
    )
