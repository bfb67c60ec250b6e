"""Noise distributions, the total variation between shifted copies, and the grid of releases.

Gaussian noise and norm-exponential noise (I24-T9, C10, C14 with the corrected radius, and X14).
Released values are multiples of a grid step, so that their low-order bits carry no information.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from memberbound.errors import InputError, finite_number, nonnegative, whole_number
from memberbound.numerics.rounding import UNIT, FloatArray, down, sum_slack, up
from memberbound.release.randomness import SECURE, RandomSource

# ── Noise laws: draws, and total variation between displaced copies ───────────────────────────────
#
# For the calibrators, a law bounds TV(X, X + a) for a displacement a.  By the coupling of X1 the
# bound, averaged over neighbouring training sets, bounds the attacker's advantage.  All bounds are
# rounded up and concave in the displacement's length, so they may be evaluated at a mean length
# (Jensen).  A law of scale 0 adds no noise: any displacement is detected with certainty.

#: Upper bound on the relative error of a single inverted draw (proofs/snapping.md).
SIMPLE_ERROR = 2.0**-46
#: The same for a coordinate computed from normal draws, a norm and a radius.
_NORM_ERROR = 2.0**-43
#: Minimum length of a nonzero displacement, used if it underflows.
_FLOOR = 1e-300


def _displacement_sizes(displacements: ArrayLike, scales: ArrayLike, dimension: int) -> FloatArray:
    """Return |a_i|/scale_i of finite vectors along the last axis; 0 only where a_i is 0."""
    values = np.asarray(displacements, dtype=np.float64)
    if values.ndim == 0 or values.shape[-1] != dimension:
        raise InputError(
            f"displacements must be vectors of length {dimension}, got shape {values.shape!r}."
        )
    if not np.isfinite(values).all():
        raise InputError("displacements must be finite, got a value that is not.")
    with np.errstate(over="ignore", under="ignore"):
        return np.where(values != 0, np.maximum(np.abs(values) / scales, _FLOOR), 0.0)


def _euclidean(sizes: FloatArray) -> FloatArray:
    """Return the Euclidean length along the last axis, rounded up; ∞ on overflow.

    Numerics: raised by at least 16 units beyond the rounding of these operations and three more.
    """
    top = sizes.max(axis=-1)
    unit = np.where((top > 0) & np.isfinite(top), top, 1.0)
    with np.errstate(over="ignore", under="ignore"):
        raised = top * np.sqrt(np.square(sizes / unit[..., None]).sum(axis=-1))
        return np.asarray(raised * (1 + 2 * sum_slack(sizes.shape[-1])))


def _over_scale(lengths: ArrayLike, scale: float) -> FloatArray:
    """Return lengths/scale, rounded up; 0 only where a length is 0; lengths may be ∞."""
    values = np.asarray(lengths, dtype=np.float64)
    if np.isnan(values).any() or (values < 0).any():
        raise InputError("lengths must be at least 0, got a value that is not.")
    with np.errstate(under="ignore", over="ignore", divide="ignore", invalid="ignore"):
        ratio = np.maximum(values / scale * (1 + 2 * UNIT), _FLOOR)
    return np.where(values > 0, ratio, 0.0)


@dataclass(frozen=True)
class GaussianNoise:
    """N(0, scale²·I): lengths are Euclidean; TV = 2Φ(‖a‖/(2·scale)) - 1 exactly (X1).

    Examples:
        >>> law = GaussianNoise(scale=2.0, dimension=4)
        >>> law.rms
        4.0
        >>> round(float(law.distance(law.length([[0.0, 2.0, 0.0, 0.0]]))[0]), 6)
        0.382925
    """

    draw_error: ClassVar = SIMPLE_ERROR

    scale: float
    dimension: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", nonnegative("scale", self.scale))
        object.__setattr__(self, "dimension", whole_number("dimension", self.dimension))

    @property
    def rms(self) -> float:
        """scale·√d."""
        return self.scale * math.sqrt(self.dimension)

    @property
    def coordinate_rms(self) -> FloatArray:
        """The scale, d times."""
        return np.full(self.dimension, self.scale)

    def draw(self, source: RandomSource, count: int) -> FloatArray:
        """Return ``count`` draws, one per row."""
        return self.scale * source.normal(count * self.dimension).reshape(count, self.dimension)

    def length(self, displacements: ArrayLike) -> FloatArray:
        """Return Euclidean lengths, rounded up."""
        return _euclidean(_displacement_sizes(displacements, 1.0, self.dimension))

    def distance(self, lengths: ArrayLike) -> FloatArray:
        """Return TV = erf(δ/√8) at Euclidean lengths δ·scale, rounded up; concave."""
        ratios = _over_scale(lengths, self.scale)
        with np.errstate(under="ignore"):
            return np.asarray(
                np.minimum(special.erf(ratios / math.sqrt(8.0)) * (1 + 8 * UNIT), 1.0)
            )

    def describe(self) -> dict[str, object]:
        """Return the law and its scale."""
        law = {"law": "gaussian", "scale": self.scale} if self.scale else {"law": "none"}
        return law | {"dimension": self.dimension, "rms": self.rms}


@dataclass(frozen=True, eq=False)
class NormExponentialNoise:
    """Density proportional to exp(-‖x‖/scale), ‖x‖² = (1/d)·Σ(x_i/σ_i)²: I24-C10 at M = 2 (X14).

    ``sigmas`` are the σ_i > 0.  The radius is Gamma(shape d, scale) and the direction is that of
    normal Y_i of scale σ_i (proofs/gamma-radius.md).  The Laplace radius printed in I24 has this
    density in one dimension only.

    Examples:
        >>> law = NormExponentialNoise([1.0], scale=1.0)  # Laplace in one dimension
        >>> round(float(law.distance(law.length([[1.0]]))[0]), 6)
        0.393469
    """

    draw_error: ClassVar = _NORM_ERROR

    sigmas: FloatArray
    scale: float

    def __post_init__(self) -> None:
        sigmas = np.array(self.sigmas, dtype=np.float64)
        if sigmas.ndim != 1 or not sigmas.size or not (np.isfinite(sigmas) & (sigmas > 0)).all():
            raise InputError("sigmas must be a list of finite numbers greater than 0.")
        sigmas.setflags(write=False)
        object.__setattr__(self, "sigmas", sigmas)
        object.__setattr__(self, "scale", nonnegative("scale", self.scale))

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self.sigmas.size)

    @property
    def rms(self) -> float:
        """√(E r²·Σσ_i²), E r² = d(d+1)·scale²."""
        return float(np.linalg.norm(self.coordinate_rms))

    @property
    def coordinate_rms(self) -> FloatArray:
        """√(E r²·E u_i²): radius and direction u are independent, and E(u_i/σ_i)² = 1."""
        d = self.dimension
        return np.asarray(self.sigmas * (self.scale * math.sqrt(d) * math.sqrt(d + 1)))

    def draw(self, source: RandomSource, count: int) -> FloatArray:
        """Return ``count`` draws, one per row."""
        radius = self.scale * source.gamma(self.dimension, count)
        return radius[:, None] * self.directions(source, count)

    def directions(self, source: RandomSource, count: int) -> FloatArray:
        """Return ``count`` draws from the cone measure, one per row: ‖row‖ = 1."""
        y = source.normal(count * self.dimension).reshape(count, self.dimension)
        y = y / np.abs(y).max(axis=1, keepdims=True)
        mean = np.array([math.fsum(row) for row in y**2]) / self.dimension
        return np.asarray(self.sigmas * y / np.sqrt(mean)[:, None])

    def length(self, displacements: ArrayLike) -> FloatArray:
        """Return ‖a‖ in the law's own norm, rounded up."""
        sizes = _displacement_sizes(displacements, self.sigmas, self.dimension)
        return np.asarray(_euclidean(sizes) / math.sqrt(self.dimension))

    @property
    def slope_upper(self) -> float:
        """Return κ with TV(X, X+a) ≤ κ·‖a‖/scale, rounded up: Γ(d/2)/(2√π·Γ((d+1)/2)), at most ½.

        This is the exact slope at 0 (proofs/norm-exponential.md, claim 3).
        """
        d = self.dimension
        low, high = float(special.gammaln(d / 2)), float(special.gammaln((d + 1) / 2))
        slack = 16 * UNIT * (abs(low) + abs(high) + d)
        # The slack is at least 16 units, which also covers the exponential and the quotient.
        return min(math.exp(low - high + slack) / (2 * math.sqrt(math.pi)), 0.5)

    def distance(self, lengths: ArrayLike) -> FloatArray:
        """Return X14's min(1 - e^{-t/2}, κ·t) at t = length/scale, rounded up; concave."""
        ratios = _over_scale(lengths, self.scale)
        with np.errstate(under="ignore", over="ignore"):
            value = np.minimum(-np.expm1(-ratios / 2), ratios * self.slope_upper)
        return np.asarray(np.minimum(value * (1 + 8 * UNIT), 1.0))

    def describe(self) -> dict[str, object]:
        """Return the law, the range of the σ_i, and the scale."""
        return {
            "law": "norm-exponential" if self.scale else "none",
            "dimension": self.dimension,
            "scale": self.scale,
            "norm_scale_smallest": float(self.sigmas.min()),
            "norm_scale_largest": float(self.sigmas.max()),
            "rms": self.rms,
        }


#: The noise laws of calibrators and releases: ``coordinate_rms`` is √E X_i², ``rms`` the root of
#: the sum of their squares (the ``noise_scale`` of the contract), ``draw_error`` bounds
#: |drawn - ideal| of a coordinate relative to its size plus its rms; ``length`` and ``distance``
#: round up.
NoiseLaw = GaussianNoise | NormExponentialNoise


def check_eta_range(eta: float) -> float:
    """Check that η is in (0, ½) and return it."""
    value = finite_number("eta", eta)
    if not 0 < value < 0.5:
        raise InputError(
            f"eta must be in (0, 0.5), got {eta!r}: 0.05 means “right at most 55 % of the time”, "
            "and at 0.5 no noise is needed."
        )
    return value


def izzo_constant(eta: float, moment: float = 2.0) -> float:
    """Return I24's c: noise exp(-‖x‖/(c·σ)) is η-MIP if E‖θ-Eθ‖^M ≤ σ^M, rounded up.

    Theorem: I24-C14, c = (6.16/η)^(1+2/M) for M ≥ 2; I24-T9, c = (7.5/η)^(1+2/M) for 1 ≤ M < 2.
    Assumes: k = N/2; the moment is over uniform halves of the population and the learner.
    Both constants are valid, because X14's is far smaller (proofs/norm-exponential.md, claim 4).

    Examples:
        >>> round(izzo_constant(0.1, moment=2))
        3795
    """
    eta, order = check_eta_range(eta), finite_number("moment", moment)
    if order < 1:
        raise InputError(f"moment must be at least 1, got {moment!r}.")
    base = (6.16 if order >= 2 else 7.5) / eta
    # The exponent has two rounding errors, which the power amplifies by ln(base).
    return up(base ** (1 + 2 / order), 16 + 8 * math.ceil(math.log(base)))


def norm_exponential_constant(eta: float) -> float:
    """Return X14's c: noise exp(-‖x‖/(c·σ)) is η-MIP if E‖θ-Eθ‖ ≤ σ, rounded up.

    Theorem: X14, c = 1/ln(1/(1-2η)) for any norm and dimension.
    Assumes: k = N/2; the mean is over uniform halves of the population and the learner.
    Numerics: rounded up, so that the law's own distance at length 2σ is at most 2η when evaluated.

    Examples:
        >>> round(norm_exponential_constant(0.1), 3)
        4.481
    """
    # The slack covers the rounding of the law's own distance.
    return 1.0 / -math.log1p(-down(2 * check_eta_range(eta), 64))


# ── The grid of released values, which removes leakage through floating point ─────────────────────
#
# The low-order bits of secret + noise depend on both, and the set of doubles that a floating-point
# sampler can reach differs between secrets.  Snapping the sum to multiples of a power of two far
# above those bits makes the set of outputs the same for every secret.  The grid depends on the
# noise law only.  The remaining difference between a floating-point sampler and the ideal law is
# bounded by :func:`floating_point_slack` (proofs/snapping.md).

#: An assumption of every certificate: it is tested, not proved.
SAMPLER_ASSUMPTION = (
    "The operating system's random words are uniform and unknown to the attacker, and the "
    "elementary and special functions that turn them into noise are accurate to a relative 2^-47."
)

#: Range of step exponents, far inside that of doubles, so that every operation below is exact.
_EXPONENTS = (-900, 900)
#: Upper bound on the chance that a draw needs more than its two words.
_UNDERFLOW = 2.0**-70


@dataclass(frozen=True)
class Grid:
    """A rule for grid steps, powers of two, from the size of the noise.

    ``crossing`` is the chance, per unit of relative error, that the error moves a draw across a
    cell boundary.
    """

    share: float
    crossing: float

    def steps(self, sizes: ArrayLike) -> FloatArray:
        """Return the largest power of two that is at most ``share`` of each size.

        Edge cases: a coordinate without noise has step 0, which means no grid.
        """
        rms = np.asarray(sizes, dtype=np.float64)
        steps = np.zeros(rms.shape)
        noisy = rms > 0
        # frexp: size = m·2^e with ½ ≤ m < 1, so 2^(e-1) ≤ size.
        exponents = np.frexp(rms[noisy])[1] - 1 + int(math.log2(self.share))
        least, most = _EXPONENTS
        if not np.isfinite(rms).all() or ((exponents < least) | (exponents > most)).any():
            raise InputError(
                "noise must have a scale between 1e-268 and 1e270 in every coordinate. "
                "Rescale the statistic."
            )
        steps[noisy] = np.ldexp(1.0, exponents)
        return steps

    def slack(self, coordinates: float, error: float) -> float:
        """Return the total variation added by draws with this relative error, rounded up."""
        return min(1.0, up(coordinates * self.slack_of_one(error), 8))

    def slack_of_one(self, error: float) -> float:
        """Return the slack of one coordinate, exact if the error is a power of two."""
        return self.crossing * error + _UNDERFLOW


#: For single releases: increases the variance by at most 1/49 000 (proofs/snapping.md, claim 2).
FINE = Grid(share=2.0**-6, crossing=600.0)
#: For many releases: increases it by 1/192, with few draws near a boundary
#: (proofs/gradient-descent.md, 3).
COARSE = Grid(share=2.0**-2, crossing=42.0)


def snap_to_grid(values: ArrayLike, noise: ArrayLike, steps: ArrayLike) -> FloatArray:
    """Round values + noise to multiples of ``steps`` (powers of two; 0: no grid).

    The value is split exactly into a multiple of the step and a remainder, and only the remainder
    is added to the noise in floating point.  So the result is the grid point nearest to the ideal
    sum, unless that sum is within a few roundings *of the noise* of a cell boundary, no matter how
    large the value is.

    Edge cases: the result is never -0.0; beyond 2^53 steps it is the double nearest to the grid
    point.
    """
    value = np.asarray(values, dtype=np.float64)
    added = np.asarray(noise, dtype=np.float64)
    step = np.asarray(steps, dtype=np.float64)
    if not (np.isfinite(value).all() and np.isfinite(added).all()):
        raise InputError("a released value and its noise must be finite, got one that is not.")
    unit = np.where(step > 0, step, 1.0)
    if (np.frexp(unit)[0] != 0.5).any() or (step < 0).any():
        raise InputError("steps must be powers of two, or 0 for no grid.")
    with np.errstate(over="ignore", invalid="ignore"):
        whole = np.rint(value / unit)
        rest = value - whole * unit  # exact: the two are equal or within a factor of two
        grid = (whole + np.rint((rest + added) / unit)) * unit
    if not np.isfinite(grid).all():
        raise InputError("a released value must not exceed 1e300 noise scales, got one that does.")
    # Adding 0.0 turns -0.0 into 0.0: its sign would reveal on which side of 0 the secret was.
    return np.asarray(np.where(step > 0, grid, value + added) + 0.0)


def release(values: ArrayLike, law: NoiseLaw, source: RandomSource = SECURE) -> FloatArray:
    """Add one draw of ``law`` to ``values``, on the law's grid.

    Examples:
        >>> law = GaussianNoise(scale=1.0, dimension=2)
        >>> out = release([0.1, 1 / 3], law)
        >>> bool((out * 64 == (out * 64).round()).all())
        True
    """
    value = np.asarray(values, dtype=np.float64)
    if value.shape != (law.dimension,):
        raise InputError(
            f"values must be a vector of length {law.dimension}, got shape {value.shape!r}."
        )
    return snap_to_grid(value, law.draw(source, 1)[0], FINE.steps(law.coordinate_rms))


def floating_point_slack(law: NoiseLaw) -> float:
    """Return the increase of η due to floating-point draws.

    Guarantee: for every value, the distribution of :func:`release` is within this total variation
    of the ideal noise rounded to the grid, so η of the release is at most η of the ideal noise plus
    this.
    Theorem: proofs/snapping.md, claims 2 and 3.
    Assumes: :data:`SAMPLER_ASSUMPTION`.
    Numerics: rounded up.  Edge cases: no noise, no slack.

    Examples:
        >>> floating_point_slack(GaussianNoise(scale=1.0, dimension=1000)) < 1e-8
        True
    """
    return FINE.slack(law.dimension, law.draw_error) if law.rms > 0 else 0.0
