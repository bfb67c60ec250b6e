"""A25-L33: a deterministic learner is private only if it is constant, and then perfectly.

Truth: all pairs of neighbouring sets of a small population.
"""

from fractions import Fraction
from itertools import product
from random import Random

from memberbound.papers.errata import least_dp_delta
from oracle import subset

F = Fraction
SIZE, K = 5, 2


def learner(table):
    return lambda data: {table[frozenset(data)]: F(1)}


def constant_on_neighbours(table):
    return all(table[a] == table[b] for a, b in subset.neighbours(SIZE, K))


def tables(count=60):
    rng = Random(33)
    sets = list(subset.subsets(SIZE, K))
    for labels, _ in product((1, 2, 3), range(count // 3)):
        yield {d: rng.randrange(labels) for d in sets}


def test_private_exactly_when_constant():
    """On data sets of two bits, all learners with up to three values."""
    sets = list(product((0, 1), repeat=2))
    for outputs in product((0, 1, 2), repeat=len(sets)):
        table = dict(zip(sets, outputs, strict=True))
        # Two different certain outputs differ by the whole mass, at any e^ε.
        assert least_dp_delta(table.__getitem__, 2) == (0 if len(set(outputs)) == 1 else 1)


def test_no_delta_below_one_helps():
    """The least δ is 1 at every ε for a learner that is not constant, 0 for one that is."""
    for table in tables(30):
        for g in (F(1), F(10), F(10**9)):
            least = subset.dp_delta(learner(table), SIZE, K, g)
            assert least == (0 if constant_on_neighbours(table) else 1)


def test_noise_is_what_the_lemma_excludes():
    """The negative control: a randomised answer has a finite ratio."""

    def noisy(data):
        return {0 in data: F(3, 4), 0 not in data: F(1, 4)}

    assert subset.dp_ratio(noisy, SIZE, K) == 3
