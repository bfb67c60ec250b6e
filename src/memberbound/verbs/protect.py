"""The verb ``protect``: train a model on all rows that hides every record.

All rows are secret, so no choice may depend on them: neither the type of a column nor the learner.
Scores are the exception: they are computed without noise, from a trial model of four fifths of the
rows that is discarded.  They are for the owner of the table, are not stored, and are not covered by
the certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np

from memberbound.declarations import (
    Column,
    DatabaseTable,
    Encoding,
    Eta,
    FeatureFunctionName,
    Force,
    Hidden,
    InsecureSeed,
    LedgerFile,
    Memory,
    Names,
    Option,
    OutputFile,
    PublicBounds,
    Rates,
    TableLike,
)
from memberbound.errors import InputError, fractions
from memberbound.learners.refits import Scheduler, connect
from memberbound.leaves import load_leaf
from memberbound.release.all_rows.bounds import Bounds, Categories, Range, forms_of, read_bounds
from memberbound.release.all_rows.feature_maps import check_features, map_of_table
from memberbound.release.all_rows.learner_forms import PRIVATE_LEARNERS, LearnerForm, require_form
from memberbound.release.all_rows.models import MAPPED_ENDINGS, MODEL_ENDINGS, PrivateModel
from memberbound.release.all_rows.trials import PrivateTraining
from memberbound.release.model_quality import ReleaseScore
from memberbound.release.release_step import ReleaseStep
from memberbound.tables.records import Records, read_secret_columns
from memberbound.verbs.protection import Protection, unit_and_seed_notes

_OWN_EYES = (
    "scores and notes are computed from the secret rows, on a trial model of four fifths of them "
    "that is discarded: they are for you only, and the certificate does not cover them. Do not "
    "publish them with the model"
)
#: Warn if a larger share of a column's values is out of bounds.
_FITTING = 0.5


def protect(
    source: TableLike,
    *,
    target: Column,
    learner: Annotated[object, Option("learner", metavar="NAME", choices=PRIVATE_LEARNERS)]
    | None = None,
    eta: Eta = 0.05,
    bounds: PublicBounds | None = None,
    features: FeatureFunctionName | None = None,
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
    insecure_seed: InsecureSeed | None = None,
    trial: Hidden = True,
    progress: Annotated[Callable[..., None], Option("progress", metavar="training on all rows")]
    | None = None,
) -> Protection:
    """Train a model on all rows without revealing who is in the data.

    Guarantee: no attacker who knows all other records and sees the model is right about any
    record's membership more than ``eta`` above blind guessing.  This holds with certainty for every
    record of any table.  The model takes raw rows (``predict``).
    Theorem: X22 (proofs/gradient-descent.md, boosting.md, networks.md), for persons X26.
    Assumes: one release; the number of rows (of persons, with ``unit``), the columns' names and
    declared types, and the bounds are public.
    The file, its certificate and the output of ``--json`` may be published, except for scores and
    notes (the keys in ``owner_only``, marked in the table), which are computed from the secret rows
    without protection: they are for the owner of the rows only.

    Args:
        source: a file or a table, one record per row.
        learner: ``logistic``, ``svm``, ``ridge``, ``huber``, ``boosting``, or the
            ``package.module:factory`` of a PyTorch module (default: logistic; ridge if the bounds
            give the target a range).
        features: ``package.module:function`` that maps rows of numbers (images, embeddings) to rows
            of features in [-1, 1], each row by itself; public, and saved with the model as a name
            only (``memberbound.features:orientation_histograms`` for images).
        tune: try several learning rates, at the expense of the privacy budget.
        columns: columns to use (default: all except those with no signal above the noise).
        unit: column that identifies the person; all rows of a person are used, with the influence
            of a single row, so that a record is a person.
        out: file for the model (``.json``, ``.skops``, or ``.onnx`` for other runtimes); its
            certificate is written beside it. Both may be published; the scores and notes printed
            with them are for the owner of the rows.
        trial: whether to train and score a trial model; a study computes its own scores.

    Command line:
        memberbound protect patients.csv --target ill --eta 0.05 --out model.skops
        memberbound protect patients.csv --target ill --bounds bounds.yaml --learner boosting
        memberbound protect patients.csv --target ill --bounds bounds.yaml --out model.onnx
        memberbound protect stays.csv --target ill --unit patient --bounds bounds.yaml
        memberbound protect patients.csv --target ill --learner nets:two_layers
        memberbound protect scans.npy --target x784 --features nets:histograms

    Examples:
        >>> import pandas
        >>> people = pandas.DataFrame({"age": [k % 80 for k in range(900)]})
        >>> people["old"] = people["age"] > 40
        >>> public = {"age": [0, 80], "old": [False, True]}
        >>> result = protect(people, target="old", bounds=public, insecure_seed=1)
        >>> result.calibration.certificate.value <= 0.05
        True
    """
    # Check the request before opening the table.
    public = read_bounds(bounds)
    default = "ridge" if isinstance(public.get(target), Range) else "logistic"
    form = LearnerForm(default) if learner is None else require_form(learner)
    if form.factory is not None and (scheduler is not None or client is not None):
        raise InputError("scheduler takes linear models and boosting, not a network.")
    if ledger is not None and form.factory is not None:
        raise InputError("ledger takes models with normal noise on all rows, not a network.")
    check_features(features, form, scheduler or client)
    endings = MODEL_ENDINGS if features is None else MAPPED_ENDINGS
    if form.factory is not None:
        endings = load_leaf("networks").NETWORK_ENDINGS
    seed, guesses = insecure_seed, fractions("baseline", baseline)
    step = ReleaseStep("protect", source, eta, out, ledger, seed, endings, force)

    with connect(scheduler, client) as cluster:
        # Parse each value on its own: no row may affect how another one is read.
        table = read_secret_columns(
            source,
            forms_of(public),
            target=target,
            columns=columns,
            unit=unit,
            database_table=database_table,
            encoding=encoding,
            memory=memory,
            spread=None if cluster is None else cluster.spread,
        )
        public = {name: bound for name, bound in public.items() if name in table.columns}
        mapped = map_of_table(features, table.columns, target, public)
        if out is not None and Path(out).suffix.lower() == ".onnx":
            private = (name for name in table.columns if name not in (*public, target))
            load_leaf("onnx").check_onnx({name: table.types.get(name) for name in private})

        # Train on all rows; they are released only through noisy sums charged to the budget.
        advance = progress or (lambda _done, _total: None)
        advance(0, 2)
        training = PrivateTraining(target, form, eta, public, tune, mapped)
        released = step.run(f"{form.name} model", partial(training.fit, table, seed))
        advance(1, 2)

        # Everything below is for the owner of the rows only.
        scores: tuple[ReleaseScore, ...] = ()
        notes: list[str] = []
        if trial:
            scores, notes = training.score_trial(table, None if seed is None else seed + 1)
        advance(2, 2)
        if form.pipeline:
            notes = ["the pipeline's own preprocessing is replaced by a private one", *notes]
        return Protection(
            calibration=released.calibration_,
            released=released,
            what=f"{form.name} model",
            model_scores=scores,
            warnings=(
                *table.notes,
                *notes,
                *_misfit_notes(table, target, released, public),
                _OWN_EYES,
                *unit_and_seed_notes(unit, seed, persons=len(table), table=table),
            ),
            bounds=tuple(sorted(public)),
            columns=released.columns,
            baseline=guesses,
            out=None if out is None else str(out),
        )


# ── Notes for the owner of the rows only: computed without noise, never stored ────────────────────


def _misfits(
    shard: Records, bounds: Bounds, target: str, classes: tuple[str, ...]
) -> tuple[dict[str, int], int]:
    """Count out-of-bounds values by column, and rows of unlisted classes."""
    outside = {}
    for name, bound in bounds.items():
        values = shard.columns[name]
        if isinstance(bound, Categories):
            fits = values.positions(bound.labels) >= 0
        else:
            fits = (values.numbers >= bound.low) & (values.numbers <= bound.high)
        outside[name] = int(np.sum(~fits))
    unknown = shard.columns[target].positions(classes) < 0 if classes else np.zeros(0)
    return outside, int(unknown.sum())


def _misfit_notes(table: Records, target: str, released: PrivateModel, bounds: Bounds) -> list[str]:
    """Return notes on dropped columns, out-of-bounds values and unknown classes."""
    names = released.class_names
    outside, unknown = table.shards.sum(_misfits, bounds, target, names)
    left = [repr(name) for name in table.columns if name not in (*released.columns, target)]
    notes = []
    if left:
        notes.append(
            f"left out: {', '.join(left)} (identifiers, free text, or nothing above the noise). "
            "A column with bounds is kept"
        )
    notes += [
        f"fewer than half of the values of {name!r} are within its bounds: check the bounds and "
        "the format of its numbers or dates (decimal, format)"
        for name, count in outside.items()
        if count > _FITTING * table.rows and not (name == target and names)
    ]
    if unknown:
        notes.append(
            f"{unknown} of {table.rows} rows have no class that the model knows "
            f"({', '.join(names)}): they have no influence on it, and it never predicts theirs"
        )
    return notes
