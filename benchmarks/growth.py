"""Scaling of every verb with the number of rows: CPU seconds at three sizes, and the exponent.

    python benchmarks/growth.py [--sizes 2000,8000,32000] [--verbs certify,audit,…] [--json FILE]
    python benchmarks/growth.py --stored 3000000,30000000 [--hard 2GiB] [--json FILE]
    python benchmarks/growth.py --million m.csv    # the table for `study` in docs/benchmarks.md

Every verb runs in its own process with one thread and one worker.  CPU seconds (including children)
are counted from the call to the answer, without other work on the machine and import time; memory
is the process's own peak.  The exponent is the slope of log seconds against log rows between the
two largest sizes, where fixed costs matter least: 1 means linear time.

With ``--stored`` the tables have 20 columns, are written in blocks and read in parts (--memory
1GB).  Two kinds of memory are sampled ten times a second: anonymous memory, which cannot be
reclaimed, and pages of mapped files (including libraries), which the system can reclaim.
``--hard`` runs every verb in a control group of that size, where the system kills processes that
exceed it; file pages count there.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame

SIZES = (2_000, 8_000, 32_000)
#: The exponent above which a verb fails the claim of linear time.
LINEAR = 1.2


def draw(rows: int, numbers: int, wholes: int, values: list[int], seed: int = 0) -> DataFrame:
    """Return numbers, whole numbers, categories of these sizes, and a target that they explain."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(seed)
    columns: dict[str, object] = {}
    for index in range(numbers):
        columns[f"n{index}"] = rng.normal(size=rows).round(2)
    for index in range(wholes):
        columns[f"w{index}"] = rng.integers(0, 50, rows)
    for index, count in enumerate(values):
        names = np.array([f"v{value}" for value in range(count)])
        columns[f"c{index}"] = names[rng.integers(0, count, rows)]
    score = columns["n0"] + columns["n1"] / 2 + (columns["c0"] == "v1")  # type: ignore[operator]
    columns["y"] = np.where(score + rng.normal(size=rows) > 0, "yes", "no")
    return pd.DataFrame(columns)


def made(rows: int, folder: Path) -> Path:
    """A table of 24 columns."""
    path = folder / f"table-{rows}.parquet"
    draw(rows, 12, 4, list(range(3, 10))).to_parquet(path, index=False)
    return path


def calls(path: Path) -> dict[str, Callable[[], object]]:
    """Every verb that reads rows, with typical options but few models of a learner."""
    import memberbound as mb

    few = ["c0", "c1", "c2", "y"]
    bounds = {f"n{i}": [-5, 5] for i in range(12)} | {f"w{i}": [0, 50] for i in range(4)}
    bounds |= {f"c{i}": [f"v{v}" for v in range(3 + i)] for i in range(7)} | {"y": ["no", "yes"]}
    ask = {"target": "y", "workers": 1}
    return {
        "certify": lambda: mb.certify(path),
        "plan": lambda: mb.plan(path, columns=few, security=0.9),
        "harden": lambda: mb.harden(path, security=0.9, target="y"),
        "population": lambda: mb.population(path, epsilon=8.0),
        "bounds": lambda: mb.bounds(path),
        "protect": lambda: mb.protect(path, target="y", bounds=bounds),
        "protect --scheduler": lambda: on_two_workers(
            lambda client: mb.protect(path, target="y", bounds=bounds, client=client)
        ),
        "protect-half (mean)": lambda: mb.protect_half(
            path, statistic="mean", columns=["n0", "n1"]
        ),
        "audit-learner": lambda: mb.audit_learner(path, **ask, shadows=16),
        "study": lambda: mb.study(path, **ask, bounds=bounds),
        "study --quick": lambda: mb.study(path, **ask, bounds=bounds, quick=True),
    }


# ── Tables that are read in parts ─────────────────────────────────────────────────────────────────

#: Rows of a block that is written, columns of numbers, whole numbers and categories.
BLOCK, NUMBERS, WHOLES, CATEGORIES = 500_000, 9, 4, 6
MEMORY = "1GB"
GROUPS = Path("/sys/fs/cgroup/memory")


def write_stored(rows: int, path: Path) -> None:
    """A table of 20 columns, block by block, as Parquet or CSV."""
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    writer = None
    for start in range(0, rows, BLOCK):
        values = list(range(3, 3 + CATEGORIES))
        frame = draw(min(BLOCK, rows - start), NUMBERS, WHOLES, values, seed=start)
        block = pa.Table.from_pandas(frame)
        if writer is None:
            kind = pc.CSVWriter if path.suffix == ".csv" else pq.ParquetWriter
            writer = kind(path, block.schema)
        writer.write_table(block)
    if writer is not None:
        writer.close()


def calls_on_stored(path: Path) -> dict[str, Callable[[], object]]:
    """Return the calls on tables that are read in parts."""
    import memberbound as mb

    numbers = {f"n{i}": [-5, 5] for i in range(NUMBERS)}
    bounds = numbers | {f"w{i}": [0, 50] for i in range(WHOLES)} | {"y": ["no", "yes"]}
    bounds |= {f"c{i}": [f"v{v}" for v in range(3 + i)] for i in range(CATEGORIES)}
    model = {"target": "y", "bounds": bounds, "memory": MEMORY}
    return {
        "protect, logistic": lambda: mb.protect(path, **model),
        "protect, boosting": lambda: mb.protect(path, learner="boosting", **model),
        "protect, no bounds": lambda: mb.protect(path, target="y", memory=MEMORY),
        "summarize, covariance": lambda: mb.summarize(
            path, statistic="covariance", columns=list(numbers), bounds=numbers, memory=MEMORY
        ),
        "synthesize": lambda: mb.synthesize(path, rows=10_000, **model),
    }


def sample_memory(verb: str, path: Path, hard: int | None) -> dict[str, float]:
    """Measure one call, in its own process and control group, with its memory in MB."""
    group = GROUPS / f"growth-{os.getpid()}"
    own = []
    if hard is not None:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(hard))
        own = ["--group", str(group)]
    command = [sys.executable, __file__, "--one", verb, str(path), *own]
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    peaks = {"RssAnon": 0.0, "RssFile": 0.0}
    try:
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=os.environ | single, stdout=pipe) as asking:
            while asking.poll() is None:
                with contextlib.suppress(OSError):
                    for line in Path(f"/proc/{asking.pid}/status").read_text().splitlines():
                        name, _, size = line.partition(":")
                        if name in peaks:
                            peaks[name] = max(peaks[name], int(size.split()[0]) * 1024 / 1e6)
                time.sleep(0.1)
            answer = asking.stdout.read() if asking.stdout else b""
    finally:
        if hard is not None:
            group.rmdir()
    if asking.returncode:
        raise SystemExit(f"{verb}, {path.name}: ended with {asking.returncode}")
    return json.loads(answer.splitlines()[-1]) | peaks


def stored_lines(runs: list[dict[str, object]]) -> list[str]:
    """The measurements as a table of Markdown."""
    lines = [
        "| asked | file | million rows | CPU s | s per million | anonymous MB | files MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        millions, spent = float(str(run["rows"])) / 1e6, float(str(run["seconds"]))
        sizes = [f"{float(str(run[name])):.0f}" for name in ("RssAnon", "RssFile")]
        cells = [run["verb"], run["file"], f"{millions:g}", f"{spent:.0f}"]
        lines.append(f"| {' | '.join(map(str, [*cells, f'{spent / millions:.1f}', *sizes]))} |")
    return lines


def measure_stored(sizes: list[int], verbs: list[str], kinds: list[str], hard: int | None) -> list:
    """Every question of every size and kind of file."""
    runs: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        for size, kind in itertools.product(sizes, kinds):
            path = Path(folder) / f"table.{kind}"
            write_stored(size, path)
            for verb in verbs:
                runs.append(
                    {"rows": size, "verb": verb, "file": kind} | sample_memory(verb, path, hard)
                )
                print(stored_lines(runs)[-1], file=sys.stderr, flush=True)
            path.unlink()
    return runs


def on_two_workers(question: Callable[[object], object]) -> object:
    """Call it on a dask cluster of two processes, which end before the seconds are counted."""
    import distributed

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        return question(client)


def seconds() -> float:
    """CPU seconds of this process and of its children that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def measure(verb: str, path: Path) -> dict[str, float]:
    """One question, in a process of its own."""
    command = [sys.executable, __file__, "--one", verb, str(path)]
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(
        command, env=os.environ | single, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{verb}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def one(verb: str, path: Path) -> None:
    question = (calls(path) | calls_on_stored(path))[verb]
    __import__("memberbound.verbs.certify")
    before = seconds()
    question()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds() - before, "mebibytes": peak}))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sizes", default=",".join(map(str, SIZES)))
    options.add_argument("--verbs", help="all unless named; commas between (--stored: semicolons)")
    options.add_argument("--json", type=Path)
    options.add_argument("--million", type=Path, help="only write a CSV of a million rows × 30")
    options.add_argument("--stored", help="rows of tables that are read in parts")
    options.add_argument("--files", default="parquet", help="parquet,csv: of --stored")
    options.add_argument("--hard", help="memory of a control group, such as 2GiB")
    options.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options.add_argument("--group", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.million is not None:
        draw(1_000_000, 20, 0, [8] * 9).to_csv(given.million, index=False)
        return
    if given.one:
        if given.group is not None:
            (given.group / "cgroup.procs").write_text(str(os.getpid()))
        one(given.one[0], Path(given.one[1]))
        return
    if given.stored is not None:
        from memberbound.tables.engine import size_in_bytes

        verbs = list(calls_on_stored(Path())) if given.verbs is None else given.verbs.split(";")
        hard = None if given.hard is None else size_in_bytes(given.hard)
        sizes = [int(text) for text in given.stored.split(",")]
        runs = measure_stored(sizes, verbs, given.files.split(","), hard)
        print(*stored_lines(runs), sep="\n")
        if given.json is not None:
            given.json.write_text(json.dumps(runs, indent=2), "utf-8")
        return
    sizes = [int(text) for text in given.sizes.split(",")]
    verbs = list(calls(Path())) if given.verbs is None else given.verbs.split(",")
    rows = "".join(f"{size:>12}" for size in sizes)
    print(f"{'CPU seconds at … rows':<24}{rows}{'exponent':>10}{'MiB':>8}")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        tables = [made(size, Path(folder)) for size in sizes]
        for verb in verbs:
            each = [measure(verb, path) for path in tables]
            spent = [max(run["seconds"], 1e-3) for run in each]
            slope = math.log(spent[-1] / spent[-2]) / math.log(sizes[-1] / sizes[-2])
            found[verb] = {"seconds": spent, "exponent": slope, "mebibytes": each[-1]["mebibytes"]}
            shown = "".join(f"{value:>12.2f}" for value in spent)
            mark = "PASS" if slope <= LINEAR else "FAIL"
            print(
                f"{verb:<24}{shown}{slope:>10.2f}{each[-1]['mebibytes']:>8.0f}  {mark}", flush=True
            )
    if given.json is not None:
        given.json.write_text(json.dumps({"sizes": sizes, "verbs": found}, indent=2), "utf-8")


if __name__ == "__main__":
    main()
