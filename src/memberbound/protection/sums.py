"""Sums over the training set: calibrated exactly, without sampling and without retraining.

When one record is replaced the sum moves by v_x - v_x', whatever the rest of the training set is.
So the neighbour profile gives X1's mean for every record, and the certificate holds always.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import InputError, one_of
from memberbound.games import SubsetGame
from memberbound.numerics.roots import safe_crossing
from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack, up
from memberbound.protection.calibration import Calibration, Record, Rows, checked_eta
from memberbound.protection.noise import GaussianNoise, NoiseLaw, NoNoise
from memberbound.protection.releasing import (
    Release,
    checked_train,
    released_vector,
    secret_subset,
    source_from_seed,
)
from memberbound.protection.retraining import subset_assumptions
from memberbound.protection.snapping import floating_point_slack
from memberbound.quantities import Certificate
from memberbound.subset.profile import NeighbourProfile

__all__ = ["SumStatistic", "calibrate_sum", "release_sum"]

_ROOT_TWO_PI = math.sqrt(2 * math.pi)
#: The noise returned is at most this much more than the least that passes.
_RELATIVE = 1e-4


@dataclass(frozen=True, eq=False)
class SumStatistic:
    """Σ of one row of ``vectors`` per record of the subset, added up exactly and rounded once.

    Examples:
        >>> SumStatistic(np.array([[1.0], [2.0], [4.0]]))(np.array([0, 2])).tolist()
        [5.0]
    """

    vectors: FloatArray
    names: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        table = np.array(self.vectors, dtype=np.float64)
        table = table[:, None] if table.ndim == 1 else table
        if table.ndim != 2 or table.size == 0 or not np.isfinite(table).all():
            raise InputError("vectors must be finite numbers, one row per record.")
        table.setflags(write=False)
        object.__setattr__(self, "vectors", table)

    @property
    def dimension(self) -> int:
        """Number of released coordinates."""
        return int(self.vectors.shape[1])

    def __call__(self, rows: Rows) -> FloatArray:
        """Return the sum over these records."""
        return np.array([math.fsum(column) for column in self.vectors[rows].T])

    @property
    def rounding(self) -> float:
        """How far a returned sum may lie from the exact one, from above."""
        # fsum rounds once: half a unit of the sum, whose size is at most Σ|v|.
        sizes = np.abs(self.vectors).sum(axis=0)
        return up(float(np.linalg.norm(sizes)) * UNIT * 1.01, 64)


def calibrate_sum(
    vectors: ArrayLike | SumStatistic,
    game: SubsetGame,
    *,
    eta: float,
    record: Record = "average",
) -> Calibration:
    """Return the least Gaussian noise on Σ_{x∈D} v_x that the neighbour profile certifies.

    Guarantee: no attack gains more than ``eta`` over the likelier answer, on the average record or
    on every record: always, not with some confidence.
    Theorem: X1, L24-P12.
    Assumes: the training set is a uniform subset of the game's size; noise is drawn once.
    Numerics: the bound was evaluated, rounded up, at the returned scale, which is at most 1e-4 too
    large.  What floating-point draws and the rounding of the sum add is part of the bound.
    Edge cases: equal vectors need no noise (η = 0, proved); nor do vectors of which so few differ
    that the average record stays within η.

    Examples:
        >>> found = calibrate_sum([[0.0], [1.0], [2.0], [3.0]], SubsetGame(4, 2), eta=0.1)
        >>> round(found.noise_scale, 2), found.certificate.confidence, found.fits
        (3.27, 1.0, 0)
        >>> calibrate_sum([[1.0]] * 4, SubsetGame(4, 2), eta=0.1).noise.describe()["law"]
        'none'
    """
    goal = checked_eta(eta)
    one_of("record", record, ("average", "every"))
    statistic = vectors if isinstance(vectors, SumStatistic) else SumStatistic(np.asarray(vectors))
    if len(statistic.vectors) != game.population:
        raise InputError(
            f"vectors must have one row for each of the {game.population} records, "
            f"got {len(statistic.vectors)}."
        )
    if game.population < 4:
        raise InputError(f"population must have at least 4 records, got {game.population!r}.")
    played = replace(game, record=record)
    profile = NeighbourProfile.from_vectors(statistic.vectors)
    gain = _gain(profile, played)
    law: NoiseLaw
    if profile.diameter == 0.0:
        law, value = NoNoise(statistic.dimension), 0.0
        note = "No noise is needed: the statistic is the same on all subsets."
    elif (silent := _silent_gain(statistic.vectors, played)) <= goal:
        law, value = NoNoise(statistic.dimension), silent
        note = "No noise is needed: the statistic moves too rarely to tell."
    else:
        law, value = _least(statistic, profile, gain, goal)
        note = ""
    certificate = Certificate(
        "eta",
        value,
        "upper",
        played,
        ("X1", "L24-P12"),
        subset_assumptions(
            played,
            noisy=law.rms > 0,
            sampled=False,
            coins="The statistic is a function of the training set alone.",
        ),
    )
    details = {"exact": True, "scale": getattr(law, "scale", 0.0)}
    return Calibration(law, certificate, goal, "sum", 0, details | ({"note": note} if note else {}))


def _gain(profile: NeighbourProfile, game: SubsetGame) -> Callable[[float], float]:
    """Return σ ↦ the gain over the likelier answer, for the record the game names, from above."""
    likelier = max(game.prior, 1 - game.prior)

    def gain(sigma: float) -> float:
        # Both lie in [½, 1]: the difference is exact.
        gains = np.maximum(profile.accuracy(game.prior, sigma) - likelier, 0.0)
        if game.record == "every":
            return float(gains.max())
        return up(float(gains.mean()) * (1 + 2 * sum_slack(gains.size)))

    return gain


def _silent_gain(vectors: FloatArray, game: SubsetGame) -> float:
    """Return the gain without noise, from above: every swap with an unequal record shows."""
    _, which, counts = np.unique(vectors + 0.0, axis=0, return_inverse=True, return_counts=True)
    unequal = (len(vectors) - counts[which.ravel()]) / (len(vectors) - 1)
    share = unequal.max() if game.record == "every" else unequal.mean()
    return up(float(share) * min(game.prior, 1 - game.prior) * (1 + sum_slack(len(vectors))), 16)


def _least(
    statistic: SumStatistic,
    profile: NeighbourProfile,
    gain: Callable[[float], float],
    goal: float,
) -> tuple[NoiseLaw, float]:
    slack = floating_point_slack(GaussianNoise(1.0, statistic.dimension))

    def total(sigma: float) -> float:
        # A sum that is off by r moves both worlds by at most r/(σ√(2π)) each: ½·2 of that.
        off = statistic.rounding / (sigma * _ROOT_TWO_PI)
        return up(gain(sigma) + slack + off, 16)

    # ½·TV ≤ distance/(2σ√(2π)): above this scale the target holds but for the slack.
    safe = float(profile.mean_distance.max()) / (2 * _ROOT_TWO_PI * goal)
    for _ in range(64):
        if total(safe) <= goal:
            break
        safe *= 1.25
    else:
        raise InputError(
            f"eta must be above what floating-point noise of this dimension and size adds, "
            f"got {goal!r}. Centre the vectors or ask for less."
        )
    unsafe = safe
    while total(unsafe) <= goal:
        safe, unsafe = unsafe, unsafe / 2
    sigma = safe_crossing(lambda s: total(s) - goal, safe, unsafe, relative=_RELATIVE)
    return GaussianNoise(sigma, statistic.dimension), total(sigma)


def release_sum(
    statistic: SumStatistic,
    game: SubsetGame,
    *,
    eta: float,
    record: Record = "average",
    train: ArrayLike | None = None,
    insecure_seed: int | None = None,
) -> Release:
    """Calibrate, draw the secret subset (or take ``train``) and release the noisy sum.

    Guarantee, Theorem, Numerics: as :func:`calibrate_sum`.
    Assumes: ``train``, if given, was drawn uniformly from the population.
    """
    calibration = calibrate_sum(statistic, game, eta=eta, record=record)
    source = source_from_seed(insecure_seed)
    if train is None:
        secret = secret_subset(game, source)
    else:
        secret = checked_train(train, game.population)
        if secret.size != game.size:
            raise InputError(f"train must hold {game.size} records, got {secret.size}.")
    values = released_vector(statistic, calibration, secret, source)
    return Release(values, calibration, statistic.names, source.secure)
