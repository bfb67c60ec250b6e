"""The verb ``reproduce``: redo the papers' figures and tables, and compare what they say.

Examples:
    >>> from memberbound.papers.reproduction import reproduce
    >>> reproduce().table[0]["id"]
    'L24-F1'
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated

from memberbound.declarations import Option, Seed
from memberbound.errors import InputError, whole_number
from memberbound.files import write_table, write_text
from memberbound.games import Game
from memberbound.papers.experiments import (
    Check,
    Experiment,
    Findings,
    MissingDataError,
    Progress,
    Row,
    Run,
    data_folder,
    experiments,
)
from memberbound.quantities import common_fields

__all__ = ["LeftOut", "Reproduction", "overview_page", "reproduce"]

#: Name of the page that sums up several figures, in their folder.
SUMMARY = "summary.md"
#: Steps of the progress of one figure among several.
_STEPS = 1000


def _chosen(id: str) -> tuple[list[Experiment], bool]:
    """Return the experiments of an id, in any case, and whether it stands for several."""
    wanted = str(id).strip().upper()
    listed = experiments()
    one = [experiment for key, experiment in listed.items() if key.upper() == wanted]
    several = [e for key, e in listed.items() if wanted in ("ALL", key.split("-")[0])]
    if not one and not several:
        raise InputError(
            f"id must be one of {', '.join(listed)}, a paper (L24) or all, got {id!r}."
        )
    return one or several, not one


def reproduce(
    id: Annotated[str, Option("text", metavar="ID")] | None = None,
    *,
    listing: Annotated[bool, Option("switch", flag="--list")] = False,
    out: Annotated[str | Path, Option("folder", metavar="DIR", typed_default="reproduction")]
    | None = None,
    trials: Annotated[int, Option("whole", metavar="T")] | None = None,
    data: Annotated[str | Path, Option("folder", metavar="DIR")] | None = None,
    seed: Seed = 0,
    progress: Annotated[Progress, Option("progress", metavar="reproducing")] | None = None,
) -> Reproduction:
    """Reproduce figures and tables of the papers, and check what the papers claim.

    Args:
        id: a figure (``L24-F1``), a paper (``L24``) or ``all`` (default: list them).
        listing: list what can be reproduced, and stop.
        out: folder for ``ID.png``, ``ID.svg``, ``ID.csv`` (what the figure shows),
            ``ID-trials.csv`` (every trial) and ``ID.json``, with a ``summary.md`` for several
            figures; files of an earlier run are replaced.
        trials: random populations to average over (default: as in the paper).
        seed: makes the numbers repeatable.
        data: folder with data sets that are not part of the package (MNIST for ``A25-Tab1``;
            default: the environment variable MEMBERBOUND_DATA).
        progress: called with (done, total).

    Command line:
        memberbound reproduce --list
        memberbound reproduce L24-F2 --out figures
        memberbound reproduce all --out figures

    Edge cases: an unknown id, an ``out`` that is a file, less than one trial, a damaged data set:
    refused before any work is done.  A data set that is not there: refused if its table is the
    only one asked for; among several it is left out, and ``left_out`` says why.  A claim that does
    not hold is a result, not an error.
    """
    if id is None or listing:
        return Reproduction.listing()
    wanted, several = _chosen(id)
    count = None if trials is None else whole_number("trials", trials)
    start = whole_number("seed", seed, at_least=0)
    ready, left_out = _ready(wanted, data, several)
    folder = None if out is None else _folder(out, wanted)
    parts = []
    for place, (one, run) in enumerate(ready):
        step = _among(progress, place, len(ready))
        own = one.trials if count is None else count
        before = time.perf_counter()
        findings = run(own, start, step)
        seconds = time.perf_counter() - before
        part = Reproduction.of(one, findings, trials=own, seed=start, seconds=seconds)
        parts.append(part if folder is None else _written(part, findings, folder))
    if not several:
        return parts[0]
    together = Reproduction.together(str(id), parts, start, left_out)
    if folder is None:
        return together
    page = folder / SUMMARY
    write_text(overview_page(together), page, force=True)
    return replace(together, files=(*together.files, str(page)))


def _ready(
    wanted: list[Experiment], data: str | Path | None, several: bool
) -> tuple[list[tuple[Experiment, Run]], list[LeftOut]]:
    """Read the data sets that are there; among several, leave out what has none."""
    ready: list[tuple[Experiment, Run]] = []
    left_out = []
    # The environment is not looked at for figures that need no data.
    needed = data is not None or any(one.needs_data for one in wanted)
    folder = data_folder(data) if needed else None
    for one in wanted:
        try:
            ready.append((one, one.prepared(folder)))
        except MissingDataError as missing:
            if not several:
                raise
            left_out.append(LeftOut(one.id, one.title, str(missing)))
    if not ready:
        raise MissingDataError(left_out[0].reason)
    return ready, left_out


def _among(progress: Progress | None, place: int, of: int) -> Progress | None:
    """Return the progress of one of several figures."""
    if progress is None or of == 1:
        return progress
    return lambda done, total: progress(place * _STEPS + _STEPS * done // total, of * _STEPS)


def _folder(out: str | Path, wanted: list[Experiment]) -> Path:
    """Refuse a folder that cannot be written to, before any work is done."""
    folder = Path(out)
    existing = next((p for p in (folder, *folder.parents) if p.exists()), None)
    if existing is not None and not existing.is_dir():
        raise InputError(f"out must be a folder, got {str(out)!r}, where {existing} is a file.")
    targets = [path for one in wanted for path in _targets(folder, one.id)]
    taken = [path for path in (*targets, folder / SUMMARY) if path.is_dir()]
    if taken:
        raise InputError(f"out must not hold folders named like the files, got {str(taken[0])!r}.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _targets(folder: Path, id: str) -> list[Path]:
    return [folder / f"{id}{end}" for end in (".png", ".svg", ".csv", "-trials.csv", ".json")]


def _written(result: Reproduction, findings: Findings, folder: Path) -> Reproduction:
    """Write figure, tables and answer; return the answer, which names the files."""
    import pandas as pd

    from memberbound.report.drawing import save

    png, svg, table, single, record = _targets(folder, str(result.id))
    result = replace(
        result, figures=(str(png), str(svg)), files=(str(table), str(single), str(record))
    )
    write_table(pd.DataFrame(findings.table), table, force=True)
    write_table(pd.DataFrame(findings.trials), single, force=True)
    figure = findings.draw()
    # Laid out once for both files, not once for each.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for target in (png, svg):
        save(figure, target, title=f"{result.id}: {result.title}", caption=result.title)
    text = json.dumps(result.to_dict(), ensure_ascii=False, allow_nan=False, indent=2)
    write_text(text + "\n", record, force=True)
    return result


# ---- the answer --------------------------------------------------------------------------------


@dataclass(frozen=True)
class LeftOut:
    """A figure or table that was asked for among others and could not be redone."""

    id: str
    title: str
    reason: str


@dataclass(frozen=True, eq=False)
class Reproduction:
    """One figure redone, several of them (``parts``), or the list of what can be redone.

    ``figures`` are the files with pictures, ``files`` those with the data behind them; both are
    empty where nothing was to be written.  ``table`` is what the figure shows; for several figures
    it is one row each.  ``left_out`` lists those among several whose data are not there.
    """

    id: str | None
    title: str
    table: list[Row] = field(repr=False)
    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    games: tuple[Game, ...]
    theorems: tuple[str, ...]
    assumptions: tuple[str, ...]
    trials: int | None = None
    seed: int | None = None
    figures: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    parts: tuple[Reproduction, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    #: How long it took; not in the answer, which is the same for the same seed.
    seconds: float | None = None
    #: Every single measurement, one row per value and trial.
    trial_table: list[Row] = field(default_factory=list, repr=False)

    @classmethod
    def of(
        cls, experiment: Experiment, findings: Findings, *, trials: int, seed: int, seconds: float
    ) -> Reproduction:
        """Return the answer about one experiment."""
        return cls(
            experiment.id,
            experiment.title,
            findings.table,
            findings.checks,
            experiment.notes,
            (experiment.game,),
            experiment.theorems,
            experiment.assumptions,
            trials,
            seed,
            seconds=seconds,
            trial_table=findings.trials,
        )

    @classmethod
    def together(
        cls, id: str, parts: list[Reproduction], seed: int, left_out: list[LeftOut]
    ) -> Reproduction:
        """Return the answer about several experiments, with one summary row each."""
        rows = [
            (part.id, part.title, len(part.checks), sum(c.holds for c in part.checks), None)
            for part in parts
        ] + [(one.id, one.title, 0, 0, one.reason) for one in left_out]
        names = ("id", "title", "checks", "hold", "left_out")
        return cls(
            id,
            f"{len(parts)} figures and tables" + (f", {len(left_out)} left out" * bool(left_out)),
            [dict(zip(names, row, strict=True)) for row in rows],
            tuple(check for part in parts for check in part.checks),
            tuple(f"{part.id}: {note}" for part in parts for note in part.notes),
            tuple(game for part in parts for game in part.games),
            _distinct(t for part in parts for t in part.theorems),
            _distinct(a for part in parts for a in part.assumptions),
            seed=seed,
            figures=tuple(f for part in parts for f in part.figures),
            files=tuple(f for part in parts for f in part.files),
            parts=tuple(parts),
            left_out=tuple(left_out),
        )

    @classmethod
    def listing(cls) -> Reproduction:
        """Return what can be redone."""
        listed = experiments().values()
        return cls(
            None,
            "figures and tables that can be redone",
            [{"id": one.id, "title": one.title, "trials": one.trials} for one in listed],
            (),
            (),
            tuple(one.game for one in listed),
            _distinct(t for one in listed for t in one.theorems),
            (),
        )

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract; checks of several figures name theirs."""
        common = common_fields("reproduce", self.games[0], self.theorems, self.assumptions)
        for key in ("name", "protects"):
            if len({getattr(game, key) for game in self.games}) > 1:
                common["game" if key == "name" else key] = None
        checks = [check.to_dict() for check in self.checks]
        if self.parts:
            checks = [{"id": p.id} | check.to_dict() for p in self.parts for check in p.checks]
        return common | {
            "id": self.id,
            "title": self.title,
            "trials": self.trials,
            "seed": self.seed,
            "figures": list(self.figures),
            "files": list(self.files),
            "table": self.table,
            "checks": checks,
            "notes": list(self.notes),
            "left_out": [asdict(one) for one in self.left_out],
        }

    def summary(self) -> str:
        """Return a short text: the list, or the claims with what was measured."""
        if self.id is None:
            lines = [f"{row['id']}  {row['title']} ({row['trials']} trials)" for row in self.table]
            return "\n".join([*lines, "", "Run one with its id, or all of them with: all"])
        if self.parts:
            done = "\n\n".join(part.summary() for part in self.parts)
            held = sum(check.holds for check in self.checks)
            lines = [done, "", f"{held} of {len(self.checks)} claims hold as stated."]
            lines += [f"{one.id} was left out: {one.reason}" for one in self.left_out]
            return "\n".join(lines)
        lines = [f"{self.id}  {self.title}", f"{self.trials} trials, seed {self.seed}", ""]
        lines += [f"{'holds':<7}{'paper':<9}{'measured':<20}claim"]
        lines += [_line(check) for check in self.checks]
        lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines)


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _line(check: Check) -> str:
    holds = "yes" if check.holds else "NO"
    return f"{holds:<7}{check.printed():<9} {check.ours():<20} {check.claim}"


# ---- the page that sums up several -------------------------------------------------------------


def overview_page(together: Reproduction) -> str:
    """Return the page that sums up several figures, as Markdown: a row each, and what fails."""
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
                lines.append(_row((part.id, check.claim, check.printed(), check.ours())))
    lines += ["", "## Notes", ""]
    lines += [f"- **{part.id}.** {note}" for part in together.parts for note in part.notes]
    return "\n".join(lines) + "\n"


def _row(cells: tuple[object, ...]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
