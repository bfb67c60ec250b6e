"""A dask cluster that is there already, named by its scheduler's address or by a client of it.

Trainings are sent to it one by one and depend on nothing but their number and the seed, so it does
not matter where one of them runs, or how often: when a worker is killed, the scheduler restarted or
the connection cut, what is missing is sent again and the numbers are the same.
"""

from __future__ import annotations

import functools
import inspect
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Annotated, ParamSpec, Protocol, TypeVar, cast

from memberbound.declarations import Option
from memberbound.errors import InputError, MemberboundError

__all__ = [
    "IDLE",
    "LOST",
    "Client",
    "Scheduler",
    "address_of",
    "connected",
    "current",
    "on_cluster",
    "reconnected",
]

P = ParamSpec("P")
R = TypeVar("R")

#: The address of a dask scheduler.
Scheduler = Annotated[str, Option("text", metavar="tcp://HOST:PORT", web=False)]
#: What a lost connection raises: dask cancels what it waited for, the socket fails, or the client
#: has no scheduler any more.
LOST = (CancelledError, OSError, AttributeError)
#: Seconds without work after which a worker process of this machine ends: what it holds (a quarter
#: of a gibibyte of code and of what its last fit left behind) is then free for what comes next.
IDLE = 15
#: Seconds to wait for a scheduler, at first and after it was lost.
_FIRST, _AGAIN = 10, 60


class Client(Protocol):
    """What is used of a client of dask."""

    def scatter(self, data: object, *, broadcast: bool) -> object:
        """Send an object to the workers."""

    def submit(self, function: Callable[..., object], *given: object, pure: bool) -> object:
        """Call a function on one of them."""

    def ncores(self) -> dict[str, int]:
        """Return the threads of each worker."""

    def as_current(self) -> AbstractContextManager[object]:
        """Make it the one that is used where none is named."""

    def close(self) -> None:
        """Leave the cluster."""


def _opened(address: str | None, seconds: float) -> Client:
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise InputError("a cluster needs dask: pip install 'memberbound[dask]'.") from None
    if address is None:  # a cluster on this machine, for as long as the client lives
        return cast(Client, distributed.Client(set_as_default=False))
    try:
        opened = distributed.Client(address, timeout=seconds, set_as_default=False)
    except (OSError, ValueError, TypeError) as problem:
        raise InputError(
            "scheduler must be the address of a dask scheduler that answers, such as "
            f"tcp://10.0.0.5:8786, got {address!r} ({type(problem).__name__})."
        ) from None
    return cast(Client, opened)


def current() -> Client | None:
    """Return the client of the cluster that is used here, if there is one."""
    # Whoever has a client has loaded dask; to load it here would take half a second for nothing.
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return cast(Client, distributed.Client.current(allow_global=False))
    except ValueError:
        return None


@contextmanager
def connected(scheduler: str | None, client: Client | None = None) -> Iterator[Client]:
    """Yield the client that was given, one of the cluster at an address, or the current one."""
    if client is not None:
        if scheduler is not None:
            raise InputError("scheduler must be left out when a client is given.")
        if not callable(getattr(client, "submit", None)):
            raise InputError(f"client must be a distributed.Client, got {type(client).__name__}.")
        yield client
        return
    if scheduler is None and (used := current()) is not None:
        yield used
        return
    opened = _opened(scheduler, _FIRST)
    try:
        yield opened
    finally:
        opened.close()


def address_of(client: Client) -> str:
    """Return the address of a client's scheduler, as long as it is connected."""
    return str(getattr(getattr(client, "scheduler", None), "address", ""))


def reconnected(address: str) -> Client:
    """Return a client of a scheduler whose connection was lost."""
    end = time.monotonic() + _AGAIN
    while True:
        try:
            return _opened(address, 5.0)
        except InputError:
            if time.monotonic() > end:
                raise MemberboundError(
                    f"the cluster at {address} was lost and did not come back within "
                    f"{_AGAIN} seconds. Finished fits in the cache are kept; run it again."
                ) from None
            time.sleep(0.5)


def on_cluster(function: Callable[P, R]) -> Callable[P, R]:
    """Let a verb train and refit on the cluster that its ``scheduler`` or ``client`` names.

    The cluster is dask's current one while the verb runs; shadow models are sent to it by
    :mod:`memberbound.attacks.shadows`, refits by :mod:`memberbound.release.fitting`.  Nothing else
    is, so that what is left works on when it is lost.
    """

    @functools.wraps(function)
    def run(*given: P.args, **named: P.kwargs) -> R:
        scheduler, client = named.get("scheduler"), named.get("client")
        if scheduler is None and client is None:
            return function(*given, **named)
        if "backend" in inspect.signature(function).parameters:
            named["backend"] = "dask"
        with connected(cast("str | None", scheduler), cast("Client | None", client)) as cluster:
            if named.get("workers") is None:
                named["workers"] = max(2, sum(cluster.ncores().values()))
            with cluster.as_current():
                return function(*given, **named)

    return run
