"""Sums over the training set: calibrated exactly, without sampling and without retraining.

Replacing one record changes the sum by v_x - v_x', whatever the rest of the training set.  So the
neighbour profile gives X1's mean for every record, and the certificate always holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from memberbound.certificate import Certificate
from memberbound.errors import InputError, SearchError
from memberbound.games import SubsetGame
from memberbound.learners.learner import Labels
from memberbound.numerics.roots import confirmed, least_scale
from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack, up
from memberbound.quantities import significant
from memberbound.release.calibration import Calibration
from memberbound.release.half.fitting import Rows
from memberbound.release.half.least_noise import check_eta, subset_assumptions
from memberbound.release.noise import GaussianNoise, floating_point_slack
from memberbound.subset.distances import checked_table
from memberbound.subset.gaussian import NoisySum, noise_on_query
from memberbound.subset.population_record import digest_of_rows
from memberbound.subset.record_bounds import eta_from_success
from memberbound.tables.cells import Intervals

_ROOT_TWO_PI = math.sqrt(2 * math.pi)
#: Format of a sum's record; recomputing the noise needs the table.
SUM_FORMAT = "memberbound-sum/1"


@dataclass(frozen=True, eq=False)
class SumStatistic:
    """The exact sum of the subset's rows of ``vectors``, divided by ``size``.

    ``size`` 1 gives a sum, the number of records drawn a mean.  Dividing hides nothing (L24-L14),
    so the noise is calibrated on the sum, as in ``population``.

    Examples:
        >>> SumStatistic(np.array([[1.0], [2.0], [4.0]]))(np.array([0, 2])).tolist()
        [5.0]
    """

    vectors: FloatArray
    names: tuple[str, ...] = field(default=())
    size: int = 1

    def __post_init__(self) -> None:
        table = checked_table("vectors", self.vectors).copy()
        table.setflags(write=False)
        object.__setattr__(self, "vectors", table)

    @property
    def dimension(self) -> int:
        """Number of released coordinates."""
        return int(self.vectors.shape[1])

    def __call__(self, rows: Rows) -> FloatArray:
        """Return the sum over these records, or their mean."""
        return np.array([math.fsum(column) for column in self.vectors[rows].T]) / self.size

    @property
    def rounding(self) -> float:
        """Upper bound on the distance between ``size`` times the value and the exact sum."""
        # fsum rounds once, and so does the division: half an ulp of at most Σ|v| each.
        sizes = np.abs(self.vectors).sum(axis=0)
        return up(float(np.linalg.norm(sizes)) * UNIT * 2.02, 64)


def calibrate_sum(
    statistic: SumStatistic, game: SubsetGame, *, eta: float, crowd: bool = False
) -> Calibration:
    """Find the least Gaussian noise on Σ_{x∈D} v_x, certified without sampling.

    The coupling only compares neighbouring training sets.  With ``crowd``, the sum over the other
    members counts as noise too: it is nearly normal, and the smaller of the two bounds applies to
    each record.

    Guarantee: no attack gains more than ``eta`` over the likelier answer, on the average record or
    on every record, as the game specifies: always, not with some confidence.
    Theorem: X1, L24-P12; X9 for a sum that is one number; X21 for the crowd (proofs/crowd.md).
    Assumes: the training set is a uniform subset of the game's size; noise is drawn once.
    Numerics: the bound was evaluated, rounded up, at the returned scale, which is that of
    :class:`~memberbound.subset.gaussian.NoisySum`, the search of ``population``, plus an allowance
    for floating-point draws and the rounding of the sum.  It is within about 1e-12 of the least
    noise; with the crowd, within 1e-4 (1e-3 for one number).
    Edge cases: equal vectors need no noise (η = 0, proved), nor do vectors with too few differences
    to violate η without noise; a vacuous η of min(k/N, 1 - k/N) or more is rejected; the crowd
    never increases the noise, and has no effect if it is too small for its columns.

    Examples:
        >>> noise = calibrate_sum(total([0.0, 1.0, 2.0, 3.0]), SubsetGame(4, 2, "average"), eta=0.1)
        >>> round(noise.noise_scale, 2), noise.certificate.confidence, noise.fits
        (2.38, 1.0, 0)
    """
    goal = check_eta(eta, game)
    if len(statistic.vectors) != game.population:
        raise InputError(
            f"vectors must have one row for each of the {game.population} records, "
            f"got {len(statistic.vectors)}."
        )
    if game.population < 4:
        raise InputError(f"population must have at least 4 records, got {game.population!r}.")
    # For one number the exact mixtures, for the worst record, are already optimal.
    pays = crowd and (statistic.dimension > 1 or game.record == "average")
    noisy = NoisySum.of(statistic.vectors, game, crowd=pays)
    theorems = ("X1", "L24-P12") if statistic.dimension > 1 else ("X1", "L24-P12", "X9")
    law = GaussianNoise(0.0, statistic.dimension)
    note = ""
    if noisy.profile.diameter == 0.0:
        value = 0.0
        note = "No noise is needed: the statistic is the same on all subsets."
    elif (silent := _silent_gain(statistic.vectors, game)) <= goal:
        value = silent
        note = (
            "No noise is needed: swapping a record changes the statistic too rarely for any "
            "attacker to gain more than eta from the bare one."
        )
    else:
        law, value, hidden = _least(statistic, noisy, goal)
        theorems = ("X21", *theorems) if hidden else theorems
    certificate = Certificate(
        "eta",
        value,
        "upper",
        game,
        theorems,
        subset_assumptions(
            game,
            noisy=law.rms > 0,
            sampled=False,
            coins="The statistic is a function of the training set alone.",
        ),
    )
    details: dict[str, object] = {
        "scale": law.scale,
        "derivation": {"format": SUM_FORMAT, "rows_sha256": digest_of_rows(statistic.vectors)},
    }
    details |= {"note": note} if note else {}
    return Calibration(law, certificate, goal, "crowd" if crowd else "sum", 0, details)


def _silent_gain(vectors: FloatArray, game: SubsetGame) -> float:
    """Return an upper bound on the gain without noise: any swap of unequal records is visible."""
    _, which, counts = np.unique(vectors + 0.0, axis=0, return_inverse=True, return_counts=True)
    unequal = (len(vectors) - counts[which.ravel()]) / (len(vectors) - 1)
    share = unequal.max() if game.record == "every" else unequal.mean()
    return up(float(share) * game.largest_gain * (1 + sum_slack(len(vectors))), 16)


def _least(
    statistic: SumStatistic, noisy: NoisySum, goal: float
) -> tuple[GaussianNoise, float, bool]:
    """Return the noise of ``population`` plus an allowance for floating point.

    Also return the gain, and whether the crowd reduced it.
    """
    game, slack = noisy.game, floating_point_slack(GaussianNoise(1.0, statistic.dimension))

    def total(bounded: NoisySum, sigma: float) -> float:
        gain = float(eta_from_success(np.array([bounded.worst_success(sigma)]), game)[0])
        # An error of r in the sum moves each of the two worlds by at most r/(σ√(2π)): ½·2 of that.
        off = statistic.rounding / (sigma * _ROOT_TWO_PI)
        return up(gain + slack + off, 16)

    target, without = game.blind + goal, replace(noisy, crowd=None)
    try:
        ideal = noisy.noise_for_success(target)
        if noisy.crowd is not None and ideal >= without.noise_for_success(target):
            # With hundreds of columns, each evaluation of the crowd takes seconds.
            noisy = without
        try:
            sigma = confirmed(lambda s: total(noisy, s), goal, ideal)
        except SearchError:
            # Rounding takes much of η: search for more noise by coupling alone.
            sigma = least_scale(lambda s: total(noisy.coupling, s) - goal, ideal)
    except (SearchError, InputError):
        raise InputError(
            f"eta must be above what floating-point noise of this dimension and size adds, "
            f"got {goal!r}. Centre the vectors or ask for less."
        ) from None
    law = GaussianNoise(noise_on_query(sigma, statistic.size), statistic.dimension)
    gain = total(noisy, sigma)
    return law, gain, noisy.crowd is not None and gain < total(without, sigma)


def total(data: ArrayLike, names: tuple[str, ...] = ()) -> SumStatistic:
    """Return the sum."""
    return SumStatistic(checked_table("data", data), names)


def mean(data: ArrayLike, *, size: int | None = None, names: tuple[str, ...] = ()) -> SumStatistic:
    """Return the mean over ``size`` records (default: half of them)."""
    rows = checked_table("data", data)
    return SumStatistic(rows, names, len(rows) // 2 if size is None else size)


def histogram(
    data: ArrayLike, *, bins: ArrayLike | None = None, categories: Sequence[str] = ()
) -> SumStatistic:
    """Return counts of numbers between the edges ``bins``, or of the given ``categories``.

    The last bin contains its right edge; values outside all bins or categories are not counted.
    """
    values: Labels = np.asarray(data)
    if bins is None:
        counts = values[:, None] == np.array(categories)
        return SumStatistic(counts.astype(np.float64), tuple(categories))
    edges = np.asarray(bins, dtype=np.float64)
    cells = Intervals(edges, "closed", text=partial(significant, side="given"))
    counts = cells.index_of(np.asarray(values, dtype=np.float64))[:, None] == np.arange(cells.count)
    return SumStatistic(counts.astype(np.float64), tuple(map(cells.label, range(cells.count))))


def covariance(data: ArrayLike, *, size: int | None = None) -> SumStatistic:
    """Return the upper triangle of the covariance matrix about the population's mean, row by row.

    The mean is public in the subset game, so the covariance is a mean of products of deviations
    from it.
    """
    table = checked_table("data", data)
    first, second = np.triu_indices(table.shape[1])
    centred = table - table.mean(axis=0)
    return mean(centred[:, first] * centred[:, second], size=size)
