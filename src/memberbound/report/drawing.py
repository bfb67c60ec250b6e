"""Charts drawn by matplotlib, shown as SVG in a page or written as SVG, PNG or PDF.

Colours use the names of the report's style sheet: in a page an SVG follows the page's light or dark
scheme, and a separate file contains both.  Texts stay texts.  Drawing uses no pyplot and holds a
lock, because matplotlib's settings are global to the process.
"""

from __future__ import annotations

import io
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from html import escape, unescape
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from memberbound.errors import InputError
from memberbound.files import write_atomically
from memberbound.quantities import Mark
from memberbound.report import template_text

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

PLOT_FORMATS = (".png", ".svg", ".pdf")
#: From the Okabe–Ito palette, for the figures of the papers.
BLUE, ORANGE, GREY, GREEN = "#0072B2", "#D55E00", "#555555", "#009E73"

Cell = str | Mark | None
ChartView = Literal["", "linear", "log", "both"]
#: Handle and text of each line of a legend.
Legend = Sequence[tuple["Artist", str]]
#: Offset of a dashed line, and the lengths of its dashes and gaps.
Dash = tuple[float, tuple[float, ...]]


class TextLook(TypedDict, total=False):
    """The style of a text, as matplotlib keywords."""

    color: str
    fontsize: float
    fontweight: str
    ha: Literal["left", "center", "right"]
    va: Literal["bottom", "baseline", "center", "top"]


class LineLook(TypedDict, total=False):
    """The style of a line and its markers, as matplotlib keywords."""

    color: str
    ls: str | Dash
    lw: float
    marker: str
    ms: float
    mec: str
    mew: float
    mfc: str


class BarLook(TypedDict, total=False):
    """The style of a bar, as matplotlib keywords."""

    alpha: float
    ec: str
    fc: str
    hatch: str
    lw: float


#: Width in pixels, for pages (where it is stretched slightly) and phones.
_WIDTH, _FILE_WIDTH = 440, 640
TEXT, SMALL = 13.0, 12.0
#: Width of an average character in units of its size.
_CHARACTER = 0.54
DOTTED: Dash = (0, (1, 2))
DASHED: Dash = (0, (5, 2.5))
DASH_DOT: Dash = (0, (5, 2, 1, 2))
LONG_DASH: Dash = (0, (9, 3))

# ── A chart and its files ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Chart:
    """A picture with a description in words and its numbers as a table.

    ``draw`` takes a width in pixels and a view: other axes for the same data, the first by default.
    """

    id: str
    title: str
    alt: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    draw: Callable[[float, ChartView], Figure]
    views: tuple[ChartView, ...] = ("",)

    def figure(self, width: float = _WIDTH, view: ChartView | None = None) -> Figure:
        """Return the matplotlib figure."""
        with _settings():
            return self.draw(width, self.views[0] if view is None else view)

    def svg(self, view: ChartView | None = None, *, alone: bool = False) -> str:
        """Return an ``svg`` element: for a page with the report's style sheet, or ``alone``."""
        shown = self.views[0] if view is None else view
        name = "-".join(filter(None, (self.id, shown)))
        return _svg(self.figure(view=shown), name, self.title, self.alt, alone=alone)

    def to_dict(self, view: ChartView | None = None) -> dict[str, object]:
        """Return the SVG, the description and the numbers, for a web page."""
        return {
            "title": self.title,
            "alt": self.alt,
            "svg": self.svg(view, alone=True),
            "columns": list(self.columns),
            "rows": [["–" if cell is None else str(cell) for cell in row] for row in self.rows],
        }

    def save(self, path: str | Path) -> Path:
        """Write PNG, SVG or PDF, with all views side by side."""
        both = len(self.views) > 1
        figure = self.figure(2 * _WIDTH if both else _FILE_WIDTH, "both" if both else None)
        title = cut_text(self.title, 72 * figure.get_figwidth() - 16)
        figure.set_figheight(figure.get_figheight() + 0.3)
        figure.suptitle(title, fontsize=TEXT, color=colour("ink"))
        return save_figure(figure, path, title=self.title, caption=self.alt)


def check_target(path: str | Path) -> Path:
    """Return the path of a plot, or raise before any work is done if it cannot be written."""
    target = Path(path)
    if target.suffix.lower() not in PLOT_FORMATS:
        raise InputError(
            f"plot must be a file ending in {', '.join(PLOT_FORMATS)}, got {str(path)!r}."
        )
    if not target.parent.is_dir():
        raise InputError(f"plot must be in an existing folder, got {str(path)!r}.")
    if target.is_dir():
        raise InputError(f"plot must be a file, got the folder {str(path)!r}.")
    return target


def save_figure(figure: Figure, path: str | Path, *, title: str, caption: str) -> Path:
    """Write a figure as PNG, SVG or PDF; an SVG holds its title and caption.

    The file appears complete or not at all, and equal figures give equal files.
    """
    target = check_target(path)
    kind = target.suffix.lower()

    def write_draft(draft: Path) -> None:
        if kind in (".png", ".pdf"):
            about = {"Title": title} | ({"CreationDate": None} if kind == ".pdf" else {})
            with _settings():
                figure.savefig(draft, format=kind[1:], dpi=160, facecolor="white", metadata=about)
            return
        svg = _svg(figure, "chart", title, caption, alone=True)
        draft.write_text(f'<?xml version="1.0" encoding="utf-8"?>\n{svg}\n', "utf-8")

    write_atomically(target, write_draft, force=True)
    return target


# ── Settings and colours ──────────────────────────────────────────────────────────────────────────

_LOCK = threading.RLock()
_OWN_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "memberbound",
    # Texts from files may contain dollar signs.
    "text.parse_math": False,
    "hatch.linewidth": 1.4,
    "figure.dpi": 72,
}


@contextmanager
def _settings() -> Iterator[None]:
    """Draw with matplotlib's defaults and our settings, independent of the process's."""
    from matplotlib import style

    with _LOCK, warnings.catch_warnings(), style.context(["default", _OWN_SETTINGS]):
        # The reader's fonts draw the text; the font for measuring may lack a character.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


@cache
def palette() -> tuple[dict[str, str], dict[str, str]]:
    """Return the colours of the report's style sheet by their names, light and dark.

    >>> light, dark = palette()
    >>> light["certified"], dark["certified"]
    ('#0067a0', '#6cbdf0')
    """
    light, dark = (
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", part))
        for part in template_text("report.css").split(
            "@media screen and (prefers-color-scheme: dark)"
        )[:2]
    )
    return light, dark


def colour(name: str) -> str:
    """Return a colour of the light scheme, which an SVG replaces by its name."""
    return palette()[0][name]


def _variable(colour: str) -> str:
    """Return the custom property for a colour of the light scheme; other colours stay."""
    name = next((name for name, value in palette()[0].items() if value == colour), None)
    return colour if name is None else f"var(--{name})"


# ── Adapt matplotlib's SVG to a page ──────────────────────────────────────────────────────────────

#: Attributes with lengths, and numbers with too many digits.
_LENGTHS = re.compile(r' (?:d|x|y|width|height|transform|viewBox)="[^"]*"')
_LONG_NUMBER = re.compile(r"-?\d+\.\d\d+")
_FONT = re.compile(r"(?P<style>italic)? ?(?P<weight>\d+|bold)? ?(?P<size>[\d.]+)px")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
#: Styles that a page or the root element sets globally.
_INHERITED = {"font-family", "font-stretch", "font-variant", "stroke-linejoin", "stroke-miterlimit"}
_HALO = "text{paint-order:stroke;stroke:var(--card);stroke-width:6px}"
_FAMILY = 'system-ui,"Segoe UI",Roboto,"Helvetica Neue","Noto Sans",sans-serif'


def _svg(figure: Figure, id: str, title: str, words: str, *, alone: bool) -> str:
    """Return a figure as an ``svg`` element with a name and a description, and no ``style``.

    With ``alone``, the colours of both schemes are included.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    source = io.BytesIO()
    canvas: Any = FigureCanvasSVG(figure)
    with _settings():
        canvas.print_svg(source, metadata={"Date": None})
    drawn = source.getvalue().decode("utf-8")
    drawn = drawn[drawn.index('<g id="figure') : drawn.rindex("</svg>")]
    drawn = re.sub(r' style="([^"]*)"', lambda match: _attributes(unescape(match[1])), drawn)
    # Data marks have a class and may have a tooltip; other groups are named for readers.
    drawn = re.sub(
        r'<g id="(mark-\w+)\|([^"]*)"( [^>]*)?>', r'<g class="\1"\3><title>\2</title>', drawn
    )
    drawn = re.sub(r'<g id="(mark-\w+)"', r'<g class="\1"', drawn)
    drawn = re.sub(r'<g id="[^"]*"', "<g", drawn).replace("xlink:href", "href")
    drawn = re.sub(r' id="|(?<=href=")#|(?<=url\()#', lambda match: f"{match[0]}{id}-", drawn)
    drawn = _LENGTHS.sub(lambda match: _LONG_NUMBER.sub(_short, match[0]), drawn)
    width, height = (f"{72 * side:.1f}" for side in figure.get_size_inches())
    root = f'role="img" aria-labelledby="{id}-title" aria-describedby="{id}-desc"'
    style = ""
    if alone:
        used = {"card", "ink", *re.findall(r"var\(--([a-z-]+)\)", drawn)}
        light, dark = (
            ";".join(f"--{name}:{colours[name]}" for name in sorted(used)) for colours in palette()
        )
        root += f' xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        style = (
            f"<style>:root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
            f"svg{{background:var(--card);font-family:{_FAMILY}}}{_HALO}</style>"
        )
    named = (
        f'<title id="{id}-title">{escape(_printable(title))}</title>'
        f'<desc id="{id}-desc">{escape(_printable(words))}</desc>'
    )
    box = f'viewBox="0 0 {width} {height}" stroke-linejoin="round"'
    return f"<svg {box} {root}>{named}{style}{drawn}</svg>"


def _attributes(style: str) -> str:
    """Convert a style to separate attributes, because a page's policy forbids style attributes."""
    attributes: dict[str, str] = {}
    for declaration in style.split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name == "font":
            font = _FONT.match(value)
            parts = {} if font is None else font.groupdict()
            attributes |= {f"font-{part}": text for part, text in parts.items() if text}
        elif name and name not in _INHERITED:
            attributes[name] = _variable(value)
    return "".join(f' {name}="{value}"' for name, value in attributes.items())


def _short(number: re.Match[str]) -> str:
    """Round a number to one decimal, a tenth of a pixel."""
    return f"{float(number[0]):.1f}".removesuffix(".0")


def _printable(text: str) -> str:
    """Return a text without characters that XML forbids."""
    return _UNPRINTABLE.sub("�", text)


def cut_text(text: str, room: float, size: float = TEXT) -> str:
    """Cut a text to fit; the table of a chart has the full text."""
    line = _printable(" ".join(text.split()))
    most = _most_characters(room, size)
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def wrap_text(text: str, room: float, size: float, lines: int) -> list[str]:
    """Wrap a text to at most this many lines, and cut the rest."""
    most = _most_characters(room, size)
    return wrap(_printable(text), most, max_lines=lines, placeholder="…")


def _most_characters(room: float, size: float) -> int:
    return max(8, int(room / (_CHARACTER * size)))


# ── Elements shared by charts
# ──────────────────────────────────────────────────────────────────────


def make_axes(
    width: float, height: float, legend: Legend = (), *, rows: int = 1, columns: int = 1
) -> tuple[Figure, list[Axes]]:
    """Return a figure with rows of axes of about this height, and a legend below."""
    from matplotlib.figure import Figure

    most = max(16, int((width - 46) / (_CHARACTER * SMALL)))
    texts = ["\n".join(wrap(_printable(text), most)) for _, text in legend]
    below = sum(16 * (text.count("\n") + 1) + 5 for text in texts)
    size = (width / 72, (rows * (height + 34) + 42 + below) / 72)
    figure = Figure(figsize=size, dpi=72, facecolor="none", layout="constrained")
    panels: list[Axes] = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axes in panels:
        axes.set_facecolor("none")
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(colour("edge"))
        axes.tick_params(colors=colour("edge"), labelcolor=colour("ink"), labelsize=SMALL)
        axes.grid(visible=True, color=colour("grid"), linewidth=1)
        axes.set_axisbelow(True)
    if texts:
        figure.legend(
            [handle for handle, _ in legend],
            texts,
            loc="outside lower left",
            frameon=False,
            fontsize=SMALL,
            labelcolor=colour("ink"),
        )
    return figure, panels


def label_axes(axes: Axes, x: str, y: str = "") -> None:
    """Label the axes: x below, and y horizontally above the vertical axis."""
    look: TextLook = {"fontsize": SMALL, "color": colour("quiet")}
    axes.set_xlabel(_printable(x), **look)
    if y:
        axes.set_title(_printable(y), loc="left", **look)


def set_ticks(axis: Axis, values: Sequence[float], texts: Sequence[str]) -> None:
    """Set the ticks and their labels."""
    from matplotlib.ticker import NullLocator

    axis.set_ticks(list(values), labels=list(texts))
    axis.set_minor_locator(NullLocator())


def set_percent_ticks(axis: Axis, first: int, last: int, step: int) -> None:
    """Set ticks in percent, the ends included."""
    ticks = range(first, last + 1, step)
    set_ticks(axis, [tick / 100 for tick in ticks], [f"{tick} %" for tick in ticks])


def tag_mark(artist: Artist, kind: str, words: str = "") -> None:
    """Tag an artist that shows data; in a page, its tooltip shows the words."""
    artist.set_gid(f"mark-{kind}" + (f"|{_printable(words)}" if words else ""))


def write_text(axes: Axes, x: float, y: float, text: str, **look: Unpack[TextLook]) -> None:
    """Write a text at a position of the axes."""
    usual: TextLook = {"fontsize": SMALL, "color": colour("ink"), "va": "center"}
    axes.text(x, y, _printable(text), **usual | look)


def draw_vertical(axes: Axes, x: float, color: str, dash: Dash, up: float = 1.0) -> None:
    """Draw a vertical line, which may reach above the axes."""
    axes.plot(
        [x, x],
        [0, up],
        color=colour(color),
        ls=dash,
        lw=1.5,
        transform=axes.get_xaxis_transform(),
        clip_on=False,
        zorder=1.5,
    )


def name_line(axes: Axes, x: float, text: str, up: float, *, left: bool) -> None:
    """Label a vertical line on its left or right, at this share of the height."""
    axes.annotate(
        _printable(text),
        (x, up),
        xycoords=axes.get_xaxis_transform(),
        xytext=(-4 if left else 4, 0),
        textcoords="offset points",
        ha="right" if left else "left",
        va="center",
        fontsize=SMALL,
        color=colour("ink"),
        annotation_clip=False,
    )


def line_key(**look: Unpack[LineLook]) -> Line2D:
    """Return a legend line with this style."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **look)


def patch_key(**look: Unpack[BarLook]) -> Patch:
    """Return a legend patch with this style."""
    from matplotlib.patches import Patch

    return Patch(**look)


def bar_style(color: str, hatch: str = "") -> BarLook:
    """Return the style of bars of one colour, filled or hatched."""
    shade = colour(color)
    return {"fc": "none" if hatch else shade, "ec": shade, "hatch": hatch, "lw": 1.4}
