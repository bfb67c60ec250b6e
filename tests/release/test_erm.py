"""Regularised risks: gradients against finite differences, fits against 40-digit arithmetic."""

import mpmath
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from memberbound.errors import InputError, SearchError
from memberbound.release.erm import DENSE, SMALL, RegularisedRisk, regularisation_from_c


def data(loss, records=40, width=3, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(records, width))
    if loss == "ridge":
        return features, features @ rng.normal(size=width) + rng.normal(size=records)
    count = 2 if loss == "logistic" else classes
    target = (features @ rng.normal(size=(width, count))).argmax(axis=1)
    target[:count] = np.arange(count)
    return features, target


LOSSES = ("logistic", "softmax", "ridge", "squared-hinge")


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_and_hessians_are_derivatives(loss):
    features, target = data(loss)
    risk = RegularisedRisk(features, target, loss, 0.1)
    theta = np.random.default_rng(1).normal(size=risk.dimension)
    vectors = risk.gradients(theta).vectors()

    def losses(point):
        return risk.rule.values(risk.design @ point.reshape(risk.rule.outputs, -1).T, risk.coded)

    for j in range(risk.dimension):
        step = np.zeros(risk.dimension)
        step[j] = 1e-6
        slope = (losses(theta + step) - losses(theta - step)) / 2e-6
        assert np.allclose(vectors[:, j], slope, atol=1e-7)
        bend = (
            risk.gradients(theta + step).vectors() - risk.gradients(theta - step).vectors()
        ) / 2e-6
        full = bend.mean(axis=0) + 0.1 * (np.arange(risk.dimension) == j)
        assert np.allclose(risk.hessian(theta)[j], full, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_structured_distances_are_above_the_naive_ones_and_close(loss):
    features, target = data(loss, seed=2)
    features[7], target[7] = features[5], target[5]
    risk = RegularisedRisk(features, target, loss, 0.1, clip=1.5)
    gradients = risk.gradients(risk.population_fit.theta)
    rows, others = np.arange(20), np.arange(5, 40)
    vectors = gradients.vectors()
    naive = np.linalg.norm(vectors[rows][:, None] - vectors[others][None], axis=2)
    found = gradients.distances(rows, others)
    assert (found >= naive).all()
    assert np.allclose(found, naive, atol=1e-6 * np.abs(vectors).max())
    broken = np.sqrt(np.maximum(found**2 - 1e-6, 0))  # the slack is not what makes it pass
    assert (broken < naive).any()


@pytest.mark.parametrize("loss", LOSSES)
def test_worst_distances_cover_the_fits(loss):
    features, target = data(loss, seed=3)
    for lam in (0.01, 1.0):
        risk = RegularisedRisk(features, target, loss, lam)
        everyone = np.arange(risk.records)
        worst = risk.worst_distances(everyone, everyone)
        rng = np.random.default_rng(0)
        for _ in range(20):
            theta = risk(rng.permutation(40)[: rng.integers(1, 40)])
            gradients = risk.gradients(theta)
            assert (np.linalg.norm(gradients.residuals, axis=1) <= risk.residual_bounds).all()
            naive = gradients.vectors()
            apart = np.linalg.norm(naive[:, None] - naive[None], axis=2)
            assert (apart <= worst).all()


def exact_gradient_norm(risk, theta, rows):
    """The objective's gradient at the double θ, 40 digits, logistic loss."""
    with mpmath.workdps(40):
        total = [mpmath.mpf(risk.regularisation) * mpmath.mpf(float(t)) for t in theta]
        for i in rows:
            x = [mpmath.mpf(float(v)) for v in risk.design[i]]
            score = mpmath.fsum(a * mpmath.mpf(float(t)) for a, t in zip(x, theta, strict=True))
            residual = 1 / (1 + mpmath.exp(-score)) - int(risk.target[i])
            total = [t + residual * a / len(rows) for t, a in zip(total, x, strict=True)]
        return mpmath.sqrt(mpmath.fsum(t**2 for t in total))


@pytest.mark.parametrize("tolerance", [None, 1e-13, 1e-3])
def test_certified_gradient_norm_is_above_the_exact_one(tolerance):
    features, target = data("logistic", records=10)
    risk = RegularisedRisk(features, target, "logistic", 0.05, tolerance=tolerance)
    for seed in range(8):
        rows = np.random.default_rng(seed).permutation(10)[:5]
        fit = risk.fit(rows)
        truth = exact_gradient_norm(risk, fit.theta, rows)
        assert truth <= fit.gradient_norm <= risk.gradient_tolerance
        # The computed norm alone would not do where rounding is all there is.
        assert fit.gradient_norm <= float(truth) + 1e-12


def test_fit_is_within_the_tolerance_of_the_minimiser():
    features, target = data("logistic", records=6, width=1)
    risk = RegularisedRisk(features, target, "logistic", 0.1, tolerance=1e-12)
    rows = np.array([0, 2, 3, 5])
    found = risk.fit(rows)
    with mpmath.workdps(30):

        def slopes(a, b):
            out = [mpmath.mpf("0.1") * a, mpmath.mpf("0.1") * b]
            for i in rows:
                x = mpmath.mpf(float(features[i, 0]))
                r = (1 / (1 + mpmath.exp(-a * x - b)) - int(target[i])) / 4
                out = [out[0] + r * x, out[1] + r]
            return out

        exact = mpmath.findroot(slopes, tuple(found.theta))
        error = max(abs(e - mpmath.mpf(float(t))) for e, t in zip(exact, found.theta, strict=True))
    assert error <= found.gradient_norm / 0.1


def test_scikit_learn_finds_the_same_minimisers():
    features, target = data("logistic", records=60, seed=4)
    rows = np.arange(0, 60, 2)
    for c in (0.1, 3.0):
        risk = RegularisedRisk(
            features, target, "logistic", regularisation_from_c("logistic", c, 30)
        )
        theirs = LogisticRegression(C=c, fit_intercept=False, tol=1e-10, max_iter=10_000)
        theirs.fit(risk.design[rows], target[rows])
        assert np.allclose(risk(rows), theirs.coef_[0], atol=1e-5)
        lam = regularisation_from_c("squared-hinge", c, 30)
        risk = RegularisedRisk(features, target, "squared-hinge", lam)
        svm = LinearSVC(C=c, fit_intercept=False, tol=1e-10, max_iter=10**6, dual=False)
        svm.fit(risk.design[rows], target[rows])
        assert np.allclose(risk(rows), svm.coef_[0], atol=1e-4)
    features, target = data("ridge", records=60)
    risk = RegularisedRisk(features, target, "ridge", 2.0 / 30)
    theirs = Ridge(alpha=2.0, fit_intercept=False).fit(risk.design[rows], target[rows])
    assert np.allclose(risk(rows), theirs.coef_, atol=1e-6)
    assert risk.score(risk(rows), features, target) > 0.4
    features, target = data("softmax", records=60)
    risk = RegularisedRisk(features, target, "softmax", 1 / 30)
    theirs = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=10_000)
    theirs.fit(risk.design[rows], target[rows])
    assert np.allclose(risk(rows), theirs.coef_.ravel(), atol=1e-5)
    assert np.allclose(
        risk.probabilities(risk(rows), features), theirs.predict_proba(risk.design), atol=1e-5
    )


@pytest.mark.parametrize("width", [SMALL, DENSE // 2 + 10])
@pytest.mark.parametrize("loss", ["softmax", "squared-hinge"])
def test_many_coordinates_take_other_roads_to_the_same_place(width, loss):
    features, target = data(loss, records=40, width=width, seed=5)
    risk = RegularisedRisk(features / np.sqrt(width), target, loss, 0.3)
    assert risk.dimension > (SMALL if width == SMALL else DENSE)
    rows = np.arange(20)
    fit = risk.fit(rows)
    assert fit.gradient_norm <= risk.gradient_tolerance
    slope = risk.gradients(fit.theta).vectors()[rows].mean(axis=0) + 0.3 * fit.theta
    assert np.linalg.norm(slope) <= risk.gradient_tolerance


def test_a_fit_is_a_function_of_the_set():
    features, target = data("logistic")
    risk = RegularisedRisk(features, target, "logistic", 0.1)
    rows = np.array([9, 3, 30, 1, 17])
    assert (risk(rows) == risk(rows[::-1])).all()


def test_clipping_and_intercept():
    risk = RegularisedRisk([[3.0, 4.0], [0.3, 0.4]], [0, 1], "logistic", 1.0, clip=1.0)
    assert np.allclose(risk.design, [[0.6, 0.8, 1.0], [0.3, 0.4, 1.0]])
    assert np.allclose(risk.decision([1.0, 1.0, 0.5], [[30.0, 40.0]]), [[1.9]])
    bare = RegularisedRisk([[3.0], [1.0]], [0, 1], "logistic", 1.0, intercept=False)
    assert bare.dimension == 1
    assert np.allclose(bare.norms, [3, 1])
    assert (bare.norms >= [3, 1]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": [[np.nan]]}, "features must be a finite table"),
        ({"target": [0, 0]}, "at least two classes"),
        ({"target": [0, 2]}, "classes must cover"),
        ({"target": ["a", "b"]}, "class codes"),
        ({"target": [0, 1, 1]}, "target must have 2 rows"),
        ({"loss": "hinge"}, "loss must be one of"),
        ({"regularisation": 0.0}, "regularisation must be greater than 0"),
        ({"clip": -1.0}, "clip must be greater than 0"),
    ],
)
def test_bad_input(change, message):
    good = {"features": [[1.0], [2.0]], "target": [0, 1], "loss": "logistic", "regularisation": 1.0}
    with pytest.raises(InputError, match=message):
        RegularisedRisk(**(good | change))


def test_failure_is_loud():
    features, target = data("logistic")
    risk = RegularisedRisk(features, target, "logistic", 0.1, tolerance=1e-30)
    with pytest.raises(SearchError, match="gradient norm"):
        risk(np.arange(10))
    good = RegularisedRisk(features, target, "logistic", 0.1)
    with pytest.raises(InputError, match="rows must be"):
        good(np.array([99]))
    with pytest.raises(InputError, match="theta must be"):
        good.gradients(np.zeros(2))
    with pytest.raises(InputError, match="probabilities"):
        RegularisedRisk(features, target, "squared-hinge", 0.1).probabilities(np.zeros(4), features)
