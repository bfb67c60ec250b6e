"""Tables: read files, count cells on an SQL engine, write row-level results.

:mod:`memberbound.tables.source` defines when values are equal.  Only counts of counts leave the
engine.
"""
