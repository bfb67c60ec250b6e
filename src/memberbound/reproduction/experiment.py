"""What a figure or table of a paper needs to be redone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memberbound.errors import InputError
from memberbound.games import Game
from memberbound.reproduction.checks import Check
from memberbound.reproduction.sweep import Progress, Row

__all__ = ["Experiment", "Findings", "MissingDataError", "Run"]


class MissingDataError(InputError):
    """A data set that the package does not carry is not there; the message says how to get it."""


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


Run = Callable[[int, int, Progress | None], Findings]


@dataclass(frozen=True)
class Experiment:
    """A figure or table: how it is set, and the function that measures it.

    ``run(trials, seed, progress)`` is deterministic given the first two.  ``notes`` say in words
    how the paper was read and what of it cannot be matched.  ``read`` is there for an experiment on
    a data set: it takes the folder with data sets (``None`` if there is none) and returns the
    function to run in place of ``run``, or raises :class:`MissingDataError`.
    """

    id: str
    title: str
    trials: int
    game: Game
    run: Run = field(repr=False)
    theorems: tuple[str, ...]
    assumptions: tuple[str, ...]
    notes: tuple[str, ...] = ()
    read: Callable[[Path | None], Run] | None = field(default=None, repr=False)
