"""L24-App3: an advantage averaged over records can hide one that is fully exposed.

1{x* in D}: advantage 1 for x*, 1/(N-1) for everybody else, on average 2/N, whatever k is.
"""

from fractions import Fraction

from memberbound.games import SubsetGame
from memberbound.subset.finite import finite_bounds, finite_worlds
from oracle import mechanisms
from oracle.claims import assert_exact

F = Fraction
#: Whether record 1 is in.
RELEASE = mechanisms.randomised_response(F(1), 1)
SIZES = [(size, k) for size in (2, 3, 4, 6, 8) for k in range(1, size)]


def advantages(size, k):
    worlds = finite_worlds(RELEASE, SubsetGame(size, k))
    return [worlds.delta(x, F(1)) for x in range(size)]


def test_average_advantage():
    assert_exact(
        lambda size: F(2, size),
        (((size,), sum(advantages(size, k)) / size) for size, k in SIZES),
        broken={"as if the others learnt nothing": lambda size: F(1, size)},
    )


def test_the_target_is_fully_exposed_and_the_others_hardly():
    for size, k in SIZES:
        gaps = advantages(size, k)
        assert gaps[1] == 1
        assert {gaps[x] for x in range(size) if x != 1} == {F(1, size - 1)}
        bounds = finite_bounds(RELEASE, SubsetGame(size, k))
        assert bounds.success_upper == bounds.success[1] == 1
        assert bounds.worst_record == 1 or size == 2
        assert bounds.pmp_epsilon_upper == float("inf")
