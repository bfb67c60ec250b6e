"""The verb ``study``: certify, audit, protect, translate and recommend, as one report.

``question`` is what is asked, ``steps`` does the work with the other verbs and keeps what is
finished, ``recommendation`` puts the answers side by side, and ``studying`` runs it all.
"""

from memberbound.studies.studying import Study, study

__all__ = ["Study", "study"]
