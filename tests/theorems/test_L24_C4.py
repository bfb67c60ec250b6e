"""L24-C4 corrected: with one record, (eps, delta)-DP is (eps, delta)-PMP (printed: 2 delta)."""

from fractions import Fraction
from itertools import combinations
from random import Random

from memberbound.games import SubsetGame
from memberbound.subset.finite import finite_worlds
from oracle import mechanisms, subset
from oracle.claims import assert_exact

F = Fraction
GAMMAS = [F(1), F(3, 2), F(3)]


def universes():
    """Random mechanisms on single records of a small universe."""
    rng = Random(4)
    for _ in range(12):
        size = rng.randint(2, 5)
        yield mechanisms.random_mechanism(rng, size, 1, rng.randint(2, 4)), size


def pmp_delta_over_populations(kernel, size, g):
    """Worst PMP delta over all populations X of two records, the game played on each."""
    worst = F(0)
    for pair in combinations(range(size), 2):
        game = {frozenset({i}): kernel[frozenset({z})] for i, z in enumerate(pair)}
        worst = max(worst, subset.pmp_delta(game, 2, 1, g))
    return worst


def test_same_delta():
    assert_exact(
        lambda delta: delta,
        (
            ((subset.dp_delta(kernel, size, 1, g),), pmp_delta_over_populations(kernel, size, g))
            for kernel, size in universes()
            for g in GAMMAS
        ),
        broken={"printed": lambda delta: 2 * delta},
    )


def test_the_code_has_the_same_delta():
    """``Worlds.delta`` on all populations of two records."""

    def worst(kernel, size, g):
        found = F(0)
        for pair in combinations(range(size), 2):
            worlds = finite_worlds(
                lambda d, pair=pair: kernel[frozenset({pair[min(d)]})], SubsetGame(2, 1)
            )
            found = max(found, *(worlds.delta(x, g) for x in range(2)))
        return found

    assert_exact(
        worst,
        (
            ((kernel, size, g), subset.dp_delta(kernel, size, 1, g))
            for kernel, size in universes()
            for g in GAMMAS
        ),
        broken={"printed": lambda *at: 2 * worst(*at)},
    )
