"""Curves of DP-SGD: compositions by quadrature, limits, extreme parameters."""

import math
import warnings

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.special import ndtr

from memberbound.curve import GaussianCurve
from memberbound.dp import DpSgd, DpSgdHistory, dpsgd, guarantee_from_dp_sgd
from oracle.sampled_gaussian import hockey_stick

DIRECTIONS = ("remove", "add", "replace")
#: "Within about 0.1 % of the truth for usual parameters."
TIGHT = 3e-3


# ---- two and three steps by quadrature ------------------------------------------------------


def stick_of_one_step(gamma, sigma, q, direction):
    """Closed form in double precision, for any γ > 0 (the tests of one step have 60 digits)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if direction == "remove":
            x = sigma**2 * np.log(np.maximum(gamma - 1 + q, 0.0) / q) + 0.5
        elif direction == "add":
            x = -(sigma**2) * np.log(np.maximum(1 / gamma - 1 + q, 0.0) / q) - 0.5
        else:
            lead, middle = q * math.exp(-0.5 / sigma**2), (1 - q) * (gamma - 1)
            root = np.sqrt(middle**2 + 4 * gamma * lead**2)
            y = np.where(
                middle >= 0, (middle + root) / (2 * lead), 2 * gamma * lead / (root - middle)
            )
            x = sigma**2 * np.log(y)

    def above(centre):
        return ndtr((centre - x) / sigma)

    base = above(0.0)
    ahead, behind = (1 - q) * base + q * above(1.0), (1 - q) * base + q * above(-1.0)
    inside, outside = {"remove": (ahead, base), "add": (base, behind), "replace": (ahead, behind)}[
        direction
    ]
    return np.maximum(inside - gamma * outside, 0.0)


def one_release(sigma, q, direction, size):
    """Trapezoidal nodes: P-weights and likelihood ratios Q/P of one step."""
    x = np.linspace(-9.5 * sigma, 9.5 * sigma + (direction != "add"), size)
    base = np.exp(-0.5 * (x / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi)) * (x[1] - x[0])
    ahead = 1 - q + q * np.exp((x - 0.5) / sigma**2)
    behind = 1 - q + q * np.exp((-x - 0.5) / sigma**2)
    inside, outside = {"remove": (ahead, 1.0), "add": (1.0, behind), "replace": (ahead, behind)}[
        direction
    ]
    return base * inside, outside / inside


def _law(steps, sigma, q, direction, size):
    """Weights and ratios of all steps but the last."""
    weight, ratio = one_release(sigma, q, direction, size)
    if steps == 3:
        weight = (weight[:, None] * weight[None, :]).ravel()
        ratio = (ratio[:, None] * ratio[None, :]).ravel()
        keep = weight > 1e-19
        weight, ratio = weight[keep], ratio[keep]
    return weight, ratio


def stick_of_law(law, epsilon, sigma, q, direction):
    """H^{T}_γ = E_P H_{γ·Q/P}, with the last step in closed form."""
    weight, ratio = law
    return float(weight @ stick_of_one_step(math.exp(epsilon) * ratio, sigma, q, direction))


#: Steps, nodes per step, parameters; the quadrature is then relatively accurate to ACCURACY.
COMPOSITIONS = [
    (2, 4000, [(0.6, 0.05), (1.0, 0.5), (2.0, 0.3), (1.0, 0.999)]),
    (3, 300, [(1.0, 0.5), (2.0, 0.3), (1.0, 0.999)]),
]
ACCURACY = 1e-8


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("steps", "size", "parameters"), COMPOSITIONS)
def test_few_steps_against_quadrature(steps, size, parameters, direction):
    for sigma, q in parameters:
        law = _law(steps, sigma, q, direction, size)
        profile = DpSgd(sigma, q, steps).profile(direction)
        last = np.count_nonzero(profile.delta > 1e-6) - 1
        for index in np.unique(np.linspace(0, last, 8).astype(int)):
            truth = stick_of_law(law, profile.epsilon[index], sigma, q, direction)
            assert profile.delta[index] >= truth * (1 - ACCURACY)
        truth = stick_of_law(law, 0.0, sigma, q, direction)
        assert profile.advantage <= truth * (1 + TIGHT)
        finer = stick_of_law(
            _law(steps, sigma, q, direction, int(1.3 * size)), 0.0, sigma, q, direction
        )
        assert truth == pytest.approx(finer, rel=ACCURACY)


def test_the_check_sees_the_wrong_pair_and_a_forgotten_step():
    sigma, q = 1.0, 0.5
    truth = stick_of_law(_law(3, sigma, q, "replace", 350), 0.2, sigma, q, "replace")
    assert DpSgd(sigma, q, 3).profile("replace").stick(0.2) >= truth
    assert DpSgd(sigma, q, 3).profile("remove").stick(0.2) < truth
    assert DpSgd(sigma, q, 2).profile("replace").stick(0.2) < truth


# ---- directions -----------------------------------------------------------------------------


def test_curve_reads_both_profiles():
    parameters = DpSgd(0.8, 0.1, 20)
    curve = parameters.curve()
    for epsilon in (0.0, 0.2, 0.7):
        assert curve.delta(epsilon, "forward") <= 1.001 * parameters.profile("remove").stick(
            epsilon
        )
        assert curve.delta(epsilon, "backward") <= 1.001 * parameters.profile("add").stick(epsilon)
    assert parameters.curve("replace-one").is_symmetric
    both = guarantee_from_dp_sgd(parameters).curve
    for epsilon in (0.0, 0.2, 0.7, 2.0):
        assert both.delta(epsilon, "forward") == pytest.approx(both.delta(epsilon, "backward"))
        assert both.delta(epsilon, "forward") >= curve.delta(epsilon) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("sigma", "q", "steps"), [(1.0, 0.01, 1000), (0.7, 0.2, 5), (2.0, 0.9, 30), (0.3, 0.05, 3)]
)
def test_direct_replace_one_is_never_above_the_chain_of_remove_and_add(sigma, q, steps):
    guarantee = guarantee_from_dp_sgd(DpSgd(sigma, q, steps))
    chain = guarantee.curve.reversed().then(guarantee.curve)
    direct = DpSgd(sigma, q, steps).curve("replace-one")
    for epsilon in np.linspace(0.0, 6.0, 25):
        assert direct.delta(epsilon) <= chain.delta(epsilon) + 1e-9
    for fpr in (1e-4, 1e-2, 0.1, 0.5):
        assert direct.tpr(fpr) <= chain.tpr(fpr) + 1e-9


# ---- limits ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("adjacency", "factor"), [("add-remove", 1.0), ("replace-one", 2.0)])
def test_full_batches_are_gaussian_dp(adjacency, factor):
    curve = DpSgd(3.0, 1.0, 16).curve(adjacency)
    assert isinstance(curve, GaussianCurve)
    assert curve.mu == pytest.approx(factor * 4 / 3, rel=1e-14)
    assert curve.mu >= factor * 4 / 3
    # Nearly full batches are nearly that, from the lattice.
    near = DpSgd(3.0, 1 - 1e-9, 16).curve(adjacency)
    assert near.advantage == pytest.approx(curve.advantage, rel=2e-3)
    for fpr in (1e-3, 1e-2, 0.1):
        assert near.tpr(fpr) == pytest.approx(curve.tpr(fpr), rel=3e-3)


@pytest.mark.parametrize("sigma", [0.02, 0.01, 1e-4])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_without_noise_only_sampling_protects(sigma, adjacency):
    for q, steps in ((0.01, 100), (0.3, 2), (1e-6, 10)):
        parameters = DpSgd(sigma, q, steps)
        sampled = -math.expm1(steps * math.log1p(-q))
        advantage = parameters.curve(adjacency).advantage
        assert sampled <= advantage <= sampled * (1 + 1e-9)
        assert parameters.sampled_probability >= sampled


# ---- numbers of the theory (dp-accounting: verbs/test_explain.py) ------------------------------


def test_numbers_of_the_theory():
    """Theory §6.8: σ = 1, q = 0.01, T = 1000, add/remove."""
    curve = DpSgd(1.0, 0.01, 1000).curve()
    assert curve.advantage == pytest.approx(0.1610, rel=TIGHT)
    assert curve.epsilon(1e-5) == pytest.approx(1.828, rel=TIGHT)
    assert curve.tpr(0.01) == pytest.approx(0.02914, rel=TIGHT)
    assert curve.tpr(0.001) == pytest.approx(0.004068, rel=TIGHT)


# ---- extreme parameters ---------------------------------------------------------------------

EXTREMES = [
    (1e-4, 0.01, 100),
    (0.003, 1e-6, 10),
    (100.0, 0.5, 1),
    (20.0, 0.001, 10),
    (1.0, 1e-8, 1),
    (1.0, 1e-8, 1000),
    (0.3, 0.9999, 50),
    (5.0, 0.3, 10**6),
    (1.0, 0.01, 10**7),
    (1e6, 1e-9, 3),
    (0.05, 1 - 2.0**-53, 2),
    (0.5, 1e-300, 4),
    (1.0, 0.01, 10**15),
]


@pytest.mark.parametrize(("sigma", "q", "steps"), EXTREMES)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_extreme_parameters_give_a_bound_without_warning(sigma, q, steps, adjacency):
    parameters = DpSgd(sigma, q, steps)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        curve = parameters.curve(adjacency)
        advantage = curve.advantage
    assert 0.0 < advantage <= parameters.sampled_probability * (1 + 1e-12)
    # Full batches leak more (joint convexity), and one step leaks less.
    full = GaussianCurve((1 if adjacency == "add-remove" else 2) * math.sqrt(steps) / sigma)
    assert advantage <= full.advantage * (1 + TIGHT)
    direction = "remove" if adjacency == "add-remove" else "replace"
    assert advantage >= hockey_stick(sigma, q, 0.0, direction)


@pytest.mark.parametrize(("direction", "shift"), [("remove", 1.0), ("add", 1.0), ("replace", 2.0)])
def test_steps_that_take_every_record_are_gaussian_on_the_lattice_too(direction, shift):
    """Noise 8 once and 10 three times: above the closed form in 40 digits, and close to it."""
    lines = DpSgdHistory((DpSgd(8.0, 1.0, 1), DpSgd(10.0, 1.0, 3))).profile(direction)
    with mp.workdps(40):
        mu = shift * mp.sqrt(mpf(1) / 64 + mpf(3) / 100)
        for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
            point = mu / 2, mpf(epsilon) / mu
            truth = mp.ncdf(point[0] - point[1])
            truth -= mp.exp(epsilon) * mp.ncdf(-point[0] - point[1])
            result = lines.stick(epsilon)
            assert truth <= result
            assert truth < 1e-12 or result <= truth * mpf("1.05")


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize(("sigma", "q"), [(0.5, 0.01), (1.3, 0.2), (20.0, 0.5), (0.07, 0.1)])
def test_cells_tile_their_range_without_a_gap(direction, sigma, q):
    """A gap of one unit would lose its mass; two blocks may be apart where σ is small."""
    left, right = dpsgd._cells(sigma, q, 0.01, direction)
    assert (left < right).all()
    apart = np.flatnonzero(left[1:] != right[:-1])
    assert len(apart) <= (direction == "remove")
    assert (left[1:][apart] > right[:-1][apart] + sigma).all()
    reach = dpsgd._REACH * sigma
    assert left[0] <= -reach * (1 - 1e-12)
    assert right[-1] >= (reach + (direction == "remove")) * (1 - 1e-12)
    for end in left[1:][apart].tolist() + right[:-1][apart].tolist():
        assert min(abs(end - reach), abs(end - (1 - reach))) < 1e-9


def test_a_lattice_too_fine_for_memory_is_made_coarser():
    """Twenty million steps: the finest lattice would reach nothing and bound nothing."""
    record = DpSgd(1.0, 4.9615e-6, 21_649_149)
    assert 0.0118 < record.curve().advantage < 0.0124
