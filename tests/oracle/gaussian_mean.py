"""The mean of normal records, record by record (X8): the gain of the best attack on one.

The best attack guesses v in the set where √n·mean is in a ball: completing the square in the
likelihood ratio of N(v/√n, (1-1/n)I) to N(0, I) gives the centre √n·v and the squared radius below.
"""

from __future__ import annotations

import math

from scipy import special


def ball(norm: float, n: int, d: int, gamma: float = 1.0) -> float:
    """Squared radius around √n·v, for ‖v‖ = ``norm``; negative if the attack never guesses "in"."""
    return (n - 1) * (norm**2 - d * math.log1p(-1 / n) - 2 * math.log(gamma))


def record_leak(norm: float, n: int, d: int, gamma: float = 1.0) -> float:
    """Difference of two non-central χ² probabilities, to about 1e-11 for n up to 10⁴."""
    square = ball(norm, n, d, gamma)
    inside = outside = 0.0
    if square > 0:
        inside = float(special.chndtr(square / (1 - 1 / n), d, (n - 1) * norm**2))
        outside = float(special.chndtr(square, d, n * norm**2))
    if gamma >= 1:
        return max(inside - gamma * outside, 0.0)
    return max((1 - outside) - (1 - inside) / gamma, 0.0)
