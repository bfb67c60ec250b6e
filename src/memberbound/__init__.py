"""memberbound: how often can an attacker be right about who was in the training set?

Public names are imported on first use; ``__init__.pyi`` lists them for type checkers.

>>> import memberbound
>>> memberbound.explain(epsilon=8, delta=1e-5).to_dict()["accuracy_upper"] > 0.999
True
"""

from __future__ import annotations

from importlib import import_module

from memberbound._version import __version__ as __version__

#: The module of each public name.
PUBLIC = {
    "Audit": "memberbound.verbs.audit",
    "audit": "memberbound.verbs.audit",
    "audit_learner": "memberbound.verbs.audit_learner",
    "audit_table": "memberbound.verbs.audit_table",
    "audit_text": "memberbound.verbs.audit_text",
    "AuditBound": "memberbound.certificate",
    "bounds": "memberbound.verbs.bounds",
    "BoundsTemplate": "memberbound.verbs.bounds",
    "Certificate": "memberbound.certificate",
    "Certification": "memberbound.verbs.certify",
    "certify": "memberbound.verbs.certify",
    "compare": "memberbound.verbs.compare",
    "Comparison": "memberbound.verbs.compare",
    "CountProfile": "memberbound.iid.profiles",
    "Estimate": "memberbound.certificate",
    "explain": "memberbound.verbs.explain",
    "Explanation": "memberbound.verbs.explanation",
    "ExponentialMechanism": "memberbound.subset.exponential",
    "Export": "memberbound.verbs.export",
    "export": "memberbound.verbs.export",
    "finite_bounds": "memberbound.subset.finite",
    "GaussianCurve": "memberbound.curve",
    "HalfPrivate": "memberbound.release.half.half_estimator",
    "HalfProtection": "memberbound.verbs.protect_half",
    "harden": "memberbound.verbs.harden",
    "Hardening": "memberbound.verbs.harden",
    "IidGame": "memberbound.games",
    "InputError": "memberbound.errors",
    "LaplaceCurve": "memberbound.curve",
    "LearnerAudit": "memberbound.verbs.audit_learner",
    "Ledger": "memberbound.release.ledger_file",
    "ledger": "memberbound.verbs.ledger",
    "LedgerState": "memberbound.verbs.ledger",
    "load": "memberbound.release.saving",
    "MemberboundError": "memberbound.errors",
    "MembershipPrivate": "memberbound.release.all_rows.estimator",
    "MembershipPrivateLM": "memberbound.release.text_estimator",
    "mixture": "memberbound.curve",
    "ModelGame": "memberbound.games",
    "NeighbourGame": "memberbound.games",
    "NeighbourProfile": "memberbound.subset.profile",
    "open_table": "memberbound.tables.opening",
    "Plan": "memberbound.verbs.plan",
    "plan": "memberbound.verbs.plan",
    "polygon_from_lines": "memberbound.curve",
    "PolygonCurve": "memberbound.curve",
    "population": "memberbound.verbs.population",
    "PopulationAnswer": "memberbound.verbs.population_answer",
    "predict": "memberbound.verbs.predict",
    "Prediction": "memberbound.verbs.predict",
    "protect": "memberbound.verbs.protect",
    "protect_half": "memberbound.verbs.protect_half",
    "protect_text": "memberbound.verbs.protect_text",
    "private_search": "memberbound.release.all_rows.search",
    "Protection": "memberbound.verbs.protection",
    "Recipe": "memberbound.tables.recipe",
    "RecordBounds": "memberbound.subset.record_bounds",
    "reproduce": "memberbound.verbs.reproduce",
    "Reproduction": "memberbound.verbs.reproduce",
    "save": "memberbound.release.saving",
    "SearchError": "memberbound.errors",
    "Study": "memberbound.verbs.study",
    "serve": "memberbound.verbs.serve",
    "study": "memberbound.verbs.study",
    "SubsetGame": "memberbound.games",
    "summarize": "memberbound.verbs.summarize",
    "Summary": "memberbound.verbs.summarize",
    "Synthesis": "memberbound.verbs.synthesize",
    "synthesize": "memberbound.verbs.synthesize",
    "Table": "memberbound.tables.table",
    "TableAudit": "memberbound.verbs.audit_table",
    "TextAudit": "memberbound.verbs.audit_text",
    "TextProtection": "memberbound.verbs.protect_text",
    "Theorems": "memberbound.verbs.theorems",
    "theorems": "memberbound.verbs.theorems",
    "TorchLearner": "memberbound.learners.torch_learner",
    "TradeoffCurve": "memberbound.curve",
    "Verification": "memberbound.verbs.verify",
    "verify": "memberbound.verbs.verify",
}
__all__ = ["__version__", *PUBLIC]  # noqa: PLE0604  # names of the table above


def __getattr__(name: str) -> object:
    if name in PUBLIC:
        return getattr(import_module(PUBLIC[name]), name)
    raise AttributeError(f"module 'memberbound' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
