"""What it takes to redo a figure: sweeps of a parameter, checks of claims, the look of a plot.

A figure or table is an :class:`Experiment` (``figures.toml`` lists them); running it gives
:class:`Findings`.  Most vary one parameter and average several trials at every value: a
:class:`Sweep`.  What the paper says about it becomes a :class:`Check`, whose claim states the
tolerance that was applied.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module, resources
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from memberbound.errors import InputError
from memberbound.games import Game, IidGame, SubsetGame
from memberbound.numerics.rounding import FloatArray
from memberbound.quantities import json_number
from memberbound.report.drawing import BLUE, GREEN, GREY, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "DATA_VARIABLE",
    "Average",
    "Check",
    "Experiment",
    "Findings",
    "MissingDataError",
    "Progress",
    "Quoted",
    "Row",
    "Run",
    "Sweep",
    "above",
    "below",
    "between",
    "data_folder",
    "draw_mean",
    "experiments",
    "flat",
    "near",
    "ratios_figure",
    "swept",
    "trend",
]

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
        kept = values[np.isfinite(values)]
        if kept.size == 0:
            return cls(math.nan, math.nan, 0)
        spread = float(kept.std(ddof=1)) if kept.size > 1 else 0.0
        return cls(float(kept.mean()), spread / math.sqrt(kept.size), int(kept.size))


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

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        return {
            "claim": self.claim,
            "paper": self.paper,
            "measured": json_number(self.measured),
            "standard_error": json_number(self.standard_error),
            "holds": self.holds,
        }

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
