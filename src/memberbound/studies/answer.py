"""The answer of ``study``: the report, and where it was written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from memberbound.quantities import percent

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
        lines = [
            f"{'how often anybody is right':<58}{'proved ≥':>10}{'seen ≈':>9}{'certified ≤':>13}"
        ]
        for row in self.report["sandwich"]:
            name = f"{row['label']}, {row['record']} record"
            floor = "–"
            if row["floor"] is not None:
                beaten = row["floor"]["lower"] > row["blind"]
                floor = percent(row["floor"]["lower"], "lower") if beaten else "blind"
            seen = "–" if row["estimate"] is None else f"{row['estimate']['estimate']:.1%}"
            most = "–" if row["ceiling"] is None else percent(row["ceiling"]["upper"], "upper")
            lines.append(f"{_shortened(name):<58}{floor:>10}{seen:>9}{most:>13}")
        lines += ["", f"{'remedy':<34}{'enough':<8}{'certified ≤':>12}  score (estimate)"]
        for remedy in self.report["remedies"]:
            mark = "yes" if remedy["enough"] else "no"
            most = "–"
            if remedy["accuracy_upper"] is not None:
                most = percent(remedy["accuracy_upper"], "upper")
            score = "–"
            if remedy["loss_estimate"] is not None:
                score = f"{remedy['score_before_estimate']:.3f} → "
                score += f"{remedy['score_after_estimate']:.3f}"
            star = "  ← recommended" if remedy["recommended"] else ""
            lines.append(f"{remedy['label']:<34}{mark:<8}{most:>12}  {score}{star}")
        for step in self.report["steps"]:
            if step["state"] != "done":
                lines.append(f"note: {step['title']}: {step['error']}")
        lines += [f"note: {note}." for note in self.warnings]
        said = self.report["verdict"]
        lines += ["", *(f"wrote {name}" for name in self.files)]
        lines += ["", said["sentence"], said["advice"]]
        return "\n".join(lines)


def _shortened(name: str, width: int = 57) -> str:
    return name if len(name) <= width else f"{name[: width - 1]}…"
