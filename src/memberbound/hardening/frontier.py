"""The frontier: how much information remains at which security.

Points are estimates from the fitting rows; only the chosen coarsening is certified.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memberbound.hardening.bench import State
from memberbound.hardening.search import Archive

__all__ = ["FrontierPoint", "frontier"]


@dataclass(frozen=True)
class FrontierPoint:
    """One coarsening on the frontier: both numbers are estimates."""

    information_estimate: float
    security_estimate: float


def frontier(archive: Archive, information: Mapping[State, float]) -> tuple[FrontierPoint, ...]:
    """Return the coarsenings that none beats in both, from the safest to the most telling."""
    points: list[FrontierPoint] = []
    for state in archive.front():
        point = FrontierPoint(information[state], max(0.0, archive.scores[state].security))
        if not points or point.information_estimate > points[-1].information_estimate:
            points.append(point)
    return tuple(points)
