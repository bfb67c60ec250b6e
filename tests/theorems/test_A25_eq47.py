"""A25-eq47: the exact form of the mean deviations, for any γ.

Truth: the deviations by their meaning, E|B/n - γp|, in rationals.
"""

import math
from fractions import Fraction

from memberbound.numerics.binomial import hockey_stick_upper
from oracle import iid
from oracle.claims import assert_bound, assert_exact

F = Fraction
# Dyadic, so that the doubles are these numbers.
LAWS = [
    [F(1, 2), F(1, 2)],
    [F(1, 8), F(3, 8), F(1, 2)],
    [F(1, 64), F(15, 64), F(1, 4), F(1, 2)],
    [F(31, 32), F(1, 32)],
]
GAMMAS = [F(1, 4), F(3, 4), F(1), F(5, 4), F(2), F(4)]
SIZES = [1, 2, 5, 12]


def eq47(law, n, gamma, scale=None):
    """``scale`` is γ in m = ⌊γnp⌋."""
    total = shares = F(0)
    for p in law:
        m = math.floor((gamma if scale is None else scale) * n * p)
        total += iid.de_moivre(n, m, p)
        shares += p * sum(iid.binomial(n, p)[: m + 1])
    return total / (gamma * n) + (1 - 1 / gamma) * (shares - F(1, 2))


def remainder_dropped(law, n, gamma):
    """A25-L29 as printed: without the tail probabilities."""
    total = sum(iid.de_moivre(n, math.floor(gamma * n * p), p) for p in law)
    return total / (gamma * n) + abs(1 - 1 / gamma) / 2


def test_the_form_is_exact():
    assert_exact(
        eq47,
        (
            ((law, n, g), sum(iid.mean_deviation(n, p, g) for p in law) / (2 * g))
            for law in LAWS
            for n in SIZES
            for g in GAMMAS
        ),
        broken={
            "remainder dropped": remainder_dropped,
            "floor of the mean": lambda law, n, gamma: eq47(law, n, gamma, scale=1),
        },
    )


def test_the_code_is_the_form_without_its_constant():
    """The shares of the atoms, ``hockey_stick_upper``, add up to eq47 less its constant."""

    def shares(law, n, gamma):
        values = hockey_stick_upper(n, [float(p) for p in law], float(gamma))
        return sum(map(F, values.tolist()))

    truth = [
        ((law, n, g), max(F(1), g) * (eq47(law, n, g) - abs(1 - 1 / g) / 2))
        for law in LAWS
        for n in SIZES
        for g in GAMMAS
    ]
    assert_bound(
        shares,
        [case for case in truth if case[1] > 0],
        broken={
            "halved": lambda *at: shares(*at) / 2,
            "without the price": lambda law, n, gamma: shares(law, n, F(4)),
        },
        excess=F(1, 10**9),
    )
    assert all(shares(*at) < F(1, 10**12) for at, value in truth if value == 0)
