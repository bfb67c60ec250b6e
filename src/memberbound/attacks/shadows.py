"""Models trained on random halves, kept in a cache so that a stopped run goes on."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import inspect
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memberbound._version import __version__
from memberbound.attacks.signals import BoolArray, Signals, signals_of
from memberbound.clusters import IDLE, LOST, Client, address_of, connected, reconnected
from memberbound.errors import InputError, MemberboundError, one_of, whole_number
from memberbound.files import unwritable, written_whole
from memberbound.games import SubsetGame
from memberbound.learners import Examples
from memberbound.learners.examples import Learner
from memberbound.numerics.rounding import FloatArray

__all__ = [
    "FailedFit",
    "FitCache",
    "ShadowRun",
    "attacked_records",
    "bytes_of",
    "cache_folder",
    "cacheable",
    "default_cache",
    "draw_half",
    "fingerprint",
    "train_shadows",
]

# ── Finished fits on disk, so that a killed audit goes on where it stopped ────────────────────────
#
# The folder of a run is named by a SHA-256 over what a fit depends on: the bytes of features and
# target, the learner with its parameters, the source files of its classes and of those they inherit
# from, the versions of the packages they belong to, the seed, and the code that turns a model into
# signals.  A change in any of these is a new folder, never a stale answer.  Modules that a learner
# imports are not followed: after a change there, use another folder.

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


def cache_folder(cache: str | os.PathLike[str] | bool | None) -> str | os.PathLike[str] | None:
    """Return the folder that keeps fits: the one named, the default one for ``True``, or none."""
    if isinstance(cache, bool):
        return default_cache() if cache else None
    return cache


def fingerprint(
    examples: Examples,
    learner: Learner,
    *,
    seed: int,
    copies: int = 0,
    records: int | None = None,
    among: BoolArray | None = None,
) -> str:
    """Return the SHA-256 that names a run.

    Edge cases: a learner that cannot be pickled, or that was defined in an interactive session, has
    no description that would notice a change, so caching it is refused.
    """
    digest = hashlib.sha256()

    def add(label: str, content: bytes | memoryview) -> None:
        # Lengths keep two different splits of the same bytes apart.
        digest.update(f"{label}:{len(content)}:".encode())
        digest.update(content)

    for label, table in (("features", examples.features), ("target", examples.target)):
        array = np.ascontiguousarray(table)
        add(label, f"{array.dtype.str}{array.shape}".encode())
        add(label, bytes_of(array))
    add("task", examples.task.encode())
    for label, content in _described(learner):
        add(label, content)
    add("seed", f"{seed},{copies},{records}".encode())
    add("among", b"" if among is None else np.packbits(among).tobytes())
    add("code", _code_version())
    return digest.hexdigest()


def bytes_of(array: NDArray[np.generic]) -> bytes | memoryview:
    """Return the bytes of an array in C order; numbers as they lie in memory, without a copy.

    Examples:
        >>> bytes(bytes_of(np.eye(2))) == np.eye(2).tobytes()
        True
    """
    if array.size and array.flags.c_contiguous and array.dtype.kind in "biuf":
        return array.ravel().data.cast("B")
    return array.tobytes()


def _described(learner: object) -> Iterator[tuple[str, bytes]]:
    try:
        yield "learner", pickle.dumps(learner, protocol=4)
    except MemoryError:
        raise
    except Exception as problem:
        raise InputError(
            f"learner must be picklable to be cached, got {type(learner).__name__} ({problem}). "
            "Run without a cache."
        ) from None
    for source in _sources(learner):
        yield "source", source


def cacheable(learner: object) -> bool:
    """Tell whether fits of a learner can be kept: whether a change of it would be noticed."""
    try:
        return bool(list(_described(learner)))
    except InputError:
        return False


def _sources(learner: object) -> list[bytes]:
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


def _source(code: type | Callable[..., object]) -> set[bytes]:
    """Return the file and the package version of a class or function, where it has them."""
    module = str(getattr(code, "__module__", None) or "")
    package = module.partition(".")[0]
    version = getattr(sys.modules.get(package), "__version__", "")
    found = {f"{package} {version}".encode()}
    with contextlib.suppress(TypeError, OSError):
        found.add(Path(inspect.getsourcefile(code) or "").read_bytes())
    if len(found) == 1 and module == "__main__":
        name = getattr(code, "__name__", code)
        raise InputError(
            f"learner must be defined in a file to be cached, got {name} from a session, whose "
            "changes a cache cannot notice. Move it to a module or run without a cache."
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
        except (FileExistsError, NotADirectoryError) as problem:
            raise InputError(f"cache must be a folder, got {problem}.") from None
        except OSError as problem:
            raise unwritable(str(folder), problem) from problem
        return cls(folder)

    def path(self, model: int) -> Path:
        """Return the file of a model."""
        return self.folder / f"fit-{model:06d}.npz"

    def load(
        self, model: int, member: BoolArray, asked: int | None = None
    ) -> tuple[Signals, float] | None:
        """Return a stored fit and its seconds, or ``None`` if it is missing or damaged.

        ``asked`` is the number of attacked records; all of them unless given.
        """
        try:
            with np.load(self.path(model), allow_pickle=False) as stored:
                if not np.array_equal(stored["member"], member):
                    return None
                parts = {k: stored[k] for k in ("gradient", "agreement") if k in stored}
                signals = Signals(stored["logit"], stored["correct"], str(stored["kind"]), **parts)  # type: ignore[arg-type]
                if signals.logit.shape != (1, len(member) if asked is None else asked):
                    return None
                return signals, float(stored["seconds"])
        except Exception:  # a damaged archive raises whatever its broken part leads to
            return None

    def known(
        self, halves: Iterable[BoolArray], asked: int | None = None
    ) -> dict[int, tuple[Signals, float]]:
        """Return the stored fits by the number of their model."""
        found = ((model, self.load(model, half, asked)) for model, half in enumerate(halves))
        return {model: fit for model, fit in found if fit is not None}

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

        def write(draft: Path) -> None:
            with draft.open("wb") as file:
                np.savez(file, **fields)

        written_whole(self.path(model), write, force=True)


# ── Models on random halves of the population: the raw material of an audit in the subset game ────
#
# Model i is trained on its own uniform half, drawn independently of all others from (seed, i)
# alone. So any model can play the target and the others the attacker's shadows, adding models keeps
# the first ones, and a run that was killed goes on with the fits that are missing.

Progress = Callable[[int, int], None]
#: Smaller populations cannot be halved into something that a learner and an audit can use.
SMALLEST_POPULATION = 20
#: The word of entropy that draws the attacked records.
_SAMPLED = 1
#: Losses of workers or a cluster in a row, without a finished fit, before the run gives up.
_IDLE = 3
#: Parameters by which a learner is given its coins; models must not share them.
_SEEDS = ("random_state", "seed", "random_seed")


@dataclass(frozen=True)
class FailedFit:
    """A fit that gave no model: which one, the learner's seed, and what it said."""

    model: int
    seed: int
    message: str


@dataclass(frozen=True, eq=False)
class ShadowRun:
    """Trained models by what they say about every record; row i belongs to one model.

    Attributes:
        membership: (S, M) truth values: was record x in model i's half?
        signals: what the models say, row by row.
        models: the number of each row's model; failed ones are missing.
        failures: fits that failed, with the reason.
        timings: seconds of each fit, predictions included.
        examples: the M records that are attacked.
        reused: how many rows came from the cache.
        warnings: what a reader of the audit has to know.
        sample: the rows of the population that are attacked, where that is not all of it.
        population: its N records, of which each model was trained on half.
    """

    membership: BoolArray
    signals: Signals
    models: tuple[int, ...]
    failures: tuple[FailedFit, ...]
    timings: FloatArray
    examples: Examples
    reused: int = 0
    warnings: tuple[str, ...] = ()
    sample: NDArray[np.intp] | None = None
    population: int | None = None

    @property
    def game(self) -> SubsetGame:
        """The subset game these models play, about a uniform one of the attacked records."""
        rows = self.examples.rows if self.population is None else self.population
        return SubsetGame(population=rows, size=rows // 2, record="average")


def draw_half(
    rows: int, seed: int, model: int, among: BoolArray | None = None
) -> tuple[BoolArray, int]:
    """Return the half of model ``model`` and a seed for its learner, from (seed, model) alone.

    With ``among`` only these rows can be drawn, and three quarters of them are: such models attack
    the other rows, which none of them has seen, so more than a half costs nothing.

    Examples:
        >>> half, _ = draw_half(10, seed=0, model=3)
        >>> int(half.sum())
        5
    """
    rng = np.random.default_rng([seed, model])
    member = np.zeros(rows, dtype=np.bool_)
    if among is None:
        member[rng.permutation(rows)[: rows // 2]] = True
    else:
        can = np.flatnonzero(among)
        member[rng.permutation(can)[: max(1, 3 * can.size // 4)]] = True
    return member, int(rng.integers(2**31 - 1))


def attacked_records(rows: int, most: int | None, seed: int) -> NDArray[np.intp] | None:
    """Return which records are attacked: a uniform sample, ``None`` where all of them are.

    It is drawn apart from the halves, so that each half is uniform whatever the sample is.

    Examples:
        >>> attacked_records(10, 20, seed=0) is None, attacked_records(10, 4, seed=0).size
        (True, 4)
    """
    if most is None or rows <= most:
        return None
    # Three words of entropy, where a half takes two: never the stream of a half.
    draws = np.random.default_rng([seed, most, _SAMPLED])
    return np.sort(draws.permutation(rows)[:most])


def train_shadows(
    examples: Examples,
    learner: Learner,
    *,
    models: int = 64,
    seed: int = 0,
    n_jobs: int = -1,
    backend: str = "processes",
    client: Client | None = None,
    cache: str | os.PathLike[str] | None = None,
    copies: int = 0,
    records: int | None = None,
    among: BoolArray | None = None,
    progress: Progress | None = None,
) -> ShadowRun:
    """Train ``models`` copies of a learner on independent uniform halves of the population.

    Args:
        examples: the population.
        learner: an unfitted estimator; it is cloned, and every parameter called ``random_state``,
            ``seed`` or ``random_seed`` is set anew.  A generator kept inside it is copied as it is:
            then all models share their coins, which no interval of an audit allows.
        models: number of models.
        seed: of halves and learners.
        n_jobs: processes, as in joblib.
        backend: ``"processes"`` (joblib), ``"sequential"``, or ``"dask"``.
        client: a ``distributed.Client`` for dask; made when left out.
        cache: folder in which each finished fit is written at once; none by default.  A dask worker
            on another machine needs it on a shared file system.
        copies: noisy copies of each record for the label-only attack; 0 leaves it out.
        records: how many records are attacked at most: a uniform sample of a larger population,
            whose halves the models are trained on all the same.  All of them unless given.
        among: the rows that may be trained on; all unless given (see :func:`draw_half`).
        progress: called with (done, total).

    Edge cases: a fit that raises or answers NaN is listed in ``failures`` and left out; if more
    than half fail the run is refused.  A population of fewer than 20 records is refused.

    Examples:
        >>> import numpy as np
        >>> from memberbound.learners import Examples, learner_from_name
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(40, 2))
        >>> y = (x[:, 0] > 0).astype(int)
        >>> examples = Examples(x, y, "classification", ("a", "b"), ("0", "1"))
        >>> run = train_shadows(examples, learner_from_name("tree"), models=4, backend="sequential")
        >>> run.membership.sum(axis=1).tolist()
        [20, 20, 20, 20]
    """
    total = whole_number("models", models, at_least=2)
    whole_number("seed", seed, at_least=0)
    whole_number("copies", copies, at_least=0)
    one_of("backend", backend, ("processes", "sequential", "dask"))
    if n_jobs != -1:
        whole_number("workers", n_jobs, remedy="-1 is all cores.")
    if examples.rows < SMALLEST_POPULATION:
        raise InputError(
            f"the population must hold at least {SMALLEST_POPULATION} records to be halved, got "
            f"{examples.rows!r}."
        )
    if records is not None:
        whole_number("records", records, at_least=SMALLEST_POPULATION)
    sample = attacked_records(examples.rows, records, seed)
    store = None
    if cache is not None:
        of = None if sample is None else sample.size
        key = fingerprint(examples, learner, seed=seed, copies=copies, records=of, among=among)
        store = FitCache.at(cache, key)
    halves = (draw_half(examples.rows, seed, model, among)[0] for model in range(total))
    attacked = examples if sample is None else examples.taken(sample)
    fits = {} if store is None else store.known(halves, attacked.rows)
    failures: list[FailedFit] = []
    reused = len(fits)
    missing = [m for m in range(total) if m not in fits]
    damaged = [] if store is None else [m for m in missing if store.path(m).exists()]
    if progress is not None:
        progress(reused, total)
    folder = None if store is None else str(store.folder)
    # A fit needs the numbers alone: the table that they came from would travel with every one.
    lean, asked = (replace(some, population=None, encoder=None) for some in (examples, attacked))
    work = _Work(lean, learner, seed, copies, folder, asked, among)
    for outcome in _outcomes(work, missing, n_jobs, backend, client):
        if isinstance(outcome, FailedFit):
            failures.append(outcome)
        else:
            fits[outcome[0]] = outcome[1:]
        if progress is not None:
            progress(len(fits) + len(failures), total)
    run = _collected(work, attacked, sample, fits, failures, reused=reused)
    if not damaged:
        return run
    note = f"Damaged fits in the cache were computed again: {len(damaged)} of {total}."
    return replace(run, warnings=(*run.warnings, note))


def _collected(
    work: _Work,
    attacked: Examples,
    sample: NDArray[np.intp] | None,
    fits: dict[int, tuple[Signals, float]],
    failures: list[FailedFit],
    *,
    reused: int,
) -> ShadowRun:
    total = len(fits) + len(failures)
    failures.sort(key=lambda f: f.model)
    if 2 * len(failures) > total or len(fits) < 2:
        raise InputError(
            f"learner must be able to train on random halves, got {len(failures)} failures in "
            f"{total} fits; the first one said: {failures[0].message}"
        )
    kept = tuple(sorted(fits))
    signals = Signals.stacked([fits[m][0] for m in kept])
    warnings = []
    if failures:
        warnings.append(
            f"{len(failures)} of {total} fits failed and were left out; the audit speaks of the "
            "halves on which the learner succeeds."
        )
    if signals.kind == "decision values":
        warnings.append(
            "The learner has no predict_proba; its decision values were squashed to probabilities."
        )
    if signals.kind == "labels":
        warnings.append("The learner gives labels only; the attacks see right or wrong.")
    rows = work.examples.rows
    chosen = slice(None) if sample is None else sample
    if sample is not None:
        warnings.append(
            f"The attacked records are a uniform sample of {sample.size} of the {rows}; every "
            "model was trained on a half of all."
        )
    return ShadowRun(
        np.vstack([draw_half(rows, work.seed, m, work.among)[0][chosen] for m in kept]),
        signals,
        kept,
        tuple(failures),
        np.array([fits[m][1] for m in kept]),
        attacked,
        reused,
        tuple(warnings),
        sample,
        rows,
    )


@dataclass(frozen=True, eq=False)
class _Work:
    """One fit per call; sent to the workers."""

    examples: Examples
    learner: Learner
    seed: int
    copies: int
    folder: str | None
    attacked: Examples
    among: BoolArray | None = None

    def __call__(self, model: int) -> tuple[int, Signals, float] | FailedFit:
        member, learner_seed = draw_half(self.examples.rows, self.seed, model, self.among)
        start = time.perf_counter()
        try:
            fitted = _unfitted(self.learner, learner_seed)
            fitted.fit(self.examples.features[member], self.examples.target[member])
            signals = signals_of(fitted, self.attacked, copies=self.copies, seed=learner_seed)
        except MemoryError:  # which models are missing would depend on the machine
            raise
        except Exception as problem:  # A learner may raise anything; the audit goes on without it.
            message = f"{type(problem).__name__}: {problem}".splitlines()[0]
            return FailedFit(model, learner_seed, message)
        seconds = time.perf_counter() - start
        if self.folder is not None:
            FitCache(Path(self.folder)).store(model, member, signals, seconds)
        return model, signals, seconds


def _unfitted(learner: Learner, seed: int) -> Learner:
    """Return a fresh copy with every seed set anew, those of its parts included."""
    if not callable(getattr(learner, "get_params", None)):
        return copy.deepcopy(learner)
    from sklearn.base import clone

    fresh = clone(learner)
    names = [n for n in fresh.get_params(deep=True) if n.split("__")[-1] in _SEEDS]
    seeded: Learner = fresh.set_params(**dict.fromkeys(names, seed)) if names else fresh
    return seeded


def _outcomes(
    work: _Work, models: list[int], n_jobs: int, backend: str, client: Client | None
) -> Iterator[tuple[int, Signals, float] | FailedFit]:
    """Yield fits as they finish."""
    if not models:
        return
    if backend == "dask":
        yield from _on_dask(work, models, client)
        return
    if backend == "sequential" or n_jobs == 1:
        yield from map(work, models)
        return
    yield from _on_processes(work, models, n_jobs)


def _on_processes(
    work: _Work, models: list[int], n_jobs: int
) -> Iterator[tuple[int, Signals, float] | FailedFit]:
    """Yield fits of worker processes; when one of these is killed, the missing ones again."""
    from joblib import Parallel, delayed

    left, idle = list(models), 0
    while left:
        before = len(left)
        parallel = Parallel(
            n_jobs=n_jobs,
            return_as="generator_unordered",
            batch_size=1,
            idle_worker_timeout=IDLE,
        )
        try:
            for outcome in parallel(delayed(work)(m) for m in left.copy()):
                left.remove(outcome.model if isinstance(outcome, FailedFit) else outcome[0])
                yield outcome
        except BrokenProcessPool as problem:
            idle = 0 if len(left) < before else idle + 1
            if idle == _IDLE:
                raise MemberboundError(
                    f"worker processes were killed {idle} times before any of {before} fits was "
                    "finished, perhaps out of memory. Use fewer --workers; finished fits in the "
                    "cache are kept."
                ) from problem


def _on_dask(
    work: _Work, models: list[int], client: Client | None
) -> Iterator[tuple[int, Signals, float] | FailedFit]:
    """Yield fits of a cluster; when it is lost and comes back, the missing ones again."""
    left, idle = list(models), 0
    with connected(None, client) as opened:
        cluster, address = opened, address_of(opened)
        while left:
            before = len(left)
            try:
                for outcome in _submitted(work, left.copy(), cluster):
                    left.remove(outcome.model if isinstance(outcome, FailedFit) else outcome[0])
                    yield outcome
            except LOST as problem:
                idle = 0 if len(left) < before else idle + 1
                if idle == _IDLE:
                    raise MemberboundError(
                        f"the cluster was lost {idle} times before any of {before} fits was "
                        "finished, perhaps because its workers ran out of memory."
                    ) from problem
                cluster = reconnected(address)


def _submitted(
    work: _Work, models: list[int], client: Client
) -> Iterator[tuple[int, Signals, float] | FailedFit]:
    # The population travels to each worker once, not with every fit.
    try:
        sent = client.scatter(work, broadcast=True)
    except KeyError as problem:
        # A worker that is killed while it is sent to: dask looks it up after it is gone.
        raise ConnectionError(f"a worker left the cluster: {problem}.") from problem
    futures = [client.submit(_called, sent, model, pure=False) for model in models]
    for future in import_module("distributed").as_completed(futures):
        yield future.result()


def _called(work: _Work, model: int) -> tuple[int, Signals, float] | FailedFit:
    return work(model)
