"""Who is exposed: how often the attack is right about each record, as it is and protected."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from memberbound.quantities import Mark, percent
from memberbound.report.marks import allowed_over, blind_guess
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

__all__ = ["exposure_drawing"]

_PANEL, _TOP, _BOTTOM = 160, 40, 52


def exposure_drawing(report: dict[str, Any]) -> Drawing | None:
    """Return one histogram below the other, on one axis; nothing without an audit."""
    shown = report["exposure"]
    if not shown:
        return None
    blind = shown[0]["records"]["blind_accuracy"]
    eta = report["question"]["eta"]
    allowed, limit = blind + eta, allowed_over(blind, eta)
    edges = shown[0]["histogram"]["edges"]
    first = min(_first(item["histogram"]) for item in shown)
    left = edges[max(0, first - 1)]
    height = _PANEL * len(shown)
    data: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    axes: dict[str, Any] = {}
    for place, item in enumerate(shown):
        name = "" if place == 0 else str(place + 1)
        top = 1 - place / len(shown)
        tallest = max(1, *item["histogram"]["counts"])
        axes[f"yaxis{name}"] = axis(
            domain=[top - 0.82 / len(shown), top - 0.16 / len(shown)],
            range=[0, 1.25 * tallest],
            nticks=4,
            rangemode="tozero",
        )
        data += _bars(item, f"y{name}", allowed)
        texts.append(
            note(
                plain(item["label"]),
                0,
                top,
                xref="paper",
                yref="paper",
                yanchor="top",
                font={"size": 14},
            )
        )
    head = {"yref": "paper", "yanchor": "bottom", "font": {"size": 12}}
    texts += [
        note(f"blind {blind_guess(blind)}", blind, 1 + 4 / height, **head | {"xanchor": "right"}),
        note(f"allowed {limit}", allowed, 1 + 4 / height, **head),
    ]
    texts[-2]["xshift"], texts[-1]["xshift"] = -4, 4
    return Drawing(
        id="exposure",
        alt=_alt(shown, allowed, limit),
        data=data,
        layout=layout(
            height + _TOP + _BOTTOM,
            bargap=0.08,
            xaxis=axis(
                "how often the attack is right (estimate)",
                range=[left, 1.002],
                anchor="free",
                position=0,
                **_ticks(left),
            ),
            shapes=[
                line_at(blind, "@quiet", "dot", up=1 + 18 / height),
                line_at(allowed, "@ink", "dash", up=1 + 18 / height),
            ],
            annotations=texts,
            margin={"l": 44, "r": 22, "t": _TOP, "b": _BOTTOM},
            **axes,
        ),
        columns=("Right about a record", *(item["label"] for item in shown)),
        rows=[
            (
                f"{percent(low, 'given')} to {percent(high, 'given')}",
                *(Mark("estimate", f"≈ {item['histogram']['counts'][i]}") for item in shown),
            )
            for i, (low, high) in enumerate(pairwise(edges))
            if any(item["histogram"]["counts"][i] for item in shown)
        ],
        legend=[
            Legend("bar", item["label"], _look(item).color.removeprefix("@"), _look(item).pattern)
            for item in shown
        ]
        + [Legend("line", "what chance alone would show, roughly", "quiet", "dot")],
    )


def _look(item: dict[str, Any]) -> Any:
    return SUBJECTS[item["subject"]]


def _ticks(left: float) -> dict[str, Any]:
    """Return ticks that a phone has room for."""
    step = 10 if left >= 0.4 else 20
    return shares(step * -int(-100 * left // step), 100, step)


def _first(histogram: dict[str, Any]) -> int:
    """Return the first bin that holds a record, or the middle."""
    filled = [i for i, count in enumerate(histogram["counts"]) if count]
    return filled[0] if filled else len(histogram["counts"]) // 2


def _bars(item: dict[str, Any], axis_name: str, allowed: float) -> list[dict[str, Any]]:
    histogram, look = item["histogram"], _look(item)
    edges, counts = np.array(histogram["edges"]), histogram["counts"]
    middles = (edges[1:] + edges[:-1]) / 2
    chance = _by_chance(item, edges, sum(counts))
    said = [
        f"{percent(low, 'given')} to {percent(high, 'given')}: {count} records"
        for low, high, count in zip(edges, edges[1:], counts, strict=False)
    ]
    return [
        {
            "type": "bar",
            "x": middles.tolist(),
            "y": counts,
            "yaxis": axis_name,
            # The few on the right are what matters, and bars of one record are hard to see.
            "text": [
                str(count) if count and low >= allowed - 1e-9 else ""
                for low, count in zip(edges, counts, strict=False)
            ],
            "textposition": "outside",
            "textangle": 0,
            "textfont": {"size": 10, "color": "@ink"},
            "cliponaxis": False,
            "constraintext": "none",
            "hovertext": said,
            "hoverinfo": "text",
            "marker": {
                "color": look.color,
                "line": {"color": look.color, "width": 1.5},
                "pattern": {
                    "shape": look.pattern,
                    "fillmode": "replace",
                    "size": 7,
                    "solidity": 0.4,
                    "fgcolor": look.color,
                },
            },
        },
        {
            "type": "scatter",
            "mode": "lines",
            "x": middles.tolist(),
            "y": chance,
            "yaxis": axis_name,
            "hoverinfo": "skip",
            "line": {"color": "@quiet", "dash": "dot", "width": 1.8, "shape": "hvh"},
        },
    ]


def _by_chance(item: dict[str, Any], edges: Any, records: int) -> list[float]:
    """Return how the records would spread if every answer were a blind guess."""
    from scipy.stats import binom

    tries = item["records"]["targets"]
    right = np.arange(tries + 1)
    weight = binom.pmf(right, tries, item["records"]["blind_accuracy"])
    found, _ = np.histogram(right / tries, bins=edges, weights=weight)
    return [round(float(value), 3) for value in records * found]


def _alt(shown: list[dict[str, Any]], allowed: float, limit: Mark) -> str:
    said = []
    for item in shown:
        edges, counts = item["histogram"]["edges"], item["histogram"]["counts"]
        over = sum(c for low, c in zip(edges, counts, strict=False) if low >= allowed - 1e-9)
        said.append(
            f"{item['label']}: {over} of {sum(counts)} records in the bars above {limit}; "
            f"{item['records']['exposed_records']} proved to be exposed"
        )
    return f"How many records are guessed how well, one histogram for each. {'. '.join(said)}."
