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
(connect-the-dots, Doroshenko et al. 2022).  All integrands are positive, so every mass has small
*relative* error; losses are rounded up and weights towards the larger loss.  The argument, with
its constants, is ``proofs/loss-lattice.md``.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from memberbound.dp.loss_lattice import LossLattice
from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack

__all__ = ["Direction", "loss_spread", "one_step"]

Direction = Literal["remove", "add", "replace"]

#: Half-width of the integrated range, in standard deviations; the rest (1e-38) goes to +∞.
_REACH = 13.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
#: Largest change of the exponent inside a cell for which the nodes integrate to full precision.
_CELL_EXPONENT = 0.5
#: Relative error of the quadrature itself; ``proofs/loss-lattice.md`` bounds it by 1e-13.
_QUADRATURE = 1e-13
#: Mass at the far end that is moved to +∞, and at the near end that is raised.
_NEGLIGIBLE = 1e-34
#: Largest lattice; what does not fit goes to +∞ (coarser lattices reach further).
_MAX_POINTS = 1 << 18
#: Exponents beyond this are handled without raising e to them.
_LARGE = 600.0


def _log_mixture(shift: FloatArray, q: float) -> FloatArray:
    """ln(1 - q + q·e^s), without overflow, and without cancellation for small or large q."""
    with np.errstate(under="ignore"):
        small = np.minimum(shift, _LARGE)
        # For q > ½ the difference 1 - q is exact, and log1p would lose its digits.
        near = np.log1p(q * np.expm1(small)) if q <= 0.5 else np.log(1 - q + q * np.exp(small))
        far = math.log(q) + shift + (1 - q) / q * np.exp(-np.maximum(shift, _LARGE))
    return np.where(shift < _LARGE, near, far)


def _shifts(x: FloatArray, sigma: float, direction: Direction) -> list[tuple[int, FloatArray]]:
    """Signs and exponents s of the terms ±ln(1 - q + q·e^s) that make up the loss."""
    variance = sigma * sigma
    ahead, behind = (1, (x - 0.5) / variance), (-1, (-x - 0.5) / variance)
    return {"remove": [ahead], "add": [behind], "replace": [ahead, behind]}[direction]


def _loss(x: FloatArray, sigma: float, q: float, direction: Direction) -> FloatArray:
    """Privacy loss ln(P/Q), increasing in x (for "add" the line is mirrored)."""
    terms = [sign * _log_mixture(s, q) for sign, s in _shifts(x, sigma, direction)]
    return terms[0] if len(terms) == 1 else terms[0] + terms[1]


def _blur(x: FloatArray, sigma: float, q: float, direction: Direction) -> FloatArray:
    """How far a computed loss may be off, at x or at any x' that rounds to it.

    Each term is relatively accurate for q ≤ ½ and absolutely beyond; on top comes the rounding of
    s, at most (|x| + 1)/σ² units, times the derivative q·e^s/(1 - q + q·e^s) of the term.
    """
    units = np.zeros_like(x)
    for _, shift in _shifts(x, sigma, direction):
        value = _log_mixture(shift, q)
        with np.errstate(under="ignore"):
            slope = np.exp(np.minimum(math.log(q) + shift - value, 0.0))
        units += np.abs(value) + slope * (np.abs(x) + 1) / (sigma * sigma)
        if q > 0.5:
            units += 1 - math.log1p(-q)
    return 16 * UNIT * units


def _density(x: FloatArray, sigma: float, q: float, direction: Direction) -> FloatArray:
    """Density of P."""
    norm = 1 / (sigma * math.sqrt(2 * math.pi))
    with np.errstate(under="ignore"):
        base = np.exp(-0.5 * np.square(x / sigma))
        if direction == "add":
            return norm * base
        return norm * ((1 - q) * base + q * np.exp(-0.5 * np.square((x - 1) / sigma)))


def _density_error(sigma: float) -> float:
    """Relative error of a mass: quadrature, rounding of the exponent and of the node itself.

    The exponent is at most ½·39² (the other bump, 39 = 13 + 1/σ deviations away at most when the
    ranges overlap), each node is off by a unit of |x| ≤ 1 + 13σ where the density has logarithmic
    slope at most 39/σ.
    """
    return _QUADRATURE + UNIT * (4096 + 256 / sigma)


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
    # The blur grows by at most e^½ across a cell, like the slope in it.
    blur = 2 * np.maximum(_blur(left, sigma, q, direction), _blur(right, sigma, q, direction))
    mass = _density(x, sigma, q, direction) * (half[:, None] * _WEIGHTS[None, :])
    gap = high - low
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = np.expm1(np.minimum(low[:, None] - inner, 0.0)) / np.expm1(-gap)[:, None]
        share = share + (4 * blur * (1 + 1 / gap))[:, None] + 16 * UNIT
    share = np.where(np.isfinite(share), np.clip(share, 0.0, 1.0), 1.0)
    upper = np.einsum("ij,ij->i", mass, share)
    lower = np.einsum("ij,ij->i", mass, 1.0 - share)
    whole = upper + lower
    # Negligible cells: the far ones go to +∞, the near ones are raised to the first that counts.
    keep = np.cumsum(whole[::-1])[::-1] > _NEGLIGIBLE
    first = int(np.searchsorted(np.cumsum(whole), _NEGLIGIBLE))
    floor = max(float(low[min(first, low.size - 1)]), -_MAX_POINTS / 2 * step)
    losses = np.concatenate([low[keep], high[keep]]) + np.tile(blur[keep], 2)
    outside = 2 * math.erfc(_REACH / math.sqrt(2)) + float(whole[~keep].sum())
    masses = np.concatenate([lower[keep], upper[keep]])
    return _on_lattice(np.maximum(losses, floor), masses, step, outside, _density_error(sigma))


def _on_lattice(
    losses: FloatArray, masses: FloatArray, step: float, outside: float, error: float
) -> LossLattice:
    """Spread atoms to the two nearest lattice points, rounding towards the larger loss."""
    index = np.floor(losses / step)  # never below the true floor: rounding is monotone
    start = int(index.min())
    fits = index - start < _MAX_POINTS
    outside += float(masses[~fits].sum())
    index, losses, masses = index[fits], losses[fits], masses[fits]
    gap = np.clip(losses - index * step, 0.0, step)
    blur = 16 * UNIT * (1 + np.abs(losses) * (1 + 1 / step))
    share = np.clip(np.expm1(-gap) / math.expm1(-step) + blur, 0.0, 1.0)
    position = (index - start).astype(np.int64)
    size = int(position.max()) + 2
    mass = np.zeros(size)
    mass += np.bincount(position, weights=masses * (1 - share), minlength=size)
    mass += np.bincount(position + 1, weights=masses * share, minlength=size)
    busiest = 2 * int(np.bincount(position).max())
    return LossLattice(start, step, mass, outside * (1 + 1e-9), error + sum_slack(busiest))
