"""Success of three attackers against ε: what the worst case says, and what these records allow.

The worst case and the population's own are promises of differential privacy; the third curve is
the attacker of the subset game, who does not know who was drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memberbound.populations.answer import PopulationAnswer
from memberbound.quantities import significant
from memberbound.report.figure import BLUE, GREY, ORANGE, save

__all__ = ["save_success", "swept_epsilons"]

_GREEN = "#009E73"


def swept_epsilons(answer: PopulationAnswer, points: int = 25) -> list[float]:
    """Return ε around the one that was asked about, on a logarithmic grid."""
    centre = answer.epsilon if 0 < answer.epsilon < float("inf") else 1.0
    return [float(e) for e in np.geomspace(centre / 30, centre * 10, points)]


def save_success(
    answer: PopulationAnswer, path: str | Path, epsilons: Sequence[float] | None = None
) -> Path:
    """Draw success bounds against ε into ``path`` (PNG, SVG, PDF or HTML).

    The file appears whole or not at all.
    """
    grid = swept_epsilons(answer) if epsilons is None else list(epsilons)
    figure = _figure(answer, grid)
    return save(figure, path, title="memberbound population", caption=answer.sentence)


def _figure(answer: PopulationAnswer, epsilons: list[float]) -> Any:
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    swept = answer.sweep(epsilons)
    lines = (
        ("worst_case", ORANGE, (0, (1, 1)), "knows all but one record, any data set (ε-DP)"),
        ("population", BLUE, (0, (5, 2)), "knows all but one of these records"),
        ("practical", _GREEN, "-", "knows these records, not who was drawn"),
    )
    for name, colour, style, label in lines:
        heights = [getattr(point, name) for point in swept]
        axes.plot(epsilons, heights, color=colour, ls=style, lw=2.2, label=label)
        if 0 < answer.epsilon < float("inf"):
            axes.plot([answer.epsilon], [getattr(answer.compared, name)], "o", color=colour, ms=6)
    axes.axhline(answer.blind, color=GREY, lw=1.2, ls=":", label="guessing blindly")
    axes.set(
        xscale="log",
        xlabel="ε of the mechanism, worst case over all data sets"
        + (f" (δ = {significant(answer.delta, 'given')})" if answer.delta else ""),
        ylabel="certified success of any attack",
        ylim=(min(0.5, answer.blind) - 0.02, 1.02),
    )
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid(visible=True, alpha=0.25)
    axes.legend(loc="upper left", frameon=True, fontsize=9)
    axes.set_title(
        f"What ε means for these {answer.game.population} records "
        f"({answer.mechanism} mechanism, {answer.query})",
        fontsize=11,
    )
    return figure
