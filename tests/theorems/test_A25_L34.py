"""A25-L34: Gaussian noise of a fixed scale on a statistic without a bound gives no DP at all.

Truth: the hockey-stick between the two noisy values in 60 digits.
"""

from fractions import Fraction

import pytest

from memberbound.dp import guarantee_from_gaussian_mechanism
from oracle.real import bracket, digits, gaussian_hockey_stick

PROMISES = [(0.0, 0.5), (1.0, 1e-6), (8.0, 1e-2), (50.0, 0.999)]


def least_delta(epsilon, noise, change):
    """Least δ for which N(0, noise²) hides a change of the mean of a data set, from above."""
    return guarantee_from_gaussian_mechanism(noise, change).curve.delta(epsilon)


def change_that_breaks(epsilon, delta, noise, n):
    """A record for a data set of n zeros after which the mean is no longer (ε,δ)-DP.

    At a shift of μ noise scales, μ ≥ 2ε + 8, the event {value > μ/2 scales} has probability at
    least Φ(4) in one world and at most e^{-ε}(1 - Φ(4)) in the other; every further doubling sends
    the rest to 0.
    """
    shift = 2 * epsilon + 8
    while least_delta(epsilon, noise, shift * noise) <= delta:
        shift *= 2
    return shift * noise * n


@pytest.mark.parametrize(("epsilon", "delta"), PROMISES)
@pytest.mark.parametrize(("noise", "n"), [(0.5, 1), (100.0, 10), (1e6, 10**6)])
def test_some_record_breaks_every_promise(epsilon, delta, noise, n):
    record = change_that_breaks(epsilon, delta, noise, n)
    mean_without, mean_with = 0.0, record / n
    with digits(60):
        low, _ = bracket(gaussian_hockey_stick((mean_with - mean_without) / noise, epsilon))
    assert low > Fraction(delta)  # not our own number: verified with 60 digits


def test_a_bounded_statistic_keeps_a_promise():
    """The negative control: clipped to [0, 1] the same noise is (ε,δ)-DP for good parameters."""
    assert least_delta(1.0, 1.0, 1.0) < 0.2
    assert least_delta(1.0, 1.0, 0.01) < 1e-6
