"""Settings of the whole process, for blocks that several threads run at once.

Warning filters and the thread counts of numerical libraries belong to the process.  If each thread
saved and restored them on its own, one could permanently restore another one's temporary setting.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Protocol

#: Held while the global generators of Python, numpy or PyTorch are seeded, or output is redirected.
ONE_AT_A_TIME = threading.RLock()


class ProcessSetting(AbstractContextManager[None]):
    """A setting made by the first thread to enter and undone by the last one to leave.

    Examples:
        >>> import warnings
        >>> before = list(warnings.filters)
        >>> with no_warnings, no_warnings:
        ...     warnings.warn("suppressed")
        >>> warnings.filters == before
        True
    """

    def __init__(self, make: Callable[[], AbstractContextManager[object]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._inside = 0
        self._made: AbstractContextManager[object] | None = None

    def __enter__(self) -> None:
        with self._lock:
            if self._made is None:
                made = self._make()
                made.__enter__()
                self._made = made
            self._inside += 1

    def __exit__(self, *problem: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._made is not None:
                made, self._made = self._made, None
                made.__exit__(None, None, None)


@contextmanager
def _without_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _one_thread_each() -> AbstractContextManager[object]:
    # Modules load libraries, so search again only after another module was imported.
    return _libraries(len(sys.modules)).limit(limits=1)


def load_openmp() -> None:
    """Load scikit-learn's OpenMP: :data:`one_thread` limits only libraries that are loaded."""
    import sklearn.ensemble  # noqa: F401


class _Libraries(Protocol):
    """The numerical libraries that are loaded: threadpoolctl's controller."""

    def limit(self, *, limits: int) -> AbstractContextManager[object]: ...


@lru_cache(maxsize=1)
def _libraries(modules: int) -> _Libraries:  # noqa: ARG001
    # Finding the loaded libraries takes ten milliseconds, longer than many fits.
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    found: _Libraries = ThreadpoolController()
    return found


#: Suppresses warnings, because a library's warning may depend on a record.
no_warnings = ProcessSetting(_without_warnings)
#: Limits the numerical libraries of this process to one thread each.
one_thread = ProcessSetting(_one_thread_each)
