"""CPU seconds of every verb on an idle machine, on a busy one, and under a quota of half a core.

    python benchmarks/busy.py [--rows 10000] [--verbs "certify,study --quick,…"] [--repeat 1]
                              [--cases idle,busy,quota] [--json FILE]

Every verb runs as users run it: a command without settings of threads.  CPU seconds include its
children.  *busy*: four processes spin beside it.  *quota*: a control group allows half a core.
Threads that spin while they wait for one another raise CPU seconds; the claim is that a verb takes
at most 1.5 times its CPU seconds on an idle machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from growth import draw

#: The ratio to the idle machine above which a verb fails the claim.
MOST = 1.5
_SPINNING, _HALF_A_CORE = 4, (50_000, 100_000)
_GROUPS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))
#: A process whose threads wait for one another by spinning: the claim fails for it.
_TWIN = """
from sklearn.ensemble import HistGradientBoostingClassifier
import numpy as np
x = np.random.default_rng(0).normal(size=(10_000, 20))
HistGradientBoostingClassifier(max_iter=60).fit(x, x[:, 0] > 0)
"""


def write_table(rows: int, folder: Path) -> None:
    """Write a table of 20 columns and its public bounds."""
    frame = draw(rows, 9, 4, [3, 4, 5, 6, 7, 8])
    frame.to_csv(folder / "table.csv", index=False)
    bounds: dict[str, list[object]] = {f"n{k}": [-5, 5] for k in range(9)}
    bounds |= {f"w{k}": [0, 50] for k in range(4)} | {"y": ["no", "yes"]}
    bounds |= {f"c{k}": [f"v{v}" for v in range(3 + k)] for k in range(6)}
    (folder / "bounds.json").write_text(json.dumps(bounds), "utf-8")


def commands() -> dict[str, list[str]]:
    """Return the command of every verb that works on a table, and one without a table."""
    table, public = "table.csv", ["--bounds", "bounds.json"]
    target, noise = ["--target", "y"], ["--eta", "0.05"]
    released = [*target, *public, *noise]
    return {
        "explain": ["explain", "--noise-multiplier", "1", "--sample-rate", "0.01", "--steps", "99"],
        "certify": ["certify", table],
        "harden": ["harden", table, "--security", "0.9", *target, "--out", "safe.csv"],
        "protect": ["protect", table, *released, "--out", "model.skops"],
        "protect boosting": [
            *("protect", table, *released, "--learner", "boosting", "--out", "trees.skops"),
        ],
        "summarize": [
            "summarize",
            table,
            "--statistic",
            "mean",
            "--columns",
            "n0,n1",
            *public,
            *noise,
        ],
        "synthesize": ["synthesize", table, *released, "--out", "new.csv"],
        "audit-learner": ["audit-learner", table, *target, "--shadows", "16"],
        "study --quick": ["study", table, *released, "--quick", "--out", "study"],
    }


@contextlib.contextmanager
def spinning() -> Iterator[None]:
    """Let processes spin."""
    spin = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(spin) for _ in range(_SPINNING)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


@contextlib.contextmanager
def quota() -> Iterator[Path]:
    """Yield a control group that allows half a core."""
    top = next((path for path in _GROUPS if (path / "cgroup.procs").exists()), None)
    if top is None:
        raise SystemExit("quota: no control groups here; use --cases idle,busy")
    group = top / f"busy-{os.getpid()}"
    try:
        group.mkdir()
        limit, period = _HALF_A_CORE
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{limit} {period}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(period))
            (group / "cpu.cfs_quota_us").write_text(str(limit))
    except OSError as problem:
        raise SystemExit(f"quota: {problem.strerror}; use --cases idle,busy") from None
    try:
        yield group
    finally:
        group.rmdir()


def measure(command: list[str], folder: Path, group: Path | None) -> tuple[float, float]:
    """Return the CPU seconds and the seconds of a command, in a control group if one is given."""
    if group is not None:
        inside = f'echo $$ > {group}/cgroup.procs && exec "$0" "$@"'
        command = ["sh", "-c", inside, *command]
    for path in folder.iterdir():
        if path.name not in {"table.csv", "bounds.json"}:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    begun = time.monotonic()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        last = (folder / "log").read_text("utf-8").strip().splitlines()[-1]
        raise SystemExit(f"{' '.join(command[1:])}: {last}")
    return used.ru_utime + used.ru_stime, time.monotonic() - begun


def measure_case(case: str, command: list[str], folder: Path, repeat: int) -> tuple[float, float]:
    """Return the smallest CPU seconds and seconds of some runs on one kind of machine."""
    with contextlib.ExitStack() as stack:
        if case == "busy":
            stack.enter_context(spinning())
        group = stack.enter_context(quota()) if case == "quota" else None
        return min(measure(command, folder, group) for _ in range(repeat))


def main() -> None:
    """Measure every verb in every case and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--verbs", help="all unless named, with commas between them")
    parser.add_argument("--repeat", type=int, default=1, help="runs; the quickest counts")
    parser.add_argument("--cases", default="idle,busy,quota")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cases, known = options.cases.split(","), commands()
    chosen = list(known) if options.verbs is None else options.verbs.split(",")
    tool = str(Path(sys.executable).with_name("memberbound"))
    run = {verb: [tool, *known[verb]] for verb in chosen}
    if options.verbs is None:
        run["free threads (twin)"] = [sys.executable, "-c", _TWIN]
    print(f"| CPU seconds (seconds) | {' | '.join(cases)} | largest ratio | |")
    print("|" + "---|" * (len(cases) + 3))
    found: dict[str, dict[str, tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_table(options.rows, folder)
        for verb, command in run.items():
            found[verb] = {
                case: measure_case(case, command, folder, options.repeat) for case in cases
            }
            spent = [found[verb][case] for case in cases]
            ratio = max(used for used, _ in spent) / spent[0][0]
            shown = " | ".join(f"{used:.1f} ({clock:.0f})" for used, clock in spent)
            verdict = "PASS" if ratio <= MOST else "FAIL"
            print(f"| {verb} | {shown} | {ratio:.2f} | {verdict} |", flush=True)
    if options.json is not None:
        options.json.write_text(
            json.dumps({"rows": options.rows, "verbs": found}, indent=2), "utf-8"
        )


if __name__ == "__main__":
    main()
