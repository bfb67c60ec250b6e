"""L24-fn1: a population of any size N > n; what DP and PMP give when k is not N/2.

Truth: enumeration of the k-subsets, in rationals.
"""

from fractions import Fraction
from random import Random

from memberbound.games import SubsetGame
from memberbound.subset.finite import finite_bounds
from oracle import mechanisms, subset
from oracle.claims import assert_bound
from oracle.real import exp_bracket

F = Fraction
SHAPES = [(4, 1), (5, 2), (4, 3), (5, 4), (6, 2)]


def games():
    rng = Random(241)
    for size, k in SHAPES:
        for g in (F(3, 2), F(3)):
            yield size, k, g, mechanisms.random_dp_kernel(rng, size, k, g)
            yield size, k, g**2, mechanisms.exponential_kernel(rng, size, k, g)
            response = mechanisms.randomised_response(g / (1 + g))
            yield size, k, g, subset.tabulate(response, size, k)


def success(prior, g):
    """Best success under PMP with e^ε = g: the corner of the ROC, or a constant guess."""
    return max(prior, 1 - prior, g / (1 + g))


def test_dp_gives_pmp_at_every_size():
    for size, k, g, kernel in games():
        ratio = subset.pmp_ratio(kernel, size, k)
        assert ratio is not None
        assert ratio <= g
        upper = finite_bounds(kernel.__getitem__, SubsetGame(size, k)).pmp_epsilon_upper
        assert ratio <= exp_bracket(upper)[1]


def test_success_is_bounded_with_the_prior():
    assert_bound(
        success,
        (
            ((F(k, size), g), subset.best_accuracy(kernel, size, k, x))
            for size, k, g, kernel in games()
            for x in range(size)
        ),
        # L24-L6 unchanged, which is for k = N/2.
        broken={"without the prior": lambda prior, g: g / (1 + g)},
    )


def test_randomised_response_reaches_it():
    for size, k in SHAPES:
        for g in (F(3, 2), F(3), F(9)):
            response = mechanisms.randomised_response(g / (1 + g))
            assert subset.best_accuracy(response, size, k, 0) == success(F(k, size), g)
