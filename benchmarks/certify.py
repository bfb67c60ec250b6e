"""Benchmark of counting cells: a table of 20 million rows × 4 columns against the bare query.

DuckDB creates the table as Parquet in a temporary folder.  The profile is computed in three ways:
``count_profile``; the two-level GROUP BY directly in DuckDB with the same memory and threads; and,
on a part of the rows, a plain pandas loop.  Every run is a separate process, which first counts a
table of one row to separate start-up (loading libraries, starting the engine) from counting.  The
claim is about counting; the ratio including start-up is printed beside it, and so is the ratio of
processor time, which is less sensitive to other work on the machine.  Claims are printed as PASS or
FAIL; the exit code does not depend on them.

    python benchmarks/certify.py [--rows 20000000] [--repeats 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

COLUMNS = ("a", "b", "c", "d")
#: Few large cells, many small ones, all rows different: the sort of table certify meets.
LAWS = {
    "1000 cells": "(i * 7919) % 10 AS a, (i // 10) % 10 AS b, 'v' || (hash(i) % 5) AS c, "
    "i % 2 AS d",
    "2 million cells": "hash(i) % 100 AS a, hash(i + 1) % 100 AS b, hash(i + 2) % 20 AS c, "
    "'v' || (hash(i + 3) % 10) AS d",
    "all distinct": "i AS a, hash(i) % 100 AS b, hash(i + 1) % 20 AS c, 'v' || (i % 10) AS d",
}
PANDAS_ROWS = 500_000
RATIO = 1.3


# ---- the three ways, each run in a process of its own -----------------------------------------


def ours(path: str, limit: str) -> dict[int, int]:
    from memberbound.tables.counting import count_profile
    from memberbound.tables.opening import open_table

    with open_table(path, memory_limit=limit) as table:
        profile = count_profile(table, list(COLUMNS))
    return dict(zip(profile.count.tolist(), profile.cells.tolist(), strict=True))


def bare(path: str, limit: str) -> dict[int, int]:
    import duckdb

    connection = duckdb.connect()
    folder = tempfile.mkdtemp(dir=Path(path).parent)
    connection.execute(f"SET memory_limit = '{limit}'")
    connection.execute(f"SET temp_directory = '{folder}'")
    connection.execute(f"SET threads = {len(os.sched_getaffinity(0))}")
    keys = ", ".join(COLUMNS)
    query = (
        f"SELECT n, count(*) FROM (SELECT count(*) AS n FROM read_parquet('{path}') "
        f"GROUP BY {keys}) GROUP BY n"
    )
    return dict(connection.execute(query).fetchall())


def pandas_loop(path: str, limit: str) -> dict[int, int]:
    import pandas as pd

    del limit
    frame = pd.read_parquet(path)
    rows = zip(*(frame[column] for column in COLUMNS), strict=True)
    return dict(Counter(Counter(rows).values()))


WAYS = {"ours": ours, "bare": bare, "pandas": pandas_loop}


def worker(way: str, path: str, tiny: str, limit: str) -> None:
    start, cpu = time.perf_counter(), time.process_time()
    WAYS[way](tiny, limit)
    ready, ready_cpu = time.perf_counter(), time.process_time()
    profile = WAYS[way](path, limit)
    found = {
        "startup": ready - start,
        "seconds": time.perf_counter() - ready,
        "cpu": time.process_time() - ready_cpu,
        "startup_cpu": ready_cpu - cpu,
        "peak": _peak(),
        "profile": sorted(profile.items()),
    }
    json.dump(found, sys.stdout)


def _peak() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# ---- measuring ----------------------------------------------------------------------------------


def run(way: str, path: Path, limit: str) -> dict[str, Any]:
    tiny = path.with_name("tiny.parquet")
    command = [sys.executable, __file__, "--worker", way, str(path), str(tiny), limit]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def make(path: Path, law: str, rows: int) -> None:
    import duckdb

    duckdb.sql(f"COPY (SELECT {law} FROM range({rows}) t(i)) TO '{path}'")


def compare(folder: Path, name: str, rows: int, repeats: int, limit: str) -> dict[str, Any]:
    path, part = folder / "all.parquet", folder / "part.parquet"
    make(path, LAWS[name], rows)
    make(part, LAWS[name], min(rows, PANDAS_ROWS))
    make(folder / "tiny.parquet", LAWS[name], 1)
    # Alternating, so that other work on the machine meets both alike.
    timed: dict[str, list[dict[str, Any]]] = {"ours": [], "bare": []}
    for _ in range(repeats):
        for way, found in timed.items():
            found.append(run(way, path, limit))
    few = {way: run(way, part, limit) for way in ("ours", "pandas")}

    def median(way: str, *fields: str) -> float:
        return statistics.median(sum(f[field] for field in fields) for f in timed[way])

    def ratio(*fields: str) -> float:
        return median("ours", *fields) / median("bare", *fields)

    return {
        "table": name,
        "rows": rows,
        "lines": len(timed["ours"][0]["profile"]),
        "seconds": {way: median(way, "seconds") for way in timed},
        "startup": {way: median(way, "startup") for way in timed},
        "peak_mb": {way: max(f["peak"] for f in found) / 1e6 for way, found in timed.items()},
        "ratio": ratio("seconds"),
        "ratio_with_startup": ratio("seconds", "startup"),
        "ratio_cpu": ratio("cpu"),
        "part_rows": min(rows, PANDAS_ROWS),
        "part_seconds": {way: found["seconds"] for way, found in few.items()},
        "part_peak_mb": {way: found["peak"] / 1e6 for way, found in few.items()},
        "equal": timed["ours"][0]["profile"] == timed["bare"][0]["profile"]
        and few["ours"]["profile"] == few["pandas"]["profile"],
    }


def show(found: dict[str, Any]) -> None:
    print(f"\n{found['table']}: {found['rows']:,} rows × {len(COLUMNS)} columns → ", end="")
    print(f"{found['lines']} lines")
    for way, label in (("ours", "count_profile"), ("bare", "bare GROUP BY")):
        print(
            f"  {label:14} {found['seconds'][way]:7.2f} s  after {found['startup'][way]:.2f} s of "
            f"start-up, peak {found['peak_mb'][way]:.0f} MB"
        )
    print(f"  ratio          {found['ratio']:7.2f}    {verdict(found['ratio'] <= RATIO)} ≤ {RATIO}")
    print(f"  … with start-up {found['ratio_with_startup']:6.2f}")
    print(f"  … processor    {found['ratio_cpu']:7.2f}")
    part, memory = found["part_seconds"], found["part_peak_mb"]
    print(
        f"  {found['part_rows']:,} rows: pandas loop {part['pandas']:.2f} s "
        f"({memory['pandas']:.0f} MB), count_profile {part['ours']:.2f} s "
        f"({memory['ours']:.0f} MB): {part['pandas'] / part['ours']:.1f}× faster"
    )
    print(f"  same profiles  {verdict(bool(found['equal']))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory-limit", default="2GB")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    tools = ", ".join(f"{t} {version(t)}" for t in ("duckdb", "ibis-framework", "pandas"))
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {tools}, {cores} cores (load {load:.1f}), ", end="")
    print(f"memory limit {options.memory_limit}")
    results = []
    for name in LAWS:
        with tempfile.TemporaryDirectory(prefix="memberbound-bench-") as folder:
            found = compare(Path(folder), name, options.rows, options.repeats, options.memory_limit)
        results.append(found)
        show(found)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


def verdict(holds: bool) -> str:
    return "PASS" if holds else "FAIL"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(*sys.argv[2:])
    else:
        main()
