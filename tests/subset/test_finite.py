"""Any finite mechanism against the exact oracle, which shares no code with it.

Truth: tests/oracle/subset.py, rationals throughout.  Soundness is compared without tolerance.
"""

import dataclasses
import math
from fractions import Fraction
from functools import partial

import pytest

from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.subset.finite import SUBSET_LIMIT, finite_bounds, finite_worlds
from oracle import finite, mechanisms, subset
from oracle.readoffs import QUICK, faults
from oracle.real import exp_bracket

F = Fraction
TIGHT = 1e-12
GAMMAS = [F(1), F(5, 4), F(7, 2)]
DELTAS = [0.0, 1e-6, 0.05, 0.3, 1.0]


def kernels(seed=4, count=8, *, zeros=True):
    """(table of laws, N, k), any k."""
    return mechanisms.random_games(seed, count, zeros=zeros)


def find_violations(kernel, size, k, bounds_of):
    """Return the quantities that fall below the truth for some record and δ."""
    bad = set()
    for delta in DELTAS:
        bounds = bounds_of(delta)
        for x in range(size):
            pair = subset.world_laws(kernel, size, k, x)
            if F(bounds.success[x]) < subset.best_accuracy(kernel, size, k, x):
                bad.add("success")
            if F(bounds.eta[x]) < subset.eta_of_record(kernel, size, k, x):
                bad.add("eta")
            eps = bounds.pmp_epsilon[x]
            if math.isfinite(eps) and finite.delta(*pair, exp_bracket(eps)[0]) > F(delta):
                bad.add("epsilon")
    return bad


def test_exact_answers_equal_the_oracle():
    for kernel, size, k in kernels():
        worlds = finite_worlds(kernel.__getitem__, SubsetGame(size, k))
        for x in range(size):
            pair = subset.world_laws(kernel, size, k, x)
            assert worlds.ratio(x) == finite.max_ratio(*pair)
            assert worlds.success(x) == subset.best_accuracy_by_rules(kernel, size, k, x)
            assert worlds.eta(x) == subset.eta_of_record(kernel, size, k, x)
            for g in GAMMAS:
                assert worlds.delta(x, g) == max(
                    finite.hockey_stick_by_events(*pair, g),
                    finite.hockey_stick_by_events(*pair[::-1], g),
                )


def test_curves_are_the_pairs():
    for kernel, size, k in kernels(seed=5, count=4):
        exact = finite_worlds(kernel.__getitem__, SubsetGame(size, k))
        for x in range(size):
            pair = finite.masses(*subset.world_laws(kernel, size, k, x))
            assert faults(exact.curve(x), pair, 1e-11, QUICK) == []


def test_bounds_hold():
    for kernel, size, k in kernels(seed=6):
        bounds_of = partial(finite_bounds, kernel.__getitem__, SubsetGame(size, k))
        assert not find_violations(kernel, size, k, lambda delta, f=bounds_of: f(delta=delta))


def test_bounds_are_tight():
    for kernel, size, k in kernels(seed=7, count=8, zeros=False):
        bounds = finite_bounds(kernel.__getitem__, SubsetGame(size, k))
        for x in range(size):
            truth = math.log(finite.max_ratio(*subset.world_laws(kernel, size, k, x)))
            assert bounds.pmp_epsilon[x] <= truth + TIGHT
            assert bounds.success[x] <= float(subset.best_accuracy(kernel, size, k, x)) + TIGHT


def test_bounds_a_billionth_too_small_are_caught():
    def lower(mechanism, game, delta):
        bounds = finite_bounds(mechanism, game, delta=delta)
        less = {f: getattr(bounds, f) * (1 - 1e-9) for f in ("pmp_epsilon", "success")}
        return dataclasses.replace(bounds, **less)

    caught = set()
    for kernel, size, k in kernels(seed=6):
        caught |= find_violations(
            kernel, size, k, partial(lower, kernel.__getitem__, SubsetGame(size, k))
        )
    assert caught == {"success", "eta", "epsilon"}


@pytest.mark.parametrize(
    ("law", "says"),
    [
        ({0: F(1, 2), 1: F(1, 3)}, "add up to 1"),
        ({}, "add up to 1"),
        ({0: F(3, 2), 1: F(-1, 2)}, "at least 0"),
        ({0: 0.5, 1: 0.5}, "fractions"),
        ({0: "1"}, "fractions"),
    ],
)
def test_invalid_laws_are_refused(law, says):
    with pytest.raises(InputError, match=says):
        finite_bounds(lambda d: law, SubsetGame(4, 2))


def test_too_many_subsets_are_refused_before_any_is_listed():
    def never(d):
        raise AssertionError("listed")

    with pytest.raises(InputError, match=f"at most {SUBSET_LIMIT}"):
        finite_bounds(never, SubsetGame(22, 11))
    assert math.comb(20, 10) <= SUBSET_LIMIT < math.comb(21, 10)
