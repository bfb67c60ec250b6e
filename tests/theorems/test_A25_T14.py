"""A25-T14 (A24-T5.4 at gamma = 1): the leak of the worst learner on a discrete law.

Truth: enumeration of the i.i.d. game.  Injective releases reach it, no release exceeds it.
"""

from fractions import Fraction
from random import Random

from memberbound.iid.worst_case import leak_of_law, leak_of_uniform
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


#: λ at ν = ½, so that γ = 1/λ; dyadic, as the atoms are, so that the doubles are these numbers.
WEIGHTS = [4.0, 2.0, 1.0, 0.5, 0.25]
DYADIC = [
    [F(1, 2), F(1, 2)],
    [F(1, 8), F(3, 8), F(1, 2)],
    [F(1, 64), F(15, 64), F(1, 4), F(1, 2)],
]


def test_the_code_is_the_closed_form_from_above():
    """``leak_of_law`` and ``leak_of_uniform`` against the worst learner, at every price."""

    def of_law(law, n, lam):
        return F(leak_of_law([float(p) for p in law], n, 0.5, lam))

    def of_uniform(law, n, lam):
        return F(leak_of_uniform(len(law), n, 0.5, lam))

    uniform = [[F(1, atoms)] * atoms for atoms in (2, 4, 20, 64)]
    for code, laws_ in ((of_law, DYADIC), (of_uniform, uniform)):
        truth = [
            ((law, n, lam), iid.worst_leak(law, n, 1 / F(lam)))
            for law in laws_
            for n in (1, 3, 10)
            for lam in WEIGHTS
        ]
        assert_bound(
            code,
            [case for case in truth if case[1] > 0],
            broken={
                "halved": lambda *at, code=code: code(*at) / 2,
                "a little less": lambda *at, code=code: code(*at) * (1 - F(1, 10**8)),
                "without the price": lambda law, n, lam, code=code: code(law, n, 4.0),
            },
            excess=F(1, 10**9),
        )
        assert all(code(*at) < F(1, 10**12) for at, value in truth if value == 0)
