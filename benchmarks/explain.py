"""Benchmark of ``explain`` on DP-SGD, against riskcal and plain dp-accounting, in one run.

Every number is compared with the reference of ``reference.py``, which uses neither of the three.
Claims are printed as PASS or FAIL; the exit code does not depend on them, because speed on a
shared machine is no reason to break a build.

    python benchmarks/explain.py [--full] [--json FILE]

``--full`` waits for what takes minutes: riskcal's calibration to a TPR, its answer at σ = 0.01
(two minutes at most), and four million simulated trainings.
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
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

# One thread for every tool, as in `make`; must be set before numpy is loaded.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
from reference import Dominance, monte_carlo  # noqa: E402

T = TypeVar("T")

SIGMA, RATE, STEPS = 1.0, 0.01, 1000
DELTA = 1e-5
FPRS = (1e-2, 1e-3)
NAMES = ("advantage", "ε(1e-5)", "TPR(1e-2)", "TPR(1e-3)")
TARGET_ADVANTAGE = 0.1
TARGET_TPR, TARGET_FPR = 0.05, 0.01
LITTLE_NOISE = 0.01
#: riskcal's lattice spacings, coarsest first; 1e-4 is its default.
GRIDS = (1e-2, 5e-3, 2e-3, 1e-3, 5e-4, 2e-4, 1e-4)
DEFAULT_GRID = 1e-4


# ---- the three tools ----------------------------------------------------------------------


def ours() -> tuple[float, ...]:
    """Everything ``explain`` says, η and MIS included (they need replace-one curves too)."""
    import memberbound
    from memberbound.dp.dpsgd import _profile

    _profile.cache_clear()
    found = memberbound.explain(
        noise_multiplier=SIGMA, sample_rate=RATE, steps=STEPS, delta=DELTA, fpr=FPRS
    )
    found.to_dict()
    assert found.epsilon is not None
    return (found.advantage_upper, found.epsilon, *found.tpr_upper.values())


def ours_add_remove() -> tuple[float, ...]:
    """The four numbers alone, from the add/remove curve."""
    from memberbound.dp.dpsgd import DpSgd, _profile

    _profile.cache_clear()
    curve = DpSgd(SIGMA, RATE, STEPS).curve("add-remove").symmetrised()
    return (curve.advantage, curve.epsilon(DELTA), *(curve.tpr(a) for a in FPRS))


def with_riskcal(grid: float) -> tuple[float, ...]:
    """The four numbers from one distribution: the quickest way riskcal offers."""
    from riskcal import analysis
    from riskcal.accountants import CTDAccountant

    accountant = CTDAccountant()
    accountant.history.append((SIGMA, RATE, STEPS))
    pld = accountant.get_pld(grid_step=grid)
    beta = analysis.get_beta_from_pld(pld, alpha=np.array(sorted(FPRS)))
    tpr = dict(zip(sorted(FPRS), 1 - beta, strict=True))
    return (
        float(analysis.get_advantage_from_pld(pld)),
        float(pld.get_epsilon_for_delta(DELTA)),
        *(float(tpr[a]) for a in FPRS),
    )


def with_dp_accounting(grid: float) -> tuple[float, ...]:
    """dp-accounting as it is; a TPR is the smallest of its lines δ(ε) + e^ε·FPR."""
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    pld = from_gaussian_mechanism(
        SIGMA, sampling_prob=RATE, value_discretization_interval=grid
    ).self_compose(STEPS)
    eps = np.linspace(0.0, 4.0, 2001)
    delta = np.asarray(pld.get_delta_for_epsilon(eps))
    return (
        float(delta[0]),
        float(pld.get_epsilon_for_delta(DELTA)),
        *(float(np.min(delta + np.exp(eps) * a)) for a in FPRS),
    )


def ours_calibrated(kind: str) -> float:
    import memberbound
    from memberbound.dp.dpsgd import _profile

    _profile.cache_clear()
    goal: dict[str, float] = (
        {"target_advantage": TARGET_ADVANTAGE}
        if kind == "advantage"
        else {"target_tpr": TARGET_TPR, "fpr": TARGET_FPR}
    )
    found = memberbound.explain(sample_rate=RATE, steps=STEPS, **goal)
    return float(found.parameters["noise_multiplier"])


def riskcal_calibrated(kind: str, grid: float) -> float:
    from riskcal.calibration import dpsgd

    if kind == "advantage":
        return float(
            dpsgd.find_noise_multiplier_for_advantage(TARGET_ADVANTAGE, RATE, STEPS, grid_step=grid)
        )
    return float(
        dpsgd.find_noise_multiplier_for_err_rates(
            alpha=TARGET_FPR, beta=1 - TARGET_TPR, sample_rate=RATE, num_steps=STEPS, grid_step=grid
        )
    )


def riskcal_little_noise() -> float:
    from riskcal.calibration import dpsgd

    return float(dpsgd.get_advantage_for_dpsgd(LITTLE_NOISE, RATE, STEPS))


#: Jobs that may take minutes, run in a process of their own.
WORKERS: dict[str, Callable[[float], float]] = {
    "advantage": lambda grid: riskcal_calibrated("advantage", grid),
    "tpr": lambda grid: riskcal_calibrated("tpr", grid),
    "little-noise": lambda _: riskcal_little_noise(),
}


# ---- measuring ----------------------------------------------------------------------------


@dataclass
class Row:
    """One tool: its values, their errors relative to the reference, and its time."""

    tool: str
    values: tuple[float, ...]
    errors: tuple[float, ...]
    seconds: float

    @property
    def worst(self) -> float:
        """Largest relative error in absolute value."""
        return max(abs(e) for e in self.errors)

    def below(self, tolerance: float = 1e-9) -> list[str]:
        """Names of the values on the unsafe side of the reference."""
        return [n for n, e in zip(NAMES, self.errors, strict=True) if e < -tolerance]


@dataclass
class Claim:
    """A claim, whether it held in this run, and the figures."""

    holds: bool
    text: str
    figures: str


@dataclass
class Report:
    """Everything of one run."""

    machine: dict[str, object]
    reference: dict[str, tuple[float, float]] = field(default_factory=dict)
    simulation: list[dict[str, object]] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    calibrations: list[dict[str, object]] = field(default_factory=list)
    little_noise: dict[str, object] = field(default_factory=dict)
    imports: dict[str, float] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)


def timed(call: Callable[[], T], repeat: int) -> tuple[float, T]:
    """Median seconds of a warm call, and its result."""
    result = call()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return statistics.median(times), result


def limited(worker: str, grid: float, limit: float) -> dict[str, float | str]:
    """Run one job in a process of its own; ``value`` is missing when it did not finish."""
    command = [sys.executable, __file__, "--worker", worker, "--grid", repr(grid)]
    start = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"seconds": limit, "outcome": f"> {limit:g} s"}
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return {"seconds": time.perf_counter() - start, "outcome": f"failed: {reason[:80]}"}
    return json.loads(done.stdout) | {"outcome": "finished"}


def import_seconds(statement: str, repeat: int = 7) -> float:
    """Median seconds of an import in a fresh interpreter, without the interpreter's own start."""
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(repeat)
    ]
    return statistics.median(float(run.stdout) for run in runs)


# ---- the parts of the report --------------------------------------------------------------


def say(text: str = "") -> None:
    print(text, flush=True)


def heading(text: str) -> None:
    say(f"\n{text}\n{'─' * len(text)}")


def measure_reference(report: Report, runs: int) -> Dominance:
    heading("Reference: contour integral, no lattice")
    pair = Dominance(SIGMA, RATE, STEPS)
    found = (pair.advantage(), pair.epsilon(DELTA), *(pair.tpr(a) for a in FPRS))
    report.reference = dict(zip(NAMES, found, strict=True))
    for name, (value, error) in report.reference.items():
        say(f"  {name:<10} {value:.10f}  ± {error / value:.0e} relative")
    say(f"  simulated: {runs:,} trainings of {STEPS} steps under each law")
    for row in monte_carlo(pair, runs, FPRS, DELTA):
        say(
            f"    {row.name:<24} {row.estimate:.4e} ± {row.standard_error:.0e} (one s.e.), "
            f"{row.deviation:+.1f} s.e. from the reference"
        )
        report.simulation.append(asdict(row) | {"deviation": row.deviation})
    worst = max(abs(float(r["deviation"])) for r in report.simulation)
    report.claims.append(
        Claim(
            worst < 4, "simulation and reference agree within 4 s.e.", f"largest {worst:.1f} s.e."
        )
    )
    return pair


def measure_values(report: Report, repeat: int) -> Row:
    """Time every tool; return riskcal's row of the accuracy memberbound has."""
    heading(f"σ = {SIGMA:g}, q = {RATE:g}, {STEPS} steps, add/remove")
    exact = [value for value, _ in report.reference.values()]

    def row(tool: str, call: Callable[[], tuple[float, ...]], times: int) -> Row:
        seconds, values = timed(call, times)
        errors = tuple(v / e - 1 for v, e in zip(values, exact, strict=True))
        made = Row(tool, values, errors, seconds)
        report.rows.append(made)
        return made

    mine = row("memberbound explain", ours, repeat)
    row("memberbound, add/remove only", ours_add_remove, repeat)
    by_grid = {g: row(f"riskcal, grid {g:g}", lambda g=g: with_riskcal(g), 3) for g in GRIDS}
    row(f"dp-accounting, grid {DEFAULT_GRID:g}", lambda: with_dp_accounting(DEFAULT_GRID), 3)
    say(f"  {'':<30}" + "".join(f"{n:>21}" for n in NAMES) + f"{'seconds':>10}{'ratio':>8}")
    for r in report.rows:
        cells = "".join(f"{v:>12.6f} {e:>+8.0e}" for v, e in zip(r.values, r.errors, strict=True))
        mark = "  unsafe: " + ", ".join(r.below()) if r.below() else ""
        say(f"  {r.tool:<30}{cells}{r.seconds:>10.3f}{r.seconds / mine.seconds:>8.2f}{mark}")
    say("  (value, relative error to the reference; ratio = seconds over memberbound explain's)")

    reported = min(-1e-9, -2 * max(e / v for v, e in report.reference.values()))
    report.claims.append(
        Claim(
            all(e >= reported for e in mine.errors) and mine.worst <= 0.01,
            "explain is never below the reference and within 1 % of it",
            f"relative errors {min(mine.errors):+.1e} to {max(mine.errors):+.1e}",
        )
    )
    accurate = [r for r in by_grid.values() if r.worst <= mine.worst]
    same = min(accurate, key=lambda r: r.seconds) if accurate else by_grid[DEFAULT_GRID]
    note = "" if accurate else " (no grid is as accurate; this is the default)"
    if same.below():
        note += f", unsafe in {', '.join(same.below())}"
    lean = report.rows[1]
    report.claims.append(
        Claim(
            same.seconds >= 3 * mine.seconds,
            "explain is at least 3× faster than riskcal at the same accuracy",
            f"{same.tool}{note}: {same.seconds:.3f} s for {same.worst:.0e}; explain "
            f"{mine.seconds:.3f} s for {mine.worst:.0e}: ratio {same.seconds / mine.seconds:.2f}; "
            f"add/remove only {lean.seconds:.3f} s: ratio {same.seconds / lean.seconds:.2f}",
        )
    )
    default = by_grid[DEFAULT_GRID]
    say(
        f"  riskcal at its default grid: ratio {default.seconds / mine.seconds:.2f}; "
        f"at the accuracy of explain: {same.tool}, ratio {same.seconds / mine.seconds:.2f}"
    )
    return same


def measure_calibration(report: Report, kind: str, same_grid: float, limit: float) -> None:
    if kind == "advantage":
        target, label = TARGET_ADVANTAGE, f"advantage ≤ {TARGET_ADVANTAGE:g}"
    else:
        target, label = TARGET_TPR, f"TPR ≤ {TARGET_TPR:g} at FPR {TARGET_FPR:g}"
    heading(f"Noise for {label} (q = {RATE:g}, {STEPS} steps)")

    def attained(sigma: float) -> float:
        pair = Dominance(sigma, RATE, STEPS)
        return pair.advantage()[0] if kind == "advantage" else pair.tpr(TARGET_FPR)[0]

    def show(tool: str, outcome: str, seconds: float, sigma: float | None) -> bool:
        held, reached = False, None
        verdict = ""
        if sigma is not None:
            reached = attained(sigma)
            held = reached <= target
            verdict = f"σ = {sigma:.6f}, truth there {reached:.6f}: target " + (
                "holds" if held else "MISSED"
            )
        time_text = outcome if sigma is None else f"{seconds:.2f} s"
        say(f"  {tool:<26}{time_text:>10}  {verdict}")
        report.calibrations.append(
            {
                "target": label,
                "tool": tool,
                "outcome": outcome,
                "seconds": seconds,
                "sigma": sigma,
                "attained": reached,
                "holds": held,
            }
        )
        return held

    seconds, sigma = timed(lambda: ours_calibrated(kind), 1)
    held = show("memberbound", "finished", seconds, sigma)
    ratios = {}
    for grid in (same_grid, DEFAULT_GRID):
        theirs = limited("advantage" if kind == "advantage" else "tpr", grid, limit)
        spent = float(theirs["seconds"])
        value = float(theirs["value"]) if "value" in theirs else None
        show(f"riskcal, grid {grid:g}", str(theirs["outcome"]), spent, value)
        ratios[grid] = ("≥ " if value is None else "") + f"{spent / seconds:.1f}"
        if grid == DEFAULT_GRID:
            fast = spent >= 10 * seconds
    report.claims.append(
        Claim(
            held and fast,
            f"noise for {label}: safe, and at least 10× faster than riskcal's default",
            f"ratio {ratios[DEFAULT_GRID]} (riskcal at grid {same_grid:g}: {ratios[same_grid]}); "
            f"target {'holds' if held else 'MISSED'} at our σ",
        )
    )


def measure_little_noise(report: Report, limit: float) -> None:
    heading(f"σ = {LITTLE_NOISE:g}: hardly any noise")

    def answer() -> float:
        import memberbound
        from memberbound.dp.dpsgd import _profile

        _profile.cache_clear()
        return memberbound.explain(
            noise_multiplier=LITTLE_NOISE, sample_rate=RATE, steps=STEPS
        ).advantage_upper

    # Every sampled record is betrayed: TV = 1 - (1-q)^T, up to 1000·Φ(-50).
    exact = -math.expm1(STEPS * math.log1p(-RATE))
    seconds, value = timed(answer, 3)
    say(f"  memberbound  {seconds:.3f} s  advantage ≤ {value:.9f} (exact {exact:.9f})")
    theirs = limited("little-noise", DEFAULT_GRID, limit)
    theirs_text = str(theirs["outcome"])
    if "value" in theirs:
        theirs_text = f"{float(theirs['seconds']):.1f} s, advantage {float(theirs['value']):.9f}"
    say(f"  riskcal      {theirs_text}")
    report.little_noise = {"seconds": seconds, "value": value, "exact": exact, "riskcal": theirs}
    report.claims.append(
        Claim(
            seconds < 1 and exact * (1 - 1e-12) <= value <= 1.01 * exact,
            f"σ = {LITTLE_NOISE:g} is answered at once (below 1 s), soundly",
            f"{seconds:.3f} s; riskcal: {theirs_text}",
        )
    )


def measure_imports(report: Report) -> None:
    heading("Import, fresh interpreter, median of 7")
    statements = {
        "import numpy, scipy.special": "import numpy, scipy.special",
        "import memberbound": "import memberbound",
        "from memberbound import explain": "from memberbound import explain",
        "import riskcal": "import riskcal",
    }
    report.imports = {name: import_seconds(code) for name, code in statements.items()}
    base = report.imports["import numpy, scipy.special"]
    for name, seconds in report.imports.items():
        say(f"  {name:<34}{seconds:.3f} s  ratio {seconds / base:.2f}")
    lazy = report.imports["import memberbound"] / base
    used = report.imports["from memberbound import explain"] / base
    report.claims.append(
        Claim(
            max(lazy, used) <= 1.5,
            "importing memberbound takes at most 1.5× numpy with scipy.special",
            f"import memberbound {lazy:.2f}×, with explain loaded {used:.2f}×",
        )
    )


def machine() -> dict[str, object]:
    return {
        "cores": os.cpu_count(),
        "load_at_start": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "riskcal", "dp-accounting")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="wait for what takes minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--worker", choices=sorted(WORKERS), help=argparse.SUPPRESS)
    parser.add_argument("--grid", type=float, default=DEFAULT_GRID, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        start = time.perf_counter()
        value = WORKERS[options.worker](options.grid)
        print(json.dumps({"value": value, "seconds": time.perf_counter() - start}))
        return

    started = time.perf_counter()
    report = Report(machine())
    say(", ".join(f"{k} {v}" for k, v in report.machine.items()))
    measure_reference(report, 4_000_000 if options.full else 200_000)
    same = measure_values(report, 5)
    same_grid = float(same.tool.rsplit(" ", 1)[1])
    measure_calibration(report, "advantage", same_grid, 60.0)
    measure_calibration(report, "tpr", same_grid, 600.0 if options.full else 60.0)
    measure_little_noise(report, 120.0 if options.full else 30.0)
    measure_imports(report)
    heading("Claims")
    for claim in report.claims:
        say(f"  {'PASS' if claim.holds else 'FAIL'}  {claim.text}\n        {claim.figures}")
    say(f"\n{time.perf_counter() - started:.0f} s in all")
    if options.json:
        options.json.write_text(json.dumps(asdict(report), indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
