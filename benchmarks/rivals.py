"""What the benchmark of ``protect`` compares with; imported, not run.

Every function returns a noise law for a statistic, or a noisy minimiser, at a wanted η.

PAC-style noise (Xiao and Devadas, "PAC Privacy").  With Σ the covariance of the statistic over
random halves and Gaussian noise of covariance B, I(D; release) ≤ ½ log det(I + Σ B⁻¹).  A fair bit
that is guessed with probability ½ + η carries at least ln 2 - H(½ + η) nats (Fano; the weaker
Pinsker form is 2η²).  So a budget of ln 2 - H(½ + η) holds for every record.  For the average
record the records' bits share the information: Σ_x I(bit_x; release) ≤ I(D; release) + T, where
T = N ln 2 - ln C(N, N/2) is the total correlation of the N bits of a uniform half, and the mean η
is at most the η of the mean information.  Σ is estimated, so both are estimates and prove nothing.

Differential privacy at the ε that I24-T4 equates with η: ε = ln((1+2η)/(1-2η)) for δ = 0.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import gammaln

from memberbound.release.noise import (
    GaussianNoise,
    NoiseLaw,
    NormExponentialNoise,
    ScaledNorm,
    ShapedGaussianNoise,
)
from memberbound.subset.gaussian import noise_from_dp

#: δ of the Gaussian mechanism.
DELTA = 1e-5
#: Full covariances are used from this many outputs per coordinate on.
PER_COORDINATE = 4


def information_of(eta: float) -> float:
    """Nats that a fair bit carries at least when it is guessed with probability ½ + η."""
    return 0.5 * ((1 + 2 * eta) * math.log1p(2 * eta) + (1 - 2 * eta) * math.log1p(-2 * eta))


def total_correlation(records: int) -> float:
    """N ln 2 - ln C(N, N/2): by how much the bits of a uniform half are not independent."""
    half = records // 2
    ways = gammaln(records + 1) - gammaln(half + 1) - gammaln(records - half + 1)
    return float(records * math.log(2) - ways)


def shared_budget(eta: float, records: int) -> float:
    """Nats about the whole half that keep the average record at η; negative if none do."""
    return records * information_of(eta) - total_correlation(records)


def least_variances(spread: np.ndarray, budget: float) -> np.ndarray:
    """Noise variances b of least sum with ½ Σ log(1 + λ/b) = budget.

    Lagrange: b² + λb = κλ, so b = 2κλ/(λ + √(λ² + 4κλ)); κ by bisection.
    """

    def variances(log_kappa: float) -> np.ndarray:
        kappa = math.exp(log_kappa)
        return 2 * kappa * spread / (spread + np.sqrt(spread**2 + 4 * kappa * spread))

    def over(log_kappa: float) -> float:
        return 0.5 * float(np.log1p(spread / variances(log_kappa)).sum()) - budget

    scale = math.log(spread.max())
    return variances(brentq(over, scale - 60, scale + 60))


def covariance_of(outputs: np.ndarray) -> np.ndarray:
    """Estimate the statistic's covariance over random halves.

    With too few outputs for all directions only the diagonal is kept, for which the bound on the
    information holds too (Hadamard: a determinant is at most the product of its diagonal).
    """
    count, dimension = outputs.shape
    if count >= PER_COORDINATE * dimension and dimension > 1:
        return np.cov(outputs, rowvar=False)
    return np.diag(outputs.var(axis=0, ddof=1))


def pac_noise(covariance: np.ndarray, budget: float) -> NoiseLaw | None:
    """PAC-style noise of least variance for the budget; None if that is not positive.

    Directions without spread are given a millionth of the widest one's.
    """
    if budget <= 0:
        return None
    spread, axes = np.linalg.eigh(covariance)
    spread = np.maximum(spread, 1e-6 * spread.max())
    return shaped(axes, least_variances(spread, budget))


def shaped(axes: np.ndarray, variances: np.ndarray) -> NoiseLaw:
    """Gaussian noise with these variances along these axes."""
    covariance = (axes * variances) @ axes.T
    return ShapedGaussianNoise.from_covariance((covariance + covariance.T) / 2)


def epsilon_of(eta: float, delta: float = 0.0) -> float:
    """ε at which I24-T4 promises η: δ + (1-δ)/(1+e^{-ε}) = ½ + η."""
    right = (0.5 + eta - delta) / (1 - delta)
    return math.log(right / (1 - right))


def dp_noise(kind: str, eta: float, sensitivity: float, dimension: int) -> NoiseLaw:
    """Output perturbation at the ε of η, from the statistic's ℓ₂-sensitivity.

    ``pure``: exp(-ε‖x‖/sensitivity) (δ = 0); ``gaussian``: the analytic Gaussian mechanism at
    δ = 1e-5; ``tv``: Gaussian noise with (0, 2η)-DP, the most that η allows a sensitivity bound.
    """
    if kind == "pure":
        return NormExponentialNoise(ScaledNorm.plain(dimension), sensitivity / epsilon_of(eta))
    if kind == "gaussian":
        sigma = noise_from_dp(epsilon_of(eta, DELTA), DELTA, sensitivity)
    elif kind == "tv":
        sigma = noise_from_dp(0.0, 2 * eta, sensitivity)
    else:
        raise ValueError(kind)
    return GaussianNoise(sigma, dimension)


def risk_sensitivity(radius: float, classes: int, size: int, weight: float) -> float:
    """2L/(nλ): how far the minimiser moves at most when any record becomes any other.

    ``radius`` bounds the rows' length, the constant included; a softmax residual is up to √2 long.
    """
    return 2 * radius * (1.0 if classes == 2 else math.sqrt(2)) / (size * weight)


def objective_perturbation(
    design: np.ndarray,
    codes: np.ndarray,
    *,
    classes: int,
    radius: float,
    weight: float,
    epsilon: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Chaudhuri, Monteleoni and Sarwate's objective perturbation for logistic regression.

    Rows (the constant included) are at most ``radius`` long.  Several classes are one against the
    rest at ε/classes each, as in diffprivlib.  Returns (outputs, features).
    """
    rows = design / radius
    signs = [np.where(codes == 1, 1.0, -1.0)]
    if classes > 2:
        signs = [np.where(codes == k, 1.0, -1.0) for k in range(classes)]
    found = [
        _perturbed(rows, sign, weight / radius**2, epsilon / len(signs), rng) for sign in signs
    ]
    return np.array(found) / radius


def _perturbed(
    rows: np.ndarray, signs: np.ndarray, weight: float, epsilon: float, rng: np.random.Generator
) -> np.ndarray:
    size, dimension = rows.shape
    curvature = 0.25
    ratio = curvature / (size * weight)
    left, extra = epsilon - 2 * math.log1p(ratio), 0.0
    if left <= 0:
        extra = max(curvature / (size * math.expm1(epsilon / 4)) - weight, 0.0)
        left = epsilon / 2
    direction = rng.normal(size=dimension)
    push = direction / np.linalg.norm(direction) * rng.gamma(dimension, 2 / left)

    def value(theta: np.ndarray) -> tuple[float, np.ndarray]:
        margins = signs * (rows @ theta)
        loss = np.logaddexp(0.0, -margins).mean() + push @ theta / size
        loss += (weight + extra) / 2 * theta @ theta
        slope = -(signs / (1 + np.exp(np.clip(margins, -700, 700)))) @ rows / size
        return float(loss), slope + push / size + (weight + extra) * theta

    start = np.zeros(dimension)
    return np.asarray(minimize(value, start, jac=True, method="L-BFGS-B").x)


def diffprivlib_problem(seed: int = 0) -> str | None:
    """What goes wrong when diffprivlib's LogisticRegression is asked for, or None."""
    try:
        from diffprivlib.models import LogisticRegression

        rows = np.random.default_rng(seed).normal(size=(40, 2))
        LogisticRegression(epsilon=1.0, data_norm=9.0).fit(rows, (rows[:, 0] > 0).astype(int))
    except Exception as error:
        return f"{type(error).__name__}: {error}".split(" (")[0]
    return None
