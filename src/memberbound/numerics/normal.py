"""Upper bounds on hockey-sticks and trade-off values of N(μ,1) against N(0,1).

With a = μ/2 - ε/μ and b = -μ/2 - ε/μ the hockey-stick is H = Φ(a) - e^ε Φ(b) (L24-L10).  Because
φ(a) = e^ε φ(b), it equals φ(a)·(R(-a) - R(-b)) with the Mills ratio R(x) = (1 - Φ(x))/φ(x), a form
that neither overflows nor cancels in the tail.  The slacks below bound the rounding of these
expressions; the tests compare with 60-digit arithmetic for μ from 1e-8 to 2000.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from memberbound.numerics.rounding import SMALLEST, UNIT, FloatArray

_SQRT2 = math.sqrt(2.0)
_SQRT_HALF_PI = math.sqrt(math.pi / 2)
#: Beyond this, 1 - Φ(x) is below every positive double.
_TAIL_END = 39.0
#: Below this μ the difference of Mills ratios is integrated instead of subtracted.
_SMALL_MU = 0.25
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)


def _mills(x: FloatArray) -> FloatArray:
    """Return R(x) = (1 - Φ(x))/φ(x), accurate to a few units in the last place for x ≥ -37."""
    return np.asarray(_SQRT_HALF_PI * special.erfcx(x / _SQRT2), dtype=np.float64)


def _mills_difference(low: FloatArray, mu: FloatArray) -> FloatArray:
    """Return R(low) - R(low + μ) for small μ, by integration of R' = xR - 1.

    ``low`` is at most the end of the tail, so 1 - xR(x) keeps its digits.
    """
    nodes = low[:, None] + mu[:, None] * (0.5 + 0.5 * _NODES)[None, :]
    slope = 1.0 - nodes * _mills(nodes)
    return np.asarray(0.5 * mu * (slope @ _WEIGHTS), dtype=np.float64)


def gaussian_hockey_stick_upper(mu: float, epsilon: FloatArray) -> FloatArray:
    """Return H_{e^ε}(N(μ,1)‖N(0,1)) from above, for every ε ≥ 0.

    Guarantee: never below the true value (L24-L10).
    Numerics: for μ ≤ 100 relative excess below 1e-11 wherever the value is above 1e-290; the
    rounding of ε/μ - μ/2 makes it grow like μ beyond.
    Edge cases: μ = 0 gives 0; a true value that underflows gives the smallest positive double.
    """
    eps = np.asarray(epsilon, dtype=np.float64)
    if mu == 0.0:
        return np.zeros_like(eps)
    if not eps.any():
        return np.full(eps.shape, _total_variation_upper(np.float64(mu)))
    flat = eps.ravel()
    return _hockey_stick(np.full(flat.shape, float(mu)), flat).reshape(eps.shape)


def _total_variation_upper(mu: FloatArray | np.float64) -> FloatArray:
    """Return the hockey-stick at ε = 0, TV = erf(μ/√8), which has no cancellation."""
    value = special.erf(mu / (2 * _SQRT2)) * (1 + 16 * UNIT)
    # Rounding errors of subnormal numbers are absolute.
    return np.asarray(np.clip(value + 4 * SMALLEST, SMALLEST, 1.0), dtype=np.float64)


def gaussian_hockey_stick_of_shifts_upper(
    mu: FloatArray, epsilon: float | FloatArray
) -> FloatArray:
    """Return H_{e^ε}(N(μ,1)‖N(0,1)) from above for every μ ≥ 0, at one ε ≥ 0 or several.

    Arrays are broadcast against one another.

    Guarantee, numerics and edge cases: as :func:`gaussian_hockey_stick_upper`, entry by entry.

    Examples:
        >>> gaussian_hockey_stick_of_shifts_upper(np.array([0.0, 1.0]), 1.0).round(6).tolist()
        [0.0, 0.126937]
    """
    shifts, eps = np.broadcast_arrays(
        np.asarray(mu, dtype=np.float64), np.asarray(epsilon, dtype=np.float64)
    )
    value = np.where(shifts > 0.0, SMALLEST, 0.0)
    if not eps.any():
        return np.where(shifts > 0.0, _total_variation_upper(shifts), value)
    # Nothing has to be computed beyond the end of the tail, with a margin of 1 for the rounding of
    # ε/μ - μ/2, which is far smaller unless μ is huge.
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        gone = eps / shifts - shifts / 2 > _TAIL_END + 1.0
    alive = (shifts > 0.0) & ~(gone & (shifts < 1e8))
    value[alive] = _hockey_stick(shifts[alive], eps[alive])
    return value


def _hockey_stick(mu: FloatArray, eps: FloatArray) -> FloatArray:
    """Compute the hockey-stick of both functions above, for arrays of one shape and μ > 0."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        # A smaller ε has a larger hockey-stick, and beyond the end of the tail it is 0.
        scaled = np.minimum(eps / mu, mu / 2 + _TAIL_END)
        low = scaled - mu / 2  # = -a
        high = scaled + mu / 2  # = -b
        small = mu < _SMALL_MU
        # The error of a is about UNIT·(ε/μ + μ); it affects φ(a) |a|-fold and the Mills ratios
        # once.
        shift = UNIT * (scaled + mu)
        slack = 8 * (UNIT * (8 + low * low) + (1 + np.abs(low)) * shift)
        density = np.exp(-0.5 * low * low) / math.sqrt(2 * math.pi)
        # The tail form with a shifted base is accurate relative to μ where the plain form cancels.
        near = small & (low <= 0) & (low >= -1)
        value = np.empty_like(low)
        tail = near | (low > 0)
        if tail.any():
            value[tail] = _tail_form(mu[tail], low[tail], density[tail], slack[tail])
        if not tail.all():
            # In the plain form both terms are at most 1 and not small.
            mass, there = density[~tail], low[~tail]
            bulk = special.ndtr(-there) - mass * _mills(high[~tail])
            lift = 16 * (UNIT + mass * (1 + np.abs(there)) * (UNIT + shift[~tail]))
            value[~tail] = bulk + lift
        # For subnormal numbers the rounding errors above are absolute.
        value = value + 4 * SMALLEST
        value = np.where(low >= _TAIL_END - 0.2 + 4 * shift, SMALLEST, value)
        if not eps.all():
            value = np.where(eps == 0.0, _total_variation_upper(mu), value)
    return np.asarray(np.clip(value, SMALLEST, 1.0), dtype=np.float64)


def _tail_form(
    mu: FloatArray, low: FloatArray, density: FloatArray, slack: FloatArray
) -> FloatArray:
    """Return an upper bound on φ(a)·(R(-a) - R(-b)), including the loss in the difference."""
    # Rounding errors of two Mills ratios, or of 1 - xR(x) under the integral for small μ.
    difference, mills = np.empty_like(low), mu.copy()
    small = mu < _SMALL_MU
    if small.any():
        difference[small] = _mills_difference(low[small], mu[small])
    if not small.all():
        large = ~small
        start = low[large]
        mills[large] = _mills(start)
        difference[large] = mills[large] - _mills(start + mu[large])
    tail = density * difference
    loss = 24 * UNIT * density * mills
    return np.where(low > 0, tail * (1 + slack) + loss, tail * (1 + slack))


def _lower_tail(x: FloatArray) -> FloatArray:
    """Return Φ(x) for x ≤ 0 as φ(x)·R(-x), which keeps subnormal values (unlike scipy's Φ)."""
    return np.asarray(np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi) * _mills(-x), dtype=np.float64)


def gaussian_tpr_upper(mu: float, fpr: FloatArray) -> FloatArray:
    """Return Φ(Φ⁻¹(α) + μ) from above.

    Numerics: Φ is raised by its own rounding and by that of its argument, 8·(1 + |z|) units for
    Φ⁻¹, times its steepness, at most 1 + |z + μ| in relative terms.
    Edge cases: α = 0 gives 0, α = 1 gives 1, μ = 0 gives α.
    """
    alpha = np.asarray(fpr, dtype=np.float64)
    if mu == 0.0:
        return np.clip(alpha, 0.0, 1.0)
    inner = np.clip(alpha, SMALLEST, 1.0 - UNIT)
    z = special.ndtri(inner)
    shifted = np.minimum(z + mu, _TAIL_END)
    with np.errstate(under="ignore"):
        plain = np.where(shifted < 0, _lower_tail(np.minimum(shifted, 0.0)), special.ndtr(shifted))
        sizes = 1 + np.abs(shifted) + np.abs(z)
        relative = 16 * UNIT * (2 + (1 + np.abs(shifted)) * sizes)
        value = plain * (1 + relative) + 4 * SMALLEST
    value = np.where(alpha <= 0, 0.0, np.maximum(value, alpha))
    return np.clip(value, 0.0, 1.0)
