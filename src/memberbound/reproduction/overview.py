"""The page that sums up several figures: one row each, and what does not match."""

from __future__ import annotations

from memberbound.reproduction.result import Reproduction

__all__ = ["SUMMARY", "overview_page"]

#: Name of the page in the folder of the figures.
SUMMARY = "summary.md"


def overview_page(together: Reproduction) -> str:
    """Return the page as Markdown."""
    held = sum(check.holds for check in together.checks)
    lines = [
        "# Figures and tables of the papers, redone",
        "",
        "Written by `memberbound reproduce "
        f"{together.id} --seed {together.seed}`; do not edit. {held} of {len(together.checks)} "
        "claims hold as stated. Several claims are alternative readings of one sentence of a "
        "paper, so the count is not a score. Minutes are those of the clock on the machine that "
        "ran it.",
        "",
        "| id | what | trials | claims | hold | minutes |",
        "|---|---|---|---|---|---|",
    ]
    for part in together.parts:
        hold = sum(check.holds for check in part.checks)
        minutes = "" if part.seconds is None else f"{part.seconds / 60:.1f}"
        cells = (part.id, part.title, part.trials, len(part.checks), hold, minutes)
        lines.append(_row(cells))
    lines += [_row((one.id, one.title, "", "left out", "", "")) for one in together.left_out]
    for one in together.left_out:
        lines += ["", f"{one.id} was left out: {one.reason}"]
    lines += ["", "## What does not match", ""]
    lines += [
        "| id | claim, with the tolerance that was applied | paper | ours |",
        "|---|---|---|---|",
    ]
    for part in together.parts:
        for check in part.checks:
            if not check.holds:
                paper = "" if check.paper is None else f"{check.paper:g}"
                lines.append(_row((part.id, check.claim, paper, check.ours())))
    lines += ["", "## Notes", ""]
    lines += [f"- **{part.id}.** {note}" for part in together.parts for note in part.notes]
    return "\n".join(lines) + "\n"


def _row(cells: tuple[object, ...]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
