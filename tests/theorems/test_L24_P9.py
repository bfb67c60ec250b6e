"""L24-P9 (erratum): ε̃ of the exponential mechanism is the largest |ln(in/out)|, both signs.

Losses are whole numbers and e^(-rate) = 1/2, so all probabilities are rational and the oracle sums
them over every subset in Fractions.
"""

import math
from fractions import Fraction
from random import Random

import pytest

from memberbound.subset.enumeration import exact_bounds, subset_laws
from oracle import exponential, subset

#: ln 2 is no double: ε is off by a unit in the last place, and so is everything that follows.
ROUNDING = 1e-12


def instances():
    rng = Random(9)
    for size in (1, 2, 3, 3, 4, 5, 3, 3):
        records = rng.choice([5, 6, 7]) if size < 5 else 7
        width = rng.randint(2, 4)
        yield [[rng.randint(0, 3) for _ in range(width)] for _ in range(records)], size


def true_ratios(losses, size, record):
    """In/out of every outcome, in Fractions."""
    inside, outside = subset.world_laws(exponential.halving(losses), len(losses), size, record)
    return [inside[w] / outside[w] for w in inside]


def two_sided(ratios):
    return max(max(r, 1 / r) for r in ratios)


def test_every_record_s_epsilon_is_the_two_sided_maximum():
    for losses, size in instances():
        result = exact_bounds(exponential.halving_mechanism(losses, size))
        for record, value in enumerate(result.pmp_epsilon):
            truth = math.log(two_sided(true_ratios(losses, size, record)))
            assert truth - 1e-15 <= value <= truth + ROUNDING


def test_the_printed_one_sided_value_is_too_small():
    """Four records, two train; w1 costs 1 if record 0 trains, w2 nothing: 4/3 printed, 3/2 true."""
    losses = [[1, 0], [0, 0], [0, 0], [0, 0]]
    ratios = true_ratios(losses, 2, 0)
    printed, needed = max(ratios), two_sided(ratios)
    assert (printed, needed) == (Fraction(4, 3), Fraction(3, 2))
    # The definition fails at the printed value: out(w1) > 4/3·in(w1).
    inside, outside = subset.world_laws(exponential.halving(losses), 4, 2, 0)
    assert outside[0] > printed * inside[0]
    mechanism = exponential.halving_mechanism(losses, 2)
    assert math.exp(exact_bounds(mechanism).pmp_epsilon_upper) == pytest.approx(1.5, abs=ROUNDING)
    one_sided = math.exp(subset_laws(mechanism).ratio.max())
    assert one_sided == pytest.approx(4 / 3, abs=ROUNDING)
