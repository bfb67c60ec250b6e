"""I24-P11: a statistic with a variance below 2 and a sensitivity that grows like 2^(N/2).

Truth: every half of the population enumerated with 50 digits, from the records themselves.
"""

import mpmath as mp
import pytest

from memberbound.papers.izzo2024 import sensitivity_of_inverse_sum as sensitivity
from oracle import subset
from oracle.claims import assert_bound
from oracle.real import reciprocal_population, reciprocal_sums

SIZES = (2, 4, 6, 8, 10)


def without_the_last_record(size):
    """The population of the paper's main text: powers of two only."""
    return [mp.mpf(2) ** i for i in range(size)]


def enumerate_halves(population):
    """(values by set, variance, sensitivity) of 1/sum over halves."""
    size = len(population)
    values = reciprocal_sums(population)
    mean = mp.fsum(values.values()) / len(values)
    variance = mp.fsum((v - mean) ** 2 for v in values.values()) / len(values)
    change = max(abs(values[d] - values[e]) for d, e in subset.neighbours(size, size // 2))
    return values, variance, change


@pytest.fixture(scope="module")
def truth():
    with mp.workdps(50):
        return {size: enumerate_halves(reciprocal_population(size)) for size in SIZES}


def test_variance_is_bounded(truth):
    assert_bound(
        lambda size: 2.0,
        (((size,), variance) for size, (_, variance, _) in truth.items()),
        broken={"too small": lambda size: 0.5},
    )


def test_sensitivity_is_the_closed_form(truth):
    for size, (values, _, change) in truth.items():
        lower, upper = sensitivity(size)
        assert lower <= change <= upper <= lower * (1 + 1e-14)
        # The worst half: the smallest powers of two and the last record.
        assert max(values, key=values.get) == frozenset([*range(size // 2 - 1), size - 1])
        assert sorted(values.values())[-2] <= 1


def test_a_sensitivity_without_its_correction_is_caught():
    for size in (4, 6):
        lower, upper = sensitivity(size)
        assert not lower <= float(mp.sqrt(mp.binomial(size, size // 2))) <= upper


def test_growth():
    for size in range(6, 1001, 2):
        assert sensitivity(size)[0] >= 2 ** (size / 3)
    assert sensitivity(4)[1] < 2 ** (4 / 3)  # so "for N large enough" is needed


def test_the_main_text_without_the_last_record_is_caught():
    for size in SIZES:
        _, _, change = enumerate_halves(without_the_last_record(size))
        assert change < 1
