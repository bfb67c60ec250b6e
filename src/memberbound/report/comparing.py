"""The verb ``compare``: two reports side by side, and the ones before them as a history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from memberbound._version import __version__
from memberbound.declarations import Option, Several
from memberbound.quantities import INTERVAL, Mark, Readable, Sides, marked, vacuous
from memberbound.report import prose
from memberbound.report.exporting import checked_report
from memberbound.report.model import RECORDS, Report, SandwichRow, plain

__all__ = ["ComparedRow", "Comparison", "compare"]


@dataclass(frozen=True)
class ComparedRow:
    """How often anybody is right about a record of a subject, then and now.

    ``None`` where one of the reports has no such row.
    """

    subject: str
    label: str
    record: str
    before: SandwichRow | None
    after: SandwichRow | None

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        names = ("subject", "label", "record")
        rows = {"before": self.before, "after": self.after}
        return {name: getattr(self, name) for name in names} | {
            when: None if row is None else _numbers(row) for when, row in rows.items()
        }


def _numbers(row: SandwichRow) -> dict[str, object]:
    """Return the three numbers of a row; an empty ceiling is none."""
    numbers = {number.side: number.value for number in row.numbers}
    if vacuous(numbers.get("upper")):
        numbers.pop("upper", None)
    return {"game": row.game} | {side: numbers.get(side) for side in ("lower", "estimate", "upper")}


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Readable):
    """Two studies side by side: what was found then and now, and what else is different."""

    before: Report = field(repr=False)
    after: Report = field(repr=False)
    earlier: tuple[Report, ...] = field(default=(), repr=False)

    SIDES: ClassVar[Sides] = {
        "rows": {"before": INTERVAL, "after": INTERVAL},
        "history": {"floor_lower": "lower", "ceiling_upper": "upper"},
        "settings": "given",
    }

    @property
    def same_data(self) -> bool:
        """Whether both studies read the same values from the same columns."""
        return self.before.data.sha256 == self.after.data.sha256

    @property
    def settings(self) -> dict[str, tuple[object, object]]:
        """What was asked differently: option → its value then and now."""
        then, now = plain(self.before.question), plain(self.after.question)
        return {name: (then.get(name), now[name]) for name in now if then.get(name) != now[name]}

    @property
    def rows(self) -> tuple[ComparedRow, ...]:
        """Every subject of either report; the most exposed record first."""
        keys = dict.fromkeys(
            (row.subject, record)
            for report in (self.after, self.before)
            for row in report.sandwich
            for record in RECORDS
        )
        rows = []
        for subject, record in keys:
            before, after = (r.row_of(subject, record) for r in (self.before, self.after))
            row = after or before
            if row is not None:
                rows.append(ComparedRow(subject, row.label, record, before, after))
        return tuple(rows)

    @property
    def sentence(self) -> str:
        """What became of the verdict and of the promise, and what to beware of."""
        then, now = (prose.LEVELS[report.verdict.level] for report in (self.before, self.after))
        level = f"The verdict is still “{now}”" if then == now else f"“{then}” became “{now}”"
        promise = " → ".join(str(_promised(report)) for report in (self.before, self.after))
        whom = prose.whom(self.after.question.record)
        sentence = f"{level}; the best promise for {whom}: {promise}."
        if self.before.question.record != self.after.question.record:
            sentence += " The studies protect different records: these promises do not compare."
        if not self.same_data:
            sentence += " The tables are different."
        if self.settings:
            sentence += f" Asked differently: {', '.join(self.settings)}."
        if self.before.version != self.after.version:
            sentence += f" Versions: {self.before.version} and {self.after.version}."
        return sentence

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {
            "command": "compare",
            "version": __version__,
            "game": self.after.game,
            "protects": self.after.protects,
            "theorems": list(dict.fromkeys((*self.before.theorems, *self.after.theorems))),
            "assumptions": [
                *dict.fromkeys((*self.before.assumptions, *self.after.assumptions)),
                "each number holds with the confidence of its own study; both studies hold at once "
                "with at least one minus the sum of their errors",
            ],
            "sentence": self.sentence,
            "same_data": self.same_data,
            "settings": {name: list(pair) for name, pair in self.settings.items()},
            "rows": [row.to_dict() for row in self.rows],
            "history": list(self.history()),
        }

    def history(self) -> Iterator[dict[str, object]]:
        """Yield one line per study, the oldest first."""
        reports = (*self.earlier, self.before, self.after)
        for report in sorted(reports, key=lambda report: report.run.started):
            best, worst = report.recommended, report.row_of("model", "worst")
            upper = None if best is None else best.accuracy_upper
            yield {
                "started": report.run.started,
                "data": report.data.name,
                "verdict": report.verdict.level,
                "remedy": None if best is None else best.id,
                "floor_lower": None if worst is None or not worst.floor else worst.floor.lower,
                "ceiling_upper": None if upper is None or vacuous(upper) else upper,
            }

    def summary(self) -> str:
        """Return the sentence, the rows that both have, and the history."""
        lines = [self.sentence, "", _line("how often anybody is right", "", "before", "after")]
        label = ""
        for row in self.rows:
            if row.label != label:
                label = row.label
                lines.append(label)
            for name, pick in _KINDS:
                pair = [None if side is None else pick(side) for side in (row.before, row.after)]
                if any(mark is not None for mark in pair):
                    texts = ("–" if mark is None else str(mark) for mark in pair)
                    lines.append(_line(f"  {RECORDS[row.record]}", name, *texts))
        lines += ["", "history"]
        for item in self.history():
            words = prose.LEVELS[str(item["verdict"])]
            lines.append(f"  {item['started']}  {words}  {item['data']}")
        return "\n".join(lines)


def _line(name: str, kind: str, before: str, after: str) -> str:
    return f"{name:<27}{kind:<10}{before:>18}{after:>20}"


def _floor(row: SandwichRow) -> Mark | None:
    """Return what attacks proved; nothing where that is no more than blind guessing."""
    return row.least if row.beaten is not None else None


_KINDS = (("certified", lambda row: row.most), ("measured", _floor))


def _promised(report: Report) -> Mark:
    """Return the certificate of the recommended remedy, or that there is none."""
    best = report.recommended
    return marked(None if best is None else best.accuracy_upper, "certificate")


def compare(
    before: Annotated[object, Option("file", metavar="BEFORE")],
    after: Annotated[object, Option("file", metavar="AFTER")],
    *,
    earlier: Several | None = None,
) -> Comparison:
    """Compare two reports: what was found before and after, and what else changed.

    Nothing is computed anew: a certificate stays that of its study.  A number that only one of the
    reports has is shown beside a dash.

    Args:
        before: the earlier report: ``report.json``, its dictionary, or what ``study`` returned.
        after: the later report.
        earlier: a still earlier report, for the history; may be repeated.

    Command line:
        memberbound compare spring/report.json autumn/report.json
        memberbound compare b.json c.json --earlier a.json --json
    """
    older: Sequence[object] = () if earlier is None else earlier
    return Comparison(
        checked_report(before), checked_report(after), tuple(checked_report(r) for r in older)
    )
