"""The verb ``reproduce``: redo the papers' figures and tables, and check their claims.

A figure or table is an :class:`Experiment` (``figures.toml`` lists them); running it gives
:class:`Findings`.  Most vary one parameter and average several trials at every value: a
:class:`Sweep`.  A :class:`Check` is a claim of the paper with the tolerance that was applied.

Examples:
    >>> reproduce().table[0]["id"]
    'L24-F1'
"""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib import import_module, resources
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from memberbound._version import __version__
from memberbound.answers import INTERNAL, Answer, EstimateOf, Given, OmitEmpty, computed
from memberbound.declarations import Option, Progress
from memberbound.errors import InputError, positive, whole_number
from memberbound.files import write_table, write_text
from memberbound.games import Game, IidGame, SubsetGame
from memberbound.numerics.rounding import FloatArray
from memberbound.quantities import json_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The quantities of one trial at every value of a sweep, by name.
Measured = Sequence[Mapping[str, float]]
#: A line of a table: every cell is a number, a text, or missing.
Row = dict[str, EstimateOf | int | str | None]


# ── Sweeps ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Average:
    """A mean over trials with its standard error (0 for a single trial)."""

    mean: float
    standard_error: float = 0.0
    trials: int = 1

    @classmethod
    def of(cls, values: FloatArray) -> Average:
        """Average the values that are numbers: a ratio 0/0 is no measurement."""
        finite = values[np.isfinite(values)]
        if finite.size == 0:
            return cls(math.nan, math.nan, 0)
        spread = float(finite.std(ddof=1)) if finite.size > 1 else 0.0
        return cls(float(finite.mean()), spread / math.sqrt(finite.size), int(finite.size))


@dataclass(frozen=True, eq=False)
class Sweep:
    """``quantities[name]`` is an array with one row per value and one column per trial."""

    parameter: str
    values: tuple[float, ...]
    quantities: Mapping[str, FloatArray]

    @property
    def trials(self) -> int:
        """Number of repetitions of every value."""
        return int(next(iter(self.quantities.values())).shape[1])

    def trials_at(self, quantity: str, value: float) -> FloatArray:
        """Return a quantity at one value, trial by trial."""
        return np.asarray(self.quantities[quantity][self.values.index(value)])

    def at(self, quantity: str, value: float) -> Average:
        """Average a quantity over the trials at one value."""
        return Average.of(self.trials_at(quantity, value))

    def averages(self, quantity: str) -> list[Average]:
        """Average a quantity at every value."""
        return [Average.of(row) for row in self.quantities[quantity]]

    def rows(self) -> list[Row]:
        """Return mean, standard error and number of trials of every quantity, one row per value."""
        rows: list[Row] = [{self.parameter: value} for value in self.values]
        for name in self.quantities:
            for row, average in zip(rows, self.averages(name), strict=True):
                row[f"{name}_mean"] = json_number(average.mean)
                row[f"{name}_se"] = json_number(average.standard_error)
                row[f"{name}_n"] = average.trials
        return rows

    def trial_rows(self) -> list[Row]:
        """Return every trial, one row each."""
        rows: list[Row] = []
        for i, value in enumerate(self.values):
            for trial in range(self.trials):
                row: Row = {self.parameter: value, "trial": trial}
                row.update((n, json_number(float(q[i, trial]))) for n, q in self.quantities.items())
                rows.append(row)
        return rows


class Trials:
    """The finished trials of one figure, in a file while it is not finished.

    A stopped run continues after the last complete trial.  ``key`` identifies the trials (figure,
    version, seed, settings); trials with another key are dropped.
    """

    def __init__(
        self,
        progress: Progress | None,
        file: Path | None = None,
        key: Mapping[str, object] | None = None,
    ) -> None:
        self.progress, self.file = progress, file
        self.key = json.dumps(key, sort_keys=True)
        self.finished: list[list[dict[str, float]]] = []
        if file is None:
            return
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        if lines[:1] == [self.key]:
            for line in lines[1:]:
                with suppress(ValueError):  # cut off by the end of the run
                    self.finished.append(json.loads(line))

    def __call__(self, *step: int) -> None:
        """Report progress."""
        if self.progress is not None:
            self.progress(*step)

    def measured(self, trial: int, measure: Callable[[int], Measured]) -> Measured:
        """Return a trial, from the file or measured now."""
        if trial < len(self.finished):
            return self.finished[trial]
        result = [{name: float(value) for name, value in at.items()} for at in measure(trial)]
        self.finished.append(result)
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            known = [self.key, *map(json.dumps, self.finished)]
            write_text("\n".join(known) + "\n", self.file, force=True)
        return result

    def close(self) -> None:
        """Remove the file: the figure is finished."""
        if self.file is not None:
            self.file.unlink(missing_ok=True)


def swept(
    parameter: str,
    values: Sequence[float],
    trials: int,
    measure: Callable[[int], Measured],
    progress: Progress | None,
) -> Sweep:
    """Run ``measure(trial)``, which returns the quantities at every value, for all trials."""
    keep = progress if isinstance(progress, Trials) else Trials(progress)
    measured = []
    for trial in range(trials):
        measured.append(keep.measured(trial, measure))
        keep(trial + 1, trials)
    quantities = {
        name: np.array([[at[index][name] for at in measured] for index in range(len(values))])
        for name in measured[0][0]
    }
    return Sweep(parameter, tuple(values), quantities)


# ── Checks ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Check:
    """One claim: the paper's number (``None`` for words only), ours, and whether it holds."""

    claim: str
    paper: Given | None
    measured: EstimateOf
    standard_error: EstimateOf
    holds: bool
    #: The figure, where several are redone.
    id: OmitEmpty[str | None] = None

    def numbers(self) -> tuple[str, str]:
        """Return the paper's number and ours as texts; empty for words only."""
        paper = "" if self.paper is None else f"{self.paper:g}"
        error = "" if math.isnan(self.standard_error) else f" ± {self.standard_error:.2g}"
        return paper, f"{self.measured:.4g}{error}"


def _checked(claim: str, paper: float | None, average: Average, holds: bool) -> Check:
    return Check(claim, paper, average.mean, average.standard_error, bool(holds))


def near(claim: str, paper: float, average: Average, *, share: float) -> Check:
    """Check that the average is within a share of the paper's number."""
    holds = abs(average.mean - paper) <= share * abs(paper)
    return _checked(f"{claim} (within {share:.0%})", paper, average, holds)


def below(claim: str, paper: float | None, average: Average, *, limit: float) -> Check:
    """Check that the average is below the limit stated in the claim."""
    return _checked(f"{claim} (mean below {limit:g})", paper, average, average.mean < limit)


def above(claim: str, paper: float | None, average: Average, *, limit: float) -> Check:
    """Check that the average is above the limit stated in the claim."""
    return _checked(f"{claim} (mean above {limit:g})", paper, average, average.mean > limit)


def trend(
    claim: str, sweep: Sweep, quantity: str, *, rising: bool, values: Sequence[float] | None = None
) -> Check:
    """Check that a quantity rises (or falls) along the sweep, or along some of its values.

    Steps are compared trial by trial: a step may go the wrong way by two standard errors, and
    the whole way must go the right way by more than that.  ``measured`` is end over start.
    """
    sign = 1.0 if rising else -1.0
    rows = [sweep.trials_at(quantity, v) for v in (sweep.values if values is None else values)]
    steps = [Average.of(sign * (b - a)) for a, b in pairwise(rows)]
    whole = Average.of(sign * (rows[-1] - rows[0]))
    holds = all(s.mean >= -2 * s.standard_error for s in steps if not math.isnan(s.mean))
    holds = holds and whole.mean > 2 * whole.standard_error
    start, end = Average.of(rows[0]), Average.of(rows[-1])
    measured = end.mean / start.mean if start.mean else math.nan
    text = f"{claim} (every step, to 2 standard errors; measured: end over start)"
    return Check(text, None, measured, math.nan, bool(holds))


def flat(
    claim: str, sweep: Sweep, quantity: str, *, factor: float, values: Sequence[float] | None = None
) -> Check:
    """Check that the means along the sweep differ by at most a factor."""
    means = [sweep.at(quantity, v).mean for v in (sweep.values if values is None else values)]
    measured = max(means) / min(means) if min(means) > 0 else math.nan
    text = f"{claim} (largest mean at most {factor:g} × the smallest)"
    return Check(text, None, measured, math.nan, bool(measured <= factor))


# ── Pictures ──────────────────────────────────────────────────────────────────────────────────────

#: A quantity of a sweep, the text of its legend, colour and marker (after ``--``: a broken line).
Curve = tuple[str, str, str, str]


@dataclass(frozen=True)
class Picture:
    """The plot of a sweep: curves of means, with bands of two standard errors.

    ``panels`` are curves by the heading of their panel; ``quoted`` are the paper's numbers: x, y,
    text and colour; ``log`` names the axes that are logarithmic.
    """

    title: str
    xlabel: str
    ylabel: str
    panels: Mapping[str, Sequence[Curve]]
    quoted: Sequence[tuple[float, float, str, str]] = ()
    log: str = ""

    def draw(self, sweep: Sweep) -> Figure:
        """Return the matplotlib figure."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5 + 2.5 * len(self.panels), 5.8), layout="constrained")
        rows = figure.subplots(1, len(self.panels), sharey=True, squeeze=False)[0]
        for axes, (heading, curves) in zip(rows, self.panels.items(), strict=True):
            for quantity, label, colour, marker in curves:
                averages = sweep.averages(quantity)
                mean = np.array([a.mean for a in averages])
                band = 2 * np.array([a.standard_error for a in averages])
                axes.fill_between(
                    sweep.values, mean - band, mean + band, color=colour, alpha=0.2, lw=0
                )
                # A broken line has hollow markers: a curve below it shows through.
                broken = marker.startswith("--")
                axes.plot(
                    sweep.values,
                    mean,
                    color=colour,
                    label=label,
                    marker=marker.removeprefix("--"),
                    linestyle="--" if broken else "-",
                    markerfacecolor="none" if broken else colour,
                    ms=9 if broken else 4.5,
                )
            for x, y, label, colour in self.quoted:
                axes.plot(x, y, "*", color=colour, ms=15, mec="black", zorder=5, label=label)
            for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
                if name in self.log:
                    axes.set(**{f"{name}scale": "log"})
                    axis.set_major_formatter("{x:g}")
                    axis.set_minor_formatter("")
            axes.set(xlabel=self.xlabel, title=heading)
            axes.grid(visible=True, alpha=0.25)
        rows[0].set_ylabel(self.ylabel)
        handles, labels = rows[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=9)
        bands = "\nmeans over trials, bands of ± 2 standard errors" * (sweep.trials > 1)
        figure.suptitle(self.title + bands, fontsize=11)
        return figure


# ── Experiments ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class Findings:
    """The result of one run.

    ``table`` holds the plotted numbers, ``trials`` every measurement behind them, ``draw`` makes
    the matplotlib figure.
    """

    table: list[Row]
    trials: list[Row]
    checks: tuple[Check, ...]
    draw: Callable[[], Figure] = field(repr=False)

    @classmethod
    def of_sweep(cls, sweep: Sweep, checks: Sequence[Check], picture: Picture) -> Findings:
        """Return the findings of a figure that shows one sweep."""
        draw = partial(picture.draw, sweep)
        return cls(sweep.rows(), sweep.trial_rows(), tuple(checks), draw)


#: ``run(trials, seed, progress, **settings)``.
Run = Callable[..., Findings]


@dataclass(frozen=True)
class Experiment:
    """A figure or table: how it is set, and the function that measures it.

    ``code`` names a module of this package and its function ``run(trials, seed, progress)``, which
    is deterministic given the first two; its keyword arguments are the settings of the paper.
    ``notes`` say in words how the paper was read and what of it cannot be matched.  With
    ``needs_data`` the function takes the folder with data sets, or ``None``, and returns ``run``;
    it raises :class:`MissingDataError` where a data set is missing.
    """

    id: str
    title: str
    code: str
    trials: int
    theorems: tuple[str, ...]
    assumptions: tuple[str, ...]
    notes: tuple[str, ...] = ()
    game: Game = field(default_factory=IidGame)
    needs_data: bool = False

    @property
    def function(self) -> Any:
        """The function that ``code`` names."""
        module, name = self.code.split(".")
        return getattr(import_module(f"{__package__}.{module}"), name)

    def prepared(self, folder: Path | None) -> Run:
        """Return what runs the experiment, with its data set read."""
        run: Run = self.function(folder) if self.needs_data else self.function
        return run

    def settings_text(self) -> str:
        """Return the settings with the paper's values."""
        known = {"n": None} if self.needs_data else settings_of(self.function)
        return ", ".join(k if v is None else f"{k} = {v:g}" for k, v in known.items())


@cache
def experiments() -> Mapping[str, Experiment]:
    """Return every experiment by its id."""
    text = resources.files(__package__).joinpath("figures.toml").read_text(encoding="utf-8")
    listed = {}
    for row in tomllib.loads(text)["figure"]:
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in row.items()
        }
        if "game" in fields:
            fields["game"] = SubsetGame(**fields["game"])
        listed[row["id"]] = Experiment(**fields)
    return listed


def settings_of(run: Run) -> dict[str, float | None]:
    """Return the settings of a figure: names and the paper's values (``None``: several)."""
    taken = signature(run).parameters.values()
    return {p.name: p.default for p in taken if p.kind is p.KEYWORD_ONLY}


def chosen_settings(
    run: Run, id: str, n: int | None, settings: Sequence[str] | Mapping[str, float] | None
) -> dict[str, float]:
    """Return the settings that differ from the paper's, checked."""
    if isinstance(settings, Mapping):
        pairs: list[tuple[str, Any]] = [(str(name), value) for name, value in settings.items()]
    else:
        pairs = [(name, value) for name, _, value in (s.partition("=") for s in settings or ())]
    if n is not None:
        pairs.append(("n", n))
    known, chosen = settings_of(run), {}
    for name, value in pairs:
        if name not in known:
            listed = ", ".join(f"{k} = {v:g}" for k, v in known.items() if v is not None)
            raise InputError(f"settings of {id} must be among {listed or 'n'}, got {name!r}.")
        default = known[name]
        whole = default is None or isinstance(default, int)
        number = whole_number(name, value) if whole else positive(name, value)
        if number != default:
            chosen[name] = number
    return chosen


#: Environment variable that names the folder with data sets.
DATA_VARIABLE = "MEMBERBOUND_DATA"


class MissingDataError(InputError):
    """A data set that the package does not carry is not there; the message says how to get it."""


def data_folder(data: str | Path | None) -> Path | None:
    """Return the folder that is named, or else the one of the environment, or else nothing."""
    named = data if data is not None else os.environ.get(DATA_VARIABLE) or None
    if named is None:
        return None
    folder = Path(named)
    if not folder.is_dir():
        name = "data" if data is not None else DATA_VARIABLE
        raise InputError(f"{name} must be a folder, got {str(named)!r}.")
    return folder


# ── The verb ──────────────────────────────────────────────────────────────────────────────────────


def _chosen(id: str) -> tuple[list[Experiment], bool]:
    """Return the experiments of an id (case-insensitive), and whether it names several."""
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
            repeated. With settings of your own the paper's claims are not checked.
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

    A run with ``out`` that is stopped goes on from its last trial when it is started again.

    Edge cases: an unknown id, an ``out`` that is a file, less than one trial, a damaged data set:
    refused before any work is done.  A data set that is not there: refused if its table is the
    only one asked for; among several it is left out, and ``left_out`` says why.  A claim that does
    not hold is a result, not an error.
    """
    if id is None or listing:
        return Reproduction.listing()
    wanted, several = _chosen(id)
    if several and (n is not None or settings):
        raise InputError(f"id must be one figure with settings of its own, got {id!r}.")
    count = None if trials is None else whole_number("trials", trials)
    start = whole_number("seed", seed, at_least=0)
    # The environment is not looked at for figures that need no data.
    needed = data is not None or any(one.needs_data for one in wanted)
    source = data_folder(data) if needed else None
    ready: list[tuple[Experiment, Run, dict[str, float]]] = []
    left_out = []
    for one in wanted:
        try:
            run = one.prepared(source)
        except MissingDataError as missing:
            if len(wanted) == 1:
                raise
            left_out.append({"id": one.id, "title": one.title, "reason": str(missing)})
        else:
            ready.append((one, run, chosen_settings(run, one.id, n, settings)))
    folder = None if out is None else _folder(out)
    parts = []
    for index, (one, run, chosen) in enumerate(ready):
        own = one.trials if count is None else count
        keep = None if folder is None else folder / f"{one.id}-unfinished.jsonl"
        key = {"id": one.id, "version": __version__, "seed": start, "settings": chosen}
        watch = Trials(progress if len(ready) == 1 else None, keep, key)
        findings = run(own, start, watch, **chosen)
        # The claims are about the paper's settings.
        checks = () if chosen else findings.checks
        part = Reproduction(
            one.id, one.title, findings.table, checks, (one,), own, start, settings=chosen
        )
        parts.append(part if folder is None else _written(part, findings, folder))
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
    """Return the folder, which is created with its first file; refuse a file at once."""
    folder = Path(out)
    if any(part.is_file() for part in (folder, *folder.parents)):
        raise InputError(f"out must be a folder, got {str(out)!r}, where a file is.")
    return folder


def _written(result: Reproduction, findings: Findings, folder: Path) -> Reproduction:
    """Write figure, tables and answer; return the answer, which names the files."""
    import pandas as pd

    from memberbound.report.drawing import save

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
    # Laid out once for both files, not once for each.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for target in (png, svg):
        save(figure, target, title=f"{result.id}: {result.title}", caption=result.title)
    text = json.dumps(result.to_dict(), ensure_ascii=False, allow_nan=False, indent=2)
    write_text(text + "\n", record, force=True)
    return result


# ── The answer ────────────────────────────────────────────────────────────────────────────────────

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
    checks: tuple[Check, ...]
    experiments: tuple[Experiment, ...] = field(metadata=INTERNAL)
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
        listed = tuple(experiments().values())
        rows: list[Row] = [
            {"id": e.id, "title": e.title, "trials": e.trials, "settings": e.settings_text()}
            for e in listed
        ]
        return cls(None, "figures and tables that can be redone", rows, (), listed)

    @property
    def game(self) -> Game:
        """The game of the first figure; :meth:`to_dict` names none where several differ."""
        return self.experiments[0].game

    @property
    def theorems(self) -> tuple[str, ...]:
        """The results that the figures are about."""
        return tuple(dict.fromkeys(t for e in self.experiments for t in e.theorems))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of the numbers; a list has none."""
        redone = () if self.id is None else self.experiments
        return tuple(dict.fromkeys(a for e in redone for a in e.assumptions))

    @computed
    def notes(self) -> list[str]:
        """Remarks on how the papers were read; for several figures each names its figure."""
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
        """Return a short text: the list, the claims with what was measured, or a page of several.

        The page is Markdown: a row for each figure, and what does not match.
        """
        if self.id is None:
            lines = [
                f"{row['id']}  {row['title']} ({row['trials']} trials; {row['settings']})"
                for row in self.table
            ]
            return "\n".join([*lines, "", "Run one with its id, or all of them with: all"])
        if self.parts:
            return self._page()
        lines = [f"{self.id}  {self.title}", f"{self.trials} trials, seed {self.seed}", ""]
        if self.checks:
            lines += [f"{'holds':<7}{'paper':<9}{'measured':<20}claim"]
        for check in self.checks:
            paper, ours = check.numbers()
            holds = "yes" if check.holds else "NO"
            lines.append(f"{holds:<7}{paper:<9} {ours:<20} {check.claim}")
        lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines)

    def _page(self) -> str:
        holding = sum(check.holds for check in self.checks)
        lines = [
            "# Figures and tables of the papers, redone",
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


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
