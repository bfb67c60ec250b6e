"""Exact distributions "in" and "out" of a one-dimensional noisy sum (X9).

Unlike the coupling, they lose nothing.  Fourier inversion gives both densities as cubics on cells
with certified errors, and hockey-sticks are integrals of these.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from memberbound.declarations import Progress
from memberbound.errors import InputError, fraction, positive
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import UNIT, FloatArray, up_array
from memberbound.subset.densities import DensityPair
from memberbound.subset.distances import checked_table
from memberbound.subset.fourier import FourierSums, IntArray, fourier_sums
from memberbound.subset.record_bounds import RecordBounds

#: Evaluate every distinct value up to this many; beyond that, a sample of this size.
MOST_EXACT = 3_000
#: Share of δ for the step to a neighbour.
_SHARE = 0.05


def mixture_bounds(
    values: ArrayLike,
    game: SubsetGame,
    *,
    sigma: float,
    delta: float,
    progress: Progress | None = None,
) -> RecordBounds:
    """Return bounds on PMP's ε and on attack success for every record, from the exact mixtures.

    The release is Σ_{i∈D} values[i] + N(0, σ²), D a uniform k-subset; for a mean give f/k.

    Guarantee: that of :class:`RecordBounds`.
    Theorem: X9 (proofs/exact-mixtures.md); I24-P2 for the success.
    Assumes: the attacker knows the population and sees the release only.
    Numerics: upper bounds.  Success exceeds the truth by about 1e-8, and ε by about 1e-6·(1 + ε)
        plus the effect of an error of 1e-9 in both hockey-sticks.  That effect matters if δ·e^-ε is
        below about 1e-9, and then the coupling bound may be smaller.  Combine the two with
        :meth:`RecordBounds.tightened`. Beyond :data:`MOST_EXACT` distinct values, only this many
        are evaluated, including the outermost; the others are bounded through a neighbour (step 4
        of the proof).
    Edge cases: equal values leak nothing (ε = 0), and twins are separate records.  δ = 0, ε above
        80, or sums that spread over more than about 10⁵ σ give ε = ∞; the last case also gives
        success = 1.

    Examples:
        >>> bounds = mixture_bounds([0.0, 1.0, 2.0, 4.0], SubsetGame(4, 2), sigma=2.0, delta=1e-3)
        >>> bounds.worst_record, round(bounds.pmp_epsilon_upper, 3), round(bounds.success_upper, 4)
        (3, 4.924, 0.7555)
    """
    table = checked_table("values", values)
    if table.shape != (game.population, 1):
        raise InputError(
            f"values must be one number for each of {game.population} records, "
            f"got shape {table.shape!r}."
        )
    checked = table[:, 0]
    scale, target = positive("sigma", sigma), fraction("delta", delta)
    count = game.population
    epsilon, success = np.full(count, math.inf), np.ones(count)
    if (checked == checked[0]).all():
        epsilon, success = np.zeros(count), np.zeros(count)  # the blind guess
    else:
        # A shift changes nothing; shift by a value of the table, so that whole numbers stay whole.
        with np.errstate(over="ignore"):
            centred = checked - np.sort(checked)[count // 2]
            scaled = centred / scale
        distinct, first, twins = np.unique(centred, return_index=True, return_inverse=True)
        plan = None
        if np.abs(scaled).max() < 1e6:
            plan = fourier_sums(scaled, game.size, min(len(first), MOST_EXACT))
        if plan is not None:
            epsilon, success = _along_the_line(
                plan, distinct, first, game=game, sigma=scale, delta=target, progress=progress
            )
            epsilon, success = epsilon[twins], success[twins]  # equal values have equal laws
    return RecordBounds(
        game, target, epsilon, success, "exact mixtures", ("X9", "I24-P2", "L24-D2"),
        ("The release is one number, the sum (or mean) over a uniform subset plus normal noise.",),
    )  # fmt: skip


def _along_the_line(
    plan: FourierSums,
    values: FloatArray,
    first: IntArray,
    *,
    game: SubsetGame,
    sigma: float,
    delta: float,
    progress: Progress | None,
) -> tuple[FloatArray, FloatArray]:
    """Return ε and success of the distinct values in ascending order.

    ``first`` is the index of a record with each value.  If there are many values, some are bounded
    through a neighbour (step 4 of the proof).
    """
    count = len(values)
    done = np.arange(count)
    if count > MOST_EXACT:
        # The outermost values leak most.  Between them take the first value of every nonempty cell,
        # with the narrowest cells that the limit allows.
        outer, narrow, wide, chosen = MOST_EXACT // 6, 0.0, 1.0, done[:0]
        for _ in range(40):
            width = (narrow + wide) / 2
            cells = np.floor((values - values[0]) / (width * (values[-1] - values[0])))
            starts = np.flatnonzero(np.diff(cells, prepend=-1.0))
            if len(starts) <= MOST_EXACT - 2 * outer:
                wide, chosen = width, starts
            else:
                narrow = width
        done = np.unique(np.concatenate([done[:outer], chosen, done[-outer:]]))
    epsilon, success = np.full(count, math.inf), np.ones(count)
    #: ε at a smaller δ, which leaves a share for the step to a neighbour.
    spare = np.full(count, math.inf)
    index = np.full(game.population, -1)
    index[first[done]] = done
    worked_out = 0
    for records, pair in plan.pairs(first[done]):
        where = index[records]
        success[where] = _success(pair, game)
        if delta > 0:
            back = pair.swapped()
            forth = pair.epsilon(delta)
            both = epsilon[where] = np.maximum(forth, back.epsilon(delta, forth))
            if len(done) < count:
                less = delta * (1 - 2 * _SHARE)
                spare[where] = np.maximum(pair.epsilon(less, both), back.epsilon(less, both))
        worked_out += len(records)
        if progress is not None:
            progress(worked_out, len(done))
    rest = np.setdiff1d(np.arange(count), done)
    right = np.searchsorted(done, rest)  # both ends are evaluated
    # Errors in units of σ: two units of the largest value for w itself, ten for the steps below.
    slack = 16 * UNIT * float(np.abs(values).max()) / sigma
    for near in (done[right - 1], done[right]):
        way = np.abs(values[near] - values[rest]) / sigma + slack
        # TV of N(τ, 1) and N(0, 1) is 2Φ(τ/2) - 1 ≤ τ/√(2π).
        through = up_array(success[near] + way / math.sqrt(2 * math.pi), 1)
        success[rest] = np.minimum(success[rest], through)
        if delta > 0:
            through = up_array(spare[near] + 2 * _cost_of_moving(way, spare[near], delta), 1)
            epsilon[rest] = np.minimum(epsilon[rest], through)
    return epsilon, success


def _cost_of_moving(way: FloatArray, epsilon: FloatArray, delta: float) -> FloatArray:
    """Return a with e^a·((1 - 2s)δ + e^ε·g(a)) + g(a) ≤ δ, or ∞ if there is none.

    g(a) is the hockey-stick of N(τ, 1) against N(0, 1) at e^a, and s is :data:`_SHARE`.
    If e^a ≤ 1 + s, then s(1 + 2s)δ remains for (1 + e^{a+ε})·g(a), and g(a) ≤ Φ(τ/2 - a/τ).
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        allowed = _SHARE * delta / (1 + (1 + _SHARE) * np.exp(epsilon))
        # Raised by far more than the rounding of Φ⁻¹, which is below -1 here.
        toll = way * (way / 2 - special.ndtri(allowed)) * (1 + 1e-9)
    # Its rounding is far below the remaining 2s²δ.
    affordable = np.isfinite(toll) & (toll <= math.log1p(_SHARE))
    return np.where(affordable, toll, math.inf)


def _success(pair: DensityPair, game: SubsetGame) -> FloatArray:
    """Return the best accuracy (1-π) + π·H_{(1-π)/π}(in‖out), or its mirror, per record."""
    rest = game.population - game.size
    odds = np.full(pair.records, rest / game.size)
    forth = (rest + game.size * pair.hockey_sticks(odds)[0]) / game.population
    back = (game.size + rest * pair.swapped().hockey_sticks(1 / odds)[0]) / game.population
    return up_array(np.minimum(forth, back), 2)
