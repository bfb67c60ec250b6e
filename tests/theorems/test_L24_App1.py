"""L24-App1: naming one member is eta-MIP with a small eta, and epsilon-PMP for no epsilon.

A uniform member with probability q = n eta: exactly eta/2 at k = n = N/2.  A fixed rule, such as
the smallest member, has n eta/2 instead (erratum).
"""

from fractions import Fraction

from memberbound.games import SubsetGame
from memberbound.subset.finite import exact_eta, exact_pmp_delta, exact_pmp_ratio, finite_bounds
from oracle import mechanisms, subset
from oracle.printed_examples import OneRecord

F = Fraction
ETA = F(1, 20)


def half(eta, n):
    return eta / 2


def whole(eta, n):
    return eta


def times_n(eta, n):
    return n * eta / 2


def smallest(chance):
    return lambda d: {min(d): chance, None: 1 - chance}


def violations(formula, mechanism=OneRecord):
    return [
        n for n in (2, 3, 4)
        if exact_eta(mechanism(n * ETA), SubsetGame(2 * n, n)) != formula(ETA, n)
    ]  # fmt: skip


def test_exact_eta_is_half_of_the_promise():
    assert violations(half) == []


def test_other_formulas_are_caught():
    assert violations(whole)
    assert violations(times_n)


def test_a_fixed_rule_leaks_n_times_as_much():
    assert violations(times_n, smallest) == []
    assert violations(half, smallest)


def test_the_package_agrees_with_the_oracle():
    for n in (2, 3):
        theirs = mechanisms.release_one_record(n * ETA)
        assert exact_eta(OneRecord(n * ETA), SubsetGame(2 * n, n)) == subset.eta(theirs, 2 * n, n)


def test_no_finite_epsilon():
    for n in (2, 3, 4):
        game = SubsetGame(2 * n, n)
        assert exact_pmp_ratio(OneRecord(n * ETA), game) is None
        assert finite_bounds(OneRecord(n * ETA), game).pmp_epsilon_upper == float("inf")
        # What PMP does see: the leak is all in delta, at every epsilon.
        for g in (F(1), F(10**9)):
            assert exact_pmp_delta(OneRecord(n * ETA), game, g) == ETA


def test_silence_is_private():
    assert exact_pmp_ratio(OneRecord(F(0)), SubsetGame(6, 3)) == 1
