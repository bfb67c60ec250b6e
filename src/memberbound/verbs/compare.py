"""The verb ``compare``: two reports side by side, with earlier ones as a history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar

from memberbound.answers import INTERNAL, Answer, EstimateOf, Lower, Sided, Upper, computed
from memberbound.declarations import Option
from memberbound.games import SubsetGame
from memberbound.quantities import Mark, marked, vacuous
from memberbound.report import words
from memberbound.report.fields import Subject
from memberbound.report.model import LABELS, RECORDS, Report, SandwichRow
from memberbound.report.publication import load_report


@dataclass(frozen=True)
class RowNumbers:
    """The three numbers of a row; a vacuous ceiling becomes None."""

    game: str
    lower: Lower | None
    estimate: EstimateOf | None
    upper: Upper | None


@dataclass(frozen=True)
class ComparedRow:
    """Attack success on a record of a subject, before and after.

    ``None`` if one of the reports has no such row.
    """

    subject: str
    label: str
    record: str
    before: RowNumbers | None
    after: RowNumbers | None


@dataclass(frozen=True)
class StudySummary:
    """A study in the history: attack success on the worst record, and the promise."""

    started: str
    data: str
    verdict: str
    remedy: str | None
    floor_lower: Lower | None
    ceiling_upper: Upper | None


def _numbers(row: SandwichRow | None) -> RowNumbers | None:
    if row is None:
        return None
    upper = None if vacuous(row.accuracy_upper) else row.accuracy_upper
    return RowNumbers(row.game, row.accuracy_lower, row.accuracy_estimate, upper)


def _summarize(report: Report) -> StudySummary:
    best, worst = report.recommended, report.row_of("model", "worst")
    upper = None if best is None else best.accuracy_upper
    return StudySummary(
        started=report.run.started,
        data=report.data.name,
        verdict=report.verdict.level,
        remedy=None if best is None else best.id,
        floor_lower=None if worst is None else worst.accuracy_lower,
        ceiling_upper=None if vacuous(upper) else upper,
    )


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Answer):
    """Two studies side by side: their findings, and differences in data, options and version."""

    VERB: ClassVar = "compare"

    before: Report = field(metadata=INTERNAL)
    after: Report = field(metadata=INTERNAL)
    earlier: tuple[Report, ...] = field(default=(), metadata=INTERNAL)

    @cached_property
    def game(self) -> SubsetGame:
        """The game of the later study."""
        return self.after.subset_game

    @cached_property
    def theorems(self) -> tuple[str, ...]:
        """Theorems behind the numbers of both reports."""
        return tuple(dict.fromkeys((*self.before.theorems, *self.after.theorems)))

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions of both reports."""
        return (
            *dict.fromkeys((*self.before.assumptions, *self.after.assumptions)),
            "each number holds with the confidence of its own study; both studies hold at once "
            "with at least one minus the sum of their errors",
        )

    @computed
    def same_data(self) -> bool:
        """Whether both studies read the same values from the same columns."""
        return self.before.data.sha256 == self.after.data.sha256

    @computed
    def settings(self) -> Annotated[dict[str, tuple[object, object]], Sided("given")]:
        """Changed options: name → value before and after."""
        then, now = asdict(self.before.question), asdict(self.after.question)
        return {name: (then.get(name), now[name]) for name in now if then.get(name) != now[name]}

    @computed
    def rows(self) -> tuple[ComparedRow, ...]:
        """Every subject of either report; the most exposed record first."""
        pairs = self._pairs.items()
        return tuple(ComparedRow(s, LABELS[s], r, *map(_numbers, pair)) for (s, r), pair in pairs)

    @cached_property
    def _pairs(self) -> dict[tuple[Subject, str], tuple[SandwichRow | None, SandwichRow | None]]:
        """The rows of both reports by subject and record."""
        keys = [(subject, record) for subject in LABELS for record in RECORDS]
        pairs = {key: (self.before.row_of(*key), self.after.row_of(*key)) for key in keys}
        return {key: pair for key, pair in pairs.items() if any(pair)}

    @computed
    def history(self) -> tuple[StudySummary, ...]:
        """One line per study, the oldest first."""
        reports = (*self.earlier, self.before, self.after)
        return tuple(map(_summarize, sorted(reports, key=lambda report: report.run.started)))

    @computed
    def sentence(self) -> str:
        """The change of verdict and promise, with caveats."""
        both = (self.before, self.after)
        then, now = (words()["levels"][report.verdict.level] for report in both)
        level = f"The verdict is still “{now}”" if then == now else f"“{then}” became “{now}”"
        promise = " → ".join(str(_promise(report)) for report in both)
        sentence = f"{level}; the best promise for {words()['whom']}: {promise}."
        if not self.same_data:
            sentence += " The tables are different."
        if self.settings:
            sentence += f" Changed options: {', '.join(self.settings)}."
        if self.before.version != self.after.version:
            sentence += f" Versions: {self.before.version} and {self.after.version}."
        return sentence

    def summary(self) -> str:
        """Return the sentence, the rows of either report, and the history."""
        lines = [self.sentence, "", _line("attack success", "", "before", "after")]
        label = ""
        for (subject, record), pair in self._pairs.items():
            if LABELS[subject] != label:
                label = LABELS[subject]
                lines.append(label)
            marks = {
                "certified": [None if row is None else row.most for row in pair],
                # A lower bound at blind guessing or below proves nothing.
                "measured": [row.least if row is not None and row.beaten else None for row in pair],
            }
            for kind, both in marks.items():
                if any(both):
                    texts = ("–" if mark is None else str(mark) for mark in both)
                    lines.append(_line(f"  {RECORDS[record]}", kind, *texts))
        lines += ["", "history"]
        for item in self.history:
            lines.append(f"  {item.started}  {words()['levels'][item.verdict]}  {item.data}")
        return "\n".join(lines)


def _line(name: str, kind: str, before: str, after: str) -> str:
    return f"{name:<27}{kind:<10}{before:>18}{after:>20}"


def _promise(report: Report) -> Mark:
    """Return the certificate of the recommended remedy, or a mark that there is none."""
    best = report.recommended
    return marked(None if best is None else best.accuracy_upper, "certificate")


def compare(
    before: Annotated[object, Option("file", metavar="BEFORE")],
    after: Annotated[object, Option("file", metavar="AFTER")],
    *,
    earlier: Annotated[Sequence[str], Option("several", metavar="NAME", web=False)] | None = None,
) -> Comparison:
    """Compare two reports: the findings before and after, and all other changes.

    Nothing is recomputed: a certificate remains that of its study.  A number that only one of the
    reports has is shown next to a dash.

    Args:
        before: the earlier report: ``report.json``, its dictionary, or the result of ``study``.
        after: the later report.
        earlier: an even earlier report, for the history; may be repeated.

    Command line:
        memberbound compare spring/report.json autumn/report.json
        memberbound compare b.json c.json --earlier a.json --json
    """
    older: Sequence[object] = () if earlier is None else earlier
    return Comparison(load_report(before), load_report(after), tuple(load_report(r) for r in older))
