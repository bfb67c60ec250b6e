"""X3: one fit bounds how far every swap moves a convex learner (proofs/convex-learners.md).

Truth: both training sets are fitted again by a second implementation, plain Newton steps on the
written-out objective, to a gradient below 1e-13.
"""

from dataclasses import replace

import numpy as np
import pytest

from memberbound.release.convex import Metric, SwapLengths
from memberbound.release.erm import Fit, RegularisedRisk

LOSSES = ("logistic", "softmax", "ridge", "squared-hinge")


def population(loss, seed, *, records=10, width=2, spread=1.0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(records, width)) * spread
    if loss == "ridge":
        return features, rng.normal(size=records)
    classes = 3 if loss in ("softmax", "squared-hinge") else 2
    target = rng.integers(classes, size=records)
    target[:classes] = np.arange(classes)
    return features, target


def slope_and_bend(loss, theta, x, y, classes):
    """Gradient and Hessian of one record's loss, written out."""
    if loss == "logistic":
        p = 1 / (1 + np.exp(-theta @ x))
        return (p - y) * x, p * (1 - p) * np.outer(x, x)
    if loss == "ridge":
        return (theta @ x - y) * x, np.outer(x, x)
    rows = theta.reshape(classes, -1)
    if loss == "softmax":
        e = np.exp(rows @ x)
        p = e / e.sum()
        return np.kron(p - np.eye(classes)[y], x), np.kron(
            np.diag(p) - np.outer(p, p), np.outer(x, x)
        )
    sign = 2 * np.eye(classes)[y] - 1
    short = np.maximum(0, 1 - sign * (rows @ x))
    return np.kron(-sign * short, x), np.kron(np.diag((short > 0) * 1.0), np.outer(x, x))


def gradient(loss, theta, design, target, *, rows, lam, classes):
    parts = [slope_and_bend(loss, theta, design[i], target[i], classes)[0] for i in rows]
    return sum(parts) / len(rows) + lam * theta


def refit(loss, design, target, rows, *, lam, classes):
    outputs = classes if loss in ("softmax", "squared-hinge") else 1
    theta = np.zeros(outputs * design.shape[1])
    for _ in range(100):
        both = [slope_and_bend(loss, theta, design[i], target[i], classes) for i in rows]
        slope = sum(g for g, _ in both) / len(rows) + lam * theta
        if np.linalg.norm(slope) < 1e-13:
            return theta
        theta = theta - np.linalg.solve(
            sum(h for _, h in both) / len(rows) + lam * np.eye(theta.size), slope
        )
    raise AssertionError("the oracle did not converge")


def cases():
    seed = 0
    for loss in LOSSES:
        for lam in (0.1, 1.0, 20.0):
            for spread in (0.5, 2.0):
                seed += 1
                features, target = population(loss, seed, spread=spread)
                risk = RegularisedRisk(features, target, loss, lam)
                rows = np.sort(np.random.default_rng(seed).permutation(10)[:5])
                yield loss, risk, rows, seed


@pytest.fixture(scope="module")
def swaps():
    """(risk, rows, metric, insiders, outsiders, true lengths) of every case in two metrics."""
    found = []
    for loss, risk, rows, seed in cases():
        outside = np.setdiff1d(np.arange(10), rows)
        classes = risk.rule.outputs
        target = risk.target

        def fitted(chosen, risk=risk, loss=loss, classes=classes, target=target):
            return refit(
                loss, risk.design, target, chosen, lam=risk.regularisation, classes=classes
            )

        home = fitted(rows)
        moves = np.array(
            [[fitted(np.append(rows[rows != x], y)) - home for y in outside] for x in rows]
        )
        rng = np.random.default_rng(seed)
        factor = np.tril(rng.normal(size=(risk.dimension, risk.dimension))) * 0.3
        factor[np.diag_indices(risk.dimension)] = rng.uniform(0.2, 3.0, size=risk.dimension)
        for metric in (Metric(), Metric(factor)):
            inverse = np.eye(risk.dimension) if metric.factor is None else np.linalg.inv(factor)
            found.append((risk, rows, metric, outside, np.linalg.norm(moves @ inverse.T, axis=2)))
    return found


def violations(swaps, bound):
    bad = 0
    for risk, rows, metric, outside, truth in swaps:
        bad += int((bound(risk, rows, metric, outside) < truth).sum())
    return bad


def lengths(local):
    def bound(risk, rows, metric, outside):
        return SwapLengths.of(risk, rows, metric, local=local).lengths(rows, outside)

    return bound


@pytest.mark.parametrize("local", [False, True])
def test_no_swap_moves_the_fit_further(swaps, local):
    assert violations(swaps, lengths(local)) == 0


def test_local_curvature_only_helps_and_often_much(swaps):
    ratios = []
    for risk, rows, metric, outside, truth in swaps:
        near, far = (lengths(k)(risk, rows, metric, outside) for k in (True, False))
        assert (near <= far).all()
        if risk.rule.name in ("logistic", "softmax") and risk.regularisation == 1.0:
            ratios.append(np.median(near / truth))
    assert np.median(ratios) < 2.5


def test_tight_under_strong_regularisation(swaps):
    close = [
        np.median(lengths(True)(risk, rows, metric, outside) / truth)
        for risk, rows, metric, outside, truth in swaps
        if risk.regularisation == 20.0 and metric.factor is None and risk.rule.flatness is not None
    ]
    assert max(close) < 1.1


def without_strong_convexity(risk, rows, metric, outside):
    """Broken: ‖g - g'‖/n, as if λ were 1."""
    found = SwapLengths.of(risk, rows, metric, local=False)
    return found.gradients.distances(rows, outside) / len(rows) * metric.stretch


def a_tenth_less(risk, rows, metric, outside):
    return 0.9 * lengths(False)(risk, rows, metric, outside)


def naive_metric(risk, rows, metric, outside):
    """Broken: gradients measured in the noise's metric; H̄ need not commute with it."""
    found = SwapLengths.of(risk, rows, metric, local=False)
    vectors = found.gradients.vectors()
    gaps = vectors[rows][:, None, :] - vectors[outside][None, :, :]
    inverse = np.eye(risk.dimension) if metric.factor is None else np.linalg.inv(metric.factor)
    return np.linalg.norm(gaps @ inverse.T, axis=2) / (len(rows) * risk.regularisation)


def without_leverage(risk, rows, metric, outside):
    """Broken: the leaving record's own curvature is not taken off the Hessian."""
    found = SwapLengths.of(risk, rows, metric)
    if found.curvature is not None:
        bare = replace(found.curvature, weights=np.zeros(risk.records))
        object.__setattr__(found, "curvature", bare)
    return found.lengths(rows, outside)


def frozen_curvature(risk, rows, metric, outside):
    """Broken: the curvature at the fit is taken for that of the whole segment."""
    found = SwapLengths.of(risk, rows, metric)
    if found.curvature is not None:
        object.__setattr__(found, "curvature", replace(found.curvature, widest=0.0))
    return found.lengths(rows, outside)


@pytest.mark.parametrize(
    "broken",
    [without_strong_convexity, a_tenth_less, naive_metric, without_leverage],
)
def test_broken_bounds_are_caught(swaps, broken):
    assert violations(swaps, broken) > 0


def test_curvature_may_fall_along_the_way():
    """Two opposed records hold θ at 0; without one it runs off to where the other is flat."""
    features, target = np.array([[1.0], [1.0], [0.01]]), np.array([1, 0, 1])
    risk = RegularisedRisk(features, target, "logistic", 0.01, intercept=False)
    rows, outside = np.array([0, 1]), np.array([2])
    moved = refit("logistic", features, target, np.array([0, 2]), lam=0.01, classes=2)
    truth = np.linalg.norm(moved - refit("logistic", features, target, rows, lam=0.01, classes=2))
    assert lengths(True)(risk, rows, Metric(), outside)[1, 0] >= truth
    assert frozen_curvature(risk, rows, Metric(), outside)[1, 0] < truth


# ---- inexact minimisers --------------------------------------------------------------------------


def loose_pair(loss, seed, tau):
    """Two points whose gradients have norm τ exactly, for a swap of twins: they push apart."""
    features, target = population(loss, seed)
    features[1], target[1] = features[0], target[0]
    risk = RegularisedRisk(features, target, loss, 2.0, tolerance=tau)
    rows, other = np.array([0, 2, 3, 4, 5, 6]), np.array([1, 2, 3, 4, 5, 6])
    classes = risk.rule.outputs
    exact = refit(loss, risk.design, target, rows, lam=2.0, classes=classes)
    direction = np.random.default_rng(seed).normal(size=exact.size)

    def at_level(sign):
        low, high = 0.0, 10.0
        for _ in range(50):
            middle = (low + high) / 2
            point = exact + sign * middle * direction
            size = np.linalg.norm(
                gradient(loss, point, risk.design, target, rows=rows, lam=2.0, classes=classes)
            )
            low, high = (middle, high) if size <= tau else (low, middle)
        return exact + sign * low * direction

    return risk, rows, other, at_level(1.0), at_level(-1.0)


def loose_violations(bound):
    bad = 0
    for seed, loss in enumerate(LOSSES):
        for tau in (1e-3, 0.1):
            risk, rows, _, first, second = loose_pair(loss, seed, tau)
            found = SwapLengths(risk, rows, Fit(first, tau, 0), Metric())
            bad += bool(bound(found, tau) < np.linalg.norm(first - second))
    return bad


def test_inexact_minimisers_are_paid_for():
    assert loose_violations(lambda f, _: f.lengths(np.array([0]), np.array([1]))[0, 0]) == 0


def test_forgetting_the_tolerance_is_caught():
    def without(found, tau):
        return found.gradients.distances(np.array([0]), np.array([1]))[0, 0] / (6 * 2.0)

    def half(found, tau):
        return without(found, tau) + tau / 2.0

    assert loose_violations(without) > 0
    assert loose_violations(half) > 0
