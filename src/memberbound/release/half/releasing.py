"""Draw the secret, compute the statistic once, add noise: in this order, after the calibration."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import InputError, whole_number
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import FloatArray
from memberbound.release.budget import Budget
from memberbound.release.calibration import Calibration, Rows, Statistic
from memberbound.release.half.fitting import evaluated
from memberbound.release.noise import release
from memberbound.release.randomness import InsecureSource, RandomSource, SecureSource

__all__ = [
    "Release",
    "calibration_seed_from",
    "checked_train",
    "released",
    "secret_subset",
    "source_from_seed",
]


@dataclass(frozen=True, eq=False)
class Release:
    """A released vector with its calibration: nothing else about the secret.

    Examples:
        >>> from memberbound.release.half.statistics import calibrate_sum, mean
        >>> ages, game = mean(np.arange(12.0)), SubsetGame(12, 6)
        >>> noise = calibrate_sum(ages, game, eta=0.1)
        >>> out = released(ages, noise, secret_subset(game, SecureSource()), SecureSource())
        >>> out.values.shape, out.calibration.certificate.value <= 0.1
        ((1,), True)
    """

    values: FloatArray
    calibration: Calibration
    names: tuple[str, ...] = ()
    secure: bool = True
    about: Mapping[str, object] = field(default_factory=dict)
    #: Of all rows, in the neighbour game.
    budget: Budget | None = None
    rows: int | None = None

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {
            "values": self.values.tolist(),
            "names": list(self.names),
            "secure_source": self.secure,
            "calibration": self.calibration.to_dict(),
        } | dict(self.about)


def source_from_seed(insecure_seed: int | None) -> RandomSource:
    """Return the operating system's source, or a seeded one that protects nobody."""
    return SecureSource() if insecure_seed is None else InsecureSource(insecure_seed)


def calibration_seed_from(source: RandomSource, given: int | None) -> int:
    """Return the seed of the calibration's subsets: public, and unrelated to the secret."""
    if given is not None:
        whole_number("calibration_seed", given, at_least=0)
        return int(given)
    return int(source.words(1)[0] >> np.uint64(1))


def secret_subset(game: SubsetGame, source: RandomSource) -> Rows:
    """Return a uniform subset of the game's size, sorted.

    Guarantee: uniform if the source's words are: the order of distinct words is a uniform
    permutation, and ties are drawn again.
    """
    while True:
        words = source.words(game.population)
        if len(np.unique(words)) == game.population:
            return np.sort(np.argsort(words)[: game.size]).astype(np.int64)


def checked_train(train: ArrayLike, records: int) -> Rows:
    """Return sorted row numbers from a mask or from row numbers."""
    given = np.asarray(train)
    if given.dtype == bool:
        if given.shape != (records,):
            raise InputError(
                f"train must be a mask of {records} entries or row numbers, got {given.shape!r}."
            )
        given = np.flatnonzero(given)
    if given.ndim != 1 or not np.issubdtype(given.dtype, np.integer):
        raise InputError("train must be a mask or whole row numbers, got something else.")
    rows = np.sort(given.astype(np.int64))
    if rows.size and (rows[0] < 0 or rows[-1] >= records or (np.diff(rows) == 0).any()):
        raise InputError(f"train must hold different row numbers from 0 to {records - 1}.")
    if not 0 < rows.size < records:
        raise InputError(
            f"train must be some of the {records} records and not all, got {rows.size}. "
            "The population must be larger than the training set."
        )
    return rows


def released(
    statistic: Statistic, calibration: Calibration, secret: Rows, source: RandomSource
) -> Release:
    """Return the statistic of the secret subset plus noise, once.

    A fit that fails releases zeros with the same noise, as in the calibration: an error would be
    seen.  For the same reason whatever a learner says while fitting the secret (warnings, the text
    of an error, what Python code prints) is not passed on: it would be a second release without
    noise.
    """
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        value, _ = evaluated(statistic, secret)
    values = release(value, calibration.noise, source)
    names = tuple(getattr(statistic, "names", ()))
    return Release(values, calibration, names, source.secure)
