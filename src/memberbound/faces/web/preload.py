"""What the fork server loads before it forks: everything that a job or a question imports.

Importing this module is loading.  A fork copies only the thread that asks for it, so nothing but
imports happens here, and libraries are kept from starting threads and from taking memory in
advance, which would count against the limit of every child.
"""

from __future__ import annotations

import atexit
import gc
import os
import warnings
from importlib import import_module

_QUIET = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "MIMALLOC_ARENA_EAGER_COMMIT": "0",
}
_LIBRARIES = (
    *("pandas", "pyarrow.dataset", "duckdb", "ibis.backends.duckdb", "scipy.special"),
    *("sklearn.ensemble", "sklearn.linear_model", "sklearn.neighbors", "sklearn.neural_network"),
    *("sklearn.pipeline", "sklearn.tree", "matplotlib.style", "matplotlib.backends.backend_svg"),
    *("memberbound.report.charts", "memberbound.report.page", "memberbound.tables.counting"),
)


def _load() -> None:
    from memberbound.faces.command_line import verb_named
    from memberbound.faces.web.child import JOBS

    for name in _LIBRARIES:
        import_module(name)
    for name in JOBS:
        verb_named(name)


before = dict(os.environ)
os.environ.update(_QUIET)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    _load()
for name in _QUIET.keys() - before.keys():
    del os.environ[name]
os.environ.update(before)
# When the server is gone, at once: libraries print what they think was left behind.
atexit.register(os._exit, 0)
# Collecting garbage writes to what it looks at, which would then no longer be shared.
gc.collect()
gc.freeze()
