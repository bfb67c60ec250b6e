"""Imports of the fork server: everything that a job or a question needs.

Importing this module loads them.  A fork copies only the calling thread, so this module does
nothing but import, and keeps libraries from starting threads and from reserving memory, which would
count against the limit of every child.
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
    *("lzma", "sqlite3", "zlib"),  # C modules, which a job may lack the memory to load
    *("pandas", "pyarrow.dataset", "duckdb", "ibis.backends.duckdb", "scipy.special"),
    *("sklearn.ensemble", "sklearn.linear_model", "sklearn.neighbors", "sklearn.neural_network"),
    *("sklearn.pipeline", "sklearn.tree", "matplotlib.style", "matplotlib.backends.backend_svg"),
    *("memberbound.report.answer_charts", "memberbound.report.page", "memberbound.tables.counting"),
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
# Exit immediately when the server is gone, before libraries print about leaked resources.
atexit.register(os._exit, 0)
# A later garbage collection would write to these pages and end their sharing.
gc.collect()
gc.freeze()
