"""I24-T9: noise exp(-|x|/(c sigma)), c = (7.5/eta)^(1+2/M), is eta-MIP from the M-th moment.

I24-C14: for M >= 2 the constant (6.16/eta)^(1+2/M) is enough.
Truth: all halves of N = 2, 4, 6 records at d = 1 (tests/oracle/released_statistic.py).
"""

import math
from fractions import Fraction

import pytest

from memberbound.errors import InputError
from memberbound.release.noise import izzo_constant, norm_exponential_constant
from oracle.released_statistic import ETAS, broken_promises


@pytest.mark.parametrize(
    ("moment", "share"), [(1.0, 0.01), (1.5, 0.01), (2.0, 0.2), (4.0, 0.2), (10.0, 0.2)]
)
def test_promise_holds_with_room(moment, share):
    bad, largest = broken_promises(lambda eta: izzo_constant(eta, moment), moment)
    assert bad == []
    assert largest < share


@pytest.mark.parametrize("moment", [1.0, 1.5, 2.0, 4.0])
def test_x14_suffices_with_the_same_moment(moment):
    assert broken_promises(norm_exponential_constant, moment)[0] == []


def test_x14_needs_a_fifteenth_of_the_noise_below_the_second_moment():
    for eta in ETAS:
        assert norm_exponential_constant(eta) < izzo_constant(eta, 1.5) / 15
        assert norm_exponential_constant(eta) < izzo_constant(eta, 1.0) / 15


def test_a_constant_without_eta_or_ten_times_too_small_is_caught():
    assert broken_promises(lambda eta: 1.0, 1.0)[0]
    assert broken_promises(lambda eta: 0.1 * norm_exponential_constant(eta), 2.0)[0]


def test_value_from_above():
    for eta in ETAS:
        for moment in (1.0, 1.25, 1.9):
            printed = math.exp((1 + 2 / moment) * math.log(7.5 / eta))
            assert izzo_constant(eta, moment) == pytest.approx(printed, rel=1e-12)


def test_value_at_m_2_is_not_below_the_square():
    for eta in ETAS:
        square = (Fraction(616, 100) / Fraction(eta)) ** 2
        assert square <= Fraction(izzo_constant(eta, 2)) <= square * (1 + Fraction(1, 10**12))


def test_moment_below_one_is_refused():
    with pytest.raises(InputError):
        izzo_constant(0.1, 0.5)
