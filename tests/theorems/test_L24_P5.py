"""L24-P5: eps-DP gives eps-PMP; the sum modulo 2n is PMP but not DP.

Exact e^eps of the sum modulo 2n on {0, ..., 2n-1}: 2 at n = 3, 5/4 at 4, 7/6 at 5, 38/37 at 6
(eps = 0.02667; the printed 40/37 is an upper bound only), 124/121 at 7.
"""

from fractions import Fraction
from math import isclose, log
from random import Random

from memberbound.games import SubsetGame
from memberbound.subset.finite import finite_bounds, finite_worlds
from oracle import mechanisms, subset
from oracle.claims import assert_bound
from oracle.mechanisms import sum_mod

F = Fraction
EXACT = {3: F(2), 4: F(5, 4), 5: F(7, 6), 6: F(38, 37)}


def games():
    rng = Random(5)
    for _ in range(10):
        size = rng.choice([2, 4, 6])
        g = rng.choice([F(1), F(6, 5), F(3)])
        yield mechanisms.random_dp_kernel(rng, size, size // 2, g, rng.randint(2, 4)), size, g
    yield mechanisms.exponential_kernel(rng, 6, 3, F(3, 2)), 6, F(9, 4)
    yield mechanisms.randomised_response(F(3, 4)), 4, F(3)


def test_dp_gives_pmp():
    assert_bound(
        lambda g: g,
        (((g,), subset.pmp_ratio(kernel, size, size // 2)) for kernel, size, g in games()),
        broken={"too small": lambda g: (1 + g) / 2},
    )


def sum_ratio(n):
    return subset.pmp_ratio(sum_mod(2 * n), 2 * n, n)


def test_exact_ratio_of_the_modular_sum():
    assert {n: sum_ratio(n) for n in EXACT} == EXACT
    assert isclose(log(EXACT[3]), log(2), rel_tol=1e-12)
    assert abs(log(EXACT[6]) - 0.02667) < 5e-6
    assert EXACT[6] < F(40, 37)  # the printed value is an upper bound, not the value


def test_at_most_two_from_three_on_and_infinite_before():
    assert all(ratio <= 2 for ratio in EXACT.values())
    assert sum_ratio(1) is None
    assert sum_ratio(2) is None


def test_never_differentially_private():
    for n in (3, 4):
        for g in (F(1), F(10**9)):
            assert subset.dp_delta(sum_mod(2 * n), 2 * n, n, g) == 1


# The package, which shares no code with the oracle


def package_ratio(n):
    worlds = finite_worlds(sum_mod(2 * n), SubsetGame(2 * n, n))
    ratios = [worlds.ratio(x) for x in range(2 * n)]
    return None if None in ratios else max(ratios)


def test_package_has_the_exact_ratio():
    claims = EXACT | {1: None, 2: None}
    assert {n: package_ratio(n) for n in claims} == claims


def test_package_bound_is_just_above_the_logarithm():
    for n, ratio in EXACT.items():
        upper = finite_bounds(sum_mod(2 * n), SubsetGame(2 * n, n)).pmp_epsilon_upper
        assert log(ratio) <= upper <= log(ratio) * (1 + 1e-12)
