"""L24-L6: eps-PMP keeps every attack's success at or below 1/(1 + e^-eps)."""

from fractions import Fraction
from random import Random

from memberbound.dp import success_from_pmp
from oracle import mechanisms, subset
from oracle.real import above_log

F = Fraction


def games():
    rng = Random(6)
    for _ in range(14):
        size = rng.choice([2, 4])
        yield (
            mechanisms.random_mechanism(rng, size, size // 2, rng.randint(2, 4), zeros=False),
            size,
        )
    for truth in (F(1, 2), F(2, 3), F(99, 100)):
        yield mechanisms.randomised_response(truth), 2
    yield mechanisms.sum_mod(6), 6


def success_bound(g):
    return g / (1 + g)


def too_small(g):
    return success_bound((1 + g) / 2)


def linear_guess(g):
    return F(1, 2) + (g - 1) / (4 * g * g)


def violations(formula):
    bad = []
    for kernel, size in games():
        g = subset.pmp_ratio(kernel, size, size // 2)
        for x in range(size):
            if subset.best_accuracy_by_rules(kernel, size, size // 2, x) > formula(g):
                bad.append((size, g, x))
    return bad


def test_success_bound():
    assert violations(success_bound) == []


def test_broken_bounds_are_caught():
    assert violations(too_small)
    assert violations(linear_guess)


def test_reached_by_randomised_response():
    for truth in (F(1, 2), F(2, 3), F(99, 100)):
        rr = mechanisms.randomised_response(truth)
        assert subset.best_accuracy(rr, 2, 1, 0) == truth
        assert success_bound(subset.pmp_ratio(rr, 2, 1)) == truth


def test_limits():
    assert success_bound(F(1)) == F(1, 2)
    assert 1 - success_bound(F(10**9)) < F(1, 10**8)


def test_library_value_is_this_bound_from_above():
    for kernel, size in games():
        g = subset.pmp_ratio(kernel, size, size // 2)
        said = F(success_from_pmp(above_log(g)))
        assert success_bound(g) <= said <= success_bound(g) * (1 + F(1, 10**13))
        for x in range(size):
            assert subset.best_accuracy(kernel, size, size // 2, x) <= said
