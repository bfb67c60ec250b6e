"""memberbound: how often can anybody be right about who was in the training set?

The public surface is small; everything is imported when first used.

>>> import memberbound
>>> memberbound.explain(epsilon=8, delta=1e-5).to_dict()["accuracy_upper"] > 0.999
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from memberbound._version import __version__

if TYPE_CHECKING:
    from memberbound.curve import (
        GaussianCurve,
        LaplaceCurve,
        PolygonCurve,
        TradeoffCurve,
        mixture,
        polygon_from_lines,
    )
    from memberbound.errors import InputError, MemberboundError, SearchError
    from memberbound.explanation import Explanation, explain
    from memberbound.games import IidGame, NeighbourGame, SubsetGame
    from memberbound.ledger import Ledger, theorems
    from memberbound.results import AuditBound, Certificate, Estimate

#: Public name → module that defines it.
_PUBLIC = {
    "AuditBound": "results",
    "Certificate": "results",
    "Estimate": "results",
    "Explanation": "explanation",
    "GaussianCurve": "curve",
    "IidGame": "games",
    "InputError": "errors",
    "LaplaceCurve": "curve",
    "Ledger": "ledger",
    "MemberboundError": "errors",
    "NeighbourGame": "games",
    "PolygonCurve": "curve",
    "SearchError": "errors",
    "SubsetGame": "games",
    "TradeoffCurve": "curve",
    "explain": "explanation",
    "mixture": "curve",
    "polygon_from_lines": "curve",
    "theorems": "ledger",
}

__all__ = [
    "AuditBound",
    "Certificate",
    "Estimate",
    "Explanation",
    "GaussianCurve",
    "IidGame",
    "InputError",
    "LaplaceCurve",
    "Ledger",
    "MemberboundError",
    "NeighbourGame",
    "PolygonCurve",
    "SearchError",
    "SubsetGame",
    "TradeoffCurve",
    "__version__",
    "explain",
    "mixture",
    "polygon_from_lines",
    "theorems",
]


def __getattr__(name: str) -> object:
    if name in _PUBLIC:
        return getattr(import_module(f"memberbound.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'memberbound' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
