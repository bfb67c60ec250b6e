"""The verb ``protect-half``: the papers' game, releasing a secret half of a public table."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np

from memberbound.answers import INTERNAL, OmitEmpty, Sided, computed
from memberbound.declarations import (
    Column,
    ColumnRoles,
    DatabaseTable,
    Encoding,
    Eta,
    Force,
    Hidden,
    InputFile,
    InsecureSeed,
    LearnerName,
    Names,
    Option,
    OutputFile,
    Progress,
    TableLike,
    Workers,
)
from memberbound.errors import InputError, one_of, whole_number
from memberbound.files import check_output
from memberbound.games import SubsetGame, member_name
from memberbound.learners.examples import Examples, encode_rows, read_examples
from memberbound.learners.names import learner_from_name
from memberbound.learners.refits import Cluster, Scheduler, connect
from memberbound.numerics.rounding import FloatArray
from memberbound.release.calibration import VECTOR_ENDINGS, Calibration, Release
from memberbound.release.half.half_estimator import HalfPrivate, TableModel
from memberbound.release.half.secret_draw import release_statistic
from memberbound.release.half.statistics import (
    CallableStatistic,
    callable_statistic,
    clip_rows,
    quantiles,
)
from memberbound.release.half.sums import SumStatistic, covariance, histogram, mean, total
from memberbound.release.model_quality import usefulness_notes
from memberbound.release.noise import check_eta_range
from memberbound.release.saving import save
from memberbound.tables.public_rows import read_population
from memberbound.tables.recipe import labels_of
from memberbound.tables.selection import Selection
from memberbound.tables.table import Table
from memberbound.verbs.protection import ReleaseAnswer

#: Statistics of a secret half; see ``release.all_rows.summaries`` for those of all rows.
STATISTICS = ("mean", "sum", "histogram", "contingency", "covariance", "quantiles")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class HalfProtection(ReleaseAnswer):
    """A model or numbers of a secret half of a public table, in the papers' game."""

    VERB: ClassVar = "protect-half"

    roles: dict[str, str] = field(default_factory=dict)
    unit: str | None = field(default=None, metadata=INTERNAL)
    #: For a model: the form in which it is released.
    release: OmitEmpty[str] = ""
    #: For a statistic: its values, and their names if the statistic has any.
    values: OmitEmpty[Annotated[tuple[float, ...], Sided("given")]] = ()
    names: tuple[str, ...] = ()

    @property
    def protected(self) -> Literal["record", "person"]:
        """The unit of protection: "person" if a column identifies persons."""
        return member_name(self.unit)

    @computed
    def fits(self) -> int:
        """Number of times the statistic was computed to calibrate the noise."""
        return self.calibration.fits

    def curve_rows(self) -> list[tuple[str, object]]:
        """Return the table row about the calibration."""
        return [("fits for calibration", f"{self.fits}")]

    @computed
    def population(self) -> int:
        """Number of records in the table."""
        assert isinstance(self.game, SubsetGame)
        return self.game.population

    @computed
    def rows_trained(self) -> int:
        """Number of records drawn."""
        assert isinstance(self.game, SubsetGame)
        return self.game.size

    @computed
    def sentence(self) -> str:
        """A sentence to pass on with the release: the bound and the attacker's knowledge."""
        population, size = self.population, self.rows_trained
        knows = f"all {population} {self.protected}s but not which {size} of them were drawn"
        odds = ""
        if 2 * size != population:
            odds = f" ({max(size, population - size)} of {population})"
        return self._sentence(knows, odds)


def protect_half(
    source: TableLike,
    *,
    target: Column | None = None,
    learner: LearnerName | None = None,
    statistic: Annotated[Any, Option("choice", choices=STATISTICS)] | None = None,
    eta: Eta = 0.05,
    record: Literal["average", "every"] = "every",
    method: Literal["auto", "crowd", "neighbour", "moment", "izzo"] = "auto",
    confidence: float = 0.95,
    clip: Annotated[float, Option("number", metavar="R")] | None = None,
    pairs: int | None = None,
    query: InputFile | None = None,
    size: int | None = None,
    columns: Names | None = None,
    roles: ColumnRoles | None = None,
    unit: Column | None = None,
    database_table: DatabaseTable | None = None,
    encoding: Encoding | None = None,
    out: OutputFile | None = None,
    force: Force = False,
    workers: Workers | None = None,
    scheduler: Scheduler | None = None,
    client: Hidden | None = None,
    insecure_seed: InsecureSeed | None = None,
    progress: Annotated[Callable[..., None], Option("progress", metavar="calibrating the noise")]
    | None = None,
) -> HalfProtection:
    """Release a model or a statistic of a secret random half of a public table.

    The rows of ``source`` are a public population.  The noise is calibrated on independent random
    halves, then a fresh half becomes the training set.  This is the game of the papers: it does not
    protect who is in the *table* (use ``protect`` for that).

    Guarantee: no attacker who knows the population, but not which half was drawn, and sees the
    release is right about the average (or any) record's membership more than ``eta`` above blind
    guessing, with ``confidence``.  A released model takes raw rows (``predict``).
    Theorem: X1, X20 and X4 (neighbour), X19 (moment), X21 (crowd), I24-C10 with its radius
    corrected (izzo).
    Assumes: one release; the training set is drawn here, or was drawn uniformly and independently.
    Edge cases: a statistic that is provably constant is released without noise; scores are
    estimates from fresh halves.

    Args:
        source: a file or a table, one record per row.
        learner: a short name, ``package.module:factory`` or an estimator (default: logistic).
        statistic: instead of a model, release a ``mean``, ``sum``, ``histogram``, ``contingency``
            table, ``covariance`` or ``quantiles``; in Python also a function of the drawn rows.
        record: whether to protect the average record or every record.
        method: ``crowd`` (means, counts, covariances), ``neighbour``, ``moment`` or ``izzo``;
            ``auto`` chooses.
        confidence: of the noise calibration.
        clip: clip rows of numbers to this norm.
        pairs: number of pairs (or subsets) to refit for the calibration.
        query: public rows to release predictions for, with learners that have no parameters.
        size: number of records drawn (default: half of them).
        columns: columns to use (default: all but identifiers and free text).
        unit: column that identifies the person; only each person's first row is used, so that a
            record is a person.
        out: file for the release; its certificate is written beside it.
        workers: processes (default: all cores).
        scheduler: address of a dask scheduler; its workers do the refitting.
        insecure_seed: for tests only: draw training set and noise from a seed, which provides no
            protection.

    Command line:
        memberbound protect-half people.csv --target ill --record average --out model.skops
        memberbound protect-half people.csv --statistic mean --columns age,bmi

    Examples:
        >>> import pandas
        >>> people = pandas.DataFrame({"age": range(20, 50), "weight": range(40, 70)})
        >>> result = protect_half(people, statistic="mean", insecure_seed=1)
        >>> result.calibration.certificate.value <= 0.05
        True
    """
    check_eta_range(eta)
    if pairs is not None:
        whole_number("pairs", pairs, at_least=2)
    if (target is None) == (statistic is None):
        raise InputError("protect-half needs either a target for a learner, or a statistic.")
    if out is not None:
        own = Path(source) if isinstance(source, (str, os.PathLike)) else None
        formats = (".skops",) if statistic is None else VECTOR_ENDINGS
        check_output(Path(out), formats=formats, source=own, force=force)
    read: dict[str, Any] = {
        "columns": columns,
        "roles": roles,
        "database_table": database_table,
        "encoding": encoding,
        "unit": unit,
    }
    settings: dict[str, Any] = {
        "eta": eta,
        "method": method,
        "confidence": confidence,
        "pairs": pairs,
        "insecure_seed": insecure_seed,
    }
    if statistic is None:
        examples = read_examples(source, str(target), **read)
        chosen = "logistic" if learner is None else learner
        named = isinstance(chosen, str)
        rows = None if query is None else _query_rows(examples, query, encoding)
        model = HalfPrivate(
            learner_from_name(chosen, examples.task) if named else chosen,
            record=record,
            clip=clip,
            size=size,
            query=rows,
            n_jobs=workers,
            **settings,
        )
        with connect(scheduler, client) as cluster:
            result = _release_model(model, examples, str(target), cluster, progress)
    else:
        if query is not None or learner is not None:
            raise InputError("learner and query apply to a model: name its target.")
        table, selection = read_population(source, numeric=statistic not in COUNTED, **read)
        count = len(table.frame)
        if count < _FEWEST:
            raise InputError(f"{table.name} must hold at least {_FEWEST} records, got {count}.")
        game = SubsetGame(count, count // 2 if size is None else size, record)
        with connect(scheduler, client) as cluster:
            release = release_statistic(
                half_statistic(table, statistic, game.size, clip),
                game,
                workers=workers,
                cluster=cluster,
                progress=progress,
                **settings,
            )
        asked = {"statistic": _name(statistic), "columns": list(table.columns), "clip": clip}
        release = _with_record(release, asked | {"unit": unit})
        result = _describe_statistic(release, selection, statistic)
    result = replace(result, unit=unit)
    if insecure_seed is not None:
        seeded = "training set and noise come from a seed: anyone who knows it knows the members"
        result = replace(result, warnings=(*result.warnings, seeded))
    if out is None:
        return result
    save(result.released, Path(out), force=force)
    return replace(result, out=str(out))


# ── Statistics of the table ───────────────────────────────────────────────────────────────────────
#
# Edges and categories come from the whole population, which is public in this game.

_FEWEST = 4
COUNTED = ("histogram", "contingency")
#: Largest number of distinct values of a column that is counted by value.
_CATEGORIES = 50
#: Number of bins for a numeric column with more distinct values.
_BINS = 20
_QUARTILES = (0.25, 0.5, 0.75)


def half_statistic(
    table: Table, statistic: Any, size: int, clip: float | None
) -> SumStatistic | CallableStatistic:
    """Return the statistic to compute from the drawn records, from its name or a function."""
    if isinstance(statistic, str) and one_of("statistic", statistic, STATISTICS) in COUNTED:
        if clip is not None:
            raise InputError(f"clip applies to rows of numbers, not to a {statistic}.")
        return _counts(table, statistic)
    values = clip_rows(table.values, clip)
    if statistic == "mean":
        return mean(values, size=size, names=table.columns)
    if statistic == "sum":
        return total(values, names=table.columns)
    if statistic == "covariance":
        return covariance(values, size=size)
    return (
        quantiles(values, _QUARTILES)
        if statistic == "quantiles"
        else callable_statistic(values, statistic)
    )


def _counts(table: Table, statistic: str) -> SumStatistic:
    """Return cell counts: numbers by bin, everything else by value."""
    if (statistic == "histogram") != (len(table.columns) == 1):
        raise InputError(
            f"a histogram needs one column of {table.name} and a contingency table several, got "
            f"{', '.join(table.columns)}. Name them with columns."
        )
    first = table.columns[0]
    distinct = table.frame[first].nunique()
    if statistic == "histogram" and table.readings(first)[first].numeric and distinct > _CATEGORIES:
        values = table.values[:, 0]
        return histogram(values, bins=np.linspace(values.min(), values.max(), _BINS + 1))
    columns = [_category_texts(table, column) for column in table.columns]
    texts = [", ".join(cell) for cell in zip(*columns, strict=True)]
    return histogram(texts, categories=sorted(set(texts)))


def _category_texts(table: Table, name: str) -> list[str]:
    codes, labels = labels_of(table.frame[name])
    count = np.unique(codes).size
    if count > _CATEGORIES:
        raise InputError(
            f"counts need at most {_CATEGORIES} categories of a column, got {count} in {name!r}. "
            "Merge some."
        )
    return [labels[code] for code in codes]


# ── Answers ───────────────────────────────────────────────────────────────────────────────────────


def _name(statistic: object) -> str:
    """Return the name of a statistic, or "statistic" for a function."""
    return statistic if isinstance(statistic, str) else "statistic"


def _with_record(release: Release, asked: Mapping[str, object]) -> Release:
    """Add to the record the options that the owner needs to recompute the statistic."""
    details = release.calibration.details
    record = {**cast("dict[str, object]", details["derivation"]), **asked}
    noise = replace(release.calibration, details=details | {"derivation": record})
    return replace(release, calibration=noise)


def _describe_statistic(
    release: Release, selection: Selection, statistic: object
) -> HalfProtection:
    notes = [*selection.notes, *_fit_notes(release.calibration)]
    if statistic == "covariance":
        notes.append("the covariance is taken about the population's mean, which is public here")
    return HalfProtection(
        calibration=release.calibration,
        released=release,
        what=_name(statistic),
        warnings=tuple(notes),
        values=tuple(release.values.tolist()),
        names=release.names,
        roles=selection.roles,
    )


def _query_rows(examples: Examples, query: object, encoding: str | None) -> FloatArray:
    """Encode the public rows to release predictions for."""
    return encode_rows(examples.encoder, examples.columns, query, encoding=encoding)[0]


def _release_model(
    model: HalfPrivate,
    examples: Examples,
    target: str,
    cluster: Cluster | None,
    progress: Progress | None,
) -> HalfProtection:
    values = examples.class_values
    truth = examples.target if values is None else values[examples.target]
    model.fit(examples.features, truth, cluster=cluster, progress=progress)
    selection = examples.selection
    notes = (*_fit_notes(model.calibration_), *selection.notes, *usefulness_notes(model.scores_))
    return HalfProtection(
        calibration=model.calibration_,
        # The released model takes raw rows; the encoder is public in this game.
        released=TableModel(model, examples.encoder, examples.columns, target),
        what=f"{type(model.estimator).__name__} ({model.release})",
        model_scores=model.scores_,
        warnings=notes,
        roles=selection.roles,
        release=model.release,
    )


def _fit_notes(calibration: Calibration) -> tuple[str, ...]:
    """Return notes about the fits for the owner of the release."""
    details, notes = calibration.details, []
    if details.get("own_coins"):
        notes.append(
            "the learner uses random numbers that cannot be seeded; see the assumptions, and "
            "prefer one with a random_state"
        )
    if failed := details.get("fits_failed"):
        notes.append(
            f"{failed} of {calibration.fits} fits failed on fresh subsets; if a fit fails, "
            "zeros are released with the same noise"
        )
    return tuple(notes)
