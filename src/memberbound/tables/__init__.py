"""Tables: reading files, counting cells on an SQL engine, writing row-level results.

The values are compared as :mod:`memberbound.tables.source` says; what is counted never leaves the
engine but for the counts of counts.
"""

from memberbound.tables.counting import (
    PairProfile,
    cell_counts,
    count_pair_profile,
    count_profile,
    write_records,
)
from memberbound.tables.source import Table, open_table

__all__ = [
    "PairProfile",
    "Table",
    "cell_counts",
    "count_pair_profile",
    "count_profile",
    "open_table",
    "write_records",
]
