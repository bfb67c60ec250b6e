"""The verb ``study``: one step after the other, and a report even where one of them fails."""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, ClassVar

from memberbound._version import __version__
from memberbound.answers import INTERNAL, Answer
from memberbound.declarations import (
    Column,
    ColumnRoles,
    DatabaseTable,
    Encoding,
    Force,
    LearnerName,
    Names,
    Option,
    Table,
    Workers,
)
from memberbound.errors import InputError, MemberboundError, whole_number
from memberbound.files import in_encoding, unwritable, write_text
from memberbound.learners import learner_from_name
from memberbound.limits import Limited, Part, Success
from memberbound.papers.results import theorems
from memberbound.quantities import NO_LEAK, Mark, marked
from memberbound.report.model import (
    LABELS,
    RECORDS,
    SCHEMA_ID,
    LedgerEntry,
    Report,
    Run,
    SandwichRow,
    State,
    plain,
    typed_as,
)
from memberbound.report.prose import OWNER_ONLY
from memberbound.studies.question import (
    EMBEDDED_TARGET,
    StudyData,
    StudyModel,
    checked_question,
    default_shadows,
    read_configuration,
)
from memberbound.studies.recommendation import remedies, verdict
from memberbound.studies.steps import (
    GIVEN,
    STEPS,
    Context,
    Finding,
    Finished,
    Step,
    StepFolder,
    fingerprint,
)
from memberbound.tables.source import check_file
from memberbound.verbs.audit_answer import NOT_COMPARABLE

# ── The answer of ``study``: the report, and where it was written ─────────────────────────────────


@dataclass(frozen=True, eq=False, repr=False)
class Study(Answer, Limited):
    """A study: ``report`` is what ``report.json`` holds, and has a schema of its own."""

    VERB: ClassVar = "study"
    FAILS_ON: ClassVar = ("floor", "estimate", "ceiling")
    COMPARED: ClassVar = (
        "attack success on the worst record of the model as it is (on the average record of a "
        "given model)"
    )

    report: Report = field(metadata=INTERNAL)
    out: str | None = None
    files: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every step ended with an answer."""
        return self.report.complete

    @property
    def failure(self) -> str | None:
        """What the command ends with where a step has failed."""
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
        """Which columns nobody looked at, and why."""
        data = self.report.data
        left = [f"{c!r} ({data.roles[c]})" for c in data.left_out]
        if not left:
            return ()
        return (
            f"left out: {', '.join(left)}; name them in columns, or give them another role, to use "
            "them",
        )

    def successes(self, on: Part) -> tuple[Success, ...]:
        """Return what a limit is about: the model as it is, its average and its worst record.

        Nothing is proved about one learner without noise, so a ceiling is that of any learner on
        the table.
        """
        if self.report.question.model is not None and on != "ceiling":
            row = next((r for r in self.report.sandwich if r.subject == "given"), None)
            success = _success("the given model", "average", row)
            given = self.report.answer("given")
            reason = "" if given is None or given["comparable"] else NOT_COMPARABLE
            return (replace(success, what=f"{success.what}{reason}"),)
        subject = "table" if on == "ceiling" else "model"
        rows = {str(row.record): row for row in self.report.sandwich if row.subject == subject}
        label = "any model trained on the table" if on == "ceiling" else "the model as it is"
        return tuple(_success(label, record, rows.get(record)) for record in ("average", "worst"))

    def to_dict(self) -> dict[str, object]:
        """Return the report with the names of the files written."""
        return self.report.to_dict() | {"out": self.out, "files": list(self.files)}

    def summary(self) -> str:
        """Return the sandwich, the remedies, and at the end the report's path and the verdict."""
        lines = [_row("attack success", "measured", "estimate", "certified")]
        for label, rows in groupby(self.report.sandwich, key=lambda row: row.label):
            lines.append(label)
            # The promise to everybody is the stronger one and goes first.
            for row in sorted(rows, key=lambda row: row.record, reverse=True):
                idle = row.floor is not None and row.beaten is None
                marks = (Mark("unproved", NO_LEAK) if idle else row.least, row.seen, row.most)
                texts = ("–" if mark is None else str(mark) for mark in marks)
                lines.append(_row(f"  {RECORDS[row.record]}", *texts))
        lines += ["", f"{'remedy':<40}{'certified':>18}  enough"]
        for remedy in self.report.remedies:
            most = str(marked(remedy.accuracy_upper, "certificate"))
            mark = "yes, recommended" if remedy.recommended else "yes" if remedy.enough else "no"
            lines.append(f"{remedy.label:<40}{most:>18}  {mark}")
            if remedy.price is not None and remedy.id != "nothing":
                lines.append(f"  {remedy.price.name} {remedy.price}")
        for step in self.report.steps_in("impossible", "failed", "stopped"):
            lines.append(f"note: {step.title}: {step.error}")
        lines += [f"note: {note}." for note in self.warnings]
        lines += ["", *(f"wrote {name}" for name in self.files)]
        lines += ["", f"note: {OWNER_ONLY}"]
        lines += ["", self.report.verdict.sentence, self.report.verdict.advice]
        best = self.report.recommended
        if best is not None and best.command is not None:
            lines.append(f"  {best.command}")
        return "\n".join(lines)


def _success(label: str, record: str, row: SandwichRow | None) -> Success:
    """Return a row of the sandwich for a limit; nothing in it where its step has failed."""
    what = f"{label}, {record} record"
    if row is None:
        return Success(what)
    numbers = (row.ceiling, row.estimate, row.floor)
    return Success(what, row.blind, *(None if n is None else n.value for n in numbers))


def _row(name: str, floor: str, seen: str, most: str) -> str:
    return f"{name:<28}{floor:>15}{seen:>12}{most:>17}"


# ── Run a study: one step after the other, each kept, and a report even where one fails ───────────

_FILES = ("report.html", "report.json")
_LEARNER_CHOSEN = (
    "The learner ({learner}) was chosen by looking at the target's values. No bound covers what "
    "this choice tells about them; name a learner to choose without looking."
)
_REMEDY_CHOSEN = (
    "The recommended remedy was chosen by bounds and scores computed from the rows. No bound "
    "covers what this choice tells about them."
)
Progress = Callable[[str, int, int], None]


@in_encoding
def study(
    table: Table | None = None,
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
    progress: Annotated[Progress, Option("progress")] | None = None,
) -> Study:
    """Certify a table, attack and protect a model, and recommend what to do: one report.

    With a ``model`` the report is about that one: the table holds its training rows, ``nonmembers``
    others, and the remedies say what retraining with them would promise and cost.
    Without a table the embedded data set is studied.  Nothing is released: the protected models
    are made for trial, from the study's seed, and thrown away.

    Guarantee: every certificate in the report is that of the verb that made it, with its game, its
    confidence and its assumptions; they hold one by one, not all at once.
    Edge cases: a step that fails is reported as such and the others go on; a remedy that cannot
    work (no noise form for a random forest) is a finding.  Bad options are refused before any work.

    Args:
        table: a file or a table (default: the embedded data set).
        target: column to predict.
        learner: a short name or ``package.module:factory`` (default: the model's own kind, else
            logistic or ridge by the target's values, a choice that no bound covers).
        eta: largest gain of any attack over blind guessing (default: 0.05, right 55 % of the time).
        epsilon: an ε to explain for these records, at δ = 1e-5 (default: 8).
        confidence: of each certificate and interval (default: 0.95).
        shadows: models trained for each audit (default: 64 up to 10 000 rows; fewer for larger
            tables and quick studies, at least 16).
        columns: feature columns (default: all but the target, identifiers and free text).
        roles: column → ``number``, ``category``, ``date``, ``identifier`` or ``text``, to correct
            the inferred role.
        unit: column that identifies the person, so that a record is a person; attacks and counts
            look at each person's first row, releases use all rows.
        database_table: the table inside a DuckDB or SQLite file.
        encoding: encoding of CSV files, such as latin-1 or cp1252; UTF-8 unless named.
        bounds: YAML or JSON file (or a mapping) with what is public about the columns, for the
            remedy that trains on all rows; see ``memberbound bounds``.
        model: a trained model to examine: its file, or in Python the fitted object; the table holds
            its training rows.
        nonmembers: rows from the same source that the model was not trained on.
        trust: load model files that can run code (joblib, pickle); use it only if you trust whoever
            wrote the file.
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
        progress: called with (what is being done, done, total).

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
        "database_table": database_table,
        "unit": unit,
        "bounds": bounds,
        "model": model,
        "nonmembers": nonmembers,
        "quick": quick or None,
        "seed": seed,
        "out": out,
    }
    options = {} if config is None else read_configuration(config)
    options |= {name: value for name, value in keywords.items() if value is not None}
    source, place = options.pop("source", None), options.pop("out", None)
    if isinstance(source, (str, os.PathLike)):
        check_file(source)  # before anything is said about its columns
    chosen = tuple(options)
    _check_target(source, options)
    public, model, nonmembers = (options.get(n) for n in ("bounds", "model", "nonmembers"))
    named = {n: _file_name(options[n]) for n in ("bounds", "model", "nonmembers") if n in options}
    question = checked_question(options | named)
    given = _given_model(source, model, nonmembers, unit=question.unit, trust=trust)
    jobs = -1 if workers == -1 else whole_number("workers", workers, remedy="-1 is all cores.")
    folder = None if place is None else _checked_folder(place, resume=resume, force=force)
    data = StudyData.read(source, question, public)
    with nullcontext() if data.opened is source else data.opened:
        task = data.examples.task
        # The model's own kind, where there is a model and no learner was named.
        own = None if given is None else given.learner(task)
        if "learner" not in options:
            usual = "ridge" if task == "regression" else question.learner
            question = replace(question, learner=own or usual)
        if "shadows" not in options:
            models = default_shadows(data.examples.rows, quick=question.quick)
            question = replace(question, shadows=models)
        learner_from_name(question.learner, task)  # refuses an unknown name now
        kept = None
        if folder is not None:
            digest = data.sha256 if given is None else f"{data.sha256} {given.sha256}"
            kept = _step_folder(folder, fingerprint(question, digest))
        fits = None if kept is None else str(kept.fits)
        return _Run(
            Context(question, data, jobs, fits, given),
            folder,
            kept if resume else None,
            kept,
            progress,
            Path(source).name if isinstance(source, (str, os.PathLike)) else "TABLE",
            chosen,
            looked_at_target="learner" not in options and own is None,
        ).finished()


def _check_target(source: object, options: dict[str, Any]) -> None:
    """Refuse options that do not fit the table; the embedded one has its own target."""
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


def _given_model(
    source: object, model: object, nonmembers: object, *, unit: str | None, trust: bool
) -> StudyModel | None:
    """Return the model that the study is about, if it is about one."""
    if model is None:
        for name, idle in (("nonmembers", nonmembers is None), ("trust", not trust)):
            if not idle:
                raise InputError(f"{name} must come with a model, got none.")
        return None
    if unit is not None:
        raise InputError("unit must be left out with a model: its records are its training rows.")
    return StudyModel.read(model, source, nonmembers, trust=trust)


def _file_name(given: object) -> str:
    """Return what a report calls something: the name of its file, without its folder."""
    return Path(given).name if isinstance(given, (str, os.PathLike)) else "given"


def _checked_folder(place: str | os.PathLike[str], *, resume: bool, force: bool) -> Path:
    """Refuse a folder that cannot be used, before any work is done."""
    folder = Path(place)
    existing = next((p for p in (folder, *folder.parents) if p.exists()), None)
    if existing is not None and not existing.is_dir():
        raise InputError(f"out must be a folder, got {str(place)!r}, where {existing} is a file.")
    if not (resume or force):
        for name in _FILES:
            if (folder / name).exists():
                raise InputError(
                    f"out must not hold a report yet, got {str(folder / name)!r}. "
                    "Continue it with --resume or replace it with --force."
                )
    return folder


def _step_folder(out: Path, key: str) -> StepFolder:
    try:
        out.mkdir(parents=True, exist_ok=True)
        return StepFolder.inside(out, key)
    except (FileExistsError, NotADirectoryError) as problem:
        raise InputError(f"out must be a folder that can be written, got {problem}.") from None
    except OSError as problem:
        raise unwritable(str(out), problem) from problem


@dataclass(eq=False)
class _Run:
    """One study under way; ``source`` is what its commands call the table."""

    context: Context
    out: Path | None
    #: Finished steps of an earlier run to take, and where to keep those of this one.
    earlier: StepFolder | None
    kept: StepFolder | None
    progress: Progress | None
    source: str
    chosen: tuple[str, ...]
    #: Whether the learner was chosen by looking at the target's values.
    looked_at_target: bool
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    steps: list[Finished] = field(default_factory=list)

    @property
    def plan(self) -> tuple[Step, ...]:
        """The steps, in their order."""
        return STEPS if self.context.model is None else (GIVEN, *STEPS)

    def finished(self) -> Study:
        """Run every step and write the report; also when the run is interrupted."""
        try:
            for place, step in enumerate(self.plan):
                self.steps.append(self._step(step, place))
        except KeyboardInterrupt:
            self.steps += [
                Finished(step.id, step.title, "stopped", error="stopped by the user")
                for step in self.plan[len(self.steps) :]
            ]
            self._write()
            raise
        if self.kept is not None and all(s.state != "failed" for s in self.steps):
            # Answers are kept, what they were made from is not.
            shutil.rmtree(self.kept.fits, ignore_errors=True)
        return self._write()

    def _step(self, step: Step, place: int) -> Finished:
        weights = [each.weight for each in self.plan]
        label = f"{step.title} (step {place + 1} of {len(self.plan)})"

        def advance(done: int, total: int) -> None:
            if self.progress is not None:
                share = int(1000 * step.weight * done / total) if total else 0
                before = 1000 * sum(weights[:place])
                self.progress(label, before + share, 1000 * sum(weights))

        advance(0, 1)
        earlier = None if self.earlier is None else self.earlier.load(step)
        if earlier is not None:
            return earlier
        start = time.perf_counter()
        finding: Finding | None = None
        error: str | None = None
        state: State = "failed"
        try:
            answer = step.run(self.context, advance)
            json.dumps(plain(answer), allow_nan=False)  # what no report can hold is a failure
            finding, state = answer, "done"
        except InputError as problem:
            # A remedy that cannot work is a finding; anything else is a failure.
            state, error = ("impossible" if step.optional else "failed"), str(problem)
        except MemberboundError as problem:
            error = str(problem)
        except Exception as problem:  # a learner may raise anything; the other steps go on
            first = (str(problem).splitlines() or [""])[0]
            error = f"{type(problem).__name__}: {first}"
        seconds = round(time.perf_counter() - start, 3)
        ended = Finished(step.id, step.title, state, seconds, error, finding)
        if self.kept is not None and state in ("done", "impossible"):
            self.kept.keep(ended)
        return ended

    def report(self) -> Report:
        """Return what report.json holds."""
        question, data = self.context.question, self.context.data
        findings = {s.id: s.finding for s in self.steps if s.finding is not None}
        failed = [s.title for s in self.steps if s.state in ("failed", "stopped")]
        refused = [s.id for s in self.steps if s.state == "impossible"]
        # The embedded table comes with bounds; a command for a file like it has to name them.
        unnamed = data.bounds and question.bounds is None
        named = replace(question, bounds="bounds.yaml") if unnamed else question
        # What was left out of the rehearsal is left out of the release.
        some = tuple(data.examples.columns) if data.population.selection.left_out else None
        listed = remedies(findings, named, self.source, refused, some)
        parts = findings.values()
        choices = []
        if self.looked_at_target:
            choices.append(_LEARNER_CHOSEN.format(learner=question.learner))
        if any(remedy.recommended for remedy in listed):
            choices.append(_REMEDY_CHOSEN)
        assumed = dict.fromkeys(text for part in parts for text in part.assumptions)
        used = tuple(dict.fromkeys(theorem for part in parts for theorem in part.theorems))
        subjects = list(LABELS)
        return Report(
            command="study",
            version=__version__,
            game="subset",
            protects="every record",
            theorems=used,
            assumptions=(*assumed, *data.population.selection.assumption, *choices),
            schema=SCHEMA_ID,
            status="partial" if failed else "complete",
            verdict=verdict(findings, listed, question, failed),
            question=question,
            data=data.described(question.target),
            sandwich=tuple(
                sorted(
                    (row for part in parts for row in part.rows),
                    key=lambda row: subjects.index(row.subject),
                )
            ),
            roc=tuple(
                sorted(
                    (curve for part in parts for curve in part.roc),
                    key=lambda curve: curve.kind == "certificate",
                )
            ),
            exposure=tuple(p.exposure for p in parts if p.exposure is not None),
            remedies=tuple(listed),
            steps=tuple(step.record for step in self.steps),
            ledger=tuple(
                typed_as(LedgerEntry, entry.to_dict(), "ledger")
                for id in used
                for entry in theorems(id).results
            ),
            run=Run(
                started=self.started.isoformat(timespec="seconds"),
                seconds=round(sum(step.seconds for step in self.steps), 1),
                python=platform.python_version(),
                chosen=self.chosen,
            ),
        )

    def _write(self) -> Study:
        report = self.report()
        if self.out is None:
            return Study(report)
        from memberbound.report.page import render

        page, document = (self.out / name for name in _FILES)
        write_text(report.to_json(), document, force=True)
        write_text(render(report), page, force=True)
        return Study(report, str(self.out), (str(page), str(document)))
