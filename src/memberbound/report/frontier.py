"""The frontier of a hardening: how much information remains at which security.

The line joins estimates from the fitting rows; the large point is the released table with its
certified security.  Colours are from the Okabe–Ito palette.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from memberbound.errors import InputError
from memberbound.hardening import Hardening
from memberbound.report.roc import check_target

__all__ = ["FORMATS", "save_frontier"]

FORMATS = (".png", ".svg", ".pdf")
_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#555555"


def save_frontier(hardening: Hardening, path: str | Path) -> Path:
    """Draw information against security into ``path`` (PNG, SVG or PDF).

    The file appears whole or not at all.
    """
    target = check_target(path)
    kind = target.suffix.lower()[1:]
    if f".{kind}" not in FORMATS:
        raise InputError(f"plot must be a file ending in {', '.join(FORMATS)}, got {str(path)!r}.")
    figure = _figure(hardening)
    handle, name = tempfile.mkstemp(suffix=f".{kind}", dir=target.parent)
    os.close(handle)
    draft = Path(name)
    try:
        figure.savefig(draft, format=kind, dpi=160, metadata={"Title": "memberbound harden"})
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    # mkstemp makes private files; a plot is meant to be shared like any other output.
    mask = os.umask(0)
    os.umask(mask)
    target.chmod(0o666 & ~mask)
    return target


def _figure(hardening: Hardening) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 5), layout="constrained")
    axes = figure.subplots()
    leaks = [max(1 - point.security_estimate, 1e-6) for point in hardening.frontier]
    information = [point.information_estimate for point in hardening.frontier]
    axes.step(leaks, information, where="post", color=_BLUE, lw=1.6, alpha=0.7)
    axes.plot(leaks, information, "o", color=_BLUE, ms=4, label="coarsenings (estimates)")
    certified = max(float(hardening.after["delta_upper"]), 1e-6)
    kept = hardening.information_estimate
    axes.plot([certified], [kept], "*", color=_ORANGE, ms=16, label="released table (certified)")
    if hardening.security is not None:
        asked = 1 - hardening.security
        axes.axvline(asked, color=_GREY, lw=1.2, ls=":", label=f"asked: MIS {hardening.security:g}")
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
