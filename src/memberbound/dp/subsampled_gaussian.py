"""One step of DP-SGD: the Poisson-sampled Gaussian, put on a lattice of privacy losses.

A record takes part with probability q and then moves the noisy sum by at most the clipping norm,
which is 1 in units where the noise has standard deviation σ.  Three ordered pairs (P, Q):

==========  =========================================  ============================================
direction   P                                          Q
==========  =========================================  ============================================
remove      (1-q)N(0,σ²) + qN(1,σ²)                    N(0,σ²)
add         N(0,σ²)                                    (1-q)N(0,σ²) + qN(1,σ²)
replace     (1-q)N(0,σ²) + qN(1,σ²)                    (1-q)N(0,σ²) + qN(-1,σ²)
==========  =========================================  ============================================

The first two dominate every add/remove neighbour (Zhu, Dong and Wang 2022), the third every
replace-one neighbour (``proofs/replace-one-sampled-gaussian.md``).

*From the pair to the lattice.*  The line is cut into small cells.  The losses in a cell are moved
to its two ends, and those to the two nearest lattice points, each time keeping the P- and the
Q-mass: a mean-preserving spread of the likelihood ratio, which can only raise hockey-sticks
(connect-the-dots, Doroshenko et al. 2022).  All integrals have positive integrands, so every mass
has small *relative* error; weights are rounded towards the larger loss.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from memberbound.dp.loss_lattice import LossLattice
from memberbound.numerics.rounding import UNIT, FloatArray

__all__ = ["Direction", "loss_spread", "one_step"]

Direction = Literal["remove", "add", "replace"]

#: Half-width of the integrated range, in standard deviations; the rest (1e-38) goes to +∞.
_REACH = 13.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(6)
#: Largest change of the exponent inside a cell for which six nodes integrate to full precision.
_CELL_EXPONENT = 0.25
#: Mass at the far end of the lattice that is moved to +∞.
_NEGLIGIBLE = 1e-34
#: Relative error of one mass: density, quadrature, accumulation.  Tests check 1e-13.
_RELATIVE_ERROR = 1e-12


def _log_mixture(shift: FloatArray, q: float) -> FloatArray:
    """ln(1 - q + q·e^s), without cancellation for small q or s and without overflow."""
    small = np.minimum(shift, 30.0)
    with np.errstate(under="ignore"):
        near = np.log1p(q * np.expm1(small))
        far = math.log(q) + shift + np.log1p((1 - q) / q * np.exp(-np.maximum(shift, 30.0)))
    return np.where(shift < 30.0, near, far)


def _loss(x: FloatArray, sigma: float, q: float, direction: Direction) -> FloatArray:
    """Privacy loss ln(P/Q), increasing in x (for "add" the line is mirrored)."""
    variance = sigma * sigma
    if direction == "remove":
        return _log_mixture((x - 0.5) / variance, q)
    if direction == "add":
        return -_log_mixture((-x - 0.5) / variance, q)
    return _log_mixture((x - 0.5) / variance, q) - _log_mixture((-x - 0.5) / variance, q)


def _density(x: FloatArray, sigma: float, q: float, direction: Direction) -> FloatArray:
    """Density of P."""
    norm = 1 / (sigma * math.sqrt(2 * math.pi))
    with np.errstate(under="ignore"):
        base = np.exp(-0.5 * np.square(x / sigma))
        if direction == "add":
            return norm * base
        return norm * ((1 - q) * base + q * np.exp(-0.5 * np.square((x - 1) / sigma)))


def _cells(
    sigma: float, q: float, step: float, direction: Direction
) -> tuple[FloatArray, FloatArray]:
    """Left and right ends of the cells that carry P's mass, in ascending order.

    Cells are short enough for the quadrature, and short enough in loss for the lattice wherever
    they carry mass that matters; a coarser cut is less tight, never unsound.
    """
    width = min(sigma / 8, sigma * sigma * _CELL_EXPONENT)
    reach = _REACH * sigma
    centres = [0.0] if direction == "add" else [0.0, 1.0]
    blocks: list[list[float]] = []
    for centre in centres:
        if blocks and centre - reach <= blocks[-1][1]:
            blocks[-1][1] = centre + reach
        else:
            blocks.append([centre - reach, centre + reach])
    edges = [np.linspace(a, b, max(2, math.ceil((b - a) / width) + 1)) for a, b in blocks]
    left, right = np.concatenate([e[:-1] for e in edges]), np.concatenate([e[1:] for e in edges])
    rise = _loss(right, sigma, q, direction) - _loss(left, sigma, q, direction)
    weight = (right - left) * np.maximum(
        _density(left, sigma, q, direction), _density(right, sigma, q, direction)
    )
    coarse = np.maximum(1.0, 0.01 / np.sqrt(np.maximum(weight, 1e-300)))
    parts = np.maximum(np.ceil(rise / (step * coarse)), 1.0).astype(np.int64)
    index = np.repeat(np.arange(parts.size), parts)
    within = np.arange(index.size) - np.repeat(np.cumsum(parts) - parts, parts)
    piece = (right - left)[index] / parts[index]
    start = left[index] + within * piece
    # Cells must tile exactly: each ends where the next begins.
    last = within == parts[index] - 1
    end = np.where(last, right[index], left[index] + (within + 1) * piece)
    return start, end


def loss_spread(sigma: float, q: float, direction: Direction) -> float:
    """Return the root-mean-square privacy loss of one step (an estimate, to choose the lattice)."""
    left, right = _cells(sigma, q, 1.0, direction)
    middle = 0.5 * (left + right)
    weight = _density(middle, sigma, q, direction) * (right - left)
    return float(np.sqrt(weight @ np.square(_loss(middle, sigma, q, direction))))


def one_step(sigma: float, q: float, direction: Direction, step: float) -> LossLattice:
    """Return the privacy loss of one step on the lattice of spacing ``step``, dominating the pair.

    Guarantee: for every γ the hockey-stick of the lattice is at least that of (P, Q).
    """
    left, right = _cells(sigma, q, step, direction)
    half = 0.5 * (right - left)
    x = (0.5 * (left + right))[:, None] + half[:, None] * _NODES[None, :]
    inner = _loss(x, sigma, q, direction)
    low, high = _loss(left, sigma, q, direction), _loss(right, sigma, q, direction)
    # Rounding of a loss: relative to the loss and to the exponents it is made of.
    blur = 32 * UNIT * (1 + np.maximum(np.abs(low), np.abs(high)) + q)
    mass = _density(x, sigma, q, direction) * (half[:, None] * _WEIGHTS[None, :])
    gap = high - low
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.expm1(np.minimum(low[:, None] - inner, 0.0)) / np.expm1(-gap)[:, None]
        share = share + (blur / gap)[:, None] + 16 * UNIT
    share = np.where(np.isfinite(share), np.clip(share, 0.0, 1.0), 1.0)
    upper = np.einsum("ij,ij->i", mass, share)
    lower = np.einsum("ij,ij->i", mass, 1.0 - share)
    losses = np.concatenate([low + blur, high + blur])
    return _on_lattice(losses, np.concatenate([lower, upper]), step)


def _on_lattice(losses: FloatArray, masses: FloatArray, step: float) -> LossLattice:
    """Spread atoms to the two nearest lattice points, rounding towards the larger loss."""
    index = np.floor(losses / step)
    gap = losses - index * step
    blur = 16 * UNIT * (1 + np.abs(losses) / step)
    share = np.expm1(-np.clip(gap, 0.0, step)) / math.expm1(-step) + blur
    share = np.clip(share, 0.0, 1.0)
    start = int(index.min())
    position = (index - start).astype(np.int64)
    size = int(position.max()) + 2
    mass = np.zeros(size)
    mass += np.bincount(position, weights=masses * (1 - share), minlength=size)
    mass += np.bincount(position + 1, weights=masses * share, minlength=size)
    # Far losses of no weight go to +∞, which keeps the lattice short.
    tail = np.cumsum(mass[::-1])[::-1]
    keep = max(1, int(np.count_nonzero(tail > _NEGLIGIBLE)))
    outside = 2 * math.erfc(_REACH / math.sqrt(2)) + float(mass[keep:].sum())
    return LossLattice(start, step, mass[:keep], outside, _RELATIVE_ERROR)
