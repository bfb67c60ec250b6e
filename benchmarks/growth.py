"""How the time of every verb grows with the rows: CPU seconds at three sizes, and the exponent.

    python benchmarks/growth.py [--sizes 2000,8000,32000] [--verbs certify,audit,…] [--json FILE]
    python benchmarks/growth.py --sizes 500000,1000000 --verbs "protect --memory 150MB"
    python benchmarks/growth.py --million m.csv    # the table for `study` in docs/benchmarks.md

Every question runs in a process of its own with one thread and one worker.  CPU seconds (its
children included) are counted from the call to the answer, so that other work on the machine and
the time to import are left out; memory is the process's own peak.  The exponent is the slope of
log seconds against log rows between the two largest sizes, where fixed costs weigh least: 1 is time
that grows like the data.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame

SIZES = (2_000, 8_000, 32_000)
#: The target beyond which a verb is said not to grow like the data.
LINEAR = 1.2


def drawn(rows: int, numbers: int, wholes: int, values: list[int]) -> DataFrame:
    """Numbers, whole numbers, categories of so many values, and a target that they explain."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    columns: dict[str, object] = {}
    for place in range(numbers):
        columns[f"n{place}"] = rng.normal(size=rows).round(2)
    for place in range(wholes):
        columns[f"w{place}"] = rng.integers(0, 50, rows)
    for place, count in enumerate(values):
        names = np.array([f"v{value}" for value in range(count)])
        columns[f"c{place}"] = names[rng.integers(0, count, rows)]
    score = columns["n0"] + columns["n1"] / 2 + (columns["c0"] == "v1")  # type: ignore[operator]
    columns["y"] = np.where(score + rng.normal(size=rows) > 0, "yes", "no")
    return pd.DataFrame(columns)


def made(rows: int, folder: Path) -> Path:
    """A table of 24 columns."""
    path = folder / f"table-{rows}.parquet"
    drawn(rows, 12, 4, list(range(3, 10))).to_parquet(path, index=False)
    return path


def asked(path: Path) -> dict[str, Callable[[], object]]:
    """Every verb that reads rows, as somebody would ask it; models of a learner are few."""
    import memberbound as mb

    few = ["c0", "c1", "c2", "y"]
    bounds = {f"n{i}": [-5, 5] for i in range(12)} | {f"w{i}": [0, 50] for i in range(4)}
    bounds |= {f"c{i}": [f"v{v}" for v in range(3 + i)] for i in range(7)} | {"y": ["no", "yes"]}
    ask = {"target": "y", "workers": 1}
    return {
        "certify": lambda: mb.certify(path),
        "plan": lambda: mb.plan(path, columns=few, security=0.9),
        "harden": lambda: mb.harden(path, security=0.9, target="y", learners=False),
        "population": lambda: mb.population(path, epsilon=8.0),
        "bounds": lambda: mb.bounds(path),
        "protect": lambda: mb.protect(path, target="y", bounds=bounds),
        "protect --memory 150MB": lambda: mb.protect(
            path, target="y", bounds=bounds, memory="150MB"
        ),
        "protect-half (mean)": lambda: mb.protect_half(
            path, statistic="mean", columns=["n0", "n1"]
        ),
        "audit-learner": lambda: mb.audit_learner(path, **ask, shadows=16),
        "study": lambda: mb.study(path, **ask, bounds=bounds),
        "study --quick": lambda: mb.study(path, **ask, bounds=bounds, quick=True),
    }


def seconds() -> float:
    """CPU seconds of this process and of its children that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def measured(verb: str, path: Path) -> dict[str, float]:
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
    question = asked(path)[verb]
    __import__("memberbound.verbs.certify")
    before = seconds()
    question()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds() - before, "mebibytes": peak}))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sizes", default=",".join(map(str, SIZES)))
    options.add_argument("--verbs", help="all unless named, with commas between")
    options.add_argument("--json", type=Path)
    options.add_argument("--million", type=Path, help="only write a CSV of a million rows × 30")
    options.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.million is not None:
        drawn(1_000_000, 20, 0, [8] * 9).to_csv(given.million, index=False)
        return
    if given.one:
        one(given.one[0], Path(given.one[1]))
        return
    sizes = [int(text) for text in given.sizes.split(",")]
    verbs = list(asked(Path())) if given.verbs is None else given.verbs.split(",")
    rows = "".join(f"{size:>12}" for size in sizes)
    print(f"{'CPU seconds at … rows':<24}{rows}{'exponent':>10}{'MiB':>8}")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        tables = [made(size, Path(folder)) for size in sizes]
        for verb in verbs:
            each = [measured(verb, path) for path in tables]
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
