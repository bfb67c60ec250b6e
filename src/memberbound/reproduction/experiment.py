"""What a figure or table of a paper needs to be redone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from memberbound.games import Game
from memberbound.reproduction.checks import Check
from memberbound.reproduction.sweep import Progress, Row

__all__ = ["Experiment", "Findings"]


@dataclass(frozen=True, eq=False)
class Findings:
    """What one run found.

    ``table`` is what the figure shows, ``trials`` every single measurement behind it, ``draw``
    makes the matplotlib figure (``None`` for a table of a paper).
    """

    table: list[Row]
    trials: list[Row]
    checks: tuple[Check, ...]
    draw: Callable[[], Any] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Experiment:
    """A figure or table: how it is set, and the function that measures it.

    ``run(trials, seed, progress)`` is deterministic given the first two.  ``notes`` say in words
    how the paper was read and what of it cannot be matched.
    """

    id: str
    title: str
    trials: int
    game: Game
    run: Callable[[int, int, Progress | None], Findings] = field(repr=False)
    theorems: tuple[str, ...]
    assumptions: tuple[str, ...]
    notes: tuple[str, ...] = ()
