"""A24-eq29 (A23-eq27): De Moivre's closed form of the worst leak at γ = 1.

Truth: enumeration of the i.i.d. game with the histogram released.
"""

from fractions import Fraction
from math import floor

from memberbound.iid.worst_case import leak_of_law
from oracle import iid
from oracle.claims import assert_exact

F = Fraction
# Dyadic, so that the doubles are these numbers; some n·p_k are whole.
LAWS = [
    [F(1, 2), F(1, 2)],
    [F(1, 4)] * 4,
    [F(1, 8), F(3, 8), F(1, 2)],
    [F(63, 64), F(1, 64)],
]
SIZES = [1, 2, 3, 4, 7]


def closed_form(p, n, whole=floor):
    """``whole`` makes n·p_k an integer."""
    return sum(iid.de_moivre(n, min(whole(n * x), n), x) for x in p) / n


def test_closed_form_is_the_leak_of_the_histogram():
    assert_exact(
        closed_form,
        (
            ((p, n), iid.leakage(iid.joint_laws(p, n, iid.injective(n, len(p))), F(1)))
            for p in LAWS
            for n in SIZES
        ),
        broken={
            "rounded to nearest": lambda p, n: closed_form(p, n, round),
            "not divided": lambda p, n: closed_form(p, n) * n,
        },
    )


def test_the_code_returns_it_from_above():
    for p in LAWS:
        for n in [*SIZES, 50, 1000]:
            truth = closed_form(p, n)
            value = F(leak_of_law([float(x) for x in p], n))
            assert truth <= value <= truth * (1 + F(1, 10**10))
