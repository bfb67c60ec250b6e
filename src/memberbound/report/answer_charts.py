"""Charts of single answers, as functions of the numbers that they show."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import MemberboundError
from memberbound.quantities import NO_GUARANTEE, Mark, marked, percent, significant, vacuous
from memberbound.report.charts import HOLLOW, LEAST_RATE, LEAST_SHOWN, draw_roc
from memberbound.report.drawing import (
    DASH_DOT,
    DASHED,
    DOTTED,
    SMALL,
    Chart,
    ChartView,
    LineLook,
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
from memberbound.report.model import RocCurve, SandwichRow
from memberbound.report.sandwich import sandwich_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from memberbound.attacks.scores import AttackFields
    from memberbound.iid.record_leak import RecordLeaks
    from memberbound.subset.record_bounds import Comparison
    from memberbound.verbs.certify import Certification
    from memberbound.verbs.explanation import Explanation
    from memberbound.verbs.harden import Hardening
    from memberbound.verbs.population_answer import PopulationAnswer
    from memberbound.verbs.synthesize import Synthesis

#: Called with (done, total, stage).
ChartProgress = Callable[[int, int | None, str], None]


def charts_of(answer: Any, table: str | None, progress: ChartProgress) -> dict[str, Chart]:
    """Return all charts of an answer by name.

    The available numbers determine the charts (leaks of rows, a sweep over ε, attacks, the budget
    of a release), for any verb.  ``table`` is the file that the answer is about.
    """
    charts: dict[str, Chart | None] = {}
    if table is not None and getattr(answer, "leaks", None) is not None:
        charts["leaks"] = leaks_chart(answer)
    if hasattr(answer, "frontier_estimate"):
        charts["frontier"] = frontier_chart(answer)
    if hasattr(answer, "sweep"):
        charts["success"] = population_chart(answer, _SWEEP_SECONDS, progress)
    if getattr(answer, "attacks", None):
        charts["attacks"] = attacks_chart(answer.attacks, answer.confidence)
    # Releases of all rows, and the model behind synthetic rows, have a budget.
    releases = (getattr(answer, name, None) for name in ("released", "model"))
    budgets = (getattr(release, "budget", None) for release in releases)
    if budget := next((each for each in budgets if each is not None), None):
        rates = [float(rate) for rate in answer.curve.replace_one.tpr_upper]
        curves = {"no attack gets above this": budget.curve().roc}
        charts["roc"] = ceiling_chart(curves, rates, "this release")
    if getattr(answer, "fidelity", None) is not None:
        charts["marginals"] = marginals_chart(answer)
    return {name: chart for name, chart in charts.items() if chart is not None}


def attacks_chart(attacks: Mapping[str, AttackFields], confidence: float) -> Chart:
    """Return a chart of the accuracy of an audit's attacks: estimates and floors.

    An attack with an advantage but no scores has no row.
    """
    rows = [
        SandwichRow(
            "given",
            name,
            "average",
            "model",
            0.5,
            accuracy_estimate=accuracy["estimate"],
            accuracy_lower=accuracy["lower"],
            confidence=confidence,
        )
        for name, attack in attacks.items()
        if (accuracy := attack["accuracy"]) is not None
    ]
    title = "Success of each attack"
    alt = f"{title}, half of the candidates being members."
    return sandwich_of(("attacks", title, alt), rows, [(0.5, "blind guessing 50 %")])


#: The ceiling of the true-positive rate at false-positive rates.
CeilingCurve = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def explanation_chart(explanation: Explanation) -> Chart:
    """Return the certified ROC of a guarantee, linear and log–log."""
    guarantee, adjacency = explanation.guarantee, explanation.adjacency
    ceilings = {f"no attack gets above this ({adjacency})": guarantee.curve.roc}
    if adjacency != "replace-one":
        label = "… when “out” means another record in its place (replace-one)"
        ceilings[label] = guarantee.replaced().curve.roc
    return ceiling_chart(ceilings, explanation.fpr, explanation.setting)


def ceiling_chart(
    ceilings: Mapping[str, CeilingCurve], rates: Sequence[float], setting: str
) -> Chart:
    """Return a chart of certified ROC ceilings, with ``rates`` marked on the first."""
    grid = np.unique(np.concatenate([np.linspace(0, 1, 401), np.geomspace(LEAST_RATE, 1, 301)]))
    looks: list[LineLook] = [
        {"color": colour("certified"), "lw": 2.8},
        {"color": colour("certified"), "lw": 1.5, "ls": DASHED},
    ]
    curves = []
    for (label, values), look in zip(ceilings.items(), looks, strict=False):
        heights = np.minimum(values(grid), 1.0)
        points = tuple(grid.tolist()), tuple(heights.tolist())
        curves.append((RocCurve("model", "certificate", label, *points), look))

    def ceiling(values: CeilingCurve, rate: float) -> Mark:
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
        lambda width, view: draw_roc(width, view, curves, LEAST_SHOWN, marks),
        ("linear", "log"),
    )


# ── Success at ε on these records, for attackers with decreasing knowledge ────────────────────────


#: Attacker, their knowledge, and line style, by key of ``population``'s answer.
_SWEPT_ATTACKERS: dict[str, tuple[str, str, LineLook]] = {
    "worst_case": (
        "worst case",
        "everybody drawn but one, any data set whatever",
        {"color": colour("worst-case"), "marker": "s", "ls": DOTTED},
    ),
    "population": (
        "in this population",
        "everybody drawn but one, all from this table",
        {"color": colour("in-population"), "marker": "D", "ls": DASHED},
    ),
    "coupled": (
        "by coupling",
        "this table, but not who was drawn (L24-P12)",
        {"color": colour("stripe"), "marker": "v", "ls": DASH_DOT},
    ),
    "practical": (
        "practical",
        "this table, but not who was drawn",
        {"color": colour("practical"), "marker": "o", "ls": "-"},
    ),
}
#: Maximum time for the chart of a page.
_SWEEP_SECONDS = 30.0
_POINTS = 17


def population_chart(
    answer: PopulationAnswer, seconds: float = math.inf, progress: ChartProgress | None = None
) -> Chart | None:
    """Return a chart of attackers' success bounds over ε, or None if it takes too long."""
    centre = answer.epsilon if 0 < answer.epsilon < math.inf else 1.0
    epsilons = np.geomspace(centre / 30, centre * 10, _POINTS).tolist()
    begun = time.monotonic()
    points: list[Comparison] = []
    for epsilon in epsilons:
        if progress is not None:
            progress(len(points), len(epsilons), "other values of ε")
        try:
            points += answer.sweep([epsilon])
        except MemberboundError:  # the answer is complete without its chart
            return None
        if time.monotonic() - begun > seconds:
            return None
    return success_chart(epsilons, points, answer)


def success_chart(
    epsilons: Sequence[float], points: Sequence[Comparison], answer: PopulationAnswer
) -> Chart:
    """Return a chart of attackers' success on the most exposed record over ε.

    Leave out an attacker if any of its bounds is missing.
    """
    at_asked = answer.compared
    curves = {n: [getattr(p, n) for p in (*points, at_asked)] for n in _SWEPT_ATTACKERS}
    whole = {name: curve[:-1] for name, curve in curves.items() if None not in curve}
    heights, blind = np.array(list(whole.values()), dtype=np.float64), answer.success_blind
    low, first, last = min(0.5, blind, float(heights.min())), epsilons[0], epsilons[-1]
    asked = f"ε = {significant(answer.epsilon, 'given')}"

    def draw(width: float, _view: ChartView) -> Figure:
        legend = [
            (line_key(**(look | {"lw": 2.3})), f"{who}: knows {knows}")
            for name, (who, knows, look) in _SWEPT_ATTACKERS.items()
            if name in whole
        ]
        figure, (axes,) = make_axes(width, 280, legend)
        axes.set(xscale="log", xlim=(first / 1.1, last * 1.1), ylim=(low - 0.015, 1.02))
        set_percent_ticks(axes.yaxis, 10 * math.ceil(10 * low - 1e-9), 100, 10)
        set_log_ticks(axes.xaxis, first, last)
        delta = f" (δ = {significant(answer.delta, 'given')})" if answer.delta else ""
        axis = cut_text(f"ε of the mechanism, any data set{delta}", width - 20, SMALL)
        label_axes(axes, axis, "attack success at most, most exposed record")
        axes.axhline(blind, color=colour("ink"), ls=DASHED, lw=1.5)
        for name, curve in zip(whole, heights, strict=True):
            # A vacuous bound keeps its position but loses its style.
            axes.plot(epsilons, curve, color=colour("quiet"), lw=0.8)
            proved = [math.nan if vacuous(height) else height for height in curve.tolist()]
            who, _, look = _SWEPT_ATTACKERS[name]
            tag_mark(axes.plot(epsilons, proved, ms=5, lw=2.3, **look)[0], "line", who)
        if first <= answer.epsilon <= last:
            draw_vertical(axes, answer.epsilon, "quiet", DOTTED)
            name_line(axes, answer.epsilon, asked, 0.97, left=answer.epsilon**2 > first * last)
        # Place the text at the end that is far from the curves.
        write_text(axes, last, blind + 0.006, "blind guessing", va="bottom", ha="right")
        return figure

    names = [_SWEPT_ATTACKERS[name][0] for name in whole]
    parts = [
        f"{who} {marked(getattr(at_asked, name), 'certificate')}"
        for who, name in zip(names, whole, strict=True)
    ]
    return Chart(
        "success",
        "Certified success of attackers over ε",
        f"Certified success of attackers over ε. At {asked}: {', '.join(parts)}.",
        ("ε", *(who.capitalize() for who in names)),
        [
            # The bound at a larger ε also holds at a smaller one.
            (significant(epsilon, "lower", 4), *(marked(float(v), "certificate") for v in column))
            for epsilon, column in zip(epsilons, heights.T, strict=True)
        ],
        draw,
    )


def set_log_ticks(axis: Axis, low: float, high: float, most: int = 6) -> None:
    """Set about this many round ticks on a logarithmic axis."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [low]
    for digits in (range(1, 10), (1, 2, 5), (1, 3), (1,)):
        round_ = (digit * 10.0**power for power in powers for digit in digits)
        ticks = [tick for tick in round_ if low * 0.999 <= tick <= high * 1.001] or ticks
        if len(ticks) <= most:
            break
    ticks = ticks[:: math.ceil(len(ticks) / most)]
    set_ticks(axis, ticks, [count_text(tick) for tick in ticks])


def count_text(value: float) -> str:
    """Format a tick label with separated thousands."""
    return f"{int(value):,}" if value >= 1000 else significant(value, "estimate", 3)


# ── Charts of tables: leaks of rows, coarsenings, synthetic rows ──────────────────────────────────

_BINS = 40


def leaks_chart(certification: Certification) -> Chart:
    """Return a histogram of the rows' certified leaks, from an answer of ``certify``."""
    assert certification.leaks is not None
    edges, counts = bin_leaks(certification.leaks)
    leak = certification.record_leak
    rows = "rows" if certification.unit is None else "persons"
    limit = leak.exposed_above or 0.5
    half, worst = (str(marked(x, "certificate", "leak", 6)) for x in (leak.median, leak.max))

    def draw(width: float, _view: ChartView) -> Figure:
        from matplotlib.ticker import FuncFormatter, MaxNLocator

        above = significant(limit, "given")
        safe, exposed = bar_style("certified"), bar_style("danger", "//")
        legend = [
            (patch_key(**safe), f"at most {above}"),
            (patch_key(**exposed), f"exposed: more than {above} is not excluded"),
        ]
        figure, (axes,) = make_axes(width, 180, legend)
        for (low, high), count in zip(pairwise(edges), counts, strict=True):
            if count:
                look = exposed if low >= limit - 1e-9 else safe
                (bar,) = axes.bar(low, count, high - low, align="edge", **look)
                tag_mark(bar, "bar", f"leak at most {significant(high, 'upper', 4)}: {count} rows")
        axes.set(xlim=(0, 1.003), ylim=(0, 1.1 * max(1, *counts)))
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: count_text(value)))
        draw_vertical(axes, limit, "quiet", DOTTED)
        axis = "certified leak of a row, at most"
        label_axes(axes, axis, cut_text(rows, width - 70, SMALL))
        return figure

    return Chart(
        "leaks",
        "How much the rows leak at most",
        f"Histogram of the certified leak of the {rows}: half of them {half}; the worst {worst}.",
        ("leak at most", rows),
        [
            (significant(high, "upper", 4), f"{count:,}")
            for high, count in zip(edges[1:], counts, strict=True)
            if count
        ],
        draw,
    )


def bin_leaks(leaks: RecordLeaks) -> tuple[list[float], list[int]]:
    """Return the edges of equal bins, and the number of rows by certified leak.

    Bins are closed on the right: a row in (a, b] is certified to leak at most b.
    """
    rows = np.asarray(leaks.profile.count * leaks.profile.cells, dtype=np.int64)
    edges = np.linspace(0.0, 1.0, _BINS + 1)
    index = np.clip(np.searchsorted(edges, leaks.leak, side="left") - 1, 0, _BINS - 1)
    filled = np.zeros(_BINS, dtype=np.int64)
    np.add.at(filled, index, rows)
    return edges.tolist(), filled.tolist()


#: A line of estimates: dashed, with open circles.
_ESTIMATED_LINE: LineLook = {
    "color": colour("estimated"),
    "ls": DASHED,
    "lw": 1.8,
    "marker": "o",
    **HOLLOW,
}


def frontier_chart(hardening: Hardening) -> Chart | None:
    """Return a chart of the information that coarsenings keep over their leak, if any."""
    points = sorted(
        (
            (float(point.security), float(point.information))
            for point in hardening.frontier_estimate
            if math.isfinite(point.security)
        ),
        reverse=True,
    )
    if not points:
        return None
    leaks = [max(1 - security, 1e-6) for security, _ in points]
    kept = [information for _, information in points]
    upper = max(hardening.after.delta_upper, 1e-6)
    released, asked = hardening.information_estimate, hardening.security

    def draw(width: float, _view: ChartView) -> Figure:
        point: LineLook = {"color": colour("certified"), "marker": "<", "ms": 12, "ls": ""}
        name = "certified"
        if vacuous(upper, "delta"):
            point, name = point | {"color": colour("quiet"), "marker": "X"}, NO_GUARANTEE
        legend: list[tuple[Artist, str]] = [
            (line_key(**_ESTIMATED_LINE), "coarsenings ≈ (estimates)"),
            (line_key(**point), f"released table ({name})"),
        ]
        if asked is not None:
            line = line_key(color=colour("quiet"), ls=DASH_DOT, lw=1.5)
            legend.append((line, f"asked: MIS {significant(asked, 'given')}"))
        figure, (axes,) = make_axes(width, 260, legend)
        tag_mark(axes.step(leaks, kept, where="post", **_ESTIMATED_LINE)[0], "line")
        tag_mark(axes.plot([upper], [released], **point)[0], "point")
        if asked is not None:
            draw_vertical(axes, max(1 - asked, 1e-6), "quiet", DASH_DOT)
        low, high = min(*leaks, upper) / 1.3, 1.3 * max(*leaks, upper)
        axes.set(xscale="log", xlim=(low, high), ylim=(0, 1.08 * max(*kept, released, 1e-9)))
        set_log_ticks(axes.xaxis, low, high)
        measure = cut_text(f"{hardening.information_measure} (estimate, nats)", width - 66, SMALL)
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
            for security, information in points
        ],
        draw,
    )


#: Maximum number of columns of a synthetic table to draw.
_MOST_COLUMNS = 12


def marginals_chart(answer: Synthesis) -> Chart:
    """Return a chart of the shares of columns' values in the real and in the new table.

    The estimates come from the secret rows, so the chart is for the owner of the rows only.
    """
    assert answer.fidelity is not None
    shown = list(answer.fidelity.marginals.items())[:_MOST_COLUMNS]
    looks = {"real": bar_style("estimated", "//"), "new": bar_style("quiet")}

    def draw(width: float, _view: ChartView) -> Figure:
        texts = ("real rows (owner only)", "new rows")
        legend = [(patch_key(**look), t) for look, t in zip(looks.values(), texts, strict=True)]
        figure, panels = make_axes(width, 74, legend, rows=len(shown))
        for axes, (name, column) in zip(panels, shown, strict=True):
            indices = np.arange(len(column.blocks))
            both = (column.real_estimate, column.synthetic_estimate)
            for (kind, look), shares, shift in zip(looks.items(), both, (-0.2, 0.2), strict=True):
                bars = axes.bar(indices + shift, shares, 0.38, **look)
                for bar, block, share in zip(bars, column.blocks, shares, strict=True):
                    words = f"{name}, {block}: {kind} {percent(share, 'estimate')}"
                    tag_mark(bar, "bar", words)
            axes.set(xlim=(-0.6, len(indices) - 0.4), ylim=(0, None), xticks=[], yticks=[])
            label_axes(axes, "", cut_text(name, width - 70, SMALL))
        return figure

    rows = [
        (name, block, percent(real, "estimate"), percent(new, "estimate"))
        for name, column in shown
        for block, real, new in zip(
            column.blocks, column.real_estimate, column.synthetic_estimate, strict=True
        )
    ]
    alt = (
        "Shares of values in the real and in the new rows, column by column. For the owner of the "
        "rows only."
    )
    title = "Columns of the real and of the new rows"
    return Chart("marginals", title, alt, ("Column", "Values", "Real", "New"), rows, draw)
