"""Studies: certify, attack and protect one table, and report the cheapest sufficient remedy.

``question`` parses the options and reads the table, ``steps`` calls one verb per step, ``running``
runs and keeps the steps, ``verdict`` recommends a remedy, and ``studying`` is the verb.
"""

from memberbound.verbs.study.studying import Study, study

__all__ = ["Study", "study"]
