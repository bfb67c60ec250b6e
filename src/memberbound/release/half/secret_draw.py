"""The release of a secret subset: draw it, compute the statistic once, add noise.

The guarantee needs this order: the noise is calibrated before the subset is drawn.
"""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np

from memberbound.games import SubsetGame
from memberbound.release.calibration import Calibration, Release
from memberbound.release.half.fitting import FreshSubsets, Rows, Statistic, evaluate
from memberbound.release.half.refitting import calibrate
from memberbound.release.half.sums import SumStatistic
from memberbound.release.noise import release
from memberbound.release.randomness import RandomSource, source_from_seed
from memberbound.threads import ONE_AT_A_TIME, no_warnings


def calibration_seed_from(source: RandomSource) -> int:
    """Return the seed of the calibration's subsets: public and independent of the secret."""
    return int(source.words(1)[0] >> np.uint64(1))


def secret_subset(game: SubsetGame, source: RandomSource) -> Rows:
    """Draw a uniform subset of the game's size, sorted.

    Guarantee: uniform if the source's words are: the order of distinct words is a uniform
    permutation, and ties are redrawn.
    """
    while True:
        words = source.words(game.population)
        if len(np.unique(words)) == game.population:
            return np.sort(np.argsort(words)[: game.size]).astype(np.int64)


def release_once(
    statistic: Statistic, calibration: Calibration, secret: Rows, source: RandomSource
) -> Release:
    """Compute the statistic of the secret subset once and add noise.

    A failed fit releases zeros with the same noise, as in the calibration, because an error would
    be visible.  Warnings, error messages and printed text of a learner while it fits the secret are
    discarded too: they would be a second release, without noise.
    """
    with (
        no_warnings,
        ONE_AT_A_TIME,
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        value, _ = evaluate(statistic, secret)
    values = release(value, calibration.noise, source)
    names = tuple(getattr(statistic, "names", ()))
    return Release(values, calibration, names, source.secure)


def release_statistic(
    statistic: Statistic,
    game: SubsetGame,
    *,
    eta: float,
    method: str = "auto",
    insecure_seed: int | None = None,
    **options: Any,
) -> Release:
    """Calibrate on fresh subsets, then draw the secret subset and release its statistic.

    ``options`` are those of :func:`calibrate`, which gives the guarantee.

    Examples:
        >>> from memberbound.release.half.sums import mean
        >>> out = release_statistic(mean(np.arange(12.0)), SubsetGame(12, 6), eta=0.1)
        >>> out.values.shape, out.calibration.certificate.value <= 0.1
        ((1,), True)
    """
    source = source_from_seed(insecure_seed)
    exact = isinstance(statistic, SumStatistic) and method in ("auto", "crowd", "neighbour")
    fresh = FreshSubsets(game, 0 if exact else calibration_seed_from(source))
    calibration = calibrate(statistic, fresh, eta=eta, method=method, **options)
    return release_once(statistic, calibration, secret_subset(game, source), source)
