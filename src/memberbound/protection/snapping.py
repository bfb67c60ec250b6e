"""Released values live on a grid: what floating point could betray is cut off.

A double that is the sum of a secret and of noise has low-order bits that depend on both, and the
set of doubles a floating sampler can reach differs from secret to secret.  Snapping the sum to
multiples of a power of two far above those bits makes the set of outputs the same for every secret.
The grid depends on the noise law only.  What is left of the difference between a floating sampler
and the ideal law is bounded by :func:`floating_point_slack` (proofs/snapping.md).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray, up
from memberbound.protection.noise import NoiseLaw
from memberbound.protection.randomness import RandomSource, SecureSource

__all__ = ["SAMPLER_ASSUMPTION", "floating_point_slack", "grid_steps", "release", "snapped"]

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
        >>> from memberbound.protection.noise import GaussianNoise
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
        >>> from memberbound.protection.noise import GaussianNoise
        >>> floating_point_slack(GaussianNoise(scale=1.0, dimension=1000)) < 1e-8
        True
    """
    if law.rms == 0:
        return 0.0
    return min(1.0, up(law.dimension * (_CROSSING * law.draw_error + _UNDERFLOW), 8))
