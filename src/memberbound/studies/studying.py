"""Run a study: one step after the other, each kept, and a report even where one fails."""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from memberbound._version import __version__
from memberbound.declarations import (
    CacheFolder,
    Column,
    ColumnRoles,
    DatabaseTable,
    Force,
    LearnerName,
    Names,
    Option,
    Rates,
    Seed,
    Table,
    Whole,
    Workers,
)
from memberbound.errors import InputError, MemberboundError, whole_number
from memberbound.files import unwritable, write_text
from memberbound.learners import learner_from_name
from memberbound.limits import Limited, Part, Success
from memberbound.papers.results import theorems
from memberbound.quantities import Mark, Readable, marked
from memberbound.report.model import (
    RECORDS,
    LedgerEntry,
    Report,
    Run,
    SandwichRow,
    State,
    StepRecord,
    plain,
    typed_as,
)
from memberbound.report.model import SCHEMA_ID as SCHEMA
from memberbound.report.prose import OWNER_ONLY
from memberbound.studies.question import (
    EMBEDDED_TARGET,
    StudyData,
    StudyModel,
    StudyQuestion,
    read_configuration,
    shadows_for,
)
from memberbound.studies.recommendation import Findings, protects, remedies, verdict
from memberbound.studies.steps import (
    GIVEN,
    STEPS,
    Bench,
    Finished,
    Noised,
    Notebook,
    Said,
    Step,
    fingerprint,
)
from memberbound.tables.source import check_file
from memberbound.verbs.audit_answer import NOT_COMPARABLE

__all__ = [
    "SCHEMA",
    "Study",
    "study",
]

# ── The answer of ``study``: the report, and where it was written ─────────────────────────────────


@dataclass(frozen=True, eq=False, repr=False)
class Study(Readable, Limited):
    """A study: ``report`` is what ``report.json`` holds."""

    VERB: ClassVar = "study"
    FAILS_ON: ClassVar = ("floor", "estimate", "ceiling")
    COMPARED: ClassVar = (
        "how often anybody is right about the worst record of the model as it is (the average "
        "record with --record average or --model)"
    )

    report: Report = field(repr=False)
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
        the table.  The worst record counts where every record was to be protected.
        """
        if self.report.question.model is not None and on != "ceiling":
            row = next((r for r in self.report.sandwich if r.subject == "given"), None)
            success = _success("the given model", "average", row)
            given = self.report.given
            reason = "" if given is None or given.comparable else NOT_COMPARABLE
            return (replace(success, what=f"{success.what}{reason}"),)
        subject = "table" if on == "ceiling" else "model"
        wanted = ("average", "worst") if self.report.question.record == "every" else ("average",)
        rows = {str(row.record): row for row in self.report.sandwich if row.subject == subject}
        label = "any model trained on the table" if on == "ceiling" else "the model as it is"
        return tuple(_success(label, record, rows.get(record)) for record in wanted)

    def to_dict(self) -> dict[str, object]:
        """Return the report with the names of the files written."""
        return self.report.to_dict() | {"out": self.out, "files": list(self.files)}

    def summary(self) -> str:
        """Return the sandwich, the remedies, and at the end the report's path and the verdict."""
        lines = [_row("how often anybody is right", "measured", "estimate", "certified")]
        for label, rows in groupby(self.report.sandwich, key=lambda row: row.label):
            lines.append(label)
            # The promise to everybody is the stronger one and goes first.
            for row in sorted(rows, key=lambda row: row.record, reverse=True):
                idle = row.floor is not None and row.beaten is None
                marks = (Mark("unproved", "blind") if idle else row.least, row.seen, row.most)
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
        return "\n".join(lines)


def _success(label: str, record: str, row: SandwichRow | None) -> Success:
    """Return a row of the sandwich for a limit; nothing in it where its step has failed."""
    what = f"{label}, {record} record"
    if row is None:
        return Success(what)
    numbers = (row.ceiling, row.estimate, row.floor)
    return Success(what, row.blind, *(None if n is None else n.value for n in numbers))


def _row(name: str, floor: str, seen: str, most: str) -> str:
    return f"{name:<28}{floor:>13}{seen:>12}{most:>19}"


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


def study(
    table: Table | None = None,
    *,
    target: Column | None = None,
    learner: LearnerName | None = None,
    eta: float | None = None,
    record: Literal["every", "average"] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    confidence: float | None = None,
    shadows: Annotated[int, Option("whole", metavar="S", least=8, most=10000)] | None = None,
    extra_rows: Whole | None = None,
    columns: Names | None = None,
    roles: ColumnRoles | None = None,
    unit: Column | None = None,
    database_table: DatabaseTable | None = None,
    baseline: Rates | None = None,
    bounds: Annotated[
        Mapping[str, object] | str | os.PathLike[str],
        Option("file", metavar="FILE", web=False),
    ]
    | None = None,
    model: Annotated[object, Option("file", metavar="FILE", web=False)] | None = None,
    nonmembers: Annotated[object, Option("file", metavar="FILE", web=False)] | None = None,
    trust: Annotated[bool, Option("switch", web=False)] = False,
    factory: Annotated[object, Option("text", metavar="NAME", web=False)] | None = None,
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
    cache: CacheFolder | None = None,
    workers: Workers = -1,
    seed: Seed | None = None,
    open_report: Annotated[bool, Option("switch", flag="--open", web=False)] = False,
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
        eta: how far above blind guessing anybody may get (default: 0.05, right 55 % of the time).
        record: who must be protected: ``every`` record or the ``average`` one (default: every).
        epsilon: an ε to explain for these records (default: 8).
        delta: its δ (default: 1e-5).
        confidence: of each certificate and interval (default: 0.95).
        shadows: models trained for each audit (default: 64 up to 10 000 rows; fewer for larger
            tables and quick studies, at least 16).
        extra_rows: how many more rows could be collected (default: 0).
        columns: feature columns (default: all but the target, identifiers and free text).
        roles: column → ``number``, ``category``, ``date``, ``identifier`` or ``text``, to correct
            the inferred role.
        unit: column that identifies the person; only each person's first row is used, so that a
            record is a person.
        database_table: the table inside a DuckDB or SQLite file.
        baseline: chance of guessing something else about a record (an attribute, the record itself)
            without the release; the report bounds it with the release. May be repeated.
        bounds: YAML or JSON file (or a mapping) with what is public about the columns, for the
            remedy that trains on all rows; see ``memberbound bounds``.
        model: a trained model to examine: its file, or in Python the fitted object; the table holds
            its training rows.
        nonmembers: rows from the same source that the model was not trained on.
        trust: load model files that can run code (joblib, pickle); use it only if you trust whoever
            wrote the file.
        factory: for a PyTorch ``state_dict``: the ``package.module:factory`` for the module.
        config: YAML file with these options, ``source`` and ``out``; other options override it.
        quick: train fewer models, and on at most 20 000 random rows where many fits are needed; the
            table's certificates and the release still use all rows.
        out: folder for ``report.html`` and ``report.json``; in Python nothing is written without
            it.
        resume: continue an interrupted study in ``out``; steps with other options, another table or
            another version are repeated.
        force: replace the report of an earlier study in ``out``.
        cache: folder that keeps the audits' finished fits.
        workers: processes; -1 uses all cores.
        seed: makes the study repeatable (default: 0).
        open_report: open the report in a browser.
        progress: called with (what is being done, done, total).

    Command line:
        memberbound study
        memberbound study people.csv --target income --learner logistic --eta 0.05 --out study
        memberbound study train.csv --target income --model model.skops --nonmembers test.csv
        memberbound study --config study.yaml --resume
    """
    options = {
        "target": target,
        "learner": learner,
        "eta": eta,
        "record": record,
        "epsilon": epsilon,
        "delta": delta,
        "confidence": confidence,
        "shadows": shadows,
        "extra_rows": extra_rows,
        "columns": columns,
        "roles": roles,
        "database_table": database_table,
        "unit": unit,
        "baseline": baseline or None,
        "seed": seed,
        "quick": quick or None,
    }
    said = {} if config is None else read_configuration(config)
    named, place, public = (said.pop(name, None) for name in ("source", "out", "bounds"))
    model, nonmembers = (
        said.pop(name, None) if given is None else given
        for name, given in (("model", model), ("nonmembers", nonmembers))
    )
    table = named if table is None else table
    if isinstance(table, (str, os.PathLike)):
        check_file(table)  # before anything is said about its columns
    place = place if out is None else out
    public = public if bounds is None else bounds
    question = replace(
        _question(table, said, options),
        bounds=_name_of(public),
        model=_name_of(model),
        nonmembers=_name_of(nonmembers),
    )
    given = _given(question, table, model, nonmembers, trust=trust, factory=factory)
    jobs = -1 if workers == -1 else whole_number("workers", workers, remedy="-1 is all cores.")
    folder = None if place is None else _folder(place, resume=resume, force=force)
    data = StudyData.read(table, question, public)
    learner_named = learner is not None or said.get("learner") is not None
    if not learner_named:
        task = data.examples.task
        own = None if given is None else given.learner(task)
        usual = "ridge" if task == "regression" else question.learner
        question = replace(question, learner=own or usual)
        learner_named = own is not None
    if shadows is None and said.get("shadows") is None:
        models = shadows_for(data.examples.rows, quick=question.quick)
        question = replace(question, shadows=models)
    learner_from_name(question.learner, data.examples.task)  # refuses an unknown name now
    notebook = None
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            digest = data.sha256 if given is None else f"{data.sha256} {given.sha256}"
            notebook = Notebook.at(folder, fingerprint(question, digest))
        except (FileExistsError, NotADirectoryError) as problem:
            raise InputError(f"out must be a folder that can be written, got {problem}.") from None
        except OSError as problem:
            raise unwritable(str(folder), problem) from problem
    scratch = None if notebook is None else str(notebook.fits)
    bench = Bench(question, data, jobs, None if cache is None else str(cache), scratch, given)
    asked_for = "TABLE" if not isinstance(table, (str, os.PathLike)) else Path(table).name
    chosen = tuple(o for o in options if options[o] is not None or said.get(o) is not None)
    result = _Run(
        bench, notebook, resume, progress, folder, asked_for, chosen, learner_named
    ).finished()
    if open_report and result.files:
        import webbrowser

        webbrowser.open(Path(result.files[0]).resolve().as_uri())
    return result


def _question(
    table: object, said: Mapping[str, object], options: Mapping[str, object]
) -> StudyQuestion:
    wanted = options["target"] if options["target"] is not None else said.get("target")
    if wanted is None:
        if table is not None:
            raise InputError("target must be given with a table: the column that is predicted.")
        wanted = EMBEDDED_TARGET
    elif table is None and wanted != EMBEDDED_TARGET:
        raise InputError(
            f"target must be {EMBEDDED_TARGET!r} for the embedded table, got {wanted!r}. "
            "Name a file for another one."
        )
    asked = StudyQuestion(str(wanted)).with_options(said).with_options(options)
    if table is None and asked.database_table is not None:
        raise InputError("database_table must be left out for the embedded table. Name a file.")
    return asked


def _given(
    question: StudyQuestion,
    table: object,
    model: object,
    nonmembers: object,
    *,
    trust: bool,
    factory: object,
) -> StudyModel | None:
    """Return the model that the study is about, if it is about one."""
    if model is None:
        alone = {"nonmembers": nonmembers, "trust": trust or None, "factory": factory}
        idle = next((name for name, value in alone.items() if value is not None), None)
        if idle is not None:
            raise InputError(f"{idle} must come with a model, got none.")
        return None
    if question.unit is not None:
        raise InputError("unit must be left out with a model: its records are its training rows.")
    return StudyModel.read(model, table, nonmembers, trust=trust, factory=factory)


def _name_of(given: object) -> str | None:
    """Return what a report calls something: the name of its file, without its folder."""
    if given is None:
        return None
    return Path(given).name if isinstance(given, (str, os.PathLike)) else "given"


def _folder(place: str | os.PathLike[str], *, resume: bool, force: bool) -> Path:
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


@dataclass(eq=False)
class _Run:
    """One study under way; ``source`` is what its commands call the table."""

    bench: Bench
    notebook: Notebook | None
    resume: bool
    progress: Progress | None
    folder: Path | None
    source: str
    chosen: tuple[str, ...]
    #: Whether the learner is the caller's, or the given model's own kind.
    learner_named: bool
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    steps: list[Finished] = field(default_factory=list)

    @property
    def plan(self) -> tuple[Step, ...]:
        """The steps, in their order."""
        return STEPS if self.bench.model is None else (GIVEN, *STEPS)

    def finished(self) -> Study:
        """Run every step and write the report; also when the run is interrupted."""
        try:
            for place, step in enumerate(self.plan):
                self.steps.append(self._step(step, place))
        except KeyboardInterrupt:
            self.steps += [
                Finished(step.id, step.title, "stopped", 0.0, "stopped by the user", None)
                for step in self.plan[len(self.steps) :]
            ]
            self._written()
            raise
        if self.notebook is not None and all(s.state != "failed" for s in self.steps):
            # Answers are kept, what they were made from is not.
            shutil.rmtree(self.notebook.fits, ignore_errors=True)
        return self._written()

    def _step(self, step: Step, place: int) -> Finished:
        weights = [each.weight for each in self.plan]
        label = f"{step.title} (step {place + 1} of {len(self.plan)})"

        def advance(done: int, total: int) -> None:
            if self.progress is not None:
                share = int(1000 * step.weight * done / total) if total else 0
                before = 1000 * sum(weights[:place])
                self.progress(label, before + share, 1000 * sum(weights))

        advance(0, 1)
        known = None
        if self.notebook is not None and self.resume:
            known = self.notebook.load(step)
        if known is not None:
            return known
        start = time.perf_counter()
        answer: Said | None = None
        error: str | None = None
        state: State = "failed"
        try:
            found = step.run(self.bench, advance)
            json.dumps(plain(found), allow_nan=False)  # what no report can hold is a failure
            answer, state = found, "done"
        except InputError as problem:
            # A remedy that cannot work is a finding; anything else is a failure.
            state, error = ("impossible" if step.optional else "failed"), str(problem)
        except MemberboundError as problem:
            error = str(problem)
        except Exception as problem:  # a learner may raise anything; the other steps go on
            first = (str(problem).splitlines() or [""])[0]
            error = f"{type(problem).__name__}: {first}"
        seconds = round(time.perf_counter() - start, 3)
        done = Finished(step.id, step.title, state, seconds, error, answer)
        if self.notebook is not None and state in ("done", "impossible"):
            self.notebook.keep(done)
        return done

    def report(self) -> Report:
        """Return what report.json holds."""
        asked, data = self.bench.question, self.bench.data
        answers = {s.id: s.answer for s in self.steps if s.answer is not None}
        found = Findings.of(answers)
        failed = [s.title for s in self.steps if s.state in ("failed", "stopped")]
        refused = {s.id: str(s.error) for s in self.steps if s.state == "impossible"}
        # The embedded table comes with bounds; a command for a file like it has to name them.
        unnamed = data.bounds and asked.bounds is None
        named = replace(asked, bounds="bounds.yaml") if unnamed else asked
        listed = remedies(found, named, self.source, refused)
        choices = []
        if not self.learner_named:
            choices.append(_LEARNER_CHOSEN.format(learner=asked.learner))
        if any(remedy.recommended for remedy in listed):
            choices.append(_REMEDY_CHOSEN)
        used = dict.fromkeys(t for said in answers.values() for t in said.texts("theorems"))
        assumed = dict.fromkeys(s for said in answers.values() for s in _assumed(said))
        return Report(
            command="study",
            version=__version__,
            game="subset",
            protects=protects(asked.record),
            theorems=tuple(used),
            assumptions=(*assumed, *data.population.selection.assumption, *choices),
            schema=SCHEMA,
            status="partial" if failed else "complete",
            verdict=verdict(found, listed, asked, failed),
            question=asked,
            data=data.described(asked.target),
            sandwich=found.sandwich(),
            roc=found.roc(),
            exposure=found.exposure(),
            remedies=tuple(listed),
            translation=found.translation(),
            steps=tuple(_recorded(step) for step in self.steps),
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
            given=None if found.given is None else found.given.given,
        )

    def _written(self) -> Study:
        report = self.report()
        if self.folder is None:
            return Study(report)
        from memberbound.report.page import render

        html, plain = (self.folder / name for name in _FILES)
        write_text(report.to_json(), plain, force=True)
        write_text(render(report), html, force=True)
        return Study(report, str(self.folder), (str(html), str(plain)))


def _recorded(step: Finished) -> StepRecord:
    """Return a step as the report lists it: the verb's dictionary, and that of its audit."""
    said = step.answer
    return StepRecord(
        *(step.id, step.title, step.state, step.seconds, step.error),
        sentence=None if said is None else said.sentence,
        result=None if said is None else said.result,
        audit=said.audit.result if isinstance(said, Noised) else None,
    )


def _assumed(said: Said) -> list[str]:
    audit = said.audit.texts("assumptions") if isinstance(said, Noised) else []
    return said.texts("assumptions") + audit
