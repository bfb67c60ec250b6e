"""A25-eq47: the exact form of the mean deviations, for any γ.

Truth: the deviations by their meaning, E|B/n - γp|, in rationals.
"""

import math
from fractions import Fraction

from oracle import iid
from oracle.claims import assert_exact

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
