"""Questions of tests for a child process, beside those of the server."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from memberbound.faces.web import child

_main = child.main


def draw(_options: Any) -> dict[str, Any]:
    """A number of each generator: of the system, the shared ones of libraries, and a new one."""
    import numpy as np

    from memberbound.release.randomness import SecureSource

    shared = float(np.random.random())  # noqa: NPY002
    new = float(np.random.default_rng().random())
    return {"drawn": [SecureSource().words(2).tolist(), random.random(), shared, new]}


def compute(_options: Any) -> dict[str, Any]:
    """Linear algebra, a learner, Arrow and the engine, in a child with several threads."""
    import duckdb
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_info

    x = np.arange(250000.0).reshape(500, 500) % 7
    y = x[:, 0] > 3
    ((counted,),) = duckdb.sql(
        "SELECT count(DISTINCT i % 1000) FROM range(1000000) t(i)"
    ).fetchall()
    return {
        "threads": [i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"],
        "product": float((x @ x).sum()) == float((x.sum(0) * x.sum(1)).sum()),
        "score": HistGradientBoostingClassifier(max_iter=2).fit(x, y).score(x, y),
        "sum": pc.sum(pa.chunked_array([pa.array(range(1000))] * 50)).as_py(),
        "counted": counted,
    }


def about(_options: Any) -> dict[str, Any]:
    """Describe a child: its process, its group and limits, and the fork server."""
    parent = os.getppid()
    return {
        "pid": os.getpid(),
        "group": os.getpgid(0),
        "parent": parent,
        "forked": "forkserver" in Path(f"/proc/{parent}/cmdline").read_text(),
        "threads_of_parent": len(list(Path(f"/proc/{parent}/task").iterdir())),
        "memory": resource.getrlimit(resource.RLIMIT_DATA)[0],
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
        "quiet": os.environ.get("MIMALLOC_ARENA_EAGER_COMMIT"),
    }


def crash(_options: Any) -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGSEGV)
    return {}


def start_another(options: Any) -> dict[str, Any]:
    """Start a process, write its number and one's own to a file, and never end."""
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1e5)"])
    Path(options["file"]).write_text(f"{os.getpid()} {other.pid}\n")
    time.sleep(1e5)
    return {}


def large(options: Any) -> dict[str, Any]:
    return {"text": "x" * options["bytes"]}


def main(stream: Connection, memory: int, disk: int) -> None:
    """A child of the server that also supports these questions."""
    for question in (draw, compute, about, crash, start_another, large):
        child._QUESTIONS[question.__name__] = question
    _main(stream, memory, disk)
