"""The verb ``study``: one step after the other, the cheapest remedy that is enough, a report."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
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
from memberbound.learners.examples import learner_from_name
from memberbound.limits import Limited, Part, Success
from memberbound.numerics.rounding import sum_up
from memberbound.papers.results import theorems
from memberbound.quantities import (
    allowed,
    at_confidence,
    confident,
    decimals,
    marked,
    percent,
    points,
)
from memberbound.report import words
from memberbound.report.model import (
    LABELS,
    RECORDS,
    SCHEMA_ID,
    LedgerEntry,
    Level,
    Question,
    Remedy,
    RemedyId,
    Report,
    Run,
    SandwichRow,
    State,
    StepId,
    StepRecord,
    Verdict,
    typed_as,
)
from memberbound.studies.question import (
    EMBEDDED_TARGET,
    StudyData,
    StudyModel,
    checked_question,
    read_configuration,
)
from memberbound.studies.steps import (
    GIVEN,
    STEPS,
    Context,
    Finding,
    Score,
    Step,
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
        """Return the sandwich, the remedies, and at the end the report's path and the verdict."""
        lines = [_row("attack success", "measured", "estimate", "certified")]
        for label, rows in groupby(self.report.sandwich, key=lambda row: row.label):
            lines.append(label)
            # The promise to everybody is the stronger one and goes first.
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
            lines.append(f"  {best.command}")
        return "\n".join(lines)


def _success(label: str, record: str, row: SandwichRow | None) -> Success:
    """Return a row of the sandwich for a limit; nothing in it where its step has failed."""
    what = f"{label}, {record} record"
    if row is None:
        return Success(what)
    numbers = (row.accuracy_upper, row.accuracy_estimate, row.accuracy_lower)
    return Success(what, row.blind, *numbers)


def _row(name: str, floor: str, seen: str, most: str) -> str:
    return f"{name:<28}{floor:>15}{seen:>12}{most:>17}"


# ── The cheapest remedy that is enough, and the verdict in one sentence ───────────────────────────
#
# A remedy is *enough* if it is certified, about every record, that nobody gains more than η over
# blind guessing (which is right ½ of the time, or ½ + 1/2N for halves of an odd number N of
# records).  More rows never are: what is proved of single records holds for values that already
# occur.  Recommended is nothing, if nothing is needed; else the change that is enough with the
# smallest loss of score, and of those that score alike the one that promises most.  A change after
# which the model is no better than one fixed answer is never recommended.

#: The findings of the steps that have one.
Findings = Mapping[StepId, Finding]
#: Scores that differ by less than this are alike.
_ALIKE = 0.01


#: The steps that look for a remedy, in the order of the report.
_LISTED: tuple[StepId, ...] = (
    *("certify", "rows", "coarser", "synthetic", "protect-every", "protect-other"),
)


def remedies(findings: Findings) -> list[Remedy]:
    """Return every remedy that was found, with what it costs, and which one is recommended."""
    before = _score_as_it_is(findings)
    listed = []
    for step in _LISTED:
        finding = findings.get(step)
        if finding is not None and finding.remedy is not None:
            score = before if step == "certify" else finding.score
            listed.append(_priced(finding.remedy, before, score))
    best = _cheapest(listed)
    return [replace(remedy, recommended=remedy is best) for remedy in listed]


def _score_as_it_is(findings: Findings) -> Score | None:
    """Return how well the model as it is predicts: the given one, else the learner's."""
    finding = findings.get("given") or findings.get("audit")
    return None if finding is None else finding.score


def _cheapest(listed: list[Remedy]) -> Remedy | None:
    enough = [remedy for remedy in listed if remedy.enough]
    for remedy in enough:
        # What is proved of the table is proved, however well the model predicts.
        if remedy.id == "nothing":
            return remedy
    useful = [remedy for remedy in enough if remedy.above_chance is not False]
    losses = [remedy.loss_estimate for remedy in useful if remedy.loss_estimate is not None]
    least = min(losses, default=math.inf)

    def rank(remedy: Remedy) -> tuple[bool, bool, float]:
        # A loss that could not be measured counts as the largest.
        loss = math.inf if remedy.loss_estimate is None else remedy.loss_estimate
        return loss > least + _ALIKE, remedy.game != "neighbour", loss

    return min(useful, key=rank, default=None)


def _priced(remedy: Remedy, before: Score | None, after: Score | None) -> Remedy:
    """Return a remedy with what it costs, beside the score of the model as it is."""
    if after is None:
        return remedy
    remedy = replace(remedy, above_chance=after.estimate > after.chance)
    if before is None:  # the audit of the model as it is has failed
        return remedy
    return replace(
        remedy,
        score_name=before.name,
        score_before_estimate=before.estimate,
        score_after_estimate=after.estimate,
        loss_estimate=before.estimate - after.estimate,
    )


def verdict(
    findings: Findings, listed: Sequence[Remedy], question: Question, failed: Sequence[str]
) -> Verdict:
    """Return the verdict: a level, one sentence, and what to do; ``failed`` has titles of steps."""
    chosen = next((remedy for remedy in listed if remedy.recommended), None)
    safe = chosen is not None and chosen.id == "nothing"
    given = findings.get("given")
    unmeasured = None if given is None else given.not_comparable
    # Use one pre-specified lower bound, to avoid selecting the best of several.
    subject: StepId = "audit" if given is None else "given"
    attacked = findings[subject].rows if subject in findings else ()
    proved = _proved_leak(attacked, question)
    level: Level = "unproved"
    if chosen is not None and safe:
        level = "safe"
        now = f"As it is, {_nobody(chosen)}, whatever is trained on this table."
    elif proved is not None:
        level, now = "exposed", proved
    elif unmeasured is not None:
        now = "No guarantee for the given model: no attack on it could be measured."
    else:
        audited = findings.get("audit")
        blind = 0.5 if audited is None else audited.rows[0].blind
        now = (
            "There is no guarantee for the model as it is: no attack was shown to be right about "
            f"any record more than {allowed(blind, question.eta)} of the time, but a better one "
            "may exist."
        )
    if unmeasured is not None:
        now += f" {unmeasured}"
    if failed:
        level = "partial" if level != "exposed" else level
        now += f" This study is incomplete, without an answer from: {', '.join(failed)}."
    too_few = not any(remedy.game == "neighbour" for remedy in listed)
    return Verdict(level, now, _advice(chosen, question, too_few=too_few))


def _proved_leak(attacked: Sequence[SandwichRow], question: Question) -> str | None:
    """Return what attacks have proved against the model as it is, if more than is allowed.

    The floors about the average and about the worst record hold together at the confidence of the
    study, so taking one after looking is paid for (proofs/audit-subset-game.md claim 6).
    """
    sure = f"(confidence {confident(question.confidence)})"
    for row in attacked:
        if row.accuracy_lower is None or row.accuracy_lower <= sum_up(row.blind, question.eta):
            continue
        least = percent(row.accuracy_lower, "lower")
        if row.record == "average":
            model = "the given model" if row.subject == "given" else "the model"
            return (
                f"As it is, {model} leaks its training records: an attack is right about the "
                f"average record at least {least} of the time {sure}."
            )
        return (
            "As it is, the model leaks some of its training records: an attack is right about one "
            f"of them at least {least} of the time {sure}."
        )
    return None


def _nobody(chosen: Remedy) -> str:
    """Return who is right how often at most, with what they know: a bound is one of its game."""
    whom = "any record's"
    if chosen.game == "iid":
        who = "nobody who knows the source of the records but not the table"
        whom = "any of its records'"
    else:
        who = "nobody, not even somebody who knows all other records,"
    sure = "" if chosen.confidence is None else at_confidence(chosen.confidence)
    most = percent(chosen.accuracy_upper, "upper")
    return f"{who} is right about {whom} membership more than {most} of the time{sure}"


#: What a remedy puts in the place of the model.
_WHAT: dict[RemedyId, str] = {
    "coarser": "the model trained on coarser columns",
    "synthetic": "the model trained on a table of new rows",
    "noise-every": "a {learner} model of all rows with noise",
    "noise-other": "a {learner} model of all rows with noise",
}


def _advice(chosen: Remedy | None, question: Question, *, too_few: bool) -> str:
    if chosen is None:
        ways = "Allow"
        if too_few:
            ways = "Give public bounds for the columns (memberbound bounds) or more rows, allow"
        return (
            "None of the remedies tried is certified to keep everybody within "
            f"{points(question.eta)} of blind guessing and leaves a useful model. {ways} a larger "
            "eta, or protect the average record only (memberbound harden, memberbound "
            "protect-half)."
        )
    if chosen.id == "nothing":
        return "Nothing needs to be changed."
    what = _WHAT[chosen.id].format(learner=chosen.learner)
    cost = ""
    if chosen.loss_estimate is not None:
        before, after = chosen.score_before_estimate, chosen.score_after_estimate
        yours = "yours, about" if question.model is not None else "about"
        usual = "" if question.model is not None else " as it is"
        cost = (
            f", {chosen.score_name} about {decimals(after, 'estimate', 3)} against {yours} "
            f"{decimals(before, 'estimate', 3)}{usual}"
        )
    return f"Replace it: {what}{cost}. Then {_nobody(chosen)}."


# ── Run a study: one step after the other, each kept, and a report even where one fails ───────────

_FILES = ("report.html", "report.json")
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
        progress: called with (what is being done, done, total).

    Command line:
        memberbound study
        memberbound study people.csv --target income --learner logistic --eta 0.05 --out study
        memberbound study train.csv --target income --model model.skops --nonmembers test.csv
        memberbound study --config study.yaml --resume
    """
    asked = {f.name for f in fields(Question)} | {"out"}
    keywords = {name: value for name, value in locals().items() if name in asked}
    keywords |= {"source": table, "quick": quick or None}
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
    with nullcontext() if data.source is source else data.source:
        task = data.examples.task
        # The model's own kind, where there is a model and no learner was named.
        own = None if given is None else given.learner(task)
        if "learner" not in options:
            usual = "ridge" if task == "regression" else question.learner
            question = replace(question, learner=own or usual)
        if "shadows" not in options:
            # Rows times models stay the same beyond 10 000 rows; fewer models give wider intervals.
            models = max(16, 64 * 10_000 // max(data.examples.rows, 10_000))
            question = replace(question, shadows=16 if question.quick else models)
        learner_from_name(question.learner, task)  # refuses an unknown name now
        fits = None if folder is None else str(_steps_of(folder) / "fits")
        name = Path(source).name if isinstance(source, (str, os.PathLike)) else "TABLE"
        return _Run(
            Context(question, data, name, jobs, fits, given),
            folder,
            resume,
            progress,
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


def _steps_of(out: Path) -> Path:
    """Return the folder of the finished steps inside a study's output folder."""
    folder = out / ".steps"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as problem:
        raise InputError(f"out must be a folder that can be written, got {problem}.") from None
    except OSError as problem:
        raise unwritable(str(out), problem) from problem
    return folder


@dataclass(eq=False)
class _Run:
    """One study under way."""

    context: Context
    out: Path | None
    resume: bool
    progress: Progress | None
    chosen: tuple[str, ...]
    #: Whether the learner was chosen by looking at the target's values.
    looked_at_target: bool
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    records: list[StepRecord] = field(default_factory=list)
    findings: dict[StepId, Finding] = field(default_factory=dict)

    def finished(self) -> Study:
        """Run every step and write the report; also when the run is interrupted."""
        steps = STEPS if self.context.model is None else (GIVEN, *STEPS)
        try:
            for place in range(len(steps)):
                self._take(steps, place)
        except KeyboardInterrupt:
            self.records += [
                StepRecord(step.id, step.title, "stopped", 0.0, "stopped by the user", None, None)
                for step in steps[len(self.records) :]
            ]
            self._write()
            raise
        if self.context.fits is not None and all(r.state != "failed" for r in self.records):
            # Answers are kept, what they were made from is not.
            shutil.rmtree(self.context.fits, ignore_errors=True)
        return self._write()

    def _take(self, steps: Sequence[Step], place: int) -> None:
        """Take one step, or what an earlier run kept of it."""
        step, weights = steps[place], [each.weight for each in steps]

        def advance(done: int, total: int) -> None:
            if self.progress is not None:
                share = int(1000 * step.weight * done / total) if total else 0
                label = f"{step.title} (step {place + 1} of {len(steps)})"
                before = 1000 * sum(weights[:place])
                self.progress(label, before + share, 1000 * sum(weights))

        advance(0, 1)
        if self.resume and self._resumed(step):
            return
        start, finding, error = time.perf_counter(), None, None
        state: State = "failed"
        try:
            answer = step.run(self.context, advance)
            json.dumps(asdict(answer), allow_nan=False)  # what no report can hold is a failure
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
        sentence, result = (None, None) if finding is None else (finding.sentence, finding.result)
        record = StepRecord(step.id, step.title, state, seconds, error, sentence, result)
        self.records.append(record)
        if finding is not None:
            self.findings[step.id] = finding
        if self.out is not None and state in ("done", "impossible"):
            kept = [self._key, asdict(record), None if finding is None else asdict(finding)]
            text = json.dumps(kept, ensure_ascii=False, allow_nan=False)
            write_text(text, self._page_of(step), force=True)

    # Finished steps on disk, so that a stopped study goes on where it stopped: a page per step.

    @property
    def _key(self) -> str:
        """What the answers depend on, as one SHA-256; a page with another one is not used."""
        question, data, model = self.context.question, self.context.data, self.context.model
        digests = (data.sha256, None if model is None else model.sha256)
        text = json.dumps([asdict(question), digests, __version__], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _page_of(self, step: Step) -> Path:
        assert self.out is not None
        return self.out / ".steps" / f"{step.id}.json"

    def _resumed(self, step: Step) -> bool:
        """Take what an earlier run of exactly this study found, if there is such a page."""
        try:
            key, record, finding = json.loads(self._page_of(step).read_text(encoding="utf-8"))
            if key != self._key:
                return False
            typed = None if finding is None else typed_as(Finding, finding, step.id)
            self.records.append(typed_as(StepRecord, record, step.id))
        except (AssertionError, OSError, ValueError, KeyError, TypeError, RecursionError):
            return False  # a missing or damaged page is written again
        if typed is not None:
            self.findings[step.id] = typed
        return True

    def report(self) -> Report:
        """Return what report.json holds."""
        question, data = self.context.question, self.context.data
        failed = [r.title for r in self.records if r.state in ("failed", "stopped")]
        listed, findings = remedies(self.findings), self.findings.values()
        texts, choices = words()["choices"], []
        if self.looked_at_target:
            choices.append(texts["learner"].format(learner=question.learner))
        if any(remedy.recommended for remedy in listed):
            choices.append(texts["remedy"])
        if question.unit is not None:
            choices.append(texts["unit"])
        assumed = dict.fromkeys(text for f in findings for text in f.assumptions)
        used = tuple(dict.fromkeys(id for f in findings for id in f.theorems))
        entries = (entry for id in used for entry in theorems(id).results)
        order = list(LABELS)
        return Report(
            command="study",
            version=__version__,
            game="subset",
            protects="every record",
            theorems=used,
            assumptions=(*assumed, *data.examples.selection.assumption, *choices),
            schema=SCHEMA_ID,
            status="partial" if failed else "complete",
            verdict=verdict(self.findings, listed, question, failed),
            question=question,
            data=data.described(question.target),
            sandwich=tuple(
                sorted(
                    (row for f in findings for row in f.rows),
                    key=lambda row: order.index(row.subject),
                )
            ),
            roc=tuple(f.roc for f in findings if f.roc is not None),
            exposure=next((f.exposure for f in findings if f.exposure is not None), None),
            remedies=tuple(listed),
            steps=tuple(self.records),
            ledger=tuple(LedgerEntry(e.id, e.title, e.statement, e.status) for e in entries),
            run=Run(
                started=self.started.isoformat(timespec="seconds"),
                seconds=round(sum(record.seconds for record in self.records), 1),
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
