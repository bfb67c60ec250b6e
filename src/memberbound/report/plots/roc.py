"""Members found against false alarms: measured curves, and lines that no attack can cross."""

from __future__ import annotations

import math
from typing import Any

from memberbound.quantities import Mark, marked, percent
from memberbound.report.plots.drawing import SUBJECTS, Drawing, Legend, axis, layout, plain, shares

__all__ = ["roc_drawing"]

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
