"""The least noise that is enough: fresh subsets in, the smallest certified scale out.

A calibrator sees the population and *fresh* subsets of it, never the subset whose release is to be
protected (theory §6, trap 6): it takes a :class:`FreshSubsets`, which draws its own.

The laws s·X, s > 0, are searched for the smallest scale s at which a *confidence bound* on the mean
distance E T(s) stays within the target.  Looking at many scales costs nothing
(proofs/retraining.md): T falls as s grows, on every sample path, so the bound falls too and an
error at any scale is an error at the boundary scale, one fixed event.  Where T need not fall,
:func:`~memberbound.numerics.roots.fixed_order` tests what was fixed in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError, SearchError
from memberbound.games import SubsetGame
from memberbound.numerics.means import log_error_shared, mean_upper, zeros_certify
from memberbound.numerics.roots import fixed_order, least_scale, least_whole
from memberbound.numerics.rounding import FloatArray, down, sum_slack, up
from memberbound.quantities import percent, significant
from memberbound.release.noise import checked_eta

Rows = NDArray[np.int64]
Progress = Callable[[int, int], None] | None


class Statistic(Protocol):
    """What is released about a training set: rows of the population in, a vector out."""

    @property
    def dimension(self) -> int:
        """Number of released coordinates."""
        ...

    def __call__(self, rows: Rows) -> FloatArray:
        """Return the statistic of the records with these row numbers."""
        ...


@dataclass(frozen=True)
class FreshSubsets:
    """Uniform subsets for calibration; a generator of their own keeps them apart from the secret.

    The same seed gives the same subsets, and ``spawned`` an independent stream, so that a scale
    chosen on one stream can be certified on another.
    """

    game: SubsetGame
    seed: int | tuple[int, ...] = 0

    def spawned(self, number: int) -> FreshSubsets:
        """Return an independent stream of subsets."""
        base = self.seed if isinstance(self.seed, tuple) else (self.seed,)
        return FreshSubsets(self.game, (*base, number))

    def orders(self, count: int) -> list[Rows]:
        """Return independent uniform orders of the population: the first ``size`` are a subset."""
        draws = np.random.default_rng(self.seed)
        return [draws.permutation(self.game.population) for _ in range(count)]

    def subsets(self, count: int) -> list[Rows]:
        """Return independent uniform subsets of the game's size, sorted."""
        return [np.sort(order[: self.game.size]) for order in self.orders(count)]

    def neighbours(self, count: int) -> list[tuple[Rows, Rows, int, int]]:
        """Return independent (D, D', x, x'): x uniform in D, x' uniform outside takes its place."""
        pairs = []
        for order in self.orders(count):
            inside, x, other = order[: self.game.size], order[0], order[self.game.size]
            swapped = np.append(inside[1:], other)
            pairs.append((np.sort(inside), np.sort(swapped), int(x), int(other)))
        return pairs


@dataclass(frozen=True)
class CertifiedScale:
    """A scale and what is certified there about the largest mean distance.

    ``bound`` holds at the confidence asked for: the target itself where sampled rows chose the
    scale, the confidence bound at the floor where that passed.  ``plug_in`` is the sample's own
    largest mean, an estimate.  ``scale`` 0 means that no noise is needed.
    """

    scale: float
    bound: float
    plug_in: float
    tested: int


def mean_bounds(table: FloatArray, confidence: float | None) -> FloatArray:
    """Bound the columns' means from above, all at once.

    With a confidence the rows are independent draws; with ``None`` they are *all* cases, equally
    likely, and the bound is the mean itself, rounded up.
    """
    rows = table if table.ndim == 2 else table[:, None]
    if confidence is not None:
        return mean_upper(rows, confidence=confidence)
    return np.asarray(np.minimum(rows.mean(axis=0) * (1 + 2 * sum_slack(len(rows))), 1.0))


def eta_from_distance(game: SubsetGame, distance: float, slack: float = 0.0) -> float:
    """Return the bound η ≤ min(π, 1-π)·TV + slack, π = k/N, rounded up.

    η is the best attacker's accuracy less that of always giving the likelier answer, so at k = N/2
    it is ½·TV (proofs/retraining.md, claim 1).
    """
    prior = game.largest_gain
    return min(up(prior * distance + slack, 8), prior)


def promised_eta(eta: float, game: SubsetGame) -> float:
    """Return η if it promises anything in this game, else refuse it.

    An attacker who is always right gains min(k/N, 1 - k/N) over the likelier answer, so a promise
    of that much or more is kept by the bare statistic and says nothing.
    """
    value = checked_eta(eta)
    if value >= game.largest_gain:
        raise InputError(
            f"eta must be below {significant(game.largest_gain, 'lower')} where {game.size} of "
            f"{game.population} records are drawn, got {eta!r}: blind guessing is right "
            f"{percent(game.blind, 'lower')} of the time there, so whatever is released, nobody "
            "gains more. Ask for a smaller eta, or draw nearer to half of the records."
        )
    return value


def without_slack(eta: float, slack: float) -> float:
    """Return what of η is left for the noise itself, rounded down; refuse where nothing is."""
    if eta <= slack:
        raise InputError(
            f"eta must be greater than {significant(slack, 'upper', 3)}, what floating-point "
            f"noise of this dimension adds, got {eta!r}."
        )
    return down(eta - slack, 2)


def distance_target(game: SubsetGame, eta: float, slack: float) -> float:
    """Return the largest mean distance that :func:`eta_from_distance` keeps within η."""
    return min(down(without_slack(eta, slack) / game.largest_gain, 32), 1.0)


def least_draws(target: float, confidence: float, columns: int = 1) -> int:
    """Return about how many draws it takes to certify the target when all of them are 0.

    Examples:
        >>> least_draws(0.1, 0.95)
        42
    """
    level = log_error_shared(confidence, columns)
    draws = least_whole(lambda count: zeros_certify(count, target, level), most=2**26)
    if draws is None:
        raise SearchError(f"no sample of a practical size certifies a mean of {target!r}.")
    return draws


def certified_scale(
    values: Callable[[float], FloatArray],
    *,
    start: float,
    target: float,
    confidence: float | None,
    floor: float = 0.0,
    unit: str = "draws",
) -> CertifiedScale:
    """Return the least scale at which every column's mean is certified to be within ``target``.

    ``values(s)`` is the table of distances at scale s ≥ 0: one row per independent draw (for
    ``confidence=None``: per case), a column per record.  ``start`` is any scale above 0, best near
    the answer (mean length/(2.5·target) for normal noise); ``floor`` the least scale to return.

    Guarantee: with probability at least ``confidence`` over the rows, the true means at the
    returned scale, and at every larger one, are at most ``bound``; with ``None``, always.
    Theorem: proofs/retraining.md, claim 3.
    Assumes: the values are rounded up from numbers in [0, 1] that do not rise with s; they, and the
    floor, may depend on anything that is independent of the rows (a pilot's centre or shape).
    Numerics: ``target`` was seen to hold at the returned scale, which is at most 1e-6 too large.
    Edge cases: the floor (0: no noise) when its values pass; SearchError when no scale can pass.

    Examples:
        >>> from memberbound.release.noise import GaussianNoise, scaled
        >>> unit, lengths = GaussianNoise(1.0, 1), np.ones(500)
        >>> least = certified_scale(
        ...     lambda s: scaled(unit, s).distance(lengths), start=1.0, target=0.1, confidence=0.95
        ... )
        >>> round(least.scale, 1), least.bound
        (4.4, 0.1)
    """
    tested = 0

    def largest(scale: float) -> float:
        nonlocal tested
        tested += 1
        return float(mean_bounds(values(scale), confidence).max())

    at_floor = values(floor)
    bound = largest(floor)
    if bound <= target:
        # Claim 3: also when the floor passes by mistake the bound there fails with the same event.
        return CertifiedScale(floor, bound, _plug_in(at_floor), tested)
    idle = float(mean_bounds(np.zeros_like(at_floor), confidence).max())
    if idle > target and confidence is not None:
        raise _too_few(at_floor, target, confidence, unit)
    try:
        scale = least_scale(lambda s: largest(s) - target, start, floor=floor)
    except SearchError:
        raise _too_few(at_floor, target, None, unit) from None
    exact = largest(scale) if confidence is None else target
    return CertifiedScale(scale, exact, _plug_in(values(scale)), tested)


def certified_in_order(
    values: Callable[[float], FloatArray],
    scales: Sequence[float],
    *,
    target: float,
    confidence: float,
    unit: str = "draws",
) -> CertifiedScale:
    """Return the last of ``scales`` before the first that is not certified within ``target``.

    The search of :func:`certified_scale` for values that need not fall with the scale on every
    draw: what is tested, and in which order, was fixed before the draws were looked at.

    Guarantee: with probability at least ``confidence`` over the rows, the true means at the
    returned scale are at most ``target``.
    Theorem: proofs/retraining.md, claim 4.
    Assumes: ``scales`` are independent of the rows (a pilot may choose them).
    Edge cases: SearchError when the first scale does not pass.

    Examples:
        >>> from memberbound.release.noise import GaussianNoise, scaled
        >>> unit, lengths = GaussianNoise(1.0, 1), np.ones(500)
        >>> last = certified_in_order(
        ...     lambda s: scaled(unit, s).distance(lengths), (9, 6, 4), target=0.1, confidence=0.95
        ... )
        >>> last.scale, last.bound, last.tested
        (6, 0.1, 3)
    """
    tested = 0

    def passes(scale: float) -> bool:
        nonlocal tested
        tested += 1
        return bool(mean_bounds(values(scale), confidence).max() <= target)

    last = fixed_order(passes, scales)
    if last is None:
        raise _too_few(values(scales[0]), target, confidence, unit)
    return CertifiedScale(last, target, _plug_in(values(last)), tested)


def _plug_in(table: FloatArray) -> float:
    return float(np.asarray(table.mean(axis=0)).max())


def _too_few(table: FloatArray, target: float, confidence: float | None, unit: str) -> SearchError:
    """Return the refusal of a sample; without a confidence it asks for twice as many draws."""
    draws = len(table)
    columns = 1 if table.ndim == 1 else table.shape[1]
    needed = 2 * draws if confidence is None else least_draws(target, confidence, columns)
    return SearchError(
        f"{draws} {unit} are too few to certify this eta with any noise: use at least {needed} "
        "(a few times that for little noise), a larger eta or a lower confidence."
    )
