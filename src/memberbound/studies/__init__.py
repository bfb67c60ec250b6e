"""The verb ``study``: certify, audit, protect, translate and recommend, as one report.

``question`` is what is asked, ``steps`` asks the other verbs, and ``studying`` runs the steps,
keeps what is finished, recommends a remedy and writes the report.
"""

from memberbound.studies.studying import Study, study

__all__ = ["Study", "study"]
