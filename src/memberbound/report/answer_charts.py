"""Charts of single answers: those that a page shows beside them, and the file of ``--plot``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import MemberboundError
from memberbound.quantities import (
    NO_GUARANTEE,
    Mark,
    decimals,
    marked,
    percent,
    significant,
    vacuous,
)
from memberbound.report.charts import (
    ATTACKERS,
    Look,
    count_text,
    draw_roc,
    estimated_line,
    sandwich_of,
    set_log_ticks,
    success_chart,
)
from memberbound.report.drawing import (
    DASH_DOT,
    DASHED,
    DOTTED,
    SMALL,
    Chart,
    View,
    bar_style,
    colour,
    cut_text,
    draw_vertical,
    label_axes,
    line_key,
    make_axes,
    patch_key,
    tag_mark,
)
from memberbound.report.model import Floor, RocCurve, SandwichRow, Seen

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from memberbound.iid.record_leak import RecordLeaks
    from memberbound.subset.settings import Comparison
    from memberbound.verbs.explain import Explanation
    from memberbound.verbs.harden import Hardening
    from memberbound.verbs.population import PopulationAnswer
    from memberbound.verbs.synthesize import Synthesis

#: Called with how much is done, of how much, and what is being done.
Progress = Callable[[int, int | None, str], None]
#: Least false-positive rate of a ceiling's table, and power of ten at which its axes begin.
_LEAST, _LEAST_SHOWN = 1e-6, -5.0
#: The ceiling of the true-positive rate at false-positive rates.
Values = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def charts_of(answer: Any, table: str | None, progress: Progress) -> dict[str, Chart]:
    """Return every chart that an answer has, by its name.

    A chart is made from what an answer has (leaks of rows, a sweep over ε, attacks, the budget of a
    release), whichever verb it answers.  ``table`` is the file that it is about.
    """
    result = answer.to_dict()
    charts: dict[str, Chart | None] = {}
    if table is not None and getattr(answer, "leaks", None) is not None:
        charts["leaks"] = _leaks_of_table(answer, result)
    if table is not None and hasattr(answer, "counted"):
        charts["leaks"] = _leaks_before_and_after(answer, result, table, progress)
        charts["frontier"] = frontier_chart(answer)
    if hasattr(answer, "sweep"):
        charts["success"] = population_chart(answer, _SWEEP_SECONDS, progress)
    if result.get("attacks"):
        charts["attacks"] = attacks_chart(result["attacks"], result["confidence"])
    # What is released about all rows, or the model that new rows were drawn from, has a budget.
    releases = (getattr(answer, name, None) for name in ("released", "model"))
    budgets = (getattr(release, "budget", None) for release in releases)
    if budget := next((each for each in budgets if each is not None), None):
        rates = [float(rate) for rate in result["curve"]["replace_one"]["tpr_upper"]]
        curves = {"no attack gets above this": budget.curve().roc}
        charts["roc"] = ceiling_chart(curves, rates, "this release")
    if hasattr(answer, "fidelity"):
        charts["marginals"] = marginals_chart(answer)
    return {name: chart for name, chart in charts.items() if chart is not None}


# ── Attacks, and ceilings of the ROC ──────────────────────────────────────────────────────────────


def attacks_chart(attacks: Mapping[str, Mapping[str, Any]], confidence: float) -> Chart:
    """Return the accuracy of the attacks of an audit: estimates and floors, no ceiling.

    An attack without scores (``learned``) has an advantage alone, and no row.
    """
    rows = []
    for name, attack in attacks.items():
        if attack["accuracy"] is None:
            continue
        estimate, lower = (attack["accuracy"][key] for key in ("estimate", "lower"))
        floor = None if lower is None else Floor("audit", lower, confidence, name)
        seen = Seen("estimate", estimate, "accuracy")
        rows.append(SandwichRow("given", name, "average", "model", 0.5, None, seen, floor))
    title = "Success of each attack"
    alt = f"{title}, half of the candidates being members."
    return sandwich_of(("attacks", title, alt), rows, [(0.5, "blind guessing 50 %")])


def explanation_chart(explanation: Explanation) -> Chart:
    """Return the certified ROC of a guarantee, linear and log–log."""
    guarantee, adjacency = explanation.guarantee, explanation.adjacency
    ceilings = {f"no attack gets above this ({adjacency})": guarantee.curve.roc}
    if adjacency != "replace-one":
        label = "… when “out” means another record in its place (replace-one)"
        ceilings[label] = guarantee.replaced().curve.roc
    return ceiling_chart(ceilings, explanation.fpr, explanation.setting)


def ceiling_chart(ceilings: Mapping[str, Values], rates: Sequence[float], setting: str) -> Chart:
    """Return certified ceilings of the ROC, linear and log–log.

    Args:
        ceilings: name → ceiling; the first is drawn solid, another one dashed.
        rates: false-positive rates to mark on the first.
        setting: what the ceilings are about.
    """
    grid = np.unique(np.concatenate([np.linspace(0, 1, 401), np.geomspace(_LEAST, 1, 301)]))
    looks: list[Look] = [
        {"color": colour("certified"), "lw": 2.8},
        {"color": colour("certified"), "lw": 1.5, "ls": DASHED},
    ]
    curves = []
    for (label, values), look in zip(ceilings.items(), looks, strict=False):
        heights = np.minimum(values(grid), 1.0)
        points = tuple(grid.tolist()), tuple(heights.tolist())
        curves.append((RocCurve("model", "certificate", label, *points), look))

    def ceiling(values: Values, rate: float) -> Mark:
        return marked(min(1.0, float(values(np.array([rate]))[0])), "certificate", "tpr")

    first = next(iter(ceilings.values()))
    asked = sorted({rate for rate in rates if rate > 0})
    steps = (float(f"{digit}e{power}") for power in range(-6, 0) for digit in (1, 2, 5))
    parts = [f"{ceiling(first, rate)} at {percent(rate, 'given')} false alarms" for rate in asked]
    marks = [(rate, min(1.0, float(first(np.array([rate]))[0]))) for rate in asked]
    return Chart(
        "ceiling",
        f"The best possible attack: {setting}",
        f"Certified ceiling of the members that any attack finds: {'; '.join(parts) or setting}. "
        "Blind guessing finds as large a share of the members as it has false alarms.",
        ("false alarms", *ceilings),
        [
            (percent(rate, "given"), *(ceiling(values, rate) for values in ceilings.values()))
            for rate in sorted({*steps, *asked, 1.0})
        ],
        lambda width, view: draw_roc(width, view, curves, _LEAST_SHOWN, marks),
        ("linear", "log"),
    )


# ── Success over ε ────────────────────────────────────────────────────────────────────────────────

#: A page waits for its chart this long; with fewer points than these there is none.
_SWEEP_SECONDS, _FEWEST_POINTS = 30.0, 7


def population_chart(
    answer: PopulationAnswer, seconds: float | None = None, progress: Progress | None = None
) -> Chart | None:
    """Return the success bounds of attackers over ε; nothing where that takes too many seconds."""
    points = sweep(answer, swept_epsilons(answer), seconds, progress)
    if not points:
        return None
    delta = f" (δ = {significant(answer.delta, 'given')})" if answer.delta else ""
    return success_chart(
        list(points),
        {name: [getattr(point, name) for point in points.values()] for name in ATTACKERS},
        {name: getattr(answer.compared, name) for name in ATTACKERS},
        asked=(answer.epsilon, f"ε = {significant(answer.epsilon, 'given')}"),
        level=(answer.success_blind, "blind guessing"),
        axis=f"ε of the mechanism, worst case over all data sets{delta}",
    )


def swept_epsilons(answer: PopulationAnswer) -> list[float]:
    """Return ε around the one that was asked about, on a logarithmic grid."""
    centre = answer.epsilon if 0 < answer.epsilon < float("inf") else 1.0
    return [float(epsilon) for epsilon in np.geomspace(centre / 30, centre * 10, 25)]


def sweep(
    answer: PopulationAnswer,
    epsilons: Sequence[float],
    seconds: float | None = None,
    progress: Progress | None = None,
) -> dict[float, Comparison]:
    """Return the bounds at other ε; nothing where they fail or take too long.

    A slow answer gets fewer points, spread over the same range.
    """
    count = len(epsilons)
    order = dict.fromkeys(i for step in (8, 4, 2, 1) for i in range(0, count, step))
    begun = time.monotonic()
    points: dict[int, Comparison] = {}
    for index in order:
        if progress is not None:
            progress(len(points), count, "other values of ε")
        try:
            (points[index],) = answer.sweep([epsilons[index]])
        except MemberboundError:  # the answer stands without its chart
            return {}
        if seconds is not None and time.monotonic() - begun > seconds:
            break
    if len(points) < min(_FEWEST_POINTS, count):
        return {}
    return {epsilons[index]: points[index] for index in sorted(points)}


# ── Tables: how much rows leak, and what a coarser table keeps ────────────────────────────────────

_BINS = 40


def _leaks_of_table(answer: Any, result: Mapping[str, Any]) -> Chart:
    """Rows by their certified leak."""
    edges, counts = histogram(answer.leaks)
    leak, unit = result["record_leak"], result["unit"]
    rows = "rows" if unit is None else f"values of “{unit}”"
    words = (
        f"Histogram of the certified leak of the {rows}: half of them {_leak(leak['median'])}; "
        f"the worst {_leak(leak['max'])}."
    )
    return leaks_chart(edges, {rows: counts}, leak["exposed_above"] or 0.5, words)


def _leaks_before_and_after(
    answer: Any, result: Mapping[str, Any], table: str, progress: Progress
) -> Chart:
    """Rows by their certified leak, of a table and of a coarser one."""
    from memberbound.iid.record_leak import record_leaks
    from memberbound.tables.coarsening import cell_profile
    from memberbound.tables.counting import count_profile
    from memberbound.tables.table import open_table

    level = answer.after.confidence
    progress(0, None, "counting cells")
    with open_table(table) as opened:
        before = count_profile(opened, answer.counted)
    (edges, was), (_, now) = (
        histogram(record_leaks(profile, None, level))
        for profile in (before, cell_profile(answer.table))
    )
    worst = [_leak(result[when]["record_leak"]["max"]) for when in ("before", "after")]
    return leaks_chart(
        edges,
        {"rows before": was, "rows after": now},
        result["after"]["record_leak"]["exposed_above"] or 0.5,
        f"Leak of the rows: the worst before {worst[0]}; after {worst[1]}.",
    )


def histogram(leaks: RecordLeaks) -> tuple[list[float], list[int]]:
    """Return the edges of equal bins, and the rows whose certified leak lies in each.

    Bins are closed on the right: a row in (a, b] is certified to leak at most b.
    """
    rows = np.asarray(leaks.profile.count * leaks.profile.cells, dtype=np.int64)
    edges = np.linspace(0.0, 1.0, _BINS + 1)
    place = np.clip(np.searchsorted(edges, leaks.leak, side="left") - 1, 0, _BINS - 1)
    filled = np.zeros(_BINS, dtype=np.int64)
    np.add.at(filled, place, rows)
    return edges.tolist(), filled.tolist()


#: Columns of a synthetic table that are drawn, those that differ most first.
_MOST_COLUMNS = 12


def marginals_chart(answer: Synthesis) -> Chart:
    """Return the shares of every column's values in the real and in the new table.

    Estimates from the secret rows: for the owner of the rows only.
    """
    marginals = answer.fidelity.marginals

    def distance(name: str) -> float:
        both = zip(marginals[name].real_estimate, marginals[name].synthetic_estimate, strict=True)
        return sum(abs(real - new) for real, new in both) / 2

    shown = sorted(marginals, key=distance, reverse=True)[:_MOST_COLUMNS]

    def draw(width: float, _view: View) -> Figure:
        legend = [
            (patch_key(**bar_style("estimated", "//")), "real rows (owner only)"),
            (patch_key(**bar_style("quiet")), "new rows"),
        ]
        figure, panels = make_axes(width, 74, legend, left=56, rows=len(shown))
        for axes, name in zip(panels, shown, strict=True):
            column = marginals[name]
            places = np.arange(len(column.blocks))
            series = (
                (column.real_estimate, -0.2, bar_style("estimated", "//"), "real"),
                (column.synthetic_estimate, 0.2, bar_style("quiet"), "new"),
            )
            for shares, shift, look, kind in series:
                bars = axes.bar(places + shift, shares, 0.38, **look)
                for bar, block, share in zip(bars, column.blocks, shares, strict=True):
                    words = f"{name}, {block}: {kind} {percent(share, 'estimate')}"
                    tag_mark(bar, "bar", words)
            axes.set(xlim=(-0.6, len(places) - 0.4), ylim=(0, None))
            axes.set_xticks([])
            axes.set_yticks([])
            label_axes(axes, "", cut_text(name, width - 70, SMALL))
        return figure

    rows = [
        (name, block, percent(real, "estimate"), percent(new, "estimate"))
        for name in shown
        for block, real, new in zip(
            marginals[name].blocks,
            marginals[name].real_estimate,
            marginals[name].synthetic_estimate,
            strict=True,
        )
    ]
    most = decimals(distance(shown[0]), "estimate", 3)
    alt = (
        f"Shares of values in the real and in the new rows, column by column; {shown[0]} differs "
        f"most, by {most} in total variation. For the owner of the rows only."
    )
    title = "Columns of the real and of the new rows"
    return Chart("marginals", title, alt, ("Column", "Values", "Real", "New"), rows, draw)


def _leak(upper: float) -> str:
    return str(marked(upper, "certificate", "leak", 6))


def leaks_chart(
    edges: Sequence[float], histograms: Mapping[str, Sequence[int]], limit: float, words: str
) -> Chart:
    """Return how many rows may leak how much, one histogram below the other.

    Args:
        edges: ends of the bins; a row in (a, b] is certified to leak at most b.
        histograms: name → rows of each bin.
        limit: rows above it are called exposed.
        words: what the chart shows.
    """

    def draw(width: float, _view: View) -> Figure:
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        above = significant(limit, "given")
        legend = [
            (patch_key(**bar_style("certified")), f"at most {above}"),
            (
                patch_key(**bar_style("danger", "//")),
                f"exposed: more than {above} is not excluded",
            ),
        ]
        height = 180 if len(histograms) == 1 else 120
        figure, panels = make_axes(width, height, legend, left=56, rows=len(histograms))
        for axes, (name, rows) in zip(panels, histograms.items(), strict=True):
            for (low, high), count in zip(pairwise(edges), rows, strict=True):
                if count:
                    look = (
                        bar_style("danger", "//") if low >= limit - 1e-9 else bar_style("certified")
                    )
                    (bar,) = axes.bar(low, count, high - low, align="edge", **look)
                    words = f"leak at most {significant(high, 'upper', 4)}: {count} rows"
                    tag_mark(bar, "bar", words)
            axes.set(xlim=(0, 1.003), ylim=(0, 1.1 * max(1, *rows)))
            label_axes(axes, "", cut_text(name, width - 70, SMALL))
            axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: count_text(value)))
            axes.tick_params(labelbottom=axes is panels[-1])
            if 0 < limit < 1:
                draw_vertical(axes, limit, "quiet", DOTTED)
        label_axes(panels[-1], "certified leak of a row, at most")
        return figure

    return Chart(
        "leaks",
        "How much the rows leak at most",
        words,
        ("leak at most", *histograms),
        [
            (significant(high, "upper", 4), *(f"{rows[place]:,}" for rows in histograms.values()))
            for place, high in enumerate(edges[1:])
            if any(rows[place] for rows in histograms.values())
        ],
        draw,
    )


def frontier_chart(hardening: Hardening) -> Chart | None:
    """Return the information that coarsenings keep over their leak; nothing without a frontier."""
    answer: Mapping[str, Any] = hardening.to_dict()
    points = [point for point in answer["frontier_estimate"] if point["security"] is not None]
    if not points:
        return None
    points.sort(key=lambda point: float(point["security"]), reverse=True)
    leaks = [max(1 - point["security"], 1e-6) for point in points]
    kept = [point["information"] for point in points]
    upper = max(float(answer["after"]["delta_upper"]), 1e-6)
    released, asked = float(answer["information_estimate"]), answer["security"]

    def draw(width: float, _view: View) -> Figure:
        point: Look = {"color": colour("certified"), "marker": "<", "ms": 12, "ls": ""}
        name = "certified"
        if vacuous(upper, "delta"):
            point, name = point | {"color": colour("quiet"), "marker": "X"}, NO_GUARANTEE
        legend: list[tuple[Any, str]] = [
            (line_key(**estimated_line()), "coarsenings ≈ (estimates)")
        ]
        legend.append((line_key(**point), f"released table ({name})"))
        if asked is not None:
            line = line_key(color=colour("quiet"), ls=DASH_DOT, lw=1.5)
            legend.append((line, f"asked: MIS {significant(asked, 'given')}"))
        figure, (axes,) = make_axes(width, 260, legend, left=52)
        tag_mark(axes.step(leaks, kept, where="post", **estimated_line())[0], "line")
        tag_mark(axes.plot([upper], [released], **point)[0], "point")
        if asked is not None:
            draw_vertical(axes, max(1 - asked, 1e-6), "quiet", DASH_DOT)
        low, high = min(*leaks, upper) / 1.3, 1.3 * max(*leaks, upper)
        axes.set(xscale="log", xlim=(low, high), ylim=(0, 1.08 * max(*kept, released, 1e-9)))
        set_log_ticks(axes.xaxis, low, high)
        measure = cut_text(f"{answer['information_measure']} (estimate, nats)", width - 66, SMALL)
        label_axes(axes, "leak of the worst learner, Δ = 1 - MIS (average record)", measure)
        return figure

    return Chart(
        "frontier",
        "What remains at each level of security",
        f"Estimated information kept by {len(points)} coarsenings against the leak of the worst "
        f"learner; the released table: leak {marked(upper, 'certificate', 'delta', 6)}, "
        f"information ≈ {significant(released, 'estimate', 4)} nats.",
        ("security MIS", "information, nats", "of the most"),
        [
            (
                Mark("estimate", f"≈ {significant(security, 'estimate', 4)}"),
                Mark("estimate", f"≈ {significant(information, 'estimate', 4)}"),
                marked(information / (max(kept) or 1.0), "estimate"),
            )
            for security, information in zip((p["security"] for p in points), kept, strict=True)
        ],
        draw,
    )
