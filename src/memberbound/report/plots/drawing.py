"""What a figure consists of, and what all figures share.

Colours are names with an ``@`` in front: the page's script puts in the colour of the light or the
dark scheme.  Texts of the report are escaped for Plotly, which reads some tags in a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from memberbound.quantities import Mark

__all__ = [
    "SUBJECTS",
    "Drawing",
    "Legend",
    "Look",
    "axis",
    "layout",
    "line_at",
    "note",
    "plain",
    "shares",
]

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
    """A figure: what Plotly draws, what it says in words, and its numbers as a table.

    ``views`` are other axes for the same data, by name; the first is shown at first.  One with a
    true ``positive`` leaves out points at 0, which a logarithmic axis cannot show.
    """

    id: str
    alt: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    legend: Sequence[Legend] = ()
    views: dict[str, dict[str, Any]] = field(default_factory=dict)
    title: str = ""

    def spec(self) -> dict[str, Any]:
        """Return what the page's script needs."""
        return {"data": self.data, "layout": self.layout, "views": self.views}


def plain(text: str) -> str:
    """Return a text that Plotly shows as it is, whatever it holds; a long one is cut."""
    return escape(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…", quote=False)


def axis(title: str = "", **fields: Any) -> dict[str, Any]:
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


def shares(first: int, last: int, step: int) -> dict[str, Any]:
    """Return ticks in percent, the ends included.

    >>> shares(50, 100, 25)["ticktext"]
    ['50 %', '75 %', '100 %']
    """
    ticks = range(first, last + 1, step)
    return {"tickvals": [t / 100 for t in ticks], "ticktext": [f"{t} %" for t in ticks]}


def layout(height: int, **fields: Any) -> dict[str, Any]:
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


def note(text: str, x: float, y: float, **fields: Any) -> dict[str, Any]:
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


def line_at(x: float, color: str, dash: str, *, up: float = 1.0, **fields: Any) -> dict[str, Any]:
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
