"""The files of the pages: a fixed list, read from the package once; nothing is found by name."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

__all__ = ["Asset", "assets"]

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}


@dataclass(frozen=True)
class Asset:
    """The bytes of one file and their type."""

    content: bytes
    type: str


def assets() -> dict[str, Asset]:
    """Return every file of the pages by its name below ``/static/``, plotly's library included."""
    found: dict[str, Asset] = {}
    _collect(files("memberbound.faces.web").joinpath("static"), "", found)
    library = files("plotly").joinpath("package_data", "plotly.min.js")
    found["plotly.min.js"] = Asset(library.read_bytes(), _TYPES[".js"])
    return found


def _collect(folder: Traversable, prefix: str, found: dict[str, Asset]) -> None:
    for item in folder.iterdir():
        if item.is_dir():
            _collect(item, f"{prefix}{item.name}/", found)
            continue
        ending = "." + item.name.rsplit(".", 1)[-1]
        if ending in _TYPES:
            found[prefix + item.name] = Asset(item.read_bytes(), _TYPES[ending])
