"""Figures and tables of the papers: what they measure, and what the papers claim.

A figure or table is an :class:`Experiment` (``figures.toml`` lists them); running it gives
:class:`Findings`.  Most vary one parameter and average several trials at every value: a
:class:`Sweep`.  A :class:`~memberbound.verbs.reproduce.ClaimCheck` is a claim of the paper with the
tolerance that was applied.
"""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module, resources
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from memberbound.certificate import json_number
from memberbound.declarations import Progress
from memberbound.errors import InputError, positive, whole_number
from memberbound.files import write_text
from memberbound.games import Game, IidGame, SubsetGame
from memberbound.numerics.rounding import FloatArray
from memberbound.verbs.reproduce import ClaimCheck, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The quantities of one trial at every value of a sweep, by name.
Measured = Sequence[Mapping[str, float]]


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

    def load_or_measure(self, trial: int, measure: Callable[[int], Measured]) -> Measured:
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


def run_sweep(
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
        measured.append(keep.load_or_measure(trial, measure))
        keep(trial + 1, trials)
    quantities = {
        name: np.array([[at[index][name] for at in measured] for index in range(len(values))])
        for name in measured[0][0]
    }
    return Sweep(parameter, tuple(values), quantities)


# ── Checks ────────────────────────────────────────────────────────────────────────────────────────


def _check_claim(claim: str, paper: float | None, average: Average, holds: bool) -> ClaimCheck:
    return ClaimCheck(claim, paper, average.mean, average.standard_error, bool(holds))


def near(claim: str, paper: float, average: Average, *, share: float) -> ClaimCheck:
    """Check that the average is within a share of the paper's number."""
    holds = abs(average.mean - paper) <= share * abs(paper)
    return _check_claim(f"{claim} (within {share:.0%})", paper, average, holds)


def below(claim: str, paper: float | None, average: Average, *, limit: float) -> ClaimCheck:
    """Check that the average is below the limit stated in the claim."""
    return _check_claim(f"{claim} (mean below {limit:g})", paper, average, average.mean < limit)


def above(claim: str, paper: float | None, average: Average, *, limit: float) -> ClaimCheck:
    """Check that the average is above the limit stated in the claim."""
    return _check_claim(f"{claim} (mean above {limit:g})", paper, average, average.mean > limit)


def trend(
    claim: str, sweep: Sweep, quantity: str, *, rising: bool, values: Sequence[float] | None = None
) -> ClaimCheck:
    """Check that a quantity rises (or falls) along the sweep, or along some of its values.

    Steps are compared trial by trial: a step may go the wrong way by two standard errors, and
    the whole way must go the right way by more than that.  ``load_or_measure`` is end over start.
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
    return ClaimCheck(text, None, measured, math.nan, bool(holds))


def flat(
    claim: str, sweep: Sweep, quantity: str, *, factor: float, values: Sequence[float] | None = None
) -> ClaimCheck:
    """Check that the means along the sweep differ by at most a factor."""
    means = [sweep.at(quantity, v).mean for v in (sweep.values if values is None else values)]
    measured = max(means) / min(means) if min(means) > 0 else math.nan
    text = f"{claim} (largest mean at most {factor:g} × the smallest)"
    return ClaimCheck(text, None, measured, math.nan, bool(measured <= factor))


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
    checks: tuple[ClaimCheck, ...]
    draw: Callable[[], Figure] = field(repr=False)

    @classmethod
    def of_sweep(cls, sweep: Sweep, checks: Sequence[ClaimCheck], picture: Picture) -> Findings:
        """Return the findings of a figure that shows one sweep."""
        draw = partial(picture.draw, sweep)
        return cls(sweep.rows(), sweep.trial_rows(), tuple(checks), draw)


#: ``run(trials, seed, progress, **settings)``.
FigureRun = Callable[..., Findings]


@dataclass(frozen=True)
class Experiment:
    """A figure or table: its settings, and the function that measures it.

    ``code`` names a module of this package and its function ``run(trials, seed, progress)``, which
    is deterministic given the first two; its keyword arguments are the settings of the paper.
    ``notes`` describe readings of the paper and parts that cannot be matched.  With
    ``needs_data`` the function takes the folder with data sets, or ``None``, and returns ``run``;
    it raises :class:`MissingDataError` if a data set is missing.
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

    def prepare(self, folder: Path | None) -> FigureRun:
        """Return what runs the experiment, with its data set read."""
        run: FigureRun = self.function(folder) if self.needs_data else self.function
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


def settings_of(run: FigureRun) -> dict[str, float | None]:
    """Return the settings of a figure: names and the paper's values (``None``: several)."""
    taken = signature(run).parameters.values()
    return {p.name: p.default for p in taken if p.kind is p.KEYWORD_ONLY}


def select_settings(
    run: FigureRun, id: str, n: int | None, settings: Sequence[str] | Mapping[str, float] | None
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
    """A data set outside the package is missing; the message explains how to get it."""


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
