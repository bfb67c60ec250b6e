"""Functions of I24 against the subset game enumerated in rationals, and exact laws of noise."""

import math
from fractions import Fraction
from itertools import combinations
from random import Random

import numpy as np
import pytest
from scipy import stats

from memberbound.errors import InputError
from memberbound.papers import izzo2024
from oracle import finite, mechanisms, subset
from oracle.claims import assert_bound, assert_exact

F = Fraction


def kernels(seed, size, k, count=10):
    rng = Random(seed)
    for _ in range(count):
        yield {d: finite.random_law(rng, ["x", "y", "z"]) for d in subset.subsets(size, k)}


def test_eta_of_random_mechanisms_and_their_post_processing():
    rng, truth = Random(3), []
    for size, k in ((4, 2), (4, 1), (5, 3)):
        for kernel in kernels(size, size, k):
            truth.append(((kernel, size, k), subset.eta(kernel, size, k)))
            channel = finite.random_kernel(rng, ["x", "y", "z"], ["u", "v"])
            after = izzo2024.post_processed(kernel.__getitem__, channel.__getitem__)
            assert izzo2024.eta_of_mechanism(after, size, k) <= truth[-1][1]
            exact = subset.post_process(kernel, size, k, channel)
            assert izzo2024.eta_of_mechanism(after, size, k) == subset.eta(exact, size, k)

    def form(kernel, size, k):
        return izzo2024.eta_of_mechanism(kernel.__getitem__, size, k)

    broken = {"average": lambda kernel, n, k: sum(
        subset.eta_of_record(kernel, n, k, x) for x in range(n)) / n}  # fmt: skip
    assert_exact(form, truth, broken)
    # η does not measure whether the data are in the population.
    assert izzo2024.eta_of_mechanism(lambda train: {train <= set(range(4)): 1}, 4) == 0


def test_optimal_accuracy_by_all_rules():
    rng, truth = Random(2), []
    for _ in range(30):
        p, q = (finite.random_law(rng, list(range(4))) for _ in "pq")
        for prior in (F(1, 2), F(1, 4)):
            best = finite.accuracies_by_rules(p, q, prior)[1]
            masses = finite.masses(p, q)
            truth.append(((*masses, float(prior)), best * (1 - F(1, 10**13))))
    assert_bound(
        lambda *at: F(izzo2024.best_accuracy(*at)),
        truth,
        {"blind": lambda p, q, prior: F(max(prior, 1 - prior))},
        excess=F(1, 10**9),
    )


def test_eta_and_posterior_of_dp():
    epsilon = np.array([0.1, 1.0, 3.0])
    eta = izzo2024.eta_from_dp(epsilon, 0.1)
    assert eta == pytest.approx(0.1 + 0.9 / (1 + np.exp(-epsilon)) - 0.5, rel=1e-12)
    # Randomised response reaches it: e^ε = 3, δ = 0.
    reached = izzo2024.eta_of_mechanism(mechanisms.randomised_response(F(3, 4)), 2)
    assert reached <= izzo2024.eta_from_dp(math.log(3)) <= float(reached) * (1 + 1e-12)
    posterior = izzo2024.posterior_from_dp(0.25, epsilon)
    assert posterior == pytest.approx(np.exp(epsilon) / (np.exp(epsilon) + 3), rel=1e-12)


def test_true_positive_rate_needs_twice_eta():
    truth, general = [], []
    for size, k in ((4, 2), (2, 1), (4, 3), (5, 2)):
        for kernel in kernels(8 + size, size, k, 6):
            eta = float(subset.eta(kernel, size, k) * (1 + F(1, 10**12)))
            for x in range(size):
                inside, out = subset.world_laws(kernel, size, k, x)
                if 2 * k == size:
                    for fpr in (F(0), F(1, 5), F(1, 2)):
                        tpr = finite.tpr_at_fpr(inside, out, fpr)
                        truth.append(((float(fpr), eta), tpr * (1 - F(1, 10**13))))
                general.append(((eta, k, size), finite.total_variation(inside, out)))
    exact = mechanisms.randomised_response(F(3, 4))
    inside, out = subset.world_laws(subset.tabulate(exact, 2, 1), 2, 1, 0)
    truth.append(((0.25, 0.25), finite.tpr_at_fpr(inside, out, F(1, 4))))
    assert_bound(
        lambda *at: F(izzo2024.tpr_from_eta(*at)),
        truth,
        {"as printed": lambda fpr, eta: F(min(1.0, fpr + eta))},
    )
    assert_bound(
        lambda *at: F(izzo2024.advantage_from_eta(*at)),
        general,
        {"the form of T8": lambda eta, k, n: F(2 * eta)},
    )


def test_indicator_has_a_small_eta():
    for size in (2, 4, 6):
        eta = izzo2024.eta_of_mechanism(izzo2024.indicator_of_one_set(size), size)
        assert eta == F(1, math.comb(size, size // 2))


# ── Noise ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("moment", [1.0, 2.0, 4.0])
def test_drawn_noise_has_the_density_and_the_printed_radius_has_not(moment):
    """With density ∝ exp(-‖x‖/c) the norm is Gamma(d, c); tests at level 1e-4 on 4000 draws."""
    sigmas, scale = np.array([0.5, 1.0, 3.0]), 2.0

    def norms(radius, seed):
        rows = izzo2024.draw_norm_noise(sigmas, scale, moment, count=4000, radius=radius, seed=seed)
        size = ((np.abs(rows / sigmas) ** moment).mean(axis=1)) ** (1 / moment)
        return rows, size

    rows, size = norms("gamma", 1)
    assert stats.kstest(size, stats.gamma(3, scale=scale).cdf).pvalue > 1e-4
    # Given the norm the direction is uniform for the cone measure: coordinates are alike.
    shares = np.abs(rows / sigmas) / size[:, None]
    assert stats.ks_2samp(shares[:, 0], shares[:, 2]).pvalue > 1e-4
    assert abs(np.mean(rows > 0) - 0.5) < 0.03
    assert stats.kstest(norms("laplace", 2)[1], stats.gamma(3, scale=scale).cdf).pvalue < 1e-10


def test_eta_of_norm_noise_in_one_dimension_is_exact_for_two_points():
    """Laplace noise between two outputs ±1: TV = 1 - e^(-1/b), σ₁ = 1."""
    for scale in (0.5, 1.0, 10.0):
        exact = -math.expm1(-1 / scale) / 2
        assert izzo2024.eta_of_norm_noise(1.0, scale) >= exact
        assert izzo2024.eta_of_norm_noise(1.0, scale) <= exact * (1 + 1e-12)
        assert izzo2024.eta_of_norm_noise(0.5, scale) < exact  # the twin: the distance halved
    constants = izzo2024.noise_constant(0.1, [1.0, 2.0, 4.0])
    assert constants == pytest.approx([75**3, 61.6**2, 61.6**1.5], rel=1e-12)
    assert (izzo2024.eta_of_norm_noise(1.0, constants) < 0.1).all()


def test_algorithm_1_as_printed_breaks_its_promise_and_the_corrected_one_keeps_it():
    """Records 0, 1, 3, 7, two train, release variance + mean/10⁴: name the nearest pair.

    Errors below 1e-6 by Hoeffding's inequality.
    """
    rows, eta = np.array([[0.0], [1.0], [3.0], [7.0]]), 0.25

    def learner(x):
        return np.var(x) + 1e-4 * np.mean(x)

    pairs = list(combinations(range(4), 2))
    clean = np.array([learner(rows[list(p)]) for p in pairs])

    def accuracy(run, trials):
        right = 0
        for seed in range(trials):
            rng = np.random.default_rng(seed)
            train = set(rng.permutation(4)[:2].tolist())
            out = run(learner, rows, eta, seed=seed)
            guess = pairs[int(np.argmin(np.abs(clean - out.released[0])))]
            right += (2 in guess) == (2 in train)
        return right / trials

    def noise_as_printed(learner, rows, eta, seed):
        return izzo2024.algorithm_1_as_printed(learner, rows, eta, budget=8, seed=seed)

    slack = math.sqrt(math.log(1e6) / (2 * 600))
    assert accuracy(noise_as_printed, 600) - slack > 0.5 + eta
    assert accuracy(izzo2024.algorithm_1, 600) <= 0.5 + eta + slack
    corrected = izzo2024.algorithm_1(learner, rows, eta)
    assert corrected.sigmas == pytest.approx([clean.std()], rel=1e-9)
    with pytest.raises(InputError, match="even"):
        izzo2024.algorithm_1(learner, rows[:3], eta)


def test_tail_bound_on_random_laws():
    rng, truth = np.random.default_rng(13), []
    for _ in range(60):
        values, weights = rng.normal(size=6), rng.dirichlet(np.ones(6))
        gap = np.abs(values - values @ weights)
        for k in (1, 2, 4):
            sigma = (weights @ gap**k) ** (1 / k)
            for t in (0.7, 1.5, 3.0):
                truth.append(((k, t), float(weights[gap > t * sigma].sum()) - 1e-12))
    assert_bound(izzo2024.tail_bound, truth, {"twice the exponent": lambda k, t: t ** (-2 * k)})


def test_matching_of_neighbouring_sets():
    for size, k in ((4, 2), (5, 3), (6, 3), (6, 5)):
        pairs = izzo2024.match_sets(size, k)
        assert len(pairs) == len(set(pairs.values())) == math.comb(size - 1, k)
        assert all(0 not in a and 0 in b and len(a & b) == k - 1 for a, b in pairs.items())
    with pytest.raises(InputError, match="half"):
        izzo2024.match_sets(5, 2)


def test_exploding_population_against_enumeration():
    for size in (4, 8, 12):
        rows = izzo2024.exploding_population(size)
        values = {d: 1 / rows[list(d)].sum() for d in combinations(range(size), size // 2)}
        mean = np.mean(list(values.values()))
        sigma, sigma_one = izzo2024.spread_of_inverse_sum(size)
        assert np.std(list(values.values())) <= sigma
        assert np.mean(np.abs(np.array(list(values.values())) - mean)) <= sigma_one
        largest = max(
            abs(v - values[tuple(sorted({*d, y} - {x}))])
            for d, v in values.items()
            for x in d
            for y in set(range(size)) - {*d}
        )
        assert izzo2024.sensitivity_of_inverse_sum(size)[1] == pytest.approx(largest, rel=1e-6)
        # Each scale is enough: η of its noise, from the sensitivity or the spread, is at most 0.1.
        scales = izzo2024.noise_scales(size, 0.1)
        assert izzo2024.eta_from_dp(largest / scales["dp"] * (1 - 1e-9)) <= 0.1
        spread = np.mean(np.abs(np.array(list(values.values())) - mean))
        assert izzo2024.eta_of_norm_noise(spread, scales["x14"]) <= 0.1
        assert spread / (scales["x1"] * math.sqrt(2 * math.pi)) <= 0.1
        assert izzo2024.eta_of_norm_noise(sigma, scales["mip"]) <= 0.1
