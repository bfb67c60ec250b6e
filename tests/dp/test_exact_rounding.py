"""Every number of the DP stage that is rounded outwards, against 60 digits or fractions."""

import math
from fractions import Fraction
from random import Random
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest

from memberbound.curve import GaussianCurve
from memberbound.dp import (
    AdvantageTarget,
    DpSgd,
    DpSgdHistory,
    EtaTarget,
    SecurityTarget,
    TprTarget,
    guarantee_from_gaussian_mechanism,
    leak_from_pure_dp,
)
from memberbound.dp import dpsgd as module
from memberbound.dp.loss_lattice import Composition, ForwardProfile, LossLattice, _Tilted
from oracle.readoffs import price

F = Fraction
#: A few units in the last place: what is rounded up is not rounded up by more.
TIGHT = mp.mpf(2) ** -45


@pytest.fixture(autouse=True)
def sixty_digits():
    with mp.workdps(60):
        yield


def above(value, truth, tight=TIGHT):
    """At or above the truth, and hardly above."""
    return truth <= mp.mpf(value) <= truth * (1 + tight)


# ---- lines ----------------------------------------------------------------------------------


def test_the_tpr_is_that_of_the_lowest_line_from_above():
    rng = Random(1)
    for _ in range(300):
        lines = sorted((rng.uniform(0, 9), rng.random() * 0.1) for _ in range(3))
        epsilon, delta = np.array(lines).T
        fpr = rng.random() ** 6
        truth = min(mp.mpf(d) + mp.exp(mp.mpf(e)) * mp.mpf(fpr) for e, d in lines)
        assert above(ForwardProfile(epsilon, delta).tpr(fpr), min(mp.mpf(1), truth))
    assert ForwardProfile(np.array([800.0]), np.array([0.0])).tpr(0.5) == 1.0


def test_sticks_between_lines_are_the_chord_from_above():
    """The share of e^ε between two lines; farther apart than one, the left line alone."""
    rng = Random(2)
    for _ in range(150):
        low = rng.choice([0.0, rng.uniform(0, 3), rng.uniform(0, 300)])
        gap = rng.choice([1.0, rng.uniform(0, 1), rng.uniform(0, 1e-9), rng.uniform(1, 2)])
        left, right = sorted((rng.random(), rng.random() ** 3), reverse=True)
        profile = ForwardProfile(np.array([low, low + gap]), np.array([left, right]))
        assert profile.stick(5000.0) == right
        start, end = profile.epsilon.tolist()
        if not start < end:
            continue
        inner = start + rng.random() * (end - start)
        for epsilon in (start, inner, end, end + 1.0):
            at, upper = mp.mpf(epsilon), mp.mpf(left)
            if start < epsilon < end and end - start <= 1:
                share = mp.expm1(at - mp.mpf(start)) / mp.expm1(mp.mpf(end) - mp.mpf(start))
                upper = (1 - share) * mp.mpf(left) + share * mp.mpf(right)
            elif epsilon >= end:
                upper = mp.mpf(right)
            room = 64 * mp.mpf(2) ** -53 * (1 + 2 * end / (end - start)) * left / upper
            result = profile.stick(epsilon)
            assert upper <= result <= upper * (1 + room)
        assert profile.stick(0.0) == (left if start == 0 else 1.0)


def test_a_line_that_rises_again_changes_nothing():
    profile = ForwardProfile(np.array([0.0, 0.5, 1.0]), np.array([0.3, 0.1, 0.2]))
    assert [profile.stick(e) for e in (0.5, 0.75, 1.0, 1.5)] == [0.1] * 4


# ---- masses and moments ---------------------------------------------------------------------


def test_log_moments_are_from_above_also_where_large_terms_cancel():
    rng = Random(3)
    for _ in range(120):
        step = 10 ** rng.uniform(-3, 1)
        scale = rng.choice([0.0, 30.0, 600.0, 1e6])
        mass = np.exp([-min(scale, 600.0) - rng.random() for _ in range(rng.randint(1, 6))])
        lattice = LossLattice(rng.randint(-3, 900), step, mass, 0.0, 0.0)
        orders = np.array([rng.uniform(0.1, 1) * scale / (step * max(1, lattice.start)), 1e-3])
        for order, value in zip(orders, lattice.log_moments(mass, orders), strict=True):
            exact = mp.fsum(
                mp.mpf(m) * mp.exp(mp.mpf(order) * (lattice.start + i) * mp.mpf(step))
                for i, m in enumerate(mass.tolist())
            )
            truth = mp.log(exact)
            assert truth <= value <= truth + mp.mpf("1e-11") + abs(truth) * mp.mpf("1e-14")


@pytest.mark.parametrize("times", [2**60 + 127, 2**60 + 129, 3 * 2**61 + 511])
@pytest.mark.parametrize("start", [1, -1])
def test_windows_hold_the_only_loss_there_is(times, start):
    """Such indices are not doubles: the nearest double is hundreds away, on either side."""
    composition = Composition(((LossLattice(start, 1e-9, np.ones(1), 0.0, 0.0), times),))
    low, high = composition._window(_Tilted(0.0, (np.ones(1),)))
    assert low <= start * times <= high


def test_one_release_is_added_up_from_above():
    """Nothing is composed: what is rounded is the factors, their sum, ε and the mass at +∞."""
    rng = Random(4)
    for _ in range(40):
        count = rng.randint(2, 40)
        mass = np.array([rng.random() for _ in range(count)])
        infinite = rng.choice([0.0, rng.random()])
        mass *= (1 - infinite) / mass.sum()
        step = 10 ** rng.uniform(-3, 0.3)
        lattice = LossLattice(rng.randint(-count, 0), step, mass, infinite, 0.0)
        profile = lattice.composed_profile(1, np.arange(0.0, count, 3.0))
        for place, epsilon, delta in zip(
            range(0, count, 3), profile.epsilon, profile.delta, strict=True
        ):
            assert mp.mpf(place) * mp.mpf(step) <= epsilon
            truth = mp.mpf(infinite) + mp.fsum(
                mp.mpf(m) * -mp.expm1((place - lattice.start - i) * mp.mpf(step))
                for i, m in enumerate(mass.tolist())
                if lattice.start + i > place
            )
            assert truth <= delta <= truth * (1 + mp.mpf("1e-12")) + mp.mpf("1e-289")


def test_all_mass_at_infinity_is_from_above():
    rng = Random(5)
    for _ in range(24):
        infinite, times = 10 ** rng.uniform(-12, -0.01), rng.randint(2, 50)
        lattice = LossLattice(0, 1.0, np.array([1 - infinite]), infinite, 0.0)
        # Lines at the end of the window hold nothing but that mass.
        delta = lattice.composed_profile(times, np.array([2.0**20])).delta.min()
        truth = -mp.expm1(times * mp.log1p(-mp.mpf(infinite)))
        assert above(delta, truth, mp.mpf("1e-12"))


# ---- closed forms ---------------------------------------------------------------------------


def test_the_shift_of_several_releases_is_from_above():
    rng = Random(6)
    for _ in range(300):
        sigma, sensitivity = 10 ** rng.uniform(-3, 3), 10 ** rng.uniform(-3, 3)
        releases = rng.randint(1, 10**6)
        curve = guarantee_from_gaussian_mechanism(sigma, sensitivity, releases).curve
        assert isinstance(curve, GaussianCurve)
        truth = F(sensitivity) ** 2 * releases / F(sigma) ** 2
        assert truth <= F(curve.mu) ** 2 <= truth * (1 + F(1, 2**45))
        parts = tuple(
            DpSgd(10 ** rng.uniform(-1, 1), 1.0, rng.randint(1, 10**4))
            for _ in range(rng.randint(1, 6))
        )
        whole = DpSgdHistory(parts).curve()
        assert isinstance(whole, GaussianCurve)
        truth = sum(part.steps / F(part.noise_multiplier) ** 2 for part in parts)
        assert truth <= F(whole.mu) ** 2 <= truth * (1 + F(1, 2**45))
    assert guarantee_from_gaussian_mechanism(1.0, 0.0).curve.advantage == 0.0
    assert guarantee_from_gaussian_mechanism(1e200, 1e-200).curve.mu > 0.0


def test_the_leak_of_a_private_learner_is_from_above():
    rng = Random(7)
    for _ in range(600):
        epsilon = 10 ** rng.uniform(-12, 2)
        nu, lam = rng.choice([(0.5, 1.0), (0.75, 1.0), (rng.random(), 4 * rng.random())])
        gamma = price(nu, lam)
        g = mp.mpf(max(gamma, 1 / gamma).numerator) / max(gamma, 1 / gamma).denominator
        growth = mp.exp(mp.mpf(epsilon))
        truth = mp.mpf(0) if growth <= g else (mp.sqrt(growth) - mp.sqrt(g)) ** 2 / (growth - 1)
        value = leak_from_pure_dp(epsilon, nu, lam)
        assert truth <= value <= 1
        if g == 1 or growth > g * (1 + mp.mpf("1e-3")):
            assert value <= truth * (1 + mp.mpf("1e-11"))
    assert leak_from_pure_dp(5e-324) > 0.0 == leak_from_pure_dp(0.0)


def test_lines_that_need_no_noise_are_from_above():
    """1 - (1-q)^T, and for "add" the largest possible loss, T·ln(1/(1-q))."""
    rng = Random(8)
    for _ in range(100):
        parts = tuple(
            DpSgd(1e-4, rng.random() ** 4, rng.randint(1, 50)) for _ in range(rng.randint(1, 3))
        )
        never = mp.fsum(part.steps * mp.log1p(-mp.mpf(part.sample_rate)) for part in parts)
        lines = DpSgdHistory(parts).profile("add")
        assert above(lines.delta[0], -mp.expm1(never)) or lines.delta[0] == 1.0
        assert above(lines.epsilon[-1], -never)
        assert lines.delta[-1] == 0.0
        alone = parts[0]
        one = alone.steps * mp.log1p(-mp.mpf(alone.sample_rate))
        value = alone.sampled_probability
        assert above(value, -mp.expm1(one)) or value == 1.0
    assert DpSgd(1e-4, 1.0, 3).profile("add").delta.tolist() == [1.0]


def test_atoms_are_spread_with_their_likelihood_ratio():
    """One release: the lines of the lattice are at or above those of the atoms themselves."""
    rng = Random(9)
    for step in (1e-3, 0.3, 2.0):
        for _ in range(40):
            count = rng.randint(1, 6)
            losses = np.array([rng.uniform(-3, 5) * step for _ in range(count)])
            losses[0] = math.nextafter(rng.randint(-3, 5) * step, rng.choice([-9.0, 9.0]))
            masses = np.array([rng.random() for _ in range(count)])
            masses /= masses.sum()
            lattice = module._on_lattice(losses, masses, step, 0.0, 0.0)
            assert lattice.relative_error > 0.0
            assert (lattice.mass >= 0).all()
            profile = lattice.composed_profile(1, np.arange(0.0, 6.0))
            for epsilon, delta in zip(profile.epsilon, profile.delta, strict=True):
                truth = mp.fsum(
                    mp.mpf(m) * -mp.expm1(mp.mpf(epsilon) - mp.mpf(value))
                    for m, value in zip(masses.tolist(), losses.tolist(), strict=True)
                    if value > epsilon
                )
                assert truth <= delta


def test_masses_beyond_the_lattice_go_to_infinity_with_their_error():
    losses, masses = np.array([0.0, 1e6]), np.array([0.25, 0.75])
    lattice = module._on_lattice(losses, masses, 1.0, 1e-3, 1e-10)
    assert lattice.infinite >= (F(0.75) + F(1e-3)) * (1 + F(1, 10**10))
    assert lattice.infinite == pytest.approx(0.751, rel=1e-8)


# ---- targets as they are written ------------------------------------------------------------


def close(value):
    return math.nextafter(value, 0.0), value, math.nextafter(value, 1.0)


def stub(**readoffs):
    """A guarantee with a curve that returns just these numbers."""
    curve = SimpleNamespace(
        **{"accuracy": lambda: 0.0, "security": lambda nu, lam: 1.0, "advantage": 0.0, **readoffs}
    )
    guarantee = SimpleNamespace(curve=curve)
    guarantee.replaced = lambda: guarantee
    return guarantee


@pytest.mark.parametrize("hundredths", range(1, 50))
def test_targets_are_the_decimals_that_were_written(hundredths):
    """Met exactly when the number read off is at most the decimal, not the double next to it."""
    value, limit = hundredths / 100, F(hundredths, 100)
    for near in close(value):
        met = F(near) <= limit
        assert (AdvantageTarget(value).excess(stub(advantage=near)) <= 0) == met
        assert (TprTarget(value, 1e-3).excess(stub(tpr=lambda fpr, near=near: near)) <= 0) == met
        assert (EtaTarget(value).excess(stub(eta=near)) <= 0) == met
        secure = stub(security=lambda nu, lam, near=near: near)
        assert (SecurityTarget(value, 0.6).excess(secure) <= 0) == (F(near) >= limit)
    for near in close((1 + value) / 2):
        right = stub(accuracy=lambda near=near: near, eta=0.0)
        assert (AdvantageTarget(value).excess(right) <= 0) == (F(near) <= (1 + limit) / 2)
        half = stub(accuracy=lambda near=near: near, eta=0.0)
        assert (EtaTarget(value / 2).excess(half) <= 0) == (F(near) <= F(1, 2) + F(repr(value / 2)))
