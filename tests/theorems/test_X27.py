"""X27: releases chosen by looking at earlier ones are B-GDP together if Σμ² ≤ B², fixed in advance.

Truth: the total variation of two normal releases, the size of the second a step function of the
first, by quadrature over the first and in closed form over the second.
"""

import math

import pytest
from scipy.integrate import quad
from scipy.stats import norm

from memberbound import GaussianCurve
from oracle.claims import assert_bound


def positive_part(a, b, mu):
    """∫(a·φ(y - μ) - b·φ(y))₊ dy."""
    if mu == 0:
        return max(0.0, a - b)
    cut = math.log(b / a) / mu + mu / 2
    return a * norm.sf(cut - mu) - b * norm.sf(cut)


def adaptive_advantage(first, below, above, threshold):
    """The best attack on N(θ·first, 1), then N(θ·below, 1) or N(θ·above, 1)."""

    def at(y, second):
        return positive_part(norm.pdf(y - first), norm.pdf(y), second)

    left = quad(at, -12, threshold, args=(below,), epsabs=1e-12)[0]
    right = quad(at, threshold, 12, args=(above,), epsabs=1e-12)[0]
    return left + right - 1e-9


def spend(first, below, above, threshold):
    return [math.hypot(first, second) for second in (below, above)]


def filter_cost(*case):
    return GaussianCurve(max(spend(*case))).advantage


def smallest_path(*case):
    return GaussianCurve(min(spend(*case))).advantage


def mean_spent(first, below, above, threshold):
    """The ledger of an average path, if the record is out."""
    share = norm.cdf(threshold)
    squares = first**2 + share * below**2 + (1 - share) * above**2
    return GaussianCurve(math.sqrt(squares)).advantage


def without_the_first(first, below, above, threshold):
    return GaussianCurve(max(below, above)).advantage


CASES = [
    (first, below, above, threshold)
    for first in (0.1, 0.5, 1.5)
    for below, above in ((0.0, 1.0), (1.0, 0.0), (0.3, 0.6), (0.7, 0.7))
    for threshold in (-0.5, 0.25, 1.0)
]


def test_the_limit_holds_but_the_spent_budget_does_not():
    truth = [(case, adaptive_advantage(*case)) for case in CASES]
    broken = {
        "smallest path": smallest_path,
        "mean of what was spent": mean_spent,
        "without the first": without_the_first,
    }
    assert_bound(filter_cost, truth, broken)


@pytest.mark.parametrize("first", [0.1, 0.5, 1.5])
def test_it_is_reached_by_sizes_fixed_in_advance(first):
    case = (first, 0.7, 0.7, 0.0)
    assert filter_cost(*case) == pytest.approx(adaptive_advantage(*case), abs=1e-7)
