"""Functions of L24 against the subset game enumerated in rationals."""

import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.papers import lowy2024
from memberbound.subset.exponential import ExponentialMechanism
from oracle import finite, mechanisms, subset
from oracle.claims import assert_bound, assert_exact

F = Fraction


def kernels(seed, size, k, count=8):
    rng = Random(seed)
    for _ in range(count):
        yield {d: finite.random_law(rng, ["x", "y", "z"]) for d in subset.subsets(size, k)}


def test_ratio_and_delta_of_random_mechanisms():
    ratios, deltas = [], []
    for size, k in ((4, 2), (2, 1), (5, 2)):
        for kernel in kernels(size, size, k):
            ratios.append(((kernel, size, k), subset.pmp_ratio(kernel, size, k)))
            for g in (F(1), F(3, 2)):
                deltas.append(((kernel, size, k, g), subset.pmp_delta(kernel, size, k, g)))

    def ratio(kernel, size, k):
        return lowy2024.pmp_ratio(kernel.__getitem__, size, k)

    def one_sided(kernel, size, k):
        worlds = (subset.world_laws(kernel, size, k, x) for x in range(size))
        return max(p[a] / q[a] for p, q in worlds for a in p)

    def delta(kernel, size, k, g):
        return lowy2024.pmp_delta(kernel.__getitem__, size, g, k)

    assert_exact(ratio, ratios, {"one-sided, as L24-P9 prints": one_sided})
    assert_exact(delta, deltas, {"twice, as L24-L3 prints": lambda *at: 2 * delta(*at)})


def test_success_of_every_attack():
    """ε-PMP mechanisms at half, ε-DP ones at any size, every rule played."""
    half, any_size, etas = [], [], []
    for size, k in ((4, 2), (2, 1)):
        for kernel in kernels(6 + size, size, k):
            ratio = subset.pmp_ratio(kernel, size, k)
            best = max(subset.best_accuracy_by_rules(kernel, size, k, x) for x in range(size))
            epsilon = math.log(ratio) * (1 + 1e-12)
            half.append(((epsilon,), best))
            etas.append(((epsilon,), best - F(1, 2)))
    rng = Random(1)
    for size, k in ((4, 3), (5, 2)):
        for g in (F(6, 5), F(4)):
            kernel = mechanisms.random_dp_kernel(rng, size, k, g)
            best = max(subset.best_accuracy(kernel, size, k, x) for x in range(size))
            any_size.append(((math.log(g) * (1 + 1e-12), k, size), best))
    told = subset.tabulate(mechanisms.randomised_response(F(3, 4)), 2, 1)
    reached = subset.best_accuracy(told, 2, 1, 0)
    half.append(((math.log(3),), reached * (1 - F(1, 10**13))))
    assert_bound(
        lambda e: F(lowy2024.success_from_pmp(e)),
        half,
        {"half of ε": lambda e: F(lowy2024.success_from_pmp(e / 2))},
    )
    assert_bound(
        lambda e: F(lowy2024.eta_from_pmp(e)),
        etas,
        {"a quarter": lambda e: F(lowy2024.eta_from_pmp(e)) / 4},
    )
    assert_bound(
        lambda *at: F(lowy2024.success_from_pmp_at_any_size(*at)),
        any_size,
        {"without the prior": lambda e, k, n: F(lowy2024.success_from_pmp(e / 9))},
    )


def test_mechanisms_that_separate_the_notions():
    for n in (2, 3, 4):
        assert lowy2024.pmp_ratio(lowy2024.sum_modulo(n), 2 * n) == subset.pmp_ratio(
            mechanisms.sum_mod(2 * n), 2 * n, n
        )
        for smallest, factor in ((False, 1), (True, n)):
            release = lowy2024.release_one_record(n, F(1, 20), smallest=smallest)
            assert lowy2024.eta_of_mechanism(release, 2 * n) == factor * F(1, 40)
        average, worst = lowy2024.exposed_record(2 * n)
        assert (average, worst) == (F(2, 2 * n), 1)
    with pytest.raises(InputError, match="eta"):
        lowy2024.release_one_record(5, F(1, 4))
    plain, swapped = (
        lowy2024.sum_modulo(3),
        lambda d: {sum((0, 1, 2, 3, 5, 4)[x] for x in d) % 6: 1},
    )
    assert lowy2024.pmp_ratio(swapped, 6) == lowy2024.pmp_ratio(plain, 6) == 2
    assert lowy2024.pmp_ratio(lowy2024.joint_release(plain, swapped), 6) is None
    assert lowy2024.prior_of_repeated_record(2, 4, 2) == 1 - F(1, 6)
    assert lowy2024.prior_of_repeated_record(1, 6, 2) == F(1, 3)
    for bits in ((0, 1, 1, 0), (1, 1, 1, 1), (0, 0)):
        assert lowy2024.missing_parity_bit(bits[1:]) == bits[0]
    with pytest.raises(InputError, match="bits"):
        lowy2024.missing_parity_bit([0, 2])


def weights(losses, chosen, epsilon, sensitivity):
    """The exponential mechanism by its definition."""
    mean = losses[list(chosen)].mean(axis=0)
    w = np.exp(-epsilon * (mean - mean.min()) / (2 * sensitivity))
    return w / w.sum()


def test_exponential_curve_by_definition():
    """Truth: all halves by the definition of the mechanism; beyond 28 records a bound above it."""
    rows = lowy2024.draw_population(3, 2, sigma=1.0, seed=4)
    candidates = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    losses = np.linalg.norm(rows[:, None] - candidates, axis=2)
    epsilons = np.array([1.0, 20.0])
    curve = lowy2024.exponential_curve(rows, candidates, epsilons, clip=10.0)
    wide = (10 + np.linalg.norm(candidates, axis=1).max()) / 3
    for epsilon, found in zip(epsilons, curve.pmp_epsilon, strict=True):
        sets = list(subset.subsets(6, 3))
        laws = {d: weights(losses, d, epsilon, wide) for d in sets}
        worst = max(
            np.abs(np.log(
                np.mean([laws[d] for d in sets if x in d], axis=0)
                / np.mean([laws[d] for d in sets if x not in d], axis=0)
            )).max()
            for x in range(6)
        )  # fmt: skip
        assert worst <= found <= worst * (1 + 1e-9)
    assert (curve.pmp_epsilon < curve.epsilon_population).all()
    assert (curve.epsilon_population < epsilons).all()
    many = ExponentialMechanism(np.repeat(losses, 6, axis=0), 18, 1.0, wide / 6)
    assert 0 < lowy2024.exponential_pmp(many) <= many.epsilon_population
    with pytest.raises(InputError, match="even"):
        lowy2024.exponential_curve(rows[:5], candidates, epsilons)
    # A record outside the public ball would make ε false.
    for curve_of in (
        lambda: lowy2024.exponential_curve(rows, candidates, epsilons, clip=0.1),
        lambda: lowy2024.gaussian_curve(rows, epsilons, clip=0.1),
    ):
        with pytest.raises(InputError, match="largest norm"):
            curve_of()


def test_gaussian_curve_by_the_coupling_formula():
    """Truth: L24-P12's mean over neighbours of the Gaussian hockey-stick, from a naive loop."""
    from statistics import NormalDist

    phi, delta = NormalDist().cdf, 0.01
    rows = lowy2024.draw_population(4, 2, sigma=3.0, clip=6.0, outliers=5.0, seed=2)
    curve = lowy2024.gaussian_curve(rows, [2.0, 5.0], delta=delta, clip=6.0)
    for i, sigma in enumerate(curve.sigma):

        def stick(far, eps, s=4 * sigma):
            shift = far / s
            return phi(shift / 2 - eps / shift) - math.exp(eps) * phi(-shift / 2 - eps / shift)

        assert stick(12.0, curve.epsilon[i]) <= delta * (1 + 1e-9)
        exact = lowy2024.gaussian_pmp(rows, sigma, delta)
        for x in range(8):
            far = [math.dist(rows[x], rows[y]) for y in range(8) if y != x]
            assert np.mean([stick(f, exact[x]) for f in far]) <= delta * (1 + 1e-6)
            assert np.mean([stick(f, exact[x] - 0.02) for f in far]) > delta
        assert exact.max() <= curve.pmp_epsilon[i] <= exact.max() * 1.02 + 0.02
        assert curve.proved[i] <= curve.pmp_epsilon[i]
    assert (curve.epsilon_population < curve.epsilon).all()
    noise = lowy2024.gaussian_noise([0.5, 1.0], 1e-5, 1.0)
    assert (lowy2024.gaussian_dp_delta(1.0, noise, [0.5, 1.0]) <= 1e-5 * (1 + 1e-9)).all()
    assert (lowy2024.gaussian_dp_delta(1.0, noise * 0.999, [0.5, 1.0]) > 1e-5).all()


def test_population_is_as_described():
    rows = lowy2024.draw_population(200, 3, sigma=2.0, clip=50.0, centre=[1.0, 0.0, 0.0], seed=1)
    assert rows.shape == (400, 3)
    assert rows.mean(axis=0) == pytest.approx([1, 0, 0], abs=0.4)
    far = lowy2024.draw_population(200, 3, sigma=2.0, clip=50.0, outliers=100.0, seed=1)
    lengths = np.linalg.norm(far, axis=1)
    assert (lengths <= 50).all()
    assert int((lengths > 40).sum()) == 2
