"""The report of a study, and the charts of single answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

__all__ = ["DRAWINGS"]


def _drawn_by(name: str) -> Callable[[object, Path], Path]:
    def draw(answer: object, target: Path) -> Path:
        from memberbound.errors import InputError
        from memberbound.report import charts

        chart = getattr(charts, name)(answer)
        if chart is None:
            raise InputError("plot must be left out here: the answer has nothing to draw.")
        path: Path = chart.save(target)
        return path

    return draw


#: Verb → what draws its answer; matplotlib is imported when a picture is asked for.
DRAWINGS = {
    "explain": _drawn_by("explanation_chart"),
    "harden": _drawn_by("frontier_chart"),
    "population": _drawn_by("population_chart"),
    "synthesize": _drawn_by("marginals_chart"),
}
