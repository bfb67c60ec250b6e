"""Commands in which everything that can fail does, one thing at a time.

``python -m faults.operations SCENARIO,DEPTH[,FAULT…] …`` runs a command once undisturbed and once
with stops: before every file operation below its folder (``operations.c``, loaded with LD_PRELOAD,
so that those of DuckDB and Arrow count too), and at calls of functions of memberbound.  There the
process forks once per fault: the child suffers it and runs to its end; its parent looks at what is
left, puts the folder back and goes on.  So a fault costs what comes after it, not a whole run.

A call is known by its stack: the lines of our functions, outermost to innermost.  Every stack is
tried at its first and at its last call, every file operation each time.

What is left must be right at once (:func:`problems`), and a next run from there must tidy up, lose
nothing that was finished, and give the undisturbed answer (:meth:`Harness.followed`).  Runs from
the same files are the same run, so each kind of remainder is followed once.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import gc
import hashlib
import importlib
import io
import json
import os
import re
import resource
import select
import shutil
import signal
import stat
import sys
import tempfile
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import numpy as np

#: What operations.c does for numbers that are no errno.
_HALF, _AFTERWARDS, _HALFWAY = -1, 1000, 2000
#: Fault → how it shows at a file operation: an errno, half a write, or a signal afterwards.
OPERATIONS = {
    "full": (errno.ENOSPC,),
    "short": (_HALF,),
    "broken": (errno.EIO,),
    "forbidden": (errno.EACCES,),
    "killed": (_AFTERWARDS + signal.SIGKILL, _HALFWAY + signal.SIGKILL),
    "SIGTERM": (_AFTERWARDS + signal.SIGTERM,),
    "SIGINT": (_AFTERWARDS + signal.SIGINT,),
}
#: Faults that happen at calls, and at which calls from one stack.  Both signals are raised in the
#: same way, so that they share them; what SIGKILL leaves changes at file operations only.
CALLS = {"memory": ("first", "last"), "SIGTERM": ("first",), "SIGINT": ("last",)}
#: The innermost lines that make a stack; where there are too many stacks (study), a call is known
#: by the line that calls and the function that is called.  Without a line, no call is stopped at.
DEEP, EDGES, FUNCTIONS, NONE = 1000, 2, 1, 0
FAULTS = tuple(dict.fromkeys((*OPERATIONS, *CALLS)))
#: Exit codes that are right; a signal may come when everything is done.
CODES = {"killed": {-signal.SIGKILL}, "SIGTERM": {143}, "SIGINT": {130}}
#: A disk that is full stays full; deleting works on it (where it does not, nothing is tidied).
_LASTING = ("full", "short")
_FREES = (b"unlink", b"rmdir")
#: Seconds after which a run that suffers a fault is taken to hang; those in which this process is
#: suspended do not count, for a run is suspended with it.
_PATIENCE = 120

#: Our functions below the first that is guarded: before it nothing is done, after it all is.
_GUARD = 2
#: Arrow's two pools, of one thread each here; they start again in a fork.
_ARROW = 2

HALF = (
    "protect-half people.csv --target y --eta 0.3 --pairs 16 --learner naive-bayes "
    "--clip 9 --insecure-seed 1 --workers 1 --out out/model.skops"
)
#: Every verb but `serve`, which has tests of its own: its arguments, and those of the next run.
SCENARIOS = {
    "certify": (
        "certify people.csv --records out/r.csv --json --fail-above 1 --junit out/j.xml",
        "--force",
    ),
    "plan": ("plan people.csv --security 0.2", ""),
    "harden": (
        "harden people.csv --security 0.3 --target y --out out/safe.parquet "
        "--recipe out/recipe.json --no-learners",
        "--force",
    ),
    "bounds": ("bounds people.csv --out out/b.yaml", "--force"),
    "population": ("population numbers.npy --epsilon 5 --clip 3", ""),
    "protect": (
        "protect people.csv --target y --eta 0.4 --bounds public.json --insecure-seed 1 "
        "--out out/model.json",
        "--force",
    ),
    "summarize": (
        "summarize people.csv --statistic histogram --columns b --eta 0.4 --bounds public.json "
        "--insecure-seed 1 --out out/counts.safetensors",
        "--force",
    ),
    "synthesize": (
        "synthesize people.csv --eta 0.4 --bounds public.json --insecure-seed 1 --out out/new.csv",
        "--force",
    ),
    "protect-half": (HALF, "--force"),
    #: Over another release.
    "protect-half again": (f"{HALF} --force", ""),
    "predict": ("predict model.skops people.csv --out out/answers.csv --force", ""),
    "audit": ("audit scores.csv --records out/r.csv", "--force"),
    "audit-learner": (
        "audit-learner people.csv --target y --learner tree --shadows 8 --workers 1 "
        "--records out/e.csv --cache out/fits",
        "--force",
    ),
    "audit-table": ("audit-table people.csv --nonmembers others.csv --synthetic people.csv", ""),
    "audit-text": ("audit-text --tokens tokens.csv --records out/r.csv", "--force"),
    "compare": ("compare report.json report.json", ""),
    "export": ("export report.json --format model-card --out out/card.md", "--force"),
    "explain": ("explain --epsilon 1 --plot out/p.svg", ""),
    "ledger": ("ledger out/ledger.json --limit-eta 0.3", ""),
    "theorems": ("theorems A25-T14", ""),
    "reproduce": ("reproduce L24-F1 --trials 1 --out out/figures", ""),
    "study": (
        "study few.csv --target y --learner tree --eta 0.45 --shadows 8 "
        "--workers 1 --out out/study",
        "--resume",
    ),
}
#: What a file holds that differs from run to run.
_CLOCK = {"started", "run", "sha256"}
_CERTIFICATE = ".certificate.json"
_RELEASES = (".skops", "model.json", ".safetensors", "new.csv")
_OWN_NAME = re.compile(r"memberbound-[^/]*")


@dataclass
class Ran:
    """What a run left: its files below ``out``, and names in the temporary folder."""

    code: int
    err: str
    files: dict[str, bytes] = field(default_factory=dict)
    temporary: list[str] = field(default_factory=list)
    out: str = ""


def people(folder: Path) -> None:
    """Write the inputs of every scenario."""
    import pandas as pd

    from report import sample

    rng = np.random.default_rng(18)
    rows = 60
    a, b = rng.integers(0, 3, rows), rng.integers(0, 4, rows)
    y = (a + rng.integers(0, 2, rows) > 1).astype(int)
    pd.DataFrame({"a": a, "b": [f"b{i}" for i in b], "y": y}).to_csv(
        folder / "people.csv", index=False
    )
    others = {"a": rng.integers(0, 3, rows), "b": [f"b{i}" for i in rng.integers(0, 4, rows)]}
    pd.DataFrame(others | {"y": np.arange(rows) % 2}).to_csv(folder / "others.csv", index=False)
    tokens = {"record": np.repeat(np.arange(40), 5), "position": np.tile(np.arange(5), 40)}
    tokens |= {"member": tokens["record"] % 2, "logprob": -rng.exponential(2.0, 200).round(4)}
    pd.DataFrame(tokens).to_csv(folder / "tokens.csv", index=False)
    scores = {"score": np.arange(rows) % 7, "member": np.arange(rows) % 2}
    pd.DataFrame(scores).to_csv(folder / "scores.csv", index=False)
    public = {"a": [0, 2], "b": [f"b{i}" for i in range(4)], "y": {"categories": [0, 1]}}
    (folder / "public.json").write_text(json.dumps(public))
    # As many rows as coarser columns take; what a study finds about ε is slow for more.
    few = np.arange(30) % 3
    pd.DataFrame({"a": few, "y": few.clip(max=1)}).to_csv(folder / "few.csv", index=False)
    np.save(folder / "numbers.npy", rng.normal(size=(30, 2)))
    (folder / "report.json").write_text(json.dumps(sample.sample()))


# ── a folder that can be put back ─────────────────────────────────────────────────────────────────


class Folder:
    """A folder whose state can be kept and restored under a process that has its files open.

    Files keep their inodes (by hard links elsewhere) and open files their positions, which a forked
    child shares; open folders are those that have the name.
    """

    def __init__(self, place: Path, safe: Path) -> None:
        self.place, self.safe = place, safe
        safe.mkdir()
        self._read: dict[tuple[int, int, int], bytes] = {}

    def look(self) -> dict[str, os.stat_result]:
        """Return what is there, folders before what is in them."""
        found: dict[str, os.stat_result] = {}
        waiting = [str(self.place)]
        while waiting:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    about = entry.stat(follow_symlinks=False)
                    found[os.path.relpath(entry.path, self.place)] = about
                    if stat.S_ISDIR(about.st_mode):
                        waiting.append(entry.path)
        return found

    def content(self, name: str, about: os.stat_result) -> bytes:
        """Return what a file holds; read again only when it has changed."""
        key = (about.st_ino, about.st_size, about.st_mtime_ns)
        if key not in self._read:
            self._read[key] = (self.place / name).read_bytes()
        return self._read[key]

    def keep(self) -> dict[str, os.stat_result]:
        """Make sure that the present state can be restored, and return it."""
        state = self.look()
        for name, about in state.items():
            if stat.S_ISREG(about.st_mode):
                self.content(name, about)
                with contextlib.suppress(FileExistsError):
                    os.link(self.place / name, self.safe / str(about.st_ino))
        self._files = {fd: os.lseek(fd, 0, os.SEEK_CUR) for fd, path in self._open(stat.S_ISREG)}
        self._folders = dict(self._open(stat.S_ISDIR))
        return state

    def restore(self, state: dict[str, os.stat_result]) -> None:
        """Put the folder back to a state that was kept."""
        now = self.look()
        for name in sorted(now.keys() - state.keys(), reverse=True):
            path = self.place / name
            path.rmdir() if stat.S_ISDIR(now[name].st_mode) else path.unlink()
        for name, about in state.items():
            path, seen = self.place / name, now.get(name)
            if stat.S_ISDIR(about.st_mode):
                path.mkdir(stat.S_IMODE(about.st_mode), exist_ok=True)
                continue
            if seen is None or seen.st_ino != about.st_ino:
                path.unlink(missing_ok=True)
                os.link(self.safe / str(about.st_ino), path)
                seen = path.lstat()
            if (seen.st_size, seen.st_mtime_ns) != (about.st_size, about.st_mtime_ns):
                with path.open("r+b") as file:
                    file.truncate()
                    file.write(self.content(name, about))
                os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
            if seen.st_mode != about.st_mode:
                path.chmod(stat.S_IMODE(about.st_mode))
        for fd, position in self._files.items():
            os.lseek(fd, position, os.SEEK_SET)
        for fd, path in self._folders.items():
            # Made anew: who is deleting in it goes on there.
            if not os.path.samestat(path.stat(), os.fstat(fd)):
                fresh = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
                os.dup2(fresh, fd, inheritable=False)
                os.close(fresh)

    def _open(self, kind: Callable[[int], bool]) -> Iterator[tuple[int, Path]]:
        for entry in list(Path("/proc/self/fd").iterdir()):
            with contextlib.suppress(OSError):
                path = entry.readlink()
                if path.is_relative_to(self.place) and kind(entry.stat().st_mode):
                    yield int(entry.name), path

    def outputs(self) -> tuple[dict[str, bytes], list[str]]:
        """Return the files below ``out``, and what is in the temporary folder."""
        state = self.look()
        files = {
            name: self.content(name, about)
            for name, about in sorted(state.items())
            if name.startswith("out/") and stat.S_ISREG(about.st_mode)
        }
        return files, sorted(name for name in state if re.fullmatch("tmp/[^/]*", name))


# ── stops ─────────────────────────────────────────────────────────────────────────────────────────


#: The number of an operation, fault, answer, place, and the outputs that were there.
Once = tuple[int, str, int, str, list[str]]


class _Stops:
    """Where a run stops; in the first run they are counted, in the second faults happen there."""

    def __init__(
        self, harness: Harness, faults: tuple[str, ...], depth: int, calls: dict[str, int]
    ) -> None:
        import memberbound

        self.harness, self.faults, self.depth = harness, faults, depth
        self.ours = str(Path(memberbound.__file__).parent)
        #: How often each stack is called in an undisturbed run; nothing while they are counted.
        self.last = calls
        self.seen: Counter[str] = Counter()
        self.operations = 0
        self.suffering = ""
        #: Operations inside the engine, which holds locks that a fork cannot open: each of them
        #: fails in a run of its own, at that number.
        self.deferred: list[Once] = []
        self.once: Once | None = None
        self.results = {
            fault: {"tried": 0, "seconds": 0.0, "wrong": list[str]()} for fault in faults
        }
        #: Kind of remainder → fault and place that led to it first.
        self.remainders: dict[str, str] = {}
        self._called = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(self.operation)

    def start(self) -> None:
        """Stop from now on."""
        self.harness.shim.fault_ask(self._called)
        if self.once is None and self.depth and any(fault in CALLS for fault in self.faults):
            sys.settrace(self.call)

    def end(self) -> None:
        """Stop no more."""
        sys.settrace(None)
        self.harness.shim.fault_ask(None)

    def stack(self, frame: FrameType | None) -> str:
        """Return the lines of our functions, innermost first."""
        lines = []
        start = len(self.ours) + 1
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith(self.ours):
                lines.append(f"{name[start:]}:{frame.f_lineno}")
            frame = frame.f_back
        return " < ".join(lines)

    def call(self, frame: FrameType, event: str, given: object) -> None:
        """Called by Python when a function is."""
        del event, given
        if not frame.f_code.co_filename.startswith(self.ours):
            return
        stack = self.stack(frame)
        if stack.count(" < ") < _GUARD or stack.startswith("faces/endings.py"):
            return
        whole, stack = stack, " < ".join(stack.split(" < ")[: self.depth])
        self.seen[stack] += 1
        if not self.last:
            return
        now = {1: "first", self.last[stack]: "last"}.get(self.seen[stack], "")
        if self.last[stack] == 1:
            now = "first and last"
        for fault in self.faults:
            if any(word in now for word in CALLS.get(fault, ())) and self.forked(
                fault, f"the {now} call of {whole}"
            ):
                if fault == "memory":
                    raise MemoryError
                os.kill(os.getpid(), getattr(signal, fault))

    def operation(self, name: bytes) -> int:
        """Called before every file operation; returns what is to happen to it."""
        self.operations += 1
        if self.once is not None and self.once[0] == self.operations:
            self.harness.shim.fault_ask(None)
            return self.suffered(*self.once[1:3])
        if not self.last:
            return 0
        caller = sys._getframe(1).f_code.co_filename
        inside = caller.endswith("/tables/engine.py") or "/duckdb/" in caller or "/ibis/" in caller
        finished = sorted(self.harness.folder.outputs()[0]) if inside else []
        try:
            place = (
                f"operation {self.operations} ({name.decode()}) at {self.stack(sys._getframe())}"
            )
            for fault in self.faults:
                for answer in OPERATIONS.get(fault, ()):
                    if name in _FREES and answer < _AFTERWARDS:
                        continue
                    # Only writes have halves; half of anything else is the full disk once more.
                    if (answer == _HALF or answer >= _HALFWAY) and name != b"write":
                        continue
                    if inside:
                        self.deferred.append((self.operations, fault, answer, place, finished))
                    elif self.forked(fault, place):
                        return self.suffered(fault, answer)
        except BaseException:  # ctypes would swallow it
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(97)
        return 0

    def suffered(self, fault: str, answer: int) -> int:
        """Let a fault happen, and go on happening if it lasts."""
        if fault in _LASTING:
            self.harness.shim.fault_lasts(errno.ENOSPC)
        return answer

    def forked(self, fault: str, place: str) -> bool:
        """Return True in a child that is to suffer; look at what it left, and return False."""
        from memberbound import files

        folder, shim = self.harness.folder, self.harness.shim
        if len(list(Path("/proc/self/task").iterdir())) > 1 + _ARROW:
            raise RuntimeError(f"a process with threads cannot be forked, at {place}.")
        sys.stdout.flush()
        sys.stderr.flush()
        shim.fault_ask(None)
        before = folder.keep()
        told = self.harness.told("suffered")
        child = os.fork()
        if child == 0:
            sys.settrace(None)
            for number, stream in enumerate(told, 1):
                os.dup2(os.open(stream, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
            self.suffering = fault
            # This child stands for the process that made them.
            files._own_names |= dict.fromkeys(files._own_names, os.getpid())
            return True
        status, used = _ended(child)
        left, temporary = folder.outputs()
        ran = Ran(
            os.waitstatus_to_exitcode(status),
            told[1].read_text(errors="replace"),
            left,
            temporary,
        )
        finished = {name for name, about in before.items() if stat.S_ISREG(about.st_mode)}
        seconds = used.ru_utime + used.ru_stime
        self.looked_at(ran, fault, place, finished, seconds)
        folder.restore(before)
        shim.fault_ask(self._called)
        return False

    def looked_at(
        self,
        ran: Ran,
        fault: str,
        place: str,
        finished: set[str],
        seconds: float,
    ) -> None:
        """Note what is wrong with what a run left, and keep it if there was nothing like it."""
        folder, good = self.harness.folder, self.harness.good
        found = self.results[fault]
        found["tried"] += 1
        found["seconds"] += seconds
        # A certificate is finished with what it certifies.
        early = {
            name
            for name in finished
            if name.endswith(_CERTIFICATE) and name.removesuffix(_CERTIFICATE) not in finished
        }
        bad = problems(ran, good, fault, self.harness.old, (finished - early) & good.files.keys())
        found["wrong"] += [f"{fault} at {place}: {text}" for text in bad]
        kind = _kind(folder.look())
        if kind not in self.remainders:
            number = len(self.remainders)
            self.remainders[kind] = f"{fault} at {place}"
            shutil.copytree(folder.place, self.harness.root / "remainders" / str(number))


def _ended(child: int, *, patient: bool = False) -> tuple[int, resource.struct_rusage]:
    """Wait for a child and return its status and what it used; one that hangs gets SIGALRM."""
    ended = os.pidfd_open(child)
    waited = 0
    # Seconds that are counted, not read from a clock.
    while not select.select([ended], [], [], 1)[0]:
        waited += not patient
        if waited == _PATIENCE:
            os.kill(child, signal.SIGALRM)
    os.close(ended)
    _, status, used = os.wait4(child, 0)
    return status, used


def _kind(state: dict[str, os.stat_result]) -> str:
    """Return what tells remainders apart: the names, and whether the private ones are empty."""
    names = [
        _OWN_NAME.sub("own", name) + ("" if about.st_size or "own" not in name else " (empty)")
        for name, about in state.items()
    ]
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()


# ── what may be left ──────────────────────────────────────────────────────────────────────────────


def problems(
    ran: Ran, good: Ran, fault: str, old: dict[str, bytes], finished: set[str]
) -> list[str]:
    """Return what is wrong with what a disturbed run left.

    ``old`` is what files held before the run, ``finished`` what outputs the fault has met.
    """
    found = []
    right = CODES.get(fault, {0, 1})
    if ran.code not in right | {0}:
        found.append(f"exit code {ran.code}: {ran.err[-300:]!r}")
    lines = [line for line in ran.err.splitlines() if line.startswith("memberbound:")]
    # What is raised while a generator is thrown away Python reports and forgets; the run goes on.
    forgotten = ran.code == 0 and ran.err.count("Traceback") == ran.err.count("Exception ignored")
    if ("Traceback" in ran.err and not forgotten) or "unexpected error" in ran.err:
        found.append(f"said {ran.err[-1500:]!r}")
    if fault != "killed" and len(lines) != (ran.code != 0):
        found.append(f"exit code {ran.code} with {len(lines)} sentences: {ran.err[-300:]!r}")
    if ran.temporary and fault != "killed":
        found.append(f"left {ran.temporary} in the temporary folder")
    found += [f"{name} is lost" for name in sorted(finished - ran.files.keys())]
    for name, content in ran.files.items():
        if Path(name).name.startswith(".memberbound-"):
            if fault != "killed":
                found.append(f"left the draft {name}")
        elif name not in good.files and "/fits/" not in name:
            found.append(f"left {name}")
        elif not _whole(name, content, good.files.get(name), old.get(name)):
            found.append(f"{name} is neither the old nor the new file")
    return found + _uncertified(ran.files)


def _whole(name: str, content: bytes, new: bytes | None, old: bytes | None) -> bool:
    """Whether a file is what it was, what it becomes, or whole with another time in it."""
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


def _uncertified(files: dict[str, bytes]) -> list[str]:
    """No release lies about without the certificate that belongs to it.

    It is the one beside it or, while that is new, the one that it replaces.
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
    """Whether two runs wrote the same, but for the time that they took."""
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


# ── runs ──────────────────────────────────────────────────────────────────────────────────────────


class Harness:
    """A folder with inputs, in which commands are run again and again from the same state."""

    def __init__(self, scenario: str, root: Path) -> None:
        command, more = SCENARIOS[scenario]
        self.arguments, self.next = command.split(), more.split()
        self.root = root
        self.shim = ctypes.CDLL(os.environ["FAULTS"])
        self.start = root / "start"
        self.folder = Folder(root / "watched", root / "safe")
        for name in ("start", "start/tmp", "start/out", "remainders"):
            (root / name).mkdir()
        people(self.start)
        if scenario == "study":
            # Finished but for two steps: what comes after a fault is its price.
            self.fresh(self.start)
            done = self.run()
            assert done.code == 0, done.err
            shutil.copytree(self.folder.place / "out", self.start / "out", dirs_exist_ok=True)
            for name in ("report.html", "report.json", ".steps/certify.json", ".steps/rows.json"):
                (self.start / "out" / "study" / name).unlink()
            self.arguments += self.next
        if scenario in ("predict", "protect-half again"):
            self.fresh(self.start)
            made = self.run(arguments=HALF.replace("seed 1", "seed 2").split())
            assert made.code == 0, made.err
            place = self.start if scenario == "predict" else self.start / "out"
            for name in ("model.skops", "model.skops" + _CERTIFICATE):
                shutil.copy(self.folder.place / "out" / name, place)
        if scenario == "predict":
            (self.start / "out" / "answers.csv").write_text("old\n")
        self.fresh(self.start)
        self.old = self.folder.outputs()[0]
        self.good = self.run()
        assert self.good.code == 0, self.good.err
        # What the command has imported is imported here, before the forks that follow.  Nothing is
        # run here, so that no thread is.
        for name in (self.root / "modules").read_text().split():
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        gc.collect()
        gc.freeze()
        gc.disable()

    def fresh(self, state: Path) -> None:
        """Put the folder into a state."""
        shutil.rmtree(self.folder.place, ignore_errors=True)
        shutil.copytree(state, self.folder.place)

    def told(self, name: str) -> tuple[Path, Path]:
        """Return the files for what a run says."""
        return self.root / f"{name}-out", self.root / f"{name}-err"

    def run(self, stops: _Stops | None = None, arguments: list[str] | None = None) -> Ran:
        """Run the command in a child and return what it left."""
        told = self.told("run")
        child = os.fork()
        if child == 0:
            code = 99
            try:
                for number, stream in enumerate(told, 1):
                    os.dup2(os.open(stream, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
                sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
                code = self._child(stops, arguments or self.arguments)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        # With stops it waits for other runs, each of which is waited for so long.
        status, _ = _ended(child, patient=stops is not None and stops.once is None)
        out, err = (path.read_text(errors="replace") for path in told)
        files, temporary = self.folder.outputs()
        return Ran(os.waitstatus_to_exitcode(status), err, files, temporary, out)

    def _child(self, stops: _Stops | None, arguments: list[str]) -> int:
        from memberbound.faces import command_line

        os.chdir(self.folder.place)
        os.environ |= {"TMPDIR": str(self.folder.place / "tmp"), "COLUMNS": ""}
        tempfile.tempdir = None
        tempfile.gettempdir()  # which Python finds out by writing a word there
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.shim.fault_watch(str(self.folder.place).encode())
        sys.argv = ["memberbound", *arguments]
        if stops is not None:
            stops.start()
        try:
            command_line.main()
            code = 98
        except SystemExit as end:
            code = int(end.code or 0)
        (self.root / "modules").write_text("\n".join(sys.modules))
        if stops is not None and not stops.suffering and stops.once is None:
            stops.end()
            self._report(stops)
        # As at the end of a process: engines that are still open are closed.
        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()
        return code

    def _report(self, stops: _Stops) -> None:
        found = {
            "calls": stops.seen,
            "operations": stops.operations,
            "elsewhere": self.shim.fault_unasked(),
            "results": stops.results,
            "remainders": stops.remainders,
            "deferred": stops.deferred,
        }
        (self.root / "report").write_text(json.dumps(found))

    def stopped(
        self, faults: tuple[str, ...], depth: int, calls: dict[str, int]
    ) -> dict[str, object]:
        """Run the command with stops and return what was found."""
        self.fresh(self.start)
        stops = _Stops(self, faults, depth, calls)
        ran = self.run(stops)
        assert ran.code == 0, (ran.code, ran.err[-3000:])
        found = json.loads((self.root / "report").read_text())
        stops.results, stops.remainders = found["results"], found["remainders"]
        for once in found.pop("deferred"):
            self.fresh(self.start)
            stops.once, before = once, _seconds()
            ran = self.run(stops)
            _, fault, _, place, finished = once
            seconds = _seconds() - before
            stops.looked_at(ran, fault, place, set(finished), seconds)
        return found | {"remainders": list(stops.remainders.values())}

    def followed(self, remainder: Path) -> list[str]:
        """Return what is wrong after the next run, which starts from what was left."""
        self.fresh(remainder)
        for path in self.folder.place.rglob("*memberbound-*"):
            os.utime(path, (0, 0))  # a minute later
        before = self.folder.outputs()[0]
        again = self.run(arguments=[*self.arguments, *self.next])
        if again.code:
            return [f"the next run ends with {again.code}: {again.err[-500:]!r}"]
        found = [f"{name} is still there after the next run" for name in again.temporary]
        drafts = [name for name in again.files if Path(name).name.startswith(".memberbound-")]
        found += [f"{name} is still there after the next run" for name in drafts]
        for name, content in self.good.files.items():
            if name not in again.files or not _same(name, again.files[name], content):
                found.append(f"{name} is another file after the next run")
        # The time of a fit is in its file, so that one that is fitted again is another file.
        for name in before.keys() & again.files.keys():
            if name.endswith(".npz") and before[name] != again.files[name]:
                found.append(f"{name} was finished and is done again")
        return found + _uncertified(again.files)


def examined(scenario: str, depth: int, faults: tuple[str, ...]) -> dict[str, object]:
    """Run a scenario with every fault at every place."""
    # Not a TemporaryDirectory: the children would delete it at their end.
    name = tempfile.mkdtemp(prefix="faults-")
    began = _seconds()
    try:
        harness = Harness(scenario, Path(name))
        counted = harness.stopped(faults, depth, {})
        found = harness.stopped(faults, depth, counted["calls"] or {"": 0})
        # Places that the second run did not come to would go unnoticed.
        assert found["calls"].keys() == counted["calls"].keys()
        assert found["operations"] == counted["operations"]
        remainders = found.pop("remainders")
        wrong = [
            f"after {cause}: {text}"
            for number, cause in enumerate(remainders)
            for text in harness.followed(harness.root / "remainders" / str(number))
        ]
        found["stacks"] = len(found["calls"])
        found["calls"] = sum(found["calls"].values())
        return found | {
            "scenario": scenario,
            "remainders": len(remainders),
            "after": wrong,
            "seconds": round(_seconds() - began, 1),
        }
    finally:
        shutil.rmtree(name, ignore_errors=True)


def _seconds() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


# ── negative controls: SCENARIO+NAME breaks memberbound first, and the faults must show it ────────


def in_place() -> None:
    """Outputs are written where they belong from the beginning."""
    from memberbound import files

    files.written_whole = lambda path, write, force: write(path)


def forgotten() -> None:
    """Nobody deletes private folders that a signal hits, or that a killed run has left."""
    from memberbound import files
    from memberbound.faces import command_line

    files.PrivateFolder.remove = lambda self: None
    files._remove_own.__code__ = (lambda: None).__code__
    command_line.remove_once = lambda: None


def unpaired() -> None:
    """A certificate does not hold the one that it replaces."""
    from memberbound.errors import InputError
    from memberbound.release import saving

    def refused(path: object) -> None:
        raise InputError(f"{path} is not known.")

    saving.verified = refused


def unguarded() -> None:
    """Nobody says what has happened."""
    from memberbound.faces import command_line

    command_line._guarded = lambda run: run() and 0


def _alone() -> None:
    """Keep engines from starting threads, which a fork does not have."""
    import duckdb
    import pyarrow as pa

    # One processor, one thread.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pa.set_io_thread_count(1)
    connect = duckdb.connect

    def connected(
        *given: object, config: dict[str, object] | None = None, **named: object
    ) -> object:
        return connect(*given, config={**(config or {}), "async_threads": 0}, **named)

    duckdb.connect = connected


def main() -> None:
    """Print what each scenario with some kinds of fault leads to."""
    _alone()
    for asked in sys.argv[1:]:
        named, depth, *faults = asked.split(",")
        scenario, _, broken = named.partition("+")
        # Each in a process that has imported what it needs and no more: large ones fork slowly.
        child = os.fork()
        if child == 0:
            code = 1
            try:
                if broken:
                    globals()[broken]()
                print(
                    json.dumps(examined(scenario, int(depth), tuple(faults) or FAULTS)), flush=True
                )
                code = 0
            except BaseException:
                traceback.print_exc()
            os._exit(code)
        if os.waitpid(child, 0)[1]:
            sys.exit(1)


if __name__ == "__main__":
    main()
