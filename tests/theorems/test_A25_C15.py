"""A25-C15: 0.29·C/√n ≤ worst leak ≤ 0.44·C/√n for n ≥ 5 and n·p_k > 1."""

import math
from random import Random

import numpy as np

from memberbound.iid.worst_case import diversity, leak_from_diversity, leak_of_law
from memberbound.numerics.binomial import half_deviation_upper
from oracle.claims import assert_bound, assert_holds


def laws(seed=15, count=150):
    rng = Random(seed)
    for _ in range(count):
        cells = rng.randint(1, 30)
        weights = np.array([rng.random() ** rng.choice([1, 1, 6]) + 1e-9 for _ in range(cells)])
        p = weights / weights.sum()
        just_enough = max(5, math.floor(1 / p.min()) + 1)
        yield p, rng.choice([1, 2, 4, 5, 6, 17, 100, 10**5, *[just_enough] * 8, 2 * just_enough])


def between(p, n, worst, lower=0.29, upper=0.44):
    """Return whether the worst leak is in the interval, for n ≥ 5 and n·p_k > 1."""
    unit = diversity(p).c_k / math.sqrt(n)
    return lower * unit <= worst * (1 + 1e-9) and worst <= upper * unit * (1 + 1e-9)


def test_between():
    cases = [(p, n) for p, n in laws() if n >= 5 and n * p.min() > 1]
    assert len(cases) > 40
    assert_holds(
        between,
        [(p, n, leak_of_law(p, n)) for p, n in cases],
        broken={
            "lower": lambda *case: between(*case, lower=0.42),
            "upper": lambda *case: between(*case, upper=0.37),
        },
    )


def test_the_bound_for_every_law():
    """First part: at most C/(2√n), without a condition on n or the atoms."""

    def bound(p, n):
        return leak_from_diversity(diversity(p).c_k * (1 + 1e-12), n)

    assert_bound(
        bound,
        (((p, n), leak_of_law(p, n) * (1 - 1e-9)) for p, n in laws()),
        broken={"a sixth less": lambda p, n: bound(p, n) * 5 / 6},
    )


def test_measured_range_of_the_ratio_per_atom():
    """Theory: over 5 ≤ n < 400 the ratio of one atom is in [0.366, 0.422]."""
    ratios = []
    for n in (5, 6, 7, 10, 33, 399):
        p = np.linspace(1 / n, 1 - 1 / n, 2001)[1:-1]
        ratios += (half_deviation_upper(n, p) * math.sqrt(n) / np.sqrt(p * (1 - p))).tolist()
    assert 0.365 < min(ratios) < 0.37
    assert 0.41 < max(ratios) < 0.4225


def test_the_condition_on_rare_atoms_is_needed():
    """np_k = 1/10: the constant 0.29 fails from below."""
    p, n = [1e-3] * 1000, 100
    assert leak_of_law(p, n) < 0.29 * diversity(p).c_k / math.sqrt(n)
