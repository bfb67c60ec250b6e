"""Secret rows on the workers of a dask cluster: they stay there, and sums of them travel.

Every worker reads its share of the rows and keeps what is made of it.  A function and its numbers
travel to the workers, their answers back; noise is added to the total, here.  A share depends on
the file alone, so when a worker is killed its share is read again elsewhere, and as sums are exact
the numbers are the same.  A file that was changed meanwhile is refused: a record that moved to
another share would count twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memberbound._version import __version__
from memberbound.errors import InputError, MemberboundError
from memberbound.learners.refits import LOST, Cluster, current_cluster
from memberbound.tables.columns import Form
from memberbound.tables.records import Records, only_names, read_column, read_records
from memberbound.tables.shards import added
from memberbound.tables.source import COLUMN_FILES, parquet_files
from memberbound.tables.table import Table, open_table
from memberbound.threads import no_warnings

#: Rows of a share, at most.
_MOST_ROWS = 2**21
#: Times that the connection to the scheduler may be lost while one sum is made.
_LOSSES = 3


@dataclass(frozen=True)
class _Failure:
    """What went wrong on a worker, in a sentence without any value of the rows."""

    sentence: str
    refused: bool

    def error(self) -> MemberboundError:
        return (InputError if self.refused else MemberboundError)(self.sentence)


def _worked(function: Callable[..., Any], part: Any, arguments: tuple[Any, ...]) -> Any:
    """Return what a function makes of a part, on a worker.

    Nothing is raised: the worker would write the part into its log.
    """
    if isinstance(part, _Failure):
        return part
    try:
        with np.errstate(all="ignore"):  # a warning would depend on a record
            return function(part, *arguments)
    except MemberboundError as problem:
        return _Failure(str(problem), isinstance(problem, InputError))
    except Exception as problem:  # its text may quote values
        return _Failure(f"a worker failed ({type(problem).__name__}).", False)


@dataclass(eq=False, repr=False)
class PartsThere:
    """What a function made of shares, or of other parts, and the workers keep."""

    cluster: Cluster
    before: PartsThere | list[Any]
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    _futures: list[Any] = field(default_factory=list)
    _client: object = None

    def futures(self) -> list[Any]:
        """Return the parts by name, made again where the connection was lost."""
        client = self.cluster.client
        if self._client is not client:
            before = self.before if isinstance(self.before, list) else self.before.futures()
            self._futures = self._asked(self.function, before, [self.arguments] * len(before))
            self._client = client
        return self._futures

    def _asked(
        self, function: Callable[..., Any], parts: list[Any], arguments: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        with no_warnings:  # dask warns of large tasks
            return [
                self.cluster.client.submit(_worked, function, part, own, pure=False)
                for part, own in zip(parts, arguments, strict=True)
            ]

    def mapped(self, function: Callable[..., Any], *arguments: Any) -> PartsThere:
        """Return what the function makes of every part."""
        return PartsThere(self.cluster, self, function, arguments)

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the sum over parts of ``function(part, *arguments)``."""
        return added(self.answers(function, [arguments] * len(self.futures())))

    def answers(
        self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        """Return what the function answers of every part, each asked with arguments of its own."""
        for _ in range(_LOSSES):
            try:
                asked = self._asked(function, self.futures(), arguments)
                answers: list[Any] = self.cluster.client.gather(asked)
            except LOST:
                self.cluster.reconnect()
                continue
            except Exception as problem:
                raise MemberboundError(
                    f"the workers of {self.cluster.address} did not finish what they were asked "
                    f"({type(problem).__name__}), perhaps out of memory."
                ) from None
            for answer in answers:
                if isinstance(answer, _Failure):
                    raise answer.error()
            return answers
        raise MemberboundError(f"the cluster at {self.cluster.address} was lost again and again.")


@dataclass(frozen=True, eq=False)
class RecordsThere(Records):
    """Records that workers hold, a share each; ``ends`` are where the shares end."""

    there: PartsThere = field(kw_only=True)
    ends: tuple[int, ...] = field(kw_only=True)

    def parts(self) -> Iterator[Records]:
        """Refuse to bring rows here."""
        raise InputError("rows on workers do not come here; leave scheduler out.")

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the sum over parts of ``function(part, *arguments)``."""
        return self.there.total(_of_chosen, tuple(self.columns), function, arguments)

    def mapped(self, function: Callable[..., Any], *arguments: Any) -> PartsThere:
        """Return what the function makes of every part, kept where the part is."""
        return self.there.mapped(_of_chosen, tuple(self.columns), function, arguments)

    def chosen(self, names: Iterable[str]) -> RecordsThere:
        """Return the records with these columns."""
        return replace(self, columns=only_names(names))

    def taken(self, places: NDArray[np.intp]) -> Records:
        """Bring some of the records here, for their owner's eyes."""
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        inside = [
            ordered[slice(*np.searchsorted(ordered, share))] - share[0]
            for share in pairwise((0, *self.ends))
        ]
        parts = self.there.answers(Records.taken, [(own,) for own in inside])
        some = Records.joined([part.chosen(self.columns) for part in parts if part.rows])
        return replace(some, types=self.types).taken(np.argsort(order, kind="stable"))

    def by_person(self, unit: str) -> Records:
        """Refuse: a person's rows may be on several workers."""
        raise InputError(
            f"scheduler must be left out with unit, got unit {unit!r}: the rows of a person may be "
            "on several workers."
        )


def _of_chosen(
    part: Records, names: tuple[str, ...], function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Any:
    return function(part.chosen(names), *arguments)


@dataclass(frozen=True)
class _Share:
    """Rows of a file that a worker reads."""

    path: Path
    names: tuple[str, ...]
    forms: Mapping[str, Form]
    first: int
    rows: int
    state: tuple[tuple[str, int, int], ...]

    def read(self) -> Records:
        """Return the rows, each read by itself, as all of the file would be."""
        with open_table(self.path, secret=True) as table:
            limit = f"LIMIT {self.rows} OFFSET {self.first}"
            arrow = table.run(lambda: table.row_batches(self.names, limit).read_all())
            values = {
                name: read_column(arrow.column(name), name, self.forms.get(name, "any"), table.name)
                for name in self.names
            }
        if arrow.num_rows != self.rows or _file_state(self.path) != self.state:
            raise InputError(
                f"{self.path} must be the same file for all workers and must not be changed while "
                "they read it, got another size or time of change."
            )
        return Records(values, self.rows, table.name)


def _file_state(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Return name, size and time of change (in seconds) of a file, or of the files of a folder."""
    files = parquet_files(path) if path.is_dir() else [path]
    states = [(str(file.relative_to(path)), file.stat()) for file in files]
    return tuple((name, state.st_size, int(state.st_mtime)) for name, state in states)


def current_spread() -> Callable[[Table, Mapping[str, Form], list[str]], Records] | None:
    """Return how records are spread over the workers of this call's cluster, if there is one."""
    cluster = current_cluster()
    return None if cluster is None else partial(spread_records, cluster)


def spread_records(
    cluster: Cluster, table: Table, forms: Mapping[str, Form], names: list[str]
) -> RecordsThere:
    """Return the records of an open table as the workers of a cluster read them.

    Guarantee: as :class:`Records`; what a function answers of all parts does not depend on where
    the rows are.  Edge cases: a table in memory is cut into shares that are sent.
    """
    workers, path = _checked_workers(cluster), table.path
    shares: list[Any]
    read: Callable[[Any], Records]
    if table.memory is not None:
        here = read_records(table, forms, columns=names)
        rows, types, read = here.rows, here.types, copy
        ends = _ends(rows, workers)
        shares = [here.taken(np.arange(a, b)) for a, b in pairwise((0, *ends))]
    elif path is not None and (path.is_dir() or path.suffix.lower() in COLUMN_FILES):
        place, listed, state = path.absolute(), tuple(names), _file_state(path)
        rows = table.run(table.count_rows)
        schema = table.run(lambda: table.row_batches(names, "LIMIT 0").schema)
        types, read = {column.name: column.type for column in schema}, _Share.read
        ends = _ends(rows, workers)
        shares = [_Share(place, listed, forms, a, b - a, state) for a, b in pairwise((0, *ends))]
    else:
        raise InputError(
            f"scheduler must be left out for {table.name}: workers read their shares of a Parquet "
            "or Arrow file (or a folder of Parquet files) that all of them see."
        )
    there = PartsThere(cluster, shares, read)
    return RecordsThere(only_names(names), rows, table.name, types=types, there=there, ends=ends)


def _ends(rows: int, workers: int) -> tuple[int, ...]:
    """Return where shares of about equal size end: one per worker, or more of a long table."""
    count = min(max(workers, -(-rows // _MOST_ROWS)), max(rows, 1))
    return tuple(rows * (place + 1) // count for place in range(count))


def _version() -> str:
    return __version__


def _checked_workers(cluster: Cluster) -> int:
    """Return how many workers there are; refuse those that would compute something else."""
    try:
        versions = cluster.client.run(_version)
    except Exception:  # whatever importing it there raises
        versions = {"": "none"}
    if not versions or set(versions.values()) != {__version__}:
        others = sorted(set(versions.values()) - {__version__})
        raise InputError(
            f"scheduler must have workers, all with memberbound {__version__} installed, got "
            f"{', '.join(others) or 'no worker'}."
        )
    return cluster.workers
