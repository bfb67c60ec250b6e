"""The normal law against 80-digit arithmetic, as exact fractions."""

from fractions import Fraction
from functools import cache
from random import Random

import numpy as np

from memberbound.numerics import normal
from memberbound.numerics.normal import (
    gaussian_hockey_stick_of_shifts_upper,
    gaussian_hockey_stick_upper,
    gaussian_tpr_upper,
)
from oracle.real import bracket, gaussian_hockey_stick, gaussian_tpr

F = Fraction
TIGHT = F(1, 10**11)
SMALLEST = 5e-324


def stick(mu, epsilon):
    return float(gaussian_hockey_stick_upper(mu, np.array([epsilon]))[0])


def rate(mu, fpr):
    return float(gaussian_tpr_upper(mu, np.array([fpr]))[0])


def points():
    """(mu, epsilon): a grid, points around the corner mu^2/2, random points, the far tail."""
    for mu in (1e-300, 1e-8, 1e-3, 0.1, 0.2499999, 0.25, 1.0, 5.0, 40.0, 50.0):
        for eps in (0.0, 1e-310, 1e-20, 1e-8, 1e-3, 0.7, 10.0, 100.0, 700.0, 1e5):
            yield mu, eps
    rng = Random(20)
    for _ in range(250):
        mu = 10 ** rng.uniform(-8, 1.7)
        yield mu, rng.uniform(0, mu * (mu / 2 + 38))
        yield mu, mu * mu / 2 * (1 + rng.uniform(-1, 1) * 10 ** rng.uniform(-14, 0))
        yield mu, mu * (mu / 2 + rng.uniform(36, 39))
    for _ in range(60):  # where the rounding of eps/mu - mu/2 is large
        mu = rng.uniform(50, 2000)
        yield mu, mu * (mu / 2 + rng.uniform(-3, 3))


@cache
def truths():
    return [(at, *bracket(gaussian_hockey_stick(*at))) for at in points()]


def low(function, cases):
    """Arguments at which the function is below the truth."""
    return [at for at, least, _ in cases if F(function(*at)) < least]


def test_hockey_stick_is_sound_and_tight():
    assert low(stick, truths()) == []
    for at, _, high in truths():
        if at[0] <= 100 and high > F(1, 10**290):
            assert F(stick(*at)) <= high * (1 + TIGHT), at


def test_plain_formula_is_caught():
    def plain(mu, eps):
        a, b = mu / 2 - eps / mu, -mu / 2 - eps / mu
        with np.errstate(over="ignore", invalid="ignore"):
            value = normal.special.ndtr(a) - np.exp(eps) * normal.special.ndtr(b)
        return float(np.nan_to_num(np.clip(value, 0, 1)))

    assert len(low(plain, truths())) > 100


def test_missing_slack_is_caught():
    assert low(lambda mu, eps: stick(mu, eps) * (1 - 1e-11), truths())


def test_edges():
    assert stick(0.0, 0.0) == stick(0.0, 3.0) == 0.0
    assert stick(1e200, 1e300) == stick(1e308, 0.0) == 1.0
    assert stick(SMALLEST, 0.0) >= SMALLEST
    values = gaussian_hockey_stick_upper(1.0, np.linspace(0, 45, 2000))
    assert np.all(np.diff(values) <= values[:-1] * 1e-12)
    assert np.all((values > 0) & (values <= 1))


def rates():
    rng = Random(21)
    for mu in (1e-12, 1e-3, 0.3, 1.0, 5.0, 40.0):
        for fpr in (SMALLEST, 1e-312, 1e-300, 1e-30, 1e-9, 0.1, 0.4999999, 0.5, 0.7, 1 - 2**-53):
            yield mu, fpr
    for _ in range(80):
        yield 10 ** rng.uniform(-6, 1.6), 10 ** rng.uniform(-320, 0)
        yield 10 ** rng.uniform(-6, 1), rng.random()


@cache
def rate_truths():
    return [(at, *bracket(gaussian_tpr(*at))) for at in rates()]


def test_tpr_is_sound_and_tight():
    assert low(rate, rate_truths()) == []
    for at, _, high in rate_truths():
        assert F(rate(*at)) <= high * (1 + TIGHT) + F(1, 10**300), at


def test_naive_tpr_is_caught():
    def plain(mu, fpr):
        return float(normal.special.ndtr(normal.special.ndtri(fpr) + mu))

    assert len(low(plain, rate_truths())) > 20


def test_tpr_edges():
    value = gaussian_tpr_upper(1.0, np.array([0.0, 1.0]))
    assert value.tolist() == [0.0, 1.0]
    assert gaussian_tpr_upper(0.0, np.array([0.0, 0.3, 1.0])).tolist() == [0.0, 0.3, 1.0]
    assert rate(1e300, 1e-300) == rate(100.0, SMALLEST) == 1.0


def assert_alike(got, one_by_one):
    """Sums may differ in the last digits; without a shift there is nothing at all."""
    assert got[0] == one_by_one[0] == 0.0
    np.testing.assert_allclose(got, one_by_one, rtol=1e-13, atol=0)


def test_several_shifts_are_bounded_one_by_one():
    shifts = np.array([0.0, 1e-300, 1e-9, 0.2, 0.3, 1.0, 7.0, 60.0])
    for epsilon in (0.0, 1e-12, 0.4, 3.0, 50.0, 900.0):
        got = gaussian_hockey_stick_of_shifts_upper(shifts, epsilon)
        assert_alike(got, [stick(mu, epsilon) for mu in shifts.tolist()])
    both = gaussian_hockey_stick_of_shifts_upper(shifts, np.array([0.0, 2.0])[:, None])
    assert_alike(both[0], [stick(mu, 0.0) for mu in shifts.tolist()])
    assert_alike(both[1], [stick(mu, 2.0) for mu in shifts.tolist()])


def test_the_smallest_shifts():
    """TV = mu/sqrt(2 pi) to first order, where half a quantum is lost at every step."""
    for count in range(1, 60):
        exact = F(count) * F(SMALLEST) * F(39894228, 10**8)
        assert exact <= F(stick(count * SMALLEST, 0.0)) <= exact + 6 * F(SMALLEST)


def test_the_bulk_and_the_tail():
    """Points where the density, its exponent, or a difference of large terms rounds most."""
    rng, cases = Random(23), []
    for _ in range(120):
        mu = rng.choice([rng.uniform(0.25, 3), rng.uniform(3, 40), 10 ** rng.uniform(-3, -0.61)])
        for offset in (rng.uniform(0, 3), rng.uniform(3, 12), rng.uniform(12, 37)):
            cases.append((mu, mu * (mu / 2 + offset)))
        cases.append((mu, max(0.0, mu * (mu / 2 - rng.uniform(0, 1)))))
        cases.append((mu, max(0.0, mu * (mu / 2 - rng.uniform(1, mu + 1)))))
        small = 10 ** rng.uniform(-3, -0.61)
        cases.append((small, small * small / 2 * rng.random()))
    known = [(at, *bracket(gaussian_hockey_stick(*at))) for at in cases]
    assert low(stick, known) == []


def test_rates_in_both_tails():
    rng = Random(24)
    cases = [(10 ** rng.uniform(-3, 1), 10 ** rng.uniform(-30, -1)) for _ in range(40)]
    cases += [(rng.uniform(0, 3), 1 - 10 ** rng.uniform(-15, -1)) for _ in range(25)]
    cases += [(rng.uniform(0, 30), 10 ** rng.uniform(-320, -300)) for _ in range(25)]
    known = [(at, *bracket(gaussian_tpr(*at))) for at in cases]
    assert low(rate, known) == []
    assert gaussian_tpr_upper(0.0, np.array([-0.5, 1.5])).tolist() == [0.0, 1.0]


def test_a_difference_of_mills_ratios_that_err_against_each_other(monkeypatch):
    """Each is granted 12 units, which their difference feels several times."""
    plain, signs = normal._mills, []

    def off(x):  # the first is too small, the second too large
        return plain(x) * (1 + signs.pop() * 9 * 2.0**-53)

    rng = Random(25)
    for _ in range(60):
        mu = rng.uniform(0.25, 0.3)
        at = mu, mu * (mu / 2 + rng.uniform(0.05, 1.5))
        least = bracket(gaussian_hockey_stick(*at))[0]
        monkeypatch.setattr(normal, "_mills", off)
        signs[:] = [1, -1]
        found = stick(*at)
        monkeypatch.setattr(normal, "_mills", plain)
        assert least <= F(found) <= least * (1 + TIGHT)
