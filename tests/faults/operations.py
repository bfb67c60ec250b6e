"""A process in which the k-th file operation, step or checkpoint of a command fails.

``python -m faults.operations SCENARIO,FAULT,FIRST,STEP,MOST …`` runs a command once undisturbed,
then once per k = FIRST, FIRST + STEP, … (at most MOST times), each in a forked child, and checks
what is left: outputs absent or whole, temporary folders empty, stored fits readable, one sentence.
It prints one JSON object per argument.  File operations fail through ``operations.c``, loaded with
LD_PRELOAD, so that writes of DuckDB and Arrow fail too; a checkpoint is a call of a function of
memberbound.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import numpy as np

#: What can be done to file operations: (errno, or -1 for half a write; does it last?).
FILES = {
    "full": (errno.ENOSPC, 1),
    "short": (-1, 1),
    "broken": (errno.EIO, 0),
    "forbidden": (errno.EACCES, 0),
}
#: What can happen at a checkpoint: exit codes that are right then.
CHECKPOINTS = {"memory": {0, 1}, "SIGTERM": {143}, "SIGINT": {130}, "SIGKILL": {-9}}
PROTECT = (
    "protect people.csv --target y --eta 0.3 --game subset --pairs 20 --learner logistic --no-tune "
    "--insecure-seed 1 --workers 1 --out out/model.skops"
)
#: Command → files that it writes.
SCENARIOS = {
    "certify": "certify people.csv --records out/r.csv --json",
    "plan": "plan people.csv --security 0.2",
    "harden": "harden people.csv --security 0.3 --target y --out out/safe.parquet "
    "--recipe out/recipe.json --no-learners",
    "bounds": "bounds people.csv --out out/b.yaml",
    "population": "population numbers.npy --epsilon 5 --clip 3",
    "protect": PROTECT,
    "predict": "predict model.skops people.csv --out out/answers.csv --force",
    "audit": "audit people.csv --target y --learner tree --shadows 8 --workers 1 "
    "--records out/e.csv --cache fits",
    "export": "export report.json --format model-card --out out/card.md",
    "explain": "explain --epsilon 1 --plot out/p.svg",
    "theorems": "theorems A25-T14",
    "study": "study people.csv --target y --learner tree --shadows 8 --workers 1 --out out/study",
}
#: Written anew each time, with the time in them: only whether they can be read is checked.
DATED = (".html", ".json", ".svg")


@dataclass
class Ran:
    """What a forked run left."""

    code: int
    out: str
    err: str
    operations: int
    calls: int
    files: dict[str, bytes] = field(default_factory=dict)
    temporary: list[str] = field(default_factory=list)


def people(folder: Path) -> None:
    """Write the inputs of every scenario."""
    import pandas as pd

    from report import sample

    rng = np.random.default_rng(18)
    rows = 120
    a, b = rng.integers(0, 3, rows), rng.integers(0, 4, rows)
    y = (a + rng.integers(0, 2, rows) > 1).astype(int)
    pd.DataFrame({"a": a, "b": [f"b{i}" for i in b], "y": y}).to_csv(
        folder / "people.csv", index=False
    )
    np.save(folder / "numbers.npy", rng.normal(size=(30, 2)))
    (folder / "report.json").write_text(json.dumps(sample.sample()))


class Harness:
    """A folder with inputs, in which commands are run again and again from the same state."""

    def __init__(self, scenario: str, root: Path) -> None:
        self.arguments = SCENARIOS[scenario].split()
        self.root, self.work = root, root / "watched"
        self.shim = ctypes.CDLL(os.environ["FAULTS"]) if os.environ.get("FAULTS") else None
        self.start = root / "start"
        self.start.mkdir()
        (self.start / "tmp").mkdir()
        (self.start / "out").mkdir()
        people(self.start)
        if scenario == "predict":
            self.fresh()
            made = self.run(arguments=PROTECT.split())
            assert made.code == 0, made.err
            for name in ("model.skops", "model.skops.certificate.json"):
                shutil.copy(self.work / "out" / name, self.start)
            (self.start / "out" / "answers.csv").write_text("old\n")

    def fresh(self) -> None:
        """Put the folder back to its first state."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.start, self.work)

    def run(self, k: int = 0, fault: str = "", arguments: list[str] | None = None) -> Ran:
        """Run the command in a child and return what it left."""
        told = self.root / "told"
        shutil.rmtree(told, ignore_errors=True)
        told.mkdir()
        child = os.fork()
        if child == 0:
            code = 99
            try:
                code = self._child(k, fault, arguments or self.arguments, told)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        count = told / "count"
        operations, calls = json.loads(count.read_text() or "[0, 0]") if count.exists() else (0, 0)
        left = {
            str(path.relative_to(self.work)): path.read_bytes()
            for path in sorted(self.work.rglob("*"))
            if path.is_file() and path.relative_to(self.work).parts[0] in ("out", "fits")
        }
        return Ran(
            os.waitstatus_to_exitcode(status),
            *((told / name).read_text(errors="replace") for name in ("out", "err")),
            operations,
            calls,
            left,
            sorted(path.name for path in (self.work / "tmp").iterdir()),
        )

    def _child(self, k: int, fault: str, arguments: list[str], told: Path) -> int:
        from memberbound.faces import command_line

        os.chdir(self.work)
        os.environ |= {"TMPDIR": str(self.work / "tmp"), "COLUMNS": ""}
        tempfile.tempdir = None
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(told / name, os.O_WRONLY | os.O_CREAT, 0o600), number)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        signal.signal(signal.SIGINT, signal.default_int_handler)
        count = os.open(told / "count", os.O_WRONLY | os.O_CREAT, 0o600)
        watch = Checkpoints(k if fault in CHECKPOINTS else 0, fault)
        if self.shim is not None:
            self.shim.fault_watch(str(self.work).encode())
            error, lasts = FILES.get(fault, (0, 0))
            self.shim.fault_set(ctypes.c_long(k if fault in FILES else 0), error, lasts)
        sys.argv = ["memberbound", *arguments]
        # What is only prepared needs no checkpoints, nor does a fault of files.
        if arguments is self.arguments and fault in CHECKPOINTS:
            sys.setprofile(watch)
        try:
            command_line.main()
            code = 98
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            sys.setprofile(None)
        # As at the end of a process: engines that are still open are closed.
        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        operations = 0 if self.shim is None else self.shim.fault_count()
        os.write(count, json.dumps([operations, watch.calls]).encode())
        return code


class Checkpoints:
    """Counts calls of our functions and lets something happen at the k-th."""

    def __init__(self, k: int, fault: str) -> None:
        self.k, self.fault, self.calls = k, fault, 0

    def __call__(self, frame: FrameType, event: str, given: object) -> None:
        """Called by Python at every call and return."""
        if event != "call" or "/memberbound/" not in frame.f_code.co_filename:
            return
        if "/faces/" in frame.f_code.co_filename or frame.f_code.co_name == "remove_once":
            return  # what reports the fault
        self.calls += 1
        if self.calls == self.k:
            if self.fault == "memory":
                raise MemoryError
            os.kill(os.getpid(), getattr(signal, self.fault))


def problems(ran: Ran, good: Ran, fault: str, old: dict[str, bytes]) -> list[str]:
    """Return what is wrong with what a disturbed run left."""
    found = []
    right = CHECKPOINTS.get(fault, {0, 1})
    if ran.code not in right | ({0} if fault in ("SIGTERM", "SIGINT") else set()):
        found.append(f"exit code {ran.code}")
    lines = [line for line in ran.err.splitlines() if line.startswith("memberbound:")]
    if "Traceback" in ran.err or "unexpected error" in ran.err:
        found.append(f"said {ran.err[-300:]!r}")
    if ran.code not in (0, -9) and len(lines) != 1:
        found.append(f"{len(lines)} sentences: {ran.err[-300:]!r}")
    if ran.temporary and fault != "SIGKILL":
        found.append(f"left {ran.temporary} in the temporary folder")
    return found + _files(ran, good, fault, old)


def _files(ran: Ran, good: Ran, fault: str, old: dict[str, bytes]) -> list[str]:
    found = []
    for name, content in ran.files.items():
        if Path(name).name.startswith(".memberbound-"):
            if fault != "SIGKILL":
                found.append(f"left the draft {name}")
        elif name not in good.files:
            found.append(f"left {name}")
        elif name.endswith(".npz"):
            if len(content) != len(good.files[name]):
                found.append(f"{name} is half written")
        elif content not in (good.files[name], old.get(name)):
            readable = name.endswith(DATED) and content[-40:].strip().endswith((b"}", b">"))
            if not readable:
                found.append(f"{name} is neither the old nor the new file")
    return found


def swept(harness: Harness) -> list[str]:
    """Return what is left after the next start."""
    for path in harness.work.rglob(".memberbound-*"):
        os.utime(path, (0, 0))
    after = harness.run(arguments=["bounds", "people.csv", "--out", "out/next.yaml"])
    drafts = [n for n in after.files if n.startswith("out/.memberbound")]
    return [f"still {name} after the next start" for name in [*after.temporary, *drafts]]


def examined(scenario: str, fault: str, first: int, step: int, most: int) -> dict[str, object]:
    """Run a scenario with one fault after the other."""
    import memberbound.faces.command_line  # noqa: F401  imported once, before the forks

    # Not a TemporaryDirectory: the children would delete it at their end.
    name = tempfile.mkdtemp(prefix="faults-")
    try:
        harness = Harness(scenario, Path(name))
        heavy = "ibis duckdb pyarrow.parquet pandas sklearn.tree sklearn.linear_model matplotlib"
        heavy += " skops.io" if scenario == "predict" else ""
        for module in heavy.split():
            __import__(module)
        harness.fresh()
        old = {"out/answers.csv": b"old\n"}
        good = harness.run(fault=fault)
        assert good.code == 0, good.err
        total = good.operations if fault in FILES else good.calls
        tried, wrong = 0, []
        for k in range(first, total + 1, step):
            if tried == most:
                break
            tried += 1
            harness.fresh()
            ran = harness.run(k, fault)
            bad = problems(ran, good, fault, old)
            bad += swept(harness) if fault == "SIGKILL" else []
            wrong += [f"{scenario}, {fault} at {k} of {total}: {text}" for text in bad]
            if scenario == "audit" and not bad:
                # Finished fits are there for the next run, which gives the same answer.
                again = harness.run(arguments=[*harness.arguments, "--force"])
                lost = {n for n in ran.files if n.endswith(".npz")} - set(again.files)
                if again.code or lost or again.files["out/e.csv"] != good.files["out/e.csv"]:
                    wrong.append(f"audit, {fault} at {k}: the next run differs {again.err[-200:]}")
        return {"total": total, "tried": tried, "wrong": wrong}
    finally:
        shutil.rmtree(name, ignore_errors=True)


def main() -> None:
    """Print what each scenario with one kind of fault leads to; modules are imported once."""
    for asked in sys.argv[1:]:
        scenario, fault, *numbers = asked.split(",")
        first, step, most = map(int, numbers)
        print(json.dumps(examined(scenario, fault, first, step, most)), flush=True)


if __name__ == "__main__":
    main()
