"""The frontier of a hardening: how much information remains at which security.

The line joins estimates from the fitting rows; the large point is the released table with its
certified security.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memberbound.hardening import Hardening
from memberbound.quantities import significant
from memberbound.report.figure import BLUE, GREY, ORANGE, save

__all__ = ["save_frontier"]


def save_frontier(hardening: Hardening, path: str | Path) -> Path:
    """Draw information against security into ``path`` (PNG, SVG, PDF or HTML).

    The file appears whole or not at all.
    """
    caption = "Information that coarsenings keep, against the leak of the worst learner."
    return save(_figure(hardening), path, title="memberbound harden", caption=caption)


def _figure(hardening: Hardening) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 5), layout="constrained")
    axes = figure.subplots()
    leaks = [max(1 - point.security_estimate, 1e-6) for point in hardening.frontier]
    information = [point.information_estimate for point in hardening.frontier]
    axes.step(leaks, information, where="post", color=BLUE, lw=1.6, alpha=0.7)
    axes.plot(leaks, information, "o", color=BLUE, ms=4, label="coarsenings (estimates)")
    certified = max(float(hardening.after["delta_upper"]), 1e-6)
    kept = hardening.information_estimate
    axes.plot([certified], [kept], "*", color=ORANGE, ms=16, label="released table (certified)")
    if hardening.security is not None:
        asked = 1 - hardening.security
        label = f"asked: MIS {significant(hardening.security, 'given')}"
        axes.axvline(asked, color=GREY, lw=1.2, ls=":", label=label)
    axes.set(
        xscale="log",
        xlabel="leak of the worst learner, Δ = 1 - MIS (average record)",
        ylabel=f"{hardening.measure} (estimate, nats)",
    )
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.25)
    axes.legend(loc="lower right", frameon=True, fontsize=9)
    axes.set_title("What remains at each level of security", fontsize=12)
    return figure
