"""A24-T5.1 (A23-T4.1): no constant of the dimension alone covers all laws.

Truth: the attack's rates by enumeration in rationals, on points with distinct sums.
"""

from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, product

import numpy as np
import pytest

from memberbound.papers.iid_errata import exact_sum_leak_lower, needed_constant
from memberbound.papers.results import errata

F = Fraction
POINTS = [1, 4, 16, 64, 256]  # base 4: sums of up to three points have one reading


def test_sums_of_the_points_are_all_different():
    for n in (1, 2, 3):
        sums = [sum(c) for c in combinations_with_replacement(POINTS, n)]
        assert len(sums) == len(set(sums))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("spread", [F(0), F(1, 16), F(1, 3)])
def test_rates_of_the_attack(n, spread):
    """A draw from the density is None: it equals no point, and no sum with it is one of points."""
    values = [*POINTS, None]
    chance = {v: spread if v is None else (1 - spread) / len(POINTS) for v in values}
    tpr = fpr = F(0)
    for data in product(values, repeat=n):
        weight = F(1)
        for v in data:
            weight *= chance[v]
        readable = None not in data
        tpr += weight * readable  # the first record is a term of the sum
        fpr += weight * sum(chance[v] for v in POINTS if readable and v in data)
    assert exact_sum_leak_lower(n, len(POINTS), spread) == tpr - fpr


def test_moments_stay_bounded():
    """m₁ ≤ 1.001 and m₃ ≤ 5.21, as the demonstration uses, for the law at n = 10 and 100."""
    for n in (10, 100):
        points = (np.arange(n * n) + 0.5) / (n * n)
        weight = 1 / n**2
        grid = (np.arange(200_000) + 0.5) / 200_000  # the density's part

        def mean(f, points=points, weight=weight, grid=grid):
            return (1 - weight) * f(points).mean() + weight * f(grid).mean()

        centre = mean(lambda x: x)
        scale = mean(lambda x: (x - centre) ** 2) ** 0.5  # noqa: B023 - used at once
        m1 = mean(lambda x: abs(x - centre) / scale)  # noqa: B023
        m3 = mean(lambda x: abs((x - centre) / scale) ** 3)  # noqa: B023
        assert m1 <= 1.001
        assert m3 <= 5.21


def test_the_constant_grows_without_bound():
    needed = [needed_constant(n) for n in (50, 200, 800)]
    for small, large in pairwise(needed):
        assert 1.9 < large / small < 2.6
    shown = errata()["A24-T5.1"].demonstrate()
    assert shown.true_value > 8 * shown.printed_value
    # Under the largest constant required at n = 100, the last law would leak at most half.
    n = 6400
    bound = (shown.printed_value * 6.21 + 0.5005) / n**0.5 + 1 / (2 * n)
    assert bound < 0.5
    assert exact_sum_leak_lower(n, n**2, F(1, n**2)) > 0.99
