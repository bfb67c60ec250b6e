"""The verb ``protect``: a model of all rows that hides every record.

Nothing about the rows is public here, so nothing about them decides what is done: not what a column
is, not which learner fits the target.  Scores are computed from the secret rows all the same, on a
model of four fifths of them that is thrown away.  They are for whoever owns the table; they are
neither stored nor covered by the certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from memberbound.declarations import (
    Column,
    DatabaseTable,
    Encoding,
    Force,
    Hidden,
    LedgerFile,
    Memory,
    Names,
    Option,
    OutputFile,
    Rates,
    Table,
)
from memberbound.errors import InputError
from memberbound.files import in_encoding
from memberbound.learners.refits import Scheduler, on_cluster
from memberbound.release.all_rows.encoding import Range, forms_of, read_bounds
from memberbound.release.all_rows.learner_settings import settings_of
from memberbound.release.all_rows.models import LEARNERS, checked_form, replaces_preprocessing
from memberbound.release.all_rows.on_workers import current_spread
from memberbound.release.all_rows.training import misfit_notes, train, trial_scores
from memberbound.release.ledger_file import entered
from memberbound.release.model_quality import Score
from memberbound.release.noise import checked_eta
from memberbound.release.onnx_file import check_onnx
from memberbound.release.saving import LINEAR_ENDINGS, NETWORK_ENDINGS, save
from memberbound.tables.in_memory import read_secret_columns
from memberbound.verbs.protection import Protection, checked_request, unit_and_seed_notes

_OWN_EYES = (
    "scores and notes are computed from the secret rows, on a trial model of four fifths of them "
    "that is thrown away: they are for you alone, and the certificate does not cover them. Do not "
    "publish them with the model"
)


@in_encoding
@on_cluster
def protect(
    source: Table,
    *,
    target: Column,
    learner: Annotated[Any, Option("learner", metavar="NAME", choices=LEARNERS)] | None = None,
    eta: Annotated[float, Option("number", metavar="H")] = 0.05,
    bounds: Annotated[Any, Option("document", metavar="FILE")] | None = None,
    tune: bool = False,
    baseline: Rates | None = None,
    columns: Names | None = None,
    unit: Column | None = None,
    ledger: LedgerFile | None = None,
    database_table: DatabaseTable | None = None,
    encoding: Encoding | None = None,
    memory: Memory | None = None,
    scheduler: Scheduler | None = None,
    client: Hidden | None = None,
    out: OutputFile | None = None,
    force: Force = False,
    insecure_seed: Annotated[int, Option("whole", web=False)] | None = None,
    trial: Hidden = True,
    progress: Annotated[Callable[..., None], Option("progress", metavar="training on all rows")]
    | None = None,
) -> Protection:
    """Train a model on all rows so that nobody can tell whose record was among them.

    Guarantee: nobody who knows all other records and sees the model is right about any record's
    membership more than ``eta`` above blind guessing: for every record of any table, without a
    confidence level.  The model takes raw rows (``predict``).
    Theorem: X22 (proofs/gradient-descent.md, boosting.md, networks.md), of persons X26.
    Assumes: one release; the number of rows (of persons, with ``unit``), the columns' names and
    declared types and the bounds are public.
    Published are the file, its certificate, and whatever else ``--json`` says; but the scores and
    notes (the keys in ``owner_only``, marked in the table) are computed from the secret rows and
    not covered: they are for the owner of the rows only.

    Args:
        source: a file or a table, one record per row.
        target: column to predict.
        learner: ``logistic``, ``svm``, ``ridge``, ``huber``, ``boosting``, or the
            ``package.module:factory`` of a PyTorch module (default: logistic; ridge where the
            bounds give the target a range).
        eta: largest gain of any attack over blind guessing, in (0, ½).
        bounds: YAML or JSON file (or a mapping) with what is public about the columns:
            ``age: [0, 120]``, ``sex: [F, M]``; see ``memberbound bounds``.
        tune: try several learning rates, paid for out of the budget.
        baseline: chance of guessing something else about a record (an attribute, the record itself)
            without the release; the answer bounds it with the release. May be repeated.
        columns: columns to use (default: all; those in which nothing rises above the noise are left
            out).
        unit: column that identifies the person; all rows of a person are used, with the influence
            of one, so that a record is a person.
        ledger: ledger of releases about the same people, which this one is entered into and must
            not exceed; see ``memberbound ledger``.
        database_table: the table inside a DuckDB or SQLite file.
        encoding: encoding of CSV files, such as latin-1 or cp1252; UTF-8 unless named.
        memory: how much memory may be used, such as ``2GB`` (default: half of the machine's). The
            rows of a larger file are read in parts, and what is made of them is kept on disk.
        scheduler: address of a dask scheduler whose workers read the rows (of a Parquet file that
            all of them see), keep them and add them up. The numbers are the same.
        client: for Python: a ``distributed.Client`` instead.
        out: file for the model (``.json``, ``.skops``, or ``.onnx`` for other runtimes); its
            certificate is written beside it. Both may be published; the scores and notes printed
            with them are for the owner of the rows.
        force: overwrite ``out``.
        insecure_seed: for tests only: draw the noise from a seed, which protects nobody.
        trial: whether a second model is trained and scored; a study has scores of its own.
        progress: called with (done, total).

    Command line:
        memberbound protect patients.csv --target ill --eta 0.05 --out model.skops
        memberbound protect patients.csv --target ill --bounds bounds.yaml --learner boosting
        memberbound protect patients.csv --target ill --bounds bounds.yaml --out model.onnx
        memberbound protect stays.csv --target ill --unit patient --bounds bounds.yaml
        memberbound protect patients.csv --target ill --learner nets:two_layers

    Examples:
        >>> import pandas
        >>> people = pandas.DataFrame({"age": [k % 80 for k in range(900)]})
        >>> people["old"] = people["age"] > 40
        >>> public = {"age": [0, 80], "old": [False, True]}
        >>> result = protect(people, target="old", bounds=public, insecure_seed=1)
        >>> result.calibration.certificate.value <= 0.05
        True
    """
    del scheduler, client  # connected by on_cluster
    # What is asked is checked before the table is opened.
    checked_eta(eta)
    public = read_bounds(bounds)
    default = "ridge" if isinstance(public.get(target), Range) else "logistic"
    form = default if learner is None else checked_form(learner)
    settings = settings_of(learner)
    if form == "network" and current_spread() is not None:
        raise InputError("scheduler takes linear models and boosting, not a network.")
    if ledger is not None and form == "network":
        raise InputError("ledger takes models with normal noise on all rows, not a network.")
    endings = NETWORK_ENDINGS if form == "network" else LINEAR_ENDINGS
    seed = insecure_seed
    guesses = checked_request(source, out, endings, force=force, baseline=baseline, seed=seed)

    # Every value is read by itself: no row decides how another one is read.
    table = read_secret_columns(
        source,
        forms_of(public),
        target=target,
        columns=columns,
        unit=unit,
        database_table=database_table,
        memory=memory,
        spread=current_spread(),
    )
    public = {name: bound for name, bound in public.items() if name in table.columns}
    if out is not None and Path(out).suffix.lower() == ".onnx":
        features = (name for name in table.columns if name not in (*public, target))
        check_onnx({name: table.types.get(name) for name in features})

    # All rows are encoded and trained on; they leave only through noisy sums that the budget pays.
    advance = progress or (lambda _done, _total: None)
    advance(0, 2)
    with entered(ledger, "protect", f"{form} model", eta, out) as entry:
        released = train(
            table,
            target,
            form if learner is None else learner,
            eta=eta,
            bounds=public,
            tune=tune,
            seed=seed,
            settings=settings,
            reserve=entry.reserve,
        )
        if out is not None:
            save(released, Path(out), force=force)
    advance(1, 2)

    # What follows is for the owner of the rows only.
    scores: tuple[Score, ...] = ()
    notes: list[str] = []
    if trial:
        scores, notes = trial_scores(
            table, target, released, public, None if seed is None else seed + 1
        )
    advance(2, 2)
    if replaces_preprocessing(learner):
        notes = ["the pipeline's own preprocessing is replaced by a private one", *notes]
    return Protection(
        calibration=released.calibration_,
        released=released,
        what=f"{form} model",
        model_scores=scores,
        warnings=(
            *notes,
            *misfit_notes(table, target, released, public),
            _OWN_EYES,
            *unit_and_seed_notes(unit, seed, persons=len(table), rows=table.rows),
        ),
        bounds=tuple(sorted(public)),
        columns=released.columns,
        baseline=guesses,
        out=None if out is None else str(out),
    )
