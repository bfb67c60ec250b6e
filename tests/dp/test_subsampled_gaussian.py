"""One step of DP-SGD on the lattice, against closed forms to 60 digits.

Soundness is a plain inequality.  The lattice rounds up by about 1e-12 at the advantage, so these
inequalities would notice an error of a few units in the twelfth digit.
"""

import math

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.special import ndtr

from memberbound.dp import dpsgd as module
from memberbound.dp.dpsgd import loss_spread, one_step
from memberbound.dp.loss_lattice import LossLattice
from oracle.sampled_gaussian import DIRECTIONS, hockey_stick

SIGMAS = (0.003, 0.038, 0.04, 0.2, 1.0, 3.0, 100.0)
RATES = (1e-8, 1e-3, 0.3, 0.5, 0.97, 0.9999999, 1 - 2.0**-50)
#: Spacing of the lattice relative to the spread of the loss.
SPACING = 0.05
#: Excess at the advantage over a lattice of that spacing: its square, over twelve, and some.
TIGHT_ADVANTAGE = 1e-3
#: Excess where the hockey-stick is a hundredth of the advantage.
TIGHT_TAIL = 0.03


def lattice(sigma, q, direction):
    return one_step(sigma, q, direction, SPACING * loss_spread(sigma, q, direction))


def shortfalls(profile, sigma, q, direction, lines=12):
    """Lines below the truth, with no tolerance."""
    bad = []
    for i in np.unique(np.linspace(0, profile.epsilon.size - 1, lines).astype(int)):
        eps, delta = float(profile.epsilon[i]), float(profile.delta[i])
        truth = hockey_stick(sigma, q, eps, direction)
        if mpf(delta) < truth:
            bad.append((sigma, q, direction, eps, delta, mp.nstr(truth, 17)))
    return bad


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_no_line_is_below_the_closed_form(sigma, direction):
    for q in RATES:
        profile = lattice(sigma, q, direction).composed_profile(1)
        assert shortfalls(profile, sigma, q, direction) == []


@pytest.mark.parametrize("sigma", [0.04, 0.2, 1.0, 3.0, 100.0])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_lines_are_tight(sigma, direction):
    for q in (1e-3, 0.3, 0.5, 0.97):
        profile = lattice(sigma, q, direction).composed_profile(1)
        truth = float(hockey_stick(sigma, q, 0.0, direction))
        assert profile.advantage <= truth * (1 + TIGHT_ADVANTAGE)
        inside = int(np.searchsorted(-profile.delta, -profile.advantage / 100))
        index = min(inside, profile.epsilon.size - 1)
        tail = hockey_stick(sigma, q, profile.epsilon[index], direction)
        if tail > 1e-12:
            assert profile.delta[index] <= float(tail) * (1 + TIGHT_TAIL)


def lattice_rounded_by(rounding):
    """A broken lattice: losses are not rounded up."""

    def on_lattice(losses, masses, step, outside, error):
        index = rounding(losses / step).astype(np.int64)
        start = int(index.min())
        return LossLattice(start, step, np.bincount(index - start, weights=masses), outside, error)

    return on_lattice


def without_middle(cells, sigma, q, step, direction):
    """Broken cells: the mass between -σ and σ is dropped instead of integrated."""
    left, right = cells(sigma, q, step, direction)
    keep = (np.abs(left) > 1e-3 * sigma) & (np.abs(right) > 1e-3 * sigma)
    return left[keep], right[keep]


@pytest.mark.parametrize("rounding", [np.floor, np.rint])
def test_the_check_sees_losses_that_are_not_rounded_up(rounding, monkeypatch):
    monkeypatch.setattr(module, "_on_lattice", lattice_rounded_by(rounding))
    result = [
        shortfall
        for direction in DIRECTIONS
        for shortfall in shortfalls(
            lattice(1.0, 0.3, direction).composed_profile(1), 1.0, 0.3, direction
        )
    ]
    assert len({direction for _, _, direction, *_ in result}) == len(DIRECTIONS)


def test_the_check_sees_missing_mass(monkeypatch):
    cells = module._cells
    monkeypatch.setattr(module, "_cells", lambda *a: without_middle(cells, *a))
    profile = lattice(1.0, 0.3, "add").composed_profile(1)
    assert shortfalls(profile, 1.0, 0.3, "add")


def test_the_check_sees_the_wrong_pair():
    """Replace-one is strictly worse than add and than remove."""
    for direction in ("remove", "add"):
        profile = lattice(1.0, 0.3, direction).composed_profile(1)
        assert shortfalls(profile, 1.0, 0.3, "replace")


def test_blur_covers_the_rounding_of_every_loss():
    worst = 0.0
    for sigma in (0.003, 0.05, 1.0, 20.0):
        for q in (1e-20, 1e-8, 0.01, 0.5, 0.51, 0.9999999, 1 - 2.0**-50):
            for direction in DIRECTIONS:
                x = np.linspace(-13 * sigma, 13 * sigma + (direction != "add"), 17)
                loss = module._loss(x, sigma, q, direction)
                blur = module._blur(x, sigma, q, direction)
                for point, value, width in zip(x, loss, blur, strict=True):
                    truth = exact_loss(point, sigma, q, direction)
                    error = abs(mpf(float(value)) - truth)
                    assert error <= mpf(float(width)) + mpf("1e-300")
                    worst = max(worst, float(error / (mpf(float(width)) + mpf("1e-300"))))
    assert worst > 0.02  # the constant is generous, but of the right order


def exact_loss(x, sigma, q, direction):
    with mp.workdps(60):
        s, rate = mpf(sigma), mpf(q)

        def term(y):
            return mp.log(1 - rate + rate * mp.exp((y - mpf(1) / 2) / s**2))

        x = mpf(float(x))
        ahead, behind = term(x), -term(-x)
        return {"remove": ahead, "add": behind, "replace": ahead + behind}[direction]


@pytest.mark.parametrize("sigma", [0.002, 0.0385, 0.1, 1.0, 100.0])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_quadrature_keeps_its_relative_error_out_to_thirteen_deviations(sigma, direction):
    rng = np.random.default_rng(13)
    for q in (1e-8, 0.3, 0.9999999):
        left, right = module._cells(sigma, q, 1e9, direction)
        chosen = np.unique([0, 1, left.size - 1, *rng.integers(0, left.size, 8)])
        left, right = left[chosen], right[chosen]
        half = 0.5 * (right - left)
        x = (0.5 * (left + right))[:, None] + half[:, None] * module._NODES
        mass = (module._density(x, sigma, q, direction) * half[:, None] * module._WEIGHTS).sum(1)
        for a, b, value in zip(left, right, mass, strict=True):
            with mp.workdps(120):
                truth = exact_mass(mpf(float(a)), mpf(float(b)), mpf(sigma), mpf(q), direction)
                error = float(abs(mpf(float(value)) / truth - 1))
            assert error <= module._density_error(sigma)
            if sigma >= 0.1:
                assert error <= module._QUADRATURE


def exact_mass(a, b, sigma, q, direction):
    def normal(centre):
        scale = sigma * mp.sqrt(2)
        return (mp.erfc((a - centre) / scale) - mp.erfc((b - centre) / scale)) / 2

    return normal(0) if direction == "add" else (1 - q) * normal(0) + q * normal(1)


@pytest.mark.parametrize("sigma", [0.01, 0.03, 0.0385, 0.5, 10.0])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_all_mass_is_integrated_or_at_infinity(sigma, direction):
    """Below σ = 1/26 the two bumps are integrated apart: nothing may be lost between them."""
    for q in (1e-6, 0.3, 0.999):
        result = lattice(sigma, q, direction)
        total = math.fsum(result.mass) + result.infinite
        assert abs(total - 1) <= result.relative_error
        assert result.infinite >= math.erfc(13 / math.sqrt(2))


# ---- the replace-one pair: proofs/replace-one-sampled-gaussian.md ---------------------------


def stick_of_gradients(first, second, sigma, q, gamma):
    """H_γ of (1-q)N(0) + qN(g) against (1-q)N(0) + qN(g'), by one-dimensional quadrature.

    Under N(0, σ²I) the likelihood ratios are U = e^{X-a/2} and V = e^{Y-b/2} with (X, Y) normal,
    and H_γ = q·E(U - γV - w)₊, w = (γ-1)(1-q)/q.  Given Y, U is lognormal: a closed form.
    """
    a, b, c = (
        float(np.dot(x, y)) / sigma**2 for x, y in ((first,) * 2, (second,) * 2, (first, second))
    )
    nodes = np.linspace(-13, 13, 4001)
    weights = np.exp(-0.5 * nodes**2) / math.sqrt(2 * math.pi) * (nodes[1] - nodes[0])
    strike = gamma * np.exp(math.sqrt(b) * nodes - b / 2) + (gamma - 1) * (1 - q) / q
    slope = c / math.sqrt(b)
    spread = math.sqrt(max(a - slope**2, 0.0))
    mean = np.exp(slope * nodes - slope**2 / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        cut = (np.log(mean / np.maximum(strike, 0.0)) - spread**2 / 2) / spread
    value = mean * ndtr(cut + spread) - strike * ndtr(cut)
    value = np.where(strike > 0, value, mean - strike)
    return q * float(weights @ value)


def opposite_pair(sigma, q, gamma):
    return float(hockey_stick(sigma, q, math.log(gamma), "replace"))


def orthogonal_pair(sigma, q, gamma):
    """A wrong candidate: unit gradients at a right angle."""
    return stick_of_gradients([1.0, 0.0], [0.0, 1.0], sigma, q, gamma)


def gradients(rng, dimension):
    """Two vectors of norm at most one; half of them close to opposite and full."""
    first, second = rng.normal(size=(2, dimension))
    if rng.random() < 0.5:
        second = -first + 0.3 * rng.normal(size=dimension)
    norms = 1 - rng.random(2) ** 3 * (1 - 1e-3)
    return first / np.linalg.norm(first) * norms[0], second / np.linalg.norm(second) * norms[1]


def pairs_above(candidate):
    rng = np.random.default_rng(9)
    result = 0
    for _ in range(300):
        first, second = gradients(rng, int(rng.choice([2, 3])))
        sigma, q = float(rng.choice([0.4, 1.0, 3.0])), float(rng.choice([0.01, 0.3, 0.9]))
        gamma = float(rng.choice([0.3, 0.9, 1.0, 1.01, 1.5, 6.0]))
        stick = stick_of_gradients(first, second, sigma, q, gamma)
        result += stick > candidate(sigma, q, gamma) + 1e-11  # error of the quadrature
    return result


def test_no_pair_of_gradients_beats_the_opposite_pair():
    assert pairs_above(opposite_pair) == 0
    assert pairs_above(orthogonal_pair) > 50
