"""Benchmark of the sampled certificate of the exponential mechanism (X10).

At N = 20 the certified ε̃ is compared with the exact one (all 184 756 subsets); at N = 4000, m = 32
with the plug-in estimate, which is not a certificate: the same means without allowance for chance,
over the outcomes chosen with probability at least 1/1000.

    python benchmarks/sampled.py [--records 4000] [--candidates 32] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from memberbound.subset.enumeration import exact_bounds
from memberbound.subset.exponential import ExponentialMechanism, l2_losses
from memberbound.subset.sampling import SwapMeans, bounds_from_swaps, default_subsets, swap_means

CONFIDENCE = 0.95
DELTAS = (0.0, 1e-4, 1e-3)
SMALL, LARGE = (0.1, 1.0, 5.0), (0.05, 1.0)
COMMON = 1e-3


def mechanism_of(records: int, candidates: int, epsilon: float) -> ExponentialMechanism:
    rng = np.random.default_rng(1)
    losses = l2_losses(rng.normal(size=(records, 2)), rng.normal(size=(candidates, 2)))
    return ExponentialMechanism.calibrated_to_population(
        losses, size=records // 2, epsilon_population=epsilon, sensitivity=100.0
    )


def plug_in(means: SwapMeans, delta: float) -> float:
    """ε̃ of the sample as if it were the truth (k = N/2): an estimate."""
    common = means.chosen > COMMON
    p, d = means.chosen[common], means.difference[:, common]
    high, low = p + np.abs(d) / 2, p - np.abs(d) / 2
    if delta == 0.0:
        return float(np.log(high / low).max())
    best = 0.0
    for sign in (d > 0, d < 0):
        lower, upper = 0.0, 50.0
        for _ in range(50):
            middle = (lower + upper) / 2
            excess = np.where(sign, np.maximum(high - np.exp(middle) * low, 0), 0).sum(axis=1)
            lower, upper = (lower, middle) if excess.max() <= delta else (middle, upper)
        best = max(best, upper if upper > 1e-12 else 0.0)
    return best


def small(epsilon: float) -> dict[str, Any]:
    mechanism = mechanism_of(20, 6, epsilon)
    exact = exact_bounds(mechanism)
    means = swap_means(mechanism, default_subsets(mechanism))
    found = bounds_from_swaps(mechanism, means, delta=0.0, confidence=CONFIDENCE)
    return {
        "epsilon_population": epsilon,
        "subsets": means.draws,
        "exact": exact.pmp_epsilon_upper,
        "certified": found.pmp_epsilon_upper,
        "certified/exact": found.pmp_epsilon_upper / exact.pmp_epsilon_upper,
        "worst record's ratio": float((found.pmp_epsilon / exact.pmp_epsilon).max()),
    }


def large(records: int, candidates: int, epsilon: float) -> dict[str, Any]:
    mechanism = mechanism_of(records, candidates, epsilon)
    began = time.perf_counter()
    means = swap_means(mechanism, default_subsets(mechanism))
    rows = []
    for delta in DELTAS:
        found = bounds_from_swaps(mechanism, means, delta=delta, confidence=CONFIDENCE)
        guess = plug_in(means, delta)
        rows.append(
            {
                "delta": delta,
                "certified": found.pmp_epsilon_upper,
                "plug-in estimate": guess,
                "certified/plug-in": found.pmp_epsilon_upper / guess if guess else None,
                "success_upper": found.success_upper,
            }
        )
    return {
        "epsilon_population": epsilon,
        "subsets": means.draws,
        "seconds": time.perf_counter() - began,
        "bounds": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=4000)
    parser.add_argument("--candidates", type=int, default=32)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: dict[str, Any] = {"small": [], "large": []}
    for epsilon in SMALL:
        row = small(epsilon)
        results["small"].append(row)
        print("N = 20:", ", ".join(f"{k} {v:.5g}" for k, v in row.items()))
    for epsilon in LARGE:
        row = large(options.records, options.candidates, epsilon)
        results["large"].append(row)
        head = ", ".join(f"{k} {v:.5g}" for k, v in row.items() if k != "bounds")
        print(f"N = {options.records}, m = {options.candidates}: {head}")
        for line in row["bounds"]:
            shown = (f"{k} {'-' if v is None else format(v, '.5g')}" for k, v in line.items())
            print("   ", ", ".join(shown))
    slowest = max(row["seconds"] for row in results["large"])
    print(f"under a minute: {'PASS' if slowest < 60 else 'FAIL'} ({slowest:.1f} s)")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
