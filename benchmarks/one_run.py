"""Lower bounds on ε from one run with canaries: memberbound beside jax-privacy, on the same scores.

    python benchmarks/one_run.py [--canaries 1000] [--mu 1 2 4] [--runs 5]

Scores are those of a Gaussian mechanism: N(μ, 1) for canaries included by a fair coin, N(0, 1) for
the others.  Both tools get them at 95 % and δ = 1e-5.  jax-privacy's ``auditing`` is loaded from
its file, because the package requires jax but the module does not.  Medians over runs.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np

import memberbound
from memberbound.attacks.one_run import audit_one_run
from memberbound.attacks.scores import Scores

DELTA = 1e-5


def peer() -> ModuleType | None:
    """Return jax-privacy's module of audits, where the package is installed."""
    package = importlib.util.find_spec("jax_privacy")
    if package is None or package.origin is None:
        return None
    path = Path(package.origin).with_name("auditing.py")
    spec = importlib.util.spec_from_file_location("jax_privacy_auditing", path)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def methods(module: ModuleType | None) -> dict[str, Callable[[Scores], float]]:
    """Return floors on ε by name; the last of either tool hold for Gaussian mechanisms alone."""

    def gaussian(scores: Scores) -> float:
        mu = audit_one_run(scores, delta=DELTA).mu_lower
        return memberbound.explain(gdp=mu, delta=DELTA).epsilon or 0.0 if mu else 0.0

    found: dict[str, Callable[[Scores], float]] = {
        "memberbound, any mechanism": lambda s: audit_one_run(s, delta=DELTA).epsilon_lower,
        "memberbound, Gaussian": gaussian,
    }
    if module is not None:
        for name, strategy in (
            ("all thresholds", module.Bonferroni()),
            ("split", module.Split(seed=0)),
            ("many splits", module.MultiSplit(num_samples=20, seed=0)),
        ):
            for method, law in (("epsilon_one_run", "any"), ("epsilon_one_run_fdp", "Gaussian")):
                found[f"jax-privacy, {name}, {law}"] = lambda s, m=method, t=strategy: getattr(
                    module.CanaryScoreAuditor(s.members, s.non_members), m
                )(0.05, DELTA, threshold_strategy=t)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--canaries", type=int, default=1000)
    parser.add_argument("--mu", type=float, nargs="+", default=[1.0, 2.0, 4.0])
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    print("| method | " + " | ".join(f"μ = {mu:g}" for mu in arguments.mu) + " | seconds |")
    print("|---" * (len(arguments.mu) + 2) + "|")
    for name, method in methods(peer()).items():
        cells, start = [], time.process_time()
        for mu in arguments.mu:
            floors = []
            for seed in range(arguments.runs):
                rng = np.random.default_rng([seed, arguments.canaries])
                member = rng.random(arguments.canaries) < 0.5
                score = rng.normal(size=arguments.canaries) + mu * member
                floors.append(method(Scores.of(score, member)))
            cells.append(f"{statistics.median(floors):.2f}")
        seconds = (time.process_time() - start) / len(arguments.mu) / arguments.runs
        print(f"| {name} | " + " | ".join(cells) + f" | {seconds:.2f} |", flush=True)


if __name__ == "__main__":
    main()
