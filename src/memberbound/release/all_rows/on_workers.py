"""Secret rows on a dask cluster: rows stay on the workers, which return sums only.

Every worker reads its shard of the rows and keeps intermediate results.  Functions and their
arguments are sent to the workers, results are sent back, and noise is added to their sum here.  A
shard depends on the file alone: if a worker is killed, another one rereads its shard and, because
sums are exact, the numbers do not change.  A file that changes in between is rejected, because a
record that moves to another shard would count twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memberbound._version import __version__
from memberbound.errors import InputError, MemberboundError
from memberbound.learners.refits import LOST, Cluster
from memberbound.tables.opening import open_table
from memberbound.tables.records import Records, only_names, read_named_column, read_records
from memberbound.tables.shards import Arguments, Shards, T, Total, U, sum_results
from memberbound.tables.source import COLUMN_FILES, parquet_files
from memberbound.tables.spelling import Form
from memberbound.tables.table import MemoryTable, Table
from memberbound.threads import no_warnings

#: Largest number of rows in a shard.
_MOST_ROWS = 2**21
#: Maximum number of lost connections to the scheduler during one sum.
_LOSSES = 3


@dataclass(frozen=True)
class _Failure:
    """An error on a worker, described without quoting any value of the rows."""

    sentence: str
    refused: bool

    def error(self) -> MemberboundError:
        return (InputError if self.refused else MemberboundError)(self.sentence)


def _run_on_worker(
    function: Callable[..., object], shard: object, arguments: tuple[object, ...]
) -> object:
    """Return ``function(shard, *arguments)``, or its failure: dask would log the shard."""
    if isinstance(shard, _Failure):
        return shard
    try:
        with np.errstate(all="ignore"):  # a warning would depend on a record
            return function(shard, *arguments)
    except MemberboundError as problem:
        return _Failure(str(problem), isinstance(problem, InputError))
    except Exception as problem:  # its text may quote values
        return _Failure(f"a worker failed ({type(problem).__name__}).", False)


class _OnWorkers(Protocol):
    """Shards of any type on workers."""

    def futures(self) -> list[object]: ...


@dataclass(eq=False, repr=False)
class WorkerShards(Shards[T]):
    """Shards on the workers of a cluster, as results of a function of other shards."""

    cluster: Cluster
    before: _OnWorkers | Sequence[object]
    function: Callable[..., T]
    arguments: tuple[object, ...] = ()
    _futures: list[object] = field(default_factory=list)
    _client: object = None

    def __iter__(self) -> Iterator[T]:
        raise InputError("rows on workers cannot be read here; leave scheduler out.")

    def futures(self) -> list[object]:
        """Return a future for every shard, resubmitted after a lost connection."""
        client = self.cluster.client
        if self._client is not client:
            before = self.before if isinstance(self.before, Sequence) else self.before.futures()
            self._futures = self._submit(self.function, before, [self.arguments] * len(before))
            self._client = client
        return self._futures

    def _submit(
        self,
        function: Callable[..., object],
        shards: Sequence[object],
        arguments: Sequence[tuple[object, ...]],
    ) -> list[object]:
        with no_warnings:  # dask warns of large tasks
            return [
                self.cluster.client.submit(_run_on_worker, function, shard, own, pure=False)
                for shard, own in zip(shards, arguments, strict=True)
            ]

    def map(
        self, function: Callable[[T, *Arguments], U], *arguments: *Arguments
    ) -> WorkerShards[U]:
        """Apply a function to every shard and keep the results on the workers."""
        return WorkerShards(self.cluster, self, function, arguments)

    def sum(self, function: Callable[[T, *Arguments], Total], *arguments: *Arguments) -> Total:
        """Return the sum of ``function(shard, *arguments)`` over all shards."""
        return sum_results(self.gather(function, [arguments] * len(self.futures())))

    def gather(
        self, function: Callable[..., Total], arguments: Sequence[tuple[object, ...]]
    ) -> list[Total]:
        """Return ``function(shard, *own)`` for every shard, with the shard's own arguments."""
        for _ in range(_LOSSES):
            try:
                futures = self._submit(function, self.futures(), arguments)
                results: list[Total | _Failure] = self.cluster.client.gather(futures)
            except LOST:
                self.cluster.reconnect()
                continue
            except Exception as problem:
                raise MemberboundError(
                    f"the workers of {self.cluster.address} did not finish their task "
                    f"({type(problem).__name__}), perhaps for lack of memory."
                ) from None
            done: list[Total] = []
            for result in results:
                if isinstance(result, _Failure):
                    raise result.error()
                done.append(result)
            return done
        raise MemberboundError(f"the cluster at {self.cluster.address} was lost repeatedly.")


@dataclass(eq=False)
class _ColumnShards(Shards[Records]):
    """Some columns of the shards on workers, selected within every task."""

    shards: WorkerShards[Records]
    names: tuple[str, ...]

    def __iter__(self) -> Iterator[Records]:
        return iter(self.shards)

    def map(
        self, function: Callable[[Records, *Arguments], U], *arguments: *Arguments
    ) -> WorkerShards[U]:
        """Apply a function to these columns of every shard and keep the results on the workers."""
        call: Callable[..., U] = _call_with_columns
        return self.shards.map(call, self.names, function, arguments)

    def sum(
        self, function: Callable[[Records, *Arguments], Total], *arguments: *Arguments
    ) -> Total:
        """Return the sum of ``function(columns, *arguments)`` over all shards."""
        call: Callable[..., Total] = _call_with_columns
        return self.shards.sum(call, self.names, function, arguments)


def _call_with_columns(
    shard: Records,
    names: tuple[str, ...],
    function: Callable[..., U],
    arguments: tuple[object, ...],
) -> U:
    return function(shard.select(names), *arguments)


@dataclass(frozen=True, eq=False)
class WorkerRecords(Records):
    """Records on workers, in shards that end at the row numbers ``ends``."""

    there: WorkerShards[Records] = field(kw_only=True)
    ends: tuple[int, ...] = field(kw_only=True)

    @property
    def shards(self) -> Shards[Records]:
        """The shards, with the selected columns."""
        return _ColumnShards(self.there, tuple(self.columns))

    def select(self, names: Iterable[str]) -> WorkerRecords:
        """Return the records with these columns."""
        return replace(self, columns=only_names(names))

    def take(self, rows: NDArray[np.intp]) -> Records:
        """Fetch some of the records, for the owner of the rows only."""
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        inside = [
            ordered[slice(*np.searchsorted(ordered, shard))] - shard[0]
            for shard in pairwise((0, *self.ends))
        ]
        parts = self.there.gather(Records.take, [(own,) for own in inside])
        some = Records.concat([part.select(self.columns) for part in parts if part.rows])
        return replace(some, types=self.types).take(np.argsort(order, kind="stable"))

    def group_by_person(self, unit: str) -> Records:
        """Raise, because a person's rows may be on several workers."""
        raise InputError(
            f"scheduler must be left out with unit, got unit {unit!r}: the rows of a person may be "
            "on several workers."
        )


@dataclass(frozen=True)
class _FileShard:
    """A range of rows of a file, for one worker."""

    path: Path
    names: tuple[str, ...]
    forms: Mapping[str, Form]
    first: int
    rows: int
    state: tuple[tuple[str, int, int], ...]

    def read(self) -> Records:
        """Read the rows, with the same values as when reading the whole file."""
        with open_table(self.path, secret=True) as opened:
            table = opened.local
            limit = f"LIMIT {self.rows} OFFSET {self.first}"
            arrow = table.run(lambda: table.row_batches(self.names, limit).read_all())
            values = {
                name: read_named_column(
                    arrow.column(name), name, self.forms.get(name, "any"), table.name
                )
                for name in self.names
            }
        if arrow.num_rows != self.rows or _file_state(self.path) != self.state:
            raise InputError(
                f"{self.path} must be the same file for all workers and must not be changed while "
                "they read it, got another size or modification time."
            )
        return Records(values, self.rows, table.name)


def _file_state(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Return name, size and modification time (in seconds) of a file, or of a folder's files."""
    files = parquet_files(path) if path.is_dir() else [path]
    states = [(str(file.relative_to(path)), file.stat()) for file in files]
    return tuple((name, state.st_size, int(state.st_mtime)) for name, state in states)


def spread_records(
    cluster: Cluster, table: Table, forms: Mapping[str, Form], names: list[str]
) -> WorkerRecords:
    """Distribute the records of an open table over the workers of a cluster.

    Guarantee: as for :class:`Records`; sums do not depend on the distribution of the rows.
    Edge cases: a table in memory is split into shards and sent to the workers.
    """
    workers, path = _check_workers(cluster), table.path
    shards: Sequence[object]
    read: Callable[..., Records]
    if isinstance(table, MemoryTable):
        here = read_records(table, forms, columns=names)
        rows, types, read = here.rows, here.types, copy
        ends = _ends(rows, workers)
        shards = [here.take(np.arange(a, b)) for a, b in pairwise((0, *ends))]
    elif path is not None and (path.is_dir() or path.suffix.lower() in COLUMN_FILES):
        location, listed, state = path.absolute(), tuple(names), _file_state(path)
        stored = table.local
        rows = stored.run(stored.count_rows)
        schema = stored.run(lambda: stored.row_batches(names, "LIMIT 0").schema)
        types, read = {column.name: column.type for column in schema}, _FileShard.read
        ends = _ends(rows, workers)
        shards = [
            _FileShard(location, listed, forms, a, b - a, state) for a, b in pairwise((0, *ends))
        ]
    else:
        raise InputError(
            f"scheduler must be left out for {table.name}: workers read their shards from a "
            "Parquet or Arrow file (or a folder of Parquet files) that all of them can read."
        )
    there: WorkerShards[Records] = WorkerShards(cluster, shards, read)
    return WorkerRecords(only_names(names), rows, table.name, types=types, there=there, ends=ends)


def _ends(rows: int, workers: int) -> tuple[int, ...]:
    """Return the ends of shards of about equal size: one per worker, or more for a long table."""
    count = min(max(workers, -(-rows // _MOST_ROWS)), max(rows, 1))
    return tuple(rows * (k + 1) // count for k in range(count))


def _version() -> str:
    return __version__


def _check_workers(cluster: Cluster) -> int:
    """Return the number of workers; reject workers with another version of the package."""
    try:
        versions = cluster.client.run(_version)
    except Exception:  # importing the package on a worker may raise anything
        versions = {"": "none"}
    if not versions or set(versions.values()) != {__version__}:
        others = sorted(set(versions.values()) - {__version__})
        raise InputError(
            f"scheduler must have workers, all with memberbound {__version__} installed, got "
            f"{', '.join(others) or 'no worker'}."
        )
    return cluster.workers
