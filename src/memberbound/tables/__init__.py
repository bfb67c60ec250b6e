"""Tables: reading files, counting cells on an SQL engine, writing row-level results.

The values are compared as :mod:`memberbound.tables.source` says; what is counted never leaves the
engine but for the counts of counts.
"""
