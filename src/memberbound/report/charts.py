"""Charts of a study's report, as functions of the numbers that they show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memberbound.quantities import Mark, marked, percent
from memberbound.report.drawing import (
    DASH_DOT,
    DASHED,
    DOTTED,
    LONG_DASH,
    SMALL,
    TEXT,
    Chart,
    ChartView,
    Dash,
    LineLook,
    TextLook,
    bar_style,
    colour,
    cut_text,
    draw_vertical,
    label_axes,
    line_key,
    make_axes,
    name_line,
    patch_key,
    set_percent_ticks,
    set_ticks,
    tag_mark,
    write_text,
)
from memberbound.report.model import ExposureHistogram, Report, RocCurve, blind_guess, score_mark
from memberbound.report.sandwich import sandwich_chart
from memberbound.report.views import RecordsView

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure


#: Hollow markers on a line.
HOLLOW: LineLook = {"mfc": colour("card"), "ms": 6.5, "mew": 1.8}


def charts_of_report(report: Report) -> dict[str, Chart]:
    """Return the charts of a report by name, in the report's order."""
    charts = (
        sandwich_chart(report, "worst"),
        sandwich_chart(report, "average"),
        roc_chart(report),
        exposure_chart(report),
        remedies_chart(report),
    )
    return {chart.id: chart for chart in charts if chart is not None}


# ── The cost of each remedy in the model's score ──────────────────────────────────────────────────


def remedies_chart(report: Report) -> Chart | None:
    """Return a chart of the change in score with each remedy, or None without scores."""
    priced = [r for r in report.remedies if r.change is not None and r.id != "nothing"]
    if not priced:
        return None
    name, before = str(priced[0].score_name), float(priced[0].score_before_estimate or 0.0)
    # A score may be far below zero (R²); the axis ends at -1, and the number is written next to it.
    changes = [max(-1.0, float(r.score_after_estimate or 0.0) - before) for r in priced]
    low, high = min(0.0, *changes), max(0.0, *changes)
    span = max(high - low, 0.01)
    # Numbers are right-aligned.
    left, right = low - 0.05 * span, high + 0.3 * span

    def draw(width: float, _view: ChartView) -> Figure:
        looks = {enough: bar_style("estimated", "" if enough else "//") for enough in (True, False)}
        legend: list[tuple[Artist, str]] = [
            (patch_key(**looks[enough]), text)
            for enough, text in ((True, "enough for what was asked"), (False, "not enough"))
            if any(remedy.enough is enough for remedy in priced)
        ]
        line = line_key(color=colour("ink"), ls=DASHED, lw=1.5)
        legend.append((line, f"{report.usual}: {score_mark(before)}"))
        figure, (axes,) = make_axes(width, 50 * len(priced), legend)
        axes.set(xlim=(left, right), ylim=(0.45 - len(priced), 0.55))
        axes.yaxis.set_visible(False)
        axes.spines["left"].set_visible(False)
        axes.locator_params(axis="x", nbins=4)
        draw_vertical(axes, 0.0, "ink", DASHED)
        label_axes(axes, cut_text(f"change of the model's {name}, estimate", width - 20, SMALL))
        for index, (remedy, change) in enumerate(zip(priced, changes, strict=True)):
            (bar,) = axes.barh(-index - 0.18, change, 0.4, **looks[remedy.enough])
            tag_mark(bar, "bar", f"{remedy.label}: {remedy.change}")
            star, weight = ("★ ", "bold") if remedy.recommended else ("", "normal")
            label = cut_text(star + remedy.label, width - 110)
            write_text(axes, left, 0.27 - index, label, fontsize=TEXT, fontweight=weight)
            write_text(axes, right, 0.27 - index, str(remedy.change), ha="right")
        return figure

    parts = [
        f"{remedy.label} {remedy.change}, {'enough' if remedy.enough else 'not enough'}"
        f"{', recommended' if remedy.recommended else ''}"
        for remedy in priced
    ]
    return Chart(
        "remedies",
        f"Change of {name} with each remedy",
        f"Change of the model's {name} with each remedy; as it is {score_mark(before)}. "
        f"{'; '.join(parts)}.",
        ("Remedy", "Certified", f"{name} after", "Change", "Enough"),
        [
            (
                remedy.label,
                marked(remedy.accuracy_upper, "certificate"),
                remedy.after,
                remedy.change,
                "yes" if remedy.enough else "no",
            )
            for remedy in report.remedies
        ],
        draw,
    )


# ── ROC: measured curves and certified ceilings ───────────────────────────────────────────────────

#: False-positive rates of the report's table.
_RATES = (0.01, 0.05, 0.1, 0.25, 0.5)


def roc_chart(report: Report) -> Chart | None:
    """Return a chart of all subjects' ROC, linear and log–log, or None without a curve."""
    curves = report.roc
    if not curves:
        return None
    parts = [f"{curve.label}: {_read(curve, 0.1)} of the members" for curve in curves]
    # Draw certified lines first, so that measured ones lie on top.
    order = sorted(curves, key=lambda c: (c.kind != "certificate", c.subject))
    return Chart(
        "roc",
        "Members identified against false alarms",
        "Share of the members identified against the share of non-members falsely called members. "
        f"At 10 percent false alarms: {'; '.join(parts)}. Blind guessing finds 10 percent.",
        ("Curve", *(f"at {percent(rate, 'given')} false alarms" for rate in _RATES)),
        [(curve.label, *(_read(curve, rate) for rate in _RATES)) for curve in curves],
        lambda width, view: draw_roc(
            width, view, [(curve, _curve_look(curve)) for curve in order], _lowest(curves)
        ),
        ("linear", "log"),
    )


def draw_roc(
    width: float,
    view: ChartView,
    curves: Sequence[tuple[RocCurve, LineLook]],
    low: float,
    marks: Sequence[tuple[float, float]] = (),
) -> Figure:
    """Draw curves on linear or logarithmic axes, or on both side by side."""
    diamond: LineLook = {
        "color": colour("certified"),
        "mec": colour("card"),
        "marker": "D",
        "ms": 7,
    }
    guess: LineLook = {"color": colour("quiet"), "ls": DOTTED, "lw": 1.5}
    legend = [(line_key(**look), curve.label) for curve, look in curves]
    legend.append((line_key(**guess), "blind guessing"))
    if marks:
        legend.append((line_key(**(diamond | {"ls": ""})), "the rates asked about"))
    views: tuple[ChartView, ...] = ("linear", "log") if view == "both" else (view,)
    side = width / len(views) - 76
    figure, panels = make_axes(width, side, legend, columns=len(views))
    for axes, scale in zip(panels, views, strict=True):
        log = scale == "log"
        begin = 10.0**low if log else 0.0
        label_axes(axes, "false alarms: non-members called members", "members identified")
        axes.plot([begin, 1], [begin, 1], **guess)
        for curve, look in curves:
            points = np.array([curve.fpr, curve.tpr])
            points = points[:, (points > 0).all(axis=0)] if log else points
            every = max(1, math.ceil(points.shape[1] / 12))
            (line,) = axes.plot(*points, markevery=every, **look)
            tag_mark(line, "line", curve.label)
        for x, y in marks:
            if x >= begin:
                tag_mark(axes.plot([x], [y], ls="", clip_on=False, **diamond)[0], "point")
        if log:
            axes.set(xscale="log", yscale="log", xlim=(begin, 1.0), ylim=(begin, 1.06))
        else:
            axes.set(xlim=(0, 1.003), ylim=(0, 1.012))
        decades = [10.0**power for power in range(int(low), 1)]
        for axis in (axes.xaxis, axes.yaxis):
            if log:
                set_ticks(axis, decades, [percent(tick, "given") for tick in decades])
            else:
                set_percent_ticks(axis, 0, 100, 20)
    return figure


#: Line style of each subject's curve; colour, marker and dash all differ.
_CURVES: dict[str, tuple[str, str, Dash | str]] = {
    "given": ("given", "^", LONG_DASH),
    "model": ("model", "o", DOTTED),
    "noise-every": ("noise-every", "D", DASH_DOT),
}


def _curve_look(curve: RocCurve) -> LineLook:
    color, marker, dash = _CURVES.get(curve.subject, _CURVES["model"])
    if curve.kind == "certificate":
        return {"color": colour(color), "lw": 2.5}
    return {"color": colour(color), "lw": 1.6, "ls": dash, "marker": marker} | HOLLOW


def _lowest(curves: Sequence[RocCurve]) -> float:
    """Return the power of ten at which the logarithmic axes start, the finest rate measured."""
    seen = [x for curve in curves if curve.kind == "estimate" for x in curve.fpr if x > 0]
    return max(-4.0, min(-1.0, math.floor(math.log10(min(seen))))) if seen else -3.0


def _read(curve: RocCurve, rate: float) -> Mark:
    """Return the members found at a rate of false alarms.

    Estimates are interpolated.  A ceiling is read at the next point to the right, because it
    increases, and a straight line between two points may lie below it.
    """
    if curve.kind == "estimate":
        return marked(float(np.interp(rate, curve.fpr, curve.tpr)), "estimate")
    right = int(np.searchsorted(curve.fpr, rate * (1 - 1e-12)))
    value = curve.tpr[right] if right < len(curve.tpr) else 1.0
    # A ceiling of 1 at 10 % false alarms is still a bound, though a vacuous one.
    return marked(min(1.0, float(value)), "certificate")


#: Smallest false-positive rate of a ceiling's table, and first power of ten of its axes.
LEAST_RATE, LEAST_SHOWN = 1e-6, -5.0


# ── Attack success record by record ───────────────────────────────────────────────────────────────


def exposure_chart(report: Report) -> Chart | None:
    """Return a histogram of attack success over records, or None without an audit."""
    exposure = report.exposure
    if exposure is None or report.audit is None:
        return None
    records = report.audit.records
    blind, (allowed, limit) = records.blind_accuracy, report.limit
    edges, counts = np.array(exposure.edges), exposure.counts
    expected = _by_chance(exposure, records)

    def draw(width: float, _view: ChartView) -> Figure:
        from matplotlib.ticker import MaxNLocator

        look = bar_style("model")
        chance: LineLook = {"color": colour("quiet"), "ls": DOTTED, "lw": 1.8}
        legend = [
            (patch_key(**look), "records, by how often the attack is right about them"),
            (line_key(**chance), "what chance alone would show, roughly"),
        ]
        figure, (axes,) = make_axes(width, 180, legend)
        for low, high, count in zip(edges, edges[1:], counts, strict=False):
            (bar,) = axes.bar((low + high) / 2, count, 0.92 * (high - low), **look)
            tag_mark(bar, "bar", f"{_between(low, high)}: {count} records")
            # The few records on the right matter most, and bars of one record are hard to see.
            if count and low >= allowed - 1e-9:
                alignment: TextLook = {"ha": "center", "va": "bottom", "fontsize": 11}
                write_text(axes, (low + high) / 2, count, str(count), **alignment)
        tag_mark(axes.stairs(expected, edges, baseline=None, **chance), "chance")
        shown = np.flatnonzero(counts)
        axes.set(
            xlim=(edges[max(0, shown[0] - 1)] if shown.size else 0, 1.002),
            ylim=(0, 1.25 * max(1, *counts)),
        )
        axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
        set_percent_ticks(axes.xaxis, 0, 100, 20)
        label_axes(axes, "attack success on a record (estimate)")
        for x, text, color, dash in (
            (blind, f"blind {blind_guess(blind)}", "quiet", DOTTED),
            (allowed, f"allowed {limit}", "ink", DASHED),
        ):
            draw_vertical(axes, x, color, dash, up=1.12)
            name_line(axes, x, text, 1.09, left=x == blind)
        return figure

    _, over, chance = count_above(exposure, records, allowed)
    return Chart(
        "exposure",
        "Attack success, record by record",
        f"Attack success, record by record: {over} of {sum(counts)} records in the bars above "
        f"{limit}, by chance alone about {chance}; {records.exposed_records} shown to be "
        "exposed.",
        ("Right about a record", "Records"),
        [
            (_between(low, high), Mark("estimate", f"≈ {count}"))
            for (low, high), count in zip(pairwise(exposure.edges), counts, strict=True)
            if count
        ],
        draw,
    )


def _between(low: float, high: float) -> str:
    return f"{percent(low, 'given')} to {percent(high, 'given')}"


def count_above(
    exposure: ExposureHistogram, records: RecordsView, success: float
) -> tuple[float, int, int]:
    """Return the first edge at or above the success rate, and the counts beyond it.

    The counts are those observed and those expected by chance.
    """
    first = int(np.searchsorted(exposure.edges[:-1], success - 1e-9))
    by_chance = int(np.rint(_by_chance(exposure, records)[first:].sum()))
    return exposure.edges[first], sum(exposure.counts[first:]), by_chance


def _by_chance(exposure: ExposureHistogram, records: RecordsView) -> NDArray[np.float64]:
    """Return the expected histogram if every answer were a blind guess."""
    from scipy.stats import binom

    right = np.arange(records.targets + 1)
    weight = binom.pmf(right, records.targets, records.blind_accuracy)
    shares, _ = np.histogram(right / records.targets, bins=exposure.edges, weights=weight)
    expected: NDArray[np.float64] = sum(exposure.counts) * shares
    return expected
