"""Hockey-sticks of the Poisson-sampled Gaussian by closed form, to 60 digits.

For γ > 0 the likelihood ratio of each pair grows along the line, so the hockey-stick is the
difference of two tails at the point where the ratio is γ.
"""

from mpmath import mp, mpf

DIRECTIONS = ("remove", "add", "replace")


def _tail(x, sigma):
    """P(N(0, σ²) > x)."""
    return mp.erfc(x / (sigma * mp.sqrt(2))) / 2


def _mixture_exponent(ratio, q):
    """The s with 1 - q + q·e^s = ratio; -∞ if there is none."""
    rest = (ratio - 1 + q) / q
    return mp.log(rest) if rest > 0 else -mp.inf


def threshold(sigma, q, gamma, direction):
    """The point where P/Q = γ, on the line on which the loss grows."""
    if direction == "remove":
        return sigma**2 * _mixture_exponent(gamma, q) + mpf(1) / 2
    if direction == "add":
        exponent = _mixture_exponent(1 / gamma, q)
        return -(sigma**2 * exponent + mpf(1) / 2)
    # With y = e^{x/σ²} and c = e^{-1/(2σ²)}: q·c·y² + (1-q)(1-γ)·y - γ·q·c = 0, one root y > 0.
    lead = q * mp.exp(-1 / (2 * sigma**2))
    middle = (1 - q) * (gamma - 1)
    root = mp.sqrt(middle**2 + 4 * gamma * lead**2)
    # Stable form of (middle + root)/(2·lead) for either sign of middle.
    y = (middle + root) / (2 * lead) if middle >= 0 else 2 * gamma * lead / (root - middle)
    return sigma**2 * mp.log(y)


def hockey_stick(sigma, q, epsilon, direction, digits=60):
    """Return H_γ(P‖Q) at γ = e^ε for doubles σ, q and ε, which are taken exactly.

    The part that P and Q share is left out of both before tails are subtracted: what is lost does
    not depend on q or on how near γ is to 1.
    """
    with mp.workdps(digits):
        sigma, q = mpf(float(sigma)), mpf(float(q))
        more = mp.expm1(mpf(float(epsilon)))
        gamma = 1 + more
        x = threshold(sigma, q, gamma, direction)
        if x == mp.inf:
            return mpf(0)
        if x == -mp.inf:
            return -more
        base = _tail(x, sigma)
        if direction == "remove":
            return q * _tail(x - 1, sigma) - (more + q) * base
        if direction == "add":
            return gamma * q * (base - _tail(x + 1, sigma)) - more * base
        ahead, behind = _tail(x - 1, sigma), _tail(x + 1, sigma)
        return q * (ahead - gamma * behind) - (1 - q) * more * base
