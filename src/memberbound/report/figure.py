"""Writing a figure: the formats, the palette, and a file that appears whole or not at all."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from memberbound.errors import InputError
from memberbound.files import written_whole

__all__ = ["BLUE", "FORMATS", "GREY", "ORANGE", "check_target", "save"]

FORMATS = (".png", ".svg", ".pdf", ".html")
#: From the Okabe–Ito palette, which colour-blind readers can tell apart.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#555555"


def check_target(path: str | Path) -> Path:
    """Return the path of a plot that can be written, or refuse it before any work is done."""
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise InputError(f"plot must be a file ending in {', '.join(FORMATS)}, got {str(path)!r}.")
    if not target.parent.is_dir():
        raise InputError(f"plot must be in an existing folder, got {str(path)!r}.")
    if target.is_dir():
        raise InputError(f"plot must be a file, got the folder {str(path)!r}.")
    return target


def save(figure: Any, path: str | Path, *, title: str, caption: str) -> Path:
    """Write a matplotlib figure as PNG, SVG, PDF or a self-contained HTML page with its caption."""
    target = check_target(path)
    suffix = target.suffix.lower()
    kind = "svg" if suffix == ".html" else suffix[1:]

    # Without a date the same figure gives the same file.
    undated: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})

    def write(draft: Path) -> None:
        figure.savefig(draft, format=kind, dpi=160, metadata={"Title": title} | undated)
        if suffix == ".html":
            draft.write_text(_page(draft.read_text(encoding="utf-8"), title, caption), "utf-8")

    written_whole(target, write, force=True)
    return target


def _page(svg: str, title: str, caption: str) -> str:
    body, text = svg[svg.index("<svg") :], escape(caption)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>body{{font:16px/1.5 system-ui,sans-serif;"
        "max-width:70rem;margin:2rem auto;padding:0 1rem;background:#fff;color:#111}"
        "svg{width:100%;height:auto}</style></head><body>"
        f'<p>{text}</p><figure role="img" aria-label="{text}">{body}</figure></body></html>\n'
    )
