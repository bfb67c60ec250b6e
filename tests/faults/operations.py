"""Commands in which something fails, one thing at a time.

``python -m faults.operations SCENARIO[+BROKEN],FAULT[,FAULT…] …`` imports what a command needs and
then forks once per run.  An undisturbed run counts the file operations below its folder (audit
events of Python) and the calls of our functions; in each further run one of them fails, or a signal
comes there, or files may not grow beyond some bytes (which DuckDB and Arrow meet too).

The remaining files must be right at once (:func:`problems`), and after a kill the next run must
tidy up and give the undisturbed answer (:meth:`Harness.followed`).
"""

from __future__ import annotations

import errno
import hashlib
import importlib
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import numpy as np

from verb_cases import CASES, write_tables

#: Fault → its effect.
ERRORS = {
    "broken": lambda: OSError(errno.EIO, os.strerror(errno.EIO)),
    "forbidden": lambda: PermissionError(errno.EACCES, os.strerror(errno.EACCES)),
    "memory": MemoryError,
}
SIGNALS = {"killed": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT}
FAULTS = ("full", *ERRORS, *SIGNALS)
#: Faults that happen at calls of our functions; the others but "full" happen at file operations.
AT_CALLS = ("memory", "SIGTERM", "SIGINT")
#: Exit codes that are right; a signal may come when everything is done.
CODES = {"killed": {-signal.SIGKILL}, "SIGTERM": {143}, "SIGINT": {130}}
#: Bytes beyond which no file grows.
SIZES = (0, 10, 100, 1000, 10_000)
#: Audit events that change what is on the disk.  If deleting fails, nothing can be tidied: only
#: signals are injected there.
_CHANGES = {"os.rename", "os.link", "os.mkdir", "os.chmod", "os.truncate"}
_DELETES = {"os.remove", "os.rmdir"}
#: Most places at which a fault is tried, evenly spread over all operations or calls.
MOST = 12

HALF = (
    "protect-half numbers.csv --target y --eta 0.3 --pairs 16 --insecure-seed 1 --workers 1 "
    "--out out/model.skops"
)
#: Every verb but `serve`, which has tests of its own: what is added to its call in ``verb_cases``,
#: or a call of its own, and what the next run adds.
SCENARIOS = {
    "certify": ("--records out/r.csv --json --fail-above 1 --junit out/j.xml", "--force"),
    "plan": ("", ""),
    "harden": ("--out out/safe.parquet --recipe out/recipe.json", "--force"),
    "bounds": ("--out out/b.yaml", "--force"),
    "population": ("", ""),
    "protect": ("--out out/model.json", "--force"),
    "summarize": ("--out out/mean.safetensors", "--force"),
    "synthesize": ("--out out/new.csv", "--force"),
    "protect-half": (HALF, "--force"),
    #: Over another release.
    "protect-half again": (f"{HALF} --force", ""),
    "predict": ("predict model.skops numbers.csv --out out/answers.csv --force", ""),
    "audit": ("--records out/r.csv", "--force"),
    "audit-learner": ("--records out/e.csv --cache out/fits", "--force"),
    "audit-table": ("", ""),
    "audit-text": ("--records out/r.csv", "--force"),
    "compare": ("", ""),
    "export": ("export report.json --format model-card --out out/card.md", "--force"),
    "explain": ("--plot out/p.svg", ""),
    "ledger": ("", ""),
    "theorems": ("", ""),
    "reproduce": ("reproduce L24-F1 --trials 1 --out out/figures", ""),
    "study": (
        "study few.csv --target y --learner tree --eta 0.45 --shadows 8 "
        "--workers 1 --out out/study",
        "--resume",
    ),
}
#: Content of a file that differs between runs.
_CLOCK = {"started", "run", "sha256"}
_CERTIFICATE = ".certificate.json"
_RELEASES = (".skops", "model.json", ".safetensors", "new.csv")


@dataclass
class Ran:
    """Leftovers of a run: its files below ``out``, and names in the temporary folder."""

    code: int
    err: str
    files: dict[str, bytes] = field(default_factory=dict)
    temporary: list[str] = field(default_factory=list)


# ── runs ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Disturbance:
    """The plan of one run: no fault, or a fault at one operation or call."""

    folder: Path
    fault: str = ""
    #: The operation, the call, or the bytes at which it happens.
    at: int = -1
    operations: list[str] = field(default_factory=list)
    calls: int = 0

    def start(self) -> None:
        """Begin to count, and let it happen."""
        if self.fault == "full":
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.at, self.at))
        sys.addaudithook(self._operation)
        if not self.fault or self.fault in AT_CALLS:
            sys.setprofile(self._call)

    def _operation(self, event: str, given: tuple[object, ...]) -> None:
        if event == "open":
            writes = isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR)
            event = "os.open" if writes else ""
        if event not in {"os.open", *_CHANGES, *_DELETES}:
            return
        if isinstance(given[0], (str, bytes, os.PathLike)):  # else an open file
            path = Path.cwd() / os.fsdecode(given[0])
            if path.is_relative_to(self.folder):
                self.operations.append(event)
                if self.fault not in AT_CALLS and len(self.operations) == self.at + 1:
                    self._happen()

    def _call(self, frame: FrameType, event: str, given: object) -> None:
        del given
        # Before the guard nothing is done, and after it all is.
        if event == "call" and _OURS in frame.f_code.co_filename and _run_guarded(frame):
            self.calls += 1
            if self.fault and self.calls == self.at + 1:
                self._happen()

    def _happen(self) -> None:
        if self.fault in SIGNALS:
            os.kill(os.getpid(), SIGNALS[self.fault])
        elif self.fault in ERRORS:
            raise ERRORS[self.fault]()


_OURS = f"{os.sep}memberbound{os.sep}"


def _run_guarded(frame: FrameType) -> bool:
    """Return whether a call is below the function that turns what goes wrong into a sentence."""
    if frame.f_code.co_filename.endswith("endings.py"):
        return False
    above = frame.f_back
    while above is not None and above.f_code.co_name != "_run_guarded":
        above = above.f_back
    return above is not None


class Harness:
    """A folder with inputs, in which commands are run again and again from the same state."""

    def __init__(self, scenario: str, root: Path) -> None:
        command, more = SCENARIOS[scenario]
        verb = scenario.split(maxsplit=1)[0]
        whole = command.startswith(verb)
        self.arguments = (command if whole else f"{CASES[verb].arguments} {command}").split()
        self.next = more.split()
        self.root, self.start, self.folder = root, root / "start", root / "run"
        for name in ("start", "start/tmp", "start/out"):
            (root / name).mkdir()
        write_tables(self.start)
        # As many rows as coarser columns take; what a study finds about ε is slow for more.
        few = "".join(f"{row % 3},{min(row % 3, 1)}\n" for row in range(30))
        (self.start / "few.csv").write_text(f"a,y\n{few}")
        if scenario in ("predict", "protect-half again"):
            made = self.run(arguments=HALF.replace("seed 1", "seed 2").split())
            assert made.code == 0, made.err
            folder = self.start if scenario == "predict" else self.start / "out"
            for name in ("model.skops", "model.skops" + _CERTIFICATE):
                shutil.copy(self.folder / "out" / name, folder)
        if scenario == "predict":
            (self.start / "out" / "answers.csv").write_text("old\n")
        self.old = self.left(self.start)[0]
        self.good = self.run()
        assert self.good.code == 0, self.good.err
        # Import the command's modules before the forks that follow.  Nothing is
        # run here, so that no thread is.
        counted = json.loads((root / "counted").read_text())
        self.operations, self.calls = counted["operations"], counted["calls"]
        for name in counted["modules"]:
            with suppress(ImportError):
                importlib.import_module(name)

    @staticmethod
    def left(folder: Path) -> tuple[dict[str, bytes], list[str]]:
        """Return the files below ``out``, and what is in the temporary folder."""
        files = [path for path in sorted((folder / "out").rglob("*")) if path.is_file()]
        temporary = sorted(path.name for path in (folder / "tmp").iterdir())
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}, temporary

    def run(self, fault: str = "", at: int = -1, arguments: list[str] | None = None) -> Ran:
        """Run a command in a child, from the start, and return what it left."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.start, self.folder)
        return self.go_on(arguments or self.arguments, Disturbance(self.folder, fault, at))

    def go_on(self, arguments: list[str], disturbance: Disturbance) -> Ran:
        """Run a command in a child from what is there."""
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            code = 99
            try:
                os.close(reads)
                os.dup2(writes, 2)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
                code = self._child(disturbance, arguments)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        os.close(writes)
        with os.fdopen(reads, errors="replace") as said:
            err = said.read()
        status = os.waitpid(child, 0)[1]
        return Ran(os.waitstatus_to_exitcode(status), err, *self.left(self.folder))

    def _child(self, disturbance: Disturbance, arguments: list[str]) -> int:
        import atexit

        from memberbound.faces import command_line

        os.chdir(self.folder)
        os.environ |= {"TMPDIR": str(self.folder / "tmp"), "COLUMNS": ""}
        tempfile.tempdir = None
        tempfile.gettempdir()  # which Python finds out by writing a word there
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = ["memberbound", *arguments]
        disturbance.start()
        try:
            command_line.main()
            code = 98
        except SystemExit as end:
            code = int(end.code or 0)
        sys.setprofile(None)
        if not disturbance.fault:
            counted = {"operations": disturbance.operations, "calls": disturbance.calls}
            text = json.dumps(counted | {"modules": list(sys.modules)})
            (self.root / "counted").write_text(text)
        # As at the end of a process: engines that are still open are closed.
        with suppress(BaseException):
            atexit._run_exitfuncs()
        return code

    def fault_points(self, fault: str) -> tuple[int, ...] | list[int]:
        """The places of injected faults."""
        if fault == "full":
            return SIZES
        indices = list(range(self.calls))
        if fault not in AT_CALLS:
            events = enumerate(self.operations)
            indices = [at for at, event in events if fault in SIGNALS or event not in _DELETES]
        return indices[:: -(-len(indices) // MOST) or 1]

    def followed(self) -> list[str]:
        """Return the defects after the next run, which starts from the remains."""
        for path in self.folder.rglob("*memberbound-*"):
            os.utime(path, (0, 0))  # a minute later
        again = self.go_on([*self.arguments, *self.next], Disturbance(self.folder))
        if again.code:
            return [f"the next run ends with {again.code}: {again.err[-500:]!r}"]
        drafts = [name for name in again.files if Path(name).name.startswith(".memberbound-")]
        found = [
            f"{name} is still there after the next run" for name in (*again.temporary, *drafts)
        ]
        for name, content in self.good.files.items():
            if name not in again.files or not _same(name, again.files[name], content):
                found.append(f"{name} is another file after the next run")
        return found + _find_uncertified(again.files)


def examine(scenario: str, faults: tuple[str, ...]) -> dict[str, object]:
    """Run a scenario with every fault at every place; return how many, and what was wrong."""
    # Not a TemporaryDirectory: the children would delete it at their end.
    root = Path(tempfile.mkdtemp(prefix="faults-"))
    tried: dict[str, int] = {}
    wrong: dict[str, list[str]] = {}
    try:
        harness = Harness(scenario, root)
        for fault in faults:
            indices = harness.fault_points(fault)
            tried[fault], wrong[fault] = len(indices), []
            for at in indices:
                ran = harness.run(fault, at)
                found = problems(ran, harness.good, fault, harness.old)
                if fault == "killed":
                    found += harness.followed()
                wrong[fault] += [f"{fault} at {at}: {text}" for text in found]
        return {"scenario": scenario, "tried": tried, "wrong": wrong}
    finally:
        shutil.rmtree(root, ignore_errors=True)


# ── allowed remains ───────────────────────────────────────────────────────────────────────────────


def problems(ran: Ran, good: Ran, fault: str, old: dict[str, bytes]) -> list[str]:
    """Return the defects of a disturbed run's files; ``old`` is their earlier content."""
    found = []
    right = CODES.get(fault, {0, 1})
    if ran.code not in right | {0}:
        found.append(f"exit code {ran.code}: {ran.err[-300:]!r}")
    lines = [line for line in ran.err.splitlines() if line.startswith("memberbound:")]
    # Python reports an exception from a discarded generator and continues the run.
    forgotten = ran.code == 0 and ran.err.count("Traceback") == ran.err.count("Exception ignored")
    if ("Traceback" in ran.err and not forgotten) or "unexpected error" in ran.err:
        found.append(f"said {ran.err[-1500:]!r}")
    if fault != "killed" and len(lines) != (ran.code != 0):
        found.append(f"exit code {ran.code} with {len(lines)} sentences: {ran.err[-300:]!r}")
    if ran.temporary and fault != "killed":
        found.append(f"left {ran.temporary} in the temporary folder")
    found += [f"{name} is lost" for name in sorted(old.keys() - ran.files.keys())]
    for name, content in ran.files.items():
        if Path(name).name.startswith(".memberbound-"):
            if fault != "killed":
                found.append(f"left the draft {name}")
        elif name not in good.files and "/fits/" not in name:
            found.append(f"left {name}")
        elif not _whole(name, content, good.files.get(name), old.get(name)):
            found.append(f"{name} is neither the old nor the new file")
    return found + _find_uncertified(ran.files)


def _whole(name: str, content: bytes, new: bytes | None, old: bytes | None) -> bool:
    """Return whether a file is what it was, what it becomes, or whole with another time in it."""
    if content in (new, old):
        return True
    try:
        match Path(name).suffix:
            case ".json":
                json.loads(content)
            case ".npz":
                with np.load(io.BytesIO(content), allow_pickle=False) as stored:
                    [stored[key] for key in stored]
            case ".skops":
                return zipfile.ZipFile(io.BytesIO(content)).testzip() is None
            case ".html" | ".svg" | ".xml":
                return content.rstrip().endswith((b"</html>", b"</svg>", b"</testsuites>"))
            case _:
                return False
    except (ValueError, OSError, zipfile.BadZipFile):
        return False
    return True


def _find_uncertified(files: dict[str, bytes]) -> list[str]:
    """No release is on disk without the certificate that belongs to it.

    Its certificate is beside it or, while that one is new, inside it as the replaced one.
    """
    found = []
    for name, content in files.items():
        if name.endswith(_RELEASES):
            beside = json.loads(files.get(name + _CERTIFICATE, b"{}"))
            known = {page.get("sha256") for page in (beside, beside.get("replaces", {}))}
            if hashlib.sha256(content).hexdigest() not in known:
                found.append(f"{name} is there without its certificate")
    return found


def _same(name: str, content: bytes, good: bytes) -> bool:
    """Return whether two runs wrote the same, but for the time that they took."""
    if name.endswith(".json"):
        return _timeless(json.loads(content)) == _timeless(json.loads(good))
    return name.endswith((".html", ".svg", ".npz", ".skops")) or content == good


def _timeless(value: object) -> object:
    if isinstance(value, dict):
        return {
            k: _timeless(v)
            for k, v in value.items()
            if k not in _CLOCK and not k.endswith("seconds")
        }
    return [_timeless(item) for item in value] if isinstance(value, list) else value


# ── negative controls: SCENARIO+NAME breaks memberbound first, and the faults must show it ────────


def in_place() -> None:
    """Outputs are written where they belong from the beginning."""
    from memberbound import files

    files.write_atomically = lambda path, write, force, **_private: write(path)


def forgotten() -> None:
    """Private folders survive a signal or a killed run."""
    from memberbound import scratch
    from memberbound.faces import command_line

    scratch._delete = lambda *given: None
    command_line.remove_leftovers = lambda folder: None


def unpaired() -> None:
    """A certificate does not contain the one that it replaces."""
    from memberbound.errors import InputError
    from memberbound.release import saving

    def refuse(path: object) -> None:
        raise InputError(f"{path} is not known.")

    saving.check_certificate = refuse


def unguarded() -> None:
    """No message reports what happened."""
    from memberbound.faces import command_line

    command_line._run_guarded = lambda run: run() and 0


def main() -> None:
    """Print the result of each scenario with some kinds of fault."""
    for asked in sys.argv[1:]:
        named, *faults = asked.split(",")
        scenario, _, broken = named.partition("+")
        # Each in a process with only the necessary imports: large processes fork slowly.
        child = os.fork()
        if child == 0:
            code = 1
            try:
                if broken:
                    globals()[broken]()
                print(json.dumps(examine(scenario, tuple(faults) or FAULTS)), flush=True)
                code = 0
            except BaseException:
                traceback.print_exc()
            os._exit(code)
        if os.waitpid(child, 0)[1]:
            sys.exit(1)


if __name__ == "__main__":
    main()
