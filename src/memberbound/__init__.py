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
    from memberbound.attacks.scorer import PrivacyScore
    from memberbound.curve import (
        GaussianCurve,
        LaplaceCurve,
        PolygonCurve,
        TradeoffCurve,
        mixture,
        polygon_from_lines,
    )
    from memberbound.errors import InputError, MemberboundError, SearchError
    from memberbound.games import IidGame, ModelGame, NeighbourGame, SubsetGame
    from memberbound.iid.profiles import CountProfile
    from memberbound.learners.torch_learner import TorchLearner
    from memberbound.papers.ledger import Ledger, theorems
    from memberbound.papers.reproduction import Reproduction, reproduce
    from memberbound.quantities import AuditBound, Certificate, Estimate
    from memberbound.release.estimator import MembershipPrivate
    from memberbound.release.saving import load
    from memberbound.report.comparing import Comparison, compare
    from memberbound.report.exporting import Export, export
    from memberbound.studies import Study, study
    from memberbound.subset.exponential import ExponentialMechanism
    from memberbound.subset.finite import finite_bounds
    from memberbound.subset.joint import joint_release
    from memberbound.subset.profile import NeighbourProfile
    from memberbound.subset.record_bounds import RecordBounds
    from memberbound.tables.coarsening import Coarsener
    from memberbound.verbs.audit import Audit, audit
    from memberbound.verbs.audit_learner import LearnerAudit, audit_learner
    from memberbound.verbs.bounds import BoundsTemplate, bounds
    from memberbound.verbs.certify import Certification, certify
    from memberbound.verbs.explain import Explanation, explain
    from memberbound.verbs.harden import Hardening, harden
    from memberbound.verbs.plan import Plan, plan
    from memberbound.verbs.population import PopulationAnswer, population
    from memberbound.verbs.predict import Prediction, predict
    from memberbound.verbs.protect import Protection, protect

#: Public name → module that defines it.
_PUBLIC = {
    "Audit": "verbs.audit",
    "AuditBound": "quantities",
    "BoundsTemplate": "verbs.bounds",
    "Certificate": "quantities",
    "Certification": "verbs.certify",
    "Coarsener": "tables.coarsening",
    "Comparison": "report.comparing",
    "CountProfile": "iid.profiles",
    "Estimate": "quantities",
    "ExponentialMechanism": "subset.exponential",
    "Explanation": "verbs.explain",
    "Export": "report.exporting",
    "GaussianCurve": "curve",
    "Hardening": "verbs.harden",
    "IidGame": "games",
    "InputError": "errors",
    "LaplaceCurve": "curve",
    "LearnerAudit": "verbs.audit_learner",
    "Ledger": "papers.ledger",
    "MemberboundError": "errors",
    "MembershipPrivate": "release.estimator",
    "ModelGame": "games",
    "NeighbourGame": "games",
    "NeighbourProfile": "subset.profile",
    "Plan": "verbs.plan",
    "PolygonCurve": "curve",
    "PopulationAnswer": "verbs.population",
    "Prediction": "verbs.predict",
    "PrivacyScore": "attacks.scorer",
    "Protection": "verbs.protect",
    "RecordBounds": "subset.record_bounds",
    "Reproduction": "papers.reproduction",
    "SearchError": "errors",
    "Study": "studies",
    "SubsetGame": "games",
    "TorchLearner": "learners.torch_learner",
    "TradeoffCurve": "curve",
    "audit": "verbs.audit",
    "audit_learner": "verbs.audit_learner",
    "bounds": "verbs.bounds",
    "certify": "verbs.certify",
    "compare": "report.comparing",
    "explain": "verbs.explain",
    "export": "report.exporting",
    "finite_bounds": "subset.finite",
    "harden": "verbs.harden",
    "joint_release": "subset.joint",
    "load": "release.saving",
    "mixture": "curve",
    "plan": "verbs.plan",
    "polygon_from_lines": "curve",
    "population": "verbs.population",
    "predict": "verbs.predict",
    "protect": "verbs.protect",
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
    "Comparison",
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
    "LearnerAudit",
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
    "PrivacyScore",
    "Protection",
    "RecordBounds",
    "Reproduction",
    "SearchError",
    "Study",
    "SubsetGame",
    "TorchLearner",
    "TradeoffCurve",
    "__version__",
    "audit",
    "audit_learner",
    "bounds",
    "certify",
    "compare",
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
