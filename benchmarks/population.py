"""Benchmarks of the population stage, as ratios measured in one run; one section per engine.

    python benchmarks/population.py [--section NAME …] [--records 30000] [--repeats 3] [--json FILE]

Section ``crowd``: success and ε̃ of N records by X21, against the same bare pass.

Section ``profile``: the neighbour profile of N records in d dimensions against one bare blocked
pass of BLAS squared distances, each in a process of its own with one thread, and against the plain
double loop (per pair, on few records).  Peak memory is the process's own (VmHWM).  Claims are
printed as PASS or FAIL; the exit code does not depend on them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

# One thread for both sides; must be set before numpy is loaded.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402

DIMENSION = 20
DELTA = 1e-5
#: Noise of a mean over half the records, in units of one record's spread.
SIGMA = 4.0
LOOP_RECORDS = 200
RATIO = 15.0
#: Noise on the sum, and the goal, of the crowd bound.
CROWD_SIGMA, CROWD_RATIO = 5.0, 10.0
GIBIBYTE = 1 << 30


def verdict(holds: bool) -> str:
    return "PASS" if holds else "FAIL"


def table(records: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    return rng.normal(size=(records, DIMENSION))


# ---- section "profile": the neighbour profile ---------------------------------------------------


def profile_bare(records: int) -> dict[str, float]:
    """|a|² + |b|² - 2a·b for all pairs, block by block, thrown away."""
    vectors = table(records)
    start, cpu = time.perf_counter(), time.process_time()
    norms = np.einsum("ij,ij->i", vectors, vectors)
    for first in range(0, records, 256):
        part = slice(first, first + 256)
        squared = vectors[part] @ vectors.T
        squared *= -2.0
        squared += norms
        squared += norms[part, None]
    return {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}


def profile_ours(records: int) -> dict[str, float]:
    from memberbound.subset.profile import NeighbourProfile

    vectors = table(records)
    start, cpu = time.perf_counter(), time.process_time()
    profile = NeighbourProfile.from_vectors(vectors)
    found = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    questions: dict[str, Callable[[], object]] = {
        "delta": lambda: profile.delta(1.0, SIGMA),
        "pmp_epsilon": lambda: profile.pmp_epsilon(DELTA, SIGMA),
        "accuracy": lambda: profile.accuracy(0.5, SIGMA),
    }
    for name, ask in questions.items():
        start = time.perf_counter()
        ask()
        found[name] = time.perf_counter() - start
    return found


def profile_loop(records: int) -> dict[str, float]:
    """δ_x(1) of every record by two plain loops over L24-L10's formula."""
    vectors = table(records).tolist()
    start, cpu = time.perf_counter(), time.process_time()
    root = math.sqrt(2)
    worst = 0.0
    for x, a in enumerate(vectors):
        total = 0.0
        for y, b in enumerate(vectors):
            if x != y:
                mu = math.dist(a, b) / SIGMA
                up, down = mu / 2 - 1 / mu, -mu / 2 - 1 / mu
                total += (math.erfc(-up / root) - math.e * math.erfc(-down / root)) / 2
        worst = max(worst, total / (records - 1))
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "cpu": time.process_time() - cpu, "worst": worst}


def profile_section(options: argparse.Namespace) -> dict[str, Any]:
    timed: dict[str, list[dict[str, float]]] = {"profile_ours": [], "profile_bare": []}
    for _ in range(options.repeats):  # alternating, so that other work meets both alike
        for way, found in timed.items():
            found.append(run(way, options.records))
    loop = run("profile_loop", LOOP_RECORDS)

    def median(way: str, field: str) -> float:
        return statistics.median(f[field] for f in timed[way])

    ours, pairs = "profile_ours", options.records * (options.records - 1)
    read_off = median(ours, "seconds") + median(ours, "delta")
    found = {
        "records": options.records,
        "dimension": DIMENSION,
        "seconds": {way: median(way, "seconds") for way in timed},
        "ratio": median(ours, "seconds") / median("profile_bare", "seconds"),
        "ratio_cpu": median(ours, "cpu") / median("profile_bare", "cpu"),
        "peak_bytes": max(f["peak"] for f in timed[ours]),
        "read_offs": {name: median(ours, name) for name in ("delta", "pmp_epsilon", "accuracy")},
        "loop_per_pair": loop["seconds"] / (LOOP_RECORDS * (LOOP_RECORDS - 1)),
        "ours_per_pair": read_off / pairs,
    }
    print(f"\nneighbour profile: {options.records:,} records × {DIMENSION}")
    print(f"  from_vectors     {found['seconds'][ours]:8.2f} s")
    print(f"  bare BLAS pass   {found['seconds']['profile_bare']:8.2f} s")
    print(
        f"  ratio            {found['ratio']:8.2f}    {verdict(found['ratio'] <= RATIO)} ≤ {RATIO}"
    )
    print(f"  … processor      {found['ratio_cpu']:8.2f}")
    peak = found["peak_bytes"]
    print(f"  peak memory      {peak / 1e6:8.0f} MB {verdict(peak < GIBIBYTE)} < 1 GiB")
    for name, seconds in found["read_offs"].items():
        print(f"  {name + ' of all' if name != 'curve' else 'curve of one':16} {seconds:8.2f} s")
    quicker = found["loop_per_pair"] / found["ours_per_pair"]
    print(
        f"  double loop      {found['loop_per_pair'] * 1e9:8.0f} ns a pair ({LOOP_RECORDS} records)"
        f", profile and δ {found['ours_per_pair'] * 1e9:.1f} ns: {quicker:.0f}× faster"
    )
    return found


# ---- section "crowd": every record hidden by the others -----------------------------------------


def crowd_ours(records: int) -> dict[str, float]:
    from memberbound.games import SubsetGame
    from memberbound.subset.crowd import Crowd

    vectors = table(records)
    start, cpu = time.perf_counter(), time.process_time()
    crowd = Crowd.of(vectors, SubsetGame(records, records // 2), CROWD_SIGMA)
    worst = float(crowd.success.max())
    found = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    start = time.perf_counter()
    epsilon = float(crowd.pmp_epsilon(DELTA).max())
    return found | {"epsilon_seconds": time.perf_counter() - start, "worst": worst, "eps": epsilon}


def crowd_section(options: argparse.Namespace) -> dict[str, Any]:
    timed: dict[str, list[dict[str, float]]] = {"crowd_ours": [], "profile_bare": []}
    for _ in range(options.repeats):
        for way, runs in timed.items():
            runs.append(run(way, options.records))

    def median(way: str, field: str) -> float:
        return statistics.median(f[field] for f in timed[way])

    found = {
        "records": options.records,
        "dimension": DIMENSION,
        "seconds": {way: median(way, "seconds") for way in timed},
        "ratio": median("crowd_ours", "seconds") / median("profile_bare", "seconds"),
        "ratio_cpu": median("crowd_ours", "cpu") / median("profile_bare", "cpu"),
        "peak_bytes": max(f["peak"] for f in timed["crowd_ours"]),
        "epsilon_seconds": median("crowd_ours", "epsilon_seconds"),
        "worst": median("crowd_ours", "worst"),
        "epsilon": median("crowd_ours", "eps"),
    }
    peak_bytes = found["peak_bytes"]
    print(f"\nthe crowd: {options.records:,} records × {DIMENSION}, σ = {CROWD_SIGMA} on the sum")
    print(f"  success of all   {found['seconds']['crowd_ours']:8.2f} s, worst {found['worst']:.4f}")
    print(f"  ε̃ of all         {found['epsilon_seconds']:8.2f} s, worst {found['epsilon']:.3f}")
    print(f"  bare BLAS pass   {found['seconds']['profile_bare']:8.2f} s")
    print(
        f"  ratio            {found['ratio']:8.2f}    "
        f"{verdict(found['ratio'] <= CROWD_RATIO)} ≤ {CROWD_RATIO}"
    )
    print(f"  … processor      {found['ratio_cpu']:8.2f}")
    print(f"  peak memory      {peak_bytes / 1e6:8.0f} MB {verdict(peak_bytes < GIBIBYTE)} < 1 GiB")
    return found


# ---- running ------------------------------------------------------------------------------------

#: Engines, each a function of the options that prints and returns its figures.
SECTIONS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "crowd": crowd_section,
    "profile": profile_section,
}
#: Jobs run in a process of their own, by name, on one whole number.
WORKERS: dict[str, Callable[[int], dict[str, float]]] = {
    "crowd_ours": crowd_ours,
    "profile_bare": profile_bare,
    "profile_ours": profile_ours,
    "profile_loop": profile_loop,
}


def peak() -> int:
    """Peak memory of this process, where the system tells."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(way: str, size: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--worker", way, str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--section", nargs="*", choices=sorted(SECTIONS), default=sorted(SECTIONS))
    parser.add_argument("--records", type=int, default=30_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    tools = ", ".join(f"{t} {version(t)}" for t in ("numpy", "scipy"))
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {tools}, {cores} cores (load {load:.1f})")
    results = {name: SECTIONS[name](options) for name in options.section}
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        found = WORKERS[sys.argv[2]](int(sys.argv[3]))
        json.dump({**found, "peak": peak()}, sys.stdout)
    else:
        main()
