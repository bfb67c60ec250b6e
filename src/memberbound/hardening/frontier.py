"""The frontier: how much information remains at which security.

Points are estimates from the fitting rows; only the chosen coarsening is certified.
"""

from __future__ import annotations

from dataclasses import dataclass

from memberbound.hardening.search import Archive

__all__ = ["FrontierPoint", "frontier"]


@dataclass(frozen=True)
class FrontierPoint:
    """One coarsening on the frontier: both numbers are estimates."""

    information_estimate: float
    security_estimate: float


def frontier(archive: Archive) -> tuple[FrontierPoint, ...]:
    """Return the coarsenings that none beats in both, from the safest to the most telling."""
    return tuple(
        FrontierPoint(max(0.0, score.information), max(0.0, score.security))
        for score in archive.front()
    )
