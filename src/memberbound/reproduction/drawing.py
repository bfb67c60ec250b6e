"""The look of the figures: means with bands of two standard errors, the paper's numbers marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from memberbound.report.figure import BLUE, GREY, ORANGE
from memberbound.reproduction.sweep import Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Curve", "Quoted", "ratios_figure"]


@dataclass(frozen=True)
class Curve:
    """A quantity of the sweep, what the legend calls it, and whether it is a second reading."""

    quantity: str
    label: str
    colour: str = BLUE
    style: str = "-"
    marker: str = "o"


@dataclass(frozen=True)
class Quoted:
    """A number that the paper states, in the colour of its curve; a limit points downwards."""

    x: float
    y: float
    label: str
    colour: str = "black"
    limit: bool = False


#: The two ratios that every figure of L24 shows.
WORST_CASE = Curve("ratio_worst_case", "ε̃/ε   (practical attacker : worst case)")
POPULATION = Curve(
    "ratio_population", "ε̃/ε(X)   (practical attacker : worst case inside X)", ORANGE, marker="s"
)


def other_reading(quantity: str, label: str) -> Curve:
    """Return a grey curve: the same quantity under another reading of the paper."""
    return Curve(quantity, label, GREY, ":", marker="^")


def ratios_figure(
    sweep: Sweep,
    curves: Sequence[Curve],
    *,
    title: str,
    xlabel: str,
    quoted: Sequence[Quoted] = (),
    log_x: bool = False,
    log_y: bool = False,
) -> Figure:
    """Draw ratios of privacy parameters against the swept parameter."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 5), layout="constrained")
    axes = figure.subplots()
    x = np.array(sweep.values, dtype=np.float64)
    for curve in curves:
        averages = sweep.averages(curve.quantity)
        mean = np.array([a.mean for a in averages])
        band = 2 * np.array([a.standard_error for a in averages])
        axes.fill_between(x, mean - band, mean + band, color=curve.colour, alpha=0.2, lw=0)
        axes.plot(
            x,
            mean,
            curve.style,
            marker=curve.marker,
            ms=4.5,
            lw=1.6,
            color=curve.colour,
            label=curve.label,
        )
    for point in quoted:
        axes.plot(
            [point.x],
            [point.y],
            "v" if point.limit else "*",
            ms=9 if point.limit else 15,
            color=point.colour,
            mfc="none" if point.limit else point.colour,
            mec=point.colour if point.limit else "black",
            mew=1.6 if point.limit else 1.0,
            zorder=5,
            ls="none",
            label=point.label,
        )
    _scales(axes, x, log_x=log_x, log_y=log_y)
    axes.set(xlabel=xlabel, ylabel="ratio of privacy parameters")
    axes.grid(visible=True, which="major", alpha=0.25)
    axes.legend(frameon=True, fontsize=9, title=_trials(sweep), title_fontsize=9)
    axes.set_title(title, fontsize=11)
    return figure


def _trials(sweep: Sweep) -> str:
    count = next(iter(sweep.quantities.values())).shape[1]
    return f"mean of {count} trials, band ± 2 standard errors" if count > 1 else "a single trial"


def _scales(axes: Any, x: np.ndarray[Any, Any], *, log_x: bool, log_y: bool) -> None:
    """Logarithmic axes with plain numbers at the swept values."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    if log_x:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(x.tolist()))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if log_y:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axes.set_ylim(bottom=0)
