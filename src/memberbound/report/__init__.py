"""The report of a study, and the pictures of single answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["DRAWINGS"]


def _roc(answer: Any, target: Path) -> Path:
    from memberbound.report.roc import save_roc

    return save_roc(answer, target)


def _success(answer: Any, target: Path) -> Path:
    from memberbound.report.success import save_success

    return save_success(answer, target)


def _frontier(answer: Any, target: Path) -> Path:
    from memberbound.report.frontier import save_frontier

    return save_frontier(answer, target)


#: Verb → what draws its answer; matplotlib is imported when a picture is asked for.
DRAWINGS: dict[str, Callable[[Any, Path], Path]] = {
    "explain": _roc,
    "harden": _frontier,
    "population": _success,
}
