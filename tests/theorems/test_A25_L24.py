"""A25-L24: the range of C_K over laws on K atoms whose largest probability is δ."""

import math

import numpy as np
import pytest

from memberbound.discrete.atoms import Between, diversity, diversity_given_largest_atom


def random_laws(seed=24, count=400):
    """Laws with a prescribed maximum δ, from nearly even to nearly packed."""
    rng = np.random.default_rng(seed)
    while count:
        cells = int(rng.integers(2, 12))
        delta = rng.uniform(1 / cells, 1)
        rest = rng.dirichlet(np.full(cells - 1, rng.choice([0.02, 0.3, 30.0]))) * (1 - delta)
        for _ in range(200):  # push what is above δ down to the others
            over = np.maximum(rest - delta, 0).sum()
            rest = np.minimum(rest, delta)
            room = delta - rest
            if over > 0:
                rest = rest + over * room / room.sum()
        count -= 1
        yield np.append(rest, delta), cells, delta


def outside(interval):
    bad = []
    for p, cells, delta in random_laws():
        low, high = interval(cells, delta)
        if not low - 1e-7 <= diversity(p).c_k <= high + 1e-7:
            bad.append((cells, delta))
    return bad


def test_every_law_is_inside():
    assert outside(diversity_given_largest_atom) == []


def test_broken_intervals_are_caught():
    def narrower_above(cells, delta):
        low, high = diversity_given_largest_atom(cells, delta)
        return Between(low, high * 0.99)

    def without_remainder(cells, delta):
        high = diversity_given_largest_atom(cells, delta).upper
        fit = math.floor(1 / delta)
        return Between((fit + 1) * math.sqrt(delta * (1 - delta)), high)

    assert outside(narrower_above)
    assert outside(without_remainder)


def test_both_ends_are_reached():
    for cells, delta in ((3, 0.5), (5, 0.3), (10, 0.15), (4, 0.9)):
        low, high = diversity_given_largest_atom(cells, delta)
        even = [delta] + [(1 - delta) / (cells - 1)] * (cells - 1)
        assert diversity(even).c_k == pytest.approx(high, rel=1e-12)
        fit = math.floor(1 / delta)
        packed = [delta] * fit + [1 - fit * delta]
        assert diversity(packed).c_k == pytest.approx(low, rel=1e-7)
        assert low <= high
