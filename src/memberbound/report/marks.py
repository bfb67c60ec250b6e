"""Marks of the report's own rows: a model's score, and the ends of a sandwich."""

from __future__ import annotations

from typing import Any

from memberbound.quantities import Mark, decimals, marked, significant

__all__ = ["ceiling_of", "floor_of", "score"]


def score(value: float) -> Mark:
    """Return a model's score, an estimate."""
    small = abs(value) < 10
    shown = decimals(value, "estimate", 3) if small else significant(value, "estimate", 4)
    return Mark("estimate", f"≈ {shown}")


def ceiling_of(row: dict[str, Any]) -> Mark:
    """Return the ceiling of a row of the sandwich."""
    return marked(None if row["ceiling"] is None else row["ceiling"]["upper"], "certificate")


def floor_of(row: dict[str, Any]) -> Mark | None:
    """Return the floor of a row of the sandwich, if it was attacked."""
    if row["floor"] is None:
        return None
    return marked(row["floor"]["lower"], "audit", blind=row["blind"])
