"""X5: certificates from data alone, every step of the chain in exact arithmetic on small laws."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from memberbound.iid.certificates import certify_counts
from memberbound.iid.count_functions import (
    closed_count_function,
    tabulated_count_functions,
)
from memberbound.iid.profiles import CountProfile
from oracle import iid

FUNCTIONS = (closed_count_function(), *tabulated_count_functions())
F = Fraction
LAWS = [
    [F(1)],
    [F(1, 2), F(1, 2)],
    [F(1, 50), F(49, 50)],
    [F(1, 2), F(1, 3), F(1, 6)],
    [F(1, 5)] * 5,
    [F(7, 10)] + [F(1, 10)] * 3,
]


def leak_times_n(p: list[Fraction], n: int) -> Fraction:
    """n·E TV(P̂_n, P), from the definition."""
    return sum(
        weight * sum(abs(c - n * q) for c, q in zip(counts, p, strict=True)) / 2
        for counts, weight in iid.multinomial(p, n).items()
    )


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
@pytest.mark.parametrize("p", LAWS, ids=len)
@pytest.mark.parametrize("n", [1, 2, 4, 7])
def test_the_count_function_covers_the_leak_in_the_mean(function, p, n):
    """E F ≥ nΔ_n (s = 0), E e^{-sF} ≤ e^{-snΔ_n} (s > 0)."""
    truth = leak_times_n(p, n)
    s = function.exponent
    with mpmath.workdps(30):
        mean = mpmath.mpf(0)
        for counts, weight in iid.multinomial(p, n).items():
            total = mpmath.fsum(function.at(np.array(counts)).tolist())
            value = mpmath.exp(-s * total) if s else total
            mean += value * weight.numerator / weight.denominator
        target = mpmath.mpf(truth.numerator) / truth.denominator
        assert mean <= mpmath.exp(-s * target) if s else mean >= target


def test_the_check_catches_a_function_below_one_at_one():
    """h(1) < 1 fails where atoms are light: by a mean over five atoms and one row."""
    p, n = [F(1, 5)] * 5, 1
    function = closed_count_function()
    mean = 0.75 * float(function.at(np.array([1]))[0])
    assert mean < leak_times_n(p, n)


@pytest.mark.parametrize("beta", [0.5, 0.1])
@pytest.mark.parametrize(
    ("p", "rows", "n"),
    [
        *((p, rows, rows) for p in LAWS[1:] for rows in [6 if len(p) > 3 else 12]),
        ([F(1, 2), F(1, 3), F(1, 6)], 12, 3),  # fewer training rows
    ],
)
def test_exact_coverage_on_small_tables(p, rows, n, beta):
    truth = leak_times_n(p, n) / n
    missed = F(0)
    for counts, weight in iid.multinomial(p, rows).items():
        bound = certify_counts(CountProfile.from_counts(counts), n, 1 - beta).delta_upper
        missed += weight * (F(bound) < truth)
    assert missed <= F(beta)
