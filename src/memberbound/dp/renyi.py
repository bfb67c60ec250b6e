"""Curves from Rényi differential privacy and zero-concentrated DP.

A Rényi bound D_α ≤ τ in both directions gives a δ for every ε (Canonne, Kamath and Steinke 2020,
Prop. 12)

    δ(ε) = e^{(α-1)(τ-ε)}/(α-1) · (1 - 1/α)^α,

valid for every order α > 1, so the smallest over the orders is valid.  At ε = 0 the Kullback–
Leibler divergence, which no D_α with α ≥ 1 falls below, bounds the total variation by Pinsker's
√(KL/2) and by Bretagnolle–Huber's √(1 - e^{-KL}).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from memberbound.curve import polygon_from_lines
from memberbound.dp.guarantees import DpGuarantee
from memberbound.errors import InputError, nonnegative
from memberbound.games import Adjacency
from memberbound.numerics.rounding import UNIT, FloatArray, up

__all__ = ["guarantee_from_rdp", "guarantee_from_zcdp"]

#: Values as large as this prove nothing that double precision could tell from nothing.
_USELESS = 1e9
#: Smallest ln δ that is claimed: beyond it the exponential would lose digits.
_SMALLEST_LOG = -690.0
_ORDERS = np.concatenate([1 + np.geomspace(1e-3, 1.0, 60), np.geomspace(2.05, 1e5, 400)])


def guarantee_from_rdp(
    orders: Sequence[float], values: Sequence[float], adjacency: Adjacency = "replace-one"
) -> DpGuarantee:
    """Return a curve for a mechanism whose Rényi divergence of order α is at most τ(α).

    Guarantee: at or above the curve of every such mechanism.
    Numerics: not the best possible curve; the loss is largest near ε = 0.
    """
    alpha = np.asarray(orders, dtype=np.float64)
    tau = np.asarray(values, dtype=np.float64)
    if alpha.ndim != 1 or alpha.size == 0 or alpha.shape != tau.shape:
        raise InputError("orders and values must be lists of the same length, at least one each.")
    if not np.all(alpha > 1) or not np.all(np.isfinite(alpha)):
        raise InputError(f"orders must be finite and greater than 1, got {orders!r}.")
    if not np.all(tau >= 0):
        raise InputError(f"values must be at least 0, got {values!r}.")
    keep = tau < _USELESS
    if not keep.any():
        return DpGuarantee(polygon_from_lines([0.0], [1.0], [0.0], [1.0]), adjacency, "Rényi DP")
    alpha, tau = alpha[keep], tau[keep]
    eps = _epsilon_grid(alpha, tau)
    delta = _delta(alpha, tau, eps)
    kl = float(tau.min())
    total_variation = min(math.sqrt(kl) * math.sqrt(0.5), math.sqrt(-math.expm1(-kl)))
    delta[0] = min(delta[0], up(total_variation, 8))
    return DpGuarantee(polygon_from_lines(eps, delta, eps, delta), adjacency, "Rényi DP")


def guarantee_from_zcdp(rho: float, adjacency: Adjacency = "replace-one") -> DpGuarantee:
    """Return a curve for ρ-zero-concentrated DP: D_α ≤ ρα for every α > 1."""
    level = nonnegative("rho", rho)
    found = guarantee_from_rdp(_ORDERS.tolist(), (level * _ORDERS).tolist(), adjacency)
    return DpGuarantee(found.curve, adjacency, "zCDP")


def _delta(alpha: FloatArray, tau: FloatArray, eps: FloatArray) -> FloatArray:
    """Smallest δ over the orders, from above."""
    a, t = alpha[:, None], tau[:, None]
    # ln(1 - 1/α) as it stands loses digits near α = 1, the difference of logarithms far from it.
    shrink = a * np.where(a < 2, np.log(a - 1) - np.log(a), np.log1p(-1 / a))
    log_delta = (a - 1) * (t - eps[None, :]) - np.log(a - 1) + shrink
    # The exponent is a sum of terms of these sizes, each rounded a few times.
    slack = 16 * UNIT * (4 + np.abs(np.log(a - 1)) - shrink + a * (t + eps[None, :] + 1))
    best = np.clip((log_delta + slack).min(axis=0), _SMALLEST_LOG, 0.0)
    return np.asarray(np.exp(best), dtype=np.float64)


def _epsilon_grid(alpha: FloatArray, tau: FloatArray) -> FloatArray:
    """ε from 0 to where the best order proves δ < 1e-290."""
    reach = float((tau + 670.0 / (alpha - 1)).min())
    return np.concatenate([[0.0], np.geomspace(max(reach * 1e-5, 1e-12), max(reach, 1e-9), 900)])
