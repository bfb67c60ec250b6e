"""The exact leak of the mean of n normal records in any dimension (X8), and the papers' bound.

Release X = √n·mean, record V ~ N(0, I_d).  If V is a member, (X, V) is d times a normal pair with
correlation ρ = 1/√n; if not, X and V are independent.  So the log-likelihood ratio is
    ln(dP_in/dP_out) = -(d/2)ln(1-ρ²) + (ρ/2)(‖S‖²/(1+ρ) - ‖T‖²/(1-ρ)),
S, T = (X ± V)/√2, and in the member world it is a constant plus (ρ/2)(A - A'), A and A' two
independent χ²_d.  A - A' has characteristic function (1+4t²)^(-d/2), which is that of 2RZ with
R ~ χ_d and Z ~ N(0,1) independent: given R the ratio is log-normal, and with H_g(μ) the
hockey-stick of N(μ,1) against N(0,1) at g,
    γ ≥ 1:  Δ = E H(R/√n)      at ln g =  ln γ + (d/2)ln(1-1/n) + R²/(2n),
    γ ≤ 1:  Δ = E H(R/√(n-1))  at ln g = -ln γ - (d/2)ln(1-1/n) - R²/(2(n-1)).
The second line is the first for the pair in the other order: under P_out the mixing variable is
R/√(1-1/n).  Given V the best region is a ball; averaging non-central χ²
probabilities over V gives the same number with far more work and cancellation.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from memberbound.errors import InputError, whole_number
from memberbound.games import gamma_from_priors
from memberbound.numerics.normal import gaussian_hockey_stick_upper
from memberbound.numerics.rounding import UNIT, FloatArray, up

#: Absolute error of the outer quadrature, which is proved.
_TOLERANCE = 1e-17
_MAX_DIMENSION = 10**8
#: From this dimension, scipy's Γ loses digits (2e-11 at 20 000), and Stirling's series is exact.
_STIRLING = 200


def leak_of_gaussian_mean(n: int, d: int, nu: float = 0.5, lam: float = 1.0) -> float:
    """Return Δ of the learner that releases the mean of n records from N(m, S) in R^d, from above.

    Guarantee: the largest advantage of any attack on the released mean (i.i.d. game, the *average*
    record); exact, for every mean m and invertible covariance S, known to the attacker.
    Theorem: X8 (module docstring).  Every function of the mean leaks at most this.
    Assumes: normal records.
    Numerics: never below the true value.  The expectation over R is a trapezoidal sum in ln R; the
    integrand is analytic in a strip where it is bounded, so the error bound is proved, below
    1.2e-17; relative excess below 1e-9.
    Edge cases: n = 1 releases the record itself and leaks 1 at every γ.

    Examples:
        >>> round(leak_of_gaussian_mean(50, 1), 4)
        0.0457
    """
    size, dimension = _checked(n, d)
    gamma = gamma_from_priors(nu, lam)
    if size == 1:
        return 1.0
    shrink = dimension / 2 * math.log1p(-1 / size)
    log_gamma = math.log(gamma)
    if gamma >= 1:
        offset, growth, scale, tilt = log_gamma + shrink, 0.5 / size, size, 0.0
    else:
        offset, growth, scale = -log_gamma - shrink, -0.5 / (size - 1), size - 1
        tilt = abs(offset)
    radius, weight, error = _radii(dimension, tilt)
    # H decreases in ln g, so lower each ln g by its possible rounding error.  γ = 1 is the worst
    # case, so only a γ other than 1 can err on the unsafe side.
    square = growth * radius**2
    slack = 8 * UNIT * ((gamma != 1) + abs(log_gamma) + abs(shrink) + 2 * np.abs(square))
    log_g = offset + square - slack
    mu = radius / math.sqrt(scale)
    values = np.array(
        [_hockey_stick(m, g) for m, g in zip(mu.tolist(), log_g.tolist(), strict=True)]
    )
    # 64 units cover the steps of one value, its weight and the last sum.
    return min(float(weight @ values) * (1 + UNIT * (64 + radius.size)) + error, 1.0)


def _hockey_stick(mu: float, log_g: float) -> float:
    """Return H of N(μ',1) against N(0,1) at e^log_g, for any μ' that rounds to μ.

    It is an upper bound, up to six units if log_g < 0.
    """
    mu = mu * (1 + 8 * UNIT)  # H increases in μ
    value = float(gaussian_hockey_stick_upper(mu, np.array([abs(log_g)]))[0])
    if log_g >= 0:
        return value
    return min(-math.expm1(log_g) + math.exp(log_g) * value, 1.0)


def _radii(d: int, tilt: float) -> tuple[FloatArray, FloatArray, float]:
    """Return nodes and weights for E f(R), R ~ χ_d, and a proved error bound for f = H above.

    In x = ln R the density is w(x) ∝ exp(dx - e^{2x}/2).  On the line Im x = y, |w| integrates to
    cos(2y)^(-d/2) and |f| ≤ 3 + exp(2·tilt·sin²y): with |Φ(z)| ≤ 1 + ½|e^{-z²/2}| and, for
    Re z ≤ 0, |Φ(z)| ≤ ½|e^{-z²/2}| (the scaled error function is at most 1 in modulus on the right
    half plane), both terms of Φ(a) - gΦ(b) are bounded for |y| ≤ π/4.  So the trapezoidal sum with
    step h errs by at most 2M/(e^{2πy/h} - 1), M the product (Trefethen and Weideman 2014, theorem
    5.1), and the cut tails by at most P(R outside), as 0 ≤ f ≤ 1 on the real line.
    """
    strip = np.linspace(0.01, 0.99, 99) * min(math.pi / 4, 4 / math.sqrt(d))
    growth = -d / 2 * np.log(np.cos(2 * strip))
    growth += np.logaddexp(math.log(3), 2 * tilt * np.sin(strip) ** 2)
    step = float(np.max(2 * math.pi * strip / (growth - math.log(_TOLERANCE / 8))))
    trapezoid = 2 * float(np.min(np.exp(growth - 2 * math.pi * strip / step))) * 1.01
    centre = 0.5 * math.log(d)
    low = special.gammaincinv(d / 2, _TOLERANCE / 8)
    high = special.gammainccinv(d / 2, _TOLERANCE / 8)
    left = max(math.ceil((centre - 0.5 * math.log(2 * max(low, 1e-300))) / step), 1) + 1
    right = max(math.ceil((0.5 * math.log(2 * high) - centre) / step), 1) + 1
    s = step * np.arange(-left, right + 1)
    # Relative to its peak at R = √d the log-density is -(d/2)(e^{2s} - 1 - 2s).
    density = np.exp(-d / 2 * (np.expm1(2 * s) - 2 * s))
    radius = math.sqrt(d) * np.exp(s)
    tails = special.gammainc(d / 2, radius[1] ** 2 / 2) + special.gammaincc(
        d / 2, radius[-2] ** 2 / 2
    )
    # The weights are divided by their sum, which is 1 up to the same two errors, and rounding.
    rounding = 8 * UNIT * d * float(np.max(np.abs(s) * density))
    error = 2 * (trapezoid + 2 * float(tails))
    return radius, density / density.sum() * (1 + 4 * rounding), error


def leak_of_gaussian_mean_bound(n: int, d: int) -> float:
    """Return √d/(2n) + E‖V‖/(2√n), the closed upper bound on Δ at every ν and λ.

    Theorem: A25-P25 averaged over V ~ N(0,I): the explicit part of A25-T13 (its central-limit
    term vanishes for normal records); for γ ≠ 1 without T13's factor max(1,γ), by X13.
    Guarantee: never below :func:`leak_of_gaussian_mean`, 1.25 to 1.8 times it at γ = 1.
    Edge cases: n = 1 gives 1.

    Examples:
        >>> round(leak_of_gaussian_mean_bound(50, 1), 4)
        0.0664
    """
    size, dimension = _checked(n, d)
    if size == 1:
        return 1.0
    length = _mean_length(dimension)
    value = math.sqrt(dimension) / (2 * size) + length / (2 * math.sqrt(size))
    return min(up(value, 8), 1.0)  # 16 units, of which both lines above need 11


def _mean_length(d: int) -> float:
    """Return E‖V‖ = √2·Γ((d+1)/2)/Γ(d/2), V ~ N(0,I) in R^d, at most six units too small."""
    if d < _STIRLING:
        return math.sqrt(2) * float(special.poch(d / 2, 0.5)) * (1 + 1e-12)
    # Stirling's series is above lnΓ after an odd and below it after an even number of terms, and
    # ½ln y + y·ln(1 + 1/(2y)) - ½ is the difference of what comes before it.
    y, z = d / 2, (d + 1) / 2
    series = 1 / (12 * z) - 1 / (360 * z**3) + 1 / (1260 * z**5) - 1 / (12 * y) + 1 / (360 * y**3)
    return math.sqrt(d) * math.exp(y * math.log1p(0.5 / y) - 0.5 + series)


def _checked(n: int, d: int) -> tuple[int, int]:
    size = whole_number("n", n)
    dimension = whole_number("d", d)
    if dimension > _MAX_DIMENSION:
        raise InputError(f"d must be at most {_MAX_DIMENSION:,}, got {d!r}.")
    return size, dimension
