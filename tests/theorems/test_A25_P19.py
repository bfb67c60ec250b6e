"""A25-P19: the classifier on the sphere; Beta tail by mpmath, event by simulation."""

import math
from functools import cache

import mpmath
import numpy as np
import pytest
from scipy import special

from oracle.claims import assert_bound

#: Relative error granted to scipy's regularised incomplete beta function.
SLACK = 1e-8
CASES = [(100, 2), (100, 3), (1000, 3), (1000, 5), (10**4, 5), (10**4, 10), (10**5, 20)]


def sphere_ceiling(s, n, gamma=1.0):
    """MIS ≤ max(1, 1/γ)·P(max |x_iᵀx_j| > (s+1)/(3n) - 1) for i ≠ j, by a union bound over pairs.

    The squared cosine of two uniform directions has the law Beta(½, (s-1)/2).
    """
    if n == 1:
        return 0.0
    cosine = ((s + 1) / (3 * n) - 1) / s
    if cosine <= 0:
        return 1.0
    tail = special.betaincc(0.5, (s - 1) / 2, cosine**2) * (1 + SLACK)
    return min(1.0, max(1.0, 1 / gamma) * math.comb(n, 2) * max(float(tail), 5e-324))


def most_records_printed(s):
    return math.floor((s + 1) / (3 * (math.sqrt(s) * math.log(s) + 1)))


def sphere_ceiling_printed(s):
    """s^{3 - ln(s)/4} for n ≤ (s+1)/(3(√s·ln s + 1)) at γ = 1, or 1 where that is more."""
    return min(1.0, math.exp((3 - math.log(s) / 4) * math.log(s)))


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


def test_never_below_the_union_bound_and_near_it():
    assert_bound(
        sphere_ceiling,
        ((case, union_bound(*case)) for case in CASES),
        broken={"one-sided tail": lambda s, n: sphere_ceiling(s, n) / 2},
        excess=1e-7,
    )


def test_event_of_the_theorem_by_simulation():
    """P(no pair beyond the limit) ≥ 1 - bound; 4 standard errors: false alarms below 1e-4."""
    s, n, draws = 100, 2, 20_000
    rng = np.random.default_rng(19)
    x, y = rng.standard_normal((2, draws, s))
    cosine = (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
    share = np.mean(np.abs(cosine) * s > (s + 1) / (3 * n) - 1)
    bound = sphere_ceiling(s, n)
    assert abs(share - bound) < 4 * math.sqrt(bound / draws)


def test_printed_form_is_vacuous_up_to_e_to_the_12():
    edge = math.floor(math.exp(12))
    assert edge == 162_754
    assert sphere_ceiling_printed(edge) == 1.0
    assert sphere_ceiling_printed(edge + 1) < 1.0


@pytest.mark.parametrize("s", [10**3, 10**4, 10**5, 10**6, 10**7])
def test_exact_tail_is_never_worse_than_the_printed_form(s):
    n = most_records_printed(s)
    assert sphere_ceiling(s, max(n, 2)) <= sphere_ceiling_printed(s)


def test_limits_and_gamma():
    assert sphere_ceiling(1000, 1) == 0.0
    assert sphere_ceiling(1000, 400) == 1.0
    assert sphere_ceiling(1000, 3, gamma=1 / 3) == pytest.approx(3 * sphere_ceiling(1000, 3))
    assert sphere_ceiling(1000, 3, gamma=3) == sphere_ceiling(1000, 3)
    assert 0 < sphere_ceiling(10**6, 5) < 1e-300  # the tail underflows; it is not zero
