"""The figures of the report, each with its alt text and its table.

A figure is described in Plotly's terms and drawn as SVG by :mod:`memberbound.report.svg`.  Colours
are names with an ``@`` in front: those of the style sheet's light or dark scheme.  Texts of the
report are escaped; ``<b>`` and ``<i>`` are the only tags in a text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from memberbound.quantities import Mark, marked, percent, significant, vacuous
from memberbound.report.model import (
    RECORDS,
    Exposure,
    Histogram,
    PopulationTranslation,
    Price,
    Remedy,
    Report,
    RocCurve,
    SandwichRow,
    Translation,
    scored,
)
from memberbound.report.prose import allowed_over, blind_guess
from memberbound.report.svg import drawn

__all__ = [
    "Drawing",
    "Legend",
    "exposure_drawing",
    "remedies_drawing",
    "roc_drawing",
    "sandwich_drawing",
    "sweep_drawing",
]

# ── What a figure consists of, and what all figures share ─────────────────────────────────────────

#: A piece of what Plotly draws.
Spec = dict[str, object]
Cell = str | Mark | None
#: A figure cannot wrap a text; the table behind it has the whole.
_LONGEST = 90


@dataclass(frozen=True)
class Look:
    """How a subject is drawn wherever it appears: colour, symbol, dash and pattern all differ."""

    color: str
    symbol: str
    dash: str
    pattern: str
    width: float


#: Colours are Okabe and Ito's; none of the differences rests on colour alone.
SUBJECTS = {
    "given": Look("@given", "triangle-up-open", "longdash", ".", 4.0),
    "model": Look("@model", "circle-open", "dot", "", 2.5),
    "noise-average": Look("@noise-average", "square-open", "dash", "/", 8.0),
    "noise-every": Look("@noise-every", "diamond-open", "dashdot", "x", 2.5),
}


@dataclass(frozen=True)
class Legend:
    """One line of a legend: how it is drawn, and what it means."""

    kind: str
    text: str
    color: str = "ink"
    dash: str = ""
    symbol: str = ""


@dataclass(frozen=True)
class Drawing:
    """A figure: what is drawn, what it says in words, and its numbers as a table.

    ``views`` are other axes for the same data, by name; the first is shown at first.  ``widths``
    are those of a wide page and of a phone, in pixels: a text keeps its size on both.
    """

    id: str
    alt: str
    data: list[Spec]
    layout: Spec
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    legend: Sequence[Legend] = ()
    views: dict[str, Spec] = field(default_factory=dict)
    title: str = ""
    widths: tuple[int, int] = (880, 340)

    def svgs(self) -> list[tuple[str, str]]:
        """Return the classes and the source of every drawing: each view, wide and narrow."""
        views: dict[str, Spec] = self.views or {"": {}}
        return [
            (
                " ".join(filter(None, (name, f"view-{view}" if view else ""))),
                drawn(f"{self.id}-{name}{view}", self.data, self.layout | axes, width),
            )
            for view, axes in views.items()
            for name, width in zip(("wide", "narrow"), self.widths, strict=True)
        ]


def plain(text: str) -> str:
    """Return a text that a figure shows as it is, whatever it holds; a long one is cut."""
    return escape(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…", quote=False)


def axis(title: str = "", **fields: object) -> Spec:
    """Return an axis that is only looked at: no zoom, so that a finger scrolls the page."""
    return {
        "title": {"text": title, "font": {"size": 12}},
        "fixedrange": True,
        "zeroline": False,
        "gridcolor": "@grid",
        "linecolor": "@edge",
        "tickcolor": "@edge",
        "ticks": "outside",
        "automargin": True,
        # Plotly drops the labels at the ends of an axis otherwise.
        "ticklabeloverflow": "allow",
    } | fields


def shares(first: int, last: int, step: int) -> Spec:
    """Return ticks in percent, the ends included.

    >>> shares(50, 100, 25)["ticktext"]
    ['50 %', '75 %', '100 %']
    """
    ticks = range(first, last + 1, step)
    return {"tickvals": [t / 100 for t in ticks], "ticktext": [f"{t} %" for t in ticks]}


def layout(height: int, **fields: object) -> Spec:
    """Return the layout that all figures share."""
    return {
        "height": height,
        "autosize": True,
        "showlegend": False,
        "dragmode": False,
        "hovermode": "closest",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "@ink", "size": 13},
        "hoverlabel": {
            "bgcolor": "@card",
            "bordercolor": "@edge",
            "font": {"color": "@ink"},
            "namelength": -1,
        },
        "margin": {"l": 12, "r": 16, "t": 12, "b": 48},
    } | fields


def note(text: str, x: float, y: float, **fields: object) -> Spec:
    """Return a text in a figure, without an arrow."""
    return {
        "text": text,
        "x": x,
        "y": y,
        "xref": "x",
        "yref": "y",
        "showarrow": False,
        "xanchor": "left",
        "yanchor": "middle",
        # Lines pass behind a text, not through it.
        "bgcolor": "@card",
        "borderpad": 1,
    } | fields


def line_at(x: float, color: str, dash: str, *, up: float = 1.0, **fields: object) -> Spec:
    """Return a vertical line over the whole height of a figure."""
    return {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": x,
        "x1": x,
        "y0": 0,
        "y1": up,
        "line": {"color": color, "dash": dash, "width": 1.5},
    } | fields


def patterned(color: str, shape: str) -> Spec:
    """Return the look of bars of one colour, filled or with a pattern of it."""
    pattern = {"shape": shape, "fillmode": "replace", "size": 8, "solidity": 0.35}
    edge = {"color": color, "width": 1.5}
    return {"color": color, "line": edge, "pattern": pattern | {"fgcolor": color}}


# ── The sandwich: certified ceiling, estimate and audited floor on one axis ───────────────────────

#: Height of a row and of the words before a group, in pixels; a row is one unit of the axis.
_ROW, _ROW_TOP, _ROW_BOTTOM = 86, 52, 56
_GROUPS = {
    "model": "The given model, its own records against fresh ones",
    "subset": "This learner, on half of these records",
    "iid": "Another game: any model on such a table",
}


def sandwich_drawing(report: Report, record: str) -> Drawing | None:
    """Return the sandwich of the average or of the most exposed record; nothing without a row."""
    rows = [row for row in report.sandwich if row.record == record]
    if not rows:
        return None
    blind, eta = max(row.blind for row in rows), report.question.eta
    allowed, limit = blind + eta, allowed_over(blind, eta)
    places, heads, depth = _places(rows)
    values = [v for row in rows for v in _values(row)]
    low, height = min(0.5, *values), int(depth * _ROW)
    marks: list[Spec] = []
    texts = [
        note(f"<b>{plain(text)}</b>", low, y, font={"size": 12, "color": "@quiet"})
        for text, y in heads
    ]
    data: list[Spec] = []
    for row, y in zip(rows, places, strict=True):
        data += _bands(row, y)
        marks += _marks(row, y)
        texts.append(note(plain(row.label), low, y + 0.34, font={"size": 14}))
        texts.append(note(_numbers(row), low, y - 0.33, font={"size": 12}))
    whole = height + _ROW_TOP + _ROW_BOTTOM
    shapes = [
        line_at(blind, "@quiet", "dot", up=1 + 34 / height, layer="below"),
        line_at(allowed, "@ink", "dash", up=1 + 14 / height, layer="below"),
    ]
    head = {"yref": "paper", "yanchor": "bottom", "xanchor": "left", "font": {"size": 12}}
    # One label above the other: the two lines may be close.
    for x, text, lift in (
        (blind, f"blind guessing {blind_guess(blind)}", 26),
        (allowed, f"allowed {limit}", 6),
    ):
        left = x <= 0.8
        texts.append(
            note(text, x, 1 + lift / height, **head | {"xanchor": "left" if left else "right"})
            | {"xshift": 4 if left else -4}
        )
    return Drawing(
        id=f"sandwich-{record}",
        title=f"The {RECORDS[record]}",
        widths=(450, 340),
        alt=_sandwich_alt(rows, record, limit),
        data=data + marks,
        layout=layout(
            whole,
            barmode="overlay",
            xaxis=axis(
                "how often anybody is right",
                range=[low - 0.012, 1.012],
                **shares(10 * int(10 * low + 1e-9), 100, 10),
            ),
            yaxis=axis(range=[-depth, 0], visible=False),
            shapes=shapes,
            annotations=texts,
            margin={"l": 8, "r": 22, "t": _ROW_TOP, "b": _ROW_BOTTOM},
        ),
        columns=("Subject", "Floor, measured", "Estimate", "Ceiling, certified", "Blind guess"),
        rows=[(row.label, row.least, row.seen, row.most, blind_guess(row.blind)) for row in rows],
        legend=[item for item in _KINDS if item.kind in _kinds_in(rows)],
    )


_KINDS = (
    Legend("certificate", "≤ certified ceiling: proved, nobody is right more often"),
    Legend("estimate", "≈ estimate: what the best attack tried reached; no bound"),
    Legend("audit", "≥ measured floor: an attack is right at least this often"),
    Legend("unproved", "striped: nothing is proved here"),
)


def _kinds_in(rows: list[SandwichRow]) -> set[str]:
    """Return the kinds that the rows show."""
    found: set[str] = {row.most.kind for row in rows}
    found |= {"estimate" for row in rows if row.estimate is not None}
    return found | {"audit" for row in rows if row.beaten}


def _values(row: SandwichRow) -> list[float]:
    return [row.blind] + [
        number.value for number in (row.estimate, row.floor) if number is not None
    ]


def _places(rows: list[SandwichRow]) -> tuple[list[float], list[tuple[str, float]], float]:
    """Return the height of every row, the heads of the groups, and how deep they reach."""
    places: list[float] = []
    heads: list[tuple[str, float]] = []
    y, game = 0.0, None
    for row in rows:
        if row.game != game:
            game = row.game
            y -= 0.12 if not places else 0.3
            heads.append((_GROUPS[game], y - 0.06))
            y -= 0.2
        places.append(y - 0.5)
        y -= 1.0
    return places, heads, -y + 0.05


def _bands(row: SandwichRow, y: float) -> list[Spec]:
    """Return the band in which the truth lies: closed by a certificate, or open and striped."""
    start = row.blind if row.floor is None else max(row.blind, row.floor.lower)
    upper = None if row.ceiling is None else row.ceiling.upper
    open_ended = vacuous(upper)
    end = 1.0 if open_ended or upper is None else upper
    band: Spec = {
        "type": "bar",
        "orientation": "h",
        "base": [start],
        "x": [max(end - start, 0.0)],
        "y": [y],
        "width": [0.26],
        "hoverinfo": "skip",
    }
    if open_ended:
        look: Spec = {
            "color": "rgba(0,0,0,0)",
            "pattern": {"shape": "/", "fgcolor": "@stripe", "size": 9, "solidity": 0.22},
            "line": {"width": 0},
        }
    else:
        look = {"color": "@certified", "opacity": 0.3, "line": {"width": 0}}
    bars = [band | {"marker": look}]
    if start > row.blind:
        proved = {"base": [row.blind], "x": [start - row.blind]}
        bars.append(band | proved | {"marker": {"color": "@measured", "opacity": 0.85}})
    return bars


def _marks(row: SandwichRow, y: float) -> list[Spec]:
    found: list[Spec] = []

    def mark(x: float, text: str, **marker: object) -> Spec:
        return {
            "type": "scatter",
            "mode": "markers",
            "x": [x],
            "y": [y],
            "text": [plain(f"{row.label}: {text}")],
            "hoverinfo": "text",
            "marker": marker,
            "cliponaxis": False,
        }

    if row.ceiling is not None and not vacuous(row.ceiling.upper):
        upper = row.ceiling.upper
        found.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": [upper, upper],
                "y": [y - 0.2, y + 0.2],
                "hoverinfo": "skip",
                "line": {"color": "@certified", "width": 4},
            }
        )
        # Upside down, a pentagon is a shield.
        shield = {"symbol": "pentagon", "angle": 180, "size": 17, "color": "@certified"}
        edge = {"color": "@card", "width": 1.5}
        found.append(mark(upper, f"certified {row.most}", line=edge, **shield))
    if row.beaten is not None:
        triangle = {"symbol": "triangle-right", "size": 15, "color": "@measured"}
        edge = {"color": "@card", "width": 1}
        found.append(mark(row.beaten.lower, f"measured {row.least}", line=edge, **triangle))
    if row.estimate is not None:
        value = row.estimate.estimate
        ring = {"symbol": "circle", "size": 12, "color": "rgba(0,0,0,0)"}
        edge = {"color": "@estimated", "width": 2.5}
        found.append(mark(value, f"estimate {row.seen}", line=edge, **ring))
    return found


def _numbers(row: SandwichRow) -> str:
    """Return the numbers below a row, each with the sign of its kind."""
    said = []
    if row.beaten:
        said.append(f"{row.least}")
    if row.estimate is not None:
        said.append(f"<i>{row.seen}</i>")
    ceiling = row.most
    said.append(f"<b>{ceiling}</b>" if ceiling.kind == "certificate" else "nothing is proved")
    return "  ·  ".join(said)


def _sandwich_alt(rows: list[SandwichRow], record: str, limit: Mark) -> str:
    parts = []
    for row in rows:
        said = []
        if row.floor is not None:
            said.append(f"measured floor {row.least}" if row.beaten else f"{row.least}")
        if row.estimate is not None:
            said.append(f"estimate {row.seen}")
        ceiling = row.most
        said.append(
            f"certified ceiling {ceiling}"
            if ceiling.kind == "certificate"
            else "no ceiling, nothing is proved"
        )
        parts.append(f"{row.label}: {', '.join(said)}")
    return (
        f"How often anybody is right about the {RECORDS[record]}, from 50 to 100 percent; "
        f"allowed are {limit}. {'. '.join(parts)}."
    )


# ── What each remedy costs: the model's score with it, beside the score as it is ──────────────────

_REMEDY_ROW, _REMEDY_BOTTOM = 58, 52


def remedies_drawing(report: Report) -> Drawing | None:
    """Return the score with each remedy; nothing if none has a score."""
    priced = [(r, r.price) for r in report.remedies if r.price is not None]
    if not priced:
        return None
    name, before = priced[0][1].name, priced[0][1].before
    # A score may be far below zero (R²); the figure ends at -1 and the number is written beside.
    values = [before, *(price.after for _, price in priced)]
    low = max(-1.0, min(0.0, *values))
    high = max(1.0, *values)
    data, texts = [], []
    for place, (remedy, price) in enumerate(priced):
        y = -place
        data.append(_bar(remedy, price, y, max(low, price.after)))
        star = "★ " if remedy.recommended else ""
        label = f"{star}{plain(remedy.label)}"
        texts.append(note(f"<b>{label}</b>" if star else label, low, y + 0.37, font={"size": 13}))
        inside = {"xanchor": "right", "xref": "paper", "font": {"size": 12}}
        texts.append(note(f"<i>{scored(price.after)}</i>", 1, y + 0.37, **inside))
    height = _REMEDY_ROW * len(priced)
    return Drawing(
        id="remedies",
        alt=_remedies_alt(priced, name, before),
        data=data,
        layout=layout(
            height + _REMEDY_BOTTOM + 8,
            xaxis=axis(
                f"{plain(name)} with the remedy, estimate (dashed: as usual)",
                range=[low, high * 1.001],
            ),
            yaxis=axis(range=[-len(priced) + 0.42, 0.58], visible=False),
            shapes=[line_at(before, "@ink", "dash")],
            annotations=texts,
            margin={"l": 12, "r": 16, "t": 8, "b": _REMEDY_BOTTOM},
        ),
        columns=("Remedy", "Certified", f"{name} before", f"{name} after", "Enough"),
        rows=[
            (
                remedy.label,
                marked(remedy.accuracy_upper, "certificate"),
                None if remedy.price is None else scored(remedy.price.before),
                None if remedy.price is None else scored(remedy.price.after),
                "yes" if remedy.enough else "no",
            )
            for remedy in report.remedies
        ],
        legend=(
            Legend("bar", "enough for what was asked", "estimated"),
            Legend("bar", "not enough", "estimated", "/"),
            Legend(
                "line",
                f"score of {report.usual.replace('trained', 'the model trained')}",
                "ink",
                "dash",
            ),
            *([Legend("star", "recommended")] if any(r.recommended for r, _ in priced) else []),
        ),
    )


def _bar(remedy: Remedy, price: Price, y: float, x: float) -> Spec:
    color = "@estimated"  # a score is an estimate, whatever is proved of the remedy
    return {
        "type": "bar",
        "orientation": "h",
        "x": [x],
        "y": [y],
        "width": [0.38],
        "hoverinfo": "text",
        "hovertext": [plain(f"{remedy.label}: {scored(price.after)}")],
        "marker": patterned(color, "" if remedy.enough else "/"),
    }


def _remedies_alt(priced: list[tuple[Remedy, Price]], name: str, before: float) -> str:
    said = [
        f"{r.label} {scored(price.after)}"
        f"{', enough' if r.enough else ', not enough'}"
        f"{', recommended' if r.recommended else ''}"
        for r, price in priced
    ]
    return f"{name} with each remedy; as it is {scored(before)}. {'; '.join(said)}."


# ── Members found against false alarms: measured curves, and lines that no attack can cross ───────

#: False-positive rates of the table.
_RATES = (0.01, 0.05, 0.1, 0.25, 0.5)
_X = "false alarms: non-members called members"
_Y = "members found"


def roc_drawing(report: Report) -> Drawing | None:
    """Return the ROC of every subject, linear and log–log; nothing without a curve."""
    curves = report.roc
    if not curves:
        return None
    # Wide certified lines first: two that coincide stay visible, and measured ones lie above.
    drawn = sorted(curves, key=lambda c: (c.kind != "certificate", c.subject))
    guess = [0.0, *(10 ** (-4 + i / 5) for i in range(20)), 1.0]
    data: list[Spec] = [
        _line(guess, guess, "blind guessing", {"color": "@quiet", "dash": "dot", "width": 1.2})
    ]
    data += [_curve(curve) for curve in drawn]
    low = _lowest(curves)
    base = {"x": axis(_X), "y": axis(_Y)}
    views: dict[str, Spec] = {
        "linear": {
            "xaxis": base["x"] | {"range": [0, 1.005]} | shares(0, 100, 20),
            "yaxis": base["y"] | {"range": [0, 1.005]} | shares(0, 100, 20),
        },
        "log": {
            "xaxis": base["x"] | {"type": "log", "range": [low, 0]} | _decades(low),
            "yaxis": base["y"] | {"type": "log", "range": [low, 0.02]} | _decades(low),
        },
    }
    return Drawing(
        id="roc",
        widths=(600, 340),
        alt=_roc_alt(curves),
        data=data,
        layout=layout(460, margin={"l": 56, "r": 24, "t": 12, "b": 52}) | views["linear"],
        views=views,
        columns=("Curve", *(f"at {percent(rate, 'given')} false alarms" for rate in _RATES)),
        rows=[(curve.label, *(_at(curve, rate) for rate in _RATES)) for curve in curves],
        legend=[_curve_legend(curve) for curve in curves]
        + [Legend("line", "blind guessing", "quiet", "dot")],
    )


def _line(x: Sequence[float], y: Sequence[float], name: str, line: Spec) -> Spec:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": list(x),
        "y": list(y),
        "name": plain(name),
        "line": line,
        "hoverinfo": "name+x+y",
    }


def _curve(curve: RocCurve) -> Spec:
    look = SUBJECTS[curve.subject]
    line: Spec
    if curve.kind == "certificate":
        line = {"color": look.color, "width": look.width}
        found = _line(curve.fpr, curve.tpr, curve.label, line)
        return found | {"opacity": 0.6} if look.width > 3 else found
    line = {"color": look.color, "width": 1.6, "dash": look.dash}
    marker = {"symbol": look.symbol, "size": 8, "color": look.color, "maxdisplayed": 14}
    found = _line(curve.fpr, curve.tpr, curve.label, line)
    return found | {"mode": "lines+markers", "marker": marker}


def _curve_legend(curve: RocCurve) -> Legend:
    look = SUBJECTS[curve.subject]
    color = look.color.removeprefix("@")
    if curve.kind == "certificate":
        return Legend("wall" if look.width > 3 else "line", curve.label, color)
    return Legend("line", curve.label, color, look.dash, look.symbol)


def _lowest(curves: Sequence[RocCurve]) -> float:
    """Return the power of ten at which the logarithmic axes begin: the finest rate measured."""
    seen = [x for curve in curves if curve.kind == "estimate" for x in curve.fpr if x > 0]
    return max(-4.0, min(-1.0, math.floor(math.log10(min(seen))))) if seen else -3.0


def _decades(low: float) -> Spec:
    ticks = [10.0**power for power in range(int(low), 1)]
    return {"tickvals": ticks, "ticktext": [percent(tick, "given") for tick in ticks]}


def _at(curve: RocCurve, rate: float) -> Mark:
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


def _roc_alt(curves: Sequence[RocCurve]) -> str:
    said = [f"{curve.label}: {_at(curve, 0.1)} of the members" for curve in curves]
    return (
        "Share of the members found against the share of non-members falsely called members. "
        f"At 10 percent false alarms: {'; '.join(said)}. Blind guessing finds 10 percent."
    )


# ── What ε means for these records, for three attackers who know ever less ────────────────────────

#: Key of the sweep, colour, symbol, width, and who that attacker is.
ATTACKERS = (
    (
        "worst_case_upper",
        "worst-case",
        "square",
        "worst case: knows everybody drawn but one, any data set whatever",
    ),
    (
        "population_upper",
        "in-population",
        "diamond",
        "in this population: knows everybody drawn but one, all from this table",
    ),
    (
        "practical_upper",
        "practical",
        "circle",
        "practical: knows this table, but not who was drawn",
    ),
)


def sweep_drawing(report: Report) -> Drawing | None:
    """Return the certified success of the three attackers over ε; nothing without a sweep."""
    said = report.translation
    if said is None or said.population is None or not said.population.sweep:
        return None
    people = said.population
    sweep = people.sweep
    limit = allowed_over(people.blind, said.eta)
    allowed = people.blind + said.eta
    epsilons = [point.epsilon for point in sweep]
    data: list[Spec] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "x": epsilons,
            "y": [getattr(point, key) for point in sweep],
            "hoverinfo": "text",
            "hovertext": [
                f"ε = {significant(point.epsilon, 'lower', 4)}, {who.split(':')[0]}: "
                f"{marked(getattr(point, key), 'certificate')}"
                for point in sweep
            ],
            "line": {"color": f"@{color}", "width": 2.5},
            "marker": {"symbol": symbol, "size": 8, "color": f"@{color}"},
        }
        for key, color, symbol, who in ATTACKERS
    ]
    ends = [math.log10(epsilons[0]), math.log10(epsilons[-1])]
    pad = 0.03 * (ends[1] - ends[0]) or 0.1
    ticks = [t for t in _TICKS if epsilons[0] <= t <= epsilons[-1]]
    whose = "example" if report.defaulted("epsilon") else "your"
    small, yours = {"size": 12}, f"{whose} ε = {significant(said.epsilon, 'given')}"
    corner = {"yref": "paper", "xanchor": "right", "yanchor": "top", "xshift": -4}
    return Drawing(
        id="sweep",
        alt=_sweep_alt(said, people),
        data=data,
        layout=layout(
            400,
            xaxis=axis(
                f"ε of the Gaussian mechanism (δ = {significant(said.delta, 'given')})",
                type="log",
                range=[ends[0] - pad, ends[1] + pad],
                tickvals=ticks,
                ticktext=[significant(t, "given") for t in ticks],
            ),
            yaxis=axis(
                "right at most, most exposed record", range=[0.49, 1.01], **shares(50, 100, 10)
            ),
            shapes=[
                line_at(said.epsilon, "@quiet", "dot"),
                line_at(0, "@ink", "dash")
                | {"xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": allowed, "y1": allowed},
            ],
            annotations=[
                note(yours, math.log10(said.epsilon), 1, font=small, **corner),
                note(f"allowed {limit}", 0.01, allowed, xref="paper", yanchor="bottom", font=small),
            ],
            margin={"l": 58, "r": 16, "t": 12, "b": 52},
        ),
        columns=("ε", "Worst case", "In this population", "Practical"),
        rows=[
            (
                significant(point.epsilon, "lower", 4),
                *(marked(getattr(point, key), "certificate") for key, *_ in ATTACKERS),
            )
            for point in sweep
        ],
        legend=[Legend("line", who, color, "", symbol) for _, color, symbol, who in ATTACKERS],
    )


_TICKS = [d * 10.0**power for power in range(-6, 7) for d in (1, 2, 5)]


def _sweep_alt(said: Translation, people: PopulationTranslation) -> str:
    return (
        "Certified success of three attackers over ε. At "
        f"ε = {significant(said.epsilon, 'given')}: worst case "
        f"{marked(people.worst_case_upper, 'certificate')}, in this population "
        f"{marked(people.population_upper, 'certificate')}, practical "
        f"{marked(people.practical_upper, 'certificate')}; allowed "
        f"{allowed_over(people.blind, said.eta)}."
    )


# ── Who is exposed: how often the attack is right about each record ───────────────────────────────

_PANEL, _TOP, _BOTTOM = 160, 40, 52


def exposure_drawing(report: Report) -> Drawing | None:
    """Return one histogram below the other, on one axis; nothing without an audit."""
    shown = report.exposure
    if not shown:
        return None
    blind = shown[0].records.blind_accuracy
    eta = report.question.eta
    allowed, limit = blind + eta, allowed_over(blind, eta)
    edges = shown[0].histogram.edges
    first = min(_first_filled(item.histogram) for item in shown)
    left = edges[max(0, first - 1)]
    height = _PANEL * len(shown)
    data: list[Spec] = []
    texts: list[Spec] = []
    axes: Spec = {}
    for number, item in enumerate(shown):
        name = "" if number == 0 else str(number + 1)
        top = 1 - number / len(shown)
        tallest = max(1, *item.histogram.counts)
        axes[f"yaxis{name}"] = axis(
            domain=[top - 0.82 / len(shown), top - 0.16 / len(shown)],
            range=[0, 1.25 * tallest],
            nticks=4,
            rangemode="tozero",
        )
        data += _bars(item, f"y{name}", allowed)
        place = {"xref": "paper", "yref": "paper", "yanchor": "top"}
        texts.append(note(plain(item.label), 0, top, font={"size": 14}, **place))
    head = {"yref": "paper", "yanchor": "bottom", "font": {"size": 12}}
    texts += [
        note(f"blind {blind_guess(blind)}", blind, 1 + 4 / height, **head | {"xanchor": "right"}),
        note(f"allowed {limit}", allowed, 1 + 4 / height, **head),
    ]
    texts[-2]["xshift"], texts[-1]["xshift"] = -4, 4
    return Drawing(
        id="exposure",
        alt=_exposure_alt(shown, allowed, limit),
        data=data,
        layout=layout(
            height + _TOP + _BOTTOM,
            bargap=0.08,
            xaxis=axis(
                "how often the attack is right (estimate)",
                range=[left, 1.002],
                anchor="free",
                position=0,
                **_ticks_from(left),
            ),
            shapes=[
                line_at(blind, "@quiet", "dot", up=1 + 18 / height),
                line_at(allowed, "@ink", "dash", up=1 + 18 / height),
            ],
            annotations=texts,
            margin={"l": 44, "r": 22, "t": _TOP, "b": _BOTTOM},
            **axes,
        ),
        columns=("Right about a record", *(item.label for item in shown)),
        rows=[
            (
                f"{percent(low, 'given')} to {percent(high, 'given')}",
                *(Mark("estimate", f"≈ {item.histogram.counts[i]}") for item in shown),
            )
            for i, (low, high) in enumerate(pairwise(edges))
            if any(item.histogram.counts[i] for item in shown)
        ],
        legend=[
            Legend("bar", item.label, _look(item).color.removeprefix("@"), _look(item).pattern)
            for item in shown
        ]
        + [Legend("line", "what chance alone would show, roughly", "quiet", "dot")],
    )


def _look(item: Exposure) -> Look:
    return SUBJECTS[item.subject]


def _ticks_from(left: float) -> Spec:
    """Return ticks that a phone has room for."""
    step = 10 if left >= 0.4 else 20
    return shares(step * -int(-100 * left // step), 100, step)


def _first_filled(histogram: Histogram) -> int:
    """Return the first bin that holds a record, or the middle."""
    filled = [i for i, count in enumerate(histogram.counts) if count]
    return filled[0] if filled else len(histogram.counts) // 2


def _bars(item: Exposure, axis_name: str, allowed: float) -> list[Spec]:
    histogram, look = item.histogram, _look(item)
    edges = np.array(histogram.edges)
    middles = ((edges[1:] + edges[:-1]) / 2).tolist()
    said = [
        f"{percent(low, 'given')} to {percent(high, 'given')}: {count} records"
        for low, high, count in histogram.bars
    ]
    return [
        {
            "type": "bar",
            "x": middles,
            "y": list(histogram.counts),
            "yaxis": axis_name,
            # The few on the right are what matters, and bars of one record are hard to see.
            "text": [
                str(count) if count and low >= allowed - 1e-9 else ""
                for low, _, count in histogram.bars
            ],
            "textposition": "outside",
            "textangle": 0,
            "textfont": {"size": 10, "color": "@ink"},
            "cliponaxis": False,
            "constraintext": "none",
            "hovertext": said,
            "hoverinfo": "text",
            "marker": patterned(look.color, look.pattern),
        },
        {
            "type": "scatter",
            "mode": "lines",
            "x": middles,
            "y": _by_chance(item, edges, sum(histogram.counts)),
            "yaxis": axis_name,
            "hoverinfo": "skip",
            "line": {"color": "@quiet", "dash": "dot", "width": 1.8, "shape": "hvh"},
        },
    ]


def _by_chance(item: Exposure, edges: NDArray[np.float64], records: int) -> list[float]:
    """Return how the records would spread if every answer were a blind guess."""
    from scipy.stats import binom

    tries = item.records.targets
    right = np.arange(tries + 1)
    weight = binom.pmf(right, tries, item.records.blind_accuracy)
    found, _ = np.histogram(right / tries, bins=edges, weights=weight)
    return [round(float(value), 3) for value in records * found]


def _exposure_alt(shown: Sequence[Exposure], allowed: float, limit: Mark) -> str:
    said = []
    for item in shown:
        over = sum(count for low, _, count in item.histogram.bars if low >= allowed - 1e-9)
        records = sum(item.histogram.counts)
        said.append(
            f"{item.label}: {over} of {records} records in the bars above {limit}; "
            f"{item.records.exposed_records} proved to be exposed"
        )
    return f"How many records are guessed how well, one histogram for each. {'. '.join(said)}."
