"""The mean of normal records: input, limits, and the certified quadrature."""

import math
from fractions import Fraction
from random import Random

import mpmath as mp
import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.iid import gaussian_mean
from memberbound.iid.gaussian_mean import leak_of_gaussian_mean, leak_of_gaussian_mean_bound


def exact(n, d, nu):
    """E(1 - γ/ratio)₊ over the difference of two χ²_d, with a Bessel function as its density."""
    gamma = mp.mpf(nu) / (1 - mp.mpf(nu))
    rho = 1 / mp.sqrt(n)
    order = mp.mpf(d - 1) / 2
    constant = mp.sqrt(mp.pi) * mp.gamma(mp.mpf(d) / 2) * 2 ** mp.mpf(d)

    def density(y):
        y = abs(y)
        if d == 2:
            return mp.exp(-y / 2) / 4
        if d == 4:
            return mp.exp(-y / 2) * (2 + y) / 16
        return y**order * mp.besselk(order, y / 2) / constant

    def ratio(y):
        return (1 - rho**2) ** (-mp.mpf(d) / 2) * mp.exp(rho / 2 * y)

    start = 2 / rho * (mp.log(gamma) + mp.mpf(d) / 2 * mp.log1p(-mp.mpf(1) / n))
    if d == 1 and gamma >= 1:
        return exact_on_a_line(gamma, rho, start)
    if gamma >= 1:
        points = [start, 0] if start < 0 else [start]
        points += [points[-1] + x for x in (1, 5, 20, 60, 200, 500)]
        return mp.quad(lambda y: density(y) * (1 - gamma / ratio(y)), points)
    points = [start, 0] if start > 0 else [start]
    points += [points[-1] - x for x in (1, 5, 20, 60, 200, 500, 1500)]
    return -mp.quad(lambda y: density(y) * (1 / ratio(y) - 1 / gamma), points)


def exact_on_a_line(gamma, rho, start):
    """The same for d = 1, with the density K₀(|y|/2)/2π = ∫exp(-|y|·cosh(t)/2)dt/4π.

    The integral over y is in closed form; that over t decays like e^-t and is analytic for
    |Im t| < π/2, so that a sum with steps of 0.15 has an error of e^-65.
    """
    price = gamma * mp.sqrt(1 - rho**2)

    def over_y(t):
        a = mp.cosh(t) / 2
        if start >= 0:
            ends = mp.exp(-a * start), mp.exp(-(a + rho / 2) * start)
            return ends[0] / a - price * ends[1] / (a + rho / 2)
        low = -mp.expm1(a * start) / a + price * mp.expm1((a - rho / 2) * start) / (a - rho / 2)
        return low + 1 / a - price / (a + rho / 2)

    step = mp.mpf("0.15")
    terms = [over_y(step * k) for k in range(int(2.4 * mp.mp.dps / step))]
    return step * (2 * mp.fsum(terms) - terms[0]) / (4 * mp.pi)


EASY = [(2, 2), (2, 4), (3, 2), (50, 4), (10**6, 2), (10**12, 4)]
HARD = [(2, 1), (50, 1), (50, 3), (1000, 7), (10**12, 1)]
CASES = [
    *((n, d, nu) for n, d in EASY for nu in (0.5, 0.25, 0.48, 0.53, 0.75)),
    (50, 1, 0.5),
    *(pytest.param(n, d, nu, marks=pytest.mark.long) for n, d in HARD for nu in (0.5, 0.45, 0.53)),
]


@pytest.mark.parametrize(("n", "d", "nu"), CASES)
def test_against_the_exact_density_in_25_digits(n, d, nu):
    with mp.workdps(25):
        truth = exact(n, d, nu)
        value = leak_of_gaussian_mean(n, d, nu)
        assert truth <= value <= truth * (1 + mp.mpf("1e-9")) + mp.mpf("1e-16")


def test_the_quadrature_error_is_within_its_bound():
    """E R² = d and E 1 = 1 with the same nodes; bounded moments of known value."""
    for d in (1, 2, 3, 10, 1000, 10**6):
        radius, weight, error = gaussian_mean._radii(d, 1.0)
        assert error < 3e-17
        assert radius.size < 1000
        assert weight.sum() == pytest.approx(1, abs=1e-11)
        assert weight @ radius**2 / d == pytest.approx(1, rel=1e-10)
        assert weight @ np.exp(-(radius**2) / (2 * d)) == pytest.approx(
            (1 + 1 / d) ** (-d / 2), rel=1e-10
        )


@pytest.mark.parametrize("d", [1, 7, 10**4, 10**5, 10**6, 10**8])
def test_weights_are_from_above_for_every_function_that_rises_or_falls(d):
    """Such a function is a mixture of steps, so sums from or to each node are enough.

    Sixty-four units more are given to every sum by the caller.
    """
    radius, weight, _ = gaussian_mean._radii(d, 0.0)
    with mp.workdps(40):
        more = 1 + 64 * mp.mpf(2) ** -53
        step = mp.log(mp.mpf(radius[-1]) / mp.mpf(radius[0])) / (radius.size - 1)
        peak = int(np.argmax(weight))
        scaled = [step * (k - peak) for k in range(radius.size)]
        law = [mp.exp(-mp.mpf(d) / 2 * (mp.expm1(2 * s) - 2 * s)) for s in scaled]
        total = mp.fsum(law)
        for order in (slice(None), slice(None, None, -1)):
            found = exact_share = mp.mpf(0)
            for w, exact in zip(weight.tolist()[order], law[order], strict=True):
                found, exact_share = found + mp.mpf(w), exact_share + exact / total
                assert exact_share <= found * more + mp.mpf("1e-20")
        assert found <= 1 + 1e-14 * mp.sqrt(d)


def stick(mu, log_g):
    """H of N(μ,1) against N(0,1)."""
    first, second = mu / 2 - log_g / mu, -mu / 2 - log_g / mu
    return mp.ncdf(first) - mp.exp(log_g) * mp.ncdf(second)


def test_values_cover_a_shift_that_is_off_by_its_rounding():
    rng = Random(3)
    with mp.workdps(40):
        for _ in range(200):
            mu, log_g = 10 ** rng.uniform(-3, 1), rng.uniform(0, 4)
            most = mp.mpf(mu) * (1 + 6 * mp.mpf(2) ** -53)
            truth = stick(most, mp.mpf(log_g))
            if truth > 1e-200:
                assert gaussian_mean._hockey_stick(mu, log_g) >= truth
            low = gaussian_mean._hockey_stick(mu, -log_g) * (1 + 6 * mp.mpf(2) ** -53)
            assert low >= min(mp.mpf(1), stick(most, -mp.mpf(log_g)))


def test_shifts_are_asked_for_above_their_rounding(monkeypatch):
    asked = []

    def stick_above(mu, epsilon):
        asked.append(mu)
        return np.full(epsilon.shape, 0.25)

    monkeypatch.setattr(gaussian_mean, "gaussian_hockey_stick_upper", stick_above)
    rng = Random(4)
    for _ in range(100):
        mu = 10 ** rng.uniform(-9, 4)
        gaussian_mean._hockey_stick(mu, rng.uniform(-1, 1))
        assert Fraction(mu) * (1 + Fraction(7, 2**53)) <= Fraction(asked[-1])


def test_the_arguments_of_values_are_on_the_safe_side(monkeypatch):
    """Log-prices below the exact ones at every radius within four units, shifts within six."""
    seen, nodes, plain = [], [], gaussian_mean._radii

    def value(mu, log_g):
        seen.append((mu, log_g))
        return 0.5

    def radii(d, tilt):
        nodes[:] = plain(d, tilt)
        return tuple(nodes)

    monkeypatch.setattr(gaussian_mean, "_hockey_stick", value)
    monkeypatch.setattr(gaussian_mean, "_radii", radii)
    rng, unit = Random(5), mp.mpf(2) ** -53
    for _ in range(40):
        n, d = int(10 ** rng.uniform(0.4, 12)), int(10 ** rng.uniform(0, 8))
        nu, lam = rng.random(), 10 ** rng.uniform(-2, 2)
        seen.clear()
        leak_of_gaussian_mean(n, d, nu, lam)
        with mp.workdps(40):
            gamma = mp.mpf(nu) / (mp.mpf(lam) * (1 - mp.mpf(nu)))
            offset = mp.log(gamma) + mp.mpf(d) / 2 * mp.log1p(-mp.mpf(1) / n)
            scale = n if gamma >= 1 else n - 1
            for radius, (mu, log_g) in zip(nodes[0].tolist()[::7], seen[::7], strict=True):
                square = mp.mpf(radius) ** 2 / (2 * scale)
                exact = offset + square if gamma >= 1 else -offset - square
                assert log_g <= exact - 8 * unit * square
                assert mp.mpf(radius) / mp.sqrt(scale) <= mp.mpf(mu) * (1 + 4 * unit)


def test_the_sum_over_the_nodes_is_from_above_in_any_order(monkeypatch):
    """Large weights first, and then many so small that adding them one by one changes nothing."""
    for size in (500, 3000):
        weight = np.full(size, 2.0**-60)
        weight[:64] = 2.0**-8
        nodes = np.ones(size), weight, 1e-9  # the last is the error of the quadrature
        monkeypatch.setattr(gaussian_mean, "_radii", lambda d, tilt, nodes=nodes: nodes)
        monkeypatch.setattr(gaussian_mean, "_hockey_stick", lambda mu, log_g: 1.0)
        exact = sum(map(Fraction, weight.tolist())) + Fraction(1e-9)
        value = Fraction(leak_of_gaussian_mean(10, 1))
        assert exact <= value <= exact * (1 + Fraction(size + 65, 2**53))


def test_a_coarser_step_would_be_caught(monkeypatch):
    monkeypatch.setattr(gaussian_mean, "_TOLERANCE", 1e-2)
    monkeypatch.setattr(gaussian_mean, "up", lambda x: x)
    radius, weight, _ = gaussian_mean._radii(1, 0.0)
    assert abs(weight @ radius**2 - 1) > 1e-10


def test_limits():
    assert leak_of_gaussian_mean(1, 3) == leak_of_gaussian_mean_bound(1, 3) == 1.0
    assert leak_of_gaussian_mean(2, 10**5) == pytest.approx(1.0)
    # n → ∞: E‖V‖/√(2πn)
    for d in (1, 5):
        length = math.sqrt(2) * math.gamma((d + 1) / 2) / math.gamma(d / 2)
        assert leak_of_gaussian_mean(10**10, d) == pytest.approx(
            length / math.sqrt(2 * math.pi * 1e10), rel=1e-4
        )
    values = [leak_of_gaussian_mean(n, 3) for n in (2, 4, 16, 100, 10**4)]
    assert values == sorted(values, reverse=True)
    values = [leak_of_gaussian_mean(100, d) for d in (1, 2, 10, 100, 10**4)]
    assert values == sorted(values)


def test_bad_input_is_refused():
    for call in (
        lambda: leak_of_gaussian_mean(0, 1),
        lambda: leak_of_gaussian_mean(10, 0),
        lambda: leak_of_gaussian_mean(10, 10**9),
        lambda: leak_of_gaussian_mean(10, 1, nu=1.0),
    ):
        with pytest.raises(InputError):
            call()
