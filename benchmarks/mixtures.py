"""Benchmark of exact mixtures: bounds for every record, beside the coupling bound, in one run.

    python benchmarks/mixtures.py [--records 10000] [--quick]

Claims are printed as PASS or FAIL; the exit code does not depend on them.
"""

from __future__ import annotations

import argparse
import os
import time

# One thread, as in `make`; must be set before numpy is loaded.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402

from memberbound.games import SubsetGame  # noqa: E402
from memberbound.subset.mixtures import mixture_bounds  # noqa: E402
from memberbound.subset.profile import NeighbourProfile  # noqa: E402

DELTA = 1e-5


def populations(count: int) -> dict[str, np.ndarray]:
    """Populations with and without resonances and outliers."""
    rng = np.random.default_rng(4)
    return {
        "normal": rng.standard_normal(count),
        "heavy tails (t, 3 df)": rng.standard_t(3, count),
        "whole numbers 0…20": rng.integers(0, 21, count).astype(float),
    }


def main() -> None:
    """Time both bounds and print the worst and the median record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--quick", action="store_true", help="1000 records")
    arguments = parser.parse_args()
    count = 1000 if arguments.quick else arguments.records
    size = count // 2
    game = SubsetGame(count, size)
    for name, records in populations(count).items():
        values, sigma = records / size, 1.0 / size
        start = time.perf_counter()
        exact = mixture_bounds(values, game, sigma=sigma, delta=DELTA)
        seconds = time.perf_counter() - start
        profile = NeighbourProfile.from_vectors(values[:, None])
        epsilon, accuracy = profile.pmp_epsilon(DELTA, sigma), profile.accuracy(0.5, sigma)
        print(f"{name}: N = {count}, σ = one record's spread, {seconds:.1f} s")
        for label, pick in (("worst", np.max), ("median", np.median)):
            print(
                f"  {label:6s} ε {pick(exact.pmp_epsilon):8.4f} (coupled {pick(epsilon):8.4f})"
                f"   success {pick(exact.success):.5f} (coupled {pick(accuracy):.5f})"
            )
        tighter = (exact.success <= accuracy + 1e-8).all()
        print(f"  {'PASS' if tighter else 'FAIL'} never above the coupled success")
        print(f"  {'PASS' if seconds <= 60 else 'FAIL'} all records within a minute")


if __name__ == "__main__":
    main()
