"""The centre form: how far from a fixed point does the statistic lie?

Every record, any learner: the releases with and without a record are both compared with noise
around one centre, and together they are all releases (X19).  It needs no neighbours and no bound on
the statistic, and pays for the whole spread of q(D) instead of the movement of one record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import fraction, one_of, whole_number
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import FloatArray, down
from memberbound.protection.calibration import (
    Calibration,
    FreshSubsets,
    Progress,
    Record,
    Statistic,
    checked_eta,
)
from memberbound.protection.enumerated import all_subsets, worth_enumerating
from memberbound.protection.fitting import Fits, fitted
from memberbound.protection.noise import NormExponentialNoise, izzo_constant
from memberbound.protection.norms import ScaledNorm
from memberbound.protection.retraining import calibration_from_scale
from memberbound.protection.searching import (
    ScaleFamily,
    certified_scale,
    distance_target,
    least_draws,
)

__all__ = ["calibrate_izzo", "calibrate_moment"]

#: Fits by default: a fifth of them is the pilot's.
_SUBSETS = 1000
_PILOT, _CERTIFY = 1, 2
#: Steps of Weiszfeld's iteration; the centre need not be exact to be valid.
_STEPS = 30
#: A coordinate that did not move on the pilot gets this share of the widest one's scale.
_STILL = 1e-6


@dataclass(frozen=True, eq=False)
class _Sample:
    """Outputs to choose a centre and scales on, and outputs to certify on."""

    pilot: FloatArray
    certify: FloatArray
    confidence: float | None
    fits: Fits


def _sample(
    statistic: Statistic,
    fresh: FreshSubsets,
    *,
    eta: float,
    confidence: float,
    subsets: int | None,
    exact: bool | None,
    workers: int | None,
    progress: Progress,
) -> _Sample:
    """Fit all subsets, or a pilot stream and a certifying stream."""
    sure = fraction("confidence", confidence, open_left=True, open_right=True)
    total = (
        max(_SUBSETS, 5 * least_draws(eta, sure))
        if subsets is None
        else whole_number("subsets", subsets, at_least=2)
    )
    enumerate_all = worth_enumerating(statistic, fresh.game, total, exact)
    if enumerate_all:
        drawn, pilot = all_subsets(fresh.game), 0
    else:
        pilot = max(1, total // 5)
        drawn = fresh.spawned(_PILOT).subsets(pilot) + fresh.spawned(_CERTIFY).subsets(
            total - pilot
        )
    fits = fitted(
        statistic,
        [[rows] for rows in drawn],
        lambda outputs: outputs[0],
        seed="all subsets" if enumerate_all else (fresh.seed, "pilot first", pilot),
        workers=workers,
        progress=progress,
    )
    chosen_on = fits.rows if enumerate_all else fits.rows[:pilot]
    level = None if enumerate_all else sure
    return _Sample(chosen_on, fits.rows[pilot:], level, fits)


def spatial_median(outputs: FloatArray, family: ScaleFamily) -> FloatArray:
    """Return nearly the point with the least mean length of displacement, by Weiszfeld's steps.

    An estimate: X19 holds for any centre that does not depend on the certifying sample.
    """
    best = centre = outputs.mean(axis=0)
    least = float(family.lengths(outputs - centre).mean())
    for _ in range(_STEPS if least > 0 else 0):
        lengths = family.lengths(outputs - centre)
        weights = 1.0 / np.maximum(lengths, 1e-9 * least)
        centre = (outputs * weights[:, None]).sum(axis=0) / weights.sum()
        value = float(family.lengths(outputs - centre).mean())
        if value < least:
            best = centre
        if not 0 < value < least:
            break
        least = value
    # The middle of many equal outputs is one of them: exactly, so that they count as not moved.
    values, counts = np.unique(outputs, axis=0, return_counts=True)
    return np.asarray(values[counts.argmax()] if 2 * counts.max() > len(outputs) else best)


def _centred(
    sample: _Sample,
    family: ScaleFamily,
    game: SubsetGame,
    *,
    eta: float,
    method: str,
    theorems: tuple[str, ...],
    floor: float,
    details: dict[str, Any],
) -> Calibration:
    """Certify E T(q(D) - m) ≤ η at the least scale from ``floor`` on (X19)."""
    # X19 bounds the gain itself; an eta that the prior alone keeps needs no noise.
    trivial = distance_target(game, eta, family.slack()) >= 1
    target = 1.0 if trivial else down(eta - family.slack(), 32)
    centre = spatial_median(sample.pilot, family)
    lengths = family.lengths(sample.certify - centre)
    spread = float(lengths.mean())
    # Only the pilot may say that nothing moves and the paper's scale is pointless.
    least = floor if (sample.pilot != sample.pilot[0]).any() else 0.0
    found = certified_scale(
        lambda scale: family.distances(lengths, scale),
        start=max(least, spread / (2.5 * target)) or 1.0,
        target=target,
        confidence=sample.confidence,
        floor=least,
        unit="certifying subsets",
    )
    return calibration_from_scale(
        found,
        family,
        game,
        eta=eta,
        method=method,
        theorems=theorems if sample.confidence is None else (*theorems, "X4"),
        confidence=sample.confidence,
        halved=False,
        fits=sample.fits,
        details={
            "subsets": sample.fits.count,
            "pilot_subsets": 0 if sample.confidence is None else len(sample.pilot),
            "spread_estimate": spread,
        }
        | details,
    )


def calibrate_moment(
    statistic: Statistic,
    fresh: FreshSubsets,
    *,
    eta: float,
    record: Record = "every",
    confidence: float = 0.95,
    subsets: int | None = None,
    shape: ArrayLike | None = None,
    exact: bool | None = None,
    workers: int | None = None,
    progress: Progress = None,
) -> Calibration:
    """Return the least Gaussian noise that the centre form certifies, for every record.

    ``subsets`` fresh subsets are fitted (default 1000): a fifth chooses the centre, the rest
    certifies.  ``shape`` is a matrix A for noise s·A·z, chosen without looking at these subsets.
    ``exact`` fits all subsets instead: by default when they are no more than that.

    Guarantee: with probability at least ``confidence`` over the subsets (1 when exact) no attack
    gains more than ``eta`` on any record; so not on the average record either, which is all that
    the certificate says when ``record="average"``.
    Theorem: X19 (proofs/centre-form.md), X4.
    Assumes: the released training set is drawn apart from ``fresh``.
    Numerics: as in :func:`calibrate_neighbour`.
    Edge cases: no noise when the statistic never (or provably hardly ever) leaves the centre;
    SearchError when there are too few subsets for any noise; a fit that fails counts as zeros,
    InputError when more than one in a hundred does.

    Examples:
        >>> class Mean:
        ...     dimension = 1
        ...
        ...     def __call__(self, rows):
        ...         return np.array([rows.mean()])
        >>> found = calibrate_moment(Mean(), FreshSubsets(SubsetGame(8, 4)), eta=0.1)
        >>> found.record, round(found.noise_scale, 2), found.fits
        ('every', 2.77, 70)
    """
    goal = checked_eta(eta)
    one_of("record", record, ("average", "every"))
    family = ScaleFamily.gaussian(statistic.dimension, shape)
    sample = _sample(
        statistic,
        fresh,
        eta=goal,
        confidence=confidence,
        subsets=subsets,
        exact=exact,
        workers=workers,
        progress=progress,
    )
    return _centred(
        sample,
        family,
        replace(fresh.game, record=record),
        eta=goal,
        method="moment",
        theorems=("X19",),
        floor=0.0,
        details={},
    )


def calibrate_izzo(
    statistic: Statistic,
    fresh: FreshSubsets,
    *,
    eta: float,
    record: Record = "every",
    confidence: float = 0.95,
    moment: float = 2.0,
    scaling: str = "coordinate",
    subsets: int | None = None,
    exact: bool | None = None,
    workers: int | None = None,
    progress: Progress = None,
) -> Calibration:
    """Return I24's norm-exponential noise at I24's own scale, with the radius that is right.

    The noise is exp(-‖x‖/(c·σ)), c = (6.16/η)^(1+2/M) for a moment M ≥ 2: with
    ``scaling="coordinate"`` the norm of I24-C10 with every coordinate's M-th moment σ_i, with
    ``"plain"`` the Euclidean norm and σ^M = E‖q - Eq‖^M.  It is far more than is needed
    (:func:`calibrate_moment`), and here to compare with.

    Guarantee: as :func:`calibrate_moment`.  An estimated moment proves nothing, so the certificate
    is that of the centre form for this law; should it fail, the scale is raised until it passes.
    Theorem: X19, X14; I24-C10 and I24-C14 choose the scale.
    Assumes: the released training set is drawn apart from ``fresh``.
    Numerics: as in :func:`calibrate_moment`.
    Edge cases: a coordinate that does not move on the pilot gets a millionth of the widest scale.

    Examples:
        >>> class Mean:
        ...     dimension = 1
        ...
        ...     def __call__(self, rows):
        ...         return np.array([rows.mean()])
        >>> found = calibrate_izzo(Mean(), FreshSubsets(SubsetGame(8, 4)), eta=0.1)
        >>> round(found.noise_scale), found.certificate.value < 0.001
        (4647, True)
    """
    goal = checked_eta(eta)
    one_of("record", record, ("average", "every"))
    one_of("scaling", scaling, ("coordinate", "plain"))
    constant = izzo_constant(goal, moment)
    sample = _sample(
        statistic,
        fresh,
        eta=goal,
        confidence=confidence,
        subsets=subsets,
        exact=exact,
        workers=workers,
        progress=progress,
    )
    offsets = np.abs(sample.pilot - sample.pilot.mean(axis=0))
    if scaling == "coordinate":
        norm = ScaledNorm(_filled(_moments(offsets, moment)), moment)
    else:
        lengths = np.linalg.norm(offsets, axis=1)[:, None]
        sigma = float(_filled(_moments(lengths, moment))[0])
        norm = ScaledNorm(ScaledNorm.plain(statistic.dimension).scales * sigma)
    return _centred(
        sample,
        ScaleFamily(NormExponentialNoise(norm, 1.0)),
        replace(fresh.game, record=record),
        eta=goal,
        method="izzo",
        theorems=("X19", "X14"),
        floor=constant,
        details={"constant": constant, "moment": moment, "scaling": scaling},
    )


def _moments(offsets: FloatArray, moment: float) -> FloatArray:
    """Return (mean of offset^M)^{1/M} of every column, without overflow on the way."""
    top = np.where(offsets.max(axis=0) > 0, offsets.max(axis=0), 1.0)
    return np.asarray(top * ((offsets / top) ** moment).mean(axis=0) ** (1.0 / moment))


def _filled(scales: FloatArray) -> FloatArray:
    """Return the scales with a small one in the place of 0; all ones when nothing moved."""
    widest = float(scales.max())
    return np.maximum(scales, _STILL * widest) if widest > 0 else np.ones_like(scales)
