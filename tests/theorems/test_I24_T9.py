"""I24-T9: noise exp(-|x|/(c sigma)), c = (7.5/eta)^(1+2/M), is eta-MIP from the M-th moment.

Truth: all halves of N = 2, 4, 6 records at d = 1 (tests/oracle/released_statistic.py).
"""

import math

import pytest

from memberbound.errors import InputError
from memberbound.release.noise import izzo_constant, norm_exponential_constant
from oracle.released_statistic import ETAS, broken_promises


@pytest.mark.parametrize("moment", [1.0, 1.5])
def test_promise_holds_with_room(moment):
    bad, largest = broken_promises(lambda eta: izzo_constant(eta, moment), moment)
    assert bad == []
    assert largest < 0.01


@pytest.mark.parametrize("moment", [1.0, 1.5])
def test_x14_suffices_with_the_same_moment_and_less_noise(moment):
    assert broken_promises(norm_exponential_constant, moment)[0] == []
    for eta in ETAS:
        assert norm_exponential_constant(eta) < izzo_constant(eta, moment) / 15


def test_a_constant_that_forgets_eta_is_caught():
    assert broken_promises(lambda eta: 1.0, 1.0)[0]


def test_value_from_above():
    for eta in ETAS:
        for moment in (1.0, 1.25, 1.9):
            printed = math.exp((1 + 2 / moment) * math.log(7.5 / eta))
            assert izzo_constant(eta, moment) == pytest.approx(printed, rel=1e-12)


def test_moment_below_one_is_refused():
    with pytest.raises(InputError):
        izzo_constant(0.1, 0.5)
