"""The covariance of noise that costs the released model least (proofs/shaped-noise.md).

Noise with covariance Σ costs ½tr(HΣ) of loss to second order, H the loss's Hessian, and hides a
displacement Δ as well as its Mahalanobis length Δᵀ Σ⁻¹ Δ is short.  The Σ of least cost at a given
mean square length is ∝ H^{-1/2}(H^{1/2} C H^{1/2})^{1/2} H^{-1/2}, C = E ΔΔᵀ.  The shape is a
choice, never a proof: only the scale that multiplies it is certified.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import InputError, positive
from memberbound.numerics.rounding import FloatArray
from memberbound.protection.erm import RegularisedRisk
from memberbound.protection.minimiser import DENSE

__all__ = ["risk_shape", "utility_shape"]


def utility_shape(
    displacements: ArrayLike, hessian: ArrayLike | None = None, *, ridge: float = 1e-3
) -> FloatArray:
    """Return a lower triangular factor A of the covariance of least cost, ‖A‖² = d.

    Args:
        displacements: (B, d) moves of the statistic between neighbouring training sets, from a
            pilot stream or a pilot fit.
        hessian: (d, d) of the loss at a pilot fit; the identity when unknown.
        ridge: share of the mean eigenvalue added to both matrices, which keeps A well conditioned.

    Edge cases: beyond 1500 coordinates a diagonal shape is returned (of the diagonals of both);
    displacements that are all 0 give the identity.

    Examples:
        >>> utility_shape([[4.0, 0.0], [0.0, 1.0]], ridge=1e-9).round(3).tolist()
        [[1.265, 0.0], [0.0, 0.632]]
    """
    moves = np.asarray(displacements, dtype=np.float64)
    if moves.ndim != 2 or moves.size == 0 or not np.isfinite(moves).all():
        raise InputError(f"displacements must be a finite table, got shape {moves.shape!r}.")
    d = moves.shape[1]
    share = positive("ridge", ridge)
    if not moves.any():
        return np.eye(d)
    moves = moves / np.abs(moves).max()
    if d > DENSE:
        bend = np.ones(d) if hessian is None else np.diag(_square(hessian, d)).copy()
        spread = np.square(moves).mean(axis=0)
        spread, bend = spread + share * spread.mean(), bend + share * bend.mean()
        widths = (spread / bend) ** 0.25
        return np.diag(widths * math.sqrt(d) / np.linalg.norm(widths))
    spread = moves.T @ moves / len(moves)
    return _least_cost(spread, None if hessian is None else _square(hessian, d), share)


def risk_shape(risk: RegularisedRisk, *, ridge: float = 1e-2) -> FloatArray:
    """Return :func:`utility_shape` for a regularised risk, from its fit on the whole population.

    Displacements are those of one Newton step, H⁻¹(g_x - g_x'), over all pairs of records, so
    C ∝ H⁻¹·Cov(g)·H⁻¹ and no subset is fitted.  The cost is counted in the loss alone, without the
    regulariser, which only serves the fit.
    """
    theta = risk.population_fit.theta
    gradients = risk.gradients(theta).vectors()
    centred = gradients - gradients.mean(axis=0)
    if risk.dimension > DENSE:
        # The diagonal of the Hessian alone: mean of W_cc·x_j² plus λ.
        scores = risk.design @ theta.reshape(risk.rule.outputs, -1).T
        weights = np.einsum("nii->ni", risk.rule.curvatures(scores, risk.coded))
        bend = (weights.T @ np.square(risk.design) / risk.records).ravel() + risk.regularisation
        spread = np.square(centred).mean(axis=0) / np.square(bend)
        bend = bend - risk.regularisation
        bend = bend + ridge * bend.mean()
        spread = spread + ridge * spread.mean()
        widths = (spread / bend) ** 0.25
        return np.diag(widths * math.sqrt(risk.dimension) / np.linalg.norm(widths))
    hessian = risk.hessian(theta)
    moves = np.linalg.solve(hessian, centred.T)
    loss = hessian - risk.regularisation * np.eye(risk.dimension)
    return _least_cost(moves @ moves.T / risk.records, loss, positive("ridge", ridge))


def _square(hessian: ArrayLike, dimension: int) -> FloatArray:
    table = np.asarray(hessian, dtype=np.float64)
    if table.shape != (dimension, dimension) or not np.isfinite(table).all():
        raise InputError(
            f"hessian must be a finite {dimension} by {dimension} matrix, got {table.shape!r}."
        )
    return (table + table.T) / 2


def _root(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """√M and M^{-1/2} of a positive definite matrix."""
    values, vectors = np.linalg.eigh(table)
    if values[0] <= 0:
        raise InputError("hessian must be positive definite after the ridge, got one that is not.")
    return (vectors * np.sqrt(values)) @ vectors.T, (vectors / np.sqrt(values)) @ vectors.T


def _least_cost(spread: FloatArray, hessian: FloatArray | None, share: float) -> FloatArray:
    d = len(spread)
    eye = np.eye(d)
    spread = spread + share * float(np.trace(spread)) / d * eye
    bend = eye if hessian is None else hessian + share * float(np.trace(hessian)) / d * eye
    root, inverse = _root(bend)
    middle, _ = _root(root @ spread @ root)
    covariance = inverse @ middle @ inverse
    covariance = (covariance + covariance.T) / 2
    factor = np.asarray(np.linalg.cholesky(covariance * (d / float(np.trace(covariance)))))
    return np.tril(factor)
