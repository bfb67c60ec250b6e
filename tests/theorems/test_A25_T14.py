"""A25-T14 (A24-T5.4 at gamma = 1): the leak of the worst learner on a discrete law.

Truth: enumeration of the i.i.d. game.  Injective releases reach it, no release exceeds it.
"""

from fractions import Fraction
from random import Random

from oracle import iid, mechanisms
from oracle.claims import assert_bound, assert_exact

F = Fraction
GAMMAS = [F(1, 5), F(1, 2), F(6, 7), F(1), F(5, 4), F(2), F(7, 2)]


def spread(p, n, gamma):
    return sum(iid.mean_deviation(n, x, gamma) for x in p)


def laws():
    rng = Random(1414)
    for _ in range(16):
        atoms = rng.randint(2, 4)
        yield mechanisms.random_iid_law(rng, atoms), rng.randint(1, 5 if atoms < 4 else 3)


def test_closed_form_is_reached_and_never_exceeded():
    rng = Random(1415)
    reached, exceeded = [], []
    for p, n in laws():
        injective = iid.joint_laws(p, n, iid.injective(n, len(p)))
        others = [
            iid.joint_laws(p, n, make(rng, n, len(p), rng.randint(2, 5)))
            for make in (mechanisms.random_merge, mechanisms.random_release)
        ]
        for gamma in GAMMAS:
            reached.append(((p, n, gamma), iid.leakage(injective, gamma)))
            exceeded += [((p, n, gamma), iid.leakage(pair, gamma)) for pair in others]
    assert_exact(
        iid.worst_leak,
        reached,
        broken={
            "without offset": lambda p, n, g: max(F(1), g) * spread(p, n, g) / (2 * g),
            "without division": lambda p, n, g: (
                max(F(1), g) * (spread(p, n, g) - abs(1 - 1 / g)) / 2
            ),
        },
    )
    assert_bound(
        iid.worst_leak, exceeded, broken={"halved": lambda p, n, g: iid.worst_leak(p, n, g) / 2}
    )


def test_limits():
    # one record, many equal atoms: 1 - 1/K; a certain atom leaks nothing
    for atoms in (2, 10, 1000):
        assert iid.worst_leak([F(1, atoms)] * atoms, 1, F(1)) == 1 - F(1, atoms)
    assert iid.worst_leak([F(1)], 7, F(1)) == 0
    # more records leak less about each
    p = [F(1, 3)] * 3
    values = [iid.worst_leak(p, n, F(1)) for n in (1, 4, 16, 64)]
    assert values == sorted(values, reverse=True)
    assert all(0 <= iid.worst_leak(p, n, g) <= 1 for n in (1, 5) for g in GAMMAS)
