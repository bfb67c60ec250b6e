"""Learners whose process is killed in the k-th fit that workers do.

``DYING`` names a folder in which fits are counted, ``DYING_AT`` is k, and ``DYING_PARENT`` started
the process that starts the workers, which does not die.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier


def _fitting() -> None:
    if os.getppid() == int(os.environ["DYING_PARENT"]):
        return
    number = 1
    while True:
        try:
            (Path(os.environ["DYING"]) / str(number)).touch(exist_ok=False)
            break
        except FileExistsError:
            number += 1
    if number == int(os.environ["DYING_AT"]):
        os.kill(os.getpid(), signal.SIGKILL)


def everywhere() -> None:
    """Let the learners of scikit-learn die; called where a process begins (sitecustomize)."""
    for kind in (DecisionTreeClassifier, LogisticRegression):

        def fit(self, *given, real=kind.fit, **named):
            _fitting()
            return real(self, *given, **named)

        kind.fit = fit
