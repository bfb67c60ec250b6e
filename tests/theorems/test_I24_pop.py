"""I24-pop: membership in the population itself is not protected by MIP."""

from fractions import Fraction
from itertools import combinations

from memberbound.games import SubsetGame
from memberbound.subset.finite import finite_bounds

F = Fraction
POPULATION, K = frozenset(range(6)), 3


def draw_from_the_population(data):
    """The paper's release: does the training set come from X?"""
    return {frozenset(data) <= POPULATION: F(1)}


def test_it_is_perfectly_private_by_the_definition():
    assert finite_bounds(draw_from_the_population, SubsetGame(len(POPULATION), K)).eta_upper == 0


def test_it_tells_the_population_from_any_other_for_certain():
    """A record outside X: every training set with it is told from every one drawn from X."""
    stranger = max(POPULATION) + 1
    inside = {draw_from_the_population(d)[True] for d in combinations(sorted(POPULATION), K)}
    others = [(*d, stranger) for d in combinations(sorted(POPULATION), K - 1)]
    outside = {draw_from_the_population(d)[False] for d in others}
    assert inside == outside == {F(1)}


def test_a_population_that_holds_both_shows_the_leak():
    """The remedy: enlarge X by strangers and the same release has η > 0."""
    larger = SubsetGame(len(POPULATION) + 2, (len(POPULATION) + 2) // 2)
    assert finite_bounds(draw_from_the_population, larger).eta_upper > 0
