"""Statistics of subsets: means, histograms, covariances, quantiles; sums calibrated exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import InputError, SearchError, whole_number
from memberbound.games import SubsetGame
from memberbound.numerics.roots import confirmed, least_scale
from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack, up
from memberbound.quantities import Certificate, significant
from memberbound.release.calibration import Calibration
from memberbound.release.half.least_noise import Rows, promised_eta, subset_assumptions
from memberbound.release.noise import GaussianNoise, floating_point_slack
from memberbound.subset.gaussian import NoisySum
from memberbound.subset.profile import checked_table, noise_on_query
from memberbound.subset.record_bounds import eta_from_success

if TYPE_CHECKING:
    from memberbound.release.half.parameters import Labels

# ── Sums over the training set: calibrated exactly, without sampling and without retraining ───────
#
# When one record is replaced the sum moves by v_x - v_x', whatever the rest of the training set is.
# So the neighbour profile gives X1's mean for every record, and the certificate holds always.

_ROOT_TWO_PI = math.sqrt(2 * math.pi)


@dataclass(frozen=True, eq=False)
class SumStatistic:
    """Σ of one row of ``vectors`` per record of the subset, added up exactly, over ``size``.

    ``size`` 1 is a sum, the number of records drawn a mean; dividing hides nothing (L24-L14), so
    noise is found on the sum, as ``population`` finds it.

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
        """How far ``size`` times the value may lie from the exact sum, from above."""
        # fsum rounds once, and so does the division: half a unit of at most Σ|v| each.
        sizes = np.abs(self.vectors).sum(axis=0)
        return up(float(np.linalg.norm(sizes)) * UNIT * 2.02, 64)


def calibrate_sum(
    statistic: SumStatistic, game: SubsetGame, *, eta: float, crowd: bool = False
) -> Calibration:
    """Return the least Gaussian noise on Σ_{x∈D} v_x that is certified without drawing anything.

    The coupling compares neighbouring training sets alone.  With ``crowd`` the sum over the other
    members counts as noise too: it is nearly normal, and for every record the smaller of the two
    bounds is taken.

    Guarantee: no attack gains more than ``eta`` over the likelier answer, on the average record or
    on every record, as the game says: always, not with some confidence.
    Theorem: X1, L24-P12; X9 for a sum that is one number; X21 for the crowd (proofs/crowd.md).
    Assumes: the training set is a uniform subset of the game's size; noise is drawn once.
    Numerics: the bound was evaluated, rounded up, at the returned scale, which is that of
    :class:`~memberbound.subset.gaussian.NoisySum`, the search of ``population``, plus what
    floating-point draws and the rounding of the sum ask for: about 1e-12 of it; with the crowd to
    1e-4 of the noise (1e-3 for one number).
    Edge cases: equal vectors need no noise (η = 0, proved); nor do vectors of which so few differ
    that the record stays within η; an η of min(k/N, 1 - k/N) or more, which promises nothing, is
    refused; the crowd never needs more noise, and as much where it is too small for its columns.

    Examples:
        >>> noise = calibrate_sum(total([0.0, 1.0, 2.0, 3.0]), SubsetGame(4, 2, "average"), eta=0.1)
        >>> round(noise.noise_scale, 2), noise.certificate.confidence, noise.fits
        (2.38, 1.0, 0)
    """
    goal = promised_eta(eta, game)
    if len(statistic.vectors) != game.population:
        raise InputError(
            f"vectors must have one row for each of the {game.population} records, "
            f"got {len(statistic.vectors)}."
        )
    if game.population < 4:
        raise InputError(f"population must have at least 4 records, got {game.population!r}.")
    # Nothing is below the exact mixtures of one number, which are for the worst record.
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
            "No noise is needed: so few swaps of a record change the statistic that no attacker "
            "gains more than eta from the bare one."
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
    details: dict[str, object] = {"scale": law.scale}
    details |= {"note": note} if note else {}
    return Calibration(law, certificate, goal, "crowd" if crowd else "sum", 0, details)


def _silent_gain(vectors: FloatArray, game: SubsetGame) -> float:
    """Return the gain without noise, from above: every swap with an unequal record shows."""
    _, which, counts = np.unique(vectors + 0.0, axis=0, return_inverse=True, return_counts=True)
    unequal = (len(vectors) - counts[which.ravel()]) / (len(vectors) - 1)
    share = unequal.max() if game.record == "every" else unequal.mean()
    return up(float(share) * game.largest_gain * (1 + sum_slack(len(vectors))), 16)


def _least(
    statistic: SumStatistic, noisy: NoisySum, goal: float
) -> tuple[GaussianNoise, float, bool]:
    """Return the noise that ``population`` would name, plus what floating point takes of it.

    With it the gain, and whether the crowd made it smaller.
    """
    game, slack = noisy.game, floating_point_slack(GaussianNoise(1.0, statistic.dimension))

    def total(bounded: NoisySum, sigma: float) -> float:
        gain = float(eta_from_success(np.array([bounded.worst_success(sigma)]), game)[0])
        # A sum that is off by r moves both worlds by at most r/(σ√(2π)) each: ½·2 of that.
        off = statistic.rounding / (sigma * _ROOT_TWO_PI)
        return up(gain + slack + off, 16)

    target, without = game.blind + goal, replace(noisy, crowd=None)
    try:
        ideal = noisy.noise_for_success(target)
        if noisy.crowd is not None and ideal >= without.noise_for_success(target):
            noisy = without  # In hundreds of columns the crowd costs seconds each time.
        try:
            sigma = confirmed(lambda s: total(noisy, s), goal, ideal)
        except SearchError:
            # Rounding uses up much of η: search for more noise by coupling alone.
            sigma = least_scale(lambda s: total(noisy.coupling, s) - goal, ideal)
    except (SearchError, InputError):
        raise InputError(
            f"eta must be above what floating-point noise of this dimension and size adds, "
            f"got {goal!r}. Centre the vectors or ask for less."
        ) from None
    law = GaussianNoise(noise_on_query("mean", sigma, statistic.size), statistic.dimension)
    gain = total(noisy, sigma)
    return law, gain, noisy.crowd is not None and gain < total(without, sigma)


# ── Statistics of a population's subsets: means, sums, histograms, covariances, quantiles, others ─
#
# Those that are sums over records are :class:`SumStatistic` and are
# calibrated exactly; the others go through the calibrators that refit.


def _table(data: ArrayLike) -> FloatArray:
    table = checked_table("data", data)
    if len(table) < 4:
        raise InputError(f"data must be a table of at least 4 records, got shape {table.shape!r}.")
    return table


def _size(size: int | None, records: int) -> int:
    """Return the training set's size: half the population unless said."""
    return records // 2 if size is None else whole_number("size", size)


def total(data: ArrayLike) -> SumStatistic:
    """Return the sum.

    Examples:
        >>> total([[3.0, 4.0], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])(np.array([0, 1])).tolist()
        [3.0, 5.0]
    """
    return SumStatistic(_table(data))


def mean(data: ArrayLike, *, size: int | None = None) -> SumStatistic:
    """Return the mean over ``size`` records (default: half of them).

    Examples:
        >>> mean([1.0, 2.0, 3.0, 4.0])(np.array([1, 3])).tolist()
        [3.0]
    """
    rows = _table(data)
    return SumStatistic(rows, size=_size(size, len(rows)))


def histogram(
    data: ArrayLike, *, bins: ArrayLike | None = None, categories: Sequence[Any] | None = None
) -> SumStatistic:
    """Return counts: of numbers between the edges ``bins``, or of the given ``categories``.

    Bins and categories are public, so they must not be chosen by looking at the secret.  The last
    bin contains its right edge; a value outside all bins or categories is counted nowhere.

    Examples:
        >>> histogram(["a", "b", "a", "c"], categories=["a", "b"])(np.array([0, 2, 3])).tolist()
        [2.0, 0.0]
    """
    values: Labels = np.asarray(data)
    if values.ndim != 1 or values.size < 4:
        raise InputError(
            f"data must be one value for each of 4 or more records, got {values.shape}."
        )
    if (bins is None) == (categories is None):
        raise InputError("one of bins and categories must be given.")
    if categories is not None:
        names = list(dict.fromkeys(categories))
        if len(names) != len(categories) or not names:
            raise InputError("categories must be different, and at least one.")
        counts = np.stack([values == name for name in names], axis=1)
        return SumStatistic(counts.astype(np.float64), tuple(str(name) for name in names))
    edges = np.asarray(bins, dtype=np.float64)
    if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
        raise InputError("bins must be at least two edges in increasing order.")
    numbers = _table(values)[:, 0]
    place = np.searchsorted(edges, numbers, side="right") - 1
    place[numbers == edges[-1]] = len(edges) - 2
    counts = place[:, None] == np.arange(len(edges) - 1)
    names = [f"[{significant(a, 'given')}, {significant(b, 'given')})" for a, b in pairwise(edges)]
    names[-1] = names[-1][:-1] + "]"
    return SumStatistic(counts.astype(np.float64), tuple(names))


def covariance(data: ArrayLike, *, size: int | None = None) -> SumStatistic:
    """Return the upper triangle of the covariance matrix about the population's mean, row by row.

    The attacker of the subset game knows that mean, and about it the covariance is a mean of
    products.

    Examples:
        >>> covariance([[0.0], [2.0], [0.0], [2.0]])(np.array([0, 1])).tolist()
        [1.0]
    """
    table = _table(data)
    first, second = np.triu_indices(table.shape[1])
    moved = table - table.mean(axis=0)
    return SumStatistic(moved[:, first] * moved[:, second], size=_size(size, len(table)))


def quantiles(data: ArrayLike, levels: ArrayLike) -> CallableStatistic:
    """Return the quantiles of every column at the given levels, level by level.

    Examples:
        >>> quantiles([1.0, 2.0, 3.0, 10.0], 0.5)(np.arange(3)).tolist()
        [2.0]
    """
    table = _table(data)
    chosen = np.atleast_1d(np.asarray(levels, dtype=np.float64))
    if chosen.ndim != 1 or not ((chosen >= 0) & (chosen <= 1)).all():
        raise InputError(f"levels must be in [0, 1], got {levels!r}.")
    function = partial(np.quantile, q=chosen, axis=0)
    return CallableStatistic(table, function, chosen.size * table.shape[1])


@dataclass(frozen=True, eq=False)
class CallableStatistic:
    """``function`` of the chosen rows of ``data``, flattened: a Statistic."""

    data: Labels
    function: Callable[[Labels], ArrayLike]
    dimension: int
    names: tuple[str, ...] = field(default=())

    def __call__(self, rows: Rows) -> FloatArray:
        """Return the function's value on these records."""
        return np.ravel(np.asarray(self.function(self.data[rows]), dtype=np.float64))


def computed(
    data: ArrayLike, function: Callable[[Labels], ArrayLike], *, size: int | None = None
) -> CallableStatistic:
    """Return any function of the chosen rows, found to be of one length on the first rows.

    Examples:
        >>> computed([1.0, 2.0, 4.0, 8.0], np.max)(np.array([0, 2])).tolist()
        [4.0]
    """
    table: Labels = np.asarray(data)
    if table.ndim == 0 or len(table) < 4:
        raise InputError(f"data must have at least 4 records, got shape {table.shape!r}.")
    if not callable(function):
        raise InputError(f"function must be callable, got {function!r}.")
    # Only the length is used; the first rows are public as all rows are.
    first = np.ravel(np.asarray(function(table[: _size(size, len(table))]), dtype=np.float64))
    if first.size == 0:
        raise InputError("function must return at least one number.")
    return CallableStatistic(table, function, int(first.size))
