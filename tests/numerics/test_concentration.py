"""Concentration: solved inequalities, and exact tail probabilities on small laws."""

import math

import numpy as np
import pytest
from scipy import stats

from memberbound.errors import InputError
from memberbound.iid.count_functions import closed_count_function, tabulated_count_functions
from memberbound.numerics.means import (
    bounded_differences_upper,
    log_confidence,
    mixture_upper,
    self_bounding_upper,
)

ROWS = 60
COUNTS = np.arange(ROWS + 1)


def failure(bound, function, p: float, exponent: float = 0.0) -> float:
    """P(bound(F) < E F) on two atoms, exactly; with s > 0 the mean is -ln E e^{-sF}/s."""
    totals = function.at(COUNTS) + function.at(ROWS - COUNTS)
    mass = stats.binom.pmf(COUNTS, ROWS, p)
    if exponent:
        mean = -math.log(float(mass @ np.exp(-exponent * totals))) / exponent
    else:
        mean = float(mass @ totals)
    # Rounding of the mean itself must not count as a failure.
    return float(mass @ [bound(float(f)) < mean * (1 - 1e-12) for f in totals])


@pytest.mark.parametrize("beta", [0.5, 0.2, 0.05])
@pytest.mark.parametrize("p", [0.003, 0.03, 0.4])
def test_exact_tails_on_two_atoms(p, beta):
    plain = tabulated_count_functions()[0]
    for function in (plain, closed_count_function()):
        assert failure(lambda f: self_bounding_upper(f, beta), function, p) <= beta
        assert failure(lambda f: bounded_differences_upper(f, ROWS, ROWS, beta), function, p) <= (
            beta
        )
    for function in tabulated_count_functions()[1:]:
        s = function.exponent
        result = failure(lambda f, s=s: mixture_upper([f], [s], [1.0], beta), function, p, s)
        assert result <= beta


def test_exact_tails_catch_a_missing_confidence_term():
    plain = tabulated_count_functions()[0]
    assert max(failure(lambda f: f, plain, p) for p in (0.01, 0.03, 0.1, 0.4)) > 0.2


def test_self_bounding_solves_its_inequality():
    for total in (0.0, 1.0, 57.3, 1e6):
        for share in (1.0, 0.1):
            mean = self_bounding_upper(total, 0.05, share)
            spread = math.sqrt(2 * share * math.log(20) * mean)
            assert mean - spread == pytest.approx(total, abs=1e-6)
            assert mean - spread >= total - 1e-9


def test_mixture_is_above_its_root_and_below_every_component():
    totals, exponents, weights = [120.0, 100.0, 90.0], [0.8, 0.2, 0.05], [0.4, 0.3, 0.3]
    x = mixture_upper(totals, exponents, weights, 0.05)
    terms = [w * math.exp(s * (x - f)) for f, s, w in zip(totals, exponents, weights, strict=True)]
    assert math.fsum(terms) == pytest.approx(20, rel=1e-9)
    assert math.fsum(terms) >= 20 * (1 - 1e-15)
    for f, s, w in zip(totals, exponents, weights, strict=True):
        assert x <= f + math.log(20 / w) / s + 1e-6


def test_mixture_of_huge_totals_does_not_overflow():
    x = mixture_upper([1e9, 2e9], [0.8, 0.03], [0.5, 0.5], 0.05)
    assert 1e9 < x < 1e9 + 10


def test_bad_input():
    with pytest.raises(InputError):
        log_confidence(0.0)
    with pytest.raises(InputError):
        mixture_upper([1.0], [0.5], [1.5], 0.05)
    with pytest.raises(InputError):
        mixture_upper([1.0], [-0.5], [1.0], 0.05)
    with pytest.raises(InputError):
        mixture_upper([], [], [], 0.05)
