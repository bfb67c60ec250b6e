"""The verb ``audit-learner``: attack models that a learner trains on random halves."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

import numpy as np

from memberbound.answers import INTERNAL
from memberbound.attacks.attacks import DEFAULT_ATTACKS
from memberbound.attacks.learner_audit import Exposure, ShadowAudit, audit_shadows
from memberbound.attacks.shadows import FailedFit, ShadowRun, train_shadows
from memberbound.declarations import (
    Column,
    ColumnRoles,
    DatabaseTable,
    Encoding,
    Force,
    Hidden,
    LearnerName,
    Names,
    Option,
    Rates,
    RecordsFile,
    TableLike,
    Workers,
)
from memberbound.errors import fraction, whole_number
from memberbound.games import member_name
from memberbound.learners.examples import read_examples
from memberbound.learners.names import learner_from_name
from memberbound.learners.refits import Scheduler, cache_folder, connect
from memberbound.quantities import confident, marked
from memberbound.tables.frame_files import write_table
from memberbound.verbs.audit_answer import (
    RATES,
    AuditAnswer,
    audit_fields,
    check_rates,
    records_file,
)

# ── The answer ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LearnerAudit(AuditAnswer):
    """Attack results on models of a learner; ``records`` has the results for each record."""

    VERB: ClassVar = "audit-learner"

    population: int
    models: int
    #: Number of attacked models behind the intervals.
    targets: int
    failed_fits: tuple[FailedFit, ...]
    records: Exposure
    roles: dict[str, str] = field(default_factory=dict)
    detail: ShadowAudit = field(metadata=INTERNAL)

    @property
    def about(self) -> str:
        """The records concerned, for the sentence."""
        return f" on the average {member_name(self.unit)}"

    def details(self) -> str:
        """Return readable lines below the table of attacks."""
        records, who = self.records, member_name(self.unit)
        text = (
            f"\n\n{who}s with a leak shown: {records.exposed_records} "
            f"({records.targets} attacked models)"
        )
        proved = [item for item in records.most_exposed[:5] if item.proved]
        for item in proved:
            text += (
                f"\n  {who} {item.record + 1}: right {marked(item.estimate, 'estimate')} of the "
                f"time, proved {marked(item.lower, 'audit', blind=records.blind_accuracy)}"
            )
        if proved:
            text += (
                f"\n  ({who}s counted from 1; floors hold for all at once, confidence "
                f"{confident(records.confidence)})"
            )
        return text


# ── The question ──────────────────────────────────────────────────────────────────────────────────


def audit_learner(
    table: TableLike,
    *,
    target: Column,
    learner: LearnerName = "logistic",
    shadows: int = 64,
    attacks: Annotated[Iterable[str], Option("names", metavar="loss,lira,…")] = DEFAULT_ATTACKS,
    confidence: float = 0.95,
    fpr: Rates = RATES,
    columns: Names | None = None,
    roles: ColumnRoles | None = None,
    unit: Column | None = None,
    database_table: DatabaseTable | None = None,
    encoding: Encoding | None = None,
    records: RecordsFile | None = None,
    force: Force = False,
    cache: Annotated[
        str | os.PathLike[str] | bool, Option("cache", metavar="DIR", web=False, typed_default=True)
    ]
    | None = None,
    workers: Workers | None = None,
    scheduler: Scheduler | None = None,
    client: Hidden | None = None,
    seed: int = 0,
    progress: Annotated[Callable[..., None], Option("progress", metavar="training models")]
    | None = None,
) -> LearnerAudit:
    """Measure what attacks on models of a learner achieve, with confidence intervals.

    The table is a population: ``shadows`` models are trained on random halves of it, and each is
    attacked with the help of the others (the subset game).

    Guarantee: each ``lower`` and ``upper`` holds with ``confidence`` for its own attack; a lower
    bound also applies to the best possible attack.  Nothing here bounds other attacks from above.
    Theorem: proofs/audit-subset-game.md.
    Assumes: the answer's ``assumptions``.
    Edge cases: the TPR is ``None`` at an FPR for which there are too few non-members; failed fits
    are listed and left out.

    Args:
        table: a file or a table, one record per row.
        learner: a short name, ``package.module:factory`` or an estimator.
        shadows: number of shadow models to train.
        attacks: attacks to run.
        confidence: of each interval.
        columns: columns to use (default: all but identifiers and free text).
        unit: column that identifies the person; only each person's first row is used, so that a
            record is a person.
        records: write each record's exposure to this CSV file; its bounds hold for all records
            simultaneously.
        force: overwrite ``records``.
        cache: folder that keeps finished fits, so that an interrupted run can continue (``True``,
            the command line's default: the user's cache folder).
        workers: processes; -1 uses all cores (default, unless the fits are quick).
        scheduler: address of a dask scheduler; its workers train the models.
        seed: for the random halves and the learners.

    Command line:
        memberbound audit-learner people.csv --target income --learner random-forest --cache fits
        memberbound audit-learner people.csv --target income --attacks loss,lira,rmia --shadows 128

    Examples:
        >>> import pandas
        >>> rng = np.random.default_rng(0)
        >>> noise = pandas.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
        >>> noise["y"] = rng.integers(2, size=60)
        >>> options = {"target": "y", "learner": "tree", "shadows": 8, "workers": 1}
        >>> answer = audit_learner(noise, attacks=["rmia"], **options)
        >>> answer.attacks["rmia"]["auc"]["estimate"] > 0.7
        True
    """
    import pandas as pd

    models = whole_number("shadows", shadows, at_least=2)
    sure = fraction("confidence", confidence, open_left=True, open_right=True)
    rates = check_rates(fpr)
    start = whole_number("seed", seed, at_least=0)
    out = records_file(records, table, force=force)
    examples = read_examples(
        table,
        target,
        columns=columns,
        roles=roles,
        database_table=database_table,
        encoding=encoding,
        unit=unit,
    )
    estimator = learner_from_name(learner, examples.task) if isinstance(learner, str) else learner
    with connect(scheduler, client) as cluster:
        run = train_shadows(
            examples,
            estimator,
            models=models,
            seed=start,
            n_jobs=workers,
            cluster=cluster,
            cache=cache_folder(cache),
            progress=progress,
        )
    answer = audit_run(run, attacks=attacks, confidence=sure, fpr=rates)
    selection = examples.selection
    warnings = (*answer.warnings, *selection.notes)
    answer = replace(answer, warnings=warnings, roles=selection.roles, unit=unit)
    if out is None:
        return answer
    exposure = answer.records
    listed = {
        "record": exposure.rows + 1,  # as in the printed list
        "accuracy_estimate": exposure.estimate,
        "accuracy_lower": exposure.lower,
        "accuracy_upper": exposure.upper,
        "exposed": np.isin(np.arange(len(exposure.rows)), exposure.exposed).astype(int),
    }
    write_table(pd.DataFrame(listed), out, force=force, private=True)
    return replace(answer, records_out=str(out))


def audit_run(
    run: ShadowRun,
    *,
    attacks: Iterable[str] = DEFAULT_ATTACKS,
    confidence: float = 0.95,
    fpr: tuple[float, ...] = RATES,
) -> LearnerAudit:
    """Audit models that are already trained; see :func:`audit_learner`."""
    audit = audit_shadows(run, attacks=attacks, confidence=confidence, fpr=fpr)
    return LearnerAudit(
        **audit_fields(audit),
        assumptions=audit.assumptions,
        population=run.game.population,
        models=run.signals.models,
        targets=audit.records.targets,
        failed_fits=run.failures,
        records=audit.records,
        detail=audit,
    )
