"""The verb ``study``: certify, audit, protect, translate and recommend, as one report.

``question`` is what is asked, ``steps`` does the work with the other verbs, ``notebook`` keeps what
is finished, ``composition`` puts the answers side by side, and ``studying`` runs it all.
"""

from memberbound.studies.answer import Study
from memberbound.studies.studying import study

__all__ = ["Study", "study"]
