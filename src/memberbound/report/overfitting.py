"""The history of an overfitting monitor: losses above, the ceiling of security below."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from memberbound.auditing.monitor import OverfittingMonitor
from memberbound.errors import InputError
from memberbound.quantities import confident, significant
from memberbound.report.figure import BLUE, GREY, ORANGE, save

__all__ = ["save_history"]


def save_history(monitor: OverfittingMonitor, path: str | Path) -> Path:
    """Draw the looks of a monitor into ``path`` (PNG, SVG, PDF or HTML).

    The file appears whole or not at all.
    """
    if len(monitor.history["step"]) == 0:
        raise InputError("monitor must have been updated at least once, got no looks.")
    caption = (
        "Mean losses, and the ceiling of the model's security under the loss threshold, with its "
        f"{confident(monitor.confidence)} band over all looks (this model, its average training "
        "record)."
    )
    return save(_figure(monitor), path, title="memberbound overfitting", caption=caption)


def _figure(monitor: OverfittingMonitor) -> Any:
    from matplotlib.figure import Figure

    history = monitor.history
    x = history["step"]
    figure = Figure(figsize=(7.5, 6.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    for key, colour, label in (
        ("train_loss_mean", BLUE, "training records"),
        ("fresh_loss_mean", ORANGE, "fresh records"),
    ):
        above.plot(x, history[key], color=colour, lw=1.8, marker="o", ms=3, label=label)
    shown = np.concatenate([history["train_loss_mean"], history["fresh_loss_mean"]])
    if (shown[np.isfinite(shown)] > 0).any():
        above.set_yscale("log")
    above.set_ylabel("mean loss")
    low, high = history["ceiling_lower"], history["ceiling_upper"]
    below.fill_between(x, high, 1.0, color=GREY, alpha=0.12, lw=0, label="ruled out for security")
    below.fill_between(
        *(x, low, high),
        color=BLUE,
        alpha=0.2,
        lw=0,
        label=f"{confident(monitor.confidence)} over all looks",
    )
    below.plot(
        *(x, history["ceiling_estimate"]),
        color=BLUE,
        lw=1.8,
        marker="o",
        ms=3,
        label="ceiling by the loss threshold",
    )
    if monitor.security is not None:
        asked = f"asked: {significant(monitor.security, 'given')}"
        below.axhline(monitor.security, color=ORANGE, lw=1.2, ls=":", label=asked)
    below.set(xlabel="step", ylabel="security of the model", ylim=(-0.02, 1.02))
    for axes in (above, below):
        axes.grid(visible=True, alpha=0.25)
        axes.legend(frameon=True, fontsize=9)
    figure.suptitle("Overfitting caps security (A25-T11)", fontsize=12)
    return figure
