"""The ROC of an explanation, linear and log–log side by side.

Certified ceilings are drawn as the edge of a shaded region that no attack can enter; the diagonal
is guessing.  Colours are from the Okabe–Ito palette, which colour-blind readers can tell apart.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from memberbound.errors import InputError
from memberbound.explanation import Explanation
from memberbound.explanation.wording import significant_up

__all__ = ["FORMATS", "save_roc"]

FORMATS = (".png", ".svg", ".pdf", ".html")
_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#555555"


def check_target(path: str | Path) -> Path:
    """Return the path of a plot that can be written, or refuse it before any work is done."""
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise InputError(f"plot must be a file ending in {', '.join(FORMATS)}, got {str(path)!r}.")
    if not target.parent.is_dir():
        raise InputError(f"plot must be in an existing folder, got {str(path)!r}.")
    if target.is_dir():
        raise InputError(f"plot must be a file, got the folder {str(path)!r}.")
    return target


def save_roc(explanation: Explanation, path: str | Path) -> Path:
    """Draw the certified ROC into ``path`` (PNG, SVG, PDF or a self-contained HTML page).

    The file appears whole or not at all.
    """
    target = check_target(path)
    figure = _figure(explanation)
    suffix = target.suffix.lower()
    kind = "svg" if suffix == ".html" else suffix[1:]
    handle, name = tempfile.mkstemp(suffix=f".{kind}", dir=target.parent)
    os.close(handle)
    draft = Path(name)
    try:
        figure.savefig(draft, format=kind, dpi=160, metadata={"Title": "memberbound explain"})
        if suffix == ".html":
            draft.write_text(_page(draft.read_text(encoding="utf-8"), explanation), "utf-8")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    # mkstemp makes private files; a plot is meant to be shared like any other output.
    mask = os.umask(0)
    os.umask(mask)
    target.chmod(0o666 & ~mask)
    return target


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
        axes.fill_between(alpha, tpr, 1.0, color=_BLUE, alpha=0.10, lw=0)
        label = f"certified ceiling ({explanation.adjacency})"
        axes.plot(alpha, tpr, color=_BLUE, lw=2.2, label=label)
        if explanation.adjacency != "replace-one":
            axes.plot(
                alpha,
                swapped.roc(alpha),
                color=_ORANGE,
                lw=1.8,
                ls=(0, (5, 2)),
                label="certified ceiling (replace-one)",
            )
        axes.plot(alpha, alpha, color=_GREY, lw=1.2, ls=":", label="guessing")
        points = [a for a in explanation.fpr if a > 0]
        axes.plot(points, [curve.tpr(a) for a in points], "o", color=_BLUE, ms=5)
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
            f"{significant_up(value)} at {rate:g}",
            (rate, value),
            textcoords="offset points",
            xytext=(8, -13),
            fontsize=9,
            color=_BLUE,
            bbox={"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 1.0},
        )
    figure.suptitle(f"No attack reaches the shaded region: {explanation.setting}", fontsize=12)
    return figure


def _page(svg: str, explanation: Explanation) -> str:
    from html import escape

    body = svg[svg.index("<svg") :]
    sentence = escape(explanation.sentence)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<title>memberbound explain</title><style>body{font:16px/1.5 system-ui,sans-serif;"
        "max-width:70rem;margin:2rem auto;padding:0 1rem;background:#fff;color:#111}"
        "svg{width:100%;height:auto}</style></head><body>"
        f'<p>{sentence}</p><figure role="img" aria-label="ROC, linear and log–log: {sentence}">'
        f"{body}</figure></body></html>\n"
    )
