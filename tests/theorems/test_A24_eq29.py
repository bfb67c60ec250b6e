"""A24-eq29 (A23-eq27): De Moivre's closed form of the worst leak at γ = 1.

Truth: enumeration of the i.i.d. game with the histogram released.
"""

from fractions import Fraction
from math import comb, floor

from memberbound.iid.worst_case import leak_of_law
from oracle import iid

F = Fraction
# Dyadic, so that the doubles are these numbers; some n·p_k are whole.
LAWS = [
    [F(1, 2), F(1, 2)],
    [F(1, 4)] * 4,
    [F(1, 8), F(3, 8), F(1, 2)],
    [F(63, 64), F(1, 64)],
]
SIZES = [1, 2, 3, 4, 7]


def closed_form(p, n):
    total = F(0)
    for x in p:
        m = floor(n * x)
        total += (m + 1) * comb(n, m + 1) * x ** (m + 1) * (1 - x) ** (n - m)
    return total / n


def rounded_to_nearest(p, n):
    total = F(0)
    for x in p:
        m = min(round(n * x), n)
        total += (m + 1) * comb(n, m + 1) * x ** (m + 1) * (1 - x) ** (n - m)
    return total / n


def not_divided(p, n):
    return closed_form(p, n) * n


def violations(form):
    bad = []
    for p in LAWS:
        for n in SIZES:
            pair = iid.joint_laws(p, n, iid.injective(n, len(p)))
            if form(p, n) != iid.leakage(pair, F(1)):
                bad.append((p, n))
    return bad


def test_closed_form_is_the_leak_of_the_histogram():
    assert violations(closed_form) == []


def test_broken_forms_are_caught():
    assert violations(rounded_to_nearest)
    assert violations(not_divided)


def test_the_code_returns_it_from_above():
    for p in LAWS:
        for n in [*SIZES, 50, 1000]:
            truth = closed_form(p, n)
            value = F(leak_of_law([float(x) for x in p], n))
            assert truth <= value <= truth * (1 + F(1, 10**10))
