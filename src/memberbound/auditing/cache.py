"""Finished fits on disk, so that a killed audit goes on where it stopped.

The folder of a run is named by a SHA-256 over what a fit depends on: the bytes of features and
target, the learner with its parameters, the source files of its classes and of those they inherit
from, the versions of the packages they belong to, the seed, and the code that turns a model into
signals.  A change in any of these is a new folder, never a stale answer.  Modules that a learner
imports are not followed: after a change there, use another folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import pickle
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memberbound._version import __version__
from memberbound.auditing.signals import BoolArray, Signals
from memberbound.errors import InputError
from memberbound.learners import Examples

__all__ = ["FitCache", "default_cache", "fingerprint"]

#: Environment variable that names the cache folder.
VARIABLE = "MEMBERBOUND_CACHE"


def default_cache() -> Path:
    """Return the folder for caches: ``$MEMBERBOUND_CACHE``, or the platform's own place."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen)
    if os.name == "nt":
        base = Path(os.environ.get("LOCALAPPDATA", str(Path.home() / "AppData" / "Local")))
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")))
    return base / "memberbound"


def fingerprint(examples: Examples, learner: Any, *, seed: int, copies: int = 0) -> str:
    """Return the SHA-256 that names a run.

    Edge cases: a learner that cannot be pickled, or that was defined in an interactive session, has
    no description that would notice a change, so caching it is refused.
    """
    digest = hashlib.sha256()

    def add(label: str, content: bytes) -> None:
        # Lengths keep two different splits of the same bytes apart.
        digest.update(f"{label}:{len(content)}:".encode())
        digest.update(content)

    for label, table in (("features", examples.features), ("target", examples.target)):
        array = np.ascontiguousarray(table)
        add(label, f"{array.dtype.str}{array.shape}".encode())
        add(label, array.tobytes())
    add("task", examples.task.encode())
    try:
        add("learner", pickle.dumps(learner, protocol=4))
    except Exception as problem:
        raise InputError(
            f"learner must be picklable to be cached, got {type(learner).__name__} ({problem}). "
            "Run without a cache."
        ) from None
    for source in _sources(learner):
        add("source", source)
    add("seed", f"{seed},{copies}".encode())
    add("code", _code_version())
    return digest.hexdigest()


def _sources(learner: Any) -> list[bytes]:
    """Return sources and versions of the learner and its parts: pickles hold only their names."""
    get = getattr(learner, "get_params", None)
    parts = [learner, *(get(deep=True).values() if callable(get) else ())]
    sources: set[bytes] = set()
    for part in parts:
        owner = part if inspect.isroutine(part) or inspect.isclass(part) else type(part)
        # What a class inherits is as much a part of a fit as what it says itself.
        for code in inspect.getmro(owner) if inspect.isclass(owner) else (owner,):
            sources |= _source(code)
    return sorted(sources)


def _source(code: Any) -> set[bytes]:
    """Return the file and the package version of a class or function, where it has them."""
    module = str(getattr(code, "__module__", None) or "")
    package = module.partition(".")[0]
    version = getattr(sys.modules.get(package), "__version__", "")
    found = {f"{package} {version}".encode()}
    with contextlib.suppress(TypeError, OSError):
        found.add(Path(inspect.getsourcefile(code) or "").read_bytes())
    if len(found) == 1 and module == "__main__":
        raise InputError(
            f"learner must be defined in a file to be cached, got {code.__name__} from a session, "
            "whose changes a cache cannot notice. Move it to a module or run without a cache."
        )
    return found


def _code_version() -> bytes:
    import sklearn

    here = Path(__file__).parent
    code = b"".join((here / f"{name}.py").read_bytes() for name in ("shadows", "signals"))
    versions = f"{__version__},{np.__version__},{sklearn.__version__}"
    return versions.encode() + hashlib.sha256(code).digest()


@dataclass(frozen=True)
class FitCache:
    """The fits of one run, one small file each."""

    folder: Path

    @classmethod
    def at(cls, root: str | os.PathLike[str], key: str) -> FitCache:
        """Return the cache of the run ``key`` below ``root``, making the folder."""
        folder = Path(root) / "shadows" / key[:32]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise InputError(
                f"cache must be a folder that can be written, got {problem}."
            ) from None
        return cls(folder)

    def path(self, model: int) -> Path:
        """Return the file of a model."""
        return self.folder / f"fit-{model:06d}.npz"

    def load(self, model: int, member: BoolArray) -> tuple[Signals, float] | None:
        """Return a stored fit and its seconds, or ``None`` if it is missing or not readable."""
        try:
            with np.load(self.path(model), allow_pickle=False) as stored:
                if not np.array_equal(stored["member"], member):
                    return None
                parts = {k: stored[k] for k in ("gradient", "agreement") if k in stored}
                signals = Signals(stored["logit"], stored["correct"], str(stored["kind"]), **parts)  # type: ignore[arg-type]
                if signals.logit.shape != (1, len(member)):
                    return None
                return signals, float(stored["seconds"])
        except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile):
            return None

    def store(self, model: int, member: BoolArray, signals: Signals, seconds: float) -> None:
        """Write a fit so that a reader sees all of it or nothing."""
        fields: dict[str, Any] = {
            "member": member,
            "logit": signals.logit,
            "correct": signals.correct,
            "kind": np.array(signals.kind),
            "seconds": np.array(seconds),
        }
        if signals.gradient is not None:
            fields["gradient"] = signals.gradient
        if signals.agreement is not None:
            fields["agreement"] = signals.agreement
        handle, name = tempfile.mkstemp(dir=self.folder, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, **fields)
            Path(name).replace(self.path(model))
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
