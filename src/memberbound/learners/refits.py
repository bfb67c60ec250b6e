"""The engine for repeated fits, with recovery from lost workers and a cache.

A caller divides its work into independent pieces: a shadow model, a few subsets of a calibration.
A piece may be computed anywhere, and more than once.  If a worker dies, the scheduler restarts or
the connection drops, missing pieces are resubmitted, and the numbers are the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import math
import os
import pickle
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, Annotated, Any, Generic, TypeVar, cast

import numpy as np

from memberbound.declarations import Option, Progress
from memberbound.errors import InputError, MemberboundError, unwritable
from memberbound.files import make_private_folder, write_atomically
from memberbound.leaves import load_leaf
from memberbound.threads import load_openmp, no_warnings, one_thread

if TYPE_CHECKING:
    from memberbound.tables.records import Records
    from memberbound.tables.spelling import Form
    from memberbound.tables.table import Table

R = TypeVar("R")
Piece = TypeVar("Piece")

# ── The engine ────────────────────────────────────────────────────────────────────────────────────

#: Idle seconds after which a local worker process exits, to free its memory (about a quarter of a
#: gibibyte).
_IDLE = 15
#: Consecutive losses of workers or cluster, without a finished batch, before the run gives up.
_LOSSES = 3
#: Below this many expected seconds, starting worker processes costs more than it saves.
_WORTH_WORKERS = 2.0
#: Number of pieces to time for that estimate.
_TIMED = 3


def refits(
    work: Callable[[Piece], R],
    pieces: Sequence[Piece],
    *,
    workers: int | None = None,
    cluster: Cluster | None = None,
    batches: int | None = None,
    store: FitStore[Any] | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[int, R]]:
    """Yield the index of each piece and ``work(piece)``: cached ones first, then as they finish.

    Pieces run on the ``cluster`` unless ``workers`` is 1, else in this process or in ``workers``
    processes (-1: all cores; None: all cores unless the work is very short).  Each worker gets
    about ``batches`` batches of pieces, or single pieces.  Exceptions of ``work`` propagate.

    Edge cases: if workers die or the cluster is lost, missing pieces are resubmitted; three
    consecutive losses without a finished batch raise MemberboundError.  Work that cannot be pickled
    runs in this process, with a warning.
    """
    stored: dict[int, R] = {} if store is None else store.load(range(len(pieces)))
    left = {index: piece for index, piece in enumerate(pieces) if index not in stored}
    if progress is not None:
        progress(len(stored), len(pieces))
    yield from stored.items()
    used = None if workers == 1 else cluster
    with contextlib.closing(_compute(work, left, workers, used, batches)) as computed:
        for done, (index, fit) in enumerate(computed, len(stored) + 1):
            if store is not None:
                store.save(index, fit)
            if progress is not None:
                progress(done, len(pieces))
            yield index, fit


def _compute(
    work: Callable[[Piece], R],
    left: dict[int, Piece],
    workers: int | None,
    cluster: Cluster | None,
    batches: int | None,
) -> Generator[tuple[int, R]]:
    """Compute the remaining pieces here, in processes or on a cluster."""
    if cluster is None and workers is None:
        workers = yield from _time_first_pieces(work, left)
    import joblib  # imported here because loading a model does not need it

    jobs = joblib.effective_n_jobs(workers) if cluster is None else cluster.workers
    # Decide only once, because a piece that killed its worker would kill this process too.
    alone = cluster is None and (jobs == 1 or len(left) == 1)
    losses = 0
    while left and not alone:
        before = len(left)
        cut = _batches(left, jobs, batches)
        run = _processes(work, cut, jobs) if cluster is None else cluster.run(work, cut)
        try:
            with contextlib.closing(run):
                for results in run:
                    for index in results:
                        del left[index]
                    yield from results.items()
        except pickle.PicklingError:
            warnings.warn(
                "The learner cannot be sent to workers; this process continues alone.", stacklevel=3
            )
            break
        except _LostError as problem:
            losses = 0 if len(left) < before else losses + 1
            if losses == _LOSSES:
                raise MemberboundError(
                    f"{problem} {losses} times before another of {before} fits was finished, "
                    "perhaps out of memory. Use fewer --workers; finished fits in the cache are "
                    "kept."
                ) from problem
            if cluster is not None:
                cluster.reconnect()
    for index, piece in left.items():
        yield index, _run(work, piece)


def _run(work: Callable[[Piece], R], piece: Piece) -> R:
    """Run a piece in this process, in one thread per library, as it would run in a worker.

    OpenMP's threads spin while they wait for each other, which on a busy machine takes many times
    the processor time of the fit.
    """
    load_openmp()
    with one_thread:
        return work(piece)


def _batches(pieces: Mapping[int, Piece], jobs: int, batches: int | None) -> list[dict[int, Piece]]:
    size = 1 if batches is None else max(1, len(pieces) // (batches * jobs))
    items = list(pieces.items())
    return [dict(items[start : start + size]) for start in range(0, len(items), size)]


def _time_first_pieces(
    work: Callable[[Piece], R], left: dict[int, Piece]
) -> Generator[tuple[int, R], None, int]:
    """Run the first pieces here, and return the number of workers that the others justify."""
    seconds = math.inf  # the minimum over pieces, because first calls import modules
    for index in list(left)[:_TIMED]:
        began = time.process_time()  # not stretched by other processes
        result = _run(work, left.pop(index))
        seconds = min(seconds, time.process_time() - began)
        yield index, result
    return 1 if seconds * len(left) < _WORTH_WORKERS else -1


def _itself(work: Callable[[Piece], R]) -> Callable[[Piece], R]:
    return work


def _batch(work: Callable[[Piece], R], batch: Mapping[int, Piece]) -> dict[int, R]:
    return {index: work(piece) for index, piece in batch.items()}


class _LostError(Exception):
    """The workers are gone, for reasons unrelated to their task."""


def _processes(
    work: Callable[[Piece], R], batches: Sequence[Mapping[int, Piece]], workers: int
) -> Generator[dict[int, R]]:
    import joblib

    parallel = joblib.Parallel(
        n_jobs=workers, return_as="generator_unordered", batch_size=1, idle_worker_timeout=_IDLE
    )
    running = parallel(joblib.delayed(_batch)(work, batch) for batch in batches)
    try:
        for results in running:  # noqa: UP028 - "yield from" would close it with a warning
            yield results
    except BrokenProcessPool as problem:
        if "terminated" not in str(problem):
            raise pickle.PicklingError("a task could not be unpickled.") from problem
        raise _LostError("worker processes were killed") from problem
    finally:
        with no_warnings:
            # joblib warns about cancelled tasks; cancelling is intended when the caller stops.
            running.close()


# ── An existing dask cluster, given by its scheduler's address or by a client ─────────────────────

#: The address of a dask scheduler.
Scheduler = Annotated[str, Option("text", metavar="tcp://HOST:PORT", web=False)]
#: Exceptions of a lost connection: dask cancels futures, the socket fails, or the client has no
#: scheduler left.
LOST = (CancelledError, OSError, AttributeError)
#: Seconds to wait for a scheduler, initially and after losing it.
_FIRST, _AGAIN = 10, 60


@dataclass
class Cluster:
    """A dask cluster behind a ``distributed.Client``, which is replaced on a lost connection."""

    client: Any
    address: str

    @property
    def workers(self) -> int:
        """Number of concurrent pieces, at least two."""
        return max(2, int(sum(self.client.ncores().values())))

    def run(
        self, work: Callable[[Piece], R], batches: Sequence[Mapping[int, Piece]]
    ) -> Generator[dict[int, R]]:
        """Yield the results of batches, as they finish."""
        try:
            # Send the work once per worker, not with every batch, and as a task: "scatter" hangs if
            # the connection drops, and is not repeated if its worker dies.
            with no_warnings:  # dask warns of large tasks
                sent = self.client.submit(_itself, work, pure=False)
            futures = [self.client.submit(_batch, sent, batch, pure=False) for batch in batches]
            completed = import_module("distributed").as_completed
            for future in completed(futures, loop=self.client.loop):
                yield future.result()
        except LOST as problem:
            raise _LostError("the cluster was lost") from problem
        except TypeError as problem:
            raise pickle.PicklingError(str(problem)) from problem

    def spread(self, table: Table, forms: Mapping[str, Form], names: list[str]) -> Records:
        """Spread the secret records of an open table over the workers."""
        records: Records = load_leaf("workers").spread_records(self, table, forms, names)
        return records

    def reconnect(self) -> None:
        """Wait until the scheduler responds again."""
        end = time.monotonic() + _AGAIN
        while True:
            try:
                self.client = _client(self.address, 5.0)
                return
            except InputError:
                if time.monotonic() > end:
                    raise MemberboundError(
                        f"the cluster at {self.address} was lost and did not return within "
                        f"{_AGAIN} seconds. Finished fits in the cache are kept; run it again."
                    ) from None
                time.sleep(0.5)


def _client(address: str, seconds: float) -> object:
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise InputError("a cluster needs dask: pip install 'memberbound[dask]'.") from None
    try:
        return distributed.Client(address, timeout=seconds, set_as_default=False)
    except (OSError, ValueError, TypeError) as problem:
        raise InputError(
            "scheduler must be the address of a dask scheduler that answers, such as "
            f"tcp://10.0.0.5:8786, got {address!r} ({type(problem).__name__})."
        ) from None


@contextlib.contextmanager
def connect(scheduler: str | None = None, client: object = None) -> Iterator[Cluster | None]:
    """Connect to a cluster by address or client; yield None without either."""
    if client is None and scheduler is None:
        yield None
        return
    if client is not None and scheduler is not None:
        raise InputError("a cluster must be named by either scheduler or client.")
    if client is not None and not callable(getattr(client, "submit", None)):
        raise InputError(f"client must be a distributed.Client, got {type(client).__name__}.")
    first: Any = client if scheduler is None else _client(scheduler, _FIRST)
    # Keep the address: a disconnected client no longer has it.
    cluster = Cluster(first, str(getattr(getattr(first, "scheduler", None), "address", "")))
    try:
        yield cluster
    finally:
        if cluster.client is not client:
            cluster.client.close()


# ── Finished fits on disk, so that an interrupted run can resume ──────────────────────────────────
# The folder of a run is named by a SHA-256 of all inputs of its fits: the data, the learner with
# its parameters, the seeds, the source files of all classes and functions among these (including
# base classes), and the versions of their packages.  A change in any of them gives a new folder,
# never a stale answer.  Modules that a learner imports are not covered: after a change there, use
# another folder.

#: Environment variable that names the cache folder.
VARIABLE = "MEMBERBOUND_CACHE"


def cache_folder(cache: str | os.PathLike[str] | bool | None) -> str | os.PathLike[str] | None:
    """Return the cache folder: the given one, None, or the default for ``True``.

    The default is ``$MEMBERBOUND_CACHE``, or the platform's cache directory.
    """
    if cache is not True:
        return cache or None
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    if os.name == "nt":
        base = Path(os.environ.get("LOCALAPPDATA", str(Path.home() / "AppData" / "Local")))
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")))
    return base / "memberbound"


@dataclass
class FitStore(Generic[R]):
    """The finished fits of one run, one file each.

    ``kind`` is a dataclass of arrays and texts; fits of other types are not stored.  ``reused``
    and ``damaged`` count the files that :meth:`load` could and could not read.
    """

    folder: Path
    kind: type[R]
    reused: int = 0
    damaged: int = 0

    @classmethod
    def at(cls, root: str | os.PathLike[str], key: str, kind: type[R]) -> FitStore[R]:
        """Open the store of the run with this fingerprint below ``root``, creating its folder."""
        folder = Path(root) / "fits" / key[:32]
        try:
            make_private_folder(folder)
        except (FileExistsError, NotADirectoryError) as problem:
            raise InputError(f"cache must be a folder, got {problem}.") from None
        except OSError as problem:
            raise unwritable(str(folder), problem) from problem
        return cls(folder, kind)

    def path(self, index: int) -> Path:
        """Return the file of a fit."""
        return self.folder / f"fit-{index:06d}.npz"

    def load(self, indices: Iterable[int]) -> dict[int, R]:
        """Load the finished fits at these indices, skipping damaged files."""
        fits: dict[int, R] = {}
        for index in indices:
            if not self.path(index).exists():
                continue
            try:
                with np.load(self.path(index), allow_pickle=False) as stored:
                    fields = {
                        name: array if array.ndim else array.item()
                        for name, array in stored.items()
                    }
                if fields.pop("index") == index:  # otherwise a copy of another file
                    fits[index] = self.kind(**fields)
            except Exception:  # a damaged archive may raise anything
                pass
            self.damaged += index not in fits
        self.reused = len(fits)
        return fits

    def save(self, index: int, fit: object) -> None:
        """Write a fit atomically."""

        def write(draft: Path) -> None:
            with draft.open("wb") as file:
                np.savez(file, index=index, **vars(fit))

        if isinstance(fit, self.kind):
            write_atomically(self.path(index), write, force=True, private=True)


def fingerprint(*parts: object) -> str:
    """Return the SHA-256 of objects and of their classes' code.

    Edge cases: InputError for a learner that cannot be pickled or was defined in an interactive
    session, because changes to it could not be detected.

    Examples:
        >>> fingerprint(np.eye(2), "tree") == fingerprint(np.eye(2), "tree")
        True
        >>> fingerprint(np.eye(2), "tree") == fingerprint(np.eye(2).T[::-1], "tree")
        False
    """
    digest = hashlib.sha256()
    description = _Description(digest)
    try:
        description.dump(parts)
    except MemoryError:
        raise
    except Exception as problem:
        raise InputError(
            f"learner must be picklable to be cached, got {type(problem).__name__}: {problem} "
            "Run without a cache."
        ) from None
    for source in sorted(set().union(*map(_source, description.code))):
        digest.update(hashlib.sha256(source).digest())
    return digest.hexdigest()


class _Description(pickle.Pickler):
    """A pickler that updates a digest and collects the classes and functions of its input.

    A pickle itself contains only their names.
    """

    def __init__(self, digest: hashlib._Hash) -> None:
        def add(buffer: pickle.PickleBuffer) -> None:  # an array's numbers, without a copy
            raw = buffer.raw()
            digest.update(f"{raw.nbytes}:".encode())
            digest.update(raw)

        sink = SimpleNamespace(write=digest.update)
        super().__init__(cast("IO[bytes]", sink), protocol=5, buffer_callback=add)
        self.code: set[type | Callable[..., object]] = set()

    def reducer_override(self, value: object) -> Any:
        """Collect the code of a value and pickle it as usual."""
        if inspect.isroutine(value):
            self.code.add(value)
        else:
            # Inherited code affects a fit as much as the class itself.
            self.code.update(inspect.getmro(value if inspect.isclass(value) else type(value)))
        return NotImplemented


def _source(code: type | Callable[..., object]) -> set[bytes]:
    """Return the source file and package version of a class or function, if any."""
    module = str(getattr(code, "__module__", None) or "")
    package = module.partition(".")[0]
    version = getattr(sys.modules.get(package), "__version__", "")
    sources = {f"{package} {version}".encode()}
    with contextlib.suppress(TypeError, OSError):
        sources.add(Path(inspect.getsourcefile(code) or "").read_bytes())
    if len(sources) == 1 and module == "__main__":
        name = getattr(code, "__name__", code)
        raise InputError(
            f"learner must be defined in a file to be cached, got {name} from a session, whose "
            "changes a cache cannot detect. Move it to a module or run without a cache."
        )
    return sources
