"""Drawings of curves: the ROC, and success over ε."""

from __future__ import annotations

import math
from typing import Any

from memberbound.quantities import Mark, marked, percent, significant
from memberbound.report.marks import allowed_over
from memberbound.report.plots.drawing import (
    SUBJECTS,
    Drawing,
    Legend,
    axis,
    layout,
    line_at,
    note,
    plain,
    shares,
)

__all__ = [
    "ATTACKERS",
    "roc_drawing",
    "sweep_drawing",
]

# ── Members found against false alarms: measured curves, and lines that no attack can cross ───────

#: False-positive rates of the table.
_RATES = (0.01, 0.05, 0.1, 0.25, 0.5)
_X = "false alarms: outsiders called members"
_Y = "members found"


def roc_drawing(report: dict[str, Any]) -> Drawing | None:
    """Return the ROC of every subject, linear and log–log; nothing without a curve."""
    curves = report["roc"]
    if not curves:
        return None
    # Wide certified lines first: two that coincide stay visible, and measured ones lie above.
    drawn = sorted(curves, key=lambda c: (c["kind"] != "certificate", c["subject"]))
    guess = [0.0, *(10 ** (-4 + i / 5) for i in range(20)), 1.0]
    data: list[dict[str, Any]] = [
        _line(guess, guess, "blind guessing", {"color": "@quiet", "dash": "dot", "width": 1.2})
    ]
    data += [_curve(curve) for curve in drawn]
    low = _lowest(curves)
    base = {"x": axis(_X), "y": axis(_Y)}
    views: dict[str, dict[str, Any]] = {
        "linear": {
            "xaxis": base["x"] | {"range": [0, 1.005]} | shares(0, 100, 20),
            "yaxis": base["y"] | {"range": [0, 1.005]} | shares(0, 100, 20),
        },
        "log": {
            "xaxis": base["x"] | {"type": "log", "range": [low, 0]} | _decades(low),
            "yaxis": base["y"] | {"type": "log", "range": [low, 0.02]} | _decades(low),
            "positive": True,
        },
    }
    return Drawing(
        id="roc",
        alt=_alt(curves),
        data=data,
        layout=layout(460, margin={"l": 56, "r": 24, "t": 12, "b": 52}) | views["linear"],
        views=views,
        columns=("Curve", *(f"at {percent(rate, 'given')} false alarms" for rate in _RATES)),
        rows=[(curve["label"], *(_at(curve, rate) for rate in _RATES)) for curve in curves],
        legend=[_legend(curve) for curve in curves]
        + [Legend("line", "blind guessing", "quiet", "dot")],
    )


def _line(x: list[float], y: list[float], name: str, line: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "name": plain(name),
        "line": line,
        "hoverinfo": "name+x+y",
    }


def _curve(curve: dict[str, Any]) -> dict[str, Any]:
    look = SUBJECTS[curve["subject"]]
    if curve["kind"] == "certificate":
        line = {"color": look.color, "width": look.width}
        found = _line(curve["fpr"], curve["tpr"], curve["label"], line)
        return found | {"opacity": 0.6} if look.width > 3 else found
    line = {"color": look.color, "width": 1.6, "dash": look.dash}
    marker = {"symbol": look.symbol, "size": 8, "color": look.color, "maxdisplayed": 14}
    found = _line(curve["fpr"], curve["tpr"], curve["label"], line)
    return found | {"mode": "lines+markers", "marker": marker}


def _legend(curve: dict[str, Any]) -> Legend:
    look = SUBJECTS[curve["subject"]]
    color = look.color.removeprefix("@")
    if curve["kind"] == "certificate":
        return Legend("wall" if look.width > 3 else "line", curve["label"], color)
    return Legend("line", curve["label"], color, look.dash, look.symbol)


def _lowest(curves: list[dict[str, Any]]) -> float:
    """Return the power of ten at which the logarithmic axes begin: the finest rate measured."""
    seen = [x for curve in curves if curve["kind"] == "estimate" for x in curve["fpr"] if x > 0]
    return float(max(-4.0, math.floor(math.log10(min(seen))))) if seen else -3.0


def _decades(low: float) -> dict[str, Any]:
    ticks = [10.0**power for power in range(int(low), 1)]
    return {"tickvals": ticks, "ticktext": [percent(tick, "given") for tick in ticks]}


def _at(curve: dict[str, Any], rate: float) -> Mark:
    """Return the members found at a rate of false alarms.

    Estimates are interpolated.  A ceiling is read at the next point to the right, since it rises:
    between two points a straight line may lie below it.
    """
    import numpy as np

    if curve["kind"] == "estimate":
        return marked(float(np.interp(rate, curve["fpr"], curve["tpr"])), "estimate")
    right = int(np.searchsorted(curve["fpr"], rate * (1 - 1e-12)))
    value = curve["tpr"][right] if right < len(curve["tpr"]) else 1.0
    # A ceiling of 1 over 10 % false alarms is still a bound, only an empty one.
    return marked(min(1.0, float(value)), "certificate")


def _alt(curves: list[dict[str, Any]]) -> str:
    said = [f"{curve['label']}: {_at(curve, 0.1)} of the members" for curve in curves]
    return (
        "Share of the members found against the share of outsiders falsely called members. "
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


def sweep_drawing(report: dict[str, Any]) -> Drawing | None:
    """Return the certified success of the three attackers over ε; nothing without a sweep."""
    said = report["translation"]
    if said is None or said["population"] is None or not said["population"]["sweep"]:
        return None
    people = said["population"]
    sweep = people["sweep"]
    limit = allowed_over(people["blind"], said["eta"])
    allowed = people["blind"] + said["eta"]
    epsilons = [point["epsilon"] for point in sweep]
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "x": epsilons,
            "y": [point[key] for point in sweep],
            "hoverinfo": "text",
            "hovertext": [
                f"ε = {significant(point['epsilon'], 'lower', 4)}, {who.split(':')[0]}: "
                f"{marked(point[key], 'certificate')}"
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
    return Drawing(
        id="sweep",
        alt=_sweep_alt(said),
        data=data,
        layout=layout(
            400,
            xaxis=axis(
                f"ε of the release (δ = {significant(said['delta'], 'given')})",
                type="log",
                range=[ends[0] - pad, ends[1] + pad],
                tickvals=ticks,
                ticktext=[significant(t, "given") for t in ticks],
            ),
            yaxis=axis("right at most, worst record", range=[0.49, 1.01], **shares(50, 100, 10)),
            shapes=[
                line_at(said["epsilon"], "@quiet", "dot"),
                line_at(0, "@ink", "dash")
                | {"xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": allowed, "y1": allowed},
            ],
            annotations=[
                note(
                    f"your ε = {significant(said['epsilon'], 'given')}",
                    math.log10(said["epsilon"]),
                    1,
                    yref="paper",
                    xanchor="right",
                    yanchor="top",
                    xshift=-4,
                    font={"size": 12},
                ),
                note(
                    f"allowed {limit}",
                    0.01,
                    allowed,
                    xref="paper",
                    yanchor="bottom",
                    font={"size": 12},
                ),
            ],
            margin={"l": 58, "r": 16, "t": 12, "b": 52},
        ),
        columns=("ε", "Worst case", "In this population", "Practical"),
        rows=[
            (
                significant(point["epsilon"], "lower", 4),
                *(marked(point[key], "certificate") for key, *_ in ATTACKERS),
            )
            for point in sweep
        ],
        legend=[Legend("line", who, color, "", symbol) for _, color, symbol, who in ATTACKERS],
    )


_TICKS = [d * 10.0**power for power in range(-6, 7) for d in (1, 2, 5)]


def _sweep_alt(said: dict[str, Any]) -> str:
    people = said["population"]
    return (
        "Certified success of three attackers over ε. At "
        f"ε = {significant(said['epsilon'], 'given')}: worst case "
        f"{marked(people['worst_case_upper'], 'certificate')}, in this population "
        f"{marked(people['population_upper'], 'certificate')}, practical "
        f"{marked(people['practical_upper'], 'certificate')}; allowed "
        f"{allowed_over(people['blind'], said['eta'])}."
    )
