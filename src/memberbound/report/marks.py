"""Marks of the report's own rows: a score, the ends of a sandwich, and what a study allows."""

from __future__ import annotations

from typing import Any

from memberbound.quantities import Mark, allowed, decimals, marked, percent, points, significant

__all__ = [
    "allowed_over",
    "blind_guess",
    "blind_in",
    "ceiling_of",
    "estimate_of",
    "floor_of",
    "promise",
    "score",
]

#: A floor that nobody needs an attack for.


def score(value: float) -> Mark:
    """Return a model's score, an estimate."""
    small = abs(value) < 10
    shown = decimals(value, "estimate", 3) if small else significant(value, "estimate", 4)
    return Mark("estimate", f"≈ {shown}")


def ceiling_of(row: dict[str, Any]) -> Mark:
    """Return the ceiling of a row of the sandwich."""
    return marked(None if row["ceiling"] is None else row["ceiling"]["upper"], "certificate")


def estimate_of(row: dict[str, Any]) -> Mark | None:
    """Return the estimate of a row of the sandwich, if there is one."""
    return None if row["estimate"] is None else marked(row["estimate"]["estimate"], "estimate")


def floor_of(row: dict[str, Any]) -> Mark | None:
    """Return the floor of a row of the sandwich, if it was attacked."""
    if row["floor"] is None:
        return None
    return marked(row["floor"]["lower"], "audit", blind=row["blind"])


def blind_guess(value: float) -> Mark:
    """Return how often a blind guess is right: known exactly, and rounded as bounds beside it."""
    return Mark("given", percent(value, "upper"))


def blind_in(report: dict[str, Any], game: str) -> float:
    """Return how often a blind guess is right in a game of the report."""
    return max((float(r["blind"]) for r in report["sandwich"] if r["game"] == game), default=0.5)


def allowed_over(blind: float, eta: float) -> Mark:
    """Return what a study allows somebody who could as well guess blindly."""
    return Mark("given", allowed(blind, eta))


def promise(blind: float, eta: float) -> str:
    """Return where the allowed share comes from.

    >>> promise(0.5008787346221442, 0.05)
    'blind guessing 50.09 % + 5 points'
    """
    return f"blind guessing {blind_guess(blind)} + {points(eta)}"
