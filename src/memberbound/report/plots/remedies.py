"""What each remedy costs: the model's score with it, beside the score as it is."""

from __future__ import annotations

from typing import Any

from memberbound.quantities import Mark, marked
from memberbound.report.marks import score
from memberbound.report.plots.drawing import Drawing, Legend, axis, layout, note, plain

__all__ = ["remedies_drawing"]

_ROW, _BOTTOM = 58, 52


def remedies_drawing(report: dict[str, Any]) -> Drawing | None:
    """Return the score with each remedy; nothing if none has a score."""
    listed = report["remedies"]
    priced = [r for r in listed if r["score_after_estimate"] is not None]
    if not priced:
        return None
    name = priced[0]["score_name"]
    before = priced[0]["score_before_estimate"]
    # A score may be far below zero (R²); the figure ends at -1 and the number is written beside.
    values = [before, *(r["score_after_estimate"] for r in priced)]
    low = max(-1.0, min(0.0, *values))
    high = max(1.0, *values)
    data, texts = [], []
    for place, remedy in enumerate(priced):
        y = -place
        after = remedy["score_after_estimate"]
        data.append(_bar(remedy, y, max(low, after)))
        star = "★ " if remedy["recommended"] else ""
        label = f"{star}{plain(remedy['label'])}"
        texts.append(note(f"<b>{label}</b>" if star else label, low, y + 0.37, font={"size": 13}))
        inside = {"xanchor": "right", "xref": "paper", "font": {"size": 12}}
        texts.append(note(f"<i>{score(after)}</i>", 1, y + 0.37, **inside))
    height = _ROW * len(priced)
    shapes = [
        {
            "type": "line",
            "x0": before,
            "x1": before,
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "line": {"color": "@ink", "dash": "dash", "width": 1.5},
        }
    ]
    return Drawing(
        id="remedies",
        alt=_alt(priced, name, before),
        data=data,
        layout=layout(
            height + _BOTTOM + 8,
            xaxis=axis(
                f"{plain(name)} with the remedy, estimate (dashed: as it is)",
                range=[low, high * 1.001],
            ),
            yaxis=axis(range=[-len(priced) + 0.42, 0.58], visible=False),
            shapes=shapes,
            annotations=texts,
            margin={"l": 12, "r": 16, "t": 8, "b": _BOTTOM},
        ),
        columns=("Remedy", "Certified", f"{name} before", f"{name} after", "Enough"),
        rows=[
            (
                remedy["label"],
                marked(remedy["accuracy_upper"], "certificate"),
                _scored(remedy["score_before_estimate"]),
                _scored(remedy["score_after_estimate"]),
                "yes" if remedy["enough"] else "no",
            )
            for remedy in listed
        ],
        legend=(
            Legend("bar", "enough for what was asked", "certified"),
            Legend("bar", "not enough", "quiet", "/"),
            Legend("line", "score as it is", "ink", "dash"),
            *([Legend("star", "recommended")] if any(r["recommended"] for r in priced) else []),
        ),
    )


def _scored(value: float | None) -> Mark | None:
    return None if value is None else score(value)


def _bar(remedy: dict[str, Any], y: float, x: float) -> dict[str, Any]:
    color = "@certified" if remedy["enough"] else "@quiet"
    return {
        "type": "bar",
        "orientation": "h",
        "x": [x],
        "y": [y],
        "width": [0.38],
        "hoverinfo": "text",
        "hovertext": [plain(f"{remedy['label']}: {score(remedy['score_after_estimate'])}")],
        "marker": {
            "color": color,
            "line": {"color": color, "width": 1.5},
            "pattern": {
                "shape": "" if remedy["enough"] else "/",
                "fillmode": "replace",
                "size": 8,
                "solidity": 0.3,
                "fgcolor": color,
            },
        },
    }


def _alt(priced: list[dict[str, Any]], name: str, before: float) -> str:
    said = [
        f"{r['label']} {score(r['score_after_estimate'])}"
        f"{', enough' if r['enough'] else ', not enough'}"
        f"{', recommended' if r['recommended'] else ''}"
        for r in priced
    ]
    return f"{name} with each remedy; as it is {score(before)}. {'; '.join(said)}."
