"""The charts of reports, each a function of the numbers that it shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memberbound.quantities import NO_GUARANTEE, Mark, marked, percent, significant, vacuous
from memberbound.report.drawing import (
    DASH_DOT,
    DASHED,
    DOTTED,
    LONG_DASH,
    SMALL,
    TEXT,
    Chart,
    Legend,
    View,
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
from memberbound.report.model import (
    RECORDS,
    Exposure,
    Report,
    Result,
    RocCurve,
    SandwichRow,
    score_mark,
)
from memberbound.report.prose import allowed_over, blind_guess

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

#: How something looks, in matplotlib's words.
Look = dict[str, Any]


@dataclass(frozen=True)
class SubjectLook:
    """How a subject is drawn wherever it appears: colour, marker, dash and hatch all differ."""

    color: str
    marker: str
    dash: Any
    hatch: str
    width: float


#: Colours are Okabe and Ito's; none of the differences rests on colour alone.
_SUBJECTS = {
    "given": SubjectLook("given", "^", LONG_DASH, "..", 4.0),
    "model": SubjectLook("model", "o", DOTTED, "", 2.5),
    "noise-every": SubjectLook("noise-every", "D", DASH_DOT, "xx", 2.5),
}


def estimated_line() -> Look:
    """Return the look of a line of estimates: dashed, with open circles."""
    return {"color": colour("estimated"), "ls": DASHED, "lw": 1.8, "marker": "o"} | _hollow()


def _hollow() -> Look:
    return {"mfc": colour("card"), "ms": 6.5, "mew": 1.8}


# ── The sandwich: certified ceiling, estimate and audited floor on one axis ───────────────────────

#: Pixels of a row; a row is one unit of the vertical axis.
_ROW = 74
_GROUPS = {
    "model": "The given model, its own records against fresh ones",
    "subset": "This learner, on half of these records",
    "iid": "Another attacker: any model on such a table",
}
#: A shield.
_SHIELD = ((0, 1), (0.9, 0.7), (0.8, -0.3), (0, -1.1), (-0.8, -0.3), (-0.9, 0.7))


def sandwich_chart(report: Report, record: str) -> Chart | None:
    """Return the sandwich of the average or of the most exposed record; nothing without a row."""
    rows = [row for row in report.sandwich if row.record == record]
    if not rows:
        return None
    blind, eta = max(row.blind for row in rows), report.question.eta
    limit = allowed_over(blind, eta)
    alt = f"Attack success on the {RECORDS[record]}, from 50 to 100 percent; allowed are {limit}."
    lines = [(blind, f"blind guessing {blind_guess(blind)}"), (blind + eta, f"allowed {limit}")]
    return sandwich_of((f"sandwich-{record}", f"The {RECORDS[record]}", alt), rows, lines, _GROUPS)


def sandwich_of(
    names: tuple[str, str, str],
    rows: Sequence[SandwichRow],
    lines: Sequence[tuple[float, str]],
    groups: Mapping[str, str] | None = None,
) -> Chart:
    """Return rows of spans; ``names`` are id, title and alt, ``lines`` go up with their names."""
    low = min(0.5, *(v for row in rows for v in (row.blind, *(n.value for n in row.numbers))))

    def draw(width: float, _view: View) -> Figure:
        places, heads, depth = _places(rows, groups or {})
        height, room = depth * _ROW, width - 36
        margins = {"left": 8, "right": 22, "top": 10 + 19 * len(lines)}
        figure, (axes,) = make_axes(width, height, _sandwich_legend(rows), **margins)
        axes.set(xlim=(low - 0.012, 1.012), ylim=(-depth, 0))
        axes.yaxis.set_visible(False)
        axes.spines["left"].set_visible(False)
        set_percent_ticks(axes.xaxis, 10 * int(10 * low + 1e-9), 100, 10)
        label_axes(axes, "attack success")
        for text, y in heads:
            write_text(axes, low, y, cut_text(text, room), fontweight="bold", color=colour("quiet"))
        for row, y in zip(rows, places, strict=True):
            _bands(axes, row, y)
            _points(axes, row, y)
            write_text(axes, low, y + 0.33, cut_text(row.label, room), fontsize=TEXT)
            write_text(axes, low, y - 0.31, _numbers(row))
        # One name above the other: two lines may be close.
        for place, (x, text) in enumerate(lines):
            up = 1 + (9 + 18 * (len(lines) - 1 - place)) / height
            draw_vertical(axes, x, *(("quiet", DOTTED), ("ink", DASHED))[place], up=up)
            name_line(axes, x, text, up, left=x > low + 0.6 * (1 - low))
        return figure

    id, title, alt = names
    return Chart(
        id,
        title,
        f"{alt} {' '.join(map(_sandwich_words, rows))}",
        ("Subject", "Floor, measured", "Estimate", "Ceiling, certified", "Blind guess"),
        [(row.label, row.least, row.seen, row.most, blind_guess(row.blind)) for row in rows],
        draw,
    )


def _sandwich_legend(rows: Sequence[SandwichRow]) -> Legend:
    shown = {row.most.kind for row in rows}
    shown |= {"estimate" for row in rows if row.observed is not None}
    shown |= {"audit" for row in rows if row.beaten}
    kinds: dict[str, tuple[Any, str]] = {
        "certificate": (
            (patch_key(**_BAND["band"]()), line_key(**_shield())),
            "≤ certified ceiling: proved, nobody is right more often",
        ),
        "estimate": (
            line_key(**_ring()),
            "≈ estimate: what the best attack tried reached; no bound",
        ),
        "audit": (
            (patch_key(**_BAND["reached"]()), line_key(**_arrow())),
            "≥ measured floor: an attack is right at least this often",
        ),
        "unproved": (patch_key(**_BAND["open"]()), "striped or grey: no guarantee"),
    }
    return [entry for kind, entry in kinds.items() if kind in shown]


def _shield() -> Look:
    from matplotlib.path import Path as Outline

    outline = Outline([*_SHIELD, _SHIELD[0]], closed=True)
    look = {"color": colour("certified"), "marker": outline, "ms": 13, "mew": 1.5}
    return look | {"mec": colour("card"), "ls": ""}


def _arrow() -> Look:
    return {"color": colour("measured"), "marker": ">", "ms": 11, "mec": colour("card"), "ls": ""}


def _ring() -> Look:
    return {"marker": "o", "ms": 9, "mfc": "none", "mec": colour("estimated"), "mew": 2.4, "ls": ""}


#: The looks of the spans: below a certificate, reached by an attack, and open.
_BAND: dict[str, Callable[[], Look]] = {
    "band": lambda: {"fc": colour("certified"), "alpha": 0.3, "lw": 0},
    "reached": lambda: {"fc": colour("measured"), "alpha": 0.85, "lw": 0},
    "open": lambda: {"fc": "none", "ec": colour("stripe"), "hatch": "///", "lw": 0},
}


def _places(
    rows: Sequence[SandwichRow], groups: Mapping[str, str]
) -> tuple[list[float], list[tuple[str, float]], float]:
    """Return the height of every row, the heads of the groups, and how deep they reach."""
    places: list[float] = []
    heads: list[tuple[str, float]] = []
    y, game = 0.0, None
    for row in rows:
        if row.game != game and row.game in groups:
            y -= 0.36 if places else 0.16
            heads.append((groups[row.game], y))
            y -= 0.16
        game = row.game
        places.append(y - 0.54)
        y -= 1.1
    return places, heads, 0.05 - y


def _bands(axes: Axes, row: SandwichRow, y: float) -> None:
    """Draw the band in which the truth lies: closed by a certificate, or open and striped."""
    start = row.blind if row.floor is None else max(row.blind, row.floor.lower)
    upper = 1.0 if row.ceiling is None else row.ceiling.upper
    spans = [("open", start, 1.0) if vacuous(upper) else ("band", start, upper)]
    if start > row.blind:
        spans.append(("reached", row.blind, start))
    for kind, first, last in spans:
        bars = axes.barh(y, max(last - first, 0), 0.28, left=first, **_BAND[kind]())
        tag_mark(bars[0], kind)


def _points(axes: Axes, row: SandwichRow, y: float) -> None:
    """Draw the ceiling as a shield, the floor as a triangle and the estimate as a ring."""
    points = []
    if row.ceiling is not None and not vacuous(row.ceiling.upper):
        upper = row.ceiling.upper
        axes.plot([upper, upper], [y - 0.21, y + 0.21], color=colour("certified"), lw=4)
        points.append(("ceiling", upper, f"certified {row.most}", _shield()))
    if row.beaten is not None:
        points.append(("floor", row.beaten.lower, f"measured {row.least}", _arrow()))
    if row.observed is not None:
        points.append(("estimate", row.observed.estimate, f"estimate {row.seen}", _ring()))
    for kind, x, words, look in points:
        tag_mark(axes.plot([x], [y], clip_on=False, **look)[0], kind, f"{row.label}: {words}")


def _numbers(row: SandwichRow) -> str:
    """Return the numbers below a row, each with the sign of its kind."""
    parts = [row.least if row.beaten else None, row.seen]
    proved = row.most.kind == "certificate"
    parts.append(row.most if proved else Mark("unproved", NO_GUARANTEE))
    return "  ·  ".join(str(part) for part in parts if part is not None)


def _sandwich_words(row: SandwichRow) -> str:
    parts = []
    if row.floor is not None:
        parts.append(f"measured floor {row.least}" if row.beaten else f"{row.least}")
    if row.observed is not None:
        parts.append(f"estimate {row.seen}")
    proved = row.most.kind == "certificate"
    parts.append(f"certified ceiling {row.most}" if proved else NO_GUARANTEE)
    return f"{row.label}: {', '.join(parts)}."


# ── What each remedy costs: how the model's score changes ─────────────────────────────────────────

_REMEDY_ROW = 50


def remedies_chart(report: Report) -> Chart | None:
    """Return how the score changes with each remedy; nothing if none has a score."""
    priced = [(r, r.price) for r in report.remedies if r.price is not None and r.id != "nothing"]
    if not priced:
        return None
    name, before = priced[0][1].name, priced[0][1].before
    # A score may be far below zero (R²); the figure ends at -1 and the number is written beside.
    changes = [max(-1.0, price.after - before) for _, price in priced]
    low, high = min(0.0, *changes), max(0.0, *changes)
    span = max(high - low, 0.01)
    # The numbers stand on the right.
    left, right = low - 0.05 * span, high + 0.3 * span
    usual = report.usual.replace("trained", "the model trained")

    def draw(width: float, _view: View) -> Figure:
        from matplotlib.ticker import MaxNLocator

        kinds = {True: ("", "enough for what was asked"), False: ("//", "not enough")}
        legend: list[tuple[Any, str]] = [
            (patch_key(**bar_style("estimated", hatch)), text)
            for enough, (hatch, text) in kinds.items()
            if any(remedy.enough is enough for remedy, _ in priced)
        ]
        usual_line = line_key(color=colour("ink"), ls=DASHED, lw=1.5)
        legend.append((usual_line, f"{usual}: {score_mark(before)}"))
        if any(remedy.recommended for remedy, _ in priced):
            legend.append((line_key(color=colour("ink"), ls="", marker="*", ms=10), "recommended"))
        margins = {"left": 12, "right": 16, "top": 10}
        figure, (axes,) = make_axes(width, _REMEDY_ROW * len(priced), legend, **margins)
        axes.set(xlim=(left, right), ylim=(0.45 - len(priced), 0.55))
        axes.yaxis.set_visible(False)
        axes.spines["left"].set_visible(False)
        ticks = MaxNLocator(4).tick_values(left, right)
        inside = [float(tick) for tick in ticks if left <= tick <= right]
        set_ticks(axes.xaxis, inside, [significant(tick, "estimate", 3) for tick in inside])
        draw_vertical(axes, 0.0, "ink", DASHED)
        label_axes(axes, cut_text(f"change of the model's {name}, estimate", width - 20, SMALL))
        for place, ((remedy, price), change) in enumerate(zip(priced, changes, strict=True)):
            look = bar_style("estimated", "" if remedy.enough else "//")
            (bar,) = axes.barh(-place - 0.18, change, 0.4, **look)
            tag_mark(bar, "bar", f"{remedy.label}: {price.change}")
            star, weight = ("★ ", "bold") if remedy.recommended else ("", "normal")
            label = cut_text(star + remedy.label, width - 110)
            write_text(axes, left, 0.27 - place, label, fontsize=TEXT, fontweight=weight)
            shown = {"ha": "right", "fontstyle": "italic"}
            write_text(axes, right, 0.27 - place, str(price.change), **shown)
        return figure

    parts = [
        f"{remedy.label} {price.change}, {'enough' if remedy.enough else 'not enough'}"
        f"{', recommended' if remedy.recommended else ''}"
        for remedy, price in priced
    ]
    return Chart(
        "remedies",
        f"Change of {name} with each remedy",
        f"Change of the model's {name} with each remedy; as it is {score_mark(before)}. "
        f"{'; '.join(parts)}.",
        ("Remedy", "Certified", f"{name} before", f"{name} after", "Change", "Enough"),
        [
            (
                remedy.label,
                marked(remedy.accuracy_upper, "certificate"),
                None if remedy.price is None else score_mark(remedy.price.before),
                None if remedy.price is None else score_mark(remedy.price.after),
                None if remedy.price is None else remedy.price.change,
                "yes" if remedy.enough else "no",
            )
            for remedy in report.remedies
        ],
        draw,
    )


# ── Members identified against false alarms: measured curves, and ceilings that no attack can cross

#: False-positive rates of the report's table.
_RATES = (0.01, 0.05, 0.1, 0.25, 0.5)


def roc_chart(report: Report) -> Chart | None:
    """Return the ROC of every subject, linear and log–log; nothing without a curve."""
    curves = report.roc
    if not curves:
        return None
    parts = [f"{curve.label}: {_read(curve, 0.1)} of the members" for curve in curves]
    # Wide certified lines first: two that coincide stay visible, and measured ones lie above.
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
    view: View,
    curves: Sequence[tuple[RocCurve, Look]],
    low: float,
    marks: Sequence[tuple[float, float]] = (),
) -> Figure:
    """Draw curves on linear or logarithmic axes, or on both beside each other."""
    diamond: Look = {
        "color": colour("certified"),
        "marker": "D",
        "ms": 7,
        "mec": colour("card"),
        "ls": "",
    }
    guess: Look = {"color": colour("quiet"), "ls": DOTTED, "lw": 1.5}
    legend = [(line_key(**look), curve.label) for curve, look in curves]
    legend.append((line_key(**guess), "blind guessing"))
    if marks:
        legend.append((line_key(**diamond), "the rates asked about"))
    views: tuple[View, ...] = ("linear", "log") if view == "both" else (view,)
    side = width / len(views) - 76
    figure, panels = make_axes(width, side, legend, left=52, right=24, columns=len(views))
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
                tag_mark(axes.plot([x], [y], clip_on=False, **diamond)[0], "point")
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


def _curve_look(curve: RocCurve) -> Look:
    look = _SUBJECTS[curve.subject]
    color = colour(look.color)
    if curve.kind == "certificate":
        return {"color": color, "lw": look.width, "alpha": 0.6 if look.width > 3 else 1.0}
    return {"color": color, "lw": 1.6, "ls": look.dash, "marker": look.marker} | _hollow()


def _lowest(curves: Sequence[RocCurve]) -> float:
    """Return the power of ten at which the logarithmic axes begin: the finest rate measured."""
    seen = [x for curve in curves if curve.kind == "estimate" for x in curve.fpr if x > 0]
    return max(-4.0, min(-1.0, math.floor(math.log10(min(seen))))) if seen else -3.0


def _read(curve: RocCurve, rate: float) -> Mark:
    """Return the members found at a rate of false alarms.

    Estimates are interpolated.  A ceiling is read at the next point to the right, since it rises:
    between two points a straight line may lie below it.
    """
    if curve.kind == "estimate":
        return marked(float(np.interp(rate, curve.fpr, curve.tpr)), "estimate")
    right = int(np.searchsorted(curve.fpr, rate * (1 - 1e-12)))
    value = curve.tpr[right] if right < len(curve.tpr) else 1.0
    # A ceiling of 1 over 10 % false alarms is still a bound, only an empty one.
    return marked(min(1.0, float(value)), "certificate")


# ── What ε means for these records, for attackers who know ever less ──────────────────────────────


@dataclass(frozen=True)
class Attacker:
    """Who attacks, and how that is drawn."""

    name: str
    knows: str
    color: str
    marker: str
    dash: Any


#: By the names in the answer of ``population``.
ATTACKERS = {
    "worst_case": Attacker(
        "worst case", "everybody drawn but one, any data set whatever", "worst-case", "s", DOTTED
    ),
    "population": Attacker(
        "in this population",
        "everybody drawn but one, all from this table",
        "in-population",
        "D",
        DASHED,
    ),
    "coupled": Attacker(
        "by coupling", "this table, but not who was drawn (L24-P12)", "stripe", "v", DASH_DOT
    ),
    "practical": Attacker("practical", "this table, but not who was drawn", "practical", "o", "-"),
}


def sweep_chart(report: Report) -> Chart | None:
    """Return the certified success of three attackers over ε; nothing without a sweep."""
    answer = report.answer("population")
    if answer is None or not answer["sweep"]:
        return None
    sweep, epsilon, eta = answer["sweep"], answer["epsilon"], report.question.eta
    keys = {
        "worst_case": "success_worst_case_upper",
        "population": "success_population_upper",
    }
    success = {name: answer[key] for name, key in keys.items()}
    success["coupled"] = (answer.get("coupling") or answer)["success_upper"]
    whose = "example" if report.defaulted("epsilon") else "your"
    blind = answer["success_blind"]
    return success_chart(
        [point["epsilon"] for point in sweep],
        {name: [point[f"{name}_upper"] for point in sweep] for name in success},
        success,
        id="sweep",
        asked=(epsilon, f"{whose} ε = {significant(epsilon, 'given')}"),
        level=(blind + eta, f"allowed {allowed_over(blind, eta)}"),
        axis=f"ε of the Gaussian mechanism (δ = {significant(answer['delta'], 'given')})",
    )


def success_chart(
    epsilons: Sequence[float],
    curves: Mapping[str, Sequence[float | None]],
    success: Mapping[str, float | None],
    *,
    id: str = "success",
    asked: tuple[float, str],
    level: tuple[float, str],
    axis: str,
) -> Chart:
    """Return the certified success of attackers over ε, about the most exposed record.

    Args:
        epsilons: the ε of the curves, rising.
        curves: attacker → success at each ε; one with a gap is left out.
        success: attacker → success at the ε that was asked about.
        id: name of the chart.
        asked: the ε that was asked about, and what stands at it.
        level: a height to compare with, and what it is.
        axis: title of the horizontal axis.
    """
    whole = {name: c for name, c in curves.items() if None not in (*c, success[name])}
    heights = np.array(list(whole.values()), dtype=np.float64)
    low, first, last = min(0.5, level[0], float(heights.min())), epsilons[0], epsilons[-1]

    def draw(width: float, _view: View) -> Figure:
        looks = {
            name: {"color": colour(who.color), "ls": who.dash, "marker": who.marker, "lw": 2.3}
            for name, who in ATTACKERS.items()
        }
        legend = [
            (line_key(**looks[name]), f"{ATTACKERS[name].name}: knows {ATTACKERS[name].knows}")
            for name in whole
        ]
        figure, (axes,) = make_axes(width, 280, legend, left=50, top=48)
        pad = max((last / first) ** 0.03, 1.05)
        axes.set(xscale="log", xlim=(first / pad, last * pad), ylim=(low - 0.015, 1.02))
        set_percent_ticks(axes.yaxis, 10 * math.ceil(10 * low - 1e-9), 100, 10)
        set_log_ticks(axes.xaxis, first, last)
        # The name of the asked ε has a line of its own below the title.
        label_axes(
            axes,
            cut_text(axis, width - 20, SMALL),
            "attack success at most, most exposed record",
            pad=25,
        )
        axes.axhline(level[0], color=colour("ink"), ls=DASHED, lw=1.5)
        every = max(1, len(epsilons) // 10)
        for name, curve in zip(whole, heights, strict=True):
            # A bound that excludes nothing keeps its place, not its look.
            axes.plot(epsilons, curve, color=colour("quiet"), lw=0.8)
            proved = [math.nan if vacuous(height) else height for height in curve.tolist()]
            (line,) = axes.plot(epsilons, proved, ms=5, markevery=every, **looks[name])
            tag_mark(line, "line", ATTACKERS[name].name)
        epsilon, text = asked
        if first <= epsilon <= last:
            draw_vertical(axes, epsilon, "quiet", DOTTED, up=1.05)
            name_line(axes, epsilon, text, 1.04, left=epsilon**2 > first * last)
        # At the end where the curves are far from it.
        write_text(axes, last, level[0] + 0.006, level[1], va="bottom", ha="right")
        return figure

    parts = [f"{ATTACKERS[name].name} {marked(success[name], 'certificate')}" for name in whole]
    return Chart(
        id,
        "Certified success of attackers over ε",
        f"Certified success of attackers over ε. At {asked[1]}: {', '.join(parts)}; {level[1]}.",
        ("ε", *(ATTACKERS[name].name.capitalize() for name in whole)),
        [
            # At a smaller ε the bound holds all the more.
            (significant(epsilon, "lower", 4), *(marked(float(v), "certificate") for v in column))
            for epsilon, column in zip(epsilons, heights.T, strict=True)
        ],
        draw,
    )


def set_log_ticks(axis: Axis, low: float, high: float, most: int = 6) -> None:
    """Set about so many round ticks on a logarithmic axis."""
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
    """Return the text of a tick, with separated thousands."""
    return f"{int(value):,}" if value >= 1000 else significant(value, "estimate", 3)


# ── Who is exposed: how often the attack is right about each record ───────────────────────────────

_PANEL = 100


def exposure_chart(report: Report) -> Chart | None:
    """Return one histogram below the other, on one axis; nothing without an audit."""
    shown = report.exposure
    if not shown:
        return None
    records = {item.subject: report.records_of(item.subject) for item in shown}
    blind, eta = records[shown[0].subject]["blind_accuracy"], report.question.eta
    allowed, limit = blind + eta, allowed_over(blind, eta)
    edges = shown[0].histogram.edges
    occupied = [i for item in shown for i, count in enumerate(item.histogram.counts) if count]
    left = edges[max(0, min(occupied, default=len(edges) // 2) - 1)]

    def draw(width: float, _view: View) -> Figure:
        looks = [_SUBJECTS[item.subject] for item in shown]
        legend: list[tuple[Any, str]] = [
            (patch_key(**bar_style(look.color, look.hatch)), item.label)
            for look, item in zip(looks, shown, strict=True)
        ]
        chance = "what chance alone would show, roughly"
        legend.append((line_key(color=colour("quiet"), ls=DOTTED, lw=1.8), chance))
        margins = {"left": 44, "right": 22, "top": 58}
        figure, panels = make_axes(width, _PANEL, legend, rows=len(shown), **margins)
        step, top = 10 if left >= 0.4 else 20, 1 + 36 / _PANEL
        for axes, item in zip(panels, shown, strict=True):
            _exposure_bars(axes, item, records[item.subject], allowed)
            axes.set_xlim(left, 1.002)
            set_percent_ticks(axes.xaxis, step * -int(-100 * left // step), 100, step)
            axes.tick_params(labelbottom=axes is panels[-1])
            label = cut_text(item.label, width - 66)
            axes.set_title(label, loc="left", fontsize=TEXT, color=colour("ink"), pad=5)
            for x, color, dash in ((blind, "quiet", DOTTED), (allowed, "ink", DASHED)):
                draw_vertical(axes, x, color, dash, up=top if axes is panels[0] else 1.0)
        label_axes(panels[-1], "attack success on a record (estimate)")
        name_line(panels[0], blind, f"blind {blind_guess(blind)}", top, left=True)
        name_line(panels[0], allowed, f"allowed {limit}", top, left=False)
        return figure

    parts = []
    for item in shown:
        _, over, chance = count_above(item, records[item.subject], allowed)
        parts.append(
            f"{item.label}: {over} of {sum(item.histogram.counts)} records in the bars above "
            f"{limit}, by chance alone about {chance}; {records[item.subject]['exposed_records']} "
            "shown to be exposed"
        )
    return Chart(
        "exposure",
        "Attack success, record by record",
        f"Attack success, record by record, one histogram for each. {'. '.join(parts)}.",
        ("Right about a record", *(item.label for item in shown)),
        [
            (
                f"{percent(low, 'given')} to {percent(high, 'given')}",
                *(Mark("estimate", f"≈ {item.histogram.counts[i]}") for item in shown),
            )
            for i, (low, high) in enumerate(pairwise(edges))
            if any(item.histogram.counts[i] for item in shown)
        ],
        draw,
    )


def _exposure_bars(axes: Axes, item: Exposure, records: Result, allowed: float) -> None:
    from matplotlib.ticker import MaxNLocator

    look = bar_style(_SUBJECTS[item.subject].color, _SUBJECTS[item.subject].hatch)
    for low, high, count in item.histogram.bars:
        if count == 0:
            continue
        middle = low + 0.5 * (high - low)
        (bar,) = axes.bar(middle, count, 0.92 * (high - low), **look)
        words = f"{percent(low, 'given')} to {percent(high, 'given')}: {count} records"
        tag_mark(bar, "bar", words)
        # The few on the right are what matters, and bars of one record are hard to see.
        if low >= allowed - 1e-9:
            place = {"ha": "center", "va": "bottom", "fontsize": 11}
            write_text(axes, middle, count, str(count), **place)
    edges = np.array(item.histogram.edges)
    chance = {"baseline": None, "color": colour("quiet"), "ls": DOTTED, "lw": 1.8}
    tag_mark(axes.stairs(_by_chance(item, records, edges), edges, **chance), "chance")
    axes.set_ylim(0, 1.25 * max(1, *item.histogram.counts))
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))


def count_above(item: Exposure, records: Result, success: float) -> tuple[float, int, int]:
    """Return the edge from which on records count, how many lie beyond it, and how many by chance.

    The edge is that of the first bar that begins at the success rate or above it.
    """
    beyond = item.histogram.above(success)
    edge = beyond[0] if beyond else 1.0
    first = len(item.histogram.counts) - len(beyond)
    expected = _by_chance(item, records, np.array(item.histogram.edges))[first:].sum()
    return edge, sum(item.histogram.counts[first:]), int(np.rint(expected))


def _by_chance(item: Exposure, records: Result, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how the records would spread if every answer were a blind guess."""
    from scipy.stats import binom

    tries = records["targets"]
    right = np.arange(tries + 1)
    weight = binom.pmf(right, tries, records["blind_accuracy"])
    shares, _ = np.histogram(right / tries, bins=edges, weights=weight)
    expected: NDArray[np.float64] = sum(item.histogram.counts) * shares
    return expected
