"""The report of a study, and the charts of single answers."""

from __future__ import annotations

from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

__all__ = ["DRAWINGS", "template_text", "words"]


def template_text(name: str) -> str:
    """Return a file of the folder ``templates``."""
    return files(__name__).joinpath("templates", name).read_text("utf-8")


@cache
def words() -> dict[str, Any]:
    """Return the texts of ``words.yaml`` by their names."""
    import yaml

    texts: dict[str, Any] = yaml.safe_load(template_text("words.yaml"))
    return texts


def _draw(name: str, answer: object, target: Path) -> Path:
    from memberbound.errors import InputError
    from memberbound.report import answer_charts

    chart = getattr(answer_charts, name)(answer)
    if chart is None:
        raise InputError("plot must be left out here: the answer has no chart.")
    path: Path = chart.save(target)
    return path


#: Functions that draw the answers of verbs; they import matplotlib on the first call.
DRAWINGS = {
    "explain": partial(_draw, "explanation_chart"),
    "harden": partial(_draw, "frontier_chart"),
    "population": partial(_draw, "population_chart"),
    "synthesize": partial(_draw, "marginals_chart"),
}
