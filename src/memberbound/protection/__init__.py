"""Protect: release a statistic or a model with as little noise as can be proved enough.

``randomness`` supplies the bits, ``norms`` measures displacements, ``noise`` has the laws, and
``snapping`` puts the released value on a grid so that its low-order bits carry nothing.
"""

from memberbound.protection.answer import Protection
from memberbound.protection.estimator import MembershipPrivate
from memberbound.protection.predicting import Prediction, predict
from memberbound.protection.protecting import protect
from memberbound.protection.saving import load
from memberbound.protection.table_model import TableModel

__all__ = [
    "MembershipPrivate",
    "Prediction",
    "Protection",
    "TableModel",
    "load",
    "predict",
    "protect",
]
