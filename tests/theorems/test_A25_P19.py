"""A25-P19: the classifier on the sphere; Beta tail by mpmath, event by simulation."""

import math
from functools import cache

import mpmath
import numpy as np
import pytest

from memberbound.errors import InputError
from oracle.printed_examples import (
    most_records_printed,
    sphere_ceiling,
    sphere_ceiling_printed,
)

CASES = [(100, 2), (100, 3), (1000, 3), (1000, 5), (10**4, 5), (10**4, 10), (10**5, 20)]


@cache
def union_bound(s, n):
    """C(n,2)·P(cos² > t²), as an integral of the density of a cosine, to 30 digits."""
    with mpmath.workdps(30):
        cosine = (mpmath.mpf(s + 1) / (3 * n) - 1) / s
        weight = mpmath.gamma(mpmath.mpf(s) / 2) / (
            mpmath.sqrt(mpmath.pi) * mpmath.gamma(mpmath.mpf(s - 1) / 2)
        )
        width = 30 / mpmath.sqrt(s)
        steps = [min(1, cosine + k * width / 40) for k in range(41)]
        tail = 2 * weight * mpmath.quad(lambda c: (1 - c * c) ** (mpmath.mpf(s - 3) / 2), steps)
        return math.comb(n, 2) * tail


def missed(factor=1.0):
    return [(s, n) for s, n in CASES if sphere_ceiling(s, n).value * factor < union_bound(s, n)]


def test_never_below_the_union_bound_and_near_it():
    assert missed() == []
    for s, n in CASES:
        assert sphere_ceiling(s, n).value <= union_bound(s, n) * (1 + 1e-7)


def test_a_one_sided_tail_is_caught():
    assert missed(0.5) == CASES


def test_event_of_the_theorem_by_simulation():
    """P(no pair beyond the limit) ≥ 1 - bound; 4 standard errors: false alarms below 1e-4."""
    s, n, draws = 100, 2, 20_000
    rng = np.random.default_rng(19)
    x, y = rng.standard_normal((2, draws, s))
    cosine = (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
    share = np.mean(np.abs(cosine) * s > (s + 1) / (3 * n) - 1)
    bound = sphere_ceiling(s, n).value
    assert abs(share - bound) < 4 * math.sqrt(bound / draws)


def test_printed_form_is_vacuous_up_to_e_to_the_12():
    edge = math.floor(math.exp(12))
    assert edge == 162_754
    assert sphere_ceiling_printed(edge, 1).value == 1.0
    assert sphere_ceiling_printed(edge + 1, 1).value < 1.0


@pytest.mark.parametrize("s", [10**3, 10**4, 10**5, 10**6, 10**7])
def test_exact_tail_is_never_worse_than_the_printed_form(s):
    n = most_records_printed(s)
    assert n <= (s + 1) / (3 * (math.sqrt(s) * math.log(s) + 1)) < n + 1
    assert sphere_ceiling(s, max(n, 2)).value <= sphere_ceiling_printed(s, n or 1).value


def test_limits_and_gamma():
    assert sphere_ceiling(1000, 1).value == 0.0
    assert sphere_ceiling(1000, 400).value == 1.0
    third = sphere_ceiling(1000, 3, nu=0.25)  # γ = 1/3
    assert third.value == pytest.approx(3 * sphere_ceiling(1000, 3).value)
    assert sphere_ceiling(1000, 3, nu=0.75).value == sphere_ceiling(1000, 3).value
    assert (third.direction, third.theorems) == ("upper", ("A25-P19",))


def test_never_zero_where_the_tail_underflows():
    assert sphere_ceiling(10**6, 2).value > 0
    assert sphere_ceiling(10**6, 5).value < 1e-300


def test_refusals():
    with pytest.raises(InputError, match="n must be at most 24"):
        sphere_ceiling_printed(10**6, 25)
    with pytest.raises(InputError, match="dimension"):
        sphere_ceiling(1, 2)
