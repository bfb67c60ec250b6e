"""X14: norm-exponential noise; TV <= 1 - exp(-t/2), c = 1/ln(1/(1-2 eta)) is enough.

Truth: all halves of N = 2, 4, 6 records at d = 1 (tests/oracle/released_statistic.py); the plane
and higher dimensions are in tests/release/test_noise.py.
"""

import math

import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.release.noise import (
    NormExponentialNoise,
    izzo_constant,
    norm_exponential_constant,
)
from oracle.released_statistic import ETAS, broken_promises


def test_promise_holds():
    bad, largest = broken_promises(norm_exponential_constant, 1)
    assert bad == []
    # Two records, each output its own record: E|a-b| = 2 sigma and d = 1 is exact.
    assert largest == pytest.approx(1.0, rel=1e-9)


def test_less_noise_is_caught():
    assert broken_promises(lambda eta: 0.99 * norm_exponential_constant(eta), 1)[0]


def test_never_more_than_the_pure_dp_route_and_far_less_than_the_paper():
    for eta in ETAS:
        ours = norm_exponential_constant(eta)
        assert ours < 1 / math.atanh(2 * eta)
        assert izzo_constant(eta, 2) > 100 * ours
    assert round(izzo_constant(0.1, 2) / norm_exponential_constant(0.1)) == 847


@pytest.mark.parametrize("d", [1, 2, 30])
def test_constant_satisfies_its_inequality_when_evaluated(d):
    for eta in (1e-9, *ETAS, 0.499999):
        law = NormExponentialNoise(np.full(d, 0.3), norm_exponential_constant(eta) * 1.7)
        distance = float(law.distance(2 * 1.7))
        assert distance <= 2 * eta
        assert distance >= 2 * eta * (1 - 1e-9) or d > 1


def test_log_density_ratio_is_bounded_by_the_length():
    rng = np.random.default_rng(6)
    law = NormExponentialNoise([0.5, 1.0, 3.0], 1.0)
    x, a = rng.normal(size=(500, 3)) * 5, rng.normal(size=(500, 3))
    ratio = np.abs(law.length(x) - law.length(x - a))
    assert (ratio <= law.length(a) * (1 + 1e-9)).all()
    # The midpoint step of claim 1.
    far = np.maximum(law.length(x + a / 2), law.length(x - a / 2))
    assert (far <= law.length(x) + law.length(a) / 2 + 1e-9).all()


@pytest.mark.parametrize("eta", [0.0, 0.5, -0.1, math.nan, "x"])
def test_eta_out_of_range(eta):
    with pytest.raises(InputError):
        norm_exponential_constant(eta)
    with pytest.raises(InputError):
        izzo_constant(eta)
