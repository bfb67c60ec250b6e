"""Tables: reading files, counting cells on an SQL engine, writing row-level results.

:mod:`memberbound.tables.source` defines when values are equal.  Only counts of counts leave the
engine.
"""
