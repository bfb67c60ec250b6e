"""The least sufficient noise, from distances of fits on fresh subsets.

Among the noise laws s·X, s > 0, find the smallest scale s at which a *confidence bound* on the mean
distance E T(s) meets the target.  Testing many scales costs nothing (proofs/retraining.md): T
decreases in s on every sample path, so the bound decreases too, and an error at any scale is an
error at the boundary scale, one fixed event.  If T need not decrease,
:func:`~memberbound.numerics.roots.fixed_order` tests scales fixed in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memberbound.errors import InputError, SearchError
from memberbound.games import SubsetGame
from memberbound.numerics.means import log_error_shared, mean_upper, zeros_certify
from memberbound.numerics.roots import fixed_order, least_scale, least_whole
from memberbound.numerics.rounding import FloatArray, down, up
from memberbound.quantities import percent, significant
from memberbound.release.noise import SAMPLER_ASSUMPTION, check_eta_range

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class CertifiedScale:
    """A noise scale and the certified bound on the largest mean distance.

    ``bound`` holds at the requested confidence: it is the target itself if the rows chose the
    scale, or the confidence bound at the floor if the floor passed.  ``plug_in`` is an estimate,
    the sample's largest mean.  A ``scale`` of 0 means that no noise is needed.
    """

    scale: float
    bound: float
    plug_in: float


def eta_from_distance(game: SubsetGame, distance: float, slack: float = 0.0) -> float:
    """Return the bound η ≤ min(π, 1-π)·TV + slack, π = k/N, rounded up.

    η is the best attacker's accuracy minus that of always guessing the likelier answer, so at k =
    N/2 it is ½·TV (proofs/retraining.md, claim 1).
    """
    prior = game.largest_gain
    return min(up(prior * distance + slack, 8), prior)


def check_eta(eta: float, game: SubsetGame) -> float:
    """Return η, or raise if it is vacuous in this game.

    An attacker who is always right gains min(k/N, 1 - k/N) over the likelier answer, so a larger η
    holds even without noise.
    """
    value = check_eta_range(eta)
    if value >= game.largest_gain:
        raise InputError(
            f"eta must be below {significant(game.largest_gain, 'lower')} where {game.size} of "
            f"{game.population} records are drawn, got {eta!r}: blind guessing is right "
            f"{percent(game.blind, 'lower')} of the time there, so no attack on any release "
            "gains more. Take a smaller eta, or draw a number of records closer to half."
        )
    return value


def without_slack(eta: float, slack: float) -> float:
    """Return η minus the slack, rounded down; raise if nothing is left for the noise."""
    if eta <= slack:
        raise InputError(
            f"eta must be greater than {significant(slack, 'upper', 3)}, which floating-point "
            f"noise of this dimension adds, got {eta!r}."
        )
    return down(eta - slack, 2)


def distance_target(game: SubsetGame, eta: float, slack: float) -> float:
    """Return the largest mean distance for which :func:`eta_from_distance` is at most η."""
    return min(down(without_slack(eta, slack) / game.largest_gain, 32), 1.0)


def least_draws(target: float, confidence: float, columns: int = 1) -> int:
    """Return the approximate number of draws that certify the target if all of them are 0.

    Examples:
        >>> least_draws(0.1, 0.95)
        42
    """
    level = log_error_shared(confidence, columns)
    draws = least_whole(lambda count: zeros_certify(count, target, level), most=2**26)
    if draws is None:
        raise SearchError(f"no sample of a practical size certifies a mean of {target!r}.")
    return draws


def certify_scale(
    values: Callable[[float], FloatArray],
    *,
    start: float,
    target: float,
    confidence: float,
    floor: float = 0.0,
) -> CertifiedScale:
    """Find the least scale at which every column's mean is certified to be at most ``target``.

    ``values(s)`` is the table of distances at scale s ≥ 0: one row per independent draw, a column
    per record.  ``start`` is any positive scale, ideally near the answer (mean length/(2.5·target)
    for normal noise); ``floor`` is the smallest scale to return.

    Guarantee: with probability at least ``confidence`` over the rows, the true means at the
    returned scale, and at every larger one, are at most ``bound``.
    Theorem: proofs/retraining.md, claim 3.
    Assumes: the values are rounded up from numbers in [0, 1] that do not increase in s; they, and
    the floor, may depend on anything independent of the rows (a pilot's centre or shape).
    Numerics: ``target`` was verified at the returned scale, which is at most 1e-6 too large.
    Edge cases: the floor (0: no noise) if its values pass; SearchError if no scale can pass.

    Examples:
        >>> from memberbound.release.noise import GaussianNoise
        >>> lengths = np.ones(500)
        >>> least = certify_scale(
        ...     lambda s: GaussianNoise(s, 1).distance(lengths),
        ...     start=1.0,
        ...     target=0.1,
        ...     confidence=0.95,
        ... )
        >>> round(least.scale, 1), least.bound
        (4.4, 0.1)
    """

    def largest(table: FloatArray) -> float:
        return float(mean_bounds(table, confidence).max())

    at_floor = values(floor)
    bound = largest(at_floor)
    if bound <= target:
        # Claim 3: if the floor passes wrongly, its bound fails in the same event.
        return CertifiedScale(floor, bound, _plug_in(at_floor))
    if largest(np.zeros_like(at_floor)) > target:
        raise _too_few(at_floor, target, confidence)
    try:
        scale = least_scale(lambda s: largest(values(s)) - target, start, floor=floor)
    except SearchError:
        raise _too_few(at_floor, target, confidence) from None
    return CertifiedScale(scale, target, _plug_in(values(scale)))


def certify_in_order(
    values: Callable[[float], FloatArray],
    scales: Sequence[float],
    *,
    target: float,
    confidence: float,
) -> CertifiedScale:
    """Return the last of ``scales`` before the first that is not certified to meet ``target``.

    Like :func:`certify_scale`, for values that need not decrease in the scale on every draw: the
    scales and their order were fixed before seeing the draws.

    Guarantee: with probability at least ``confidence`` over the rows, the true means at the
    returned scale are at most ``target``.
    Theorem: proofs/retraining.md, claim 4.
    Assumes: ``scales`` are independent of the rows (a pilot may choose them).
    Edge cases: SearchError if the first scale does not pass.
    """

    def passes(scale: float) -> bool:
        return bool(mean_bounds(values(scale), confidence).max() <= target)

    last = fixed_order(passes, scales)
    if last is None:
        raise _too_few(values(scales[0]), target, confidence)
    return CertifiedScale(last, target, _plug_in(values(last)))


def mean_bounds(table: FloatArray, confidence: float) -> FloatArray:
    """Return simultaneous upper confidence bounds on the means of all columns (or of a vector)."""
    return mean_upper(table if table.ndim == 2 else table[:, None], confidence=confidence)


def _plug_in(table: FloatArray) -> float:
    return float(np.asarray(table.mean(axis=0)).max())


def _too_few(table: FloatArray, target: float, confidence: float) -> SearchError:
    draws = len(table)
    needed = least_draws(target, confidence, 1 if table.ndim == 1 else table.shape[1])
    return SearchError(
        f"{draws} pairs or subsets are too few to certify this eta with any noise: use at least "
        f"{needed if needed > draws else 2 * draws} (a few times that for little noise), a larger "
        "eta or a lower confidence."
    )


def subset_assumptions(
    game: SubsetGame, *, noisy: bool, sampled: bool, coins: str
) -> tuple[str, ...]:
    """Return the assumptions of every certificate of a released statistic.

    ``coins`` is the assumption about the learner's own randomness.
    """
    assumptions = [
        f"The training set is a uniformly random {game.size} of the {game.population} records, "
        "drawn independently of the subsets used for calibration.",
        "The noise is drawn afresh for one release of the statistic.",
        coins,
        "Nothing but the release is seen: not how long the fit took, nor what native code printed.",
    ]
    if 2 * game.size != game.population:
        assumptions.append("eta is the attacker's gain over always giving the likelier answer.")
    if sampled:
        assumptions.append(
            "The calibration's subsets are independent and uniform (seeded generator)."
        )
    if noisy:
        assumptions.append(SAMPLER_ASSUMPTION)
    return tuple(assumptions)
