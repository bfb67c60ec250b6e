"""The verb ``protect``: release a model or a statistic with a certified η."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from memberbound.declarations import (
    Column,
    ColumnRoles,
    DatabaseTable,
    Force,
    Hidden,
    InputFile,
    LearnerName,
    Names,
    Numbers,
    Option,
    OutputFile,
    Table,
    Workers,
)
from memberbound.errors import InputError, fraction, one_of, whole_number
from memberbound.files import check_output
from memberbound.games import SubsetGame
from memberbound.learners import Examples, encoded_rows, learner_from_name, read_examples
from memberbound.protection.all_rows import plays_neighbour, release_all_rows
from memberbound.protection.answer import Protection, useless
from memberbound.protection.calibration import (
    Calibration,
    FreshSubsets,
    Progress,
    checked_eta,
)
from memberbound.protection.centre import calibrate_izzo, calibrate_moment
from memberbound.protection.estimator import MembershipPrivate
from memberbound.protection.releasing import (
    Release,
    calibration_seed_from,
    released_vector,
    secret_subset,
    source_from_seed,
)
from memberbound.protection.retraining import calibrate_neighbour
from memberbound.protection.saving import LINEAR_ENDINGS, save
from memberbound.protection.statistics import (
    computed,
    covariance,
    histogram,
    mean,
    quantiles,
    total,
)
from memberbound.protection.sums import SumStatistic, release_sum
from memberbound.protection.table_model import TableModel
from memberbound.tables.population import Population, read_population
from memberbound.tables.recipe import labels_of

__all__ = ["STATISTICS", "Protection", "protect"]

STATISTICS = ("mean", "sum", "histogram", "covariance", "quantiles")
_FEWEST = 4
#: A column with more values than this is not counted value by value.
_CATEGORIES = 50


def protect(
    source: Table,
    *,
    target: Column | None = None,
    learner: LearnerName | None = None,
    statistic: Annotated[Any, Option("choice", choices=STATISTICS)] | None = None,
    eta: Annotated[float, Option("number", metavar="H")] = 0.05,
    record: Literal["average", "every"] = "average",
    game: Literal["neighbour", "subset"] | None = None,
    method: Literal["auto", "gradient", "neighbour", "convex", "moment", "izzo"] = "auto",
    bounds: Annotated[Any, Option("file", metavar="FILE", web=False)] | None = None,
    confidence: float = 0.95,
    tune: bool = True,
    clip: Annotated[float, Option("number", metavar="R")] | None = None,
    pairs: Annotated[int, Option("whole", least=2, most=1000000)] | None = None,
    query: InputFile | None = None,
    bins: Numbers | None = None,
    levels: Annotated[Sequence[float], Option("numbers", metavar="p,q,…")] | None = None,
    size: Annotated[int, Option("whole", metavar="K")] | None = None,
    columns: Names | None = None,
    roles: ColumnRoles | None = None,
    database_table: DatabaseTable | None = None,
    out: OutputFile | None = None,
    force: Force = False,
    workers: Workers | None = None,
    insecure_seed: Annotated[int, Option("whole", web=False)] | None = None,
    calibration_seed: Hidden = None,
    progress: Annotated[Callable[..., None], Option("progress", metavar="calibrating the noise")]
    | None = None,
) -> Protection:
    """Release a model or a statistic so that membership stays hidden.

    In the *neighbour* game a model is trained on all rows, and nothing about them is public: the
    default for every record, where the learner has such a form.  In the *subset* game the rows of
    ``source`` are a public population, of which a random half becomes the training set, after the
    noise has been calibrated on other, fresh halves.

    Guarantee: nobody who knows all other records (neighbour), or the population but not which half
    of it was drawn (subset, at ``confidence``), and sees the release is right about every (or about
    the average) record's membership more than ``eta`` above blind guessing.  What is released of a
    learner takes raw rows (``predict``).
    Theorem: X22 (gradient); X1 and X4 (neighbour), X3 (convex), X19 (moment), I24-C10 corrected
    (izzo).
    Assumes: one release; in the subset game the training set is drawn here, or was drawn uniformly
    and apart.
    Edge cases: a statistic that is proved constant is released without noise; scores are estimates,
    from fresh halves in the subset game, and for the owner's eyes only in the neighbour game.

    Args:
        source: a file or a table, one record per row.
        target: column to predict; with ``learner``.
        learner: a short name, ``package.module:factory`` or an estimator; logistic unless given.
        statistic: instead of a learner: mean, sum, histogram, covariance, quantiles, or a function
            of the drawn rows.
        eta: largest gain over blind guessing, in (0, ½).
        record: ``average`` or ``every``.
        game: ``neighbour`` (train on all rows, nothing is public) or ``subset`` (train on a secret
            half of a public population); the first for every record where the learner has a
            private form (logistic, svm, ridge, linear, huber), unless given.
        method: ``gradient`` (neighbour game), ``neighbour``, ``convex``, ``moment``, ``izzo``
            (subset game) or ``auto``.
        bounds: YAML or JSON file (or a mapping) with what is public about columns, for the
            neighbour game: ``age: [0, 120]``, ``sex: [F, M]``.
        confidence: of the calibration, in the subset game.
        tune: choose clip radius and regularisation together with the noise, in the subset game.
        clip: scale longer rows onto this norm.
        pairs: pairs (or subsets) to refit.
        query: public rows whose predictions are released, for learners without parameters.
        bins: edges of a histogram.
        levels: of the quantiles; quartiles unless given.
        size: records drawn; half of them unless given (statistics only).
        columns: use these columns only; all but identifiers and free text unless named.
        roles: column → ``number``, ``category``, ``date``, ``identifier`` or ``text``, where the
            inferred role is not the right one.
        database_table: the table inside a DuckDB or SQLite file.
        out: file for the release; its certificate is written beside it.
        force: overwrite it.
        workers: processes; all cores unless given.
        insecure_seed: for tests: training set and noise from a seed, which protects nobody.
        calibration_seed: seed of the calibration's halves, which are public.
        progress: called with (done, total).

    Command line:
        memberbound protect patients.csv --target ill --eta 0.05 --out model.skops
        memberbound protect patients.csv --target ill --record every --bounds bounds.yaml
        memberbound protect patients.csv --target ill --record every --game subset --method convex
        memberbound protect patients.csv --statistic mean --columns age,bmi --eta 0.02

    Examples:
        >>> import pandas
        >>> ages = pandas.DataFrame({"age": range(20, 80)})
        >>> result = protect(ages, statistic="mean", eta=0.05, record="every", insecure_seed=1)
        >>> result.calibration.certificate.value <= 0.05
        True
    """
    checked_eta(eta)
    pairs, workers, insecure_seed, calibration_seed = (
        None if value is None else whole_number(name, value, at_least=least)
        for name, value, least in (
            ("pairs", pairs, 2),
            ("workers", workers, 1),
            ("insecure_seed", insecure_seed, 0),
            ("calibration_seed", calibration_seed, 0),
        )
    )
    one_of("record", record, ("average", "every"))
    one_of("method", method, ("auto", "gradient", "neighbour", "convex", "moment", "izzo"))
    fraction("confidence", confidence, open_left=True, open_right=True)
    if (target is None) == (statistic is None):
        raise InputError("protect needs a target for the learner, or a statistic (one of them).")
    only_subset = {
        "query": query,
        "clip": clip,
        "pairs": pairs,
        "calibration_seed": calibration_seed,
    }
    if statistic is None:
        all_rows = plays_neighbour(
            game, record, method, learner, bounds=bounds, only_subset=only_subset
        )
    elif game == "neighbour" or method == "gradient" or bounds is not None:
        raise InputError(
            "statistics are released in the subset game: leave out game='neighbour', "
            "method='gradient' and bounds."
        )
    else:
        all_rows = False
    if out is not None:
        ending = (".skops",) if statistic is None else (".safetensors",)
        own = Path(source) if isinstance(source, (str, os.PathLike)) else None
        formats = LINEAR_ENDINGS if all_rows else ending
        check_output(Path(out), formats=formats, source=own, force=force)
    if statistic is not None:
        if query is not None or learner is not None:
            raise InputError("learner and query belong to a target, not to a statistic.")
        table, made = _made_statistic(
            source,
            statistic,
            columns=columns,
            roles=roles,
            database_table=database_table,
            size=size,
            clip=clip,
            bins=bins,
            levels=levels,
        )
        result = _release_statistic(
            *made,
            eta=eta,
            record=record,
            method=method,
            confidence=confidence,
            pairs=pairs,
            workers=workers,
            insecure_seed=insecure_seed,
            calibration_seed=calibration_seed,
            progress=progress,
        )
        result = replace(result, roles=table.selection.roles)
    elif size is not None or bins is not None or levels is not None:
        raise InputError("size, bins and levels belong to a statistic, not to a learner.")
    elif all_rows:
        result = release_all_rows(
            source,
            str(target),
            learner,
            eta=eta,
            bounds=bounds,
            columns=columns,
            roles=roles,
            database_table=database_table,
            insecure_seed=insecure_seed,
            progress=progress,
        )
    else:
        examples = read_examples(
            source, str(target), columns=columns, roles=roles, database_table=database_table
        )
        chosen = "logistic" if learner is None else learner
        named = isinstance(chosen, str)
        estimator = learner_from_name(chosen, examples.task) if named else chosen
        rows = None if query is None else encoded_rows(examples.encoder, examples.columns, query)[0]
        model = MembershipPrivate(
            estimator,
            eta=eta,
            record=record,
            method=method,
            tune=tune and rows is None,
            confidence=confidence,
            clip=clip,
            release="parameters" if rows is None else "predictions",
            query=rows,
            pairs=pairs,
            n_jobs=workers,
            insecure_seed=insecure_seed,
            calibration_seed=calibration_seed,
        )
        result = _release_model(model, examples, str(target), progress)
    if insecure_seed is not None:
        drawn = "noise comes" if all_rows else "training set and noise come"
        note = f"{drawn} from a seed: whoever knows it knows the members"
        result = replace(result, warnings=(*result.warnings, note))
    if out is None:
        return result
    save(result.released, Path(out), force=force)
    return replace(result, out=str(out))


def _made_statistic(
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


def _release_statistic(
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
        release = Release(values, calibration, statistic_names(statistic), source.secure)
    details = {"values": release.values.tolist(), "names": list(release.names)}
    said = (*notes, *_notes(release.calibration))
    return Protection(release.calibration, release, name, None, None, None, None, said, details)


def _notes(calibration: Calibration) -> tuple[str, ...]:
    """Return what whoever releases has to know about the fits."""
    known, said = calibration.details, []
    if known.get("own_coins"):
        said.append(
            "the learner draws random numbers that cannot be seeded; see the assumptions, and "
            "prefer one with a random_state"
        )
    if failed := known.get("fits_failed"):
        said.append(
            f"{failed} of {calibration.fits} fits failed on fresh subsets; where a fit fails, "
            "zeros are released with the same noise"
        )
    return tuple(said)


def statistic_names(statistic: Any) -> tuple[str, ...]:
    """Return the names of a statistic's coordinates, where it has any."""
    return tuple(getattr(statistic, "names", ()))


def _release_model(
    model: MembershipPrivate, examples: Examples, target: str, progress: Progress
) -> Protection:
    model.fit(examples.features, examples.target, progress=progress)
    # It takes rows as they are; all that this needs is public in the game.
    released = TableModel(model, examples.encoder, examples.columns, target, examples.class_values)
    scores = model.scores_
    released_score = None if scores is None else scores.released_estimate
    # The population is public in this game.
    shares = np.bincount(examples.target) / examples.rows if examples.classes else np.zeros(1)
    constant = None if scores is None else float(shares.max())
    details = {"configuration": model.configuration_.to_dict(), "release": model.release}
    return Protection(
        model.calibration_,
        released,
        f"{type(model.estimator).__name__} ({model.release})",
        None if scores is None else ("accuracy" if examples.classes else "R²"),
        None if scores is None else scores.clean_estimate,
        released_score,
        None,
        (*_notes(model.calibration_), *examples.notes, *useless(released_score, constant)),
        details,
        examples.roles,
        constant,
    )
