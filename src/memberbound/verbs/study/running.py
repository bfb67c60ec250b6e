"""Run the steps of a study, store each one on disk, and write a report even if some fail."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from memberbound._version import __version__
from memberbound.errors import InputError, MemberboundError, unwritable
from memberbound.files import make_private_folder, write_text
from memberbound.leaves import load_leaf
from memberbound.report import words
from memberbound.report.fields import StepId, StepState
from memberbound.report.model import LABELS, SCHEMA_ID, Report, Run, StepRecord, UsedTheorem
from memberbound.report.parsing import parse_as
from memberbound.verbs.study.findings import Context, Finding
from memberbound.verbs.study.steps import GIVEN, STEPS, Step
from memberbound.verbs.study.verdict import remedies, verdict

REPORT_FILES = ("report.html", "report.json")
#: Called with (current step, work done, total work).
StudyProgress = Callable[[str, int, int], None]


def steps_folder(out: Path) -> Path:
    """Create and return the folder of finished steps inside a study's output folder."""
    folder = out / ".steps"
    try:
        make_private_folder(folder)
    except (FileExistsError, NotADirectoryError) as problem:
        raise InputError(f"out must be a folder that can be written, got {problem}.") from None
    except OSError as problem:
        raise unwritable(str(out), problem) from problem
    return folder


def _ledger(used: Sequence[str]) -> tuple[UsedTheorem, ...]:
    """Return the statements of theorems, or none without the leaf that lists them."""
    try:
        listed = load_leaf("papers").find_results
    except InputError:
        return ()
    entries = (entry for name in used for entry in listed(name))
    return tuple(UsedTheorem(e.id, e.title, e.statement, e.status) for e in entries)


@dataclass(eq=False)
class StudyRun:
    """A running study."""

    context: Context
    out: Path | None
    resume: bool
    progress: StudyProgress | None
    chosen: tuple[str, ...]
    #: Whether the learner was chosen by looking at the target's values.
    looked_at_target: bool
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    records: list[StepRecord] = field(default_factory=list)
    findings: dict[StepId, Finding] = field(default_factory=dict)

    def finish(self) -> tuple[Report, tuple[Path, ...]]:
        """Run every step, write the report (also after an interruption), and return both."""
        steps = STEPS if self.context.model is None else (GIVEN, *STEPS)
        try:
            for index in range(len(steps)):
                self._run_step(steps, index)
        except KeyboardInterrupt:
            self.records += [
                StepRecord(step.id, step.title, "stopped", 0.0, "stopped by the user", None, None)
                for step in steps[len(self.records) :]
            ]
            self._write()
            raise
        if self.context.fits is not None and all(r.state != "failed" for r in self.records):
            # Keep the answers and delete the fits.
            shutil.rmtree(self.context.fits, ignore_errors=True)
        return self._write()

    def _run_step(self, steps: Sequence[Step], index: int) -> None:
        """Run one step, or load its stored finding from an earlier run."""
        step, weights = steps[index], [each.weight for each in steps]

        def advance(done: int, total: int) -> None:
            if self.progress is not None:
                share = int(1000 * step.weight * done / total) if total else 0
                label = f"{step.title} (step {index + 1} of {len(steps)})"
                before = 1000 * sum(weights[:index])
                self.progress(label, before + share, 1000 * sum(weights))

        advance(0, 1)
        if self.resume and self._load(step):
            return
        start, finding, error = time.perf_counter(), None, None
        state: StepState = "failed"
        try:
            answer = step.run(self.context, advance)
            json.dumps(asdict(answer), allow_nan=False)  # a NaN fails the step
            finding, state = answer, "done"
        except InputError as problem:
            # A remedy that cannot work is a finding; any other error is a failure.
            state, error = ("impossible" if step.optional else "failed"), str(problem)
        except MemberboundError as problem:
            error = str(problem)
        except Exception as problem:  # a learner may raise anything; the other steps continue
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
            write_text(text, self._page_of(step), force=True, private=True)

    # Finished steps are kept on disk, one page each, so that an interrupted study can resume.

    @property
    def _key(self) -> str:
        """SHA-256 of all inputs of the answers; pages with another key are ignored."""
        question, data, model = self.context.question, self.context.data, self.context.model
        digests = (data.sha256, None if model is None else model.sha256)
        text = json.dumps([asdict(question), digests, __version__], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _page_of(self, step: Step) -> Path:
        assert self.out is not None
        return self.out / ".steps" / f"{step.id}.json"

    def _load(self, step: Step) -> bool:
        """Load the finding of an earlier run of the same study; return whether there was one."""
        try:
            key, record, finding = json.loads(self._page_of(step).read_text(encoding="utf-8"))
            if key != self._key:
                return False
            typed = None if finding is None else parse_as(Finding, finding, step.id)
            self.records.append(parse_as(StepRecord, record, step.id))
        except (AssertionError, OSError, ValueError, KeyError, TypeError, RecursionError):
            return False  # a missing or damaged page is written again
        if typed is not None:
            self.findings[step.id] = typed
        return True

    def report(self) -> Report:
        """Return the report of the steps so far."""
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
        grounds = [finding.grounds for finding in findings]
        assumed = dict.fromkeys(text for ground in grounds for text in ground.assumptions)
        used = tuple(dict.fromkeys(id for ground in grounds for id in ground.theorems))
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
            data=data.describe(question.target),
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
            ledger=_ledger(used),
            run=Run(
                started=self.started.isoformat(timespec="seconds"),
                seconds=round(sum(record.seconds for record in self.records), 1),
                python=platform.python_version(),
                chosen=self.chosen,
            ),
        )

    def _write(self) -> tuple[Report, tuple[Path, ...]]:
        report = self.report()
        if self.out is None:
            return report, ()
        from memberbound.report.page import render

        files = page, document = tuple(self.out / name for name in REPORT_FILES)
        write_text(report.to_json(), document, force=True, private=True)
        write_text(render(report), page, force=True, private=True)
        return report, files
