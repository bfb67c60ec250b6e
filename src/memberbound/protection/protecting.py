"""The verb ``protect``: release a model or a statistic with a certified η."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

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
from memberbound.learners import Examples, encoded_rows, learner_from_name, read_examples
from memberbound.protection.all_rows import plays_neighbour, release_all_rows
from memberbound.protection.answer import Protection, fit_notes, useless
from memberbound.protection.calibration import Progress, checked_eta
from memberbound.protection.estimator import MembershipPrivate
from memberbound.protection.saving import LINEAR_ENDINGS, save
from memberbound.protection.table_model import TableModel
from memberbound.protection.table_statistics import STATISTICS, made_statistic, release_statistic

__all__ = ["Protection", "protect"]


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
    one_of("game", "subset" if game is None else game, ("neighbour", "subset"))
    one_of("method", method, ("auto", "gradient", "neighbour", "convex", "moment", "izzo"))
    fraction("confidence", confidence, open_left=True, open_right=True)
    if (target is None) == (statistic is None):
        raise InputError("protect needs a target for the learner, or a statistic (one of them).")
    only_subset = {
        "query": query,
        "clip": clip,
        "pairs": pairs,
        "calibration_seed": calibration_seed,
        # Their defaults cannot be told from what was given; others would be ignored there.
        "confidence": None if confidence == 0.95 else confidence,
        "tune": None if tune else tune,
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
        table, made = made_statistic(
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
        result = release_statistic(
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
        (*fit_notes(model.calibration_), *examples.notes, *useless(released_score, constant)),
        details,
        examples.roles,
        constant,
    )
