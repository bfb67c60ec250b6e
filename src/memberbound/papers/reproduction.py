"""The verb ``reproduce``: redo the papers' figures and tables, and compare what they say.

A figure or table is an :class:`Experiment` (``figures.toml`` lists them); running it gives
:class:`Findings`.  Most vary one parameter and average several trials at every value: a
:class:`Sweep`.  What the paper says about it becomes a :class:`Check`, whose claim states the
tolerance that was applied.

Examples:
    >>> reproduce().table[0]["id"]
    'L24-F1'
"""

from __future__ import annotations

import json
import math
import os
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib import import_module, resources
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from memberbound.answers import plain
from memberbound.declarations import Option, Seed
from memberbound.errors import InputError, whole_number
from memberbound.files import write_table, write_text
from memberbound.games import Game, IidGame, SubsetGame
from memberbound.numerics.rounding import FloatArray
from memberbound.quantities import common_fields, json_number
from memberbound.report.drawing import BLUE, GREEN, GREY, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Progress = Callable[[int, int], None]
#: A line of a table: every cell is a number, a text, or missing.
Row = dict[str, float | int | str | None]


# ---- sweeps ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Average:
    """A mean over trials with its standard error (0 for a single trial)."""

    mean: float
    standard_error: float
    trials: int

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
        """The number of trials at every value."""
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
        rows: list[Row] = []
        for place, value in enumerate(self.values):
            row: Row = {self.parameter: value}
            for name, table in self.quantities.items():
                average = Average.of(table[place])
                row[f"{name}_mean"] = json_number(average.mean)
                row[f"{name}_se"] = json_number(average.standard_error)
                row[f"{name}_n"] = average.trials
            rows.append(row)
        return rows

    def trial_rows(self) -> Iterator[Row]:
        """Return every trial, one row each."""
        for place, value in enumerate(self.values):
            for trial in range(self.trials):
                row: Row = {self.parameter: value, "trial": trial}
                for name, table in self.quantities.items():
                    row[name] = json_number(float(table[place, trial]))
                yield row


def swept(
    parameter: str,
    values: Sequence[float],
    trials: int,
    measure: Callable[[int], Sequence[Mapping[str, float]]],
    progress: Progress | None,
) -> Sweep:
    """Run ``measure(trial)``, which returns the quantities at every value, for all trials."""
    columns = []
    for trial in range(trials):
        columns.append(measure(trial))
        if progress is not None:
            progress(trial + 1, trials)
    quantities = {
        name: np.array([[at[place][name] for at in columns] for place in range(len(values))])
        for name in columns[0][0]
    }
    return Sweep(parameter, tuple(values), quantities)


# ---- checks ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    """One claim: the paper's number (``None`` for words only), ours, and whether it holds."""

    claim: str
    paper: float | None
    measured: float
    standard_error: float
    holds: bool

    def printed(self) -> str:
        """Return the paper's number as a text, empty for words only."""
        return "" if self.paper is None else f"{self.paper:g}"

    def ours(self) -> str:
        """Return what was measured as a text, with its standard error where there is one."""
        if math.isnan(self.standard_error):
            return f"{self.measured:.4g}"
        return f"{self.measured:.4g} ± {self.standard_error:.2g}"


def _checked(claim: str, paper: float | None, average: Average, holds: bool) -> Check:
    return Check(claim, paper, average.mean, average.standard_error, bool(holds))


def near(claim: str, paper: float, average: Average, *, share: float) -> Check:
    """Check that the average is within a share of the paper's number."""
    holds = abs(average.mean - paper) <= share * abs(paper)
    return _checked(f"{claim} (within {share:.0%})", paper, average, holds)


def below(claim: str, paper: float | None, average: Average, *, limit: float) -> Check:
    """Check that the average is below a limit, which stands in the claim."""
    return _checked(f"{claim} (mean below {limit:g})", paper, average, average.mean < limit)


def above(claim: str, paper: float | None, average: Average, *, limit: float) -> Check:
    """Check that the average is above a limit, which stands in the claim."""
    return _checked(f"{claim} (mean above {limit:g})", paper, average, average.mean > limit)


def between(claim: str, paper: float, low: Average, high: Average) -> Check:
    """Check that the paper's number lies between two averages; ours is the lower one."""
    text = f"{claim} (between our two means {low.mean:.3g} and {high.mean:.3g})"
    return _checked(text, paper, low, low.mean <= paper <= high.mean)


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


# ---- experiments -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Findings:
    """What one run found.

    ``table`` is what the figure shows, ``trials`` every single measurement behind it, ``draw``
    makes the matplotlib figure.
    """

    table: list[Row]
    trials: list[Row]
    checks: tuple[Check, ...]
    draw: Callable[[], Figure] = field(repr=False)

    @classmethod
    def of_sweep(
        cls, sweep: Sweep, checks: Sequence[Check], draw: Callable[[], Figure]
    ) -> Findings:
        """Return the findings of a figure that shows one sweep."""
        return cls(sweep.rows(), list(sweep.trial_rows()), tuple(checks), draw)

    @classmethod
    def of_ratios(cls, sweep: Sweep, checks: Sequence[Check], **look: Any) -> Findings:
        """Return the findings of a figure of L24; ``look`` as in :func:`ratios_figure`."""
        return cls.of_sweep(sweep, checks, lambda: ratios_figure(sweep, **look))


Run = Callable[[int, int, Progress | None], Findings]


@dataclass(frozen=True)
class Experiment:
    """A figure or table: how it is set, and the function that measures it.

    ``code`` names a module of this package and its function ``run(trials, seed, progress)``, which
    is deterministic given the first two.  ``notes`` say in words how the paper was read and what of
    it cannot be matched.  With ``needs_data`` the function takes the folder with data sets, or
    ``None``, and returns ``run``; it raises :class:`MissingDataError` where a data set is missing.
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

    def prepared(self, folder: Path | None) -> Run:
        """Return what runs the experiment, with its data set read."""
        module, name = self.code.split(".")
        function: Any = getattr(import_module(f"{__package__}.{module}"), name)
        run: Run = function(folder) if self.needs_data else function
        return run


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


# ---- drawing -----------------------------------------------------------------------------------


def draw_mean(
    axes: Axes,
    sweep: Sweep,
    quantity: str,
    *,
    colour: str,
    label: str | None = None,
    limits: tuple[float, float] = (-math.inf, math.inf),
    **look: Any,
) -> None:
    """Draw the means of a quantity with a band of two standard errors, cut at the limits."""
    x = np.array(sweep.values, dtype=np.float64)
    averages = sweep.averages(quantity)
    mean = np.array([a.mean for a in averages])
    band = 2 * np.array([a.standard_error for a in averages])
    low, high = (np.clip(edge, *limits) for edge in (mean - band, mean + band))
    axes.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)
    axes.plot(x, mean, color=colour, label=label, **look)


@dataclass(frozen=True)
class Quoted:
    """A number that the paper states, in the colour of its curve; a limit points downwards."""

    x: float
    y: float
    label: str
    colour: str = "black"
    limit: bool = False


#: What every figure of L24 shows: quantity, text of the legend, colour, style and marker.
_RATIOS = (
    ("ratio_population", "ε̃/ε(X)   (practical attacker : worst case inside X)", ORANGE, "-", "s"),
    ("ratio_worst_case", "ε̃/ε   (practical attacker : worst case)", BLUE, "-", "o"),
)
_PROVED = ("ratio_proved", "what can be proved: ε̃/ε with the crowd (X21)", GREEN, "-", "D")


def ratios_figure(
    sweep: Sweep,
    *,
    title: str,
    xlabel: str,
    other_reading: tuple[str, str] | None = None,
    proved: bool = False,
    quoted: Sequence[Quoted] = (),
    log_x: bool = False,
    log_y: bool = False,
) -> Figure:
    """Draw L24's ratios of privacy parameters against the swept parameter.

    ``other_reading`` is the quantity that another reading of the paper gives, and what the legend
    calls it; ``proved`` adds what X21 proves; ``quoted`` are the paper's numbers, marked.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

    figure = Figure(figsize=(7.5, 5), layout="constrained")
    axes = figure.subplots()
    curves = list(_RATIOS)
    if other_reading is not None:
        curves.append((*other_reading, GREY, ":", "^"))
    if proved:
        curves.append(_PROVED)
    for quantity, label, colour, ls, marker in curves:
        look: dict[str, Any] = {"ls": ls, "marker": marker, "ms": 4.5, "lw": 1.6}
        draw_mean(axes, sweep, quantity, colour=colour, label=label, **look)
    for point in quoted:
        look = {"marker": "*", "ms": 15, "mec": "black"}
        if point.limit:
            look = {"marker": "v", "ms": 9, "mfc": "none", "mec": point.colour, "mew": 1.6}
        axes.plot(
            point.x, point.y, color=point.colour, ls="none", zorder=5, label=point.label, **look
        )
    if log_x:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(sweep.values))
    if log_y:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    else:
        axes.set_ylim(bottom=0)
    # Plain numbers at the ticks of logarithmic axes.
    for axis in [axes.xaxis] * log_x + [axes.yaxis] * log_y:
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter("{x:g}")
    axes.set(xlabel=xlabel, ylabel="ratio of privacy parameters")
    axes.grid(visible=True, which="major", alpha=0.25)
    several = f"mean of {sweep.trials} trials, band ± 2 standard errors"
    trials = several if sweep.trials > 1 else "a single trial"
    axes.legend(frameon=True, fontsize=9, title=trials, title_fontsize=9)
    axes.set_title(title, fontsize=11)
    return figure


# ---- the verb ----------------------------------------------------------------------------------

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
        checks = [plain(check) for check in self.checks]
        if self.parts:
            checks = [{"id": p.id} | plain(check) for p in self.parts for check in p.checks]
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
            holding = sum(check.holds for check in self.checks)
            lines = [done, "", f"{holding} of {len(self.checks)} claims hold as stated."]
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
    holding = sum(check.holds for check in together.checks)
    lines = [
        "# Figures and tables of the papers, redone",
        "",
        "Written by `memberbound reproduce "
        f"{together.id} --seed {together.seed}`; do not edit. {holding} of {len(together.checks)} "
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
