"""X11: a pure eps-DP learner leaks at most (e^(eps/2) - sqrt g)^2/(e^eps - 1) in the i.i.d. game.

g = max(gamma, 1/gamma).  With e^eps = a^2 and g = b^2 the bound is rational, (a - b)^2/(a^2 - 1).
Truth: the i.i.d. game enumerated, with random private channels and with subset selection, which
reaches the bound: release a set of d of the K atoms, a^2 times as likely if it holds the record.
"""

import math
from fractions import Fraction
from functools import cache
from itertools import combinations
from random import Random

from memberbound.dp import leak_from_pure_dp
from oracle import iid, mechanisms
from oracle.claims import assert_bound
from oracle.readoffs import price
from oracle.real import above_log

F = Fraction
#: a, b, and K, d with d/K = (a/b - 1)/(a^2 - 1) for gamma = b^2; mirrored for gamma = 1/b^2.
ATTAINED = [
    (F(2), F(1), 3, 1),
    (F(3), F(1), 4, 1),
    (F(2), F(3, 2), 9, 1),
    (F(3, 2), F(1), 5, 2),
    (F(4), F(2), 15, 1),
]


def bound(a, b):
    return max(F(0), a - b) ** 2 / (a**2 - 1)


def neighbour_bound(a, b):
    """X2 at delta = 0, which holds for any pair: too weak to be attained here."""
    return max(F(0), (a**2 - b**2) / (a**2 + 1))


def subset_selection(a, count, size):
    """One record, uniform over ``count`` atoms."""
    sets = [frozenset(s) for s in combinations(range(count), size)]

    def release(h):
        z = h.index(1)
        weights = [a**2 if z in s else F(1) for s in sets]
        return {s: w / sum(weights) for s, w in zip(sets, weights, strict=True)}

    return iid.map_release(1, count, release)


def attaining_games():
    """(pair, gamma, a, b) with the leak equal to the bound, on both sides of gamma = 1."""
    for a, b, count, size in ATTAINED:
        uniform = [F(1, count)] * count
        yield iid.joint_laws(uniform, 1, subset_selection(a, count, size)), b**2, a, b
        # the complement's sets serve the other direction: 1 - d/K = (a^2 - a b)/(a^2 - 1)
        rest = (a**2 - a * b) / (a**2 - 1) * count
        if rest.denominator == 1 and math.comb(count, int(rest)) < 300:
            mirror = subset_selection(a, count, count - int(rest))
            yield iid.joint_laws(uniform, 1, mirror), 1 / b**2, a, b


def private_games():
    """Random a^2-DP channels of one to three records."""
    rng = Random(1111)
    for _ in range(25):
        a = F(rng.randint(5, 16), 4)
        atoms, n = rng.choice([(2, 1), (3, 1), (2, 2), (3, 2), (2, 3)])
        hists = list(iid.histograms(n, atoms))
        laws = mechanisms.random_dp_laws(rng, a**2, rng.randint(2, 4), len(hists))
        p = mechanisms.random_iid_law(rng, atoms)
        pair = iid.joint_laws(p, n, dict(zip(hists, laws, strict=True)))
        for b in (F(1), F(5, 4), F(2)):
            yield pair, b**2, a, b
            yield pair, 1 / b**2, a, b


@cache
def games():
    return [*private_games(), *attaining_games()]


@cache
def leaks():
    return [iid.leakage(pair, gamma) for pair, gamma, *_ in games()]


def test_no_private_channel_exceeds_the_bound():
    truth = [((a, b), leak) for (_, _, a, b), leak in zip(games(), leaks(), strict=True)]
    broken = {
        "too small": lambda a, b: bound(a, b) * F(99, 100),
        "price forgotten": lambda a, b: bound(a, F(1)) / b**2,
    }
    assert_bound(bound, truth, broken)
    assert_bound(neighbour_bound, truth, broken)
    for a, b, *_ in ATTAINED:
        assert bound(a, b) < neighbour_bound(a, b)


def test_library_value_is_never_below_a_private_game():
    """Doubles nu and lambda are read as the rationals they are."""
    pairs = {id(pair): (pair, a) for pair, _, a, _ in games()}
    prices = ((0.5, 1.0), (0.75, 1.0), (0.1, 1.0), (0.3, 0.25))
    assert_bound(
        lambda *at: F(leak_from_pure_dp(*at)),
        (
            ((above_log(a**2), nu, lam), iid.leakage(pair, price(nu, lam)))
            for pair, a in pairs.values()
            for nu, lam in prices
        ),
        broken={"a little less": lambda *at: F(leak_from_pure_dp(*at) * (1 - 1e-12))},
    )


def test_limits():
    assert leak_from_pure_dp(0.0) == 0.0
    assert leak_from_pure_dp(1.0, 0.9) == 0.0  # gamma = 9 > e
    assert leak_from_pure_dp(1e5) == 1.0
    assert bound(F(10**6), F(1)) > F(999998, 10**6)
