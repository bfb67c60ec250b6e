"""The child process that answers short questions, one after the other.

Extreme parameters can make a short question long or large, so these are answered apart from the
server too, in a process with limits that is replaced when one of them takes too long.  One line of
JSON says that it is ready; then one line in, ``{"verb", "options"}``, gives one line out,
``{"answer"}`` or ``{"error"}``.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import warnings
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from memberbound.curve import TradeoffCurve
from memberbound.declarations import Keywords
from memberbound.errors import MemberboundError
from memberbound.faces.web.work import limited
from memberbound.verbs.explain import Explanation, explain

__all__ = ["ANSWERS", "ceiling_points", "explained", "main", "roc"]

#: Points of a drawn curve: evenly, and evenly on a logarithmic scale.
_EVEN, _LOGARITHMIC, _LEAST = 201, 301, 1e-6
#: Corners of a piecewise-linear ceiling are drawn exactly, as long as they are few.
_CORNERS = 200


def explained(options: Keywords) -> dict[str, object]:
    """Return the dictionary of ``explain``."""
    return _explanation(json.dumps(options, sort_keys=True)).to_dict()


def roc(options: Keywords) -> dict[str, object]:
    """Return the certified ceiling of the ROC at many FPRs, from above.

    Corners of the ceiling are among the points; between points the ceiling may lie a hair above
    the line that a plot draws.
    """
    explanation = _explanation(json.dumps(options, sort_keys=True))
    guarantee = explanation.guarantee
    found = ceiling_points(guarantee.curve)
    replaced = None
    if explanation.adjacency != "replace-one":
        fpr = np.array(found["fpr"])
        replaced = np.minimum(guarantee.replaced().curve.roc(fpr), 1.0).tolist()
    return {**found, "adjacency": explanation.adjacency, "tpr_replace_one": replaced}


def _explanation_chart(asked: Keywords) -> dict[str, object]:
    """Return the certified ceiling of the ROC as a chart."""
    from memberbound.report.charts import explanation_chart

    explanation = _explanation(json.dumps(asked["options"], sort_keys=True))
    return explanation_chart(explanation).to_dict(asked["scale"])


def ceiling_points(curve: TradeoffCurve) -> dict[str, list[float]]:
    """Return the points of a drawn ceiling."""
    even = np.linspace(0.0, 1.0, _EVEN)
    grid = np.append(even[even >= _LEAST], np.geomspace(_LEAST, 1.0, _LOGARITHMIC))
    vertices = getattr(curve, "vertices", None)
    if vertices is not None:
        corners = vertices[0][(vertices[0] >= _LEAST) & (vertices[0] <= 1.0)]
        grid = np.append(grid, corners if corners.size <= _CORNERS else [])
    fpr = np.unique(np.clip(grid, _LEAST, 1.0))
    return {"fpr": fpr.tolist(), "tpr": np.minimum(curve.roc(fpr), 1.0).tolist()}


def _report(options: Keywords) -> dict[str, object]:
    """Return a ``report.json`` from somewhere as a page whose own script is the only one that runs.

    The word that marks the script is drawn here, so that nothing in the report can know it.
    """
    from memberbound.report.charts import sandwich_chart
    from memberbound.report.model import checked
    from memberbound.report.page import render

    nonce, report = secrets.token_urlsafe(16), checked(options)
    chart = sandwich_chart(report, "worst") or sandwich_chart(report, "average")
    return {
        "page": render(report, nonce),
        "scripts": f"'nonce-{nonce}'",
        "chart": None if chart is None else chart.to_dict(),
    }


@lru_cache(maxsize=64)
def _explanation(key: str) -> Explanation:
    """The page asks for numbers and curve of one setting; both come from one explanation."""
    return explain(**json.loads(key))


ANSWERS: dict[str, Callable[[Keywords], dict[str, object]]] = {
    "explain": explained,
    "explain chart": _explanation_chart,
    "report": _report,
    "roc": roc,
}


def answered(line: str) -> dict[str, object]:
    """Return the answer to one line, or the sentence that refuses it."""
    request = json.loads(line)
    try:
        return {"answer": ANSWERS[request["verb"]](request["options"])}
    except MemberboundError as problem:
        return {"error": " ".join(str(problem).split())}
    except (MemoryError, RecursionError):
        return {"error": "the question must need less memory; choose less extreme values."}
    except (ArithmeticError, ValueError) as problem:
        # Values at the edge of double precision; the verbs name those they know of.
        return {"error": f"the values must be less extreme ({type(problem).__name__})."}


def main(stream: socket.socket, memory: int) -> None:
    """Answer lines until the stream ends."""
    limited(memory, 0)
    channel = stream.makefile("rw", encoding="utf-8")
    warnings.simplefilter("ignore")
    channel.write('{"ready": true}\n')
    channel.flush()
    for line in iter(channel.readline, ""):
        channel.write(json.dumps(answered(line), allow_nan=False) + "\n")
        channel.flush()
    os._exit(0)
