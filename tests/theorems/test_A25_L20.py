"""A25-L20: with C_K = ∞ the worst leak still tends to 0, as slowly as one likes."""

import math
from itertools import pairwise

import numpy as np
import pytest

from memberbound.iid.worst_case import diversity, leak_of_law
from oracle.claims import assert_holds


def zipf_two(head):
    """p_k = 6/(πk)²: C_K = Σ√p_k diverges like Σ1/k.  Returns a head and the mass of the tail."""
    k = np.arange(1, head + 1)
    p = 6 / (math.pi * k) ** 2
    return p, 1 - math.fsum(p.tolist())


def bracket(n, head=500_000):
    """[lower, upper] for the worst leak: every share of the tail lies between 0 and its mass."""
    p, tail = zipf_two(head)
    shown = leak_of_law(np.append(p, tail), n)  # the tail in one atom, then corrected
    alone = leak_of_law([tail, 1 - tail], n) / 2
    return shown - alone * (1 + 1e-9), shown - alone + tail


def test_tends_to_zero_although_c_k_is_infinite():
    values = [bracket(n) for n in (10, 1000, 100_000)]
    assert all(low <= high for low, high in values)
    assert all(b[1] < a[0] for a, b in pairwise(values))
    assert values[-1][1] < 0.01
    # C_K itself grows without bound, by about √6/π·ln 10 per decade of atoms.
    c = []
    for head in (10**4, 10**5):
        p, tail = zipf_two(head)
        c.append(diversity([*p, tail]).c_k - math.sqrt(tail * (1 - tail)))
    assert 0.95 < (c[1] - c[0]) / (math.sqrt(6) / math.pi * math.log(10)) < 1.05


SCHEDULE = [(10, 0.9), (10**3, 0.8), (10**6, 0.7), (10**9, 0.6), (10**12, 0.5)]


def slow_law(schedule):
    """A law (probabilities, atoms of each) whose worst leak at each n_i is at least ε_i.

    The mass ε_i - ε_{i+1} is spread over so many atoms that n_i records hardly ever meet one twice.
    A block of mass w on K > n atoms leaks w(1 - w/K)ⁿ ≥ w(1 - n/K).  Blocks i, i+1, … have mass
    s_i > ε_i together, so K_j ≥ n_i·s_i/(s_i - ε_i) for all j ≥ i keeps ε_i (twice that is used).
    """
    leaks = [leak for _, leak in schedule]
    aims = [1.0, *((a + b) / 2 for a, b in pairwise(leaks))]
    masses = [a - b for a, b in zip(aims, [*aims[1:], 0.0], strict=True)]
    cells, needed = [], 1.0
    for (n, leak), aim in zip(schedule, aims, strict=True):
        needed = max(needed, 2.0 * n * aim / (aim - leak))
        cells.append(math.ceil(needed))
    return np.array(masses) / cells, np.array(cells, dtype=float)


def keeps(p, cells):
    """Whether the worst leak of the law is at least what the schedule says."""
    return lambda n, leak: leak_of_law(p, n, multiplicity=cells) >= leak


@pytest.mark.parametrize("schedule", [SCHEDULE, [(10**k, 1 / (1 + k)) for k in range(1, 13)]])
def test_any_schedule_can_be_kept(schedule):
    p, cells = slow_law(schedule)
    fewer = np.maximum(np.floor(cells / 1000), 1)
    assert_holds(
        keeps(p, cells), schedule, broken={"too few atoms": keeps(p * cells / fewer, fewer)}
    )


def test_no_uniform_constant_over_the_square_root():
    """The same law beats c/√n for any fixed c long after small n."""
    p, cells = slow_law(SCHEDULE)
    ratios = [leak_of_law(p, n, multiplicity=cells) * math.sqrt(n) for n, _ in SCHEDULE]
    assert ratios == sorted(ratios)
    assert ratios[-1] > 1e5
