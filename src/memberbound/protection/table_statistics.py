"""Statistics of a table, released in the subset game: read, made, calibrated, drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import InputError, one_of, whole_number
from memberbound.games import SubsetGame
from memberbound.protection.answer import Protection, fit_notes
from memberbound.protection.calibration import FreshSubsets, Progress
from memberbound.protection.centre import calibrate_izzo, calibrate_moment
from memberbound.protection.releasing import (
    Release,
    calibration_seed_from,
    released_vector,
    secret_subset,
    source_from_seed,
)
from memberbound.protection.retraining import calibrate_neighbour
from memberbound.protection.statistics import (
    computed,
    covariance,
    histogram,
    mean,
    quantiles,
    total,
)
from memberbound.protection.sums import SumStatistic, release_sum
from memberbound.tables.population import Population, read_population
from memberbound.tables.recipe import labels_of

__all__ = ["STATISTICS", "made_statistic", "release_statistic"]

STATISTICS = ("mean", "sum", "histogram", "covariance", "quantiles")
_FEWEST = 4
#: A column with more values than this is not counted value by value.
_CATEGORIES = 50


def made_statistic(
    source: Any,
    statistic: Any,
    *,
    size: int | None,
    clip: float | None,
    bins: ArrayLike | None,
    levels: ArrayLike | None,
    **read: Any,
) -> tuple[Population, tuple[Any, SubsetGame, str, tuple[str, ...]]]:
    """Read the table and return it with the statistic, its game, its name and notes."""
    if levels is not None and statistic != "quantiles":
        raise InputError("levels belong to quantiles.")
    quarters = (0.25, 0.5, 0.75) if levels is None else levels
    columns = read.pop("columns")
    if statistic == "histogram":
        table = read_population(source, columns, **read)
        return table, _counted(table, size=size, bins=bins)
    if bins is not None:
        raise InputError("bins belong to a histogram.")
    table = read_population(source, columns, numeric=True, **read)
    return table, _statistic(table, statistic, size=size, clip=clip, levels=quarters)


def _drawn(records: int, name: str, size: int | None) -> SubsetGame:
    if records < _FEWEST:
        raise InputError(f"{name} must hold at least {_FEWEST} records, got {records}.")
    return SubsetGame(records, records // 2 if size is None else whole_number("size", size))


def _statistic(
    table: Population,
    statistic: str | Callable[[Any], ArrayLike],
    *,
    size: int | None,
    clip: float | None,
    levels: ArrayLike,
) -> tuple[Any, SubsetGame, str, tuple[str, ...]]:
    """Return the statistic, its game, its name and what has to be said about it."""
    game = _drawn(table.values.shape[0], table.name, size)
    notes = list(table.selection.notes)
    if clip is not None and statistic not in ("mean", "sum"):
        raise InputError("clip belongs to a learner, a mean or a sum.")
    if not isinstance(statistic, str):
        return computed(table.values, statistic, size=game.size), game, "statistic", tuple(notes)
    name = one_of("statistic", statistic, STATISTICS)
    made: Any
    if name == "mean":
        made = replace(mean(table.values, size=game.size, clip=clip), names=table.columns)
    elif name == "sum":
        made = replace(total(table.values, clip=clip), names=table.columns)
    elif name == "covariance":
        made = covariance(table.values, size=game.size)
        notes.append("the covariance is taken about the population's mean, which is public here")
    else:
        made = quantiles(table.values, levels)
    return made, game, name, tuple(notes)


def _counted(
    table: Population, *, size: int | None, bins: ArrayLike | None
) -> tuple[SumStatistic, SubsetGame, str, tuple[str, ...]]:
    """Return the histogram of one column: of numbers by bins, of everything else by value.

    Edges and categories come from the whole population, which is public in this game.
    """
    names, name, notes = table.columns, table.name, table.selection.notes
    if len(names) != 1:
        raise InputError(
            f"a histogram needs one column of {name}, got {', '.join(names)}. Name it with columns."
        )
    column = table.frame[names[0]]
    game = _drawn(len(column), name, size)
    number = table.readings[names[0]].numeric
    if bins is not None or (number and column.nunique() > _CATEGORIES):
        if not number:
            raise InputError(f"column {names[0]!r} of {name} must hold numbers to have bins.")
        values = table.values[:, 0]
        edges = np.linspace(values.min(), values.max(), 21) if bins is None else bins
        return histogram(values, bins=edges), game, "histogram", notes
    codes, labels = labels_of(column)
    seen = np.unique(codes)
    if seen.size > _CATEGORIES:
        raise InputError(
            f"a histogram needs at most {_CATEGORIES} categories, got {seen.size} in "
            f"{names[0]!r}. Merge some."
        )
    counted = histogram(codes, categories=seen.tolist())
    return replace(counted, names=tuple(labels[i] for i in seen)), game, "histogram", notes


def release_statistic(
    statistic: Any,
    game: SubsetGame,
    name: str,
    notes: tuple[str, ...],
    *,
    eta: float,
    record: str,
    method: str,
    confidence: float,
    pairs: int | None,
    workers: int | None,
    insecure_seed: int | None,
    calibration_seed: int | None,
    progress: Progress,
) -> Protection:
    """Calibrate the noise on fresh subsets, then draw the secret one and release."""
    whom: Any = record
    if isinstance(statistic, SumStatistic) and method in ("auto", "neighbour"):
        release = release_sum(statistic, game, eta=eta, record=whom, insecure_seed=insecure_seed)
    elif method == "convex":
        raise InputError("method 'convex' belongs to linear models; a statistic has no loss.")
    else:
        source = source_from_seed(insecure_seed)
        played = replace(game, record=whom)
        fresh = FreshSubsets(played, calibration_seed_from(source, calibration_seed))
        options: dict[str, Any] = {
            "eta": eta,
            "record": whom,
            "confidence": confidence,
            "workers": workers,
            "progress": progress,
        }
        if method == "izzo":
            calibration = calibrate_izzo(statistic, fresh, subsets=pairs, **options)
        elif method == "moment" or (method == "auto" and record == "every"):
            calibration = calibrate_moment(statistic, fresh, subsets=pairs, **options)
        else:
            calibration = calibrate_neighbour(statistic, fresh, pairs=pairs, **options)
        secret = secret_subset(played, source)
        values = released_vector(statistic, calibration, secret, source)
        release = Release(values, calibration, _names_of(statistic), source.secure)
    details = {"values": release.values.tolist(), "names": list(release.names)}
    said = (*notes, *fit_notes(release.calibration))
    return Protection(release.calibration, release, name, None, None, None, None, said, details)


def _names_of(statistic: Any) -> tuple[str, ...]:
    """Return the names of a statistic's coordinates, where it has any."""
    return tuple(getattr(statistic, "names", ()))
