"""The ROC of an explanation, linear and log–log side by side.

Certified ceilings are drawn as the edge of a shaded region that no attack can enter; the diagonal
is guessing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from memberbound.explanation import Explanation
from memberbound.quantities import significant
from memberbound.report.figure import BLUE, GREY, ORANGE, save

__all__ = ["save_roc"]


def save_roc(explanation: Explanation, path: str | Path) -> Path:
    """Draw the certified ROC into ``path`` (PNG, SVG, PDF or a self-contained HTML page).

    The file appears whole or not at all.
    """
    caption = f"ROC, linear and log–log: {explanation.sentence}"
    return save(_figure(explanation), path, title="memberbound explain", caption=caption)


def _figure(explanation: Explanation) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5.2), layout="constrained")
    linear, log = figure.subplots(1, 2)
    curve = explanation.guarantee.curve
    swapped = explanation.guarantee.replaced().curve
    for axes, alpha in (
        (linear, np.unique(np.concatenate([np.linspace(0, 1, 801), np.geomspace(1e-6, 1, 400)]))),
        (log, np.geomspace(1e-6, 1, 801)),
    ):
        tpr = curve.roc(alpha)
        axes.fill_between(alpha, tpr, 1.0, color=BLUE, alpha=0.10, lw=0)
        label = f"certified ceiling ({explanation.adjacency})"
        axes.plot(alpha, tpr, color=BLUE, lw=2.2, label=label)
        if explanation.adjacency != "replace-one":
            axes.plot(
                alpha,
                swapped.roc(alpha),
                color=ORANGE,
                lw=1.8,
                ls=(0, (5, 2)),
                label="certified ceiling (replace-one)",
            )
        axes.plot(alpha, alpha, color=GREY, lw=1.2, ls=":", label="guessing")
        points = [a for a in explanation.fpr if a > 0]
        axes.plot(points, [curve.tpr(a) for a in points], "o", color=BLUE, ms=5)
        axes.set_xlabel("false-positive rate: outsiders wrongly named “in”")
        axes.grid(visible=True, alpha=0.25, which="major")
    linear.set(xlim=(0, 1), ylim=(0, 1.005), aspect="equal", title="linear")
    linear.set_ylabel("true-positive rate: members found")
    low = float(min(1e-5, curve.tpr(1e-5)))
    log.set(xscale="log", yscale="log", xlim=(1e-5, 1), ylim=(low, 1.15), title="log–log")
    linear.legend(loc="lower right", frameon=True, fontsize=9)
    for rate in [a for a in explanation.fpr if a >= 1e-5]:
        value = curve.tpr(rate)
        log.annotate(
            f"{significant(value, 'upper')} at {significant(rate, 'given')}",
            (rate, value),
            textcoords="offset points",
            xytext=(8, -13),
            fontsize=9,
            color=BLUE,
            bbox={"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 1.0},
        )
    figure.suptitle(f"No attack reaches the shaded region: {explanation.setting}", fontsize=12)
    return figure
