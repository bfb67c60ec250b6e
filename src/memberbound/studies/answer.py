"""The answer of ``study``: the report, and where it was written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from memberbound.quantities import Mark, marked
from memberbound.report.marks import ceiling_of, estimate_of, floor_of, score

__all__ = ["Study"]


@dataclass(frozen=True, eq=False)
class Study:
    """A study: ``report`` is what ``report.json`` holds."""

    report: dict[str, Any] = field(repr=False)
    out: str | None = None
    files: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every step ended with an answer."""
        return bool(self.report["status"] == "complete")

    @property
    def exit_code(self) -> int:
        """What the command ends with: 1 where a step has failed."""
        return 0 if self.complete else 1

    @property
    def sentence(self) -> str:
        """The verdict."""
        return str(self.report["verdict"]["sentence"])

    @property
    def warnings(self) -> tuple[str, ...]:
        """Which columns nobody looked at, and why."""
        data = self.report["data"]
        left = [f"{c!r} ({data['roles'][c]})" for c in data.get("left_out", ())]
        if not left:
            return ()
        return (
            f"left out: {', '.join(left)}; name them in columns, or give them another role, to use "
            "them",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the report with the names of the files written."""
        return self.report | {"out": self.out, "files": list(self.files)}

    def summary(self) -> str:
        """Return the sandwich, the remedies, and at the end the report's path and the verdict."""
        head = ("how often anybody is right", "measured", "seen", "certified")
        lines = [_row(*head)]
        for row in self.report["sandwich"]:
            name = f"{row['label']}, {row['record']} record"
            floor = floor_of(row)
            if floor is not None and floor.kind != "audit":
                floor = Mark("unproved", "blind")
            marks = (floor, estimate_of(row), ceiling_of(row))
            lines.append(_row(_shortened(name), *("–" if m is None else str(m) for m in marks)))
        lines += ["", f"{'remedy':<34}{'enough':<8}{'certified':>18}  score (estimate)"]
        for remedy in self.report["remedies"]:
            mark = "yes" if remedy["enough"] else "no"
            most = str(marked(remedy["accuracy_upper"], "certificate"))
            scores = "–"
            if remedy["loss_estimate"] is not None:
                before, after = (remedy[f"score_{when}_estimate"] for when in ("before", "after"))
                scores = f"{score(before)} → {score(after)}"
            star = "  ← recommended" if remedy["recommended"] else ""
            lines.append(f"{remedy['label']:<34}{mark:<8}{most:>18}  {scores}{star}")
        for step in self.report["steps"]:
            if step["state"] != "done":
                lines.append(f"note: {step['title']}: {step['error']}")
        lines += [f"note: {note}." for note in self.warnings]
        said = self.report["verdict"]
        lines += ["", *(f"wrote {name}" for name in self.files)]
        lines += ["", said["sentence"], said["advice"]]
        return "\n".join(lines)


def _row(name: str, floor: str, seen: str, most: str) -> str:
    return f"{name:<58}{floor:>13}{seen:>12}{most:>19}"


def _shortened(name: str, width: int = 57) -> str:
    return name if len(name) <= width else f"{name[: width - 1]}…"
