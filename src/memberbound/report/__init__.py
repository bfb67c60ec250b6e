"""The report of a study, and the charts of single answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

__all__ = ["DRAWINGS"]


def _drawn_by(name: str) -> Callable[[object, Path], Path]:
    def draw(answer: object, target: Path) -> Path:
        from memberbound.report import charts

        path: Path = getattr(charts, name)(answer, target)
        return path

    return draw


#: Verb → what draws its answer; matplotlib is imported when a picture is asked for.
DRAWINGS = {
    "explain": _drawn_by("save_roc"),
    "harden": _drawn_by("save_frontier"),
    "population": _drawn_by("save_success"),
}
