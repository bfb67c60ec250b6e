"""A25-L24: the range of C_K over laws on K atoms with largest probability δ."""

import itertools
import math

import numpy as np
import pytest

from memberbound.iid.worst_case import diversity, diversity_given_largest_atom
from memberbound.papers.results import errata
from oracle.claims import assert_holds


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


def inside(interval):
    def check(c_k, cells, delta):
        low, high = interval(cells, delta)
        return low - 1e-7 <= c_k <= high + 1e-7

    return check


def test_every_law_is_inside():
    def narrower_above(cells, delta):
        low, high = diversity_given_largest_atom(cells, delta)
        return low, high * 0.99

    def without_remainder(cells, delta):
        high = diversity_given_largest_atom(cells, delta).upper
        return (math.floor(1 / delta) + 1) * math.sqrt(delta * (1 - delta)), high

    assert_holds(
        inside(diversity_given_largest_atom),
        [(diversity(p).c_k, cells, delta) for p, cells, delta in random_laws()],
        broken={
            "narrower above": inside(narrower_above),
            "without remainder": inside(without_remainder),
        },
    )


def test_both_ends_are_reached():
    for cells, delta in ((3, 0.5), (5, 0.3), (10, 0.15), (4, 0.9)):
        low, high = diversity_given_largest_atom(cells, delta)
        even = [delta] + [(1 - delta) / (cells - 1)] * (cells - 1)
        assert diversity(even).c_k == pytest.approx(high, rel=1e-12)
        fit = math.floor(1 / delta)
        packed = [delta] * fit + [1 - fit * delta]
        assert diversity(packed).c_k == pytest.approx(low, rel=1e-7)
        assert low <= high


def width(cells, delta):
    low, high = diversity_given_largest_atom(cells, delta)
    return high - low


@pytest.mark.parametrize("cells", [3, 5, 10, 100])
def test_the_range_thins_out_above_one_half(cells):
    widths = [width(cells, 0.5 + 0.49 * step / 50) for step in range(51)]
    assert all(a > b for a, b in itertools.pairwise(widths))
    for step in range(50):  # and it is the closed form of the erratum
        delta = 0.5 + 0.49 * step / 50
        form = math.sqrt(1 - delta) * (math.sqrt(cells - 2 + delta) - math.sqrt(delta))
        assert width(cells, delta) == pytest.approx(form, abs=1e-12)


def test_below_one_half_the_range_goes_up_and_down():
    """The comment on A25-L24 (erratum A25-L24.width), and its demonstration by another route."""
    shown = errata()["A25-L24.width"].demonstrate()
    assert shown.printed_value == pytest.approx(width(10, 0.4), abs=1e-12)
    assert shown.true_value == pytest.approx(width(10, 0.34), abs=1e-12)
    assert shown.true_value > shown.printed_value + 0.05
    for m in (2, 3, 4):  # peaks at 1/m
        assert width(10, 1 / m) > max(width(10, 1 / m - 0.01), width(10, 1 / m + 0.01))
    # Laws that attain both ends at both δ, so that the widths are not the lemma's word alone.
    for delta, spread in ((0.4, shown.printed_value), (0.34, shown.true_value)):
        even = diversity([delta, *[(1 - delta) / 9] * 9]).c_k
        packed = diversity([delta, delta, 1 - 2 * delta]).c_k
        assert even - packed == pytest.approx(spread, abs=1e-9)
