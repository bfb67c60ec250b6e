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
    from memberbound.auditing import Audit, audit
    from memberbound.certification import Certification, certify
    from memberbound.curve import (
        GaussianCurve,
        LaplaceCurve,
        PolygonCurve,
        TradeoffCurve,
        mixture,
        polygon_from_lines,
    )
    from memberbound.discrete.counts import CountProfile
    from memberbound.errors import InputError, MemberboundError, SearchError
    from memberbound.explanation import Explanation, explain
    from memberbound.games import IidGame, ModelGame, NeighbourGame, SubsetGame
    from memberbound.hardening import Hardening, harden
    from memberbound.papers.ledger import Ledger, theorems
    from memberbound.papers.reproduction import Reproduction, reproduce
    from memberbound.planning import Plan, plan
    from memberbound.populations import PopulationAnswer, population
    from memberbound.protection import (
        MembershipPrivate,
        Prediction,
        Protection,
        load,
        predict,
        protect,
    )
    from memberbound.protection.bounding import BoundsTemplate, bounds
    from memberbound.quantities import AuditBound, Certificate, Estimate
    from memberbound.report.exporting import Export, export
    from memberbound.studies import Study, study
    from memberbound.subset.bounds import RecordBounds
    from memberbound.subset.exponential import ExponentialMechanism
    from memberbound.subset.finite import finite_bounds
    from memberbound.subset.joint import joint_release
    from memberbound.subset.profile import NeighbourProfile
    from memberbound.tables.coarsening import Coarsener

#: Public name → module that defines it.
_PUBLIC = {
    "Audit": "auditing",
    "AuditBound": "quantities",
    "BoundsTemplate": "protection.bounding",
    "Certificate": "quantities",
    "Certification": "certification",
    "Coarsener": "tables.coarsening",
    "CountProfile": "discrete.counts",
    "Estimate": "quantities",
    "ExponentialMechanism": "subset.exponential",
    "Explanation": "explanation",
    "Export": "report.exporting",
    "GaussianCurve": "curve",
    "Hardening": "hardening",
    "IidGame": "games",
    "InputError": "errors",
    "LaplaceCurve": "curve",
    "Ledger": "papers.ledger",
    "MemberboundError": "errors",
    "MembershipPrivate": "protection",
    "ModelGame": "games",
    "NeighbourGame": "games",
    "NeighbourProfile": "subset.profile",
    "Plan": "planning",
    "PolygonCurve": "curve",
    "PopulationAnswer": "populations",
    "Prediction": "protection",
    "Protection": "protection",
    "RecordBounds": "subset.bounds",
    "Reproduction": "papers.reproduction",
    "SearchError": "errors",
    "Study": "studies",
    "SubsetGame": "games",
    "TradeoffCurve": "curve",
    "audit": "auditing",
    "bounds": "protection.bounding",
    "certify": "certification",
    "explain": "explanation",
    "export": "report.exporting",
    "finite_bounds": "subset.finite",
    "harden": "hardening",
    "joint_release": "subset.joint",
    "load": "protection",
    "mixture": "curve",
    "plan": "planning",
    "polygon_from_lines": "curve",
    "population": "populations",
    "predict": "protection",
    "protect": "protection",
    "reproduce": "papers.reproduction",
    "study": "studies",
    "theorems": "papers.ledger",
}

__all__ = [
    "Audit",
    "AuditBound",
    "BoundsTemplate",
    "Certificate",
    "Certification",
    "Coarsener",
    "CountProfile",
    "Estimate",
    "Explanation",
    "ExponentialMechanism",
    "Export",
    "GaussianCurve",
    "Hardening",
    "IidGame",
    "InputError",
    "LaplaceCurve",
    "Ledger",
    "MemberboundError",
    "MembershipPrivate",
    "ModelGame",
    "NeighbourGame",
    "NeighbourProfile",
    "Plan",
    "PolygonCurve",
    "PopulationAnswer",
    "Prediction",
    "Protection",
    "RecordBounds",
    "Reproduction",
    "SearchError",
    "Study",
    "SubsetGame",
    "TradeoffCurve",
    "__version__",
    "audit",
    "bounds",
    "certify",
    "explain",
    "export",
    "finite_bounds",
    "harden",
    "joint_release",
    "load",
    "mixture",
    "plan",
    "polygon_from_lines",
    "population",
    "predict",
    "protect",
    "reproduce",
    "study",
    "theorems",
]


def __getattr__(name: str) -> object:
    if name in _PUBLIC:
        return getattr(import_module(f"memberbound.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'memberbound' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
