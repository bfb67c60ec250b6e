"""The exact laws "in" and "out" of a one-dimensional noisy sum, instead of their coupling (X9)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memberbound.errors import InputError, fraction, positive
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import FloatArray, up_array
from memberbound.subset import subset_sums
from memberbound.subset.bounds import RecordBounds
from memberbound.subset.density_pairs import DensityPair
from memberbound.subset.fourier_sums import fourier_sums

__all__ = ["mixture_bounds"]

Progress = Callable[[int, int], None]


def _checked(values: ArrayLike, game: SubsetGame) -> FloatArray:
    """Return the values as a 1-D array of the game's length."""
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("values must be numbers, one per record.") from None
    if found.ndim != 1:
        raise InputError(
            f"values must be one number per record, got shape {found.shape!r}. "
            "Exact mixtures need a one-dimensional release; use the neighbour profile otherwise."
        )
    if len(found) != game.population:
        raise InputError(
            f"values must be {game.population} numbers, one per record, got {len(found)!r}."
        )
    if not np.isfinite(found).all():
        where = int(np.nonzero(~np.isfinite(found))[0][0])
        raise InputError(f"values must be finite, got {found[where]!r} at record {where}.")
    return found


def _pairs(
    values: FloatArray, game: SubsetGame, sigma: float, wanted: NDArray[np.intp]
) -> Iterator[tuple[NDArray[np.intp], DensityPair]]:
    """Densities of the wanted records by the cheaper route; nothing where neither is affordable."""
    if subset_sums.affordable(game.population, game.size):
        pair = subset_sums.enumerated_pair(values, game.size, sigma)
        if pair is not None:
            yield np.arange(game.population), pair
            return
    with np.errstate(over="ignore"):
        scaled = values / sigma
    if np.abs(scaled).max() < 1e6:
        plan = fourier_sums(scaled, game.size)
        if plan is not None:
            yield from plan.pairs(wanted)


def mixture_bounds(
    values: ArrayLike,
    game: SubsetGame,
    *,
    sigma: float,
    delta: float,
    progress: Progress | None = None,
) -> RecordBounds:
    """Bound PMP's ε and the attack's success for every record, from the exact mixtures.

    The release is Σ_{i∈D} values[i] + N(0, σ²), D a uniform k-subset; for a mean give f/k.

    Guarantee: both hockey-sticks of P_in,x and P_out,x at e^``pmp_epsilon[x]`` are at most δ, and
        no attack on x is right more often than ``success[x]`` at the prior k/N.
    Theorem: X9 (proofs/exact-mixtures.md); I24-P2 for the success.
    Assumes: the attacker knows the population and sees the release only.
    Numerics: from above.  Success exceeds the truth by about 1e-8, ε by about 1e-6·(1 + ε) and
        what an error of 1e-9 in both hockey-sticks makes of it.  With over 60 000 subsets this is
        felt where δ·e^-ε is below about 1e-9, and there the coupling bound may be smaller.
        Combine the two with :meth:`RecordBounds.tightened`.
    Edge cases: equal values leak nothing (ε = 0) and twins are separate records.  δ = 0, ε above
        80, or a population whose sums spread over more than some 10⁵ σ give ε = ∞; the last
        also success = 1.

    Examples:
        >>> bounds = mixture_bounds([0.0, 1.0, 2.0, 4.0], SubsetGame(4, 2), sigma=2.0, delta=1e-3)
        >>> bounds.worst_record, round(bounds.pmp_epsilon_upper, 3), round(bounds.success_upper, 4)
        (3, 4.924, 0.7555)
    """
    checked = _checked(values, game)
    scale, target = positive("sigma", sigma), fraction("delta", delta)
    count, size = game.population, game.size
    epsilon, success = np.full(count, math.inf), np.ones(count)
    if (checked == checked[0]).all():
        blind = up_array(np.array([max(size, count - size) / count]))[0]
        epsilon = np.zeros(count)
        success = np.full(count, 0.5 if 2 * size == count else blind)
    else:
        # A shift changes nothing; by a value of the table, whole numbers stay whole.
        with np.errstate(over="ignore"):
            centred = checked - np.sort(checked)[count // 2]
        _, first, twins = np.unique(centred, return_index=True, return_inverse=True)
        done = 0
        for records, pair in _pairs(centred, game, scale, first):
            success[records] = _success(pair, game)
            if target > 0:
                both = [pair.epsilon(target), pair.swapped().epsilon(target)]
                epsilon[records] = np.maximum(*both)
            done += len(records)
            if progress is not None:
                progress(min(done, len(first)), len(first))
        # Equal values have equal laws; the representative was computed on every route.
        epsilon, success = epsilon[first][twins], success[first][twins]
    return RecordBounds(
        game, target, epsilon, success, "exact mixtures", ("X9", "I24-P2", "L24-D2"),
        ("The release is one number, the sum (or mean) over a uniform subset plus normal noise.",),
    )  # fmt: skip


def _success(pair: DensityPair, game: SubsetGame) -> FloatArray:
    """max_α π·TPR + (1-π)(1-α) = (1-π) + π·H_{(1-π)/π}(in‖out), and the same with "out" first."""
    rest = game.population - game.size
    odds = np.full(pair.records, rest / game.size)
    # A factor just below the odds has the larger hockey-stick.
    factor = odds if rest == game.size else np.nextafter(odds, 0.0)
    forth = (rest + game.size * pair.hockey_sticks(factor)[0]) / game.population
    factor = 1 / odds if rest == game.size else np.nextafter(np.nextafter(1 / odds, 0.0), 0.0)
    back = (game.size + rest * pair.swapped().hockey_sticks(factor)[0]) / game.population
    return up_array(np.minimum(forth, back))
