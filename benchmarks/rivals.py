"""Competing mechanisms for the benchmark of ``protect``; imported, not run.

Every function returns a noise law for a statistic at a given η.

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
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

from memberbound.release.noise import GaussianNoise, NormExponentialNoise
from memberbound.subset.gaussian import noise_from_dp

#: δ of the Gaussian mechanism.
DELTA = 1e-5


class Law(Protocol):
    """The properties of a noise law that the benchmark uses."""

    @property
    def rms(self) -> float:
        """Root-mean-square length."""


@dataclass(frozen=True, eq=False)
class AxisNoise:
    """Gaussian noise with these variances along these axes (columns)."""

    axes: np.ndarray
    variances: np.ndarray

    @property
    def rms(self) -> float:
        """√trace of the covariance."""
        return math.sqrt(float(self.variances.sum()))

    @property
    def covariance(self) -> np.ndarray:
        """The covariance matrix."""
        return np.asarray((self.axes * self.variances) @ self.axes.T)


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


def pac_noise(covariance: np.ndarray, budget: float) -> Law | None:
    """PAC-style noise of least variance for the budget; None if that is not positive.

    Directions without spread are given a millionth of the widest one's.
    """
    if budget <= 0:
        return None
    spread, axes = np.linalg.eigh(covariance)
    spread = np.maximum(spread, 1e-6 * spread.max())
    return AxisNoise(axes, least_variances(spread, budget))


def epsilon_of(eta: float, delta: float = 0.0) -> float:
    """ε at which I24-T4 promises η: δ + (1-δ)/(1+e^{-ε}) = ½ + η."""
    right = (0.5 + eta - delta) / (1 - delta)
    return math.log(right / (1 - right))


def dp_noise(kind: str, eta: float, sensitivity: float, dimension: int) -> Law:
    """Output perturbation at the ε of η, from the statistic's ℓ₂-sensitivity.

    ``pure``: exp(-ε‖x‖/sensitivity) (δ = 0); ``gaussian``: the analytic Gaussian mechanism at
    δ = 1e-5; ``tv``: Gaussian noise with (0, 2η)-DP, the most that η allows a sensitivity bound.
    """
    if kind == "pure":
        euclidean = np.full(dimension, dimension**-0.5)
        return NormExponentialNoise(euclidean, sensitivity / epsilon_of(eta))
    if kind == "gaussian":
        sigma = noise_from_dp(epsilon_of(eta, DELTA), DELTA, sensitivity)
    elif kind == "tv":
        sigma = noise_from_dp(0.0, 2 * eta, sensitivity)
    else:
        raise ValueError(kind)
    return GaussianNoise(sigma, dimension)
