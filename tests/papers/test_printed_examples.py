"""Given learners: their leak against enumeration of the two worlds, and the symmetry checks."""

import functools
import operator
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.iid.worst_case import leak_of_law
from oracle import iid, mechanisms
from oracle.printed_examples import (
    is_function_of_frequencies,
    is_redundancy_invariant,
    is_symmetric,
    leak_of_learner,
)

F = Fraction
PRIORS = ((F(1, 2), F(1)), (F(1, 4), F(1)), (F(2, 3), F(3, 2)), (F(9, 10), F(1, 4)))


def instances(seed=1, count=12):
    rng = Random(seed)
    for _ in range(count):
        atoms = rng.randint(2, 4)
        n = rng.randint(1, 5 if atoms < 4 else 3)
        p = mechanisms.random_iid_law(rng, atoms)
        yield p, n, mechanisms.random_merge(rng, n, atoms, rng.randint(1, 5))


def mismatches(formula):
    bad = []
    for p, n, release in instances():
        pair = iid.joint_laws(p, n, release)
        for nu, lam in PRIORS:
            if formula(release.__getitem__, p, n, nu, lam) != iid.leakage(pair, iid.gamma(nu, lam)):
                bad.append((p, n, nu, lam))
    return bad


def test_exact_leak_agrees_with_the_two_worlds():
    assert mismatches(leak_of_learner) == []


def test_broken_variants_are_caught():
    assert mismatches(lambda f, p, n, nu, lam: leak_of_learner(f, p, n))
    assert mismatches(lambda f, p, n, nu, lam: leak_of_learner(f, p, n, 1 - nu, lam))
    assert mismatches(lambda f, p, n, nu, lam: leak_of_learner(lambda h: h, p, n, nu, lam))


def test_doubles_come_from_above():
    for p, n, release in instances(2):
        for nu, lam in PRIORS:
            exact = leak_of_learner(release.__getitem__, p, n, nu, lam)
            value = leak_of_learner(
                release.__getitem__, [float(x) for x in p], n, float(nu), float(lam)
            )
            assert isinstance(value, float)
            assert exact <= F(value) <= exact + F(1, 10**11)


def test_worst_learner_is_the_histogram():
    p, n = [F(1, 4), F(1, 4), F(1, 2)], 6
    full = leak_of_learner(lambda h: h, p, n)
    assert full <= F(leak_of_law([float(x) for x in p], n)) <= full * (1 + F(1, 10**10))
    assert leak_of_learner(lambda h: 0, p, n) == 0
    assert leak_of_learner(lambda h: h[0] > h[1], p, n) < full


def test_maximum_of_bernoulli_records():
    """A24-L5.6: 2p(1-p)ⁿ."""
    for p in (F(1, 3), F(1, 10)):
        for n in (1, 4, 9):
            assert leak_of_learner(lambda h: h[1] > 0, [1 - p, p], n) == 2 * p * (1 - p) ** n


def test_zero_probabilities_and_larger_sizes():
    assert leak_of_learner(lambda h: h, [0.5, 0.5, 0.0], 3) == pytest.approx(
        leak_of_law([0.5, 0.5], 3), abs=1e-12
    )
    assert leak_of_learner(lambda h: h, [0.25, 0.75], 2000) == pytest.approx(
        leak_of_law([0.25, 0.75], 2000), abs=1e-9
    )


def test_bad_input_is_refused():
    for call in (
        lambda: leak_of_learner(len, [0.1] * 10, 50),
        lambda: leak_of_learner(len, [0.5, 0.4], 3),
        lambda: leak_of_learner(len, [F(1, 2), F(1, 2) - F(1, 10**12)], 3),
        lambda: leak_of_learner(len, [0.5, 0.5], 0),
        lambda: leak_of_learner(len, [0.5, 0.5], 3, nu=1),
        lambda: is_function_of_frequencies(len, "abcdefghij", 9),
        lambda: is_redundancy_invariant(len, [[1]], repeats=(0,)),
    ):
        with pytest.raises(InputError):
            call()


def test_float_sums_need_a_tolerance():
    data = [[0.1, 0.2, 0.3], [1e16, 1.0, -1e16]]

    def added(numbers):
        # One after the other: since Python 3.12 the built-in sum makes up for what is rounded off.
        return functools.reduce(operator.add, numbers)

    assert not is_symmetric(added, data)
    assert is_symmetric(added, data[:1], equal=np.allclose)


def test_array_releases_and_large_samples():
    rng = np.random.default_rng(3)
    samples = [rng.integers(0, 5, 40).tolist()]
    check = is_symmetric(lambda d: np.bincount(d, minlength=5), samples)
    assert check
    assert not check.exhaustive
    assert check.cases == 50
    failed = is_symmetric(lambda d: np.array(d[:2]), samples)
    assert not failed
    assert sorted(failed.first) == sorted(failed.second)
    assert tuple(failed.first[:2]) != tuple(failed.second[:2])


def test_checks_on_small_samples_are_exhaustive():
    # Only one order in 720 is wrong: random orders would miss it, the full list does not.
    hidden = (6, 5, 4, 3, 2, 1)
    check = is_symmetric(lambda d: d == hidden, [(1, 2, 3, 4, 5, 6)])
    assert check.second == hidden
    assert check.exhaustive
