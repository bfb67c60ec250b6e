"""Benchmark of the exponential mechanism's exact enumeration against a plain itertools loop.

The loop visits every subset, computes its probabilities with numpy and adds them to the sums with
and without every record, following definition 7 and L24-P9 literally.  Both are timed in the same
process, alternately, on a small population; the time per subset is compared, ours at N = 26 and 28,
where the loop would take minutes.  The sums of both are compared at the small size.  Claims are
printed as PASS or FAIL; the exit code does not depend on them.

    python benchmarks/exponential.py [--candidates 10] [--loop 16] [--repeats 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from memberbound.subset.enumeration import exact_bounds
from memberbound.subset.exponential import ExponentialMechanism, clip_sensitivity, l2_losses

SIZES = (26, 28)
RATIO = 80.0
EPSILON, RADIUS = 10.0, 10.0


def mechanism(records: int, candidates: int, epsilon: float = EPSILON) -> ExponentialMechanism:
    """L24's first figure: normal records on a line, candidates across the ball."""
    drawn = np.random.default_rng(records).normal(size=(records, 1))
    grid = np.linspace(-RADIUS, RADIUS, candidates)[:, None]
    size = records // 2
    return ExponentialMechanism(
        l2_losses(drawn, grid), size, epsilon, clip_sensitivity(grid, RADIUS, size)
    )


def plain_loop(given: ExponentialMechanism) -> float:
    """ε̃ by visiting the subsets one by one."""
    records, candidates = given.losses.shape
    inside, outside = np.zeros((records, candidates)), np.zeros((records, candidates))
    scores = given.scores
    for chosen in itertools.combinations(range(records), given.size):
        held = np.zeros(records, dtype=bool)
        held[list(chosen)] = True
        total = scores[held].sum(axis=0)
        weight = np.exp(total - total.max())
        chance = weight / weight.sum()
        inside[held] += chance
        outside[~held] += chance
    odds = (records - given.size) / given.size
    return float(np.abs(np.log(inside / outside * odds)).max())


def time_call(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def measure(candidates: int, small: int, repeats: int) -> dict[str, Any]:
    little = mechanism(small, candidates)
    subsets = math.comb(small, little.size)
    exact_bounds(mechanism(8, candidates))
    loops, ours = [], {n: [] for n in SIZES}
    # In turns, so that other work on the machine meets both alike.
    for _ in range(repeats):
        seconds, by_loop = time_call(lambda: plain_loop(little))
        loops.append(seconds / subsets)
        for n, found in ours.items():
            big = mechanism(n, candidates)
            found.append(time_call(lambda big=big: exact_bounds(big))[0])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    per_loop = statistics.median(loops)
    seconds = {n: statistics.median(found) for n, found in ours.items()}
    return {
        "candidates": candidates,
        "loop_records": small,
        "loop_microseconds_per_subset": per_loop * 1e6,
        "seconds": seconds,
        "ratio": {n: per_loop * math.comb(n, n // 2) / s for n, s in seconds.items()},
        "peak_mb": peak / 1e6,
        "difference": abs(by_loop - exact_bounds(little).pmp_epsilon_upper),
    }


def verdict(holds: bool) -> str:
    return "PASS" if holds else "FAIL"


def show(found: dict[str, Any]) -> None:
    loop = found["loop_microseconds_per_subset"]
    print(f"m = {found['candidates']} candidates, ε = {EPSILON:g}")
    print(f"  plain loop, N = {found['loop_records']}: {loop:.2f} µs per subset")
    for n, seconds in found["seconds"].items():
        subsets, ratio = math.comb(n, n // 2), found["ratio"][n]
        print(
            f"  exact_bounds, N = {n}: {seconds:.2f} s for {subsets:,} subsets, "
            f"{seconds / subsets * 1e6:.4f} µs each: {ratio:.0f}×  "
            f"{verdict(ratio >= RATIO)} ≥ {RATIO:.0f}×"
        )
    print(f"  peak memory {found['peak_mb']:.0f} MB  {verdict(found['peak_mb'] < 1074)} < 1 GiB")
    same = found["difference"] <= 1e-10
    print(f"  same ε̃ as the loop to {found['difference']:.1e}  {verdict(same)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--candidates", type=int, default=10)
    parser.add_argument("--loop", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    print(f"Python {platform.python_version()}, numpy {version('numpy')}, ", end="")
    print(f"{cores} cores (load {load:.1f})")
    found = measure(options.candidates, options.loop, options.repeats)
    show(found)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
