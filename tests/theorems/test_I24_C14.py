"""I24-C14: for M >= 2 the constant (6.16/eta)^(1+2/M) is enough.

Truth: all halves of N = 2, 4, 6 records at d = 1 (tests/oracle/released_statistic.py).
"""

from fractions import Fraction

import pytest

from memberbound.release.noise import izzo_constant, norm_exponential_constant
from oracle.released_statistic import ETAS, broken_promises


@pytest.mark.parametrize("moment", [2.0, 4.0, 10.0])
def test_promise_holds_with_room(moment):
    bad, largest = broken_promises(lambda eta: izzo_constant(eta, moment), moment)
    assert bad == []
    assert largest < 0.2


@pytest.mark.parametrize("moment", [2.0, 4.0])
def test_x14_suffices_with_the_same_moment(moment):
    assert broken_promises(norm_exponential_constant, moment)[0] == []


def test_a_tenth_of_what_is_needed_is_caught():
    assert broken_promises(lambda eta: 0.1 * norm_exponential_constant(eta), 2.0)[0]


def test_value_at_m_2_is_not_below_the_square():
    for eta in ETAS:
        square = (Fraction(616, 100) / Fraction(eta)) ** 2
        got = Fraction(izzo_constant(eta, 2))
        assert square <= got <= square * (1 + Fraction(1, 10**12))
