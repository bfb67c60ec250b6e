"""The sandwich: certified ceiling, estimate and audited floor on one axis."""

from __future__ import annotations

from typing import Any

from memberbound.quantities import Mark, vacuous
from memberbound.report.marks import (
    allowed_over,
    blind_guess,
    ceiling_of,
    estimate_of,
    floor_of,
)
from memberbound.report.plots.drawing import (
    Drawing,
    Legend,
    axis,
    layout,
    line_at,
    note,
    plain,
    shares,
)

__all__ = ["sandwich_drawing"]

#: Height of a row and of the words before a group, in pixels; a row is one unit of the axis.
_ROW, _TOP, _BOTTOM = 86, 52, 56
_GROUPS = {
    "subset": "This learner, on half of these records",
    "iid": "Another game: any model on such a table",
}


def sandwich_drawing(report: dict[str, Any], record: str) -> Drawing | None:
    """Return the sandwich of the average or of the worst record; nothing without a row."""
    rows = [row for row in report["sandwich"] if row["record"] == record]
    if not rows:
        return None
    blind, eta = max(row["blind"] for row in rows), report["question"]["eta"]
    allowed, limit = blind + eta, allowed_over(blind, eta)
    places, heads, depth = _places(rows)
    values = [v for row in rows for v in _values(row)]
    low, height = min(0.5, *values), int(depth * _ROW)
    marks: list[dict[str, Any]] = []
    texts = [
        note(f"<b>{plain(text)}</b>", low, y, font={"size": 12, "color": "@quiet"})
        for text, y in heads
    ]
    data: list[dict[str, Any]] = []
    for row, y in zip(rows, places, strict=True):
        data += _bars(row, y)
        marks += _marks(row, y)
        texts.append(note(plain(row["label"]), low, y + 0.34, font={"size": 14}))
        texts.append(note(_numbers(row), low, y - 0.33, font={"size": 12}))
    whole = height + _TOP + _BOTTOM
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
        title=f"The {record} record",
        alt=_alt(rows, record, limit),
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
            margin={"l": 8, "r": 22, "t": _TOP, "b": _BOTTOM},
        ),
        columns=("Subject", "Floor, measured", "Estimate", "Ceiling, certified", "Blind guess"),
        rows=[
            (
                f"{row['label']}",
                floor_of(row),
                estimate_of(row),
                ceiling_of(row),
                blind_guess(row["blind"]),
            )
            for row in rows
        ],
        legend=[item for item in _LEGEND if item.kind in _kinds(rows)],
    )


_LEGEND = (
    Legend("certificate", "≤ certified ceiling: proved, nobody is right more often"),
    Legend("estimate", "≈ estimate: what the best attack tried reached; no bound"),
    Legend("audit", "≥ measured floor: an attack is right at least this often"),
    Legend("unproved", "striped: nothing is proved here"),
)


def _kinds(rows: list[dict[str, Any]]) -> set[str]:
    """Return the kinds that the rows show."""
    found = {ceiling_of(row).kind for row in rows}
    found |= {"estimate" for row in rows if row["estimate"] is not None}
    return {str(kind) for kind in found} | {"audit" for row in rows if _beaten(row)}


def _beaten(row: dict[str, Any]) -> bool:
    """Tell whether an attack was proved to do better than blind guessing."""
    floor = floor_of(row)
    return floor is not None and floor.kind == "audit"


def _values(row: dict[str, Any]) -> list[float]:
    found = [row["blind"]]
    found += [] if row["estimate"] is None else [row["estimate"]["estimate"]]
    return found + ([] if row["floor"] is None else [row["floor"]["lower"]])


def _places(rows: list[dict[str, Any]]) -> tuple[list[float], list[tuple[str, float]], float]:
    """Return the height of every row, the heads of the groups, and how deep they reach."""
    places: list[float] = []
    heads: list[tuple[str, float]] = []
    y, game = 0.0, None
    for row in rows:
        if row["game"] != game:
            game = row["game"]
            y -= 0.12 if not places else 0.3
            heads.append((_GROUPS[game], y - 0.06))
            y -= 0.2
        places.append(y - 0.5)
        y -= 1.0
    return places, heads, -y + 0.05


def _bars(row: dict[str, Any], y: float) -> list[dict[str, Any]]:
    """Return the band in which the truth lies: closed by a certificate, or open and striped."""
    start = row["blind"] if row["floor"] is None else max(row["blind"], row["floor"]["lower"])
    upper = None if row["ceiling"] is None else row["ceiling"]["upper"]
    open_ended = vacuous(upper)
    end = 1.0 if open_ended or upper is None else upper
    band: dict[str, Any] = {
        "type": "bar",
        "orientation": "h",
        "base": [start],
        "x": [max(end - start, 0.0)],
        "y": [y],
        "width": [0.26],
        "hoverinfo": "skip",
    }
    if open_ended:
        look: dict[str, Any] = {
            "color": "rgba(0,0,0,0)",
            "pattern": {"shape": "/", "fgcolor": "@stripe", "size": 9, "solidity": 0.22},
            "line": {"width": 0},
        }
    else:
        look = {"color": "@certified", "opacity": 0.3, "line": {"width": 0}}
    bars = [band | {"marker": look}]
    if start > row["blind"]:
        proved = {"base": [row["blind"]], "x": [start - row["blind"]]}
        bars.append(band | proved | {"marker": {"color": "@measured", "opacity": 0.85}})
    return bars


def _marks(row: dict[str, Any], y: float) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def mark(x: float, text: str, **marker: Any) -> dict[str, Any]:
        return {
            "type": "scatter",
            "mode": "markers",
            "x": [x],
            "y": [y],
            "text": [plain(f"{row['label']}: {text}")],
            "hoverinfo": "text",
            "marker": marker,
            "cliponaxis": False,
        }

    if row["ceiling"] is not None and not vacuous(row["ceiling"]["upper"]):
        upper = row["ceiling"]["upper"]
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
        found.append(mark(upper, f"certified {ceiling_of(row)}", line=edge, **shield))
    if _beaten(row):
        triangle = {"symbol": "triangle-right", "size": 15, "color": "@measured"}
        edge, lower = {"color": "@card", "width": 1}, row["floor"]["lower"]
        found.append(mark(lower, f"measured {floor_of(row)}", line=edge, **triangle))
    if row["estimate"] is not None:
        value = row["estimate"]["estimate"]
        ring = {"symbol": "circle", "size": 12, "color": "rgba(0,0,0,0)"}
        edge = {"color": "@estimated", "width": 2.5}
        found.append(mark(value, f"estimate {estimate_of(row)}", line=edge, **ring))
    return found


def _numbers(row: dict[str, Any]) -> str:
    """Return the numbers below a row, each with the sign of its kind."""
    said = []
    if _beaten(row):
        said.append(f"{floor_of(row)}")
    if row["estimate"] is not None:
        said.append(f"<i>{estimate_of(row)}</i>")
    ceiling = ceiling_of(row)
    said.append(f"<b>{ceiling}</b>" if ceiling.kind == "certificate" else "nothing is proved")
    return "  ·  ".join(said)


def _alt(rows: list[dict[str, Any]], record: str, limit: Mark) -> str:
    parts = []
    for row in rows:
        said = []
        if row["floor"] is not None:
            said.append(f"measured floor {floor_of(row)}" if _beaten(row) else f"{floor_of(row)}")
        if row["estimate"] is not None:
            said.append(f"estimate {estimate_of(row)}")
        ceiling = ceiling_of(row)
        said.append(
            f"certified ceiling {ceiling}"
            if ceiling.kind == "certificate"
            else "no ceiling, nothing is proved"
        )
        parts.append(f"{row['label']}: {', '.join(said)}")
    return (
        f"How often anybody is right about the {record} record, from 50 to 100 percent; "
        f"allowed are {limit}. {'. '.join(parts)}."
    )
