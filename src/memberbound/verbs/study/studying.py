"""The verb ``study``: certify, attack and protect, then recommend the cheapest remedy."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Annotated, ClassVar

from memberbound.answers import INTERNAL, Answer
from memberbound.declarations import (
    Column,
    ColumnRoles,
    DatabaseTable,
    Encoding,
    Force,
    Keywords,
    LearnerName,
    Names,
    Option,
    TableLike,
    Workers,
)
from memberbound.errors import InputError, whole_number
from memberbound.learners.names import learner_from_name
from memberbound.limits import Limited, Part, Success
from memberbound.quantities import (
    marked,
)
from memberbound.report import words
from memberbound.report.model import (
    RECORDS,
    Report,
    SandwichRow,
)
from memberbound.tables.source import check_file
from memberbound.verbs.audit_answer import NOT_COMPARABLE
from memberbound.verbs.study.findings import Context
from memberbound.verbs.study.question import (
    EMBEDDED_TARGET,
    StudyData,
    StudyModel,
    check_question,
    read_configuration,
)
from memberbound.verbs.study.running import REPORT_FILES, StudyProgress, StudyRun, steps_folder

# ── The answer of ``study`` ───────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False, repr=False)
class Study(Answer, Limited):
    """The answer of a study; ``report`` is the content of ``report.json``, with its own schema."""

    VERB: ClassVar = "study"
    FAILS_ON: ClassVar = ("floor", "estimate", "ceiling")
    COMPARED: ClassVar = (
        "attack success on the worst record of the model as it is (on the average record of a "
        "given model)"
    )

    report: Report = field(metadata=INTERNAL)
    out: str | None = None
    files: tuple[str, ...] = ()
    #: The paths of the table and the bounds as given; the report has their names only.
    paths: Mapping[str, str] = field(default_factory=dict, metadata=INTERNAL)

    @property
    def complete(self) -> bool:
        """Whether every step ended with an answer."""
        return self.report.complete

    @property
    def failure(self) -> str | None:
        """The closing error of the command if a step failed."""
        failed = self.report.steps_in("failed", "stopped")
        if not failed:
            return None
        first = failed[0]
        why = str(first.error).rstrip(".: ")
        return (
            f"{len(failed)} of {len(self.report.steps)} steps failed; {first.title!r}: {why}. "
            "Repeat them with the same command and --resume."
        )

    @property
    def sentence(self) -> str:
        """The verdict."""
        return self.report.verdict.sentence

    @property
    def warnings(self) -> tuple[str, ...]:
        """Columns that were left out, and why."""
        data = self.report.data
        left = [f"{c!r} ({data.roles[c]})" for c in data.left_out]
        if not left:
            return ()
        return (
            f"left out: {', '.join(left)}; name them in columns, or give them another role, to use "
            "them",
        )

    def successes(self, on: Part) -> tuple[Success, ...]:
        """Return the attack success that a limit applies to: average and worst record.

        There is no certificate for a single learner without noise, so the ceiling is that of any
        learner trained on the table.
        """
        if self.report.question.model is not None and on != "ceiling":
            row = next((r for r in self.report.sandwich if r.subject == "given"), None)
            success = _success("the given model", "average", row)
            given = self.report.given
            reason = "" if given is None or given.comparable else NOT_COMPARABLE
            return (replace(success, what=f"{success.what}{reason}"),)
        subject = "table" if on == "ceiling" else "model"
        rows = {str(row.record): row for row in self.report.sandwich if row.subject == subject}
        label = "any model trained on the table" if on == "ceiling" else "the model as it is"
        return tuple(_success(label, record, rows.get(record)) for record in ("average", "worst"))

    def to_dict(self) -> dict[str, object]:
        """Return the report with the names of the files written."""
        return self.report.to_dict() | {"out": self.out, "files": list(self.files)}

    def summary(self) -> str:
        """Return the sandwich, the remedies, the report's path, and the verdict last."""
        lines = [_row("attack success", "measured", "estimate", "certified")]
        for label, rows in groupby(self.report.sandwich, key=lambda row: row.label):
            lines.append(label)
            # The stronger guarantee, for every record, comes first.
            for row in sorted(rows, key=lambda row: row.record, reverse=True):
                marks = (row.least, row.seen, row.most)
                texts = ("–" if mark is None else str(mark) for mark in marks)
                lines.append(_row(f"  {RECORDS[row.record]}", *texts))
        lines += ["", f"{'remedy':<40}{'certified':>18}  enough"]
        for remedy in self.report.remedies:
            most = str(marked(remedy.accuracy_upper, "certificate"))
            mark = "yes, recommended" if remedy.recommended else "yes" if remedy.enough else "no"
            lines.append(f"{remedy.label:<40}{most:>18}  {mark}")
            if remedy.change is not None and remedy.id != "nothing":
                lines.append(f"  {remedy.score_name} {remedy.before} → {remedy.after}")
        for step in self.report.steps_in("impossible", "failed", "stopped"):
            lines.append(f"note: {step.title}: {step.error}")
        lines += [f"note: {note}." for note in self.warnings]
        lines += ["", *(f"wrote {name}" for name in self.files)]
        lines += ["", f"note: {words()['owner_only']}"]
        lines += ["", self.report.verdict.sentence, self.report.verdict.advice]
        best = self.report.recommended
        if best is not None and best.command is not None:
            command = _with_paths(best.command, self.paths)
            lines += ["With your table in a file:"] if " TABLE " in command else []
            lines.append(f"  {command}")
        return "\n".join(lines)


def _success(label: str, record: str, row: SandwichRow | None) -> Success:
    """Return a row of the sandwich for a limit, without numbers if its step failed."""
    what = f"{label}, {record} record"
    if row is None:
        return Success(what)
    numbers = (row.accuracy_upper, row.accuracy_estimate, row.accuracy_lower)
    return Success(what, row.blind, *numbers)


def _row(name: str, floor: str, seen: str, most: str) -> str:
    return f"{name:<28}{floor:>15}{seen:>12}{most:>17}"


# ── The verb ──────────────────────────────────────────────────────────────────────────────────────


def study(
    table: TableLike | None = None,
    *,
    target: Column | None = None,
    learner: LearnerName | None = None,
    eta: float | None = None,
    epsilon: float | None = None,
    confidence: float | None = None,
    shadows: int | None = None,
    columns: Names | None = None,
    roles: ColumnRoles | None = None,
    unit: Column | None = None,
    database_table: DatabaseTable | None = None,
    encoding: Encoding | None = None,
    bounds: Annotated[
        Mapping[str, object] | str | os.PathLike[str],
        Option("file", metavar="FILE", web=False),
    ]
    | None = None,
    model: Annotated[object, Option("file", metavar="FILE", web=False)] | None = None,
    nonmembers: Annotated[object, Option("file", metavar="FILE", web=False)] | None = None,
    trust: Annotated[bool, Option("switch", web=False)] = False,
    config: Annotated[str | os.PathLike[str], Option("file", metavar="FILE", web=False)]
    | None = None,
    out: Annotated[
        str | os.PathLike[str],
        Option(
            "folder", metavar="DIR", web=False, typed_default="memberbound-study", configured=True
        ),
    ]
    | None = None,
    quick: bool = False,
    resume: Force = False,
    force: Force = False,
    workers: Workers = -1,
    seed: int | None = None,
    progress: Annotated[StudyProgress, Option("progress")] | None = None,
) -> Study:
    """Certify a table, attack and protect a model, and recommend what to do: one report.

    With a ``model``, the study is about that model: the table holds its training rows,
    ``nonmembers`` other rows, and the remedies state the guarantee and cost of retraining. Without
    a table, the embedded data set is used.  Nothing is released: the protected models are trials
    from the study's seed, and are discarded.

    Guarantee: every certificate in the report is that of its verb, with its game, confidence and
    assumptions; each holds at its own confidence, not all simultaneously.
    Edge cases: a failed step is reported, and the others continue; a remedy that cannot work (no
    private form of a random forest) is a finding.  Bad options are rejected before any work is
    done.

    Args:
        table: a file or a table (default: the embedded data set).
        learner: a short name or ``package.module:factory`` (default: the model's own kind, else
            logistic or ridge by the target's values, a choice that no bound covers).
        eta: largest gain of any attack over blind guessing (default: 0.05, right 55 % of the time).
        epsilon: an ε to explain for these records, at δ = 1e-5 (default: 8).
        confidence: of each certificate and interval (default: 0.95).
        shadows: models trained for each audit (default: 64 up to 10 000 rows; fewer for larger
            tables and quick studies, at least 16).
        columns: feature columns (default: all but the target, identifiers and free text).
        unit: column that identifies the person, so that a record is a person; attacks, counts
            and scores are about each person's first row, releases are made of all rows.
        bounds: YAML or JSON file (or a mapping) with what is public about the columns, for the
            remedy that trains on all rows; see ``memberbound bounds``.
        model: a trained model to examine: its file, or in Python the fitted object; the table holds
            its training rows.
        nonmembers: rows from the same source that the model was not trained on.
        config: YAML file with these options, ``source`` and ``out``; other options override it.
        quick: train fewer models, on at most 10 000 random rows in audits; the table's certificates
            and the release still use all rows.
        out: folder for ``report.html`` and ``report.json``; in Python nothing is written without
            it.
        resume: continue an interrupted study in ``out``; steps with other options, another table or
            another version are repeated.
        force: replace the report of an earlier study in ``out``.
        workers: processes; -1 uses all cores.
        seed: makes the study repeatable (default: 0).
        progress: called with (stage, done, total).

    Command line:
        memberbound study
        memberbound study people.csv --target income --learner logistic --eta 0.05 --out study
        memberbound study train.csv --target income --model model.skops --nonmembers test.csv
        memberbound study --config study.yaml --resume
    """
    keywords = {
        "source": table,
        "target": target,
        "learner": learner,
        "eta": eta,
        "epsilon": epsilon,
        "confidence": confidence,
        "shadows": shadows,
        "columns": columns,
        "roles": roles,
        "unit": unit,
        "database_table": database_table,
        "bounds": bounds,
        "model": model,
        "nonmembers": nonmembers,
        "quick": quick or None,
        "seed": seed,
        "out": out,
    }
    options = {} if config is None else read_configuration(config)
    options |= {name: value for name, value in keywords.items() if value is not None}
    source, destination = options.pop("source", None), options.pop("out", None)
    if isinstance(source, (str, os.PathLike)):
        check_file(source)  # before the first error about its columns
    chosen = tuple(options)
    _check_target(source, options)
    public, model, nonmembers = (options.get(n) for n in ("bounds", "model", "nonmembers"))
    named = {n: _file_name(options[n]) for n in ("bounds", "model", "nonmembers") if n in options}
    question = check_question(options | named)
    given = _load_given_model(source, model, nonmembers, unit=question.unit, trust=trust)
    jobs = -1 if workers == -1 else whole_number("workers", workers, remedy="-1 is all cores.")
    folder = None if destination is None else _check_folder(destination, resume=resume, force=force)
    data = StudyData.read(source, question, public, encoding)
    with nullcontext() if data.source is source else data.source:
        task = data.examples.task
        # Without a named learner, retrain a given model as its own kind.
        own = None if given is None else given.learner(task)
        if "learner" not in options:
            usual = "ridge" if task == "regression" else question.learner
            question = replace(question, learner=own or usual)
        if "shadows" not in options:
            # Beyond 10 000 rows keep rows × models constant; fewer models widen the intervals.
            models = max(16, 64 * 10_000 // max(data.examples.rows, 10_000))
            question = replace(question, shadows=16 if question.quick else models)
        learner_from_name(question.learner, task)  # reject an unknown name before any work
        fits = None if folder is None else str(steps_folder(folder) / "fits")
        name = Path(source).name if isinstance(source, (str, os.PathLike)) else "TABLE"
        run = StudyRun(
            Context(question, data, name, jobs, fits, given, encoding),
            folder,
            resume,
            progress,
            chosen,
            looked_at_target="learner" not in options and own is None,
        )
        report, files = run.finish()
        given_paths = {"source": source, "--bounds": public}
        paths = {
            n: os.fspath(p) for n, p in given_paths.items() if isinstance(p, (str, os.PathLike))
        }
        out = None if folder is None else str(folder)
        return Study(report, out, tuple(map(str, files)), paths)


def _with_paths(command: str, paths: Mapping[str, str]) -> str:
    """Return a command of the report with the paths of its files, so that it runs from here."""
    verb, name, source, *rest = shlex.split(command)
    found = ("", *rest[:-1])
    words = [paths.get(before, word) for before, word in zip(found, rest, strict=True)]
    return shlex.join([verb, name, paths.get("source", source), *words])


def _check_target(source: object, options: Keywords) -> None:
    """Refuse options that do not fit the table; the embedded table has its own target."""
    target = options.setdefault("target", EMBEDDED_TARGET if source is None else None)
    if target is None:
        raise InputError("target must be given with a table: the column that is predicted.")
    if source is None and target != EMBEDDED_TARGET:
        raise InputError(
            f"target must be {EMBEDDED_TARGET!r} for the embedded table, got {target!r}. "
            "Name a file for another one."
        )
    if source is None and "database_table" in options:
        raise InputError("database_table must be left out for the embedded table. Name a file.")


def _load_given_model(
    source: object, model: object, nonmembers: object, *, unit: str | None, trust: bool
) -> StudyModel | None:
    """Load the model that the study is about, if any."""
    if model is None:
        for name, idle in (("nonmembers", nonmembers is None), ("trust", not trust)):
            if not idle:
                raise InputError(f"{name} must come with a model, got none.")
        return None
    if unit is not None:
        raise InputError("unit must be left out with a model: its records are its training rows.")
    return StudyModel.read(model, source, nonmembers, trust=trust)


def _file_name(given: object) -> str:
    """Return the name of a file without its folder, for the report."""
    return Path(given).name if isinstance(given, (str, os.PathLike)) else "given"


def _check_folder(destination: str | os.PathLike[str], *, resume: bool, force: bool) -> Path:
    """Return the output folder, or refuse it before any work is done."""
    folder = Path(destination)
    existing = next((p for p in (folder, *folder.parents) if p.exists()), None)
    if existing is not None and not existing.is_dir():
        raise InputError(
            f"out must be a folder, got {str(destination)!r}, where {existing} is a file."
        )
    if not (resume or force):
        for name in REPORT_FILES:
            if (folder / name).exists():
                raise InputError(
                    f"out must not hold a report yet, got {str(folder / name)!r}. "
                    "Continue it with --resume or replace it with --force."
                )
    return folder
