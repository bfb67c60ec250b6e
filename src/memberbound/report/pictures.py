"""Pictures of single answers, drawn with matplotlib: PNG, SVG, PDF or one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from memberbound.attacks.overfitting import OverfittingMonitor
from memberbound.errors import InputError
from memberbound.files import written_whole
from memberbound.quantities import confident, marked, percent, significant, vacuous
from memberbound.verbs.explain import Explanation
from memberbound.verbs.harden import Hardening
from memberbound.verbs.population import PopulationAnswer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "BLUE",
    "FORMATS",
    "GREEN",
    "GREY",
    "ORANGE",
    "check_target",
    "save",
    "save_frontier",
    "save_history",
    "save_roc",
    "save_success",
    "swept_epsilons",
]

# ── Writing a figure: the formats, the palette, and a file that appears whole or not at all ───────

FORMATS = (".png", ".svg", ".pdf", ".html")
#: From the Okabe–Ito palette, which colour-blind readers can tell apart.
BLUE, ORANGE, GREY, GREEN = "#0072B2", "#D55E00", "#555555", "#009E73"
# One language of signs, the same as in the report and on the web pages: what is certified is blue,
# solid and marked ◀; what is measured is green and marked ▶; an estimate is orange, dashed, an open
# circle; what is not proved, asked for or guessed blindly is grey.
_CERTIFIED: dict[str, Any] = {"color": BLUE, "ls": "-", "lw": 2.2}
_ESTIMATE: dict[str, Any] = {
    "color": ORANGE,
    "ls": "--",
    "lw": 1.6,
    "marker": "o",
    "mfc": "white",
    "ms": 4,
}
_OTHER_CEILINGS = ("#8A3470", "#5B6672", "#8794A1")


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


def save(figure: Figure, path: str | Path, *, title: str, caption: str) -> Path:
    """Write a matplotlib figure as PNG, SVG, PDF or a self-contained HTML page with its caption."""
    target = check_target(path)
    suffix = target.suffix.lower()
    kind = "svg" if suffix == ".html" else suffix[1:]

    # Without a date the same figure gives the same file.
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})

    def write(draft: Path) -> None:
        figure.savefig(draft, format=kind, dpi=160, metadata={"Title": title} | undated)
        if suffix == ".html":
            draft.write_text(_page(draft.read_text(encoding="utf-8"), title, caption), "utf-8")

    written_whole(target, write, force=True)
    return target


def _page(svg: str, title: str, caption: str) -> str:
    body, text = svg[svg.index("<svg") :], escape(caption)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>body{{font:16px/1.5 system-ui,sans-serif;"
        "max-width:70rem;margin:2rem auto;padding:0 1rem;background:#fff;color:#111}"
        "svg{width:100%;height:auto}</style></head><body>"
        f'<p>{text}</p><figure role="img" aria-label="{text}">{body}</figure></body></html>\n'
    )


# ── The frontier of a hardening: how much information remains at which security ───────────────────
#
# The line joins estimates from the fitting rows; the large point is the released table with its
# certified security.


def save_frontier(hardening: Hardening, path: str | Path) -> Path:
    """Draw information against security into ``path`` (PNG, SVG, PDF or HTML).

    The file appears whole or not at all.
    """
    caption = "Information that coarsenings keep, against the leak of the worst learner."
    return save(_frontier_figure(hardening), path, title="memberbound harden", caption=caption)


def _frontier_figure(hardening: Hardening) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 5), layout="constrained")
    axes = figure.subplots()
    leaks = [max(1 - point.security_estimate, 1e-6) for point in hardening.frontier]
    information = [point.information_estimate for point in hardening.frontier]
    axes.step(leaks, information, where="post", label="coarsenings ≈ (estimates)", **_ESTIMATE)
    certified = max(float(hardening.after["delta_upper"]), 1e-6)
    kept = hardening.information_estimate
    proved: dict[str, Any] = {
        "color": GREY,
        "marker": "x",
        "label": "released table (nothing is proved)",
    }
    if not vacuous(certified, "delta"):
        proved = {"color": BLUE, "marker": "<", "label": "released table ≤ (certified)"}
    axes.plot([certified], [kept], ls="", ms=13, **proved)
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


# ── The history of an overfitting monitor: losses above, the ceiling of security below ────────────


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
    return save(
        _overfitting_figure(monitor), path, title="memberbound overfitting", caption=caption
    )


def _overfitting_figure(monitor: OverfittingMonitor) -> Figure:
    from matplotlib.figure import Figure

    history = monitor.history
    x = history["step"]
    figure = Figure(figsize=(7.5, 6.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    for key, style, label in (
        ("train_loss_mean", "-", "training records"),
        ("fresh_loss_mean", ":", "fresh records"),
    ):
        above.plot(x, history[key], color=GREY, lw=1.8, ls=style, marker="o", ms=3, label=label)
    shown = np.concatenate([history["train_loss_mean"], history["fresh_loss_mean"]])
    if (shown[np.isfinite(shown)] > 0).any():
        above.set_yscale("log")
    above.set_ylabel("mean loss")
    low, high = history["ceiling_lower"], history["ceiling_upper"]
    below.fill_between(
        *(x, high, 1.0), color=GREEN, alpha=0.25, lw=0, label="measured: security is not here"
    )
    sure = f"{confident(monitor.confidence)} over all looks"
    below.fill_between(*(x, low, high), color=ORANGE, alpha=0.15, lw=0, label=sure)
    below.plot(x, history["ceiling_estimate"], label="ceiling by the loss threshold ≈", **_ESTIMATE)
    if monitor.security is not None:
        asked = f"asked: {significant(monitor.security, 'given')}"
        below.axhline(monitor.security, color=GREY, lw=1.2, ls=":", label=asked)
    below.set(xlabel="step", ylabel="security of the model", ylim=(-0.02, 1.02))
    for axes in (above, below):
        axes.grid(visible=True, alpha=0.25)
        axes.legend(frameon=True, fontsize=9)
    figure.suptitle("Overfitting caps security (A25-T11)", fontsize=12)
    return figure


# ── The ROC of an explanation, linear and log–log side by side ────────────────────────────────────
#
# Certified ceilings are drawn as the edge of a shaded region that no attack can enter; the diagonal
# is guessing.


def save_roc(explanation: Explanation, path: str | Path) -> Path:
    """Draw the certified ROC into ``path`` (PNG, SVG, PDF or a self-contained HTML page).

    The file appears whole or not at all.
    """
    caption = f"ROC, linear and log–log: {explanation.sentence}"
    return save(_roc_figure(explanation), path, title="memberbound explain", caption=caption)


def _roc_figure(explanation: Explanation) -> Figure:
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
        axes.plot(alpha, tpr, label=label, **_CERTIFIED)
        if explanation.adjacency != "replace-one":
            axes.plot(
                alpha,
                swapped.roc(alpha),
                color=BLUE,
                lw=1.4,
                ls=(0, (5, 2)),
                label="certified ceiling (replace-one)",
            )
        axes.plot(alpha, alpha, color=GREY, lw=1.2, ls=":", label="blind guessing")
        points = [a for a in explanation.fpr if a > 0]
        axes.plot(points, [curve.tpr(a) for a in points], "D", color=BLUE, ms=5)
        axes.set_xlabel("false-positive rate: non-members called members")
        axes.grid(visible=True, alpha=0.25, which="major")
    linear.set(xlim=(0, 1), ylim=(0, 1.005), aspect="equal", title="linear")
    linear.set_ylabel("true-positive rate: members found")
    low = float(min(1e-5, curve.tpr(1e-5)))
    log.set(xscale="log", yscale="log", xlim=(1e-5, 1), ylim=(low, 1.15), title="log–log")
    linear.legend(loc="lower right", frameon=True, fontsize=9)
    for rate in [a for a in explanation.fpr if a >= 1e-5]:
        value = curve.tpr(rate)
        log.annotate(
            f"{marked(value, 'certificate', 'tpr')} at {percent(rate, 'given')}",
            (rate, value),
            textcoords="offset points",
            xytext=(7, -14) if rate < 0.05 else (-4, -16),
            fontsize=9,
            color=BLUE,
            bbox={"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 1.0},
        )
    figure.suptitle(f"No attack reaches the shaded region: {explanation.setting}", fontsize=12)
    return figure


# ── Success of three attackers against ε: what the worst case says, and what these records allow
#
# The worst case and the population's own are promises of differential privacy; the third curve is
# the attacker of the subset game, who does not know who was drawn.


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
    figure = _success_figure(answer, grid)
    return save(figure, path, title="memberbound population", caption=answer.sentence)


def _success_figure(answer: PopulationAnswer, epsilons: list[float]) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    swept = answer.sweep(epsilons)
    far, near, coupled = _OTHER_CEILINGS
    lines = (
        ("worst_case", far, (0, (1, 1)), "≤ knows all but one record, any data set (ε-DP)"),
        ("population", near, (0, (5, 2)), "≤ knows all but one of these records"),
        ("coupled", coupled, (0, (3, 1, 1, 1)), "≤ … not who was drawn, by coupling (L24-P12)"),
        ("practical", BLUE, "-", "≤ knows these records, not who was drawn"),
    )
    for name, colour, style, label in lines:
        heights = [getattr(point, name) for point in swept]
        if None in (*heights, getattr(answer.compared, name)):
            continue
        # A bound that excludes nothing keeps its place, not its colour.
        axes.plot(epsilons, heights, color=GREY, ls=style, lw=0.8)
        proved = [float("nan") if vacuous(height) else height for height in heights]
        axes.plot(epsilons, proved, color=colour, ls=style, lw=2.2, label=label)
        if 0 < answer.epsilon < float("inf"):
            axes.plot([answer.epsilon], [getattr(answer.compared, name)], "<", color=colour, ms=7)
    axes.axhline(answer.blind, color=GREY, lw=1.2, ls=":", label="blind guessing")
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
