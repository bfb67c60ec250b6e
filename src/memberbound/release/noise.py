"""Noise laws: how to draw them, how well two displaced copies can be told apart, and the grid.

Normal noise and norm-exponential noise (I24-T9, C10, C14 with the right radius,
and X14).  Released values live on a grid, so that their low-order bits carry nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from memberbound.errors import InputError, finite_number, positive, whole_number
from memberbound.numerics.rounding import UNIT, FloatArray, down, sum_slack, up
from memberbound.release.randomness import RandomSource, SecureSource

# ── How far apart two displaced copies of a unit noise law are, on the safe side ──────────────────

#: A single inverted draw differs from its ideal by at most this, relative (proofs/snapping.md).
SIMPLE_ERROR = 2.0**-46


def _as_displacements(displacements: ArrayLike, dimension: int) -> FloatArray:
    """Return finite vectors of the given dimension along the last axis, or refuse."""
    values = np.asarray(displacements, dtype=np.float64)
    if values.ndim == 0 or values.shape[-1] != dimension:
        raise InputError(
            f"displacements must be vectors of length {dimension}, got shape {values.shape!r}."
        )
    if not np.isfinite(values).all():
        raise InputError("displacements must be finite, got a value that is not.")
    return values


def _checked_lengths(lengths: ArrayLike) -> FloatArray:
    """Return lengths as an array, or refuse what is negative or no number; ∞ is allowed."""
    values = np.asarray(lengths, dtype=np.float64)
    if np.isnan(values).any() or (values < 0).any():
        raise InputError("lengths must be at least 0, got a value that is not.")
    return values


def _capped(values: FloatArray, present: FloatArray) -> FloatArray:
    """Return values in (0, 1], one double up, and exactly 0 where nothing moved."""
    return np.where(present > 0, np.minimum(np.nextafter(values, np.inf), 1.0), 0.0)


def gaussian_distance(lengths: FloatArray) -> FloatArray:
    """TV of two unit normals ``lengths`` apart: 2Φ(δ/2) - 1 = erf(δ/√8), from above."""
    with np.errstate(under="ignore"):
        value = special.erf(lengths / math.sqrt(8.0)) * (1 + 8 * UNIT)
    return _capped(value, lengths)


def _over_scale(lengths: FloatArray, scale: float) -> FloatArray:
    """lengths/scale from above, never 0 where a length is not."""
    with np.errstate(under="ignore", over="ignore"):
        ratio = np.maximum(lengths / scale * (1 + 2 * UNIT), 1e-300)
    return np.where(lengths > 0, ratio, 0.0)


# ── The norm of I24-C10 and what its cone measure says about displacements ────────────────────────
#
# ‖x‖^M = (1/d)·Σ_i |x_i/σ_i|^M.  The cone measure is the law of Y/‖Y‖ for Y_i independent
# generalised normals of exponent M and scale σ_i: the direction law of any density that depends on
# ‖x‖ only (proofs/gamma-radius.md).

#: A displacement that is not 0 never gets a smaller length than this, however it underflows.
_FLOOR = 1e-300


def _log_moment(exponent: float, dimension: int, order: float) -> tuple[float, float]:
    """Return ln E|u|^order for a coordinate u of the cone measure at σ = 1, and its error.

    |u|^M/d is Beta(1/M, (d-1)/M): a Gamma(1/M) variable over the sum of d of them.
    """
    power = order / exponent
    terms = (
        power * math.log(dimension),
        float(special.gammaln(1 / exponent + power)),
        float(special.gammaln(dimension / exponent)),
        -float(special.gammaln(1 / exponent)),
        -float(special.gammaln(dimension / exponent + power)),
    )
    # ln Γ is accurate to a few roundings of itself, and its argument to one: x·ψ(x) ~ ln Γ + x.
    slack = 16 * UNIT * (math.fsum(map(abs, terms)) + 4 * dimension + 4)
    return math.fsum(terms), slack


@dataclass(frozen=True, eq=False)
class ScaledNorm:
    """‖x‖^M = (1/d)·Σ|x_i/σ_i|^M for scales σ_i > 0 and exponent M ≥ 1 (I24-C10).

    Examples:
        >>> norm = ScaledNorm([1.0, 2.0], exponent=2)
        >>> round(float(norm.length([[1.0, 2.0]])[0]), 12)
        1.0
    """

    scales: FloatArray
    exponent: float = 2.0

    def __post_init__(self) -> None:
        scales = np.array(self.scales, dtype=np.float64)
        if scales.ndim != 1 or scales.size == 0:
            raise InputError(f"scales must be a list of numbers, got shape {scales.shape!r}.")
        if not (np.isfinite(scales).all() and (scales > 0).all()):
            raise InputError(
                "scales must be finite and greater than 0. "
                "Leave out coordinates that never change: they need no noise."
            )
        scales.setflags(write=False)
        object.__setattr__(self, "scales", scales)
        exponent = finite_number("exponent", self.exponent)
        if exponent < 1:
            raise InputError(f"exponent must be at least 1, got {self.exponent!r}.")
        object.__setattr__(self, "exponent", exponent)

    @classmethod
    def plain(cls, dimension: int, exponent: float = 2.0) -> ScaledNorm:
        """Return the ℓ_M norm of R^d (up to rounding of d^{1/M}): Euclidean by default."""
        d = whole_number("dimension", dimension)
        return cls(np.full(d, float(d) ** (-1.0 / exponent)), exponent)

    @property
    def dimension(self) -> int:
        """Length of the vectors it measures."""
        return int(self.scales.size)

    def length(self, displacements: ArrayLike) -> FloatArray:
        """Return ‖x‖ of every vector (last axis), from above.

        Numerics: a sum of d powers, each good to a few roundings; the exponent's rounding is
        harmless because the largest ratio is 1.
        """
        values = np.abs(_as_displacements(displacements, self.dimension))
        with np.errstate(over="ignore", under="ignore"):
            ratios = np.where(values > 0, np.maximum(values / self.scales, _FLOOR), 0.0)
            top = ratios.max(axis=-1, keepdims=True)
            safe = np.where((top > 0) & np.isfinite(top), top, 1.0)
            powers = np.where(np.isfinite(ratios), ratios / safe, 1.0) ** self.exponent
            mean = powers.sum(axis=-1) / self.dimension
            raised = top[..., 0] * mean ** (1.0 / self.exponent)
            # ln(mean) is at most ln d in size, and 1/M is off by one rounding.
            slack = 2 * sum_slack(self.dimension) + UNIT * (64 + 4 * math.log(self.dimension))
            return np.where(top[..., 0] > 0, raised * (1 + slack), 0.0)

    def directions(self, source: RandomSource, count: int) -> FloatArray:
        """Return ``count`` draws from the cone measure, one per row: ‖row‖ = 1."""
        y = source.generalised_normal(self.exponent, count * self.dimension)
        y = y.reshape(count, self.dimension)
        top = np.abs(y).max(axis=1, keepdims=True)
        powers = (np.abs(y) / top) ** self.exponent
        mean = np.array([math.fsum(row) for row in powers]) / self.dimension
        return np.asarray(self.scales * (y / top) / (mean ** (1.0 / self.exponent))[:, None])

    @property
    def mean_square(self) -> float:
        """E(u_i/σ_i)² for a coordinate of the cone measure, the same for every i."""
        return math.exp(_log_moment(self.exponent, self.dimension, 2.0)[0])

    @property
    def gradient_upper(self) -> float:
        """√E|u_i/σ_i|^{2M-2}/d from above.

        ‖a/σ‖₂ times this is at least E|∂_a‖X‖| for X with the cone measure's direction
        (proofs/norm-exponential.md, claim 2).
        """
        value, slack = _log_moment(self.exponent, self.dimension, 2 * self.exponent - 2)
        return up(math.exp((value + slack) / 2) / self.dimension, 32)

    @property
    def slope_upper(self) -> float:
        """Return κ with TV(X, X+a) ≤ κ·‖a‖/scale for noise exp(-‖x‖/scale), from above.

        κ = ½ holds for every norm.  Where a displacement must spread over the coordinates to be
        long (M > 1) κ falls with the dimension, like d^{-1/2} for M ≥ 2; at M = 2 it is the exact
        slope Γ(d/2)/(2√π·Γ((d+1)/2)) at 0.
        """
        d = self.dimension
        if self.exponent == 2.0:
            low, high = float(special.gammaln(d / 2)), float(special.gammaln((d + 1) / 2))
            slack = 16 * UNIT * (abs(low) + abs(high) + d)
            value = up(math.exp(low - high + slack) / (2 * math.sqrt(math.pi)), 16)
        else:
            # ‖a/σ‖₂ ≤ d^{max(1/M, 1/2)}·‖a‖: power means for M ≥ 2, ℓ2 ≤ ℓM for M ≤ 2.
            spread = up(float(d) ** max(1 / self.exponent, 0.5), 16)
            value = up(self.gradient_upper * spread / 2)
        return min(value, 0.5)


# ── Normal noise: the distance between displaced copies is exact ──────────────────────────────────


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

    scale: float
    dimension: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("scale", self.scale))
        object.__setattr__(self, "dimension", whole_number("dimension", self.dimension))

    @property
    def rms(self) -> float:
        """scale·√d."""
        return self.scale * math.sqrt(self.dimension)

    @property
    def coordinate_rms(self) -> FloatArray:
        """The scale, d times."""
        return np.full(self.dimension, self.scale)

    @property
    def draw_error(self) -> float:
        """See :data:`NoiseLaw`."""
        return SIMPLE_ERROR

    def draw(self, source: RandomSource, count: int | None = None) -> FloatArray:
        """Return one draw, or ``count`` of them as rows."""
        shape = (self.dimension,) if count is None else (count, self.dimension)
        return np.asarray(self.scale * source.normal(math.prod(shape)).reshape(shape))

    def length(self, displacements: ArrayLike) -> FloatArray:
        """Return Euclidean lengths, from above."""
        values = np.abs(_as_displacements(displacements, self.dimension))
        values = np.where(values > 0, np.maximum(values, _FLOOR), 0.0)
        with np.errstate(over="ignore", under="ignore"):
            top = values.max(axis=-1)
            shares = values / np.where(top > 0, top, 1.0)[..., None]
            raised = top * np.sqrt(np.square(shares).sum(axis=-1))
            return np.asarray(raised * (1 + 2 * sum_slack(self.dimension) + 32 * UNIT))

    def distance(self, lengths: ArrayLike) -> FloatArray:
        """Return TV at Euclidean lengths, from above; concave."""
        return gaussian_distance(_over_scale(_checked_lengths(lengths), self.scale))

    def describe(self) -> dict[str, object]:
        """Return the law and its scale."""
        return {
            "law": "gaussian",
            "dimension": self.dimension,
            "scale": self.scale,
            "rms": self.rms,
        }


# ── Norm-exponential noise: I24-T9, C10 and C14 with the right radius, and the better X14 ─────────

#: A coordinate passes through a generalised normal draw, a norm and a radius.
_NORM_ERROR = 2.0**-43


@dataclass(frozen=True, eq=False)
class NormExponentialNoise:
    """Density proportional to exp(-‖x‖/scale) in R^d, for the norm of I24-C10 (X14).

    Radius Gamma(shape d, scale) and direction from the cone measure (proofs/gamma-radius.md).  The
    radius I24 prints, Laplace, has this density in one dimension only.

    Examples:
        >>> law = NormExponentialNoise(ScaledNorm([1.0]), scale=1.0)  # Laplace in one dimension
        >>> round(float(law.distance(law.length([[1.0]]))[0]), 6)
        0.393469
    """

    norm: ScaledNorm
    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("scale", self.scale))

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.norm.dimension

    @property
    def rms(self) -> float:
        """√(E r²·Σσ_i²·E(u_i/σ_i)²), E r² = d(d+1)·scale²."""
        return float(np.linalg.norm(self.coordinate_rms))

    @property
    def coordinate_rms(self) -> FloatArray:
        """Radius and direction are independent: √(E r²·E u_i²)."""
        d = self.dimension
        radius = self.scale * math.sqrt(d) * math.sqrt(d + 1)
        return np.asarray(self.norm.scales * (radius * math.sqrt(self.norm.mean_square)))

    @property
    def draw_error(self) -> float:
        """See :data:`NoiseLaw`."""
        return _NORM_ERROR

    def draw(self, source: RandomSource, count: int | None = None) -> FloatArray:
        """Return one draw, or ``count`` of them as rows."""
        rows = 1 if count is None else count
        radius = self.scale * source.gamma(self.dimension, rows)
        drawn = radius[:, None] * self.norm.directions(source, rows)
        return np.asarray(drawn[0] if count is None else drawn)

    def length(self, displacements: ArrayLike) -> FloatArray:
        """Return ‖a‖ in the law's own norm, from above."""
        return self.norm.length(displacements)

    def distance(self, lengths: ArrayLike) -> FloatArray:
        """Return X14's min(1 - e^{-t/2}, κ·t) at t = length/scale, from above; concave."""
        ratios = _over_scale(_checked_lengths(lengths), self.scale)
        with np.errstate(under="ignore", over="ignore"):
            value = np.minimum(-np.expm1(-ratios / 2), ratios * self.norm.slope_upper)
        return _capped(value * (1 + 8 * UNIT), ratios)

    def describe(self) -> dict[str, object]:
        """Return the law, the norm's exponent and scales' range, and the scale."""
        return {
            "law": "norm-exponential",
            "dimension": self.dimension,
            "exponent": self.norm.exponent,
            "scale": self.scale,
            "norm_scale_smallest": float(self.norm.scales.min()),
            "norm_scale_largest": float(self.norm.scales.max()),
            "rms": self.rms,
        }


def scaled(unit: GaussianNoise | NormExponentialNoise, scale: float) -> NoiseLaw:
    """Return the law of ``scale`` times a draw of a law of scale 1; 0 is no noise at all."""
    return NoNoise(unit.dimension) if scale == 0 else replace(unit, scale=scale)


def checked_eta(eta: float) -> float:
    """Return η in (0, ½), or refuse it."""
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
    Both hold because X14 needs far less (proofs/norm-exponential.md, claim 4).

    Examples:
        >>> round(izzo_constant(0.1, moment=2))
        3795
    """
    eta, order = checked_eta(eta), finite_number("moment", moment)
    if order < 1:
        raise InputError(f"moment must be at least 1, got {moment!r}.")
    base = (6.16 if order >= 2 else 7.5) / eta
    try:
        power = base ** (1 + 2 / order)
    except OverflowError:
        return math.inf
    # The exponent is off by two roundings; the power amplifies them by ln(base).
    return up(power, 16 + 8 * math.ceil(math.log(base)))


def norm_exponential_constant(eta: float, norm: ScaledNorm | None = None) -> float:
    """Return X14's c: noise exp(-‖x‖/(c·σ)) is η-MIP if E‖θ-Eθ‖ ≤ σ, rounded up.

    Theorem: X14.  For any norm and dimension c = 1/ln(1/(1-2η)); given the norm, κ/η with its slope
    κ (at most ½, like 0.4/√d for the Euclidean one) where that is smaller.
    Assumes: k = N/2; the mean is over uniform halves of the population and the learner.
    Numerics: rounded up, so that the law's own distance at length 2σ is at most 2η when evaluated.

    Examples:
        >>> round(norm_exponential_constant(0.1), 3)
        4.481
        >>> round(norm_exponential_constant(0.1, ScaledNorm.plain(100)), 3)
        0.4
    """
    eta = checked_eta(eta)
    # The slack leaves room for what the law's own distance is rounded up by.
    constant = up(1.0 / -math.log1p(-down(2 * eta, 64)), 64)
    if norm is not None:
        constant = min(constant, up(norm.slope_upper / eta, 64))
    return constant


# ── Noise laws: how to draw them, and how well two displaced copies can be told apart ─────────────
#
# Every law answers the one question the calibrators ask: for a displacement a, how large can TV(X,
# X + a) be?  By the coupling of X1 the answer, averaged over neighbouring training sets, bounds the
# attacker's advantage.  All answers err upwards and are concave in the displacement's length, so
# they may be evaluated at a mean length (Jensen).


@dataclass(frozen=True)
class NoNoise:
    """The law of a constant statistic: nothing moves, so nothing needs to be hidden.

    Any displacement at all is told apart for certain.
    """

    dimension: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", whole_number("dimension", self.dimension))

    @property
    def rms(self) -> float:
        """Zero."""
        return 0.0

    @property
    def coordinate_rms(self) -> FloatArray:
        """Zeros."""
        return np.zeros(self.dimension)

    @property
    def draw_error(self) -> float:
        """Zero."""
        return 0.0

    def draw(self, source: RandomSource, count: int | None = None) -> FloatArray:
        """Return zeros."""
        del source
        return np.zeros(self.dimension if count is None else (count, self.dimension))

    def length(self, displacements: ArrayLike) -> FloatArray:
        """Return the largest coordinate of every displacement."""
        return np.asarray(np.abs(_as_displacements(displacements, self.dimension)).max(axis=-1))

    def distance(self, lengths: ArrayLike) -> FloatArray:
        """Return 1 for every length that is not 0."""
        return np.where(_checked_lengths(lengths) > 0, 1.0, 0.0)

    def describe(self) -> dict[str, object]:
        """Name the law."""
        return {"law": "none", "dimension": self.dimension, "rms": 0.0}


#: What calibrators and releases take: ``coordinate_rms`` is √E X_i², ``rms`` the root of the sum of
#: their squares (the ``noise_scale`` of the contract), ``draw_error`` bounds |drawn - ideal| of a
#: coordinate, over its size plus its rms; ``length`` and ``distance`` err upwards.
NoiseLaw = GaussianNoise | NormExponentialNoise | NoNoise


# ── Released values live on a grid: what floating point could betray is cut off ───────────────────
#
# A double that is the sum of a secret and of noise has low-order bits that depend on both, and the
# set of doubles a floating sampler can reach differs from secret to secret.  Snapping the sum to
# multiples of a power of two far above those bits makes the set of outputs the same for every
# secret. The grid depends on the noise law only.  What is left of the difference between a floating
# sampler and the ideal law is bounded by :func:`floating_point_slack` (proofs/snapping.md).

#: What a certificate must say besides: it is checked by tests, not proved.
SAMPLER_ASSUMPTION = (
    "The operating system's random words are uniform and unknown to the attacker, and the "
    "elementary and special functions that turn them into noise are accurate to a relative "
    "2^-47 (incomplete gamma inverse: 2^-45)."
)

#: A grid step is between this and half of this share of a coordinate's rms.
_SHARE = 2.0**-6
#: Steps stay clear of the ends of the double range, so that every operation below is exact.
_EXPONENTS = (-900, 900)
#: Chance of crossing a cell border, per unit of relative error (proofs/snapping.md, claim 2).
_CROSSING = 600.0
#: Chance that a draw needs more than the two words it gets, with room to spare.
_UNDERFLOW = 2.0**-70


def grid_steps(law: NoiseLaw) -> FloatArray:
    """Return one power of two per coordinate: more than 1/128, at most 1/64, of its rms.

    The grid widens the noise's variance by at most a 49 000th part.  Edge cases: a coordinate
    without noise has step 0, which means no grid.
    """
    sizes = law.coordinate_rms
    steps = np.zeros(sizes.shape)
    noisy = sizes > 0
    # frexp: size = m·2^e with ½ ≤ m < 1, so 2^(e-1) ≤ size.
    exponents = np.frexp(sizes[noisy])[1] - 1 + int(math.log2(_SHARE))
    if not np.isfinite(sizes).all() or (
        exponents.size and not _EXPONENTS[0] <= exponents.min() <= exponents.max() <= _EXPONENTS[1]
    ):
        raise InputError(
            "noise must have a scale between 1e-268 and 1e270 in every coordinate. "
            "Rescale the statistic."
        )
    steps[noisy] = np.ldexp(1.0, exponents)
    return steps


def snapped(values: ArrayLike, noise: ArrayLike, steps: ArrayLike) -> FloatArray:
    """Return values + noise on the grid of multiples of ``steps`` (powers of two; 0: no grid).

    The value is split into a multiple of the step and a rest, both exact, and only the rest meets
    the noise in floating point: so the result is the ideal sum's nearest grid point unless that sum
    is within a few roundings *of the noise* of a cell border, however large the value is.

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
    # Adding 0.0 turns -0.0, whose sign would tell on which side of 0 the secret was, into 0.0.
    return np.asarray(np.where(step > 0, grid, value + added) + 0.0)


def release(values: ArrayLike, law: NoiseLaw, source: RandomSource | None = None) -> FloatArray:
    """Return ``values`` plus one draw of ``law``, on the law's grid.

    Without a source the operating system's cryptographic generator is used.

    Examples:
        >>> from memberbound.release.noise import GaussianNoise
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
    drawn = law.draw(SecureSource() if source is None else source)
    return snapped(value, drawn, grid_steps(law))


def floating_point_slack(law: NoiseLaw) -> float:
    """Return what to add to η because draws are floating-point numbers.

    Guarantee: the law of :func:`release` is within this total variation of the ideal noise's, put
    on the grid, for every value; so η of the release is at most η of the ideal noise plus this.
    Theorem: proofs/snapping.md, claims 2 and 3.
    Assumes: :data:`SAMPLER_ASSUMPTION`.
    Numerics: rounded up.  Edge cases: no noise, no slack.

    Examples:
        >>> from memberbound.release.noise import GaussianNoise
        >>> floating_point_slack(GaussianNoise(scale=1.0, dimension=1000)) < 1e-8
        True
    """
    if law.rms == 0:
        return 0.0
    return min(1.0, up(law.dimension * (_CROSSING * law.draw_error + _UNDERFLOW), 8))
