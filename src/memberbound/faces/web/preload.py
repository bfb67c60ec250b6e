"""What the fork server loads before it forks: everything that a job or a question imports.

Importing this module is loading.  A fork copies only the thread that asks for it, so nothing but
imports happens here, and a library that starts a thread all the same ends this process: its locks
would stay locked in every child.  The server then starts fresh processes instead.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import random
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: What keeps libraries from starting threads and from taking memory in advance, while they load.
#: Memory in advance would count against the limit of every child.
_QUIET = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "MIMALLOC_ARENA_EAGER_COMMIT": "0",
}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _QUIET}
    os.environ.update(_QUIET)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _load() -> list[Any]:
    """Import everything, without a thread, and return the random generators that this made."""
    with _quiet():
        from memberbound.faces.web.child import load_all

        load_all()
    from numpy.random import BitGenerator

    if len([*Path("/proc/self/task").iterdir()]) != 1:
        sys.exit(1)
    # When the server is gone, at once: libraries print what they think was left behind.
    atexit.register(os._exit, 0)
    gc.collect()
    kinds = (BitGenerator, random.Random)
    generators = [thing for thing in gc.get_objects() if issubclass(type(thing), kinds)]
    # Collecting garbage writes to what it looks at, which would then no longer be shared.
    gc.freeze()
    return generators


def become_independent() -> None:
    """Make a forked child what a fresh process would be, but for its libraries.

    Each random generator gets a state of its own: those of its siblings start from the same one.
    Noise of releases comes from the operating system, which keeps no state here; but learners and
    libraries draw from generators that were made by importing them.  Linear algebra gets the cores
    that it uses in a fresh process.
    """
    for generator in GENERATORS:
        if isinstance(generator, random.Random):
            generator.seed()
        else:
            generator.state = type(generator)().state
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    settings = (os.environ.get(name, "") for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"))
    counts = [int(text) for text in settings if text.isdigit() and int(text) > 0]
    threadpool_limits([*counts, len(os.sched_getaffinity(0))][0], user_api="blas")


GENERATORS = _load()
