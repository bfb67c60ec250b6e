"""Memory does not grow with the rows: measured in processes of their own."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from commands import python

# On Linux ru_maxrss survives exec, so that a child of a large test process starts with its
# parent's peak; VmHWM belongs to the new program alone.
MEASURE = """
import json, pathlib, re, resource, sys, tracemalloc
import ibis, pyarrow, duckdb
from memberbound.tables.counting import count_profile
from memberbound.tables.opening import open_table
def resident():
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\\s*(\\d+) kB", status.read_text())[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
tracemalloc.start()
count_profile(open_table(sys.argv[1], memory_limit=sys.argv[2]))  # imports what it needs
before, _ = tracemalloc.get_traced_memory()
tracemalloc.reset_peak()
profile = count_profile(open_table(sys.argv[1], memory_limit=sys.argv[2]))
print(json.dumps({
    "rows": profile.rows, "atoms": profile.atoms, "lines": len(profile.count),
    "python": tracemalloc.get_traced_memory()[1] - before,
    "resident": resident(),
}))
"""


def measure(path: Path, memory_limit: str) -> dict[str, int]:
    done = python("-c", MEASURE, path, memory_limit)
    assert done.stderr == "" or "Warning" in done.stderr
    return json.loads(done.stdout)


def made(path: Path, select: str, rows: int) -> Path:
    duckdb.sql(f"COPY (SELECT {select} FROM range({rows}) t(i)) TO '{path}'")
    return path


@pytest.mark.parametrize(
    "rows", [200_000, pytest.param(10_000_000, marks=pytest.mark.long)], ids="{:.0e}".format
)
def test_all_distinct_values_are_counted_in_bounded_memory(tmp_path, rows):
    path = made(tmp_path / "a.parquet", "hash(i) AS x", rows)
    found = measure(path, "400MB")
    assert (found["rows"], found["atoms"], found["lines"]) == (rows, rows, 1)
    assert found["resident"] < 1e9
    # This many whole numbers in Python, or as one array, would take more.
    assert found["python"] < 8 * 200_000
