"""Audit: what attacks reach, with intervals that hold at any sample size.

``intervals`` has the confidence bounds, ``scores`` audits a list of attack scores, ``epsilon``
turns hits and false alarms into lower bounds on ε, and ``one_run`` does so from one training run.
The proofs are in proofs/audit-intervals.md.
An audit says what one attack reached: it is never a guarantee against another.
"""

from memberbound.auditing.answer import Audit
from memberbound.auditing.auditor import audit

__all__ = ["Audit", "audit"]
