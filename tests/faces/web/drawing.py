"""The work of a child process in a test: it draws from every generator, and computes."""

import json
import os
import random
import secrets


def drawn():
    """A number of each generator: of the system, of libraries, and of new ones."""
    import numpy as np
    from sklearn.ensemble._hist_gradient_boosting.grower import TreeGrower

    from memberbound.release.randomness import SecureSource

    made = next(x for x in TreeGrower.__init__.__defaults__ if hasattr(x, "bit_generator"))
    of_numpy = np.random.random()  # noqa: NPY002  # the one that everybody shares
    kept = [random.random(), of_numpy, float(made.random())]
    new = float(np.random.default_rng().random())
    return [SecureSource().words(2).tolist(), secrets.randbits(60), *kept, new]


def computed():
    """Linear algebra, a learner, Arrow and the engine, in a child with several threads."""
    import duckdb
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_info

    x = np.arange(250000.0).reshape(500, 500) % 7
    blas = [i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"]
    product = float((x @ x).sum()) == float((x.sum(0) * x.sum(1)).sum())
    y = x[:, 0] > 3
    fitted = HistGradientBoostingClassifier(max_iter=2).fit(x, y).score(x, y)
    summed = pc.sum(pa.chunked_array([pa.array(range(1000))] * 50)).as_py()
    select = "SELECT count(DISTINCT i % 1000) FROM range(1000000) t(i)"
    ((counted,),) = duckdb.sql(select).fetchall()
    return [blas, product, fitted, summed, counted]


def main(stream, computes):
    from memberbound.faces.web.preload import _QUIET

    answer = computed() if computes else drawn()
    quiet = [os.environ.get(name) for name in _QUIET]
    stream.sendall(json.dumps([answer, quiet, os.getppid()]).encode() + b"\n")
    stream.recv(1)
