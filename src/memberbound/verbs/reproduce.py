"""The verb ``reproduce``: redo the papers' figures and tables, and check their claims."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Protocol

from memberbound._version import __version__
from memberbound.answers import INTERNAL, Answer, EstimateOf, Given, OmitEmpty, computed
from memberbound.declarations import Option, Progress
from memberbound.errors import InputError, whole_number
from memberbound.files import write_text
from memberbound.games import Game
from memberbound.leaves import load_leaf
from memberbound.tables.frame_files import write_table

if TYPE_CHECKING:
    from memberbound.papers.reproduction import Experiment, FigureRun, Findings

#: A line of a table: every cell is a number, a text, or missing.
Row = dict[str, EstimateOf | int | str | None]


class Redone(Protocol):
    """The attributes of a figure or table that the answer uses."""

    @property
    def id(self) -> str:
        """Paper and number, such as ``L24-F1``."""

    @property
    def title(self) -> str:
        """The title of the figure or table."""

    @property
    def trials(self) -> int:
        """Number of trials in the paper."""

    @property
    def game(self) -> Game:
        """The game of the figure or table."""

    @property
    def theorems(self) -> tuple[str, ...]:
        """Ids of the results that it illustrates."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions behind its numbers."""

    def settings_text(self) -> str:
        """Return the settings that can be changed, for the list."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on how the paper was read, and on parts that cannot be matched."""


@dataclass(frozen=True)
class ClaimCheck:
    """A claim with the paper's number (None if in words only), ours, and whether it holds."""

    claim: str
    paper: Given | None
    measured: EstimateOf
    standard_error: EstimateOf
    holds: bool
    #: The figure, if several are reproduced.
    id: OmitEmpty[str | None] = None

    def numbers(self) -> tuple[str, str]:
        """Return the paper's number and ours as texts; empty for a claim in words only."""
        paper = "" if self.paper is None else f"{self.paper:g}"
        error = "" if math.isnan(self.standard_error) else f" ± {self.standard_error:.2g}"
        return paper, f"{self.measured:.4g}{error}"


#: Keys of the contract, and the attributes of a game behind them.
_GAME = (("game", "name"), ("protects", "protects"))


@dataclass(frozen=True, eq=False, repr=False)
class Reproduction(Answer):
    """The result for one figure, for several (``parts``), or the list of figures.

    ``figures`` are the files with pictures, ``files`` those with the data behind them; both are
    empty without ``out``.  ``table`` holds the plotted numbers, or one row per figure for several.
    ``left_out`` lists the figures without their data set.
    """

    VERB: ClassVar = "reproduce"

    id: str | None
    title: str
    table: list[Row]
    checks: tuple[ClaimCheck, ...]
    experiments: tuple[Redone, ...] = field(metadata=INTERNAL)
    trials: int | None = None
    seed: int | None = None
    settings: OmitEmpty[dict[str, Given]] = field(default_factory=dict)
    figures: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    parts: tuple[Reproduction, ...] = field(default=(), metadata=INTERNAL)
    left_out: tuple[dict[str, str], ...] = ()

    @classmethod
    def together(
        cls, id: str, parts: list[Reproduction], seed: int, left_out: list[dict[str, str]]
    ) -> Reproduction:
        """Return the answer about several experiments, with one summary row each."""
        rows = [
            (part.id, part.title, len(part.checks), sum(c.holds for c in part.checks), None)
            for part in parts
        ] + [(one["id"], one["title"], 0, 0, one["reason"]) for one in left_out]
        names = ("id", "title", "checks", "hold", "left_out")
        return cls(
            id,
            f"{len(parts)} figures and tables" + (f", {len(left_out)} left out" * bool(left_out)),
            [dict(zip(names, row, strict=True)) for row in rows],
            tuple(replace(check, id=part.id) for part in parts for check in part.checks),
            tuple(one for part in parts for one in part.experiments),
            seed=seed,
            figures=tuple(f for part in parts for f in part.figures),
            files=tuple(f for part in parts for f in part.files),
            parts=tuple(parts),
            left_out=tuple(left_out),
        )

    @classmethod
    def listing(cls) -> Reproduction:
        """Return the list of figures and tables."""
        listed = tuple(load_leaf("reproduction").experiments().values())
        rows: list[Row] = [
            {"id": e.id, "title": e.title, "trials": e.trials, "settings": e.settings_text()}
            for e in listed
        ]
        return cls(None, "figures and tables that can be reproduced", rows, (), listed)

    @property
    def game(self) -> Game:
        """The game of the first figure; :meth:`to_dict` omits it if games differ."""
        return self.experiments[0].game

    @property
    def theorems(self) -> tuple[str, ...]:
        """Ids of the results that the figures illustrate."""
        return tuple(dict.fromkeys(t for e in self.experiments for t in e.theorems))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of the numbers; a list has none."""
        redone = () if self.id is None else self.experiments
        return tuple(dict.fromkeys(a for e in redone for a in e.assumptions))

    @computed
    def notes(self) -> list[str]:
        """Notes on how the papers were read; with several figures, each names its figure."""
        if self.id is None:
            return []
        several = len(self.experiments) > 1
        if self.settings:
            told = ", ".join(f"{name} = {value:g}" for name, value in self.settings.items())
            return [f"With {told} instead of the paper's settings; its claims are not checked."]
        return [
            f"{e.id}: {note}" if several else note for e in self.experiments for note in e.notes
        ]

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract; checks of several figures name theirs."""
        of_games = {key: {getattr(e.game, name) for e in self.experiments} for key, name in _GAME}
        mixed = {key: None for key, values in of_games.items() if len(values) > 1}
        return super().to_dict() | mixed

    def summary(self) -> str:
        """Return a short text: the list, the claims with measured values, or a page for several.

        The page is Markdown, with a row for each figure and a list of mismatches.
        """
        if self.id is None:
            lines = [
                f"{row['id']}  {row['title']} ({_trials(row['trials'])}; {row['settings']})"
                for row in self.table
            ]
            return "\n".join([*lines, "", "Run one with its id, or all of them with: all"])
        if self.parts:
            return self._page()
        lines = [f"{self.id}  {self.title}", f"{_trials(self.trials)}, seed {self.seed}", ""]
        if self.checks:
            lines += [f"{'holds':<7}{'paper':<9}{'measured':<20}claim"]
        for check in self.checks:
            paper, ours = check.numbers()
            holds = "yes" if check.holds else "NO"
            lines.append(f"{holds:<7}{paper:<9} {ours:<20} {check.claim}")
        if not self.checks:
            lines += _columns(self.table)
        lines += ["", *(f"- {note}" for note in self.notes)]
        written = (*self.figures, *self.files)
        lines += [f"- Written: {', '.join(written)}."] if written else []
        return "\n".join(lines)

    def _page(self) -> str:
        holding = sum(check.holds for check in self.checks)
        lines = [
            "# Figures and tables of the papers, reproduced",
            "",
            f"Written by `memberbound reproduce {self.id} --seed {self.seed}`; do not edit. "
            f"{holding} of {len(self.checks)} claims hold as stated. Several claims are "
            "alternative readings of one sentence of a paper, so the count is not a score.",
            "",
            "| id | what | trials | claims | hold |",
            "|---|---|---|---|---|",
        ]
        for part in self.parts:
            hold = sum(check.holds for check in part.checks)
            lines.append(_row(part.id, part.title, part.trials, len(part.checks), hold))
        lines += [_row(one["id"], one["title"], "", "left out", "") for one in self.left_out]
        for one in self.left_out:
            lines += ["", f"{one['id']} was left out: {one['reason']}"]
        lines += ["", "## What does not match", ""]
        lines += [_row("id", "claim, with the tolerance that was applied", "paper", "ours")]
        lines += ["|---|---|---|---|"]
        for part in self.parts:
            failed = [check for check in part.checks if not check.holds]
            lines += [_row(part.id, check.claim, *check.numbers()) for check in failed]
        lines += ["", "## Notes", "", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines)


def _trials(count: object) -> str:
    return f"{count} trial{'' if count == 1 else 's'}"


def _columns(table: list[Row]) -> list[str]:
    """Return the plotted numbers as lines of aligned columns, without errors and counts."""
    names = [name for name in table[0] if not name.endswith(("_se", "_n"))] if table else []
    shown = [[name.removesuffix("_mean") for name in names]]
    shown += [
        [f"{row[name]:.4g}" if isinstance(row[name], float) else str(row[name]) for name in names]
        for row in table
    ]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return [
        "  ".join(f"{cell:<{wide}}" for cell, wide in zip(row, widths, strict=True)).rstrip()
        for row in shown
    ]


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def _select(listed: Mapping[str, Experiment], id: str) -> tuple[list[Experiment], bool]:
    """Return the experiments of an id (case-insensitive), and whether it names several."""
    wanted = str(id).strip().upper()
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
    trials: int | None = None,
    n: int | None = None,
    settings: Annotated[
        Sequence[str] | Mapping[str, float], Option("several", flag="--set", metavar="NAME=VALUE")
    ]
    | None = None,
    data: Annotated[str | Path, Option("folder", metavar="DIR")] | None = None,
    seed: int = 0,
    progress: Annotated[Progress, Option("progress", metavar="reproducing")] | None = None,
) -> Reproduction:
    """Reproduce figures and tables of the papers, and check the papers' claims.

    Args:
        id: a figure (``L24-F1``), a paper (``L24``) or ``all`` (default: list them).
        listing: list the figures and tables, and stop.
        out: folder for ``ID.png``, ``ID.svg``, ``ID.csv`` (the plotted numbers),
            ``ID-trials.csv`` (every trial) and ``ID.json``, with a ``summary.md`` for several
            figures; files of an earlier run are replaced.
        trials: random populations to average over (default: as in the paper).
        n: training records of one figure (default: as in the paper); above n = 14 the ε̃
            of the exponential mechanism is bounded from random subsets.
        settings: other settings of one figure, such as ``d=3``; ``--list`` names them. May be
            repeated. With your own settings, the paper's claims are not checked.
        seed: makes the numbers repeatable.
        data: folder with data sets that are not part of the package (MNIST for ``A25-Tab1``;
            default: the environment variable MEMBERBOUND_DATA).
        progress: called with (done, total): trials of one figure, or figures of several.

    Command line:
        memberbound reproduce --list
        memberbound reproduce L24-F2 --out figures
        memberbound reproduce L24-F1 --n 8 --trials 40
        memberbound reproduce L24-F5 --set d=2 --set sigma=1
        memberbound reproduce all --out figures

    Start an interrupted run with ``out`` again to resume after its last trial.

    Edge cases: an unknown id, an ``out`` that is a file, less than one trial or a damaged data set
    is rejected before any work is done.  A missing data set is an error if its table alone is
    requested; otherwise the table is left out, with the reason in ``left_out``.  A claim that does
    not hold is a result, not an error.

    Examples:
        >>> reproduce().table[0]["id"]
        'L24-F1'
    """
    if id is None or listing:
        return Reproduction.listing()
    papers = load_leaf("reproduction")
    wanted, several = _select(papers.experiments(), id)
    if several and (n is not None or settings):
        raise InputError(f"id must be one figure with settings of its own, got {id!r}.")
    count = None if trials is None else whole_number("trials", trials)
    start = whole_number("seed", seed, at_least=0)
    # Read the environment only for figures that need data.
    needed = data is not None or any(one.needs_data for one in wanted)
    source = papers.data_folder(data) if needed else None
    ready: list[tuple[Experiment, FigureRun, dict[str, float]]] = []
    left_out = []
    for one in wanted:
        try:
            run = one.prepare(source)
        except papers.MissingDataError as missing:
            if len(wanted) == 1:
                raise
            left_out.append({"id": one.id, "title": one.title, "reason": str(missing)})
        else:
            ready.append((one, run, papers.select_settings(run, one.id, n, settings)))
    folder = None if out is None else _folder(out)
    parts = []
    for index, (one, run, chosen) in enumerate(ready):
        own = one.trials if count is None else count
        keep = None if folder is None else folder / f"{one.id}-unfinished.jsonl"
        key = {"id": one.id, "version": __version__, "seed": start, "settings": chosen}
        watch = papers.Trials(progress if len(ready) == 1 else None, keep, key)
        findings = run(own, start, watch, **chosen)
        # The claims apply to the paper's settings only.
        checks = () if chosen else findings.checks
        part = Reproduction(
            one.id, one.title, findings.table, checks, (one,), own, start, settings=chosen
        )
        parts.append(part if folder is None else _write(part, findings, folder))
        watch.close()
        if progress is not None and len(ready) > 1:
            progress(index + 1, len(ready))
    if not several:
        return parts[0]
    together = Reproduction.together(str(id), parts, start, left_out)
    if folder is None:
        return together
    page = folder / "summary.md"
    write_text(together.summary() + "\n", page, force=True)
    return replace(together, files=(*together.files, str(page)))


def _folder(out: str | Path) -> Path:
    """Return the path of the folder, which the first file creates; reject a file."""
    folder = Path(out)
    if any(part.is_file() for part in (folder, *folder.parents)):
        raise InputError(f"out must be a folder, got {str(out)!r}, where a file is.")
    return folder


def _write(result: Reproduction, findings: Findings, folder: Path) -> Reproduction:
    """Write figure, tables and answer; return the answer, which names the files."""
    import pandas as pd

    from memberbound.report.drawing import save_figure

    folder.mkdir(parents=True, exist_ok=True)
    png, svg, table, single, record = (
        folder / f"{result.id}{end}" for end in (".png", ".svg", ".csv", "-trials.csv", ".json")
    )
    result = replace(
        result, figures=(str(png), str(svg)), files=(str(table), str(single), str(record))
    )
    write_table(pd.DataFrame(findings.table), table, force=True)
    write_table(pd.DataFrame(findings.trials), single, force=True)
    figure = findings.draw()
    # Lay out the figure once for both files.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for target in (png, svg):
        save_figure(figure, target, title=f"{result.id}: {result.title}", caption=result.title)
    text = json.dumps(result.to_dict(), ensure_ascii=False, allow_nan=False, indent=2)
    write_text(text + "\n", record, force=True)
    return result
