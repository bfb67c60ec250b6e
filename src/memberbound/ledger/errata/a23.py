"""Errata of A23 (the October 2023 preprint): one computed counterexample each."""

from __future__ import annotations

import math

from .types import Counterexample

__all__ = ["corollary_4_1_1", "gaussian_mean_delta"]


def gaussian_mean_delta(n: int, cells: int = 20_000, reach: float = 10.0) -> tuple[float, float]:
    """Lower and upper value of Δ at γ = 1 for the mean of n standard normal records.

    Δ = E_v TV(N(0, 1), N(v/√n, 1 − 1/n)), v ~ N(0, 1) (X8 at d = 1). Each TV is exact: the
    two densities cross at the roots of a quadratic. The expectation is bracketed by step sums:
    the overlap ∫min of two symmetric unimodal densities is an integral over t of the overlap
    of two centred intervals, which cannot grow when one is moved away, so TV grows with |v|.

    Numerics: the bracket is exact up to rounding of the normal distribution function (1e-13).
    """
    import numpy as np
    from scipy.special import ndtr

    variance = 1 - 1 / n
    s = math.sqrt(variance)
    grid = np.linspace(0.0, reach, cells + 1)
    shift = grid / math.sqrt(n)
    half = (n - 1) * np.sqrt(shift**2 / variance - 2 * math.log(s) / (n - 1))
    middle = (n - 1) * shift / variance
    low, high = middle - half, middle + half
    tv = (ndtr((high - shift) / s) - ndtr((low - shift) / s)) - (ndtr(high) - ndtr(low))
    mass = 2 * (ndtr(-grid[:-1]) - ndtr(-grid[1:]))
    tail = 2 * float(ndtr(-reach))
    lower = float(mass @ tv[:-1]) + tail * float(tv[-1])
    upper = float(mass @ tv[1:]) + tail
    return lower, upper


def corollary_4_1_1() -> Counterexample:
    """A23-C4.1.1 claims n ≥ √d/ε is enough; the Gaussian mean at n = 50 needs more."""
    n, d = 50, 1
    epsilon = math.sqrt(d) / n
    lower, upper = gaussian_mean_delta(n)
    # For normal records the central-limit terms of A23-T4.1 vanish and P25 alone remains:
    # Δ ≤ m₁/(2√n) + √d/(2n) with m₁ = E|v| = √(2/π). Its quadratic gives a valid size.
    c = math.sqrt(2 / math.pi) / 2
    enough = math.ceil(((c + math.sqrt(c**2 + 2 * epsilon * math.sqrt(d))) / (2 * epsilon)) ** 2)
    return Counterexample(
        setting="mean of n = 50 records from N(0, 1): d = 1, all moments finite, ε = 1/50, "
        "so n = √d/ε",
        printed_value=epsilon,
        true_value=lower,
        violated=lower > epsilon,
        numbers={
            "n": n,
            "epsilon": epsilon,
            "delta_lower": lower,
            "delta_upper": upper,
            "bound_without_central_limit_terms": c / math.sqrt(n) + math.sqrt(d) / (2 * n),
            "n_from_the_quadratic": enough,
            "delta_upper_at_that_n": gaussian_mean_delta(enough)[1],
        },
    )
