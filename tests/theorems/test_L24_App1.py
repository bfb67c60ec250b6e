"""L24-App1: naming one member is eta-MIP with a small eta, and epsilon-PMP for no epsilon.

A uniform member with probability q = n eta: exactly eta/2 at k = n = N/2.  A fixed rule, such as
the smallest member, has n eta/2 instead (erratum).
"""

from fractions import Fraction

from memberbound.games import SubsetGame
from memberbound.subset.finite import finite_bounds, finite_worlds
from oracle import subset
from oracle.claims import assert_exact
from oracle.mechanisms import release_one_record

F = Fraction
ETA = F(1, 20)


def half(eta, n):
    return eta / 2


def times_n(eta, n):
    return n * eta / 2


def etas(mechanism):
    worlds = {n: finite_worlds(mechanism(n * ETA), SubsetGame(2 * n, n)) for n in (2, 3, 4)}
    return [((ETA, n), max(map(w.eta, range(2 * n)))) for n, w in worlds.items()]


def test_exact_eta_is_half_of_the_promise():
    assert_exact(
        half,
        etas(release_one_record),
        broken={"whole": lambda eta, n: eta, "times n": times_n},
    )


def test_a_fixed_rule_leaks_n_times_as_much():
    def smallest(chance):
        return lambda d: {min(d): chance, None: 1 - chance}

    assert_exact(times_n, etas(smallest), broken={"half": half})


def test_no_finite_epsilon():
    for n in (2, 3, 4):
        game = SubsetGame(2 * n, n)
        assert finite_bounds(release_one_record(n * ETA), game).pmp_epsilon_upper == float("inf")
        # PMP does detect it: the leak is entirely in delta, at every epsilon.
        for g in (F(1), F(10**9)):
            assert subset.pmp_delta(release_one_record(n * ETA), 2 * n, n, g) == ETA
