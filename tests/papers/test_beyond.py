"""Functions of X-results that no theorem's own test calls: closed forms, simulation, twins."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from memberbound.curve import GaussianCurve
from memberbound.errors import InputError
from memberbound.papers import beyond
from memberbound.release.noise import GaussianNoise, NormExponentialNoise
from memberbound.subset.enumeration import exact_bounds
from memberbound.subset.exponential import ExponentialMechanism
from oracle.claims import assert_bound

PHI = NormalDist().cdf


def test_coupling_and_moment_form_on_all_halves():
    """Two-dimensional means of halves of six records; truth: the two mixtures on a grid (X1)."""
    from itertools import combinations

    rng, sigma = np.random.default_rng(1), 0.4
    values = np.sort(rng.normal(size=6))
    sets = list(combinations(range(6), 3))
    means = {d: values[list(d)].mean() for d in sets}
    x = np.linspace(-6, 6, 6001)

    def mixture(chosen):
        gaps = x[:, None] - np.array([means[d] for d in chosen])
        return np.exp(-(gaps**2) / (2 * sigma**2)).mean(axis=1) / (sigma * math.sqrt(2 * math.pi))

    truth = []
    for record in range(6):
        inside = mixture([d for d in sets if record in d])
        out = mixture([d for d in sets if record not in d])
        tv = np.abs(inside - out).sum() * (x[1] - x[0]) / 2
        far = [
            abs(means[d] - means[tuple(sorted({*d, y} - {record}))])
            for d in sets
            if record in d
            for y in set(range(6)) - {*d}
        ]
        truth.append(((far,), tv / 2 - 1e-9))
    assert_bound(
        lambda far: beyond.eta_from_distances(far, sigma),
        truth,
        {"half of the distances": lambda far: beyond.eta_from_distances(np.array(far) / 4, sigma)},
    )
    spread = float(np.mean(np.abs(np.array(list(means.values())) - np.mean(list(means.values())))))
    worst = max(eta for _, eta in truth)
    assert beyond.noise_from_deviation(spread, worst) > sigma  # enough noise is more than this
    assert beyond.noise_from_deviation(1.0, 0.1) == pytest.approx(10 / math.sqrt(2 * math.pi))


def test_parameter_shift_of_ridge_regression():
    """Truth: refits after replacing one record; squared loss, exact minimisers."""
    rng, n, strength = np.random.default_rng(3), 20, 0.3
    x, y = rng.normal(size=(n + 1, 3)), rng.normal(size=n + 1)

    def fit(rows):
        gram = x[rows].T @ x[rows] / n + strength * np.eye(3)
        return np.linalg.solve(gram, x[rows].T @ y[rows] / n)

    theta, truth = fit(list(range(n))), []
    for i in range(n):
        moved = np.linalg.norm(fit([j for j in range(n + 1) if j != i]) - theta)
        gradients = [x[j] * (x[j] @ theta - y[j]) for j in (i, n)]
        truth.append(((np.linalg.norm(gradients[0] - gradients[1]), n, strength), moved))
    assert_bound(
        beyond.parameter_shift,
        truth,
        {"a quarter": lambda *at: beyond.parameter_shift(*at) / 4},
    )


def test_refits_and_partners_cover_their_mean():
    """Shifts of a known normal law: the mean total variation is Eerf; 300 repetitions at 80 %."""
    rng, law = np.random.default_rng(4), GaussianNoise(1.0, 1)
    mean = float(law.distance(np.abs(rng.normal(0, 0.3, 400_000))).mean())
    below = twins = 0
    for _ in range(200):
        lengths = np.abs(rng.normal(0, 0.3, 60))
        below += beyond.leak_of_refits(lengths, law, 0.8) < mean
        twins += law.distance(lengths).mean() < mean
    assert below <= 60
    assert twins > 70
    # Two partners alone are pairs: the mixture of one is the neighbour itself.
    groups = rng.normal(0, 0.3 / math.sqrt(2), (3000, 2, 1))
    assert beyond.leak_of_partners(groups, 1.0) == pytest.approx(mean, rel=0.15)
    assert beyond.leak_of_partners(groups, 1.0) > mean
    crowd = rng.normal(0, 0.3 / math.sqrt(2), (3000, 6, 1))
    assert beyond.leak_of_partners(crowd, 1.0) < mean
    with pytest.raises(InputError, match="shape"):
        beyond.leak_of_partners(groups[:, :1], 1.0)


def test_pmp_is_converted_and_bounded():
    assert beyond.eta_from_pmp([0.5, 2.0]) == pytest.approx([math.tanh(0.25) / 2, math.tanh(1) / 2])
    exact = beyond.pmp_of_sum([0.0, 1.0], sigma=2.0, delta=0.01)
    # Two records: N(1, σ²) against N(0, σ²), the analytic Gaussian mechanism.
    for epsilon in exact:
        stick = PHI(0.25 - 2 * epsilon) - math.exp(epsilon) * PHI(-0.25 - 2 * epsilon)
        assert stick == pytest.approx(0.01, rel=1e-3)


def test_norm_noise_and_crowd():
    law = NormExponentialNoise([1.0], scale=2.0)  # Laplace
    assert beyond.length_in_norm_noise([[1.0], [4.0]], law) == pytest.approx(
        [-math.expm1(-0.25), -math.expm1(-1.0)]
    )
    rows = np.random.default_rng(0).normal(size=(400, 1))
    tight = beyond.eta_from_crowd(rows, 0.05)
    # Exact: the release is nearly normal, worlds (v - c)/n apart around a spread of the crowd.
    spread = math.sqrt(0.05**2 + np.var(rows) / 400)
    near = np.argmin(np.abs(rows[:, 0] - 1.0))
    shift = abs(rows[near, 0] - rows.mean()) / 200
    assert tight[near] >= (2 * PHI(shift / (2 * spread)) - 1) / 2 * 0.95
    assert tight[near] < 0.05


def test_floor_covers_the_known_total_variation():
    """Outputs without spread: TV = 2Φ(½) - 1; the floor is below it in 19 of 20 runs and near."""
    truth = 2 * PHI(0.5) - 1
    rng, above, floors = np.random.default_rng(24), 0, []
    for _ in range(100):
        base = rng.normal(0, 0.2, (300, 2))
        floor = beyond.floor_of_linear_attack(
            base + np.array([1.0, 0.0]), base, [1.0, 0.0], 0.5, sigma=1.0, confidence=0.95
        )
        floors.append(floor)
        above += floor > truth
    assert above <= 5
    assert np.median(floors) > 0.3
    useless = beyond.floor_of_linear_attack(base, base, [0.0, 1.0], 0.0, sigma=1.0)
    assert useless == 0.0
    with pytest.raises(InputError, match="direction"):
        beyond.floor_of_linear_attack(base, base, [0.0, 0.0], 0.0, sigma=1.0)


def test_tables_and_cells():
    counts = [50] * 40
    assert beyond.leak_of_table(counts) < 0.1 < beyond.leak_of_table(counts, n=20)
    assert beyond.leak_of_table([1] * 200) == 1.0
    leaks = beyond.record_leak_upper(np.arange(1, 60))
    assert (np.diff(leaks) < 0).all()
    assert (leaks < 0.4 / np.sqrt(np.arange(1, 60))).all()
    more = beyond.leak_beyond_the_table([500] * 20, [10_000, 10**6])
    assert more[1] < more[0] < 0.05
    n = beyond.size_for_security([500] * 20, 0.95)
    assert n is not None
    assert 0 < n < 10_000
    assert beyond.size_for_security([1] * 100, 0.95) is None
    rng, bad = np.random.default_rng(15), 0
    p = rng.dirichlet(np.ones(10))
    for _ in range(200):
        drawn = rng.multinomial(300, p)
        bad += bool((beyond.cell_probability_lower(300, drawn) > p).any())
    assert bad <= 20
    assert beyond.price_of_leak(0.2, [0.1, 0.9]).tolist() == [0.2, 0.2]
    with pytest.raises(InputError):
        beyond.price_of_leak(0.2, 1.0)


def test_budgets_of_the_neighbour_game():
    """Budgets add in squares; each form against the one it is a case of."""
    assert beyond.mu_of_steps(9, 0.5, 2.0) == pytest.approx(math.sqrt(9) * 2 * 0.5 / 2.0)
    one = [beyond.mu_of_steps(1, 1.0, 10.0)] * 9
    together, slack = beyond.mu_of_ledger(one, [1e-9, 2e-9])
    assert together >= math.sqrt(math.fsum(m**2 for m in one))
    assert together == pytest.approx(beyond.mu_of_steps(9, 1.0, 10.0))
    assert slack >= 3e-9
    assert beyond.mu_of_marginals(3, 2.0) == pytest.approx(math.sqrt(3 * 2 / 4))
    with_scores = beyond.mu_of_marginals(3, 2.0, scores=5, score_sigma=10.0)
    assert with_scores**2 == pytest.approx(1.5 + 4 * 5 / 100)
    eta = beyond.eta_from_releases([0.15, 0.2], [1e-6])
    assert eta == pytest.approx(PHI(0.125) - 0.5 + 1e-6, rel=1e-9)
    guess = beyond.guess_from_curve(GaussianCurve(0.5), [0.1, 0.5])
    inverse = NormalDist().inv_cdf
    assert guess == pytest.approx([PHI(inverse(0.1) + 0.5), PHI(0.5)], rel=1e-9)
    assert beyond.half_width_of_noise(4.0, [0.6, 0.95]) == pytest.approx([3.5, 8.0])
    assert beyond.eta_of_group(0.25, [1, 4]) == pytest.approx([PHI(0.125) - 0.5, PHI(0.5) - 0.5])
    recorded = beyond.mu_of_measurements([math.sqrt(2), 2.0], [10.0, 40.0], [3, 5])
    assert recorded == pytest.approx(
        beyond.mu_of_marginals(3, 10.0, scores=5, score_sigma=40.0), rel=1e-12
    )
    # A full batch, once: μ = 2/σ under replace-one.
    assert beyond.dp_sgd_curve(8.0, 1.0, 1).eta == pytest.approx(PHI(0.125) - 0.5, rel=1e-6)
    assert beyond.leak_from_pure_dp(1.0) == pytest.approx(math.tanh(0.25), rel=1e-12)


def test_sampled_pmp_is_above_the_exact_value():
    """20 records: exact from all subsets, sampled from 3000 of them."""
    losses = np.abs(np.linspace(-1, 1, 20)[:, None] - np.array([[-0.5, 0.0, 0.5]]))
    mechanism = ExponentialMechanism(losses, size=10, epsilon=2.0, sensitivity=0.2)
    exact = exact_bounds(mechanism).pmp_epsilon
    sampled = beyond.sampled_pmp(mechanism, subsets=3000)
    assert (sampled >= exact).all()
    assert not (sampled / 3 >= exact).all()
